"""Adafactor: the second moment of a matrix from the means of its rows and columns."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.ops.creation.creation import zeros
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.manipulation.shape import expand_dims
from afx.ops.reductions.sums import mean
from afx.optim import checks
from afx.optim.clipping import clip_by_block_rms
from afx.optim.hyperparameters import LearningRate, count_zero, first_rate, is_nonzero, next_rate
from afx.optim.leaves import as_real, average, hidden, is_trained, map_trained, square, times, zeros_of
from afx.optim.masks import Mask
from afx.optim.protocols import EmptyState
from afx.optim.step import apply_rule, check_kind
from afx.optim.transforms import decay_weights, scale_by_param_block_rms

__all__ = ["Adafactor", "AdafactorState", "FactoredState", "adafactor", "scale_by_factored_rms"]

T = TypeVar("T")


@attrs.frozen
class FactoredState(Generic[T]):
    """The state of `scale_by_factored_rms`; of each array either the first two or the last hold something.

    Attributes:
        count: the number of steps taken.
        rows: mean squares over the longest axis.
        columns: mean squares over the second longest axis.
        nu: mean squares of arrays that are not factored.
    """

    count: Array
    rows: T
    columns: T
    nu: T


@attrs.frozen
class ScaleByFactoredRms:
    """Adafactor's transformation; made by `scale_by_factored_rms`."""

    who: ClassVar[str] = "adafactor"
    decay: float = attrs.field(default=0.8, validator=checks.positive)
    eps: float = attrs.field(default=1e-30, validator=checks.positive)
    least_length: int = attrs.field(default=128, validator=checks.positive)

    def _axes(self, x: Array) -> tuple[int, int] | None:
        """Return the second longest and the longest axis, of arrays to be factored."""
        order = np.argsort(x.shape)
        if x.ndim < 2 or x.shape[order[-2]] < self.least_length:
            return None
        return int(order[-2]), int(order[-1])

    def init(self, params: T) -> FactoredState[T]:
        """Return the state before the first step."""
        start = zeros_of(params, "adafactor", real=True)

        def without(number: int) -> T:
            def reduced(x: Array) -> Array:
                axes = self._axes(x)
                return hidden() if axes is None else zeros(np.delete(x.shape, axes[number]).tolist(), x.dtype)

            return map_trained(reduced, start)

        whole = map_trained(lambda x: x if self._axes(x) is None else hidden(), start)
        return FactoredState(count_zero(), without(1), without(0), whole)

    def update(
        self, grads: T, state: FactoredState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, FactoredState[T]]:
        """Return the scaled gradients, and the next state."""
        check_kind(state, FactoredState, "adafactor")
        count = state.count + 1
        decay = 1 - count ** (-self.decay)
        squares = map_trained(lambda g: square(g) + as_real(self.eps, g), grads)

        def averaged(old: T, number: int) -> T:
            def mixed(v: Array, s: Array) -> Array:
                axes = self._axes(s)
                lines = s if axes is None else mean(s, axis=axes[number])
                return as_real(decay, v) * v + as_real(1 - decay, v) * lines

            return map_trained(mixed, old, squares)

        rows, columns, nu = averaged(state.rows, 1), averaged(state.columns, 0), average(state.nu, squares, decay)
        found, treedef = pytree.flatten(grads)
        parts = [pytree.leaves(part) for part in (rows, columns, nu)]
        scaled = [self._divide(*each) for each in zip(found, *parts, strict=True)]
        return pytree.unflatten(treedef, scaled), FactoredState(count, rows, columns, nu)

    def _divide(self, g: Array, row: Array, column: Array, nu: Array) -> Array:
        if not is_trained(g):
            return g
        axes = self._axes(g)
        if axes is None:
            return g / sqrt(nu)
        second, first = axes
        left = second - 1 if second > first else second
        share = row / mean(row, axis=left, keepdims=True)
        return g / sqrt(expand_dims(share, first)) / sqrt(expand_dims(column, second))


