"""Trigonometry: circular and hyperbolic functions, angles in degrees, and `sinc`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind1, bind2
from afx.ops._kinds.elementwise import binary, unary
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import hypot, sqrt
from afx.ops.elementwise.comparison import where


@register_function
def sin(x: ArrayLike) -> Array:
    """Return the sine of an angle in radians.

    >>> sin(0.5).round(4)
    Array(0.4794, dtype=float32)
    """
    return bind1(sin_p, x)


sin_p: Primitive = unary("sin", np.sin, lambda _z, x: cos(x), kinds="fc", promotes_to_float=True, finite_partials=True)


@register_function
def cos(x: ArrayLike) -> Array:
    """Return the cosine of an angle in radians.

    >>> cos(0.5).round(4)
    Array(0.8776, dtype=float32)
    """
    return bind1(cos_p, x)


cos_p: Primitive = unary("cos", np.cos, lambda _z, x: -sin(x), kinds="fc", promotes_to_float=True, finite_partials=True)


@register_function
def tan(x: ArrayLike) -> Array:
    """Return the tangent of an angle in radians.

    >>> tan(0.5).round(4)
    Array(0.5463, dtype=float32)
    """
    return bind1(tan_p, x)


tan_p: Primitive = unary("tan", np.tan, lambda z, _x: 1 + z * z, kinds="fc", promotes_to_float=True, domain=(-1.0, 1.0))


@register_function
def asin(x: ArrayLike) -> Array:
    """Return the angle in radians whose sine is x; its derivative at -1 and 1 is inf.

    >>> asin(0.5).round(4)
    Array(0.5236, dtype=float32)
    """
    return bind1(asin_p, x)


asin_p: Primitive = unary(
    "asin", np.arcsin, lambda _z, x: 1 / sqrt((1 - x) * (1 + x)), kinds="fc", promotes_to_float=True, domain=(-0.9, 0.9)
)

arcsin = asin


@register_function
def acos(x: ArrayLike) -> Array:
    """Return the angle in radians whose cosine is x; its derivative at -1 and 1 is -inf.

    >>> acos(0.5).round(4)
    Array(1.0472, dtype=float32)
    """
    return bind1(acos_p, x)


acos_p: Primitive = unary(
    "acos",
    np.arccos,
    lambda _z, x: -1 / sqrt((1 - x) * (1 + x)),
    kinds="fc",
    promotes_to_float=True,
    domain=(-0.9, 0.9),
)

arccos = acos


@register_function
def atan(x: ArrayLike) -> Array:
    """Return the angle in radians, from -π/2 to π/2, whose tangent is x.

    >>> atan(0.5).round(4)
    Array(0.4636, dtype=float32)
    """
    return bind1(atan_p, x)


atan_p: Primitive = unary(
    "atan", np.arctan, lambda _z, x: 1 / (1 + x * x), kinds="fc", promotes_to_float=True, finite_partials=True
)

arctan = atan


@register_function
def atan2(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the angle in radians, from -π to π, of the point whose ordinate is x and abscissa y, as NumPy's order is.

    Its derivatives at the origin and at infinity are 0.

    >>> atan2(1.0, 2.0).round(4)
    Array(0.4636, dtype=float32)
    """
    return bind2(atan2_p, x, y)


def _slope(a: Array, x: Array, y: Array) -> Array:
    """Return ``a / (x² + y²)`` without overflow, 0 at the origin and at infinity."""
    r = hypot(x, y)
    ordinary = (r != 0) & (r != math.inf)
    r = where(ordinary, r, math.inf)
    return where(ordinary, a, 0) / r / r


atan2_p: Primitive = binary(
    "atan2",
    np.arctan2,
    (lambda _z, x, y: _slope(y, x, y), lambda _z, x, y: _slope(-x, x, y)),
    kinds="f",
    promotes_to_float=True,
    domain=(0.5, 2.0),
)

arctan2 = atan2


@register_function
def sinh(x: ArrayLike) -> Array:
    """Return the hyperbolic sine.

    >>> sinh(0.5).round(4)
    Array(0.5211, dtype=float32)
    """
    return bind1(sinh_p, x)


sinh_p: Primitive = unary("sinh", np.sinh, lambda _z, x: cosh(x), kinds="fc", promotes_to_float=True)


@register_function
def cosh(x: ArrayLike) -> Array:
    """Return the hyperbolic cosine.

    >>> cosh(0.5).round(4)
    Array(1.1276, dtype=float32)
    """
    return bind1(cosh_p, x)


