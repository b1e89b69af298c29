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
SCORES, TRIANGLE = np.linspace(-1, 1, 128 * 128).reshape(128, 128), np.tri(128, dtype=bool)
DATA, SIGNS = np.cos(np.arange(160_000.0)).reshape(4000, 40), np.where(np.arange(4000) % 3, 1.0, -1.0)


def hinge(w: Any, x: Any) -> Any:
    """Return the loss of a support vector machine."""
    margin = 1 - SIGNS * (x @ w)
    return afx.mean(afx.where(margin > 0, margin, 0.0))


def attend(scores: Any) -> Any:
    """Return the weights of attention to what came before."""
    masked = afx.where(TRIANGLE, scores, -1e9)
    weights = afx.exp(masked - afx.max(masked, axis=-1, keepdims=True))
    return weights / afx.sum(weights, axis=-1, keepdims=True)


def step(x: Any, rate: Any) -> Any:
    """Return a number that a condition changes, with a rate that it leaves."""
    x, rate = afx.cond(x > 0.5, lambda x, rate: (x * rate, rate), lambda x, rate: (x + rate, rate), x, rate)
    return x * rate


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {  # by the op and the rule
    "linear: involution": (lambda z: afx.vecdot(afx.conj(z), z), (X * 1j,)),
    "subtract: collapse_short_last_axis": (lambda x, mean: x - mean, (IMAGES, COLORS)),
    "multiply: collapse_short_last_axis": (lambda x, scale: x * scale, (IMAGES, COLORS)),
    "cast: cast(x) is x.": (lambda x: x.astype("float64").astype("float32") + 1, (X.astype("float32"),)),
    "cast: cast(cast(x)) is cast(x).": (lambda x: x.astype("float32").astype("float64"), (X.astype("float16"),)),
    "reduces: no_axes": (lambda x: afx.sum(x * x, axis=tuple(range(1, x.ndim))), (X[0],)),
    "power: x ** 1 is x.": (lambda x: sum([x**k for k in range(1, 4)]), (X,)),
    "power: x ** -1 is 1 / x.": (lambda x: x**-1, (X,)),
    "power: x ** 2 is square(x).": (lambda x: afx.power(x, 2.0), (X,)),
    "power: x ** 3 is square(x) * x.": (lambda x: x**3, (X,)),
    "power: x ** 4 is square(x) * square(x).": (lambda x: x**4, (X,)),
    "select: select(c, x, x) is x.": (afx.vmap(step), (X[0], X[1])),
    "exp: choose_far_exponentials": (attend, (SCORES,)),
    "matmul: multiply_unmasked": (afx.grad(hinge), (np.linspace(-1, 1, 40), DATA)),
}


def noted(op: str, rule: Rule, applied: set[str]) -> Rule:
    """Return a rule that notes its op and name where it applies."""
    name = rule.rewrite.__name__ if rule.rewrite.__name__ != "rewrite" else rule.rewrite.__doc__

    def rewrite(*args: Any) -> Any:
        result = rule.rewrite(*args)
        if result is not None:
            applied.add(f"{getattr(op, '__name__', op)}: {name}")
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
