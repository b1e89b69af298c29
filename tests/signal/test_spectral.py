"""Spectra and windows beside SciPy's."""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.signal

import afx
from afx import signal
from afx.errors import ArgumentError, ShapeError
from tests.every import together
from tests.signal.test_convolution import assert_scipys, numbers

NAMES = (
    "hann hamming blackman nuttall blackmanharris flattop boxcar triang bartlett barthann bohman cosine lanczos parzen"
)
WINDOWS: Any = [
    *NAMES.split(" "),
    *("tukey", "exponential", ("gaussian", 2.0), ("general_gaussian", 1.5, 2.0), ("kaiser", 5.0), 6.0),
    *(("general_cosine", [0.5, 0.3, 0.2]), ("general_hamming", 0.7), ("tukey", 0.3), ("tukey", 0.0), ("tukey", 1.0)),
    *(("exponential", None, 2.0), "hann_periodic", "hann_symmetric", ("chebwin", 100.0), ("chebwin", 50.0)),
    *("taylor", ("taylor", 6, 40.0), ("taylor", 3, 35, False), ("dpss", 0.4)),
]
FUNCTIONS: Any = [
    *[(name,) for name in ("bartlett", "blackman", "boxcar", "hamming", "hann", "triang")],
    *(("gaussian", 2.0), ("kaiser", 3.0), ("tukey", 0.4)),
]
AVERAGED: Any = [
    {},
    {"nperseg": 64},
    {"nperseg": 33, "noverlap": 10},
    {"nperseg": 32, "nfft": 50, "detrend": "linear"},
    {"scaling": "spectrum", "detrend": False, "window": "boxcar"},
    {"return_onesided": False, "average": "median", "nperseg": 40, "fs": 10.0},
    {"window": np.hanning(32)},
]
CUT: Any = [
    {},
    {"nperseg": 64},
    {"nperseg": 33, "noverlap": 20},
    {"nperseg": 32, "nfft": 50, "boundary": "even"},
    {"nperseg": 50, "boundary": None, "padded": False},
    {"nperseg": 40, "boundary": "odd", "scaling": "psd", "fs": 8.0},
    {"nperseg": 40, "return_onesided": False},
    {"nperseg": 32, "boundary": "constant", "detrend": "constant", "window": np.hanning(32)},
]


@together("window", WINDOWS)
def test_windows(window: Any) -> None:
    """By name and parameters, of even and odd lengths, periodic and symmetric."""
    for n in (1, 2, 3, 4, 7, 8):
        for periodic in (True, False):
            want = scipy.signal.get_window(window, n, periodic)
            np.testing.assert_allclose(signal.get_window(window, n, periodic, dtype=float), want, rtol=0, atol=1e-14)


def test_windows_by_function() -> None:
    """Each function is SciPy's; parameters have derivatives, and the dtype is the default one."""
    for name, *parameters in FUNCTIONS:
        for sym in (True, False):
            got = getattr(signal.windows, name)(9, *parameters, sym, dtype=np.float64)
            np.testing.assert_allclose(
                got, getattr(scipy.signal.windows, name)(9, *parameters, sym), rtol=0, atol=1e-14
            )
    assert signal.windows.hann(4).dtype == afx.get_default_dtype()
    for fn in (signal.windows.gaussian, signal.windows.kaiser):
        afx.testing.check_grads(lambda p, fn=fn: fn(7, p, dtype=afx.float64), (1.7,), 1)


@pytest.mark.parametrize("options", AVERAGED)
def test_averaged_spectra(options: Any) -> None:
    """Real and complex signals, of other lengths, along any axis."""
    x, y, z = numbers(2, 300), numbers(2, 280), numbers(2, 300, dtype=complex)
    assert_scipys("welch", x, **options)
    assert_scipys("welch", x.T, axis=0, **options)
    assert_scipys("csd", x, y, **options)
    assert_scipys("csd", y, x, **options)
    assert_scipys("csd", y, y + 1, **options)
    two_sided = {**options, "return_onesided": False}
    assert_scipys("welch", z, **two_sided)
    assert_scipys("csd", z, y, **two_sided)


@pytest.mark.parametrize("mode", ["psd", "complex", "magnitude", "angle", "phase"])
def test_spectrograms(mode: str) -> None:
    """Densities, transforms and their parts, along any axis."""
    x = numbers(2, 300)
    for options in ({}, {"nperseg": 64, "fs": 4.0}, {"nperseg": 33, "noverlap": 10, "scaling": "spectrum", "nfft": 50}):
        assert_scipys("spectrogram", x, mode=mode, **options)
        assert_scipys("spectrogram", x.T, axis=0, mode=mode, **options)
    assert_scipys("spectrogram", numbers(300, dtype=complex), mode=mode, nperseg=32, return_onesided=False)


