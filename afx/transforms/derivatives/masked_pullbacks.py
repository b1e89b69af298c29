"""Masked pullbacks: cotangents and their masks, from the output of an op to its operands."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.core.aval import Aval, Shape
from afx.core.primitive import Primitive, Value
from afx.core.tracing.tape import Entry
from afx.core.tracing.tracer import to_array, to_lower_level
from afx.ops.manipulation.shape import broadcast_to
from afx.transforms.derivatives.cotangent_masks import (
    ALIVE,
    BARE,
    DEAD,
    MARKED,
    SOFT,
    GraphPullback,
    Mask,
    Part,
    cleaned,
    constant,
    fit_mask,
    is_finite,
    live_operand,
)

__all__ = ["pull_elements", "pull_graphs", "pull_product", "pull_slice", "pull_slices"]


def pull_elements(
    entry: Entry, i: int, k: int, ct: Value, mask: Mask | None, target: Entry, safe: frozenset[int]
) -> tuple[Value, Mask | None]:
    """Pull back an elementwise op, and clean what it makes where its cotangent is dead."""
    p, _, z, xs, params, _, _, _, _ = entry
    assert p is not None
    assert p.derivative.vjps is not None
    shape, dtype = target.shape, target.dtype
    alive = _compose_mask(entry, i, k, mask, shape)
    if mask is not None and mask.part is not None and p.masking.mask is None:
        g, alive = _pull_part(entry, i, ct, mask, mask.part, target)
    elif p.masking.mask is None and (not p.derivative.reads[i] or (k in safe and mask is not None and mask.is_lazy())):
        g = p.derivative.vjps[i](ct, z, xs, params, shape, dtype)
        if alive is not None and p.derivative.reads[i]:
            alive = alive.dirty()
        if alive is not None and alive.is_dirty and shape != g.shape:  # what is dead would meet what is alive
            alive, g = cleaned(alive.root, g)
    else:
        # what an elementwise rule makes where its cotangent is dead goes; nothing else is done on purpose
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            g = p.derivative.vjps[i](ct, z, xs, params, shape, dtype)
            if alive is not None and not is_finite(g):
                alive, g = cleaned(alive.root, g)
    if alive is not None and g.shape != shape:
        alive = Mask(functools.partial(_unbroadcast_mask, alive, g.shape, shape), alive)
    return g, alive


def _pull_part(entry: Entry, i: int, ct: Value, mask: Mask, part: Part, target: Entry) -> tuple[Value, Mask | None]:
    """Pull back an elementwise op on the part that slices took, where alone the cotangent is alive."""
    p, _, z, xs, params, whole, _, _, _ = entry
    assert p is not None
    assert p.derivative.vjps is not None
    pull, taken = p.derivative.vjps[i], [part.take(x) for x in xs]
    shape = part.ct.shape if target.shape == whole else target.shape
    small = to_lower_level(pull(part.ct, part.take(z), tuple(taken), params, shape, target.dtype))
    g = part.embed(small) if p.derivative.reads[i] else pull(ct, z, xs, params, target.shape, target.dtype)
    return g, mask.with_part(Part(part.links, small))


def pull_product(entries: Sequence[Entry], entry: Entry, i: int, ct: Value, mask: Mask) -> tuple[Value, Mask | None]:
    """Pull back a bilinear op; what its other operand holds where no living output reads it counts as 0."""
    p, ins, z, xs, params, _, _, _, _ = entry
    assert p is not None
    assert p.derivative.vjps is not None
    pull, other = p.derivative.vjps[i], 1 - i
    target, x = entries[ins[i]], xs[other]
    avals = [Aval(target.shape, target.dtype)] * 2
    avals[other] = Aval(x.shape, x.dtype)
    result = Mask(lambda: _live(p, i, [mask], avals, params, [entry.shape]), mask)
    if isinstance(ct, BARE) and isinstance(x, BARE):
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            g = pull(ct, z, xs, params, target.shape, target.dtype)
        if is_finite(g):
            return g, result
    if mask.is_whole():
        return pull(ct, z, xs, params, target.shape, target.dtype), None
    read = Mask(lambda: _live(p, other, [mask], avals, params, [entry.shape]), mask)
    operands = list(xs)
    operands[other] = cleaned(read, x)[1]
    return pull(ct, z, tuple(operands), params, target.shape, target.dtype), result


def pull_slice(entry: Entry, i: int, ct: Value, mask: Mask, target: Entry) -> tuple[Value, Mask | None]:
    """Pull back an op that mixes the elements of slices, or of the whole of its operands."""
    p, _, z, xs, params, _, _, _, _ = entry
    assert p is not None
    assert p.derivative.vjps is not None
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        g = p.derivative.vjps[i](ct, z, xs, params, target.shape, target.dtype)
    avals = [Aval(g.shape, g.dtype) if n == i else _aval_of(x) for n, x in enumerate(xs)]
    whole = Mask(lambda: _live(p, i, [mask], avals, params, [entry.shape]), mask)
    reads = p.derivative.reads[min(i, len(p.derivative.reads) - 1)]
    alive, g = cleaned(whole, g) if reads and not is_finite(g) else (whole, g)
    if alive is not None and g.shape != target.shape:
        alive = Mask(functools.partial(_fit, alive, target.shape), alive)
    return g, alive


def _compose_mask(entry: Entry, i: int, k: int, mask: Mask | None, shape: Shape) -> Mask | None:
    """Return where an elementwise op's operand is alive, given where its output is."""
    p, _, z, xs, params, _, _, _, _ = entry
    assert p is not None
    rule = p.masking.mask
    if rule is None:
        return mask

    def made() -> Value:
        found = rule(i, z, xs, params, shape)
        if isinstance(found, bool):
            found = np.bool_(found)  # of a condition that is a Python number
        return found if found.shape == entry.shape else to_lower_level(broadcast_to(found, entry.shape))

    chosen = p.algebra.canonical == "select"
    found = Mask(
        made if mask is None else lambda: to_lower_level(made()) & mask.get(), mask, soft=False, crosses=chosen
    )
    if chosen and shape == entry.shape:
        found.twin = (k, i, mask)
    return found


