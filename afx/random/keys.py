"""Keys: values from which random numbers come, and the basic samplers of bits, uniform and normal numbers."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from afx.core import (
    Array,
    ArrayLike,
    DTypeLike,
    Shape,
    Tracer,
    any_traced,
    aval_of,
    bind,
    broadcast_avals,
    broadcast_shapes,
    checked_shape,
    common_dtype,
)
from afx.core.dtypes import DType, check_dtype, float64, get_default_dtype, int64, uint32, uint64
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops import asarray, astype, less, nextafter, where
from afx.ops._basic import fit_p
from afx.ops.random.bits import SPLIT, check_key, random_bits, random_fold, random_integers
from afx.ops.random.uniform_family import random_draw

__all__ = ["bernoulli", "bits", "fold_in", "key", "normal", "rademacher", "randint", "split", "uniform"]


# --- Arguments of samplers: a key, a shape, a dtype, and parameters that broadcast to the shape

ShapeLike = int | Sequence[int] | None


def checked_key(key: ArrayLike, who: str) -> ArrayLike:
    """Return a key, or raise `ArgumentError` where it is none, or many."""
    check_key(key, who)
    if len(key.shape) != 1:  # type: ignore[union-attr]  # a key has a shape
        raise ArgumentError(f"{who}: takes one key, uint32[2]: got {aval_of(key)}; use vmap for several")
    return key


def floating(dtype: DTypeLike | None, who: str, *params: ArrayLike) -> DType:
    """Return the real floating dtype that is asked for, or that the parameters have together."""
    if dtype is None:
        avals = [aval_of(x, who) for x in params]
        target = common_dtype(avals, floating=True)
    else:
        target = check_dtype(dtype, who)
    if target.kind != "f":
        raise DtypeError(f"{who}: draws real floating numbers: got {target}; use afx.float32 or afx.float64")
    return target


def resolve_arguments(
    who: str, key: ArrayLike, shape: ShapeLike, dtype: DTypeLike | None, *params: Any
) -> tuple[Shape, DType, list[Any]]:
    """Return a draw's shape, its floating dtype, and its parameters in that dtype; Python numbers stay as they are.

    Raises:
        ArgumentError: the key is none.
        DtypeError: the dtype is not a real floating one.
        ShapeError: the parameters do not broadcast to the shape.
    """
    checked_key(key, who)
    if dtype is None and shape is not None and all(x.__class__ is float for x in params):
        return checked_shape(shape, who), get_default_dtype(), list(params)
    target = floating(dtype, who, *params)
    lengths = drawn_shape(who, shape, *params)
    cast = [float(x) if isinstance(x, (int, float)) else astype(x, target) for x in params]
    return lengths, target, cast


def drawn_shape(who: str, shape: ShapeLike, *params: ArrayLike) -> Shape:
    """Return the shape of a draw: the one asked for, or that of its parameters."""
    avals = [aval_of(x, who) for x in params]
    if shape is None:
        return broadcast_avals(who, avals) if avals else ()
    lengths = checked_shape(shape, who)
    if broadcast_shapes([lengths, *[a.shape for a in avals]]) != lengths:
        got = ", ".join(map(str, avals))
        raise ShapeError(f"{who}: parameters do not broadcast to the shape: got {got} and shape {lengths}; widen it")
    return lengths


def _values_of(*params: Any) -> list[Any] | None:
    """Return the bare values of parameters, None where one is traced: those are trusted."""
    if any_traced(params):
        return None
    return [x._value if isinstance(x, Array) else x for x in params]


def _refuse(who: str, what: str, *params: Any) -> NoReturn:
    got = ", ".join([repr(x) if isinstance(x, (int, float)) else str(aval_of(x)) for x in params])
    raise ArgumentError(f"{who}: {what}: got {got}; change it")


def require_positive(who: str, name: str, x: Any) -> None:
    """Raise `ArgumentError` where a parameter whose value is known is not above 0."""
    values = _values_of(x)
    if values and not np.all(values[0] > 0):
        _refuse(who, f"{name} is above 0", x)


def require_scale(who: str, x: Any, name: str = "a scale") -> None:
    """Raise `ArgumentError` where a parameter whose value is known is below 0."""
    if x.__class__ is float and x >= 0:
        return
    values = _values_of(x)
    if values and not np.all(values[0] >= 0):
        _refuse(who, f"{name} is 0 or more", x)


def require_probability(who: str, x: Any) -> None:
    """Raise `ArgumentError` where a probability whose value is known does not lie from 0 to 1."""
    values = _values_of(x)
    if values and not (np.all(values[0] >= 0) and np.all(values[0] <= 1)):
        _refuse(who, "a probability lies from 0 to 1", x)


def require_order(who: str, low: Any, high: Any) -> None:
    """Raise `ArgumentError` where a lower bound whose value is known lies above the upper one."""
    if low.__class__ is high.__class__ is float and low <= high:
        return
    values = _values_of(low, high)
    if values and not np.all(values[0] <= values[1]):
        _refuse(who, "low lies below high", low, high)


# --- Keys: values from which random numbers come; the same key always gives the same numbers
#
# A key is a plain array uint32[2], so that it passes through `afx.jit`, `afx.vmap` and pytrees as any other. Use each
# key once: for one draw, or to make other keys of it.

MASK = 0xFFFFFFFF


def key(seed: int | ArrayLike) -> Array:
    """Return the key of a seed, uint32[2]: its lower and upper 32 bits.

    Args:
        seed: from 0 up to, not including, 2⁶⁴; as an array (0-d) it may be traced.

    Raises:
        ArgumentError: no integer, or one out of range.

    >>> key(0)
    Array([0, 0], dtype=uint32)
    """
    if isinstance(seed, Tracer):
        return _split_seed(seed)
    number = _number(seed, "key", 0)
    return asarray([number & MASK, number >> 32], uint32)


def _number(data: object, who: str, least: int) -> int:
    try:
        number = operator.index(data)  # type: ignore[arg-type]  # what is no integer raises
    except TypeError as error:
        raise ArgumentError(f"{who}: takes an integer: got {data!r}; give one below 2**64") from error
    if not least <= number < 1 << 64:
        raise ArgumentError(f"{who}: takes an integer from {least} to 2**64 - 1: got {number}; take it modulo 2**64")
    return number


def _split_seed(seed: Tracer) -> Array:
    aval = aval_of(seed)
    if aval.dtype.kind not in "iu" or aval.shape:
        raise ArgumentError(f"key: a seed is one integer: got {aval}; use vmap for several")
    wide = bind(fit_p, seed, dtype=uint64)
    return asarray([wide & MASK, wide >> 32], uint32)


def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Array:
    """Return new keys made of one, uint32[num, 2], or uint32[*num, 2] for a shape of them.

    Do not draw from a key that has been split: draw from the new ones.

    >>> first, second = split(afx.random.key(0))
    """
    return random_bits(checked_key(key, "split"), (*checked_shape(num, "split"), 2), uint32, SPLIT)


def fold_in(key: ArrayLike, data: int | ArrayLike) -> Array:
    """Return the key that a key and an integer make, such as the number of a step or of a process.

    Args:
        key: uint32[2].
        data: an integer of up to 64 bits; 0-d.

    Raises:
        ArgumentError: no key, no integer, or an integer of more than 64 bits.

    >>> fold_in(afx.random.key(0), 7).shape
    (2,)
    """
    if isinstance(data, int):
        data = np.asarray(_number(data, "fold_in", -1 << 63), uint64 if data >= 0 else int64)
    aval = aval_of(data, "fold_in")
    if aval.dtype.kind not in "iu" or aval.shape:
        raise ArgumentError(f"fold_in: folds one integer into a key: got {aval}; use vmap for several")
    return random_fold(checked_key(key, "fold_in"), data)


# --- Basic samplers: bits, uniform and normal numbers, integers and Booleans, from which all others are made


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
    target = check_dtype(dtype, "bits")
    if target.kind != "u":
        raise DtypeError(f"bits: fill unsigned integers: got {target}; use afx.uint32 or afx.uint64")
    return random_bits(checked_key(key, "bits"), checked_shape(() if shape is None else shape, "bits"), target)


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
        ArgumentError: a lower bound lies above the upper one, or their distance is no number of the dtype.
        ShapeError: the bounds do not broadcast to the shape.
        DtypeError: the dtype is not a real floating one.

    >>> uniform(afx.random.key(0), 2)
    Array([0.39904642, 0.88052016], dtype=float32)
    """
    lengths, target, (a, b) = resolve_arguments("uniform", key, shape, dtype, low, high)
    require_order("uniform", a, b)
    _require_width(a, b, target)
    z = random_draw(key, "uniform", lengths, target)
    if is_number(a, 0):
        return z if is_number(b, 1) else z * b
    x: Array = a + (b - a) * z
    end = astype(b, target)
    return where(less(x, end), x, nextafter(end, astype(a, target)))  # rounding may reach the bound


