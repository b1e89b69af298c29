"""Shapes: templates of reshapes, slices and their transposes, joins and parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from afx.export.onnx.dims import Length
from afx.export.onnx.table import rule
from afx.export.onnx.value import BOOL, Value, where
from afx.export.onnx.writer import OnnxWriter

__all__ = ["FIRST", "embed", "pad", "slice_axes"]

FIRST, INT64 = -(2**63), np.dtype(np.int64)
PADDED = ("float32", "float64", "int32", "int64", "bool")


@rule("reshape")
def _reshape(w: OnnxWriter, x: Value) -> Value:
    return w.reshape(x, w.outs[0].shape)


@rule("broadcast_to")
def _broadcast(w: OnnxWriter, x: Value) -> Value:
    return w.expand(x, w.outs[0].shape)


@rule("permute_dims")
def _permute(w: OnnxWriter, x: Value) -> Value:
    return x.transpose(w.params["axes"])


@rule("cast", "convert", "fit")
def _cast(w: OnnxWriter, x: Value) -> Value:
    return x.cast(w.outs[0].dtype)


@rule("concat")
def _concat(w: OnnxWriter, *xs: Value) -> Value:
    dtype = w.outs[0].dtype
    first, *rest = [x.cast(dtype) for x in xs]
    return first.op("Concat", *rest, axis=w.params["axis"])


@rule("stack")
def _stack(w: OnnxWriter, *xs: Value) -> Value:
    axis, dtype = w.params["axis"], w.outs[0].dtype
    first, *rest = [x.cast(dtype).op("Unsqueeze", w.ints((axis,))) for x in xs]
    return first.op("Concat", *rest, axis=axis)


@rule("split")
def _split(w: OnnxWriter, x: Value) -> list[Value]:
    axis, found, at = w.params["axis"], list[Value](), 0
    for size in w.params["sizes"]:
        found.append(slice_axes(x, {axis: (at, at + size, 1)}))
        at = at + size
    return found


@rule("unstack")
def _unstack(w: OnnxWriter, x: Value) -> list[Value]:
    axis = w.params["axis"]
    parts = [slice_axes(x, {axis: (k, k + 1, 1)}) for k in range(len(w.outs))]
    return [part.op("Squeeze", w.ints((axis,))) for part in parts]


@rule("roll")
def _roll(w: OnnxWriter, x: Value) -> Value:
    shifts: Sequence[tuple[int, int]] = w.params["shifts"]
    for axis, shift in shifts:
        n = x.shape[axis]
        last, first = slice_axes(x, {axis: (n - shift, n, 1)}), slice_axes(x, {axis: (0, n - shift, 1)})
        x = attrs.evolve(last.op("Concat", first, axis=axis), shape=x.shape)
    return x


# -- slices: an index holds integers, None for new axes, and (start, stop, step), where a stop below 0 is the beginning --
Entry = tuple[Length, Length, Length]


def slice_axes(x: Value, parts: dict[int, Entry]) -> Value:
    """Return x with parts of its axes taken; of its shape, only the lengths of other axes stay known."""
    if not parts:
        return x
    w, axes = x.writer, list(parts)
    starts = [parts[a][0] for a in axes]
    stops = [FIRST if isinstance(stop, int) and stop < 0 else stop for stop in [parts[a][1] for a in axes]]
    steps = [parts[a][2] for a in axes]
    return x.op("Slice", w.ints(starts), w.ints(stops), w.ints(axes), w.ints(steps))


def _entries(index: Sequence[Any], shape: Sequence[Length]) -> tuple[dict[int, Entry], list[int], list[int]]:
    """Return the parts that are taken, the axes that an integer takes away, and the new axes of the result."""
    parts, dropped, new, axis, place = dict[int, Entry](), list[int](), list[int](), 0, 0
    for entry in index:
        if entry is None:
            new.append(place)
            place += 1
            continue
        if isinstance(entry, tuple):
            if entry != (0, shape[axis], 1):
                parts[axis] = entry
            place += 1
        else:
            at = entry + shape[axis] if isinstance(entry, int) and entry < 0 else entry
            parts[axis] = (at, at + 1, 1)
            dropped.append(axis)
        axis += 1
    return parts, dropped, new


@rule("slice")
def _slice(w: OnnxWriter, x: Value) -> Value:
    parts, dropped, new = _entries(w.params["index"], x.shape)
    found = slice_axes(x, parts)
    if dropped:
        found = found.op("Squeeze", w.ints(dropped))
    return found.op("Unsqueeze", w.ints(new)) if new else found


def pad(x: Value, before: Sequence[Length], after: Sequence[Length]) -> Value:
    """Return x between zeros."""
    if not any([*before, *after]):
        return x
    wide = x.dtype if x.dtype.name in PADDED else INT64
    y = x.cast(wide)
    padded = y.op("Pad", x.writer.ints([*before, *after]), x.writer.number(0, wide)).cast(x.dtype)
    shape = tuple([b + n + a for b, n, a in zip(before, x.shape, after, strict=True)])
    return attrs.evolve(padded, shape=shape)


def embed(x: Value, shape: Sequence[Length], index: Sequence[Any]) -> Value:
    """Return zeros of a shape with x at an index."""
    w = x.writer
    parts, dropped, new = _entries(index, shape)
    if new:
        x = x.op("Squeeze", w.ints(new))
    if dropped:
        x = x.op("Unsqueeze", w.ints(dropped))
    full: list[Entry] = [parts.get(a, (0, n, 1)) for a, n in enumerate(shape)]
    sizes = [_count(entry) for entry in full]
    x = attrs.evolve(x, shape=tuple(sizes))
    before, after = list[Length](), list[Length]()
    for axis, (start, _stop, step) in enumerate(full):
        low, count = start, sizes[axis]
        if isinstance(step, int) and step < 0:
            x = attrs.evolve(slice_axes(x, {axis: (-1, -1, -1)}), shape=x.shape)
            low, step = start + (count - 1) * step, -step
        if step != 1:
            x = _spread(x, axis, step)
        before.append(low if count != 0 else 0)
        after.append(shape[axis] - before[-1] - x.shape[axis])
    return pad(x, before, after)


def _count(entry: Entry) -> Length:
    start, stop, step = entry
    if step == 1:
        return stop - start
    assert isinstance(start, int)
    assert isinstance(stop, int)
    assert isinstance(step, int)
    return len(range(start, stop, step))


def _spread(x: Value, axis: int, step: Length) -> Value:
    """Return x with zeros between the elements of an axis."""
    n, shape = x.shape[axis], list(x.shape)
    if n in (0, 1):
        return x
    apart = x.reshape([*shape[: axis + 1], 1, *shape[axis + 1 :]])
    rank = len(apart.shape)
    apart = pad(apart, [0] * rank, [step - 1 if k == axis + 1 else 0 for k in range(rank)])
    joined = apart.reshape([*shape[:axis], n * step, *shape[axis + 1 :]])
    length = n * step - (step - 1)
    return attrs.evolve(slice_axes(joined, {axis: (0, length, 1)}), shape=(*shape[:axis], length, *shape[axis + 1 :]))


@rule("embed")
def _embed(w: OnnxWriter, x: Value) -> Value:
    return embed(x, w.params["shape"], w.params["index"])


@rule("slice_add")
def _slice_add(w: OnnxWriter, x: Value, part: Value) -> Value:
    return x + embed(part, x.shape, w.params["index"])


@rule("slice_set")
def _slice_set(w: OnnxWriter, x: Value, part: Value) -> Value:
    index = w.params["index"]
    here = embed(w.full(part.shape, True, BOOL), x.shape, index)
    return where(here, embed(part.cast(x.dtype), x.shape, index), x)
