"""Trigonometry: circular and hyperbolic functions, angles in degrees, and `sinc`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, Primitive, bind1, bind2, register_function
from afx.ops._basic import xp
from afx.ops._kinds.elementwise import Parts, binary, unary
from afx.ops.elementwise.arithmetic import abs as abs_, hypot, sqrt, sqrt_parts
from afx.ops.elementwise.comparison import where
from afx.ops.elementwise.exponentials import LOG2


@register_function
def sin(x: ArrayLike) -> Array:
    """Return the sine of an angle in radians.

    >>> sin(0.5).round(4)
    Array(0.4794, dtype=float32)
    """
    return bind1(sin_p, x)


def _turned(function: Callable[[Parts], Parts]) -> Callable[[Parts], Parts]:
    """Return the function ``-i f(i x)``."""

    def turned(x: Parts) -> Parts:
        a, b = function((-x[1], x[0]))
        return b, -a

    return turned


def _sinh_parts(x: Parts) -> Parts:
    return xp.sinh(x[0]) * xp.cos(x[1]), xp.cosh(x[0]) * xp.sin(x[1])


sin_p: Primitive = unary(
    "sin", np.sin, lambda _z, x: cos(x), kinds="fc", finite_partials=True, parts=_turned(_sinh_parts)
)


@register_function
def cos(x: ArrayLike) -> Array:
    """Return the cosine of an angle in radians.

    >>> cos(0.5).round(4)
    Array(0.8776, dtype=float32)
    """
    return bind1(cos_p, x)


def _cosh_parts(x: Parts) -> Parts:
    return xp.cosh(x[0]) * xp.cos(x[1]), xp.sinh(x[0]) * xp.sin(x[1])


cos_p: Primitive = unary(
    "cos", np.cos, lambda _z, x: -sin(x), kinds="fc", finite_partials=True, parts=lambda x: _cosh_parts((-x[1], x[0]))
)


@register_function
def tan(x: ArrayLike) -> Array:
    """Return the tangent of an angle in radians.

    >>> tan(0.5).round(4)
    Array(0.5463, dtype=float32)
    """
    return bind1(tan_p, x)


def _tanh_parts(x: Parts) -> Parts:
    """Return ``tanh(x)`` in Kahan's form (1987)."""
    a, b = x
    is_far = xp.abs(a) > 20.0
    near = xp.where(is_far, 0.0, a)
    tangent, sine = xp.tan(b), xp.sinh(near)
    beta = 1.0 + tangent * tangent
    below = 1.0 + beta * sine * sine
    real, rest = (
        beta * xp.sqrt(1.0 + sine * sine) * sine / below,
        4.0 * xp.sin(b) * xp.cos(b) * xp.exp(-2.0 * xp.abs(a)),
    )
    return xp.where(is_far, xp.sign(a), real), xp.where(is_far, rest, tangent / below)


tan_p: Primitive = unary(
    "tan",
    np.tan,
    lambda z, _x: 1 + z * z,
    kinds="fc",
    formula=lambda x: xp.sin(x) / xp.cos(x),
    parts=_turned(_tanh_parts),
)


@register_function
def asin(x: ArrayLike) -> Array:
    """Return the angle in radians whose sine is x; its derivative at -1 and 1 is inf.

    >>> asin(0.5).round(4)
    Array(0.5236, dtype=float32)
    """
    return bind1(asin_p, x)


def _roots(x: Parts) -> tuple[Parts, Parts]:
    """Return ``√(1 + x)`` and ``√(1 - x)``."""
    return sqrt_parts((1.0 + x[0], x[1])), sqrt_parts((1.0 - x[0], -x[1]))


def _asin_parts(x: Parts) -> Parts:
    """Return the arc sine, as the next ones in Kahan's form (1987)."""
    (a, b), (c, d) = _roots(x)
    return xp.arctan2(x[0], a * c - b * d), xp.arcsinh(c * b - d * a)


asin_p: Primitive = unary(
    "asin",
    np.arcsin,
    lambda _z, x: 1 / sqrt((1 - x) * (1 + x)),
    kinds="fc",
    formula=lambda x: xp.arctan(x / xp.sqrt((1.0 - x) * (x + 1.0))),
    parts=_asin_parts,
)

