"""Arithmetic: sums, products, powers and roots, exponential functions and logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.dtypes import real_dtype
from afx.core.primitive import Primitive, Value
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind1, bind2, to_lower_level
from afx.ops._kinds.elementwise import binary, nondifferentiable, unary
from afx.ops.creation.creation import as_array, stop_gradient
from afx.ops.elementwise.comparison import clip, isinf, maximum, minimum, where

# --- Exponentials: exponential functions and logarithms

LOG2 = math.log(2.0)
LOG2E = 1 / LOG2
_where: Any = np.where  # its result type is not known to checkers
LOG10 = math.log(10.0)


@register_function
def exp(x: ArrayLike) -> Array:
    """Return the exponential function.

    >>> exp(0.5).round(4)
    Array(1.6487, dtype=float32)
    """
    return bind1(exp_p, x)


exp_p: Primitive = unary("exp", np.exp, lambda z, _x: z, kinds="fc", promotes_to_float=True, finite_partials=True)


@register_function
def exp2(x: ArrayLike) -> Array:
    """Return 2 to the power x.

    >>> exp2(3.0)
    Array(8., dtype=float32)
    """
    return bind1(complex_exp2_p if _is_complex(x) else exp2_p, x)


def _complex_exp2_run(x: Any) -> Any:
    """Return the real power of two, turned by the imaginary part: NumPy's ``exp(x * log(2))`` loses its digits."""
    z: Any = np.asarray(x)
    angle: Any = z.imag * LOG2
    with np.errstate(all="ignore"):
        turned: Any = np.exp2(z.real) * (np.cos(angle) + 1j * np.sin(angle))
        if not np.isfinite(turned).all():
            turned = _where(np.isfinite(turned), turned, np.exp2(z))
    return turned.astype(np.result_type(z.dtype, np.complex64))[()]


complex_exp2_p: Primitive = unary(
    "complex_exp2", _complex_exp2_run, lambda z, _x: z * LOG2, kinds="fc", promotes_to_float=True
)
exp2_p: Primitive = unary(
    "exp2", np.exp2, lambda z, _x: z * LOG2, kinds="f", promotes_to_float=True, finite_partials=True
)


@register_function
def expm1(x: ArrayLike) -> Array:
    """Return ``exp(x) - 1``, exact near 0.

    >>> expm1(0.5).round(4)
    Array(0.6487, dtype=float32)
    """
    return bind1(complex_expm1_p if _is_complex(x) else expm1_p, x)


def _is_complex(x: ArrayLike) -> bool:
    return x.dtype.kind == "c" if isinstance(x, (Array, np.ndarray)) else isinstance(x, (complex, np.complexfloating))


def _complex_expm1_run(x: Any) -> Any:
    """Return what NumPy gives, but for infinite parts, where it loses the limits that its ``exp`` knows, and 0."""
    far = ~np.isfinite(x) | (x == 0)
    if not far.any():
        return np.expm1(x)
    with np.errstate(invalid="ignore"):
        z: Any = np.asarray(np.expm1(x))
    np.copyto(z, np.exp(x) - 1, where=far)
    return z[()]


complex_expm1_p: Primitive = unary(
    "complex_expm1", _complex_expm1_run, lambda _z, x: exp(x), kinds="fc", promotes_to_float=True
)
expm1_p: Primitive = unary(
    "expm1", np.expm1, lambda _z, x: exp(x), kinds="fc", promotes_to_float=True, finite_partials=True
)  # z + 1 loses the tail


@register_function
def log(x: ArrayLike) -> Array:
    """Return the natural logarithm; its derivative at 0 is inf.

    >>> log(2.0).round(4)
    Array(0.6931, dtype=float32)
    """
    return bind1(log_p, x)


log_p: Primitive = unary("log", np.log, lambda _z, x: 1 / x, kinds="fc", promotes_to_float=True, domain=(0.1, 4.0))


@register_function
def log1p(x: ArrayLike) -> Array:
    """Return ``log(1 + x)``, exact near 0.

    >>> log1p(0.5).round(4)
    Array(0.4055, dtype=float32)
    """
    return bind1(log1p_p, x)


log1p_p: Primitive = unary(
    "log1p", np.log1p, lambda _z, x: 1 / (1 + x), kinds="fc", promotes_to_float=True, domain=(-0.5, 4.0)
)


@register_function
def log2(x: ArrayLike) -> Array:
    """Return the logarithm to the base 2.

    >>> log2(8.0)
    Array(3., dtype=float32)
    """
    return bind1(log2_p, x)


log2_p: Primitive = unary(
    "log2", np.log2, lambda _z, x: 1 / (x * LOG2), kinds="fc", promotes_to_float=True, domain=(0.1, 4.0)
)


@register_function
def log10(x: ArrayLike) -> Array:
    """Return the logarithm to the base 10.

    >>> log10(10.0)
    Array(1., dtype=float32)
    """
    return bind1(log10_p, x)


log10_p: Primitive = unary(
    "log10", np.log10, lambda _z, x: 1 / (x * LOG10), kinds="fc", promotes_to_float=True, domain=(0.1, 4.0)
)


