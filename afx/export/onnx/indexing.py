"""Index arrays: templates of reads and writes there, of sorting, and of reductions along axes."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np

from afx.export.onnx.dims import Dim, Length
from afx.export.onnx.elementwise import as_bool
from afx.export.onnx.shapes import slice_axes
from afx.export.onnx.table import rule, rules
from afx.export.onnx.value import BOOL, Value, where
from afx.export.onnx.writer import OnnxWriter
from afx.export.templates.table import NoTemplateError

__all__ = ["reduce"]

INT64 = np.dtype(np.int64)


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
    found = attrs.evolve(front.op("GatherND", places), shape=(*shape, *front.shape[len(indices) :]))
    return _move(found, 0, len(shape), axis)


def _update(w: OnnxWriter, x: Value, values: Value, indices: Sequence[Value], axis: int, reduction: str) -> Value:
    places, shape = _places(w, indices)
    if x.dtype == BOOL and reduction != "none":
        raise NoTemplateError(f"{reduction} of bool")
    front, count = _move(x, axis, len(indices), 0), len(indices)
    values = _move(values, axis, len(shape), 0)
    found = attrs.evolve(front.op("ScatterND", places, values.cast(x.dtype), reduction=reduction), shape=front.shape)
    return _move(found, 0, count, axis)


UPDATES = {"index_set": "none", "index_add": "add", "index_multiply": "mul", "index_min": "min", "index_max": "max"}


@rules(UPDATES)
def _index_update(w: OnnxWriter, reduction: str, x: Value, values: Value, *indices: Value) -> Value:
    return _update(w, x, values, indices, w.params["axis"], reduction)


@rule("scatter", "scatter_unread")
def _scatter(w: OnnxWriter, values: Value, *indices: Value) -> Value:
    zeros = w.full(w.params["shape"], 0, values.dtype)
    return _update(w, zeros, values, indices, w.params["axis"], "add")


# -- order --
def _write_top_k(w: OnnxWriter, x: Value, axis: int) -> list[Value]:
    if x.dtype == np.dtype(np.uint64):
        raise NoTemplateError("order of uint64")
    wide = x if x.dtype.kind == "f" else x.cast(INT64)
    names = [w.names.make("ordered"), w.names.make("places")]
    count = w.ints((x.shape[axis],))
    w.put("TopK", [wide.name, count.name], names, axis=axis, largest=0, sorted=1)
    return [attrs.evolve(wide, name=names[0]), Value(w, names[1], INT64, x.shape)]


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
    wide = x if x.dtype.name in ("float32", "float64", "int32", "int64") else x.cast(INT64)
    gone = {a % rank for a in axes}
    rest = [1 if k in gone else n for k, n in enumerate(x.shape) if keep or k not in gone]
    found = wide.op(kind, w.ints(sorted(gone)), keepdims=int(keep)).cast(x.dtype)
    return attrs.evolve(found, shape=tuple(rest))


@rules({"sum": "ReduceSum", "prod": "ReduceProd"})
def _total(w: OnnxWriter, kind: str, x: Value) -> Value:
    return reduce(kind, x.cast(w.outs[0].dtype), w.params["axis"])


def extreme(kind: str, x: Value, axes: Sequence[int]) -> Value:
    """Return the largest or the smallest, or nan where one is among them."""
    if x.dtype == np.dtype(np.uint64):
        raise NoTemplateError("order of uint64")
    if not axes:
        return x
    found = reduce(kind, x, axes)
    if x.dtype.kind != "f":
        return found
    nan = reduce("ReduceMax", x.is_nan().cast(np.int32), axes)
    return where(nan > 0, float("nan"), found)


@rules({"max": "ReduceMax", "max_first": "ReduceMax", "min": "ReduceMin"})
def _extreme(w: OnnxWriter, kind: str, x: Value) -> Value:
    return extreme(kind, x, w.params["axis"])


@rules({"nanmax": ("ReduceMax", -np.inf), "nanmin": ("ReduceMin", np.inf)})
def _reduce_known(w: OnnxWriter, kind: tuple[str, float], x: Value) -> Value:
    axes = w.params["axis"]
    if x.dtype.kind != "f" or not axes:
        return extreme(kind[0], x, axes)
    found = reduce(kind[0], where(x.is_nan(), kind[1], x), axes)
    every = reduce("ReduceMin", x.is_nan().cast(np.int32), axes)
    return where(every > 0, float("nan"), found)


@rules({"all": "ReduceMin", "any": "ReduceMax"})
def _truth(w: OnnxWriter, kind: str, x: Value) -> Value:
    return reduce(kind, as_bool(x).cast(np.int32), w.params["axis"]) > 0


@rules({"argmax": "ArgMax", "argmin": "ArgMin"})
def _argument(w: OnnxWriter, kind: str, x: Value) -> Value:
    found = _place(w, kind, x)
    if x.dtype.kind != "f":
        return found
    nan = x.is_nan().cast(np.int32)
    first = nan.op("ArgMax", dtype=INT64, axis=w.params["axis"], keepdims=0)
    return where(reduce("ReduceMax", attrs.evolve(nan, shape=x.shape), (w.params["axis"],)) > 0, first, found)


@rules({"nanargmax": ("ArgMax", -np.inf), "nanargmin": ("ArgMin", np.inf)})
def _known_argument(w: OnnxWriter, kind: tuple[str, float], x: Value) -> Value:
    return _place(w, kind[0], where(x.is_nan(), kind[1], x) if x.dtype.kind == "f" else x)


def _place(w: OnnxWriter, kind: str, x: Value) -> Value:
    if x.dtype == np.dtype(np.uint64):
        raise NoTemplateError("order of uint64")
    wide = x if x.dtype.kind == "f" else x.cast(INT64)
    return wide.op(kind, dtype=INT64, axis=w.params["axis"], keepdims=0)


@rule("logsumexp")
def _logsumexp(w: OnnxWriter, x: Value) -> Value:
    return _sum_of_exponentials(x, w.params["axis"])


def _sum_of_exponentials(x: Value, axes: Sequence[int], keep: bool = False) -> Value:
    top = reduce("ReduceMax", x, axes, True)
    shift = where(top.op("IsInf", dtype=BOOL), 0.0, top)
    total = reduce("ReduceSum", attrs.evolve((x - shift).op("Exp"), shape=x.shape), axes, True)
    found = attrs.evolve(total.op("Log") + shift, shape=top.shape)
    gone = {a % len(x.shape) for a in axes}
    return found if keep else found.reshape([n for k, n in enumerate(x.shape) if k not in gone])


@rule("softmax")
def _softmax(w: OnnxWriter, x: Value) -> Value:
    axes = w.params["axis"]
    if len(axes) == 1:
        return x.op("Softmax", axis=axes[0])
    return (x - _sum_of_exponentials(x, axes, True)).op("Exp")


@rule("log_softmax")
def _log_softmax(w: OnnxWriter, x: Value) -> Value:
    return x - _sum_of_exponentials(x, w.params["axis"], True)  # onnxruntime's own loses nan


@rule("vector_norm")
def _norm(w: OnnxWriter, x: Value) -> Value:
    axes = w.params["axis"]
    if not axes:
        return abs(x)
    top = reduce("ReduceMax", attrs.evolve(abs(x), shape=x.shape), axes, True)
    scale = where((top > 0.0) & ~top.op("IsInf", dtype=BOOL), top, 1.0)
    part = x / scale
    root = reduce("ReduceSum", attrs.evolve(part * part, shape=x.shape), axes).op("Sqrt")
    gone = {a % len(x.shape) for a in axes}
    return root * scale.reshape([n for k, n in enumerate(x.shape) if k not in gone])


# -- along an axis --
@rule("cumulative_sum")
def _cumulative(w: OnnxWriter, x: Value) -> Value:
    place = w.number(w.params["axis"], INT64)
    wide = x if x.dtype.name in ("float32", "float64", "int32", "int64") else x.cast(INT64)
    return wide.op("CumSum", place, reverse=int(w.params["reverse"]))


@rules({"cummax": "Max", "cummin": "Min"})
def _running(w: OnnxWriter, larger: str, x: Value) -> Value:
    """Return running extremes, of spans that double."""
    axis: int = w.params["axis"]
    n = x.shape[axis]
    if isinstance(n, Dim):
        raise NoTemplateError("along a dynamic axis")
    span = 1
    while span < n:
        first = slice_axes(x, {axis: (0, span, 1)})
        later, earlier = slice_axes(x, {axis: (span, n, 1)}), slice_axes(x, {axis: (0, n - span, 1)})
        both = w.arithmetic(larger, later, earlier)
        x = attrs.evolve(first.op("Concat", both, axis=axis), shape=x.shape)
        span *= 2
    return x
