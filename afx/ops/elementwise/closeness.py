"""Closeness: comparisons of arrays up to a tolerance."""

from __future__ import annotations

import math

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import broadcast_shapes
from afx.core.options import refuse_out
from afx.core.registry import register_function
from afx.errors import DtypeError
from afx.ops.creation.creation import Nested, asarray
from afx.ops.creation.promotion import promote_operands
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.comparison import equal, isfinite, isnan
from afx.ops.reductions.boolean import all

__all__ = ["allclose", "array_equal", "array_equiv", "isclose", "isneginf", "isposinf"]


@register_function
def isclose(x: Nested, y: Nested, rtol: ArrayLike = 1e-5, atol: ArrayLike = 1e-8, equal_nan: bool = False) -> Array:
    """Tell, elementwise, whether ``|x - y| <= atol + rtol * |y|``; infinities are close to themselves.

    Args:
        x: any shape.
        y: what it is compared with.
        rtol: the difference allowed, relative to y.
        atol: the difference allowed beside that.
        equal_nan: whether nan is close to nan.

    >>> isclose(np.array([1.0, 2.0]), 1.0)
    Array([ True, False], dtype=bool)
    """
    a, b = promote_operands(x, y)
    if b.dtype.kind in "biu":  # differences of unsigned and of the smallest integers are wrong
        b = b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near = abs_(a - b) <= atol + rtol * abs_(b)
    close = (near & isfinite(b)) | equal(a, b)
    return close | (isnan(a) & isnan(b)) if equal_nan else close


@register_function
def allclose(x: Nested, y: Nested, rtol: ArrayLike = 1e-5, atol: ArrayLike = 1e-8, equal_nan: bool = False) -> Array:
    """Tell whether all elements of two arrays, which broadcast, are close; see `isclose`.

    >>> allclose(np.array([1.0, 2.0]), 1.0)
    Array(False, dtype=bool)
    """
    return all(isclose(x, y, rtol, atol, equal_nan))


@register_function
def array_equal(x: Nested, y: Nested, equal_nan: bool = False) -> Array:
    """Tell whether two arrays have the same shape and elements.

    >>> array_equal(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    Array(True, dtype=bool)
    """
    a, b = promote_operands(x, y)
    if a.shape != b.shape:
        return asarray(False)
    same = equal(a, b)
    return all(same | (isnan(a) & isnan(b)) if equal_nan else same)


@register_function
def array_equiv(x: Nested, y: Nested) -> Array:
    """Tell whether two arrays broadcast to the same elements.

    >>> array_equiv(np.array([1.0, 1.0]), 1.0)
    Array(True, dtype=bool)
    """
    a, b = promote_operands(x, y)
    if broadcast_shapes([a.shape, b.shape]) is None:
        return asarray(False)
    return all(equal(a, b))


def _infinite(x: ArrayLike, value: float, who: str) -> Array:
    y = asarray(x)
    if y.dtype.kind == "c":
        raise DtypeError(f"{who}: complex numbers have no sign: got {y.aval}; take a part first")
    return equal(y, value)


@register_function
def isposinf(x: ArrayLike, out: None = None) -> Array:
    """Tell, elementwise, whether x is infinity.

    >>> isposinf(np.array([1.0, np.inf]))
    Array([False,  True], dtype=bool)
    """
    if out is not None:
        refuse_out(out, "isposinf")
    return _infinite(x, math.inf, "isposinf")


@register_function
def isneginf(x: ArrayLike, out: None = None) -> Array:
    """Tell, elementwise, whether x is -infinity.

    >>> isneginf(np.array([1.0, -np.inf]))
    Array([False,  True], dtype=bool)
    """
    if out is not None:
        refuse_out(out, "isneginf")
    return _infinite(x, -math.inf, "isneginf")
