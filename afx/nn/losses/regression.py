"""Regression and embedding losses: differences between predictions and targets, distances and angles of vectors."""

from __future__ import annotations

import math

from afx.core import Array, ArrayLike, aval_of
from afx.errors import ShapeError
from afx.nn.losses.classification import (
    as_numbers,
    check_positive,
    check_same_shape,
    check_shares,
    difference,
    softmax_cross_entropy,
)
from afx.ops import abs as abs_, arange, asarray, clip, exp, log1p, matmul, sinh, sum, vector_norm, where
from afx.ops.nn.activations import relu

__all__ = [
    "contrastive",
    "cosine_distance",
    "cosine_similarity",
    "huber",
    "info_nce",
    "log_cosh",
    "mae",
    "mse",
    "triplet",
]

# --- Regression losses: differences between predictions and targets


def mse(predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Return the squared difference of each element.

    Args:
        predictions: any shape.
        targets: of the same shape, or one number for all; integers and booleans take the predictions' dtype.

    Raises:
        ShapeError: the shapes differ (a silent broadcast would compare every pair).

    >>> mse(afx.asarray([3.0]), afx.asarray([1.0]))
    Array([4.], dtype=float32)
    """
    d = difference("mse", predictions, targets)
    return d * d


def mae(predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Return the absolute difference of each element; its derivative at 0 is 0. Arguments and errors are `mse`'s.

    >>> mae(afx.asarray([3.0]), afx.asarray([1.0]))
    Array([2.], dtype=float32)
    """
    return abs_(difference("mae", predictions, targets))


def huber(predictions: ArrayLike, targets: ArrayLike, delta: float = 1.0) -> Array:
    """Return ½d² where the difference d is within ``delta``, and ``delta·(|d| - ½delta)`` beyond (Huber 1964).

    Args:
        predictions: any shape.
        targets: of the same shape, or one number for all.
        delta: positive.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: delta is not positive.

    >>> huber(afx.asarray([3.0]), afx.asarray([1.0]))
    Array([1.5], dtype=float32)
    """
    check_positive("huber", "delta", delta, "use mse for a loss without a bound")
    d = difference("huber", predictions, targets)
    near = clip(d, -delta, delta)
    return near * (d - 0.5 * near)


def log_cosh(predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Return ``log(cosh(d))`` of each difference d: ½d² near 0, ``|d| - log 2`` far off. Arguments and errors are `mse`'s.

    Small differences keep their digits: there it is computed as ``½ log(1 + sinh² d)``.

    >>> log_cosh(afx.asarray([1000.0]), afx.asarray([0.0])).round(2)
    Array([999.31], dtype=float32)
    """
    d = difference("log_cosh", predictions, targets)
    is_small = abs_(d) < 1
    small, large = where(is_small, d, 0), abs_(where(is_small, 1, d))
    return where(is_small, 0.5 * log1p(sinh(small) ** 2), large + (log1p(exp(-2 * large)) - math.log(2)))


# --- Embedding losses: distances and angles between vectors


def _unit(x: ArrayLike, axis: int) -> tuple[Array, Array]:
    """Return vectors of length 1, zero vectors as they are, and which are zero; nothing overflows."""
    size = vector_norm(x, axis, keepdims=True)
    is_zero = size == 0
    return asarray(x) / where(is_zero, 1, size), is_zero


def cosine_similarity(x: ArrayLike, y: ArrayLike, axis: int = -1) -> Array:
    """Return the cosine of the angle between vectors; a zero vector has the similarity 0 and no derivative.

    Args:
        x: float[..., features].
        y: of the same shape.
        axis: that of the features.

    Raises:
        ShapeError: the shapes differ.

    >>> cosine_similarity(afx.asarray([3.0, 4.0]), afx.asarray([4.0, 3.0])).round(2)
    Array(0.96, dtype=float32)
    """
    _check_same("cosine_similarity", x, y)
    return sum(_unit(x, axis)[0] * _unit(y, axis)[0], axis=axis)


def cosine_distance(x: ArrayLike, y: ArrayLike, axis: int = -1) -> Array:
    """Return 1 less `cosine_similarity`, with all digits where vectors are nearly parallel.

    It is half the squared distance of the vectors of length 1. Arguments and errors are those of `cosine_similarity`.

    >>> cosine_distance(afx.asarray([1.0, 0.0]), afx.asarray([0.0, 1.0]))
    Array(1., dtype=float32)
    """
    _check_same("cosine_distance", x, y)
    (u, no_x), (v, no_y) = _unit(x, axis), _unit(y, axis)
    distance = sum((u - v) ** 2, axis=axis, keepdims=True) / 2
    return where(no_x | no_y, 1, distance).squeeze(axis)


def triplet(anchor: ArrayLike, positive: ArrayLike, negative: ArrayLike, margin: float = 1.0) -> Array:
    """Return ``max(0, |a - p| - |a - n| + margin)`` (Schroff et al. 2015, with distances that are not squared).

    Args:
        anchor: float[..., features].
        positive: of the same shape, vectors that should be near.
        negative: of the same shape, vectors that should be further, by the margin.
        margin: positive.

    Returns:
        float[...].

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: the margin is not positive.

    >>> triplet(afx.asarray([0.0]), afx.asarray([1.0]), afx.asarray([1.5]))
    Array(0.5, dtype=float32)
    """
    _check_same("triplet", anchor, positive)
    _check_same("triplet", anchor, negative)
    check_positive("triplet", "margin", margin, "use 1")
    a = asarray(anchor)
    return relu(vector_norm(a - positive, -1) - vector_norm(a - negative, -1) + margin)


def contrastive(x: ArrayLike, y: ArrayLike, same: ArrayLike, margin: float = 1.0) -> Array:
    """Return ½d² for pairs that belong together and ½max(0, margin - d)² for others (Hadsell et al. 2006, equation 4).

    Args:
        x: float[..., features].
        y: of the same shape; d is the distance to it.
        same: [...], 1 or True for pairs that belong together, 0 or False for others.
        margin: positive.

    Returns:
        float[...].

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: the margin is not positive.

    >>> contrastive(afx.asarray([[0.0], [0.0]]), afx.asarray([[0.5], [0.5]]), afx.asarray([True, False]))
    Array([0.125, 0.125], dtype=float32)
    """
    _check_same("contrastive", x, y)
    check_positive("contrastive", "margin", margin, "use 1")
    d = vector_norm(asarray(x) - y, -1)
    check_same_shape("contrastive", d, same, "distances and labels")
    check_shares(same, "contrastive")
    share = as_numbers(same, d)
    return (share * d**2 + (1 - share) * relu(margin - d) ** 2) / 2


def info_nce(x: ArrayLike, y: ArrayLike, temperature: float = 0.1) -> Array:
    """Return the cross entropy of finding each x's own y among all by cosine (van den Oord et al. 2018).

    Add it to that of ``(y, x)`` for the symmetric loss of CLIP.

    Args:
        x: float[batch, features].
        y: float[batch, features], of which row i belongs to row i of x.
        temperature: divides the cosines; positive.

    Returns:
        float[batch].

    Raises:
        ShapeError: the shapes differ, or are no matrices.
        ArgumentError: the temperature is not positive.

    >>> info_nce(afx.eye(2), afx.eye(2), 1.0).round(4)
    Array([0.3133, 0.3133], dtype=float32)
    """
    _check_same("info_nce", x, y)
    check_positive("info_nce", "temperature", temperature, "use 0.1")
    a = aval_of(x)
    if a.ndim != 2:
        raise ShapeError(f"info_nce: x and y are [batch, features]: got {a}; reshape them")
    return softmax_cross_entropy(matmul(_unit(x, -1)[0], _unit(y, -1)[0].T) / temperature, arange(a.shape[0]))


def _check_same(who: str, x: ArrayLike, y: ArrayLike) -> None:
    a, b = aval_of(x, who), aval_of(y, who)
    if a.shape != b.shape or not a.ndim:
        raise ShapeError(f"{who}: takes vectors of one shape: got {a} and {b}; reshape or broadcast one of them")
