"""Plateaus: steps shrink when the loss stops falling."""

from __future__ import annotations

import functools
import operator
from typing import ClassVar, Literal, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.core.dtypes import float64
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray, full
from afx.ops.elementwise.where import maximum, where
from afx.optim.hyperparameters import check_numbers, count_zero, is_within, positive
from afx.optim.leaves import times
from afx.optim.protocols import Rescaling
from afx.optim.step import check_kind

__all__ = ["PlateauState", "reduce_on_plateau"]

T = TypeVar("T")


@attrs.frozen
class PlateauState:
    """The state of `reduce_on_plateau`.

    Attributes:
        scale: what steps are multiplied by.
        best: the least mean loss so far.
        waited: the number of means in a row without a better one.
        cooldown: the number of means for which nothing is counted yet.
        count: the number of losses in the mean that is being taken.
        mean: that mean.
    """

    scale: Array
    best: Array
    waited: Array
    cooldown: Array
    count: Array
    mean: Array


@attrs.frozen
class _ReduceOnPlateau:
    factor: float
    patience: int
    rtol: float
    atol: float
    cooldown: int
    window: int
    least: float
    rescales: ClassVar[Literal[True]] = True

    def __attrs_post_init__(self) -> None:
        check_numbers("reduce_on_plateau", **attrs.asdict(self, recurse=False))
        if not is_within(self.factor, lambda v: 0 < v < 1):
            raise ArgumentError(f"reduce_on_plateau: the factor is between 0 and 1: got {self.factor}; 0.1 is usual")
        for name, lowest in (("patience", 1), ("window", 1), ("cooldown", 0)):
            number = getattr(self, name)
            if not is_within(number, functools.partial(operator.le, lowest)):
                raise ArgumentError(f"reduce_on_plateau: {name} is {lowest} or more: got {number}; count losses")
        for name in ("rtol", "atol", "least"):
            positive(name, getattr(self, name), "reduce_on_plateau", zero=True)

    def init(self, params: object) -> PlateauState:
        zero = count_zero()
        return PlateauState(zero + 1, full((), float("inf"), float64), zero, zero, zero, zero)

    def update(
        self, grads: T, state: PlateauState, params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, PlateauState]:
        check_kind(state, PlateauState, "reduce_on_plateau")
        if value is None:
            raise ArgumentError("reduce_on_plateau: it follows the loss: got no value; call step(..., value=loss)")
        count = state.count + 1
        mean = (state.count * state.mean + asarray(value).astype(float64)) / count
        after = self._looked(attrs.evolve(state, mean=mean, count=count), count == self.window)
        return times(grads, after.scale), after

    def _looked(self, state: PlateauState, full_window: Array) -> PlateauState:
        """Return the state after a mean is complete, the state as it is before."""
        better = state.mean < (1 - self.rtol) * state.best - self.atol
        waited = where(better, 0.0, state.waited + 1)
        cooling = state.cooldown > 0
        reduces = ~cooling & (waited == self.patience)
        scale = where(reduces, maximum(state.scale * self.factor, self.least), state.scale)
        cooldown = where(cooling, state.cooldown - 1, where(reduces, float(self.cooldown), 0.0))
        best, waited = where(better, state.mean, state.best), where(cooling | reduces, 0.0, waited)
        looked = PlateauState(scale, best, waited, cooldown, count_zero(), count_zero())
        pairs = zip(attrs.astuple(looked, recurse=False), attrs.astuple(state, recurse=False), strict=True)
        return PlateauState(*[where(full_window, new, old) for new, old in pairs])


def reduce_on_plateau(
    factor: float = 0.1,
    *,
    patience: int = 10,
    rtol: float = 1e-4,
    atol: float = 0.0,
    cooldown: int = 0,
    window: int = 1,
    least: float = 0.0,
) -> Rescaling[PlateauState]:
    """Return the rule that multiplies updates by a number that shrinks when the loss stops falling.

    It stands in a chain, mostly behind the optimizer, and needs the loss: ``step(..., value=loss)``. As in Optax; torch's
    scheduler waits for one loss more.

    Args:
        factor: what the number is multiplied by, between 0 and 1.
        patience: how many means in a row without a better one shrink it.
        rtol: a mean is better where it is below (1 - rtol) · best - atol.
        atol: see rtol.
        cooldown: for how many means nothing is counted after it shrank.
        window: how many losses a mean is taken of.
        least: the least number.

    Raises:
        ArgumentError: the factor is not between 0 and 1, or a number is below its range; no loss is given (at the step).

    >>> import afx
    >>> from afx import optim
    >>> optimizer = optim.chain(optim.sgd(1.0), reduce_on_plateau(0.5, patience=2))
    >>> params, state = afx.zeros(1), optimizer.init(afx.zeros(1))
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     params, state = optimizer.step(params, afx.ones(1), state, value=loss)
    >>> params, float(state[1].scale)
    (Array([-3.5], dtype=float32), 0.5)
    """
    return _ReduceOnPlateau(factor, patience, rtol, atol, cooldown, window, least)
