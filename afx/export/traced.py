"""Tracing for export: a function's graph, with its arguments and results as named slots."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx import pytree
from afx.compiler.simplify import simplify
from afx.compiler.target import Target, current
from afx.core.array.array import to_numpy_value
from afx.core.aval import Aval, aval_of
from afx.core.dtypes import DType, get_default_dtype
from afx.core.graph import Graph
from afx.errors import ExportError
from afx.export.slots import Slot
from afx.transforms._arguments import check_callable, name_of
from afx.transforms.compile.make_graph import Traced, to_graph

__all__ = ["Traceable", "arguments_of", "prepare", "trace_arguments", "trace_program"]

Item = tuple[str, tuple[int, ...], DType]


@attrs.frozen
class Traceable:
    """A function's program on its way to another language.

    Attributes:
        name: of the function.
        graph: simplified, without weak types; what it called is inlined, loops and branches hold graphs of their own.
        inputs: path, shape and dtype of each leaf of the arguments; their names are still to be made unique.
        outputs: the same of the results, whose paths begin with ``result``.
        in_tree: the structure of the positional arguments.
        out_tree: the structure of the result.
    """

    name: str
    graph: Graph
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    in_tree: Any
    out_tree: Any


def trace_program(
    fn: Callable[..., Any], args: tuple[Any, ...], who: str, name: str | None = None, target: Target | None = None
) -> Traceable:
    """Trace a function for arguments like these, and simplify its graph, for the current target or another one.

    Raises:
        ExportError: it closes over a traced array.
    """
    traced, avals, _ = trace_arguments(fn, args, who)
    given = arguments_of(fn, args, avals)
    paths = [f"result{path}" for path in pytree.paths(traced.out_tree)]
    results = [(path, a.aval.shape, a.aval.dtype) for path, a in zip(paths, traced.graph.outputs, strict=True)]
    return Traceable(
        name or name_of(fn),
        prepare(traced.graph, target),
        tuple([Slot(path, path, shape, dtype) for path, shape, dtype in given]),
        tuple([Slot(path, path, shape, dtype) for path, shape, dtype in results]),
        pytree.structure(args),
        traced.out_tree,
    )


def prepare(graph: Graph, target: Target | None = None) -> Graph:
    """Return a graph as a plan computes it before anything is fused: expanded, of strong types, simplified.

    It has no branches that the function has not.
    """
    plain = attrs.evolve(target or current.target, unmask_min_elements=sys.maxsize)
    return simplify(graph, plain, expanding=True)


def trace_arguments(fn: Callable[..., Any], args: tuple[Any, ...], who: str) -> tuple[Traced, list[Aval], Any]:
    """Return a function's graph, the Avals of its arguments' leaves, and the structure of ``(args, {})``.

    Raises:
        ExportError: it closes over a traced array.
    """
    check_callable(fn, who)
    given: Any = (args, {})
    leaves, tree = pytree.flatten(given)
    avals = [_aval(x, who) for x in leaves]
    traced = to_graph(fn, tree, avals, f"{who} of {name_of(fn)}")
    if traced.lifted:
        raise ExportError(
            f"{who}: {name_of(fn)} closes over a traced array: got {traced.lifted[0]!r}; pass it as an argument"
        )
    return traced, avals, tree


def _aval(x: Any, who: str) -> Aval:
    if isinstance(x, Aval):
        return Aval(x.shape, x.dtype)
    found = aval_of(x, who)
    if not found.weak:
        return found
    kind = np.asarray(to_numpy_value(x, who)).dtype.kind
    return Aval((), np.dtype(get_default_dtype()) if kind == "f" else np.asarray(x).dtype, True)


def arguments_of(fn: Callable[..., Any], args: tuple[Any, ...], avals: Sequence[Aval]) -> list[Item]:
    """Return path, shape and dtype of each leaf; paths begin with the names of arguments where these are known."""
    names = argument_names(fn, len(args))
    paths = [
        f"{name}{path}" for name, arg in zip(names, args, strict=True) for path in pytree.paths(pytree.structure(arg))
    ]
    return [(path, aval.shape, aval.dtype) for path, aval in zip(paths, avals, strict=True)]


def argument_names(fn: Callable[..., Any], count: int) -> list[str]:
    """Return the names of a function's positional arguments, or ``x0``, ``x1`` … where it does not tell; no two are alike."""
    try:
        parameters = [*inspect.signature(fn).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    for k in range(len(names), count):
        name = f"x{k}"
        while name in names:
            name += "_rest"
        names.append(name)
    return names
