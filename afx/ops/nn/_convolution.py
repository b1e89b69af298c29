"""Convolution kernels: cross-correlation and its two transposes on plain arrays.

The windows of a block of examples are copied side by side, as the rows of a matrix, into one buffer that stays in the
cache; a matrix product takes them to the result. Where a window has few neighbouring elements, its offsets are the rows
and the positions the columns, so that each copy is long. The transpose by the input goes the other way: products first,
then one shifted addition for each offset of the window.

Examples of few elements are not copied at all: the kernel becomes a band matrix, with a row for each element of an
example and a column for each of its results. Where only the last axis is short, a band matrix does
the same along that axis, and the windows go over the others: they are longer then, and fewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from afx.compiler.arrays import NUMPY, Arrays
from afx.core.aval import Aval, Shape
from afx.ops.nn._bands import (
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

__all__ = [
    "Into",
    "Pairs",
    "col2im",
    "convolving",
    "padded",
    "summing_input",
    "summing_kernel",
    "windows",
]

Into = Callable[..., None]


def padded(x: Any, padding: Pairs, xp: Arrays = NUMPY) -> Any:
    """Return float[batch, *spatial, channels] with zeros around it; x itself where there are none."""
    if all(p == (0, 0) for p in padding):
        return x
    roomy = xp.new(roomy_shape(x.shape, padding), x.dtype)
    xp.clear(roomy)
    xp.copy(roomy[within(x.shape, padding)], x)
    return roomy


def _rows(xp: Arrays, x: Any, window: Shape, stride: Shape, dilation: Shape) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of the batch with their windows as a matrix float[positions, window · channels]."""
    span, channels = math.prod(window), x.shape[-1]
    if span == 1 and all(s == 1 for s in stride) and x.flags.c_contiguous:
        yield slice(None), x.reshape(-1, channels)
        return
    view = xp.view(x, lambda v: windows(v, window, stride, dilation))
    rank = len(window)
    out = view.shape[1 : 1 + rank]
    columns = has_short_runs(x, window, dilation)
    order = (*range(1 + rank, 2 + 2 * rank), *range(1 + rank))
    buffer = None
    for block in batch_blocks(x.shape[0], math.prod(view.shape[1:]) * x.itemsize):
        part = view[block].transpose(order) if columns else view[block]
        buffer = xp.new(part.shape, x.dtype, buffer)
        xp.copy(buffer, part)
        count = part.size // (span * channels) if span * channels else (block.stop - block.start) * math.prod(out)
        yield block, buffer.reshape(span * channels, count).T if columns else buffer.reshape(count, span * channels)


# -- the three of them, for one group --
def _convolve(xp: Arrays, z: Any, x: Any, kernel: Any, stride: Shape, dilation: Shape) -> None:
    window, out = kernel.shape[:-2], kernel.shape[-1]
    weights = kernel.reshape(math.prod(kernel.shape[:-1]), out)
    direct = z.flags.c_contiguous
    for block, rows in _rows(xp, x, window, stride, dilation):
        if direct:
            xp.multiply(rows, weights, z[block].reshape(rows.shape[0], out))
        else:
            z[block] = np.matmul(rows, weights).reshape(z[block].shape)


def _sum_kernel(xp: Arrays, z: Any, x: Any, ct: Any, stride: Shape, dilation: Shape) -> None:
    out = ct.shape[-1]
    shape, direct = (math.prod(z.shape[:-1]), out), z.flags.c_contiguous
    total = z.reshape(shape) if direct else xp.new(shape, z.dtype)
    xp.clear(total)
    for block, rows in _rows(xp, x, z.shape[:-2], stride, dilation):
        found = xp.new(shape, z.dtype)
        xp.multiply(rows.T, ct[block].reshape(rows.shape[0], out), found)
        xp.add(total, found)
    if not direct:
        z[...] = total.reshape(z.shape)


def _sum_input(xp: Arrays, room: Any, ct: Any, kernel: Any, stride: Shape, dilation: Shape) -> None:
    window, channels, out = kernel.shape[:-2], kernel.shape[-2], kernel.shape[-1]
    at = list(window_offsets(window, ct.shape[1:-1], stride, dilation))
    positions = math.prod(ct.shape[1:-1])
    few = channels < MANY_CHANNELS
    weights = kernel.reshape(math.prod(window) * channels, out) if few else xp.dense(kernel.swapaxes(-1, -2))
    for block in batch_blocks(ct.shape[0], positions * channels * (math.prod(window) if few else 1) * ct.itemsize):
        part = ct[block]
        flat, into = part.reshape(part.shape[0] * positions, out), room[block]
        if few:  # channels in front, so that each addition runs over neighbouring positions
            parts = xp.new((*window, channels, *part.shape[:-1]), ct.dtype)
            xp.multiply(weights, flat.T, parts.reshape(weights.shape[0], flat.shape[0]))
            front = xp.new((channels, *into.shape[:-1]), ct.dtype)
            xp.clear(front)
            for place, spans in at:
                xp.add(front[(slice(None), *spans)], parts[place])
            xp.copy(into, np.moveaxis(front, 0, -1))
        else:
            for place, spans in at:
                found = xp.new((flat.shape[0], channels), ct.dtype)
                xp.multiply(flat, weights[place], found)
                xp.add(into[spans], found.reshape(*part.shape[:-1], channels))


