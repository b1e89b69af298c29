"""Rounding: steps with derivative 0, remainders, signs and neighbouring numbers."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of, integer
from afx.core.options import refuse_out
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind1, bind2
from afx.core.weakness import is_weak
from afx.ops._kinds.elementwise import binary, nondifferentiable
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import divide, multiply, remainder, subtract
from afx.ops.elementwise.comparison import signbit
from afx.ops.elementwise.where import where
from afx.ops.manipulation.shape import astype

__all__ = [
    "around",
    "ceil",
    "copysign",
    "fix",
    "floor",
    "fmod",
    "nextafter",
    "rint",
    "round",
    "trunc",
]


@register_function
def floor(x: ArrayLike) -> Array:
    """Return the largest integer that is not above x, in x's dtype; its derivative is 0.

    >>> floor(-1.5)
    Array(-2., dtype=float32)
    """
    return bind1(floor_p, x)


floor_p: Primitive = nondifferentiable("floor", np.floor, kinds="biuf")


@register_function
def ceil(x: ArrayLike) -> Array:
    """Return the smallest integer that is not below x, in x's dtype; its derivative is 0.

    >>> ceil(-1.5)
    Array(-1., dtype=float32)
    """
    return bind1(ceil_p, x)


ceil_p: Primitive = nondifferentiable("ceil", np.ceil, kinds="biuf")


@register_function
def trunc(x: ArrayLike) -> Array:
    """Return x without its fraction, in x's dtype; its derivative is 0.

    >>> trunc(-1.5)
    Array(-1., dtype=float32)
    """
    return bind1(trunc_p, x)


trunc_p: Primitive = nondifferentiable("trunc", np.trunc, kinds="biuf")

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
    below: Array = subtract(x, rest)
    odd = (below // power) % 2 == 1
    up = (rest > power // 2) | ((rest == power // 2) & odd)
    return where(up, below + power, below), up


def _rint(x: Any) -> Any:
    y = np.asarray(x, aval_of(x).dtype)
    return y if y.dtype.kind in "biu" else np.rint(y)


round_p: Primitive = nondifferentiable("round", _rint, kinds="biufc", may_alias=True)


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
    promotes_to_float=True,
    smooth=False,
    finite_partials=True,
)


@register_function
def fmod(x: ArrayLike, y: ArrayLike) -> Array:
    """Return what is left of x after taking away whole multiples of y, with the sign of x; see also `remainder`.

    >>> fmod(-7.0, 3.0)
    Array(-1., dtype=float32)
    """
    return bind2(fmod_p, x, y)


fmod_p: Primitive = binary(
    "fmod",
    np.fmod,
    (1.0, lambda z, x, y: rint((z - x) / y)),  # x / y itself may round up to the next integer
    kinds="iuf",
    smooth=False,
    domain=(0.5, 2.0),
)


@register_function
def nextafter(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the number next to x in the direction of y, in their dtype; its derivative by x is 1, by y 0.

    >>> nextafter(0.0, 1.0)
    Array(1.e-45, dtype=float32)
    """
    return bind2(nextafter_p, asarray(x) if is_weak(x) and is_weak(y) else x, y)  # of the default dtype's numbers


nextafter_p: Primitive = binary("nextafter", np.nextafter, (1.0, 0.0), kinds="f", promotes_to_float=True, smooth=False)
