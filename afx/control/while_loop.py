"""While loops: `while_loop`, of unknown length, and `fori_loop`; their graphs, primitives and the way back."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.compiler.graph.rewrite_rules import simplify
from afx.compiler.numpy_backend.loops import walk_back
from afx.compiler.schedule.schedule import WhileBackSpec, WhileSpec
from afx.control._subgraphs import (
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
from afx.control.scan import scan
from afx.core import Array, ArrayLike, Aval, Tracer, aval_of, bind, to_array
from afx.core.graph import Atom, Equation, Graph, Literal, Var, indices_of
from afx.core.primitive import Bools, JointPullback, Lowering, Params, Primitive, Tangents, Value, Values, to_argument
from afx.core.tracing.traces import BatchTracer, Unbatched, evaluate
from afx.errors import DtypeError, ShapeError
from afx.ops import any as any_, asarray, broadcast_to, reshape, where
from afx.ops._kinds.linear import higher_order
from afx.ops.indexing.gather import gather
from afx.ops.indexing.scatter import index_set_p
from afx.transforms._arguments import check_callable, describe, name_of
from afx.transforms.compile.compiled_call import Back, CompiledGraph, VjpGraphs
from afx.transforms.derivatives.cotangent_masks import ALIVE, DEAD, MARKED, GraphPullback, kinds_of
from afx.transforms.derivatives.nan_check import check_nan

# --- Graphs of while loops: the condition and the step, and what is derived from them for each kind of derivative


@attrs.frozen
class WhileLoop:
    """The static part of a loop.

    Attributes:
        test: (what it closes over, carry) to a boolean scalar.
        body: (what it closes over, carry) to the next carry.
        a: how many values the condition closes over.
        b: how many values the step closes over.
    """

    test: CompiledGraph
    body: CompiledGraph
    a: int
    b: int

    @property
    def of_test(self) -> list[Aval]:
        """What the condition closes over."""
        return [v.aval for v in self.test.graph.inputs[: self.a]]

    @property
    def of_body(self) -> list[Aval]:
        """What the step closes over."""
        return [v.aval for v in self.body.graph.inputs[: self.b]]

    @property
    def carry(self) -> list[Aval]:
        """The carry."""
        return [v.aval for v in self.body.graph.inputs[self.b :]]

    @property
    def differentiated_carry(self) -> list[int]:
        """The parts of the carry that have derivatives."""
        return [k for k, c in enumerate(self.carry) if inexact(c)]

    def parts(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return operands as those of the condition, of the step, and the carry with what follows it."""
        return list(values[: self.a]), list(values[self.a : self.a + self.b]), list(values[self.a + self.b :])

    def vjp_graphs(self, consts: Sequence[bool]) -> VjpGraphs:
        """Return the derivative of a step by these constants and the carry."""
        return self.body.vjp_graphs((*consts, *[inexact(c) for c in self.carry]))

    def step_graphs(self, consts: Sequence[bool], masked: bool) -> StepGraphs:
        """Return the step with what the way back over it reads, and that way; made once."""
        known = self.vjp_graphs(consts).step_graphs
        if masked not in known:
            known[masked] = _make_steps(self, consts, masked)
        graphs: StepGraphs = known[masked]
        return graphs

    def jvp_loop(self, consts: Bools) -> WhileLoop:
        """Return the loop with tangents: of these constants behind the constants, of the carry behind the carry."""
        moved, n = self.differentiated_carry, len(self.carry)
        moving = (*consts, *[inexact(c) for c in self.carry])
        program = self.body.jvp_graph(moving)
        count = sum(consts)

        def step(*v: Any) -> list[Any]:
            own, tangents, state = v[: self.b], v[self.b : self.b + count], v[self.b + count :]
            outs = evaluate(program.program.graph, *own, *state[:n], *tangents, *state[n:])
            slopes = iter(outs[n:])
            full = [next(slopes) if m else zeros_of(c) for m, c in zip(program.moves, self.carry, strict=True)]
            return [*outs[:n], *[full[k] for k in moved]]

        state = [*self.carry, *[self.carry[k] for k in moved]]
        own = [*self.of_body, *[c for c, m in zip(self.of_body, consts, strict=True) if m]]
        test = build("condition", [*self.of_test, *state], lambda *v: evaluate(self.test.graph, *v[: self.a + n]))
        return WhileLoop(test, build("body", [*own, *state], step), self.a, self.b + count)

    def batched_with_one_end(self, size: int, flags: Sequence[bool]) -> tuple[WhileLoop, list[bool]] | None:
        """Return the loop over a batch whose elements all end at one step, and which parts of its carry have a batch axis.

        None where the condition may differ along the batch.
        """
        of_test, of_body, carry = self.parts(flags)
        body, ends = batched_body(self.body, size, (*of_body, *carry), (self.b, self.b + len(carry)))
        test, differs = self.test.batched_where_needed(size, (*of_test, *ends))
        return None if differs[0] else (WhileLoop(test, body, self.a, self.b), ends)

    def batched(self, size: int, flags: Sequence[bool]) -> WhileLoop:
        """Return the loop over a batch: it runs as long as any element does, and the others keep their carry.

        What the condition closes over comes twice: its step needs it too.
        """
        of_test, of_body, _ = self.parts(flags)
        n = len(self.carry)
        test = self.test.batched(size, (*of_test, *[True] * n))
        body = self.body.batched(size, (*of_body, *[True] * n)).graph
        updates = _find_updates(body, self.b)
        whole = [y for k, y in enumerate(body.outputs) if k not in updates]
        parts = attrs.evolve(body, outputs=(*whole, *[v for eq in updates.values() for v in eq.inputs[1:]]))

        def step(*v: Any) -> list[Any]:
            old = v[self.a + self.b :]
            return _keep_ended(evaluate(test.graph, *v[: self.a], *old)[0], old, evaluate(parts, *v[self.a :]), updates)

        consts = [v.aval for v in test.graph.inputs[: self.a]]
        inputs = [v.aval for v in body.inputs]
        state = inputs[self.b :]
        return WhileLoop(
            build("condition", [*consts, *state], lambda *v: [any_(evaluate(test.graph, *v)[0])]),
            build("body", [*consts, *inputs[: self.b], *state], step),
            self.a,
            self.a + self.b,
        )


