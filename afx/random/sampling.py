"""Sampling: categories, permutations and choices; drawn indices have no derivative, chosen values have."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Shape, aval_of, broadcast_shapes, checked_shape, normalize_axis
from afx.core.dtypes import float64, int64
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import multiply
from afx.ops.elementwise.where import minimum, where
from afx.ops.indexing.getitem import take
from afx.ops.manipulation.axes import moveaxis
from afx.ops.manipulation.shape import astype, reshape
from afx.ops.random.integers import random_integers, random_order
from afx.ops.random.uniform_family import random_draw
from afx.ops.reductions.cumulative import cumulative_sum
from afx.ops.sorting.sort import argmax, argsort, searchsorted
from afx.random._arguments import ShapeLike, checked_key, floating, require_scale
from afx.random.continuous import gumbel

__all__ = ["categorical", "choice", "permutation"]


def categorical(key: ArrayLike, logits: ArrayLike, shape: ShapeLike = None, axis: int = -1) -> Array:
    """Return categories drawn by unnormalised logarithms of their probabilities, int64.

    The largest logit with Gumbel noise wins (Gumbel 1954), so that no sum is needed. Categories have no derivative.

    Args:
        key: uint32[2].
        logits: float[..., categories]; -inf for what is never drawn.
        shape: of the result, which that of the logits without ``axis`` broadcasts to; that shape without one.
        axis: that of the categories.

    Raises:
        ShapeError: there are no categories, or the logits do not broadcast to the shape.
        DtypeError: the logits are complex numbers.

    >>> categorical(afx.random.key(0), np.log([0.5, 0.25, 0.25]), 5).shape
    (5,)
    """
    aval = aval_of(logits, "categorical")
    place = normalize_axis(axis, aval.ndim, "categorical")
    scores = asarray(logits) if place == aval.ndim - 1 else moveaxis(logits, place, -1)
    lead, count = scores.shape[:-1], scores.shape[-1]
    if not count:
        raise ShapeError(f"categorical: there are no categories: got {aval}; give logits of one or more")
    lengths = lead if shape is None else checked_shape(shape, "categorical")
    dtype = floating(None, "categorical", scores)
    if broadcast_shapes([lengths, lead]) != lengths:
        raise ShapeError(f"categorical: logits do not broadcast to the shape: got {aval} and shape {lengths}; widen it")
    return argmax(gumbel(checked_key(key, "categorical"), (*lengths, count), dtype=dtype) + scores, -1)


def permutation(key: ArrayLike, x: int | ArrayLike, axis: int = 0) -> Array:
    """Return the integers below x, or the slices of an array along an axis, in an order; all orders are equally likely.

    Args:
        key: uint32[2].
        x: an int, or an array, which is shuffled along the axis as a whole; differentiable.
        axis: the axis to shuffle along.

    Raises:
        ShapeError: there is no such axis.
        ArgumentError: a negative number.

    >>> permutation(afx.random.key(0), 4)
    Array([3, 2, 1, 0], dtype=int64)
    """
    checked_key(key, "permutation")
    if _is_count(x):
        return random_order(key, _count(x, "permutation"))
    aval = aval_of(x, "permutation")
    place = normalize_axis(axis, aval.ndim, "permutation")
    return take(x, random_order(key, aval.shape[place]), place)


def _is_count(x: Any) -> bool:
    return isinstance(x, (int, np.integer))


def _count(x: Any, who: str) -> int:
    n = operator.index(x)
    if n < 0:
        raise ArgumentError(f"{who}: takes a number of things, 0 or more: got {n}; give an array or another number")
    return n


def choice(
    key: ArrayLike,
    x: int | ArrayLike,
    shape: ShapeLike = None,
    *,
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
) -> Array:
    """Return integers below x, or slices of an array along an axis, drawn at random; differentiable in the array.

    Args:
        key: uint32[2].
        x: an int, or an array to choose slices of.
        shape: of the sample, which replaces the axis.
        replace: whether a slice may be chosen again.
        p: float[n], the probabilities, all equal without them; need not add up to 1. Without replacement each further
            slice is chosen by the probabilities of those that are left (Efraimidis & Spirakis 2006).
        axis: the axis to choose along.

    Raises:
        ArgumentError: nothing to choose from, fewer things than are chosen without replacement, or negative
            probabilities.
        ShapeError: the probabilities are not one for each slice.

    >>> choice(afx.random.key(0), np.array([2.0, 3.0, 5.0]), 4).shape
    (4,)
    >>> choice(afx.random.key(0), 5, (2, 2), replace=False).shape
    (2, 2)
    """
    checked_key(key, "choice")
    lengths = checked_shape(() if shape is None else shape, "choice")
    if _is_count(x):
        return _choose_indices(key, _count(x, "choice"), lengths, replace, p)
    aval = aval_of(x, "choice")
    place = normalize_axis(axis, aval.ndim, "choice")
    return take(x, _choose_indices(key, aval.shape[place], lengths, replace, p), place)


def _choose_indices(key: ArrayLike, n: int, shape: Shape, replace: bool, p: ArrayLike | None) -> Array:
    """Return indices below n."""
    count = math.prod(shape)
    if count and not n:
        raise ArgumentError(f"choice: there is nothing to choose from: got 0 things and shape {shape}; give some")
    weights = None if p is None else _weights(p, n)
    if not replace:
        return reshape(_distinct(key, n, count, weights), shape)
    if weights is None:
        return random_integers(key, 0, max(n, 1), shape, int64)
    bounds = cumulative_sum(weights)
    u = multiply(random_draw(key, "uniform", shape, float64), bounds[-1])
    return minimum(searchsorted(bounds, u, side="right"), n - 1)


def _distinct(key: ArrayLike, n: int, count: int, weights: Array | None) -> Array:
    if count > n:
        raise ArgumentError(f"choice: not so many without replacement: got {count} of {n}; choose fewer, or replace")
    if weights is None:
        return random_order(key, n)[:count]
    if not isinstance(weights, Tracer) and np.count_nonzero(np.asarray(weights)) < count:
        raise ArgumentError(
            f"choice: fewer than {count} probabilities are above 0: got {aval_of(weights)}; choose fewer"
        )
    times = random_draw(key, "exponential", (n,), float64)  # until each is chosen, at the rate of its weight
    some = weights > 0
    return argsort(where(some, times / where(some, weights, 1.0), np.inf))[:count]


def _weights(p: ArrayLike, n: int) -> Array:
    aval = aval_of(p, "choice")
    if aval.shape != (n,):
        raise ShapeError(f"choice: one probability for each of {n} things: got {aval}; give float[{n}]")
    if aval.dtype.kind == "c":
        raise DtypeError(f"choice: probabilities are real: got {aval}; take the abs or a part")
    require_scale("choice", p, "a probability")
    return astype(p, float64)
