"""Backward pass: walks a tape from its outputs, visiting each entry once, without recursion.

A cotangent can carry a mask, which says where it is alive (`cotangent_masks`): elementwise rules apply it
again after their product, all others hand it on to their operands.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from afx.core import Aval, Primitive, Shape, Value, Values
from afx.core.tracing.tape import Entry, LocatedTape, Tape, has_nan, nan_error
from afx.core.tracing.tracer import ORIGIN, to_array, to_lower_level
from afx.ops import not_equal
from afx.transforms.derivatives.cotangent_masks import (
    BARE,
    AlivePart,
    GraphPullback,
    Link,
    Mask,
    add_masks,
    clean,
    constant,
    pull_elements,
    pull_graphs,
    pull_product,
    pull_slice,
    pull_slices,
    through,
)


class Masks(dict[int, Mask]):
    """The masks of cotangents on their way, by index of the entry.

    Attributes:
        safe: entries whose partials are finite, so that what was not selected stays 0 without a mask.
        is_ground: whether all values are known.
    """

    def __init__(self, tape: Tape, safe: frozenset[int], given: Mapping[int, Mask] | None = None) -> None:
        super().__init__({} if given is None else given)
        self.safe = safe
        self.is_ground: bool = tape.is_ground
        self._entries = tape.entries
        # how many entries are inputs, None until it is asked for; where masks are given, those of inputs are wanted too
        self._inputs: int | None = 0 if given is not None else None

    def needs(self, mask: Mask | None, j: int) -> Mask | None:
        """Return the mask of an entry if someone will ask for it: that of an input only if it is wanted, or unclean."""
        if mask is None or mask.is_dirty or mask.part is not None or self._entries[j].primitive is not None:
            return mask
        if self._inputs is None:  # which stand first; further entries without a primitive are outputs of the one before
            firsts = (k for k, entry in enumerate(self._entries) if entry.primitive is not None)
            self._inputs = next(firsts, len(self._entries))
        return mask if j >= self._inputs else None


# of a value that a gather reads, up to which rules compute there alone, as `Target.gather_max_share`, which is not imported
# with afx
GATHER_MAX_SHARE = 0.25
FAILED = "_afx_failed_entry"  # the attribute under which an exception carries the index of the entry that raised it


def backward(tape: Tape, seeds: Mapping[int, Value], *, use_masks: bool = True) -> list[Value]:  # hot: calls cost
    """Return the cotangent of every entry that has no primitive, given those of some outputs.

    Args:
        tape: the record of the function.
        seeds: the cotangent of each output, by index of its entry; of that entry's shape and dtype.
        use_masks: whether choices and selections make masks, so that what was left out gives 0 and never nan.

    Returns:
        A list as long as the tape that holds a lower-level value for each input that the outputs depend on.
    """
    return _walk(tape, seeds, Masks(tape, _safe_entries(tape, use_masks and tape.has_selections)), use_masks)


def backward_with_masks(
    tape: Tape, seeds: Mapping[int, Value], given: Mapping[int, Value], *, soft: bool = False
) -> tuple[list[Value], Mapping[int, Mask]]:
    """Return what `backward` does, and the masks of the inputs, given those of some outputs by index.

    An input without a mask is alive everywhere, if it has a cotangent. ``soft``: selections alone made them.
    """
    seeded = {index: Mask(functools.partial(constant, alive), soft=soft) for index, alive in given.items()}
    masks = Masks(tape, _safe_entries(tape, use_masks=True), seeded)
    return _walk(tape, seeds, masks, use_masks=True), masks


def _safe_entries(tape: Tape, use_masks: bool) -> frozenset[int]:
    """Return the entries that need no soft masks: none where values are known, since those tell themselves."""
    return entries_with_finite_partials(tape.entries) if use_masks and not tape.is_ground else frozenset()


def _walk(tape: Tape, seeds: Mapping[int, Value], masks: Masks, use_masks: bool) -> list[Value]:
    if tape.is_ground:
        return _pull_entries(tape, seeds, masks, use_masks)
    outer = ORIGIN.source
    try:  # what a graph takes in of the backward pass stands where its forward operation does
        return _pull_entries(tape, seeds, masks, use_masks)
    finally:
        ORIGIN.source = outer


def _pull_entries(tape: Tape, seeds: Mapping[int, Value], masks: Masks, use_masks: bool) -> list[Value]:  # noqa: C901, PLR0912  # hot: calls cost
    """Walk the entries once, last first, and return the cotangent of each; the tracebacks of errors say at which entry."""
    entries = tape.entries
    cts = [None] * len(entries)
    for index, ct in seeds.items():
        cts[index] = ct
    prepare = None if tape.is_ground else _entry_of_arrays
    k, checks = -1, isinstance(tape, LocatedTape) and tape.checks
    lines = tape.lines
    try:
        for k in range(max(seeds, default=-1), -1, -1):
            entry = entries[k]
            p, ins, z, xs, params, _, _, outputs, _ = entry
            ct = cts[k]
            if p is None or (ct is None and outputs == 1):
                continue
            if prepare is not None:
                entry = prepare(entry)
                z, xs = entry.z, entry.xs
                ORIGIN.source = lines.get(k)
            cts[k] = None
            if p.derivative.vjps is None:
                _pull_all(entries, entry, k, ct, cts, masks, use_masks)
            elif (use_masks and (p.masking.mask is not None or p.masking.selects)) or (masks and k in masks):
                _pull_masked(entries, entry, k, ct, cts, masks)
            else:
                for j, pull in zip(ins, p.derivative.vjps):  # noqa: B905  # one per operand by construction; strict= costs
                    if j < 0:
                        continue
                    target = entries[j]
                    shape, dtype = target.shape, target.dtype
                    g = pull(ct, z, xs, params, shape, dtype)
                    if g.shape != shape or g.dtype is not dtype:
                        g = _fit(g, shape, dtype)
                    have = cts[j]
                    if have is None:
                        cts[j] = g
                    else:
                        _add(cts, j, g, None, masks)
            if checks:
                _check_nan(tape, entry, ct, cts)
    except Exception as error:
        error.__dict__.setdefault(FAILED, k)
        raise
    return cts


def _entry_of_arrays(entry: Entry) -> Entry:
    """Let rules of a nested tape see Arrays, so that nothing of theirs is copied again on an outer tape."""
    z, xs = entry.z, tuple(map(_operand, entry.xs))
    return entry._replace(z=tuple([_operand(v) for v in z]) if isinstance(z, tuple) else _operand(z), xs=xs)  # pyright: ignore[reportUnknownVariableType]  # values of unknown level


def _operand(x: Value) -> Value:
    return to_array(x) if isinstance(x, (np.ndarray, np.generic)) else x


def _fit(g: Value, shape: Shape, dtype: Any) -> Value:
    """Return a cotangent in its operand's shape and dtype."""
    return _cast(g if g.shape == shape else unbroadcast(g, shape), dtype)