def _find_updates(graph: Graph, b: int) -> dict[int, Equation]:
    """Return the parts of a batched carry of which a step sets elements and no more, with what does that.

    Such parts are kept by keeping these elements, so that they are written in place.
    """
    made = {eq.outputs[0]: eq for eq in graph if eq.primitive is index_set_p and dict(eq.params)["axis"] == 0}
    pairs = [(k, made[y]) for k, y in enumerate(graph.outputs) if isinstance(y, Var) and y in made]
    return {k: eq for k, eq in pairs if eq.inputs[0] is graph.inputs[b + k]}


def _keep_ended(alive: Array, old: Sequence[Any], made: Sequence[Any], updates: Mapping[int, Equation]) -> list[Any]:
    """Return the next carry: of parts that are updated the updates are made, whole or none, of the others the new ones."""
    results = iter(made)
    new = {k: next(results) for k in range(len(old)) if k not in updates}
    for k, eq in updates.items():
        values, *indices = [next(results) for _ in eq.inputs[1:]]
        values = _keep(alive, values, gather(old[k], *indices, axis=0))
        new[k] = bind(index_set_p, old[k], values, *indices, axis=0)
    return [new[k] if k in updates else _keep(alive, new[k], old[k]) for k in range(len(old))]


def _keep(alive: Array, new: Array, old: Array) -> Array:
    """Return what is new where an element of the batch goes on, and what was elsewhere."""
    return where(reshape(alive, (*alive.shape, *(1,) * (new.ndim - 1))), new, old)


@attrs.frozen
class StepGraphs:
    """A step of a loop and the way back over it.

    Attributes:
        forward: what the step closes over and the carry to the next carry, then residuals.
        back: what the step closes over, residuals, and what is carried back (sums for constants and cotangents of the
            carry, then the masks of both) to the latter.
    """

    forward: CompiledGraph
    back: CompiledGraph


