"""Running sums and products, and differences."""

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


def test_mistakes_are_explained() -> None:
    """An unnamed axis of several, and a number of differences below 0, are errors that say so."""
    with pytest.raises(afx.errors.ArgumentError, match="axis="):
        afx.cumulative_sum(X)
    with pytest.raises(afx.errors.ArgumentError, match="n=-1"):
        afx.diff(X, -1)
    with pytest.raises(afx.errors.ShapeError):
        afx.cumsum(X, 2)
