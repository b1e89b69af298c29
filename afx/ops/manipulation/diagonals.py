"""Diagonals: read from matrices, and matrices made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afx.core.array.array import Array, ArrayLike, wrap
from afx.core.aval import aval_of, integer, normalize_axis, shape_of
from afx.core.registry import register_function
from afx.core.tracing.tracer import to_lower_level
from afx.errors import ShapeError
from afx.ops.creation.creation import as_array
from afx.ops.indexing.index import Entry, whole
from afx.ops.indexing.slice import embed, slice_
from afx.ops.manipulation.axes import moveaxis
from afx.ops.manipulation.shape import reshape
from afx.ops.reductions.sums import sum

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["diag", "diagonal"]


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
    flat = reshape(x, (*lead, m * n))
    return slice_(flat, (*[whole(k) for k in lead], _steps(m, n, offset)))


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
