"""Resampling: images and signals of more positions than there were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of, integer
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.creation import asarray
from afx.ops.indexing.getitem import take
from afx.ops.manipulation.axes import moveaxis
from afx.ops.manipulation.join import repeat
from afx.ops.manipulation.shape import astype, reshape

__all__ = ["pixel_shuffle", "upsample"]


def upsample(x: ArrayLike, factor: int | Sequence[int], *, method: Literal["nearest", "linear"] = "nearest") -> Array:
    """Return ``factor`` times as many positions along each spatial axis.

    Positions are the middles of cells, so ends repeat (PyTorch's ``align_corners=False``); in two dimensions linear is
    bilinear.

    Args:
        x: float[batch, *spatial, channels].
        factor: 1 or more; one for all spatial axes, or one each.
        method: the nearest position, or between two of them.

    Raises:
        ShapeError: there is no spatial axis, or a factor too many.
        ArgumentError: a factor below 1, or another method.

    >>> upsample(afx.asarray([[[0.0], [1.0]]]), 2, method="linear")[0, :, 0]
    Array([0.  , 0.25, 0.75, 1.  ], dtype=float32)
    """
    a = aval_of(x, "upsample")
    factors = list(factor) if isinstance(factor, Sequence) else [factor] * (a.ndim - 2)
    if a.ndim < 3 or len(factors) != a.ndim - 2:
        raise ShapeError(f"upsample: x is [batch, *spatial, channels]: got {a} and {factor=}; give a factor for each")
    if method not in ("nearest", "linear") or min(integer(n, "upsample", "factor") for n in factors) < 1:
        raise ArgumentError(
            f"upsample: factors are 1 or more, methods 'nearest' and 'linear': got {factor} and {method!r}; choose among them"
        )
    y = asarray(x)
    for axis, n in enumerate(factors, 1):
        y = repeat(y, n, axis=axis) if method == "nearest" else _between(y, n, axis)
    return y


def _between(x: Array, factor: int, axis: int) -> Array:
    """Return values on a line between neighbours, at the middles of cells ``factor`` times as small."""
    size = x.shape[axis]
    places = np.clip((np.arange(size * factor) + 0.5) / factor - 0.5, 0, max(size - 1, 0))
    low = np.minimum(places.astype(int), max(size - 2, 0))
    share = astype(asarray((places - low).reshape((-1,) + (1,) * (x.ndim - 1 - axis))), x.dtype)
    left, right = take(x, low, axis=axis), take(x, np.minimum(low + 1, size - 1), axis=axis)
    return left + share * (right - left)


def pixel_shuffle(x: ArrayLike, factor: int) -> Array:
    """Return an image of more positions and fewer channels (Shi et al. 2016, equation 4).

    The order of the channels is PyTorch's: those of one output channel stand together, row by row.

    Args:
        x: float[batch, *spatial, channels · factor to the power of the number of spatial axes].
        factor: how many times as long each spatial axis becomes.

    Raises:
        ShapeError: the channels are not that many.

    >>> pixel_shuffle(afx.arange(4.0).reshape(1, 1, 1, 4), 2)[0, :, :, 0]
    Array([[0., 1.],
           [2., 3.]], dtype=float32)
    """
    a = aval_of(x, "pixel_shuffle")
    rank = a.ndim - 2
    if rank < 1 or integer(factor, "pixel_shuffle", "factor") < 1 or a.shape[-1] % factor**rank:
        raise ShapeError(
            f"pixel_shuffle: channels are a multiple of {factor}^{rank}: got {a}; give [batch, *spatial, channels]"
        )
    batch, *spatial, channels = a.shape
    parts = reshape(asarray(x), (batch, *spatial, channels // factor**rank, *[factor] * rank))
    for k in range(rank):  # each factor behind its axis
        parts = moveaxis(parts, a.ndim + k, 2 * (k + 1))
    return reshape(parts, (batch, *[n * factor for n in spatial], channels // factor**rank))
