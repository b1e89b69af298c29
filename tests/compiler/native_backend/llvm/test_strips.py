"""Functions over strips of a row, the last of which is shorter."""

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.llvm.emit import emit_programs
from afx.compiler.native_backend.service.link import layout
from tests.compiler.native_backend.native_run import Native

LENGTHS = (64, 79, 512, 513, 1000, 1537)
X = np.random.default_rng(0).uniform(0.1, 3.0, 2000)


def both(x: Any) -> Any:
    """Return two functions and arithmetic between them: each function has a loop of its own."""
    return np.log(x) * 2 + np.exp(-x), np.sin(x) * x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", LENGTHS)
def test_elements_do_not_depend_on_the_length(dtype: str, length: int) -> None:
    """Rows of every length give the elements of a longer one, between canaries and without a flag."""
    x = X.astype(dtype)
    whole, _ = Native(both, x, tier=2)(x)
    found, errors = Native(both, x[:length], tier=2)(x[:length])
    assert errors == 0
    for z, expected in zip(found, whole, strict=True):
        np.testing.assert_array_equal(z, expected[:length])


@pytest.mark.parametrize("length", LENGTHS)
def test_sums_of_strips_take_each_element_once(length: int) -> None:
    """Sums joined to functions over strips of every length lie within their bound of the exact ones."""
    x = X[:length]
    found, _ = Native(lambda x: (np.log(x) * np.exp(-x)).sum(), x, tier=2)(x)
    expected = math.fsum(np.log(x) * np.exp(-x))
    assert abs(float(found[0]) - expected) < 1e-14 * length


@pytest.mark.parametrize("last", [-1.0, 0.0, np.nan, 800.0])
def test_the_last_element_alone_is_hard(last: float) -> None:
    """Special values at the end of a row give what they give elsewhere, with the same flags."""
    x = X[:523].copy()
    x[-1] = last
    found, errors = Native(both, x, tier=2)(x)
    again, others = Native(both, x[::-1].copy(), tier=2)(x[::-1].copy())
    assert errors == others
    for z, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(z, other[::-1])


def test_the_code_of_a_function_stands_once() -> None:
    """However often a function is called, and however long rows are, a module has one loop for it."""

    def often(x: Any) -> Any:
        for _ in range(4):
            x = np.tanh(x) * np.exp(-x)
        return x

    for length in (100, 1000, 5000):
        text = Native(often, X[:100].repeat(50)[:length], tier=2).text
        assert text.count("define internal void @strip.tanh.") == 1
        assert text.count("call <8 x double> @fast.tanh.") == 1


def test_strips_of_numpys_loops_share_their_code() -> None:
    """In the first tier too, whole strips and the last one run the same code."""
    where = layout()
    assert where is not None
    native = Native(both, X[:1000])
    assert emit_programs([native.program], where).count('call void @"ufunc.exp.f8.f8"') == 1
    found, _ = native(X[:1000])
    np.testing.assert_array_equal(found[0], np.log(X[:1000]) * 2 + np.exp(-X[:1000]))


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_elements_that_nobody_asked_for_raise_no_flag(dtype: str, tier: int) -> None:
    """Quotients and roots of rows of every length have the flags of their elements alone."""
    for length in (1, 2, 3, 5, 6, 7, 11, 18, 27, 35):
        x = np.linspace(1, 2, length).astype(dtype)
        native = Native(lambda x, y: (x / y, np.sqrt(x - 0.5), 1 / np.sqrt(y)), x, x[::-1].copy(), tier=tier)
        assert native(x, x[::-1].copy())[1] == 0
        assert native(x, np.zeros_like(x))[1] == 1  # division by zero


def test_few_classes_keep_machine_code() -> None:
    """A softmax of ten float32 classes is no reason to call NumPy again."""
    x = np.random.default_rng(0).normal(size=(8, 10)).astype(np.float32)
    native = Native(lambda x: np.exp(x) / np.exp(x).sum(axis=1, keepdims=True), x)
    found, errors = native(x)
    assert errors == 0
    np.testing.assert_allclose(found[0].sum(axis=1), 1.0, rtol=1e-6)
