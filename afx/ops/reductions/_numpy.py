"""NumPy reductions: the fastest call for each layout, and accumulation dtypes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Shape, aval_of
from afx.core.dtypes import DType, float16, float32, float64, promote
from afx.core.reductions import DOT_SUM_MAX_ELEMENTS, DOT_SUM_MAX_LENGTH, DOT_SUM_MIN_LENGTH, reduce_in_transpose
from afx.ops.manipulation.shape import astype

__all__ = ["accumulation_dtype", "beside", "largest", "reduced_by", "sum_keepdims"]


def reduced_by(ufunc: np.ufunc, x: Any, axis: Shape) -> Any:
    """Return NumPy's reduction, which begins anew with each row: extremes of short ones are taken in the transpose."""
    if reduce_in_transpose(ufunc, x.shape, axis):
        last = x.ndim - 1
        return ufunc.reduce(x.transpose((last, *range(last))).copy(), axis=0)
    return ufunc.reduce(x, axis=axis)


def largest(x: Any, axis: Shape) -> Any:
    """Return the largest elements along axes, which stay; -inf of none."""
    shape = [1 if a in axis else n for a, n in enumerate(x.shape)]
    return reduced_by(np.maximum, x, axis).reshape(shape) if x.size else np.full(shape, -np.inf, x.dtype)


def sum_keepdims(x: Any, axis: Shape) -> Any:
    """Return the sums along axes, which stay: those of rows in BLAS, three times as fast; float16 gives float32."""
    if axis != (x.ndim - 1,) or not DOT_SUM_MIN_LENGTH <= x.shape[-1] <= DOT_SUM_MAX_LENGTH or x.dtype.char not in "fd":
        wide = np.float32 if x.dtype == np.float16 else x.dtype  # which holds the sum of many
        return np.add.reduce(x, axis=axis, keepdims=True, dtype=wide)
    ones = _ones(x.shape[-1], x.dtype)
    if x.ndim == 2 and len(x) > 1 and x.size <= DOT_SUM_MAX_ELEMENTS:
        return x.dot(ones).reshape(-1, 1)
    return np.vecdot(x, ones)[..., None]


@lru_cache(maxsize=64)
def _ones(size: int, dtype: DType) -> Any:
    return np.ones(size, dtype)


def accumulation_dtype(x: ArrayLike, who: str) -> tuple[DType, DType, bool]:
    """Return the dtype in which numbers are added up for an average, that of the average, and whether to convert to it.

    Integers of more than two bytes are converted even where the average has that dtype too: sums of them overflow.
    """
    known: Any = getattr(x, "dtype", None)
    if known is float32 or known is float64:
        return known, known, False
    aval = aval_of(x, who)
    natural = promote((aval.dtype,), (aval.weak,), floating=True)
    overflows = aval.dtype.kind in "iu" and aval.dtype.itemsize > 2
    wide = float64 if overflows else float32 if natural == float16 else natural
    return wide, natural, overflows or wide != natural


def beside(x: ArrayLike, initial: ArrayLike | None) -> ArrayLike:
    """Return a number in the dtype of the value that a reduction begins with: by itself it takes the default dtype."""
    if initial is None or isinstance(x, (Array, np.ndarray)):
        return x
    avals = [aval_of(x), aval_of(initial)]
    return astype(x, promote(tuple([a.dtype for a in avals]), tuple([a.weak for a in avals])))
