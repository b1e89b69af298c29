"""Basic samplers: bits, uniform and normal numbers, integers and Booleans, from which all others are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of, checked_shape
from afx.core.dtypes import check_dtype, float64, int64, uint32
from afx.errors import DtypeError
from afx.ops.elementwise.comparison import less
from afx.ops.elementwise.rounding import nextafter
from afx.ops.elementwise.where import where
from afx.ops.manipulation.shape import astype
from afx.ops.random.bits import random_bits
from afx.ops.random.integers import random_integers
from afx.ops.random.uniform_family import random_draw
from afx.random._arguments import (
    ShapeLike,
    checked_key,
    drawn_shape,
    require_order,
    require_probability,
    require_scale,
    resolve_arguments,
)

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["bernoulli", "bits", "normal", "rademacher", "randint", "uniform"]


def bits(key: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike = uint32) -> Array:
    """Return random bits as unsigned integers.

    Args:
        key: uint32[2].
        shape: of the result; 0-d without one.
        dtype: uint8, uint16, uint32 or uint64.

    Raises:
        DtypeError: another dtype.

    >>> bits(afx.random.key(0), 2)
    Array([1713891541, 3781805453], dtype=uint32)
    """
    found = check_dtype(dtype, "bits")
    if found.kind != "u":
        raise DtypeError(f"bits: fill unsigned integers: got {found}; use afx.uint32 or afx.uint64")
    return random_bits(checked_key(key, "bits"), checked_shape(() if shape is None else shape, "bits"), found)


def uniform(
    key: ArrayLike,
    shape: ShapeLike = None,
    low: ArrayLike = 0.0,
    high: ArrayLike = 1.0,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return numbers that are uniform from ``low`` up to, never including, ``high``; differentiable in both.

    Between 0 and 1 they are multiples of 2⁻²⁴ in float32 and of 2⁻⁵³ in float64, all equally likely. Where ``low``
    equals ``high``, that is what is drawn.

    Args:
        key: uint32[2].
        shape: of the result; that of the bounds without one.
        low: the lower bounds.
        high: the upper bounds.
        dtype: that of the bounds, or the default dtype.

    Raises:
        ArgumentError: a lower bound lies above the upper one.
        ShapeError: the bounds do not broadcast to the shape.
        DtypeError: the dtype is not a real floating one.

    >>> uniform(afx.random.key(0), 2)
    Array([0.39904642, 0.88052016], dtype=float32)
    """
    lengths, found, (a, b) = resolve_arguments("uniform", key, shape, dtype, low, high)
    require_order("uniform", a, b)
    z = random_draw(key, "uniform", lengths, found)
    if is_number(a, 0):
        return z if is_number(b, 1) else z * b
    x: Array = a + (b - a) * z
    end = astype(b, found)
    return where(less(x, end), x, nextafter(end, astype(a, found)))  # rounding may reach the bound


def is_number(x: ArrayLike, value: float) -> bool:
    """Tell whether x is this Python number."""
    return isinstance(x, (int, float)) and x == value


def normal(
    key: ArrayLike,
    shape: ShapeLike = None,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
    *,
    dtype: DTypeLike | None = None,
) -> Array:
    """Return normal numbers of mean ``loc`` and standard deviation ``scale``; differentiable in both.

    They are quantiles (Wichura 1988, Algorithm AS241) of evenly spaced probabilities, so that a standard normal
    number lies within ±6.3 in float32 and ±9.1 in float64.

    Args:
        key: uint32[2].
        shape: of the result; that of the parameters without one.
        loc: the means.
        scale: the standard deviations, 0 or more.
        dtype: that of the parameters, or the default dtype.

    Raises:
        ArgumentError: a scale is negative.
        ShapeError: the parameters do not broadcast to the shape.
        DtypeError: the dtype is not a real floating one.

    >>> normal(afx.random.key(0), 2)
    Array([ 1.27613..., -0.30411...], dtype=float32)
    """
    return loc_scale_sample("normal", "normal", key, shape, loc, scale, dtype)


def loc_scale_sample(
    who: str, distribution: str, key: ArrayLike, shape: ShapeLike, loc: Any, scale: Any, dtype: Any
) -> Array:
    """Return ``loc + scale · z`` for draws z from a standard distribution."""
    lengths, found, (centre, width) = resolve_arguments(who, key, shape, dtype, loc, scale)
    require_scale(who, width)
    z = random_draw(key, distribution, lengths, found)
    if not is_number(width, 1):
        z = z * width
    return z if is_number(centre, 0) else z + centre


def randint(
    key: ArrayLike, low: ArrayLike, high: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike = int64
) -> Array:
    """Return integers from ``low`` up to, not including, ``high``, all equally likely. Integers have no derivative.

    Args:
        key: uint32[2].
        low: the lower bounds.
        high: the upper bounds.
        shape: of the result; that of the bounds without one.
        dtype: an integer dtype.

    Raises:
        ArgumentError: there is no integer between the bounds, or the dtype does not hold them.
        ShapeError: the bounds do not broadcast to the shape.
        DtypeError: the dtype, or that of the bounds, is not an integer one.

    >>> randint(afx.random.key(0), 0, 10, 5)
    Array([9, 8, 8, 1, 9], dtype=int64)
    """
    found = check_dtype(dtype, "randint")
    for kind in (found, aval_of(low, "randint").dtype, aval_of(high, "randint").dtype):
        if kind.kind not in "iu":
            raise DtypeError(f"randint: draws integers between integers: got {kind}; convert with astype")
    lengths = drawn_shape("randint", shape, low, high)
    return random_integers(checked_key(key, "randint"), low, high, lengths, found)


def bernoulli(key: ArrayLike, p: ArrayLike, shape: ShapeLike = None) -> Array:
    """Return True with probability ``p``, to 2⁻⁵³. What is drawn has no derivative.

    Args:
        key: uint32[2].
        p: probabilities.
        shape: of the result; that of ``p`` without one.

    Raises:
        ArgumentError: a probability does not lie from 0 to 1.
        ShapeError: the probabilities do not broadcast to the shape.

    >>> bernoulli(afx.random.key(0), 0.5, 3)
    Array([False, False,  True], dtype=bool)
    """
    lengths, _, _ = resolve_arguments("bernoulli", key, shape, None, p)
    require_probability("bernoulli", p)
    return less(random_draw(key, "uniform", lengths, float64), p)


def rademacher(key: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return -1 or 1, equally likely; of any signed dtype, the default dtype without one.

    >>> rademacher(afx.random.key(0), 3, dtype=afx.int64)
    Array([-1, -1,  1], dtype=int64)
    """
    checked_key(key, "rademacher")
    found = resolve_arguments("rademacher", key, (), None)[1] if dtype is None else check_dtype(dtype, "rademacher")
    if found.kind not in "ifc":
        raise DtypeError(f"rademacher: draws 1 and -1: got {found}; use a signed dtype")
    signs = random_bits(key, checked_shape(() if shape is None else shape, "rademacher"), uint32)
    return astype(1 - 2 * astype(signs & 1, int64), found)
