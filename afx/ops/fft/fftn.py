"""Multidimensional Fourier transforms: one-dimensional ones along each axis in turn.

Spectra of real numbers mirror themselves, so that one half of them is computed and the other one copied from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of, normalize_axis
from afx.core.dtypes import promote
from afx.core.options import refuse_out
from afx.errors import ArgumentError
from afx.ops.elementwise.complex import conj
from afx.ops.fft.fft import Norm, fft, ifft, irfft, rfft
from afx.ops.indexing.index import ints
from afx.ops.indexing.slice import slice_
from afx.ops.manipulation.join import concatenate
from afx.ops.manipulation.pad import flip, roll
from afx.ops.manipulation.shape import astype

__all__ = ["fft2", "fftn", "ifft2", "ifftn", "irfft2", "irfftn", "rfft2", "rfftn"]

Ints = Sequence[int] | None
Step = tuple[int, int]
Transform = Callable[[ArrayLike, int | None, int, Norm], Array]

LAST = (-2, -1)
MIRRORED_MIN_POINTS = 1024  # of real numbers: below, copies cost more than the half of the transforms that they save


def _steps(x: ArrayLike, s: Ints, axes: Ints, who: str) -> list[Step]:
    """Return the number of points and the axis of each transform."""
    shape = aval_of(x, who).shape
    lengths = None if s is None else ints(s, who, "s")
    count = len(shape) if lengths is None else len(lengths)
    places = tuple(range(-count, 0)) if axes is None else ints(axes, who, "axes")
    if lengths is not None and len(lengths) != len(places):
        raise ArgumentError(f"{who}: lengths and axes differ in number: got s={s} and axes={axes}; give one for each")
    found = [normalize_axis(a, len(shape), who) for a in places]
    return [(shape[a] if n == -1 else n, a) for n, a in zip(lengths or (-1,) * len(found), found, strict=True)]


def _transform_in_turn(transform: Transform, x: ArrayLike, steps: Sequence[Step], norm: Norm) -> Array:
    """Return x, as complex or real floating numbers, transformed along each axis, the last one first."""
    dtype = aval_of(x).dtype
    z = astype(x, promote((dtype,), (False,), True))
    for n, axis in reversed(steps):
        z = transform(z, n, axis, norm)
    return z


def _has_mirrored_half(x: ArrayLike, steps: Sequence[Step]) -> bool:
    """Tell whether a spectrum has halves of which one is worth copying from the other."""
    aval = aval_of(x)
    axes = {axis for _, axis in steps}
    is_large = len(axes) == len(steps) > 1 and math.prod([n for n, _ in steps]) >= MIRRORED_MIN_POINTS
    return aval.dtype.kind != "c" and is_large


def _mirror_half(x: ArrayLike, steps: Sequence[Step], norm: Norm) -> Array:
    """Return the transform of real numbers along several axes: z[-k] is the conjugate of z[k]."""
    *others, (n, axis) = steps
    half = _transform_in_turn(fft, rfft(x, n, axis, norm), others, norm)
    tail = slice_(half, (*[(0, m, 1) for m in half.shape[:axis]], (1, (n + 1) // 2, 1)))
    rest = [a for _, a in others]
    return concatenate([half, conj(roll(flip(tail, [axis, *rest]), 1, rest))], axis)


def _real_steps(x: ArrayLike, s: Ints, axes: Ints, who: str) -> tuple[list[Step], Step]:
    """Return the complex transforms and the one to or from real numbers."""
    steps = _steps(x, s, axes, who)
    if not steps:
        raise ArgumentError(
            f"{who}: a transform of real numbers has an axis: got axes={axes} for {aval_of(x)}; name one"
        )
    return steps[:-1], steps[-1]


def fftn(x: ArrayLike, s: Ints = None, axes: Ints = None, norm: Norm | None = None, out: None = None) -> Array:
    """Return the Fourier transform along several axes.

    Args:
        x: complex or real, any shape.
        s: the number of points along each of the axes, to which x is cut or padded with zeros; -1 leaves an axis as
            it is.
        axes: the axes, all by default, or the last ``len(s)``.
        norm: as for `afx.fft.fft`.
        out: None: results are not written into arrays.

    Raises:
        ArgumentError: ``s`` and ``axes`` differ in number, a number of points is less than 1, or no such norm.
        ShapeError: no such axis, or an empty one.

    >>> fftn(afx.asarray([[1.0, 0.0], [0.0, 1.0]]))
    Array([[2.+0.j, 0.+0.j],
           [0.+0.j, 2.+0.j]], dtype=complex64)
    """
    if out is not None:
        refuse_out(out, "fftn")
    steps = _steps(x, s, axes, "fftn")
    return _mirror_half(x, steps, norm) if _has_mirrored_half(x, steps) else _transform_in_turn(fft, x, steps, norm)


def ifftn(x: ArrayLike, s: Ints = None, axes: Ints = None, norm: Norm | None = None, out: None = None) -> Array:
    """Return the inverse of `fftn`; arguments and errors are those of `fftn`.

    >>> ifftn(afx.asarray([[2.0, 0.0], [0.0, 2.0]]))
    Array([[1.+0.j, 0.+0.j],
           [0.+0.j, 1.+0.j]], dtype=complex64)
    """
    if out is not None:
        refuse_out(out, "ifftn")
    return _transform_in_turn(ifft, x, _steps(x, s, axes, "ifftn"), norm)


def rfftn(x: ArrayLike, s: Ints = None, axes: Ints = None, norm: Norm | None = None, out: None = None) -> Array:
    """Return half of the Fourier transform of real numbers along several axes: `afx.fft.rfft` along the last of them.

    Arguments are those of `fftn`.

    Raises:
        DtypeError: x is complex.
        ArgumentError: no axes.

    >>> rfftn(afx.asarray([[1.0, 0.0], [0.0, 1.0]]))
    Array([[2.+0.j, 0.+0.j],
           [0.+0.j, 2.+0.j]], dtype=complex64)
    """
    if out is not None:
        refuse_out(out, "rfftn")
    steps, (n, axis) = _real_steps(x, s, axes, "rfftn")
    return _transform_in_turn(fft, rfft(x, n, axis, norm), steps, norm)


def irfftn(x: ArrayLike, s: Ints = None, axes: Ints = None, norm: Norm | None = None, out: None = None) -> Array:
    """Return the inverse of `rfftn`; ``s`` is the shape of the real result, and its last length may be odd with it only.

    Arguments and errors are those of `fftn`.

    >>> irfftn(afx.asarray([[2.0, 0.0], [0.0, 2.0]]))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if out is not None:
        refuse_out(out, "irfftn")
    steps, (n, axis) = _real_steps(x, s, axes, "irfftn")
    return irfft(_transform_in_turn(ifft, x, steps[::-1], norm), None if s is None else n, axis, norm)


