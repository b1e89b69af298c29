"""Functions that pass over nan: sums, moments, extremes and their places; and what nan is replaced by."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from afx.core.array import Array, ArrayLike
from afx.core.aval import aval_of, normalize_axes
from afx.core.dtypes import promote, real_dtype
from afx.core.functions import public
from afx.core.primitive import Primitive
from afx.core.tracer import bind2
from afx.errors import ArgumentError, DtypeError
from afx.ops._kinds import binary, reduction
from afx.ops.arithmetic import abs as abs_
from afx.ops.arithmetic import sqrt
from afx.ops.comparison import isnan
from afx.ops.complex import imag, real
from afx.ops.cumulative import cumprod, cumsum
from afx.ops.moments import vector_norm
from afx.ops.reductions import (
    Axis,
    batch_reduction,
    extreme_abstract,
    numpy_of,
    prod,
    reduce_over,
    shared,
    sum,
)
from afx.ops.selection import where
from afx.ops.shaping import astype
from afx.ops.sorting import extreme_place, place_op

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "fmax",
    "fmin",
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]


def _filled(x: ArrayLike, value: float, dtype: DTypeLike | None, who: str) -> ArrayLike:
    """Return x with a number in the places of nan; they have derivative 0."""
    y = x if dtype is None else astype(x, dtype)
    return where(isnan(y), value, y) if aval_of(y, who).dtype.kind in "fc" else y


# -- sums and products ------------------------------------------------------------------------------------------------
@public
def nansum(x: ArrayLike, axis: Axis = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Array:
    """Return the sum of the elements that are not nan along axes, 0 where there are none; arguments are `sum`'s.

    >>> nansum(np.array([1.0, np.nan, 2.0]))
    Array(3., dtype=float64)
    """
    return sum(_filled(x, 0, dtype, "nansum"), axis, keepdims=keepdims)


@public
def nanprod(x: ArrayLike, axis: Axis = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Array:
    """Return the product of the elements that are not nan along axes, 1 where there are none; arguments are `prod`'s.

    >>> nanprod(np.array([3.0, np.nan, 2.0]))
    Array(6., dtype=float64)
    """
    return prod(_filled(x, 1, dtype, "nanprod"), axis, keepdims=keepdims)


@public
def nancumsum(x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Array:
    """Return the running sum along an axis with nan as 0; arguments are those of `cumsum`.

    >>> nancumsum(np.array([1.0, np.nan, 2.0]))
    Array([1., 1., 3.], dtype=float64)
    """
    return cumsum(_filled(x, 0, dtype, "nancumsum"), axis)


@public
def nancumprod(x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Array:
    """Return the running product along an axis with nan as 1; arguments are those of `cumprod`.

    >>> nancumprod(np.array([3.0, np.nan, 2.0]))
    Array([3., 3., 6.], dtype=float64)
    """
    return cumprod(_filled(x, 1, dtype, "nancumprod"), axis)


# -- moments ----------------------------------------------------------------------------------------------------------
@public
def nanmean(x: ArrayLike, axis: Axis = None, *, dtype: DTypeLike | None = None, keepdims: bool = False) -> Array:
    """Return the mean of the elements that are not nan along axes, nan where there are none.

    Args:
        x: any shape; integers are averaged in the default dtype.
        axis: one axis, several, or all (None).
        dtype: converts x first.
        keepdims: keeps the axes, with length 1.

    >>> nanmean(np.array([1.0, np.nan, 2.0]))
    Array(1.5, dtype=float64)
    """
    y = _floating(x, dtype, "nanmean")
    count = sum(~isnan(y), axis, keepdims=keepdims)
    return _divided(nansum(y, axis, keepdims=keepdims), count)


def _floating(x: ArrayLike, dtype: DTypeLike | None, who: str) -> Array:
    aval = aval_of(x, who)
    return astype(x, promote((aval.dtype,), (aval.weak,), floating=True) if dtype is None else dtype)


def _divided(total: Array, count: Array) -> Array:
    """Return a sum over a number that is made of counts, nan where that is not positive."""
    return total / _positive(count, total)


def _positive(count: Array, like: Array) -> Array:
    """Return a number in the dtype of another, nan where it is not positive."""
    return where(count > 0, astype(count, real_dtype(like.dtype)), math.nan)


def _deviations(x: ArrayLike, axis: Axis, dtype: DTypeLike | None, who: str) -> tuple[Array, Array, tuple[int, ...]]:
    """Return deviations from the mean, 0 where nan, and how many are not nan, with the axes kept."""
    y = _floating(x, dtype, who)
    axes = normalize_axes(axis, y.ndim, who)
    holes = isnan(y)
    count = sum(~holes, axes, keepdims=True)
    mean = _divided(sum(where(holes, 0, y), axes, keepdims=True), count)
    return where(holes, 0, y - mean), count, axes


@public
def nanvar(
    x: ArrayLike,
    axis: Axis = None,
    *,
    dtype: DTypeLike | None = None,
    correction: float = 0,
    ddof: float = 0,
    keepdims: bool = False,
) -> Array:
    """Return the variance of the elements that are not nan along axes, nan where there are not enough.

    Arguments are those of `var`, and ``dtype``, which converts x first.

    >>> nanvar(np.array([1.0, np.nan, 3.0]))
    Array(1., dtype=float64)
    """
    d, count, axes = _deviations(x, axis, dtype, "nanvar")
    square = abs_(d) ** 2 if d.dtype.kind == "c" else d * d
    return _divided(sum(square, axes, keepdims=keepdims), _rest(count, axes, correction + ddof, keepdims))


def _rest(count: Array, axes: tuple[int, ...], correction: float, keepdims: bool) -> Array:
    number = count - correction
    return number if keepdims else number.reshape(tuple([n for a, n in enumerate(count.shape) if a not in axes]))


@public
def nanstd(
    x: ArrayLike,
    axis: Axis = None,
    *,
    dtype: DTypeLike | None = None,
    correction: float = 0,
    ddof: float = 0,
    keepdims: bool = False,
) -> Array:
    """Return the standard deviation of the elements that are not nan along axes; its derivative at equal ones is 0.

    Arguments are those of `nanvar`.

    >>> nanstd(np.array([1.0, np.nan, 3.0]))
    Array(1., dtype=float64)
    """
    d, count, axes = _deviations(x, axis, dtype, "nanstd")
    number = _rest(count, axes, correction + ddof, keepdims)
    return vector_norm(d, axes, keepdims=keepdims) / sqrt(_positive(number, d))


# -- extremes ---------------------------------------------------------------------------------------------------------
@public
def fmax(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the larger of x and y, the other one where either is nan; at a tie each has half of the derivative.

    >>> fmax(1.0, math.nan)
    Array(1., dtype=float32)
    """
    return bind2(fmax_p, x, y)