def scale_by_factored_rms(*, decay: float = 0.8, eps: float = 1e-30, least_length: int = 128) -> ScaleByFactoredRms:
    """Return Adafactor's transformation: gradients over the root of a mean square that rows and columns share.

    Arguments and errors are those of `adafactor`.

    >>> import afx
    >>> rule = scale_by_factored_rms(least_length=2)
    >>> g = afx.asarray([[1.0, 2.0], [2.0, 4.0]])
    >>> rule.update(g, rule.init(g), g)[0].round(4)
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    return ScaleByFactoredRms(decay, eps, least_length)


@attrs.frozen
class AdafactorState(Generic[T]):
    """The state of Adafactor.

    Attributes:
        count: the number of steps taken.
        factored: the mean squares.
        mu: the moving average of the updates, with momentum; else None.
        learning_rate: the step size of the last step (of the first one, before it); a new one may be put here, where
            the optimizer was given a number.
    """

    count: Array
    factored: FactoredState[T]
    mu: T | None
    learning_rate: Array


@attrs.frozen
class Adafactor:
    """Adafactor; made by `adafactor`, which says what the attributes are."""

    learning_rate: LearningRate = attrs.field(validator=checks.positive)
    rule: ScaleByFactoredRms
    clipping: float | None = attrs.field(default=1.0, validator=checks.positive_or_none)
    scale_by_parameters: bool = True
    momentum: float = attrs.field(default=0.0, validator=checks.fraction)
    weight_decay: float = attrs.field(default=0.0, validator=checks.not_negative)
    mask: Mask = True

    def init(self, params: T) -> AdafactorState[T]:
        """Return the state before the first step."""
        mu = zeros_of(params, "adafactor") if is_nonzero(self.momentum) else None
        return AdafactorState(count_zero(), self.rule.init(params), mu, first_rate(self.learning_rate))

    def descend(
        self, grads: T, state: AdafactorState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, AdafactorState[T]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, AdafactorState, "adafactor")
        rate = next_rate(self.learning_rate, state)
        updates, factored = self.rule.update(grads, state.factored, params)
        if self.clipping is not None:
            updates, _ = clip_by_block_rms(self.clipping).update(updates, EmptyState(), params, None)
        updates = times(updates, rate)
        if self.scale_by_parameters:
            updates, _ = scale_by_param_block_rms().update(updates, EmptyState(), params, None)
        mu = state.mu
        if mu is not None:
            mu = updates = average(mu, updates, self.momentum)
        updates = decay_weights(updates, params, self.weight_decay, self.mask)
        return times(updates, -1.0), AdafactorState(state.count + 1, factored, mu, rate)

    def step(
        self, params: T, grads: T, state: AdafactorState[T], *, value: ArrayLike | None = None
    ) -> tuple[T, AdafactorState[T]]:
        """Return the next parameters and state; ``value`` is not needed."""
        return apply_rule(self.descend, params, grads, state, value)


def adafactor(
    learning_rate: LearningRate = 1e-2,
    *,
    decay: float = 0.8,
    eps: float = 1e-30,
    least_length: int = 128,
    clipping: float | None = 1.0,
    scale_by_parameters: bool = True,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Adafactor:
    """Return Adafactor: Adam without momentum, whose second moment of a matrix takes two vectors in place of a matrix.

    The mean square of an element is (mean of its row) · (mean of its column) / (mean of all). Its decay at step t is
    1 - t^-decay. Updates are clipped to a root mean square of ``clipping`` and multiplied by that of the parameters.

    Source: Shazeer & Stern 2018, Algorithm 4, in Optax's form. torch factors every matrix, and bounds the learning rate by
    1 / √t: ``least_length=1, learning_rate=lambda t: afx.minimum(1e-2, (t + 1) ** -0.5)``; its weight decay is multiplied by
    the learning rate, here it is not.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken; relative to the size of the
            parameters, as long as these scale the updates.
        decay: the exponent of the decay of mean squares, above 0.
        eps: added to squares, above 0.
        least_length: arrays whose second longest axis is shorter are not factored.
        clipping: the largest root mean square of an array's update; None for no limit.
        scale_by_parameters: multiplies each array's update by the root mean square of its parameters, 1e-3 at least.
        momentum: decay of an average of the updates, from 0 up to 1; at 0 none is kept.
        weight_decay: the part of each parameter that every step takes away, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adafactor(0.1)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0]
    Array([0.9, 0.9], dtype=float32)
    """
    rule = scale_by_factored_rms(decay=decay, eps=eps, least_length=least_length)
    return Adafactor(learning_rate, rule, clipping, scale_by_parameters, momentum, weight_decay, mask)