@pytest.mark.parametrize("options", CUT)
def test_segments_and_back(options: Any) -> None:
    """Transforms of segments, and the signal that has them."""
    x = numbers(2, 300)
    assert_scipys("stft", x, **options)
    assert_scipys("stft", x.T, axis=0, **options)
    assert_scipys("stft", numbers(300, dtype=complex), **{**options, "return_onesided": False})
    back = {k: v for k, v in options.items() if k in ("nperseg", "noverlap", "nfft", "window", "scaling", "fs")}
    back |= {
        "input_onesided": options.get("return_onesided", True),
        "boundary": options.get("boundary", "") is not None,
    }
    transforms = scipy.signal.stft(x, **options)[2]
    for axes in ((0, 1, 2), (2, 0, 1), (2, 1, 0)):
        moved = np.moveaxis(transforms, (0, 1, 2), axes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SciPy's, where a signal is not known everywhere
            want = scipy.signal.istft(moved, freq_axis=axes[1], time_axis=axes[2], **back)[1]
        times, got = signal.istft(moved, freq_axis=axes[1], time_axis=axes[2], **back)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(times, np.arange(times.size) / options.get("fs", 1.0))


def test_derivatives_compiled_and_batched() -> None:
    """Of each function; `jit` and `vmap` give the same values."""
    x = afx.asarray(numbers(2, 40))
    functions: Any = (
        lambda x: signal.welch(x, nperseg=16)[1],
        lambda x: signal.csd(x, x[::-1] ** 2, nperseg=16)[1],
        lambda x: signal.spectrogram(x, nperseg=16)[2],
        lambda x: signal.stft(x, nperseg=12)[2],
        lambda x: signal.istft(signal.stft(afx.sin(x), nperseg=12)[2] ** 2)[1],
        lambda x: signal.stft(x, window=afx.exp(x[0, :12]), nperseg=12)[2],
    )
    for fn in functions:
        afx.testing.check_grads(fn, (x,), 1)
        np.testing.assert_allclose(afx.jit(fn)(x), fn(x), rtol=1e-12, atol=1e-12)
    for fn in functions[:1] + functions[2:4]:
        np.testing.assert_allclose(afx.vmap(fn)(x), np.stack([fn(v) for v in x]), rtol=1e-12, atol=1e-13)


def test_medians_keep_the_dtype() -> None:
    """Of float32 and complex64 signals."""
    x = numbers(30).astype(np.float32)
    assert signal.welch(x, nperseg=8, average="median")[1].dtype == np.float32
    assert signal.csd(x, x, nperseg=8, average="median")[1].dtype == np.complex64


def test_refusals() -> None:
    """Errors name what is wrong."""
    x = numbers(30)
    with pytest.raises(ArgumentError, match="get_window: no such window: got 'hannah'; use one of barthann, bartlett"):
        signal.get_window("hannah", 5)
    with pytest.raises(ArgumentError, match="get_window: gaussian takes other parameters"):
        signal.get_window("gaussian", 5)
    with pytest.raises(ArgumentError, match="dpss: the half bandwidth lies between"):
        signal.get_window(("dpss", 3.0), 5)
    with pytest.raises(ArgumentError, match="spectrogram: mode is one of"):
        signal.spectrogram(x, mode="power")  # what is refused
    with pytest.raises(ArgumentError, match="hann: a window has points"):
        signal.windows.hann(-1)
    with pytest.raises(ShapeError, match="welch: a window is a vector of 8"):
        signal.welch(x, window=np.ones(5), nperseg=8)
    with pytest.raises(ArgumentError, match="stft: segments have samples of the signal, overlap by less"):
        signal.stft(x, nperseg=8, noverlap=8)
    with pytest.raises(ArgumentError, match="welch: scaling is one of 'density', 'psd', 'spectrum': got 'power'"):
        signal.welch(x, scaling="power")  # a wrong word on purpose
    with pytest.raises(ArgumentError, match="csd: average is one of 'mean', 'median'"):
        signal.csd(x, x, average="max")  # a wrong word on purpose
    with pytest.raises(ArgumentError, match="stft: boundary is one of 'even'"):
        signal.stft(x, boundary="wrap")  # a wrong word on purpose
    with pytest.raises(ShapeError, match="welch: a signal has samples"):
        signal.welch(x[:0])
    with pytest.raises(ShapeError, match="istft: frequencies and segments have axes of their own"):
        signal.istft(np.ones((3, 4)), time_axis=0)
