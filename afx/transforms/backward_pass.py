"""The backward walk over a tape: each entry is visited once, without recursion.

A cotangent can carry a *mask*, the places where it is alive. Where a branch was not taken, or an element was not
selected, the cotangent is zero, and zero times an infinite partial would be nan; elementwise rules apply the mask again
after their product, linear rules with positive coefficients map it, all others receive the cleaned cotangent and drop
it. A mask is computed when a rule asks for it: most selections never need theirs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from afx.core.aval import Aval, Shape
from afx.core.primitive import Primitive, Pullback, Value
from afx.core.tracing.debug_nans import LocatedTape, has_nan
from afx.core.tracing.tape import Entry, Tape
from afx.core.tracing.tracer import to_array, to_lower_level
from afx.errors import NanError
from afx.ops.elementwise.comparison import logical_or, not_equal
from afx.ops.elementwise.where import where
from afx.ops.manipulation.shape import broadcast_to

__all__ = ["backward", "unbroadcast"]

DEEPEST = 64
BARE: Any = (np.ndarray, np.generic)


class Mask:
    """Where a cotangent is alive, computed when it is first asked for: few rules do."""

    __slots__ = ("_make", "_value", "depth", "soft")

    def __init__(self, make: Callable[[], Value], *parents: Mask | None, soft: bool = True) -> None:
        self.soft: bool = soft and all(parent is None or parent.soft for parent in parents)  # made by selections alone
        self._make: Callable[[], Value] | None = make
        self._value: Value = None
        self.depth: int = 1 + max([parent.depth for parent in parents if parent is not None], default=0)
        if self.depth > DEEPEST:  # masks ask each other: long chains are computed as they come
            self.get()
            self.depth = 0

    def get(self) -> Value:
        """Return the places as a boolean value of the next lower level."""
        if self._make is not None:
            found = self._make()
            self._value, self._make = found if isinstance(found, (list, tuple)) else to_lower_level(found), None
        return self._value


class Masks(dict[int, Mask]):
    """The masks of cotangents on their way, by index of the entry.

    Attributes:
        safe: entries whose partials are finite, so that what was not selected stays 0 without a mask.
    """

    def __init__(self, safe: frozenset[int]) -> None:
        super().__init__()
        self.safe = safe


FAILED = "_afx_failed_entry"  # the attribute under which an exception carries the index of the entry that raised it


def backward(tape: Tape, seeds: Mapping[int, Value], *, use_masks: bool = True) -> list[Value]:  # noqa: C901, PLR0912  # hot: calls cost
    """Return the cotangent of every entry that has no primitive, given those of some outputs.

    Args:
        tape: the record of the function.
        seeds: the cotangent of each output, by index of its entry; of that entry's shape and dtype.
        use_masks: whether selections make masks as choices do, so that what was not selected gives 0 and never nan.

    Returns:
        A list as long as the tape that holds a lower-level value for each input that the outputs depend on.
    """
    entries = tape.entries
    cts: list[Value] = [None] * len(entries)
    masks = Masks(
        _entries_with_finite_partials(entries)
        if use_masks and tape.has_selections and not tape.is_ground
        else frozenset()
    )
    for index, ct in seeds.items():
        cts[index] = ct
    prepare = None if tape.is_ground else _entry_of_arrays
    k, checks = -1, isinstance(tape, LocatedTape) and tape.checks
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
            vjps, masking = p.derivative.vjps, p.masking
            if vjps is None:
                _pull_all(entries, entry, k, ct, cts, masks, use_masks)
            elif masking.mask is not None or (use_masks and masking.selects) or (masks and k in masks):
                _pull_masked(entries, entry, k, ct, cts, masks)
            else:
                _, ins, z, xs, params, _, _, _, _ = entry
                for j, pull in zip(ins, vjps):  # noqa: B905  # one per operand by construction; strict= costs
                    if j < 0:
                        continue
                    target = entries[j]
                    shape, dtype = target[5], target[6]
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
    z, xs = entry.z, tuple([_operand(x) for x in entry.xs])
    return entry._replace(z=tuple([_operand(v) for v in z]) if isinstance(z, tuple) else _operand(z), xs=xs)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # values of unknown level


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
        raise NanError(f"{tape.name}: the backward pass of {name} gives nan; guard its operand with afx.where")


def _pull_all(
    entries: Sequence[Entry], entry: Entry, k: int, first: Value, cts: list[Value], masks: Masks, careful: bool
) -> None:
    """Pull back an op whose cotangents are computed together."""
    p, ins, z, xs, params, _, _, count, joint = entry
    assert p is not None
    rule = joint or p.derivative.vjp_all
    assert rule is not None
    found = (first, *cts[k + 1 : k + count])
    ct: Value = first if count == 1 and not p.multiple_results else _filled(entries, k, found)
    own = [masks.pop(i, None) for i in range(k, k + count)]
    cts[k : k + count] = [None] * count
    if ct is None or (isinstance(ct, tuple) and all(c is None for c in ct)):  # pyright: ignore[reportUnknownVariableType]  # values of unknown level
        return
    avals = tuple([Aval(entries[j].shape, entries[j].dtype) if j >= 0 else None for j in ins])
    masked = p.masking.nonnegative_linear and (
        any(m is not None for m in own) or (careful and p.masking.selects and any(c is None for c in found))
    )
    outputs = entries[k : k + count]
    marks = Mask(lambda: rule(_marks(p, outputs, found, own), z, xs, params, avals), *own) if masked else None
    for i, (j, g) in enumerate(zip(ins, rule(ct, z, xs, params, avals), strict=True)):
        if j >= 0 and g is not None:
            mask = None
            if marks is not None and entries[j].primitive is not None:
                mask = Mask(functools.partial(_marked, marks, i), marks)
            _add(cts, j, _fit(to_lower_level(g), entries[j].shape, entries[j].dtype), mask, masks)


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


def _filled(entries: Sequence[Entry], k: int, found: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return the cotangents of an op's outputs, zeros where none arrived; None throughout where none did at all."""
    if all(ct is None for ct in found):
        return found
    return tuple(
        [np.zeros(entries[k + i].shape, entries[k + i].dtype) if ct is None else ct for i, ct in enumerate(found)]
    )


