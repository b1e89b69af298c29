"""Denormals: which plans compute without them, by their graph and target alone."""

from __future__ import annotations

import numpy as np

from afx.compiler.cost import equation_costs
from afx.compiler.target import Target
from afx.core.graph import Equation, Graph

__all__ = ["flushes", "may_meet"]

WIDE = (np.dtype(np.float64), np.dtype(np.complex128))


def flushes(graph: Graph, target: Target) -> bool:
    """Tell whether a plan takes denormal operands, and gives denormal results, as zeros.

    By default it does where its arithmetic is float32 or complex64 alone, of more than some hundred elements in all: then
    no value that an equation reads or makes, those of loops' bodies too, is float64 or complex128.

    >>> import afx
    >>> def times(x):
    ...     return flushes(afx.trace(lambda x: x * 0.5)(x), Target())
    >>> times(afx.ones(2000)), times(afx.ones(2000, dtype=afx.float64)), times(afx.ones(2))
    (True, False, False)
    """
    if target.denormals != "auto":
        return target.denormals == "flush" and may_meet(graph)
    elements = 0
    for eq in graph.equations:
        for cost in equation_costs(eq):
            dtypes, size = _reads(cost.equation)
            if not dtypes.isdisjoint(WIDE):
                return False
            elements += cost.times * size if any(t.kind in "fc" for t in dtypes) else 0
    return elements >= target.flush_min_elements


def may_meet(graph: Graph) -> bool:
    """Tell whether a graph computes with numbers that may be denormal."""
    costs = [cost for eq in graph.equations for cost in equation_costs(eq)]
    return any(t.kind in "fc" for cost in costs for t in _reads(cost.equation)[0])


def _reads(eq: Equation) -> tuple[set[np.dtype[np.generic]], int]:
    """Return the dtypes of what an equation reads and makes, and the elements of the largest of these."""
    avals = [a.aval for a in (*eq.inputs, *eq.outputs)]
    return {a.dtype for a in avals}, max([a.size for a in avals], default=0)
