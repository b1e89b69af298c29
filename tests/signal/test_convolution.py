"""Convolutions, signals at other rates and medians beside SciPy's."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.signal

import afx
from afx import signal
from afx.errors import ArgumentError, ShapeError
from afx.signal.convolution import EXTENSIONS
from tests.every import together

MODES: Any = ("full", "same", "valid")
SHAPES = (
    ((7,), (3,)),
    ((7,), (4,)),
    ((4,), (7,)),
    ((5, 6), (2, 3)),
    ((2, 3), (5, 6)),
    ((200,), (80,)),
    ((3, 4, 5), (2, 2, 2)),
)


def numbers(*shape: int, dtype: Any = float) -> Any:
    """Return numbers of a shape, the same at each call."""
    rng = np.random.default_rng([5, *shape])
    return (rng.normal(size=shape) + (1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else 0)).astype(dtype)


def assert_scipys(name: str, *args: Any, atol: float = 1e-12, **options: Any) -> None:
    """Compare with SciPy: values, shapes and dtypes of all results."""
    results = [getattr(m, name)(*args, **options) for m in (signal, scipy.signal)]
    pairs = [z if isinstance(z, tuple) else (z,) for z in results]
    for got, want in zip(*pairs, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=atol)


@together("mode", MODES)
@together("shapes", SHAPES)
def test_convolutions(mode: Any, shapes: Any) -> None:
    """Of real and complex arrays, even and odd lengths, either one the longer, by either method and any boundary."""
    for kinds in itertools.product((float, complex), repeat=2):
        x, y = (numbers(*shape, dtype=kind) for shape, kind in zip(shapes, kinds, strict=True))
        for method in ("auto", "direct", "fft"):
            assert_scipys("convolve", x, y, mode, method)
            assert_scipys("correlate", x, y, mode, method)
        assert_scipys("fftconvolve", x, y, mode)
        if x.ndim == 2:
            for boundary in ("fill", "wrap", "symm"):
                assert_scipys("convolve2d", x, y, mode, boundary, 1.5)
                if kinds[0] is float and kinds[1] is float:
                    assert_scipys("correlate2d", x, y, mode, boundary, 1.5)


def test_other_operands() -> None:
    """Whole numbers stay whole, axes broadcast, empty operands give empty ones, precision stays."""
    assert_scipys("convolve", np.arange(5), np.array([1, 2, 3]), "same")
    assert_scipys("fftconvolve", numbers(4, 5), numbers(1, 3), axes=1)
    assert signal.convolve(numbers(0), numbers(3)).shape == (0,)
    x, y = numbers(90).astype(np.float32), numbers(70).astype(np.float32)
    assert_scipys("fftconvolve", x, y, atol=1e-5)
    assert_scipys("convolve", x[:9], y[:3], atol=1e-6)


def test_whole_numbers_stay_exact() -> None:
    """By Fourier transforms too they are products and sums of whole numbers, beyond the digits of floats."""
    x, y = np.array([3, 2**55 + 1, 5]), np.array([1, 2, 1])
    for name in ("convolve", "correlate"):
        got = getattr(signal, name)(x, y, method="fft")
        want = getattr(scipy.signal, name)(x, y, method="direct")
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("rates", [(1, 1), (1, 3), (3, 1), (3, 2), (4, 6), (7, 5)])
def test_rates(rates: tuple[int, int]) -> None:
    """Any rates and lengths, as the signal goes on at its ends."""
    for taps, n, dtype in itertools.product((1, 4, 15), (2, 9, 20), (float, complex)):
        for mode in EXTENSIONS:
            assert_scipys("upfirdn", numbers(taps), numbers(n, 2, dtype=dtype), *rates, axis=0, mode=mode)
    for n, padtype in itertools.product(
        (3, 20), ("constant", "edge", "mean", "median", "minimum", "maximum", "reflect", "line", "smooth")
    ):
        assert_scipys("resample_poly", numbers(n, 2), *rates, padtype=padtype)
    assert_scipys("resample_poly", numbers(2, 20, dtype=complex), *rates, axis=1, window="hamming")
    assert_scipys("resample_poly", numbers(20), *rates, window=numbers(9))


@pytest.mark.parametrize("count", [1, 2, 5, 8, 9, 20])
def test_fourier_resampling(count: int) -> None:
    """To fewer and more samples, even and odd, real and complex, weighted, of times and of frequencies."""
    for n, dtype in itertools.product((1, 2, 7, 8, 9), (float, complex)):
        x = numbers(n, 2, dtype=dtype)
        assert_scipys("resample", x, count)
        assert_scipys("resample", x, count, window="hamming")
        assert_scipys("resample", x, count, window=numbers(n) ** 2)
        assert_scipys("resample", x, count, domain="freq")
        if n > 1:
            assert_scipys("resample", x.T, count, np.arange(n) * 0.5, axis=1)


def test_medians() -> None:
    """Of one size for all axes or one each."""
    for size in (None, 3, 5, (3, 1)):
        assert_scipys("medfilt", numbers(6, 7), size)


def test_derivatives_compiled_and_batched() -> None:
    """Of each function; `jit` and `vmap` give the same values."""
    x, k = afx.asarray(numbers(2, 9)), afx.asarray(numbers(3))
    for fn in (
        lambda x, k: signal.convolve(x[0], k, "same"),
        lambda x, k: signal.fftconvolve(x[0], k),
        lambda x, k: signal.convolve2d(x, k[None], "same", "wrap"),
        lambda x, k: signal.correlate2d(x, k[None], "full", "symm"),
        lambda x, k: signal.upfirdn(k, x, 3, 2, mode="reflect"),
        lambda x, k: signal.resample_poly(x, 3, 2, 1, window=k),
        lambda x, k: signal.resample(x * k[0], 12, axis=1),
        lambda x, k: signal.medfilt(x * k[0]),
    ):
        afx.testing.check_grads(fn, (x, k), 1)
        np.testing.assert_allclose(afx.jit(fn)(x, k), fn(x, k), rtol=1e-13, atol=1e-13)
        many = np.stack([x, x + 1])
        wants = np.stack([fn(afx.asarray(v), k) for v in many])
        np.testing.assert_allclose(afx.vmap(lambda x, fn=fn: fn(x, k))(many), wants, rtol=1e-12, atol=1e-12)


def test_refusals() -> None:
    """Errors name what is wrong."""
    x = numbers(4, 5)
    with pytest.raises(ArgumentError, match="convolve: mode is one of 'full', 'same', 'valid'"):
        signal.convolve(x, x, "half")  # a wrong word on purpose
    with pytest.raises(ArgumentError, match="convolve: method is"):
        signal.convolve(x, x, method="sum")  # a wrong word on purpose
    with pytest.raises(ShapeError, match="convolve: operands have as many axes"):
        signal.convolve(x, x[0])
    with pytest.raises(ShapeError, match="convolve: one operand is the longer one"):
        signal.convolve(numbers(3, 2), numbers(2, 3), "valid")
    with pytest.raises(ShapeError, match="fftconvolve: the other axes broadcast"):
        signal.fftconvolve(x, x[:3], axes=1)
    with pytest.raises(ArgumentError, match="convolve2d: boundary is"):
        signal.convolve2d(x, x, boundary="mirror")  # a wrong word on purpose
    with pytest.raises(ShapeError, match="convolve2d: takes two matrices"):
        signal.convolve2d(x[0], x[0])
    with pytest.raises(ArgumentError, match="upfirdn: rates are 1 or more"):
        signal.upfirdn([1.0], x, 0)
    with pytest.raises(ArgumentError, match="upfirdn: mode is one of 'constant', 'wrap'"):
        signal.upfirdn([1.0], x, mode="straight")
    with pytest.raises(ArgumentError, match="resample_poly: padtype is one of 'mean'"):
        signal.resample_poly(x, 2, 1, padtype="zeros")
    with pytest.raises(ArgumentError, match="resample: takes samples"):
        signal.resample(x, 0)
    with pytest.raises(ArgumentError, match="medfilt: sizes are odd"):
        signal.medfilt(x, 4)
    with pytest.raises(AttributeError, match=r"write scipy\.signal\.find_peaks"):
        _ = signal.find_peaks  # a name that is not there, on purpose
