"""NaN search: finds the operation and the user's line from which a nan in a result comes.

The function runs once more, recorded on plain values with jitted functions as plain Python, so that each step of a loop
is an equation of its own with its line. From the results the search goes back along elements that are nan, and does not
enter a branch that a choice discarded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afx import pytree
from afx.core.graph import Equation, Graph, Literal
from afx.core.interpreter import silent
from afx.core.tracing.debug_nans import OPEN_BLOCKS, at, debugging, has_nan
from afx.core.tracing.recording_trace import RecordingTrace, UnknownValueError
from afx.core.tracing.tracer import Tracer
from afx.errors import NanError
from afx.ops.creation.creation import asarray
from afx.transforms.cotangent_masks import live_operand
from afx.transforms.retracing import disable_jit

__all__ = ["check_nan"]


def check_nan(name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
    """Inside of a `debug_nans` block, raise where a result is nan though no argument is.

    Args:
        name: of the function, for the message.
        fn: what gave the result.
        args: its arguments.
        kwargs: likewise, by name.
        out: the result.

    Raises:
        NanError: it names the operation, and the line in the user's file.
    """
    if not (OPEN_BLOCKS and debugging()):
        return
    results, (leaves, treedef) = pytree.leaves(out), pytree.flatten((args, kwargs))
    if any(isinstance(x, Tracer) for x in (*results, *leaves)) or not any(map(has_nan, results)):
        return
    if any(map(has_nan, leaves)):
        return
    origin: Equation | None = None
    with contextlib.suppress(UnknownValueError), np.errstate(all="ignore"):
        origin = _origin(name, fn, leaves, treedef)
    if origin is None:
        raise NanError(f"{name}: the result is nan though no argument is; guard its operands with afx.where")
    raise NanError(
        f"{origin.primitive.name}: nan from operands without nan{at(origin.source)}; guard the operand with afx.where"
    )


def _origin(name: str, fn: Callable[..., Any], leaves: Sequence[Any], treedef: Any) -> Equation | None:
    """Return the equation that makes the first nan on the way to a result."""
    trace = RecordingTrace(name)
    try:
        entered = [trace.enter_plain(asarray(x)) if hasattr(x, "dtype") else x for x in leaves]  # numbers stay weak
        args, kwargs = pytree.unflatten(treedef, entered)
        with disable_jit():
            outs = pytree.leaves(fn(*args, **kwargs))
        graph = trace.finish(outs)
    finally:
        trace.alive = False
    return _search(graph, [x._value for x in entered if isinstance(x, Tracer)])


def _search(graph: Graph, inputs: Sequence[Any]) -> Equation | None:
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
    avals = [a.aval for a in eq.inputs]
    return live_operand(p, k, own, avals, eq.keywords, [v.aval.shape for v in eq.outputs])
