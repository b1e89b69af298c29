"""Fourier transforms: along one axis and several, and the frequencies of their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from afx.core import (
    Array,
    ArrayLike,
    Primitive,
    bind_single,
    check_device,
    floating_dtype,
    is_traced,
    lookup,
    refuse_out,
)
from afx.core.aval import Aval, aval_of, integer, normalize_axes, normalize_axis
from afx.core.dtypes import DType, check_dtype, get_default_dtype, real_dtype
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops._kinds.linear import batch_unchanged, linear
from afx.ops.elementwise.complex import conj
from afx.ops.indexing.gather import embed, slice_
from afx.ops.indexing.index import ints
from afx.ops.manipulation.join import concatenate
from afx.ops.manipulation.pad import flip, roll
from afx.ops.manipulation.shape import astype

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


# --- Fourier transforms
#
# Each transform is linear, so that its derivative is itself and its pullback is its transpose, in afx's convention of
# complex cotangents (see `afx.ops.elementwise.complex`): `fft` and `ifft` are symmetric matrices. `rfft` and `irfft`
# are each other's transposes but for conjugates and for the frequencies between the first and that of Nyquist, which
# stand for two.

Norm: TypeAlias = Literal["backward", "ortho", "forward"] | None
INVERSE: dict[str, Any] = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


# -- arguments --
def normed(norm: Norm, who: str) -> Any:
    """Return the name of a normalisation, or raise."""
    if norm is None:
        return "backward"
    if str(norm) not in INVERSE:
        raise ArgumentError(f"{who}: no such norm: got {norm!r}; use 'backward', 'ortho' or 'forward'")
    return norm


def resized(x: ArrayLike, n: int | None, axis: int, who: str) -> Any:
    """Return x with n elements along an axis, counted from the front: cut, or with zeros behind it."""
    aval = aval_of(x, who)
    length = aval.shape[axis]
    if n is None or n == length:
        return x
    n = integer(n, who, "n")
    if n < 1:
        raise ArgumentError(f"{who}: a transform has one point or more: got n={n} for {aval}; give n >= 1")
    lead = tuple([(0, m, 1) for m in aval.shape[:axis]])
    if n < length:
        return slice_(x, (*lead, (0, n, 1)))
    shape = (*aval.shape[:axis], n, *aval.shape[axis + 1 :])
    return embed(x, shape, (*lead, (0, length, 1)) if length else (*lead, (0, 0, 1)))


def _transformed(p: Primitive, x: ArrayLike, n: int | None, axis: int, norm: Norm) -> Array:
    """Return a transform along an axis that is cut or padded to n elements."""
    ndim = aval_of(x, p.name).ndim
    place = normalize_axis(axis, ndim, p.name)
    return bind_single(p, resized(x, n, place, p.name), axis=place - ndim, norm=normed(norm, p.name))


def real_length(x: ArrayLike, n: int | None, axis: int, who: str) -> int:
    """Return the number of real points: as asked for, or as many as their frequencies stand for."""
    return 2 * (aval_of(x, who).shape[axis] - 1) if n is None else integer(n, who, "n")


# -- rules --
def _choose_dtype(dtype: DType) -> DType:
    """Return the dtype in which it is computed: integers in the default dtype."""
    return floating_dtype(dtype)


def _complex(dtype: DType) -> DType:
    return np.result_type(_choose_dtype(dtype), np.complex64)


def _points(who: str, x: Aval, axis: int) -> int:
    """Return the number of elements along the axis, or raise."""
    if x.ndim < -axis or not x.shape[axis]:
        raise ShapeError(f"{who}: there are no points along axis {axis}: got {x}; give n= or another axis")
    return x.shape[axis]


def _transform(name: str, numpys: Any, abstract: Any, transpose: Any, dtype: Callable[[DType], DType]) -> Primitive:
    """Make the primitive of a transform; ``dtype`` is the one its operand is converted to."""

    def run(x: Any, out: Any = None, **params: Any) -> Any:
        x = np.asarray(x, dtype(aval_of(x).dtype))
        is_double = x.dtype.char in "dD"
        return numpys(x, out=out, **params) if is_double else _transform_singles(x, out, numpys, name, **params)

    def into(z: Any, x: Any, **params: Any) -> None:
        run(x, z, **params)

    native = _make_native_form(name)
    return linear(name, run, abstract, transpose, batch=batch_unchanged(name), impl_into=into, native=native)


def _transform_singles(x: Any, z: Any, numpys: Any, name: str, *, axis: int, norm: str, n: int | None = None) -> Any:
    """Return a transform in single precision: NumPy takes double for real numbers, and where it scales by the number 1."""
    points = x.shape[axis] if n is None else n
    ufunc = getattr(getattr(np.fft, "_pocketfft_umath", None), _name_loop(name, points), None)
    if ufunc is None or (name == "rfft" and x.dtype.kind == "c"):  # which NumPy refuses
        return numpys(x, n, axis, norm, z)
    if z is None:
        shape = list(x.shape)
        shape[axis] = points // 2 + 1 if name == "rfft" else points
        z = np.empty(shape, np.float32 if name == "irfft" else np.complex64)
    given = np.asarray(x, np.float32 if name == "rfft" else np.complex64)
    scale = _scale(points, INVERSE[norm] if name[0] == "i" else norm, np.dtype(np.float32))
    return ufunc(given, scale, out=z, axes=[(axis,), (), (axis,)])


def _name_loop(name: str, points: int) -> str:
    """Return the name of the loop of a transform."""
    return f"rfft_n_{'odd' if points % 2 else 'even'}" if name == "rfft" else name


def _make_native_form(name: str) -> Callable[..., None]:
    """Return the native form of a transform: NumPy's loop."""

    def native(xp: Recorder, out: Any, x: Any, *, axis: int, norm: str, n: int | None = None) -> None:
        points, precision = x.shape[axis] if n is None else n, real_dtype(out.dtype)
        given, loop = precision if name == "rfft" else _complex(precision), f"fft.{_name_loop(name, points)}"
        dtypes = xp.loop_dtypes(loop, given, precision)
        scale = xp.constant(_scale(points, INVERSE[norm] if name[0] == "i" else norm, precision))
        along = [xp.view(y, lambda y: np.moveaxis(y, axis, -1)) for y in (xp.cast(x, dtypes[0]), out)]
        xp.call(loop, [along[0], scale], along[1:], dtypes, refuses=False)

    return native


