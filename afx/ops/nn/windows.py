"""Windows: cross-correlation and its transposes on plain arrays, band matrices, and every window as a row."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias

import numpy as np

from afx.compiler.schedule.arrays import NUMPY, Arrays
from afx.core.array.array import Array, ArrayLike, snapshot, wrap
from afx.core.aval import Aval, Shape, aval_of, normalize_axis
from afx.core.primitive import Bools, Params, Primitive, Value, Values
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind, bind_single, is_traced
from afx.errors import ArgumentError, ShapeError
from afx.ops._kinds.linear import in_each_part, linear
from afx.ops.creation.creation import asarray
from afx.ops.indexing.index import ints
from afx.ops.manipulation.join import moveaxis
from afx.ops.manipulation.shape import reshape

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from afx.compiler.native_backend.lowering.recorder import Recorder


# --- Bands: windows of an array as views, band matrices, and which of both a convolution takes

Pairs: TypeAlias = "tuple[tuple[int, int], ...]"
BLOCK = 1 << 20  # bytes of windows that are worked on at a time
LONG_RUN = 10  # neighbouring elements above which copying windows row by row is faster
SMALL_BAND = 1 << 13  # elements of a band matrix that costs nothing
MOST_ZEROS = 4  # times as long as the kernel may a column of it be
MANY_CHANNELS = 8  # from this size, adding up offset by offset is faster
NARROW = 16  # elements of a window along the last axis up to which a band along it beats copying windows
SHORT = 6  # times as long as the window may the last axis be for that


def roomy_shape(shape: Shape, padding: Pairs) -> Shape:
    """Return the shape of a padded batch of examples."""
    return (shape[0], *[n + a + b for n, (a, b) in zip(shape[1:-1], padding, strict=True)], shape[-1])


def within(shape: Shape, padding: Pairs) -> tuple[slice, ...]:
    """Return the index of what is no padding."""
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


def has_short_runs(x: Any, window: Shape, dilation: Shape) -> bool:
    """Tell whether few elements of a window are neighbours, so that positions are copied side by side, offset by offset."""
    channels: int = x.shape[-1]
    adjacent = dilation[-1] == 1 and x.strides[-2] == channels * x.itemsize
    return channels * (window[-1] if adjacent else 1) < LONG_RUN


def batch_step(batch: int, size: int) -> int:
    """Return how many examples of ``size`` bytes each are worked on at a time."""
    return min(max(1, BLOCK // max(size, 1)), max(1, batch))


def batch_rows(batch: int, size: int, positions: int) -> set[int]:
    """Return how many rows the matrices of `batch_blocks` have, with one for each position of an example."""
    return {(block.stop - block.start) * positions for block in batch_blocks(batch, size)}


def batch_blocks(batch: int, size: int) -> Iterator[slice]:
    """Yield slices of a batch whose examples take ``size`` bytes each."""
    step = batch_step(batch, size)
    for start in range(0, batch, step):
        yield slice(start, min(start + step, batch))


def is_banded(x: Shape, kernel: Shape, out: Shape) -> bool:
    """Tell whether the band matrix is small, and not mostly zeros."""
    rows, columns = math.prod(x[1:]), math.prod(out[1:])
    return x[0] > 1 and 0 < rows * columns <= SMALL_BAND and rows <= MOST_ZEROS * math.prod(kernel[:-1])


def is_short(x: Shape, kernel: Shape, out: Shape) -> bool:
    """Tell whether a band along the last axis has few zeros enough."""
    return len(x) > 3 and x[0] > 1 and 0 < x[-2] <= SHORT * kernel[-3] and math.prod(out) > 0


def is_narrow(x: Shape, kernel: Shape, out: Shape) -> bool:
    """Tell whether a band along the last axis is cheaper than to copy windows."""
    return is_short(x, kernel, out) and kernel[-3] * kernel[-2] < NARROW


def band(
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


def row_band(
    x: Shape, kernel: Shape, z: Shape, stride: Shape, dilation: Shape, dtype: Any, *, upright: bool = True
) -> tuple[Any, Any]:
    """Return a band matrix of the last axis for each offset along the others, and the kernel's offsets in them."""
    return band((1, *x[-2:]), kernel, (1, *z[-2:]), stride[-1:], dilation[-1:], dtype, upright=upright)


