"""While primitives: the graphs of a condition and a step in one equation, and its backward pass.

Operands are what the condition closes over, what the step closes over, and the first carry. The derivatives are loops of
the same two kinds. Forward mode carries tangents beside values. Reverse mode runs the loop again, keeps what the steps'
pullbacks read, and walks back. The backward pass of the loop *with tangents*, for cotangents of the tangents, gives the
derivatives of the backward pass itself, since second derivatives are symmetric: so all orders follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.compiler.control_flow import WhileBackSpec, WhileSpec
from afx.compiler.numpy_backend.reverse_loops import walk_back
from afx.control._subgraphs import inexact, zeros_of
from afx.control.while_graphs import WhileLoop
from afx.core.aval import Aval, aval_of
from afx.core.primitive import JointPullback, Lowering, Params, Primitive, Value
from afx.core.tracing.batch_trace import Unbatched
from afx.core.tracing.tracer import bind, to_array
from afx.core.weakness import to_argument
from afx.ops._kinds.higher_order import higher_order
from afx.ops.manipulation.shape import broadcast_to
from afx.transforms.derivatives.cotangent_masks import ALIVE, MARKED, GraphPullback, kinds_of

__all__ = ["run_while"]


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
    return tuple([np.array(c) for c in carry])


def _abstract(*avals: Aval, loop: WhileLoop) -> tuple[Aval, ...]:
    return tuple([Aval(c.shape, c.dtype) for c in loop.carry])


def _append_tangents(loop: WhileLoop, xs: Sequence[Any], ts: Sequence[Any], consts: Sequence[bool]) -> list[Any]:
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
    outs = run_while(loop.jvp_loop(consts), *_append_tangents(loop, xs, ts, consts))
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
        return _place_cotangents(loop, consts, found[:count]), _place_cotangents(
            loop, consts, found[count:] if masks else [None] * count
        )

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


def _place_cotangents(loop: WhileLoop, consts: Sequence[bool], found: Sequence[Any]) -> list[Any]:
    """Return the results of the backward pass at the positions of their operands, None at the others."""
    values = iter(found)
    of_body = [next(values) if m else None for m in consts]
    return [*[None] * loop.a, *of_body, *[next(values) if inexact(c) else None for c in loop.carry]]


def _batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
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
def _back_run(*ops: Any, loop: WhileLoop, consts: tuple[bool, ...], masked: bool) -> tuple[Any, ...]:
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
    full = [*_append_tangents(loop, xs, ts, moving), *cts[1], *cts[0], *masks, *masks]
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
        along = _place_cotangents(
            loop, consts, [zeros_of(a) if c is None else to_array(c) for c, a in zip(ct, outs, strict=True)]
        )
        last = run_while(loop.jvp_loop(consts), *_append_tangents(loop, ops, along, consts))
        slopes = _back_pushed(loop, consts, own, (ops, along), (cts, [zeros_of(c) for c in cts]), masks)[1]
        return [*_place_cotangents(loop, own, slopes), *last[len(loop.carry) :], *[None] * len(masks)]

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
        return found, [*_place_cotangents(loop, consts, alive), *masks, *[None] * len(given_masks)]

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


back_p: Primitive = higher_order(
    "while_loop_backward",
    _back_run,
    _back_abstract,
    _back_batch,
    _back_record,
    _back_jvp,
    lowering=Lowering(control=_back_control),
)
