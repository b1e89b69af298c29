"""Pooling: the largest or the mean element of each window."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.core.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of
from afx.core.dtypes import is_inexact
from afx.errors import DtypeError, ShapeError
from afx.ops._kinds import reduction
from afx.ops.arithmetic import divide
from afx.ops.creation import asarray, ones
from afx.ops.padding import pad
from afx.ops.reductions import batch_reduction, reduce_over, reduced, sum
from afx.ops.shaping import reshape
from afx.ops.windows import Padding, each_axis, padded_by, patches, positions

__all__ = ["avg_pool", "max_pool"]


def max_pool(
    x: ArrayLike,
    window: int | Sequence[int],
    *,
    stride: int | Sequence[int] | None = None,
    padding: Padding = "valid",
) -> Array:
    """Return the largest element of each window; the first one, where several are, has the derivative.

    Args:
        x: float[batch, *spatial, channels].
        window: its length, or one for each spatial axis.
        stride: from one window to the next; the window's length, where it is not given.
        padding: as `conv`'s; padded places count as -inf. Without padding the windows must cover each axis exactly
            when the stride is not given.

    Returns:
        float[batch, *positions, channels].

    Raises:
        ShapeError: the window does not divide an axis, or is longer than it.

    >>> import afx
    >>> max_pool(afx.asarray([1.0, 3.0, 2.0, 0.0]).reshape(1, 4, 1), 2)[0, :, 0]
    Array([3., 2.], dtype=float32)
    """
    cells, axis, _ = _cells(x, window, stride, padding, "max_pool", -math.inf)
    return reduce_over(max_first_p, cells, axis, keepdims=False, who="max_pool")


def avg_pool(
    x: ArrayLike,
    window: int | Sequence[int],
    *,
    stride: int | Sequence[int] | None = None,
    padding: Padding = "valid",
) -> Array:
    """Return the mean of each window; padded places are not counted. Arguments and errors are those of `max_pool`.

    >>> import afx
    >>> avg_pool(afx.asarray([1.0, 3.0, 2.0, 0.0]).reshape(1, 4, 1), 2)[0, :, 0]
    Array([2., 1.], dtype=float32)
    """
    cells, axis, counts = _cells(x, window, stride, padding, "avg_pool", 0.0)
    return divide(sum(cells, axis=axis), counts)


def _cells(
    x: ArrayLike, window: Any, stride: Any, padding: Padding, who: str, fill: float
) -> tuple[Array, tuple[int, ...], Any]:
    """Return the windows' elements with the axes to reduce, and how many of them are not padded."""
    a = aval_of(x, who)
    if a.ndim < 3:
        raise ShapeError(f"{who}: x is [batch, *spatial, channels]: got {a}; reshape it")
    if not is_inexact(a.dtype):
        raise DtypeError(f"{who}: needs floating elements: got {a}; use astype")
    rank = a.ndim - 2
    sizes = each_axis(window, rank, "window", who)
    steps = sizes if stride is None else each_axis(stride, rank, "stride", who)
    pads = padded_by(padding, a.shape[1:-1], sizes, steps, (1,) * rank, who)
    if stride is None and padding == "valid" and any(n % w for n, w in zip(a.shape[1:-1], sizes, strict=True)):
        raise ShapeError(
            f"{who}: the window does not divide the axis: got {a} and window {sizes}; "
            "cut or pad x, or give stride= or padding="
        )
    places = positions(a, sizes, steps, (1,) * rank, pads, who)
    count = math.prod(sizes)
    padded = any(p != (0, 0) for p in pads)
    if steps == sizes and not padded and all(p * w == n for p, w, n in zip(places, sizes, a.shape[1:-1], strict=True)):
        split: Shape = (a.shape[0], *[n for p, w in zip(places, sizes, strict=True) for n in (p, w)], a.shape[-1])
        return reshape(x, split), tuple(range(2, 2 + 2 * rank, 2)), count
    ones_ = ones((1, *a.shape[1:-1], 1), a.dtype)
    if padded and fill:
        x = pad(asarray(x), ((0, 0), *pads, (0, 0)), constant_values=fill)
    rest = ((0, 0),) * rank if padded and fill else pads
    rows = patches(x, sizes, steps, (1,) * rank, rest)
    cells = reshape(rows, (a.shape[0], *places, count, a.shape[-1]))
    return (
        cells,
        (rank + 1,),
        sum(patches(ones_, sizes, steps, (1,) * rank, pads), axis=-1, keepdims=True) if padded else count,
    )


def _max_run(x: Any, *, axis: Shape) -> Any:
    return np.maximum.reduce(x, axis=axis)


def _max_abstract(x: Aval, *, axis: Shape) -> Aval:
    return Aval(reduced(x.shape, axis), x.dtype)


def _first(_z: Array, x: Array, *, axis: Shape) -> Array:
    """Return 1 at the first largest element of each window, in the order of its axes, 0 elsewhere."""
    if len(axis) == 1:
        return _first_along(x, axis[0])
    order = (*[a for a in range(x.ndim) if a not in axis], *axis)
    rows = x.transpose(order)
    here = _first_along(rows.reshape((*rows.shape[: x.ndim - len(axis)], -1)), x.ndim - len(axis))
    return here.reshape(rows.shape).transpose([order.index(a) for a in range(x.ndim)])


def _first_along(x: Array, axis: int) -> Array:
    places = np.arange(x.shape[axis]).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    return (x.argmax(axis=axis, keepdims=True) == places).astype(x.dtype)


def _batch(x: Any, *, axis: Shape) -> Array:
    return reduce_over(max_first_p, x, axis, keepdims=False, who="max_pool")


max_first_p = reduction(
    "max_first", _max_run, _max_abstract, _first, batch=batch_reduction(_batch), smooth=False, reduces=np.maximum
)