def unbroadcast(ct: Value, shape: Shape) -> Value:
    """Sum a cotangent over the axes along which an operand of this shape was broadcast."""
    lead = ct.ndim - len(shape)
    axes = tuple(range(lead)) + tuple([a for a, n in enumerate(shape, lead) if n == 1 and ct.shape[a] != 1])
    if axes:
        ct = ct.sum(axis=axes)
    return to_lower_level(ct if ct.shape == shape else ct.reshape(shape))


def _cast(ct: Value, dtype: Any) -> Value:
    """Give a cotangent its operand's dtype: of a complex one for a real operand, the real part."""
    if ct.dtype.kind == "c" and dtype.kind != "c":
        ct = ct.real
    return ct if ct.dtype == dtype else to_lower_level(ct.astype(dtype))


def _check_nan(tape: Tape, entry: Entry, ct: Value, cts: Sequence[Value]) -> None:
    """Raise where a pullback made the first nan; the walk adds the line of the forward operation."""
    if not has_nan(ct) and any(has_nan(cts[j]) for j in entry.ins if j >= 0):
        name = entry.primitive.name if entry.primitive else "an input"
        raise nan_error(f"{tape.name}: the backward pass of {name} gives nan; guard its operand with afx.where")


def _moves(entry: Entry, entries: Sequence[Entry]) -> bool:
    """Tell whether the transpose of an op moves elements and adds none of them up."""
    p = entry.primitive
    return (
        p is not None
        and p.lowering.may_alias
        and len(entry.ins) == 1
        and math.prod(entries[entry.ins[0]].shape) >= math.prod(entry.shape)
    )


