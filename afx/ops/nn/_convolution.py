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

from afx.core.aval import Aval, Shape

__all__ = [
    "Into",
    "Pairs",
    "col2im",
    "convolving",
    "padded",
    "summing_input",
    "summing_kernel",
    "window_offsets",
    "windows",
]

Pairs = tuple[tuple[int, int], ...]
Into = Callable[..., None]
BLOCK = 1 << 20  # bytes of windows that are worked on at a time
LONG_RUN = 10  # neighbouring elements above which copying windows row by row is faster
SMALL_BAND = 1 << 13  # elements of a band matrix that costs nothing
MOST_ZEROS = 4  # times as long as the kernel may a column of it be
MANY_CHANNELS = 8  # from this size, adding up offset by offset is faster
NARROW = 16  # elements of a window along the last axis up to which a band along it beats copying windows
SHORT = 6  # times as long as the window may the last axis be for that


def padded(x: Any, padding: Pairs) -> Any:
    """Return float[batch, *spatial, channels] with zeros around it; x itself where there are none."""
    if all(p == (0, 0) for p in padding):
        return x
    roomy = np.zeros(_roomy(x.shape, padding), x.dtype)
    roomy[_within(x.shape, padding)] = x
    return roomy


def _roomy(shape: Shape, padding: Pairs) -> Shape:
    return (shape[0], *[n + a + b for n, (a, b) in zip(shape[1:-1], padding, strict=True)], shape[-1])


def _within(shape: Shape, padding: Pairs) -> tuple[slice, ...]:
    return (slice(None), *[slice(a, a + n) for n, (a, _) in zip(shape[1:-1], padding, strict=True)])


