"""Rate search: the learning rate at which the loss falls fastest, from a short run of growing rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

import attrs
import numpy as np

from afx.core.array.array import Array
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray

__all__ = ["RateSearch", "find_learning_rate"]

S = TypeVar("S")
B = TypeVar("B")
SMOOTHING = 0.9  # of the moving average of losses
SETTLING = 10  # steps in which the average still follows single batches
DIVERGED = 4.0  # times the smallest average: the run ends


@attrs.frozen
class RateSearch:
    """What `find_learning_rate` found.

    Attributes:
        rates: float64[steps], those that were tried.
        losses: float64[steps], their moving average.
        steepest: the rate at which the average falls fastest by the logarithm of the rate: a good one to begin with.
        best: a tenth of the rate with the smallest average, the usual upper end.
    """

    rates: Array
    losses: Array
    steepest: float
    best: float


def find_learning_rate(
    step: Callable[[S, B, float], tuple[S, object]],
    state: S,
    batches: Iterable[B],
    *,
    lowest: float = 1e-6,
    highest: float = 1.0,
    count: int = 100,
) -> RateSearch:
    """Train for a few steps with growing learning rates, and return how the loss answers.

    Rates grow by a constant factor; the run ends where the moving average of the loss is four times its smallest value, or
    is not finite. The state is left as it was, so ``step`` must not be given its memory (``donate_argnums``).

    Args:
        step: ``(state, batch, rate)`` to the next state and the loss. An optimizer's state holds its rate:
            ``attrs.evolve(inner, learning_rate=rate)`` sets it.
        state: the state at the beginning.
        batches: at least ``count`` batches, such as ``batches.stream()``.
        lowest: the first rate.
        highest: the last rate.
        count: the number of rates.

    Raises:
        ArgumentError: rates that do not grow, fewer than 10 of them, fewer batches, or a loss that is not finite at once.

    Smith 2015, Cyclical Learning Rates for Training Neural Networks, section 3.3.

    >>> import afx, itertools
    >>> from afx import train
    >>> def step(w, x, rate):
    ...     value, grad = afx.value_and_grad(lambda w: afx.mean((w * x - 2 * x) ** 2))(w)
    ...     return w - rate * grad, value
    >>> found = train.find_learning_rate(step, afx.asarray(0.0), itertools.repeat(afx.ones(4)), highest=10.0)
    >>> 0.01 < found.steepest < 1.0
    True
    """
    if not 0 < lowest < highest < math.inf or count < 10:
        raise ArgumentError(
            f"find_learning_rate: rates grow, in at least 10 steps: got {lowest} to {highest} in {count}; such as 1e-6 to 1.0"
        )
    rates: list[float] = []
    losses: list[float] = []
    average, growth = 0.0, (highest / lowest) ** (1 / (count - 1))
    for k, batch in zip(range(count), batches, strict=False):
        state, value = step(state, batch, lowest * growth**k)
        average = SMOOTHING * average + (1 - SMOOTHING) * float(value)  # type: ignore[arg-type]  # a loss is a number
        loss = average / (1 - SMOOTHING ** (k + 1))
        if not math.isfinite(loss) or (losses and loss > DIVERGED * max(min(losses), 1e-300)):
            break
        rates.append(lowest * growth**k)
        losses.append(loss)
    else:
        if len(rates) < count:
            raise ArgumentError(
                f"find_learning_rate: too few batches: got {len(rates)} for {count}; give batches.stream()"
            )
    if len(rates) < 3:
        raise ArgumentError(f"find_learning_rate: the loss diverges at once: got lowest={lowest}; make it smaller")
    return _read_search(np.asarray(rates), np.asarray(losses))


def _read_search(
    rates: np.ndarray[tuple[int], np.dtype[np.float64]], losses: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> RateSearch:
    """Return where the averages fall fastest and are smallest."""
    slopes = np.gradient(losses, np.log(rates))
    lowest = int(np.argmin(losses))
    first = min(SETTLING, lowest // 2)
    steepest = first + int(np.argmin(slopes[first : lowest + 1]))
    return RateSearch(asarray(rates), asarray(losses), float(rates[steepest]), float(rates[lowest]) / 10)
