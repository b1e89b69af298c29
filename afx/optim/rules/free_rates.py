"""Self-tuned rates: optimizers that find their step size, or need no schedule of it."""

from __future__ import annotations

from functools import reduce
from typing import Any, ClassVar, Generic, TypeVar

import attrs

from afx import pytree
from afx.core import Array, ArrayLike, Shown, aval_of, bool_, float64
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops import abs as abs_, asarray, concat, maximum, mean, ones, sum as sum_, unstack, where, zeros
from afx.ops.manipulation.shape import broadcast_to, reshape
from afx.optim import hyperparameters
from afx.optim.hyperparameters import (
    LearningRate,
    check_numbers,
    count_zero,
    first_rate,
    is_within,
    next_rate,
    positive,
    rate_at,
)
from afx.optim.rules.adagrad import RmsState, scale_by_rms
from afx.optim.schedules import linear
from afx.optim.step import (
    EmptyState,
    Mask,
    Optimizer,
    Steps,
    apply_rule,
    as_real,
    average_square,
    check_kind,
    check_params,
    compute_params,
    is_trained,
    map_trained,
    safe_sqrt,
    times,
    zeros_of,
)
from afx.optim.transforms import DescentState, check_optimizer, decay_weights, descent, scale

__all__ = [
    "Arrayflow",
    "ArrayflowState",
    "Prodigy",
    "ProdigyState",
    "ScheduleFree",
    "ScheduleFreeState",
    "arrayflow",
    "prodigy",
    "schedule_free",
    "schedule_free_adamw",
    "schedule_free_sgd",
]

# --- Arrayflow: the paper's optimizer, with inertia and a step size tuned by the course of the loss

T = TypeVar("T")

GROW, SHRINK = 1.02, 0.99
AVERAGES = 4


