"""Nan-aware reductions: sums, products, moments and extremes that pass over nan, and its replacement."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from afx.core import Array, ArrayLike, Params, Primitive, Value, Values, aval_of, bind2, refuse_out, register_function
from afx.errors import ArgumentError, DtypeError
from afx.ops._basic import numpy_of
from afx.ops._kinds.elementwise import binary, reduction
from afx.ops.creation.creation import operand_of
from afx.ops.elementwise.comparison import isnan, where
from afx.ops.elementwise.complex import imag, real
from afx.ops.manipulation.shape import astype
from afx.ops.reductions.cumulative import cumprod, cumsum
from afx.ops.reductions.moments import mean_square, moment, root_mean_square
from afx.ops.reductions.sums import (
    Axis,
    extreme_abstract,
    mean,
    prod,
    reduce_over,
    reduce_with_initial,
    sum,
    tie_weights,
)
from afx.ops.sorting.sort import arg_extremum, arg_reduction

# --- Nan-aware reductions


def _present(x: ArrayLike, among: ArrayLike | None) -> Array:
    """Return where x holds a number and is not left out: the ``where`` with which a reduction passes over nan."""
    numbers = ~isnan(x)
    return numbers if among is None else numbers & among


def _fill_nan(x: ArrayLike, value: float, who: str) -> ArrayLike:
    """Return x with a number instead of nan, where the derivative is 0."""
    return where(isnan(x), value, x) if aval_of(x, who).dtype.kind in "fc" else x


# -- sums and products --
@register_function
def nansum(
    x: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the sum of the elements that are not nan along axes, 0 where there are none; arguments are `sum`'s.

    >>> nansum(np.array([1.0, np.nan, 2.0]))
    Array(3., dtype=float64)
    """
    x = operand_of(x, out, "nansum")
    numbers = x if dtype is None else _fill_nan(x, 0, "nansum")  # nan of no whole dtype
    return sum(numbers, axis, dtype=dtype, keepdims=keepdims, initial=initial, where=_present(x, where))


