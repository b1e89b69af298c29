"""Regression losses: differences between predictions and targets."""

from __future__ import annotations

import math

from afx.core.array.array import Array, ArrayLike
from afx.nn.losses._targets import check_positive, difference
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.exponential import exp, log1p
from afx.ops.elementwise.trigonometry import sinh
from afx.ops.elementwise.where import clip, where

__all__ = ["huber", "log_cosh", "mae", "mse"]


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
