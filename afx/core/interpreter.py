"""Interpreter: evaluates a graph one equation after the other, on plain arrays or tracers."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike, wrap
from afx.core.graph import Graph, Literal
from afx.core.tracing.source_info import ORIGIN
from afx.core.tracing.tracer import bind
from afx.core.weakness import weak_or_strong
from afx.errors import GraphError

__all__ = ["evaluate", "number_of", "silent"]

NOTHING = contextlib.nullcontext()


def evaluate(graph: Graph, *inputs: ArrayLike) -> list[Array]:
    """Return the outputs of a graph for these inputs, each op bound anew.

    So a graph can be differentiated, batched or traced into another one.

    Raises:
        GraphError: another number of inputs than the graph has.

    >>> import afx
    >>> evaluate(afx.trace(afx.sin)(0.0), afx.zeros(()))
    [Array(0., dtype=float32)]
    """
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise GraphError(f"evaluate: runs a Graph: got {type(graph).__name__}; make one with afx.trace(fn)(*args)")
    if len(inputs) != len(graph.inputs):
        raise GraphError(
            f"evaluate: the graph has {len(graph.inputs)} inputs: got {len(inputs)} values; give one for each"
        )
    known: list[Any] = [
        *inputs,
        *[weak_or_strong(c.value) if v.aval.weak else wrap(c.value) for v, c in graph.constants],
    ]

    def read(atoms: Sequence[Any]) -> list[Any]:
        return [number_of(a) if isinstance(a, Literal) else known[a.index] for a in atoms]

    outer = ORIGIN.source
    try:
        for eq in graph.equations:
            ORIGIN.source = None if eq.primitive.opaque else eq.source or outer  # what is held has lines of its own
            with silent(eq.ignored_fp_errors) if eq.ignored_fp_errors else NOTHING:
                out = bind(eq.primitive, *read(eq.inputs), **eq.keywords)
            known.extend(out) if eq.primitive.multiple_results else known.append(out)
    finally:
        ORIGIN.source = outer
    return [x if isinstance(x, Array) else wrap(np.asarray(x)) for x in read(graph.outputs)]


def silent(names: Sequence[str]) -> contextlib.AbstractContextManager[None]:
    """Return a context in which NumPy ignores these floating-point errors."""
    state: Any = dict.fromkeys(names, "ignore")
    return np.errstate(**state)


def number_of(literal: Literal) -> Any:
    """Return a literal as a weak Python number, or as a NumPy scalar where its dtype is fixed."""
    return literal.value if literal.aval.weak else literal.aval.dtype.type(literal.value)
