"""Ranges: evenly spaced numbers and grids."""

from __future__ import annotations

import cmath
import contextlib
import math
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import DTypeLike

from afx.core import Array, ArrayLike, Tracer, check_device, common_dtype, register_function, to_numpy_value, wrap
from afx.core.aval import aval_of, broadcast_avals, integer, normalize_axis
from afx.core.dtypes import DType, check_dtype, float64, get_default_dtype, int64, real_dtype
from afx.core.tracing.tracer import any_traced
from afx.errors import ArgumentError, ConcreteValueError, ShapeError
from afx.ops.creation.creation import Nested, asarray, promote_operands
from afx.ops.elementwise.arithmetic import abs, divide, pow, subtract
from afx.ops.elementwise.comparison import where
from afx.ops.elementwise.floating_point import floor, round
from afx.ops.indexing.index import is_sequence
from afx.ops.manipulation.join import moveaxis
from afx.ops.manipulation.shape import astype, broadcast_to, expand_dims, reshape


def _as(numbers: Any, dtype: DType) -> Any:
    return numbers.astype(dtype)


def _bounds(start: ArrayLike, stop: ArrayLike, step: ArrayLike) -> list[Any]:
    """Return the bounds and the step of a range as Python's numbers.

    Raises:
        ConcreteValueError: one of them is traced.
        ShapeError: one is no single number.
        ArgumentError: one is not finite, or the step is 0.
    """
    given = (start, stop, step)
    if any_traced(given):
        raise ConcreteValueError(
            "arange: the number of elements depends on a traced value: got a traced bound; "
            "use linspace, or make the bound static"
        )
    for v in given:
        if aval_of(v, "arange").shape not in ((), (1,)):
            raise ShapeError(f"arange: bounds are single numbers: got {aval_of(v)}; index it, or use linspace")
    bounds = [np.asarray(v).item() for v in given]
    if not all(map(cmath.isfinite, bounds)):
        raise ArgumentError(f"arange: bounds are finite: got arange({start}, {stop}, {step}); give others")
    if not bounds[2]:
        raise ArgumentError(f"arange: the step is 0: got arange({start}, {stop}, {step}); give another step")
    return bounds


@register_function
def arange(
    start: ArrayLike,
    stop: ArrayLike | None = None,
    step: ArrayLike = 1,
    dtype: DTypeLike | None = None,
    *,
    device: str | None = None,
) -> Array:
    """Return numbers from ``start`` up to, not including, ``stop`` in equal steps; ``arange(n)`` starts at 0.

    Integers give int64, floats the default dtype.

    >>> arange(3)
    Array([0, 1, 2], dtype=int64)
    """
    check_device(device, "arange")
    bounds = _bounds(*((0, start) if stop is None else (start, stop)), step)
    natural = get_default_dtype() if any(isinstance(v, float) for v in bounds) else int64
    target = natural if dtype is None else check_dtype(dtype, "arange")
    return wrap(_as(np.arange(*bounds), target))