def fft2(x: ArrayLike, s: Ints = None, axes: Sequence[int] = LAST, norm: Norm | None = None, out: None = None) -> Array:
    """Return the Fourier transform along two axes, the last ones by default; see `fftn`.

    >>> fft2(afx.asarray([[1.0, 0.0], [0.0, 1.0]]))
    Array([[2.+0.j, 0.+0.j],
           [0.+0.j, 2.+0.j]], dtype=complex64)
    """
    if out is not None:
        refuse_out(out, "fft2")
    return fftn(x, s, axes, norm)


def ifft2(
    x: ArrayLike, s: Ints = None, axes: Sequence[int] = LAST, norm: Norm | None = None, out: None = None
) -> Array:
    """Return the inverse of `fft2`; see `ifftn`.

    >>> ifft2(afx.asarray([[2.0, 0.0], [0.0, 2.0]]))
    Array([[1.+0.j, 0.+0.j],
           [0.+0.j, 1.+0.j]], dtype=complex64)
    """
    if out is not None:
        refuse_out(out, "ifft2")
    return ifftn(x, s, axes, norm)


def rfft2(
    x: ArrayLike, s: Ints = None, axes: Sequence[int] = LAST, norm: Norm | None = None, out: None = None
) -> Array:
    """Return half of the Fourier transform of real numbers along two axes; see `rfftn`.

    >>> rfft2(afx.asarray([[1.0, 0.0], [0.0, 1.0]]))
    Array([[2.+0.j, 0.+0.j],
           [0.+0.j, 2.+0.j]], dtype=complex64)
    """
    if out is not None:
        refuse_out(out, "rfft2")
    return rfftn(x, s, axes, norm)


def irfft2(
    x: ArrayLike, s: Ints = None, axes: Sequence[int] = LAST, norm: Norm | None = None, out: None = None
) -> Array:
    """Return the inverse of `rfft2`; see `irfftn`.

    >>> irfft2(afx.asarray([[2.0, 0.0], [0.0, 2.0]]))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    if out is not None:
        refuse_out(out, "irfft2")
    return irfftn(x, s, axes, norm)
