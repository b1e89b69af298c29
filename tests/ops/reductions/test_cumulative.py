"""Running sums and products, and differences."""

from typing import Any

import numpy as np
import pytest

import afx

X = np.random.default_rng(5).normal(size=(3, 5))


@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_values_are_numpys(axis: int | None) -> None:
    """Running sums, products and differences agree with NumPy's along every axis."""
    np.testing.assert_allclose(np.asarray(afx.cumsum(X, axis)), np.cumsum(X, axis))
    np.testing.assert_allclose(np.asarray(afx.cumprod(X, axis)), np.cumprod(X, axis))
    if axis is not None:
        np.testing.assert_allclose(np.asarray(afx.cumulative_sum(X, axis=axis)), np.cumsum(X, axis))
        np.testing.assert_allclose(np.asarray(afx.diff(X, 2, axis)), np.diff(X, 2, axis))
        np.testing.assert_allclose(np.asarray(np.cumsum(afx.asarray(X), axis=axis)), np.cumsum(X, axis))


def test_integers_grow() -> None:
    """Small integers and booleans are summed in 64 bits, as NumPy does."""
    small = np.array([100, 100], np.int8)
    assert afx.cumsum(small).tolist() == [100, 200]
    assert afx.cumprod(small).dtype == afx.int64
    assert afx.cumsum(np.array([True, True])).tolist() == [1, 2]


def test_include_initial_puts_the_empty_sum_in_front() -> None:
    """The axis grows by the sum or product of nothing."""
    assert afx.cumulative_sum(np.array([1.0, 2.0]), include_initial=True).tolist() == [0.0, 1.0, 3.0]
    assert afx.cumulative_prod(np.array([3.0, 2.0]), include_initial=True).tolist() == [1.0, 3.0, 6.0]


def test_running_product_with_zeros_has_derivatives() -> None:
    """Each partial is the product of the other elements so far, with one zero or two."""
    for x in (np.array([2.0, 0.0, 3.0, 4.0]), np.array([0.0, 5.0, 0.0])):
        jacobian = np.asarray(afx.jacrev(afx.cumprod)(x))
        want = [[np.prod(np.delete(x[: j + 1], i)) if i <= j else 0.0 for i in range(x.size)] for j in range(x.size)]
        np.testing.assert_allclose(jacobian, want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("shape", [(0,), (1,), (9,), (3, 700), (4, 3, 5)])
def test_running_products_are_numpys_by_every_back_end(shape: tuple[int, ...], dtype: Any) -> None:
    """Bit by bit, of complex numbers up to rounding, along each axis; forward and reverse mode agree with products."""
    rng = np.random.default_rng(7)
    x = (1 + 0.05 * rng.normal(size=shape)).astype(dtype)
    x = x * np.exp(0.3j * x) if x.dtype.kind == "c" else x
    for axis in range(len(shape)):
        wanted = np.cumprod(x, axis)
        for backend in ("numpy", "auto", "native", "portable"):
            if backend in ("native", "portable"):
                pytest.importorskip("llvmlite", reason="machine code is an extra")
            found = np.asarray(afx.jit(lambda x, axis=axis: afx.cumprod(x, axis), backend=backend)(x))
            if x.dtype.kind == "c":
                np.testing.assert_allclose(found, wanted, 1e-12)
            else:
                np.testing.assert_array_equal(found, wanted)
        if dtype == np.float32:
            continue
        step = rng.normal(size=shape).astype(dtype)
        push = np.asarray(afx.jvp(lambda x, axis=axis: afx.cumprod(x, axis), (x,), (step,))[1])
        np.testing.assert_allclose(push, wanted * np.cumsum(step / x, axis), 1e-10, 1e-10)
        pull = np.asarray(afx.vjp(lambda x, axis=axis: afx.cumprod(x, axis), x)[1](step)[0])
        back = np.flip(np.cumsum(np.flip(step * wanted, axis), axis), axis) / x
        np.testing.assert_allclose(pull, back, 1e-10, 1e-10)


def test_mistakes_are_explained() -> None:
    """An unnamed axis of several, and a number of differences below 0, are errors that say so."""
    with pytest.raises(afx.errors.ArgumentError, match="axis="):
        afx.cumulative_sum(X)
    with pytest.raises(afx.errors.ArgumentError, match="n=-1"):
        afx.diff(X, -1)
    with pytest.raises(afx.errors.ShapeError):
        afx.cumsum(X, 2)
