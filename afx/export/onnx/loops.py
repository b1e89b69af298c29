"""Loops: Scan, Loop and If, and factorizations of small matrices, of which ONNX has none, column by column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.schedule.schedule import BranchSpec, ScanSpec, WhileBackSpec, WhileSpec
from afx.core.graph import Graph
from afx.export.onnx.arrays import FIRST, slice_axes
from afx.export.onnx.elementwise import rule
from afx.export.onnx.writer import BOOL, INT64, Kind, Length, Named, OnnxWriter, Value, where
from afx.export.templates import NoTemplateError

# --- Loops and branches: Scan, Loop and If, whose graphs read what they close over by name


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
    options = {"body": body, "num_scan_inputs": len(rows)}
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
    values = _write_node(w, "Loop", [length.name, "", *_names(carry)], results, body=body)
    if not spec.reverse:
        return values
    ends = [w.ints((n,)) for n in (-1, FIRST, 0, -1)]
    return [*values[: spec.carry], *[x.op("Slice", *ends) for x in values[spec.carry :]]]


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
        names = w.walk.write(w, spec.body, [*consts, *[name for name, _ in inputs]])
        (goes,) = w.walk.write(w, spec.condition, [*tests, *names[: len(carry)]])
        return [goes, *names[: len(carry)], *([head[0][0], *names[len(carry) :]] if kept else [])]

    results: list[Kind] = [*[(x.dtype, None) for x in carry], *kept]
    body = w.body([*head, *inputs], step, [(BOOL, ()), *results])
    return _write_node(w, "Loop", ["", first, *_names(carry)], results, body=body)


@rule("while_loop_backward")
def _while_back(w: OnnxWriter, *xs: Value) -> list[Value]:
    """Write the way back of a loop of unknown length: one Loop stacks the residuals, another reads them backwards."""
    spec: WhileBackSpec = _spec(w)
    first, last = spec.tests + spec.consts, spec.tests + spec.consts + spec.carry
    consts, outs = _names(xs[spec.tests : first]), list(w.outs)
    residuals = _open(spec.body)[spec.carry :]
    values = _test_loop(w, spec, _names(xs[: spec.tests]), consts, xs[first:last], [(INT64, ()), *residuals])
    steps, stacked = values[spec.carry], values[spec.carry + 1 :]
    count = Value(w, w.op("Size", steps.name), INT64)
    rest = iter(xs[last:])
    state = [
        w.full(out.shape, 0, out.dtype) if zero else next(rest) for zero, out in zip(spec.zeros, outs, strict=True)
    ]
    inputs, head = _enter(w, state, "carry"), _head(w)

    def step() -> list[str]:
        place = count - Value(w, head[0][0], INT64) - 1
        rows = [w.op("Gather", x.name, place.name, axis=0) for x in stacked]
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
        names = w.walk.write(w, bodies[k], operands)
        return [Value(w, name, dtype) for name, (dtype, _) in zip(names, results, strict=True)]
    here = w.body([], lambda: w.walk.write(w, bodies[k], operands), results)
    behind = w.body([], lambda: _names(_choose(w, index, bodies, k + 1, operands)), results)
    return _write_node(w, "If", [(index <= k).name], results, then_branch=here, else_branch=behind)


# --- Small matrices: factorizations and solutions, of which ONNX has none, column by column

MOST_ROWS = 32  # of a matrix: about 20 nodes each


def _rows(a: Value) -> int:
    n = a.shape[-1]
    if not isinstance(n, int) or n > MOST_ROWS:
        raise NoTemplateError(f"of matrices of more than {MOST_ROWS} rows, or of a dynamic number")
    return n


def _take_vector(x: Value, axis: int, k: int) -> Value:
    """Return one row (axis -2) or column (axis -1) of matrices, as a matrix."""
    place = len(x.shape) + axis
    shape = (*x.shape[:place], 1, *x.shape[place + 1 :])
    return attrs.evolve(slice_axes(x, {place: (k, k + 1, 1)}), shape=shape)


def _transpose(x: Value) -> Value:
    rank = len(x.shape)
    return x.transpose([*range(rank - 2), rank - 1, rank - 2])


def _numbers(x: Value, n: int) -> Value:
    """Return the number of each row, as a column."""
    return x.writer.array(np.arange(n)[:, None], "rows")


def _join(parts: list[Value], axis: int) -> Value:
    first, *rest = parts
    return first.op("Concat", *rest, axis=axis)


@rule("cholesky")
def _cholesky(w: OnnxWriter, a: Value) -> Value:
    n, columns = _rows(a), list[Value]()
    for k in range(n):
        column = _take_vector(a, -1, k)
        scaled = column / _take_vector(column, -2, k).op("Sqrt")
        columns.append(attrs.evolve(where(_numbers(a, n) >= k, scaled, 0.0), shape=column.shape))
        a = attrs.evolve(a - columns[-1] * _transpose(columns[-1]), shape=a.shape)
    return _join(columns, -1) if columns else w.full(a.shape, 0, a.dtype)


@rule("solve_triangular")
def _solve_triangular(w: OnnxWriter, a: Value, b: Value) -> Value:
    n, is_lower = _rows(a), w.params["lower"]
    rest, rows = w.expand(b, w.outs[0].shape), dict[int, Value]()
    for k in range(n) if is_lower else reversed(range(n)):
        column, row = _take_vector(a, -1, k), _take_vector(rest, -2, k)
        rows[k] = row if w.params["unit"] else row / _take_vector(column, -2, k)
        rest = attrs.evolve(rest - column * rows[k], shape=rest.shape)
    return _join([rows[k] for k in range(n)], -2) if n else rest


# -- elimination, with the largest element of each column as its pivot --
def _eliminate(x: Value, n: int, is_safe: bool) -> tuple[Value, list[Value], list[Value]]:
    """Return matrices whose first n columns became those of 1, the pivots, and whether rows were exchanged for each."""
    rows, pivots, swaps = _numbers(x, n), list[Value](), list[Value]()
    shape, w = x.shape, x.writer
    for k in range(n):
        sizes = where(rows >= k, abs(_take_vector(x, -1, k)), -1.0)
        place = sizes.op("ArgMax", dtype=np.int64, axis=-2, keepdims=1)
        swaps.append(~place.equals(k))
        order = where(rows.equals(k), place, where(rows.equals(place), k, rows))
        x = attrs.evolve(x.op("GatherElements", w.expand(order, shape), axis=-2), shape=shape)
        column, row = _take_vector(x, -1, k), _take_vector(x, -2, k)
        pivot = _take_vector(column, -2, k)
        pivots.append(pivot)
        row = row / (where(pivot.equals(0.0), 1.0, pivot) if is_safe else pivot)
        x = attrs.evolve(where(rows.equals(k), row, x - column * row), shape=shape)
    return x, pivots, swaps


def _solution(a: Value, b: Value, shape: tuple[Length, ...]) -> Value:
    n, w = _rows(a), a.writer
    if n == 0:
        return w.full(shape, 0, a.dtype)
    both = w.expand(a, (*shape[:-1], n)).op("Concat", w.expand(b, shape), axis=-1)
    eliminated, _, _ = _eliminate(attrs.evolve(both, shape=(*shape[:-1], n + shape[-1])), n, is_safe=False)
    return slice_axes(eliminated, {len(shape) - 1: (n, n + shape[-1], 1)})


@rule("solve", "solve_or_nan")
def _solve(w: OnnxWriter, a: Value, b: Value) -> Value:
    return _solution(a, b, w.outs[0].shape)


@rule("inv")
def _invert(w: OnnxWriter, a: Value) -> Value:
    return _solution(a, w.array(np.eye(_rows(a), dtype=a.dtype), "identity"), a.shape)


def _pivots(w: OnnxWriter, a: Value) -> tuple[Value, Value]:
    """Return the pivots of a matrix along a last axis, and the sign of its rows' order."""
    _, pivots, swaps = _eliminate(a, _rows(a), is_safe=True)
    sign = w.full((1, 1), 1, a.dtype)
    for swap in swaps:
        sign = sign * where(swap, -1.0, w.number(1.0, a.dtype))
    return _join(pivots, -1), sign


def _drop(w: OnnxWriter, x: Value, kind: str) -> Value:
    return x.op(kind, w.ints((-2, -1)), keepdims=0)


@rule("det")
def _det(w: OnnxWriter, a: Value) -> Value:
    if _rows(a) == 0:
        return w.full(w.outs[0].shape, 1, a.dtype)
    pivots, sign = _pivots(w, a)
    return _drop(w, pivots, "ReduceProd") * _drop(w, sign, "ReduceProd")


@rule("slogdet")
def _slogdet(w: OnnxWriter, a: Value) -> list[Value]:
    shape = w.outs[0].shape
    if _rows(a) == 0:
        return [w.full(shape, 1, a.dtype), w.full(shape, 0, a.dtype)]
    pivots, sign = _pivots(w, a)
    whole = _drop(w, pivots.op("Sign"), "ReduceProd") * _drop(w, sign, "ReduceProd")
    return [whole, _drop(w, abs(pivots).op("Log"), "ReduceSum")]
