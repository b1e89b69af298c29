"""Places of extremes of rows side by side and of values in a sorted vector, in lanes, and running results: NumPy's bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from tests.compiler.native_backend.native_run import assert_same_bits

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324]
CASES = [*[(dtype, 1) for dtype in ("f8", "f4", "i8", "i4", "i2", "u8", "u1", "?")], ("f8", 2), ("f4", 2)]


def numbers(shape: tuple[int, ...], dtype: str) -> Any:
    """Return numbers of which two thirds are equal to others, or special."""
    rng = np.random.default_rng(sum(shape))
    if dtype[0] != "f":
        return rng.integers(0, 2 if dtype == "?" else 5, shape).astype(dtype)
    x = rng.normal(size=shape)
    x.flat[::3] = rng.choice(SPECIAL, len(x.flat[::3]))
    x.flat[1::3] = rng.integers(-2, 3, len(x.flat[1::3]))
    return x.astype(dtype)


@pytest.mark.parametrize(("dtype", "tier"), CASES)
def test_places_of_extremes_are_numpys_along_every_axis(dtype: str, tier: int) -> None:
    """The first of equal elements counts, and the first nan, in rows that lie side by side, in any number."""
    shapes = [(5, 2), (7, 3), (1, 8), (40, 1), (30, 77), (3, 129), (4, 5, 6), (6, 1, 9), (2, 3, 2, 9)]
    xs = [numbers(shape, dtype) for shape in shapes]

    def fn(*xs: Any) -> Any:
        given = [*xs, *[x[..., ::-1] for x in xs[:3]], xs[4][:, ::2], xs[4][3:, 1:], xs[6].transpose(2, 0, 1)]
        return tuple([find(x, axis=k) for x in given for k in range(x.ndim) for find in (afx.argmax, afx.argmin)])

    native = assert_same_bits(fn, *xs, tier=tier)
    assert native(*xs)[1] == 0


def test_the_first_of_many_rows_counts_beyond_the_rows_fetched_ahead() -> None:
    """Chunks of rows read nothing behind the last one that they do not have, and keep places of more than 16 bits."""
    x = np.zeros((70_000, 90), np.float32)
    x[69_999, 89], x[65_537, 40] = 1, np.nan
    assert_same_bits(lambda x: (afx.argmax(x, axis=0), afx.argmin(x, axis=0)), x)


@pytest.mark.parametrize(("dtype", "tier"), CASES)
def test_places_in_a_sorted_vector_are_numpys(dtype: str, tier: int) -> None:
    """Vectors of any length, values in any number, side by side or apart, on either side of equal elements and of nan."""
    vector, lengths = np.sort(numbers((45,), dtype)), (1, 2, 5, 31, 45)
    values = [numbers(shape, dtype) for shape in ((3,), (16,), (37,), (3, 20), ())]

    def fn(a: Any, *values: Any) -> Any:
        given = [*values, values[2][::2], values[3][:, :17], values[3].T]
        sides = ("left", "right")
        found = [afx.searchsorted(a[:n], v, side) for n in lengths for v in given for side in sides]
        return (*found, afx.searchsorted(a[::2], values[2]), afx.searchsorted(a[:0], values[2]))

    native = assert_same_bits(fn, vector, *values, tier=tier)
    assert native(vector, *values)[1] == 0
    expected = [np.searchsorted(vector[:n], values[2], side) for n in lengths for side in ("left", "right")]
    portable = afx.jit(
        lambda a, v: [afx.searchsorted(a[:n], v, s) for n in lengths for s in ("left", "right")], backend="portable"
    )
    for z, want in zip(portable(vector, values[2]), expected, strict=True):
        np.testing.assert_array_equal(z, want)


@pytest.mark.parametrize(("dtype", "tier"), CASES)
def test_running_results_are_numpys(dtype: str, tier: int) -> None:
    """Sums in NumPy's order, extremes with the signs of its zeros and its nan, along every axis, of any length."""
    xs = [numbers(shape, dtype) for shape in ((1,), (2,), (100,), (3, 40), (40, 3), (2, 5, 6), (517,))]
    xs[6][:300] = np.where(np.isfinite(xs[6][:300]), xs[6][:300], 0)  # nan comes late

    def fn(*xs: Any) -> Any:
        given = [*xs, xs[2][::-1], xs[2][3::2], xs[3].T, xs[3][:, 5:9]]
        run = (afx.cumsum, afx.cummax, afx.cummin)
        return tuple([f(x, axis=k) for x in given for k in range(x.ndim) for f in run])

    assert_same_bits(fn, *xs, tier=tier)
