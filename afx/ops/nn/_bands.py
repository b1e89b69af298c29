"""Bands: windows of an array as views, band matrices, and which of both a convolution takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from afx.core.aval import Shape

__all__ = [
    "MANY_CHANNELS",
    "Pairs",
    "band",
    "batch_blocks",
    "has_short_runs",
    "in_rows",
    "is_banded",
    "is_narrow",
    "is_short",
    "roomy_shape",
    "row_band",
    "spread_once",
    "window_offsets",
    "windows",
    "within",
]

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


def batch_blocks(batch: int, size: int) -> Iterator[slice]:
    """Yield slices of a batch whose examples take ``size`` bytes each."""
    step = max(1, BLOCK // max(size, 1))
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