@register_function
def nanprod(
    x: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the product of the elements that are not nan along axes, 1 where there are none; arguments are `prod`'s.

    >>> nanprod(np.array([3.0, np.nan, 2.0]))
    Array(6., dtype=float64)
    """
    x = operand_of(x, out, "nanprod")
    numbers = x if dtype is None else _fill_nan(x, 1, "nanprod")  # nan of no whole dtype
    return prod(numbers, axis, dtype=dtype, keepdims=keepdims, initial=initial, where=_present(x, where))


@register_function
def nancumsum(x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Return the running sum along an axis with nan as 0; arguments are those of `cumsum`.

    >>> nancumsum(np.array([1.0, np.nan, 2.0]))
    Array([1., 1., 3.], dtype=float64)
    """
    if out is not None:
        refuse_out(out, "nancumsum")
    return cumsum(_fill_nan(x, 0, "nancumsum"), axis, dtype)


@register_function
def nancumprod(x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Return the running product along an axis with nan as 1; arguments are those of `cumprod`.

    >>> nancumprod(np.array([3.0, np.nan, 2.0]))
    Array([3., 3., 6.], dtype=float64)
    """
    if out is not None:
        refuse_out(out, "nancumprod")
    return cumprod(_fill_nan(x, 1, "nancumprod"), axis, dtype)


# -- moments --
@register_function
def nanmean(
    x: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Return the mean of the elements that are not nan along axes, nan where there are none.

    Args:
        x: any shape; integers are averaged in the default dtype.
        axis: one axis, several, or all (None).
        dtype: converts x first.
        out: None: results are not written into arrays.
        keepdims: keeps the axes, with length 1.
        where: bool, broadcasting to x: which elements are averaged.

    >>> nanmean(np.array([1.0, np.nan, 2.0]))
    Array(1.5, dtype=float64)
    """
    x = operand_of(x, out, "nanmean")
    return mean(x, axis, dtype=dtype, keepdims=keepdims, where=_present(x, where))


@register_function
def nanvar(
    x: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float = 0,
) -> Array:
    """Return the variance of the elements that are not nan along axes, nan where there are not enough.

    Arguments are those of `var`.

    >>> nanvar(np.array([1.0, np.nan, 3.0]))
    Array(1., dtype=float64)
    """
    x = operand_of(x, out, "nanvar")
    present = _present(x, where)
    return moment(mean_square, x, axis, dtype, (correction, ddof), keepdims, mean, present, "nanvar", math.nan)


@register_function
def nanstd(
    x: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float = 0,
) -> Array:
    """Return the standard deviation of the elements that are not nan along axes; its derivative at equal ones is 0.

    Arguments are those of `nanvar`.

    >>> nanstd(np.array([1.0, np.nan, 3.0]))
    Array(1., dtype=float64)
    """
    x = operand_of(x, out, "nanstd")
    present = _present(x, where)
    return moment(root_mean_square, x, axis, dtype, (correction, ddof), keepdims, mean, present, "nanstd", math.nan)


# -- replacement --
@register_function
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """Return x with nan and infinities replaced by numbers; x has derivative 0 there, the numbers 1.

    Args:
        x: any shape; of complex numbers the parts are treated apart.
        copy: has no effect: arrays are immutable.
        nan: the number instead of nan.
        posinf: the number instead of infinity, the largest number of the dtype unless given.
        neginf: the number instead of -infinity, the smallest number of the dtype unless given.

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


# --- Nan-aware extremes: values and indices of extremes that pass over nan


@register_function
def fmax(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the larger of x and y, the other one where either is nan; at a tie each has half of the derivative.

    >>> fmax(1.0, math.nan)
    Array(1., dtype=float32)
    """
    return bind2(fmax_p, x, y)


_where: Any = np.where  # its result type is not known to checkers


def _choose(extreme: np.ufunc) -> Any:
    """Return a function of two numbers: the extreme one, or the one that is no nan.

    Which of two zeros np.fmax takes depends on their places in its operands.
    """

    def choose(x: Any, y: Any) -> Any:
        z = extreme(x, y)
        return z if z.dtype.kind != "f" else _where(np.isnan(z), _where(np.isnan(x), y, x), z)

    return choose


def _weigh_choice(x: Array, y: Array, beyond: Array) -> Array:
    """Return 1 where x is chosen, one half at a tie, 0 elsewhere."""
    return where(x == y, 0.5, beyond | (isnan(y) & ~isnan(x))).astype(x.dtype)


fmax_p: Primitive = binary(
    "fmax",
    _choose(np.maximum),
    (lambda _z, x, y: _weigh_choice(x, y, x > y), lambda _z, x, y: _weigh_choice(y, x, y > x)),
    kinds="biuf",
    masks_cotangent=True,
    commutative=True,
    finite_partials=True,
    traceable=True,
)


@register_function
def fmin(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the smaller of x and y, the other one where either is nan; at a tie each has half of the derivative.

    >>> fmin(1.0, math.nan)
    Array(1., dtype=float32)
    """
    return bind2(fmin_p, x, y)


fmin_p: Primitive = binary(
    "fmin",
    _choose(np.minimum),
    (lambda _z, x, y: _weigh_choice(x, y, x < y), lambda _z, x, y: _weigh_choice(y, x, y < x)),
    kinds="biuf",
    masks_cotangent=True,
    commutative=True,
    finite_partials=True,
    traceable=True,
)


@register_function
def nanmax(
    x: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the largest element that is not nan along axes, nan where all are; tied elements share the derivative.

    Arguments are those of `max`.

    Raises:
        ShapeError: there are no elements to compare.
        ArgumentError: ``where`` without ``initial``.

    >>> nanmax(np.array([1.0, np.nan]))
    Array(1., dtype=float64)
    """
    x = operand_of(x, out, "nanmax")
    if where is not None or initial is not None:
        return reduce_with_initial(nanmax, fmax, x, axis, keepdims, initial, where)
    return reduce_over(nanmax_p, _cut(x), axis, keepdims, "nanmax")


def _cut(x: ArrayLike) -> ArrayLike:
    """Return x with its nan cut off from derivatives, so that what made them has none."""
    return where(isnan(x), math.nan, x) if aval_of(x, "nanmax").dtype.kind == "f" else x


def _reducing(name: str, extreme: Any, least: float) -> Primitive:
    def compute(x: Any, *, axis: tuple[int, ...]) -> Any:
        if x.dtype.kind != "f":
            return extreme(x, axis=axis)
        lost = np.isnan(x)
        return _where(np.all(lost, axis=axis), math.nan, extreme(_where(lost, least, x), axis=axis))

    def run(x: Any, *, axis: tuple[int, ...]) -> Any:
        y = numpy_of(x)
        if y.dtype.kind == "c":
            raise DtypeError(f"{name}: complex numbers have no order: got {aval_of(x)}; take the abs or a part")
        return compute(y, axis=axis)

    def decompose(xs: Values, params: Params) -> Value:
        return compute(xs[0], axis=params["axis"])

    return reduction(name, run, extreme_abstract(name), tie_weights, decompose=decompose, opaque=True)


nanmax_p: Primitive = _reducing("nanmax", np.max, -math.inf)


@register_function
def nanmin(
    x: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the smallest element that is not nan along axes, nan where all are; tied elements share the derivative.

    Arguments are those of `max`.

    Raises:
        ShapeError: there are no elements to compare.
        ArgumentError: ``where`` without ``initial``.

    >>> nanmin(np.array([1.0, np.nan]))
    Array(1., dtype=float64)
    """
    x = operand_of(x, out, "nanmin")
    if where is not None or initial is not None:
        return reduce_with_initial(nanmin, fmin, x, axis, keepdims, initial, where)
    return reduce_over(nanmin_p, _cut(x), axis, keepdims, "nanmin")


nanmin_p: Primitive = _reducing("nanmin", np.min, math.inf)


# -- indices --
@register_function
def nanargmax(x: ArrayLike, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Array:
    """Return the index of the first largest element that is not nan along an axis, of all where none is named.

    Raises:
        ArgumentError: all elements are nan.

    >>> nanargmax(np.array([1.0, np.nan, 3.0]))
    Array(2, dtype=int64)
    """
    if out is not None:
        refuse_out(out, "nanargmax")
    return arg_extremum(nanargmax_p, x, axis, keepdims)


def _place(name: str, native: Any) -> Primitive:
    """Make an op of NumPy's function, whose error where all elements are nan is afx's."""

    def run(x: Any, *, axis: int) -> Any:
        if x.dtype.kind == "f" and np.isnan(x).all(axis=axis).any():
            raise ArgumentError(
                f"{name}: All-NaN slice encountered: got {aval_of(x)} along axis {axis}; use argmax or where"
            )
        return native(x, axis=axis)

    return arg_reduction(name, run)


nanargmax_p: Primitive = _place("nanargmax", np.nanargmax)


@register_function
def nanargmin(x: ArrayLike, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Array:
    """Return the index of the first smallest element that is not nan along an axis, of all where none is named.

    Raises:
        ArgumentError: all elements are nan.

    >>> nanargmin(np.array([1.0, np.nan, 3.0]))
    Array(0, dtype=int64)
    """
    if out is not None:
        refuse_out(out, "nanargmin")
    return arg_extremum(nanargmin_p, x, axis, keepdims)


nanargmin_p: Primitive = _place("nanargmin", np.nanargmin)
