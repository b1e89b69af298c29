"""Distinct elements: each once, with its first index and its count.

How many there are depends on the values, so that they must be known: these functions work under `grad`, not under `jit`
and `vmap`. Each nan differs from every other one, as it does for ``==``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from afx.core.array.array import Array, ArrayLike, wrap
from afx.core.aval import Shape
from afx.core.registry import register_function
from afx.ops.creation.creation import as_array
from afx.ops.elementwise.comparison import not_equal
from afx.ops.indexing.getitem import take
from afx.ops.manipulation.shape import reshape
from afx.ops.sorting.sort import argsort, sort

__all__ = ["unique_all", "unique_counts", "unique_inverse", "unique_values"]


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Array
    inverse_indices: Array


def _starts(ordered: Array, who: str) -> Any:
    """Return where the groups of equal elements of a sorted vector begin."""
    begins = np.ones(ordered.size, bool)
    begins[1:] = not_equal(ordered[1:], ordered[:-1]).concrete(who)
    return np.flatnonzero(begins)


def _inverse(order: Any, starts: Any, shape: Shape) -> Array:
    """Return which group each element belongs to."""
    groups = np.zeros(order.size, np.int64)
    groups[starts[1:]] = 1
    inverse = np.empty_like(groups)
    inverse[order] = groups.cumsum()
    return wrap(inverse.reshape(shape))


def _unique(x: ArrayLike, who: str) -> UniqueAll:
    given = as_array(x)
    flat = reshape(given, (-1,))
    ordered = sort(flat)
    starts = _starts(ordered, who)
    counts = np.diff(starts, append=flat.size)
    order = argsort(flat).concrete(who)
    return UniqueAll(
        take(ordered, starts), wrap(order[starts]), _inverse(order, starts, given.shape), wrap(counts.astype(np.int64))
    )


@register_function
def unique_all(x: ArrayLike, /) -> UniqueAll:
    """Return the elements that differ, in ascending order, and where and how often they occur.

    Args:
        x: any shape.

    Returns:
        ``values``; ``indices``, of their first occurrences in x read as if it were flat; ``inverse_indices``, in the
        shape of x, of each element among the values; and ``counts``.

    Raises:
        ConcreteValueError: the values are not known yet.

    >>> unique_all(np.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int64)
    """
    return _unique(x, "unique_all")


@register_function
def unique_counts(x: ArrayLike, /) -> UniqueCounts:
    """Return the elements that differ, in ascending order, and how often they occur; see `unique_all`.

    >>> unique_counts(np.array([3, 1, 3])).counts
    Array([1, 2], dtype=int64)
    """
    found = _unique(x, "unique_counts")
    return UniqueCounts(found.values, found.counts)


@register_function
def unique_inverse(x: ArrayLike, /) -> UniqueInverse:
    """Return the elements that differ, in ascending order, and which of them each element is; see `unique_all`.

    >>> values, inverse = unique_inverse(np.array([[3, 1, 3]]))
    >>> values[inverse]
    Array([[3, 1, 3]], dtype=int64)
    """
    found = _unique(x, "unique_inverse")
    return UniqueInverse(found.values, found.inverse_indices)


@register_function
def unique_values(x: ArrayLike, /) -> Array:
    """Return the elements that differ, in ascending order; equal elements share the derivative evenly.

    Args:
        x: any shape, read as if it were flat.

    Raises:
        ConcreteValueError: the values are not known yet.

    >>> unique_values(np.array([3.0, 1.0, 3.0]))
    Array([1., 3.], dtype=float64)
    """
    ordered = sort(reshape(as_array(x), (-1,)))
    return take(ordered, _starts(ordered, "unique_values"))
