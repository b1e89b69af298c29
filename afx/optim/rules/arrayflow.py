"""Arrayflow: the paper's optimizer, with inertia and a step size tuned by the course of the loss."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.dtypes import bool_, float64
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops.creation.creation import asarray, ones, zeros
from afx.ops.elementwise.where import where
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import broadcast_to, reshape
from afx.ops.manipulation.split import unstack
from afx.ops.reductions.sums import mean
from afx.optim.hyperparameters import check_numbers, count_zero, is_within, positive
from afx.optim.leaves import as_real, map_trained, times, zeros_of
from afx.optim.step import apply_rule, check_kind

__all__ = ["Arrayflow", "ArrayflowState", "arrayflow"]

T = TypeVar("T")

GROW, SHRINK = 1.02, 0.99
AVERAGES = 4


@attrs.frozen
class ArrayflowState(Generic[T]):
    """The state of the paper's optimizer.

    Attributes:
        count: the number of steps taken.
        direction: the moving average of the gradients, g.
        losses: float64[window], the last losses, the newest at the end.
        averages: float64[4], the last moving averages of the loss.
        growing: whether the step size may still grow: the averaged loss has never risen yet.
        learning_rate: the step size, s.
    """

    count: Array
    direction: T
    losses: Array
    averages: Array
    growing: Array
    learning_rate: Array


@attrs.frozen
class Arrayflow:
    """The paper's optimizer; made by `arrayflow`, which says what the attributes are."""

    initial_step: float = 1e-5
    beta: float = 0.05
    window: int = 10

    def __attrs_post_init__(self) -> None:
        positive("initial_step", self.initial_step, "arrayflow")
        check_numbers("arrayflow", beta=self.beta, window=self.window)
        if not is_within(self.beta, lambda b: 0 < b <= 1):
            raise ArgumentError(f"arrayflow: beta is above 0, up to 1: got {self.beta}; take one such as 0.05")
        if not is_within(self.window, lambda n: n >= 1):
            raise ArgumentError(f"arrayflow: the window is a number of losses: got {self.window}; give 1 or more")

    def init(self, params: T) -> ArrayflowState[T]:
        """Return the state before the first step."""
        losses, averages = zeros(self.window, float64), zeros(AVERAGES, float64)
        size = asarray(self.initial_step, float64)
        return ArrayflowState(count_zero(), zeros_of(params, "arrayflow"), losses, averages, ones((), bool_), size)

    def descend(
        self, grads: T, state: ArrayflowState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, ArrayflowState[T]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, ArrayflowState, "arrayflow")
        losses, averages = self._record(state, _loss(value))
        early, middle, late = unstack(averages[1:] - averages[:-1])
        # c1·l and c2·l of the paper, in differences of neighbours: equal averages then give exactly 0
        first = 11 / 6 * late - 7 / 6 * middle + 1 / 3 * early
        second = 2 * late - 3 * middle + early
        rising = (first > 0) & (second > 0)
        grown = where(state.growing & (first < 0), GROW * state.learning_rate, state.learning_rate)
        size = where(rising, SHRINK * state.learning_rate, grown)
        direction = map_trained(
            lambda d, g: as_real(self.beta, d) * g + as_real(1 - self.beta, d) * d, state.direction, grads
        )
        updates = times(direction, -size)
        growing = state.growing & ~rising
        return updates, ArrayflowState(state.count + 1, direction, losses, averages, growing, size)

    def _record(self, state: ArrayflowState[T], loss: Array) -> tuple[Array, Array]:
        """Return the queues of losses and averages with this loss at the end; the first one fills them."""
        start = state.count == 0
        losses = where(start, broadcast_to(loss, (self.window,)), concat([state.losses[1:], reshape(loss, (1,))]))
        average = mean(losses)
        pushed = concat([state.averages[1:], reshape(average, (1,))])
        return losses, where(start, broadcast_to(average, (AVERAGES,)), pushed)

    def step(
        self, params: T, grads: T, state: ArrayflowState[T], *, value: ArrayLike | None = None
    ) -> tuple[T, ArrayflowState[T]]:
        """Return the next parameters and state; ``value`` is the loss at ``params``, which the heuristic needs."""
        return apply_rule(self.descend, params, grads, state, value)


def _loss(value: ArrayLike | None) -> Array:
    if value is None:
        raise ArgumentError("arrayflow: the step size follows the loss: got no value; call step(..., value=loss)")
    aval = aval_of(value, "arrayflow: value")
    if aval.shape != ():
        raise ShapeError(f"arrayflow: the loss is a scalar: got value={aval}; pass the loss that was differentiated")
    if aval.dtype.kind == "c":
        raise DtypeError(f"arrayflow: the loss is a real number: got value={aval}; pass its real part")
    return asarray(value).astype(float64)


def arrayflow(initial_step: float = 1e-5, *, beta: float = 0.05, window: int = 10) -> Arrayflow:
    """Return the optimizer of the ArrayFlow paper, which tunes its own step size.

    The direction is g = beta·∇l + (1 - beta)·g, from g = 0, and the step is -s·g. Of the moving average of the loss over
    ``window`` steps, backward differences over its last four values give the first derivative d1 and the second d2. s
    grows by 2 % a step while d1 < 0, and shrinks by 1 % whenever d1 > 0 and d2 > 0; once that has happened, s never grows
    again. The queues start filled with the first loss.

    Source: the paper's section 5, algorithm 1, whose line 26 prints the averaged gradient as if it were x, and whose
    queue of losses fills up in its first steps. The original program starts with full queues, as this does, and differs
    twice: it lets s grow while d2 < 0, and it starts g with the first gradient.

    Args:
        initial_step: the first step size, s₀.
        beta: the weight of the new gradient, from above 0 to 1.
        window: how many losses are averaged.

    Raises:
        ArgumentError: an argument out of its range; a step without ``value=``.

    >>> import afx
    >>> optimizer = arrayflow(0.1)
    >>> params, state = optimizer.step(afx.ones(1), afx.ones(1), optimizer.init(afx.ones(1)), value=1.0)
    >>> params
    Array([0.995], dtype=float32)
    """
    return Arrayflow(initial_step, beta, window)
