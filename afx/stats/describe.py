"""Descriptions of samples: ranks, the standard error of their mean, and the most common element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from afx.core import Array, ArrayLike, default_dtype, float32, float64, normalize_axis
from afx.errors import ArgumentError, ShapeError
from afx.ops import any as any_, asarray, astype, concat, cumsum, isnan, moveaxis, reshape, sqrt, std, where
from afx.ops._kinds.special import alone_in_float64
from afx.ops.sorting.sort import argmax, argsort, searchsorted, sort
from afx.transforms.vmap import vmap

__all__ = ["ModeResult", "mode", "rankdata", "sem"]


def _read(a: ArrayLike) -> Array:
    """Return a sample, Python's numbers with all of their digits."""
    with default_dtype(float64):
        return asarray(a)


def _least(row: Array) -> Array:
    return searchsorted(sort(row), row, "left") + 1


def _greatest(row: Array) -> Array:
    return searchsorted(sort(row), row, "right")


def _dense(row: Array) -> Array:
    ranked = sort(row)
    begins = concat([ranked[:1] == ranked[:1], ranked[1:] != ranked[:-1]])
    return cumsum(astype(begins, "int64"))[searchsorted(ranked, row, "left")]


RANKS: Final[dict[str, Callable[[Array], Array]]] = {
    "average": lambda row: (_least(row) + _greatest(row)) / 2,
    "min": _least,
    "max": _greatest,
    "dense": _dense,
    "ordinal": lambda row: argsort(argsort(row)) + 1,
}


def rankdata(a: ArrayLike, method: str = "average", *, axis: int | None = None) -> Array:
    """Return the ranks of elements, the least one's 1, as floating-point numbers; they have no derivative.

    Where there is a nan, all ranks are nan.

    Args:
        a: any shape.
        method: the rank of equal elements: ``"average"``, ``"min"`` or ``"max"`` of those that they share, ``"dense"``, where
            the next element's rank is the next number, or ``"ordinal"``, where the earlier one is less.
        axis: along which elements are ranked; without one all of them, as a vector.

    Raises:
        ArgumentError: there is no such method.

    >>> rankdata(np.array([3.0, 1.0, 3.0, 2.0]))
    Array([3.5, 1. , 3.5, 2. ], dtype=float64)
    """
    if method not in RANKS:
        raise ArgumentError(f"rankdata: no such method: got {method!r}; use one of {', '.join(RANKS)}")
    x = _read(a)
    if axis is None:
        return rankdata(reshape(x, (-1,)), method, axis=0)
    place = normalize_axis(axis, x.ndim, "rankdata")
    rows = moveaxis(x, place, -1)
    dtype = x.dtype if x.dtype == float32 else float64  # half precision has no ranks beyond 2048

    def rank(row: Array) -> Array:
        ranks = astype(RANKS[method](row), dtype)
        return where(any_(isnan(row)), math.nan, ranks)

    flat = reshape(rows, (math.prod(rows.shape[:-1]), rows.shape[-1]))
    return moveaxis(reshape(vmap(rank)(flat), rows.shape), -1, place) if x.size else astype(x, dtype)


def sem(a: ArrayLike, axis: int | None = 0, ddof: float = 1, *, keepdims: bool = False) -> Array:
    """Return the standard error of the mean: the standard deviation by the root of the number of samples.

    Args:
        a: any shape.
        axis: along which samples lie; without one all elements are samples.
        ddof: the divisor of the variance is the number of samples less this.
        keepdims: whether the axis stays, with length 1.

    >>> sem(np.array([1.0, 2.0, 3.0])).round(4)
    Array(0.5774, dtype=float64)
    """
    x = asarray(*alone_in_float64("sem", _read(a)))
    count = x.size if axis is None else x.shape[normalize_axis(axis, x.ndim, "sem")]
    return std(x, axis, ddof=ddof, keepdims=keepdims) / sqrt(float(count))


class ModeResult(NamedTuple):
    """The most common elements.

    Attributes:
        mode: the elements.
        count: how often each occurs.
    """

    mode: Array
    count: Array  # type: ignore[assignment]  # SciPy's name


def mode(a: ArrayLike, axis: int | None = 0, *, keepdims: bool = False) -> ModeResult:
    """Return the most common element along an axis, the least one of several, and how often it occurs.

    All nan count as one element. The element is differentiable, as one of several equal ones.

    Args:
        a: any shape, with an element at least along the axis.
        axis: the axis; without one all elements are compared.
        keepdims: whether the axis stays, with length 1.

    Raises:
        ShapeError: there is no element.

    >>> mode(np.array([2, 1, 2, 1, 3]))
    ModeResult(mode=Array(1, dtype=int64), count=Array(2, dtype=int64))
    """
    x = _read(a)
    rows = reshape(x, (-1,)) if axis is None else moveaxis(x, normalize_axis(axis, x.ndim, "mode"), -1)
    if not rows.shape[-1]:
        raise ShapeError(f"mode: there is an element along the axis: got {x.aval} along axis {axis}; check for empties")

    def find(row: Array) -> tuple[Array, Array]:
        ranked = sort(row)
        counts = searchsorted(ranked, ranked, "right") - searchsorted(ranked, ranked, "left")
        place = argmax(counts)
        return ranked[place], counts[place]

    value, count = vmap(find)(reshape(rows, (math.prod(rows.shape[:-1]), rows.shape[-1])))
    shape = rows.shape[:-1]
    if keepdims:
        shape = tuple([1 if axis is None or k == axis % x.ndim else n for k, n in enumerate(x.shape)])
    return ModeResult(reshape(value, shape), reshape(count, shape))