# -- one input channel for each group: products of elements, since matrices would have one row --
def _split_groups(z: Any, groups: int) -> Any:
    """Return a view float[..., groups, out/groups]."""
    return z.reshape(*z.shape[:-1], groups, z.shape[-1] // groups)


def _convolve_each(z: Any, x: Any, kernel: Any, stride: Shape, dilation: Shape) -> None:
    wide, weights = _split_groups(z, x.shape[-1]), _split_groups(kernel, x.shape[-1])
    z[...] = 0
    for block in batch_blocks(z.shape[0], 4 * z[:1].nbytes):
        for place, spans in window_offsets(kernel.shape[:-2], z.shape[1:-1], stride, dilation):
            wide[block] += x[block][spans][..., None] * weights[place][0]


def _sum_kernel_each(z: Any, x: Any, ct: Any, stride: Shape, dilation: Shape) -> None:
    wide, total = _split_groups(ct, x.shape[-1]), _split_groups(z, x.shape[-1])
    z[...] = 0
    axes = tuple(range(ct.ndim - 1))
    for block in batch_blocks(ct.shape[0], 4 * ct[:1].nbytes):
        for place, spans in window_offsets(z.shape[:-2], ct.shape[1:-1], stride, dilation):
            total[place][0] += (x[block][spans][..., None] * wide[block]).sum(axis=axes, dtype=z.dtype)


def _sum_input_each(room: Any, ct: Any, kernel: Any, stride: Shape, dilation: Shape) -> None:
    wide, weights = _split_groups(ct, room.shape[-1]), _split_groups(kernel, room.shape[-1])
    for block in batch_blocks(ct.shape[0], 4 * ct[:1].nbytes):
        for place, spans in window_offsets(kernel.shape[:-2], ct.shape[1:-1], stride, dilation):
            room[block][spans] += (wide[block] * weights[place][0]).sum(axis=-1, dtype=ct.dtype)


# -- with groups and padding --
def _parts(groups: int, *arrays: Any) -> Iterator[tuple[Any, ...]]:
    """Yield views of the last axis of each array, group by group."""
    if groups == 1:
        yield arrays
        return
    for g in range(groups):
        yield tuple([a[..., g * (n := a.shape[-1] // groups) : (g + 1) * n] for a in arrays])


def convolving(
    x: Aval, kernel: Aval, z: Aval, stride: Shape, padding: Pairs, dilation: Shape, groups: int, xp: Arrays = NUMPY
) -> Into:
    """Return what writes the cross-correlation, ``(z, x, kernel)``; kernels are float[*window, channels/groups, out]."""
    room = roomy_shape(x.shape, padding)

    def by_windows(z: Any, x: Any, kernel: Any) -> None:
        x = padded(x, padding, xp)
        if groups > 1 and kernel.shape[-2] == 1:
            _convolve_each(z, x, kernel, stride, dilation)
            return
        for zs, xs, ks in _parts(groups, z, x, kernel):
            _convolve(xp, zs, xs, ks, stride, dilation)

    if groups > 1:
        xp.refuse("groups of channels")
        return by_windows
    whole = is_banded(room, kernel.shape, z.shape)
    if not whole and not is_narrow(room, kernel.shape, z.shape):
        return by_windows
    make = band if whole else row_band
    prepared = xp.prepare(lambda: make(room, kernel.shape, z.shape, stride, dilation, x.dtype))

    def by_band(z: Any, x: Any, kernel: Any) -> None:
        roomy = padded(x, padding, xp)
        if not z.flags.c_contiguous or not xp.is_finite(roomy):
            by_windows(z, x, kernel)
            return
        matrix, places = prepared()
        xp.copy(places, kernel if whole else spread_once(kernel))
        if whole:
            xp.multiply(roomy.reshape(room[0], -1), matrix, z.reshape(room[0], -1))
        else:
            _convolve(xp, in_rows(z), in_rows(roomy), matrix, stride[:-1], dilation[:-1])

    return by_band


def summing_kernel(
    x: Aval, ct: Aval, z: Aval, stride: Shape, padding: Pairs, dilation: Shape, groups: int, xp: Arrays = NUMPY
) -> Into:
    """Return what writes the transpose by the kernel, ``(z, x, ct)``."""
    room = roomy_shape(x.shape, padding)

    def by_windows(z: Any, x: Any, ct: Any) -> None:
        x = padded(x, padding, xp)
        if groups > 1 and z.shape[-2] == 1:
            _sum_kernel_each(z, x, ct, stride, dilation)
            return
        for zs, xs, cts in _parts(groups, z, x, ct):
            _sum_kernel(xp, zs, xs, cts, stride, dilation)

    if groups > 1:
        xp.refuse("groups of channels")
        return by_windows
    whole = is_banded(room, z.shape, ct.shape)
    if not whole and not is_narrow(room, z.shape, ct.shape):
        return by_windows
    make = band if whole else row_band
    prepared = xp.prepare(lambda: make(room, z.shape, ct.shape, stride, dilation, x.dtype), False)
    axes = tuple(range(len(stride))) if whole else (len(stride) - 1,)

    def by_band(z: Any, x: Any, ct: Any) -> None:
        roomy = padded(x, padding, xp)
        matrix, places = prepared()
        if whole:
            xp.multiply(roomy.reshape(room[0], -1).T, ct.reshape(room[0], -1), matrix)
        else:
            _sum_kernel(xp, matrix, in_rows(roomy), in_rows(ct), stride[:-1], dilation[:-1])
        xp.add_up(places, axes, z)

    return by_band


def summing_input(
    ct: Aval, kernel: Aval, z: Aval, stride: Shape, padding: Pairs, dilation: Shape, groups: int, xp: Arrays = NUMPY
) -> Into:
    """Return what writes the transpose by the input, ``(z, ct, kernel)``."""
    room = roomy_shape(z.shape, padding)
    around = room != z.shape

    def add_up(z: Any, write: Callable[[Any], None]) -> None:
        """Have something added to zeros, with room for the padding."""
        roomy = xp.new(room, ct.dtype) if around else z
        xp.clear(roomy)
        write(roomy)
        if around:
            xp.copy(z, roomy[within(z.shape, padding)])

    def by_places(z: Any, ct: Any, kernel: Any) -> None:
        def write(roomy: Any) -> None:
            if groups > 1 and kernel.shape[-2] == 1:
                _sum_input_each(roomy, ct, kernel, stride, dilation)
                return
            for rooms, cts, ks in _parts(groups, roomy, ct, kernel):
                _sum_input(xp, rooms, cts, ks, stride, dilation)

        add_up(z, write)

    if groups > 1:
        xp.refuse("groups of channels")
        return by_places
    if is_banded(room, kernel.shape, ct.shape):
        return _summing_input_by_band(xp, ct, kernel, z, stride, padding, dilation, by_places)
    if kernel.shape[-2] >= MANY_CHANNELS or not is_short(room, kernel.shape, ct.shape):
        return by_places
    prepared = xp.prepare(lambda: row_band(room, kernel.shape, ct.shape, stride, dilation, ct.dtype, upright=False))

    def by_rows(z: Any, ct: Any, kernel: Any) -> None:
        if not z.flags.c_contiguous or not xp.is_finite(ct):
            by_places(z, ct, kernel)
            return
        matrix, places = prepared()
        xp.copy(places, spread_once(kernel))
        add_up(z, lambda roomy: _sum_input(xp, in_rows(roomy), in_rows(ct), matrix, stride[:-1], dilation[:-1]))

    return by_rows


def _summing_input_by_band(
    xp: Arrays, ct: Aval, kernel: Aval, z: Aval, stride: Shape, padding: Pairs, dilation: Shape, otherwise: Into
) -> Into:
    """Return what does it by the band matrix of whole examples, and otherwise where zeros would spread inf or nan."""
    room = roomy_shape(z.shape, padding)

    def make() -> tuple[Any, ...]:
        matrix, places = band(room, kernel.shape, ct.shape, stride, dilation, ct.dtype)
        return matrix, places, matrix.reshape(*room[1:], -1)[within(z.shape, padding)[1:]]

    prepared = xp.prepare(make)

    def by_band(z: Any, ct: Any, kernel: Any) -> None:
        if not z.flags.c_contiguous or not xp.is_finite(ct):
            otherwise(z, ct, kernel)
            return
        matrix, places, inner = prepared()
        xp.copy(places, kernel)
        rows = inner.reshape(math.prod(z.shape[1:]), matrix.shape[1])  # without padding: a copy where there is some
        xp.multiply(ct.reshape(room[0], -1), rows.T, z.reshape(room[0], -1))

    return by_band


def col2im(x: Any, shape: Shape, window: Shape, stride: Shape, dilation: Shape, padding: Pairs) -> Any:
    """Return float[batch, *spatial, channels] with each of float[batch, *positions, window · channels] at its position."""
    out = x.shape[1:-1]
    room = np.zeros(roomy_shape(shape, padding), x.dtype)
    parts = x.reshape(shape[0], *out, *window, shape[-1])
    lead = (slice(None),) * (1 + len(out))
    for place, spans in window_offsets(window, out, stride, dilation):
        room[spans] += parts[(*lead, *place)]
    return room[within(shape, padding)]
