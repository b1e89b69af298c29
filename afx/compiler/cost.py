"""Cost: floating-point operations of a graph, and bytes that go through memory."""

from __future__ import annotations

from afx.core.graph import Equation, Graph, Var

__all__ = ["bytes_moved", "flops"]


def flops(graph: Graph) -> int:
    """Return the arithmetic operations of a graph: one for each element made or summed, two a term of a product.

    Loops count once for each step, where that number is known; of branches the dearest one counts.

    >>> import afx
    >>> flops(afx.trace(lambda x: x @ x)(afx.ones((8, 8))))
    1024
    """
    return sum([_operations(eq) for eq in graph.equations])


def _operations(eq: Equation) -> int:
    p = eq.primitive
    if p.lowering.flops is not None:
        return p.lowering.flops([a.aval for a in (*eq.inputs, *eq.outputs)], eq.keywords)
    made = sum([v.aval.size for v in eq.outputs])
    if p.lowering.ufunc is not None and p.lowering.ufunc.signature is not None:  # a product of matrices
        return 2 * made * eq.inputs[0].aval.shape[-1]
    if p.is_elementwise:
        return made
    return eq.inputs[0].aval.size if p.lowering.reduce_ufunc is not None else 0


def bytes_moved(graph: Graph) -> int:
    """Return the bytes that the equations of a graph read and write, were nothing kept in a cache.

    >>> import afx
    >>> bytes_moved(afx.trace(afx.sin)(afx.ones(8)))
    64
    """
    return sum(
        [
            a.aval.nbytes
            for eq in graph.equations
            if not eq.primitive.lowering.may_alias
            for a in (*eq.inputs, *eq.outputs)
            if isinstance(a, Var)
        ]
    )
