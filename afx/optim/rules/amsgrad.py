"""Adam with another second moment: AMSGrad, Yogi and Adamax."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.ops.elementwise.arithmetic import abs as absolute
from afx.ops.elementwise.arithmetic import sign, sqrt
from afx.ops.elementwise.where import maximum
from afx.optim import checks
from afx.optim.descent import Descent, descent
from afx.optim.hyperparameters import LearningRate, count_zero
from afx.optim.leaves import as_real, average, average_square, filled, map_trained, safe_sqrt, square, times, zeros_of
from afx.optim.masks import Mask
from afx.optim.rules.adam import Moments, MomentsState
from afx.optim.step import check_kind

__all__ = [
    "AmsgradState",
    "adamax",
    "amsgrad",
    "scale_by_adamax",
    "scale_by_amsgrad",
    "scale_by_yogi",
    "yogi",
]

T = TypeVar("T")


# --- AMSGrad


@attrs.frozen
class AmsgradState(Generic[T]):
    """The state of `scale_by_amsgrad`.

    Attributes:
        count: the number of steps taken.
        mu: the moving average of the gradients.
        nu: the moving average of their squares.
        nu_max: the largest of the latter so far, element by element.
    """

    count: Array
    mu: T
    nu: T
    nu_max: T


@attrs.frozen
class ScaleByAmsgrad:
    """AMSGrad's transformation; made by `scale_by_amsgrad`."""

    b1: float = attrs.field(default=0.9, validator=checks.fraction)
    b2: float = attrs.field(default=0.999, validator=checks.fraction)
    eps: float = attrs.field(default=1e-8, validator=checks.positive)
    correct_first: bool = False

    def init(self, params: T) -> AmsgradState[T]:
        """Return the state before the first step."""
        nu = zeros_of(params, "amsgrad", real=True)
        return AmsgradState(count_zero(), zeros_of(params, "amsgrad"), nu, nu)

    def update(
        self, grads: T, state: AmsgradState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, AmsgradState[T]]:
        """Return the scaled gradients, and the next state."""
        check_kind(state, AmsgradState, "amsgrad")
        count = state.count + 1
        mu, nu = average(state.mu, grads, self.b1), average_square(state.nu, grads, self.b2)
        second = 1 - self.b2**count
        seen = times(nu, 1 / second) if self.correct_first else nu
        nu_max = map_trained(maximum, state.nu_max, seen)
        correction = 1.0 if self.correct_first else 1 / sqrt(second)
        first = 1 / (1 - self.b1**count)

        def scaled(m: Array, n: Array) -> Array:
            return as_real(first, m) * m / (safe_sqrt(n) * as_real(correction, n) + as_real(self.eps, n))

        return map_trained(scaled, mu, nu_max), AmsgradState(count, mu, nu, nu_max)


def scale_by_amsgrad(
    *, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, correct_first: bool = False
) -> ScaleByAmsgrad:
    """Return AMSGrad's transformation of gradients: what `amsgrad` multiplies by its learning rate.

    Arguments and errors are those of `amsgrad`.

    >>> import afx
    >>> rule = scale_by_amsgrad()
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0]
    Array([1.], dtype=float32)
    """
    return ScaleByAmsgrad(b1, b2, eps, correct_first)


