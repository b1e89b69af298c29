"""Subgraphs: functions of leaves as graphs that control flow holds."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afx import pytree
from afx.core import Array, Aval, Function, Tracer, aval_of, to_array
from afx.core.tracing.tracer import INNERMOST
from afx.core.tracing.traces import (
    GraphTrace,
    GraphTracer,
    RecordingTrace,
    UnknownValueError,
    evaluate,
    renumber,
    to_concrete,
)
from afx.errors import ConcreteValueError, NestingError
from afx.ops import asarray, broadcast_to, zeros
from afx.pytree.trees import check_matching, check_structure
from afx.transforms.compile.compiled_call import CompiledGraph


class Body:
    """A traced function: its program, the structure of its result, and the outer tracers it closed over."""

    __slots__ = ("lifted", "out_tree", "program")

    def __init__(self, program: CompiledGraph, out_tree: Any, lifted: list[Any]) -> None:
        self.program: CompiledGraph = program
        self.out_tree: Any = out_tree
        self.lifted: list[Any] = lifted


def is_abstract(x: Any) -> bool:
    """Tell whether a value is unknown: an abstract tracer, or one of a transformation above it."""
    while isinstance(x, Tracer):
        if isinstance(x, GraphTracer):
            return True
        x = x._value
    return False


def as_strong_arrays(leaves: Sequence[Any]) -> list[Array]:
    """Return leaves as Arrays of a fixed dtype, as a loop carries them."""
    return [asarray(x) for x in leaves]


def resolve_weak_carry(
    step: Function, first: Sequence[Any], treedef: Any, name: str, elements: Sequence[Array] = ()
) -> list[Array]:
    """Return a loop's first carry: Python numbers in it are weak, and take the dtype that the steps give them.

    Args:
        step: the carry, and the leaves that a step reads beside it, to the next carry.
        first: the leaves of the first carry.
        treedef: its structure.
        name: of the loop, for messages.
        elements: what the first step reads beside the carry.
    """
    avals = [aval_of(x, name) for x in first]
    for _ in avals:
        if not any(a.weak for a in avals):
            break
        avals_after = _after(step, avals, treedef, name, first, elements)
        if avals_after == avals:
            break
        avals = avals_after
    return [asarray(x, a.dtype if aval_of(x).weak else None) for x, a in zip(first, avals, strict=True)]


def _after(
    step: Function, avals: list[Aval], treedef: Any, name: str, first: Sequence[Any], elements: Sequence[Array]
) -> list[Aval]:
    """Return the Avals of a carry whose weak leaves have the dtypes that they have after a step."""
    try:
        trace = GraphTrace(name)
        after = _traced_avals(
            trace,
            functools.partial(_unless_too_deep, name, step),
            treedef,
            len(avals),
            [trace.input(a) for a in (*avals, *map(aval_of, elements))],
        )
    except ConcreteValueError:  # a step with Python control flow
        recorder = RecordingTrace(name)
        try:
            leaves = [*[asarray(x, a.dtype) for x, a in zip(first, avals, strict=True)], *elements]
            kinds = [*avals, *map(aval_of, elements)]
            given = [recorder.known_input(a, to_concrete(x)) for a, x in zip(kinds, leaves, strict=True)]
            after = _traced_avals(recorder, step, treedef, len(avals), given)
        except (ConcreteValueError, UnknownValueError):
            return avals
    if len(after) != len(avals):
        return avals
    return [Aval(a.shape, z.dtype, z.weak) if a.weak else a for a, z in zip(avals, after, strict=True)]


def _traced_avals(trace: GraphTrace, step: Function, treedef: Any, count: int, inputs: Sequence[Any]) -> list[Aval]:
    """Return the Avals, weak ones too, of what a step gives for a traced carry of so many leaves, and the others."""
    with trace:
        results = pytree.leaves(step(pytree.unflatten(treedef, list(inputs[:count])), *inputs[count:]))
        return [aval_of(z) if (var := trace.var_of(z)) is None else var.aval for z in results]


def mark_effects() -> Callable[[], None]:
    """Return a function that drops the effects that come into the innermost graph from now on."""
    graph = INNERMOST.graph
    return (lambda: None) if graph is None else functools.partial(graph.drop_effects, graph.count_equations())


def inexact(aval: Any) -> bool:
    """Tell whether an Aval or array has derivatives."""
    return aval.dtype.kind in "fc"


def zeros_of(aval: Any) -> Array:
    """Return zeros of an Aval's or array's shape and dtype."""
    return zeros(aval.shape, aval.dtype)


def full_mask(ct: Any, mask: Any, aval: Aval) -> Any:
    """Return where an input is alive: nowhere without a cotangent, everywhere without a mask."""
    return np.full(aval.shape, ct is not None) if ct is None or mask is None else mask


def body_of(fn: Function, treedef: Any, avals: Sequence[Aval], name: str, *, is_branch: bool = False) -> Body:
    """Trace a function of trees; tracers it closes over become inputs behind the others."""
    with GraphTrace(name, is_branch=is_branch) as trace:
        out = _unless_too_deep(
            name, fn, *pytree.unflatten(treedef, [trace.input(Aval(a.shape, a.dtype)) for a in avals])
        )
        leaves, out_tree = pytree.flatten(out)
        graph = trace.finish(as_strong_arrays(leaves))
    return Body(CompiledGraph(graph), out_tree, trace.lifted)


def build(name: str, avals: Sequence[Aval], fn: Callable[..., Sequence[Any]]) -> CompiledGraph:
    """Return the program of a function of flat leaves that closes over no tracers."""
    with GraphTrace(name) as trace:
        outs = _unless_too_deep(name, fn, *[trace.input(a) for a in avals])
        return CompiledGraph(trace.finish([to_array(z) for z in outs]))


def _unless_too_deep(name: str, fn: Function, *args: Any) -> Any:
    """Return what a function gives, or raise where Python's stack ends in it."""
    try:
        return fn(*args)
    except NestingError:
        raise
    except RecursionError:
        raise NestingError(
            f"{name}: functions within functions are nested too deeply: got no more of Python's stack; write the nesting as one "
            "loop, or raise sys.setrecursionlimit"
        ) from None