def _unbroadcast_mask(mask: Mask, whole: Shape, shape: Shape) -> Value:
    """Return where an operand of this shape is alive: where the result is for any element it was broadcast to."""
    alive = mask.get()
    if alive.shape != whole:
        alive = to_lower_level(broadcast_to(alive, whole))
    return fit_mask(alive, shape)


def pull_graphs(
    rule: GraphPullback,
    entry: Entry,
    ct: Value,
    found: Sequence[Value],
    own: Sequence[Mask | None],
    avals: tuple[Aval | None, ...],
) -> tuple[Sequence[Value], Sequence[Mask | None]]:
    """Pull back an op that holds graphs, whose own backward passes carry the masks on."""
    known = all(c is None or isinstance(c, BARE) for c in found)
    soft = all(m is None or m.soft for m in own)
    marked = any(m is not None and m.crosses for m in own)
    finite = soft and rule.is_bounded and not rule.makes_masks
    if known or (not marked and not rule.is_inlined) or (marked and finite):
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            gs = [to_lower_level(g) for g in rule(ct, entry.z, entry.xs, entry.params, avals)]
        if known and not marked and rule.left_out is not None and not rule.left_out():
            return gs, [None] * len(gs)
        if (not known and marked) or not marked or all(g is None or is_finite(g) for g in gs):
            whole = Mask(lambda: _masked_rule(rule, entry, found, own)[1], *own, soft=marked)
            whole.crosses = known or not marked  # else finite partials need no mask: only infinite slopes ask for it
            shapes = [() if a is None else a.shape for a in avals]
            return gs, [Mask(functools.partial(_part, whole, i, s), whole, crosses=False) for i, s in enumerate(shapes)]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        cts, marks = _masked_rule(rule, entry, found, own)
    return cts, [None if m is None else Mask(functools.partial(constant, to_lower_level(m)), *own) for m in marks]


def _masked_rule(
    rule: GraphPullback, entry: Entry, found: Sequence[Value], own: Sequence[Mask | None]
) -> tuple[Sequence[Value], Sequence[Value]]:
    kinds = tuple([DEAD if c is None else _kind(m) for c, m in zip(found, own, strict=True)])
    cts = [to_array(c) for c in found if c is not None]
    marks = [to_array(m.get()) for m, kind in zip(own, kinds, strict=True) if m is not None and kind >= MARKED]
    return rule.masked(kinds, cts, marks, [to_array(v) for v in entry.xs])


def _kind(mask: Mask | None) -> int:
    return ALIVE if mask is None else SOFT if mask.soft else MARKED


def _part(whole: Mask, i: int, shape: Shape) -> Value:
    found = whole.get()[i]
    return np.ones(shape, bool) if found is None else to_lower_level(found)


def pull_slices(
    entries: Sequence[Entry],
    entry: Entry,
    k: int,
    ct: Value,
    own: Sequence[Mask | None],
    avals: tuple[Aval | None, ...],
) -> tuple[Sequence[Value], Sequence[Mask | None]]:
    """Pull back an op that mixes the elements of slices, or of all its operands."""
    p, _, z, xs, params, _, _, count, joint = entry
    assert p is not None
    rule = joint or p.derivative.vjp_all
    assert rule is not None
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        gs = [to_lower_level(g) for g in rule(ct, z, xs, params, avals)]
    shapes = [e.shape for e in entries[k : k + count]]
    whole = [a if a is not None else _aval_of(x) for a, x in zip(avals, xs, strict=True)]
    masks: list[Mask | None] = []
    for i, g in enumerate(gs):
        if g is None:
            masks.append(None)
            continue
        full = [*whole[:i], Aval(g.shape, g.dtype), *whole[i + 1 :]]
        mask = Mask(functools.partial(_live, p, i, own, full, params, shapes), *own)
        alive, gs[i] = (mask, g) if is_finite(g) else cleaned(mask, g)
        aval = avals[i]
        if alive is not None and aval is not None and g.shape != aval.shape:
            alive = Mask(functools.partial(_fit, alive, aval.shape), alive)
        masks.append(alive)
    return gs, masks


def _aval_of(x: Value) -> Aval:
    return Aval((), np.dtype(np.float32)) if x is None else Aval(x.shape, x.dtype)


def _live(
    p: Primitive,
    i: int,
    own: Sequence[Mask | None],
    avals: Sequence[Aval],
    params: Any,
    outs: Sequence[Shape],
) -> Value:
    """Return where operand i is alive, given the masks of an op's outputs, of which one at least has one."""
    alive = [np.ones(s, bool) if m is None else m.get() for m, s in zip(own, outs, strict=True)]
    return live_operand(p, i, alive, avals, params, outs)


def _fit(mask: Mask, shape: Shape) -> Value:
    return fit_mask(mask.get(), shape)
