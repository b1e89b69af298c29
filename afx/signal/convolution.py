"""Convolution: of signals and images, directly or by Fourier transforms, and signals at other rates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from afx.core import (
    Array,
    ArrayLike,
    broadcast_shapes,
    floating_dtype,
    integer,
    normalize_axes,
    normalize_axis,
    real_dtype,
)
from afx.errors import ArgumentError, ShapeError
from afx.ops import astype, concat, conj, flip, median, moveaxis, pad, reshape, sliding_window_view, sort
from afx.ops._kinds.matrix import choice
from afx.ops.creation.creation import Nested, as_array, promote_operands, zeros
from afx.ops.fft import fft, fftn, ifft, ifftn, irfft, irfftn, rfft, rfftn
from afx.ops.indexing.gather import gather
from afx.ops.nn.convolution import conv, convolve as convolve_axes
from afx.ops.reductions.sums import max as max_, mean, min as min_, sum as sum_
from afx.signal.windows import Window, get_window, window_of

__all__ = [
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "fftconvolve",
    "medfilt",
    "resample",
    "resample_poly",
    "upfirdn",
]

Mode: TypeAlias = Literal["full", "same", "valid"]
Method: TypeAlias = Literal["auto", "direct", "fft"]
Boundary: TypeAlias = Literal["fill", "wrap", "symm"]

FEW = 64  # elements of the shorter operand up to which products are faster than Fourier transforms


def _check(who: str, x: Nested, y: Nested, mode: str) -> tuple[Array, Array]:
    a, b = promote_operands(x, y)
    choice(who, "mode", mode, ("full", "same", "valid"))
    if a.ndim != b.ndim or not a.ndim:
        raise ShapeError(f"{who}: operands have as many axes as each other: got {a.aval} and {b.aval}; add axes")
    return a, b


def _cut(z: Array, x: Array, y: Array, mode: str, axes: Sequence[int], who: str) -> Array:
    """Return what a mode keeps of a full convolution."""
    if mode == "full":
        return z
    n, m = x.shape, y.shape
    if mode == "valid" and any(n[a] < m[a] for a in axes) and any(n[a] > m[a] for a in axes):
        raise ShapeError(
            f"{who}: one operand is the longer one along all axes: got {x.aval} and {y.aval}; use mode='full'"
        )
    index = [slice(None)] * z.ndim
    for a in axes:
        length = n[a] if mode == "same" else max(n[a], m[a]) - min(n[a], m[a]) + 1
        start = (z.shape[a] - length) // 2
        index[a] = slice(start, start + length)
    return z[tuple(index)]


def _multiply_spectra(x: Array, y: Array, axes: Sequence[int]) -> Array:
    """Return the full convolution by Fourier transforms, both in the precision of the result."""
    dtype = floating_dtype(x.dtype, y.dtype)
    x, y = (astype(v, dtype if v.dtype.kind == "c" else real_dtype(dtype)) for v in (x, y))
    lengths = [x.shape[a] + y.shape[a] - 1 for a in axes]
    sizes = [_next_fast_length(n) for n in lengths]
    is_complex = "c" in (x.dtype.kind, y.dtype.kind)
    forward, back = (fftn, ifftn) if is_complex else (rfftn, irfftn)
    z = back(forward(x, sizes, axes) * forward(y, sizes, axes), sizes, axes)
    index = [slice(None)] * z.ndim
    for a, n in zip(axes, lengths, strict=True):
        index[a] = slice(0, n)
    return z[tuple(index)]


def _next_fast_length(n: int) -> int:
    """Return the least number of no other factors than 2, 3 and 5 that is n or more."""
    best = 1 << max(n - 1, 0).bit_length()
    for fives in range(best.bit_length()):
        for threes in range(best.bit_length()):
            rest = 5**fives * 3**threes
            if rest < best:
                best = min(best, rest << max(-(-n // rest) - 1, 0).bit_length())
    return best


def _convolve(x: Array, y: Array, mode: str, method: str, who: str) -> Array:
    choice(who, "method", method, ("auto", "direct", "fft"))
    if not x.size or not y.size:
        return zeros((0,) * x.ndim, np.result_type(x.dtype, y.dtype))
    axes = range(x.ndim)
    inexact = x.dtype.kind in "fc" or y.dtype.kind in "fc"
    if inexact and (method == "fft" or (method == "auto" and min(x.size, y.size) > FEW)):
        return _cut(_multiply_spectra(x, y, axes), x, y, mode, axes, who)
    wide = np.result_type(x.dtype, y.dtype)
    z = convolve_axes(astype(x, wide), astype(y, wide), "full", axes=(axes, axes))
    return _cut(z, x, y, mode, axes, who)


def convolve(in1: Nested, in2: Nested, mode: Mode = "full", method: Method = "auto") -> Array:
    """Return the convolution of two arrays along all their axes.

    Args:
        in1: any shape of one axis or more.
        in2: as many axes.
        mode: ``full`` keeps all that touch, ``same`` as much in the middle as the first operand has, ``valid`` where
            one operand lies within the other.
        method: ``direct``, by Fourier transforms, or the faster one of them; whole numbers are multiplied directly, exactly.

    Raises:
        ArgumentError: no such mode or method.
        ShapeError: other numbers of axes, or neither operand is the longer one where the mode is ``valid``.

    >>> convolve([1.0, 2.0, 3.0], [1.0, 1.0], "same")
    Array([1., 3., 5.], dtype=float32)
    """
    x, y = _check("convolve", in1, in2, mode)
    return _convolve(x, y, mode, method, "convolve")


def correlate(in1: Nested, in2: Nested, mode: Mode = "full", method: Method = "auto") -> Array:
    """Return the cross-correlation of two arrays along all their axes; arguments and errors are those of `convolve`.

    It is the convolution with the second operand's conjugate in reverse order; `afx.correlate` follows NumPy.

    >>> correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
    Array([0.5, 2. , 3.5, 3. , 0. ], dtype=float32)
    """
    x, y = _check("correlate", in1, in2, mode)
    return _convolve(x, flip(conj(y)), mode, method, "correlate")


def fftconvolve(in1: Nested, in2: Nested, mode: Mode = "full", axes: int | Sequence[int] | None = None) -> Array:
    """Return the convolution along some axes, all by default, by Fourier transforms; the others broadcast.

    >>> fftconvolve([1.0, 2.0], [1.0, 10.0]).round(3)
    Array([ 1., 12., 20.], dtype=float32)
    """
    who = "fftconvolve"
    x, y = _check(who, in1, in2, mode)
    along = normalize_axes(axes, x.ndim, who)
    rest = [a for a in range(x.ndim) if a not in along]
    if broadcast_shapes([tuple(v.shape[a] for a in rest) for v in (x, y)]) is None:
        raise ShapeError(f"{who}: the other axes broadcast: got {x.aval} and {y.aval} along {along}; reshape them")
    if not x.size or not y.size:
        return zeros((0,) * x.ndim, np.result_type(x.dtype, y.dtype))
    return _cut(_multiply_spectra(x, y, along), x, y, mode, along, who) if along else x * y


def convolve2d(
    in1: Nested, in2: Nested, mode: Mode = "full", boundary: Boundary = "fill", fillvalue: ArrayLike = 0
) -> Array:
    """Return the convolution of two matrices.

    Args:
        in1: float[n, m].
        in2: float[k, l].
        mode: as in `convolve`.
        boundary: how the first operand continues: ``fill`` with a value, ``wrap`` from the other end, ``symm`` mirrored.
        fillvalue: that value.

    Raises:
        ArgumentError: no such mode or boundary.
        ShapeError: not matrices.

    >>> convolve2d(np.eye(2), [[1.0, 1.0]], "same", "symm")
    Array([[2., 1.],
           [0., 1.]], dtype=float64)
    """
    return _convolve_matrices(in1, in2, mode, boundary, fillvalue, "convolve2d")


def _convolve_matrices(x: Nested, y: Nested, mode: str, boundary: str, fill: ArrayLike, who: str) -> Array:
    a, b = _check(who, x, y, mode)
    pads: dict[str, Any] = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}
    choice(who, "boundary", boundary, tuple(pads))
    if a.ndim != 2 or not a.size or not b.size:
        raise ShapeError(f"{who}: takes two matrices with elements: got {a.aval} and {b.aval}; reshape them")
    if mode == "valid":
        return _convolve(a, b, mode, "auto", who)
    widths = [(n - 1, n - 1) for n in b.shape]
    dtype = np.result_type(a.dtype, b.dtype)
    wide = pad(astype(a, dtype), widths, constant_values=fill) if boundary == "fill" else pad(a, widths, pads[boundary])
    z = _convolve(wide, b, "full", "auto", who)
    z = z[tuple([slice(m - 1, n + 2 * m - 2) for n, m in zip(a.shape, b.shape, strict=True)])]  # without the margins
    return _cut(z, a, b, mode, (0, 1), who)


def correlate2d(
    in1: Nested, in2: Nested, mode: Mode = "full", boundary: Boundary = "fill", fillvalue: ArrayLike = 0
) -> Array:
    """Return the cross-correlation of two matrices; arguments and errors are those of `convolve2d`.

    >>> correlate2d(np.eye(2), [[0.0, 1.0]], "same")
    Array([[0., 0.],
           [1., 0.]], dtype=float64)
    """
    a, b = _check("correlate2d", in1, in2, mode)
    if mode == "same":  # SciPy keeps the later half of an even kernel
        z = _convolve_matrices(a, flip(conj(b)), "full", boundary, fillvalue, "correlate2d")
        starts = [m // 2 for m in b.shape]
        return z[starts[0] : starts[0] + a.shape[0], starts[1] : starts[1] + a.shape[1]]
    return _convolve_matrices(a, flip(conj(b)), mode, boundary, fillvalue, "correlate2d")


# --- Rates: signals with more or fewer samples

EXTENSIONS: dict[str, dict[str, Any]] = {  # how signals go on, in the words of `afx.pad`
    **{mode: {"mode": mode} for mode in ("constant", "wrap", "edge", "symmetric", "reflect")},
    "antireflect": {"mode": "reflect", "reflect_type": "odd"},
    "antisymmetric": {"mode": "symmetric"},  # and turned over from block to block
    **{mode: {"mode": "edge"} for mode in ("smooth", "line")},  # and a straight line from there on
}


def _rates(up: Any, down: Any, who: str) -> tuple[int, int]:
    up, down = integer(up, who, "up"), integer(down, who, "down")
    if up < 1 or down < 1:
        raise ArgumentError(f"{who}: rates are 1 or more: got up={up} and down={down}; give such")
    return up, down


def upfirdn(
    h: Nested, x: Nested, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: ArrayLike = 0
) -> Array:
    """Return a signal with zeros between its samples, filtered, of which every so many are kept.

    Args:
        h: float[k], the filter.
        x: any shape of one axis or more.
        up: samples for each one of x.
        down: every so many stay.
        axis: the axis of the samples.
        mode: how the signal continues: ``constant``, ``wrap``, ``edge``, ``symmetric``, ``antisymmetric``, ``reflect``,
            ``antireflect``, or straight on: ``smooth`` as its last two samples, ``line`` as its first and last one.
        cval: what it continues with where ``mode`` is ``constant``.

    Raises:
        ArgumentError: rates below 1, or no such mode.
        ShapeError: the filter is no vector, or there are no samples.

    >>> upfirdn([1.0, 1.0], [1.0, 2.0, 3.0], up=2)
    Array([1., 1., 2., 2., 3., 3.], dtype=float32)
    """
    who = "upfirdn"
    taps, given = promote_operands(h, x)
    (up, down), place = _rates(up, down, who), normalize_axis(axis, given.ndim, who)
    choice(who, "mode", mode, tuple(EXTENSIONS))
    if taps.ndim != 1 or not taps.size or not given.shape[place]:
        raise ShapeError(f"{who}: takes a filter's vector and samples: got {taps.aval} and {given.aval}; reshape them")
    dtype = np.result_type(taps.dtype, given.dtype, np.float32 if real_dtype(given.dtype).itemsize < 8 else np.float64)
    rows = moveaxis(astype(given, dtype), place, -1)
    z = _resample_rows(astype(taps, dtype), reshape(rows, (-1, rows.shape[-1])), up, down, mode, cval)
    return moveaxis(reshape(z, (*rows.shape[:-1], z.shape[-1])), -1, place)


def _resample_rows(h: Array, x: Array, up: int, down: int, mode: str, cval: ArrayLike) -> Array:
    """Return one convolution whose channels are the ``up`` samples that follow each other with other phases."""
    n, k = x.shape[-1], h.size
    common = math.gcd(up, down)
    up, down, first = up // common, down // common, common
    length = ((n - 1) * up * first + k - 1) // (down * first) + 1
    up, down = up * first, down * first
    offsets, phases = np.divmod(np.arange(up) * down, up)
    span = -(-k // up)  # taps of each phase
    window = span + int(offsets.max())
    taps = phases + (offsets + span - 1 - np.arange(window)[:, None]) * up
    inside = (taps >= 0) & (taps < k)
    kernel = gather(h, np.where(inside, taps, 0)) * inside
    steps = -(-length // up)
    after = max((steps - 1) * down + window - (span - 1) - n, 0)
    wide = _extend(x, span - 1, after, mode, cval)
    z = conv(wide[..., None], kernel[:, None, :], stride=down)[:, :steps]
    return reshape(z, (x.shape[0], steps * up))[:, :length]


def _extend(x: Array, before: int, after: int, mode: str, cval: ArrayLike) -> Array:
    """Return rows that go on at both ends."""
    n = x.shape[-1]
    value: dict[str, Any] = {"constant_values": cval} if mode == "constant" else {}
    wide = pad(x, [(0, 0), (before, after)], **EXTENSIONS[mode], **value)
    places = np.arange(-before, n + after)
    if mode == "antisymmetric":
        return wide * (1 - 2 * (places // n % 2)).astype(x.dtype)
    if mode not in ("smooth", "line") or n == 1:
        return wide
    steps = 1 if mode == "smooth" else n - 1  # between the samples that the line goes through
    left, right = x[:, steps : steps + 1] - x[:, :1], x[:, -1:] - x[:, n - 1 - steps : n - steps]
    past = np.minimum(places, 0) / steps, np.maximum(places - (n - 1), 0) / steps
    return wide + past[0].astype(x.dtype) * left + past[1].astype(x.dtype) * right


def resample_poly(
    x: Nested,
    up: int,
    down: int,
    axis: int = 0,
    window: Window = ("kaiser", 5.0),
    padtype: str = "constant",
    cval: ArrayLike | None = None,
) -> Array:
    """Return a signal at ``up / down`` times its rate, filtered by a low pass.

    Args:
        x: any shape of one axis or more.
        up: the numerator of the rate.
        down: its denominator.
        axis: the axis of the samples.
        window: that of the low pass, or its coefficients as an array.
        padtype: how the signal continues: as in `upfirdn`, or by its ``mean``, ``median``, ``minimum`` or ``maximum``.
        cval: what it continues with where ``padtype`` is ``constant``.

    Raises:
        ArgumentError: rates below 1, no such padtype or window.

    >>> resample_poly(np.array([1.0, 1.0, 1.0, 1.0]), 1, 2, padtype="edge").round(3)
    Array([1., 1.], dtype=float64)
    """
    who = "resample_poly"
    given = as_array(x)
    (up, down), place = _rates(up, down, who), normalize_axis(axis, given.ndim, who)
    common = math.gcd(up, down)
    up, down = up // common, down // common
    if up == down:
        return given
    given = astype(given, floating_dtype(given.dtype))
    h = _filter_of(window, max(up, down), given) * up
    half, n_out = (h.size - 1) // 2, -(-given.shape[place] * up // down)
    ahead = down - half % down
    skipped = (half + ahead) // down
    needed = (n_out + skipped - 1) * down + 1 - (given.shape[place] - 1) * up  # elements of a filter that ends there
    h = pad(h, (ahead, max(needed - h.size - ahead, 0)))
    grounds: dict[str, Any] = {"mean": mean, "median": median, "minimum": min_, "maximum": max_}
    choice(who, "padtype", padtype, (*grounds, *EXTENSIONS))
    if padtype not in grounds:
        z = upfirdn(h, given, up, down, place, padtype, cval or 0)
    else:
        ground = grounds[padtype](given, axis=place, keepdims=True)
        z = upfirdn(h, given - ground, up, down, place) + ground
    return moveaxis(moveaxis(z, place, 0)[skipped : skipped + n_out], 0, place)


def _filter_of(window: Window, rate: int, x: Array) -> Array:
    """Return coefficients as they were given, or a windowed sinc that passes up to ``1 / rate`` of Nyquist's frequency."""
    is_named = isinstance(window, (str, tuple, float, int))
    h = _low_pass(rate, window) if is_named else promote_operands(window, x)[0]
    return astype(h, np.result_type(h.dtype, x.dtype) if h.dtype.kind == "c" else real_dtype(x.dtype))


