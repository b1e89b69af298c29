"""Nan-aware extremes: values and indices of extremes that pass over nan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.options import refuse_out
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind2
from afx.errors import ArgumentError, DtypeError
from afx.ops._basic import numpy_of
from afx.ops._kinds.elementwise import binary
from afx.ops._kinds.reduction import reduction
from afx.ops.creation.creation import SEQUENCES, operand_of
from afx.ops.elementwise.comparison import isnan
from afx.ops.elementwise.where import where
from afx.ops.reductions.sums import Axis, extreme_abstract, reduce_over, reduce_with_initial, tie_weights
from afx.ops.sorting.sort import arg_extremum, arg_reduction

__all__ = ["fmax", "fmin", "nanargmax", "nanargmin", "nanmax", "nanmin"]


@register_function
def fmax(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the larger of x and y, the other one where either is nan; at a tie each has half of the derivative.

    >>> fmax(1.0, math.nan)
    Array(1., dtype=float32)
    """
    return bind2(fmax_p, x, y)


def _weigh_choice(x: Array, y: Array, beyond: Array) -> Array:
    """Return 1 where x is chosen, one half at a tie, 0 elsewhere."""
    return where(x == y, 0.5, beyond | (isnan(y) & ~isnan(x))).astype(x.dtype)


fmax_p: Primitive = binary(
    "fmax",
    np.fmax,
    (lambda _z, x, y: _weigh_choice(x, y, x > y), lambda _z, x, y: _weigh_choice(y, x, y > x)),
    kinds="biuf",
    masks_cotangent=True,
    commutative=True,
    finite_partials=True,
    smooth=False,
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
    np.fmin,
    (lambda _z, x, y: _weigh_choice(x, y, x < y), lambda _z, x, y: _weigh_choice(y, x, y < x)),
    kinds="biuf",
    masks_cotangent=True,
    commutative=True,
    finite_partials=True,
    smooth=False,
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
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "nanmax")
    if where is not None or initial is not None:
        return reduce_with_initial(nanmax, fmax, x, axis, keepdims, initial, where)
    return reduce_over(nanmax_p, _cut(x), axis, keepdims, "nanmax")


def _cut(x: ArrayLike) -> ArrayLike:
    """Return x with its nan cut off from derivatives, so that what made them has none."""
    return where(isnan(x), math.nan, x) if aval_of(x, "nanmax").dtype.kind == "f" else x


def _reducing(name: str, ufunc: np.ufunc, fn: Any) -> Primitive:
    def run(x: Any, *, axis: tuple[int, ...]) -> Any:
        y = numpy_of(x)
        if y.dtype.kind == "c":
            raise DtypeError(f"{name}: complex numbers have no order: got {aval_of(x)}; take the abs or a part")
        return ufunc.reduce(y, axis=axis)

    return reduction(name, run, extreme_abstract(name), tie_weights, smooth=False, reduce_ufunc=ufunc)


nanmax_p: Primitive = _reducing("nanmax", np.fmax, nanmax)


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
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "nanmin")
    if where is not None or initial is not None:
        return reduce_with_initial(nanmin, fmin, x, axis, keepdims, initial, where)
    return reduce_over(nanmin_p, _cut(x), axis, keepdims, "nanmin")


nanmin_p: Primitive = _reducing("nanmin", np.fmin, nanmin)


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


def _place(name: str, fn: Any, native: Any) -> Primitive:
    def run(x: Any, *, axis: int) -> Any:
        if x.dtype.kind == "f" and np.isnan(x).all(axis=axis).any():
            raise ArgumentError(
                f"{name}: All-NaN slice encountered: got {aval_of(x)} along axis {axis}; use argmax or where"
            )
        return native(x, axis=axis)

    return arg_reduction(name, run, fn)


nanargmax_p: Primitive = _place("nanargmax", nanargmax, np.nanargmax)


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


nanargmin_p: Primitive = _place("nanargmin", nanargmin, np.nanargmin)
