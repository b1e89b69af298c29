"""Arrays: templates of reshapes and slices, of reads and writes at indices, of products, convolutions and pooling."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from afx.core import Ndarray
from afx.export.onnx.elementwise import as_bool, rule, rules
from afx.export.onnx.writer import BOOL, INT64, Dim, Length, OnnxWriter, Value, computed, product, refuse_uint64, where
from afx.export.templates import NoTemplateError

# --- Shapes: templates of reshapes, slices and their transposes, joins and parts

FIRST = -(2**63)
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
    axis, parts, at = w.params["axis"], list[Value](), 0
    for size in w.params["sizes"]:
        parts.append(slice_axes(x, {axis: (at, at + size, 1)}))
        at = at + size
    return parts


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
    sliced = slice_axes(x, parts)
    if dropped:
        sliced = sliced.op("Squeeze", w.ints(dropped))
    return sliced.op("Unsqueeze", w.ints(new)) if new else sliced


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
    full = [parts.get(a, (0, n, 1)) for a, n in enumerate(shape)]
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


# --- Index arrays: templates of reads and writes there, of sorting, and of reductions along axes


# -- at index arrays, which stand for neighbouring axes from one on --
def _places(w: OnnxWriter, indices: Sequence[Value]) -> tuple[Value, tuple[Length, ...]]:
    """Return the indices side by side along a last axis, and the shape that they have together."""
    rank = max(len(i.shape) for i in indices)
    shape = tuple(
        [next((n for i in indices for n in _pad_shape(i.shape, rank)[a : a + 1] if n != 1), 1) for a in range(rank)]
    )
    columns = [
        w.reshape(w.expand(i.cast(np.int64), shape) if i.shape != shape else i.cast(np.int64), (*shape, 1))
        for i in indices
    ]
    if len(columns) == 1:
        return columns[0], shape
    return attrs.evolve(columns[0].op("Concat", *columns[1:], axis=rank), shape=(*shape, len(columns))), shape


def _pad_shape(shape: Sequence[Length], rank: int) -> list[Length]:
    return [1] * (rank - len(shape)) + list(shape)


def _move(x: Value, source: int, count: int, target: int) -> Value:
    """Return x with ``count`` axes from ``source`` on moved so that they start at ``target``."""
    axes = list(range(len(x.shape)))
    block, rest = axes[source : source + count], axes[:source] + axes[source + count :]
    return x.transpose([*rest[:target], *block, *rest[target:]])


@rule("gather", "select")
def _gather(w: OnnxWriter, x: Value, *indices: Value) -> Value:
    axis = w.params["axis"]
    if len(indices) == 1:
        return x.op("Gather", indices[0].cast(np.int64), axis=axis)
    places, shape = _places(w, indices)
    front = _move(x, axis, len(indices), 0)
    gathered = attrs.evolve(front.op("GatherND", places), shape=(*shape, *front.shape[len(indices) :]))
    return _move(gathered, 0, len(shape), axis)


def _update(w: OnnxWriter, x: Value, values: Value, indices: Sequence[Value], axis: int, reduction: str) -> Value:
    places, shape = _places(w, indices)
    if x.dtype == BOOL and reduction != "none":
        raise NoTemplateError(f"{reduction} of bool")
    front, count = _move(x, axis, len(indices), 0), len(indices)
    values = _move(values, axis, len(shape), 0)
    updated = attrs.evolve(front.op("ScatterND", places, values.cast(x.dtype), reduction=reduction), shape=front.shape)
    return _move(updated, 0, count, axis)


UPDATES = {"index_set": "none", "index_add": "add", "index_multiply": "mul", "index_min": "min", "index_max": "max"}


@rules(UPDATES)
def _index_update(w: OnnxWriter, reduction: str, x: Value, values: Value, *indices: Value) -> Value:
    return _update(w, x, values, indices, w.params["axis"], reduction)


@rule("scatter", "scatter_unread")
def _scatter(w: OnnxWriter, values: Value, *indices: Value) -> Value:
    zeros = w.full(w.params["shape"], 0, values.dtype)
    return _update(w, zeros, values, indices, w.params["axis"], "add")


# -- order --
def _in_order(x: Value) -> Value:
    """Return numbers in a dtype that runtimes compare."""
    refuse_uint64(x.dtype, "order")
    return x if x.dtype.kind == "f" else x.cast(INT64)


def _write_top_k(w: OnnxWriter, x: Value, axis: int) -> list[Value]:
    wide = _in_order(x)
    names = [w.names.make("ordered"), w.names.make("places")]
    count, shape = w.ints((w.outs[0].shape[axis],)), w.outs[0].shape
    w.put("TopK", [wide.name, count.name], names, axis=axis, largest=0, sorted=1)
    return [attrs.evolve(wide, name=names[0], shape=shape), Value(w, names[1], INT64, shape)]


@rules({"sort": 0, "argsort": 1})
def _sort(w: OnnxWriter, which: int, x: Value) -> Value:
    return _write_top_k(w, x, w.params["axis"] % len(x.shape))[which]


@rule("searchsorted")
def _search(w: OnnxWriter, ordered: Value, v: Value) -> Value:
    row = v.op("Unsqueeze", w.ints((len(v.shape),)))
    before = ordered < row if w.params["side"] == "left" else ordered <= row
    return reduce("ReduceSum", attrs.evolve(before.cast(INT64), shape=(*v.shape, *ordered.shape)), (len(v.shape),))


# -- reductions --
def reduce(kind: str, x: Value, axes: Sequence[int], keep: bool = False) -> Value:
    """Return a reduction over axes, which are none where it is the array itself."""
    if not axes:
        return x
    w, rank = x.writer, len(x.shape)
    wide = x.cast(computed(x.dtype))
    gone = {a % rank for a in axes}
    rest = [1 if k in gone else n for k, n in enumerate(x.shape) if keep or k not in gone]
    reduced = wide.op(kind, w.ints(sorted(gone)), keepdims=int(keep)).cast(x.dtype)
    return attrs.evolve(reduced, shape=tuple(rest))


@rules({"sum": "ReduceSum", "prod": "ReduceProd"})
def _total(w: OnnxWriter, kind: str, x: Value) -> Value:
    return reduce(kind, x.cast(w.outs[0].dtype), w.params["axis"])


def extreme(kind: str, x: Value, axes: Sequence[int]) -> Value:
    """Return the largest or the smallest, or nan where one is among them."""
    refuse_uint64(x.dtype, "order")
    if not axes:
        return x
    reduced = reduce(kind, x, axes)
    if x.dtype.kind != "f":
        return reduced
    nan = reduce("ReduceMax", x.is_nan().cast(np.int32), axes)
    return where(nan > 0, float("nan"), reduced)


@rules({"max": "ReduceMax", "max_first": "ReduceMax", "min": "ReduceMin"})
def _extreme(w: OnnxWriter, kind: str, x: Value) -> Value:
    return extreme(kind, x, w.params["axis"])


@rules({"all": "ReduceMin", "any": "ReduceMax"})
def _truth(w: OnnxWriter, kind: str, x: Value) -> Value:
    return reduce(kind, as_bool(x).cast(np.int32), w.params["axis"]) > 0


@rules({"argmax": "ArgMax", "argmin": "ArgMin"})
def _argument(w: OnnxWriter, kind: str, x: Value) -> Value:
    index = _place(w, kind, x)
    if x.dtype.kind != "f":
        return index
    nan = x.is_nan().cast(np.int32)
    first = nan.op("ArgMax", dtype=INT64, axis=w.params["axis"], keepdims=0)
    return where(reduce("ReduceMax", attrs.evolve(nan, shape=x.shape), (w.params["axis"],)) > 0, first, index)


@rules({"nanargmax": ("ArgMax", -np.inf), "nanargmin": ("ArgMin", np.inf)})
def _known_argument(w: OnnxWriter, kind: tuple[str, float], x: Value) -> Value:
    return _place(w, kind[0], where(x.is_nan(), kind[1], x) if x.dtype.kind == "f" else x)


def _place(w: OnnxWriter, kind: str, x: Value) -> Value:
    return _in_order(x).op(kind, dtype=INT64, axis=w.params["axis"], keepdims=0)


@rule("softmax")
def _softmax(w: OnnxWriter, x: Value) -> Value:
    axes = w.params["axis"]
    if len(axes) == 1:
        return x.op("Softmax", axis=axes[0])
    top = reduce("ReduceMax", x, axes, True)
    shift = where(top.op("IsInf", dtype=BOOL), 0.0, top)
    total = reduce("ReduceSum", attrs.evolve((x - shift).op("Exp"), shape=x.shape), axes, True)
    return (x - attrs.evolve(total.op("Log") + shift, shape=top.shape)).op("Exp")


# -- along an axis --
@rule("cumulative_sum")
def _cumulative(w: OnnxWriter, x: Value) -> Value:
    place = w.number(w.params["axis"], INT64)
    return x.cast(computed(x.dtype)).op("CumSum", place, reverse=int(w.params["reverse"]))


# --- Windows: templates of products, convolutions and pooling
#
# A convolution of float32 is ONNX's own; of other dtypes, which runtimes lack, and on the way back, windows are
# gathered beside each other (im2col), multiplied, and summed again (col2im) by products with matrices of zeros and
# ones.


def multiply_matrices(x: Value, y: Value) -> Value:
    """Return the product of matrices whose shapes are known; leading axes are those of the first."""
    return attrs.evolve(x.writer.arithmetic("MatMul", x, y), shape=(*x.shape[:-1], y.shape[-1]))


@rule("matmul")
def _matmul(w: OnnxWriter, x: Value, y: Value) -> Value:
    if len(x.shape) > 1 == len(y.shape):  # as a matrix: onnxruntime (1.32) multiplies a transpose by a vector wrongly
        return w.arithmetic("MatMul", x, y.op("Unsqueeze", w.ints((1,)))).op("Squeeze", w.ints((-1,)))
    return w.arithmetic("MatMul", x, y)


# -- windows --
class _Windows:
    """Where windows lie along each spatial axis of float[batch, *spatial, channels]."""

    def __init__(self, params: dict[str, Any], window: Sequence[Length], shape: Sequence[Length]) -> None:
        self.stride, self.dilation, self.padding = params["stride"], params["dilation"], params["padding"]
        if any(isinstance(n, Dim) for n in (*window, *shape[1:-1])):
            raise NoTemplateError("along a dynamic axis")
        self.window: tuple[int, ...] = tuple(window)  # type: ignore[arg-type]  # none is dynamic
        self.sizes: tuple[int, ...] = tuple(shape[1:-1])  # type: ignore[arg-type]  # nor here
        self.rank = len(self.window)
        axes = zip(self.sizes, self.window, self.stride, self.dilation, self.padding, strict=True)
        # of each axis, the places that positions and offsets stand for, in the padded array
        self.places: list[Ndarray] = [
            np.arange((sum(p) + n - (k - 1) * d - 1) // s + 1)[:, None] * s + np.arange(k) * d for n, k, s, d, p in axes
        ]

    @property
    def positions(self) -> tuple[int, ...]:
        """How many windows lie along each axis."""
        return tuple(map(len, self.places))

    def gather(self, x: Value) -> Value:
        """Return float[batch, *positions, product of window * channels]."""
        y = pad(x, [0, *[p[0] for p in self.padding], 0], [0, *[p[1] for p in self.padding], 0])
        shape = list(y.shape)
        for k, places in enumerate(self.places):
            axis = 1 + 2 * k
            shape[axis : axis + 1] = places.shape
            y = attrs.evolve(y.op("Gather", x.writer.array(places, "windows"), axis=axis), shape=tuple(shape))
        ranks = range(self.rank)
        y = y.transpose([0, *[1 + 2 * k for k in ranks], *[2 + 2 * k for k in ranks], 1 + 2 * self.rank])
        return y.reshape([x.shape[0], *self.positions, math.prod(self.window) * x.shape[-1]])

    def sum(self, columns: Value, channels: Length) -> Value:
        """Return the transpose of `gather`: each window's elements added where they came from."""
        batch, ranks = columns.shape[0], range(self.rank)
        y = columns.reshape([batch, *self.positions, *self.window, channels])
        y = y.transpose([0, *itertools.chain(*[(1 + k, 1 + self.rank + k) for k in ranks]), 1 + 2 * self.rank])
        for k in ranks:
            places, size = self.places[k].reshape(-1) - self.padding[k][0], self.sizes[k]
            ones = (np.arange(size)[:, None] == places).astype(columns.dtype)
            before, rest = [batch, *self.sizes[:k]], [*y.shape[k + 3 :]]
            flat = y.reshape([*before, len(places), product(rest)])
            summed = _multiply_known(columns, ones, flat)
            y = summed.reshape([*before, size, *rest])
        return y