def _low_pass(rate: int, window: Window) -> Array:
    """Return a windowed sinc whose sum is 1."""
    m = np.arange(-10.0 * rate, 10.0 * rate + 1)
    h = get_window(window, m.size, False, dtype=np.float64) * (np.sinc(m / rate) / rate)
    return h / sum_(h)


@overload
def resample(
    x: Nested, num: int, t: None = None, axis: int = 0, window: Window | None = None, domain: str = "time"
) -> Array: ...
@overload
def resample(
    x: Nested, num: int, t: Nested, axis: int = 0, window: Window | None = None, domain: str = "time"
) -> tuple[Array, Array]: ...
def resample(
    x: Nested, num: int, t: Nested | None = None, axis: int = 0, window: Window | None = None, domain: str = "time"
) -> Array | tuple[Array, Array]:
    """Return a periodic signal with another number of samples, by its Fourier transform.

    Args:
        x: any shape of one axis or more.
        num: the number of samples.
        t: the times of the samples, at equal distances; new ones are returned too.
        axis: the axis of the samples.
        window: weights of the frequencies: a window's name, or an array in the order of `afx.fft.fft`.
        domain: ``time``, or ``freq`` where x is a Fourier transform.

    Returns:
        The samples, or ``(samples, times)``.

    Raises:
        ArgumentError: num below 1, or another domain.

    >>> resample(np.array([1.0, 0.0, -1.0, 0.0]), 8).round(3)
    Array([ 1.   ,  0.707,  0.   , -0.707, -1.   , -0.707,  0.   ,  0.707],
          dtype=float64)
    """
    who = "resample"
    given, count = as_array(x), integer(num, who, "num")
    place = normalize_axis(axis, given.ndim, who)
    if count < 1 or domain not in ("time", "freq") or not given.shape[place]:
        raise ArgumentError(
            f"{who}: takes samples, and gives 1 or more, of domain 'time' or 'freq': got {given.aval}, num={num}, "
            f"domain={domain!r}; change them"
        )
    rows = moveaxis(given, place, -1)
    n, is_real = rows.shape[-1], domain == "time" and given.dtype.kind != "c"
    z = rfft(rows) if is_real else fft(rows) if domain == "time" else rows
    if window is not None:
        z = z * _spectral_weights(window, n, real_dtype(z.dtype), is_real)
    y = irfft(_cut_half_spectrum(z, count, n), count) if is_real else ifft(_cut_spectrum(z, count, n))
    z = moveaxis(y * (count / n), -1, place)
    if t is None:
        return z
    times = promote_operands(t, rows)[0]
    return z, times[0] + (times[1] - times[0]) * (n / count) * np.arange(count)


