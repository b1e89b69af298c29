"""Adaptive pooling: windows chosen so that a given number of positions comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.dtypes import is_inexact
from afx.errors import DtypeError, ShapeError
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.where import where
from afx.ops.indexing.getitem import take
from afx.ops.manipulation.shape import astype, reshape
from afx.ops.nn.pooling import max_first_p
from afx.ops.nn.windows import each_axis
from afx.ops.reductions._numpy import accumulation_dtype
from afx.ops.reductions.sums import reduce_over, sum

__all__ = ["adaptive_avg_pool", "adaptive_max_pool"]


def adaptive_avg_pool(x: ArrayLike, positions: int | Sequence[int]) -> Array:
    """Return the means of windows that cut each spatial axis into a number of positions.

    Window i of m along an axis of length n begins at ``floor(i·n/m)`` and ends at ``ceil((i + 1)·n/m)``, as in torch;
    where m divides n these are the windows of `avg_pool`.

    Args:
        x: float[batch, *spatial, channels].
        positions: how many, a number or one for each spatial axis; 1 is the mean of all (global pooling).

    Returns:
        float[batch, *positions, channels].

    Raises:
        ShapeError: x has no spatial axis, or an empty one.
        ArgumentError: positions is no number of 1 or more for each spatial axis.

    >>> import afx
    >>> adaptive_avg_pool(afx.asarray([1.0, 2.0, 3.0]).reshape(1, 3, 1), 2)[0, :, 0]
    Array([1.5, 2.5], dtype=float32)
    """
    wide, natural, _ = accumulation_dtype(x, "adaptive_avg_pool")
    return astype(_pool_axes(astype(x, wide), positions, "adaptive_avg_pool", _mean), natural)


def adaptive_max_pool(x: ArrayLike, positions: int | Sequence[int]) -> Array:
    """Return the largest elements of windows that cut each spatial axis into a number of positions.

    Windows, arguments and errors are those of `adaptive_avg_pool`; ties have their derivative as in `max_pool`.

    >>> import afx
    >>> adaptive_max_pool(afx.asarray([1.0, 3.0, 2.0]).reshape(1, 3, 1), 1)[0, :, 0]
    Array([3.], dtype=float32)
    """
    return _pool_axes(x, positions, "adaptive_max_pool", _largest)


def _pool_axes(x: ArrayLike, positions: Any, who: str, pool: Callable[[Array, int, Any], Array]) -> Array:
    """Pool one spatial axis after the other: the windows are boxes."""
    a = aval_of(x, who)
    if a.ndim < 3 or not all(a.shape[1:-1]):
        raise ShapeError(f"{who}: x is [batch, *spatial, channels] with elements to pool: got {a}; reshape it")
    if not is_inexact(a.dtype):
        raise DtypeError(f"{who}: needs floating elements: got {a}; use astype")
    z = asarray(x)
    for axis, count in enumerate(each_axis(positions, a.ndim - 2, "positions", who), 1):
        length = a.shape[axis]
        if length % count == 0:
            cells = reshape(z, (*z.shape[:axis], count, length // count, *z.shape[axis + 1 :]))
            valid = None
        else:
            index, valid = _windows(length, count)
            cells = take(z, index, axis=axis)
        z = pool(cells, axis + 1, valid)
    return z


def _windows(length: int, count: int) -> tuple[Any, Any]:
    """Return the indices of each window, the last repeated where it is short, and which are not repeated."""
    steps: Any = np.arange(count)
    starts: Any = steps * length // count
    ends: Any = -(-(steps + 1) * length // count)
    index = starts[:, None] + np.arange(int((ends - starts).max()))
    return np.minimum(index, ends[:, None] - 1), index < ends[:, None]


def _mean(cells: Array, axis: int, valid: Any) -> Array:
    if valid is None:
        return sum(cells, axis=axis) / cells.shape[axis]
    lengths = [1] * (cells.ndim - axis - 1)
    kept = where(valid.reshape(*valid.shape, *lengths), cells, 0)
    z: Array = sum(kept, axis=axis) / valid.sum(1).reshape(-1, *lengths).astype(cells.dtype)
    return z


def _largest(cells: Array, axis: int, valid: Any) -> Array:
    return reduce_over(max_first_p, cells, (axis,), keepdims=False, who="adaptive_max_pool")