def _multiply_known(like: Value, matrix: Ndarray, y: Value) -> Value:
    """Return a known matrix times y, along the last axis but one."""
    z = like.writer.array(matrix, "places").op("MatMul", y)
    return attrs.evolve(z, shape=(*y.shape[:-2], len(matrix), y.shape[-1]))


@rule("im2col")
def _im2col(w: OnnxWriter, x: Value) -> Value:
    return _Windows(w.params, w.params["window"], x.shape).gather(x)


@rule("col2im")
def _col2im(w: OnnxWriter, x: Value) -> Value:
    shape = w.params["shape"]
    return _Windows(w.params, w.params["window"], shape).sum(x, shape[-1])


# -- convolutions --
@rule("conv")
def _conv(w: OnnxWriter, x: Value, kernel: Value) -> Value:
    rank, groups = len(x.shape) - 2, w.params["groups"]
    if x.dtype != np.dtype(np.float32):
        return _conv_by_columns(w, x, kernel, groups)
    front, spatial = [0, rank + 1], range(1, rank + 1)
    padding = [p[0] for p in w.params["padding"]] + [p[1] for p in w.params["padding"]]
    convolved = x.transpose([*front, *spatial]).op(
        "Conv", kernel.transpose([rank + 1, rank, *range(rank)]), group=groups,
        strides=list(w.params["stride"]), dilations=list(w.params["dilation"]), pads=padding,
    )  # fmt: skip
    convolved = attrs.evolve(convolved, shape=(x.shape[0], kernel.shape[-1], *w.outs[0].shape[1:-1]))
    return convolved.transpose([0, *range(2, rank + 2), 1])


