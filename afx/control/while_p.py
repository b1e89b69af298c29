"""While primitives: the graphs of a condition and a step in one equation, and its backward pass.

Operands are what the condition closes over, what the step closes over, and the first carry. The derivatives are loops of
the same two kinds. Forward mode carries tangents beside values. Reverse mode runs the loop again, keeps what the steps'
pullbacks read, and walks back. The backward pass of the loop *with tangents*, for cotangents of the tangents, gives the
derivatives of the backward pass itself, since second derivatives are symmetric: so all orders follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.control_flow import WhileSpec
from afx.control._subgraphs import build, full_mask, inexact, zeros_of
from afx.core.aval import Aval, aval_of
from afx.core.interpreter import evaluate
from afx.core.primitive import JointPullback, Lowering, Params, Primitive, Value
from afx.core.tracing.tracer import bind, to_array
from afx.ops._kinds.higher_order import higher_order
from afx.ops.elementwise.where import where
from afx.ops.manipulation.shape import broadcast_to, reshape
from afx.ops.reductions.boolean import any as any_
from afx.transforms.compiled_call import CompiledGraph, VjpGraphs, kinds_of
from afx.transforms.cotangent_masks import ALIVE, DEAD, MARKED, GraphPullback

__all__ = ["WhileLoop", "run_while"]


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

    def jvp_loop(self, consts: tuple[bool, ...]) -> WhileLoop:
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

        def going(*v: Any) -> list[Any]:
            return evaluate(self.test.graph, *v[: self.a + n])

        state = [*self.carry, *[self.carry[k] for k in moved]]
        own = [*self.of_body, *[c for c, m in zip(self.of_body, consts, strict=True) if m]]
        test = build("condition", [*self.of_test, *state], going)
        return WhileLoop(test, build("body", [*own, *state], step), self.a, self.b + count)

    def batched(self, size: int, flags: Sequence[bool]) -> WhileLoop:
        """Return the loop over a batch: it runs as long as any element does, and the others keep their carry.

        What the condition closes over comes twice: its step needs it too.
        """
        of_test, of_body, _ = self.parts(flags)
        n = len(self.carry)
        test = self.test.batched(size, (*of_test, *[True] * n))
        body = self.body.batched(size, (*of_body, *[True] * n))

        def going(*v: Any) -> list[Any]:
            return [any_(evaluate(test.graph, *v)[0])]

        def step(*v: Any) -> list[Any]:
            old = v[self.a + self.b :]
            alive = evaluate(test.graph, *v[: self.a], *old)[0]
            new = evaluate(body.graph, *v[self.a :])
            return [where(reshape(alive, (size,) + (1,) * (y.ndim - 1)), x, y) for x, y in zip(new, old, strict=True)]

        consts = [v.aval for v in test.graph.inputs[: self.a]]
        inputs = [v.aval for v in body.graph.inputs]
        state = inputs[self.b :]
        return WhileLoop(
            build("condition", [*consts, *state], going),
            build("body", [*consts, *inputs[: self.b], *state], step),
            self.a,
            self.a + self.b,
        )


def run_while(loop: WhileLoop, *xs: Any) -> tuple[Any, ...]:
    """Bind a loop on what it closes over and its first carry; return the last carry."""
    outs: tuple[Any, ...] = bind(while_p, *xs, loop=loop)
    return outs


# -- the loop ---------------------------------------------------------------------------------------------------------
def _run(*ops: Any, loop: WhileLoop) -> tuple[Any, ...]:
    of_test, of_body, carry = loop.parts(ops)
    test, body = loop.test.plan, loop.body.plan
    while test(*of_test, *carry)[0]:
        carry = body(*of_body, *carry)
    return tuple([np.array(c) for c in carry])


def _abstract(*avals: Aval, loop: WhileLoop) -> tuple[Aval, ...]:
    return tuple([Aval(c.shape, c.dtype) for c in loop.carry])


def _with_tangents(loop: WhileLoop, xs: Sequence[Any], ts: Sequence[Any], consts: Sequence[bool]) -> list[Any]:
    """Return the operands of the loop with tangents."""
    of_test, of_body, carry = loop.parts(xs)
    _, t_body, t_carry = loop.parts(ts)
    pairs = [(x, t) for x, t, m in zip(of_body, t_body, consts, strict=True) if m]
    pairs += [(carry[k], t_carry[k]) for k in loop.differentiated_carry]
    tangents = [zeros_of(x) if t is None else to_array(t) for x, t in pairs]
    count = sum(consts)
    return [*of_test, *of_body, *tangents[:count], *carry, *tangents[count:]]


def _jvp(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    loop: WhileLoop = params["loop"]
    consts = tuple([t is not None for t in loop.parts(ts)[1]])
    outs = run_while(loop.jvp_loop(consts), *_with_tangents(loop, xs, ts, consts))
    n = len(loop.carry)
    found = dict(zip(loop.differentiated_carry, outs[n:], strict=True))
    return outs[:n], [found.get(k) for k in range(n)]


def _record(
    xs: tuple[Value, ...], params: Params, wanted: tuple[bool, ...]
) -> tuple[Sequence[Value], Sequence[Value], JointPullback]:
    loop: WhileLoop = params["loop"]
    consts = tuple(loop.parts(wanted)[1])

    def pull(cts: Sequence[Value], masks: Sequence[Value], kept: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        found = bind(back_p, *kept, *cts, *masks, loop=loop, consts=consts, masked=bool(masks))
        count = sum(consts) + len(loop.differentiated_carry)
        return _placed(loop, consts, found[:count]), _placed(loop, consts, found[count:] if masks else [None] * count)

    def joint(ct: Value, z: Value, kept: tuple[Value, ...], _: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        moved, held = loop.differentiated_carry, [to_array(v) for v in kept]
        if all(ct[k] is not None for k in moved):
            return pull([to_array(ct[k]) for k in moved], (), held)[0]
        kinds = kinds_of(ct)
        found = masked(kinds, [to_array(c) for c in ct if c is not None], (), held)[0]
        needed = loop.vjp_graphs(consts).living_inputs(kinds, loop.b, len(loop.carry))
        living = [*needed[: loop.b], *[n or kind for n, kind in zip(needed[loop.b :], kinds, strict=True)]]
        return [g if n else None for g, n in zip(found, [*[False] * loop.a, *living], strict=True)]

    def masked(
        kinds: Sequence[int], cts: Sequence[Value], masks: Sequence[Value], kept: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        given, marks = iter(cts), iter(masks)
        full = [next(given) if kind else zeros_of(c) for kind, c in zip(kinds, loop.carry, strict=True)]
        alive = [
            next(marks) if kind >= MARKED else np.full(c.shape, kind == ALIVE)
            for kind, c in zip(kinds, loop.carry, strict=True)
        ]
        moved = loop.differentiated_carry
        return pull([full[k] for k in moved], [alive[k] for k in moved], kept)

    return run_while(loop, *xs), list(xs), GraphPullback(joint, masked, makes_masks=_makes_masks(loop, consts))


def _makes_masks(loop: WhileLoop, consts: tuple[bool, ...]) -> bool:
    return loop.vjp_graphs(consts).makes_masks


def _placed(loop: WhileLoop, consts: Sequence[bool], found: Sequence[Any]) -> list[Any]:
    """Return the results of the backward pass at the positions of their operands, None at the others."""
    values = iter(found)
    of_body = [next(values) if m else None for m in consts]
    return [*[None] * loop.a, *of_body, *[next(values) if inexact(c) else None for c in loop.carry]]


def _batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    loop: WhileLoop = params["loop"]
    of_test, of_body, carry = loop.parts(xs)
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
def _back_run(*ops: Any, loop: WhileLoop, consts: tuple[bool, ...], masked: bool) -> tuple[Any, ...]:
    """Run the loop again, keep what its steps' pullbacks read, and walk back over them."""
    n, count = len(loop.carry), len(loop.differentiated_carry)
    pair = loop.vjp_graphs(consts)
    of_test, of_body, rest = loop.parts(ops)
    carry = rest[:n]
    kept: list[list[Any]] = []
    while loop.test.plan(*of_test, *carry)[0]:
        outs = pair.forward.plan(*of_body, *carry)
        carry = outs[:n]
        kept.append(outs[n:])
    summed = [c for c, m in zip(loop.of_body, consts, strict=True) if m]
    state = [*map(_zeros, summed), *rest[n : n + count]]
    if masked:
        state += [*[np.zeros(c.shape, bool) for c in summed], *rest[n + count :]]
    step = pair.steps_back.get(masked)
    if step is None:
        step = pair.steps_back[masked] = _make_step_back(loop, consts, masked)
    for residuals in reversed(kept):
        state = step.plan(*residuals, *state)
    return tuple([np.array(v) for v in state])


