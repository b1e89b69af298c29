"""Nests of short rows call NumPy's loops once for all elements."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.program.elements import UfuncLoop
from afx.compiler.native_backend.program.leaves import Nest
from tests.compiler.native_backend.native_run import Native, assert_same_bits, use_limits

DTYPES = ["float32", "float64"]


def by_columns(x: Any, v: Any) -> Any:
    """Return what needs one call after the other, of values that are broadcast, stored and reduced."""
    z = np.exp(x - v)
    w = np.log(z + v[0]) * np.exp(v)
    return z, w, np.sin(np.tan(v * x)), np.exp(np.broadcast_to(v, x.shape)) + x, np.sum(np.exp(x + v) * 2, axis=1)


def arguments(dtype: str, rows: int = 5) -> tuple[Any, Any]:
    """Return a matrix of short rows, and a vector."""
    rng = np.random.default_rng(3)
    return rng.normal(size=(rows, 3)).astype(dtype), rng.normal(size=3).astype(dtype) + 3


def calls_of(native: Native) -> list[tuple[int, ...]]:
    """Return the spaces of the nests that call NumPy's loops."""
    steps = [step for step in native.program.block.all_steps() if isinstance(step, Nest)]
    return [step.space for step in steps if any(isinstance(op.name, UfuncLoop) for op in step.operations)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows", [5, 600])
def test_calls_over_short_rows_have_the_bits_of_numpy(dtype: str, rows: int) -> None:
    """Each call takes all elements at once, whatever stands before and behind it."""
    native = assert_same_bits(by_columns, *arguments(dtype, rows))
    assert all(len(space) < 2 for space in calls_of(native))


@pytest.mark.parametrize("dtype", DTYPES)
def test_errors_are_those_of_calls_row_by_row(dtype: str) -> None:
    """Logarithms of 0 and of negative numbers, and overflow, are seen as they are row by row."""
    for value in (0.0, -1.0, 800.0, np.inf, np.nan):
        x, v = arguments(dtype)
        x[1, 2] = value

        def f(x: Any, v: Any) -> Any:
            return np.log(x * v), np.exp(x * v)

        _, errors = assert_same_bits(f, x, v)(x, v)
        with use_limits(call_row_min_elements=0):
            _, expected = Native(f, x, v)(x, v)
        assert errors == expected


def test_long_rows_stay_in_one_nest() -> None:
    """Rows that are long enough are computed strip by strip, without memory for all of them."""

    def f(x: Any, v: Any) -> Any:
        return np.exp(x - v) * v

    assert calls_of(Native(f, np.ones((4, 200)), np.ones(200))) == [(4, 200)]