@register_function
def logaddexp(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``log(exp(x) + exp(y))`` without overflow; its derivatives at (inf, 0) are 1 and 0, at equal values ½ each.

    >>> logaddexp(1000.0, 0.0)
    Array(1000., dtype=float32)
    """
    return bind2(logaddexp_p, x, y)


def _share(x: Array, y: Array) -> Array:
    """Return ``exp(x) / (exp(x) + exp(y))``, one half where both are the same infinity."""
    same = (x == y) & isinf(x)  # inf - inf would be nan
    return sigmoid(where(same, 0, x) - where(same, 0, y))


def _larger_and_gap(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the larger number and the smaller one less that: 0 of equal infinities, whose difference would be nan."""
    larger, smaller = np.maximum(x, y), np.minimum(x, y)
    same = smaller == larger
    return larger, _where(same, 0, smaller) - _where(same, 0, larger)


def _logaddexp_run(x: Any, y: Any) -> Any:
    # NumPy's own formula, but its loop takes one number after the other: those of exp and log1p take several at once
    larger, gap = _larger_and_gap(x, y)
    return larger + np.log1p(np.exp(gap))


logaddexp_p: Primitive = binary(
    "logaddexp",
    _logaddexp_run,
    (lambda _z, x, y: _share(x, y), lambda _z, x, y: _share(y, x)),
    kinds="f",
    promotes_to_float=True,
    commutative=True,
    finite_partials=True,
    traceable=True,
)


@register_function
def logaddexp2(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``log2(2**x + 2**y)`` without overflow; its derivatives are those of `logaddexp`.

    >>> logaddexp2(1000.0, 1000.0)
    Array(1001., dtype=float32)
    """
    return bind2(logaddexp2_p, x, y)


def _logaddexp2_run(x: Any, y: Any) -> Any:
    larger, gap = _larger_and_gap(x, y)
    return larger + np.log1p(np.exp2(gap)) * LOG2E


logaddexp2_p: Primitive = binary(
    "logaddexp2",
    _logaddexp2_run,
    (lambda _z, x, y: _share(x * LOG2, y * LOG2), lambda _z, x, y: _share(y * LOG2, x * LOG2)),
    kinds="f",
    promotes_to_float=True,
    commutative=True,
    finite_partials=True,
    traceable=True,
)


@register_function
def sigmoid(x: ArrayLike) -> Array:
    """Return the logistic function ``1 / (1 + exp(-x))``, accurate in both tails.

    >>> sigmoid(0.0)
    Array(0.5, dtype=float32)
    """
    return bind1(sigmoid_p, x)


def _sigmoid_run(x: Any) -> Any:
    with np.errstate(over="ignore"):  # exp = inf gives 0, the limit
        return 1 / (1 + np.exp(x * -1.0))  # NumPy has no minus for booleans, and unsigned numbers wrap round


sigmoid_p: Primitive = unary(
    "sigmoid",
    _sigmoid_run,
    lambda z, x: z * sigmoid(-x),
    kinds="f",
    promotes_to_float=True,
    finite_partials=True,
    traceable=True,
)


@register_function
def softplus(x: ArrayLike) -> Array:
    """Return ``log(1 + exp(x))`` without overflow.

    >>> softplus(1000.0)
    Array(1000., dtype=float32)
    """
    return bind1(softplus_p, x)


def _softplus_run(x: Any) -> Any:
    # as exact as logaddexp(x, 0), and about ten times as fast: NumPy's exp and log1p work on several numbers at once
    return np.maximum(x, 0) + np.log1p(np.exp(np.abs(x) * -1.0))


softplus_p: Primitive = unary(
    "softplus",
    _softplus_run,
    lambda _z, x: sigmoid(x),
    kinds="f",
    promotes_to_float=True,
    finite_partials=True,
    traceable=True,
)


@register_function
def log_sigmoid(x: ArrayLike) -> Array:
    """Return ``log(sigmoid(x))``, which is ``-softplus(-x)``, without overflow.

    >>> log_sigmoid(-1000.0)
    Array(-1000., dtype=float32)
    """
    y = as_array(x)
    return -softplus(y * -1.0 if y.dtype.kind in "bu" else -y)


# --- Arithmetic: sums, products, powers and roots


@register_function
def add(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the elementwise sum ``x + y``.

    >>> add(1.0, 2.0)
    Array(3., dtype=float32)
    """
    return bind2(add_p, x, y)


add_p: Primitive = binary(
    "add", np.add, (1.0, 1.0), kinds="biufc", finite_partials=True, commutative=True, identity=0.0
)


@register_function
def subtract(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the elementwise difference ``x - y``.

    >>> subtract(1.0, 2.0)
    Array(-1., dtype=float32)
    """
    return bind2(subtract_p, x, y)


subtract_p: Primitive = binary("subtract", np.subtract, (1.0, -1.0), finite_partials=True)


@register_function
def multiply(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the elementwise product ``x * y``.

    >>> multiply(2.0, 3.0)
    Array(6., dtype=float32)
    """
    return bind2(multiply_p, x, y)


multiply_p: Primitive = binary(
    "multiply",
    np.multiply,
    (lambda _z, _x, y: y, lambda _z, x, _y: x),
    kinds="biufc",
    commutative=True,
    identity=1.0,
    finite_partials=True,
    exact=True,
)


@register_function
def divide(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the elementwise quotient ``x / y``; integers divide in the default dtype (NumPy: float64).

    >>> divide(1, 4)
    Array(0.25, dtype=float32)
    """
    return bind2(divide_p, x, y)


divide_p: Primitive = binary(
    "divide",
    np.divide,
    (lambda _z, _x, y: 1 / y, lambda z, _x, y: -z / y),
    kinds="fc",
    promotes_to_float=True,
    domain=(0.5, 2.0),
)

true_divide = divide


@register_function
def negative(x: ArrayLike) -> Array:
    """Return ``-x``.

    >>> negative(2.0)
    Array(-2., dtype=float32)
    """
    return bind1(negative_p, x)


negative_p: Primitive = unary("negative", np.negative, -1.0, finite_partials=True, involution=True)


@register_function
def positive(x: ArrayLike) -> Array:
    """Return ``+x``.

    >>> positive(2.0)
    Array(2., dtype=float32)
    """
    return bind1(positive_p, x)


positive_p: Primitive = unary("positive", np.positive, 1.0, finite_partials=True)


@register_function
def reciprocal(x: ArrayLike) -> Array:
    """Return ``1 / x``; integers in the default dtype (NumPy: integer division).

    >>> reciprocal(4.0)
    Array(0.25, dtype=float32)
    """
    return bind1(reciprocal_p, x)


def _reciprocal_run(x: Any) -> Any:
    return np.divide(1, x)


reciprocal_p: Primitive = unary(
    "reciprocal", _reciprocal_run, lambda z, _x: -z * z, kinds="fc", promotes_to_float=True, domain=(0.5, 2.0)
)


@register_function
def square(x: ArrayLike) -> Array:
    """Return ``x * x``.

    >>> square(3.0)
    Array(9., dtype=float32)
    """
    return bind1(square_p, x)


square_p: Primitive = unary("square", np.square, lambda _z, x: 2 * x, finite_partials=True)


@register_function
def sqrt(x: ArrayLike) -> Array:
    """Return the square root; its derivative at 0 is inf.

    >>> sqrt(9.0)
    Array(3., dtype=float32)
    """
    return bind1(sqrt_p, x)


sqrt_p: Primitive = unary("sqrt", np.sqrt, lambda z, _x: 0.5 / z, kinds="fc", promotes_to_float=True, domain=(0.1, 4.0))


@register_function
def cbrt(x: ArrayLike) -> Array:
    """Return the real cube root; its derivative at 0 is inf.

    >>> cbrt(8.0)
    Array(2., dtype=float32)
    """
    return bind1(cbrt_p, x)


cbrt_p: Primitive = unary(
    "cbrt", np.cbrt, lambda z, _x: 1 / (3 * z * z), kinds="f", promotes_to_float=True, domain=(0.1, 4.0)
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


def _pow_by_exponent(z: Array, x: Array, y: Array) -> Array:
    return where((x == 0) & (y >= 0), 0, z * log(where((x == 0) & (y >= 0), 1, x)))


pow_p: Primitive = binary("pow", np.power, (_pow_by_base, _pow_by_exponent), domain=(0.5, 2.0))

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
    smooth=False,
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


sign_p: Primitive = nondifferentiable("sign", np.sign, kinds="iufc")


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


hypot_p: Primitive = binary(
    "hypot",
    np.hypot,
    (lambda z, x, _y: _cosine(z, x), lambda z, _x, y: _cosine(z, y)),
    kinds="f",
    promotes_to_float=True,
    finite_partials=True,
)


@register_function
def floor_divide(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the quotient rounded down; its derivative is 0.

    Of infinite operands it is what NumPy and Python give: ``inf // 2`` is nan, and ``1 // -inf`` is -1.

    >>> floor_divide(7, 2)
    Array(3, dtype=int64)
    """
    return bind2(floor_divide_p, x, y)


floor_divide_p: Primitive = nondifferentiable("floor_divide", np.floor_divide, kinds="iuf", arity=2, domain=(0.5, 2.0))


@register_function
def remainder(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the remainder of `floor_divide`, with the sign of the divisor.

    >>> remainder(-7, 3)
    Array(2, dtype=int64)
    """
    return bind2(remainder_p, x, y)


remainder_p: Primitive = binary(
    "remainder",
    np.remainder,
    (1.0, lambda _z, x, y: -floor_divide(x, y)),
    kinds="iuf",
    smooth=False,
    domain=(0.5, 2.0),
)

mod = remainder


@register_function
def divmod(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    """Return `floor_divide` and `remainder`.

    >>> divmod(7, 2)
    (Array(3, dtype=int64), Array(1, dtype=int64))
    """
    return floor_divide(x, y), remainder(x, y)
