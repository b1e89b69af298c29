"""Constant rules: arithmetic on choices between numbers is done while compiling, with NumPy's rounding."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.graph.rewrite_rules import simplify
from afx.compiler.target import Target
from tests.compiler.native_backend.native_run import schedule_of

X = np.array([-2.0, -0.0, 0.5, 3.0, np.nan])


def counts(fn: Callable[..., Any], *args: Any) -> dict[str, int]:
    """Return how often each op occurs in the simplified graph."""
    return dict(simplify(afx.trace(fn)(*args), Target(), expanding=True).counts())


CASES: dict[str, Callable[[Any], Any]] = {
    "a product": lambda x: afx.where(x > 0, 0.1, 0.0) * 3.0,
    "a quotient of a number": lambda x: 1.0 / afx.where(x > 0, 3.0, 7.0),
    "a function": lambda x: afx.exp(-afx.where(x > 0, 0.3, 1.7)),
    "a cast": lambda x: afx.astype(afx.where(x > 0, 0.1, 0.7), "float64"),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_choices_of_numbers_stay_choices(name: str, dtype: str) -> None:
    """One comparison and one choice are left, and give what NumPy's calls give."""
    fn, x = CASES[name], X.astype(dtype)
    with afx.default_dtype(dtype):
        assert counts(fn, x) == {"greater": 1, "where": 1}
        np.testing.assert_array_equal(np.asarray(afx.jit(fn)(x)), np.asarray(fn(x)))


def test_what_raises_is_not_computed_before() -> None:
    """A quotient by a number that may be 0 warns where it is chosen, as in NumPy."""

    def fn(x: Any) -> Any:
        return 1.0 / afx.where(x > 0, 1.0, 0.0)

    assert counts(fn, X)["divide"] == 1
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        afx.jit(fn, backend="numpy")(X)


def test_signs_and_sizes_never_warn() -> None:
    """So plans need not look at floating-point errors around them; those of complex numbers may overflow."""

    def fn(x: Any, z: Any) -> Any:
        return -x, abs(x), afx.sign(x), abs(z)

    calls = {
        str(i.ufunc or i.op): i.error_state
        for i in schedule_of(fn, X, np.array([1e308 + 1e308j]))
        if hasattr(i, "ufunc")
    }
    assert calls["negative"] is None
    assert calls["sign"] is None
    states = [
        i.error_state for i in schedule_of(fn, X, np.array([1e308 + 1e308j])) if getattr(i, "ufunc", "") == "absolute"
    ]
    assert states == [None, ()]
    with np.errstate(all="raise"):
        for v in afx.jit(lambda x: (-x, abs(x), afx.sign(x)), backend="numpy")(X):
            assert np.isnan(np.asarray(v)[-1])


def test_products_of_what_is_not_chosen_raise_nothing() -> None:
    """Operands that a choice keeps from overflowing, or from being 0 times infinity, are kept from it in plans."""
    x, y = np.array([0.5, np.inf, 1e300]), np.array([1.0, 0.0, 1e300])

    def fn(x: Any, y: Any) -> Any:
        return tuple([afx.where(x < 1, afx.where(x < 1, x, 0.0) * z, 0.0) for z in (y, 1e10, 0.0, 0.5)])

    wanted = ([0.5, 0.0, 0.0], [5e9, 0.0, 0.0], [0.0] * 3, [0.25, 0.0, 0.0])
    for found, want in zip(afx.jit(fn)(x, y), wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(found), want)
