"""Filters of images beside SciPy's."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import afx
from afx import ndimage
from afx.errors import ArgumentError, ShapeError

MODES: Any = ("reflect", "grid-mirror", "constant", "grid-constant", "nearest", "mirror", "wrap", "grid-wrap")
SHAPES = ((7,), (5, 6), (3, 4, 5), (1,), (2, 1))


def numbers(*shape: int, dtype: Any = float) -> Any:
    """Return numbers of a shape, the same at each call."""
    rng = np.random.default_rng([3, *shape])
    return (30 * rng.normal(size=shape) + (30j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else 0)).astype(
        dtype
    )


def assert_scipys(name: str, x: Any, *args: Any, **options: Any) -> None:
    """Compare with SciPy: values, shape and dtype."""
    want = getattr(scipy.ndimage, name)(x, *args, **options)
    got = getattr(ndimage, name)(x, *args, **options)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-11 if want.dtype != np.float32 else 1e-5)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", [np.float64, np.int64, np.complex128])
def test_correlations(mode: str, dtype: Any) -> None:
    """Along one axis and all, with windows longer than the array, origins, even sizes and complex weights."""
    for shape, size in itertools.product(SHAPES, (1, 2, 3, 9)):
        x, w = numbers(*shape, dtype=dtype), numbers(size)
        for origin in (0, -(size // 2), (size - 1) // 2):
            assert_scipys("correlate1d", x, w, mode=mode, cval=1.5, origin=origin)
            assert_scipys("convolve1d", x, w, 0, mode=mode, origin=origin)
        if size == 2:
            many = numbers(*(3, 2, 4)[: x.ndim])
            assert_scipys("correlate", x, many, mode=mode, cval=2.0)
            assert_scipys("convolve", x, many, mode=mode, origin=-1)
    if dtype != np.int64:
        x, w = numbers(5, 6, dtype=dtype), numbers(2, 3, dtype=complex)
        assert_scipys("correlate", x, w, mode=mode)
        assert_scipys("convolve", x, w, mode=mode)
        assert_scipys("correlate1d", x, w[0], mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_gaussians_means_and_differences(mode: str) -> None:
    """Each with its own options, of real and whole numbers."""
    for shape, dtype in itertools.product(SHAPES[:3], (np.float64, np.int64)):
        x = numbers(*shape, dtype=dtype)
        for order in range(4):
            assert_scipys("gaussian_filter", x, 1.3, order, mode=mode, cval=0.5)
        for size in (1, 2, 5):
            assert_scipys("uniform_filter", x, size, mode=mode)
        for name, axis in itertools.product(("sobel", "prewitt"), range(x.ndim)):
            assert_scipys(name, x, axis, mode=mode)
        assert_scipys("laplace", x, mode=mode, cval=3.0)
        assert_scipys("gaussian_laplace", x, 0.8, mode=mode)
        if dtype == np.float64:
            assert_scipys("gaussian_gradient_magnitude", x, 0.8, mode=mode)


def test_options_of_axes() -> None:
    """Axes, and values for each of them."""
    x = numbers(4, 5, 6)
    assert_scipys("gaussian_filter", x, (1.0, 0.0, 2.0), (0, 1, 2), mode=("wrap", "mirror", "nearest"), truncate=3.0)
    assert_scipys("gaussian_filter", x, (1.0, 2.0), radius=(2, 3), axes=(0, 2))
    assert_scipys("gaussian_filter1d", x, 1.5, 1, order=2, radius=4)
    assert_scipys("uniform_filter", x, (2, 3), origin=(-1, 1), axes=(2, 1))
    assert_scipys("uniform_filter1d", x, 4, 1, origin=1)
    assert_scipys("laplace", x, axes=(0, 1))
    assert_scipys("correlate", x, numbers(2, 3), axes=(0, 2))
    assert_scipys("gaussian_filter", x, 1.0, output=np.float32)
    assert_scipys("sobel", np.zeros((0, 3)))
    assert_scipys("correlate1d", numbers(6).astype(np.float32), [1.0, 2.0])


def test_dtypes_of_results() -> None:
    """A real one keeps complex results, and a wider one is computed in, as SciPy does."""
    x = np.random.default_rng(0).normal(size=20).astype(np.float32)
    w = np.array([1.0, 0.3, -0.7])
    got, want = (m.correlate1d(x, w, output=np.float64) for m in (ndimage, scipy.ndimage))
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-13)
    with pytest.warns(UserWarning, match="complex"):
        want = scipy.ndimage.convolve1d(x, w + 1j, output=np.float32)
    got = ndimage.convolve1d(x, w + 1j, output=np.float32)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_derivatives() -> None:
    """By the elements, the weights, what the input continues with, and the width of a Gaussian."""
    x, w = afx.asarray(numbers(4, 5)), afx.asarray(numbers(3))
    for mode in MODES:
        afx.testing.check_grads(lambda x, w, mode=mode: ndimage.convolve1d(x, w, mode=mode), (x, w), order=1)
    afx.testing.check_grads(lambda x, c: ndimage.laplace(x * x, mode="constant", cval=c), (x, 0.5))
    afx.testing.check_grads(lambda x, s: ndimage.gaussian_filter(x, s, (1, 0), radius=3), (x, 1.2))
    afx.testing.check_grads(lambda x: ndimage.sobel(afx.sin(x)), (x,))


def test_compiled_and_batched() -> None:
    """`jit` and `vmap` give the same values."""
    x = numbers(3, 4, 5)
    for fn in (
        lambda x: ndimage.gaussian_filter(x, 1.1),
        lambda x: ndimage.convolve(x, numbers(2, 3), mode="wrap"),
        lambda x: ndimage.uniform_filter(x, 3),
        lambda x: ndimage.sobel(x, 0),
    ):
        want = np.stack([fn(v) for v in x])
        np.testing.assert_allclose(afx.vmap(fn)(x), want, rtol=1e-13, atol=1e-12)
        np.testing.assert_allclose(afx.jit(fn)(x[0]), want[0], rtol=1e-13, atol=1e-12)


def test_refusals() -> None:
    """Errors name what is wrong."""
    x = numbers(4, 5)
    with pytest.raises(ArgumentError, match=r"laplace: mode is one of .* got 'edge'"):
        ndimage.laplace(x, mode="edge")  # a wrong argument on purpose
    with pytest.raises(ArgumentError, match="correlate1d: weights have elements, and their origin is one of them"):
        ndimage.correlate1d(x, [1.0, 2.0], origin=1)
    with pytest.raises(ShapeError, match="correlate: weights have as many axes"):
        ndimage.correlate(x, [1.0])
    with pytest.raises(ArgumentError, match="results are not written into arrays"):
        ndimage.correlate1d(x, [1.0], output=np.zeros((4, 5)))  # a wrong argument on purpose
    with pytest.raises(ArgumentError, match="gaussian_filter: how far a traced sigma reaches is not known"):
        afx.grad(lambda s: ndimage.gaussian_filter(x, s).sum())(1.0)
    with pytest.raises(ArgumentError, match="gaussian_filter: sigma is one value, or one for each of 2 axes"):
        ndimage.gaussian_filter(x, (1.0, 2.0, 3.0))
    wrong: Any
    for wrong in (np.nan, np.ones(1), 1j):
        with pytest.raises(ArgumentError, match="is a real number"):
            ndimage.gaussian_filter1d(x, wrong)
    with pytest.raises(ArgumentError, match="sigma is a real number"):
        ndimage.gaussian_filter(x, np.nan)  # which was no filter at all
    with pytest.raises(ArgumentError, match="uniform_filter: size is an integer"):
        ndimage.uniform_filter(x, "3")  # a wrong argument on purpose
    with pytest.raises(ArgumentError, match="order and radius are 0 or more"):
        ndimage.gaussian_filter(x, 1.0, -1)
    with pytest.raises(IndexError, match="sobel: axis"):
        ndimage.sobel(x, 2)
    with pytest.raises(AttributeError, match=r"write scipy\.ndimage\.label"):
        _ = ndimage.label  # a name that is not there, on purpose


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
@pytest.mark.parametrize("sigma", [0.5, 1.0, 2.0])
def test_whole_numbers_are_cut_where_scipy_cuts_them(sigma: float, dtype: type) -> None:
    """A sum that is a whole number but for rounding is rounded as SciPy's is, so that both lose the same ones."""
    ramp = np.arange(0, 70, 2).reshape(5, 7)
    for image in (ramp, np.full((5, 7), 7), np.random.default_rng(0).integers(0, 255, (5, 7))):
        x = image.astype(dtype)
        for name in ("gaussian_filter", "gaussian_laplace"):
            wanted = getattr(scipy.ndimage, name)(x, sigma)
            np.testing.assert_array_equal(np.asarray(getattr(ndimage, name)(x, sigma)), wanted, strict=True)
