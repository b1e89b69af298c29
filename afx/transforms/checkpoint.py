"""Checkpointing: memory for time; intermediate values are computed again in the backward pass."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from afx import pytree
from afx.core import Array, Aval, Tracer, any_traced, bind, is_known, to_lower_level, wrap
from afx.core.graph import Graph
from afx.core.tracing.tape import debugging
from afx.core.tracing.traces import GraphTrace, RecordingTrace, UnknownValueError, evaluate
from afx.ops import asarray
from afx.transforms._arguments import check_callable, name_of
from afx.transforms.compile.compiled_call import CompiledGraph
from afx.transforms.custom_call import custom_call_p
from afx.transforms.derivatives.jvp import Flattened, pull_masked, pull_through, push_through

# --- Rematerialization: a function's run as an op that can be repeated, for `checkpoint`
#
# The function is recorded once, as a graph: on plain values where they are known, so that Python control flow works,
# and abstractly elsewhere. Values of outer transformations that it closes over become operands, so that their
# derivatives are not lost; arrays of the caller are copied into the graph, so that a later write changes nothing.


class Replay:
    """The rules of a recorded function, in the form of `afx.transforms.custom_call.CustomRules`.

    Attributes:
        name: of the transformation and function, for messages.
        graph: what ran.
    """

    __slots__ = ("_found", "graph", "name")
    num_closed_over = 0
    left_out = None

    def __init__(self, name: str, graph: Graph, recorded: tuple[Sequence[Any], Sequence[Any]] | None = None) -> None:
        self.name: str = name
        self.graph: Graph = graph
        self._found = recorded  # the plain operands and results of the recording, which is the first run

    def fn(self, *xs: Any) -> Sequence[Any]:
        """Run the graph; where it has just been recorded on these very values, its results are known."""
        recorded, self._found = self._found, None
        if recorded and all(to_lower_level(x) is y for x, y in zip(xs, recorded[0], strict=True)):
            return recorded[1]
        return evaluate(self.graph, *xs)

    def forward(self, xs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the results and what the backward pass needs: the operands."""
        rules = self
        if any_traced(xs):  # an outer trace differentiates the results too
            wanted = tuple([v.aval.dtype.kind in "fc" for v in self.graph.inputs])
            rules = Replay(self.name, CompiledGraph(self.graph).primal(wanted).graph, self._found)
        return list(bind(custom_call_p, *xs, rules=rules)), xs

    def backward(self, xs: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Run again, and pull cotangents back."""
        return pull_through(self._again, xs, cts)

    def masked(
        self, xs: Sequence[Any], cts: Sequence[Any], masks: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Run again, and pull cotangents with masks back."""
        return pull_masked(self._again, xs, cts, masks)

    def push(self, xs: Sequence[Any], ts: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return results and tangents."""
        return push_through(self._again, xs, ts)

    def _again(self, *xs: Any) -> Sequence[Any]:
        return evaluate(self.graph, *xs)

    def abstract(self, avals: Sequence[Aval]) -> tuple[Aval, ...]:
        """Return the Avals of the results."""
        return tuple([Aval(a.aval.shape, a.aval.dtype) for a in self.graph.outputs])

    def batched(self, size: int, flags: tuple[bool, ...]) -> Replay:
        """Return the rules of the function mapped over a batch axis in front of the flagged operands."""
        return Replay(self.name, CompiledGraph(self.graph).batched(size, flags).graph)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Replay) and self.graph == other.graph)

    def __hash__(self) -> int:
        return hash((self.graph.inputs, len(self.graph), self.graph.outputs))

    def __repr__(self) -> str:
        return f"<{self.name}: {self.graph.label}>"

    def __reduce__(self) -> tuple[type[Replay], tuple[str, Graph]]:
        return Replay, (self.name, self.graph)


def rematerialize(name: str, fn: Callable[..., Sequence[Any]], leaves: Sequence[Any]) -> list[Any]:
    """Run a function of flat leaves as one op; without traced leaves it is simply called."""
    leaves = [asarray(x) if issubclass(x.__class__, np.ndarray) else x for x in leaves]
    traced = [x for x in leaves if isinstance(x, Tracer)]
    if not traced:
        return list(fn(*leaves))
    if all(map(is_known, traced)):
        try:
            trace = RecordingTrace(name)
            inputs = [trace.enter(x) for x in traced]
            plain = [x._value for x in inputs]
            graph, outs = _recorded(trace, fn, leaves, inputs)
        except UnknownValueError:  # of a value that the function closes over
            pass
        else:
            plain += [to_lower_level(_ground(x)) for x in trace.lifted]
            rules = Replay(name, graph, (plain, [_ground(z) for z in outs]))
            return list(bind(custom_call_p, *traced, *trace.lifted, rules=rules))
    outer_trace = GraphTrace(name)
    graph, _ = _recorded(outer_trace, fn, leaves, [outer_trace.input(x.aval) for x in traced])
    return list(bind(custom_call_p, *traced, *outer_trace.lifted, rules=Replay(name, graph)))


def _recorded(
    trace: GraphTrace, fn: Callable[..., Sequence[Any]], leaves: Sequence[Any], inputs: Sequence[Any]
) -> tuple[Graph, list[Array]]:
    """Run a function with these inputs instead of traced leaves; return its graph and its results."""
    entered = iter(inputs)
    with trace:
        outs = [asarray(z) for z in fn(*[next(entered) if isinstance(x, Tracer) else x for x in leaves])]
        return trace.finish(outs), outs


def _ground(x: Any) -> Any:
    """Return the plain Array behind a tracer of any depth."""
    while isinstance(x, Tracer):
        x = x._value
    return x if isinstance(x, Array) else wrap(x)


# --- Checkpointing

MAX_NESTED = 12  # deeper ones are plain calls: those around them compute everything again anyway

P = ParamSpec("P")
R = TypeVar("R")


class Nested(threading.local):
    """How many checkpointed functions are running inside one another in this thread."""

    depth = 0

    def __reduce__(self) -> str:
        return "_nested"


_nested = Nested()


def checkpoint(fn: Callable[P, R]) -> Callable[P, R]:
    """Return ``fn`` so that reverse mode keeps only its arguments and computes the rest again in the backward pass.

    The function itself runs once, and what it did is recorded: Python control flow on its values works as in ``fn``.
    What it closes over may be traced and is differentiated too; it can change later without changing the gradient.

    Args:
        fn: a pure function of pytrees of arrays.

    >>> import afx
    >>> afx.grad(checkpoint(lambda x: afx.sqrt(x * x)))(3.0)
    Array(1., dtype=float32)
    """
    check_callable(fn, "checkpoint")
    name = f"checkpoint of {name_of(fn)}"

    @functools.wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if _nested.depth >= MAX_NESTED or debugging():
            return fn(*args, **kwargs)
        leaves, treedef = pytree.flatten((args, kwargs))
        plain = Flattened(fn, treedef)
        _nested.depth += 1
        try:
            outs = rematerialize(name, plain, leaves)
        finally:
            _nested.depth -= 1
        result: R = pytree.unflatten(plain.out_tree, outs)
        return result

    return run
