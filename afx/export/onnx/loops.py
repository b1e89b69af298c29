"""Loops and branches: Scan, Loop and If, whose graphs read what they close over by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.compiler.control_flow import BranchSpec, ScanSpec, WhileBackSpec, WhileSpec
from afx.core.graph import Graph
from afx.export.onnx.shapes import FIRST
from afx.export.onnx.table import rule
from afx.export.onnx.value import BOOL, INT64, Value
from afx.export.onnx.writer import Kind, Named, OnnxWriter

__all__: list[str] = []


def _spec(w: OnnxWriter) -> Any:
    assert w.equation is not None
    return w.walk.control(w.equation)


def _open(graph: Graph) -> list[Kind]:
    """Return the kinds of a graph's results, whose shapes are left to the runtime."""
    return [(atom.aval.dtype, None) for atom in graph.outputs]


def _names(values: Sequence[Value]) -> list[str]:
    return [x.name for x in values]


def _enter(w: OnnxWriter, values: Sequence[Value], wish: str) -> list[Named]:
    """Return inputs of a graph that stand for values."""
    return [(w.names.make(wish), (x.dtype, None)) for x in values]


def _head(w: OnnxWriter) -> list[Named]:
    """Return the first inputs of a loop's graph: the number of the step, and whether it goes on."""
    return [(w.names.make("step"), (INT64, ())), (w.names.make("goes"), (BOOL, ()))]


def _write_node(
    w: OnnxWriter, node: str, inputs: Sequence[str], results: Sequence[Kind], **attributes: Any
) -> list[Value]:
    """Write a node of several results."""
    names = [w.names.make("after") for _ in results]
    w.put(node, inputs, names, **attributes)
    return [Value(w, name, dtype) for name, (dtype, _) in zip(names, results, strict=True)]


@rule("scan")
def _scan(w: OnnxWriter, *xs: Value) -> list[Value]:
    spec: ScanSpec = _spec(w)
    consts, carry, rows = xs[: spec.consts], xs[spec.consts : spec.consts + spec.carry], xs[spec.consts + spec.carry :]
    results: list[Kind] = [(out.dtype, out.shape[int(k >= spec.carry) :]) for k, out in enumerate(w.outs)]
    if not rows:
        return _count_loop(w, spec, consts, carry, results)
    inputs = [*_enter(w, carry, "carry"), *_enter(w, rows, "row")]
    given = [*_names(consts), *[name for name, _ in inputs]]
    body = w.body(inputs, lambda: w.walk.write(w, spec.body, given), results)
    options: dict[str, Any] = {"body": body, "num_scan_inputs": len(rows)}
    if spec.reverse:
        options["scan_input_directions"] = [1] * len(rows)
    if spec.reverse and len(results) > spec.carry:
        options["scan_output_directions"] = [1] * (len(results) - spec.carry)
    return _write_node(w, "Scan", _names([*carry, *rows]), results, **options)


def _count_loop(
    w: OnnxWriter, spec: ScanSpec, consts: Sequence[Value], carry: Sequence[Value], results: Sequence[Kind]
) -> list[Value]:
    """Write a loop that walks along nothing."""
    length, head, inputs = w.length(w.params["length"]), _head(w), _enter(w, carry, "carry")
    given = [*_names(consts), *[name for name, _ in inputs]]
    body = w.body([*head, *inputs], lambda: [head[1][0], *w.walk.write(w, spec.body, given)], [(BOOL, ()), *results])
    found = _write_node(w, "Loop", [length.name, "", *_names(carry)], results, body=body)
    if not spec.reverse:
        return found
    ends = [w.ints((n,)) for n in (-1, FIRST, 0, -1)]
    return [*found[: spec.carry], *[x.op("Slice", *ends) for x in found[spec.carry :]]]


@rule("while_loop")
def _while(w: OnnxWriter, *xs: Value) -> list[Value]:
    spec: WhileSpec = _spec(w)
    tests, consts = _names(xs[: spec.tests]), _names(xs[spec.tests : spec.tests + spec.consts])
    return _test_loop(w, spec, tests, consts, xs[spec.tests + spec.consts :], ())


def _test_loop(
    w: OnnxWriter,
    spec: WhileSpec | WhileBackSpec,
    tests: Sequence[str],
    consts: Sequence[str],
    carry: Sequence[Value],
    kept: Sequence[Kind],
) -> list[Value]:
    """Write a loop that a condition ends; return the last carry, and what was kept of each step."""
    (first,) = w.walk.write(w, spec.condition, [*tests, *_names(carry)])
    inputs, head = _enter(w, carry, "carry"), _head(w)

    def step() -> list[str]:
        found = w.walk.write(w, spec.body, [*consts, *[name for name, _ in inputs]])
        (goes,) = w.walk.write(w, spec.condition, [*tests, *found[: len(carry)]])
        return [goes, *found[: len(carry)], *([head[0][0], *found[len(carry) :]] if kept else [])]

    results: list[Kind] = [*[(x.dtype, None) for x in carry], *kept]
    body = w.body([*head, *inputs], step, [(BOOL, ()), *results])
    return _write_node(w, "Loop", ["", first, *_names(carry)], results, body=body)


@rule("while_loop_backward")
def _while_back(w: OnnxWriter, *xs: Value) -> list[Value]:
    spec: WhileBackSpec = _spec(w)
    first, last = spec.tests + spec.consts, spec.tests + spec.consts + spec.carry
    consts, outs = _names(xs[spec.tests : first]), list(w.outs)
    residuals = _open(spec.body)[spec.carry :]
    found = _test_loop(w, spec, _names(xs[: spec.tests]), consts, xs[first:last], [(INT64, ()), *residuals])
    steps, kept = found[spec.carry], found[spec.carry + 1 :]
    count = Value(w, w.op("Size", steps.name), INT64)
    rest = iter(xs[last:])
    state = [
        w.full(out.shape, 0, out.dtype) if zero else next(rest) for zero, out in zip(spec.zeros, outs, strict=True)
    ]
    inputs, head = _enter(w, state, "carry"), _head(w)

    def step() -> list[str]:
        place = count - Value(w, head[0][0], INT64) - 1
        rows = [w.op("Gather", x.name, place.name, axis=0) for x in kept]
        return [head[1][0], *w.walk.write(w, spec.back, [*consts, *rows, *[name for name, _ in inputs]])]

    results: list[Kind] = [(out.dtype, out.shape) for out in outs]
    body = w.body([*head, *inputs], step, [(BOOL, ()), *results])
    return _write_node(w, "Loop", [count.name, "", *_names(state)], results, body=body)


@rule("switch")
def _switch(w: OnnxWriter, index: Value, *xs: Value) -> list[Value]:
    spec: BranchSpec = _spec(w)
    return _choose(w, index.cast(np.int64), spec.bodies, 0, _names(xs))


def _choose(w: OnnxWriter, index: Value, bodies: Sequence[Graph], k: int, operands: Sequence[str]) -> list[Value]:
    """Write a choice between one graph and those behind it."""
    results = _open(bodies[k])
    if k == len(bodies) - 1:
        found = w.walk.write(w, bodies[k], operands)
        return [Value(w, name, dtype) for name, (dtype, _) in zip(found, results, strict=True)]
    here = w.body([], lambda: w.walk.write(w, bodies[k], operands), results)
    behind = w.body([], lambda: _names(_choose(w, index, bodies, k + 1, operands)), results)
    return _write_node(w, "If", [(index <= k).name], results, then_branch=here, else_branch=behind)
