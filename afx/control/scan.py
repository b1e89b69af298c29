"""Scan: a loop over the first axis of arrays that carries a value along, step by step or in logarithmic depth."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from afx import pytree
from afx.compiler.schedule.cost import flops
from afx.compiler.schedule.schedule import ScanSpec
from afx.control._subgraphs import (
    Body,
    as_strong_arrays,
    batched_body,
    body_of,
    build,
    check_same,
    consts_first,
    full_mask,
    inexact,
    is_abstract,
    mark_effects,
    resolve_weak_carry,
    run_step,
    zeros_of,
)
from afx.core import Array, Aval, aval_of, bind, integer, normalize_axis, to_array
from afx.core.graph import Var
from afx.core.primitive import Bools, JointPullback, Lowering, Params, Primitive, Tangents, Value, Values, to_argument
from afx.core.tracing.traces import Unbatched, evaluate
from afx.errors import ArgumentError, ConcreteValueError, ShapeError, TreeError
from afx.ops import asarray, broadcast_to, concat, flip, moveaxis, permute_dims, reshape, stack, unstack, zeros
from afx.ops._kinds.linear import higher_order
from afx.pytree import Tree
from afx.transforms._arguments import check_callable, name_of, pair_of
from afx.transforms.checkpoint import checkpoint as checkpointed
from afx.transforms.compile.compiled_call import CompiledGraph, VjpGraphs
from afx.transforms.derivatives.cotangent_masks import ALIVE, DEAD, MARKED, GraphPullback, kinds_of
from afx.transforms.derivatives.nan_check import check_nan

# --- Scan primitive: one equation that holds the graph of a step
#
# Operands are the values that the step closes over (constants), the first carry, and the arrays walked along. Its
# derivatives are loops of the same kind: forward mode carries tangents beside values; reverse mode runs a loop that
# stacks the residuals of the steps. A loop in the other direction then carries the cotangents of the carry and sums
# those of the constants.


def run_scan(body: Body, carry: Sequence[Any], xs: Sequence[Any], length: int, reverse: bool) -> list[Any]:
    """Bind a traced step, whose inputs are carry, elements and lifted values, as a loop."""
    return list(bind_scan(step_of(body), [*body.lifted], list(carry), list(xs), length, reverse))


def step_of(body: Body) -> CompiledGraph:
    """Return the program of a traced step with the lifted values in front."""
    return consts_first(body, len(body.program.graph.inputs) - len(body.lifted))


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
    consts, carry, xs = [*map(to_argument, ops[:nc])], list(ops[nc : nc + nk]), ops[nc + nk :]
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


def _runs(values: Sequence[Any], *parts: Sequence[Any]) -> list[list[Any]]:
    """Return consecutive runs of values, as many in each as a part has."""
    ends = itertools.accumulate(map(len, parts))
    return [list(values[end - len(part) : end]) for part, end in zip(parts, ends, strict=True)]


def _spread(values: Sequence[Any], flags: Iterable[bool]) -> list[Any]:
    """Return values one after another where flags are set, None elsewhere."""
    given = iter(values)
    return [next(given) if flag else None for flag in flags]


def _parts(values: Sequence[Any], counts: tuple[int, int]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return operands for the constants, the carry and the rows, by the numbers of the first two."""
    nc, nk = counts
    return list(values[:nc]), list(values[nc : nc + nk]), list(values[nc + nk :])


def _moving(body: CompiledGraph, counts: tuple[int, int], given: Sequence[bool]) -> Bools:
    """Return which inputs of the step have tangents: those that are given one, and every inexact carry."""
    nc, nk = counts
    return tuple(
        [
            (nc <= k < nc + nk or g) and inexact(v.aval)
            for k, (v, g) in enumerate(zip(body.graph.inputs, given, strict=True))
        ]
    )