def _group_columns(columns: Value, rows: Length, parts: Sequence[Length], groups: int) -> Value:
    """Return columns of (window, channels) as float[groups, rows, window * channels of a group]."""
    count, channels = parts
    if groups == 1:
        return columns.reshape([rows, count * channels])
    y = columns.reshape([rows, count, groups, _share(channels, groups)]).transpose([2, 0, 1, 3])
    return y.reshape([groups, rows, count * _share(channels, groups)])


def _share(channels: Length, groups: int) -> int:
    assert isinstance(channels, int)
    return channels // groups


def _kernel_by_groups(kernel: Value, groups: int) -> Value:
    """Return a kernel as float[groups, window * channels of a group, outputs of a group]."""
    inner, outer = product(kernel.shape[:-1]), kernel.shape[-1]
    flat = kernel.reshape([inner, outer])
    if groups == 1:
        return flat
    return flat.reshape([inner, groups, _share(outer, groups)]).transpose([1, 0, 2])


def _outputs_by_groups(ct: Value, rows: Length, groups: int) -> Value:
    flat = ct.reshape([rows, ct.shape[-1]])
    if groups == 1:
        return flat
    return flat.reshape([rows, groups, _share(ct.shape[-1], groups)]).transpose([1, 0, 2])


def _conv_by_columns(w: OnnxWriter, x: Value, kernel: Value, groups: int) -> Value:
    windows = _Windows(w.params, kernel.shape[:-2], x.shape)
    rows = x.shape[0] * math.prod(windows.positions)
    columns = _group_columns(windows.gather(x), rows, (math.prod(windows.window), x.shape[-1]), groups)
    z = multiply_matrices(columns, _kernel_by_groups(kernel, groups))
    if groups > 1:
        z = z.transpose([1, 0, 2])
    return z.reshape(w.outs[0].shape)