@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: Literal[False] = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: str | None = None,
) -> Array: ...
@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    *,
    retstep: Literal[True],
    dtype: DTypeLike | None = None,
    axis: int = 0,
    device: str | None = None,
) -> tuple[Array, Array]: ...
@overload
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int,
    endpoint: bool,
    retstep: Literal[True],
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: str | None = None,
) -> tuple[Array, Array]: ...
@register_function
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike | None = None,
    axis: int = 0,
    *,
    device: str | None = None,
) -> Array | tuple[Array, Array]:
    """Return ``num`` numbers at equal distances from ``start`` to ``stop``; differentiable in both.

    Args:
        start: the first number (or an array of them: the numbers run along a new axis).
        stop: the last one, left out where ``endpoint`` is false.
        num: how many.
        endpoint: whether ``stop`` is among them.
        retstep: whether the distance is returned beside them, nan where there is none.
        dtype: that of the ends, the default dtype for Python numbers and integers, unless given.
        axis: where the new axis stands, in front unless given.
        device: ``"cpu"``, the only one.

    >>> linspace(0.0, 1.0, 3)
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    check_device(device, "linspace")
    num = integer(num, "linspace", "num")
    if retstep:
        gaps = num - 1 if endpoint else num
        distance = divide(subtract(stop, start), gaps) if gaps > 0 else asarray(math.nan)
        return linspace(start, stop, num, endpoint, dtype=dtype, axis=axis), distance
    if num < 0:
        raise ArgumentError(f"linspace: the number of samples must be non-negative: got num={num}; give num >= 0")
    a, b = aval_of(start, "linspace"), aval_of(stop, "linspace")
    rank = len(broadcast_avals("linspace", [a, b]))
    axis = normalize_axis(axis, rank + 1, "linspace")
    natural = common_dtype((a, b), floating=True)
    target = natural if dtype is None else check_dtype(dtype, "linspace")
    if not isinstance(start, Tracer) and not isinstance(stop, Tracer):
        first, last = (to_numpy_value(x, "linspace") for x in (start, stop))
        return wrap(np.linspace(first, last, num, endpoint=endpoint, axis=axis, dtype=target))
    kinds = {x.dtype.kind for x in (a, b) if not x.weak}
    is_wide = not kinds or not kinds.isdisjoint("iub")  # NumPy's numbers, and Python's alone, are float64
    wide = np.result_type(natural, np.float64) if is_wide else natural
    first, last, parts = asarray(start, wide), asarray(stop, wide), num - 1 if endpoint else num
    count = np.arange(num, dtype=real_dtype(wide)).reshape((-1,) + (1,) * rank)
    z = asarray(count) * ((last - first) / parts if parts > 0 else last - first) + first
    z = where(count == num - 1, last, z) if endpoint and num > 1 else z
    return _along(astype(floor(z) if target.kind in "iu" else z, target), axis)


def _along(z: Array, axis: int) -> Array:
    """Return numbers with their first axis moved."""
    return z if axis == 0 else moveaxis(z, 0, axis)


@register_function
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """Return ``num`` numbers from ``base**start`` to ``base**stop``, each the same multiple of the one before.

    Arguments are those of `linspace`, for the exponents; differentiable in the ends and in the base, which broadcasts
    with them.

    >>> logspace(0.0, 2.0, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    a, b, c = aval_of(start, "logspace"), aval_of(stop, "logspace"), aval_of(base, "logspace")
    if c.shape:
        rank = len(broadcast_avals("logspace", [a, b, c]))
        start, base = (reshape(x, (1,) * (rank - v.ndim) + v.shape) for x, v in ((start, a), (base, c)))
        base = expand_dims(base, axis)
    z = pow(base, linspace(start, stop, num, endpoint=endpoint, axis=axis))
    return z if dtype is None else z.astype(check_dtype(dtype, "logspace"))


def _near_whole(x: Array) -> Array:
    """Return whole numbers in place of those that are one but for rounding (1000 to the power of a third)."""
    near = round(x)
    return where(abs(x - near) <= 1e-12 * abs(near), near, x)


@register_function
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: DTypeLike | None = None,
    axis: int = 0,
) -> Array:
    """Return ``num`` numbers from ``start`` to ``stop``, each the same multiple of the one before.

    Arguments are those of `linspace`; both ends have the same sign and are not 0. Differentiable in both. Of a whole
    dtype are the numbers without their fractions, as far as these are more than rounding.

    >>> geomspace(1.0, 4.0, 3)
    Array([1., 2., 4.], dtype=float32)
    """
    a, b = aval_of(start, "geomspace"), aval_of(stop, "geomspace")
    rank = len(broadcast_avals("geomspace", [a, b]))
    axis = normalize_axis(axis, rank + 1, "geomspace")
    kept = None if dtype is None else check_dtype(dtype, "geomspace")
    natural = common_dtype((a, b), floating=True)
    natural = np.result_type(natural, kept) if kept is not None and kept.kind == "c" else natural
    whole = kept is not None and kept.kind in "iu" and natural.kind == "f"
    natural = float64 if whole else natural
    first, last = (astype(x, natural) for x in (start, stop))
    with contextlib.suppress(ConcreteValueError):  # compiled, they cannot be checked
        if ((first == 0) | (last == 0)).any():
            raise ArgumentError(
                f"geomspace: no multiple of 0 is another number: got {start!r} and {stop!r}; use linspace"
            )
    steps = linspace(0.0, 1.0, num, endpoint=endpoint, dtype=real_dtype(natural)).reshape((-1,) + (1,) * rank)
    z = _along(where(steps == 1, last, first * pow(last / first, steps)), axis)
    z = _near_whole(z) if whole else z
    return z if kept is None else z.astype(kept)


@register_function
def meshgrid(*arrays: Nested, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> tuple[Array, ...]:
    """Return the coordinates of a grid: each 1-d array repeated along the axes of the others.

    Args:
        *arrays: coordinates along each axis.
        indexing: ``"xy"`` exchanges the first two axes of the results, as plots want them; ``"ij"`` does not.
        sparse: leaves axes of length 1, which broadcast.
        copy: has no effect, since arrays are immutable.

    Raises:
        ArgumentError: another indexing.
        ShapeError: an array with more than one axis.

    >>> [x.shape for x in meshgrid(np.ones(2), np.ones(3))]
    [(3, 2), (3, 2)]
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"meshgrid: indexing is 'xy' or 'ij': got {indexing!r}; take one of them")
    operands = promote_operands(*arrays) if any(map(is_sequence, arrays)) else [asarray(x) for x in arrays]
    xs = [reshape(x, (-1,)) if x.ndim == 0 else x for x in operands]
    if any(x.ndim != 1 for x in xs):
        raise ShapeError(f"meshgrid: takes 1-d arrays: got {', '.join(str(x.aval) for x in xs)}; flatten them")
    places = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        places[:2] = [1, 0]
    shape = [0] * len(xs)
    for x, axis in zip(xs, places, strict=True):
        shape[axis] = x.size
    columns = [x.reshape([-1 if a == axis else 1 for a in range(len(xs))]) for x, axis in zip(xs, places, strict=True)]
    return tuple(columns if sparse else [broadcast_to(x, tuple(shape)) for x in columns])
