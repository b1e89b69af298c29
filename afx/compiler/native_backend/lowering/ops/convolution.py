"""Native forms of convolutions: the copies and products of `afx.ops.nn`, in the same order.

What decides about the way at run time there (an infinite element, which zeros of a band would spread) is a fault here, for
which NumPy's plan runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np

from afx.compiler.convolutions import (
    MANY_CHANNELS,
    Pairs,
    band,
    batch_blocks,
    has_short_runs,
    in_rows,
    is_banded,
    is_narrow,
    is_short,
    roomy_shape,
    row_band,
    spread_once,
    window_offsets,
    windows,
    within,
)
from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.memory import Location, broadcast, copy_nest, of_array, part_of
from afx.compiler.native_backend.lowering.ops.expand import REAL, Calls
from afx.compiler.native_backend.lowering.ops.product import multiply_into
from afx.compiler.native_backend.lowering.ops.reduction import loop_of, quiet_of, start_of_sum
from afx.compiler.native_backend.program import Inner, Load, Nest, Op, Ref
from afx.compiler.schedule import Call
from afx.core.aval import Shape

__all__ = ["CONVOLUTIONS"]

View = Callable[[Any], Any]


class _Convolution:
    """Adds the steps of one convolution to a block."""

    def __init__(self, b: BlockBuilder, call: Call) -> None:
        params = dict(call.params)
        self.b = b
        self.quiet: tuple[str, ...] = quiet_of(call)
        self.stride: Shape = params["stride"]
        self.dilation: Shape = params["dilation"]
        self.padding: Pairs = params["padding"]
        self.x, self.y = [b.ordered(v) for v in call.operands]
        self.z: Location = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
        if params["groups"] > 1:
            raise UnsupportedError(f"{call.op} of groups of channels")
        if not {self.x.dtype, self.y.dtype} == {self.z.dtype} <= set(REAL):
            raise UnsupportedError(f"{call.op} of {self.x.dtype} and {self.y.dtype}")
        self._steps = 0

    # -- pieces --
    def new(self, shape: Shape) -> Location:
        """Return new memory."""
        return self.b.temporary(shape, self.z.dtype)

    def copy(self, to: Location, of: Location) -> None:
        """Copy elements."""
        self._count()
        self.b.fixed([copy_nest(to, of, self.quiet)], [of], [to])

    def clear(self, x: Location) -> None:
        """Fill memory with zeros."""
        self.copy(x, self.b.constant(np.zeros((), x.dtype)))

    def add(self, to: Location, x: Location) -> None:
        """Add elements to others."""
        self._count()
        target = Ref(to.owner, to.dtype, to.offset, to.strides)
        values = (Load(target), Load(_ref(x, to.shape)), Op("add", to.dtype, (0, 1)))
        self.b.fixed([Nest(to.shape, values, ((2, target),), self.quiet)], [to, x], [to])

    def multiply(self, x: Location, y: Location, out: Location) -> None:
        """Write the product of two matrices."""
        self._count()
        multiply_into(self.b, x, y, out, self.quiet)

    def _count(self) -> None:
        self._steps += 1
        if self._steps > self.b.limits.convolution_max_steps:
            raise UnsupportedError("a convolution of many offsets or blocks")

    def flat(self, x: Location, shape: Shape) -> Location:
        """Return an array in another shape, copied where its elements do not lie next to each other."""
        return _shaped(self.dense(x), shape)

    def dense(self, x: Location) -> Location:
        """Return an array whose elements lie next to each other, copied where they do not."""
        return x if _is_dense(x) else self.b.copied(x)

    def padded(self, x: Location) -> Location:
        """Return an array with zeros around it."""
        room = roomy_shape(x.shape, self.padding)
        if room == x.shape:
            return x
        roomy = self.new(room)
        self.clear(roomy)
        self.copy(_part(roomy, within(x.shape, self.padding)), x)
        return roomy

    def refuse_infinite(self, x: Location) -> None:
        """Leave the call to NumPy where the squares of elements add up to no finite number."""
        c = Calls(self.b, self.quiet)
        fits = c.ufunc("isfinite", c.square(x))
        self.b.location(c.cast(c.where(fits, c.number(0.0, x.dtype), c.number(math.inf, x.dtype)), "i4"))

    def band(self, make: Callable[..., tuple[Any, Any]], *shapes: Shape, upright: bool = True) -> tuple[Location, View]:
        """Return memory for a band matrix, and where the kernel's offsets lie in it."""
        matrix, places = make(*shapes, self.stride, self.dilation, np.dtype(self.z.dtype), upright=upright)
        whole = self.new(matrix.shape)
        strides = matrix.strides
        memory = attrs.evolve(whole, strides=strides)
        return memory, lambda v: np.lib.stride_tricks.as_strided(v, places.shape, places.strides)

    # -- the three of `afx.ops.nn._convolution` --
    def rows(self, x: Location, window: Shape, stride: Shape, dilation: Shape) -> Iterator[tuple[slice, Location]]:
        """Yield blocks of the batch with their windows as a matrix float[positions, window · channels]."""
        span, channels = math.prod(window), x.shape[-1]
        if span == 1 and all(s == 1 for s in stride) and _is_dense(x):
            yield slice(None), _shaped(x, (-1, channels))
            return
        rank = len(window)
        whole = _view(x, lambda v: windows(v, window, stride, dilation))
        columns = has_short_runs(of_array(x), window, dilation)
        order = (*range(1 + rank, 2 + 2 * rank), *range(1 + rank))
        for block in batch_blocks(x.shape[0], math.prod(whole.shape[1:]) * int(x.dtype[1:])):
            part = _part(whole, block)
            part = _view(part, lambda v: v.transpose(order)) if columns else part
            buffer = self.new(part.shape)
            self.copy(buffer, part)
            count = math.prod(part.shape) // (span * channels)
            yield (
                block,
                _turned(_shaped(buffer, (span * channels, count)))
                if columns
                else _shaped(buffer, (count, span * channels)),
            )

    def convolve(self, z: Location, x: Location, kernel: Location, stride: Shape, dilation: Shape) -> None:
        """Multiply windows with the kernel."""
        out = kernel.shape[-1]
        weights = self.flat(kernel, (math.prod(kernel.shape[:-1]), out))
        for block, rows in self.rows(x, kernel.shape[:-2], stride, dilation):
            self.multiply(rows, weights, _shaped(_part(z, block), (-1, out)))

    def sum_kernel(self, z: Location, x: Location, ct: Location, stride: Shape, dilation: Shape) -> None:
        """Multiply transposed windows with cotangents, and add up the products of all blocks."""
        out = ct.shape[-1]
        total = _shaped(z, (-1, out))
        self.clear(total)
        for block, rows in self.rows(x, z.shape[:-2], stride, dilation):
            found = self.new(total.shape)
            part = self.flat(_part(ct, block), (rows.shape[0], out))
            self.multiply(_turned(rows), part, found)
            self.add(total, found)

    def sum_input(self, room: Location, ct: Location, kernel: Location, stride: Shape, dilation: Shape) -> None:
        """Multiply cotangents with the kernel, and add up the products offset by offset."""
        window, channels, out = kernel.shape[:-2], kernel.shape[-2], kernel.shape[-1]
        at = list(window_offsets(window, ct.shape[1:-1], stride, dilation))
        positions, few = math.prod(ct.shape[1:-1]), channels < MANY_CHANNELS
        weights = (
            self.flat(kernel, (math.prod(window) * channels, out))
            if few
            else self.dense(_view(kernel, lambda v: v.swapaxes(-1, -2)))
        )
        size = positions * channels * (math.prod(window) if few else 1) * int(ct.dtype[1:])
        for block in batch_blocks(ct.shape[0], size):
            part, into = (_part(p, block) for p in (ct, room))
            flat = self.flat(part, (part.shape[0] * positions, out))
            if few:
                parts = self.new((*window, channels, *part.shape[:-1]))
                rows = _shaped(parts, (-1, part.shape[0] * positions))
                self.multiply(weights, _turned(flat), rows)
                front = self.new((channels, *into.shape[:-1]))
                self.clear(front)
                for place, spans in at:
                    self.add(
                        _part(front, (slice(None), *spans)),
                        _part(parts, place),
                    )
                self.copy(into, _view(front, lambda v: np.moveaxis(v, 0, -1)))
                continue
            for place, spans in at:
                found = self.new((flat.shape[0], channels))
                self.multiply(flat, _part(weights, place), found)
                self.add(_part(into, spans), _shaped(found, (*part.shape[:-1], channels)))


