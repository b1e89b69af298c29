"""Windows: views of them, band matrices, and every window as a row."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias

import numpy as np

from afx.compiler.schedule.arrays import NUMPY, Arrays
from afx.core import Array, ArrayLike, bind, bind_single, is_traced, register_function, snapshot, wrap
from afx.core.aval import Aval, Shape, aval_of, normalize_axis
from afx.core.primitive import Bools, Params, Primitive, Value, Values
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
    """Return how many rows the matrices of even `batch_blocks` have, with one for each position of an example."""
    return {(block.stop - block.start) * positions for block in batch_blocks(batch, size, is_even=True)}


def batch_blocks(batch: int, size: int, *, is_even: bool = False) -> Iterator[slice]:
    """Yield slices of a batch whose examples take ``size`` bytes each; even ones have no short rest at the end."""
    step = batch_step(batch, size)
    step = -(-batch // -(-batch // step)) if is_even and batch else step
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


def padded(x: Any, padding: Pairs, xp: Arrays = NUMPY) -> Any:
    """Return float[batch, *spatial, channels] with zeros around it; x itself where there are none."""
    if all(p == (0, 0) for p in padding):
        return x
    roomy = xp.new(roomy_shape(x.shape, padding), x.dtype)
    xp.embed(roomy, within(x.shape, padding), x)
    return roomy


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
        values = (operator.index(given),) * rank if _is_one(given) else tuple(map(operator.index, given))
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
