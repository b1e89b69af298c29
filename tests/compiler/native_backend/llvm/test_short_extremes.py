"""Extremes of short rows, and where they stand, in registers: NumPy's to the last bit, without a flag for nan."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="machine code is an extra")

from tests.compiler.native_backend.native_run import Native, assert_same_bits

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324]


def rows(count: int, length: int, dtype: str) -> Any:
    """Return rows of numbers, of zeros of either sign, of equal numbers, and of all kinds of special ones."""
    rng = np.random.default_rng(length)
    x = rng.normal(size=(count, length))
    x[1::5] = rng.choice(SPECIAL, (len(x[1::5]), length))
    x[2::5] = rng.choice([0.0, -0.0, -1.0], (len(x[2::5]), length))
    x[3::5] = rng.integers(0, 3, (len(x[3::5]), length))
    x[4::10] = np.where(rng.random((len(x[4::10]), length)) < 0.2, np.nan, x[4::10])
    return x.astype(dtype)


def extremes(x: Any) -> Any:
    """Return all four of each row."""
    return x.max(axis=-1), x.min(axis=-1), np.argmax(x, axis=-1), np.argmin(x, axis=-1)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("length", [2, 3, 4, 5, 8, 10, 17, 31, 33, 64])
def test_short_rows_have_numpys_extremes(length: int, dtype: str) -> None:
    """Signs of zeros, nan and the first of equal elements are NumPy's, in rows of any length."""
    native = assert_same_bits(extremes, rows(200, length, dtype))
    text = native.program.text(0)
    assert ("maximum of " in text) == (length * int(dtype[1:]) >= 16)


def test_rows_of_parts_and_stacks() -> None:
    """Rows may lie apart, and in stacks."""

    def fn(x: Any) -> Any:
        y = x.reshape(20, 10, 24)
        return *extremes(x[:, 3:19]), *extremes(y[1:]), np.exp(x - x.max(axis=1, keepdims=True))

    assert_same_bits(fn, np.nan_to_num(rows(200, 24, "f4"), posinf=3, neginf=-3))


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_no_row_raises_a_flag(dtype: str, tier: int) -> None:
    """Neither nan nor infinities leave a floating-point error behind."""
    x = rows(200, 24, dtype)
    assert Native(extremes, x, tier=tier)(x)[1] == 0
