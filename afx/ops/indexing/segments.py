"""Segments: sums, means, products and extremes of the elements that belong together."""

from __future__ import annotations

import numpy as np

from afx.core.array.array import Array, ArrayLike, to_numpy_value
from afx.core.aval import aval_of, integer
from afx.core.dtypes import is_inexact
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError, ConcreteValueError, DtypeError, IndexRangeError, ShapeError
from afx.ops._basic import sum_dtype
from afx.ops.creation.creation import asarray, full, ones, zeros
from afx.ops.elementwise.where import maximum
from afx.ops.manipulation.shape import astype, reshape

__all__ = ["segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum"]


def _operands(who: str, x: ArrayLike, segments: ArrayLike, count: int | None) -> tuple[Array, Array, int]:
    """Return elements, the segment of each, and how many there are, or raise where they do not fit."""
    a, s = aval_of(x, who), aval_of(segments, who)
    if s.dtype.kind not in "iu":
        raise DtypeError(f"{who}: segments are integers: got {s}; use astype(int)")
    if s.ndim != 1 or a.shape[:1] != s.shape:
        raise ShapeError(f"{who}: a segment for each element of the first axis: got {a} and {s}; reshape them")
    known = None if isinstance(segments, Tracer) else to_numpy_value(segments, "segments")
    if count is None:
        if known is None:
            raise ConcreteValueError(f"{who}: the number of segments is not known here: got {s}; give count=")
        count = int(known.max()) + 1 if known.size else 0
    if integer(count, who, "count") < 0:
        raise ArgumentError(f"{who}: count is a number of segments: got {count}; give 0 or more")
    if known is not None and known.size and not 0 <= known.min() <= known.max() < count:
        raise IndexRangeError(
            f"{who}: segments are from 0 up to {count}: got {known.min()} to {known.max()}; give count={known.max() + 1}"
        )
    return asarray(x), asarray(segments), count


def segment_sum(x: ArrayLike, segments: ArrayLike, count: int | None = None) -> Array:
    """Return the sum of the elements of each segment; of an empty one 0.

    Args:
        x: [elements, ...]; booleans and small integers are summed as int64.
        segments: int[elements], the segment of each element, from 0; in any order.
        count: the number of segments; without it one more than the largest, which `jit` does not know.

    Returns:
        [count, ...].

    Raises:
        ShapeError: there is no segment for each element.
        DtypeError: segments are no integers.
        IndexRangeError: a segment is outside, where it is known; under `jit` it is left out if it is too large.
        ConcreteValueError: the number is needed and not known.

    >>> segment_sum(afx.asarray([1.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    Array([5., 0., 2.], dtype=float32)
    """
    y, index, size = _operands("segment_sum", x, segments, count)
    dtype = sum_dtype(y.dtype)
    return zeros((size, *y.shape[1:]), dtype).at[index].add(astype(y, dtype))


def segment_mean(x: ArrayLike, segments: ArrayLike, count: int | None = None) -> Array:
    """Return the mean of the elements of each segment; of an empty one 0. Arguments and errors are `segment_sum`'s.

    >>> segment_mean(afx.asarray([1.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    Array([2.5, 0. , 2. ], dtype=float32)
    """
    y, index, size = _operands("segment_mean", x, segments, count)
    number = y.dtype if is_inexact(y.dtype) else zeros(()).dtype
    total = segment_sum(astype(y, number), index, size)
    members = segment_sum(ones(index.shape, total.real.dtype), index, size)
    return total / reshape(maximum(members, 1), (size,) + (1,) * (y.ndim - 1))


def segment_prod(x: ArrayLike, segments: ArrayLike, count: int | None = None) -> Array:
    """Return the product of the elements of each segment; of an empty one 1. Arguments and errors are `segment_sum`'s.

    >>> segment_prod(afx.asarray([3.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    Array([12.,  1.,  2.], dtype=float32)
    """
    y, index, size = _operands("segment_prod", x, segments, count)
    dtype = sum_dtype(y.dtype)
    return ones((size, *y.shape[1:]), dtype).at[index].multiply(astype(y, dtype))


def segment_max(x: ArrayLike, segments: ArrayLike, count: int | None = None) -> Array:
    """Return the largest element of each segment; of an empty one -inf, of integers the least there is, of booleans False.

    Arguments and errors are `segment_sum`'s.

    >>> segment_max(afx.asarray([1.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    Array([  4., -inf,   2.], dtype=float32)
    """
    y, index, size = _operands("segment_max", x, segments, count)
    least = -np.inf if is_inexact(y.dtype) else y.dtype.kind != "b" and np.iinfo(y.dtype).min
    return full((size, *y.shape[1:]), least, y.dtype).at[index].max(y)


def segment_min(x: ArrayLike, segments: ArrayLike, count: int | None = None) -> Array:
    """Return the smallest element of each segment; of an empty one inf, of integers the largest there is, of booleans True.

    Arguments and errors are `segment_sum`'s.

    >>> segment_min(afx.asarray([1.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    Array([ 1., inf,  2.], dtype=float32)
    """
    y, index, size = _operands("segment_min", x, segments, count)
    largest = np.inf if is_inexact(y.dtype) else y.dtype.kind == "b" or np.iinfo(y.dtype).max
    return full((size, *y.shape[1:]), largest, y.dtype).at[index].min(y)