def _scale(n: int, norm: str, dtype: DType) -> Any:
    """Return by what NumPy multiplies the results of a transform."""
    if norm == "backward":
        return np.ones((), dtype)
    return np.reciprocal(np.sqrt(n, dtype=dtype) if norm == "ortho" else n, dtype=dtype)


# -- complex transforms --
def fft(x: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm | None = None, out: None = None) -> Array:
    """Return the Fourier transform along an axis: element k is the sum of ``x[j] · exp(-2πi·j·k / n)``.

    Args:
        x: complex or real, any shape of one axis or more.
        n: the number of points; x is cut to it, or padded with zeros at its end.
        axis: the axis that is transformed.
        norm: which transforms are scaled: ``backward`` divides the inverse one by n, ``forward`` this one, ``ortho``
            both by the square root of n.
        out: None: results are not written into arrays.

    Returns:
        Complex numbers in x's precision; that of integers is the default dtype's.

    Raises:
        ArgumentError: n is less than 1, or no such norm.
        ShapeError: no such axis, or an empty one.

    >>> fft(afx.asarray([1.0, 0.0, 2.0, 0.0]))
    Array([ 3.+0.j, -1.+0.j,  3.+0.j, -1.+0.j], dtype=complex64)
    """
    if out is not None:
        refuse_out(out, "fft")
    return _transformed(fft_p, x, n, axis, norm)


def ifft(x: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm | None = None, out: None = None) -> Array:
    """Return the inverse of `fft`; arguments and errors are those of `fft`.

    >>> ifft(afx.asarray([3.0, -1.0, 3.0, -1.0]))
    Array([1.+0.j, 0.+0.j, 2.+0.j, 0.+0.j], dtype=complex64)
    """
    if out is not None:
        refuse_out(out, "ifft")
    return _transformed(ifft_p, x, n, axis, norm)