def _make_steps(loop: WhileLoop, consts: Sequence[bool], masked: bool) -> StepGraphs:
    """Return the two graphs; of residuals only those are kept that the way back reads, and that differ from step to step."""
    pair, count = loop.vjp_graphs(consts), len(loop.carry)
    back = pair.masked([MARKED if own else DEAD for own in pair.owned]) if masked else pair.whole
    graph = simplify(pair.forward.graph)
    residuals = graph.outputs[count:]
    same = {v: c.value for v, c in graph.constants}  # in each step
    read = _read(back.program.graph)
    stored = dict.fromkeys([a for k, a in enumerate(residuals) if k in read and _changes(a, loop.b) and a not in same])

    def walk(*v: Any) -> list[Any]:
        known = same | dict(zip(stored, v[loop.b :], strict=False))
        own = [known[a] if a in known else _find_constant(a, v[: loop.b]) for a in residuals]
        return _step_back(loop, consts, back, own, v[loop.b + len(stored) :])

    state = [c for c, m in zip(loop.of_body, consts, strict=True) if m]
    state += [loop.carry[k] for k in loop.differentiated_carry]
    marks = [Aval(a.shape, np.dtype(bool)) for a in state] if masked else []
    return StepGraphs(
        CompiledGraph(attrs.evolve(graph, outputs=(*graph.outputs[:count], *stored))),
        build("step back", [*loop.of_body, *[a.aval for a in stored], *state, *marks], walk),
    )


def _read(graph: Graph) -> set[int]:
    """Return the numbers of the variables that equations and outputs of a graph read."""
    return indices_of([*graph.outputs, *[a for eq in graph.equations for a in eq.inputs]])


def _changes(residual: Atom, consts: int) -> bool:
    return isinstance(residual, Var) and residual.index >= consts


def _find_constant(residual: Atom, consts: Sequence[Any]) -> Any:
    """Return a residual that is the same in each step; None for one that nothing reads."""
    if isinstance(residual, Literal):
        return np.asarray(residual.value, residual.aval.dtype)
    return consts[residual.index] if residual.index < len(consts) else None


def _step_back(
    loop: WhileLoop, consts: Sequence[bool], back: Back, residuals: Sequence[Any], state: Sequence[Any]
) -> list[Any]:
    """Return what is carried back, a step further: sums for constants and cotangents, then the masks of both if given."""
    owned = [loop.b + k for k in loop.differentiated_carry if loop.vjp_graphs(consts).owned[k]]
    summed = [k for k, m in enumerate(consts) if m]
    places = [*summed, *[loop.b + k for k in loop.differentiated_carry]]  # among the inputs of the step
    avals = [v.aval for v in loop.body.graph.inputs]
    values = dict(zip(places, state, strict=False))
    masks = dict(zip(places, state[len(places) :], strict=False))
    marks = [masks[k] for k in owned] if masks else []
    pulled, seen = back.sort(evaluate(back.program.graph, *residuals, *[values[k] for k in owned], *marks))
    slopes = {k: zeros_of(avals[k]) if pulled[k] is None else to_array(pulled[k]) for k in places}
    alive = {k: full_mask(pulled[k], seen[k], avals[k]) for k in masks}
    for k in summed:
        slopes[k] = values[k] if pulled[k] is None else values[k] + slopes[k]
        if masks:
            alive[k] = masks[k] | alive[k]
    return [*slopes.values(), *alive.values()]


# --- While primitives: the graphs of a condition and a step in one equation, and its backward pass
#
# Operands are what the condition closes over, what the step closes over, and the first carry. The derivatives are
# loops of the same two kinds. Forward mode carries tangents beside values. Reverse mode runs the loop again, keeps
# what the steps' pullbacks read, and walks back. The backward pass of the loop *with tangents*, for cotangents of the
# tangents, gives the derivatives of the backward pass itself, since second derivatives are symmetric: so all orders
# follow.