def _part_before(entry: Entry, entries: Sequence[Entry], mask: Mask | None, ct: Value) -> AlivePart | None:
    """Return the living part of the operand of a slice, of a gather of few elements, or of an op that moves them."""
    p, whole = entry.primitive, entries[entry.ins[0]].shape
    role = "" if p is None else p.algebra.canonical
    if p is None or (len(entry.ins) != 1 and role != "gather"):
        return None
    is_small = role == "gather" and math.prod(entry.shape) <= GATHER_MAX_SHARE * math.prod(whole)
    if role != "slice" and not is_small and (mask is None or not _moves(entry, entries)):
        return None
    link = Link(p, entry.params, whole, tuple(entry.xs[1:]))
    if mask is None:
        return AlivePart((link,), ct)
    return None if mask.part is None else AlivePart((link, *mask.part.links), mask.part.ct)


def _is_known(entry: Entry) -> bool:
    """Tell whether what a selection leaves out is known before it runs: only then is its mask worth carrying far."""
    return all(v is None or isinstance(to_lower_level(v), BARE) for v in (entry.z, *entry.xs))


def _pull_all(  # noqa: C901, PLR0912  # hot: calls cost
    entries: Sequence[Entry], entry: Entry, k: int, first: Value, cts: list[Value], masks: Masks, use_masks: bool
) -> None:
    """Pull back an op whose cotangents are computed together."""
    p, ins, z, xs, params, _, _, count, joint = entry
    assert p is not None
    rule = joint or p.derivative.vjp_all
    assert rule is not None
    if count == 1 and not masks and isinstance(rule, GraphPullback) and not rule.makes_masks:  # the quick way
        wanted = tuple([Aval(entries[j].shape, entries[j].dtype) if j >= 0 else None for j in ins])
        for j, g in zip(ins, rule.plain((first,), z, xs, params, wanted), strict=True):
            if j >= 0 and g is not None:
                _add(cts, j, _fit(to_lower_level(g), entries[j].shape, entries[j].dtype), None, masks)
        return
    own_cts = (first, *cts[k + 1 : k + count])
    own = [masks.pop(i, None) for i in range(k, k + count)]
    cts[k : k + count] = [None] * count
    if all(c is None for c in own_cts):
        return
    if any(m is not None and m.is_dirty for m in own):
        own_cts = tuple([clean(m, c) for m, c in zip(own, own_cts, strict=True)])
        first = own_cts[0]
    ct: Value = first if count == 1 and not p.multiple_results else own_cts
    if not isinstance(rule, GraphPullback) and ct is own_cts:
        ct = _filled(entries, k, own_cts)
    avals = tuple([Aval(entries[j].shape, entries[j].dtype) if j >= 0 else None for j in ins])
    if p.masking.is_read:
        reader: Callable[..., Any] = rule
        rule = functools.partial(reader, alive=_aliveness(own_cts, own))
        entry = entry._replace(joint=rule)
    alive: Sequence[Mask | None] = [None] * len(ins)
    if p.masking.nonnegative_linear:
        gs = rule(ct, z, xs, params, avals)
        if any(m is not None for m in own) or (use_masks and p.masking.selects and any(c is None for c in own_cts)):
            outputs = entries[k : k + count]
            marks = Mask(lambda: rule(_marks(p, outputs, own_cts, own), z, xs, params, avals), *own)
            alive = [None if g is None else Mask(functools.partial(_marked, marks, i), marks) for i, g in enumerate(gs)]
    elif isinstance(rule, GraphPullback) and (rule.makes_masks or _crosses(own)):
        gs, alive = pull_graphs(rule, entry, ct, own_cts, own, avals)
    elif _crosses(own):
        gs, alive = pull_slices(entries, entry, k, ct, own, avals)
    else:
        gs = rule(ct, z, xs, params, avals)
    for j, g, mask in zip(ins, gs, alive, strict=True):
        if j >= 0 and g is not None:
            _add(cts, j, _fit(to_lower_level(g), entries[j].shape, entries[j].dtype), masks.needs(mask, j), masks)


def _aliveness(cts: Sequence[Value], masks: Sequence[Mask | None]) -> Values:
    """Return of each output whether, or where, its cotangent is alive."""
    return tuple([c is not None if m is None else m.get() for c, m in zip(cts, masks, strict=True)])


def _crosses(masks: Sequence[Mask | None]) -> bool:
    return any(m is not None and m.crosses for m in masks)


def makes_masks(entries: Sequence[Entry]) -> bool:
    """Tell whether choices, or ops whose graphs hold choices, may make masks on the way back."""
    return any(
        e.primitive is not None
        and (e.primitive.algebra.canonical == "select" or (isinstance(e.joint, GraphPullback) and e.joint.makes_masks))
        for e in entries
    )