def consts_first(body: Body, count: int) -> CompiledGraph:
    """Return a step's program with what it closes over, its last inputs, before the first ``count`` ones."""
    graph = body.program.graph
    inputs = (*graph.inputs[count:], *graph.inputs[:count])
    return CompiledGraph(renumber(inputs, graph.constants, graph.equations, graph.outputs))


def batched_body(
    body: CompiledGraph, size: int, batched: Sequence[bool], carry: tuple[int, int]
) -> tuple[CompiledGraph, list[bool]]:
    """Return a loop's step over a batch, and which of its outputs have a batch axis in front; a counter stays one number.

    Args:
        body: the step, whose first outputs are the next carry.
        size: of the batch.
        batched: which inputs of the step have a batch axis to begin with.
        carry: the inputs from and to which the carry stands.
    """
    start, stop = carry
    flags = list(batched)
    while True:
        program, own = body.batched_where_needed(size, tuple(flags))
        after = [f or o for f, o in zip(flags[start:stop], own, strict=False)]
        if after == flags[start:stop]:
            break
        flags[start:stop] = after
    ends = [*after, *own[stop - start :]]
    if ends == own:
        return program, ends

    def step(*v: Any) -> list[Any]:
        outs = evaluate(program.graph, *v)
        return [
            broadcast_to(z, (size, *z.shape)) if end and not o else z for z, end, o in zip(outs, ends, own, strict=True)
        ]

    return build("vmap", [v.aval for v in program.graph.inputs], step), ends


def run_step(carry: Sequence[Any], step: Callable[..., Any], *args: Any) -> Any:
    """Return a step, which may donate arrays of the carry: their memory is held, so nothing writes there, and given back."""
    held = [(x, x._value) for x in carry if x.__class__ is Array]
    try:
        return step(*args)
    finally:
        for x, value in held:
            x._value = value


def check_same(given: Sequence[Any], found_tree: Any, leaves: Sequence[Any], treedef: Any, who: str, what: str) -> None:
    """Raise where one tree of arrays differs from another in structure, shape or dtype, naming the path."""
    check_structure(found_tree, treedef, who, what, "return the same")
    have, want = [aval_of(x, who) for x in given], [aval_of(x, who) for x in leaves]
    check_matching(have, want, treedef, who, what, "return the same shape and dtype (astype)")
