"""Legalization: an equation that a target or a language has stays; for others stands the formula of their operation."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from afx.compiler.graph.builder import GraphBuilder
from afx.compiler.graph.strengthen import strengthen
from afx.compiler.target import Target, current
from afx.core import Aval, DType, Function, bind, get_default_dtype, primitive_for_role, promote, real_dtype
from afx.core.graph import Atom, Atoms, Constant, Equation, Graph, number_variables
from afx.core.scalar_ops import OF_FORMATS, scalar_op
from afx.core.tracing.traces import GraphTrace

# roles of what moves numbers of any dtype
MOVES = frozenset(
    {"broadcast", "concat", "embed", "gather", "permute", "reshape", "select", "set_part", "slice", "stack"}
)

PLAIN = (bool, int, float, complex, str, np.dtype)
_known: dict[Hashable, Graph] = {}


def space_of(eq: Equation) -> np.dtype[Any]:
    """Return the dtype in which an elementwise operation computes."""
    dtypes = tuple([x.aval.dtype for x in eq.inputs])
    return promote(dtypes, (False,) * len(dtypes), eq.primitive.promotes_to_float)


def formula_of(eq: Equation) -> Function | None:
    """Return the formula of an equation's operation for operands and parameters such as its own; None where it has none."""
    p, rules = eq.primitive, eq.primitive.lowering
    if rules.formula is None or (p.is_elementwise and space_of(eq).kind not in rules.formula_kinds):
        return None
    takes = rules.takes_formula
    return rules.formula if takes is None or takes(eq.avals, eq.keywords) else None


def is_standalone(eq: Equation) -> bool:
    """Tell whether machine code without NumPy has an equation as it stands: an instruction, or a loop of its own."""
    p, chars = eq.primitive, _chars(eq)
    if _is_replaced_whole(eq):
        return False
    if p.algebra.canonical == "cast":
        return eq.inputs[0].aval.dtype.kind != "c" or len(chars) == 1
    if p.algebra.canonical in MOVES:
        return True
    if "e" in chars:
        takes = any(a.aval.dtype.char == "e" for a in eq.inputs)
        if p.lowering.ufunc is not None and p.lowering.ufunc.__name__ in OF_FORMATS:
            return True  # a half has other neighbours than a single
        is_view = p.lowering.may_alias and not p.is_elementwise
        return not takes or bool(p.multiple_results or is_view or p.lowering.control or "dtype" in eq.keywords)
    if chars & {"F", "D"}:
        return p.lowering.parts is None
    if not p.is_elementwise or formula_of(eq) is None:
        return True
    space, rules = space_of(eq), p.lowering
    row = scalar_op(rules.ufunc.__name__ if rules.ufunc is not None else "")
    of_floats = bool(row.libm or rules.scipy_ufunc) and not rules.formula_sums
    return (
        f"{space.kind}{space.itemsize}" in row.dtypes or space.kind in row.refused or (space.kind == "f" and of_floats)
    )


def _is_replaced_whole(eq: Equation) -> bool:
    """Tell whether a formula stands for an operation on whole arrays, which has no native form for such operands."""
    rules = eq.primitive.lowering
    if eq.primitive.is_elementwise or formula_of(eq) is None:
        return False
    takes = rules.takes_native
    return rules.native is None or not (takes is None or takes(eq.avals, eq.keywords))


def _chars(eq: Equation) -> set[str]:
    return {a.aval.dtype.char for a in (*eq.inputs, *eq.outputs)}


def legalize(
    graph: Graph, has: Callable[[Equation], bool], target: Target | None, *, standalone: bool = False
) -> Graph:
    """Return a graph in which formulas, legalized themselves, stand for the equations that are lacking.

    Equations without a formula stay: who writes them refuses them by name. Standalone code computes complex numbers in
    their parts, and halves in singles.
    """
    lacking = {id(eq) for eq in graph.equations if not has(eq) and (standalone or formula_of(eq) is not None)}
    if not lacking:
        return graph
    builder = GraphBuilder({}, target or current.target, expanding=False)
    inputs = [builder.var(v.aval) for v in graph.inputs]

    def enter(eq: Equation, operands: Atoms) -> Sequence[Atom]:
        made = _formula(eq, has, target, standalone) if id(eq) in lacking else None
        return builder.equation(eq, operands) if made is None else builder.inline_graph(made, operands)

    outputs = builder.inline_graph(graph, inputs, enter)
    number_variables(inputs, builder.constants, builder.equations)
    return Graph(tuple(inputs), tuple(builder.constants), tuple(builder.equations), tuple(outputs))


