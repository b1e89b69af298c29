"""Correlations: sums of the elements around each one, multiplied by weights, and how arrays continue."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from afx.core import (
    Array,
    ArrayLike,
    DType,
    check_dtype,
    float64,
    integer,
    is_traced,
    normalize_axes,
    normalize_axis,
    real_dtype,
)
from afx.core.aval import aval_of
from afx.errors import ArgumentError, ShapeError
from afx.ops import abs as abs_, astype, conj, flip, moveaxis, pad, reshape
from afx.ops._kinds.matrix import choice
from afx.ops.creation.creation import Nested, as_array, promote_operands
from afx.ops.indexing.index import ints, is_sequence
from afx.ops.nn.convolution import conv

__all__ = ["convolve", "convolve1d", "correlate", "correlate1d"]

Mode: TypeAlias = Literal[
    "reflect", "grid-mirror", "constant", "grid-constant", "nearest", "mirror", "wrap", "grid-wrap"
]
Modes: TypeAlias = Mode | Sequence[Mode]
Axes: TypeAlias = int | Sequence[int] | None

PADS: dict[str, Any] = {  # NumPy's words for SciPy's
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "constant": "constant",
    "grid-constant": "constant",
    "nearest": "edge",
    "mirror": "reflect",
    "wrap": "wrap",
    "grid-wrap": "wrap",
}


# --- Arguments


def find_axes(axes: Axes, ndim: int, who: str) -> tuple[int, ...]:
    """Return axes counted from the front in the order given, which is that of what is given for each of them."""
    normalize_axes(axes, ndim, who)
    given = range(ndim) if axes is None else ints(axes, who, "an axis")
    return tuple([normalize_axis(a, ndim, who) for a in given])


def each(given: Any, count: int, who: str, what: str) -> list[Any]:
    """Return a value for each axis, from one for all or from a sequence."""
    values = list(given) if is_sequence(given) or getattr(given, "ndim", None) else [given] * count
    if len(values) != count:
        raise ArgumentError(f"{who}: {what} is one value, or one for each of {count} axes: got {given!r}; match them")
    return values


def number(given: Any, who: str, what: str) -> float:
    """Return a real number as Python's, or raise `ArgumentError`."""
    aval = aval_of(given, who)
    if aval.shape or aval.dtype.kind not in "biuf" or not np.isfinite(np.asarray(given, np.float64)):
        raise ArgumentError(f"{who}: {what} is a real number: got {given!r}; give one")
    return float(np.asarray(given))


def choose_dtypes(x: Array, output: DTypeLike | None, who: str, *, is_complex: bool = False) -> tuple[DType, DType]:
    """Return the dtype that is computed in, and that of the result: complex where that is, as SciPy promotes it."""
    if isinstance(output, (np.ndarray, Array)):
        raise ArgumentError(f"{who}: results are not written into arrays: got output={output!r}; give a dtype or None")
    result = x.dtype if output is None else check_dtype(output, who)
    wide = [result] if result.kind in "fc" else []
    working = float64 if x.dtype.kind in "biu" else np.result_type(x.dtype, np.float32, *wide)
    both = (working, result)
    return (np.result_type(working, np.complex64), np.result_type(result, np.complex64)) if is_complex else both


def exact(x: Nested) -> Array:
    """Return an array, Python's numbers in double precision, which they lose only where data are of less."""
    return promote_operands(x, np.zeros(0))[0]


def settle(z: Array, dtype: DType) -> Array:
    """Return results in their dtype, of booleans without fractions beyond rounding, as SciPy stores them."""
    return abs_(z) > 1 - 1e-9 if dtype.kind == "b" else astype(z, dtype)


# --- Filters: weighted sums of the elements around each one


