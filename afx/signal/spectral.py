"""Spectra: short-time Fourier transforms and back, and densities of power averaged over segments."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from afx.core import Array, floating_dtype, integer, normalize_axis, promote, real_dtype
from afx.errors import ArgumentError, ShapeError
from afx.ops import abs as abs_, astype, mean, median, moveaxis, pad, sqrt, sum as sum_, unwrap, where
from afx.ops._kinds.matrix import choice
from afx.ops.creation.creation import Nested, as_array, asarray, promote_operands, zeros
from afx.ops.elementwise.complex import angle, conj, imag, real
from afx.ops.fft import fft, ifft, irfft, rfft
from afx.ops.indexing.gather import gather
from afx.signal.filters import EXTENSIONS, detrend as subtract_trend
from afx.signal.windows import Window, window_of

__all__ = ["csd", "istft", "spectrogram", "stft", "welch"]

Scaling = Literal["density", "spectrum"]
Trend = Literal["constant", "linear", False]
BOUNDARIES: dict[Any, dict[str, Any]] = {**EXTENSIONS, "zeros": {"mode": "constant"}}


class Segments(NamedTuple):
    """How a signal is cut."""

    length: int
    step: int
    points: int
    window: Array


def _segments(
    n: int, window: Window, nperseg: Any, noverlap: Any, nfft: Any, dtype: Any, who: str, share: int = 2
) -> Segments:
    """Return how n samples are cut, by SciPy's defaults; segments overlap by one of so many shares."""
    named = isinstance(window, (str, tuple, float, int))
    length = (256 if named else as_array(window).size) if nperseg is None else integer(nperseg, who, "nperseg")
    length = min(length, n) if named else length
    overlap = length // share if noverlap is None else integer(noverlap, who, "noverlap")
    points = length if nfft is None else integer(nfft, who, "nfft")
    if length < 1 or not 0 <= overlap < length or points < length or length > n:
        raise ArgumentError(
            f"{who}: segments have samples of the signal, overlap by less, and are no longer than transforms: got "
            f"{n} samples, nperseg={nperseg}, noverlap={noverlap} and nfft={nfft}; change them"
        )
    return Segments(length, length - overlap, points, astype(window_of(window, length, dtype, who), dtype))


def _transform(x: Array, cut: Segments, trend: Any, onesided: bool) -> Array:
    """Return the transforms of the segments along the last axis: complex[..., segment, frequency]."""
    count = (x.shape[-1] - cut.length) // cut.step + 1
    places = np.arange(count)[:, None] * cut.step + np.arange(cut.length)
    rows = gather(x, places, axis=x.ndim - 1)
    if trend:
        rows = subtract_trend(rows, -1, trend)
    return (rfft if onesided else fft)(rows * cut.window, cut.points)


def _signal(x: Nested, axis: int, who: str, beside: Nested | None = None) -> tuple[Array, int]:
    """Return samples as floating numbers, as those beside them, along the last axis, and where that was."""
    given, *others = promote_operands(*[v for v in (x, beside) if v is not None])
    dtypes = tuple([v.dtype for v in (given, *others)])
    place = normalize_axis(axis, given.ndim, who)
    if not given.shape[place]:
        raise ShapeError(f"{who}: a signal has samples: got {given.aval}; give some")
    return moveaxis(astype(given, promote(dtypes, (False,) * len(dtypes), True)), place, -1), place


def _frequencies(points: int, fs: float, onesided: bool, dtype: Any) -> Array:
    return asarray((np.fft.rfftfreq if onesided else np.fft.fftfreq)(points, 1 / fs), dtype)


def _scale(cut: Segments, fs: float, scaling: str, who: str) -> Array:
    choice(who, "scaling", scaling, ("density", "psd", "spectrum"))
    w = cut.window
    return 1 / sum_(w) ** 2 if scaling == "spectrum" else 1 / (fs * sum_(w * w))


def csd(
    x: Nested,
    y: Nested,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = "constant",
    return_onesided: bool = True,
    scaling: Scaling = "density",
    axis: int = -1,
    average: Literal["mean", "median"] = "mean",
) -> tuple[Array, Array]:
    """Return frequencies and the cross-spectral density of two signals, by Welch's method of averaged segments.

    Args:
        x: any shape of one axis or more.
        y: a shape that broadcasts with it; the shorter signal is continued with zeros.
        fs: the rate of the samples.
        window: its name, or an array.
        nperseg: the length of a segment, 256 or that of the window unless given.
        noverlap: by how much they overlap, half of it unless given.
        nfft: the number of points of a transform.
        detrend: what is subtracted from each segment.
        return_onesided: whether the frequencies of real signals are those from 0 on.
        scaling: a density, or a spectrum in squared units of the signals.
        axis: the axis of the samples.
        average: how segments are averaged.

    Raises:
        ArgumentError: lengths that do not fit, no such window, scaling or average.

    >>> csd(np.ones(8), np.ones(8), detrend=False, nperseg=4, window="boxcar")[1].round(6)
    Array([4.+0.j, 0.+0.j, 0.+0.j], dtype=complex128)
    """
    return _average_spectra(
        "csd", x, y, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    )


