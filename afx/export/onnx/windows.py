"""Windows: templates of products, convolutions and pooling.

A convolution of float32 is ONNX's own; of other dtypes, which runtimes lack, and on the way back, windows are gathered beside
each other (im2col), multiplied, and summed again (col2im) by products with matrices of zeros and ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from afx.export.onnx.dims import Dim, Length, product
from afx.export.onnx.indexing import reduce
from afx.export.onnx.shapes import pad
from afx.export.onnx.table import rule
from afx.export.onnx.value import Value, where
from afx.export.onnx.writer import OnnxWriter
from afx.export.templates.table import NoTemplateError

__all__ = ["multiply_matrices"]

INT64 = np.dtype(np.int64)


def multiply_matrices(x: Value, y: Value) -> Value:
    """Return the product of matrices whose shapes are known; leading axes are those of the first."""
    found = x.writer.arithmetic("MatMul", x, y)
    return attrs.evolve(found, shape=(*x.shape[:-1], y.shape[-1]))


@rule("matmul")
def _matmul(w: OnnxWriter, x: Value, y: Value) -> Value:
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
        self.places: list[np.ndarray[Any, Any]] = [
            np.arange((sum(p) + n - (k - 1) * d - 1) // s + 1)[:, None] * s + np.arange(k) * d for n, k, s, d, p in axes
        ]

    @property
    def positions(self) -> tuple[int, ...]:
        """How many windows lie along each axis."""
        return tuple([len(p) for p in self.places])

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


def _multiply_known(like: Value, matrix: np.ndarray[Any, Any], y: Value) -> Value:
    """Return a known matrix times y, along the last axis but one."""
    found = like.writer.array(matrix, "places").op("MatMul", y)
    return attrs.evolve(found, shape=(*y.shape[:-2], len(matrix), y.shape[-1]))


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
    found = x.transpose([*front, *spatial]).op(
        "Conv", kernel.transpose([rank + 1, rank, *range(rank)]), group=groups,
        strides=list(w.params["stride"]), dilations=list(w.params["dilation"]), pads=padding,
    )  # fmt: skip
    found = attrs.evolve(found, shape=(x.shape[0], kernel.shape[-1], *w.outs[0].shape[1:-1]))
    return found.transpose([0, *range(2, rank + 2), 1])


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
    found = multiply_matrices(columns, _kernel_by_groups(kernel, groups))
    if groups > 1:
        found = found.transpose([1, 0, 2])
    return found.reshape(w.outs[0].shape)


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
    found = multiply_matrices(turned, _outputs_by_groups(ct, rows, groups))
    if groups > 1:
        found = found.reshape([groups, math.prod(window) * inner, _share(ct.shape[-1], groups)]).transpose([1, 0, 2])
    return found.reshape([*window, inner, ct.shape[-1]])


@rule("correlate")
def _correlate(w: OnnxWriter, x: Value, y: Value) -> Value:
    n, span = x.shape[0], y.shape[0]
    if isinstance(n, Dim) or isinstance(span, Dim):
        raise NoTemplateError("along a dynamic axis")
    if w.params["full"]:
        x, n = pad(x, [span - 1], [span - 1]), n + 2 * (span - 1)
    places = np.arange(n - span + 1)[:, None] + np.arange(span)
    return w.arithmetic("MatMul", x.op("Gather", w.array(places, "windows"), axis=0), y)


# -- pooling: the axes of windows stand within the shape, and the offset of an element is its number in row-major order --
def _merge(x: Value, axes: Sequence[int]) -> Value:
    """Return x with the axes of its windows as one last axis."""
    rest = [a for a in range(len(x.shape)) if a not in axes]
    moved = x.transpose([*rest, *axes])
    return moved.reshape([*[x.shape[a] for a in rest], product([x.shape[a] for a in axes])])


def _mark_offsets(w: OnnxWriter, k: Value, count: Length) -> Value:
    """Return where the offsets of a last axis are those of k."""
    return k.cast(INT64).op("Unsqueeze", w.ints((len(k.shape),))).equals(w.count(count))


@rule("first_of_window")
def _first(w: OnnxWriter, x: Value, top: Value) -> Value:
    merged = _merge(x, w.params["axis"])
    hits = merged.equals(top.op("Unsqueeze", w.ints((len(top.shape),)))).cast(np.int32)
    first = hits.op("ArgMax", dtype=INT64, axis=-1, keepdims=0)
    if x.dtype.kind != "f":
        return first
    count = merged.shape[-1]
    return where(top.is_nan(), w.length(count - 1), first)


@rule("pick_from_window")
def _pick(w: OnnxWriter, x: Value, k: Value) -> Value:
    merged = _merge(x, w.params["axis"])
    kept = where(_mark_offsets(w, k, merged.shape[-1]), merged, 0)
    return reduce("ReduceSum", attrs.evolve(kept, shape=merged.shape), (-1,))


@rule("put_into_window")
def _put(w: OnnxWriter, ct: Value, k: Value) -> Value:
    axes, window = w.params["axis"], w.params["window"]
    kept = where(_mark_offsets(w, k, product(window)), ct.op("Unsqueeze", w.ints((len(ct.shape),))), 0)
    apart = kept.reshape([*ct.shape, *window])
    order, rest, last = list[int](), iter(range(len(ct.shape))), len(ct.shape)
    for a in range(len(ct.shape) + len(axes)):
        order.append(last + list(axes).index(a) if a in axes else next(rest))
    return apart.transpose(order)