def amsgrad(
    learning_rate: LearningRate = 1e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    correct_first: bool = False,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[AmsgradState[Any]]:
    """Return AMSGrad: Adam that divides by the root of the largest mean square so far, so that steps never grow again.

    Source: Reddi, Kale & Kumar 2018, Algorithm 2, with Adam's corrections. By default the maximum is taken of the averages
    themselves, as torch does; Optax takes it of the corrected ones: ``correct_first=True``.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        correct_first: corrects the average square before the maximum is taken, not afterwards.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = amsgrad(0.1)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0]
    Array([0.9, 0.9], dtype=float32)
    """
    rule = scale_by_amsgrad(b1=b1, b2=b2, eps=eps, correct_first=correct_first)
    return descent(rule, learning_rate, "amsgrad", weight_decay, mask)


# --- Yogi


@attrs.frozen
class ScaleByYogi(Moments):
    """Yogi's transformation; made by `scale_by_yogi`."""

    b1: float = attrs.field(default=0.9, validator=checks.fraction)
    b2: float = attrs.field(default=0.999, validator=checks.fraction)
    eps: float = attrs.field(default=1e-3, validator=checks.positive)
    initial: float = attrs.field(default=1e-6, validator=checks.not_negative)

    def init(self, params: T) -> MomentsState[T]:
        """Return the state before the first step."""
        start = super().init(params)
        return MomentsState(start.count, filled(start.mu, self.initial), filled(start.nu, self.initial))

    def scaled(self, grads: T, state: MomentsState[T], size: float | Array) -> tuple[T, MomentsState[T]]:
        """Return ``size`` times the scaled gradients, and the next state."""
        count, mu = state.count + 1, average(state.mu, grads, self.b1)

        def added(n: Array, g: Array) -> Array:
            s = square(g)
            return n - as_real(1 - self.b2, n) * sign(n - s) * s

        nu = map_trained(added, state.nu, grads)
        first, second = size / (1 - self.b1**count), 1 / sqrt(1 - self.b2**count)

        def divided(m: Array, n: Array) -> Array:
            return as_real(first, m) * m / (safe_sqrt(n) * as_real(second, n) + as_real(self.eps, n))

        return map_trained(divided, mu, nu), MomentsState(count, mu, nu)


def scale_by_yogi(*, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-3, initial: float = 1e-6) -> ScaleByYogi:
    """Return Yogi's transformation of gradients: what `yogi` multiplies by its learning rate.

    Arguments and errors are those of `yogi`.

    >>> import afx
    >>> rule = scale_by_yogi(eps=1e-9)
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0].round(2)
    Array([1.], dtype=float32)
    """
    return ScaleByYogi(b1, b2, eps, initial)


def yogi(
    learning_rate: LearningRate = 1e-2,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-3,
    initial: float = 1e-6,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[MomentsState[Any]]:
    """Return Yogi: Adam whose mean square moves by at most (1 - b2)·g² a step, v = v - (1 - b2)·sign(v - g²)·g².

    Source: Zaheer et al. 2018, Algorithm 2. Corrections of the averages and their start are Optax's.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        initial: where both averages start, 0 or more.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = yogi(0.1, eps=1e-9)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0].round(3)
    Array([0.9, 0.9], dtype=float32)
    """
    rule = scale_by_yogi(b1=b1, b2=b2, eps=eps, initial=initial)
    return descent(rule, learning_rate, "yogi", weight_decay, mask)


# --- Adamax


@attrs.frozen
class ScaleByAdamax(Moments):
    """Adamax's transformation; made by `scale_by_adamax`."""

    b1: float = attrs.field(default=0.9, validator=checks.fraction)
    b2: float = attrs.field(default=0.999, validator=checks.fraction)
    eps: float = attrs.field(default=1e-8, validator=checks.positive)

    def scaled(self, grads: T, state: MomentsState[T], size: float | Array) -> tuple[T, MomentsState[T]]:
        """Return ``size`` times the scaled gradients, and the next state."""
        count, mu = state.count + 1, average(state.mu, grads, self.b1)

        def largest(n: Array, g: Array) -> Array:
            return maximum(as_real(self.b2, n) * n, absolute(g) + as_real(self.eps, n))

        nu = map_trained(largest, state.nu, grads)
        first = size / (1 - self.b1**count)
        return map_trained(lambda m, n: as_real(first, m) * m / n, mu, nu), MomentsState(count, mu, nu)


def scale_by_adamax(*, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> ScaleByAdamax:
    """Return Adamax' transformation of gradients: what `adamax` multiplies by its learning rate.

    Arguments and errors are those of `adamax`.

    >>> import afx
    >>> rule = scale_by_adamax()
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0]
    Array([1.], dtype=float32)
    """
    return ScaleByAdamax(b1, b2, eps)


def adamax(
    learning_rate: LearningRate = 2e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[MomentsState[Any]]:
    """Return Adamax: Adam that divides by the largest gradient that decays, u = max(b2·u, abs(g) + eps).

    Source: Kingma & Ba 2015, Algorithm 2; eps, which the paper leaves out, stands where torch and Optax have it.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the largest gradient, from 0 up to 1.
        eps: added to absolute values, above 0.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adamax(0.1)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0]
    Array([0.9, 0.9], dtype=float32)
    """
    return descent(scale_by_adamax(b1=b1, b2=b2, eps=eps), learning_rate, "adamax", weight_decay, mask)
