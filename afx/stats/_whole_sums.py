"""Sums over whole numbers: of functions that are smooth between their ends, and may be powers of the distance from these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from afx.core.array.array import Array
from afx.ops.creation.creation import asarray
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.where import maximum, minimum, where
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import expand_dims, reshape
from afx.ops.reductions.sums import sum as sum_
from afx.ops.sorting.sort import sort

__all__ = ["sum_whole"]

APART = 512  # terms at each end that are taken one by one
EVEN = np.linspace(0.0, 1.0, 33)[1:-1]
GROWING = 4.0 ** np.arange(1, 22)
_rule: Any = np.polynomial.legendre.leggauss(16)


def sum_whole(fn: Callable[[Array], Array], first: Array, last: Array) -> Array:
    """Return the sum of a function over the whole numbers from ``first`` to ``last``, which bear no derivatives.

    Many terms are an integral between halves (Euler and Maclaurin), by Gauss's rule on pieces that grow with the distance
    from both ends, and of which none is longer than a 32nd of the whole.
    """
    first, last = stop_gradient(first), stop_gradient(last)
    steps = _column(np.arange(APART), first.ndim)
    low, high = first + steps, last - steps
    start = first + (APART - 0.5)
    end = maximum(last - (APART - 0.5), start)
    ends = where(low <= last, fn(minimum(low, last)), 0.0) + where(high > start, fn(maximum(high, first)), 0.0)
    return sum_(ends, axis=0) + where(end > start, _integrate(fn, start, end), 0.0)


def _column(values: Any, rank: int) -> Array:
    return reshape(asarray(values, np.dtype("float64")), (-1,) + (1,) * rank)


def _integrate(fn: Callable[[Array], Array], start: Array, end: Array) -> Array:
    """Return the sum over the whole numbers between two halves, as an integral and its corrections."""
    growing = (APART / 4) * _column(np.concatenate([[0.0], GROWING - 1]), start.ndim)
    even = start + (end - start) * _column(EVEN, start.ndim)
    places = sort(concat([minimum(start + growing, end), maximum(end - growing, start), even], axis=0), axis=0)
    nodes, weights = (_column(v / 2, start.ndim) for v in _rule)
    length = expand_dims(places[1:] - places[:-1], 1)
    values = fn(reshape(expand_dims(places[:-1], 1) + length * (nodes + 0.5), (-1, *start.shape)))
    whole = sum_(reshape(length * weights, (-1, *start.shape)) * values, axis=0)
    return whole + _correct(fn, end) - _correct(fn, start)


def _correct(fn: Callable[[Array], Array], end: Array) -> Array:
    """Return the first two corrections at one end, by differences between the whole numbers around it."""
    near, far = fn(end + 0.5) - fn(end - 0.5), fn(end + 1.5) - fn(end - 1.5)
    return (17 * far - 291 * near) / 5760
