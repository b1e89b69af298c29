"""AdaBelief and NovoGrad: steps scaled by how far gradients are from their average, or by the length of each array's."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.ops.elementwise.where import where
from afx.ops.reductions.sums import sum as sum_
from afx.optim import checks
from afx.optim.descent import Descent, descent
from afx.optim.hyperparameters import LearningRate, count_zero, is_nonzero
from afx.optim.leaves import as_real, average, average_square, map_trained, safe_sqrt, square, zeros_of
from afx.optim.masks import Mask
from afx.optim.rules.adam import Moments, MomentsState
from afx.optim.shards import norm_of_shards
from afx.optim.step import check_kind
from afx.optim.transforms import decay_weights

__all__ = ["adabelief", "novograd"]

T = TypeVar("T")


@attrs.frozen
class ScaleByBelief(Moments):
    """AdaBelief's transformation; made by `adabelief`."""

    who: ClassVar[str] = "adabelief"
    b1: float = attrs.field(validator=checks.fraction)
    b2: float = attrs.field(validator=checks.fraction)
    eps: float = attrs.field(validator=checks.positive)
    eps_root: float = attrs.field(validator=checks.not_negative)

    def scaled(self, grads: T, state: MomentsState[T], size: float | Array) -> tuple[T, MomentsState[T]]:
        """Return ``size`` times the scaled gradients, and the next state."""
        count = state.count + 1
        mu = average(state.mu, grads, self.b1)
        gaps = map_trained(lambda g, m: g - m, grads, mu)
        nu = map_trained(lambda n: n + as_real(self.eps_root, n), average_square(state.nu, gaps, self.b2))
        first, second = size / (1 - self.b1**count), 1 / (1 - self.b2**count)

        def direction(m: Array, n: Array) -> Array:
            return as_real(first, m) * m / (safe_sqrt(as_real(second, n) * n) + as_real(self.eps, n))

        return map_trained(direction, mu, nu), MomentsState(count, mu, nu)


def adabelief(
    learning_rate: LearningRate = 1e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-16,
    eps_root: float = 1e-16,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[MomentsState[Any]]:
    """Return AdaBelief: Adam with the mean square of ``g - m`` in place of that of g, so that sure gradients go farther.

    Source: Zhuang et al. 2020, Algorithm 2, as in Optax.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        eps_root: added to the mean square at each step, 0 or more.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adabelief(0.1)
    >>> optimizer.step(afx.ones(1), afx.ones(1), optimizer.init(afx.ones(1)))[0].round(4)
    Array([0.8889], dtype=float32)
    """
    return descent(ScaleByBelief(b1, b2, eps, eps_root), learning_rate, "adabelief", weight_decay, mask)


@attrs.frozen
class ScaleByNovograd:
    """NovoGrad's transformation; made by `novograd`."""

    b1: float = attrs.field(validator=checks.fraction)
    b2: float = attrs.field(validator=checks.fraction)
    eps: float = attrs.field(validator=checks.positive)
    weight_decay: float = attrs.field(validator=checks.not_negative)
    mask: Mask

    def init(self, params: T) -> MomentsState[T]:
        """Return the state before the first step; nu has one number for each array."""
        zeros = zeros_of(params, "novograd")
        return MomentsState(count_zero(), zeros, map_trained(lambda m: sum_(square(m)), zeros))

    def update(
        self, grads: T, state: MomentsState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, MomentsState[T]]:
        """Return the average of scaled gradients, and the next state."""
        check_kind(state, MomentsState, "novograd")

        def mixed(n: Array, g: Array) -> Array:
            size = norm_of_shards(safe_sqrt(sum_(square(g)))) ** 2
            return where(state.count == 0, size, as_real(self.b2, n) * n + as_real(1 - self.b2, n) * size)

        nu = map_trained(mixed, state.nu, grads)
        scaled = map_trained(lambda g, n: g / (safe_sqrt(n) + as_real(self.eps, n)), grads, nu)
        if is_nonzero(self.weight_decay):
            scaled = decay_weights(scaled, params, self.weight_decay, self.mask)
        mu = map_trained(lambda m, s: as_real(self.b1, m) * m + s, state.mu, scaled)
        return mu, MomentsState(state.count + 1, mu, nu)


def novograd(
    learning_rate: LearningRate = 1e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.25,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[MomentsState[Any]]:
    """Return NovoGrad: gradients over the root mean square of the length of their array's, then momentum.

    Source: Ginsburg et al. 2019, Algorithm 1, as in Optax.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        b1: how much of the last direction is kept, from 0 up to 1.
        b2: decay of the average squared length, from 0 up to 1.
        eps: added to the root, above 0.
        weight_decay: the strength of the decay, inside of the momentum, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = novograd(0.1)
    >>> optimizer.step(afx.ones(2), afx.asarray([3.0, 4.0]), optimizer.init(afx.ones(2)))[0]
    Array([0.94, 0.92], dtype=float32)
    """
    return descent(ScaleByNovograd(b1, b2, eps, weight_decay, mask), learning_rate, "novograd")
