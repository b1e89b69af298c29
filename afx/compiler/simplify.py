"""Simplification: graph to graph, without what need not be computed."""

from __future__ import annotations

from afx.compiler.graph_builder import GraphBuilder
from afx.compiler.rewrite_rules import RULES
from afx.compiler.target import DEFAULT, Target
from afx.core.graph import Equation, Graph, Var, has_effects
from afx.core.tracing.graph_trace import renumber

__all__ = ["simplify"]


def simplify(graph: Graph, target: Target = DEFAULT, *, expanding: bool = False) -> Graph:
    """Return a graph of the same outputs with fewer equations.

    Equal equations become one, constants are computed, `afx.compiler.rewrite_rules.RULES` are applied, and what no output
    depends on goes. The cost is linear in the number of equations.

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
    builder = GraphBuilder(RULES, target, expanding=expanding)
    inputs = [builder.var(v.aval) for v in graph.inputs]
    outputs = [
        builder.broadcast(x, v.aval.shape)
        for x, v in zip(builder.inline_graph(graph, inputs), graph.outputs, strict=True)
    ]
    needed = {a.index for a in outputs if isinstance(a, Var)}
    kept: list[Equation] = []
    for eq in reversed(builder.equations):
        if any(v.index in needed for v in eq.outputs) or has_effects(eq):
            kept.append(eq)
            needed.update([a.index for a in eq.inputs if isinstance(a, Var)])
    constants = [(v, c) for v, c in builder.constants if v.index in needed]
    return renumber(inputs, constants, kept[::-1], outputs)