def welch(
    x: Nested,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = "constant",
    return_onesided: bool = True,
    scaling: Scaling = "density",
    axis: int = -1,
    average: Literal["mean", "median"] = "mean",
) -> tuple[Array, Array]:
    """Return frequencies and the power spectral density of a signal; arguments and errors are those of `csd`.

    >>> welch(np.ones(8), detrend=False, nperseg=4, window="boxcar")[1].round(6)
    Array([4., 0., 0.], dtype=float64)
    """
    f, p = _average_spectra(
        "welch", x, x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average
    )
    return f, real(p)


def _average_spectra(
    who: str, x: Any, y: Any, fs: float, window: Window, nperseg: Any, noverlap: Any, nfft: Any, trend: Any,
    onesided: bool, scaling: str, axis: int, average: str,
) -> tuple[Array, Array]:  # fmt: skip
    f, p, _, place = _spectra(who, x, y, fs, window, nperseg, noverlap, nfft, trend, onesided, scaling, axis)
    return f, moveaxis(_average(p, average, who), -1, place)


def _spectra(
    who: str, x: Any, y: Any, fs: float, window: Window, nperseg: Any, noverlap: Any, nfft: Any, trend: Any,
    onesided: bool, scaling: str, axis: int, share: int = 2,
) -> tuple[Array, Array, Segments, int]:  # fmt: skip
    """Return frequencies, cross-spectra [..., segment, frequency], how signals are cut, and the axis of their samples."""
    (a, place), (b, _) = _signal(x, axis, who, y), _signal(y, axis, who, x)
    n = max(a.shape[-1], b.shape[-1])
    a, b = (pad(v, [(0, 0)] * (v.ndim - 1) + [(0, n - v.shape[-1])]) if v.shape[-1] < n else v for v in (a, b))
    dtype = real_dtype(np.result_type(a.dtype, b.dtype))
    onesided = onesided and "c" not in (a.dtype.kind, b.dtype.kind)
    cut = _segments(n, window, nperseg, noverlap, nfft, dtype, who, share)
    left = _transform(a, cut, trend, onesided)
    p = conj(left) * (left if y is x else _transform(b, cut, trend, onesided)) * _scale(cut, fs, scaling, who)
    if onesided:
        counts = np.full(p.shape[-1], 2, dtype)
        counts[0] = 1
        if cut.points % 2 == 0:
            counts[-1] = 1
        p = p * counts
    return _frequencies(cut.points, fs, onesided, dtype), p, cut, place


