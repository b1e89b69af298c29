"""Convolutions on plain arrays: cross-correlation and its two transposes, by windows, bands or tiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from afx.compiler.schedule.arrays import NUMPY, Arrays
from afx.core.aval import Aval, Shape
from afx.ops.nn.windows import (
    MANY_CHANNELS,
    Pairs,
    band,
    batch_blocks,
    batch_rows,
    batch_step,
    has_short_runs,
    in_rows,
    is_banded,
    is_narrow,
    is_short,
    padded,
    roomy_shape,
    row_band,
    spread_once,
    window_offsets,
    windows,
    within,
)

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

LANES = 16  # of vectors, that hold channels, or the elements of a row
LEAST_CHANNELS = 2  # that tiles have as columns: of one alone, most of each vector is empty
FEW_CHANNELS = 4  # of a result: vectors hold its positions where the channels of the input are many
MOST_TURNED = 128  # outputs, up to which sums for a kernel's gradient by vectors of windows take no longer
MOST_STRIPS = 16  # of a band matrix: each is a product of its own
WORTH_STRIPS = 0.8  # of a band matrix's products: strips of it have fewer
SMALL_PRODUCT = 900_000  # multiplications: of more, OpenBLAS copies both matrices before it multiplies
LEAST_TERMS = 8  # that lie next to each other in a window: of fewer, bands of matrices are no slower


def _is_matrix(x: Any, window: Shape, stride: Shape) -> bool:
    """Tell whether elements lie as the windows' matrix as they are."""
    return math.prod(window) == 1 and all(s == 1 for s in stride) and bool(x.flags.c_contiguous)


