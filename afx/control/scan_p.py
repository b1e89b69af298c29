"""The op behind `scan`: one equation that holds the graph of a step.

Operands are the values that the step closes over (constants), the first carry, and the arrays walked along. Its
derivatives are loops of the same kind: forward mode carries tangents beside values; reverse mode runs a loop that stacks
what the steps' pullbacks read, then one in the other direction that carries the cotangents of the carry and sums those
of the constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.compiler.control_flow import ScanSpec
from afx.compiler.cost import flops
from afx.control._subgraphs import Body, build, inexact, zeros_of
from afx.core.aval import Aval
from afx.core.graph import Var
from afx.core.interpreter import evaluate
from afx.core.primitive import Derivative, JointPullback, Lowering, Params, Primitive, Value, register
from afx.core.tracing.tracer import bind, to_array
from afx.ops.manipulation.shape import broadcast_to, permute_dims
from afx.transforms.compiled_call import CompiledGraph

__all__ = ["bind_scan", "run_scan", "step_of"]


def run_scan(body: Body, carry: Sequence[Any], xs: Sequence[Any], length: int, reverse: bool) -> list[Any]:
    """Bind a traced step, whose inputs are carry, elements and lifted values, as a loop."""
    return list(bind_scan(step_of(body), [*body.lifted], list(carry), list(xs), length, reverse))


def step_of(body: Body) -> CompiledGraph:
    """Return the program of a traced step with the lifted values in front."""
    avals = [v.aval for v in body.program.graph.inputs]
    nc = len(body.lifted)
    n = len(avals) - nc
    return build("scan", [*avals[n:], *avals[:n]], lambda *v: evaluate(body.program.graph, *v[nc:], *v[:nc]))


def bind_scan(
    body: CompiledGraph, consts: Sequence[Any], carry: Sequence[Any], xs: Sequence[Any], length: int, reverse: bool
) -> tuple[Any, ...]:
    """Bind a loop over a program of (constants, carry, elements) to (carry, results)."""
    outs: tuple[Any, ...] = bind(
        scan_p, *consts, *carry, *xs, body=body, counts=(len(consts), len(carry)), length=length, reverse=reverse
    )
    return outs


def _run(*ops: Any, body: CompiledGraph, counts: tuple[int, int], length: int, reverse: bool) -> tuple[Any, ...]:
    nc, nk = counts
    consts, carry, xs = ops[:nc], list(ops[nc : nc + nk]), ops[nc + nk :]
    plan = body.plan
    ys = [np.empty((length, *a.aval.shape), a.aval.dtype) for a in body.graph.outputs[nk:]]
    for t in range(length)[:: -1 if reverse else 1]:
        outs = plan(*consts, *carry, *[x[t] for x in xs])
        carry = outs[:nk]
        for y, row in zip(ys, outs[nk:], strict=True):
            y[t] = row
    return (*[np.array(c) for c in carry], *ys)


def _abstract(
    *avals: Aval, body: CompiledGraph, counts: tuple[int, int], length: int, reverse: bool
) -> tuple[Aval, ...]:
    outs = [a.aval for a in body.graph.outputs]
    return (*outs[: counts[1]], *[Aval((length, *a.shape), a.dtype) for a in outs[counts[1] :]])


def _parts(values: Sequence[Any], counts: tuple[int, int]) -> tuple[list[Any], list[Any], list[Any]]:
    nc, nk = counts
    return list(values[:nc]), list(values[nc : nc + nk]), list(values[nc + nk :])


def _moving(body: CompiledGraph, counts: tuple[int, int], given: Sequence[bool]) -> tuple[bool, ...]:
    """Return which inputs of the step have tangents: those that are given one, and every inexact carry."""
    nc, nk = counts
    return tuple(
        [
            (nc <= k < nc + nk or g) and inexact(v.aval)
            for k, (v, g) in enumerate(zip(body.graph.inputs, given, strict=True))
        ]
    )


def _jvp(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    body: CompiledGraph = params["body"]
    counts: tuple[int, int] = params["counts"]
    nk = counts[1]
    moving = _moving(body, counts, [t is not None for t in ts])
    pushed = body.jvp_graph(moving)
    consts, carry, rows = _parts(xs, counts)
    tangents = [
        to_array(t) if t is not None else zeros_of(x) if m else None for t, x, m in zip(ts, xs, moving, strict=True)
    ]
    tc, tk, tx = ([t for t in part if t is not None] for part in _parts(tangents, counts))
    avals = [v.aval for v in body.graph.inputs]
    ac, ak, ax = _parts(avals, counts)
    dc, dk, dx = (
        [a for a, m in zip(p, q, strict=True) if m]
        for p, q in zip(_parts(avals, counts), _parts(moving, counts), strict=True)
    )

    def step(*v: Any) -> list[Any]:
        it = iter(v)
        c, uc, k, uk, x, ux = ([next(it) for _ in part] for part in (ac, dc, ak, dk, ax, dx))
        outs = evaluate(pushed.program.graph, *c, *k, *x, *uc, *uk, *ux)
        n = len(body.graph.outputs)
        slopes = iter(outs[n:])
        found = [next(slopes) if m else zeros_of(a.aval) for m, a in zip(pushed.moves, body.graph.outputs, strict=True)]
        kept = [t for t, a in zip(found[:nk], ak, strict=True) if inexact(a)]
        return [*outs[:nk], *kept, *outs[nk:n], *found[nk:]]

    program = build("forward mode of scan", [*ac, *dc, *ak, *dk, *ax, *dx], step)
    outs = list(bind_scan(program, [*consts, *tc], [*carry, *tk], [*rows, *tx], params["length"], params["reverse"]))
    ny = len(body.graph.outputs) - nk
    values = outs[:nk] + outs[nk + len(dk) : nk + len(dk) + ny]
    moved = iter(outs[nk : nk + len(dk)])
    slopes = [next(moved) if inexact(a) else None for a in ak] + list(outs[nk + len(dk) + ny :])
    return values, slopes


def _record(
    xs: tuple[Value, ...], params: Params, wanted: tuple[bool, ...]
) -> tuple[Sequence[Value], Sequence[Value], JointPullback]:
    body: CompiledGraph = params["body"]
    counts: tuple[int, int] = params["counts"]
    nc, nk = counts
    length, reverse = params["length"], params["reverse"]
    moving = _moving(body, counts, wanted)
    pair = body.vjp_graphs(moving)
    consts, carry, rows = _parts(xs, counts)
    count = len(body.graph.outputs)
    residuals = pair.forward.graph.outputs[count:]
    # a residual that is a constant of the loop is not stacked
    fixed = [isinstance(a, Var) and a.index < nc for a in residuals]
    stacked = build(
        "forward pass of scan",
        [v.aval for v in body.graph.inputs],
        lambda *v: _unfixed(evaluate(pair.forward.graph, *v), count, fixed),
    )
    outs = list(bind_scan(stacked, consts, carry, rows, length, reverse))
    invariant = [consts[a.index] for a, f in zip(residuals, fixed, strict=True) if f and isinstance(a, Var)]
    backward = _backward_body(body, counts, pair, moving, fixed)

    def joint(ct: Value, z: Value, kept: tuple[Value, ...], _: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        held = [to_array(v) for v in kept]
        ct_carry = [
            to_array(c) for c, v in zip(ct[:nk], body.graph.inputs[nc : nc + nk], strict=True) if inexact(v.aval)
        ]
        sums = [zeros_of(v.aval) for v, m in zip(body.graph.inputs[:nc], moving[:nc], strict=True) if m]
        cts = [to_array(c) for c, o in zip(ct[nk:], pair.owned[nk:], strict=True) if o]
        found = iter(
            bind_scan(
                backward,
                held[: len(invariant)],
                [*ct_carry, *sums],
                [*held[len(invariant) :], *cts],
                length,
                not reverse,
            )
        )
        carries = [next(found) if inexact(v.aval) else None for v in body.graph.inputs[nc : nc + nk]]
        total = [next(found) if m else None for m in moving[:nc]]
        elements = [next(found) if m else None for m in moving[nc + nk :]]
        return [*total, *carries, *elements]

    return outs[:count], [*invariant, *outs[count:]], joint


def _unfixed(outs: Sequence[Any], count: int, fixed: Sequence[bool]) -> list[Any]:
    return [*outs[:count], *[z for z, f in zip(outs[count:], fixed, strict=True) if not f]]


def _backward_body(
    body: CompiledGraph, counts: tuple[int, int], pair: Any, moving: tuple[bool, ...], fixed: Sequence[bool]
) -> CompiledGraph:
    """Return one step back: (invariant residuals; cotangents of the carry, sums for constants; residuals, cotangents)."""
    nc, nk = counts
    inputs, outputs = body.graph.inputs, body.graph.outputs
    count = len(outputs)
    kept = [a.aval for a in pair.forward.graph.outputs[count:]]
    invariant = [a for a, f in zip(kept, fixed, strict=True) if f]
    stacked = [a for a, f in zip(kept, fixed, strict=True) if not f]
    carry = [v.aval for v in inputs[nc : nc + nk] if inexact(v.aval)]
    sums = [v.aval for v, m in zip(inputs[:nc], moving[:nc], strict=True) if m]
    cts = [a.aval for a, o in zip(outputs[nk:], pair.owned[nk:], strict=True) if o]

    def step(*v: Any) -> list[Any]:
        it = iter(v)
        same, ct_carry, acc, rows, ct_y = ([next(it) for _ in part] for part in (invariant, carry, sums, stacked, cts))
        a, b = iter(same), iter(rows)
        residuals = [next(a) if f else next(b) for f in fixed]
        incoming = iter(ct_carry)
        carried = [next(incoming) if inexact(x.aval) else None for x in inputs[nc : nc + nk]]
        given = [c for c, o in zip(carried, pair.owned[:nk], strict=True) if o]
        cts_in: list[Any] = [*given, *ct_y]
        found = iter(evaluate(pair.back.graph, *residuals, *cts_in))
        pulled = [next(found) if n else None for n in pair.needed]
        zero = [zeros_of(x.aval) if g is None else g for g, x in zip(pulled, inputs, strict=True)]
        out_carry = [g for g, x in zip(zero[nc : nc + nk], inputs[nc : nc + nk], strict=True) if inexact(x.aval)]
        told = [g for g, m in zip(pulled[:nc], moving[:nc], strict=True) if m]
        total = [s if g is None else s + g for s, g in zip(acc, told, strict=True)]
        elements = [g for g, m in zip(zero[nc + nk :], moving[nc + nk :], strict=True) if m]
        return [*out_carry, *total, *elements]

    return build("backward pass of scan", [*invariant, *carry, *sums, *stacked, *cts], step)


def _batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    body: CompiledGraph = params["body"]
    counts: tuple[int, int] = params["counts"]
    nc, nk = counts
    consts, carry, rows = _parts(xs, counts)
    flags = (*batched[:nc], *[True] * nk, *batched[nc + nk :])
    carry = [c if b else broadcast_to(c, (size, *c.shape)) for c, b in zip(carry, batched[nc : nc + nk], strict=True)]
    rows = [_exchanged(x) if b else x for x, b in zip(rows, batched[nc + nk :], strict=True)]
    outs = bind_scan(body.batched(size, flags), consts, carry, rows, params["length"], params["reverse"])
    return (*outs[:nk], *[_exchanged(y) for y in outs[nk:]])


def _exchanged(x: Any) -> Any:
    """Return x with its first two axes exchanged."""
    return permute_dims(x, (1, 0, *range(2, x.ndim)))


def _control(params: Params) -> ScanSpec:
    consts, carry = params["counts"]
    return ScanSpec(params["body"].graph, consts, carry, params["length"], params["reverse"])


scan_p = register(
    Primitive(
        name="scan",
        kind="custom",
        impl=_run,
        abstract_eval=_abstract,
        batch=_batch,
        multiple_results=True,
        derivative=Derivative(concrete_vjp=_record, jvp=_jvp),
        lowering=Lowering(
            flops=lambda _, params: params["length"] * flops(params["body"].graph),
            control=_control,
        ),
    )
)
