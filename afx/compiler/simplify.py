"""Simplification: graph to graph, without what need not be computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from afx.compiler.graph_builder import GraphBuilder
from afx.compiler.loop_fission import find_fissions, inline_fissions
from afx.compiler.rewrite_rules import RULES
from afx.compiler.selection_pushdown import find_parts, inline_parts
from afx.compiler.strengthen import strengthen
from afx.compiler.target import DEFAULT, Target
from afx.core.graph import Atom, Equation, Graph, Var, has_effects, number_variables

__all__ = ["simplify"]


def simplify(graph: Graph, target: Target = DEFAULT, *, expanding: bool = False) -> Graph:
    """Return a graph of the same outputs with fewer equations.

    Equal equations become one, constants are computed, `afx.compiler.rewrite_rules.RULES` are applied, slices and
    gathers move before what makes their operands, functions of rows leave the loops of plans, and what no output depends on
    goes. The cost is linear in the number
    of equations.

    Args:
        graph: any graph.
        target: what is compiled for.
        expanding: whether opaque calls are inlined, as plans want them.

    >>> import afx
    >>> print(simplify(afx.trace(lambda x: (afx.sqrt(x), -(-x) * 1.0 + x * 2)[1])(afx.ones(2))))
    graph(a:float32[2]) {
      b:float32[2] = multiply(a, 2.0)
      c:float32[2] = add(a, b)
      return c
    }
    """
    graph = strengthen(graph, expanding=expanding)
    simple = _rebuilt(graph, target, graph_into=lambda b, xs: b.inline_graph(graph, xs), expanding=expanding)
    fissions = find_fissions(simple, target, partial(simplify, target=target, expanding=True)) if expanding else {}
    if fissions:
        entered, into = simple, partial(inline_fissions, fissions=fissions)
        simple = _rebuilt(entered, target, graph_into=lambda b, xs: into(b, entered, xs), expanding=False)
    parts = find_parts(simple, target)
    if not parts:
        return simple
    return _rebuilt(simple, target, graph_into=lambda b, xs: inline_parts(b, simple, xs, parts), expanding=False)


def _rebuilt(
    graph: Graph,
    target: Target,
    *,
    graph_into: Callable[[GraphBuilder, Sequence[Atom]], Sequence[Atom]],
    expanding: bool,
) -> Graph:
    """Return what a graph becomes as its equations are entered one by one, without those that nothing depends on."""
    builder = GraphBuilder(RULES, target, expanding=expanding)
    inputs = [builder.var(v.aval) for v in graph.inputs]
    outputs = [
        builder.broadcast(x, v.aval.shape) for x, v in zip(graph_into(builder, inputs), graph.outputs, strict=True)
    ]
    needed = {a.index for a in outputs if isinstance(a, Var)}
    kept: list[Equation] = []
    for eq in reversed(builder.equations):
        is_needed = False
        for v in eq.outputs:  # loops: comprehensions are calls for each equation
            is_needed = is_needed or v.index in needed
        if is_needed or has_effects(eq):
            kept.append(eq)
            for a in eq.inputs:
                if isinstance(a, Var):
                    needed.add(a.index)
    constants = [(v, c) for v, c in builder.constants if v.index in needed]
    kept.reverse()
    number_variables(inputs, constants, kept)
    return Graph(tuple(inputs), tuple(constants), tuple(kept), tuple(outputs))
