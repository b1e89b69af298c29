"""Short rows, rows of results, and elements that lie apart: whole vectors of machine code, with NumPy's bits."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from tests.compiler.native_backend.native_run import Native, assert_same_bits

RNG = np.random.default_rng(0)


def floats(dtype: str, *shape: int) -> Any:
    """Return numbers of which some are zeros of both signs, infinite or nan."""
    x = RNG.normal(size=shape).astype(dtype)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)
    return np.where(RNG.random(shape) < 0.1, RNG.choice(odd, shape), x)


def rows(x: Any, row: Any, column: Any, mask: Any, count: Any) -> Any:
    """Return what is made of a matrix, one of its rows, one of its columns, and masks and counts of both."""
    z = afx.where(mask, x * row, column[:, None] + x)
    return z, afx.where(count[:, None] == afx.arange(x.shape[1]), z, 0.5), -row * column[:, None]


@pytest.mark.parametrize("length", [2, 3, 5, 8, 10, 12, 17, 31])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_short_rows_fill_vectors(dtype: str, length: int) -> None:
    """Rows of any length beside rows, columns and masks have NumPy's bits, and those that fill no vector raise no flag."""
    for count in (3, 20, 37):
        x, row, column = floats(dtype, count, length), floats(dtype, length), floats(dtype, count)
        mask, number = RNG.random(length) < 0.5, RNG.integers(0, length, count)
        assert_same_bits(rows, x, row, column, mask, number)
        assert_same_bits(rows, x, row, column, RNG.random((count, 1)) < 0.5, number)
    ones = np.ones((count, length), dtype)
    assert Native(lambda x, r, c: x / (r + c[:, None]), ones, ones[0], ones[:, 0])(ones, ones[0], ones[:, 0])[1] == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_short_rows_within_axes(dtype: str) -> None:
    """Differences of all pairs of points, of which one is the same along each axis, have NumPy's bits, also in loops."""
    x, mass = floats(dtype, 21, 3), floats(dtype, 21)

    def pairs(x: Any, mass: Any) -> Any:
        d = x[None, :, :] - x[:, None, :]
        return d * d, mass[None, :, None] * d, afx.scan(lambda c, _: (c * 0.5 - d[0], None), d[0], None, length=3)[0]

    assert_same_bits(pairs, x, mass)


REDUCTIONS: list[Callable[[Any], Any]] = [
    lambda x: afx.sum(x, axis=0),
    lambda x: afx.sum(x, axis=1),
    lambda x: afx.sum(x, axis=(0, 1)),
    lambda x: afx.prod(x, axis=1),
    lambda x: afx.max(x, axis=1),
    lambda x: afx.min(x, axis=0),
    lambda x: (afx.max(x[:, :9], axis=1), afx.min(x[:, :16], axis=1), afx.max(x[:, 1:3, :2], axis=1)),
    lambda x: afx.sum(afx.where(x > 0, 1.0, x), axis=1),
]


@pytest.mark.parametrize("fn", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_results_stay_in_registers(dtype: str, fn: Callable[[Any], Any]) -> None:
    """Reductions along other axes than the last one add rows in NumPy's order, whatever their length."""
    for length in (2, 3, 7, 10, 64, 131):
        assert_same_bits(fn, floats(dtype, 4, 19, length))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_elements_that_lie_apart(dtype: str) -> None:
    """Parts with steps, backwards, and parts of complex numbers have NumPy's bits, and read nothing beyond their ends."""
    for n in (5, 16, 67, 130):
        z = floats("float64", n, 2).view("complex128")[:, 0].astype(np.result_type(dtype, np.complex64))
        x = floats("float64", 3, 4 * n).astype(dtype)
        assert_same_bits(lambda z: (z.real * z.imag, z[::-1].conj(), z.real[::2] - z.imag[::2]), z)
        assert_same_bits(
            lambda x: (x[:, ::2] * 2, x[:, 1::3] - x[:, : x[:, 1::3].shape[1]], x[:, 3::4] * x[:, ::4], x[:, ::-1] + x),
            x,
        )
        assert_same_bits(lambda x: (x[:, ::-2] + x[:, ::2], x[::-1, ::-3] * 3), x)