def _formula(eq: Equation, has: Callable[[Equation], bool], target: Target | None, standalone: bool) -> Graph:
    """Return the legalized graph of an equation's formula, at its line."""
    key, limits = None, target or current.target
    if _is_plain(eq.params):  # as text: 1 equals True
        state = (has, limits, standalone, get_default_dtype(), *np.geterr().values())
        key = (*state, eq.primitive, *eq.avals, eq.aval, repr(eq.params))
    graph = _known.get(key)
    if graph is None:
        graph = legalize(_graph_of(eq, standalone), has, target, standalone=standalone)
        nbytes = sum([c.value.nbytes for _, c in graph.constants])
        if key and nbytes <= limits.formula_max_bytes and _is_plain(tuple([e.params for e in graph.equations])):
            if sum([len(g.equations) for g in [*_known.values()]]) > limits.formulas_max_equations:
                _known.clear()
            _known[key] = graph
    place = (eq.source, eq.ignored_fp_errors)
    equations = [Equation(e.primitive, e.inputs, e.outputs, e.params, *place) for e in graph.equations]
    constants = [(v, Constant(c.value.view())) for v, c in graph.constants]  # its own
    return Graph(graph.inputs, tuple(constants), tuple(equations), graph.outputs)


def _is_plain(x: Any) -> bool:
    return all(map(_is_plain, x)) if x.__class__ is tuple else x is None or isinstance(x, PLAIN)


def _graph_of(eq: Equation, standalone: bool) -> Graph:
    trace, out = GraphTrace("formula", expanding=True), eq.aval
    inputs = [trace.input(Aval(a.aval.shape, a.aval.dtype)) for a in eq.inputs]
    result = (_write_standalone if standalone else _write_formula)(eq, inputs)
    result = result if result.dtype == out.dtype else result.astype(out.dtype)
    return strengthen(trace.finish((result if result.shape == out.shape else np.broadcast_to(result, out.shape),)))


def _write_formula(eq: Equation, xs: Sequence[Any]) -> Any:
    formula, dtype = formula_of(eq), space_of(eq) if eq.primitive.is_elementwise else None
    assert formula is not None
    return formula(*[x if dtype in (None, x.dtype) else x.astype(dtype) for x in xs], **eq.keywords)


def _write_standalone(eq: Equation, xs: Sequence[Any]) -> Any:
    """Return the results of an equation by other operations: of halves in singles, of complex numbers in their parts."""
    p, chars = eq.primitive, _chars(eq)
    is_cast = p.algebra.canonical == "cast"
    if _is_replaced_whole(eq):
        return _write_formula(eq, xs)
    if "e" in chars and not (is_cast and xs[0].dtype.kind == "c"):
        return bind(p, *[x.astype(np.float32) if x.dtype.char == "e" else x for x in xs], **eq.keywords)
    if not chars & {"F", "D"}:
        return _write_formula(eq, xs)
    if is_cast:
        result = _cast(_parts_of(xs[0], real_dtype(xs[0].dtype)), eq.aval.dtype)
    else:
        rule, all_alike = p.lowering.parts, p.is_elementwise or p.kind == "bilinear"
        assert rule is not None
        dtype = real_dtype(space_of(eq)) if all_alike else None
        pairs = [_parts_of(x, dtype or real_dtype(x.dtype)) if all_alike or x.dtype.kind == "c" else x for x in xs]
        result = rule(*pairs, **eq.keywords)
    return bind(primitive_for_role("join_parts"), *result) if isinstance(result, tuple) else result


def _parts_of(x: Any, dtype: DType) -> tuple[Any, Any]:
    return x.real.astype(dtype), x.imag.astype(dtype)


def _cast(x: tuple[Any, Any], dtype: DType) -> Any:
    if dtype.kind == "b":
        return (x[0] != 0.0) | (x[1] != 0.0)
    return tuple([part.astype(real_dtype(dtype)) for part in x]) if dtype.kind == "c" else x[0]
