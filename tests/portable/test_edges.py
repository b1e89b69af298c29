"""Portable code of casts between every two dtypes, and of shapes with 0 and 1 in them: eager's results, no raw errors."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from tests.every import together

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


UNFIT = [0.0, -0.0, -1.5, 300.0, -300.0, 70000.0, 3e9 + 5, -3e9, 5e9 + 7, 2.0**31, -(2.0**31) - 1, 2.0**32, 2.0**63]
UNFIT += [2.0**63 + 4096, -(2.0**63), 1.5e19, -1e19, 2.0**64, 1e30, np.nan, np.inf, -np.inf]
WRAPPED = {  # of nan, 300, 5e9 + 7 and 1.5e19
    "bool": (1, 1, 1, 1),
    "int8": (0, 44, 0, 0),
    "uint8": (0, 44, 0, 0),
    "int16": (0, 300, 0, 0),
    "uint16": (0, 300, 0, 0),
    "int32": (-(2**31), 300, -(2**31), -(2**31)),
    "uint32": (0, 300, 705032711, 0),
    "int64": (-(2**63), 300, 5000000007, -(2**63)),
    "uint64": (2**63, 300, 5000000007, 15 * 10**18),
}


@together("to", WRAPPED)
@together("have", ["float16", "float32", "float64"])
def test_floats_that_do_not_fit_integers_are_the_same_everywhere(have: str, to: str) -> None:
    """What does not fit is one number in every back end, in rows, strided and alone: NumPy's of a single number."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = np.array(UNFIT).astype(have)
        want = np.array([v.astype(to) for v in x])
        if have == "float64":
            places = [UNFIT.index(300.0), UNFIT.index(5e9 + 7), UNFIT.index(1.5e19)]
            assert tuple(map(int, want[[-3, *places]])) == WRAPPED[to]
        for fn in (lambda x: x.astype(to), lambda x: afx.map(lambda v: v.astype(to), x)):
            np.testing.assert_array_equal(fn(afx.asarray(x)), want)
            np.testing.assert_array_equal(fn(afx.asarray(np.repeat(x, 3)[::3])), want)
            for backend in ("auto", "numpy", "native", "portable"):
                np.testing.assert_array_equal(afx.jit(fn, backend=backend)(x), want, err_msg=backend)


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
