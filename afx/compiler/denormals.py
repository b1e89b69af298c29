"""Denormals: which plans compute without them, by their graph and target alone."""

from __future__ import annotations

from collections.abc import Iterator

from afx.compiler.cost import equation_costs
from afx.compiler.target import Target
from afx.core.graph import Graph

__all__ = ["describe", "flushes", "is_worth_watching"]

MET = 'kept; operands were denormal, which takes many processors a hundred times as long: jit(fn, denormals="flush") or scale'
UNKNOWN = "kept: nothing is known of this system's control register"


def flushes(graph: Graph, target: Target) -> bool:
    """Tell whether a plan takes denormal operands, and gives denormal results, as zeros.

    By default it does where it computes in float32 or complex64: equations, with those of loops' bodies in each step, read
    and make some thousand such elements, and at most a sixteenth as many of float64 and complex128, as optimizers count in.

    >>> import afx
    >>> def halves(x):
    ...     return flushes(afx.trace(lambda x: x * 0.5)(x), Target())
    >>> halves(afx.ones(5000)), halves(afx.ones(5000, dtype=afx.float64)), halves(afx.ones(2))
    (True, False, False)
    """
    if target.denormals != "auto":
        return target.denormals == "flush" and any(narrow or wide for narrow, wide in _elements(graph))
    narrow, wide = map(sum, zip((0, 0), *_elements(graph), strict=True))
    return narrow >= target.flush_min_elements and wide <= target.flush_max_wide_share * narrow


def is_worth_watching(graph: Graph, target: Target) -> bool:
    """Tell whether a plan that keeps denormals computes so much that they might make it slow."""
    return sum([narrow + wide for narrow, wide in _elements(graph)]) >= target.flush_min_elements


def describe(*, flushing: bool, flushed: bool, has_met: bool) -> str:
    """Return what a status says of a plan that should be flushing, is flushed, or has met denormal operands."""
    if flushed:
        return "flushed"
    return UNKNOWN if flushing else MET if has_met else "kept"


def _elements(graph: Graph) -> Iterator[tuple[int, int]]:
    """Yield, for each equation, the elements of the largest value of float32 or complex64, and of another inexact dtype."""
    for cost in [cost for eq in graph.equations for cost in equation_costs(eq)]:
        avals = [a.aval for a in (*cost.equation.inputs, *cost.equation.outputs) if a.aval.dtype.kind in "fc"]
        sizes = [[a.size for a in avals if (a.dtype.char in "efF") is is_narrow] for is_narrow in (True, False)]
        yield cost.times * max(sizes[0], default=0), cost.times * max(sizes[1], default=0)