@attrs.frozen
class ArrayflowState(Shown, Generic[T]):
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
class Arrayflow(Shown):
    """The optimizer of the ArrayFlow paper, which tunes its own step size.

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

    initial_step: float = 1e-5
    beta: float = attrs.field(default=0.05, kw_only=True)
    window: int = attrs.field(default=10, kw_only=True)

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


# --- Prodigy: Adam that finds its learning rate from how far it has gone


@attrs.frozen
class ProdigyState(Shown, Generic[T]):
    """The state of Prodigy.

    Attributes:
        count: the number of steps taken.
        distance: the estimate of the distance from the start to the solution, which never falls.
        gain: the average of how much gradients point away from the start.
        start: the first parameters.
        mu: the moving average of the gradients, times the distance.
        nu: that of their squares, times its square.
        slope: that of the gradients, times its square.
        learning_rate: the factor of the last step.
    """

    count: Array
    distance: Array
    gain: Array
    start: T
    mu: T
    nu: T
    slope: T
    learning_rate: Array


@attrs.frozen
class Prodigy(Steps[ProdigyState[Any]]):
    """Prodigy: Adam whose learning rate is the distance to the solution, as far as gradients tell it.

    Source: Mishchenko & Defazio 2024, Algorithm 4. Optax's corrects for the start of the averages as well, torch's on
    request.

    Args:
        learning_rate: a factor, or a schedule of factors such as a cosine decay; 1 is the paper's.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1; the distance is averaged by its root.
        eps: added to the root, above 0, times the distance.
        distance: the first estimate, above 0 and far below the distance.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer, x = prodigy(), afx.asarray([5.0])
    >>> state = optimizer.init(x)
    >>> for _ in range(200):
    ...     x, state = optimizer.step(x, 2 * x, state)
    >>> bool(afx.abs(x[0]) < 0.1)
    True
    """

    learning_rate: LearningRate = attrs.field(default=1.0, validator=hyperparameters.check_positive)
    b1: float = attrs.field(default=0.9, kw_only=True, validator=hyperparameters.check_fraction)
    b2: float = attrs.field(default=0.999, kw_only=True, validator=hyperparameters.check_fraction)
    eps: float = attrs.field(default=1e-8, kw_only=True, validator=hyperparameters.check_positive)
    distance: float = attrs.field(default=1e-6, kw_only=True, validator=hyperparameters.check_positive)
    weight_decay: float = attrs.field(default=0.0, kw_only=True, validator=hyperparameters.check_not_negative)
    mask: Mask = attrs.field(default=True, kw_only=True)

    def init(self, params: Any) -> ProdigyState[Any]:
        """Return the state before the first step."""
        mu, nu = zeros_of(params, "prodigy"), zeros_of(params, "prodigy", real=True)
        start, rate = compute_params(params), first_rate(self.learning_rate)
        return ProdigyState(
            count_zero(), rate_at(self.distance, count_zero()), zeros((), float64), start, mu, nu, mu, rate
        )

    def descend(
        self, grads: T, state: ProdigyState[Any], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, ProdigyState[Any]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, ProdigyState, "prodigy")
        rate, d, keep = next_rate(self.learning_rate, state), state.distance, self.b2**0.5
        part = (1 - keep) * rate * d * d
        progress = map_trained(lambda g, x0, x: sum_((g.conj() * (x0 - x)).real), grads, state.start, params)
        gain = keep * state.gain + part * _total(progress)
        slope = map_trained(lambda s, g: as_real(keep, s) * s + as_real(part, s) * g, state.slope, grads)
        mu = map_trained(lambda m, g: as_real(self.b1, m) * m + as_real((1 - self.b1) * d, m) * g, state.mu, grads)
        nu = average_square(state.nu, map_trained(lambda g: as_real(d, g) * g, grads), self.b2)
        size = _total(map_trained(lambda s: sum_(abs_(s)), slope))
        reached = where(size > 0, gain / where(size > 0, size, 1.0), 0.0)

        updates = decay_weights(
            map_trained(lambda m, n: as_real(-rate * d, m) * m / (safe_sqrt(n) + as_real(self.eps * d, n)), mu, nu),
            params,
            -rate * d * self.weight_decay,
            self.mask,
        )
        return updates, ProdigyState(state.count + 1, maximum(d, reached), gain, state.start, mu, nu, slope, rate)


def _total(tree: Any) -> Array:
    """Return the sum of the numbers of a tree, in float64."""
    numbers = [x.astype(float64) for x in pytree.leaves(tree) if is_trained(x)]
    return reduce(lambda x, y: x + y, numbers, zeros((), float64))


# --- Schedule-free training: gradients are taken between an optimizer's iterate and the average of its iterates

S = TypeVar("S")


@attrs.frozen
class ScheduleFreeState(Shown, Generic[S]):
    """The state of schedule-free training.

    Attributes:
        count: the number of steps taken.
        z: the optimizer's own iterate, a tree of the parameters' structure.
        weight_sum: the sum of the weights of all iterates.
        largest_rate: the largest learning rate so far.
        inner: the optimizer's state.
    """

    count: Array
    z: Any
    weight_sum: Array
    largest_rate: Array
    inner: S


@attrs.frozen
class ScheduleFree(Steps[ScheduleFreeState[S]], Generic[S]):
    """Schedule-free training; made by `schedule_free`, which says what the attributes are."""

    who: ClassVar[str] = "schedule_free"
    inner: Optimizer[S]
    learning_rate: LearningRate = attrs.field(validator=hyperparameters.check_positive)
    b1: float = hyperparameters.positive_field(0.9)
    power: float = hyperparameters.nonnegative_field(2.0)

    def init(self, params: Any) -> ScheduleFreeState[S]:
        """Return the state before the first step."""
        check_params(*pytree.flatten(params), "schedule_free")
        zero = count_zero()
        return ScheduleFreeState(zero, compute_params(params), zero, zero, self.inner.init(params))

    def descend(
        self, grads: T, state: ScheduleFreeState[S], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, ScheduleFreeState[S]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, ScheduleFreeState, "schedule_free")
        count = state.count + 1
        largest = maximum(state.largest_rate, rate_at(self.learning_rate, count))
        weight = largest**self.power
        total = state.weight_sum + weight
        share = where(total > 0, weight / where(total > 0, total, 1.0), 0.0)
        moves, inner = self.inner.descend(grads, state.inner, params, value)
        z = map_trained(lambda old, move: old + move, state.z, moves)

        def moved(move: Array, y: Array, old: Array, new: Array) -> Array:
            """Return how far y goes; x is the average of all iterates, and y = b1·x + (1 - b1)·z."""
            b1, part = as_real(self.b1, move), as_real(share, move)
            x = (1 - part) * ((y - (1 - b1) * old) / b1) + part * new
            return b1 * x + (1 - b1) * new - y

        return map_trained(moved, moves, params, state.z, z), ScheduleFreeState(count, z, total, largest, inner)

    def eval_params(self, params: T, state: ScheduleFreeState[S]) -> T:
        """Return the average of all iterates, the parameters to evaluate and to keep."""

        def averaged(y: Array, z: Array) -> Array:
            return ((y - (1 - as_real(self.b1, z)) * z) / as_real(self.b1, z)).astype(y.dtype)

        return map_trained(averaged, params, state.z)


def schedule_free(
    optimizer: Optimizer[S], learning_rate: LearningRate, *, b1: float = 0.9, power: float = 2.0
) -> ScheduleFree[S]:
    """Return an optimizer that needs no schedule: it averages its iterates, and takes gradients near to the average.

    The trained parameters are y = b1·x + (1 - b1)·z. The optimizer moves z; x is the average of all z, weighted by
    (largest learning rate so far)^power. Evaluate with x, from ``optimizer.eval_params(params, state)``. The optimizer has
    no momentum of its own: b1 does its work.

    Source: Defazio et al. 2024 (The road less scheduled), as in Optax.

    Args:
        optimizer: what moves z.
        learning_rate: its learning rate, for the weights.
        b1: how near to the average gradients are taken, above 0 and below 1.
        power: the exponent of the weights, 0 or more.

    Raises:
        ArgumentError: an argument out of its range, or no optimizer.

    >>> import afx
    >>> from afx import optim
    >>> optimizer = schedule_free(optim.sgd(0.5), 0.5)
    >>> state = optimizer.init(afx.ones(1))
    >>> params, state = optimizer.step(afx.ones(1), afx.ones(1), state)
    >>> params, optimizer.eval_params(params, state)
    (Array([0.5], dtype=float32), Array([0.5], dtype=float32))
    """
    check_optimizer(optimizer, "schedule_free")
    return ScheduleFree(optimizer, learning_rate, b1, power)


def schedule_free_sgd(
    learning_rate: LearningRate = 1.0,
    *,
    warmup: int = 0,
    b1: float = 0.9,
    weight_decay: float = 0.0,
    power: float = 2.0,
) -> ScheduleFree[DescentState[EmptyState]]:
    """Return `schedule_free` gradient descent.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        warmup: the number of steps over which a learning rate that is a number rises from 0; 0 for none.
        b1: how near to the average gradients are taken, above 0 and below 1.
        weight_decay: the strength of the decay at the point where gradients are taken, 0 or more.
        power: the exponent of the weights, 0 or more.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = schedule_free_sgd(0.5)
    >>> optimizer.step(afx.ones(1), afx.ones(1), optimizer.init(afx.ones(1)))[0]
    Array([0.5], dtype=float32)
    """
    rate = _warm_up(learning_rate, warmup)
    return schedule_free(descent(scale(1.0), rate, "schedule_free_sgd", weight_decay), rate, b1=b1, power=power)


def schedule_free_adamw(
    learning_rate: LearningRate = 2.5e-3,
    *,
    warmup: int = 0,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    power: float = 2.0,
) -> ScheduleFree[DescentState[RmsState[Any]]]:
    """Return `schedule_free` AdamW: gradients over the root of their corrected mean square.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        warmup: the number of steps over which a learning rate that is a number rises from 0; 0 for none.
        b1: how near to the average gradients are taken, above 0 and below 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        weight_decay: the strength of the decay at the point where gradients are taken, 0 or more.
        power: the exponent of the weights, 0 or more.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = schedule_free_adamw(0.5)
    >>> optimizer.step(afx.ones(1), afx.ones(1), optimizer.init(afx.ones(1)))[0]
    Array([0.5], dtype=float32)
    """
    rate = _warm_up(learning_rate, warmup)
    rule = scale_by_rms(decay=b2, eps=eps, bias_correction=True)
    return schedule_free(descent(rule, rate, "schedule_free_adamw", weight_decay), rate, b1=b1, power=power)


def _warm_up(learning_rate: LearningRate, warmup: int) -> LearningRate:
    """Return the schedule that rises to a number and stays there."""
    check_numbers("schedule_free", warmup=warmup)
    if not warmup:
        return learning_rate
    if not isinstance(learning_rate, (int, float)):
        raise ArgumentError("schedule_free: a warm-up rises to a number: got a schedule; write the warm-up into it")
    return linear(0.0, learning_rate, warmup)


# --- Names of functions, which users write, for the classes

arrayflow = Arrayflow
prodigy = Prodigy
