"""Discrete and multivariate draws: counts, categories, permutations, choices, vectors and matrices."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, DTypeLike, Tracer, float64, int64
from afx.core.aval import Shape, aval_of, broadcast_shapes, checked_shape, normalize_axis
from afx.core.registry import FUNCTIONS
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops import asarray, ceil, cumulative_sum, log1p, matmul, moveaxis, multiply, stack, take, vector_norm
from afx.ops.elementwise.comparison import clip, minimum, where
from afx.ops.linalg.factorizations import cholesky
from afx.ops.manipulation.shape import astype, broadcast_to, reshape
from afx.ops.random.bits import random_integers, random_order
from afx.ops.random.rejection import random_binomial, random_gamma, random_poisson
from afx.ops.random.uniform_family import random_draw, random_orthogonal
from afx.ops.sorting.sort import argmax, argsort, searchsorted
from afx.random.continuous import gumbel
from afx.random.keys import (
    ShapeLike,
    checked_key,
    drawn_shape,
    floating,
    require_positive,
    require_probability,
    require_scale,
    resolve_arguments,
    split,
)

__all__ = [
    "ball",
    "binomial",
    "categorical",
    "choice",
    "geometric",
    "multinomial",
    "multivariate_normal",
    "negative_binomial",
    "orthogonal",
    "permutation",
    "poisson",
    "sphere",
]


# --- Count distributions: draws in int64, without derivatives

MOST = 2.0**62  # tries that are counted


def poisson(key: ArrayLike, rate: ArrayLike, shape: ShapeLike = None) -> Array:
    """Return Poisson numbers of mean ``rate``, int64. Counts have no derivative.

    Small rates by adding up probabilities, large ones by rejection (Hörmann 1993).

    Args:
        key: uint32[2].
        rate: the means, from 0 to 2⁵³.
        shape: of the result; that of ``rate`` without one.

    Raises:
        ArgumentError: a rate is negative or too large.
        ShapeError: the rates do not broadcast to the shape.

    >>> poisson(afx.random.key(0), 3.0, 4).dtype
    dtype('int64')
    """
    lengths, _, (mean,) = resolve_arguments("poisson", key, shape, None, rate)
    require_scale("poisson", mean, "a rate")
    return random_poisson(key, mean, lengths)


def binomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: ShapeLike = None) -> Array:
    """Return how many of n tries of probability p succeed, int64. Counts have no derivative.

    Args:
        key: uint32[2].
        n: whole numbers of tries, from 0 to 2⁵³.
        p: probabilities.
        shape: of the result; that of the parameters without one.

    Raises:
        ArgumentError: a number of tries is negative or not whole, or a probability does not lie from 0 to 1.
        ShapeError: the parameters do not broadcast to the shape.

    >>> binomial(afx.random.key(0), 10, 0.3, 4).dtype
    dtype('int64')
    """
    lengths, _, (tries, chance) = resolve_arguments("binomial", key, shape, float64, n, p)
    require_probability("binomial", chance)
    return random_binomial(key, tries, chance, lengths)


def geometric(key: ArrayLike, p: ArrayLike, shape: ShapeLike = None) -> Array:
    """Return how many tries of probability p it takes to succeed, 1 or more, int64. Counts have no derivative.

    Args:
        key: uint32[2].
        p: probabilities, above 0.
        shape: of the result; that of ``p`` without one.

    Raises:
        ArgumentError: a probability does not lie above 0 and up to 1.
        ShapeError: the probabilities do not broadcast to the shape.

    >>> geometric(afx.random.key(0), 0.3, 4).dtype
    dtype('int64')
    """
    lengths, _, (chance,) = resolve_arguments("geometric", key, shape, float64, p)
    require_probability("geometric", chance)
    require_positive("geometric", "a probability", chance)
    below = astype(where(chance < 1, chance, 0.5), float64)
    tries = ceil(random_draw(key, "exponential", lengths, float64) / -log1p(-below))
    return astype(clip(where(chance < 1, tries, 1.0), 1.0, MOST), int64)


def negative_binomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: ShapeLike = None) -> Array:
    """Return how many tries of probability p fail until n succeed, int64; n need not be whole. Counts have no derivative.

    They are Poisson numbers at a rate that is a gamma number. Arguments are those of `binomial`, n and p above 0.

    >>> negative_binomial(afx.random.key(0), 2, 0.3, 4).dtype
    dtype('int64')
    """
    lengths, _, (tries, chance) = resolve_arguments("negative_binomial", key, shape, float64, n, p)
    require_probability("negative_binomial", chance)
    require_positive("negative_binomial", "a number of successes or a probability", tries)
    require_positive("negative_binomial", "a number of successes or a probability", chance)
    first, second = split(key)
    rate = random_gamma(first, tries, lengths, float64) * ((1 - chance) / chance)
    return random_poisson(second, rate, lengths)


def multinomial(key: ArrayLike, n: ArrayLike, p: ArrayLike, shape: ShapeLike = None) -> Array:
    """Return how many of n tries fall into each category, int64[..., categories]. Counts have no derivative.

    One category after the other takes a binomial number of the tries that are left.

    Args:
        key: uint32[2].
        n: whole numbers of tries.
        p: float[..., categories], the probabilities; need not add up to 1.
        shape: of what is drawn, not counting the axis of categories; that of the parameters without one.

    Raises:
        ArgumentError: a number of tries is negative or not whole, or a probability is negative.
        ShapeError: the probabilities have no axis, or do not broadcast to the shape.

    >>> multinomial(afx.random.key(0), 10, np.array([0.2, 0.3, 0.5])).sum()
    Array(10, dtype=int64)
    """
    aval = aval_of(p, "multinomial")
    if not aval.ndim or not aval.shape[-1]:
        raise ShapeError(f"multinomial: a probability for each category: got {aval}; give a vector")
    resolve_arguments("multinomial", key, (), float64)
    require_scale("multinomial", p, "a probability")
    weights = astype(p, float64)
    lengths = drawn_shape("multinomial", shape, weights[..., 0], n)
    left = broadcast_to(astype(n, float64), lengths)
    counts: list[Array] = []
    after = FUNCTIONS.flip(FUNCTIONS.cumulative_sum(FUNCTIONS.flip(weights, axis=-1), axis=-1), axis=-1)
    for i, own in enumerate(split(key, aval.shape[-1])):
        rest = after[..., i]
        share = clip(weights[..., i] / where(rest > 0, rest, 1.0), 0.0, 1.0)
        counts.append(random_binomial(own, left, share, lengths))
        left = left - astype(counts[-1], float64)
    return stack(counts, axis=-1)


# --- Sampling: categories, permutations and choices; drawn indices have no derivative, chosen values have


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


# --- Multivariate samplers: random vectors and matrices


def multivariate_normal(
    key: ArrayLike, mean: ArrayLike, cov: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike | None = None
) -> Array:
    """Return normal vectors of a mean and a covariance, by its Cholesky factor; differentiable in both.

    Args:
        key: uint32[2].
        mean: float[..., n].
        cov: float[..., n, n], symmetric and positive definite.
        shape: of what is drawn, not counting the axis of the vectors; that of the parameters without one.
        dtype: that of the parameters, or the default dtype.

    Raises:
        ShapeError: the covariance does not fit the mean, or the parameters do not broadcast to the shape.
        DtypeError: the dtype is not a real floating one.
        LinAlgError: NumPy's: the covariance is not positive definite.

    >>> multivariate_normal(afx.random.key(0), np.zeros(2), np.eye(2), 5).shape
    (5, 2)
    """
    who = "multivariate_normal"
    checked_key(key, who)
    a, b = aval_of(mean, who), aval_of(cov, who)
    if not a.ndim or b.ndim < 2 or b.shape[-2:] != (a.shape[-1],) * 2:
        raise ShapeError(f"{who}: a vector and a matrix of its length: got {a} and {b}; transpose or reshape them")
    target = floating(dtype, who, mean, cov)
    parts = [a.shape[:-1], b.shape[:-2]]
    lengths = broadcast_shapes(parts) if shape is None else checked_shape(shape, who)
    if lengths is None or broadcast_shapes([lengths, *parts]) != lengths:
        raise ShapeError(f"{who}: parameters do not broadcast to the shape: got {a}, {b} and shape {shape}; widen it")
    z = random_draw(key, "normal", (*lengths, a.shape[-1], 1), target)
    return matmul(cholesky(astype(cov, target)), z)[..., 0] + astype(mean, target)


def orthogonal(key: ArrayLike, n: int, shape: ShapeLike = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return orthogonal matrices, float[*shape, n, n], evenly from all of them (Mezzadri 2007).

    >>> q = orthogonal(afx.random.key(0), 3)
    >>> bool(afx.max(afx.abs(q @ q.T - afx.eye(3))) < 1e-5)
    True
    """
    target = floating(dtype, "orthogonal", 0.0)
    lengths = checked_shape(() if shape is None else shape, "orthogonal")
    return random_orthogonal(checked_key(key, "orthogonal"), (*lengths, *checked_shape((n, n), "orthogonal")), target)


def sphere(key: ArrayLike, n: int, shape: ShapeLike = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return vectors of length 1, float[*shape, n], evenly from all directions.

    >>> sphere(afx.random.key(0), 3, 5).shape
    (5, 3)
    """
    target = floating(dtype, "sphere", 0.0)
    lengths = checked_shape(() if shape is None else shape, "sphere")
    z = random_draw(checked_key(key, "sphere"), "normal", (*lengths, *checked_shape(n, "sphere")), target)
    return z / vector_norm(z, axis=-1, keepdims=True)


def ball(key: ArrayLike, n: int, shape: ShapeLike = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return vectors of length up to 1, float[*shape, n], evenly from the ball that they fill.

    >>> ball(afx.random.key(0), 3, 5).shape
    (5, 3)
    """
    first, second = split(checked_key(key, "ball"))
    directions = sphere(first, n, shape, dtype=dtype)
    lengths = random_draw(second, "uniform", (*directions.shape[:-1], 1), directions.dtype)
    return directions * lengths ** (1 / max(n, 1))
