"""Exponentials far below 0: what a large negative number masks gives 0, as before, without a slow way of NumPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.graph.rewrite_rules import simplify
from afx.compiler.target import Target

RNG = np.random.default_rng(2)
X, SEEN = RNG.normal(size=(40, 50)) * 300, RNG.random((40, 50)) < 0.6

MASKED: dict[str, Callable[..., Any]] = {
    "a choice": lambda x, seen: afx.exp(afx.where(seen, x, -1e9)),
    "an infinity": lambda x, seen: afx.exp(afx.where(seen, x, -np.inf)),
    "a difference": lambda x, seen: afx.exp(afx.where(seen, x, -1e9) - afx.max(x, axis=1, keepdims=True)),
    "a sum": lambda x, seen: afx.exp(x / 2.0 + (1.0 - seen) * -1e30),
}
PLAIN: dict[str, Callable[..., Any]] = {
    "no mask": lambda x, seen: afx.exp(x),
    "a small number": lambda x, seen: afx.exp(afx.where(seen, x, -700.0)),
    "floats": lambda x, seen: afx.exp(afx.where(seen, afx.astype(x, np.float32), -1e9)),
    "few": lambda x, seen: afx.exp(afx.where(seen[:3], x[:3], -1e9)),
}


def odd(x: np.ndarray) -> np.ndarray:
    """Return numbers of which some are special, or near where the exponential vanishes."""
    x = x.copy()
    x[0, :9] = [np.nan, np.inf, -np.inf, -745.1, -745.2, -746.0, np.nextafter(-746.0, -800.0), -708.5, 0.0]
    return x


def chosen(fn: Callable[..., Any]) -> bool:
    """Tell whether the plan looks at the operand of the exponential."""
    return "less" in simplify(afx.trace(fn)(X, SEEN), Target(), expanding=True).counts()


@pytest.mark.parametrize("name", MASKED)
def test_masked_exponentials_are_numpys(name: str) -> None:
    """Bit by bit, for every kind of number, in NumPy's plan and in machine code."""
    fn, x = MASKED[name], odd(X)
    assert chosen(fn)
    with np.errstate(all="ignore"):
        want = np.asarray(fn(x, SEEN))
        found = np.asarray(afx.jit(fn, backend="numpy")(x, SEEN))
        np.testing.assert_array_equal(found, want)
        pytest.importorskip("llvmlite", reason="machine code is an extra")
        from tests.compiler.native_backend.native_run import Native

        np.testing.assert_array_equal(Native(fn, x, SEEN)(x, SEEN)[0][0], want)


@pytest.mark.parametrize("name", PLAIN)
def test_other_exponentials_stay(name: str) -> None:
    """Where nothing masks, or not in float64, or where there are few elements, the call costs less than a look."""
    assert not chosen(PLAIN[name])


def test_choices_between_numbers_stay() -> None:
    """A look at them would be a choice between truths, which leads no further, and would be repeated for that."""

    def fn(seen: Any) -> Any:
        return afx.exp(afx.where(seen, np.float64(0.0), np.float64(-1e9)))

    assert simplify(afx.trace(fn)(SEEN), Target(), expanding=True).counts() == {"where": 1, "exp": 1}
    np.testing.assert_array_equal(np.asarray(afx.jit(fn, backend="numpy")(SEEN)), np.exp(np.where(SEEN, 0.0, -1e9)))
