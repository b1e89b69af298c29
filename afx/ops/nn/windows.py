"""Windows: offsets of a moving window, and every position of it as a row, for pooling."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias

import numpy as np

from afx.core.array.array import Array, ArrayLike, snapshot, wrap
from afx.core.aval import Aval, Shape, aval_of, normalize_axis
from afx.core.primitive import Params, Primitive, Value
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind, bind_single, is_traced
from afx.errors import ArgumentError, ShapeError
from afx.ops._kinds.linear import linear
from afx.ops.creation.creation import asarray
from afx.ops.indexing.index import ints
from afx.ops.manipulation.axes import moveaxis
from afx.ops.manipulation.shape import reshape
from afx.ops.nn._convolution import Pairs, col2im, padded, windows

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["sliding_window_view"]

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


def _im2col_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    z = im2col(_merge_batch(size, xs[0]), **params)
    return reshape(z, (size, xs[0].shape[1], *z.shape[1:]))


im2col_p: Primitive = linear(
    "im2col", _im2col_run, _im2col_abstract, _im2col_transpose, batch=_im2col_batch, nonnegative_linear=True
)


def _col2im_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
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


col2im_p: Primitive = linear(
    "col2im",
    _col2im_run,
    _col2im_abstract,
    _col2im_transpose,
    batch=_col2im_batch,
    nonnegative_linear=True,
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
    found = im2col(reshape(rows, (-1, rows.shape[-1], 1)), (length,), (1,), (1,), ((0, 0),))
    return moveaxis(reshape(found, (*rows.shape[:-1], *found.shape[1:])), -2, axis)
