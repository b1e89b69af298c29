"""Limited-memory BFGS as a step: the directions of `minimize`, at a learning rate in place of a line search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import integer
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.creation import full
from afx.ops.elementwise.arithmetic import subtract
from afx.ops.elementwise.where import where
from afx.ops.manipulation.join import concat
from afx.optim.descent import Descent, descent
from afx.optim.hyperparameters import LearningRate, check_numbers, count_zero
from afx.optim.leaves import map_trained, zeros_of
from afx.optim.solvers.directions import Lbfgs, Pairs
from afx.optim.step import check_kind

__all__ = ["LbfgsState", "lbfgs"]

T = TypeVar("T")


@attrs.frozen
class LbfgsState(Generic[T]):
    """The state of `lbfgs`.

    Attributes:
        count: the number of steps taken.
        params: the last parameters.
        grads: their gradient.
        pairs: the last steps, and how gradients changed along them, all parameters one vector.
    """

    count: Array
    params: T
    grads: T
    pairs: Pairs


@attrs.frozen
class ScaleByLbfgs:
    """The transformation of gradients to directions; made by `lbfgs`."""

    memory: int

    def __attrs_post_init__(self) -> None:
        check_numbers("lbfgs", memory=self.memory)
        if integer(self.memory, "lbfgs", "memory") < 1:
            raise ArgumentError(f"lbfgs: memory is a number of steps: got {self.memory}; give 1 or more")

    def init(self, params: T) -> LbfgsState[T]:
        """Return the state before the first step."""
        zeros = zeros_of(params, "lbfgs")
        return LbfgsState(count_zero(), zeros, zeros, Lbfgs(self.memory).init(_vector(zeros)[0]))

    def update(
        self, grads: T, state: LbfgsState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, LbfgsState[T]]:
        """Return minus the direction, and the next state."""
        check_kind(state, LbfgsState, "lbfgs")
        rule, (g, back) = Lbfgs(self.memory), _vector(grads)
        step = map_trained(subtract, params, state.params)
        change = map_trained(subtract, grads, state.grads)
        if state.pairs.steps.shape[1:] != g.shape:
            raise ShapeError(
                f"step: the state is of other parameters: got {state.pairs.steps.aval} for {g.aval}; call init"
            )
        learned = rule.learn(state.pairs, _vector(step)[0], _vector(change)[0])
        pairs = pytree.map(lambda new, old: where(state.count > 0, new, old), learned, state.pairs)
        direction, _ = rule.propose(pairs, g, g, full(g.shape, True))
        return back(-direction), LbfgsState(state.count + 1, params, grads, pairs)


def _vector(tree: T) -> tuple[Array, Callable[[Array], T]]:
    """Return the trained leaves as one real vector, and the function that makes a tree of such a vector."""
    vector, unravel = pytree.ravel(tree)
    if vector.dtype.kind != "c":
        return vector, unravel
    n = vector.shape[0]
    return concat([vector.real, vector.imag]), lambda v: unravel(v[:n] + 1j * v[n:])


def lbfgs(learning_rate: LearningRate = 1.0, *, memory: int = 10) -> Descent[LbfgsState[Any]]:
    """Return limited-memory BFGS as a step, for loops of one's own: directions by the last changes of the gradient.

    There is no line search, which needs the function: the learning rate takes its place, and a pair without positive
    curvature is left out. `minimize` searches along each direction, and is what to use where the function is at hand.

    Source: Liu & Nocedal 1989; Nocedal & Wright 2006, algorithm 7.4.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        memory: how many steps are remembered, 1 or more.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer, x = lbfgs(), afx.asarray([1.0, -2.0])
    >>> state = optimizer.init(x)
    >>> for _ in range(10):
    ...     x, state = optimizer.step(x, afx.asarray([1.0, 10.0]) * x, state)
    >>> bool(afx.max(afx.abs(x)) < 1e-3)
    True
    """
    return descent(ScaleByLbfgs(memory), learning_rate, "lbfgs")
