"""Floating-point parts: mantissas and exponents, spacing, divisors and bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.dtypes import float64, promote, real_dtype
from afx.core.primitive import Primitive, record
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind1, bind2
from afx.core.weakness import is_weak
from afx.errors import DtypeError
from afx.ops._basic import in_floats
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops.creation.creation import as_array, asarray
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import pow as pow_
from afx.ops.elementwise.comparison import isinf, isnan
from afx.ops.elementwise.complex import imag, real
from afx.ops.elementwise.exponential import exp2
from afx.ops.elementwise.rounding import copysign, trunc
from afx.ops.elementwise.where import clip, where
from afx.ops.manipulation.shape import astype

__all__ = [
    "bitwise_count",
    "fabs",
    "float_power",
    "frexp",
    "gcd",
    "heaviside",
    "lcm",
    "ldexp",
    "modf",
    "real_if_close",
    "spacing",
]


def _floating(x: ArrayLike, who: str) -> Array:
    """Return x in a real floating dtype."""
    aval = aval_of(x, who)
    if aval.dtype.kind == "c":
        raise DtypeError(f"{who}: not defined for complex numbers: got {aval}; take the abs or a part")
    return as_array(in_floats(x, who))


# -- mantissas and exponents --
@register_function
def frexp(x: ArrayLike) -> tuple[Array, Array]:
    """Return mantissas, from 0.5 to 1 in size, and integers with ``x = mantissa * 2**integer``.

    The mantissa's derivative is that power of two, inverted.

    >>> frexp(np.array([3.0]))
    (Array([0.75], dtype=float64), Array([2], dtype=int32))
    """
    y = _floating(x, "frexp")
    power = bind1(exponent_p, y)
    return ldexp(y, -power), power


def _exponent(x: Any) -> Any:
    y = np.asarray(x, aval_of(x).dtype)
    if y.dtype.kind != "f":
        raise DtypeError(f"exponent: takes floating numbers: got {aval_of(x)}; convert them with astype")
    return np.frexp(y)[1]


exponent_p: Primitive = nondifferentiable("exponent", _exponent, kinds="f", result=lambda _: np.dtype(np.int32))


@register_function
def ldexp(x: ArrayLike, power: ArrayLike) -> Array:
    """Return ``x * 2**power``.

    Args:
        x: real numbers.
        power: integers.

    Raises:
        DtypeError: powers that are not integers.

    >>> ldexp(np.array([0.75]), 2)
    Array([3.], dtype=float64)
    """
    y, aval = _floating(x, "ldexp"), aval_of(power, "ldexp")
    if aval.dtype.kind not in "biu":
        raise DtypeError(f"ldexp: powers are integers: got {aval}; use x * afx.exp2(power)")
    most = np.finfo(y.dtype).maxexp - 1  # 2**power alone may be too large or too small for a number; four factors never
    rest: Any = clip(astype(power, float64), -4 * most, 4 * most)
    factors: list[Array] = []
    for _ in range(4):
        part = clip(rest, 1 - most, most)
        factors.append(exp2(astype(part, y.dtype)))
        rest = rest - part
    for factor in reversed(factors):  # the largest step last: the only one that rounds
        y = y * factor
    return y


@register_function
def modf(x: ArrayLike) -> tuple[Array, Array]:
    """Return the fractions, which have derivative 1, and the whole parts of numbers, both with their sign.

    >>> modf(np.array([-1.5]))
    (Array([-0.5], dtype=float64), Array([-1.], dtype=float64))
    """
    y = _floating(x, "modf")
    whole = trunc(y)
    side = stop_gradient(copysign(1.0, y))  # so that a fraction of 0 has the sign too
    return side * (side * where(isinf(y), 0, y) - side * where(isinf(y), 0, whole)), whole


@register_function
def spacing(x: ArrayLike) -> Array:
    """Return the distance from x to the next number away from 0, in its dtype; its derivative is 0.

    >>> spacing(np.array([1.0])) == np.finfo(np.float64).eps
    Array([ True], dtype=bool)
    """
    return bind1(spacing_p, asarray(x) if is_weak(x) else x)  # of the default dtype's numbers


spacing_p: Primitive = nondifferentiable("spacing", np.spacing, kinds="f", promotes_to_float=True)


# -- other forms of known functions --
@register_function
def heaviside(x: ArrayLike, middle: ArrayLike) -> Array:
    """Return 0 where x is negative, 1 where it is positive, ``middle`` where it is 0; differentiable in ``middle``.

    >>> heaviside(np.array([-2.0, 0.0, 3.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float64)
    """
    a, b = aval_of(x, "heaviside"), aval_of(middle, "heaviside")
    dtype = promote((a.dtype, b.dtype), (a.weak, b.weak), floating=True)
    if dtype.kind == "c":
        raise DtypeError(f"heaviside: not defined for complex numbers: got {a} and {b}; take the abs or a part")
    y, half = astype(x, dtype), astype(middle, dtype)
    step = astype(y > 0, dtype)
    return where(y == 0, half, where(isnan(y), math.nan, step))


@register_function
def float_power(x: ArrayLike, y: ArrayLike) -> Array:
    """Return x to the power y, computed in a floating dtype also where both are integers.

    >>> float_power(np.array([2.0]), -1)
    Array([0.5], dtype=float64)
    """
    a, b = aval_of(x, "float_power"), aval_of(y, "float_power")
    dtype = promote((a.dtype, b.dtype), (a.weak, b.weak), floating=True)
    return pow_(astype(x, dtype), y if b.weak else astype(y, dtype))


@register_function
def fabs(x: ArrayLike) -> Array:
    """Return the absolute values of real numbers in a floating dtype; the derivative at 0 is 0.

    >>> fabs(np.array([-2.0]))
    Array([2.], dtype=float64)
    """
    return abs_(_floating(x, "fabs"))


@register_function
def real_if_close(x: ArrayLike, tol: float = 100) -> Array:
    """Return the real parts where all imaginary ones are close to 0, else x; values must be known.

    Args:
        x: any shape.
        tol: how close, in units of the dtype's epsilon, or, up to 1, as a number.

    Raises:
        ConcreteValueError: the values are not known yet.

    >>> real_if_close(np.array([1.0 + 0j]))
    Array([1.], dtype=float64)
    """
    y = as_array(x)
    if y.dtype.kind != "c":
        return y
    bound = tol * float(np.finfo(real_dtype(y.dtype)).eps) if tol > 1 else tol
    known: Any = (abs_(imag(stop_gradient(y))) < bound).all().concrete("real_if_close")
    return real(y) if known else y


# -- integers --
@register_function
def gcd(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the greatest common divisors of integers.

    >>> gcd(12, 18)
    Array(6, dtype=int64)
    """
    return bind2(gcd_p, x, y)


gcd_p: Primitive = nondifferentiable("gcd", np.gcd, kinds="iu")


@register_function
def lcm(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the least common multiples of integers.

    >>> lcm(4, 6)
    Array(12, dtype=int64)
    """
    return bind2(lcm_p, x, y)


lcm_p: Primitive = nondifferentiable("lcm", np.lcm, kinds="iu")


@register_function
def bitwise_count(x: ArrayLike) -> Array:
    """Return how many bits of the size of integers are set.

    >>> bitwise_count(np.array([7, -8]))
    Array([3, 1], dtype=uint8)
    """
    return astype(bind1(bitwise_count_p, x), np.uint8)


bitwise_count_p: Primitive = nondifferentiable(
    "bitwise_count", np.bitwise_count, kinds="iu", native=record(np.bitwise_count)
)
