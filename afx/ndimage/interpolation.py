"""Interpolation: values between the elements of arrays, and arrays moved, turned and magnified."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, DType, DTypeLike, float64, integer, is_traced, normalize_axes, real_dtype
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ndimage.correlation import PADS, Mode, choose_dtypes, correlate_axes, each, exact, number, settle
from afx.ops import astype, clip, cos, floor, moveaxis, pad, reshape, sin, stack, sum as sum_, trunc, where
from afx.ops._kinds.matrix import choice
from afx.ops.creation.creation import Nested, as_array, asarray
from afx.ops.indexing.gather import gather

__all__ = ["affine_transform", "map_coordinates", "rotate", "shift", "zoom"]

# --- Interpolation: values between elements, by splines of order 0 to 5
#
# The coefficients of a spline are the elements filtered by (1 - z) / (1 + z) · z^|k| for each pole z of its order (Unser
# 1999, "Splines: a perfect fit for signal and image processing"), which is a convolution as far as digits reach.

POLES = {
    0: [],
    1: [],
    2: [math.sqrt(8) - 3],
    3: [math.sqrt(3) - 2],
    4: [math.sqrt(664 - s * math.sqrt(438976)) + s * math.sqrt(304) - 19 for s in (1, -1)],
    5: [math.sqrt(67.5 - s * math.sqrt(4436.25)) + s * math.sqrt(26.25) - 6.5 for s in (1, -1)],
}
MARGIN = 12  # elements that SciPy adds where a mode has no spline of its own; beyond it, ours is the edge to all digits
SPLINES = {"reflect": "reflect", "grid-mirror": "reflect", "nearest": "reflect", "grid-wrap": "grid-wrap"}


def _find_coefficients(x: Array, axes: Sequence[int], order: int, mode: str, cval: ArrayLike) -> tuple[Array, int]:
    """Return the coefficients of the spline through x, and by how many elements they begin before it."""
    margin = MARGIN if mode in ("nearest", "grid-constant") else 0
    if margin:
        widths = [(margin, margin) if a in axes else (0, 0) for a in range(x.ndim)]
        x = pad(x, widths, "edge") if mode == "nearest" else pad(x, widths, constant_values=cval)
    for axis in axes:
        for pole in POLES[order]:
            reach = math.ceil(math.log(1e-18) / math.log(-pole))
            weights = (1 - pole) / (1 + pole) * pole ** np.abs(np.arange(-reach, reach + 1.0))
            x = correlate_axes(
                x, asarray(weights, real_dtype(x.dtype)), [axis], SPLINES.get(mode, "mirror"), 0.0, [0], "spline"
            )
    return x, margin


def _continue(c: Array, n: int, order: int, mode: str) -> Array:
    """Return coordinates as a mode repeats an axis of n elements."""
    if mode in ("constant", "grid-constant"):
        return c
    if mode == "nearest":  # beyond, all coefficients that meet are the last one
        return clip(c, -float(order), float(n - 1 + order))
    if n == 1:
        return clip(c, 0.0, 0.0)
    if mode == "mirror":
        period = 2.0 * n - 2
        low, high = c + period * trunc(-c / period), c - period * trunc(c / period)
        low, high = where(low <= 1 - n, low + period, -low), where(high >= n, period - high, high)
    elif mode in ("reflect", "grid-mirror"):
        period = 2.0 * n
        low, high = c + period * trunc(-c / period), c - period * trunc(c / period)
        low, high = where(low < -n, low + period, -low - 1), where(high >= n, period - high - 1, high)
    else:
        period, end = (n - 1.0, 0.0) if mode == "wrap" else (float(n), 1.0)
        low, high = c + period * (trunc((-end - c) / period) + 1), c - period * trunc(c / period)
    return where(c < 0, low, where(c > n - 1, high, c))


def _fold(k: Array, n: int, mode: str) -> Array:
    """Return whole places within an axis of n elements, as its spline continues."""
    if mode in ("grid-constant", "nearest"):
        return clip(k, 0, n - 1)
    if mode == "grid-wrap":
        return k % n
    ends = 0 if SPLINES.get(mode) == "reflect" else 2  # elements that the mirror image does not repeat
    period = max(2 * n - ends, 1)
    k = k % period
    return where(k >= n, period - 1 + ends // 2 - k, k)


def _find_taps(c: Array, n: int, order: int, mode: str, margin: int) -> tuple[Array, Array, Array | None, Array | None]:
    """Return places and weights of the coefficients that meet at coordinates, and where the constant stands instead.

    The constant stands for single coefficients (``grid-constant``) or for all of a coordinate (``constant``).
    """
    c = _continue(astype(c, float64) + margin, n, order, mode)
    first = floor(c) if order % 2 else floor(c + 0.5)
    t = c - first + (0.0 if order % 2 else 0.5)
    weights = [1.0 + 0.0 * t]
    for d in range(1, order + 1):  # Cox and de Boor's recursion on whole knots
        below = [(j + 1 - t) / d * w for j, w in enumerate(weights)]
        above = [(t + (d - 1 - j)) / d * w for j, w in enumerate(weights)]
        weights = [below[0], *[a + b for a, b in zip(below[1:], above, strict=False)], above[-1]]
    places = astype(first, np.int64) - order // 2 + np.arange(order + 1).reshape((-1,) + (1,) * c.ndim)
    lost = (places < 0) | (places >= n) if mode == "grid-constant" else None
    outside = (c < 0) | (c > n - 1) if mode == "constant" else None
    return _fold(places, n, mode), stack(weights), lost, outside


def _interpolate(x: Array, coordinates: Sequence[Any], order: int, mode: str, cval: ArrayLike, margin: int) -> Array:
    """Return values of the spline at coordinates along the first axes, float[*coordinates, *rest]."""
    count, rest = len(coordinates), x.ndim - len(coordinates)
    places: list[Array] = []
    factors: list[Array] = []
    lost_by_axis: list[Array] = []
    outside = None
    for axis, c in enumerate(coordinates):
        k, w, lost, beyond = _find_taps(as_array(c), x.shape[axis], order, mode, margin)
        shape = (*[order + 1 if a == axis else 1 for a in range(count)], *np.shape(c))
        places.append(reshape(k, shape))
        factors.append(reshape(astype(w, real_dtype(x.dtype)), (*w.shape, *(1,) * rest)))
        lost_by_axis += [] if lost is None else [reshape(lost, (*shape, *(1,) * rest))]
        outside = beyond if outside is None or beyond is None else outside | beyond
    z = gather(x, *places)
    for lost in lost_by_axis:
        z = where(lost, astype(cval, x.dtype), z)
    for w in factors:
        gap = z.ndim - w.ndim
        z = sum_(z * reshape(w, (w.shape[0], *(1,) * gap, *w.shape[1:])), axis=0)
    return z if outside is None else where(reshape(outside, (*outside.shape, *(1,) * rest)), astype(cval, x.dtype), z)


def _resample(x: Array, coordinates: Sequence[Any], order: int, mode: str, cval: ArrayLike, margin: int) -> Array:
    """Return values of the spline on a grid: one vector of coordinates for each axis."""
    outside = None
    for axis, c in enumerate(coordinates):
        k, w, lost, beyond = _find_taps(as_array(c), x.shape[axis], order, mode, margin)
        after = (1,) * (x.ndim - axis - 1)
        z = gather(x, k, axis=axis)
        if lost is not None:
            z = where(reshape(lost, (*lost.shape, *after)), astype(cval, x.dtype), z)
        x = sum_(z * reshape(astype(w, real_dtype(x.dtype)), (*w.shape, *after)), axis=axis)
        if beyond is not None:
            beyond = reshape(beyond, (-1, *after))
            outside = beyond if outside is None else outside | beyond
    return x if outside is None else where(outside, astype(cval, x.dtype), x)


def _settle(z: Array, dtype: DType) -> Array:
    """Return interpolated values in the dtype of the result: integers rounded, half away from 0, and within bounds."""
    if dtype.kind not in "iu":
        return settle(z, dtype)
    if dtype.kind == "u":
        z = clip(z, 0.0, float(np.iinfo(dtype).max))
    return astype(trunc(z + where(z < 0, -0.5, 0.5)), dtype)


def _prepare(
    x: Nested,
    axes: Sequence[int] | None,
    output: Any,
    order: Any,
    mode: str,
    cval: ArrayLike,
    prefilter: bool,
    who: str,
) -> tuple[Array, int, DType]:
    """Return what is interpolated, by how much it begins before the input, and the dtype of the result."""
    given = as_array(x)
    choice(who, "mode", mode, tuple(PADS))
    choice(who, "order", integer(order, who, "order"), tuple(POLES))
    if not given.ndim or not given.size:
        raise ShapeError(f"{who}: takes an array of one axis or more with elements: got {given.aval}; give another")
    working, result = choose_dtypes(given, output, who, is_complex=given.dtype.kind == "c")
    z, margin = astype(given, working), 0
    if prefilter and order > 1:
        z, margin = _find_coefficients(z, range(given.ndim) if axes is None else axes, order, mode, cval)
    return z, margin, result


def map_coordinates(
    input: Nested,
    coordinates: Nested,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: Mode = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Array:
    """Return values between the elements of an array by a spline, differentiable by elements and coordinates.

    Args:
        input: any shape of one axis or more.
        coordinates: float[ndim, *shape], or one array of each axis: where, in elements from the first one.
        output: the dtype of the result, that of the input by default.
        order: 0 takes the nearest element, 1 is linear, 3 cubic; up to 5.
        mode: how the input continues; ``constant`` and ``wrap`` differ from ``grid-constant`` and ``grid-wrap``, which
            interpolate between the last element and what follows.
        cval: what it continues with where ``mode`` is ``constant``.
        prefilter: False where the input holds a spline's coefficients.

    Returns:
        float[*shape].

    Raises:
        ArgumentError: no such order or mode.
        ShapeError: not one coordinate for each axis, or an input without elements.
        DtypeError: complex coordinates.

    >>> map_coordinates(np.array([[1.0, 2.0], [3.0, 4.0]]), [[0.5], [0.25]], order=1)
    Array([2.25], dtype=float64)
    """
    who = "map_coordinates"
    x, margin, result = _prepare(input, None, output, order, mode, cval, prefilter, who)
    places = exact(coordinates)
    if places.dtype.kind == "c":
        raise DtypeError(f"{who}: coordinates are real: got {places.aval}; take a part")
    if places.ndim < 2 or places.shape[0] != as_array(input).ndim:
        raise ShapeError(
            f"{who}: coordinates are float[{x.ndim}, *shape], one for each axis: got {places.aval} for "
            f"{as_array(input).aval}; stack them"
        )
    return _settle(_interpolate(x, list(places), order, mode, cval, margin), result)


def affine_transform(
    input: Nested,
    matrix: Nested,
    offset: ArrayLike | Sequence[ArrayLike] = 0.0,
    output_shape: Sequence[int] | None = None,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: Mode = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Array:
    """Return an array whose element at k is the input's value at ``matrix @ k + offset``.

    Other arguments and errors are those of `map_coordinates`. ``matrix`` is float[ndim, ndim], float[ndim] of a diagonal one,
    or float[ndim, ndim + 1] or float[ndim + 1, ndim + 1] with the offset as last column; ``offset`` is one number, or one for
    each axis; ``output_shape`` is that of the input by default. Differentiable by matrix and offset.

    >>> affine_transform(np.array([1.0, 2.0, 4.0]), [0.5], order=1)
    Array([1. , 1.5, 2. ], dtype=float64)
    """
    who = "affine_transform"
    x, margin, result = _prepare(input, None, output, order, mode, cval, prefilter, who)
    given = as_array(input)
    n, shape = given.ndim, given.shape if output_shape is None else tuple(output_shape)
    m = astype(exact(matrix), float64)
    if m.ndim == 2 and m.shape in ((n, n + 1), (n + 1, n + 1)):
        m, offset = m[:n, :n], m[:n, n]
    if m.shape not in ((n,), (n, n)) or len(shape) != n:
        raise ShapeError(
            f"{who}: the matrix takes places in the result to places in the input: got {m.aval} for {given.aval} and "
            f"a result of shape {shape}; give one of shape ({n}, {n})"
        )
    shifts = [astype(b, float64) for b in each(offset, n, who, "offset")]
    steps = [np.arange(float(k)) for k in shape]
    if m.ndim == 1:
        rows = [(k + shifts[d] / m[d]) * m[d] for d, k in enumerate(steps)]
        return _settle(_resample(x, rows, order, mode, cval, margin), result)
    grid = list(np.meshgrid(*steps, indexing="ij"))
    rows = [sum([m[d, e] * grid[e] for e in range(n)]) + shifts[d] for d in range(n)]
    return _settle(_interpolate(x, rows, order, mode, cval, margin), result)


def shift(
    input: Nested,
    shift: ArrayLike | Sequence[ArrayLike],
    output: DTypeLike | None = None,
    order: int = 3,
    mode: Mode = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Array:
    """Return the input moved by so many elements, one number or one for each axis; differentiable by it.

    >>> shift(np.array([1.0, 2.0, 4.0]), 0.5, order=1)
    Array([0. , 1.5, 3. ], dtype=float64)
    """
    x, margin, result = _prepare(input, None, output, order, mode, cval, prefilter, "shift")
    shape, moves = as_array(input).shape, each(shift, x.ndim, "shift", "shift")
    rows = [np.arange(float(n)) - astype(s, float64) for n, s in zip(shape, moves, strict=True)]
    return _settle(_resample(x, rows, order, mode, cval, margin), result)


def zoom(
    input: Nested,
    zoom: float | Sequence[float],
    output: DTypeLike | None = None,
    order: int = 3,
    mode: Mode = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Array:
    """Return the input with so many times as many elements along each axis, the first and last ones in their places.

    ``zoom`` is one number, or one for each axis; with ``grid_mode`` elements are areas, whose edges and not centres stay in
    their places. Other arguments and errors are those of `map_coordinates`.

    >>> zoom(np.array([1.0, 2.0, 4.0]), 5 / 3, order=1)
    Array([1. , 1.5, 2. , 3. , 4. ], dtype=float64)
    """
    x, margin, result = _prepare(input, None, output, order, mode, cval, prefilter, "zoom")
    lengths = as_array(input).shape
    sizes = [
        round(n * number(f, "zoom", "zoom")) for n, f in zip(lengths, each(zoom, x.ndim, "zoom", "zoom"), strict=True)
    ]
    if any(n < 1 for n in sizes):
        raise ArgumentError(f"zoom: the result has elements: got zoom={zoom} for {as_array(input).aval}; zoom less")
    rows: list[Any] = []
    for n, m in zip(lengths, sizes, strict=True):
        step = n / m if grid_mode else (n - 1) / (m - 1) if m > 1 else 1.0
        k = np.arange(float(m))
        rows.append((k + 0.5) * step - 0.5 if grid_mode else k * step)
    return _settle(_resample(x, rows, order, mode, cval, margin), result)


def rotate(
    input: Nested,
    angle: ArrayLike,
    axes: Sequence[int] = (1, 0),
    reshape: bool = True,
    output: DTypeLike | None = None,
    order: int = 3,
    mode: Mode = "constant",
    cval: ArrayLike = 0.0,
    prefilter: bool = True,
) -> Array:
    """Return the input turned in the plane of two axes; differentiable by the angle.

    ``angle`` is in degrees, ``axes`` the plane; with ``reshape`` the result is large enough for all of the input, which a traced
    angle cannot tell. Other arguments and errors are those of `map_coordinates`.

    >>> rotate(np.array([[1.0, 2.0], [3.0, 4.0]]), 90, order=1)
    Array([[2., 4.],
           [1., 3.]], dtype=float64)
    """
    who = "rotate"
    given = as_array(input)
    plane = normalize_axes(axes, given.ndim, who)
    if len(plane) != 2:
        raise ShapeError(f"{who}: a plane has two axes: got axes={axes} for {given.aval}; name two")
    x, margin, result = _prepare(given, plane, output, order, mode, cval, prefilter, who)
    c, s = _cosine_and_sine(angle)
    lengths = [given.shape[a] for a in plane]
    if reshape and is_traced(angle):
        raise ArgumentError(f"{who}: the shape depends on the angle, which is traced: got {angle!r}; use reshape=False")
    sizes = _turn_sizes(lengths, float(c), float(s)) if reshape else lengths
    middle = [(n - 1) / 2 for n in sizes]
    i, j = np.meshgrid(np.arange(float(sizes[0])), np.arange(float(sizes[1])), indexing="ij")
    rows = [
        a * i + b * j + ((n - 1) / 2 - (a * middle[0] + b * middle[1]))
        for a, b, n in ((c, s, lengths[0]), (-s, c, lengths[1]))
    ]
    turned = _interpolate(moveaxis(x, plane, (0, 1)), rows, order, mode, cval, margin)
    return _settle(moveaxis(turned, (0, 1), plane), result)


def _turn_sizes(sides: list[int], c: float, s: float) -> list[int]:
    """Return the sides of the rectangle that holds one of these sides, turned by an angle of this cosine and sine."""
    y, z = sides
    corners = np.array([[c, s], [-s, c]]) @ [[0, 0, y, y], [0, z, 0, z]]
    return [int(n) for n in np.ptp(corners, axis=1) + 0.5]


def _cosine_and_sine(angle: ArrayLike) -> tuple[Any, Any]:
    """Return the cosine and sine of an angle in degrees, without rounding for quarters of a turn."""
    if not is_traced(angle) and (degrees := number(angle, "rotate", "an angle")) % 90 == 0:
        quarter = int(degrees // 90) % 4
        return [1.0, 0.0, -1.0, 0.0][quarter], [0.0, 1.0, 0.0, -1.0][quarter]
    radians = asarray(angle, float64) * (math.pi / 180)
    return cos(radians), sin(radians)