def _symmetric(name: str, numpys: Any) -> Primitive:
    """Make a transform by a symmetric matrix."""

    def abstract(x: Aval, *, axis: int, norm: str) -> Aval:
        _points(name, x, axis)
        return Aval(x.shape, _complex(x.dtype))

    def transpose(ct: Array, x: Aval, **params: Any) -> Array:
        return bind_single(lookup(name), ct, **params)

    return _transform(name, numpys, abstract, transpose, _choose_dtype)


fft_p: Primitive = _symmetric("fft", np.fft.fft)
ifft_p: Primitive = _symmetric("ifft", np.fft.ifft)


# -- real transforms --
def rfft(x: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm | None = None, out: None = None) -> Array:
    """Return the first half of the Fourier transform of real numbers, ``n // 2 + 1`` elements; the rest mirrors it.

    Arguments are those of `fft`.

    Raises:
        DtypeError: x is complex.

    >>> rfft(afx.asarray([1.0, 0.0, 2.0, 0.0]))
    Array([ 3.+0.j, -1.+0.j,  3.+0.j], dtype=complex64)
    """
    if out is not None:
        refuse_out(out, "rfft")
    return _transformed(rfft_p, x, n, axis, norm)


def _rfft_abstract(x: Aval, *, axis: int, norm: str) -> Aval:
    if x.dtype.kind == "c":
        raise DtypeError(f"rfft: the points are real: got {x}; use fft for complex ones, or take a part")
    return Aval(_replace_length(x, axis, _points("rfft", x, axis) // 2 + 1), _complex(x.dtype))


def _replace_length(x: Aval, axis: int, n: int) -> tuple[int, ...]:
    place = x.ndim + axis
    return (*x.shape[:place], n, *x.shape[place + 1 :])


def _counts(n: int, axis: int, dtype: DType, inner: float) -> np.ndarray[Any, DType]:
    """Return 1 for the frequencies that stand for themselves, and ``inner`` for those that stand for two."""
    counts = np.full(n // 2 + 1, inner, real_dtype(dtype))
    counts[0] = 1
    if n % 2 == 0:
        counts[-1] = 1
    return counts.reshape((-1,) + (1,) * (-axis - 1))


def _rfft_transpose(ct: Array, x: Aval, *, axis: int, norm: str) -> Array:
    n = x.shape[axis]
    return bind_single(irfft_p, conj(ct) * _counts(n, axis, ct.dtype, 0.5), axis=axis, norm=INVERSE[norm], n=n)


rfft_p: Primitive = _transform("rfft", np.fft.rfft, _rfft_abstract, _rfft_transpose, _choose_dtype)


def irfft(x: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm | None = None, out: None = None) -> Array:
    """Return the inverse of `rfft`: n real numbers from the first half of their transform.

    Args:
        x: complex; the imaginary parts of the first frequency, and of the last where n is even, count as 0.
        n: the number of real points, ``2 · (length - 1)`` without it; odd numbers of points need it.
        axis: the axis that is transformed.
        norm: as for `fft`.
        out: None: results are not written into arrays.

    Raises:
        ArgumentError: n is less than 1, or no such norm.
        ShapeError: no such axis, or too few elements along it.

    >>> irfft(afx.asarray([3.0, -1.0, 3.0]))
    Array([1., 0., 2., 0.], dtype=float32)
    """
    if out is not None:
        refuse_out(out, "irfft")
    return _to_real(x, n, axis, normed(norm, "irfft"), "irfft")


def _to_real(x: ArrayLike, n: int | None, axis: int, norm: str, who: str) -> Array:
    aval = aval_of(x, who)
    place = normalize_axis(axis, aval.ndim, who)
    n = real_length(x, n, place, who)
    if n < 1:
        raise ArgumentError(f"{who}: a transform has one point or more: got n={n} for {aval}; give n >= 1")
    return bind_single(irfft_p, resized(x, n // 2 + 1, place, who), axis=place - aval.ndim, norm=norm, n=n)


def _irfft_abstract(x: Aval, *, axis: int, norm: str, n: int) -> Aval:
    if _points("irfft", x, axis) != n // 2 + 1:
        raise ShapeError(f"irfft: {n} points have {n // 2 + 1} frequencies: got {x} along axis {axis}; cut or pad it")
    return Aval(_replace_length(x, axis, n), real_dtype(_complex(x.dtype)))


def _irfft_transpose(ct: Array, x: Aval, *, axis: int, norm: str, n: int) -> Array:
    return conj(bind_single(rfft_p, ct, axis=axis, norm=INVERSE[norm])) * _counts(n, axis, ct.dtype, 2)


irfft_p: Primitive = _transform("irfft", np.fft.irfft, _irfft_abstract, _irfft_transpose, _complex)


def hfft(x: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm | None = None, out: None = None) -> Array:
    """Return the transform, which is real, of a signal whose second half mirrors the conjugate of its first.

    Args:
        x: the first half of the signal.
        n: the number of points of the result, ``2 · (length - 1)`` without it.
        axis: the axis that is transformed.
        norm: as for `fft`.
        out: None: results are not written into arrays.

    Raises:
        ArgumentError: n is less than 1, or no such norm.
        ShapeError: no such axis, or too few elements along it.

    >>> hfft(afx.asarray([1.0, 0.0, 2.0]))
    Array([ 3., -1.,  3., -1.], dtype=float32)
    """
    if out is not None:
        refuse_out(out, "hfft")
    return _to_real(conj(x), n, axis, INVERSE[normed(norm, "hfft")], "hfft")


def ihfft(x: ArrayLike, n: int | None = None, axis: int = -1, norm: Norm | None = None, out: None = None) -> Array:
    """Return the inverse of `hfft`; arguments are those of `fft`.

    Raises:
        DtypeError: x is complex.

    >>> ihfft(afx.asarray([3.0, -1.0, 3.0, -1.0]))
    Array([1.-0.j, 0.-0.j, 2.-0.j], dtype=complex64)
    """
    if out is not None:
        refuse_out(out, "ihfft")
    return conj(_transformed(rfft_p, x, n, axis, INVERSE[normed(norm, "ihfft")]))


# -- frequencies --
def fftfreq(n: int, d: float = 1.0, device: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return the frequencies of the elements of `fft`, in cycles per unit of the spacing.

    Args:
        n: the number of points.
        d: their spacing.
        dtype: a real floating one, the default dtype without it.
        device: ``"cpu"``, the only one.

    Raises:
        ArgumentError: n is less than 1, or another device.
        DtypeError: the dtype is not a real floating one.

    >>> fftfreq(4, 0.25)
    Array([ 0.,  1., -2., -1.], dtype=float32)
    """
    return _frequencies(np.fft.fftfreq, n, d, dtype, device, "fftfreq")


def rfftfreq(n: int, d: float = 1.0, device: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return the frequencies of the elements of `rfft`; arguments and errors are those of `fftfreq`.

    >>> rfftfreq(4, 0.25)
    Array([0., 1., 2.], dtype=float32)
    """
    return _frequencies(np.fft.rfftfreq, n, d, dtype, device, "rfftfreq")


def _frequencies(numpys: Any, n: int, d: float, dtype: DTypeLike | None, device: str | None, who: str) -> Array:
    check_device(device, who)
    target = get_default_dtype() if dtype is None else check_dtype(dtype, who)
    if target.kind != "f":
        raise DtypeError(f"{who}: frequencies are real numbers: got {target}; use a floating dtype")
    points = integer(n, who, "n")
    if points < 1:
        raise ArgumentError(f"{who}: a transform has one point or more: got n={n}; give n >= 1")
    if aval_of(d, who).dtype.kind == "c" or not (is_traced(d) or d):
        raise ArgumentError(f"{who}: the distance of samples is real and not 0: got d={d}; give another")
    return astype(numpys(points, d), target)


def fftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Return x rolled along axes, all of them by default, so that frequency 0 stands in the middle.

    Raises:
        ShapeError: no such axis.

    >>> fftshift(afx.asarray([0.0, 1.0, -2.0, -1.0]))
    Array([-2., -1.,  0.,  1.], dtype=float32)
    """
    aval = aval_of(x, "fftshift")
    places = normalize_axes(axes, aval.ndim, "fftshift")
    return roll(x, [aval.shape[a] // 2 for a in places], places)


def ifftshift(x: ArrayLike, axes: int | Sequence[int] | None = None) -> Array:
    """Return the inverse of `fftshift`, which differs from it where an axis has an odd length.

    Raises:
        ShapeError: no such axis.

    >>> ifftshift(afx.asarray([-2.0, -1.0, 0.0, 1.0]))
    Array([ 0.,  1., -2., -1.], dtype=float32)
    """
    aval = aval_of(x, "ifftshift")
    places = normalize_axes(axes, aval.ndim, "ifftshift")
    return roll(x, [-(aval.shape[a] // 2) for a in places], places)


# --- Multidimensional Fourier transforms: one-dimensional ones along each axis in turn
#
# Spectra of real numbers mirror themselves, so that one half of them is computed and the other one copied from it.

Ints = Sequence[int] | None
Step = tuple[int, int]
Transform = Callable[[ArrayLike, int | None, int, Norm], Array]

LAST = (-2, -1)
MIRRORED_MIN_POINTS = 1024  # of real numbers: below, copies cost more than the half of the transforms that they save


def steps_of_axes(x: ArrayLike, s: Ints, axes: Ints, who: str) -> list[Step]:
    """Return the number of points and the axis of each transform."""
    shape = aval_of(x, who).shape
    lengths = None if s is None else ints(s, who, "s")
    count = len(shape) if lengths is None else len(lengths)
    places = tuple(range(-count, 0)) if axes is None else ints(axes, who, "axes")
    if lengths is not None and len(lengths) != len(places):
        raise ArgumentError(f"{who}: lengths and axes differ in number: got s={s} and axes={axes}; give one for each")
    axes_of_steps = [normalize_axis(a, len(shape), who) for a in places]
    return [
        (shape[a] if n == -1 else n, a)
        for n, a in zip(lengths or (-1,) * len(axes_of_steps), axes_of_steps, strict=True)
    ]


def _transform_in_turn(transform: Transform, x: ArrayLike, steps: Sequence[Step], norm: Norm) -> Array:
    """Return x, as complex or real floating numbers, transformed along each axis, the last one first."""
    z = astype(x, floating_dtype(aval_of(x).dtype))
    for n, axis in reversed(steps):
        z = transform(z, n, axis, norm)
    return z


def _has_mirrored_half(x: ArrayLike, steps: Sequence[Step]) -> bool:
    """Tell whether a spectrum has halves of which one is worth copying from the other."""
    axes = {axis for _, axis in steps}
    is_large = len(axes) == len(steps) > 1 and math.prod([n for n, _ in steps]) >= MIRRORED_MIN_POINTS
    return aval_of(x).dtype.kind != "c" and is_large


def _mirror_half(x: ArrayLike, steps: Sequence[Step], norm: Norm) -> Array:
    """Return the transform of real numbers along several axes: z[-k] is the conjugate of z[k]."""
    *others, (n, axis) = steps
    half = _transform_in_turn(fft, rfft(x, n, axis, norm), others, norm)
    tail = slice_(half, (*[(0, m, 1) for m in half.shape[:axis]], (1, (n + 1) // 2, 1)))
    rest = [a for _, a in others]
    return concatenate([half, conj(roll(flip(tail, [axis, *rest]), 1, rest))], axis)


def _real_steps(x: ArrayLike, s: Ints, axes: Ints, who: str) -> tuple[list[Step], Step]:
    """Return the complex transforms and the one to or from real numbers."""
    steps = steps_of_axes(x, s, axes, who)
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
    steps = steps_of_axes(x, s, axes, "fftn")
    return _mirror_half(x, steps, norm) if _has_mirrored_half(x, steps) else _transform_in_turn(fft, x, steps, norm)


def ifftn(x: ArrayLike, s: Ints = None, axes: Ints = None, norm: Norm | None = None, out: None = None) -> Array:
    """Return the inverse of `fftn`; arguments and errors are those of `fftn`.

    >>> ifftn(afx.asarray([[2.0, 0.0], [0.0, 2.0]]))
    Array([[1.+0.j, 0.+0.j],
           [0.+0.j, 1.+0.j]], dtype=complex64)
    """
    if out is not None:
        refuse_out(out, "ifftn")
    return _transform_in_turn(ifft, x, steps_of_axes(x, s, axes, "ifftn"), norm)


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