def _chosen(x: Array, y: Array, beyond: Array) -> Array:
    """Return 1 where x is chosen, one half at a tie, 0 elsewhere."""
    return where(x == y, 0.5, beyond | (isnan(y) & ~isnan(x))).astype(x.dtype)


fmax_p = binary(
    "fmax",
    np.fmax,
    (lambda _z, x, y: _chosen(x, y, x > y), lambda _z, x, y: _chosen(y, x, y > x)),
    kinds="biuf",
    masking=True,
    commutative=True,
    bounded=True,
)


@public
def fmin(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the smaller of x and y, the other one where either is nan; at a tie each has half of the derivative.

    >>> fmin(1.0, math.nan)
    Array(1., dtype=float32)
    """
    return bind2(fmin_p, x, y)


fmin_p = binary(
    "fmin",
    np.fmin,
    (lambda _z, x, y: _chosen(x, y, x < y), lambda _z, x, y: _chosen(y, x, y < x)),
    kinds="biuf",
    masking=True,
    commutative=True,
    bounded=True,
)


@public
def nanmax(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Return the largest element that is not nan along axes, nan where all are; tied elements share the derivative.

    Raises:
        ShapeError: there are no elements to compare.

    >>> nanmax(np.array([1.0, np.nan]))
    Array(1., dtype=float64)
    """
    return reduce_over(nanmax_p, _cut(x), axis, keepdims, "nanmax")


def _cut(x: ArrayLike) -> ArrayLike:
    """Return x with its nan cut off from derivatives, so that what made them has none."""
    return _filled(x, math.nan, None, "nanmax")


def _reducing(name: str, ufunc: np.ufunc, fn: Any) -> Primitive:
    def run(x: Any, *, axis: tuple[int, ...]) -> Any:
        y = numpy_of(x)
        if y.dtype.kind == "c":
            raise DtypeError(f"{name}: complex numbers have no order: got {aval_of(x)}; take the abs or a part")
        return ufunc.reduce(y, axis=axis)

    return reduction(name, run, extreme_abstract(name), shared, batch=batch_reduction(fn), smooth=False, reduces=ufunc)


nanmax_p = _reducing("nanmax", np.fmax, nanmax)


@public
def nanmin(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Return the smallest element that is not nan along axes, nan where all are; tied elements share the derivative.

    Raises:
        ShapeError: there are no elements to compare.

    >>> nanmin(np.array([1.0, np.nan]))
    Array(1., dtype=float64)
    """
    return reduce_over(nanmin_p, _cut(x), axis, keepdims, "nanmin")


nanmin_p = _reducing("nanmin", np.fmin, nanmin)


# -- places -----------------------------------------------------------------------------------------------------------
@public
def nanargmax(x: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """Return the index of the first largest element that is not nan along an axis, of all where none is named.

    Raises:
        ArgumentError: all elements are nan.

    >>> nanargmax(np.array([1.0, np.nan, 3.0]))
    Array(2, dtype=int64)
    """
    return extreme_place(nanargmax_p, x, axis, keepdims)


def _place(name: str, fn: Any, native: Any) -> Primitive:
    def run(x: Any, *, axis: int) -> Any:
        if x.dtype.kind == "f" and np.isnan(x).all(axis=axis).any():
            raise ArgumentError(
                f"{name}: all elements are nan: got {aval_of(x)} along axis {axis}; use argmax or where"
            )
        return native(x, axis=axis)

    return place_op(name, run, fn)


nanargmax_p = _place("nanargmax", nanargmax, np.nanargmax)


@public
def nanargmin(x: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """Return the index of the first smallest element that is not nan along an axis, of all where none is named.

    Raises:
        ArgumentError: all elements are nan.

    >>> nanargmin(np.array([1.0, np.nan, 3.0]))
    Array(0, dtype=int64)
    """
    return extreme_place(nanargmin_p, x, axis, keepdims)


nanargmin_p = _place("nanargmin", nanargmin, np.nanargmin)


# -- replacement ------------------------------------------------------------------------------------------------------
@public
def nan_to_num(
    x: ArrayLike,
    *,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """Return x with nan and infinities replaced by numbers; x has derivative 0 there, the numbers 1.

    Args:
        x: any shape; of complex numbers the parts are treated apart.
        copy: has no effect: arrays are immutable.
        nan: in the place of nan.
        posinf: in the place of infinity, the largest number of the dtype unless given.
        neginf: in the place of -infinity, the smallest number of the dtype unless given.

    >>> nan_to_num(np.array([1.0, np.nan]))
    Array([1., 0.], dtype=float64)
    """
    aval = aval_of(x, "nan_to_num")
    if aval.dtype.kind == "c":
        parts = [nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf) for part in (real(x), imag(x))]
        return (parts[0] + parts[1] * 1j).astype(aval.dtype)
    y = astype(x, aval.dtype)
    if aval.dtype.kind != "f":
        return y
    limits = np.finfo(aval.dtype)
    high, low = (limits.max if posinf is None else posinf), (limits.min if neginf is None else neginf)
    finite = where(y == math.inf, astype(high, aval.dtype), where(y == -math.inf, astype(low, aval.dtype), y))
    return where(isnan(y), astype(nan, aval.dtype), finite)