arcsin = asin


@register_function
def acos(x: ArrayLike) -> Array:
    """Return the angle in radians whose cosine is x; its derivative at -1 and 1 is -inf.

    >>> acos(0.5).round(4)
    Array(1.0472, dtype=float32)
    """
    return bind1(acos_p, x)


def _acos_parts(x: Parts) -> Parts:
    (a, b), (c, d) = _roots(x)
    return 2.0 * xp.arctan2(c, a), xp.arcsinh(a * d - b * c)


acos_p: Primitive = unary(
    "acos",
    np.arccos,
    lambda _z, x: -1 / sqrt((1 - x) * (1 + x)),
    kinds="fc",
    formula=lambda x: xp.arctan(xp.sqrt((1.0 - x) / (x + 1.0))) * 2.0,
    parts=_acos_parts,
)

arccos = acos


@register_function
def atan(x: ArrayLike) -> Array:
    """Return the angle in radians, from -π/2 to π/2, whose tangent is x.

    >>> atan(0.5).round(4)
    Array(0.4636, dtype=float32)
    """
    return bind1(atan_p, x)


def _atanh_parts(x: Parts) -> Parts:
    a, b = x
    gap = (1.0 - a) * (1.0 - a) + b * b
    return 0.25 * xp.log1p(4.0 * a / gap), 0.5 * xp.arctan2(2.0 * b, (1.0 - a) * (1.0 + a) - b * b)


