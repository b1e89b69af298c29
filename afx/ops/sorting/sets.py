"""Sets: distinct elements with their first index and count, and elements that two vectors share."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from afx.core import Array, ArrayLike, Shape, normalize_axis, register_function, wrap
from afx.ops.creation.creation import Nested, as_array, promote_operands, stop_gradient, zeros
from afx.ops.elementwise.comparison import clip, equal, isfinite, logical_not, not_equal, where
from afx.ops.indexing.gather import gather, scatter
from afx.ops.indexing.getitem import take
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import astype, reshape
from afx.ops.sorting.sort import argsort, searchsorted, sort

# --- Distinct elements: each once, with its first index and its count
#
# How many there are depends on the values, so that they must be known: these functions work under `grad`, not under
# `jit` and `vmap`. Each nan differs from every other one, as it does for ``==``.


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


def _groups(x: ArrayLike, who: str) -> tuple[Array, Array, Any, Array]:
    """Return all elements of x, and of its distinct elements the values, where they begin in the sorted vector, and counts."""
    flat = reshape(as_array(x), (-1,))
    ordered = sort(flat)
    starts = _starts(ordered, who)
    return flat, take(ordered, starts), starts, wrap(np.diff(starts, append=flat.size).astype(np.int64))


def _unique_flat(x: ArrayLike, who: str) -> UniqueAll:
    flat, values, starts, counts = _groups(x, who)
    order = argsort(flat).concrete(who)
    return UniqueAll(values, wrap(order[starts]), _inverse(order, starts, as_array(x).shape), counts)


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
    return _unique_flat(x, "unique_all")


@register_function
def unique_counts(x: ArrayLike, /) -> UniqueCounts:
    """Return the elements that differ, in ascending order, and how often they occur; see `unique_all`.

    >>> unique_counts(np.array([3, 1, 3])).counts
    Array([1, 2], dtype=int64)
    """
    _, values, _, counts = _groups(x, "unique_counts")
    return UniqueCounts(values, counts)


@register_function
def unique_inverse(x: ArrayLike, /) -> UniqueInverse:
    """Return the elements that differ, in ascending order, and which of them each element is; see `unique_all`.

    >>> values, inverse = unique_inverse(np.array([[3, 1, 3]]))
    >>> values[inverse]
    Array([[3, 1, 3]], dtype=int64)
    """
    distinct = _unique_flat(x, "unique_inverse")
    return UniqueInverse(distinct.values, distinct.inverse_indices)


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
    return _groups(x, "unique_values")[1]


# --- Sets: distinct elements of vectors, and elements that two of them share
#
# How many there are depends on the values, so that they must be known: these functions work under `grad`, not under
# `jit` and `vmap`. Equal elements share the derivative evenly, as those of `sort` do.


def _require_known(x: Array, who: str) -> Any:
    """Return the bare elements, or raise where they are not known yet."""
    return np.asarray(stop_gradient(x).concrete(who))


def _flat(x: Nested) -> Array:
    return reshape(as_array(x), (-1,))


# -- one array --
def _unique_along(x: Nested, axis: int | None, equal_nan: bool, who: str) -> tuple[Array, Array, Array, Array]:
    y = as_array(x)
    known = _require_known(y, who)
    place = axis if axis is None else normalize_axis(axis, y.ndim, who)
    _, first, inverse, counts = np.unique(
        known, return_index=True, return_inverse=True, return_counts=True, axis=place, equal_nan=equal_nan
    )
    if place is None:  # elements of the sorted array, so that equal ones share the derivative
        values = gather(sort(y, None), np.cumsum(counts) - counts)
        inverse = inverse.reshape(y.shape)
    else:
        values = _slices(y, place, first, inverse.reshape(-1), counts)
    where_first, which, number = (wrap(np.asarray(v, np.int64)) for v in (first, inverse, counts))
    return values, where_first, which, number


def _slices(x: Array, axis: int, first: Any, inverse: Any, counts: Any) -> Array:
    """Return distinct slices along an axis; equal ones share the derivative."""
    slices = gather(x, first, axis=axis)
    if x.dtype.kind not in "fc":
        return slices
    shape = tuple([len(first) if a == axis else n for a, n in enumerate(x.shape)])
    number = counts.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    mean = scatter(x, inverse, shape=shape, axis=axis) / astype(number, x.dtype)
    return where(isfinite(slices), mean + stop_gradient(slices - mean), slices)


@register_function
def unique(
    x: Nested,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Array | tuple[Array, ...]:
    """Return the distinct elements of x, in ascending order; equal elements share the derivative evenly.

    The number of them depends on the values, which must be known: it works under `grad`, not under `jit` and `vmap`.

    Args:
        x: any shape.
        return_index: whether to return where each stands first, too.
        return_inverse: whether to return which of them each element is, too.
        return_counts: whether to return how often each occurs, too.
        axis: the axis whose slices are compared; without one, elements are.
        equal_nan: whether nan counts as one value, or each nan as another.
        sorted: has no effect: they always are.

    Raises:
        ConcreteValueError: the values are not known yet.

    >>> unique(np.array([3.0, 1.0, 3.0]))
    Array([1., 3.], dtype=float64)
    """
    results = _unique_along(x, axis, equal_nan, "unique")
    wanted = zip(results[1:], (return_index, return_inverse, return_counts), strict=True)
    others = [z for z, want in wanted if want]
    return (results[0], *others) if others else results[0]


# -- two arrays --
@register_function
def isin(
    element: Nested,
    test_elements: Nested,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Array:
    """Tell, elementwise, whether an element is among others.

    Args:
        element: any shape.
        test_elements: the others, any shape.
        assume_unique: has no effect; nor has ``kind``.
        invert: tells whether it is not among them.
        kind: NumPy's choice of method.

    >>> isin(np.array([1.0, 2.0]), [2.0, 3.0])
    Array([False,  True], dtype=bool)
    """
    x, others = promote_operands(element, test_elements)
    others = reshape(others, (-1,))
    dtype = np.result_type(x.dtype, others.dtype)
    x, others = (astype(v, np.int8 if dtype.kind == "b" else dtype) for v in (x, others))
    if not others.size:
        held = zeros(x.shape, bool)
    else:
        ordered = sort(stop_gradient(others))
        held = equal(gather(ordered, clip(searchsorted(ordered, x), 0, others.size - 1)), x)
    return logical_not(held) if invert else held


def _distinct(x: Nested, assume_unique: bool, who: str) -> Array:
    return _flat(x) if assume_unique else _unique_along(_flat(x), None, equal_nan=True, who=who)[0]


def _merge_sorted(x: Nested, y: Nested, assume_unique: bool, who: str) -> tuple[Array, Any]:
    """Return the distinct elements of both, sorted together, and which of them equal the next."""
    both = sort(concat([_distinct(v, assume_unique, who) for v in promote_operands(x, y)]))
    known = _require_known(both, who)
    return both, known[1:] == known[:-1]


@register_function
def intersect1d(
    x: Nested, y: Nested, assume_unique: bool = False, return_indices: bool = False
) -> Array | tuple[Array, Array, Array]:
    """Return the distinct elements that both arrays hold, in ascending order; both share the derivative evenly.

    Args:
        x: any shape.
        y: any shape.
        assume_unique: says that neither holds an element twice.
        return_indices: whether to return where each stands first in x and in y, too.

    Raises:
        ConcreteValueError: the values are not known yet; see `unique`.

    >>> intersect1d(np.array([1.0, 2.0]), np.array([3.0, 2.0]))
    Array([2.], dtype=float64)
    """
    both, shared = _merge_sorted(x, y, assume_unique, "intersect1d")
    values = gather(both, np.flatnonzero(shared))
    if not return_indices:
        return values
    known = [_require_known(_flat(v), "intersect1d") for v in (x, y)]
    _, first, second = np.intersect1d(known[0], known[1], assume_unique, return_indices=True)
    return values, wrap(first), wrap(second)


@register_function
def union1d(x: Nested, y: Nested) -> Array:
    """Return the distinct elements that either array holds, in ascending order; see `unique`.

    >>> union1d(np.array([1.0, 2.0]), np.array([3.0, 2.0]))
    Array([1., 2., 3.], dtype=float64)
    """
    return _distinct(concat([_flat(v) for v in promote_operands(x, y)]), assume_unique=False, who="union1d")


@register_function
def setdiff1d(x: Nested, y: Nested, assume_unique: bool = False) -> Array:
    """Return the distinct elements of x that y does not hold, in ascending order; see `unique`.

    >>> setdiff1d(np.array([1.0, 2.0]), np.array([3.0, 2.0]))
    Array([1.], dtype=float64)
    """
    x, others = promote_operands(x, y)
    mine = _distinct(x, assume_unique, "setdiff1d")
    return gather(mine, np.flatnonzero(isin(mine, others, invert=True).concrete("setdiff1d")))


@register_function
def setxor1d(x: Nested, y: Nested, assume_unique: bool = False) -> Array:
    """Return the distinct elements that just one of two arrays holds, in ascending order; see `unique`.

    >>> setxor1d(np.array([1.0, 2.0]), np.array([3.0, 2.0]))
    Array([1., 3.], dtype=float64)
    """
    both, shared = _merge_sorted(x, y, assume_unique, "setxor1d")
    if not both.size:
        return both
    edges = np.concatenate([[False], shared, [False]])
    return gather(both, np.flatnonzero(~edges[1:] & ~edges[:-1]))
