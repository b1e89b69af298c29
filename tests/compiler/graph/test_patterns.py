"""Patterns: rules written as expressions match what they say, in either order where that is the same, and nothing else."""

import numpy as np
import pytest

import afx
from afx import Array
from afx.compiler.graph.builder import GraphBuilder, Match, parse, rule
from afx.compiler.graph.rewrite_rules import PATTERNS, simplify
from afx.compiler.target import DEFAULT
from afx.core.aval import Aval
from afx.core.graph import Atom, Literal
from afx.core.primitive import with_ufunc

FLOAT = Aval((3,), np.dtype(np.float64))
ADD, MULTIPLY, NEGATIVE = (with_ufunc(u) for u in (np.add, np.multiply, np.negative))


def builder(*rules: tuple[str, object]) -> GraphBuilder:
    """Return a builder that knows these rules alone."""
    return GraphBuilder({op: [found] for op, found in rules}, DEFAULT, expanding=False)  # one rule an op


def number(value: float) -> Atom:
    """Return a number among operands."""
    return Literal(value, Aval((), FLOAT.dtype))


def test_products_match_in_either_order() -> None:
    """A number on the left is one on the right."""
    b = builder(rule("x * 1", "x"))
    x = b.var(FLOAT)
    assert b.make(MULTIPLY, (x, number(1.0))) == x
    assert b.make(MULTIPLY, (number(1.0), x)) == x
    assert b.make(MULTIPLY, (x, number(2.0))) != x
    assert b.make(ADD, (x, number(1.0))) != x


def test_a_name_that_stands_twice_is_one_operand() -> None:
    """Two operands that are not the same are none."""
    b = builder(rule("x + x", "2 * x"))
    x, y = b.var(FLOAT), b.var(FLOAT)
    doubled = b.defining_equation(b.make(ADD, (x, x)))
    assert doubled is not None
    assert doubled.primitive is MULTIPLY
    assert doubled.inputs == (number(2.0), x)
    other = b.defining_equation(b.make(ADD, (x, y)))
    assert other is not None
    assert other.primitive is ADD


def test_conditions_see_numbers_and_operands() -> None:
    """Numbers in the replacement are computed."""
    b = builder(rule("(x * m) * n", "x * (m * n)", when=lambda match: match.n < match.m))
    x = b.var(FLOAT)
    joined = b.defining_equation(b.make(MULTIPLY, (number(2.0), b.make(MULTIPLY, (x, number(3.0))))))
    assert joined is not None
    assert joined.inputs == (x, number(6.0))
    kept = b.defining_equation(b.make(MULTIPLY, (b.make(MULTIPLY, (x, number(2.0))), number(3.0))))
    assert kept is not None
    assert kept.inputs[1] == number(3.0)


def test_results_have_the_shape_of_what_they_replace() -> None:
    """An operand that is smaller is repeated."""
    b = builder(rule("x * 1", "x"), rule("x + -y", "x - y"))
    small = b.var(Aval((), FLOAT.dtype))
    ones = b.broadcast(number(1.0), (3,))
    assert b.make(MULTIPLY, (small, ones), (), FLOAT).aval == FLOAT
    difference = b.make(ADD, (b.var(FLOAT), b.make(NEGATIVE, (small,))))
    assert difference.aval == FLOAT


def test_floats_in_patterns_match_floats_alone() -> None:
    """A whole number divides as NumPy does it."""
    seen: list[Match] = []
    b = builder(rule("x / 1.0", "x", when=lambda match: bool(seen.append(match)) or True))
    divide, x = with_ufunc(np.divide), b.var(FLOAT)
    assert b.make(divide, (x, number(1.0))) == x
    assert b.make(divide, (x, Literal(1, Aval((), np.dtype(np.int64))))) != x
    assert len(seen) == 1


@pytest.mark.parametrize("text", ["x @ y", "x if y else z", "x < y < z", "f.g(x)"])
def test_what_is_no_pattern_is_refused(text: str) -> None:
    """Where the rule is written, not where it is used."""
    with pytest.raises((ValueError, KeyError)):
        parse(text)


def test_each_rule_of_the_table_says_what_it_does() -> None:
    """In its docstring, as an expression."""
    for op, rewrite in PATTERNS:
        assert op
        assert " is " in str(rewrite.__doc__)


def test_negations_and_constants_are_folded() -> None:
    """Through several rules, as the printed graph shows."""

    def fn(x: Array) -> Array:
        return -((-x) * 2.0) * 4.0 + (x**2 - 0.0) / 1.0

    ops = [eq.primitive.name for eq in simplify(afx.trace(fn)(np.ones(3))).equations]
    assert sorted(ops) == ["add", "multiply", "square"]
