"""NaN search: finds the operation and the user's line from which a nan in a result comes.

The function runs once more, recorded on plain values, with jitted functions as plain Python. So each step of a loop is
an equation of its own with its line. From the results the search goes back along elements that are nan, and does not
enter a branch that a choice discarded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afx import pytree
from afx.core import Tracer
from afx.core.graph import Equation, Graph, Literal
from afx.core.tracing.tape import has_nan
from afx.core.tracing.traces import RecordingTrace, UnknownValueError, silent
from afx.ops import asarray
from afx.transforms.compile.make_graph import disable_jit
from afx.transforms.derivatives.cotangent_masks import live_operand


def origin_of_nan(name: str, fn: Callable[..., Any], leaves: Sequence[Any], treedef: Any) -> Equation | None:
    """Return the equation that makes the first nan on the way to a result, None where values are unknown."""
    try:
        with RecordingTrace(name) as trace, disable_jit():
            entered = [trace.enter_plain(asarray(x)) if hasattr(x, "dtype") else x for x in leaves]  # numbers stay weak
            args, kwargs = pytree.unflatten(treedef, entered)
            graph = trace.finish(pytree.leaves(fn(*args, **kwargs)))
    except UnknownValueError:
        return None
    return _search(graph, [x._value for x in entered if isinstance(x, Tracer)])


def _search(graph: Graph, inputs: Sequence[Any]) -> Equation | None:
    """Return the equation that makes a nan of operands without one, walking back from the outputs' nans, or None."""
    values: list[Any] = [*inputs, *[c.value for _, c in graph.constants]]
    for eq in graph.equations:
        operands = [_value(a, values) for a in eq.inputs]
        with silent(eq.ignored_fp_errors):
            z = eq.primitive.impl(*operands, **eq.keywords)
        values += z if eq.primitive.multiple_results else [z]
    alive: dict[int, Any] = {}
    for atom in graph.outputs:
        if not isinstance(atom, Literal) and has_nan(values[atom.index]):
            alive[atom.index] = np.isnan(values[atom.index])
    for eq in reversed(graph.equations):
        own = [alive.pop(v.index, None) for v in eq.outputs]
        if all(m is None or not np.any(m) for m in own):
            continue
        ill = [k for k, a in enumerate(eq.inputs) if has_nan(_value(a, values))]
        if not ill:
            return eq
        for k in ill:
            atom = eq.inputs[k]
            if not isinstance(atom, Literal):
                mask = _read_by(eq, k, own, values) & np.isnan(values[atom.index])
                alive[atom.index] = alive.get(atom.index, False) | mask
    return None


def _value(atom: Any, values: Sequence[Any]) -> Any:
    return atom.value if isinstance(atom, Literal) else values[atom.index]


def _read_by(eq: Equation, k: int, own: Sequence[Any], values: Sequence[Any]) -> Any:
    """Return which elements of an operand the elements of the results read that are nan."""
    p = eq.primitive
    if p.algebra.canonical == "select":
        condition = np.asarray(_value(eq.inputs[0], values), bool)
        own = [own[0] & (condition if k == 1 else ~condition)]
    avals = eq.avals
    return live_operand(p, k, own, avals, eq.keywords, [v.aval.shape for v in eq.outputs])