def windows(x: Any, window: Shape, stride: Shape, dilation: Shape) -> Any:
    """Return a view float[batch, *positions, *window, channels] of x."""
    steps = x.strides[1:-1]
    out = [(n - (w - 1) * d - 1) // s + 1 for n, w, s, d in zip(x.shape[1:-1], window, stride, dilation, strict=True)]
    moves = [t * s for t, s in zip(steps, stride, strict=True)], [t * d for t, d in zip(steps, dilation, strict=True)]
    return np.lib.stride_tricks.as_strided(
        x,
        (x.shape[0], *out, *window, x.shape[-1]),
        (x.strides[0], *moves[0], *moves[1], x.strides[-1]),
        writeable=False,
    )


def window_offsets(
    window: Shape, out: Shape, stride: Shape, dilation: Shape
) -> Iterator[tuple[Shape, tuple[slice, ...]]]:
    """Yield each offset in a window, with the index of the elements that stand there, position by position."""
    for place in np.ndindex(*window):
        spans = [
            slice(p * d, p * d + (n - 1) * s + 1, s) for p, d, n, s in zip(place, dilation, out, stride, strict=True)
        ]
        yield place, (slice(None), *spans)


def _blocks(batch: int, size: int) -> Iterator[slice]:
    """Yield slices of a batch whose examples take ``size`` bytes each."""
    step = max(1, BLOCK // max(size, 1))
    for start in range(0, batch, step):
        yield slice(start, min(start + step, batch))


def _rows(x: Any, window: Shape, stride: Shape, dilation: Shape) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of the batch with their windows as a matrix float[positions, window · channels]."""
    span, channels = math.prod(window), x.shape[-1]
    if span == 1 and all(s == 1 for s in stride) and x.flags.c_contiguous:
        yield slice(None), x.reshape(-1, channels)
        return
    view = windows(x, window, stride, dilation)
    rank = len(window)
    out = view.shape[1 : 1 + rank]
    adjacent = dilation[-1] == 1 and x.strides[-2] == channels * x.itemsize
    columns = channels * (window[-1] if adjacent else 1) < LONG_RUN
    order = (*range(1 + rank, 2 + 2 * rank), *range(1 + rank))
    buffer = None
    for block in _blocks(x.shape[0], math.prod(view.shape[1:]) * x.itemsize):
        part = view[block].transpose(order) if columns else view[block]
        if buffer is None or buffer.shape != part.shape:
            buffer = np.empty(part.shape, x.dtype)
        np.copyto(buffer, part)
        count = part.size // (span * channels) if span * channels else (block.stop - block.start) * math.prod(out)
        yield block, buffer.reshape(span * channels, count).T if columns else buffer.reshape(count, span * channels)


# -- the three of them, for one group ---------------------------------------------------------------------------------
def _convolve(z: Any, x: Any, kernel: Any, stride: Shape, dilation: Shape) -> None:
    window, out = kernel.shape[:-2], kernel.shape[-1]
    weights = kernel.reshape(math.prod(kernel.shape[:-1]), out)
    direct = z.flags.c_contiguous
    for block, rows in _rows(x, window, stride, dilation):
        if direct:
            np.matmul(rows, weights, out=z[block].reshape(rows.shape[0], out))
        else:
            z[block] = np.matmul(rows, weights).reshape(z[block].shape)


def _sum_kernel(z: Any, x: Any, ct: Any, stride: Shape, dilation: Shape) -> None:
    out = ct.shape[-1]
    total = np.zeros((math.prod(z.shape[:-1]), out), z.dtype)
    for block, rows in _rows(x, z.shape[:-2], stride, dilation):
        total += np.matmul(rows.T, ct[block].reshape(rows.shape[0], out))
    z[...] = total.reshape(z.shape)


def _sum_input(room: Any, ct: Any, kernel: Any, stride: Shape, dilation: Shape) -> None:
    window, channels, out = kernel.shape[:-2], kernel.shape[-2], kernel.shape[-1]
    at = list(window_offsets(window, ct.shape[1:-1], stride, dilation))
    positions = math.prod(ct.shape[1:-1])
    few = channels < MANY_CHANNELS
    weights = (
        kernel.reshape(math.prod(window) * channels, out) if few else np.ascontiguousarray(kernel.swapaxes(-1, -2))
    )
    for block in _blocks(ct.shape[0], positions * channels * (math.prod(window) if few else 1) * ct.itemsize):
        part = ct[block]
        flat, into = part.reshape(part.shape[0] * positions, out), room[block]
        if few:  # channels in front, so that each addition runs over neighbouring positions
            parts = np.matmul(weights, flat.T).reshape(*window, channels, *part.shape[:-1])
            front = np.zeros((channels, *into.shape[:-1]), ct.dtype)
            for place, spans in at:
                front[(slice(None), *spans)] += parts[place]
            into[...] = np.moveaxis(front, 0, -1)
        else:
            for place, spans in at:
                into[spans] += np.matmul(flat, weights[place]).reshape(*part.shape[:-1], channels)


# -- examples of few elements, or with a short last axis: products with a band matrix ---------------------------------
def _banded(x: Shape, kernel: Shape, out: Shape) -> bool:
    """Tell whether the band matrix is small, and not mostly zeros."""
    rows, columns = math.prod(x[1:]), math.prod(out[1:])
    return x[0] > 1 and 0 < rows * columns <= SMALL_BAND and rows <= MOST_ZEROS * math.prod(kernel[:-1])


def _short(x: Shape, kernel: Shape, out: Shape) -> bool:
    """Tell whether a band along the last axis has few zeros enough."""
    return len(x) > 3 and x[0] > 1 and 0 < x[-2] <= SHORT * kernel[-3] and math.prod(out) > 0


def _narrow(x: Shape, kernel: Shape, out: Shape) -> bool:
    """Tell whether a band along the last axis is cheaper than to copy windows."""
    return _short(x, kernel, out) and kernel[-3] * kernel[-2] < NARROW


def _band(
    x: Shape, kernel: Shape, out: Shape, stride: Shape, dilation: Shape, dtype: Any, *, upright: bool = True
) -> tuple[Any, Any]:
    """Return zero matrices, and a view [*lead, *positions, *window, channels, out] of the kernel's offsets in them.

    The kernel's shape begins with that of the matrices; they are transposed in memory where they are not ``upright``.
    """
    rank = len(stride)
    lead, own = kernel[: -rank - 2], (math.prod(x[1:]), math.prod(out[1:]))
    shape = (*lead, *own) if upright else (*lead, *own[::-1])
    matrix = np.zeros(shape, dtype) if upright else np.zeros(shape, dtype).swapaxes(-1, -2)
    down, right = matrix.strides[-2:]
    wide = [down * math.prod(x[k + 1 :]) for k in range(1, rank + 2)]
    across = [right * math.prod(out[k + 1 :]) for k in range(1, rank + 2)]
    moves = [s * t + c for s, t, c in zip(wide, stride, across, strict=False)]
    steps = [s * d for s, d in zip(wide, dilation, strict=False)]
    strides = (*matrix.strides[:-2], *moves, *steps, wide[-1], across[-1])
    view = np.lib.stride_tricks.as_strided(matrix, (*lead, *out[1:-1], *kernel[len(lead) :]), strides)
    return matrix, view


def _row_band(
    x: Shape, kernel: Shape, z: Shape, stride: Shape, dilation: Shape, dtype: Any, *, upright: bool = True
) -> tuple[Any, Any]:
    """Return a band matrix of the last axis for each offset along the others, and the kernel's offsets in them."""
    return _band((1, *x[-2:]), kernel, (1, *z[-2:]), stride[-1:], dilation[-1:], dtype, upright=upright)


def _once(kernel: Any) -> Any:
    """Return a view of a kernel with an axis for the positions along the last axis."""
    return kernel[..., None, :, :, :]


def _in_rows(x: Any) -> Any:
    """Return a view with the last axis and the channels as one."""
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


def _finite(x: Any) -> bool:
    """Tell that no element is inf or nan, which zeros of the band would spread; false where squares overflow, too."""
    flat = x.reshape(-1)
    return x.dtype.char in "fd" and x.flags.c_contiguous and math.isfinite(np.dot(flat, flat))


# -- one input channel for each group: products of elements, since matrices would have one row ------------------------
def _by_groups(z: Any, groups: int) -> Any:
    """Return a view float[..., groups, out/groups]."""
    return z.reshape(*z.shape[:-1], groups, z.shape[-1] // groups)


def _convolve_each(z: Any, x: Any, kernel: Any, stride: Shape, dilation: Shape) -> None:
    wide, weights = _by_groups(z, x.shape[-1]), _by_groups(kernel, x.shape[-1])
    z[...] = 0
    for block in _blocks(z.shape[0], 4 * z[:1].nbytes):
        for place, spans in window_offsets(kernel.shape[:-2], z.shape[1:-1], stride, dilation):
            wide[block] += x[block][spans][..., None] * weights[place][0]


def _sum_kernel_each(z: Any, x: Any, ct: Any, stride: Shape, dilation: Shape) -> None:
    wide, total = _by_groups(ct, x.shape[-1]), _by_groups(z, x.shape[-1])
    z[...] = 0
    axes = tuple(range(ct.ndim - 1))
    for block in _blocks(ct.shape[0], 4 * ct[:1].nbytes):
        for place, spans in window_offsets(z.shape[:-2], ct.shape[1:-1], stride, dilation):
            total[place][0] += (x[block][spans][..., None] * wide[block]).sum(axis=axes, dtype=z.dtype)


def _sum_input_each(room: Any, ct: Any, kernel: Any, stride: Shape, dilation: Shape) -> None:
    wide, weights = _by_groups(ct, room.shape[-1]), _by_groups(kernel, room.shape[-1])
    for block in _blocks(ct.shape[0], 4 * ct[:1].nbytes):
        for place, spans in window_offsets(kernel.shape[:-2], ct.shape[1:-1], stride, dilation):
            room[block][spans] += (wide[block] * weights[place][0]).sum(axis=-1, dtype=ct.dtype)


# -- with groups and padding ------------------------------------------------------------------------------------------
def _parts(groups: int, *arrays: Any) -> Iterator[tuple[Any, ...]]:
    """Yield views of the last axis of each array, group by group."""
    if groups == 1:
        yield arrays
        return
    for g in range(groups):
        yield tuple([a[..., g * (n := a.shape[-1] // groups) : (g + 1) * n] for a in arrays])


def convolving(x: Aval, kernel: Aval, z: Aval, stride: Shape, padding: Pairs, dilation: Shape, groups: int) -> Into:
    """Return what writes the cross-correlation, ``(z, x, kernel)``; kernels are float[*window, channels/groups, out]."""
    room = _roomy(x.shape, padding)

    def by_windows(z: Any, x: Any, kernel: Any) -> None:
        x = padded(x, padding)
        if groups > 1 and kernel.shape[-2] == 1:
            _convolve_each(z, x, kernel, stride, dilation)
            return
        for zs, xs, ks in _parts(groups, z, x, kernel):
            _convolve(zs, xs, ks, stride, dilation)

    if groups > 1:
        return by_windows
    whole = _banded(room, kernel.shape, z.shape)
    if not whole and not _narrow(room, kernel.shape, z.shape):
        return by_windows
    band = _band if whole else _row_band
    matrix, places = band(room, kernel.shape, z.shape, stride, dilation, x.dtype)

    def by_band(z: Any, x: Any, kernel: Any) -> None:
        roomy = padded(x, padding)
        if not z.flags.c_contiguous or not _finite(roomy):
            by_windows(z, x, kernel)
        elif whole:
            places[...] = kernel
            np.matmul(roomy.reshape(room[0], -1), matrix, out=z.reshape(room[0], -1))
        else:
            places[...] = _once(kernel)
            _convolve(_in_rows(z), _in_rows(roomy), matrix, stride[:-1], dilation[:-1])

    return by_band


def summing_kernel(x: Aval, ct: Aval, z: Aval, stride: Shape, padding: Pairs, dilation: Shape, groups: int) -> Into:
    """Return what writes the transpose by the kernel, ``(z, x, ct)``."""
    room = _roomy(x.shape, padding)

    def by_windows(z: Any, x: Any, ct: Any) -> None:
        x = padded(x, padding)
        if groups > 1 and z.shape[-2] == 1:
            _sum_kernel_each(z, x, ct, stride, dilation)
            return
        for zs, xs, cts in _parts(groups, z, x, ct):
            _sum_kernel(zs, xs, cts, stride, dilation)

    if groups > 1:
        return by_windows
    whole = _banded(room, z.shape, ct.shape)
    if not whole and not _narrow(room, z.shape, ct.shape):
        return by_windows
    band = _band if whole else _row_band
    matrix, places = band(room, z.shape, ct.shape, stride, dilation, x.dtype)
    axes = tuple(range(len(stride))) if whole else len(stride) - 1

    def by_band(z: Any, x: Any, ct: Any) -> None:
        roomy = padded(x, padding)
        if whole:
            np.matmul(roomy.reshape(room[0], -1).T, ct.reshape(room[0], -1), out=matrix)
        else:
            _sum_kernel(matrix, _in_rows(roomy), _in_rows(ct), stride[:-1], dilation[:-1])
        np.add.reduce(places, axes, out=z)

    return by_band


def summing_input(ct: Aval, kernel: Aval, z: Aval, stride: Shape, padding: Pairs, dilation: Shape, groups: int) -> Into:
    """Return what writes the transpose by the input, ``(z, ct, kernel)``."""
    room = _roomy(z.shape, padding)
    around = room != z.shape

    def by_places(z: Any, ct: Any, kernel: Any) -> None:
        roomy = np.empty(room, ct.dtype) if around else z
        roomy[...] = 0
        if groups > 1 and kernel.shape[-2] == 1:
            _sum_input_each(roomy, ct, kernel, stride, dilation)
        else:
            for rooms, cts, ks in _parts(groups, roomy, ct, kernel):
                _sum_input(rooms, cts, ks, stride, dilation)
        if around:
            z[...] = roomy[_within(z.shape, padding)]

    if groups > 1:
        return by_places
    if _banded(room, kernel.shape, ct.shape):
        return _summing_input_by_band(ct, kernel, z, stride, padding, dilation, by_places)
    if kernel.shape[-2] >= MANY_CHANNELS or not _short(room, kernel.shape, ct.shape):
        return by_places
    matrix, places = _row_band(room, kernel.shape, ct.shape, stride, dilation, ct.dtype, upright=False)

    def by_rows(z: Any, ct: Any, kernel: Any) -> None:
        if not z.flags.c_contiguous or not _finite(ct):
            by_places(z, ct, kernel)
            return
        places[...] = _once(kernel)
        roomy = np.empty(room, ct.dtype) if around else z
        roomy[...] = 0
        _sum_input(_in_rows(roomy), _in_rows(ct), matrix, stride[:-1], dilation[:-1])
        if around:
            z[...] = roomy[_within(z.shape, padding)]

    return by_rows


def _summing_input_by_band(
    ct: Aval, kernel: Aval, z: Aval, stride: Shape, padding: Pairs, dilation: Shape, otherwise: Into
) -> Into:
    """Return what does it by the band matrix of whole examples, and otherwise where zeros would spread inf or nan."""
    room = _roomy(z.shape, padding)
    matrix, places = _band(room, kernel.shape, ct.shape, stride, dilation, ct.dtype)
    inner = matrix.reshape(*room[1:], -1)[_within(z.shape, padding)[1:]]

    def by_band(z: Any, ct: Any, kernel: Any) -> None:
        if not z.flags.c_contiguous or not _finite(ct):
            otherwise(z, ct, kernel)
            return
        places[...] = kernel
        rows = inner.reshape(-1, matrix.shape[1])  # of elements that are no padding; a copy where there is some
        np.matmul(ct.reshape(room[0], -1), rows.T, out=z.reshape(room[0], -1))

    return by_band


def col2im(x: Any, shape: Shape, window: Shape, stride: Shape, dilation: Shape, padding: Pairs) -> Any:
    """Return float[batch, *spatial, channels] with each of float[batch, *positions, window · channels] at its position."""
    out = x.shape[1:-1]
    room = np.zeros(_roomy(shape, padding), x.dtype)
    parts = x.reshape(shape[0], *out, *window, shape[-1])
    lead = (slice(None),) * (1 + len(out))
    for place, spans in window_offsets(window, out, stride, dilation):
        room[spans] += parts[(*lead, *place)]
    return room[_within(shape, padding)]
