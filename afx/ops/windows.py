"""Windows: every position of a moving window as a row, the ground under convolution and pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from afx.core.array import Array, ArrayLike
from afx.core.aval import Aval, Shape
from afx.core.primitive import Params, Value
from afx.core.tracer import bind, single
from afx.errors import ArgumentError, ShapeError
from afx.ops._kinds import linear
from afx.ops.shaping import reshape

__all__: list[str] = []

Pairs = tuple[tuple[int, int], ...]
Padding: TypeAlias = Literal["valid", "same"] | int | Sequence[int | tuple[int, int]]


def each_axis(given: int | Sequence[int], rank: int, name: str, who: str, least: int = 1) -> Shape:
    """Return one number per spatial axis, from one for all or from a sequence."""
    values = (given,) * rank if isinstance(given, int) else tuple([int(n) for n in given])
    if len(values) != rank or any(n < least for n in values):
        raise ArgumentError(f"{who}: {name} is {least} or more for each of {rank} spatial axes: got {name}={given}")
    return values


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
    if isinstance(padding, str):
        raise ArgumentError(f"{who}: padding is 'valid', 'same', a number, or one for each axis: got {padding!r}")
    given = (padding,) * len(window) if isinstance(padding, int) else tuple(padding)
    pairs = tuple([(p, p) if isinstance(p, int) else (int(p[0]), int(p[1])) for p in given])
    if len(pairs) != len(window) or any(p < 0 for pair in pairs for p in pair):
        raise ArgumentError(f"{who}: padding is 0 or more for each of {len(window)} spatial axes: got {padding}")
    return pairs


def positions(x: Aval, window: Shape, stride: Shape, dilation: Shape, padding: Pairs, who: str) -> Shape:
    """Return how many positions a window has along each spatial axis of float[batch, *spatial, channels]."""
    spatial = x.shape[1:-1]
    spans = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
    room = [n + a + b for n, (a, b) in zip(spatial, padding, strict=True)]
    if any(s > r for s, r in zip(spans, room, strict=True)):
        raise ShapeError(
            f"{who}: the window is longer than the array: got {x} and window {window} (spanning {tuple(spans)}); "
            "use a shorter one, or padding"
        )
    return tuple([(r - s) // t + 1 for r, s, t in zip(room, spans, stride, strict=True)])


def patches(x: ArrayLike, window: Shape, stride: Shape, dilation: Shape, padding: Pairs) -> Array:
    """Return float[batch, *positions, product of window · channels] from float[batch, *spatial, channels]."""
    return single(patches_p, x, window=window, stride=stride, dilation=dilation, padding=padding)


def _patches_abstract(x: Aval, *, window: Shape, stride: Shape, dilation: Shape, padding: Pairs) -> Aval:
    out = positions(x, window, stride, dilation, padding, "patches")
    return Aval((x.shape[0], *out, math.prod(window) * x.shape[-1]), x.dtype)


def _patches_run(x: Any, *, window: Shape, stride: Shape, dilation: Shape, padding: Pairs) -> Any:
    if any(p != (0, 0) for p in padding):
        roomy = np.zeros(
            (x.shape[0], *[n + a + b for n, (a, b) in zip(x.shape[1:-1], padding, strict=True)], x.shape[-1]), x.dtype
        )
        roomy[(slice(None), *[slice(a, a + n) for n, (a, _) in zip(x.shape[1:-1], padding, strict=True)])] = x
        x = roomy
    spatial, steps = x.shape[1:-1], x.strides[1:-1]
    out = tuple([(n - (w - 1) * d - 1) // s + 1 for n, w, s, d in zip(spatial, window, stride, dilation, strict=True)])
    view = np.lib.stride_tricks.as_strided(
        x,
        (x.shape[0], *out, *window, x.shape[-1]),
        (
            x.strides[0],
            *[t * s for t, s in zip(steps, stride, strict=True)],
            *[t * d for t, d in zip(steps, dilation, strict=True)],
            x.strides[-1],
        ),
        writeable=False,
    )
    return np.ascontiguousarray(view).reshape(x.shape[0], *out, math.prod(window) * x.shape[-1])


def _patches_transpose(ct: Array, x: Aval, **params: Any) -> Array:
    return single(unpatches_p, ct, shape=x.shape, **params)


def _merged(size: int, x: Value) -> Value:
    return reshape(x, (size * x.shape[1], *x.shape[2:]))


def _patches_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    z = patches(_merged(size, xs[0]), **params)
    return reshape(z, (size, xs[0].shape[1], *z.shape[1:]))


patches_p = linear("patches", _patches_run, _patches_abstract, _patches_transpose, batch=_patches_batch, positive=True)


def _unpatches_abstract(
    x: Aval, *, shape: Shape, window: Shape, stride: Shape, dilation: Shape, padding: Pairs
) -> Aval:
    return Aval(shape, x.dtype)


def _unpatches_run(x: Any, *, shape: Shape, window: Shape, stride: Shape, dilation: Shape, padding: Pairs) -> Any:
    """Add every window back to its place: one shifted addition for each place in the window."""
    out = x.shape[1:-1]
    roomy = np.zeros(
        (shape[0], *[n + a + b for n, (a, b) in zip(shape[1:-1], padding, strict=True)], shape[-1]), x.dtype
    )
    parts = x.reshape(shape[0], *out, *window, shape[-1])
    lead = (slice(None),) * (1 + len(out))
    for place in np.ndindex(*window):
        spans = tuple(
            [slice(p * d, p * d + (n - 1) * s + 1, s) for p, d, n, s in zip(place, dilation, out, stride, strict=True)]
        )
        roomy[(slice(None), *spans)] += parts[(*lead, *place)]
    return roomy[(slice(None), *[slice(a, a + n) for n, (a, _) in zip(shape[1:-1], padding, strict=True)])]


def _unpatches_transpose(ct: Array, x: Aval, *, shape: Shape, **params: Any) -> Array:
    return patches(ct, **params)


def _unpatches_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    shape = params["shape"]
    rest = {k: v for k, v in params.items() if k != "shape"}
    z = bind(unpatches_p, _merged(size, xs[0]), shape=(size * shape[0], *shape[1:]), **rest)
    return reshape(z, (size, *shape))


unpatches_p = linear(
    "unpatches", _unpatches_run, _unpatches_abstract, _unpatches_transpose, batch=_unpatches_batch, positive=True
)
