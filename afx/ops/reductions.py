"""Reductions: sums, means and extremes along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from afx.core.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of, normalize_axes
from afx.core.dtypes import DType, int64, uint64
from afx.core.functions import public
from afx.core.primitive import Params, Value
from afx.core.tracer import bind
from afx.ops._kinds import linear
from afx.ops.shaping import astype, broadcast_to, reshape

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["mean", "sum"]

Axis = int | Sequence[int] | None


def reduced(shape: Shape, axis: Shape) -> Shape:
    """Return the shape without these axes."""
    return tuple([n for a, n in enumerate(shape) if a not in axis])


def with_axes(z: Array, shape: Shape, axis: Shape, keepdims: bool) -> Array:
    """Return a reduction's result with its axes put back as axes of length 1 where that is asked for."""
    return reshape(z, tuple([1 if a in axis else n for a, n in enumerate(shape)])) if keepdims else z


def batch_reduction(fn: Any) -> Any:
    """Return the batching rule of a reduction from its public function."""

    def batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
        return fn(xs[0], axis=tuple([a + 1 for a in params["axis"]]))

    return batch


@public
def sum(x: ArrayLike, axis: Axis = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Array:
    """Return the sum of the elements along axes.

    Args:
        x: any shape; booleans and small integers are summed as int64.
        axis: one axis, several, or all (None).
        dtype: converts x first.
        keepdims: keeps the summed axes, with length 1.

    >>> sum(broadcast_to(1.0, (2, 3)), axis=0)
    Array([2., 2., 2.], dtype=float32)
    """
    if dtype is not None:
        x = astype(x, dtype)
    aval = aval_of(x, "sum")
    axes = normalize_axes(axis, aval.ndim, "sum")
    return with_axes(bind(sum_p, x, axis=axes), aval.shape, axes, keepdims)


def _sum_run(x: Any, *, axis: Shape) -> Any:
    return np.add.reduce(np.asarray(x, aval_of(x).dtype), axis=axis)


def sum_dtype(dtype: DType) -> DType:
    """Return the dtype of a sum or product: small integers and booleans grow to 64 bits."""
    if dtype.kind in "bi":
        return int64
    return uint64 if dtype.kind == "u" else dtype


def _sum_abstract(x: Aval, *, axis: Shape) -> Aval:
    return Aval(reduced(x.shape, axis), sum_dtype(x.dtype))


def _sum_transpose(ct: Array, x: Aval, *, axis: Shape) -> Array:
    if len(axis) == x.ndim:
        return broadcast_to(ct, x.shape)
    return broadcast_to(reshape(ct, tuple([1 if a in axis else n for a, n in enumerate(x.shape)])), x.shape)


sum_p = linear("sum", _sum_run, _sum_abstract, _sum_transpose, batch=batch_reduction(sum), positive=True)


@public
def mean(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Return the arithmetic mean of the elements along axes; of none it is nan.

    Args:
        x: any shape; integers are averaged in the default dtype.
        axis: one axis, several, or all (None).
        keepdims: keeps the averaged axes, with length 1.

    >>> mean(broadcast_to(1.0, (2, 3)))
    Array(1., dtype=float32)
    """
    aval = aval_of(x, "mean")
    axes = normalize_axes(axis, aval.ndim, "mean")
    count = 1
    for a in axes:
        count *= aval.shape[a]
    total = sum(x, axis, keepdims=keepdims)
    return total / count


