"""The backward walk over a tape: each entry is visited once, without recursion.

A cotangent can carry a *mask*, the places where it is alive. Where a branch was not taken its cotangent is zero, and
zero times an infinite partial would be nan; elementwise rules apply the mask again after their product, linear rules
with positive coefficients map it, all others receive the cleaned cotangent and drop it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from afx.core.aval import Aval, Shape
from afx.core.located import LocatedTape, has_nan
from afx.core.primitive import Params, Primitive, Pullback, Value
from afx.core.tape import Entry, Tape
from afx.core.tracer import lowered, raised
from afx.errors import NanError
from afx.ops.comparison import logical_or, not_equal
from afx.ops.selection import where
from afx.ops.shaping import broadcast_to

__all__ = ["backward", "unbroadcast"]

Masks = dict[int, Value]
NOTHING = contextlib.nullcontext()
FAILED = "_afx_failed_entry"  # the attribute under which an exception carries the index of the entry that raised it


def backward(tape: Tape, seeds: Mapping[int, Value]) -> list[Value]:
    """Return the cotangent of every entry that has no primitive, given those of some outputs.

    Args:
        tape: the record of the function.
        seeds: the cotangent of each output, by index of its entry; of that entry's shape and dtype.

    Returns:
        A list as long as the tape that holds a lower-level value for each input that the outputs depend on.
    """
    entries = tape.entries
    cts: list[Value] = [None] * len(entries)
    masks: Masks = {}
    for index, ct in seeds.items():
        cts[index] = ct
    prepare = None if tape.ground else _raised_entry
    checks = isinstance(tape, LocatedTape) and tape.checks
    k = -1
    try:
        for k in range(max(seeds, default=-1), -1, -1):
            entry = entries[k]
            p = entry[0]
            ct = cts[k]
            if p is None or (ct is None and entry[7] == 1):
                continue
            if prepare is not None:
                entry = prepare(entry)
            cts[k] = None
            if p.pullbacks is None:
                _joint(entries, entry, k, ct, cts, masks)
            elif masks or p.mask is not None:
                _masked(entries, entry, ct, masks.pop(k, None), cts, masks)
            else:
                _, ins, z, xs, params, _, _, _, _ = entry
                for j, pull in zip(ins, p.pullbacks):  # noqa: B905  # one per operand by construction; strict= costs
                    if j < 0:
                        continue
                    target = entries[j]
                    shape, dtype = target[5], target[6]
                    g = pull(ct, z, xs, params, shape, dtype)
                    if g.shape != shape or g.dtype is not dtype:
                        g = _fitted(g, shape, dtype)
                    have = cts[j]
                    cts[j] = g if have is None else have + g
            if checks:
                _check_nan(tape, entry, ct, cts)
    except Exception as error:
        error.__dict__.setdefault(FAILED, k)
        raise
    return cts


def _raised_entry(entry: Entry) -> Entry:
    """Let rules of a nested tape see Arrays, so that nothing of theirs is copied again on an outer tape."""
    z, xs = entry.z, tuple([_operand(x) for x in entry.xs])
    return entry._replace(z=tuple([_operand(v) for v in z]) if isinstance(z, tuple) else _operand(z), xs=xs)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # values of unknown level


def _operand(x: Value) -> Value:
    return raised(x) if isinstance(x, (np.ndarray, np.generic)) else x


def _fitted(g: Value, shape: Shape, dtype: Any) -> Value:
    """Return a cotangent in its operand's shape and dtype."""
    return _cast(g if g.shape == shape else unbroadcast(g, shape), dtype)


def unbroadcast(ct: Value, shape: Shape) -> Value:
    """Sum a cotangent over the axes along which an operand of this shape was broadcast."""
    lead = ct.ndim - len(shape)
    axes = tuple(range(lead)) + tuple([a for a, n in enumerate(shape, lead) if n == 1 and ct.shape[a] != 1])
    if axes:
        ct = ct.sum(axis=axes)
    return lowered(ct if ct.shape == shape else ct.reshape(shape))


def _cast(ct: Value, dtype: Any) -> Value:
    """Give a cotangent its operand's dtype: of a complex one for a real operand, the real part."""
    if ct.dtype.kind == "c" and dtype.kind != "c":
        ct = ct.real
    return ct if ct.dtype == dtype else lowered(ct.astype(dtype))


def _check_nan(tape: Tape, entry: Entry, ct: Value, cts: Sequence[Value]) -> None:
    """Raise where a pullback made the first nan; the walk adds the line of the forward operation."""
    if not has_nan(ct) and any(has_nan(cts[j]) for j in entry.ins if j >= 0):
        name = entry.primitive.name if entry.primitive else "an input"
        raise NanError(f"{tape.name}: the backward pass of {name} gives nan; guard its operand with afx.where")