def _jvp(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    """Push tangents through the loop: one loop that carries values and their tangents side by side."""
    body: CompiledGraph = params["body"]
    counts: tuple[int, int] = params["counts"]
    moving = _moving(body, counts, [t is not None for t in ts])
    consts, carry, rows = _parts(xs, counts)
    tangents = [
        to_array(t) if t is not None else zeros_of(x) if m else None for t, x, m in zip(ts, xs, moving, strict=True)
    ]
    dc, dk, dx = ([t for t in part if t is not None] for part in _parts(tangents, counts))
    program = _push_step(body, counts, moving)
    outs = bind_scan(program, [*consts, *dc], [*carry, *dk], [*rows, *dx], params["length"], params["reverse"])
    of_step = body.graph.outputs[counts[1] :]  # behind the carry
    last, last_ts, ys, ys_ts = _runs(outs, carry, dk, of_step, of_step)
    return last + ys, _spread(last_ts, [inexact(aval_of(c)) for c in carry]) + ys_ts


def _push_step(body: CompiledGraph, counts: tuple[int, int], moving: Bools) -> CompiledGraph:
    """Return the step that carries values and their tangents side by side."""
    pushed, nk = body.jvp_graph(moving), counts[1]
    avals, ys = [v.aval for v in body.graph.inputs], body.graph.outputs[nk:]
    ac, ak, ax = _parts(avals, counts)
    dc, dk, dx = (
        [a for a, m in zip(p, q, strict=True) if m]
        for p, q in zip(_parts(avals, counts), _parts(moving, counts), strict=True)
    )

    def step(*v: Any) -> list[Any]:
        c, uc, k, uk, x, ux = _runs(v, ac, dc, ak, dk, ax, dx)
        outs = evaluate(pushed.program.graph, *c, *k, *x, *uc, *uk, *ux)
        given = _spread(outs[nk + len(ys) :], pushed.moves)
        slopes = [zeros_of(a.aval) if t is None else t for t, a in zip(given, body.graph.outputs, strict=True)]
        tangents = [t for t, a in zip(slopes[:nk], ak, strict=True) if inexact(a)]
        return [*outs[:nk], *tangents, *outs[nk : nk + len(ys)], *slopes[nk:]]

    return build("forward mode of scan", [*ac, *dc, *ak, *dk, *ax, *dx], step)


def _record(xs: Values, params: Params, wanted: Bools) -> tuple[Sequence[Value], Sequence[Value], JointPullback]:
    """Return the outputs of a loop that stacks what its backward loop reads, these residuals, and that loop as the pullback."""
    body: CompiledGraph = params["body"]
    counts: tuple[int, int] = params["counts"]
    length, reverse = params["length"], params["reverse"]
    moving = _moving(body, counts, wanted)
    pair = body.vjp_graphs(moving, counts[0])
    stacked, places = _stack_residuals(body, pair, counts[0])
    consts, carry, rows = _parts(xs, counts)
    outs = list(bind_scan(stacked, consts, carry, rows, length, reverse))
    invariant, fixed = [consts[k] for k in places if k is not None], [k is not None for k in places]

    def joint(ct: Value, z: Value, residuals: Values, _: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        kinds, cts = kinds_of(ct), [to_array(c) for c in ct if c is not None]
        back = _BackwardLoop(body, counts, pair, pair.living_inputs(kinds, *counts), fixed, kinds)
        return back.pull([to_array(v) for v in residuals], cts, (length, not reverse))

    def masked(
        kinds: Sequence[int], cts: Sequence[Value], masks: Sequence[Value], residuals: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        back = _BackwardLoop(body, counts, pair, moving, fixed, kinds)
        return back.pull_masked(residuals, cts, masks, (length, not reverse))

    count = len(body.graph.outputs)
    back = GraphPullback(joint, masked, makes_masks=pair.makes_masks, is_bounded=pair.is_bounded)
    return outs[:count], [*invariant, *outs[count:]], back


def _stack_residuals(body: CompiledGraph, pair: VjpGraphs, constants: int) -> tuple[CompiledGraph, list[int | None]]:
    """Return the step that gives its residuals too, but those that are constants of the loop, and which these are."""
    count = len(body.graph.outputs)
    residuals = pair.forward.graph.outputs[count:]
    places = [a.index if isinstance(a, Var) and a.index < constants else None for a in residuals]

    def step(*v: Any) -> list[Any]:
        outs = evaluate(pair.forward.graph, *v)
        return [*outs[:count], *[z for z, k in zip(outs[count:], places, strict=True) if k is None]]

    return build("forward pass of scan", [v.aval for v in body.graph.inputs], step), places


class _BackwardLoop:
    """The loop that carries cotangents back, and where some of them are masked, where they are alive."""

    def __init__(
        self,
        body: CompiledGraph,
        counts: tuple[int, int],
        pair: VjpGraphs,
        needed: Sequence[bool],
        fixed: Sequence[bool],
        kinds: Sequence[int],
    ) -> None:
        self.inputs, self.outputs = body.graph.inputs, body.graph.outputs
        self.nc, self.nk = counts
        self.pair, self.fixed, self.kinds = pair, fixed, kinds
        self.needed = needed
        carry = self.inputs[self.nc : self.nc + self.nk]
        self.carried = [k for k, v in enumerate(carry) if inexact(v.aval) and (kinds[k] or needed[self.nc + k])]
        self.carry = [carry[k].aval for k in self.carried]
        self.summed = [k for k in range(self.nc) if needed[k]]
        self.sums = [self.inputs[k].aval for k in self.summed]
        self.walked = [k for k in range(self.nc + self.nk, len(self.inputs)) if needed[k]]

    def pull(self, residuals: Sequence[Any], cts: Sequence[Any], steps: tuple[int, bool]) -> list[Any]:
        """Return one cotangent per operand of the forward loop, None where only outputs without one read it."""
        n = self.fixed.count(True)
        given = self._by_output(cts, ALIVE)
        state: Sequence[Any] = self._first_state(given)
        rows = [*residuals[n:], *self._owned_rows(given)]
        alive = [ALIVE if k in self.carried else DEAD for k in range(self.nk)]
        count, reverse = steps
        ends: list[Sequence[Any]] = []
        live = self.kinds[: self.nk]
        while [*live] != alive and len(ends) < min(count, self.nk) and not self.pair.is_bounded:
            # what no later step reads has no cotangent yet, and the partials of this one may be infinite
            k = count - 1 - len(ends) if reverse else len(ends)
            results = evaluate(self.step(live, marked=False).graph, *residuals[:n], *state, *[r[k] for r in rows])
            state = results[: len(state)]
            ends.append(results[len(state) :])
            needed = self.pair.partial([*live, *self.kinds[self.nk :]]).needed[self.nc : self.nc + self.nk]
            live = [ALIVE if flag else DEAD for flag in needed]
        rest = [r[: count - len(ends)] if reverse else r[len(ends) :] for r in rows] if ends else rows
        outs = bind_scan(self.step(alive, marked=False), residuals[:n], state, rest, count - len(ends), reverse)
        columns = [[y] for y in outs[len(state) :]]
        for end in ends[::-1]:
            columns = [[*c, y[None]] if reverse else [y[None], *c] for c, y in zip(columns, end, strict=True)]
        walked = [c[0] if len(c) == 1 else concat(c) for c in columns]
        placed = self._placed(outs[: len(self.carried)], outs[len(self.carried) : len(state)], walked)
        return [g if flag or count == 0 else None for g, flag in zip(placed, self.needed, strict=True)]

    def pull_masked(
        self, residuals: Sequence[Any], cts: Sequence[Any], masks: Sequence[Any], steps: tuple[int, bool]
    ) -> tuple[list[Any], list[Any]]:
        """Return one cotangent and one mask (or None) per operand of the forward loop."""
        n = self.fixed.count(True)
        by_output, alive = self._by_output(cts, ALIVE), self._by_output(masks, MARKED)
        state = self._first_state(by_output)
        for k, aval in zip(self.carried, self.carry, strict=True):
            state.append(np.full(aval.shape, self.kinds[k] == ALIVE) if alive[k] is None else alive[k])
        state += [np.zeros(a.shape, bool) for a in self.sums]
        rows = [*residuals[n:], *self._owned_rows(by_output), *self._owned_rows(alive)]
        program = self.step([MARKED] * self.nk, marked=True)
        outs = bind_scan(program, residuals[:n], state, rows, *steps)
        parts = (self.carried, self.summed, self.carried, self.summed, self.walked, self.walked)
        carries, totals, own, seen, walked, marks = _runs(outs, *parts)
        return self._placed(carries, totals, walked), self._placed(own, seen, marks)

    def _by_output(self, values: Sequence[Any], least: int) -> list[Any]:
        """Return the values that outputs of a kind have, None for the others."""
        return _spread(values, [kind >= least for kind in self.kinds])

    def _first_state(self, by_output: Sequence[Any]) -> list[Any]:
        first = [
            zeros_of(a) if by_output[k] is None else by_output[k] for k, a in zip(self.carried, self.carry, strict=True)
        ]
        return [*first, *map(zeros_of, self.sums)]

    def _owned_rows(self, values: Sequence[Any]) -> list[Any]:
        pairs = list(zip(values, self.pair.owned, strict=True))[self.nk :]
        return [v for v, own in pairs if v is not None and own]

    def _placed(self, carries: Sequence[Any], totals: Sequence[Any], elements: Sequence[Any]) -> list[Any]:
        places = [*[self.nc + k for k in self.carried], *self.summed, *self.walked]
        by_place = dict(zip(places, [*carries, *totals, *elements], strict=True))
        return [by_place.get(k) for k in range(len(self.inputs))]

    def step(self, alive: Sequence[int], *, marked: bool) -> CompiledGraph:
        """Return one step back, for a carry of which some parts are alive.

        Its inputs are residuals that do not change; cotangents of the carry, sums for constants, and where marked the
        masks of both; the other residuals, cotangents and masks of the results.
        """
        saved = [a.aval for a in self.pair.forward.graph.outputs[len(self.outputs) :]]
        invariant = [a for a, f in zip(saved, self.fixed, strict=True) if f]
        stacked = [a for a, f in zip(saved, self.fixed, strict=True) if not f]
        kinds = [kind if own else DEAD for kind, own in zip(self.kinds, self.pair.owned, strict=True)][self.nk :]
        ends = [(a.aval, kind) for a, kind in zip(self.outputs[self.nk :], kinds, strict=True)]
        cts = [a for a, kind in ends if kind]
        marks = [_mask_of(a) for a, kind in ends if kind >= MARKED]
        masks = [_mask_of(a) for a in (*self.carry, *self.sums)] if marked else []
        owned = [k for k in self.carried if self.pair.owned[k] and alive[k]]
        inner = [alive[k] if k in owned else DEAD for k in range(self.nk)]
        back = (self.pair.masked if marked else self.pair.partial)([*inner, *kinds])
        parts = (invariant, self.carry, self.sums, masks, stacked, cts, marks)

        def run(*v: Any) -> list[Any]:
            same, ct_carry, acc, own, rows, ct_y, mask_y = _runs(v, *parts)
            changing = _spread(rows, [not f for f in self.fixed])
            residuals = [a if f else b for f, a, b in zip(self.fixed, _spread(same, self.fixed), changing, strict=True)]
            given = [c for k, c in zip(self.carried, ct_carry, strict=True) if k in owned]
            seen = [m for k, m in zip(self.carried, own, strict=False) if k in owned]
            pulled, alive = back.sort(evaluate(back.program.graph, *residuals, *given, *ct_y, *seen, *mask_y))
            full = [zeros_of(x.aval) if g is None else g for g, x in zip(pulled, self.inputs, strict=True)]
            total = [s if pulled[k] is None else s + pulled[k] for k, s in zip(self.summed, acc, strict=True)]
            outs = [*[full[self.nc + k] for k in self.carried], *total]
            walked = [full[k] for k in self.walked]
            return [*outs, *self._next_masks(pulled, alive, own, walked)] if marked else [*outs, *walked]

        return build("backward pass of scan", [*itertools.chain.from_iterable(parts)], run)

    def _next_masks(
        self, pulled: Sequence[Any], alive: Sequence[Any], own: Sequence[Any], walked: Sequence[Any]
    ) -> list[Any]:
        """Return the masks of what is carried back, then the cotangents of elements and their masks."""
        each = [full_mask(g, m, x.aval) for g, m, x in zip(pulled, alive, self.inputs, strict=True)]
        sums = [s | each[k] for k, s in zip(self.summed, own[len(self.carry) :], strict=True)]
        return [*[each[self.nc + k] for k in self.carried], *sums, *walked, *[each[k] for k in self.walked]]


def _mask_of(aval: Aval) -> Aval:
    return Aval(aval.shape, np.dtype(bool))


def _batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    body: CompiledGraph = params["body"]
    counts: tuple[int, int] = params["counts"]
    nc, nk = counts
    consts, carry, rows = _parts(xs, counts)
    program, flags = batched_body(body, size, batched, (nc, nc + nk))
    spread = [f and not b for f, b in zip(flags, batched[nc : nc + nk], strict=False)]
    carry = [broadcast_to(c, (size, *c.shape)) if s else c for c, s in zip(carry, spread, strict=True)]
    rows = [_swap_axes(x) if b else x for x, b in zip(rows, batched[nc + nk :], strict=True)]
    outs = bind_scan(program, consts, carry, rows, params["length"], params["reverse"])
    results = [_swap_axes(z) if k >= nk and f else z for k, (z, f) in enumerate(zip(outs, flags, strict=True))]
    return tuple([z if f else Unbatched(z) for z, f in zip(results, flags, strict=True)])


def _swap_axes(x: Any) -> Any:
    """Return x with its first two axes exchanged."""
    return permute_dims(x, (1, 0, *range(2, x.ndim)))


def _control(params: Params) -> ScanSpec:
    consts, carry = params["counts"]
    return ScanSpec(params["body"].graph, consts, carry, params["length"], params["reverse"])


scan_p: Primitive = higher_order(
    "scan",
    _run,
    _abstract,
    _batch,
    _record,
    _jvp,
    lowering=Lowering(flops=lambda _, params: params["length"] * flops(params["body"].graph), control=_control),
)


# --- Scan

C = TypeVar("C")
Y = TypeVar("Y")


@overload
def scan(  # of an array, so that a lambda's element has a type
    fn: Callable[[C, Array], tuple[C, Y]],
    init: C,
    xs: Array,
    length: int | None = None,
    *,
    reverse: bool = False,
    checkpoint: int | None = None,
) -> tuple[C, Y]: ...
@overload
def scan(
    fn: Callable[[C, Any], tuple[C, Y]],
    init: C,
    xs: Tree = None,
    length: int | None = None,
    *,
    reverse: bool = False,
    checkpoint: int | None = None,
) -> tuple[C, Y]: ...
def scan(
    fn: Callable[[C, Any], tuple[C, Y]],
    init: C,
    xs: Tree = None,
    length: int | None = None,
    *,
    reverse: bool = False,
    checkpoint: int | None = None,
) -> tuple[C, Y]:
    """Run ``carry, y = fn(carry, x)`` over the first axis of ``xs`` and return the last carry and the stacked ys.

    Under `jit` and `trace` it is one equation, however long it is; elsewhere a Python loop, so that Python control
    flow works inside.

    Args:
        fn: one step; the carry keeps its structure, shapes and dtypes.
        init: the first carry, any pytree.
        xs: a pytree of arrays of the same first length; None where there is nothing to walk along.
        length: the number of steps, needed where ``xs`` is None.
        reverse: walks from the last element to the first; ys keep the order of xs.
        checkpoint: keeps only every so many carries for reverse mode and computes the steps between again, which
            bounds memory; the square root of the length is a good choice.

    Raises:
        ArgumentError: the number of steps is unknown or negative.
        ShapeError: first lengths differ, or the carry changes its shape or dtype; the message names the path.
        TreeError: the carry changes its structure.

    >>> import afx
    >>> scan(lambda c, x: (c + x, c), 0.0, afx.asarray([1.0, 2.0, 3.0]))
    (Array(6., dtype=float32), Array([0., 1., 3.], dtype=float32))
    """
    check_callable(fn, "scan")
    length = None if length is None else integer(length, "scan", "length")
    checkpoint = None if checkpoint is None else integer(checkpoint, "scan", "checkpoint")
    flat, tree = pytree.flatten(xs)
    leaves = as_strong_arrays(flat)
    count = _length(leaves, tree, length)
    first, carry_tree = pytree.flatten(init)
    carry = _resolve_weak_carry(fn, first, carry_tree, leaves, tree, -1 if reverse else 0)
    if checkpoint is not None and checkpoint < count:
        return _scan_in_chunks(fn, pytree.unflatten(carry_tree, carry), leaves, tree, count, checkpoint, reverse)
    if any(map(is_abstract, [*carry, *leaves])):
        return _bind_scan(fn, carry, carry_tree, leaves, tree, count, reverse)
    result = _plain(fn, carry, carry_tree, leaves, tree, count, reverse)
    check_nan("scan", functools.partial(scan, fn, length=length, reverse=reverse), (init, xs), {}, result)
    return result


def _resolve_weak_carry(
    fn: Any, first: Sequence[Any], carry_tree: Any, leaves: Sequence[Array], tree: Any, start: int
) -> list[Array]:
    """Return the first carry; Python numbers in it take the dtype that the first step, at ``start``, gives them."""
    if not any(aval_of(x, "scan").weak for x in first):
        return as_strong_arrays(first)

    def step(c: Any, *row: Any) -> Any:
        out = fn(c, pytree.unflatten(tree, list(row)))
        return out[0] if isinstance(out, tuple) and len(out) == 2 else c  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # a user's value; the loop refuses another

    rows = [x[start] if x.shape[0] else zeros(x.shape[1:], x.dtype) for x in leaves]
    return resolve_weak_carry(step, first, carry_tree, f"scan of {name_of(fn)}", rows)


def _length(leaves: Sequence[Array], tree: Any, length: int | None) -> int:
    if length is not None and length < 0:
        raise ArgumentError(f"scan: length is a number of steps: got {length}; give 0 or more")
    lengths = {} if length is None else {"length": length}
    for path, x in zip(pytree.paths(tree), leaves, strict=True):
        if not x.ndim:
            raise ShapeError(f"scan: xs{path} has no axis to walk along: got {x.aval}; close over it instead")
        lengths[f"xs{path}"] = x.shape[0]
    if not lengths:
        raise ArgumentError("scan: the number of steps is unknown: got xs without arrays; give length=")
    if len(set(lengths.values())) > 1:
        got = ", ".join(f"{k} {n}" for k, n in lengths.items())
        raise ShapeError(f"scan: lengths of the first axis differ: got {got}; make them equal")
    return next(iter(lengths.values()))


def _pair(out: Any, fn: Any) -> tuple[Any, Any]:
    return pair_of(out, name_of(fn), "(carry, y)", "scan")


def _plain(
    fn: Any, carry: list[Array], carry_tree: Any, leaves: list[Array], tree: Any, count: int, reverse: bool
) -> tuple[Any, Any]:
    """Run the loop in Python; where values turn out to be unknown after its first step, as an equation."""
    rows = [unstack(x) for x in leaves]
    start = carry
    ys: list[list[Any]] = []
    ys_tree: Any = None
    drop_effects = mark_effects()
    for t in range(count)[:: -1 if reverse else 1]:
        x = pytree.unflatten(tree, [r[t] for r in rows])
        new, y = _pair(run_step(carry, fn, pytree.unflatten(carry_tree, carry), x), fn)
        new_leaves, found_tree = pytree.flatten(new)
        check_same(new_leaves, found_tree, carry, carry_tree, "scan", "the carry")
        carry = as_strong_arrays(new_leaves)
        row, out_tree = pytree.flatten(y)
        _check_outputs(out_tree, ys_tree if ys else out_tree)
        ys_tree = out_tree
        ys.append(row)
        if len(ys) == 1 and any(map(is_abstract, [*carry, *row])):  # it closes over unknown values
            drop_effects()
            return _bind_scan(fn, start, carry_tree, leaves, tree, count, reverse)
    if not ys:
        return _empty(fn, carry, carry_tree, leaves, tree)
    columns = zip(*ys[:: -1 if reverse else 1], strict=True)
    return pytree.unflatten(carry_tree, carry), pytree.unflatten(ys_tree, [stack(as_strong_arrays(c)) for c in columns])


def _check_outputs(found: Any, before: Any) -> None:
    if found != before:
        raise TreeError(f"scan: the outputs change their structure: got {found} after {before}; return the same tree")


def _body(fn: Any, carry: Sequence[Array], carry_tree: Any, leaves: Sequence[Array], tree: Any) -> Any:
    avals = [aval_of(c) for c in carry] + [Aval(x.shape[1:], x.dtype) for x in leaves]
    pair = pytree.structure((pytree.unflatten(carry_tree, list(carry)), pytree.unflatten(tree, list(leaves))))

    def step(c: Any, x: Any) -> Any:
        new, y = _pair(fn(c, x), fn)
        new_leaves, found_tree = pytree.flatten(new)
        check_same(new_leaves, found_tree, carry, carry_tree, "scan", "the carry")
        return new_leaves, y

    return body_of(step, pair, avals, f"scan of {name_of(fn)}")


def _bind_scan(
    fn: Any, carry: list[Array], carry_tree: Any, leaves: list[Array], tree: Any, count: int, reverse: bool
) -> tuple[Any, Any]:
    """Run the loop as one equation."""
    body = _body(fn, carry, carry_tree, leaves, tree)
    last, ys = pytree.unflatten(body.out_tree, run_scan(body, carry, leaves, count, reverse))
    return pytree.unflatten(carry_tree, last), ys


def _empty(fn: Any, carry: list[Array], carry_tree: Any, leaves: list[Array], tree: Any) -> tuple[Any, Any]:
    """Return the carry unchanged and ys of length 0, with shapes from a trace of one step."""
    body = _body(fn, carry, carry_tree, leaves, tree)
    avals = [a.aval for a in body.program.graph.outputs]
    _, ys = pytree.unflatten(body.out_tree, [zeros((0, *a.shape), a.dtype) for a in avals])
    return pytree.unflatten(carry_tree, carry), ys


def _scan_in_chunks(
    fn: Any, carry: Any, leaves: list[Array], tree: Any, count: int, every: int, reverse: bool
) -> tuple[Any, Any]:
    """Run the loop in checkpointed pieces: reverse mode keeps the carry at their borders alone."""
    if every < 1:
        raise ArgumentError(f"scan: checkpoint is a number of steps: got {every}; give 1 or more")
    piece = _piece(fn, carry, leaves, tree, reverse)
    pieces: list[Any] = []
    starts = range(0, count, every)
    for start in starts[:: -1 if reverse else 1]:
        part = [x[start : start + every] for x in leaves]
        carry, ys = piece(carry, part, min(every, count - start))
        pieces.append(ys)
    return carry, pytree.map(lambda *parts: _stack_rows(parts), *pieces[:: -1 if reverse else 1])


def _piece(fn: Any, carry: Any, leaves: list[Array], tree: Any, reverse: bool) -> Callable[[Any, Any, int], Any]:
    """Return the run of some steps as one checkpointed op: a compiled loop, or Python where a step has branches."""
    first, carry_tree = pytree.flatten(carry)
    try:
        body = _body(fn, as_strong_arrays(first), carry_tree, leaves, tree)
    except ConcreteValueError:

        def slow(c: Any, part: Any, length: int) -> Any:
            def run(c: Any, xs: Any) -> Any:
                return scan(fn, c, xs, length, reverse=reverse)

            return checkpointed(run)(c, pytree.unflatten(tree, part))

        return slow
    step = step_of(body)

    def fast(c: Any, part: Any, length: int) -> Any:
        @checkpointed
        def run(consts: list[Any], flat: list[Any], xs: list[Any]) -> list[Any]:
            return list(bind_scan(step, consts, flat, xs, length, reverse))

        last, ys = pytree.unflatten(body.out_tree, run(body.lifted, pytree.leaves(c), part))
        return pytree.unflatten(carry_tree, last), ys

    return fast


def _stack_rows(parts: Sequence[Any]) -> Array:
    rows = [row for part in parts for row in unstack(part)]
    return stack(rows)


# --- Associative scan: running results of an associative operation in logarithmic depth

T = TypeVar("T")


def associative_scan(fn: Callable[[T, T], T], elems: T, *, reverse: bool = False, axis: int = 0) -> T:
    """Return the running results ``x0, fn(x0, x1), fn(fn(x0, x1), x2) …`` along an axis.

    The pairs are combined as a tree (Blelloch 1990): ``fn`` is called about 2·log₂(n) times, on whole arrays.

    Args:
        fn: an associative function of two trees of arrays, elementwise along the axis.
        elems: a tree of arrays of the same length along the axis.
        reverse: runs from the last element to the first.
        axis: the axis to run along.

    Raises:
        ShapeError, TreeError: the lengths differ, or ``fn`` returns another structure, shape or dtype than it got.

    >>> import afx
    >>> associative_scan(afx.add, afx.asarray([1.0, 2.0, 3.0]))
    Array([1., 3., 6.], dtype=float32)
    """
    check_callable(fn, "associative_scan")
    flat, tree = pytree.flatten(elems)
    leaves = [asarray(x) for x in flat]
    if not leaves:
        raise ArgumentError("associative_scan: nothing to scan: got a tree without arrays; give at least one array")
    fronts = [moveaxis(x, normalize_axis(axis, x.ndim, "associative_scan"), 0) for x in leaves]
    if len({x.shape[0] for x in fronts}) > 1:
        got = ", ".join(str(x.aval) for x in leaves)
        raise ShapeError(f"associative_scan: lengths along the axis differ: got {got}; make them equal")

    def combine(xs: list[Array], ys: list[Array]) -> list[Array]:
        if reverse:
            xs, ys = ys, xs
        results, found_tree = pytree.flatten(fn(pytree.unflatten(tree, xs), pytree.unflatten(tree, ys)))
        check_same(results, found_tree, xs, tree, "associative_scan", "the result")
        return [asarray(z) for z in results]

    rows = [flip(x, axis=0) for x in fronts] if reverse else fronts
    results = _scan_pairs(combine, rows)
    back = [flip(x, axis=0) for x in results] if reverse else results
    return pytree.unflatten(tree, [moveaxis(x, 0, axis) for x in back])


def _scan_pairs(combine: Callable[[list[Array], list[Array]], list[Array]], xs: list[Array]) -> list[Array]:
    """Return the running results: of neighbours combined in pairs first, then of those in between."""
    n = xs[0].shape[0]
    if n < 2:
        return xs
    odd = _scan_pairs(combine, combine([x[: n - n % 2 : 2] for x in xs], [x[1::2] for x in xs]))
    if n % 2:
        between = combine(odd, [x[2::2] for x in xs])
    else:
        between = combine([x[:-1] for x in odd], [x[2::2] for x in xs]) if n > 2 else []
    even = [concat([x[:1], b]) for x, b in zip(xs, between, strict=True)] if between else [x[:1] for x in xs]
    return [_woven(e, o) for e, o in zip(even, odd, strict=True)]


def _woven(even: Array, odd: Array) -> Array:
    """Return the rows of two arrays in turn; the first may have one more."""
    n = odd.shape[0]
    both = reshape(stack([even[:n], odd], axis=1), (2 * n, *odd.shape[1:]))
    return concat([both, even[n:]]) if even.shape[0] > n else both
