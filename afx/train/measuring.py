"""Measuring: metrics over a whole data set, and the learning rate at which the loss falls fastest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.core import Array, wrap
from afx.errors import ArgumentError, ShapeError
from afx.ops import asarray

__all__ = ["RateSearch", "find_learning_rate", "measure_over", "predict_over"]

# --- Measuring: metrics and outputs over a whole data set, batch by batch, for sets that fit no single call

S = TypeVar("S")
B = TypeVar("B")
T = TypeVar("T")


def measure_over(
    measure: Callable[[S, B], Mapping[str, object]], batches: Callable[[], Iterable[B]]
) -> Callable[[S], dict[str, float]]:
    """Return a function from the state to the means of metrics over all examples, for `evaluate`.

    Each batch counts by its number of examples, the length of the first axis of its first array, so that a shorter last
    batch weighs less. Sums are exact (``math.fsum``), and the same for any number of batches up to the rounding of the
    batches' own means. What is no mean over examples (R², the area under a curve) takes `predict_over`.

    Args:
        measure: ``(state, batch)`` to means over the batch by name, usually under `afx.jit`.
        batches: makes the batches of the set anew: ``lambda: data.batches(test, 256, last="short").epoch(0)``.

    Raises:
        ArgumentError: when it is called: no batch, or batches whose metrics have other names.

    >>> import afx
    >>> from afx import data, train
    >>> test = data.batches(afx.arange(5.0), 2, last="short")
    >>> train.measure_over(lambda state, x: {"mean": state * afx.mean(x)}, lambda: test.epoch(0))(10.0)
    {'mean': 20.0}
    """

    def whole(state: S) -> dict[str, float]:
        weights: list[int] = []
        measured: dict[str, list[float]] = {}
        for batch in batches():
            values = {name: float(value) for name, value in measure(state, batch).items()}  # type: ignore[arg-type]  # whatever converts
            if weights and values.keys() != measured.keys():
                raise ArgumentError(
                    f"measure_over: every batch has the same metrics: got {sorted(values)} after {sorted(measured)}"
                )
            weights.append(_count(batch, "measure_over"))
            for name, value in values.items():
                measured.setdefault(name, []).append(value * weights[-1])
        if not weights:
            raise ArgumentError("measure_over: no batch: got an empty set; `batches` makes an iterable at each call")
        return {name: math.fsum(values) / sum(weights) for name, values in measured.items()}

    return whole


def predict_over(predict: Callable[[B], T], batches: Iterable[B]) -> T:
    """Return the outputs for all examples of a set, computed batch by batch and joined along their first axis.

    Args:
        predict: a batch to a tree of arrays float[examples, ...], usually under `afx.jit`.
        batches: of the set, in the order of the examples.

    Raises:
        ArgumentError: no batch.
        ShapeError: an output without an axis of examples.

    >>> import afx
    >>> from afx import data, train
    >>> test = data.batches(afx.arange(5.0), 2, last="short")
    >>> train.predict_over(lambda x: 2 * x, test.epoch(0)).tolist()
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    parts = [predict(batch) for batch in batches]
    if not parts:
        raise ArgumentError("predict_over: no batch: got an empty set; give at least one")
    return pytree.map(lambda *xs: _join(xs), parts[0], *parts[1:])


def _join(xs: tuple[object, ...]) -> Array:
    """Return outputs of batches one after the other."""
    arrays = [np.asarray(x) for x in xs]
    if any(x.ndim == 0 for x in arrays):
        raise ShapeError(
            "predict_over: the first axis of an output counts the examples: got a number; measure_over takes means"
        )
    return wrap(np.concatenate(arrays))


def _count(batch: object, who: str) -> int:
    """Return the number of examples of a batch."""
    leaves = pytree.leaves(batch)
    shape = np.shape(leaves[0]) if leaves else ()
    if not shape:
        raise ShapeError(f"{who}: the first axis of a batch counts its examples: got {batch!r:.100}; give arrays")
    return int(shape[0])


# --- Rate search: the learning rate at which the loss falls fastest, from a short run of growing rates

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
