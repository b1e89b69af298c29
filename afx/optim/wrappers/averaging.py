"""Averages of parameters: exponential and plain ones, and slow parameters that follow an optimizer's."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import attrs

from afx.core import Array, ArrayLike, Shown, integer
from afx.errors import ArgumentError
from afx.ops import minimum, remainder, where
from afx.optim import hyperparameters
from afx.optim.hyperparameters import check_numbers, count_zero, is_within
from afx.optim.step import Optimizer, Steps, as_real, check_kind, compute_params, filled, map_trained, restored, times
from afx.optim.transforms import check_optimizer

__all__ = [
    "AverageState",
    "Lookahead",
    "LookaheadState",
    "ParamsEma",
    "ParamsMean",
    "lookahead",
    "params_ema",
    "params_mean",
]

# --- Averages of parameters: exponential and plain ones, beside any optimizer

T = TypeVar("T")


@attrs.frozen
class AverageState(Shown, Generic[T]):
    """The state of an average of parameters.

    Attributes:
        count: the number of parameters averaged.
        average: the average so far, of float16 in float32; the newest value of what is not trained.
    """

    count: Array
    average: T


@attrs.frozen
class ParamsEma(Shown):
    """The exponential moving average m = decay·m + (1 - decay)·p of parameters, to evaluate and to keep.

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

    who: ClassVar[str] = "params_ema"
    decay: float = attrs.field(validator=hyperparameters.check_fraction)
    debias: bool = attrs.field(default=False, kw_only=True)
    warmup: bool = attrs.field(default=False, kw_only=True)

    def init(self, params: T) -> AverageState[T]:
        """Return the average of the first parameters: themselves, or 0 where the start is corrected."""
        start = restored(compute_params(params), params)
        return AverageState(count_zero(), restored(filled(start, 0.0), params) if self.debias else start)

    def update(self, params: T, state: AverageState[T]) -> AverageState[T]:
        """Return the average with new parameters in it; integers, keys and marked fields take the newest value."""
        check_kind(state, AverageState, "params_ema")
        decay = minimum(self.decay, (1 + state.count) / (10 + state.count)) if self.warmup else self.decay

        return AverageState(
            state.count + 1,
            restored(
                map_trained(
                    lambda m, p: (as_real(decay, m) * m + as_real(1 - decay, m) * p).astype(m.dtype),
                    state.average,
                    params,
                ),
                params,
            ),
        )

    def params(self, state: AverageState[T]) -> T:
        """Return the average as parameters, corrected for its start where that was asked for."""
        if not self.debias:
            return state.average
        return restored(times(state.average, 1 / (1 - self.decay**state.count)), state.average)


@attrs.frozen
class ParamsMean(Shown):
    """The mean of all parameters it is given: stochastic weight averaging, Polyak's average.

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

    def init(self, params: T) -> AverageState[T]:
        """Return the average of no parameters yet."""
        return AverageState(count_zero(), restored(compute_params(params), params))

    def update(self, params: T, state: AverageState[T]) -> AverageState[T]:
        """Return the average with new parameters in it; integers, keys and marked fields take the newest value."""
        check_kind(state, AverageState, "params_mean")
        share = 1 / (state.count + 1)

        return AverageState(
            state.count + 1,
            restored(
                map_trained(lambda m, p: (m + (p - m) * as_real(share, m)).astype(m.dtype), state.average, params),
                params,
            ),
        )

    def params(self, state: AverageState[T]) -> T:
        """Return the average as parameters."""
        return state.average


# --- Lookahead: slow parameters that follow those of an optimizer

S = TypeVar("S")


@attrs.frozen
class LookaheadState(Shown, Generic[S]):
    """The state of `lookahead`.

    Attributes:
        count: the number of steps taken.
        slow: the slow parameters, which are the ones to evaluate and to keep.
        inner: the optimizer's state.
    """

    count: Array
    slow: Any
    inner: S


@attrs.frozen
class Lookahead(Steps[LookaheadState[S]], Generic[S]):
    """Slow parameters behind an optimizer; made by `lookahead`."""

    inner: Optimizer[S]
    every: int = 5
    share: float = 0.5

    def __attrs_post_init__(self) -> None:
        check_numbers("lookahead", every=self.every, share=self.share)
        if integer(self.every, "lookahead", "every") < 1:
            raise ArgumentError(f"lookahead: every is a number of steps: got {self.every}; give 1 or more")
        if not is_within(self.share, lambda s: 0 < s <= 1):
            raise ArgumentError(f"lookahead: share is above 0 and up to 1: got {self.share}; the paper's is 0.5")

    def init(self, params: Any) -> LookaheadState[S]:
        """Return the state before the first step."""
        inner = self.inner.init(params)
        return LookaheadState(count_zero(), compute_params(params), inner)

    def descend(
        self, grads: T, state: LookaheadState[S], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, LookaheadState[S]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, LookaheadState, "lookahead")
        moves, inner = self.inner.descend(grads, state.inner, params, value)
        count = state.count + 1
        meet = remainder(count, self.every) == 0

        slow = map_trained(
            lambda s, p, u: where(meet, s + as_real(self.share, s) * (p + u - s), s), state.slow, params, moves
        )
        updates = map_trained(lambda u, p, s: where(meet, s - p, u), moves, params, slow)
        return updates, LookaheadState(count, slow, inner)


def lookahead(optimizer: Optimizer[S], every: int = 5, *, share: float = 0.5) -> Lookahead[S]:
    """Return an optimizer whose parameters go back, every so many steps, to slow ones that follow them by a share.

    Source: Zhang et al. 2019, Algorithm 1. The optimizer keeps its state where parameters go back; ``state.slow`` are
    the parameters to evaluate.

    Args:
        optimizer: what takes the steps.
        every: how many steps it takes from the slow parameters, 1 or more.
        share: how far the slow parameters follow, above 0 and up to 1.

    Raises:
        ArgumentError: an argument out of its range, or no optimizer.

    >>> import afx
    >>> from afx import optim
    >>> optimizer, x = lookahead(optim.sgd(1.0), 2), afx.zeros(1)
    >>> state = optimizer.init(x)
    >>> for _ in range(2):
    ...     x, state = optimizer.step(x, -afx.ones(1), state)
    >>> x
    Array([1.], dtype=float32)
    """
    check_optimizer(optimizer, "lookahead")
    return Lookahead(optimizer, every, share)


# --- Names of functions, which users write, for the classes

params_ema = ParamsEma
params_mean = ParamsMean
