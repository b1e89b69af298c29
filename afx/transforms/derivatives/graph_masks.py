"""Masks through graphs: where the inputs of a graph are alive, by its structure alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afx.core.aval import Aval, Shape
from afx.core.graph import Graph, Literal
from afx.core.primitive import Params, Primitive, Value
from afx.core.tracing.tracer import to_lower_level
from afx.ops.elementwise.comparison import logical_or, not_equal
from afx.transforms.derivatives.cotangent_masks import live_operand

__all__ = ["live_inputs"]


def live_inputs(graph: Graph, alive: Sequence[Value]) -> list[Value]:
    """Return where the inputs of a graph are alive, None where nowhere: derivatives or not.

    Args:
        graph: the function.
        alive: the mask of each output, None where it is dead.
    """
    masks: dict[int, Value] = {}

    def note(index: int, alive: Value) -> None:
        masks[index] = alive if index not in masks else to_lower_level(logical_or(masks[index], alive))

    for atom, mask in zip(graph.outputs, alive, strict=True):
        if not isinstance(atom, Literal) and mask is not None:
            note(atom.index, mask)
    for eq in reversed(graph.equations):
        own = [masks.pop(v.index, None) for v in eq.outputs]
        if all(m is None for m in own):
            continue
        avals, outs = [a.aval for a in eq.inputs], [v.aval.shape for v in eq.outputs]
        for k, atom in enumerate(eq.inputs):
            if not isinstance(atom, Literal):
                note(atom.index, _live_of(eq.primitive, k, own, avals, eq.keywords, outs))
    return [masks.get(v.index) for v in graph.inputs]


def _live_of(
    p: Primitive, k: int, alive: Sequence[Value], avals: Sequence[Aval], params: Params, outs: Sequence[Shape]
) -> Value:
    """Return where an operand is alive of an op whose values are unknown."""
    plain = (
        p.masking.nonnegative_linear
        and p.derivative.vjps is not None
        and len(p.derivative.vjps) == len(avals)
        and not any(p.derivative.reads)
    )
    if not plain or alive[0] is None:
        return live_operand(p, k, alive, avals, params, outs)
    assert p.derivative.vjps is not None
    marks = to_lower_level(alive[0].astype(np.float32))
    found = p.derivative.vjps[k](marks, None, (None,) * len(avals), params, avals[k].shape, np.dtype(np.float32))
    return to_lower_level(not_equal(found, 0))
