"""Averages of parameters: exponential and plain ones, beside any optimizer."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import attrs

from afx.core.array.array import Array
from afx.ops.elementwise.where import minimum
from afx.optim import checks
from afx.optim.hyperparameters import count_zero
from afx.optim.leaves import as_real, compute_params, filled, map_trained, restored, times
from afx.optim.step import check_kind

__all__ = ["AverageState", "ParamsEma", "ParamsMean", "params_ema", "params_mean"]

T = TypeVar("T")


@attrs.frozen
class AverageState(Generic[T]):
    """The state of an average of parameters.

    Attributes:
        count: the number of parameters averaged.
        average: the average so far, of float16 in float32; the newest value of what is not trained.
    """

    count: Array
    average: T


@attrs.frozen
class ParamsEma:
    """The exponential moving average of parameters; made by `params_ema`."""

    who: ClassVar[str] = "params_ema"
    decay: float = attrs.field(validator=checks.fraction)
    debias: bool = False
    warmup: bool = False

    def init(self, params: T) -> AverageState[T]:
        """Return the average of the first parameters: themselves, or 0 where the start is corrected."""
        start = restored(compute_params(params), params)
        return AverageState(count_zero(), restored(filled(start, 0.0), params) if self.debias else start)

    def update(self, params: T, state: AverageState[T]) -> AverageState[T]:
        """Return the average with new parameters in it; integers, keys and marked fields take the newest value."""
        check_kind(state, AverageState, "params_ema")
        decay = minimum(self.decay, (1 + state.count) / (10 + state.count)) if self.warmup else self.decay

        def mixed(m: Array, p: Array) -> Array:
            return (as_real(decay, m) * m + as_real(1 - decay, m) * p).astype(m.dtype)

        return AverageState(state.count + 1, restored(map_trained(mixed, state.average, params), params))

    def params(self, state: AverageState[T]) -> T:
        """Return the average as parameters, corrected for its start where that was asked for."""
        if not self.debias:
            return state.average
        return restored(times(state.average, 1 / (1 - self.decay**state.count)), state.average)


def params_ema(decay: float, *, debias: bool = False, warmup: bool = False) -> ParamsEma:
    """Return the exponential moving average m = decay·m + (1 - decay)·p of parameters, to evaluate and to keep.

    It stands beside the optimizer: call ``update`` after each step, ``params`` to evaluate. It starts at the first
    parameters, as torch's ``AveragedModel`` does.

    Args:
        decay: how much of m is kept, from 0 up to 1.
        debias: starts at 0, and corrects for it: m / (1 - decayᵗ), as Optax' ``ema`` does.
        warmup: keeps less at first: min(decay, (1 + t) / (10 + t)).

    Raises:
        ArgumentError: the decay is outside [0, 1).

    >>> import afx
    >>> mean = params_ema(0.75)
    >>> state = mean.update(afx.ones(2), mean.init(afx.zeros(2)))
    >>> mean.params(state)
    Array([0.25, 0.25], dtype=float32)
    """
    return ParamsEma(decay, debias, warmup)


@attrs.frozen
class ParamsMean:
    """The mean of parameters; made by `params_mean`."""

    def init(self, params: T) -> AverageState[T]:
        """Return the average of no parameters yet."""
        return AverageState(count_zero(), restored(compute_params(params), params))

    def update(self, params: T, state: AverageState[T]) -> AverageState[T]:
        """Return the average with new parameters in it; integers, keys and marked fields take the newest value."""
        check_kind(state, AverageState, "params_mean")
        share = 1 / (state.count + 1)

        def mixed(m: Array, p: Array) -> Array:
            return (m + (p - m) * as_real(share, m)).astype(m.dtype)

        return AverageState(state.count + 1, restored(map_trained(mixed, state.average, params), params))

    def params(self, state: AverageState[T]) -> T:
        """Return the average as parameters."""
        return state.average


def params_mean() -> ParamsMean:
    """Return the mean of all parameters it is given: stochastic weight averaging, Polyak's average.

    Call ``update`` after each step, or each epoch, from when on they are to count.

    Source: Polyak & Juditsky 1992; Izmailov et al. 2018.

    >>> import afx
    >>> mean = params_mean()
    >>> state = mean.init(afx.zeros(1))
    >>> for p in (1.0, 2.0, 6.0):
    ...     state = mean.update(afx.asarray([p]), state)
    >>> mean.params(state)
    Array([3.], dtype=float32)
    """
    return ParamsMean()
