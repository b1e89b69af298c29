"""Expansion: formulas in place of the equations that a language, or code without NumPy, lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.graph.array_formulas import array_formula
from afx.compiler.graph.builder import GraphBuilder
from afx.compiler.graph.complex_formulas import IN_PARTS, OF_PARTS, Parts, truth
from afx.compiler.graph.draw_formulas import DRAWS
from afx.compiler.graph.formulas import FAMILIES, FORMULAS, OF_COMPLEX, OF_TRUTH, ORDERS, WHOLE_UNARY
from afx.compiler.graph.strengthen import strengthen
from afx.compiler.target import Target, current
from afx.core.aval import Aval
from afx.core.dtypes import DType, promote, real_dtype
from afx.core.graph import Atom, Equation, Graph, Var, number_variables
from afx.core.registry import FUNCTIONS
from afx.core.tracing.tracer import bind
from afx.core.tracing.traces import GraphTrace

F: Any = FUNCTIONS
# what machine code without NumPy has no loop for, and what it computes in parts or in singles
STANDALONE = frozenset({"gammasgn", "reciprocal", *FAMILIES})
# roles of what moves numbers of any dtype
MOVES = frozenset(
    {"broadcast", "concat", "embed", "gather", "permute", "reshape", "select", "set_part", "slice", "stack"}
)
SUMS = frozenset({"col2im", "cumulative_sum", "scatter", "scatter_unread", "sum"})  # linear functions that add


def space_of(eq: Equation) -> np.dtype[Any]:
    """Return the dtype in which an elementwise operation computes."""
    dtypes = tuple([x.aval.dtype for x in eq.inputs])
    return promote(dtypes, (False,) * len(dtypes), eq.primitive.promotes_to_float)


def stands_alone(eq: Equation) -> bool:
    """Tell whether machine code without NumPy computes an equation by a formula."""
    p, chars = eq.primitive, _chars(eq)
    if p.name in DRAWS or array_formula(eq) is not None:
        return True
    if p.algebra.canonical == "cast":
        return eq.inputs[0].aval.dtype.kind == "c" and len(chars) > 1
    if p.algebra.canonical in MOVES:
        return False
    if "e" in chars:
        takes = any(a.aval.dtype.char == "e" for a in eq.inputs)
        is_view = p.lowering.may_alias and not p.is_elementwise
        return takes and not (p.multiple_results or is_view or p.lowering.control or "dtype" in eq.keywords)
    if chars & {"F", "D"}:
        return p.name in IN_PARTS or p.name in OF_PARTS or p.kind == "bilinear" or p.name in (*SUMS, "vector_norm")
    kind = space_of(eq).kind if p.is_elementwise else "f"
    if kind == "f":
        return p.name in STANDALONE and has_formula(eq)
    return p.name in (OF_TRUTH if kind == "b" else WHOLE_UNARY)


def _chars(eq: Equation) -> set[str]:
    return {a.aval.dtype.char for a in (*eq.inputs, *eq.outputs)}


def expand(graph: Graph, lacks: Callable[[Equation], bool], target: Target | None = None) -> Graph:
    """Return a graph in which formulas stand for the equations that a language lacks.

    Args:
        graph: a graph, as it is where nothing is lacking.
        lacks: tells of an equation whether a formula is to stand for it.
        target: what the graph is simplified for.
    """
    in_parts = lacks is stands_alone
    replaced = [lacks(eq) and (in_parts or has_formula(eq)) for eq in graph.equations]
    if not any(replaced):
        return graph
    builder = GraphBuilder({}, target or current.target, expanding=False)
    inputs = [builder.var(v.aval) for v in graph.inputs]
    atoms: dict[int, Atom] = {v.index: new for v, new in zip(graph.inputs, inputs, strict=True)}
    atoms |= {v.index: builder.constant(constant, v.aval) for v, constant in graph.constants}
    for eq, is_replaced in zip(graph.equations, replaced, strict=True):
        operands = tuple([atoms[a.index] if isinstance(a, Var) else a for a in eq.inputs])
        results: Sequence[Atom]
        if is_replaced:
            results = builder.inline_graph(expand(_formula_of(eq, in_parts=in_parts), lacks, target), operands)
        else:
            results = builder.equation(eq, operands)
        atoms |= {v.index: new for v, new in zip(eq.outputs, results, strict=True)}
    outputs = [atoms[a.index] if isinstance(a, Var) else a for a in graph.outputs]
    number_variables(inputs, builder.constants, builder.equations)
    return Graph(tuple(inputs), tuple(builder.constants), tuple(builder.equations), tuple(outputs))


def has_formula(eq: Equation) -> bool:
    """Tell whether a formula of real numbers stands for an equation."""
    name, is_complex = eq.primitive.name, space_of(eq).kind == "c"
    order = next(iter(eq.keywords.values()), 1) if name in FAMILIES else 0
    return name in (OF_COMPLEX if is_complex else FORMULAS) and (name not in FAMILIES or order in ORDERS[name])


def _formula_of(eq: Equation, *, in_parts: bool) -> Graph:
    """Return the graph of an equation's formula, which stands at its line."""
    trace, out = GraphTrace("formula"), eq.outputs[0].aval
    inputs = [trace.input(Aval(a.aval.shape, a.aval.dtype)) for a in eq.inputs]
    result = (_write_alone if in_parts else _write_formula)(eq, inputs)
    result = result if result.dtype == out.dtype else F.astype(result, out.dtype)
    graph = strengthen(trace.finish((result if result.shape == out.shape else F.broadcast_to(result, out.shape),)))
    placed = [attrs.evolve(e, source=eq.source, ignored_fp_errors=eq.ignored_fp_errors) for e in graph.equations]
    return attrs.evolve(graph, equations=tuple(placed))


