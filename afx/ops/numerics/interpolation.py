"""Interpolation: sampled functions interpolated, integrated and differentiated, and functions applied along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from afx.core import Array, ArrayLike, float64, floating_dtype, is_weak, promote, real_dtype, register_function
from afx.core.aval import Aval, aval_of, broadcast_avals, normalize_axis
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops.creation.creation import Nested, as_array, asarray, promote_operands
from afx.ops.elementwise.arithmetic import abs as abs_, divide, floor_divide, remainder
from afx.ops.elementwise.comparison import clip, isfinite, isnan, where
from afx.ops.indexing.gather import gather
from afx.ops.indexing.index import ints, is_sequence
from afx.ops.manipulation.join import concat, moveaxis, stack, unstack
from afx.ops.manipulation.shape import astype, broadcast_to, expand_dims, reshape
from afx.ops.reductions.cumulative import cumsum, diff
from afx.ops.reductions.sums import sum
from afx.ops.sorting.sort import argsort, searchsorted

# --- Interpolation: sampled functions interpolated, integrated and differentiated, and phases without jumps

Numbers: TypeAlias = ArrayLike | Sequence[float]


# -- interpolation --
@register_function
def interp(
    x: Numbers,
    xp: Numbers,
    fp: Numbers,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """Return the values at x of the piecewise linear function through points; differentiable in all operands.

    At a point the slope is that of the piece to its right, at the last one that of the last piece.

    Args:
        x: any shape.
        xp: float[n], the points, ascending unless ``period`` is given.
        fp: float[n], the values there, real or complex.
        left: the value in front of the first point, ``fp[0]`` unless given.
        right: the value behind the last point, ``fp[-1]`` unless given.
        period: makes the function periodic; ``left`` and ``right`` are then not used.

    Raises:
        ShapeError: points and values are no vectors of one length, or there are none.
        DtypeError: complex numbers or points.

    >>> interp(2.5, np.array([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 0.0]))
    Array(1., dtype=float64)
    """
    at, points, values = promote_operands(x, xp, fp)
    if points.ndim != 1 or points.shape != values.shape or not points.size:
        raise ShapeError(
            f"interp: points and values are vectors of one length: got {points.aval} and {values.aval}; reshape them"
        )
    if at.dtype.kind == "c" or points.dtype.kind == "c":
        raise DtypeError(
            f"interp: complex numbers have no order: got {at.aval} among {points.aval}; take the abs or a part"
        )
    weak = isinstance(x, (int, float))
    dtype = promote((at.dtype, points.dtype, values.dtype), (weak, False, False), floating=True)
    if dtype.itemsize < 8 and any(v.dtype.kind in "iu" for v in (at, points, values)):  # whose differences are exact
        a, p, v = (astype(v, float64) if v.dtype.kind in "iu" else v for v in (at, points, values))
        return astype(interp(a, p, v, left, right, period), dtype)
    real = real_dtype(dtype)
    at, points, values = astype(at, real), astype(points, real), astype(values, dtype)
    if period is not None:
        if aval_of(period, "interp").weak and not isinstance(period, Array) and not period:
            raise ArgumentError("interp: a period is not 0: got period=0; leave it out for a function without one")
        return _through(*_periodic(at, points, values, abs_(astype(period, real))))
    z = _through(at, points, values)
    z = where(at < points[0], values[0] if left is None else left, z)
    return where(at > points[-1], values[-1] if right is None else right, z)


def _periodic(x: Array, xp: Array, fp: Array, period: Array) -> tuple[Array, Array, Array]:
    """Return one period of the points, in order, with a neighbour at either end."""
    xp = remainder(xp, period)
    order = argsort(xp)
    xp, fp = gather(xp, order), gather(fp, order)
    around = concat([xp[-1:] - period, xp, xp[:1] + period])
    return remainder(x, period), around, concat([fp[-1:], fp, fp[:1]])


def _through(x: Array, xp: Array, fp: Array) -> Array:
    """Return the values on the straight line of the piece that x lies in, or of the nearest one."""
    n = xp.shape[0]
    if n == 1:
        return where(isnan(x), math.nan, fp[0])
    after = clip(searchsorted(xp, x, side="right"), 1, n - 1)
    x0, x1, f0, f1 = (gather(v, i) for v in (xp, fp) for i in (after - 1, after))
    step, known = x1 - x0, ~isnan(x)
    width = where(step == 0, 1, step)
    with np.errstate(invalid="ignore", over="ignore"):  # beside infinite points and values
        t, rise = (x - x0) / width, f1 - f0
        between = where(t < 0.5, f0 + rise * t, f1 - rise * ((x1 - x) / width))  # exact at both ends
        line = where((step == 0) & known, f1, between)
        steep = rise / width
        ahead, behind = f0 + steep * (x - x0), f1 + steep * (x - x1)
    beside = where(isnan(ahead), where(isnan(behind) & (f0 == f1) & known, f0, behind), ahead)
    return where(isfinite(line), line, where(x == x0, f0, where(x == x1, f1, beside)))


# -- integrals and slopes --
@register_function
def trapezoid(y: Numbers, x: Numbers | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """Return the integral along an axis of the piecewise linear function through samples.

    Args:
        y: the samples, any shape with an axis.
        x: where they were taken: float[n], or an array of y's shape; differentiable too.
        dx: the distance between them, where x is not given.
        axis: the axis.

    Raises:
        ShapeError: x is no vector as long as the axis, and does not broadcast with y.

    >>> trapezoid(np.array([1.0, 2.0, 3.0]))
    Array(4., dtype=float64)
    """
    samples, points = promote_operands(y, dx if x is None else x)
    given = [v for v in (samples, points if x is not None else None) if v is not None and v.dtype.kind in "biu"]
    if given:  # sums and differences of which may be too large
        a, b = (astype(v, float64) if v.dtype.kind in "biu" else v for v in (samples, points))
        known = (samples.dtype,) if x is None else (samples.dtype, points.dtype)
        natural = promote(known, (False,) * len(known), floating=True)
        return astype(trapezoid(a, None if x is None else b, dx if x is None else 1.0, axis), natural)
    if x is not None and points.ndim > 1:
        shape = broadcast_avals("trapezoid", [samples.aval, points.aval])
        samples, points = broadcast_to(samples, shape), broadcast_to(points, shape)
    place = normalize_axis(axis, samples.ndim, "trapezoid")
    width = dx
    if x is not None and points.ndim > 1:
        width = diff(points, axis=place)
    elif x is not None:
        if points.shape != samples.shape[place : place + 1]:
            raise ShapeError(
                f"trapezoid: x is as long as axis {place} of y: got {samples.aval} at {points.aval}; index one of them"
            )
        width = reshape(diff(points), tuple([-1 if a == place else 1 for a in range(samples.ndim)]))
    earlier, later = _ends(samples, place)
    return sum(width * (later + earlier) / 2, axis=place)


def _ends(x: Array, axis: int) -> tuple[Array, Array]:
    """Return all elements along an axis but the last, and all but the first."""
    lead = (slice(None),) * axis
    return x[(*lead, slice(0, -1))], x[(*lead, slice(1, None))]


@register_function
def gradient(
    x: Numbers, *spacing: Numbers, axis: int | Sequence[int] | None = None, edge_order: int = 1
) -> Array | tuple[Array, ...]:
    """Return the slopes along axes of a function given by samples: of second order inside, one-sided at the ends.

    `afx.grad` differentiates a function of Python; this estimates the derivative of sampled values.

    Args:
        x: the samples.
        *spacing: one number for all axes, or for each axis a number or the vector of coordinates; 1 unless given.
        axis: one axis, several, or all (None).
        edge_order: 1 or 2, the order of accuracy at the ends.

    Returns:
        An array for one axis, a tuple of them for several.

    Raises:
        ArgumentError: another order, or not as many spacings as axes.
        ShapeError: not enough samples, or another number of coordinates.

    >>> gradient(np.array([1.0, 4.0, 9.0]))
    Array([3., 4., 5.], dtype=float64)
    """
    samples = promote_operands(x, *spacing)[0]
    natural = None if samples.dtype.kind in "fc" else floating_dtype(samples.dtype)
    if natural is not None:  # differences of integers are exact in float64
        samples = astype(samples, float64)
    given = range(samples.ndim) if axis is None else ints(axis, "gradient", "axis")
    axes = tuple([normalize_axis(a, samples.ndim, "gradient") for a in given])
    if edge_order not in (1, 2):
        raise ArgumentError(
            f"gradient: the order at the edges is 1 or 2: got edge_order={edge_order}; take one of them"
        )
    pairs = zip(_spacings(spacing, axes, samples), axes, strict=True)
    slopes = [_slopes(samples, s, a, edge_order) for s, a in pairs]
    results = slopes if natural is None else [astype(z, natural) for z in slopes]
    return results[0] if len(results) == 1 else tuple(results)


def _spacings(spacing: Sequence[Any], axes: Sequence[int], like: Array) -> list[Array]:
    """Return a spacing for each axis."""
    given = [promote_operands(s, like)[0] if is_sequence(s) else s for s in spacing] or [1.0]
    if len(given) == 1 and aval_of(given[0], "gradient").ndim == 0:
        given *= len(axes)
    if len(given) != len(axes):
        raise ArgumentError(
            f"gradient: spacings are one number, or one for each axis: got {len(given)} for axes {tuple(axes)}; "
            "give as many as axes"
        )
    return given


def _check_samples(x: Array, axis: int, spacing: Aval, edge_order: int) -> None:
    """Raise ShapeError where there are too few samples along an axis, or coordinates do not fit them."""
    n = x.shape[axis]
    if n < edge_order + 1:
        raise ShapeError(f"gradient: takes {edge_order + 1} samples or more: got {x.aval} along axis {axis}; give more")
    if spacing.ndim > 1 or (spacing.ndim == 1 and spacing.shape != (n,)):
        raise ShapeError(
            f"gradient: coordinates are a vector of {n}: got {spacing} along axis {axis} of {x.aval}; reshape them"
        )


def _slopes(x: Array, spacing: Any, axis: int, edge_order: int) -> Array:
    """Return derivatives along an axis by central differences, one-sided at its ends (as `numpy.gradient`)."""
    n, aval = x.shape[axis], aval_of(spacing, "gradient")
    _check_samples(x, axis, aval, edge_order)
    front = tuple([-1 if a == axis else 1 for a in range(x.ndim)])
    dtype = x.dtype if aval.dtype.kind == "c" else real_dtype(x.dtype)
    h = spacing if aval.ndim == 0 else reshape(diff(astype(spacing, dtype)), front)
    rise = diff(x, axis=axis) / h
    before, after = _ends(rise, axis)
    low: Array | float
    high: Array | float
    if aval.ndim == 0:  # an element between others does not count, even where it is nan
        inner, low, high = (_ends(_ends(x, axis)[1], axis)[1] - _ends(_ends(x, axis)[0], axis)[0]) / (2 * h), 0.5, 0.5
    else:
        h0, h1 = _ends(h, axis)
        inner = (h0 * after + h1 * before) / (h0 + h1)
        low, high = (_take_slice(u / (h0 + h1), axis, k) if n > 2 else 0 for u, k in ((h0, 0), (h1, -1)))
    first, last = _take_slice(rise, axis, 0), _take_slice(rise, axis, -1)
    if edge_order == 2:  # the line through the two slopes next to the end, continued to it
        first = first + (first - _take_slice(rise, axis, 1)) * low
        last = last + (last - _take_slice(rise, axis, -2)) * high
    return concat([first, inner, last], axis=axis)


def _take_slice(x: Array, axis: int, k: int) -> Array:
    """Return one slice along an axis, which stays."""
    return x[(*(slice(None),) * axis, slice(k, k + 1 or None))]


@register_function
def ediff1d(x: Numbers, to_end: Numbers | None = None, to_begin: Numbers | None = None) -> Array:
    """Return the differences of neighbours among all elements, with others in front and behind where they are given.

    >>> ediff1d(np.array([1.0, 4.0, 9.0]), to_begin=0)
    Array([0., 3., 5.], dtype=float64)
    """
    z = diff(reshape(as_array(x), (-1,)))
    ends = [None if v is None else reshape(asarray(v, z.dtype), (-1,)) for v in (to_begin, to_end)]
    return concat([v for v in (ends[0], z, ends[1]) if v is not None])


# -- phases --
@register_function
def unwrap(x: Numbers, discont: ArrayLike | None = None, axis: int = -1, *, period: ArrayLike = 2 * math.pi) -> Array:
    """Return phases with whole periods added, so that no step along the axis is larger than half of one.

    Args:
        x: any shape with an axis.
        discont: steps below this are left alone; half of a period unless given.
        axis: the axis.
        period: the period; differentiable too.

    >>> unwrap(np.array([0.0, 3.0, -3.0]), period=6)
    Array([0., 3., 3.], dtype=float64)
    """
    phases = promote_operands(x, period)[0]
    if phases.dtype.kind == "u" and not is_weak(phases):  # differences of which are not negative
        phases = astype(phases, promote((phases.dtype, aval_of(period, "unwrap").dtype), (False, True)))
    place = normalize_axis(axis, phases.ndim, "unwrap")
    steps, given = diff(phases, axis=place), aval_of(period, "unwrap")
    if not (is_weak(phases) and given.weak):
        period = astype(period, promote((phases.dtype, given.dtype), (False, given.weak)))
    whole = aval_of(period).dtype.kind in "iu"
    half = floor_divide(period, 2) if whole else divide(period, 2)
    turns = floor_divide(steps + half, period)
    edge = (remainder(steps + half, period) == 0) & (steps > 0)  # a step up by just a half stays a step up
    if whole:
        edge = edge & (remainder(period, 2) == 0)
    turns = where(edge, turns - 1, turns)
    turns = where(abs_(steps) < (half if discont is None else discont), 0, turns)
    kept = _take_slice(phases, place, 0)
    rest = phases[(*(slice(None),) * place, slice(1, None))]
    return concat([kept, rest - cumsum(turns, axis=place) * period], axis=place)


# --- Apply: calls of a user's function along axes


@register_function
def apply_along_axis(func: Callable[..., ArrayLike], axis: int, x: Nested, /, *args: object, **kwargs: object) -> Array:
    """Return a function of vectors, applied to each vector of x along an axis; `vmap` does this without a loop.

    Args:
        func: takes a vector, gives an array.
        axis: where the vectors lie, and the axes of the function's result that replace them.
        x: any shape with that axis.
        *args: further arguments of the function.
        **kwargs: and its named ones.

    Raises:
        ShapeError: there is no vector to apply it to.

    >>> import afx
    >>> apply_along_axis(afx.cumsum, 0, afx.ones((2, 2)))
    Array([[1., 1.],
           [2., 2.]], dtype=float32)
    """
    y = as_array(x)
    place = normalize_axis(axis, y.ndim, "apply_along_axis")
    rest = y.shape[:place] + y.shape[place + 1 :]
    if not math.prod(rest):
        raise ShapeError(f"apply_along_axis: no vector lies along axis {axis}: got {y.aval}; check for empties")
    rows = unstack(reshape(moveaxis(y, place, -1), (-1, y.shape[place])))
    stacked = stack([asarray(func(row, *args, **kwargs)) for row in rows])
    reshaped = reshape(stacked, (*rest, *stacked.shape[1:]))
    last, first = range(len(rest), reshaped.ndim), range(place, place + stacked.ndim - 1)
    return moveaxis(reshaped, tuple(last), tuple(first))


@register_function
def apply_over_axes(func: Callable[[Array, int], ArrayLike], x: Nested, axes: int | Sequence[int], /) -> Array:
    """Return a function such as `sum`, applied to x along one axis after the other; axes stay, with length 1.

    Args:
        func: takes an array and an axis, gives an array with or without that axis.
        x: any shape.
        axes: the axes.

    Raises:
        ShapeError: the function gives an array of another number of axes.

    >>> import afx
    >>> apply_over_axes(afx.sum, afx.ones((2, 3)), (0, 1))
    Array([[6.]], dtype=float32)
    """
    z = as_array(x)
    for axis in ints(axes, "apply_over_axes", "axes"):
        place = normalize_axis(axis, z.ndim, "apply_over_axes")
        reduced = asarray(func(z, place))
        if reduced.ndim == z.ndim - 1:
            reduced = expand_dims(reduced, place)
        if reduced.ndim != z.ndim:
            raise ShapeError(
                f"apply_over_axes: the function changed the axes: got {reduced.aval} of {z.aval}; keep them"
            )
        z = reduced
    return z