def _add(cts: list[Value], j: int, g: Value, mask: Mask | None, masks: Masks) -> None:
    """Accumulate a cotangent; a place is alive if it is for either part."""
    have = cts[j]
    if have is None:
        cts[j] = g
        if mask is not None:
            masks[j] = mask
        return
    cts[j] = have + g
    other = masks.pop(j, None)
    if mask is not None and other is not None:
        masks[j] = Mask(lambda: logical_or(other.get(), mask.get()), other, mask)


def _entries_with_finite_partials(entries: Sequence[Entry]) -> frozenset[int]:
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
    p, ins, z, xs, params, _, _, _, _ = entry
    mask = masks.pop(k, None)
    assert p is not None
    assert p.derivative.vjps is not None
    for i, (j, pull) in enumerate(zip(ins, p.derivative.vjps)):  # noqa: B905  # index operands have no pullback
        if j < 0:
            continue
        shape, dtype = entries[j].shape, entries[j].dtype
        alive: Mask | None = None
        if p.is_elementwise:
            alive = _compose_mask(entry, i, mask, shape)
            clean = p.masking.mask is None and (
                not p.derivative.reads[i] or (k in masks.safe and mask is not None and mask.soft)
            )
            if clean:
                g = pull(ct, z, xs, params, shape, dtype)
            else:
                # what an elementwise rule makes where its cotangent is dead goes; nothing else is done on purpose
                with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
                    g = pull(ct, z, xs, params, shape, dtype)
                    clean = isinstance(g, BARE) and bool(np.isfinite(np.add.reduce(g, None)))
            if alive is not None:
                if not clean:
                    alive, g = _cleaned(alive, g)
                if alive is not None and g.shape != shape:
                    alive = Mask(functools.partial(_unbroadcast_mask, alive, g.shape, shape), alive)
        else:
            g = pull(ct, z, xs, params, shape, dtype)
            if p.masking.selects or (p.masking.nonnegative_linear and mask is not None):
                alive = Mask(functools.partial(_mask_of_operand, pull, ct.shape, mask, entry, shape), mask)
        keep = alive is not None and entries[j].primitive is not None  # an input needs no mask
        _add(cts, j, _fit(g, shape, dtype), alive if keep else None, masks)


def _compose_mask(entry: Entry, i: int, mask: Mask | None, shape: Shape) -> Mask | None:
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

    return Mask(made if mask is None else lambda: to_lower_level(made()) & mask.get(), mask, soft=False)


def _cleaned(mask: Mask, g: Value) -> tuple[Mask | None, Value]:
    """Return a cotangent with zeros where it is dead; no mask where it is alive everywhere."""
    alive = mask.get()
    if isinstance(alive, BARE) and bool(np.all(alive)):
        return None, g
    return mask, to_lower_level(where(alive, g, 0))


def _unbroadcast_mask(mask: Mask, whole: Shape, shape: Shape) -> Value:
    """Return where an operand of this shape is alive: where the result is at any place it was broadcast to."""
    alive = mask.get()
    if alive.shape != whole:
        alive = to_lower_level(broadcast_to(alive, whole))
    return alive if whole == shape else unbroadcast(alive.astype(np.float32), shape) != 0


def _mask_of_operand(pull: Pullback, whole: Shape, mask: Mask | None, entry: Entry, shape: Shape) -> Value:
    """Return where the operand of a positive op is alive, given where its output of shape ``whole`` is."""
    marks = broadcast_to(np.float32(1), whole) if mask is None else mask.get().astype(np.float32)
    return not_equal(pull(to_lower_level(marks), entry.z, entry.xs, entry.params, shape, np.dtype(np.float32)), 0)