def _write_formula(eq: Equation, xs: Sequence[Any]) -> Any:
    dtype = space_of(eq)
    return FORMULAS[eq.primitive.name](*[x if x.dtype == dtype else F.astype(x, dtype) for x in xs], **eq.keywords)


def _write_alone(eq: Equation, xs: Sequence[Any]) -> Any:
    """Return what stands for an equation of these operands: of halves in singles, of complex numbers in their parts."""
    p, chars = eq.primitive, _chars(eq)
    if p.name in DRAWS:
        return DRAWS[p.name](*xs, **eq.keywords)
    whole = array_formula(eq)
    if whole is not None:
        return whole(*xs, **eq.keywords)
    dtype = space_of(eq)
    if "e" in chars and not (p.algebra.canonical == "cast" and xs[0].dtype.kind == "c"):
        return bind(p, *[F.astype(x, np.float32) if x.dtype.char == "e" else x for x in xs], **eq.keywords)
    if chars & {"F", "D"}:
        if p.name in SUMS:  # other operands are indices
            return F.join_parts(*[bind(p, *_each(part, xs), **eq.keywords) for part in (F.real, F.imag)])
        if p.name == "vector_norm":
            return bind(p, F.abs(xs[0]), **eq.keywords)
        return _in_parts(eq, [_parts(x, real_dtype(dtype)) for x in xs])
    return OF_TRUTH[p.name](*xs) if dtype.kind in "biu" and p.name in OF_TRUTH else _write_formula(eq, xs)


def _each(part: Callable[[Any], Any], xs: Sequence[Any]) -> list[Any]:
    return [part(x) if x.dtype.kind == "c" else x for x in xs]


def _parts(x: Any, dtype: DType) -> Parts:
    return F.astype(F.real(x), dtype), F.astype(F.imag(x), dtype)


def _in_parts(eq: Equation, parts: Sequence[Parts]) -> Any:
    """Return a result made of the parts of operands."""
    p, dtype = eq.primitive, eq.outputs[0].aval.dtype
    if p.name in OF_PARTS:
        return OF_PARTS[p.name](*parts)
    if p.algebra.canonical != "cast":
        return F.join_parts(*_parts_of(eq, parts))
    (x,) = parts
    if dtype.kind == "c":
        return F.join_parts(*[F.astype(part, real_dtype(dtype)) for part in x])
    return truth(x) if dtype.kind == "b" else x[0]


def _parts_of(eq: Equation, parts: Sequence[Parts]) -> Parts:
    """Return both parts of a complex result."""
    p, params = eq.primitive, eq.keywords
    if p.name in IN_PARTS:
        return IN_PARTS[p.name](*parts)
    (a, b), (c, d) = parts

    def product(x: Any, y: Any) -> Any:
        return bind(p, x, y, **params)

    return product(a, c) - product(b, d), product(a, d) + product(b, c)
