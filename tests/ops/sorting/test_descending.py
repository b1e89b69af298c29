"""Descending order: that of NumPy 2.5, nan last."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx

NAN, INF = np.nan, np.inf
X = np.array([[NAN, 1.0, 2.0, -0.0], [0.0, INF, NAN, -INF], [3.0, 1.0, 3.0, 1.0]])
SORTED = np.array([[2.0, 1.0, -0.0, NAN], [INF, 0.0, -INF, NAN], [3.0, 3.0, 1.0, 1.0]])
ORDER = [[2, 1, 3, 0], [1, 0, 3, 2], [0, 2, 1, 3]]
WAYS: dict[str, Callable[[Any], Any]] = {"plain": lambda fn: fn, "jit": afx.jit, "vmap": afx.vmap}


@pytest.mark.parametrize("way", WAYS)
def test_nan_stands_last_and_equal_elements_keep_their_order(way: str) -> None:
    """In functions and methods, eager, compiled and mapped."""
    run = WAYS[way]
    np.testing.assert_array_equal(run(lambda x: afx.sort(x, descending=True))(X), SORTED)
    np.testing.assert_array_equal(run(lambda x: afx.asarray(x).sort(descending=True))(X), SORTED)
    np.testing.assert_array_equal(run(lambda x: afx.argsort(x, descending=True))(X), ORDER)
    np.testing.assert_array_equal(run(lambda x: afx.asarray(x).argsort(descending=True))(X), ORDER)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "complex128"])
def test_every_dtype_has_a_descending_order(dtype: str) -> None:
    """The smallest integer, which has no negative, among them."""
    x = np.array([3, 1, 2, 0, 3]).astype(dtype)
    if dtype == "int64":
        x[1] = np.iinfo(x.dtype).min
    np.testing.assert_array_equal(afx.sort(x, descending=True), np.sort(x)[::-1], strict=True)
    found = np.asarray(afx.argsort(x, descending=True))
    np.testing.assert_array_equal(x[found], np.sort(x)[::-1])
    assert list(found[:2]) == ([0, 1] if dtype == "bool" else [0, 4])


def test_derivatives_follow_the_elements() -> None:
    """The largest element gets the first weight."""
    weights = np.array([3.0, 2.0, 1.0])
    grad = afx.grad(lambda x: afx.sum(afx.sort(x, descending=True) * weights))(np.array([1.0, 5.0, 2.0]))
    np.testing.assert_array_equal(grad, [1.0, 3.0, 2.0])


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.5.0", reason="NumPy sorts in descending order from 2.5 on")
def test_numpy_agrees() -> None:
    """NumPy's functions of Arrays give what they give of ndarrays."""
    sort: Any = np.sort
    argsort: Any = np.argsort
    np.testing.assert_array_equal(sort(afx.asarray(X), descending=True), sort(X, descending=True))
    np.testing.assert_array_equal(argsort(afx.asarray(X), descending=True), argsort(X, descending=True, stable=True))