def run_while(loop: WhileLoop, *xs: Any) -> tuple[Any, ...]:
    """Bind a loop on what it closes over and its first carry; return the last carry."""
    outs: tuple[Any, ...] = bind(while_p, *xs, loop=loop)
    return outs


# -- the loop --
def _run(*ops: Any, loop: WhileLoop) -> tuple[Any, ...]:
    of_test, of_body, carry = loop.parts([*map(to_argument, ops)])
    test, body = loop.test.plan, loop.body.plan
    while test(*of_test, *carry)[0]:
        carry = body(*of_body, *carry)
    return tuple(map(np.array, carry))


def _abstract(*avals: Aval, loop: WhileLoop) -> tuple[Aval, ...]:
    return tuple([Aval(c.shape, c.dtype) for c in loop.carry])


def _append_tangents(loop: WhileLoop, xs: Sequence[Any], ts: Sequence[Any], consts: Sequence[bool]) -> list[Any]:
    """Return the operands of `jvp_loop`: constants and the carry, each followed by the tangents it has.

    Args:
        loop: the loop.
        xs: its operands.
        ts: their tangents, None for one that is zero.
        consts: of each constant of the step, whether it has a tangent.
    """
    of_test, of_body, carry = loop.parts(xs)
    _, t_body, t_carry = loop.parts(ts)
    pairs = [(x, t) for x, t, m in zip(of_body, t_body, consts, strict=True) if m]
    pairs += [(carry[k], t_carry[k]) for k in loop.differentiated_carry]
    tangents = [zeros_of(x) if t is None else to_array(t) for x, t in pairs]
    count = sum(consts)
    return [*of_test, *of_body, *tangents[:count], *carry, *tangents[count:]]


