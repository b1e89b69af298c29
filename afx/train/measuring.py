"""Measuring: metrics and outputs over a whole data set, batch by batch, for sets that fit no single call."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import numpy as np

from afx import pytree
from afx.core.array.array import Array, wrap
from afx.errors import ArgumentError, ShapeError

__all__ = ["measure_over", "predict_over"]

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
        found: dict[str, list[float]] = {}
        for batch in batches():
            values = {name: float(value) for name, value in measure(state, batch).items()}  # type: ignore[arg-type]  # whatever converts
            if weights and values.keys() != found.keys():
                raise ArgumentError(
                    f"measure_over: every batch has the same metrics: got {sorted(values)} after {sorted(found)}"
                )
            weights.append(_count(batch, "measure_over"))
            for name, value in values.items():
                found.setdefault(name, []).append(value * weights[-1])
        if not weights:
            raise ArgumentError("measure_over: no batch: got an empty set; `batches` makes an iterable at each call")
        return {name: math.fsum(values) / sum(weights) for name, values in found.items()}

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