def spread_once(kernel: Any) -> Any:
    """Return a view of a kernel with an axis for the positions along the last axis."""
    return kernel[..., None, :, :, :]


def in_rows(x: Any) -> Any:
    """Return a view with the last axis and the channels as one."""
    return x.reshape(*x.shape[:-2], x.shape[-2] * x.shape[-1])


# --- Convolution kernels: cross-correlation and its two transposes on plain arrays
#
# The windows of a block of examples are copied side by side, as the rows of a matrix, into one buffer that stays in
# the cache; a matrix product takes them to the result. Where a window has few neighbouring elements, its offsets are
# the rows and the positions the columns, so that each copy is long. The transpose by the input goes the other way:
# products first, then one shifted addition for each offset of the window.
#
# Examples of few elements are not copied at all: the kernel becomes a band matrix, with a row for each element of an
# example and a column for each of its results. Where only the last axis is short, a band matrix does the same along
# that axis, and the windows go over the others: they are longer then, and fewer.

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
    if xp is not NUMPY and _convolve_in_tiles(xp, z, x, kernel, stride, dilation):
        return
    weights = kernel.reshape(math.prod(kernel.shape[:-1]), out)
    direct = z.flags.c_contiguous
    for block, rows in _rows(xp, x, window, stride, dilation):
        if direct:
            xp.multiply(rows, weights, z[block].reshape(rows.shape[0], out))
        else:
            z[block] = np.matmul(rows, weights).reshape(z[block].shape)


def _convolve_in_tiles(xp: Arrays, z: Any, x: Any, kernel: Any, stride: Shape, dilation: Shape) -> bool:
    """Write the same without copies of windows; tell whether that was possible."""
    window, terms, positions = kernel.shape[:-2], math.prod(kernel.shape[:-1]), math.prod(z.shape[1:-1])
    turned = has_short_runs(x, window, dilation)
    like = [(m, turned) for m in batch_rows(x.shape[0], positions * terms * x.itemsize, positions)]
    if not xp.has_tiles(x.dtype, terms, kernel.shape[-1], like):
        return False
    xp.sum_products(xp.view(x, lambda v: windows(v, window, stride, dilation)), xp.dense(kernel), z)
    return True


def _sum_kernel(xp: Arrays, z: Any, x: Any, ct: Any, stride: Shape, dilation: Shape) -> None:
    out = ct.shape[-1]
    if xp is not NUMPY and _sum_kernel_in_tiles(xp, z, x, ct, stride, dilation):
        return
    shape, direct = (math.prod(z.shape[:-1]), out), z.flags.c_contiguous
    total = z.reshape(shape) if direct else xp.new(shape, z.dtype)
    xp.clear(total)
    for block, rows in _rows(xp, x, z.shape[:-2], stride, dilation):
        product = xp.new(shape, z.dtype)
        xp.multiply(rows.T, ct[block].reshape(rows.shape[0], out), product)
        xp.add(total, product)
    if not direct:
        z[...] = total.reshape(z.shape)