@rule("conv_input")
def _conv_input(w: OnnxWriter, ct: Value, kernel: Value) -> Value:
    shape, groups = w.params["shape"], w.params["groups"]
    windows = _Windows(w.params, kernel.shape[:-2], shape)
    rows, count = shape[0] * math.prod(windows.positions), math.prod(windows.window)
    flat = _kernel_by_groups(kernel, groups)
    turned = flat.transpose([*range(len(flat.shape) - 2), len(flat.shape) - 1, len(flat.shape) - 2])
    columns = multiply_matrices(_outputs_by_groups(ct, rows, groups), turned)
    if groups > 1:
        columns = columns.reshape([groups, rows, count, shape[-1] // groups]).transpose([1, 2, 0, 3])
    return windows.sum(columns.reshape([shape[0], *windows.positions, count * shape[-1]]), shape[-1])


@rule("conv_kernel")
def _conv_kernel(w: OnnxWriter, x: Value, ct: Value) -> Value:
    groups, window = w.params["groups"], w.params["window"]
    windows = _Windows(w.params, window, x.shape)
    rows, inner = x.shape[0] * math.prod(windows.positions), _share(x.shape[-1], groups)
    columns = _group_columns(windows.gather(x), rows, (math.prod(window), x.shape[-1]), groups)
    rank = len(columns.shape)
    turned = columns.transpose([*range(rank - 2), rank - 1, rank - 2])
    z = multiply_matrices(turned, _outputs_by_groups(ct, rows, groups))
    if groups > 1:
        z = z.reshape([groups, math.prod(window) * inner, _share(ct.shape[-1], groups)]).transpose([1, 0, 2])
    return z.reshape([*window, inner, ct.shape[-1]])


@rule("correlate")
def _correlate(w: OnnxWriter, x: Value, y: Value) -> Value:
    n, span = x.shape[0], y.shape[0]
    if isinstance(n, Dim) or isinstance(span, Dim):
        raise NoTemplateError("along a dynamic axis")
    if w.params["full"]:
        x, n = pad(x, [span - 1], [span - 1]), n + 2 * (span - 1)
    places = np.arange(n - span + 1)[:, None] + np.arange(span)
    return w.arithmetic("MatMul", x.op("Gather", w.array(places, "windows"), axis=0), y)
