"""Padding modes: ramps, statistics of the elements, mirror images and repetitions along one axis."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from afx.core.array.array import Array
from afx.core.aval import Aval
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.rounding import floor, rint
from afx.ops.indexing.gather import gather
from afx.ops.manipulation.shape import astype, broadcast_to
from afx.ops.reductions.sums import max, mean, min

__all__ = ["MIRRORS", "STATISTICS", "Ends", "mirrored", "ramps", "repeated", "statistics"]

MIRRORS = ("reflect", "symmetric")
STATISTICS = ("maximum", "mean", "median", "minimum")


class Ends(NamedTuple):
    """How many elements are added along an axis, in front and behind, and what belongs to either end."""

    axis: int
    widths: tuple[int, int]
    values: tuple[Any, Any] = (None, None)


def _first(x: Array, axis: int, k: int, count: int = 1) -> Array:
    """Return ``count`` slices along an axis, from the k-th on."""
    return x[(*(slice(None),) * axis, slice(k, k + count))]


def repeated(x: Array, ends: Ends, mode: Any) -> Array:
    """Return x with its own elements on both sides, as NumPy's mode arranges them."""
    places: Any = np.pad(np.arange(x.shape[ends.axis]), ends.widths, mode=mode)
    return gather(x, places, axis=ends.axis)


def mirrored(x: Array, ends: Ends, mode: str) -> tuple[Array, Array]:
    """Return the mirror images of x in its ends, turned about the end's value, as odd functions continue.

    Two turns move by a whole period and by twice the difference of the ends.
    """
    axis, n = ends.axis, x.shape[ends.axis]
    first, last = _first(x, axis, 0), _first(x, axis, n - 1)
    before, after = ends.widths
    share = 0 if mode == "symmetric" else 1  # of the end's own element
    period = np.maximum(2 * (n - share), 1)
    found: list[Array] = []
    for places in (np.arange(-before, 0), np.arange(n, n + after)):
        turns, rest = np.divmod(places, period)
        turned = rest > n - 1
        inner = np.minimum(np.where(turned, period - rest - 1 + share, rest), n - 1)
        row = tuple([-1 if a == axis else 1 for a in range(x.ndim)])
        sign, low, high = (
            np.asarray(v, x.dtype).reshape(row) for v in (np.where(turned, -1, 1), -2 * turns, 2 * turns + 2 * turned)
        )
        found.append(gather(x, inner, axis=axis) * sign + first * low + last * high)
    return found[0], found[1]


def ramps(x: Array, ends: Ends) -> tuple[Array, Array]:
    """Return straight lines from given numbers outside to the elements at the ends."""
    found: list[Array] = []
    n = x.shape[ends.axis]
    for k, (width, value) in enumerate(zip(ends.widths, ends.values, strict=True)):
        edge = _first(x, ends.axis, (n - 1) * k)
        steps = np.arange(width)[::-1] if k else np.arange(width)
        row = tuple([-1 if a == ends.axis else 1 for a in range(x.ndim)])
        dtype = x.dtype if x.dtype.kind in "fc" else np.dtype(np.float64)
        start = astype(value, dtype)
        step = (astype(edge, dtype) - start) / asarray(np.maximum(width, 1), dtype)
        line = start + step * asarray(steps.reshape(row), dtype)
        found.append(line if x.dtype.kind in "fc" else astype(floor(line), x.dtype))
    return found[0], found[1]


def statistics(x: Array, ends: Ends, mode: str) -> tuple[Array, Array]:
    """Return a statistic of all elements along the axis, or of so many next to each end, as often as wanted."""
    n = x.shape[ends.axis]
    found: list[Array] = []
    for k, (width, length) in enumerate(zip(ends.widths, ends.values, strict=True)):
        count = n if length is None else int(np.minimum(length, n))
        if not count and mode in ("maximum", "minimum"):
            raise ArgumentError(f"pad: a {mode} needs elements: got stat_length={length}; use 1 or more")
        part = _first(x, ends.axis, (n - count) * k, count)
        value = _statistic(part, ends.axis, mode)
        shape = tuple([width if a == ends.axis else m for a, m in enumerate(x.shape)])
        found.append(broadcast_to(value, shape))
    return found[0], found[1]


def _statistic(part: Array, axis: int, mode: str) -> Array:
    if mode in ("maximum", "minimum"):
        return (max if mode == "maximum" else min)(part, axis, keepdims=True)
    middle: Any = (
        np.median if mode == "median" else mean
    )  # afx's own, found by NumPy's name: medians sort, sorting flips
    value: Array = middle(part, axis, keepdims=True)
    return astype(rint(value) if part.dtype.kind in "iu" else value, part.dtype)  # as NumPy, booleans: any but 0


def check_width(x: Aval, axis: int) -> None:
    """Raise where an axis has no element that could be continued."""
    if not x.shape[axis]:
        raise ArgumentError(f"pad: an empty axis has nothing to repeat: got {x}, axis {axis}; use mode='constant'")