def _rows(
    xp: Arrays, x: Any, window: Shape, stride: Shape, dilation: Shape, *, is_even: bool = False
) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of the batch with their windows as a matrix float[positions, window · channels]."""
    span, channels = math.prod(window), x.shape[-1]
    if _is_matrix(x, window, stride):
        yield slice(None), x.reshape(-1, channels)
        return
    view = xp.view(x, lambda v: windows(v, window, stride, dilation))
    rank = len(window)
    out = view.shape[1 : 1 + rank]
    columns = has_short_runs(x, window, dilation)
    order = (*range(1 + rank, 2 + 2 * rank), *range(1 + rank))
    buffer = None
    for block in batch_blocks(x.shape[0], math.prod(view.shape[1:]) * x.itemsize, is_even=is_even):
        part = view[block].transpose(order) if columns else view[block]
        buffer = xp.new(part.shape, x.dtype, buffer)
        xp.copy(buffer, part)
        count = part.size // (span * channels) if span * channels else (block.stop - block.start) * math.prod(out)
        yield block, buffer.reshape(span * channels, count).T if columns else buffer.reshape(count, span * channels)


# -- the three of them, for one group --
def _convolve(xp: Arrays, z: Any, x: Any, kernel: Any, stride: Shape, dilation: Shape) -> None:
    window, out = kernel.shape[:-2], kernel.shape[-1]
    if 1 < out <= FEW_CHANNELS < MANY_CHANNELS <= kernel.shape[-2] and set(stride) == {1} and math.prod(window) > 1:
        _convolve_planes(xp, z, x, kernel, dilation)
        return
    if xp is not NUMPY and _convolve_in_tiles(xp, z, x, kernel, stride, dilation):
        return
    weights = kernel.reshape(math.prod(kernel.shape[:-1]), out)
    direct = z.flags.c_contiguous
    # OpenBLAS adds up the terms of a short rest in another order
    for block, rows in _rows(xp, x, window, stride, dilation, is_even=True):
        shape = (rows.shape[0], out)
        product = z[block].reshape(shape) if direct else xp.new(shape, z.dtype)
        xp.multiply(rows, weights, product)
        if not direct:
            xp.copy(z[block], product.reshape(z[block].shape))


def _convolve_planes(xp: Arrays, z: Any, x: Any, kernel: Any, dilation: Shape) -> None:
    """Write the same from planes, one for each channel, where an offset in a window is one in the memory of all positions.

    What lies between rows of the result is computed, too, and left out: NumPy hears of infinities and nan in results alone.
    """
    *window, channels, out = kernel.shape
    planes = xp.dense(xp.view(x, lambda v: np.moveaxis(v, -1, 1)))
    steps = [math.prod(x.shape[k + 2 : -1]) for k in range(len(window))]  # from one position to the next one
    count = 1 + sum([(n - 1) * step for n, step in zip(z.shape[1:-1], steps, strict=True)]) if z.size else 0

    def look(v: Any) -> Any:
        by = [d * step * v.itemsize for d, step in zip(dilation, steps, strict=True)]
        strides = (v.strides[0], *by, v.strides[1], v.itemsize)
        return np.lib.stride_tricks.as_strided(v, (len(v), *window, channels, count), strides, writeable=False)

    def pick(v: Any) -> Any:
        strides = (v.strides[0], *[step * v.itemsize for step in steps], v.strides[1])
        return np.lib.stride_tricks.as_strided(v, z.shape, strides, writeable=False)

    rows, terms = xp.view(planes, look), math.prod(kernel.shape[:-1])
    found = xp.new((len(x), out, count), z.dtype)
    step = max(1, -(-count // max(1, -(-terms * out * count // SMALL_PRODUCT))))
    parts = [slice(start, min(start + step, count)) for start in range(0, count, step)]
    ends = () if xp is NUMPY else xp.find_chains(x.dtype, terms, {(out, p.stop - p.start, "left") for p in parts})
    if ends:
        weights = xp.view(kernel, lambda v: np.broadcast_to(np.moveaxis(v, -1, 0), (len(x), out, *v.shape[:-1])))
        xp.sum_products(weights, rows, found, ends=ends)
    elif xp is NUMPY:
        with np.errstate(over="ignore", invalid="ignore"):
            _multiply_planes(xp, kernel, rows, parts, found)
        if not np.isfinite(pick(found)).all():
            _multiply_planes(xp, kernel, rows, parts, found)
    else:
        _multiply_planes(xp, kernel, rows, parts, found)
    xp.copy(z, xp.view(found, pick))


def _multiply_planes(xp: Arrays, kernel: Any, rows: Any, parts: Sequence[slice], out: Any) -> None:
    """Write products of a kernel and rows [batch, *window, channels, positions], by parts of the positions."""
    weights, buffer = kernel.reshape(-1, kernel.shape[-1]).T, None
    for k, part in itertools.product(range(len(rows)), parts):
        matrix = rows[k, ..., part]
        buffer = xp.new(matrix.shape, matrix.dtype, buffer)
        xp.copy(buffer, matrix)
        xp.multiply(weights, buffer.reshape(weights.shape[-1], -1), out[k, :, part])


def _convolve_in_tiles(xp: Arrays, z: Any, x: Any, kernel: Any, stride: Shape, dilation: Shape) -> bool:
    """Write the same without copies of windows; tell whether that was possible."""
    ends = _find_chains(xp, z.shape, x, kernel.shape, stride, dilation)
    if ends:
        xp.sum_products(xp.view(x, lambda v: windows(v, kernel.shape[:-2], stride, dilation)), kernel, z, ends=ends)
    return bool(ends)


def _find_chains(xp: Arrays, z: Shape, x: Any, kernel: Shape, stride: Shape, dilation: Shape) -> Shape:
    """Return where chains end by which a convolution adds up the products of a window; none where that is not found."""
    window, terms, positions = kernel[:-2], math.prod(kernel[:-1]), math.prod(z[1:-1])
    if _is_matrix(x, window, stride):
        return xp.find_chains(x.dtype, terms, [(x.shape[0] * positions, kernel[-1], "")])
    turned = "left" if has_short_runs(x, window, dilation) else ""
    sizes = batch_rows(x.shape[0], positions * terms * x.itemsize, positions)
    return xp.find_chains(x.dtype, terms, [(m, kernel[-1], turned) for m in sizes])


def _strips(
    xp: Arrays, columns: Shape, rows: Shape, reach: Callable[[int, int], tuple[int, int]]
) -> list[tuple[slice, slice]]:
    """Return strips of a band matrix, as wide as vectors, each with the rows that are not zeros in all of its columns.

    There are none where that saves few products, where they are many, or for NumPy, whose products are of whole matrices.

    Args:
        xp: the arrays.
        columns: the number of positions along them, and how many columns each of those has.
        rows: likewise.
        reach: gives the first and the last position of rows that two positions of columns, and those between, have.
    """
    width, strips = math.prod(columns), list[tuple[slice, slice]]()
    if xp is NUMPY:
        return strips
    for start in range(0, width, LANES):
        stop = min(start + LANES, width)
        first, last = reach(start // columns[1], (stop - 1) // columns[1])
        strips.append((slice(start, stop), slice(max(first, 0) * rows[1], min(last + 1, rows[0]) * rows[1])))
    sizes = [(at.stop - at.start, terms.stop - terms.start) for at, terms in strips]
    is_worth = sum([m * n for m, n in sizes]) < WORTH_STRIPS * width * math.prod(rows)
    is_fit = len(strips) <= MOST_STRIPS and all(m >= LEAST_CHANNELS and n > 0 for m, n in sizes)
    return strips if is_worth and is_fit else []


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


def _sum_kernel_in_tiles(
    xp: Arrays, z: Any, x: Any, ct: Any, stride: Shape, dilation: Shape, whole_of: Any = None
) -> bool:
    """Add up the same blocks without copies of windows; tell whether that was possible.

    Of a strip of a band matrix, in whose rows and columns x and ct are cut too, what is whole tells the blocks.
    """
    sizes = z.shape if whole_of is None else whole_of.shape
    window, batch, positions = z.shape[:-2], x.shape[0], math.prod(ct.shape[1:-1])
    is_matrix = whole_of is None and _is_matrix(x, window, stride)
    step = batch if is_matrix else batch_step(batch, positions * math.prod(sizes[:-1]) * x.itemsize)
    whole = batch // step * step if step else 0
    turned = "left" if is_matrix or not has_short_runs(x, window, dilation) else ""
    like = [(math.prod(sizes[:-1]), sizes[-1], turned)]
    ends = {n: xp.find_chains(x.dtype, n * positions, like) for n in (step, batch - whole or step)}
    if not all(ends.values()):
        return False
    x, out = xp.dense(x), z
    if not out.flags.c_contiguous:
        z = xp.new(out.shape, out.dtype)
    _add_windows(xp, z, x[:whole], ct[:whole], step, stride, dilation, ends[step])
    if whole < batch:
        rest = xp.new(z.shape, z.dtype)
        _add_windows(xp, rest, x[whole:], ct[whole:], batch - whole, stride, dilation, ends[batch - whole])
        xp.add(z, rest)
    if z is not out:
        xp.copy(out, z)
    return True


def _add_windows(xp: Arrays, z: Any, x: Any, ct: Any, step: int, stride: Shape, dilation: Shape, ends: Shape) -> None:
    """Write sums over blocks of so many examples: vectors hold outputs, or neighbours in windows where that takes no more."""
    *window, _, out = z.shape
    rank, lead = len(window), window[:-1] if dilation[-1] == 1 else window
    run = math.prod(z.shape[len(lead) : -1])  # neighbours in rows of windows and of the kernel
    is_turned = len(lead) < 2 and out <= MOST_TURNED and out * -(-run // LANES) <= run * -(-out // LANES)
    pieces = 1 if is_turned else next(n for n in (4, 3, 2, 1) if run % n == 0)  # for threads

    def look(v: Any) -> Any:
        view, rows = windows(v, tuple(window), stride, dilation), run // pieces
        by, size = view.strides, v.itemsize
        terms, moves = (len(v) // step, step, *view.shape[1 : 1 + rank]), (by[0] * step, *by[: 1 + rank])
        outer = by[1 + rank :][: len(lead)]
        shape, strides = (pieces, *lead, rows, *terms), (rows * size, *outer, size, *moves)
        if is_turned:
            shape, strides = (*lead, *terms, run), (*outer, *moves, size)
        return np.lib.stride_tricks.as_strided(v, shape, strides)

    rows, blocks = xp.view(x, look), xp.dense(ct).reshape(ct.shape[0] // step, step, *ct.shape[1:])
    if not is_turned:
        into = xp.view(z.reshape(*lead, pieces, run // pieces, out), lambda v: np.moveaxis(v, len(lead), 0))
        xp.sum_products(rows, blocks, into, 1, ends)
        return
    count = math.prod(lead)
    made = xp.new((count, out, run), z.dtype)
    cts = xp.view(blocks, lambda v: np.broadcast_to(np.moveaxis(v, -1, 0), (count, out, *v.shape[:-1])))
    xp.sum_products(cts, rows.reshape(count, *rows.shape[len(lead) :]), made, 1, ends)
    xp.copy(z.reshape(count, run, out), xp.view(made, lambda v: v.swapaxes(1, 2)))


def _sum_kernel_by_rows(xp: Arrays, z: Any, x: Any, ct: Any, stride: Shape, dilation: Shape) -> bool:
    """Add up what band matrices of the last axis hold, without them, position by position; tell whether that was possible.

    It is where all examples fit into one block.
    """
    rows, bands = in_rows(x), (*z.shape[:-3], math.prod(x.shape[-2:]), math.prod(ct.shape[-2:]))
    terms, lead = math.prod(ct.shape[:-2]), (z.shape[:-3], stride[:-1])
    is_matrix = _is_matrix(rows, *lead)
    if not is_matrix and batch_step(len(x), terms // len(x) * math.prod(bands[:-1]) * x.itemsize) < len(x):
        return False
    turned = "left" if is_matrix or not has_short_runs(rows, lead[0], dilation[:-1]) else ""
    ends = xp.find_chains(x.dtype, terms, [(math.prod(bands[:-1]), bands[-1], turned)])
    if not ends:
        return False
    rank = len(stride)

    def look(v: Any) -> Any:
        view = windows(v, z.shape[:-2], stride, dilation)
        return view.transpose(*range(1 + rank, 2 + 2 * rank), rank, *range(rank))

    cts = xp.view(ct, lambda v: np.moveaxis(v, -2, 0))
    xp.sum_products(xp.view(x, look), cts, z, 1, ends)
    return True


def _sum_input_in_tiles(
    xp: Arrays,
    z: Any,
    ct: Any,
    kernel: Any,
    finite: Any,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    ends: Shape = (),
) -> bool:
    """Write what `_sum_input` adds up, of what is no padding, position by position; tell whether that was possible.

    Args:
        xp: the arrays.
        z: the result.
        ct: the cotangent; zeros around it are multiplied by the kernel.
        kernel: float[*window, channels, out].
        finite: an array that has the numbers of the kernel, which shall be finite.
        stride: of windows.
        padding: of the result.
        dilation: of windows.
        ends: where chains end, where that is known.
    """
    *window, channels, out = kernel.shape
    ends = ends or _find_chains_back(xp, ct, kernel.shape)
    if not ct.size or channels < LEAST_CHANNELS or not ends or not xp.is_finite(finite):
        return False
    weights = kernel.swapaxes(-1, -2)
    around, parts = _backwards(xp, z, ct, tuple(window), stride, padding, dilation)
    for into, axes in parts:
        if not all(found for _, found, _ in axes):
            xp.clear(into)
            continue

        def look(v: Any, into: Any = into, axes: Any = axes) -> Any:
            start = v[(slice(None), *[slice(places[0][1], None) for _, places, _ in axes])]
            steps = [
                (p[1][1] - p[0][1] if len(p) > 1 else 0) * by
                for (_, p, _), by in zip(axes, v.strides[1:], strict=False)
            ]
            shape = (*into.shape[:-1], *[len(places) for _, places, _ in axes], out)
            strides = (*v.strides[:-1], *steps, v.strides[-1])
            return np.lib.stride_tricks.as_strided(start, shape, strides, writeable=False)

        at = tuple([slice(places[0][0], None, step) for _, places, step in axes])
        xp.sum_products(xp.view(around, look), weights[at], into, len(window), ends)
    return True


def _find_chains_back(xp: Arrays, ct: Any, kernel: Shape) -> Shape:
    """Return where chains end by which `_sum_input` multiplies a cotangent; none where that is not found."""
    *window, channels, out = kernel
    positions, few = math.prod(ct.shape[1:-1]), channels < MANY_CHANNELS
    shifted = math.prod(window) * channels if few else channels
    sizes = batch_rows(ct.shape[0], positions * shifted * ct.itemsize, positions)
    return xp.find_chains(ct.dtype, out, [(shifted, m, "right") if few else (m, channels, "") for m in sizes])


def _backwards(
    xp: Arrays, z: Any, ct: Any, window: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> tuple[Any, list[tuple[Any, list[tuple[slice, list[tuple[int, int]], int]]]]]:
    """Return a cotangent with zeros around it, and parts of the input, each of whose positions the same offsets reach.

    Of each part, and each spatial axis, there are its slice, the offsets in the window in order, each with the place in
    the cotangent that gives the first position what it has, and the step from one offset to the next. Both go on
    together: the next position is the next place.
    """
    axes = list[list[tuple[slice, list[tuple[int, int]], int]]]()
    room = list[tuple[int, int]]()
    for n, m, w, s, d, (front, _) in zip(z.shape[1:-1], ct.shape[1:-1], window, stride, dilation, padding, strict=True):
        residues = range(min(s, n))
        found = [[(p, (r + front - p * d) // s) for p in range(w) if (r + front - p * d) % s == 0] for r in residues]
        before = max([0, *[-at for places in found for _, at in places]])
        after = max(
            [0, *[at - m - (r - n) // s for r, places in zip(residues, found, strict=True) for _, at in places]]
        )
        room.append((before, after))
        moved = [[(p, at + before) for p, at in places] for places in found]
        axes.append(
            [(slice(r, None, s), places, s // math.gcd(s, d)) for r, places in zip(residues, moved, strict=True)]
        )
    parts = [(z[(slice(None), *[where for where, _, _ in each])], [*each]) for each in itertools.product(*axes)]
    return padded(ct, tuple(room), xp), parts


def _sum_input(xp: Arrays, room: Any, ct: Any, kernel: Any, stride: Shape, dilation: Shape) -> None:
    """Write for each input position the sum of what the windows over it give back, some examples at a time."""
    xp.clear(room)
    window, channels, out = kernel.shape[:-2], kernel.shape[-2], kernel.shape[-1]
    at = list(window_offsets(window, ct.shape[1:-1], stride, dilation))
    positions = math.prod(ct.shape[1:-1])
    few = channels < MANY_CHANNELS
    weights = kernel.reshape(math.prod(window) * channels, out) if few else xp.dense(kernel.swapaxes(-1, -2))
    size = positions * channels * (math.prod(window) if few else 1) * ct.itemsize
    for block in batch_blocks(ct.shape[0], size, is_even=True):
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


def _add_products(xp: Arrays, out: Any, pairs: Sequence[tuple[Any, Any]]) -> None:
    """Write sums of products, added to zeros one after the other; each pair is an array as out, and one as its examples."""
    if xp is NUMPY:
        for block in batch_blocks(len(out), 4 * out[:1].nbytes):
            out[block] = 0
            for x, y in pairs:
                out[block] += x[block] * y
    elif pairs:
        total: Any = 0.0
        for x, y in pairs:
            total = total + x * y
        xp.give(out, total)
    else:
        xp.clear(out)


def _convolve_each(xp: Arrays, z: Any, x: Any, kernel: Any, stride: Shape, dilation: Shape) -> None:
    wide, weights = _split_groups(z, x.shape[-1]), _split_groups(kernel, x.shape[-1])
    at = window_offsets(kernel.shape[:-2], z.shape[1:-1], stride, dilation)
    _add_products(xp, wide, [(x[spans][..., None], weights[place][0]) for place, spans in at])


def _sum_kernel_each(xp: Arrays, z: Any, x: Any, ct: Any, stride: Shape, dilation: Shape) -> None:
    wide, total = _split_groups(ct, x.shape[-1]), _split_groups(z, x.shape[-1])
    xp.clear(z)
    if xp is not NUMPY:
        step = batch_step(len(ct), 4 * ct[:1].nbytes)
        whole = len(ct) // step * step
        for many, size, part in ((whole // step, step, slice(whole)), (1, len(ct) - whole, slice(whole, None))):
            if many * size:
                sums = _sums_of_each(xp, x[part], wide[part], z.shape[:-2], stride, dilation, (many, size))
                xp.add(total[(*(slice(None),) * len(stride), 0)], np.add.reduce(sums, axis=0))
        return
    axes = tuple(range(ct.ndim - 1))
    for block in batch_blocks(ct.shape[0], 4 * ct[:1].nbytes):
        for place, spans in window_offsets(z.shape[:-2], ct.shape[1:-1], stride, dilation):
            total[place][0] += (x[block][spans][..., None] * wide[block]).sum(axis=axes, dtype=z.dtype)


def _sums_of_each(
    xp: Arrays, x: Any, wide: Any, window: Shape, stride: Shape, dilation: Shape, cut: tuple[int, int]
) -> Any:
    """Return the sums [block, *window, groups, out/groups] of blocks of a batch, so many of so many examples."""
    rank, places = len(window), wide.shape[1:-2]

    def look(v: Any) -> Any:
        view = windows(v, window, stride, dilation)
        by = view.strides
        shape = (cut[0], *window, cut[1], *places, v.shape[-1], 1)
        strides = (by[0] * cut[1], *by[1 + rank : -1], *by[: 1 + rank], by[-1], 0)
        return np.lib.stride_tricks.as_strided(view, shape, strides, writeable=False)

    cts = wide.reshape(cut[0], *(1,) * rank, cut[1], *wide.shape[1:])
    return np.add.reduce(xp.view(x, look) * cts, axis=tuple(range(1 + rank, 2 + 2 * rank)))


def _sum_input_each(room: Any, ct: Any, kernel: Any, stride: Shape, dilation: Shape) -> None:
    room[...] = 0
    wide, weights = _split_groups(ct, room.shape[-1]), _split_groups(kernel, room.shape[-1])
    for block in batch_blocks(ct.shape[0], 4 * ct[:1].nbytes):
        for place, spans in window_offsets(kernel.shape[:-2], ct.shape[1:-1], stride, dilation):
            room[block][spans] += (wide[block] * weights[place][0]).sum(axis=-1, dtype=ct.dtype)


def _sum_input_from_each(
    xp: Arrays, z: Any, ct: Any, kernel: Any, stride: Shape, padding: Pairs, dilation: Shape
) -> bool:
    """Write what `_sum_input_each` adds up, of what is no padding, position by position; tell whether that was possible."""
    window = kernel.shape[:-2]
    if z.shape[-1] != ct.shape[-1] or not ct.size or not xp.is_finite(kernel):
        return False
    around, parts = _backwards(xp, z, ct, window, stride, padding, dilation)
    for into, axes in parts:
        sizes = into.shape[1:-1]
        pairs = [
            (
                around[(slice(None), *[slice(at, at + n) for (_, at), n in zip(places, sizes, strict=True)])],
                kernel[tuple([p for p, _ in places])][0],
            )
            for places in itertools.product(*[places for _, places, _ in axes])
        ]
        _add_products(xp, into, pairs)
    return True


# -- with groups and padding --
def _sum_input_by_groups(
    xp: Arrays, room: Any, ct: Any, kernel: Any, stride: Shape, dilation: Shape, groups: int
) -> None:
    """Add the cotangent of the input into room, group by group; all at once where each has one channel."""
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


def _choose_band(groups: int, room: Shape, kernel: Shape, out: Shape) -> Any:
    """Return the function that makes a band matrix, of an image or of its rows; None where its zeros cost more than windows."""
    if groups > 1:
        return None
    if is_banded(room, kernel, out):
        return band
    return row_band if is_narrow(room, kernel, out) else None


def convolving(
    x: Aval, kernel: Aval, z: Aval, stride: Shape, padding: Pairs, dilation: Shape, groups: int, xp: Arrays = NUMPY
) -> Into:
    """Return ``write(z, x, kernel)`` of the cross-correlation; kernels are float[*window, channels/groups, out]."""
    room = roomy_shape(x.shape, padding)

    def by_windows(z: Any, x: Any, kernel: Any) -> None:
        x = padded(x, padding, xp)
        if groups > 1 and kernel.shape[-2] == 1:
            _convolve_each(xp, z, x, kernel, stride, dilation)
            return
        for zs, xs, ks in _parts(groups, z, x, kernel):
            _convolve(xp, zs, xs, ks, stride, dilation)

    make = _choose_band(groups, room, kernel.shape, z.shape)
    if make is None:
        return by_windows
    whole = make is band
    prepared = xp.prepare(lambda: make(room, kernel.shape, z.shape, stride, dilation, x.dtype))

    def by_band(z: Any, x: Any, kernel: Any) -> None:
        roomy = padded(x, padding, xp)
        if not z.flags.c_contiguous or not xp.is_finite(roomy):
            by_windows(z, x, kernel)
            return
        if xp is not NUMPY and not whole and math.prod(kernel.shape[-3:-1]) >= LEAST_TERMS:
            bands = (*kernel.shape[:-3], math.prod(room[-2:]), math.prod(z.shape[-2:]))
            rows = in_rows(z).shape, in_rows(roomy), bands
            # in which zeros of the band change nothing
            if len(_find_chains(xp, *rows, stride[:-1], dilation[:-1])) == 1:
                xp.sum_products(xp.view(roomy, lambda v: windows(v, kernel.shape[:-2], stride, dilation)), kernel, z)
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
    """Return ``write(z, x, ct)`` of the transpose by the kernel: its cotangent."""
    room = roomy_shape(x.shape, padding)

    def by_windows(z: Any, x: Any, ct: Any) -> None:
        x = padded(x, padding, xp)
        if groups > 1 and z.shape[-2] == 1:
            _sum_kernel_each(xp, z, x, ct, stride, dilation)
            return
        for zs, xs, cts in _parts(groups, z, x, ct):
            _sum_kernel(xp, zs, xs, cts, stride, dilation)

    make = _choose_band(groups, room, z.shape, ct.shape)
    if make is None:
        return by_windows
    whole = make is band
    prepared = xp.prepare(lambda: make(room, z.shape, ct.shape, stride, dilation, x.dtype), False)
    axes = tuple(range(len(stride))) if whole else (len(stride) - 1,)
    s, far = stride[-1], dilation[-1] * (z.shape[-3] - 1)
    strips = _strips(xp, ct.shape[-2:], room[-2:], lambda first, last: (s * first, s * last + far))

    def by_band(z: Any, x: Any, ct: Any) -> None:
        roomy = padded(x, padding, xp)
        if xp is not NUMPY and not whole and _sum_kernel_by_rows(xp, z, roomy, ct, stride, dilation):
            return
        matrix, places = prepared()
        if whole:
            xp.multiply(roomy.reshape(room[0], -1).T, ct.reshape(room[0], -1), matrix)
        else:
            _sum_rows(xp, strips, matrix, in_rows(roomy), in_rows(ct), stride[:-1], dilation[:-1])
        xp.add_up(places, axes, z)

    return by_band


def _sum_rows(xp: Arrays, strips: Any, matrix: Any, rows: Any, cts: Any, stride: Shape, dilation: Shape) -> None:
    """Write the transpose of rows by their band, strip by strip where there are tiles for that."""
    in_strips = (
        strips
        and not _is_matrix(rows, matrix.shape[:-2], stride)
        and all(
            _sum_kernel_in_tiles(xp, matrix[..., terms, at], rows[..., terms], cts[..., at], stride, dilation, matrix)
            for at, terms in strips
        )
    )
    if not in_strips:
        _sum_kernel(xp, matrix, rows, cts, stride, dilation)


def summing_input(
    ct: Aval, kernel: Aval, z: Aval, stride: Shape, padding: Pairs, dilation: Shape, groups: int, xp: Arrays = NUMPY
) -> Into:
    """Return ``write(z, ct, kernel)`` of the transpose by the input: its cotangent."""
    room = roomy_shape(z.shape, padding)

    def by_places(z: Any, ct: Any, kernel: Any) -> None:
        if xp is not NUMPY and groups > 1 and kernel.shape[-2] == 1:
            done = _sum_input_from_each(xp, z, ct, kernel, stride, padding, dilation)
        else:
            done = xp is not NUMPY and all(
                _sum_input_in_tiles(xp, zs, cts, ks, xp.dense(ks), stride, padding, dilation)
                for zs, cts, ks in _parts(groups, z, ct, kernel)
            )
        if done:
            return

        def write(roomy: Any) -> None:
            _sum_input_by_groups(xp, roomy, ct, kernel, stride, dilation, groups)

        _write_with_room(xp, z, padding, write)

    if groups > 1:
        return by_places
    if is_banded(room, kernel.shape, ct.shape):
        return _summing_input_by_band(xp, ct, kernel, z, stride, padding, dilation, by_places)
    if kernel.shape[-2] >= MANY_CHANNELS or not is_short(room, kernel.shape, ct.shape):
        return by_places
    return _summing_input_by_rows(xp, ct, kernel, z, stride, padding, dilation, by_places)


def _write_with_room(xp: Arrays, z: Any, padding: Pairs, write: Callable[[Any], None]) -> None:
    """Have something written with room for the padding."""
    room = roomy_shape(z.shape, padding)
    roomy = z if room == z.shape else xp.new(room, z.dtype)
    write(roomy)
    if room != z.shape:
        xp.copy(z, roomy[within(z.shape, padding)])


def _summing_input_by_rows(
    xp: Arrays, ct: Aval, kernel: Aval, z: Aval, stride: Shape, padding: Pairs, dilation: Shape, otherwise: Into
) -> Into:
    """Return `summing_input` by band matrices of the last axis, which leaves infinities, nan and odd memory to ``otherwise``."""
    room, lead = roomy_shape(z.shape, padding), (stride[:-1], ((0, 0),) * (len(stride) - 1), dilation[:-1])
    prepared = xp.prepare(lambda: row_band(room, kernel.shape, ct.shape, stride, dilation, ct.dtype, upright=False))
    bands = (*kernel.shape[:-3], math.prod(room[-2:]), math.prod(ct.shape[-2:]))
    s, far = stride[-1], dilation[-1] * (kernel.shape[-3] - 1)
    strips = _strips(xp, room[-2:], ct.shape[-2:], lambda first, last: (-((far - first) // s), last // s))
    is_cut = 0 < len(strips) * math.prod(lead[0]) <= MOST_STRIPS

    def in_tiles(rows: Any, cts: Any, matrix: Any, kernel: Any) -> bool:
        if not is_cut or len(_find_chains_back(xp, cts, bands)) != 1:  # in which zeros of the band change nothing
            return _sum_input_in_tiles(xp, rows, cts, matrix, kernel, *lead)
        parts = [(rows[..., at], cts[..., of], matrix[..., at, of]) for at, of in strips]
        return all(_sum_input_in_tiles(xp, *part, kernel, *lead, part[1].shape[-1:]) for part in parts)

    def by_rows(z: Any, ct: Any, kernel: Any) -> None:
        if not z.flags.c_contiguous or not xp.is_finite(ct):
            otherwise(z, ct, kernel)
            return
        cts = in_rows(ct)
        matrix, places = prepared()
        xp.copy(places, spread_once(kernel))

        def write(roomy: Any) -> None:
            rows = in_rows(roomy)
            if xp is NUMPY or not in_tiles(rows, cts, matrix, kernel):
                _sum_input(xp, rows, cts, matrix, stride[:-1], dilation[:-1])

        _write_with_room(xp, z, padding, write)

    return by_rows


def _summing_input_by_band(
    xp: Arrays, ct: Aval, kernel: Aval, z: Aval, stride: Shape, padding: Pairs, dilation: Shape, otherwise: Into
) -> Into:
    """Return `summing_input` by the band matrix of whole examples, which leaves infinities, nan and odd memory to ``otherwise``.

    The zeros of a band times inf or nan would be nan.
    """
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
        rows = inner.reshape(
            math.prod(z.shape[1:]), matrix.shape[1]
        )  # a view of the matrix, or where there is padding a copy
        xp.multiply(ct.reshape(room[0], -1), rows.T, z.reshape(room[0], -1))

    return by_band
