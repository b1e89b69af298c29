"""Quotients, remainders, powers, divisors and multiples of integers are NumPy's on every road, at the ends of their types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import afx
from afx import export
from tests.export.onnx_models import run_model
from tests.export.stablehlo.test_to_stablehlo import xla

SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
NAMES = {"floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod, "gcd": np.gcd, "lcm": np.lcm}


def edges(dtype: Any) -> list[Any]:
    """Return two arrays: all pairs of small numbers, multiples, and the ends of a dtype."""
    ends = np.iinfo(dtype)
    numbers = {0, 1, 2, 3, 7, 12, 96, ends.max, ends.max - 1, ends.max // 2, ends.min, ends.min + 1}
    numbers |= {-1, -2, -7, -12} if ends.min else set()
    return [a.ravel() for a in np.meshgrid(*[np.array(sorted(numbers), dtype)] * 2)]


def every(x: Any, y: Any) -> list[Any]:
    """Return all operations, powers by exponents that are not negative."""
    return [*[getattr(afx, name)(x, y) for name in NAMES], x ** (y & 31)]


def wanted(x: Any, y: Any) -> list[Any]:
    """Return the same by NumPy."""
    with np.errstate(all="ignore"):
        return [*[ufunc(x, y) for ufunc in NAMES.values()], x ** (y & 31)]


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
def test_portable_integers_are_numpys(dtype: Any) -> None:
    """Portable code gives NumPy's numbers, zeros and the least number by -1 among them."""
    x, y = edges(dtype)
    for got, want in zip(afx.jit(every, backend="portable")(x, y), wanted(x, y), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
def test_integers_of_stablehlo_are_numpys(dtype: Any) -> None:
    """XLA gives NumPy's numbers too."""
    x, y = edges(dtype)
    for got, want in zip(xla()(export.to_stablehlo(every, x, y), (x, y)), wanted(x, y), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED[:3]])
def test_integers_of_onnx_are_numpys(dtype: Any) -> None:
    """So does onnxruntime, of integers up to 32 bits without a sign and 64 bits with one."""
    x, y = edges(dtype)
    for got, want in zip(run_model(export.to_onnx(every, x, y), x, y), wanted(x, y), strict=True):
        np.testing.assert_array_equal(got, want)


def test_negative_powers_of_integers_are_refused_or_zero() -> None:
    """A negative exponent raises in portable code, as NumPy does, and is 0 in models."""
    x, y = np.array([2, 3]), np.array([-1, 2])
    with pytest.raises(afx.errors.IndexRangeError):
        afx.jit(afx.pow, backend="portable")(x, y)
    np.testing.assert_array_equal(xla()(export.to_stablehlo(afx.pow, x, y), (x, y))[0], [0, 9])