def _widen(
    x: Array, weights: Array, axes: Sequence[int], mode: str, cval: ArrayLike, origins: Sequence[Any], who: str
) -> Array:
    """Return an array with the elements around it that weights along some axes, in order, reach."""
    choice(who, "mode", mode, tuple(PADS))
    widths = [(0, 0)] * x.ndim
    for axis, size, given in zip(axes, weights.shape, origins, strict=True):
        origin = integer(given, who, "origin")
        if not size or not -(size // 2) <= origin <= (size - 1) // 2:
            raise ArgumentError(
                f"{who}: weights have elements, and their origin is one of them: got {weights.aval} with "
                f"origin={origin}; the middle one is 0"
            )
        before = size // 2 + origin
        widths[axis] = (before, size - 1 - before)
    if not x.size or not axes:
        return x
    return pad(x, widths, PADS[mode], constant_values=cval) if PADS[mode] == "constant" else pad(x, widths, PADS[mode])


def correlate_axes(
    x: Array, weights: Array, axes: Sequence[int], mode: str, cval: ArrayLike, origins: Sequence[Any], who: str
) -> Array:
    """Return the correlation along some axes, in order, with an array of weights that has one axis for each."""
    wide = _widen(x, weights, axes, mode, cval, origins, who)
    if not x.size or not axes:
        return x
    rest = [a for a in range(x.ndim) if a not in axes]
    rows = moveaxis(wide, (*rest, *axes), range(x.ndim))
    lead = rows.shape[: len(rest)]
    z = conv(reshape(rows, (math.prod(lead), *rows.shape[len(rest) :], 1)), weights[..., None, None])
    return moveaxis(reshape(z, (*lead, *z.shape[1:-1])), range(x.ndim), (*rest, *axes))


def _add_pairs(wide: Array, weights: Array, axis: int) -> Array:
    """Return the correlation with symmetric weights in SciPy's order, the middle, then pairs from afar.

    Fractions are cut off whole numbers, so that a sum of 22 less its rounding is 21.
    """
    half = weights.size // 2
    parts = [wide[(slice(None),) * axis + (slice(k, k + wide.shape[axis] - 2 * half),)] for k in range(weights.size)]
    z = parts[half] * weights[half]
    for k in range(half):
        z = z + (parts[k] + parts[-1 - k]) * weights[k]
    return z


def correlate_settled(
    x: Nested, weights: Nested, axes: Axes, output: Any, mode: str, cval: ArrayLike, origin: Any, who: str
) -> Array:
    """Return the correlation with weights, in the dtype of the result."""
    given, w = as_array(x), exact(weights)
    places = find_axes(axes, given.ndim, who)
    if w.ndim != len(places):
        raise ShapeError(
            f"{who}: weights have as many axes as they are moved along: got {w.aval} for {len(places)} of {given.aval}; "
            "reshape them"
        )
    working, result = choose_dtypes(given, output, who, is_complex="c" in (w.dtype.kind, given.dtype.kind))
    origins = each(origin, len(places), who, "origin")
    w = astype(w, working if w.dtype.kind == "c" else real_dtype(working))
    x, is_row = astype(given, working), w.ndim == 1 and w.size % 2 == 1 and not is_traced(w)
    if x.size and is_row and result.kind in "iu" and bool((w == flip(w)).all()):
        return settle(_add_pairs(_widen(x, w, places, mode, cval, origins, who), w, places[0]), result)
    return settle(correlate_axes(x, w, places, mode, cval, origins, who), result)


def correlate1d(
    input: Nested,
    weights: Nested,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: Mode = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Array:
    """Return sums of the elements around each one along an axis, multiplied by weights.

    Args:
        input: any shape of one axis or more.
        weights: float[k]; complex ones are conjugated.
        axis: the axis.
        output: the dtype of the result, that of the input by default.
        mode: how the input continues.
        cval: what it continues with where ``mode`` is ``constant``.
        origin: which of the weights belongs to the element itself, counted from the middle one.

    Raises:
        ArgumentError: no such mode, or an origin beside the weights.
        ShapeError: no such axis, or weights of several axes.

    >>> correlate1d(np.array([1.0, 2.0, 4.0]), [1.0, -1.0])
    Array([ 0., -1., -2.], dtype=float64)
    """
    who = "correlate1d"
    place = normalize_axis(axis, as_array(input).ndim, who)
    return correlate_settled(input, conj(exact(weights)), (place,), output, mode, cval, origin, who)


def convolve1d(
    input: Nested,
    weights: Nested,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: Mode = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Array:
    """Return `correlate1d` with the weights in reverse order; arguments and errors are its.

    >>> convolve1d(np.array([1.0, 2.0, 4.0]), [1.0, -1.0])
    Array([1., 2., 0.], dtype=float64)
    """
    place = normalize_axis(axis, as_array(input).ndim, "convolve1d")
    return _convolve(input, weights, (place,), output, mode, cval, origin, "convolve1d")


def correlate(
    input: Nested,
    weights: Nested,
    output: DTypeLike | None = None,
    mode: Mode = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: Axes = None,
) -> Array:
    """Return sums of the elements around each one along several axes, all by default, multiplied by weights.

    Other arguments and errors are those of `correlate1d`; ``origin`` may be one number for each axis.

    >>> correlate(np.eye(2), np.ones((3, 3)), mode="constant")
    Array([[2., 2.],
           [2., 2.]], dtype=float64)
    """
    return correlate_settled(input, conj(exact(weights)), axes, output, mode, cval, origin, "correlate")


def convolve(
    input: Nested,
    weights: Nested,
    output: DTypeLike | None = None,
    mode: Mode = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: Axes = None,
) -> Array:
    """Return `correlate` with the weights in reverse order along each axis, complex ones as they are.

    >>> convolve(np.array([1.0, 2.0, 4.0]), [0.0, 1.0, 0.5], mode="constant")
    Array([1. , 2.5, 5. ], dtype=float64)
    """
    return _convolve(input, weights, axes, output, mode, cval, origin, "convolve")


def _convolve(
    x: Nested, weights: Nested, axes: Axes, output: Any, mode: str, cval: ArrayLike, origin: Any, who: str
) -> Array:
    w = exact(weights)
    given = [integer(o, who, "origin") for o in each(origin, w.ndim, who, "origin")]
    origins = [-o - (1 - size % 2) for o, size in zip(given, w.shape, strict=True)]
    return correlate_settled(x, flip(w), axes, output, mode, cval, origins, who)
