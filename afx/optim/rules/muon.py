"""Matrix steps: Muon's orthogonal directions, and those of limited-memory BFGS."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

from afx import pytree
from afx.core import Array, ArrayLike, Shown, integer
from afx.errors import ArgumentError, ShapeError
from afx.ops import concat, matmul, matrix_transpose, subtract, vector_norm, where
from afx.optim import hyperparameters
from afx.optim.hyperparameters import LearningRate, check_numbers, count_zero, is_within
from afx.optim.rules.adam import adamw
from afx.optim.solvers.descend import Lbfgs, Pairs
from afx.optim.step import Mask, as_real, average, check_kind, map_trained, zeros_of
from afx.optim.transforms import Descent, descent
from afx.optim.wrappers.masking import Partition, partition
from afx.pytree import Leaf

__all__ = ["LbfgsState", "MuonState", "lbfgs", "muon", "scale_by_muon"]

# --- Muon: steps of matrices along the nearest orthogonal matrix to their momentum

T = TypeVar("T")

QUINTIC = (3.4445, -4.7750, 2.0315)  # Jordan et al. 2024: the fastest growth at 0 that stays near 1 elsewhere


@attrs.frozen
class MuonState(Shown, Generic[T]):
    """The state of `scale_by_muon`.

    Attributes:
        count: the number of steps taken.
        mu: the moving average of the gradients.
    """

    count: Array
    mu: T


@attrs.frozen(kw_only=True)
class ScaleByMuon(Shown):
    """Muon's transformation of gradients, for matrices float[in, out] alone.

    Arguments and errors are those of `muon`.

    >>> import afx
    >>> rule = scale_by_muon()
    >>> g = afx.asarray([[3.0, 0.0], [0.0, 0.1]])
    >>> rule.update(g, rule.init(g), g)[0].round(2)
    Array([[0.7 , 0.  ],
           [0.  , 1.13]], dtype=float32)
    """

    beta: float = hyperparameters.fraction_field(0.95)
    eps: float = hyperparameters.positive_field(1e-8)
    nesterov: bool = True
    coefficients: tuple[float, float, float] = QUINTIC
    iterations: int = 5
    consistent_rms: float | None = attrs.field(default=None, validator=hyperparameters.check_positive_or_none)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.coefficients, tuple) or len(self.coefficients) != 3:  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
            raise ArgumentError(f"muon: coefficients are three numbers: got {self.coefficients!r}; give a tuple")
        a, b, c = self.coefficients
        check_numbers("muon", iterations=self.iterations, a=a, b=b, c=c)
        if not is_within(self.iterations, lambda n: n >= 1):
            raise ArgumentError(f"muon: the number of iterations is 1 or more: got {self.iterations}; 5 is usual")

    def init(self, params: T) -> MuonState[T]:
        """Return the state before the first step."""
        return MuonState(count_zero(), zeros_of(params, "muon"))

    def update(
        self, grads: T, state: MuonState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, MuonState[T]]:
        """Return orthogonal matrices, and the next state."""
        check_kind(state, MuonState, "muon")
        count, mu = state.count + 1, average(state.mu, grads, self.beta)
        if self.nesterov:
            next_weight, weight = self.beta / (1 - self.beta ** (count + 1)), (1 - self.beta) / (1 - self.beta**count)
            mean = map_trained(lambda m, g: as_real(next_weight, m) * m + as_real(weight, m) * g, mu, grads)
        else:
            correction = 1 / (1 - self.beta**count)
            mean = map_trained(lambda m: as_real(correction, m) * m, mu)
        return map_trained(self._orthogonal, mean), MuonState(count, mu)

    def _orthogonal(self, x: Array) -> Array:
        """Return about the nearest orthogonal matrix, by Newton-Schulz iterations of odd polynomials."""
        if x.ndim != 2:
            raise ShapeError(f"muon: only matrices are made orthogonal: got {x.aval}; train other arrays with adamw")
        if not x.size:
            return x
        rows, columns = x.shape
        z = matrix_transpose(x) if rows > columns else x
        z = z / (vector_norm(z) + as_real(self.eps, z))
        a, b, c = [as_real(k, z) for k in self.coefficients]
        for _ in range(self.iterations):
            gram = matmul(z, matrix_transpose(z).conj())
            z = a * z + matmul(b * gram + c * matmul(gram, gram), z)
        z = matrix_transpose(z) if rows > columns else z
        if self.consistent_rms is None:
            return z * math.sqrt(max(1.0, columns / rows))
        return z * (as_real(self.consistent_rms, z) * math.sqrt(max(rows, columns)))


def muon(
    learning_rate: LearningRate = 2e-2,
    *,
    beta: float = 0.95,
    eps: float = 1e-8,
    nesterov: bool = True,
    coefficients: tuple[float, float, float] = QUINTIC,
    iterations: int = 5,
    consistent_rms: float | None = None,
    weight_decay: float = 0.0,
    mask: Mask = True,
    adam_learning_rate: LearningRate | None = None,
    adam_b1: float = 0.9,
    adam_b2: float = 0.999,
    adam_weight_decay: float = 0.0,
) -> Partition:
    """Return Muon for matrices, and Adam with Nesterov's momentum for all other arrays.

    The momentum of a matrix float[in, out] is brought near to the nearest orthogonal matrix, so that all directions
    move alike. Five Newton-Schulz iterations z = a·z + (b·zzᵀ + c·(zzᵀ)²)·z do it. The result is multiplied by
    √max(1, out / in). The state is
    ``states["muon"]`` and ``states["adam"]``.

    Source: Jordan et al. 2024 (Muon: an optimizer for hidden layers), as in Optax. torch iterates in bfloat16, and does not
    correct the momentum for its start.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        beta: decay of the average gradient, from 0 up to 1.
        eps: added to the norm of the momentum, above 0.
        nesterov: looks one step of the average ahead.
        coefficients: a, b and c of the iterations.
        iterations: how many.
        consistent_rms: multiplies by this and √max(in, out) in place of √max(1, out / in); at 0.2 steps have about the
            size of Adam's.
        weight_decay: the strength of the decoupled decay of matrices, 0 or more.
        mask: which matrices decay, as in `adamw`.
        adam_learning_rate: of the other arrays; ``learning_rate`` by default.
        adam_b1: decay of their average gradient.
        adam_b2: decay of their average square.
        adam_weight_decay: the strength of their decay.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = muon(0.1)
    >>> params = {"w": afx.eye(2), "b": afx.zeros(2)}
    >>> after, _ = optimizer.step(params, {"w": afx.eye(2), "b": afx.ones(2)}, optimizer.init(params))
    >>> after["w"].round(2)
    Array([[0.89, 0.  ],
           [0.  , 0.89]], dtype=float32)
    """
    rule = scale_by_muon(
        beta=beta, eps=eps, nesterov=nesterov,
        coefficients=coefficients, iterations=iterations, consistent_rms=consistent_rms,
    )  # fmt: skip
    rate = learning_rate if adam_learning_rate is None else adam_learning_rate
    by_adam = adamw(rate, b1=adam_b1, b2=adam_b2, eps=eps, weight_decay=adam_weight_decay, nesterov=nesterov)
    return partition({"muon": descent(rule, learning_rate, "muon", weight_decay, mask), "adam": by_adam}, _Label())


@attrs.frozen
class _Label:
    """Says which leaves are matrices."""

    def __call__(self, path: str, leaf: Leaf) -> str:
        return "muon" if getattr(leaf, "ndim", 0) == 2 else "adam"


# --- Limited-memory BFGS as a step: the directions of `minimize`, at a learning rate in place of a line search


@attrs.frozen
class LbfgsState(Shown, Generic[T]):
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
        if state.pairs.rows.shape[2:] != g.shape:
            raise ShapeError(
                f"step: the state is of other parameters: got {state.pairs.rows.aval} for {g.aval}; call init"
            )
        known = state.count > 0  # else there was no step yet
        s, y = [where(known, _vector(tree)[0], 0.0) for tree in (step, change)]
        pairs = rule.forget(rule.learn(state.pairs, s, y, g), ~known)
        direction, _ = rule.propose(pairs, g, g, None)
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
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
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


# --- Names of functions, which users write, for the classes

scale_by_muon = ScaleByMuon