atan_p: Primitive = unary(
    "atan",
    np.arctan,
    lambda _z, x: 1 / (1 + x * x),
    kinds="fc",
    finite_partials=True,
    formula=lambda x: xp.arctan2(x, 1.0),
    parts=_turned(_atanh_parts),
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


def _atan2(y: Any, x: Any) -> Any:
    both = (xp.abs(x) == math.inf) & (xp.abs(y) == math.inf)
    quotient = xp.where(both, xp.sign(y) * xp.sign(x), y / xp.where(x == 0, 1.0, x))
    below = xp.signbit(y)
    angle = xp.where(x == 0, xp.where(below, -math.pi / 2, math.pi / 2), xp.arctan(quotient))
    angle = xp.where(y == 0, xp.where(xp.isnan(x), x, 0.0), xp.where((x == 0) & xp.isnan(y), y, angle))
    turned = angle + xp.where(below, -math.pi, math.pi)
    return xp.where(xp.signbit(x) & ~((x == 0) & (y != 0)), turned, xp.where((y == 0) & ~xp.isnan(x), y, angle))


atan2_p: Primitive = binary(
    "atan2",
    np.arctan2,
    (lambda _z, x, y: _slope(y, x, y), lambda _z, x, y: _slope(-x, x, y)),
    kinds="f",
    formula=_atan2,
)

arctan2 = atan2


@register_function
def sinh(x: ArrayLike) -> Array:
    """Return the hyperbolic sine.

    >>> sinh(0.5).round(4)
    Array(0.5211, dtype=float32)
    """
    return bind1(sinh_p, x)


def _sinh(x: Any) -> Any:
    up, half = xp.expm1(x), xp.exp(xp.abs(x) * 0.5)
    far = xp.sign(x) * (half * 0.5 * half)  # which overflows where the result does
    near = (up + up / (up + 1.0)) * 0.5
    return xp.where(xp.abs(x) < 1.0, near, xp.where(xp.abs(x) < 20.0, (xp.exp(x) - xp.exp(-x)) * 0.5, far))


sinh_p: Primitive = unary("sinh", np.sinh, lambda _z, x: cosh(x), kinds="fc", formula=_sinh, parts=_sinh_parts)


@register_function
def cosh(x: ArrayLike) -> Array:
    """Return the hyperbolic cosine.

    >>> cosh(0.5).round(4)
    Array(1.1276, dtype=float32)
    """
    return bind1(cosh_p, x)


def _cosh(x: Any) -> Any:
    half = xp.exp(xp.abs(x) * 0.5)
    return xp.where(xp.abs(x) < 20.0, (xp.exp(x) + xp.exp(-x)) * 0.5, half * 0.5 * half)


cosh_p: Primitive = unary("cosh", np.cosh, lambda _z, x: sinh(x), kinds="fc", formula=_cosh, parts=_cosh_parts)


@register_function
def tanh(x: ArrayLike) -> Array:
    """Return the hyperbolic tangent.

    >>> tanh(0.5).round(4)
    Array(0.4621, dtype=float32)
    """
    return bind1(tanh_p, x)


tanh_p: Primitive = unary("tanh", np.tanh, lambda z, _x: 1 - z * z, kinds="fc", finite_partials=True, parts=_tanh_parts)


@register_function
def asinh(x: ArrayLike) -> Array:
    """Return the number whose hyperbolic sine is x.

    >>> asinh(0.5).round(4)
    Array(0.4812, dtype=float32)
    """
    return bind1(asinh_p, x)


def _asinh_slope(_z: Array, x: Array) -> Array:
    return 1 / (sqrt(x * x + 1) if x.dtype.kind == "c" else hypot(x, 1))  # x² would overflow


def _asinh(x: Any) -> Any:
    size = xp.abs(x)
    near = xp.where(size < 1e8, size, 1.0)
    square = near * near
    small = xp.log1p(near + square / (xp.sqrt(square + 1.0) + 1.0))
    return xp.where(x == 0, x, xp.sign(x) * xp.where(size < 1e8, small, xp.log(size) + LOG2))


asinh_p: Primitive = unary(
    "asinh", np.arcsinh, _asinh_slope, kinds="fc", finite_partials=True, formula=_asinh, parts=_turned(_asin_parts)
)

arcsinh = asinh


@register_function
def acosh(x: ArrayLike) -> Array:
    """Return the number, 0 or more, whose hyperbolic cosine is x; its derivative at 1 is inf.

    >>> acosh(1.5).round(4)
    Array(0.9624, dtype=float32)
    """
    return bind1(acosh_p, x)


def _acosh(x: Any) -> Any:
    above = xp.where(x > 1e8, 1.0, x - 1.0)
    small = xp.log1p(above + xp.sqrt(above * (above + 2.0)))
    return xp.where(x > 1e8, xp.log(x) + LOG2, xp.where(x < 1.0, math.nan, small))


def _acosh_parts(x: Parts) -> Parts:
    (a, b), (c, d) = sqrt_parts((x[0] + 1.0, x[1])), sqrt_parts((x[0] - 1.0, x[1]))
    return xp.arcsinh(c * a + d * b), 2.0 * xp.arctan2(d, a)


acosh_p: Primitive = unary(
    "acosh", np.arccosh, lambda _z, x: 1 / sqrt(x - 1) / sqrt(x + 1), kinds="fc", formula=_acosh, parts=_acosh_parts
)

arccosh = acosh


@register_function
def atanh(x: ArrayLike) -> Array:
    """Return the number whose hyperbolic tangent is x; its derivative at -1 and 1 is inf.

    >>> atanh(0.5).round(4)
    Array(0.5493, dtype=float32)
    """
    return bind1(atanh_p, x)


def _atanh(x: Any) -> Any:
    size = xp.abs(x)
    return xp.where(x == 0, x, xp.sign(x) * xp.log1p(2.0 * size / (1.0 - size)) * 0.5)


atanh_p: Primitive = unary(
    "atanh", np.arctanh, lambda _z, x: 1 / ((1 - x) * (1 + x)), kinds="fc", formula=_atanh, parts=_atanh_parts
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


deg2rad_p: Primitive = unary("deg2rad", np.deg2rad, math.pi / 180, kinds="f", formula=lambda x: x * (math.pi / 180.0))

radians = deg2rad


@register_function
def rad2deg(x: ArrayLike) -> Array:
    """Return angles given in radians in degrees.

    >>> rad2deg(1.0).round(4)
    Array(57.2958, dtype=float32)
    """
    return bind1(rad2deg_p, x)


rad2deg_p: Primitive = unary("rad2deg", np.rad2deg, 180 / math.pi, kinds="f", formula=lambda x: x * (180.0 / math.pi))

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


sinc_p: Primitive = unary("sinc", _sinc_run, _sinc_slope, kinds="f", finite_partials=True, traceable=True)
