"""Edits: diagonals, elements appended, inserted, deleted or resized, and arrays of blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, DTypeLike, register_function, to_lower_level, wrap
from afx.core.aval import aval_of, integer, normalize_axes, normalize_axis, shape_of
from afx.errors import ArgumentError, DtypeError, IndexRangeError, ShapeError
from afx.ops.creation.creation import Nested, as_array, promote_operands, zeros
from afx.ops.elementwise.comparison import not_equal
from afx.ops.indexing.gather import embed, gather, slice_
from afx.ops.indexing.index import Entry, ints, is_sequence, whole
from afx.ops.manipulation.join import concat, moveaxis
from afx.ops.manipulation.shape import astype, broadcast_to, reshape
from afx.ops.reductions.sums import sum

# --- Diagonals: read from matrices, and matrices made of them


@register_function
def diagonal(x: ArrayLike, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Array:
    """Return the diagonals of the matrices in the last two axes, or in two others, as a new last axis.

    Args:
        x: two axes or more.
        offset: which diagonal: above the main one where positive, below where negative.
        axis1: the axis of the rows (NumPy's function: the first).
        axis2: the axis of the columns (NumPy's function: the second).

    Raises:
        ShapeError: fewer than two axes, or the same axis twice.

    >>> diagonal(afx.asarray([[1.0, 2.0], [3.0, 4.0]]))
    Array([1., 4.], dtype=float32)
    """
    value = to_lower_level(x)
    if value is not x and value.ndim >= 2 and (offset.__class__, axis1, axis2) == (int, -2, -1):
        return wrap(value.diagonal(offset, -2, -1))  # outside of traces NumPy's own view
    aval = aval_of(x, "diagonal")
    if aval.ndim < 2:
        raise ShapeError(f"diagonal: takes two axes or more: got {aval}; afx.diag makes a matrix of a vector")
    rows, columns = (normalize_axis(a, aval.ndim, "diagonal") for a in (axis1, axis2))
    if rows == columns:
        raise ShapeError(f"diagonal: takes two different axes: got axis1={axis1} and axis2={axis2}; name another")
    if (rows, columns) != (aval.ndim - 2, aval.ndim - 1):
        return diagonal(moveaxis(x, (rows, columns), (-2, -1)), offset)
    offset = integer(offset, "diagonal", "offset")
    *lead, m, n = aval.shape
    return slice_(reshape(x, (*lead, m * n)), (*[whole(k) for k in lead], _steps(m, n, offset)))


def _steps(m: int, n: int, offset: int) -> Entry:
    """Return where the elements of a diagonal are among those of an m by n matrix, row by row."""
    start, count = (offset, min(m, n - offset)) if offset >= 0 else (-offset * n, min(m + offset, n))
    if count <= 0:
        return (0, 0, 1)
    return (start, start + (count - 1) * (n + 1) + 1, n + 1 if count > 1 else 1)


@register_function
def diag(x: ArrayLike, k: int = 0) -> Array:
    """Return the square matrix with x on its diagonal, or the diagonal of the matrix x.

    Args:
        x: one axis or two.
        k: which diagonal: above the main one where positive, below where negative.

    Raises:
        ShapeError: neither one axis nor two.

    >>> diag(afx.asarray([1.0, 2.0]))
    Array([[1., 0.],
           [0., 2.]], dtype=float32)
    """
    if len(shape_of(x, "diag")) == 2:
        return diagonal(x, integer(k, "diag", "k"))
    aval, k = aval_of(x, "diag"), integer(k, "diag", "k")
    if aval.ndim != 1:
        raise ShapeError(f"diag: takes a vector or a matrix: got {aval}; use afx.diagonal for more axes")
    n = aval.size + abs(k)
    place = _steps(n, n, k)
    index = () if place == whole(n * n) else (place,)
    return reshape(embed(as_array(x), (n * n,), index), (n, n))


@register_function
def matrix_trace(
    x: ArrayLike, offset: int = 0, axis1: int = -2, axis2: int = -1, dtype: DTypeLike | None = None
) -> Array:
    """Return the sums of the diagonals of matrices: `afx.linalg.trace`; `afx.trace` is the transformation of functions.

    Arguments are those of `diagonal`, and the dtype to sum in, as in `afx.sum`.

    >>> afx.linalg.trace(afx.asarray([[1.0, 2.0], [3.0, 4.0]]))
    Array(5., dtype=float32)
    """
    return sum(diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype)


# --- Edits: copies with elements appended, inserted, deleted or resized, and arrays of blocks


@register_function
def append(x: Nested, values: Nested, axis: int | None = None) -> Array:
    """Return x with values behind it along an axis; without one both are read as if they were flat.

    Raises:
        ShapeError: the other axes differ.

    >>> append(np.array([1.0, 2.0]), 3.0)
    Array([1., 2., 3.], dtype=float64)
    """
    return concat(promote_operands(x, values), axis=axis)


@register_function
def insert(x: Nested, obj: int | slice | Sequence[int] | ArrayLike, values: Nested, axis: int | None = None) -> Array:
    """Return x with values inserted before the given indices along an axis.

    Args:
        x: any shape.
        obj: the index: an int, a slice, integers or a boolean mask; known values, since they decide the shape.
        values: converted to x's dtype; broadcast to one slice for each index (at one index there may be several).
        axis: the axis; without one x is read as if it were flat.

    Raises:
        IndexRangeError: an index out of bounds.
        ShapeError: values that do not fit.
        DtypeError: complex values among real ones.

    >>> insert(np.array([1.0, 3.0]), 1, 2.0)
    Array([1., 2., 3.], dtype=float64)
    """
    y = as_array(x)
    if axis is None:
        return insert(reshape(y, (-1,)), obj, values, 0)
    place = normalize_axis(axis, y.ndim, "insert")
    n = y.shape[place]
    where = _places(obj)
    new = promote_operands(values, y)[0]
    if new.dtype.kind == "c" != y.dtype.kind:
        raise DtypeError(f"insert: complex values do not fit into {y.dtype}: got {new.aval}; convert x, or take a part")
    new = astype(new, y.dtype)
    new = reshape(new, (1,) * (y.ndim - new.ndim) + new.shape) if new.ndim < y.ndim else new
    single = where.__class__ is not slice and where.dtype.kind != "b" and where.size == 1
    if single and not where.ndim:
        new = moveaxis(new, 0, place)
    count = new.shape[place] if single else np.arange(n + 1)[where].size if where.__class__ is slice else _count(where)
    try:
        order = np.insert(np.arange(n), where.item() if single else where, n + np.arange(count))
    except (IndexError, ValueError):
        raise IndexRangeError(
            f"insert: an index is out of bounds: got {obj!r} for {y.aval} along axis {axis}; give indices on it"
        ) from None
    shape = tuple([len(order) - n if a == place else length for a, length in enumerate(y.shape)])
    return gather(concat([y, broadcast_to(new, shape)], axis=place), order, axis=place)


def _count(where: Any) -> int:
    return int(where.sum()) if where.dtype.kind == "b" else where.size


def _places(obj: Any) -> Any:
    """Return indices as a slice or a NumPy array of integers or booleans."""
    if obj.__class__ is slice:
        return obj
    indices = np.asarray(obj)
    if indices.size and indices.dtype.kind not in "biu":
        raise DtypeError(
            f"insert, delete: indices are integers, a mask or a slice: got {obj!r}; convert them with astype"
        )
    return indices if indices.size else indices.astype(np.intp)


@register_function
def delete(x: Nested, obj: int | slice | Sequence[int] | ArrayLike, axis: int | None = None) -> Array:
    """Return x without the slices at these indices along an axis; arguments and errors are those of `insert`.

    >>> delete(np.array([1.0, 2.0, 3.0]), 1)
    Array([1., 3.], dtype=float64)
    """
    y = as_array(x)
    if axis is None:
        return delete(reshape(y, (-1,)), obj, 0)
    place = normalize_axis(axis, y.ndim, "delete")
    try:
        kept = np.delete(np.arange(y.shape[place]), _places(obj))
    except (IndexError, ValueError):
        raise IndexRangeError(
            f"delete: an index is out of bounds: got {obj!r} for {y.aval} along axis {axis}; give indices on it"
        ) from None
    return gather(y, kept, axis=place)


@register_function
def resize(x: Nested, new_shape: int | Sequence[int]) -> Array:
    """Return the elements of x, in row-major order and from the start again where they are used up, in a new shape.

    Raises:
        ArgumentError: a negative length.

    >>> resize(np.array([1.0, 2.0]), (1, 3))
    Array([[1., 2., 1.]], dtype=float64)
    """
    y, shape = as_array(x), ints(new_shape, "resize", "new_shape")
    if min(shape, default=0) < 0:
        raise ArgumentError(f"resize: negative dimensions are not allowed: got {new_shape}; give others")
    if not y.size:
        return zeros(shape, y.dtype)
    return reshape(gather(reshape(y, (-1,)), np.arange(math.prod(shape)) % y.size), shape)


@register_function
def trim_zeros(x: Nested, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """Return x without the slices of zeros at its ends.

    Args:
        x: any shape; its values must be known, since they decide the shape: it works under `grad`, not under `jit`.
        trim: ``"f"`` trims in front, ``"b"`` behind, ``"fb"`` both.
        axis: the axes to trim along, all unless given.

    Raises:
        ArgumentError: another trim.
        ConcreteValueError: the values are not known yet.

    >>> trim_zeros(np.array([0.0, 1.0, 0.0, 2.0, 0.0]))
    Array([1., 0., 2.], dtype=float64)
    """
    if str(trim).lower() not in ("f", "b", "fb", "bf"):
        raise ArgumentError(f"trim_zeros: trim is 'f', 'b' or 'fb': got {trim!r}; choose one")
    y = as_array(x)
    axes = normalize_axes(axis, y.ndim, "trim_zeros")
    if not axes:
        return y
    places = np.nonzero(not_equal(y, 0).concrete("trim_zeros"))
    index = [slice(None)] * y.ndim
    for a in axes:
        first, last = (places[a].min(), places[a].max() + 1) if places[a].size else (0, 0)
        if places[a].size:
            index[a] = slice(int(first) if "f" in trim.lower() else 0, int(last) if "b" in trim.lower() else None)
        else:
            index[a] = slice(0, 0)
    return y[tuple(index)]


@register_function
def block(arrays: Nested) -> Array:
    """Return an array put together from nested lists of blocks: the innermost stand side by side, along the last axis.

    Raises:
        ShapeError: lists of different depths, or blocks that do not fit.
        ArgumentError: an empty list.

    >>> block([[np.eye(1), np.zeros((1, 1))]])
    Array([[1., 0.]], dtype=float64)
    """
    depth = _depth(arrays)
    return _join_nested(arrays, depth, max(depth, _rank(arrays)))


def _depth(arrays: Any) -> int:
    if not is_sequence(arrays):
        return 0
    if not arrays:
        raise ArgumentError("block: a list of blocks is not empty: got []; leave it out")
    depths = {_depth(part) for part in arrays}
    if len(depths) > 1:
        raise ShapeError(f"block: lists are nested equally deep: got depths {sorted(depths)}; wrap blocks in lists")
    return 1 + depths.pop()


def _rank(arrays: Any) -> int:
    return max(map(_rank, arrays)) if is_sequence(arrays) else aval_of(arrays, "block").ndim


def _join_nested(arrays: Any, depth: int, rank: int) -> Array:
    if not is_sequence(arrays):
        y = as_array(arrays)
        return reshape(y, (1,) * (rank - y.ndim) + y.shape)
    return concat([_join_nested(part, depth - 1, rank) for part in arrays], axis=-depth)


@register_function
def diagflat(x: Nested, k: int = 0) -> Array:
    """Return the square matrix with all elements of x, in row-major order, on its k-th diagonal.

    >>> diagflat(np.array([[1.0, 2.0]]))
    Array([[1., 0.],
           [0., 2.]], dtype=float64)
    """
    return diag(reshape(as_array(x), (-1,)), k)


@register_function
def rollaxis(x: ArrayLike, axis: int, start: int = 0) -> Array:
    """Return x with an axis moved in front of another; `moveaxis` says more clearly where it goes.

    Raises:
        ShapeError: an axis out of range.

    >>> rollaxis(np.ones((2, 3)), 1).shape
    (3, 2)
    """
    aval = aval_of(x, "rollaxis")
    source = normalize_axis(axis, aval.ndim, "rollaxis")
    start = integer(start, "rollaxis", "start")
    if not -aval.ndim <= start <= aval.ndim:
        raise ShapeError(f"rollaxis: start is out of range: got start={start} for {aval}; use 0 to {aval.ndim}")
    target = start % aval.ndim if start < aval.ndim else start
    return moveaxis(x, source, target - (source < target))