def _make_step_back(loop: WhileLoop, consts: tuple[bool, ...], masked: bool) -> CompiledGraph:
    """Return one step back: what its pullbacks read, sums and cotangents (then the masks of both) to the latter."""
    pair = loop.vjp_graphs(consts)
    back = pair.masked([MARKED if own else DEAD for own in pair.owned]) if masked else pair.whole
    owned = [k for k, own in enumerate(pair.owned) if own]
    summed = [k for k, m in enumerate(consts) if m]
    state = [*[loop.of_body[k] for k in summed], *[loop.carry[k] for k in loop.differentiated_carry]]
    places = [*summed, *[loop.b + k for k in loop.differentiated_carry]]  # among the inputs of the step
    residuals = [v.aval for v in back.program.graph.inputs]
    residuals = residuals[: len(residuals) - len(owned) * (2 if masked else 1)]

    def step(*v: Any) -> list[Any]:
        given = v[len(residuals) :]
        values = dict(zip(places, given, strict=False))
        masks = dict(zip(places, given[len(places) :], strict=False))
        mine = [loop.b + k for k in owned]
        marks = [masks[k] for k in mine] if masked else []
        pulled, seen = back.sort(evaluate(back.program.graph, *v[: len(residuals)], *[values[k] for k in mine], *marks))
        alive = [full_mask(pulled[k], seen[k], aval) for k, aval in zip(places, state, strict=True)] if masked else []
        slopes = [zeros_of(c) if pulled[k] is None else to_array(pulled[k]) for k, c in zip(places, state, strict=True)]
        for n, k in enumerate(summed):
            slopes[n] = values[k] if pulled[k] is None else values[k] + slopes[n]
        seen_before = [
            masks[k] | m if n < len(summed) else m for n, (k, m) in enumerate(zip(places, alive, strict=False))
        ]
        return [*slopes, *seen_before]

    marks = [Aval(a.shape, np.dtype(bool)) for a in state] if masked else []
    return build("step back", [*residuals, *state, *marks], step)