def _jvp(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    loop: WhileLoop = params["loop"]
    consts = tuple([t is not None for t in loop.parts(ts)[1]])
    outs = run_while(loop.jvp_loop(consts), *_append_tangents(loop, xs, ts, consts))
    n = len(loop.carry)
    by_carry = dict(zip(loop.differentiated_carry, outs[n:], strict=True))
    return outs[:n], [by_carry.get(k) for k in range(n)]


def _record(xs: Values, params: Params, wanted: Bools) -> tuple[Sequence[Value], Sequence[Value], JointPullback]:
    """Return the outputs, the residuals (the operands: the number of steps is not known), and the pullback by `back_p`."""
    loop: WhileLoop = params["loop"]
    back = _WayBack(loop, tuple(loop.parts(wanted)[1]))
    return run_while(loop, *xs), list(xs), GraphPullback(back.joint, back.masked, makes_masks=_makes_masks(*back))


class _WayBack(NamedTuple):
    """The pullback of a loop by `back_p`, for the constants of its step that have cotangents."""

    loop: WhileLoop
    consts: Bools

    def pull(
        self, cts: Sequence[Value], masks: Sequence[Value], residuals: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        """Return the cotangents of the operands and their masks, by those of what moves in the carry."""
        loop, consts = self
        results = bind(back_p, *residuals, *cts, *masks, loop=loop, consts=consts, masked=bool(masks))
        count = sum(consts) + len(loop.differentiated_carry)
        marks = results[count:] if masks else [None] * count
        return _place_cotangents(loop, consts, results[:count]), _place_cotangents(loop, consts, marks)

    def joint(self, ct: Value, z: Value, residuals: Values, _: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        """Return the cotangents of the operands, None for those that are not alive."""
        loop, residual_values = self.loop, [to_array(v) for v in residuals]
        moved = loop.differentiated_carry
        if all(ct[k] is not None for k in moved):
            return self.pull([to_array(ct[k]) for k in moved], (), residual_values)[0]
        kinds = kinds_of(ct)
        cotangents = self.masked(kinds, [to_array(c) for c in ct if c is not None], (), residual_values)[0]
        needed = loop.vjp_graphs(self.consts).living_inputs(kinds, loop.b, len(loop.carry))
        living = [*needed[: loop.b], *[n or kind for n, kind in zip(needed[loop.b :], kinds, strict=True)]]
        return [g if n else None for g, n in zip(cotangents, [*[False] * loop.a, *living], strict=True)]

    def masked(
        self, kinds: Sequence[int], cts: Sequence[Value], masks: Sequence[Value], residuals: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        """Return the cotangents of the operands, and where they are alive, by those of the carry's kinds."""
        loop, given, marks = self.loop, iter(cts), iter(masks)
        full = [next(given) if kind else zeros_of(c) for kind, c in zip(kinds, loop.carry, strict=True)]
        alive = [
            next(marks) if kind >= MARKED else np.full(c.shape, kind == ALIVE)
            for kind, c in zip(kinds, loop.carry, strict=True)
        ]
        moved = loop.differentiated_carry
        return self.pull([full[k] for k in moved], [alive[k] for k in moved], residuals)


def _makes_masks(loop: WhileLoop, consts: Bools) -> bool:
    return loop.vjp_graphs(consts).makes_masks


def _place_cotangents(loop: WhileLoop, consts: Sequence[bool], cotangents: Sequence[Any]) -> list[Any]:
    """Return the results of the backward pass at the positions of their operands, None at the others."""
    values = iter(cotangents)
    of_body = [next(values) if m else None for m in consts]
    return [*[None] * loop.a, *of_body, *[next(values) if inexact(c) else None for c in loop.carry]]


def _batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    """Run one loop over the batch, until all elements end; where they end together, its condition has no batch axis."""
    loop: WhileLoop = params["loop"]
    of_test, of_body, carry = loop.parts(xs)
    shared = loop.batched_with_one_end(size, batched)
    if shared is not None:
        many, flags = shared
        carry = [
            x if b or not f else _spread(size, [x], [b])[0]
            for x, b, f in zip(carry, loop.parts(batched)[2], flags, strict=True)
        ]
        outs = run_while(many, *of_test, *of_body, *carry)
        return tuple([z if f else Unbatched(z) for z, f in zip(outs, flags, strict=True)])
    carry = _spread(size, carry, loop.parts(batched)[2])
    return run_while(loop.batched(size, batched), *of_test, *of_test, *of_body, *carry)


def _spread(size: int, values: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """Return values with a batch axis in front, repeated where they have none."""
    return [x if b else broadcast_to(x, (size, *aval_of(x).shape)) for x, b in zip(values, batched, strict=True)]


def _control(params: Params) -> WhileSpec:
    loop: WhileLoop = params["loop"]
    return WhileSpec(loop.test.graph, loop.body.graph, loop.a, loop.b)


while_p: Primitive = higher_order(
    "while_loop", _run, _abstract, _batch, _record, _jvp, lowering=Lowering(control=_control)
)


# -- its backward pass: operands of the loop, then cotangents of the carry; to cotangents of constants and carry ------
def _back_run(*ops: Any, loop: WhileLoop, consts: Bools, masked: bool) -> tuple[Any, ...]:
    n = len(loop.carry)
    steps = loop.step_graphs(consts, masked)
    of_test, of_body, rest = loop.parts([*map(to_argument, ops)])
    given = iter(rest[n:])
    avals = _back_abstract(loop=loop, consts=consts, masked=masked)
    zeros = _starts_as_zeros(loop, consts, masked)
    state = [np.zeros(a.shape, a.dtype) if zero else next(given) for a, zero in zip(avals, zeros, strict=True)]
    plans = loop.test.plan, steps.forward.plan, steps.back.plan
    return tuple(walk_back(*plans, of_test, of_body, rest[:n], state))


def _back_control(params: Params) -> WhileBackSpec:
    loop: WhileLoop = params["loop"]
    steps = loop.step_graphs(params["consts"], params["masked"])
    zeros = tuple(_starts_as_zeros(**params))
    return WhileBackSpec(loop.test.graph, steps.forward.graph, steps.back.graph, loop.a, loop.b, len(loop.carry), zeros)


def _starts_as_zeros(loop: WhileLoop, consts: Sequence[bool], masked: bool) -> list[bool]:
    """Return which of the values that are carried back are sums, or their masks."""
    return [*[True] * sum(consts), *[False] * len(loop.differentiated_carry)] * (2 if masked else 1)


def _back_abstract(*avals: Aval, loop: WhileLoop, consts: Bools, masked: bool) -> tuple[Aval, ...]:
    own = [c for c, m in zip(loop.of_body, consts, strict=True) if m]
    outs = [*own, *[loop.carry[k] for k in loop.differentiated_carry]]
    masks = [Aval(c.shape, np.dtype(bool)) for c in outs] if masked else []
    return (*[Aval(c.shape, c.dtype) for c in outs], *masks)


def _back_pushed(
    loop: WhileLoop,
    consts: Bools,
    wanted: Bools,
    operands: tuple[Sequence[Any], Sequence[Any]],
    cts: tuple[Sequence[Any], Sequence[Any]],
    masks: Sequence[Any],
) -> tuple[list[Any], list[Any]]:
    """Return the backward pass (cotangents, then masks), and the derivative of the cotangents along a direction.

    Args:
        loop: the loop.
        consts: of what the step closes over, that for which the backward pass gives cotangents.
        wanted: that for which the derivative is wanted.
        operands: of the loop, and the direction in which they move, None where they do not.
        cts: the cotangents of the carry, and the direction in which those move.
        masks: of those cotangents, or none.
    """
    xs, ts = operands
    moving = tuple([m or t is not None for m, t in zip(consts, loop.parts(ts)[1], strict=True)])
    both = (*wanted, *[m for m, t in zip(consts, moving, strict=True) if t])
    full = [*_append_tangents(loop, xs, ts, moving), *cts[1], *cts[0], *masks, *masks]
    results = list(bind(back_p, *full, loop=loop.jvp_loop(moving), consts=both, masked=bool(masks)))
    results, alive = (results[: len(results) // 2], results[len(results) // 2 :]) if masks else (results, [])
    n, m = sum(wanted), len(results) - len(loop.differentiated_carry)
    k = m - len(loop.differentiated_carry)
    return [*results[n:k], *results[m:], *alive[n:k], *alive[m:]], [*results[:n], *results[k:m]]


def _back_jvp(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    loop: WhileLoop = params["loop"]
    n = loop.a + loop.b + len(loop.carry)
    consts: Bools = params["consts"]
    cts, masks = _cotangents_and_masks(xs[n:], params)
    t_cts = [zeros_of(c) if t is None else to_array(t) for c, t in zip(cts, ts[n:], strict=False)]
    outs, slopes = _back_pushed(loop, consts, consts, (xs[:n], ts[:n]), (cts, t_cts), masks)
    return outs, [*slopes, *[None] * (len(outs) - len(slopes))]


def _cotangents_and_masks(values: Sequence[Any], params: Params) -> tuple[Sequence[Any], Sequence[Any]]:
    count = len(values) // 2 if params["masked"] else len(values)
    return values[:count], values[count:]


def _back_record(xs: Values, params: Params, wanted: Bools) -> tuple[Sequence[Value], Sequence[Value], JointPullback]:
    """Return the cotangents of a loop as outputs, and their own pullback: the derivative of second order."""
    loop: WhileLoop = params["loop"]
    again = _WayBackAgain(params, tuple(loop.parts(wanted)[1]))
    makes_masks = params["masked"] or _makes_masks(loop, params["consts"])
    return bind(back_p, *xs, **params), list(xs), GraphPullback(again.joint, again.masked, makes_masks=makes_masks)


class _WayBackAgain(NamedTuple):
    """The pullback of `back_p`, for the constants of the step that have cotangents of second order."""

    params: Params
    own: Bools

    @property
    def size(self) -> int:
        """The number of the loop's operands."""
        loop: WhileLoop = self.params["loop"]
        return loop.a + loop.b + len(loop.carry)

    def joint(self, ct: Value, z: Value, residuals: Values, _: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        """Return the cotangents of the loop's operands and of its cotangents; masks have none."""
        # the result is J'·c for the Jacobian J of the loop; <u, J'·c> = <J·u, c> is the tangent of the loop along u
        loop, consts = self.params["loop"], self.params["consts"]
        operands = [to_array(v) for v in residuals]
        ops, (cts, masks) = operands[: self.size], _cotangents_and_masks(operands[self.size :], self.params)
        outs = _back_abstract(**self.params)
        full = [zeros_of(a) if c is None else to_array(c) for c, a in zip(ct, outs, strict=True)]
        along = _place_cotangents(loop, consts, full)
        last = run_while(loop.jvp_loop(consts), *_append_tangents(loop, ops, along, consts))
        slopes = _back_pushed(loop, consts, self.own, (ops, along), (cts, [zeros_of(c) for c in cts]), masks)[1]
        return [*_place_cotangents(loop, self.own, slopes), *last[len(loop.carry) :], *[None] * len(masks)]

    def masked(
        self, kinds: Sequence[int], cts: Sequence[Value], marks: Sequence[Value], residuals: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        """Return the same by cotangents of these kinds, and where they are alive."""
        given, outs = iter(cts), _back_abstract(**self.params)
        full = [next(given) if kind else zeros_of(a) for kind, a in zip(kinds, outs, strict=True)]
        count = len(outs) // 2 if self.params["masked"] else len(outs)
        cotangents = self.joint(tuple(full), None, tuple(residuals), self.params, ())
        given_cts, given_masks = _cotangents_and_masks(residuals[self.size :], self.params)
        masks = given_masks or [np.ones(c.shape, bool) for c in given_cts]
        operands = residuals[: self.size + len(given_cts)]
        alive = bind(back_p, *operands, *masks, **{**self.params, "masked": True})[count:]
        placed = _place_cotangents(self.params["loop"], self.params["consts"], alive)
        return cotangents, [*placed, *masks, *[None] * len(given_masks)]


def _back_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    loop: WhileLoop = params["loop"]
    consts: Bools = params["consts"]
    of_test, of_body, rest = loop.parts(xs)
    flags = loop.parts(batched)
    # each element has a cotangent of its own, so that what has one is repeated along the batch
    own = [x if b or not m else _spread(size, [x], [b])[0] for x, b, m in zip(of_body, flags[1], consts, strict=True)]
    moving = [b or m for b, m in zip(flags[1], consts, strict=True)]
    many = loop.batched(size, (*flags[0], *moving, *[True] * len(loop.carry)))
    operands = [*of_test, *of_test, *own, *_spread(size, rest, flags[2])]
    return bind(back_p, *operands, loop=many, consts=(*[False] * loop.a, *consts), masked=params["masked"])


back_p: Primitive = higher_order(
    "while_loop_backward",
    _back_run,
    _back_abstract,
    _back_batch,
    _back_record,
    _back_jvp,
    lowering=Lowering(control=_back_control),
)


# --- While loops: `while_loop`, of unknown length, and `fori_loop` over a range of indices

C = TypeVar("C")


def while_loop(cond_fn: Callable[[C], Any], body_fn: Callable[[C], C], init: C) -> C:
    """Run ``carry = body_fn(carry)`` as long as ``cond_fn(carry)`` holds, and return the carry.

    Differentiable in both modes and every order: reverse mode saves values as they come. Under `jit` and `trace` it is one
    equation where the carry, or what the functions close over, is unknown; elsewhere a Python loop.

    Args:
        cond_fn: the carry to a boolean scalar.
        body_fn: the carry to the next one, of the same structure, shapes and dtypes.
        init: the first carry, any pytree.

    Raises:
        ShapeError, TreeError: the carry changes, or the condition is no scalar; the message names the path.

    >>> import afx
    >>> while_loop(lambda x: x < 100.0, lambda x: x * 2.0, 1.0)
    Array(128., dtype=float32)
    """
    for fn in (cond_fn, body_fn):
        check_callable(fn, "while_loop")
    flat, tree = pytree.flatten(init)
    carry = resolve_weak_carry(body_fn, flat, tree, f"while_loop of {name_of(body_fn)}")
    while True:
        drop_effects = mark_effects()
        going = cond_fn(pytree.unflatten(tree, carry))
        if aval_of(going, "while_loop").shape != ():
            raise ShapeError(f"while_loop: the condition is a scalar: got {aval_of(going)}; reduce it with all or any")
        unknown = _unknown(going)
        if not unknown and not going:
            check_nan("while_loop", functools.partial(while_loop, cond_fn, body_fn), (init,), {}, carry)
            return pytree.unflatten(tree, carry)
        if unknown or any(map(is_abstract, carry)):
            break
        new_leaves, found_tree = pytree.flatten(run_step(carry, body_fn, pytree.unflatten(tree, carry)))
        check_same(new_leaves, found_tree, carry, tree, "while_loop", "the carry")
        if any(map(is_abstract, new_leaves)):  # the step closes over unknown values
            break
        carry = as_strong_arrays(new_leaves)
    drop_effects()
    last: C = _bind_loop(cond_fn, body_fn, carry, tree)
    return last


def fori_loop(lower: ArrayLike, upper: ArrayLike, body_fn: Callable[[Array, C], C], init: C) -> C:
    """Run ``carry = body_fn(i, carry)`` for i from ``lower`` to ``upper - 1`` and return the carry.

    Args:
        lower: the first index; with a known upper one the loop is a `scan`, else a `while_loop`.
        upper: one past the last index.
        body_fn: index and carry to the next carry, of the same structure, shapes and dtypes.
        init: the first carry, any pytree.

    Raises:
        DtypeError: a bound is not an integer.
        ShapeError, TreeError: the carry changes; the message names the path.

    >>> import afx
    >>> fori_loop(0, 3, lambda i, x: x * 2.0, 1.0)
    Array(8., dtype=float32)
    """
    check_callable(body_fn, "fori_loop")
    for bound in (lower, upper):
        aval = aval_of(bound, "fori_loop")
        if aval.shape != () or aval.dtype.kind not in "iu":
            raise DtypeError(f"fori_loop: bounds are integers: got {describe(bound)}; use astype")

    @functools.wraps(body_fn)
    def body(state: Any) -> Any:
        i, carry = state
        new = run_step(pytree.leaves(carry), body_fn, i, carry)
        _check_kept(new, carry)
        return i + 1, new

    if not _unknown(lower) and not _unknown(upper):
        start = (asarray(_int(lower)), init)
        count = max(_int(upper) - _int(lower), 0)

        @functools.wraps(body_fn)
        def step(state: Any, _: None) -> Any:
            return body(state), None

        return scan(step, start, None, count)[0][1]
    start = (asarray(lower), init)
    return while_loop(lambda state: state[0] < upper, body, start)[1]


def _check_kept(new: Any, carry: Any) -> None:
    """Raise where a step gives another kind of carry; numbers take their dtype from the first step."""
    (leaves, tree), (old, old_tree) = pytree.flatten(new), pytree.flatten(carry)
    if not any(aval_of(x, "fori_loop").weak for x in (*leaves, *old)):
        check_same(leaves, tree, old, old_tree, "fori_loop", "the carry")


def _int(x: Any) -> int:
    return int(x)


def _unknown(x: Any) -> bool:
    """Tell whether a value cannot steer a Python loop: it is abstract, or differs along a batch."""
    while isinstance(x, Tracer):
        if is_abstract(x) or isinstance(x, BatchTracer):
            return True
        x = x._value
    return False


def _bind_loop(cond_fn: Any, body_fn: Any, carry: list[Any], tree: Any) -> Any:
    avals = [c.aval for c in carry]
    pair = pytree.structure((pytree.unflatten(tree, carry),))

    def step(c: Any) -> Any:
        new_leaves, found_tree = pytree.flatten(body_fn(c))
        check_same(new_leaves, found_tree, carry, tree, "while_loop", "the carry")
        return new_leaves

    test = body_of(cond_fn, pair, avals, f"while_loop's condition {name_of(cond_fn)}")
    body = body_of(step, pair, avals, f"while_loop of {name_of(body_fn)}")
    n = len(carry)
    loop = WhileLoop(consts_first(test, n), consts_first(body, n), len(test.lifted), len(body.lifted))
    return pytree.unflatten(tree, list(run_while(loop, *test.lifted, *body.lifted, *carry)))