def _cut_half_spectrum(z: Array, count: int, n: int) -> Array:
    """Return the half of a real signal's spectrum that so many samples have."""
    m = min(count, n)
    ends = np.ones(m // 2 + 1, real_dtype(z.dtype))
    if m % 2 == 0 and count != n:  # Nyquist's frequency stands for both signs
        ends[-1] = 2 if count < n else 0.5
    return z[..., : m // 2 + 1] * ends


def _spectral_weights(window: Window, n: int, dtype: Any, is_real: bool) -> Array:
    """Return weights of frequencies, the mean of both signs for the half of a real signal's."""
    named = isinstance(window, (str, tuple, float, int))
    w = window_of(window, n, dtype, "resample")
    w = concat([w[n - n // 2 :], w[: n - n // 2]]) if named else w
    if not is_real:
        return w
    mirrored = concat([w[:1], flip(w[1:])])
    return ((w + mirrored) / 2)[: n // 2 + 1]


def _cut_spectrum(z: Array, count: int, n: int) -> Array:
    """Return the frequencies of ``count`` samples from those of n, the one at Nyquist shared by both signs."""
    m = min(count, n)
    low, high = z[..., : (m + 1) // 2], z[..., n - (m - 1) // 2 :]
    gap = zeros((*z.shape[:-1], count - m + (1 if m % 2 == 0 else 0)), z.dtype)
    if m % 2:
        return concat([low, gap, high], -1)
    middle = z[..., m // 2 : m // 2 + 1]
    if count < n:
        return concat([low, middle + z[..., n - m // 2 : n - m // 2 + 1], high], -1)
    if count == n:
        return z
    return concat([low, middle / 2, gap[..., 2:], middle / 2, high], -1)


def medfilt(volume: Nested, kernel_size: int | Sequence[int] | None = None) -> Array:
    """Return the median of the elements around each one, zeros beyond the ends.

    Args:
        volume: any shape of one axis or more.
        kernel_size: an odd number of elements, for all axes or each; 3 unless given.

    Raises:
        ArgumentError: an even size.

    >>> medfilt([1.0, 5.0, 2.0, 3.0])
    Array([1., 2., 3., 2.], dtype=float32)
    """
    x = as_array(volume)
    given = 3 if kernel_size is None else kernel_size
    sizes = list(given) if isinstance(given, Sequence) else [given] * x.ndim
    if len(sizes) != x.ndim or any(integer(n, "medfilt", "kernel_size") % 2 != 1 for n in sizes):
        raise ArgumentError(
            f"medfilt: sizes are odd, one for all axes or one each: got kernel_size={kernel_size} for {x.aval}; change it"
        )
    wide = pad(x, [(n // 2, n // 2) for n in sizes])
    views = reshape(sliding_window_view(wide, sizes), (*x.shape, math.prod(sizes)))
    return sort(views)[..., math.prod(sizes) // 2]