cosh_p: Primitive = unary("cosh", np.cosh, lambda _z, x: sinh(x), kinds="fc", promotes_to_float=True)


@register_function
def tanh(x: ArrayLike) -> Array:
    """Return the hyperbolic tangent.

    >>> tanh(0.5).round(4)
    Array(0.4621, dtype=float32)
    """
    return bind1(tanh_p, x)


tanh_p: Primitive = unary(
    "tanh", np.tanh, lambda z, _x: 1 - z * z, kinds="fc", promotes_to_float=True, finite_partials=True
)


@register_function
def asinh(x: ArrayLike) -> Array:
    """Return the number whose hyperbolic sine is x.

    >>> asinh(0.5).round(4)
    Array(0.4812, dtype=float32)
    """
    return bind1(asinh_p, x)


def _asinh_slope(_z: Array, x: Array) -> Array:
    return 1 / (sqrt(x * x + 1) if x.dtype.kind == "c" else hypot(x, 1))  # x² would overflow


asinh_p: Primitive = unary("asinh", np.arcsinh, _asinh_slope, kinds="fc", promotes_to_float=True, finite_partials=True)

arcsinh = asinh


@register_function
def acosh(x: ArrayLike) -> Array:
    """Return the number, 0 or more, whose hyperbolic cosine is x; its derivative at 1 is inf.

    >>> acosh(1.5).round(4)
    Array(0.9624, dtype=float32)
    """
    return bind1(acosh_p, x)


acosh_p: Primitive = unary(
    "acosh",
    np.arccosh,
    lambda _z, x: 1 / sqrt(x - 1) / sqrt(x + 1),
    kinds="fc",
    promotes_to_float=True,
    domain=(1.1, 3.0),
)

arccosh = acosh


@register_function
def atanh(x: ArrayLike) -> Array:
    """Return the number whose hyperbolic tangent is x; its derivative at -1 and 1 is inf.

    >>> atanh(0.5).round(4)
    Array(0.5493, dtype=float32)
    """
    return bind1(atanh_p, x)


atanh_p: Primitive = unary(
    "atanh", np.arctanh, lambda _z, x: 1 / ((1 - x) * (1 + x)), kinds="fc", promotes_to_float=True, domain=(-0.9, 0.9)
)

arctanh = atanh


# -- angles --
@register_function
def deg2rad(x: ArrayLike) -> Array:
    """Return angles given in degrees in radians.

    >>> deg2rad(180.0)
    Array(3.1415927, dtype=float32)
    """
    return bind1(deg2rad_p, x)


deg2rad_p: Primitive = unary("deg2rad", np.deg2rad, math.pi / 180, kinds="f", promotes_to_float=True)

radians = deg2rad


@register_function
def rad2deg(x: ArrayLike) -> Array:
    """Return angles given in radians in degrees.

    >>> rad2deg(1.0).round(4)
    Array(57.2958, dtype=float32)
    """
    return bind1(rad2deg_p, x)


rad2deg_p: Primitive = unary("rad2deg", np.rad2deg, 180 / math.pi, kinds="f", promotes_to_float=True)

degrees = rad2deg


# -- sinc --
@register_function
def sinc(x: ArrayLike) -> Array:
    """Return ``sin(πx) / (πx)``, 1 at 0; its derivatives of every order are right at 0 and near it.

    >>> sinc(0.5).round(4)
    Array(0.6366, dtype=float32)
    """
    return bind1(sinc_p, x)


def _sinc_run(x: Any) -> Any:
    u = np.multiply(x, math.pi)
    return np.sin(u) / np.where(u == 0, 1, u) + (u == 0)


# cos(u)/u - sin(u)/u² loses its digits near 0; within this bound the series is exact to the last digit, and so are the
# series of its first derivatives.
SINC_BOUND = 1.5
SINC_SERIES = [(-1) ** n * 2 * n / math.factorial(2 * n + 1) for n in range(1, 14)]


def _sinc_slope(z: Array, x: Array) -> Array:
    u = x * math.pi
    near = abs_(u) < SINC_BOUND
    v = where(near, u, 0.0)
    square, total = v * v, v * 0.0
    for coefficient in reversed(SINC_SERIES):
        total = total * square + coefficient
    return where(near, total * v, (cos(u) - z) / where(near, 1.0, u)) * math.pi


sinc_p: Primitive = unary(
    "sinc", _sinc_run, _sinc_slope, kinds="f", promotes_to_float=True, finite_partials=True, traceable=True
)