def leaves_out(entries: Sequence[Entry]) -> bool:
    """Tell whether an op, or a graph that one holds, may leave elements out: by a choice or a selection."""
    return any(
        e.primitive is not None
        and (
            e.primitive.masking.mask is not None
            or e.primitive.masking.selects
            or (isinstance(e.joint, GraphPullback) and e.joint.makes_masks)
        )
        for e in entries
    )


def _marked(marks: Mask, i: int) -> Value:
    return not_equal(marks.get()[i], 0)


def _marks(p: Primitive, outputs: Sequence[Entry], cts: Sequence[Value], masks: Sequence[Mask | None]) -> Value:
    """Return 1 where the cotangents of a positive op's outputs are alive, 0 elsewhere."""
    marks = [
        np.full(out.shape, ct is not None, np.float32)
        if mask is None
        else to_lower_level(mask.get().astype(np.float32))
        for out, ct, mask in zip(outputs, cts, masks, strict=True)
    ]
    return tuple(marks) if p.multiple_results else marks[0]


def _filled(entries: Sequence[Entry], k: int, cts: Values) -> Values:
    """Return the cotangents of an op's outputs, zeros where none arrived; None throughout where none did at all."""
    if all(ct is None for ct in cts):
        return cts
    return tuple(
        [np.zeros(entries[k + i].shape, entries[k + i].dtype) if ct is None else ct for i, ct in enumerate(cts)]
    )


def _add(cts: list[Value], j: int, g: Value, mask: Mask | None, masks: Masks) -> None:
    """Accumulate a cotangent; an element is alive if either part's is."""
    have = cts[j]
    if have is None:
        cts[j] = g
        if mask is not None:
            masks[j] = mask
        return
    if mask is None and j not in masks:
        cts[j] = have + g
        return
    other = masks.pop(j, None)
    if mask is None or other is None or mask.root is not other.root:
        have, g = clean(other, have), clean(mask, g)
    joined = add_masks(mask, other)
    if joined is not None:
        masks[j] = joined
    # of one part of both, the sum is taken there alone
    cts[j] = have + g if joined is None or joined.part is None else joined.part.embed(joined.part.ct)


def entries_with_finite_partials(entries: Sequence[Entry]) -> frozenset[int]:
    """Return the entries of bounded ops on values that are finite where the inputs are, as far as ops tell."""
    safe: set[int] = set()
    risky: set[int] = set()
    for k, entry in enumerate(entries):
        p = entry.primitive
        if p is None:
            continue
        if any(j in risky for j in entry.ins) or (p.is_elementwise and not p.masking.finite_partials):
            risky.update(range(k, k + entry.outputs))
        elif p.is_elementwise:
            safe.add(k)
    return frozenset(safe)


def _pull_masked(entries: Sequence[Entry], entry: Entry, k: int, ct: Value, cts: list[Value], masks: Masks) -> None:
    """Pull back an op that makes a mask, or whose cotangent may carry one."""
    p, ins, _, _, _, _, _, _, _ = entry
    mask = masks.pop(k, None)
    assert p is not None
    assert p.derivative.vjps is not None
    if mask is not None and mask.is_dirty and not p.is_elementwise and not _moves(entry, entries):
        mask, ct = mask.root, clean(mask, ct)
    for i, (j, pull) in enumerate(zip(ins, p.derivative.vjps)):  # noqa: B905  # index operands have no pullback
        if j < 0:
            continue
        shape, dtype = entries[j].shape, entries[j].dtype
        if p.is_elementwise:
            g, alive = pull_elements(entry, i, k, ct, mask, entries[j], masks.safe)
        elif p.masking.selects or p.masking.nonnegative_linear:
            g, alive = pull(ct, entry.z, entry.xs, entry.params, shape, dtype), None
            leaves_out = p.masking.selects and not (
                math.prod(shape) == math.prod(entry.shape) and _moves(entry, entries)
            )
            if leaves_out or mask is not None:
                crosses = leaves_out and _is_known(entry)
                alive = Mask(functools.partial(through, pull, ct.shape, mask, entry, shape), mask, crosses=crosses)
                part = None if masks.is_ground else _part_before(entry, entries, mask, ct)
                alive = alive if part is None else alive.with_part(part)  # whose root has none, which would outlive it
        elif mask is None or not mask.crosses:
            g, alive = pull(ct, entry.z, entry.xs, entry.params, shape, dtype), None
        elif p.kind == "bilinear":
            g, alive = pull_product(entries, entry, i, ct, mask)
        else:
            g, alive = pull_slice(entry, i, ct, mask, entries[j])
        _add(cts, j, _fit(g, shape, dtype), masks.needs(alive, j), masks)
