"""Count distributions: draws in int64, without derivatives."""

from __future__ import annotations

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.dtypes import float64, int64
from afx.core.registry import FUNCTIONS
from afx.errors import ShapeError
from afx.ops.elementwise.exponential import log1p
from afx.ops.elementwise.rounding import ceil
from afx.ops.elementwise.where import clip, where
from afx.ops.manipulation.join import stack
from afx.ops.manipulation.shape import astype, broadcast_to
from afx.ops.random.discrete import random_binomial, random_poisson
from afx.ops.random.gamma import random_gamma
from afx.ops.random.uniform_family import random_draw
from afx.random._arguments import (
    ShapeLike,
    drawn_shape,
    require_positive,
    require_probability,
    require_scale,
    resolve_arguments,
)
from afx.random.keys import split

__all__ = ["binomial", "geometric", "multinomial", "negative_binomial", "poisson"]

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
    left: Array = broadcast_to(astype(n, float64), lengths)
    counts: list[Array] = []
    after = FUNCTIONS.flip(FUNCTIONS.cumulative_sum(FUNCTIONS.flip(weights, axis=-1), axis=-1), axis=-1)
    for i, own in enumerate(split(key, aval.shape[-1])):
        rest = after[..., i]
        share = clip(weights[..., i] / where(rest > 0, rest, 1.0), 0.0, 1.0)
        counts.append(random_binomial(own, left, share, lengths))
        left = left - astype(counts[-1], float64)
    return stack(counts, axis=-1)
