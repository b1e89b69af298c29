"""Graph making: `trace` turns a function into a `Graph`, `eval_shape` returns its outputs' avals."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of
from afx.core.graph import Graph
from afx.core.options import refuse_out
from afx.core.tracing.graph_trace import GraphTrace
from afx.errors import TracerError
from afx.ops.creation.creation import Nested, asarray
from afx.ops.manipulation.diagonals import matrix_trace
from afx.pytree import Tree
from afx.transforms._arguments import check_callable, name_of, transformed

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["eval_shape", "trace"]

P = ParamSpec("P")
R = TypeVar("R")


class Traced:
    """A function's graph, the structure of its result, and the outer tracers it closed over."""

    __slots__ = ("graph", "lifted", "out_tree")

    def __init__(self, graph: Graph, out_tree: Any, lifted: list[Any]) -> None:
        self.graph: Graph = graph
        self.out_tree: Any = out_tree
        self.lifted: list[Any] = lifted


def to_graph(fn: Callable[..., Any], treedef: Any, avals: list[Aval], name: str) -> Traced:
    """Trace ``fn(*args, **kwargs)``, where the tree of ``(args, kwargs)`` has leaves of these Avals."""
    trace_ = GraphTrace(name)
    try:
        args, kwargs = pytree.unflatten(treedef, [trace_.input(a) for a in avals])
        leaves, out_tree = pytree.flatten(fn(*args, **kwargs))
        graph = trace_.finish(leaves)
    finally:
        trace_.alive = False
    return Traced(graph, out_tree, trace_.lifted)


@overload
def trace(fn: Callable[P, Any]) -> Callable[P, Graph]: ...
@overload
def trace(
    fn: ArrayLike,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array: ...
def trace(fn: Any, *args: Any, **options: Any) -> Any:
    """Return a function that gives the `Graph` of ``fn`` for arguments of these shapes and dtypes.

    The arguments' numbers are not used: a Python branch on a traced value raises.

    Of an array it is NumPy's function of this name, the sum along a diagonal of its first two axes; see
    `afx.linalg.trace`, which takes the last two, as the array API has it.

    Args:
        fn: a function; or an array of two axes or more.
        *args: of an array: ``offset``, ``axis1``, ``axis2``, ``dtype`` and ``out`` (None), NumPy's.
        **options: of an array: the same by name.

    Raises:
        ConcreteValueError: the function asks for the value of an argument.
        TracerError: the function closes over traced arrays of a transformation that is under way.

    >>> import afx
    >>> print(trace(lambda x: x + 1.0)(afx.ones(2)))
    graph(a:float32[2]) {
      b:float32[2] = add(a, 1.0)
      return b
    }
    """
    if not callable(fn) and (fn.__class__ in (list, tuple) or getattr(fn, "ndim", 0) >= 2):
        return trace_matrix(fn, *args, **options)
    check_callable(fn, "trace")
    return trace_function(fn, *args, **options)


def trace_function(fn: Callable[P, Any]) -> Callable[P, Graph]:
    """Return a function that gives the `Graph` of ``fn``."""

    def run(*args: P.args, **kwargs: P.kwargs) -> Graph:
        leaves, treedef = pytree.flatten((args, kwargs))
        traced = to_graph(fn, treedef, [aval_of(x, "trace") for x in leaves], f"trace of {name_of(fn)}")
        if traced.lifted:
            raise TracerError(
                f"trace: {name_of(fn)} closes over a traced array: got {traced.lifted[0]!r}; "
                "pass it as an argument, or trace the whole function"
            )
        return traced.graph

    tracing: Callable[P, Graph] = transformed(run, "trace", fn, functools.partial(trace_function, fn))
    return tracing


def trace_matrix(
    x: Nested,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: DTypeLike | None = None,
    out: None = None,
) -> Array:
    """Return the sums of a diagonal of two axes, the first two as NumPy has it."""
    refuse_out(out, "trace")
    return matrix_trace(asarray(x), offset, axis1, axis2, dtype)


@overload
def eval_shape(fn: Callable[..., Array], *args: Tree, **kwargs: Tree) -> Aval: ...
@overload
def eval_shape(fn: Callable[..., R], *args: Tree, **kwargs: Tree) -> R: ...
def eval_shape(fn: Callable[..., Any], *args: Tree, **kwargs: Tree) -> Any:
    """Return what ``fn`` would return with `Aval`s in place of arrays, without computing anything.

    Arguments may be arrays or Avals. To type checkers the result is of the function's own type, or an Aval.

    >>> import afx
    >>> eval_shape(lambda x: afx.sum(x, axis=0), Aval((8, 3), afx.float32))
    float32[3]
    """
    check_callable(fn, "eval_shape")
    leaves, treedef = pytree.flatten((args, kwargs))
    avals = [x if isinstance(x, Aval) else aval_of(x, "eval_shape") for x in leaves]
    traced = to_graph(fn, treedef, avals, f"eval_shape of {name_of(fn)}")
    return pytree.unflatten(traced.out_tree, [Aval(a.aval.shape, a.aval.dtype) for a in traced.graph.outputs])
