"""Adam with another first moment: NAdam's momentum ahead, and RAdam's rectified start."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.where import where
from afx.optim import checks
from afx.optim.descent import Descent, descent
from afx.optim.hyperparameters import LearningRate, count_zero
from afx.optim.leaves import as_real, average, average_square, map_trained, safe_sqrt, zeros_of
from afx.optim.masks import Mask
from afx.optim.rules.adam import Moments, MomentsState
from afx.optim.step import check_kind

__all__ = ["NadamState", "nadam", "radam", "scale_by_nadam", "scale_by_radam"]

T = TypeVar("T")


@attrs.frozen
class NadamState(Generic[T]):
    """The state of `scale_by_nadam`.

    Attributes:
        count: the number of steps taken.
        mu: the moving average of the gradients.
        nu: the moving average of their squares.
        product: the product of all momenta so far.
    """

    count: Array
    mu: T
    nu: T
    product: Array


@attrs.frozen
class ScaleByNadam:
    """NAdam's transformation; made by `scale_by_nadam`."""

    b1: float = attrs.field(default=0.9, validator=checks.fraction)
    b2: float = attrs.field(default=0.999, validator=checks.fraction)
    eps: float = attrs.field(default=1e-8, validator=checks.positive)
    momentum_decay: float | None = attrs.field(default=4e-3, validator=checks.not_negative_or_none)

    def init(self, params: T) -> NadamState[T]:
        """Return the state before the first step."""
        mu, nu = zeros_of(params, "nadam"), zeros_of(params, "nadam", real=True)
        return NadamState(count_zero(), mu, nu, count_zero() + 1)

    def _momentum(self, count: Array) -> float | Array:
        if self.momentum_decay is None:
            return self.b1
        return self.b1 * (1 - 0.5 * 0.96 ** (count * self.momentum_decay))

    def update(
        self, grads: T, state: NadamState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, NadamState[T]]:
        """Return the scaled gradients, and the next state."""
        check_kind(state, NadamState, "nadam")
        count = state.count + 1
        mu, nu = average(state.mu, grads, self.b1), average_square(state.nu, grads, self.b2)
        now, ahead = self._momentum(count), self._momentum(count + 1)
        product = state.product * now
        of_grad, of_mean = (1 - now) / (1 - product), ahead / (1 - product * ahead)
        second = 1 / sqrt(1 - self.b2**count)

        def scaled(g: Array, m: Array, n: Array) -> Array:
            direction = as_real(of_grad, g) * g + as_real(of_mean, m) * m
            return direction / (safe_sqrt(n) * as_real(second, n) + as_real(self.eps, n))

        return map_trained(scaled, grads, mu, nu), NadamState(count, mu, nu, product)


def scale_by_nadam(
    *, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, momentum_decay: float | None = 4e-3
) -> ScaleByNadam:
    """Return NAdam's transformation of gradients: what `nadam` multiplies by its learning rate.

    Arguments and errors are those of `nadam`.

    >>> import afx
    >>> rule = scale_by_nadam(momentum_decay=None)
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0].round(4)
    Array([1.4737], dtype=float32)
    """
    return ScaleByNadam(b1, b2, eps, momentum_decay)


def nadam(
    learning_rate: LearningRate = 2e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    momentum_decay: float | None = 4e-3,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[NadamState[Any]]:
    """Return NAdam: Adam with Nesterov's momentum, which looks one step of the average gradient ahead.

    Source: Dozat 2016, Algorithm 2, whose momentum rises as b1·(1 - 0.96^(t·momentum_decay) / 2). That is torch's form and
    the default here; Optax keeps the momentum at b1: ``momentum_decay=None``.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        momentum_decay: how fast the momentum rises to b1, 0 or more; None keeps it there.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = nadam(0.1, momentum_decay=None)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0].round(4)
    Array([0.8526, 0.8526], dtype=float32)
    """
    rule = scale_by_nadam(b1=b1, b2=b2, eps=eps, momentum_decay=momentum_decay)
    return descent(rule, learning_rate, "nadam", weight_decay, mask)


# --- RAdam


@attrs.frozen
class ScaleByRadam(Moments):
    """RAdam's transformation; made by `scale_by_radam`."""

    b1: float = attrs.field(default=0.9, validator=checks.fraction)
    b2: float = attrs.field(default=0.999, validator=checks.fraction)
    eps: float = attrs.field(default=1e-8, validator=checks.positive)
    threshold: float = attrs.field(default=5.0, validator=checks.positive)
    correct_eps: bool = True

    def scaled(self, grads: T, state: MomentsState[T], size: float | Array) -> tuple[T, MomentsState[T]]:
        """Return ``size`` times the scaled gradients, and the next state."""
        count = state.count + 1
        mu, nu = average(state.mu, grads, self.b1), average_square(state.nu, grads, self.b2)
        rest = 1 - self.b2**count
        limit = 2 / (1 - self.b2) - 1
        length = limit - 2 * count * (1 - rest) / rest  # of the average square, in steps
        rectified = (length >= self.threshold) & (length > 4)
        safe = where(rectified, length, 5.0)
        below = where(rectified, (limit - 4) * (limit - 2) * safe, 1.0)
        ratio = sqrt(where(rectified, (safe - 4) * (safe - 2) * limit / below, 1.0))
        first, second = size / (1 - self.b1**count), sqrt(rest)
        eps = self.eps * second if self.correct_eps else self.eps + count_zero()
        factor = first * ratio * second

        def scaled(m: Array, n: Array) -> Array:
            adapted = as_real(factor, m) * m / (safe_sqrt(n) + as_real(eps, n))
            return where(rectified, adapted, as_real(first, m) * m)

        return map_trained(scaled, mu, nu), MomentsState(count, mu, nu)


def scale_by_radam(
    *, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, threshold: float = 5.0, correct_eps: bool = True
) -> ScaleByRadam:
    """Return RAdam's transformation of gradients: what `radam` multiplies by its learning rate.

    Arguments and errors are those of `radam`.

    >>> import afx
    >>> rule = scale_by_radam()
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0].round(4)
    Array([4.], dtype=float32)
    """
    return ScaleByRadam(b1, b2, eps, threshold, correct_eps)


def radam(
    learning_rate: LearningRate = 1e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    threshold: float = 5.0,
    correct_eps: bool = True,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[MomentsState[Any]]:
    """Return RAdam: Adam that starts as momentum, and adapts once its average square is long enough.

    Source: Liu et al. 2020, Algorithm 2 (threshold 4 there, 5 in torch and Optax). eps is added to the root of the
    corrected average, as in Optax; torch adds it to the average itself: ``correct_eps=False``.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        threshold: the number of steps that the average square stands for, above which it is used.
        correct_eps: adds eps after the correction of the average square.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = radam(0.1)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0].round(4)
    Array([0.9, 0.9], dtype=float32)
    """
    rule = scale_by_radam(b1=b1, b2=b2, eps=eps, threshold=threshold, correct_eps=correct_eps)
    return descent(rule, learning_rate, "radam", weight_decay, mask)
