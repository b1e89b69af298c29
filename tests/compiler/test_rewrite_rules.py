"""Rewrite rules that no benchmark meets: each applies to a program that people write."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.graph.builder import Rule
from afx.compiler.graph.rewrite_rules import RULES

X = np.linspace(0.1, 1, 12).reshape(3, 4)
IMAGES, COLORS = np.ones((8, 64, 64, 3)), np.arange(3.0)
MANY, OTHERS = np.ones((5, 3, 4)), np.ones((5, 3, 2))

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {  # by the op and the rule
    "linear: involution": (lambda z: afx.conj(afx.conj(z)) + 1, (X * 1j,)),
    "subtract: x - -y is x + y.": (lambda x: x - (-afx.sin(x)), (X,)),
    "subtract: collapse_short_last_axis": (lambda x, mean: x - mean, (IMAGES, COLORS)),
    "multiply: collapse_short_last_axis": (lambda x, scale: x * scale, (IMAGES, COLORS)),
    "cast: cast(cast(x)) is x.": (lambda x: x.astype("float64").astype("float32") + 1, (X.astype("float32"),)),
    "cast: cast(cast(x)) is cast(x).": (lambda x: x.astype("float32").astype("float64"), (X.astype("float16"),)),
    "reduces: no_axes": (lambda x: afx.sum(x, axis=()) + 1, (X,)),
    "reduces: reduced_repeats": (lambda x: afx.sum(afx.broadcast_to(x[0, 0], (3, 4)), axis=0), (X,)),
    "reduces: sum_batched_matmul": (lambda x, y: afx.sum(afx.matrix_transpose(x) @ y, axis=0), (MANY, OTHERS)),
    "divide: x / 1.0 is x.": (lambda x: x / 1.0 + x, (X,)),
    "power: x ** 1 is x.": (lambda x: x**1 + x, (X,)),
    "power: x ** -1 is 1 / x.": (lambda x: x**-1, (X,)),
    "power: x ** 2 is square(x).": (lambda x: afx.power(x, 2.0), (X,)),
    "power: x ** 3 is square(x) * x.": (lambda x: x**3, (X,)),
    "power: x ** 4 is square(x) * square(x).": (lambda x: x**4, (X,)),
    "logical_and: logical_and(x == n, isinf(x)) is False.": (lambda x: afx.logical_and(x == 1.0, afx.isinf(x)), (X,)),
    "select: select(c, x, x) is x.": (lambda x: afx.where(x > 0, x, x) + 1, (X,)),
    "logical_or: logical_or(x, n) is n.": (lambda x: afx.logical_or(x > 0, True), (X,)),
    "logical_or: logical_or(x, n) is x.": (lambda x: afx.logical_or(x > 0, False), (X,)),
}


def noted(op: str, rule: Rule, applied: set[str]) -> Rule:
    """Return a rule that notes its op and name where it applies."""
    name = rule.rewrite.__name__ if rule.rewrite.__name__ != "rewrite" else rule.rewrite.__doc__

    def rewrite(*args: Any) -> Any:
        result = rule.rewrite(*args)
        if result is not None:
            applied.add(f"{op}: {name}")
        return result

    return Rule(rewrite, rule.needs)


@pytest.mark.parametrize("rule", PROGRAMS)
def test_rules_apply_to_programs_that_people_write(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rule applies to its program, whose values stay."""
    applied: set[str] = set()
    table = {op: tuple([noted(op, r, applied) for r in rules]) for op, rules in RULES.items()}
    monkeypatch.setattr(importlib.import_module("afx.compiler.graph.rewrite_rules"), "RULES", table)
    fn, arguments = PROGRAMS[rule]
    values = [afx.asarray(x) for x in arguments]
    compiled = afx.jit(fn, backend="numpy")(*values)
    assert rule in applied
    np.testing.assert_allclose(compiled, fn(*values), rtol=1e-12 if compiled.dtype != "float32" else 1e-6)