def _ref(x: Location, space: Shape) -> Ref:
    return Ref(x.owner, x.dtype, x.offset, broadcast(x, space))


def _is_dense(x: Location) -> bool:
    found: bool = of_array(x).flags.c_contiguous
    return found


def _view(x: Location, look: View) -> Location:
    """Return where a view of an array lies."""
    array = of_array(x)
    view = look(array)
    assert np.may_share_memory(array, view), "a view that copies"
    return part_of(x, array, view)


def _part(x: Location, index: Any) -> Location:
    return _view(x, lambda v: v[index])


def _shaped(x: Location, shape: Shape) -> Location:
    return _view(x, lambda v: v.reshape(shape))


def _turned(x: Location) -> Location:
    return _view(x, lambda v: v.T)


def _conv(b: BlockBuilder, call: Call) -> None:
    c = _Convolution(b, call)
    x, kernel, z = c.padded(c.x), c.y, c.z
    whole = is_banded(x.shape, kernel.shape, z.shape)
    if not (whole or is_narrow(x.shape, kernel.shape, z.shape)) or not _is_dense(x):
        c.convolve(z, x, kernel, c.stride, c.dilation)
        return
    matrix = _filled_band(c, x, x.shape, z.shape, is_whole=whole)
    if whole:
        batch = x.shape[0]
        c.multiply(_shaped(x, (batch, -1)), matrix, _shaped(z, (batch, -1)))
    else:
        c.convolve(_view(z, in_rows), _view(x, in_rows), matrix, c.stride[:-1], c.dilation[:-1])


