"""Floating point: rounding, remainders, mantissas and exponents, divisors and bits, closeness up to a tolerance."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, Primitive, bind1, bind2, common_dtype, epsilon, is_weak, record, refuse_out
from afx.core.aval import aval_of, broadcast_shapes, integer
from afx.core.dtypes import float64, real_dtype
from afx.core.registry import FUNCTIONS, register_function
from afx.errors import DtypeError
from afx.ops._basic import in_floats, numpy_of, xp
from afx.ops._kinds.elementwise import binary, each_part, nondifferentiable
from afx.ops.creation.creation import Nested, as_array, asarray, promote_operands, stop_gradient
from afx.ops.elementwise.arithmetic import abs as abs_, divide, multiply, pow as pow_, remainder, subtract
from afx.ops.elementwise.comparison import clip, equal, isfinite, isinf, isnan, signbit, where
from afx.ops.elementwise.complex import imag, real
from afx.ops.elementwise.exponentials import exp2
from afx.ops.manipulation.shape import astype
from afx.ops.reductions.sums import all

# --- Rounding: steps with derivative 0, remainders, signs and neighbouring numbers


def _keep(x: Any) -> Any:
    return x


@register_function
def floor(x: ArrayLike) -> Array:
    """Return the largest integer that is not above x, in x's dtype; its derivative is 0.

    >>> floor(-1.5)
    Array(-2., dtype=float32)
    """
    return bind1(floor_p, x)


floor_p: Primitive = nondifferentiable("floor", np.floor, kinds="biuf", formula=_keep, formula_kinds="biu")


@register_function
def ceil(x: ArrayLike) -> Array:
    """Return the smallest integer that is not below x, in x's dtype; its derivative is 0.

    >>> ceil(-1.5)
    Array(-1., dtype=float32)
    """
    return bind1(ceil_p, x)


ceil_p: Primitive = nondifferentiable("ceil", np.ceil, kinds="biuf", formula=_keep, formula_kinds="biu")


@register_function
def trunc(x: ArrayLike) -> Array:
    """Return x without its fraction, in x's dtype; its derivative is 0.

    >>> trunc(-1.5)
    Array(-1., dtype=float32)
    """
    return bind1(trunc_p, x)


def _truncate(x: Any) -> Any:
    return xp.where(x < 0, xp.ceil(x), xp.floor(x)) if x.dtype.kind == "f" else x


trunc_p: Primitive = nondifferentiable("trunc", np.trunc, kinds="biuf", formula=_truncate, formula_kinds="biuf")

fix = trunc


@register_function
def round(x: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    """Return x rounded to the nearest integer, halves to the even one; its derivative is 0.

    Args:
        x: any shape.
        decimals: digits behind the point that are kept; below 0, digits in front of it that become 0. Integers keep
            all others, which NumPy loses beyond 2**53; multiples that the dtype does not hold are what NumPy gives.
        out: None: results are not written into arrays.

    >>> round(2.5)
    Array(2., dtype=float32)
    """
    if out is not None:
        refuse_out(out, "round")
    decimals = integer(decimals, "round", "decimals")
    kind = aval_of(x, "round").dtype.kind
    if not decimals or kind == "b" or (kind in "iu" and decimals > 0):
        return bind1(round_p, x)
    if kind in "iu":
        return _round_integers(x, 10**-decimals)
    scale = 10.0 ** builtins.abs(decimals)  # 0.01 is no exact number, 100 is
    if decimals < 0:
        return bind1(round_p, divide(x, scale)) * scale
    return bind1(round_p, multiply(x, scale)) / scale


around = round


@register_function
def rint(x: ArrayLike) -> Array:
    """Return x rounded to the nearest integer, halves to the even one: `round` under NumPy's other name.

    >>> rint(1.5)
    Array(2., dtype=float32)
    """
    return bind1(round_p, x)


def _round_integers(x: ArrayLike, power: int) -> Array:
    """Return integers rounded to a multiple of a power of ten; what the dtype does not hold becomes NumPy's number."""
    dtype = aval_of(x).dtype
    info = np.iinfo(dtype)
    if 2 * info.max < power:
        return multiply(x, 0)
    if dtype.itemsize < 4 or dtype == np.uint32:  # NumPy's conversions of numbers beyond these wrap around
        return astype(_tens(astype(x, np.int64), power)[0], dtype)
    least = np.asarray(info.min, dtype)
    if power > info.max:
        return where((asarray(x) > power // 2) | (asarray(x) < -(power // 2)), least, multiply(x, 0))
    z, up = _tens(x, power)
    return where(where(up, z < x, z > x), least, z)


def _tens(x: ArrayLike, power: int) -> tuple[Array, Array]:
    """Return integers rounded to a multiple of a power of ten, halves to the even multiple, and which went up."""
    rest = remainder(x, power)
    below = subtract(x, rest)
    odd = (below // power) % 2 == 1
    up = (rest > power // 2) | ((rest == power // 2) & odd)
    return where(up, below + power, below), up


def _rint(x: Any) -> Any:
    return _rint_of(numpy_of(x))


def _rint_of(x: Any) -> Any:
    return x if x.dtype.kind in "biu" else np.rint(x)


round_p: Primitive = nondifferentiable(
    "round",
    _rint,
    kinds="biufc",
    canonical="rint",
    may_alias=True,
    native=record(_rint_of),
    formula=_keep,
    formula_kinds="biu",
    parts=each_part(xp.rint),
)


@register_function
def copysign(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the magnitude of x with the sign of y; differentiable in x.

    >>> copysign(2.0, -0.0)
    Array(-2., dtype=float32)
    """
    return bind2(copysign_p, x, y)


def _compare_signs(_z: Array, x: Array, y: Array) -> Array:
    """Return 1 where the sign stays, -1 where it turns, 0 at 0."""
    return where(x == 0, 0.0, where(signbit(x) == signbit(y), 1.0, -1.0)).astype(x.dtype)


copysign_p: Primitive = binary(
    "copysign",
    np.copysign,
    (_compare_signs, 0.0),
    kinds="f",
    finite_partials=True,
    formula=lambda x, y: xp.where(xp.signbit(x) ^ xp.signbit(y), -x, x),
)


@register_function
def fmod(x: ArrayLike, y: ArrayLike) -> Array:
    """Return what is left of x after taking away whole multiples of y, with the sign of x; see also `remainder`.

    >>> fmod(-7.0, 3.0)
    Array(-1., dtype=float32)
    """
    return bind2(fmod_p, x, y)


def _fmod_of_integers(x: Any, y: Any) -> Any:
    rest = xp.remainder(x, y)
    return xp.where((rest != 0) & ((x < 0) ^ (y < 0)), rest - y, rest)


fmod_p: Primitive = binary(
    "fmod",
    np.fmod,
    (1.0, lambda z, x, y: rint((z - x) / y)),  # x / y itself may round up to the next integer
    kinds="iuf",
    formula=_fmod_of_integers,
    formula_kinds="iu",
)


@register_function
def nextafter(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the number next to x in the direction of y, in their dtype; its derivative by x is 1, by y 0.

    >>> nextafter(0.0, 1.0)
    Array(1.e-45, dtype=float32)
    """
    return bind2(nextafter_p, asarray(x) if is_weak(x) and is_weak(y) else x, y)  # of the default dtype's numbers


nextafter_p: Primitive = binary("nextafter", np.nextafter, (1.0, 0.0), kinds="f")


# --- Floating-point parts: mantissas and exponents, spacing, divisors and bits


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
    y = numpy_of(x)
    if y.dtype.kind != "f":
        raise DtypeError(f"exponent: takes floating numbers: got {aval_of(x)}; convert them with astype")
    return np.frexp(y)[1]


def _exponent_by_logarithm(x: Any) -> Any:
    """Return the exponent of a number as a fraction from a half to 1: by its logarithm, whose floor is put right by one."""
    wide = xp.abs(x.astype(np.float64))  # of which every single is a normal number
    is_tiny, is_regular = wide < 2.0**-1022, (wide > 0) & (wide < math.inf)
    size = xp.where(is_regular, xp.where(is_tiny, wide * 2.0**54, wide), 0.5)
    whole = xp.floor(xp.log2(size)) + 1.0
    fraction = size * xp.exp2(-whole)
    whole = whole + xp.where(fraction >= 1, 1.0, xp.where(fraction < 0.5, -1.0, 0.0))
    return xp.where(is_regular, xp.where(is_tiny, whole - 54.0, whole), 0.0)


exponent_p: Primitive = nondifferentiable(
    "exponent",
    _exponent,
    kinds="f",
    promotes_to_float=False,
    result=lambda _: np.dtype(np.int32),
    formula=_exponent_by_logarithm,
)


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
    rest = clip(astype(power, float64), -4 * most, 4 * most)
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


spacing_p: Primitive = nondifferentiable("spacing", np.spacing, kinds="f")


# -- other forms of known functions --
@register_function
def heaviside(x: ArrayLike, middle: ArrayLike) -> Array:
    """Return 0 where x is negative, 1 where it is positive, ``middle`` where it is 0; differentiable in ``middle``.

    >>> heaviside(np.array([-2.0, 0.0, 3.0]), 0.5)
    Array([0. , 0.5, 1. ], dtype=float64)
    """
    a, b = aval_of(x, "heaviside"), aval_of(middle, "heaviside")
    dtype = common_dtype((a, b), floating=True)
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
    dtype = common_dtype((a, b), floating=True)
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
    bound = tol * epsilon(real_dtype(y.dtype)) if tol > 1 else tol
    known = (abs_(imag(stop_gradient(y))) < bound).all().concrete("real_if_close")
    return real(y) if known else y


# -- integers --
@register_function
def gcd(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the greatest common divisors of integers.

    >>> gcd(12, 18)
    Array(6, dtype=int64)
    """
    return bind2(gcd_p, x, y)


def _gcd(x: Any, y: Any) -> Any:
    """Return the greatest common divisor by Euclid's algorithm, the sign of which is dropped in the end."""

    def goes_on(state: Any) -> Any:
        return xp.any(state[1] != 0)

    def step(state: Any) -> Any:
        x, y = state
        return xp.where(y == 0, x, y), xp.remainder(x, y)

    zeros = xp.zeros_like(x * y)
    return xp.abs(FUNCTIONS.while_loop(goes_on, step, (x + zeros, y + zeros))[0])


gcd_p: Primitive = nondifferentiable("gcd", np.gcd, kinds="iu", formula=_gcd, formula_kinds="iu")


@register_function
def lcm(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the least common multiples of integers.

    >>> lcm(4, 6)
    Array(12, dtype=int64)
    """
    return bind2(lcm_p, x, y)


def _lcm(x: Any, y: Any) -> Any:
    divisor = xp.gcd(x, y)
    return xp.floor_divide(xp.abs(x), xp.where(divisor == 0, 1, divisor)) * xp.abs(y)


lcm_p: Primitive = nondifferentiable("lcm", np.lcm, kinds="iu", formula=_lcm, formula_kinds="iu")


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


# --- Closeness: comparisons of arrays up to a tolerance


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