def _zeros(aval: Aval) -> Any:
    return np.zeros(aval.shape, aval.dtype)


def _back_abstract(*avals: Aval, loop: WhileLoop, consts: tuple[bool, ...], masked: bool) -> tuple[Aval, ...]:
    found = [c for c, m in zip(loop.of_body, consts, strict=True) if m]
    outs = [*found, *[loop.carry[k] for k in loop.differentiated_carry]]
    masks = [Aval(c.shape, np.dtype(bool)) for c in outs] if masked else []
    return (*[Aval(c.shape, c.dtype) for c in outs], *masks)


def _back_pushed(
    loop: WhileLoop,
    consts: tuple[bool, ...],
    wanted: tuple[bool, ...],
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
    full = [*_with_tangents(loop, xs, ts, moving), *cts[1], *cts[0], *masks, *masks]
    found = list(bind(back_p, *full, loop=loop.jvp_loop(moving), consts=both, masked=bool(masks)))
    found, alive = (found[: len(found) // 2], found[len(found) // 2 :]) if masks else (found, [])
    n, m = sum(wanted), len(found) - len(loop.differentiated_carry)
    k = m - len(loop.differentiated_carry)
    return [*found[n:k], *found[m:], *alive[n:k], *alive[m:]], [*found[:n], *found[k:m]]


def _back_jvp(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    loop: WhileLoop = params["loop"]
    n = loop.a + loop.b + len(loop.carry)
    consts: tuple[bool, ...] = params["consts"]
    cts, masks = _cotangents_and_masks(xs[n:], params)
    t_cts = [zeros_of(c) if t is None else to_array(t) for c, t in zip(cts, ts[n:], strict=False)]
    outs, slopes = _back_pushed(loop, consts, consts, (xs[:n], ts[:n]), (cts, t_cts), masks)
    return outs, [*slopes, *[None] * (len(outs) - len(slopes))]


def _cotangents_and_masks(values: Sequence[Any], params: Params) -> tuple[Sequence[Any], Sequence[Any]]:
    count = len(values) // 2 if params["masked"] else len(values)
    return values[:count], values[count:]


def _back_record(
    xs: tuple[Value, ...], params: Params, wanted: tuple[bool, ...]
) -> tuple[Sequence[Value], Sequence[Value], JointPullback]:
    loop: WhileLoop = params["loop"]
    consts: tuple[bool, ...] = params["consts"]
    n = loop.a + loop.b + len(loop.carry)
    own = tuple(loop.parts(wanted)[1])

    def joint(ct: Value, z: Value, kept: tuple[Value, ...], _: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        # the result is J'·c for the Jacobian J of the loop; <u, J'·c> = <J·u, c> is the tangent of the loop along u
        held = [to_array(v) for v in kept]
        ops, (cts, masks) = held[:n], _cotangents_and_masks(held[n:], params)
        outs = back_p.abstract_eval(*[aval_of(x) for x in held], **params)
        assert isinstance(outs, tuple)
        along = _placed(
            loop, consts, [zeros_of(a) if c is None else to_array(c) for c, a in zip(ct, outs, strict=True)]
        )
        last = run_while(loop.jvp_loop(consts), *_with_tangents(loop, ops, along, consts))
        slopes = _back_pushed(loop, consts, own, (ops, along), (cts, [zeros_of(c) for c in cts]), masks)[1]
        return [*_placed(loop, own, slopes), *last[len(loop.carry) :], *[None] * len(masks)]

    def masked(
        kinds: Sequence[int], cts: Sequence[Value], marks: Sequence[Value], kept: Sequence[Value]
    ) -> tuple[list[Value], list[Value]]:
        given = iter(cts)
        outs = back_p.abstract_eval(*[aval_of(x) for x in kept], **params)
        assert isinstance(outs, tuple)
        full = [next(given) if kind else zeros_of(a) for kind, a in zip(kinds, outs, strict=True)]
        count = len(outs) // 2 if params["masked"] else len(outs)
        found = joint(tuple(full), None, tuple(kept), params, ())
        given_cts, given_masks = _cotangents_and_masks(kept[n:], params)
        masks = given_masks or [np.ones(c.shape, bool) for c in given_cts]
        alive = bind(back_p, *kept[: n + len(given_cts)], *masks, loop=loop, consts=consts, masked=True)[count:]
        return found, [*_placed(loop, consts, alive), *masks, *[None] * len(given_masks)]

    makes_masks = params["masked"] or _makes_masks(loop, consts)
    return bind(back_p, *xs, **params), list(xs), GraphPullback(joint, masked, makes_masks=makes_masks)


def _back_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    loop: WhileLoop = params["loop"]
    consts: tuple[bool, ...] = params["consts"]
    of_test, of_body, rest = loop.parts(xs)
    flags = loop.parts(batched)
    # each element has a cotangent of its own, so that what has one is repeated along the batch
    own = [x if b or not m else _spread(size, [x], [b])[0] for x, b, m in zip(of_body, flags[1], consts, strict=True)]
    moving = [b or m for b, m in zip(flags[1], consts, strict=True)]
    many = loop.batched(size, (*flags[0], *moving, *[True] * len(loop.carry)))
    operands = [*of_test, *of_test, *own, *_spread(size, rest, flags[2])]
    return bind(back_p, *operands, loop=many, consts=(*[False] * loop.a, *consts), masked=params["masked"])


back_p: Primitive = higher_order("while_loop_backward", _back_run, _back_abstract, _back_batch, _back_record, _back_jvp)
