"""Prodigy: Adam that finds its learning rate from how far it has gone."""

from __future__ import annotations

from functools import reduce
from typing import Any, Generic, TypeVar

import attrs

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.dtypes import float64
from afx.ops.creation.creation import zeros
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.where import maximum, where
from afx.ops.reductions.sums import sum as sum_
from afx.optim import checks
from afx.optim.hyperparameters import LearningRate, count_zero, first_rate, next_rate, rate_at
from afx.optim.leaves import as_real, average_square, compute_params, is_trained, map_trained, safe_sqrt, zeros_of
from afx.optim.masks import Mask
from afx.optim.step import Steps, check_kind
from afx.optim.transforms import decay_weights

__all__ = ["Prodigy", "ProdigyState", "prodigy"]

T = TypeVar("T")


@attrs.frozen
class ProdigyState(Generic[T]):
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
    """Prodigy; made by `prodigy`, which says what the attributes are."""

    learning_rate: LearningRate = attrs.field(default=1.0, validator=checks.positive)
    b1: float = attrs.field(default=0.9, validator=checks.fraction)
    b2: float = attrs.field(default=0.999, validator=checks.fraction)
    eps: float = attrs.field(default=1e-8, validator=checks.positive)
    distance: float = attrs.field(default=1e-6, validator=checks.positive)
    weight_decay: float = attrs.field(default=0.0, validator=checks.not_negative)
    mask: Mask = True

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
        away = map_trained(lambda g, x0, x: sum_((g.conj() * (x0 - x)).real), grads, state.start, params)
        gain = keep * state.gain + part * _total(away)
        slope = map_trained(lambda s, g: as_real(keep, s) * s + as_real(part, s) * g, state.slope, grads)
        mu = map_trained(lambda m, g: as_real(self.b1, m) * m + as_real((1 - self.b1) * d, m) * g, state.mu, grads)
        nu = average_square(state.nu, map_trained(lambda g: as_real(d, g) * g, grads), self.b2)
        size = _total(map_trained(lambda s: sum_(abs_(s)), slope))
        reached = where(size > 0, gain / where(size > 0, size, 1.0), 0.0)

        def moved(m: Array, n: Array) -> Array:
            return as_real(-rate * d, m) * m / (safe_sqrt(n) + as_real(self.eps * d, n))

        updates = decay_weights(map_trained(moved, mu, nu), params, -rate * d * self.weight_decay, self.mask)
        return updates, ProdigyState(state.count + 1, maximum(d, reached), gain, state.start, mu, nu, slope, rate)


def _total(tree: Any) -> Array:
    """Return the sum of the numbers of a tree, in float64."""
    numbers = [x.astype(float64) for x in pytree.leaves(tree) if is_trained(x)]
    return reduce(lambda x, y: x + y, numbers, zeros((), float64))


def prodigy(
    learning_rate: LearningRate = 1.0,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    distance: float = 1e-6,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Prodigy:
    """Return Prodigy: Adam whose learning rate is the distance to the solution, as far as gradients tell it.

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
    return Prodigy(learning_rate, b1, b2, eps, distance, weight_decay, mask)