def _sum_kernel_in_tiles(xp: Arrays, z: Any, x: Any, ct: Any, stride: Shape, dilation: Shape) -> bool:
    """Add up the same blocks without copies of windows; tell whether that was possible."""
    window, batch, positions = z.shape[:-2], x.shape[0], math.prod(ct.shape[1:-1])
    step = batch_step(batch, positions * math.prod(z.shape[:-1]) * x.itemsize)
    whole = batch // step * step
    like = [(math.prod(z.shape[:-1]), not has_short_runs(x, window, dilation))]
    if not z.flags.c_contiguous or not x.flags.c_contiguous:
        return False
    if not all(xp.has_tiles(x.dtype, n * positions, z.shape[-1], like) for n in {step, batch - whole or step}):
        return False
    lead = window[:-1] if dilation[-1] == 1 else window
    run = math.prod(z.shape[len(lead) : -1])  # neighbours in rows of windows and of the kernel
    pieces = next(n for n in (4, 3, 2, 1) if run % n == 0)  # for threads

    def add_up(z: Any, x: Any, ct: Any, step: int) -> None:
        def as_rows(v: Any) -> Any:
            view = windows(v, window, stride, dilation)
            rank, by, rows = len(window), view.strides, run // pieces
            shape = (pieces, *lead, rows, len(v) // step, step, *view.shape[1 : 1 + rank])
            strides = (rows * v.itemsize, *by[1 + rank :][: len(lead)], v.itemsize, by[0] * step, *by[: 1 + rank])
            return np.lib.stride_tricks.as_strided(v, shape, strides)

        blocks = xp.dense(ct).reshape(ct.shape[0] // step, step, *ct.shape[1:])
        into = z.reshape(*lead, pieces, run // pieces, z.shape[-1])
        rows = xp.view(into, lambda v: np.moveaxis(v, len(lead), 0))
        xp.sum_products(xp.view(x, as_rows), blocks, rows, 1)

    add_up(z, x[:whole], ct[:whole], step)
    if whole < batch:
        rest = xp.new(z.shape, z.dtype)
        add_up(rest, x[whole:], ct[whole:], batch - whole)
        xp.add(z, rest)
    return True


def _sum_input_in_tiles(
    xp: Arrays, z: Any, ct: Any, kernel: Any, stride: Shape, padding: Pairs, dilation: Shape
) -> bool:
    """Write what `_sum_input` adds up, of what is no padding, position by position; tell whether that was possible."""
    *window, channels, out = kernel.shape
    positions = math.prod(ct.shape[1:-1])
    like = [(m, False) for m in batch_rows(ct.shape[0], positions * channels * ct.itemsize, positions)]
    if channels < MANY_CHANNELS or any(s > 1 for s in stride) or not xp.has_tiles(ct.dtype, out, channels, like):
        return False
    weights = xp.dense(kernel.swapaxes(-1, -2))
    if not ct.size or not xp.is_finite(weights):  # zeros around the cotangent are multiplied by them
        return False
    rank, spans = len(window), [(w - 1) * d for w, d in zip(window, dilation, strict=True)]
    around = padded(ct, tuple([(s, s) for s in spans]), xp)

    def backwards(v: Any) -> Any:
        view = windows(v, tuple(window), stride, dilation)
        return view[(*within(z.shape, padding), *(slice(None, None, -1),) * rank)]

    xp.sum_products(xp.view(around, backwards), weights, z, rank)
    return True


def _sum_input(xp: Arrays, room: Any, ct: Any, kernel: Any, stride: Shape, dilation: Shape) -> None:
    """Add to each input position what the windows over it give back, some examples at a time."""
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
                product = xp.new((flat.shape[0], channels), ct.dtype)
                xp.multiply(flat, weights[place], product)
                xp.add(into[spans], product.reshape(*part.shape[:-1], channels))


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
def _sum_input_by_groups(
    xp: Arrays, room: Any, ct: Any, kernel: Any, stride: Shape, dilation: Shape, groups: int
) -> None:
    if groups > 1 and kernel.shape[-2] == 1:
        _sum_input_each(room, ct, kernel, stride, dilation)
        return
    for rooms, cts, ks in _parts(groups, room, ct, kernel):
        _sum_input(xp, rooms, cts, ks, stride, dilation)


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
        if xp is not NUMPY and groups == 1 and _sum_input_in_tiles(xp, z, ct, kernel, stride, padding, dilation):
            return
        add_up(z, lambda roomy: _sum_input_by_groups(xp, roomy, ct, kernel, stride, dilation, groups))

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


# --- Windows: offsets of a moving window, and every position of it as a row, for pooling

Padding: TypeAlias = Literal["valid", "same"] | int | Sequence[int | tuple[int, int]]


def each_axis(given: int | Sequence[int], rank: int, name: str, who: str) -> Shape:
    """Return one number per spatial axis, from one for all or from a sequence."""
    try:
        values = (operator.index(given),) * rank if _is_one(given) else tuple([operator.index(n) for n in given])
    except TypeError:
        values = ()
    if len(values) != rank or any(n < 1 for n in values):
        raise ArgumentError(
            f"{who}: {name} is an integer of 1 or more, or one for each of {rank} spatial axes: "
            f"got {name}={given!r}; give one such"
        )
    return values


def _is_one(given: object) -> TypeIs[SupportsIndex]:
    return isinstance(given, SupportsIndex)


def padded_by(padding: Padding, spatial: Shape, window: Shape, stride: Shape, dilation: Shape, who: str) -> Pairs:
    """Return the padding in front of and behind each spatial axis."""
    if padding == "valid":
        return ((0, 0),) * len(window)
    if padding == "same":
        total = [
            max((-(-n // s) - 1) * s + (w - 1) * d + 1 - n, 0)
            for n, w, s, d in zip(spatial, window, stride, dilation, strict=True)
        ]
        return tuple([(t // 2, t - t // 2) for t in total])
    pairs = _pairs(padding, len(window))
    if len(pairs) != len(window) or any(p < 0 for pair in pairs for p in pair):
        raise ArgumentError(
            f"{who}: padding is 'valid', 'same', a number of 0 or more, or a number or pair (front, behind) for each "
            f"of {len(window)} spatial axes: got padding={padding!r}; give one of these"
        )
    return pairs


def _pairs(padding: Any, rank: int) -> Pairs:
    """Return pairs of numbers, none where they are malformed."""
    if isinstance(padding, str):
        return ()
    try:
        given = (padding,) * rank if _is_one(padding) else tuple(padding)
        both = [(p, p) if _is_one(p) else tuple(p) for p in given]
        pairs = [(operator.index(a), operator.index(b)) for a, b in both]
    except (TypeError, ValueError):
        return ()
    return tuple(pairs)


def positions(x: Aval, window: Shape, stride: Shape, dilation: Shape, padding: Pairs, who: str) -> Shape:
    """Return how many positions a window has along each spatial axis of float[batch, *spatial, channels]."""
    if not all(window):
        raise ShapeError(f"{who}: a window has no elements: got {x} and window {window}; use 1 or more along each axis")
    spatial = x.shape[1:-1]
    spans = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    room = [n + a + b for n, (a, b) in zip(spatial, padding, strict=True)]
    if any(s > r for s, r in zip(spans, room, strict=True)):
        raise ShapeError(
            f"{who}: the window is longer than the array: got {x} and window {window} (spanning {tuple(spans)}); "
            "use a shorter one, or padding"
        )
    return tuple([(r - s) // t + 1 for r, s, t in zip(room, spans, stride, strict=True)])


def im2col(x: ArrayLike, window: Shape, stride: Shape, dilation: Shape, padding: Pairs) -> Array:
    """Return float[batch, *positions, product of window · channels] from float[batch, *spatial, channels]."""
    return bind_single(im2col_p, x, window=window, stride=stride, dilation=dilation, padding=padding)


def _im2col_abstract(x: Aval, *, window: Shape, stride: Shape, dilation: Shape, padding: Pairs) -> Aval:
    out = positions(x, window, stride, dilation, padding, "im2col")
    return Aval((x.shape[0], *out, math.prod(window) * x.shape[-1]), x.dtype)


def _im2col_run(x: Any, *, window: Shape, stride: Shape, dilation: Shape, padding: Pairs) -> Any:
    view = windows(padded(x, padding), window, stride, dilation)
    rank = len(window)
    return np.array(view, order="C").reshape(*view.shape[: 1 + rank], math.prod(window) * x.shape[-1])


def _im2col_transpose(ct: Array, x: Aval, **params: Any) -> Array:
    return bind_single(col2im_p, ct, shape=x.shape, **params)


def _merge_batch(size: int, x: Value) -> Value:
    return reshape(x, (size * x.shape[1], *x.shape[2:]))


def _im2col_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    z = im2col(_merge_batch(size, xs[0]), **params)
    return reshape(z, (size, xs[0].shape[1], *z.shape[1:]))


def _im2col_native(
    xp: Recorder, out: Any, x: Any, *, window: Shape, stride: Shape, dilation: Shape, padding: Pairs
) -> None:
    view = xp.view(padded(x, padding, xp), lambda v: windows(v, window, stride, dilation))
    xp.copy(out.reshape(view.shape), view)


im2col_p: Primitive = linear(
    "im2col",
    _im2col_run,
    _im2col_abstract,
    _im2col_transpose,
    batch=_im2col_batch,
    nonnegative_linear=True,
    native=_im2col_native,
)


def _col2im_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    shape = params["shape"]
    rest = {k: v for k, v in params.items() if k != "shape"}
    z = bind(col2im_p, _merge_batch(size, xs[0]), shape=(size * shape[0], *shape[1:]), **rest)
    return reshape(z, (size, *shape))


def _col2im_abstract(x: Aval, *, shape: Shape, window: Shape, stride: Shape, dilation: Shape, padding: Pairs) -> Aval:
    return Aval(shape, x.dtype)


def _col2im_run(x: Any, *, shape: Shape, window: Shape, stride: Shape, dilation: Shape, padding: Pairs) -> Any:
    return col2im(x, shape, window, stride, dilation, padding)


def _col2im_transpose(ct: Array, x: Aval, *, shape: Shape, **params: Any) -> Array:
    return im2col(ct, **params)


def _col2im_native(
    xp: Recorder, out: Any, x: Any, *, shape: Shape, window: Shape, stride: Shape, dilation: Shape, padding: Pairs
) -> None:
    xp.check_floats(out, x)
    places = x.shape[1:-1]
    room = xp.new(roomy_shape(shape, padding), x.dtype)
    xp.clear(room)
    parts = x.reshape((shape[0], *places, *window, shape[-1]))
    for place, spans in window_offsets(window, places, stride, dilation):
        xp.add(room[spans], parts[(*(slice(None),) * (1 + len(places)), *place)])
    xp.copy(out, room[within(shape, padding)])


col2im_p: Primitive = linear(
    "col2im",
    _col2im_run,
    _col2im_abstract,
    _col2im_transpose,
    batch=_col2im_batch,
    nonnegative_linear=True,
    native=_col2im_native,
    parts=in_each_part("col2im"),
)


# -- views --
@register_function
def sliding_window_view(
    x: ArrayLike, window_shape: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> Array:
    """Return the windows that slide over x: its axes hold their positions, new last axes what is in each.

    Outside of traces it is a view, as NumPy's.

    Args:
        x: any shape.
        window_shape: the length along each axis that a window slides over.
        axis: these axes; all, without them. One that is named twice is slid over twice.

    Raises:
        ArgumentError: windows and axes do not pair up.
        ShapeError: a window is longer than the array.

    >>> sliding_window_view(afx.asarray([1.0, 2.0, 3.0, 4.0]), 3)
    Array([[1., 2., 3.],
           [2., 3., 4.]], dtype=float32)
    """
    who = "sliding_window_view"
    aval = aval_of(x, who)
    lengths = ints(window_shape, who, "a length of the window")
    axes = range(aval.ndim) if axis is None else [normalize_axis(a, aval.ndim, who) for a in ints(axis, who, "an axis")]
    if len(axes) != len(lengths):
        raise ArgumentError(
            f"{who}: a window has one length for each axis: got {lengths} for axes {tuple(axes)} of {aval}; match them"
        )
    rest = list(aval.shape)
    for a, n in zip(axes, lengths, strict=True):
        rest[a] -= n - 1
        if n < 0 or rest[a] < 1:
            raise ShapeError(f"{who}: a window is longer than the array: got {aval} and window {lengths}; shorten it")
    if not is_traced(x):
        view = np.lib.stride_tricks.sliding_window_view(np.asarray(snapshot(x, who)), lengths, tuple(axes))
        return wrap(view)
    z = asarray(x)
    for a, n in zip(axes, lengths, strict=True):
        z = _slide(z, a, n)
    return z


def _slide(x: Array, axis: int, length: int) -> Array:
    """Return the windows along one axis, as a new last one."""
    rows = moveaxis(x, axis, -1)
    windows = im2col(reshape(rows, (-1, rows.shape[-1], 1)), (length,), (1,), (1,), ((0, 0),))
    return moveaxis(reshape(windows, (*rows.shape[:-1], *windows.shape[1:])), -2, axis)
