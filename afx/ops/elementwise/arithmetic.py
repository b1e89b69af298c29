"""Arithmetic: sums, products, powers and roots."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, Primitive, Value, aval_of, bind1, bind2, is_traced, real_dtype, to_lower_level
from afx.core.dtypes import narrow_default
from afx.core.registry import FUNCTIONS, register_function
from afx.ops._basic import cast, xp
from afx.ops._kinds.elementwise import Parts, binary, each_part, nondifferentiable, unary
from afx.ops.creation.creation import as_array, stop_gradient
from afx.ops.elementwise.comparison import clip, maximum, minimum, where
from afx.ops.elementwise.exponentials import exp_parts, log, log_parts


@register_function
def add(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the elementwise sum ``x + y``.

    >>> add(1.0, 2.0)
    Array(3., dtype=float32)
    """
    return bind2(add_p, x, y)


add_p: Primitive = binary(
    "add",
    np.add,
    (1.0, 1.0),
    kinds="biufc",
    finite_partials=True,
    commutative=True,
    identity=0.0,
    parts=each_part(operator.add),
)


@register_function
def subtract(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the elementwise difference ``x - y``.

    >>> subtract(1.0, 2.0)
    Array(-1., dtype=float32)
    """
    return bind2(subtract_p, x, y)


subtract_p: Primitive = binary(
    "subtract", np.subtract, (1.0, -1.0), finite_partials=True, parts=each_part(operator.sub)
)


@register_function
def multiply(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the elementwise product ``x * y``.

    >>> multiply(2.0, 3.0)
    Array(6., dtype=float32)
    """
    return bind2(multiply_p, x, y)


def _times(x: Parts, y: Parts) -> Parts:
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


multiply_p: Primitive = binary(
    "multiply",
    np.multiply,
    (lambda _z, _x, y: y, lambda _z, x, _y: x),
    kinds="biufc",
    commutative=True,
    identity=1.0,
    finite_partials=True,
    exact=True,
    parts=_times,
)


@register_function
def divide(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the elementwise quotient ``x / y``; integers divide in the default dtype (NumPy: float64).

    >>> divide(1, 4)
    Array(0.25, dtype=float32)
    """
    return _divide_as_xla(x, y) if narrow_default else bind2(divide_p, x, y)


def _divide_as_xla(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the quotient, in float32 times 1 over a divisor that is broadcast, or that is known while x is not."""
    z: Array = bind2(divide_p, x, y)
    is_one = z.size == math.prod(aval_of(y).shape)
    if z.dtype != np.float32 or (is_one and (z.ndim or not is_traced(x) or is_traced(y))):
        return z
    return multiply(cast(x, z.dtype), bind2(divide_p, 1, cast(y, z.dtype)))


def _over(x: Parts, y: Parts) -> Parts:
    """Return the quotient by Smith's formula (1962), as NumPy does."""
    (a, b), (c, d) = x, y
    is_wide = xp.abs(c) >= xp.abs(d)
    top, low = xp.where(is_wide, c, d), xp.where(is_wide, d, c)
    is_zero = top == 0.0
    ratio = low / xp.where(is_zero, 1.0, top)
    scale = 1.0 / (top + low * ratio)
    first, second = xp.where(is_wide, a, b), xp.where(is_wide, b, a)
    imaginary = xp.where(is_wide, b - a * ratio, b * ratio - a)
    size = xp.abs(c)
    return xp.where(is_zero, a / size, (first + second * ratio) * scale), xp.where(is_zero, b / size, imaginary * scale)


divide_p: Primitive = binary(
    "divide", np.divide, (lambda _z, _x, y: 1 / y, lambda z, _x, y: -z / y), kinds="fc", parts=_over
)

true_divide = divide


@register_function
def negative(x: ArrayLike) -> Array:
    """Return ``-x``.

    >>> negative(2.0)
    Array(-2., dtype=float32)
    """
    return bind1(negative_p, x)


negative_p: Primitive = unary(
    "negative", np.negative, -1.0, finite_partials=True, involution=True, parts=each_part(operator.neg)
)


@register_function
def positive(x: ArrayLike) -> Array:
    """Return ``+x``.

    >>> positive(2.0)
    Array(2., dtype=float32)
    """
    return bind1(positive_p, x)


positive_p: Primitive = unary(
    "positive",
    np.positive,
    1.0,
    finite_partials=True,
    formula=lambda x: x,
    formula_kinds="iufc",
    parts=each_part(operator.pos),
)


@register_function
def reciprocal(x: ArrayLike) -> Array:
    """Return ``1 / x``; integers in the default dtype (NumPy: integer division).

    >>> reciprocal(4.0)
    Array(0.25, dtype=float32)
    """
    return bind1(reciprocal_p, x)


reciprocal_p: Primitive = unary(
    "reciprocal",
    lambda x: np.divide(1, x),
    lambda z, _x: -z * z,
    kinds="fc",
    formula=lambda x: 1 / x,
    formula_kinds="fc",
    parts=lambda x: _over((x[0] * 0.0 + 1.0, x[1] * 0.0), x),
)


@register_function
def square(x: ArrayLike) -> Array:
    """Return ``x * x``.

    >>> square(3.0)
    Array(9., dtype=float32)
    """
    return bind1(square_p, x)


square_p: Primitive = unary(
    "square",
    np.square,
    lambda _z, x: 2 * x,
    finite_partials=True,
    formula=lambda x: x * x,
    formula_kinds="iufc",
    parts=lambda x: _times(x, x),
)


@register_function
def sqrt(x: ArrayLike) -> Array:
    """Return the square root; its derivative at 0 is inf.

    >>> sqrt(9.0)
    Array(3., dtype=float32)
    """
    return bind1(sqrt_p, x)


def sqrt_parts(x: Parts) -> Parts:
    """Return the square root of an eighth of both parts, twice: neither overflows nor loses denormal digits."""
    a, b = x
    size = 2.0 * xp.sqrt(xp.abs(a) * 0.125 + xp.hypot(a * 0.125, b * 0.125))
    other = xp.where(
        xp.abs(b) == math.inf, math.inf, xp.where(size == 0.0, 0.0, xp.abs(b) * 0.5 / xp.where(size == 0.0, 1.0, size))
    )
    is_right = a >= 0.0
    return xp.where(is_right, size, other), xp.copysign(xp.where(is_right, other, size), b)


sqrt_p: Primitive = unary("sqrt", np.sqrt, lambda z, _x: 0.5 / z, kinds="fc", parts=sqrt_parts)


@register_function
def cbrt(x: ArrayLike) -> Array:
    """Return the real cube root; its derivative at 0 is inf.

    >>> cbrt(8.0)
    Array(2., dtype=float32)
    """
    return bind1(cbrt_p, x)


cbrt_p: Primitive = unary(
    "cbrt",
    np.cbrt,
    lambda z, _x: 1 / (3 * z * z),
    kinds="f",
    formula=lambda x: xp.copysign(xp.power(xp.abs(x), 1 / 3), x),
)


@register_function
def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``x ** y``.

    The derivative by the base of ``0.0 ** 0.0`` is 0. The derivative by the exponent is 0 where the base is 0 and the
    exponent positive. It is nan for a negative base, where the power is defined at integer exponents only.

    >>> pow(2.0, 3.0)
    Array(8., dtype=float32)
    """
    if y.__class__ is int and y == 2:
        return bind1(square_p, x)
    return bind2(pow_p, x, y)


def _pow_by_base(_z: Array, x: Array, y: Array) -> Array:
    if isinstance(to_lower_level(y), (float, np.floating)) and y != 0:
        exponent = float(y) - 1
        return y * x ** (2 if exponent == 2 else exponent)  # NumPy has a quick way for the integer 2 alone
    zeros = (abs(x) < np.finfo(x.dtype).tiny) & (y == 0)  # of which the inverse is infinite
    return where(zeros, 0, y * x ** where(zeros, 1, y - 1))


def _power_parts(x: Parts, y: Parts) -> Parts:
    """Return ``exp(y log x)``: of 0, what it is."""
    z = exp_parts(_times(y, log_parts(x)))
    is_zero = (x[0] == 0.0) & (x[1] == 0.0)
    at_zero = xp.where((y[0] == 0.0) & (y[1] == 0.0), 1.0, xp.where(y[0] > 0.0, 0.0, math.nan))
    return xp.where(is_zero, at_zero, z[0]), xp.where(is_zero, at_zero * 0.0, z[1])


def _power_by_squares(x: Any, y: Any) -> Any:
    """Return a power of integers, bit by bit of the exponents; 0 for negative ones, which are NumPy's error."""

    def goes_on(state: Any) -> Any:
        return xp.any(state[1] > 0)

    def step(state: Any) -> Any:
        square, rest, z = state
        return square * square, rest >> 1, xp.where((rest & 1) != 0, z * square, z)

    return xp.where(y < 0, 0, FUNCTIONS.while_loop(goes_on, step, (x, y, xp.ones_like(x * y)))[2])


pow_p: Primitive = binary(
    "pow",
    np.power,
    (_pow_by_base, lambda z, x, y: where((x == 0) & (y >= 0), 0, z * log(where((x == 0) & (y >= 0), 1, x)))),
    parts=_power_parts,
    formula=_power_by_squares,
    formula_kinds="iu",
)

power = pow


@register_function
def abs(x: ArrayLike) -> Array:
    """Return the absolute value; its derivative at 0 is 0, for complex numbers along the direction of x.

    >>> abs(-2.0)
    Array(2., dtype=float32)
    """
    return bind1(abs_p, x)


abs_p: Primitive = unary(
    "abs",
    np.abs,
    lambda _z, x: sign(x) if x.dtype.kind != "c" else sign(x).conj(),
    kinds="biufc",
    result=real_dtype,
    finite_partials=True,
    formula=lambda x: x,
    formula_kinds="bu",
    parts=lambda x: xp.hypot(*x),
)


absolute = abs


@register_function
def sign(x: ArrayLike) -> Array:
    """Return -1, 0 or 1 after the sign of x, with derivative 0; ``x / |x|`` for complex numbers, with its derivative.

    >>> sign(-2.0)
    Array(-1., dtype=float32)
    """
    if aval_of(x, "sign").dtype.kind == "c":
        z = x if isinstance(x, Array) else as_array(x)
        size = stop_gradient(maximum(abs(z.real), abs(z.imag)))  # neither overflows nor loses digits
        small = size < np.finfo(size.dtype).tiny  # NumPy's quotients of subnormal numbers are nan
        one = size.dtype.type(1)
        scale = where(small, one * 2.0**80, one)
        z, size = z * scale, size * scale
        z = where(size == 0, 0, z) / where(size == 0, 1, size)
        return divide(z, where(size == 0, 1, abs(z)))  # 0 of any sign gives 0 + 0j
    return bind1(sign_p, x)


def _sign_parts(x: Parts) -> Parts:
    size = xp.hypot(*x)
    size = xp.where(size == 0.0, 1.0, size)
    return x[0] / size, x[1] / size


sign_p: Primitive = nondifferentiable("sign", np.sign, kinds="iufc", parts=_sign_parts)


@register_function
def hypot(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``sqrt(x**2 + y**2)`` without overflow; its derivatives at the origin are 0, those of every order.

    >>> hypot(3.0, 4.0)
    Array(5., dtype=float32)
    """
    return bind2(hypot_p, x, y)


def _cosine(z: Value, x: Value) -> Value:
    """Return ``x / z``, 0 where z is 0: the quotient by infinity is 0 and so are all of its derivatives."""
    largest = float(np.finfo(z.dtype).max)  # stands for infinity, whose quotients are nan
    return clip(x, -largest, largest) / where(z == 0, math.inf, minimum(z, largest))


def _hypot(x: Any, y: Any) -> Any:
    a, b = xp.abs(x), xp.abs(y)
    top, low = xp.maximum(a, b), xp.minimum(a, b)
    regular = (top > 0) & (top < math.inf)
    part = xp.where(regular, low, 0.0) / xp.where(regular, top, 1.0)
    length = xp.where(regular, top * xp.sqrt(part * part + 1.0), top)
    return xp.where((a == math.inf) | (b == math.inf), math.inf, length)


hypot_p: Primitive = binary(
    "hypot",
    np.hypot,
    (lambda z, x, _y: _cosine(z, x), lambda z, _x, y: _cosine(z, y)),
    kinds="f",
    finite_partials=True,
    formula=_hypot,
)


@register_function
def floor_divide(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the quotient rounded down; its derivative is 0.

    Of infinite operands it is what NumPy and Python give: ``inf // 2`` is nan, and ``1 // -inf`` is -1.

    >>> floor_divide(7, 2)
    Array(3, dtype=int64)
    """
    return bind2(floor_divide_p, x, y)


def _floor_divide(x: Any, y: Any) -> Any:
    """Return what is left when C's remainder is taken away, as NumPy does, so that inf divides."""
    rest = xp.fmod(x, y)
    quotient = (x - rest) / y
    quotient = xp.where((rest != 0) & ((rest < 0) ^ (y < 0)), quotient - 1.0, quotient)
    below = xp.floor(quotient)
    below = xp.where(quotient - below > 0.5, below + 1.0, below)
    floored = xp.where(below == 0, x / y * 0.0, below)
    return xp.where(y == 0, x / y, floored)


floor_divide_p: Primitive = nondifferentiable(
    "floor_divide", np.floor_divide, kinds="iuf", arity=2, formula=_floor_divide
)


@register_function
def remainder(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the remainder of `floor_divide`, with the sign of the divisor.

    >>> remainder(-7, 3)
    Array(2, dtype=int64)
    """
    return bind2(remainder_p, x, y)


def _remainder(x: Any, y: Any) -> Any:
    """Return what is left of C's remainder or, of integers, of the multiple below; 0 for an integer 0, as NumPy does."""
    if x.dtype.kind != "f":
        return xp.where(y == 0, 0, x - xp.floor_divide(x, y) * y)
    rest = xp.fmod(x, y)
    remainder = xp.where((rest != 0) & ((rest < 0) ^ (y < 0)), rest + y, rest)
    return xp.where(rest == 0, xp.where(y < 0, -0.0, 0.0), remainder)


remainder_p: Primitive = binary(
    "remainder",
    np.remainder,
    (1.0, lambda _z, x, y: -floor_divide(x, y)),
    kinds="iuf",
    formula=_remainder,
    formula_kinds="iuf",
)

mod = remainder


@register_function
def divmod(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """Return `floor_divide` and `remainder`.

    >>> divmod(7, 2)
    (Array(3, dtype=int64), Array(1, dtype=int64))
    """
    return floor_divide(x, y), remainder(x, y)
