"""Portable code of casts between every two dtypes, and of shapes with 0 and 1 in them: eager's results, no raw errors."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

DTYPES = "?bBhHiIlLefdFD"
X = np.arange(6.0).reshape(2, 3)
MOVES: dict[str, Callable[[Any], Any]] = {
    "pad": lambda x: afx.pad(x, ((1, 1), (0, 0))),
    "pad both": lambda x: afx.pad(x, 2, constant_values=3.0),
    "reversed": lambda x: x[:, ::-1],
    "every second": lambda x: x[:, ::2],
    "roll": lambda x: afx.roll(x, 1, axis=1),
    "running sum": lambda x: afx.cumulative_sum(x, axis=1),
    "sum": lambda x: afx.sum(x, axis=1),
    "sort": lambda x: afx.sort(x, axis=1),
    "concat": lambda x: afx.concat([x, x], axis=1),
    "update": lambda x: x.at[:, ::2].set(1.0),
    "product": lambda x: x @ x.T,
    "repeat": lambda x: afx.repeat(x, 2, axis=1),
}


@pytest.mark.parametrize("have", DTYPES)
def test_casts_give_numpys_numbers(have: str) -> None:
    """A cast from one dtype to any other has eager's numbers in portable code."""
    x = np.array([0, 1, 3]).astype(have)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fn: Any = lambda x: [afx.astype(x, np.dtype(want)) for want in DTYPES]  # jitted twice
        for got, expected in zip(afx.jit(fn, backend="portable")(x), fn(afx.asarray(x)), strict=True):
            np.testing.assert_array_equal(got, expected)
            assert got.dtype == expected.dtype


@pytest.mark.parametrize("backend", ["numpy", "native", "portable"])
@pytest.mark.parametrize("columns", [0, 1, 3])
def test_moves_of_little_or_nothing(columns: int, backend: Any) -> None:
    """Moves of arrays without columns, or with one, and their gradients, give eager's results in every back end."""
    x = afx.asarray(X)[:, :columns]

    def values(x: Any) -> Any:
        return [fn(x) for fn in MOVES.values()]

    def slopes(x: Any) -> Any:
        return [afx.grad(lambda x, fn=fn: afx.sum(afx.sin(fn(x))))(x) for fn in MOVES.values()]

    for fn in (values, slopes):
        for got, want in zip(afx.jit(fn, backend=backend)(x), fn(x), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-15)