def _average(p: Array, average: str, who: str) -> Array:
    """Return the mean or the median, without its bias for squares of Gaussian numbers, over segments."""
    choice(who, "average", average, ("mean", "median"))
    if average == "mean":
        return mean(p, axis=-2)
    twos = 2 * np.arange(1.0, (p.shape[-2] - 1) // 2 + 1)
    bias = 1 + float(np.sum(1 / (twos + 1) - 1 / twos))
    return (median(real(p), axis=-2) + 1j * median(imag(p), axis=-2)) / bias


def spectrogram(
    x: Nested,
    fs: float = 1.0,
    window: Window = ("tukey", 0.25),
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = "constant",
    return_onesided: bool = True,
    scaling: Scaling = "density",
    axis: int = -1,
    mode: Literal["psd", "complex", "magnitude", "angle", "phase"] = "psd",
) -> tuple[Array, Array, Array]:
    """Return frequencies, times and the spectra of a signal's segments; arguments and errors are those of `csd`.

    Segments overlap by an eighth unless ``noverlap`` is given. ``mode`` gives densities of power, transforms as `stft`
    without a boundary, their magnitudes, angles, or angles without jumps along frequency.

    >>> spectrogram(np.ones(8), nperseg=4, noverlap=0, detrend=False, window="boxcar")[2][0].round(3)
    Array([4., 4.], dtype=float64)
    """
    who = "spectrogram"
    choice(who, "mode", mode, ("psd", "complex", "magnitude", "angle", "phase"))
    if mode == "psd":
        f, p, cut, place = _spectra(
            who, x, x, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, share=8
        )
        times = asarray((np.arange(p.shape[-2]) * cut.step + cut.length / 2) / fs, f.dtype)
        return f, times, moveaxis(moveaxis(real(p), -2, -1), -2, place)
    given = as_array(x)
    place = normalize_axis(axis, given.ndim, who)
    cut = _segments(given.shape[place], window, nperseg, noverlap, nfft, np.float64, who, share=8)
    psd = "psd" if scaling == "density" else scaling
    f, times, z = stft(
        x, fs, window, cut.length, cut.length - cut.step, nfft, detrend, return_onesided, None, False, axis, psd
    )
    if mode == "complex":
        return f, times, z
    return f, times, abs_(z) if mode == "magnitude" else angle(z) if mode == "angle" else unwrap(angle(z), axis=place)


def stft(
    x: Nested,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Trend = False,
    return_onesided: bool = True,
    boundary: Literal["even", "odd", "constant", "zeros"] | None = "zeros",
    padded: bool = True,
    axis: int = -1,
    scaling: Literal["spectrum", "psd"] = "spectrum",
) -> tuple[Array, Array, Array]:
    """Return frequencies, times and Fourier transforms of segments of a signal.

    Other arguments and errors are those of `csd`. ``boundary`` says how the signal goes on by half a segment at both ends,
    ``padded`` whether zeros complete the last segment; ``scaling`` is ``spectrum``, or ``psd`` for squares that are densities.

    >>> stft(np.ones(8), nperseg=4)[2][0].real.round(3)
    Array([0.75, 1.  , 1.  , 1.  , 0.25], dtype=float64)
    """
    who = "stft"
    rows, place = _signal(x, axis, who)
    dtype, onesided = real_dtype(rows.dtype), return_onesided and rows.dtype.kind != "c"
    cut = _segments(rows.shape[-1], window, nperseg, noverlap, nfft, dtype, who)
    choice(who, "boundary", boundary, (*BOUNDARIES, None))
    lead, half = [(0, 0)] * (rows.ndim - 1), cut.length // 2
    if boundary is not None:
        rows = pad(rows, [*lead, (half, half)], **BOUNDARIES[boundary])
    if padded:
        rows = pad(rows, [*lead, (0, (-(rows.shape[-1] - cut.length) % cut.step) % cut.length)])
    z = _transform(rows, cut, detrend, onesided) * sqrt(_scale(cut, fs, scaling, who))
    times = (np.arange(z.shape[-2]) * cut.step + (cut.length / 2 if boundary is None else 0)) / fs
    z = moveaxis(moveaxis(z, -2, -1), -2, place)
    return _frequencies(cut.points, fs, onesided, dtype), asarray(times, dtype), z


def istft(
    Zxx: Nested,
    fs: float = 1.0,
    window: Window = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
    scaling: Literal["spectrum", "psd"] = "spectrum",
) -> tuple[Array, Array]:
    """Return times and the signal whose segments have these transforms, by least squares: the inverse of `stft`.

    Arguments and errors are those of `stft`, as the transforms were made. ``Zxx`` is complex[..., frequency, segment], or has
    its axes at ``freq_axis`` and ``time_axis``; ``nperseg`` is as many as there are points unless given; ``boundary`` says
    whether the signal was continued by half a segment at both ends.

    >>> istft(stft(np.arange(8.0), nperseg=4)[2])[1].round(6)
    Array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float64)
    """
    who = "istft"
    z = as_array(Zxx)
    axes = [normalize_axis(a, z.ndim, who) for a in (freq_axis, time_axis)]
    if axes[0] == axes[1]:
        raise ShapeError(f"{who}: frequencies and segments have axes of their own: got {z.aval}; name two")
    z = moveaxis(z, axes, (-1, -2))
    default = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    length = default if nperseg is None else integer(nperseg, who, "nperseg")
    points = (length if input_onesided and length == default + 1 else default) if nfft is None else nfft
    dtype = real_dtype(floating_dtype(z.dtype))
    cut = _segments(length, window, length, noverlap, points, dtype, who)
    rows = (irfft if input_onesided else ifft)(z, points)[..., :length] * (
        cut.window / sqrt(_scale(cut, fs, scaling, who))
    )
    x = _overlap_add(rows, cut)
    if boundary:
        x = x[..., length // 2 : x.shape[-1] - length // 2]
    place = min(axes[1], x.ndim - 1) if axes[0] > axes[1] else axes[1] - 1
    return asarray(np.arange(x.shape[-1]) / fs, dtype), moveaxis(x, -1, place)


def _overlap_add(rows: Array, cut: Segments) -> Array:
    """Return the sum of windowed rows, each at its place, over the sum of squared windows: the nearest signal."""
    count, length = rows.shape[-2:]
    total = length + (count - 1) * cut.step
    places = np.arange(count)[:, None] * cut.step + np.arange(length)
    x = zeros((*rows.shape[:-2], total), rows.dtype).at[..., places].add(rows)
    norm = zeros(total, cut.window.dtype).at[places].add(cut.window**2)
    return x / where(norm > 1e-10, norm, 1.0)
