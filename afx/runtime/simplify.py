"""Graph to graph: what need not be computed goes."""

from __future__ import annotations

from afx.core.abstract import renumbered
from afx.core.graph import Equation, Graph, Var

__all__ = ["simplify"]


def simplify(graph: Graph) -> Graph:
    """Return the graph without the equations and constants that no output depends on.

    >>> import afx
    >>> len(simplify(afx.trace(lambda x: (afx.sqrt(x), x * 2)[1])(afx.ones(2))))
    1
    """
    needed = {a.index for a in graph.outputs if isinstance(a, Var)}
    kept: list[Equation] = []
    for eq in reversed(graph.equations):
        if any(v.index in needed for v in eq.outputs):
            kept.append(eq)
            needed.update(a.index for a in eq.inputs if isinstance(a, Var))
    constants = [(v, c) for v, c in graph.constants if v.index in needed]
    return renumbered(graph.inputs, constants, kept[::-1], graph.outputs)
