"""Patterns: rewrite rules written as expressions, ``rule("x - 0", "x", when=...)``.

An expression has Python's operators and calls of the compiler's ops: ufuncs by NumPy's names, other ops by the roles of
their records (`select`, `cast`). Names stand for operands, n and m for numbers; a name that stands twice is the same
operand twice. Operands of sums and products match in either order.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from afx.compiler.graph_builder import GraphBuilder, Params, Rule
from afx.core.aval import Aval, broadcast_shapes
from afx.core.graph import Atom, Literal
from afx.core.primitive import Primitive, primitive_for_role, with_ufunc
from afx.core.scalar_ops import scalar_op

__all__ = ["Match", "like", "number_of", "rule"]

NUMBERS = ("n", "m")
OPERATORS: Mapping[type, str] = {
    ast.Add: "add",
    ast.Sub: "subtract",
    ast.Mult: "multiply",
    ast.Div: "divide",
    ast.Pow: "power",
    ast.NotEq: "not_equal",
    ast.Eq: "equal",
}


@attrs.frozen
class Name:
    """An operand, or a number."""

    name: str


@attrs.frozen
class Exactly:
    """A number of this value; a float matches floats alone."""

    value: int | float


@attrs.frozen
class Apply:
    """An op and its operands."""

    op: str
    operands: tuple[Expression, ...]


Expression: TypeAlias = "Name | Exactly | Apply"


@attrs.frozen
class Match:
    """What the names of a pattern stand for.

    Attributes:
        xs: the operands of the op that is replaced.
        aval: of its result.
        atoms: operands by their names.
        n: the number n.
        m: the number m.
    """

    xs: tuple[Atom, ...]
    aval: Aval
    atoms: Mapping[str, Atom]
    n: Any = None
    m: Any = None


def rule(pattern: str, replacement: str, *, when: Callable[[Match], bool] | None = None) -> tuple[str, Rule]:
    """Return the op that a rewrite rule looks at, and the rule.

    Args:
        pattern: what is replaced.
        replacement: what stands for it, of the same values in the same dtype; repeated where the result is larger.
        when: the condition under which that is so.
    """
    found, result = parse(pattern), parse(replacement)
    assert isinstance(found, Apply)
    variants = [v.operands for v in _orders(found) if isinstance(v, Apply)]

    def rewrite(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
        for operands in variants:
            names: dict[str, Any] = {}
            if not _all_match(b, operands, xs, names):
                continue
            numbers = {name: names.pop(name) for name in NUMBERS if name in names}
            match = Match(xs, aval, names, **numbers)
            if when is None or when(match):
                return _replaced(b, result, match, p, params)
        return None

    rewrite.__doc__ = f"{pattern} is {replacement}."
    return found.op, Rule(rewrite, frozenset([word for x in found.operands if (word := _word(x))]))


def _word(x: Expression) -> str:
    """Return what an operand must be, in the words of `Rule.needs`; an empty text where it may be anything."""
    if isinstance(x, Apply):
        return x.op
    return "number" if isinstance(x, Exactly) or x.name in NUMBERS else ""


# -- texts --
def parse(text: str) -> Expression:
    """Return an expression.

    >>> parse("x * -1")
    Apply(op='multiply', operands=(Name(name='x'), Exactly(value=-1)))
    """
    return _expression(ast.parse(text, mode="eval").body)


def _expression(tree: ast.expr) -> Expression:
    match tree:
        case ast.Constant(value=int() | float() as value):
            return Exactly(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return Exactly(-value)
        case ast.UnaryOp(op=ast.USub(), operand=x):
            return Apply("negative", (_expression(x),))
        case ast.BinOp(left=x, op=op, right=y):
            return Apply(OPERATORS[type(op)], (_expression(x), _expression(y)))
        case ast.Compare(left=x, ops=[op], comparators=[y]):
            return Apply(OPERATORS[type(op)], (_expression(x), _expression(y)))
        case ast.Call(func=ast.Name(id=name), args=xs):
            return Apply(name, tuple(map(_expression, xs)))
        case ast.Name(id=name):
            return Name(name)
        case _:
            raise ValueError(f"no pattern: {ast.unparse(tree)}")


def _orders(x: Expression) -> Iterator[Expression]:
    """Yield an expression with the operands of sums and products in all orders."""
    if not isinstance(x, Apply):
        yield x
        return
    for operands in itertools.product(*[list(_orders(y)) for y in x.operands]):
        yield Apply(x.op, operands)
        if scalar_op(x.op).commutes:
            yield Apply(x.op, operands[::-1])


# -- matching --
def _all_match(b: GraphBuilder, patterns: Sequence[Expression], xs: Sequence[Atom], names: dict[str, Any]) -> bool:
    for pattern, x in zip(patterns, xs, strict=True):
        if isinstance(pattern, Name) and pattern.name not in NUMBERS and pattern.name not in names:
            names[pattern.name] = x  # the commonest case
        elif not _matches(b, pattern, x, names):
            return False
    return True


def _matches(b: GraphBuilder, pattern: Expression, x: Atom, names: dict[str, Any]) -> bool:
    """Tell whether an operand is what a pattern says, and note what its names stand for."""
    if isinstance(pattern, Apply):
        eq = b.defining_equation(x)
        if eq is None or not _is(eq.primitive, pattern.op):
            return False
        return _all_match(b, pattern.operands, eq.inputs, names)
    if isinstance(pattern, Name) and pattern.name not in NUMBERS:
        held = names.setdefault(pattern.name, x)
        return held is x or bool(held == x)
    n = number_of(b, x)
    if n is None:
        return False
    if isinstance(pattern, Name):
        names[pattern.name] = n
        return True
    is_kind = isinstance(n, type(pattern.value)) if isinstance(pattern.value, float) else not isinstance(n, bool)
    return is_kind and bool(n == pattern.value)


def _is(p: Primitive, op: str) -> bool:
    return p.algebra.canonical == op or (p.lowering.ufunc is not None and p.lowering.ufunc.__name__ == op)


def number_of(b: GraphBuilder, x: Atom) -> Any:
    """Return the number that a literal, or a broadcast literal, holds; None for everything else."""
    if not isinstance(x, Literal):
        eq = b.makers.get(x.index)
        if eq is None or eq.primitive.algebra.canonical != "broadcast":
            return None
        x = eq.inputs[0]
    return x.value if isinstance(x, Literal) else None


# -- replacing --
def like(b: GraphBuilder, x: Atom, aval: Aval) -> Atom | None:
    """Return x as the whole result, repeated where the result is larger."""
    return b.broadcast(x, aval.shape) if x.aval.dtype == aval.dtype else None


def _replaced(b: GraphBuilder, x: Expression, match: Match, p: Primitive, params: Params) -> Atom | None:
    if not isinstance(x, Apply):
        found = _built(b, x, match)
        return like(b, found, match.aval)
    operands = [_built(b, y, match) for y in x.operands]
    op, given = (p, params) if _is(p, x.op) else (_primitive(x.op), ())
    return b.broadcast(_made(b, op, operands, given, match), match.aval.shape)


def _built(b: GraphBuilder, x: Expression, match: Match) -> Atom:
    number = _number(x, match)
    if number is not None:
        return Literal(number, Aval((), match.aval.dtype))
    if isinstance(x, Name):
        return match.atoms[x.name]
    assert isinstance(x, Apply)
    return _made(b, _primitive(x.op), [_built(b, y, match) for y in x.operands], (), match)


def _made(b: GraphBuilder, p: Primitive, operands: list[Atom], params: Params, match: Match) -> Atom:
    shape = broadcast_shapes([x.aval.shape for x in operands])
    assert shape is not None
    return b.make(p, tuple(operands), params, Aval(shape, match.aval.dtype))


def _number(x: Expression, match: Match) -> Any:
    """Return the number that an expression of numbers alone is, None for any other one."""
    if isinstance(x, Exactly):
        return float(x.value) if match.aval.dtype.kind in "fc" else x.value
    if isinstance(x, Name):
        return getattr(match, x.name) if x.name in NUMBERS else None
    parts = [_number(y, match) for y in x.operands]
    return None if any(part is None for part in parts) else _arithmetic(x.op, parts)


def _arithmetic(op: str, parts: list[Any]) -> Any:
    """Return the number that an op gives of numbers, None for ops that no replacement has."""
    match op, parts:
        case "multiply", [x, y]:
            return x * y
        case "divide", [x, y]:
            return x / y
        case "negative", [x]:
            return -x
        case _:
            return None


def _primitive(op: str) -> Primitive:
    ufunc = getattr(np, op, None)
    return with_ufunc(ufunc) if isinstance(ufunc, np.ufunc) else primitive_for_role(op)