def _require_width(low: Any, high: Any, dtype: DType) -> None:
    """Raise `ArgumentError` where bounds whose values are known are so far apart that all draws would be one number."""
    if low.__class__ is high.__class__ is float and high - low < float(np.finfo(dtype).max):
        return
    values = _values_of(low, high)
    with np.errstate(over="ignore", invalid="ignore"):
        if values and not np.all(np.isfinite(np.asarray(values[1], dtype) - np.asarray(values[0], dtype))):
            _refuse("uniform", f"the distance of bounds is a number in {dtype}", low, high)


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
    lengths, target, (centre, width) = resolve_arguments(who, key, shape, dtype, loc, scale)
    require_scale(who, width)
    z = random_draw(key, distribution, lengths, target)
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
    asked = check_dtype(dtype, "randint")
    for target in (asked, aval_of(low, "randint").dtype, aval_of(high, "randint").dtype):
        if target.kind not in "iu":
            raise DtypeError(f"randint: draws integers between integers: got {target}; convert with astype")
    lengths = drawn_shape("randint", shape, low, high)
    return random_integers(checked_key(key, "randint"), low, high, lengths, asked)


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
    target = resolve_arguments("rademacher", key, (), None)[1] if dtype is None else check_dtype(dtype, "rademacher")
    if target.kind not in "ifc":
        raise DtypeError(f"rademacher: draws 1 and -1: got {target}; use a signed dtype")
    signs = random_bits(key, checked_shape(() if shape is None else shape, "rademacher"), uint32)
    return astype(1 - 2 * astype(signs & 1, int64), target)
