"""Expressions of SymPy that say what afx computes."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import pytest

import afx
from afx import export
from afx.core.primitive import lookup
from afx.core.tracing.tracer import bind
from afx.errors import ExportError, MissingExtraError
from afx.export.sympy_form import BINARY, NAMES, UNARY
from tests.every import together
from tests.ops import samples as made
from tests.ops.domains import domain

sympy: Any = pytest.importorskip("sympy", reason="SymPy is an extra")
ONE, TWO = np.float64(1.0), np.float64(2.0)


def bell(x: Any, width: Any) -> Any:
    """Return a bell curve."""
    return afx.exp(-((x / width) ** 2) / 2)


def test_a_derivative_reads_as_a_person_writes_it() -> None:
    """Symbols are the arguments, numbers are fractions, and terms are shortened."""
    x, width = sympy.symbols("x width", real=True)
    found = export.to_sympy(afx.grad(bell), ONE, TWO)
    assert found == -x / width**2 * sympy.exp(-(x**2) / (2 * width**2))
    assert sympy.latex(found) == r"- \frac{x e^{- \frac{x^{2}}{2 width^{2}}}}{width^{2}}"
    assert export.to_sympy(afx.grad(lambda x: afx.tanh(x) * x), ONE) == x / sympy.cosh(x) ** 2 + sympy.tanh(x)


def test_derivatives_are_those_of_sympy() -> None:
    """SymPy differentiates the function's expression to that of the derivative."""
    x, width = sympy.symbols("x width", real=True)
    value = export.to_sympy(bell, ONE, TWO)
    for argnum, symbol in enumerate((x, width)):
        second = export.to_sympy(afx.grad(afx.grad(bell, argnum), argnum), ONE, TWO)
        assert sympy.simplify(sympy.diff(value, symbol, 2) - second) == 0


def test_arrays_are_symbols_one_an_element() -> None:
    """Trees stay trees; an array's result is an array of expressions."""

    def fn(p: dict[str, Any]) -> Any:
        return {"sum": afx.sum(p["w"] * np.array([1.0, 0.5])), "product": p["w"][::-1] * p["b"]}

    found = export.to_sympy(fn, {"w": np.ones(2), "b": ONE})
    first, second, b = sympy.symbols("p_w_0 p_w_1 p_b", real=True)
    assert found["sum"] == first + second / 2
    assert found["product"] == sympy.Array([b * second, b * first])
    hessian = export.to_sympy(afx.hessian(lambda x: afx.sum(x**3)), np.ones(2))
    assert hessian == sympy.Array([[6 * sympy.Symbol("x_0", real=True), 0], [0, 6 * sympy.Symbol("x_1", real=True)]])


OF_NUMBERS = {p.name for p in afx.primitives() if p.is_elementwise and made.takes(p, np.float64)}


@together("name", sorted({*NAMES, *UNARY, *BINARY} & OF_NUMBERS))
def test_each_function_has_its_numbers(name: str) -> None:
    """An operation's expression has afx's number, at a point of its domain."""
    p = lookup(name)
    low, high = domain(p)
    point = [low + (high - low) * share for share in (0.61, 0.37)[: made.arity(p)]]
    values = {f"x{k}": x for k, x in enumerate(point)}
    found = export.to_sympy(lambda *xs: bind(p, *xs), *map(np.float64, point), simplify=False)
    want = np.asarray(bind(p, *map(np.float64, point)))
    number = found.subs({s: sympy.Float(str(values[s.name]), 20) for s in found.free_symbols})
    got = bool(number) if want.dtype.kind == "b" else complex(number.evalf(20))
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_choices_are_piecewise() -> None:
    """A choice is written with its conditions, and so is its derivative."""
    x = sympy.Symbol("x", real=True)
    found = export.to_sympy(afx.grad(lambda x: afx.where(x > 0, x**2, -x)), ONE)
    assert [found.subs(x, place) for place in (-3, 5)] == [-1, 10]


def test_what_cannot_be_read_is_refused() -> None:
    """Loops, and arrays of many elements, are refused by name."""
    with pytest.raises(ExportError, match=r"to_sympy: .* SymPy: got sort at .*test_to_sympy.py:\d+"):
        export.to_sympy(lambda x: afx.sort(x), np.ones(3))
    with pytest.raises(ExportError, match=r"x has too many elements to be read: got x: float64\[65\]"):
        export.to_sympy(lambda x: x, np.ones(65))


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without SymPy the message says what to install."""
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(MissingExtraError, match=r"afx\[sympy\]"):
        export.to_sympy(afx.sin, ONE)
    assert importlib.import_module("afx.export") is export