def _filled_band(
    c: _Convolution, given: Location, x: Shape, out: Shape, *, is_whole: bool = False, upright: bool = True
) -> Location:
    """Return the kernel as a band matrix, of whole examples or of the last axis, by which finite elements are multiplied."""
    c.refuse_infinite(given)
    matrix, places = c.band(band if is_whole else row_band, x, c.y.shape, out, upright=upright)
    c.clear(matrix)
    c.copy(_view(matrix, places), c.y if is_whole else _view(c.y, spread_once))
    return matrix


def _conv_kernel(b: BlockBuilder, call: Call) -> None:
    c = _Convolution(b, call)
    x, ct, z = c.padded(c.x), c.y, c.z
    whole = is_banded(x.shape, z.shape, ct.shape)
    if not (whole or is_narrow(x.shape, z.shape, ct.shape)):
        c.sum_kernel(z, x, ct, c.stride, c.dilation)
        return
    matrix, places = c.band(band if whole else row_band, x.shape, z.shape, ct.shape)
    if whole:
        x, ct = (c.flat(v, (x.shape[0], math.prod(v.shape[1:]))) for v in (x, ct))
        c.multiply(_turned(x), ct, matrix)
    else:
        x, ct = (_view(c.dense(v), in_rows) for v in (x, ct))
        c.sum_kernel(matrix, x, ct, c.stride[:-1], c.dilation[:-1])
    rank = len(c.stride)
    _add_places(c, _view(matrix, places), tuple(range(rank)) if whole else (rank - 1,))


def _add_places(c: _Convolution, places: Location, axes: Shape) -> None:
    """Add up what stands at all positions, one after the other, as NumPy does where a row of outputs is its inner loop."""
    z = c.z
    if z.shape[-1] == 1:
        raise UnsupportedError("sums over positions for one output")
    strides = iter(z.strides)
    of_z = tuple([0 if k in axes else next(strides) for k in range(len(places.shape))])
    out = Ref(z.owner, z.dtype, z.offset, of_z)
    operands = (out, Ref(places.owner, places.dtype, places.offset, places.strides), out)
    first = Nest(z.shape, (start_of_sum(z.dtype),), ((0, Ref(z.owner, z.dtype, z.offset, z.strides)),))
    c.b.fixed([first, Inner(loop_of("add", (z.dtype,) * 3), places.shape, operands, c.quiet)], [places], [z])


def _conv_input(b: BlockBuilder, call: Call) -> None:
    c = _Convolution(b, call)
    ct, kernel, z = c.x, c.y, c.z
    room = roomy_shape(z.shape, c.padding)
    is_whole = is_banded(room, kernel.shape, ct.shape)
    by_rows = not is_whole and kernel.shape[-2] < MANY_CHANNELS and is_short(room, kernel.shape, ct.shape)
    if is_whole and _is_dense(ct):
        _conv_input_by_band(c, room)
        return
    matrix = _filled_band(c, ct, room, ct.shape, upright=False) if by_rows and _is_dense(ct) else None
    roomy = c.z if room == z.shape else c.new(room)
    c.clear(roomy)
    if matrix is not None:
        c.sum_input(_view(roomy, in_rows), _view(ct, in_rows), matrix, c.stride[:-1], c.dilation[:-1])
    else:
        c.sum_input(roomy, ct, kernel, c.stride, c.dilation)
    if room != z.shape:
        c.copy(z, _part(roomy, within(z.shape, c.padding)))


def _conv_input_by_band(c: _Convolution, room: Shape) -> None:
    ct, z = c.x, c.z
    matrix = _filled_band(c, ct, room, ct.shape, is_whole=True)
    inner = _part(_shaped(matrix, (*room[1:], -1)), within(z.shape, c.padding)[1:])
    rows = c.flat(inner, (math.prod(z.shape[1:]), matrix.shape[1]))  # of elements that are no padding
    c.multiply(_shaped(ct, (room[0], -1)), _turned(rows), _shaped(z, (room[0], -1)))


CONVOLUTIONS: dict[str, Callable[[BlockBuilder, Call], None]] = {
    "conv": _conv,
    "conv_input": _conv_input,
    "conv_kernel": _conv_kernel,
}
