"""RMSProp: gradients over the root of their mean square."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.where import maximum
from afx.optim import checks
from afx.optim.hyperparameters import LearningRate, count_zero, first_rate, is_nonzero, next_rate
from afx.optim.leaves import as_real, average, average_square, map_trained, safe_sqrt, square, times, zeros_of
from afx.optim.step import apply_rule, check_kind

__all__ = ["RmsState", "Rmsprop", "RmspropState", "ScaleByRms", "rmsprop", "scale_by_rms"]

T = TypeVar("T")


@attrs.frozen
class RmsState(Generic[T]):
    """The state of `scale_by_rms`.

    Attributes:
        count: the number of steps taken.
        nu: the moving average of the squared gradients, real for complex parameters too.
        mean: the moving average of the gradients, where centred; else None.
    """

    count: Array
    nu: T
    mean: T | None


@attrs.frozen
class ScaleByRms:
    """RMSProp's transformation; made by `scale_by_rms`."""

    who: ClassVar[str] = "scale_by_rms"
    decay: float = attrs.field(default=0.99, validator=checks.fraction)
    eps: float = attrs.field(default=1e-8, validator=checks.positive)
    centered: bool = False
    eps_in_root: bool = False
    bias_correction: bool = False

    def init(self, params: T) -> RmsState[T]:
        """Return the state before the first step."""
        return _start(params, self.centered)

    def update(
        self, grads: T, state: RmsState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, RmsState[T]]:
        """Return the scaled gradients, and the next state."""
        check_kind(state, RmsState, "scale_by_rms")
        return _scale(self, grads, state, self.bias_correction)


def _start(params: T, centered: bool) -> RmsState[T]:
    mean = zeros_of(params, "rmsprop") if centered else None
    return RmsState(count_zero(), zeros_of(params, "rmsprop", real=True), mean)


def _scale(rule: ScaleByRms | Rmsprop, grads: T, state: RmsState[T], corrects: bool) -> tuple[T, RmsState[T]]:
    """Return gradients over the root of their mean square, and the next state."""
    count, nu, mean = state.count + 1, average_square(state.nu, grads, rule.decay), None
    correction = 1 / (1 - rule.decay**count) if corrects else 1.0
    moment = times(nu, correction) if corrects else nu
    if state.mean is not None:
        mean = average(state.mean, grads, rule.decay)

        def variance(n: Array, m: Array) -> Array:  # rounding may bring it below 0
            return maximum(n - square(as_real(correction, m) * m), 0.0)

        moment = map_trained(variance, moment, mean)

    def divide(g: Array, n: Array) -> Array:
        eps = as_real(rule.eps, n)
        return g / (sqrt(n + eps) if rule.eps_in_root else safe_sqrt(n) + eps)

    return map_trained(divide, grads, moment), RmsState(count, nu, mean)


def scale_by_rms(
    *,
    decay: float = 0.99,
    eps: float = 1e-8,
    centered: bool = False,
    eps_in_root: bool = False,
    bias_correction: bool = False,
) -> ScaleByRms:
    """Return RMSProp's transformation of gradients, g / (√v + eps): what `rmsprop` multiplies by its learning rate.

    Args:
        decay: of the averages, from 0 up to 1.
        eps: added to the root, above 0.
        centered: divides by the standard deviation in place of the root mean square; Optax's ``scale_by_stddev``.
        eps_in_root: adds eps inside of the root, as Optax does by default.
        bias_correction: corrects the averages for their start at 0, as Adam does.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> rule = scale_by_rms(decay=0.75)
    >>> rule.update(afx.ones(1), rule.init(afx.ones(1)), afx.ones(1))[0]
    Array([2.], dtype=float32)
    """
    return ScaleByRms(decay, eps, centered, eps_in_root, bias_correction)


@attrs.frozen
class RmspropState(Generic[T]):
    """The state of RMSProp.

    Attributes:
        count: the number of steps taken.
        nu: the moving average of the squared gradients, real for complex parameters too.
        mean: the moving average of the gradients, where centred; else None.
        velocity: the momentum, or None without it.
        learning_rate: the step size of the last step (of the first one, before it); a new one may be put here, where
            the optimizer was given a number.
    """

    count: Array
    nu: T
    mean: T | None
    velocity: T | None
    learning_rate: Array


@attrs.frozen
class Rmsprop:
    """RMSProp; made by `rmsprop`, which says what the attributes are."""

    learning_rate: LearningRate = attrs.field(validator=checks.positive)
    decay: float = attrs.field(default=0.99, validator=checks.fraction)
    eps: float = attrs.field(default=1e-8, validator=checks.positive)
    momentum: float = attrs.field(default=0.0, validator=checks.fraction)
    centered: bool = False
    eps_in_root: bool = False

    def init(self, params: T) -> RmspropState[T]:
        """Return the state before the first step."""
        inner = _start(params, self.centered)
        velocity = zeros_of(params, "rmsprop") if is_nonzero(self.momentum) else None
        return RmspropState(inner.count, inner.nu, inner.mean, velocity, first_rate(self.learning_rate))

    def descend(
        self, grads: T, state: RmspropState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, RmspropState[T]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, RmspropState, "rmsprop")
        rate = next_rate(self.learning_rate, state)
        direction, after = _scale(self, grads, RmsState(state.count, state.nu, state.mean), False)
        velocity = state.velocity
        if velocity is not None:
            decay = self.momentum
            velocity = direction = map_trained(lambda v, d: as_real(decay, v) * v + d, velocity, direction)
        return times(direction, -rate), RmspropState(after.count, after.nu, after.mean, velocity, rate)

    def step(
        self, params: T, grads: T, state: RmspropState[T], *, value: ArrayLike | None = None
    ) -> tuple[T, RmspropState[T]]:
        """Return the next parameters and state; ``value`` is not needed."""
        return apply_rule(self.descend, params, grads, state, value)


def rmsprop(
    learning_rate: LearningRate,
    *,
    decay: float = 0.99,
    eps: float = 1e-8,
    momentum: float = 0.0,
    centered: bool = False,
    eps_in_root: bool = False,
) -> Rmsprop:
    """Return RMSProp: steps of ``-learning_rate · g / (√v + eps)``, where v = decay·v + (1 - decay)·g².

    With momentum, the step is along u = momentum·u + g / (√v + eps). Centred, v - m² stands for v, where
    m = decay·m + (1 - decay)·g: a gradient that hardly changes has no variance, and steps are then large; a larger eps,
    such as 1e-2, bounds them.

    Source: Hinton 2012, lecture 6e (decay 0.9); the centred form is of Graves 2013 (Generating sequences with recurrent
    neural networks). Defaults and eps outside of the root are torch's; Graves and Optax add eps inside of the root, and Optax's
    decay is 0.9: ``decay=0.9, eps_in_root=True``.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        decay: of the averages, from 0 up to 1.
        eps: added to the root, above 0.
        momentum: gathers the scaled gradients, from 0 up to 1.
        centered: divides by the standard deviation in place of the root mean square.
        eps_in_root: adds eps inside of the root.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = rmsprop(0.1, decay=0.75)
    >>> optimizer.step(afx.ones(1), afx.ones(1), optimizer.init(afx.ones(1)))[0]
    Array([0.8], dtype=float32)
    """
    return Rmsprop(learning_rate, decay, eps, momentum, centered, eps_in_root)
