"""Gradient descent: plain steps, and steps with momentum."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import attrs

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.dtypes import float64
from afx.errors import ArgumentError
from afx.optim import checks
from afx.optim.hyperparameters import LearningRate, count_zero, first_rate, fraction, is_nonzero, next_rate
from afx.optim.leaves import as_real, check_params, map_trained, times, zeros_of
from afx.optim.step import Steps, apply_rule, check_kind

__all__ = [
    "LearningRateState",
    "ScaleByLearningRate",
    "Sgd",
    "SgdState",
    "TraceState",
    "scale_by_learning_rate",
    "sgd",
    "trace",
]

T = TypeVar("T")


@attrs.frozen
class LearningRateState:
    """The state of `scale_by_learning_rate`.

    Attributes:
        count: the number of steps taken.
        learning_rate: the step size of the last step (of the first one, before it); a new one may be put here, where
            the optimizer was given a number.
    """

    count: Array
    learning_rate: Array


@attrs.frozen
class ScaleByLearningRate(Steps[LearningRateState]):
    """The plainest optimizer; made by `scale_by_learning_rate`."""

    who: ClassVar[str] = "scale_by_learning_rate"
    learning_rate: LearningRate = attrs.field(validator=checks.positive)

    def init(self, params: object) -> LearningRateState:
        """Return the state before the first step."""
        check_params(*pytree.flatten(params), "scale_by_learning_rate")
        return LearningRateState(count_zero(), first_rate(self.learning_rate))

    def descend(
        self, grads: T, state: LearningRateState, params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, LearningRateState]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, LearningRateState, "scale_by_learning_rate")
        rate = next_rate(self.learning_rate, state)
        return times(grads, -rate), LearningRateState(state.count + 1, rate)


def scale_by_learning_rate(learning_rate: LearningRate) -> ScaleByLearningRate:
    """Return the optimizer that steps by ``-learning_rate`` times what it is given: the end of a chain.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.

    Raises:
        ArgumentError: the learning rate is not above 0.

    >>> import afx
    >>> from afx import optim
    >>> optimizer = optim.chain(optim.scale_by_adam(), optim.scale_by_learning_rate(0.5))
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0]
    Array([0.5, 0.5], dtype=float32)
    """
    return ScaleByLearningRate(learning_rate)


# --- momentum


def gather(grads: T, velocity: T, count: Array, decay: float, nesterov: bool, dampening: float) -> tuple[T, T]:
    """Return the direction of momentum, and the next velocity."""
    if is_nonzero(dampening):
        first = (count == 0).astype(float64)  # the first gradient is not dampened
        kept, taken = (1 - first) * decay, first + (1 - first) * (1 - dampening)
        velocity = map_trained(lambda v, g: as_real(kept, v) * v + as_real(taken, v) * g, velocity, grads)
    else:
        velocity = map_trained(lambda v, g: as_real(decay, v) * v + g, velocity, grads)
    direction = map_trained(lambda v, g: as_real(decay, v) * v + g, velocity, grads) if nesterov else velocity
    return direction, velocity


def check_momentum(decay: float, nesterov: bool, dampening: float, who: str) -> None:
    """Raise where a setting of momentum is out of its range."""
    fraction("momentum", decay, who)
    fraction("dampening", dampening, who)
    if nesterov and not is_nonzero(decay):
        raise ArgumentError(f"{who}: nesterov=True looks along the momentum: got momentum=0; give one, 0.9 as a rule")
    if nesterov and is_nonzero(dampening):
        raise ArgumentError(f"{who}: nesterov=True needs whole gradients: got dampening={dampening}; leave one out")
    if is_nonzero(dampening) and not is_nonzero(decay):
        raise ArgumentError(f"{who}: dampening belongs to momentum: got momentum=0; give one, 0.9 as a rule")


@attrs.frozen
class TraceState(Generic[T]):
    """The state of `trace`.

    Attributes:
        count: the number of steps taken.
        velocity: the sum of past gradients.
    """

    count: Array
    velocity: T


@attrs.frozen
class Trace:
    """Momentum as a transformation; made by `trace`."""

    momentum: float
    nesterov: bool = False
    dampening: float = 0.0

    def __attrs_post_init__(self) -> None:
        check_momentum(self.momentum, self.nesterov, self.dampening, "trace")

    def init(self, params: T) -> TraceState[T]:
        """Return the state before the first step."""
        return TraceState(count_zero(), zeros_of(params, "trace"))

    def update(
        self, grads: T, state: TraceState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, TraceState[T]]:
        """Return the gathered gradients, and the next state."""
        check_kind(state, TraceState, "trace")
        direction, velocity = gather(grads, state.velocity, state.count, self.momentum, self.nesterov, self.dampening)
        return direction, TraceState(state.count + 1, velocity)


def trace(momentum: float, *, nesterov: bool = False, dampening: float = 0.0) -> Trace:
    """Return the transformation that gathers gradients, v = momentum·v + (1 - dampening)·g, as `sgd` with momentum does.

    Args:
        momentum: how much of v is kept, above 0 and below 1.
        nesterov: looks one step of momentum ahead.
        dampening: how much of each gradient but the first is left out, as in torch; Optax has none.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> rule = trace(0.5)
    >>> _, state = rule.update(afx.ones(1), rule.init(afx.ones(1)), afx.ones(1))
    >>> rule.update(afx.ones(1), state, afx.ones(1))[0]
    Array([1.5], dtype=float32)
    """
    return Trace(momentum, nesterov, dampening)


@attrs.frozen
class SgdState(Generic[T]):
    """The state of gradient descent.

    Attributes:
        count: the number of steps taken.
        velocity: the sum of past gradients that momentum keeps; None without momentum.
        learning_rate: the step size of the last step (of the first one, before it); a new one may be put here, where
            the optimizer was given a number.
    """

    count: Array
    velocity: T | None
    learning_rate: Array


@attrs.frozen
class Sgd:
    """Gradient descent; made by `sgd`, which says what the attributes are."""

    learning_rate: LearningRate = attrs.field(validator=checks.positive)
    momentum: float = 0.0
    nesterov: bool = False
    dampening: float = 0.0

    def __attrs_post_init__(self) -> None:
        check_momentum(self.momentum, self.nesterov, self.dampening, "sgd")

    def init(self, params: T) -> SgdState[T]:
        """Return the state before the first step."""
        check_params(*pytree.flatten(params), "sgd")
        velocity = zeros_of(params, "sgd") if is_nonzero(self.momentum) else None
        return SgdState(count_zero(), velocity, first_rate(self.learning_rate))

    def descend(
        self, grads: T, state: SgdState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, SgdState[T]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, SgdState, "sgd")
        rate = next_rate(self.learning_rate, state)
        direction, velocity = grads, state.velocity
        if velocity is not None:
            direction, velocity = gather(grads, velocity, state.count, self.momentum, self.nesterov, self.dampening)
        return times(direction, -rate), SgdState(state.count + 1, velocity, rate)

    def step(self, params: T, grads: T, state: SgdState[T], *, value: ArrayLike | None = None) -> tuple[T, SgdState[T]]:
        """Return the next parameters and state; ``value`` is not needed."""
        return apply_rule(self.descend, params, grads, state, value)


def sgd(learning_rate: LearningRate, *, momentum: float = 0.0, nesterov: bool = False, dampening: float = 0.0) -> Sgd:
    """Return gradient descent: the step is ``-learning_rate · v``, where v is the gradient or gathers momentum.

    Without momentum v = g; with it v = momentum·v + (1 - dampening)·g, where the first gradient is taken whole.
    Nesterov's form steps along momentum·v + g in place of v.

    Source: Polyak 1964; Nesterov 1983 as rewritten by Sutskever et al. 2013, who gather learning_rate·g: that differs
    where the learning rate changes. torch and Optax do as afx does; Optax has no dampening.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        momentum: how much of v is kept, from 0 up to 1.
        nesterov: looks one step of momentum ahead.
        dampening: how much of each gradient but the first is left out.

    Raises:
        ArgumentError: momentum outside [0, 1), Nesterov's form without momentum or with dampening, dampening without
            momentum, or no positive learning rate.

    >>> import afx
    >>> optimizer = sgd(0.5)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0]
    Array([0.5, 0.5], dtype=float32)
    """
    return Sgd(learning_rate, momentum, nesterov, dampening)