def _joint(entries: Sequence[Entry], entry: Entry, k: int, first: Value, cts: list[Value], masks: Masks) -> None:
    """Pull back an op whose cotangents are computed together."""
    p, ins, z, xs, params, _, _, count, joint = entry
    assert p is not None
    rule = joint or p.joint
    assert rule is not None
    ct: Value = first if count == 1 and not p.multiple else _filled(entries, k, (first, *cts[k + 1 : k + count]))
    own = [masks.pop(i, None) for i in range(k, k + count)]
    marks = _marks(p, entries[k : k + count], (first, *cts[k + 1 : k + count]), own)
    cts[k : k + count] = [None] * count
    if ct is None or (isinstance(ct, tuple) and all(c is None for c in ct)):  # pyright: ignore[reportUnknownVariableType]  # values of unknown level
        return
    avals = tuple([Aval(entries[j].shape, entries[j].dtype) if j >= 0 else None for j in ins])
    alive = [None] * len(ins) if marks is None else rule(marks, z, xs, params, avals)
    for j, g, mark in zip(ins, rule(ct, z, xs, params, avals), alive, strict=True):
        if j >= 0 and g is not None:
            mask = None if mark is None or entries[j].primitive is None else lowered(not_equal(mark, 0))
            _add(cts, j, _fitted(lowered(g), entries[j].shape, entries[j].dtype), mask, masks)


def _marks(p: Primitive, outputs: Sequence[Entry], cts: Sequence[Value], masks: Sequence[Value | None]) -> Value:
    """Return 1 where the cotangents of a positive op's outputs are alive, 0 elsewhere; None where nothing is masked."""
    if not p.positive or all(mask is None for mask in masks):
        return None
    marks = [
        np.full(out.shape, ct is not None, np.float32) if mask is None else lowered(mask.astype(np.float32))
        for out, ct, mask in zip(outputs, cts, masks, strict=True)
    ]
    return tuple(marks) if p.multiple else marks[0]


def _filled(entries: Sequence[Entry], k: int, found: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return the cotangents of an op's outputs, zeros where none arrived; None throughout where none did at all."""
    if all(ct is None for ct in found):
        return found
    return tuple(
        [np.zeros(entries[k + i].shape, entries[k + i].dtype) if ct is None else ct for i, ct in enumerate(found)]
    )


def _add(cts: list[Value], j: int, g: Value, mask: Value | None, masks: Masks) -> None:
    """Accumulate a cotangent; a place is alive if it is for either part."""
    have = cts[j]
    if have is None:
        cts[j] = g
        if mask is not None:
            masks[j] = mask
        return
    cts[j] = have + g
    if mask is None or j not in masks:
        masks.pop(j, None)
    else:
        masks[j] = lowered(logical_or(masks[j], mask))


def _masked(
    entries: Sequence[Entry], entry: Entry, ct: Value, mask: Value | None, cts: list[Value], masks: Masks
) -> None:
    """Pull back an op that makes a mask, or whose cotangent may carry one."""
    p, ins, z, xs, params, _, _, _, _ = entry
    assert p is not None
    assert p.pullbacks is not None
    for i, (j, pull) in enumerate(zip(ins, p.pullbacks)):  # noqa: B905  # index operands have no pullback
        if j < 0:
            continue
        shape, dtype = entries[j].shape, entries[j].dtype
        # what an elementwise rule makes where its cotangent is dead goes; nothing else is done on purpose
        with np.errstate(invalid="ignore", over="ignore", divide="ignore") if p.elementwise else NOTHING:
            g = pull(ct, z, xs, params, shape, dtype)
        made = lowered(p.mask(i, z, xs, params, shape)) if p.mask is not None else None
        if isinstance(made, bool):  # of a condition that is a Python number
            made = np.bool_(made)
        alive = _alive(p, pull, mask, xs, params, shape)
        if made is not None:
            alive = made if alive is None else lowered(made & alive)
        if alive is not None and p.elementwise:
            g = lowered(where(alive, g, 0))
            if alive.shape != g.shape:
                alive = lowered(broadcast_to(alive, g.shape))
            if g.shape != shape:
                alive = lowered(unbroadcast(alive.astype(np.float32), shape) != 0)
        keep = alive is not None and entries[j].primitive is not None  # an input needs no mask
        _add(cts, j, _fitted(g, shape, dtype), lowered(alive) if keep else None, masks)


def _alive(
    p: Primitive, pull: Pullback, mask: Value | None, xs: tuple[Value, ...], params: Params, shape: Shape
) -> Value | None:
    """Return where the operand's cotangent is alive, given where the output's is."""
    if mask is None or p.elementwise:
        return mask
    if not p.positive:
        return None
    through = pull(lowered(mask.astype(np.float32)), None, xs, params, shape, np.dtype(np.float32))
    return lowered(not_equal(through, 0))
