"""Losses, one number per example: reduce them with `afx.mean` or `afx.sum`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike, to_numpy_value
from afx.core.aval import aval_of
from afx.core.dtypes import is_inexact, promote
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError, DtypeError, IndexRangeError, ShapeError
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import multiply, subtract
from afx.ops.elementwise.where import clip, where
from afx.ops.indexing.getitem import take_along_axis
from afx.ops.manipulation.shape import astype, expand_dims
from afx.ops.nn import softmax as likelihoods
from afx.ops.nn.softmax import log_softmax
from afx.ops.reductions.sums import sum

__all__ = ["huber", "mse", "sigmoid_binary_cross_entropy", "softmax_cross_entropy"]


def softmax_cross_entropy(logits: ArrayLike, targets: ArrayLike) -> Array:
    """Return ``-log softmax(logits)[target]`` for each example.

    A class of probability 0 adds nothing, even where its logit is -inf.

    Args:
        logits: float[..., classes].
        targets: int[...], the class of each example; or [..., classes] of any dtype, a distribution over them.

    Returns:
        float[...].

    Raises:
        ShapeError: the shapes do not belong together.
        IndexRangeError: a class is not one of 0, 1, …, classes - 1 (a negative one where values are known; under `jit`
            it counts from the end).
        ArgumentError: a distribution with numbers outside of [0, 1], where they are known.

    >>> softmax_cross_entropy(asarray([[0.0, 0.0]]), asarray([1]))
    Array([0.6931472], dtype=float32)
    """
    a, t = aval_of(logits, "softmax_cross_entropy"), aval_of(targets, "softmax_cross_entropy")
    if a.ndim and t.shape == a.shape:
        shares = log_softmax(logits)
        _check_shares(targets, "softmax_cross_entropy")
        weights = _as_numbers(targets, logits)
        return -sum(multiply(weights, where((weights == 0) & (shares == -math.inf), 0, shares)), axis=-1)
    if not a.ndim or t.shape != a.shape[:-1] or t.dtype.kind not in "iu":
        raise ShapeError(
            f"softmax_cross_entropy: targets do not fit: got logits {a} and targets {t}; targets are classes int[...] "
            "or distributions float[..., classes]"
        )
    _check_classes(targets, a.shape[-1])
    return -take_along_axis(log_softmax(logits), expand_dims(targets, -1), axis=-1)[..., 0]


def _check_classes(targets: ArrayLike, count: int) -> None:
    for extreme in _extremes(targets):
        if not 0 <= extreme < count:
            raise IndexRangeError(
                f"softmax_cross_entropy: a target is no class: got {extreme} for {count} classes; leave such examples "
                "out, or give them the weight 0"
            )


ROUNDING = 1e-3  # by which sums of shares in half precision may miss 1


def _check_shares(targets: ArrayLike, who: str) -> None:
    """Raise where targets are no probabilities."""
    aval = aval_of(targets)
    if aval.dtype.kind == "c":
        raise DtypeError(f"{who}: targets are probabilities: got {aval}; take a part first")
    found = _extremes(targets)
    if any(extreme < -ROUNDING or extreme > 1 + ROUNDING for extreme in found):  # nan passes, as it does elsewhere
        raise ArgumentError(
            f"{who}: targets are probabilities, from 0 to 1: got numbers from {found[0]} to {found[-1]}; "
            "labels of -1 and 1 become (labels + 1) / 2"
        )


def _extremes(targets: ArrayLike) -> list[Any]:
    """Return the smallest and the largest target, none where they are not known or there are none."""
    if isinstance(targets, Tracer) or not aval_of(targets).size:
        return []
    value = to_numpy_value(targets, "targets")
    return [np.minimum.reduce(value, None), np.maximum.reduce(value, None)]


def _as_numbers(targets: ArrayLike, beside: ArrayLike) -> Array:
    """Return targets that are integers or booleans in the dtype of what they are compared with."""
    t, a = aval_of(targets), aval_of(beside)
    return asarray(targets) if is_inexact(t.dtype) else astype(targets, promote((a.dtype,), (a.weak,), True))


def sigmoid_binary_cross_entropy(logits: ArrayLike, targets: ArrayLike) -> Array:
    """Return ``log(1 + exp(y)) - t·y`` for each logit y and target t in [0, 1], without overflow or loss of digits.

    Source: the paper's histogram classifier, section 6.

    Args:
        logits: any shape.
        targets: of the same shape, or one number for all; integers and booleans take the logits' dtype.

    Raises:
        ShapeError: the shapes differ (a silent broadcast would compare every pair).
        ArgumentError: targets outside of [0, 1], where they are known.

    >>> sigmoid_binary_cross_entropy(asarray([1000.0]), asarray([1.0]))
    Array([0.], dtype=float32)
    """
    _same("sigmoid_binary_cross_entropy", logits, targets)
    _check_shares(targets, "sigmoid_binary_cross_entropy")
    weak = aval_of(targets).weak
    return likelihoods.sigmoid_binary_cross_entropy(logits, targets if weak else _as_numbers(targets, logits))


def mse(predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Return the squared difference of each element.

    Args:
        predictions: any shape.
        targets: of the same shape, or one number for all; integers and booleans take the predictions' dtype.

    Raises:
        ShapeError: the shapes differ (a silent broadcast would compare every pair).

    >>> mse(asarray([3.0]), asarray([1.0]))
    Array([4.], dtype=float32)
    """
    d = _difference("mse", predictions, targets)
    return d * d


def huber(predictions: ArrayLike, targets: ArrayLike, delta: float = 1.0) -> Array:
    """Return ½d² where the difference d is within ``delta``, and ``delta·(|d| - ½delta)`` beyond (Huber 1964).

    Args:
        predictions: any shape.
        targets: of the same shape, or one number for all.
        delta: positive.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: delta is not positive.

    >>> huber(asarray([3.0]), asarray([1.0]))
    Array([1.5], dtype=float32)
    """
    if isinstance(delta, str) or (not isinstance(delta, Tracer) and not delta > 0):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise ArgumentError(f"huber: delta is positive: got {delta}; use mse for a loss without a bound")
    d = _difference("huber", predictions, targets)
    near = clip(d, -delta, delta)
    return near * (d - 0.5 * near)


def _difference(who: str, predictions: ArrayLike, targets: ArrayLike) -> Array:
    _same(who, predictions, targets)
    return subtract(predictions, targets if aval_of(targets).weak else _as_numbers(targets, predictions))


def _same(who: str, x: ArrayLike, y: ArrayLike) -> None:
    a, b = aval_of(x, who), aval_of(y, who)
    if a.shape != b.shape and b.ndim:
        raise ShapeError(f"{who}: predictions and targets differ in shape: got {a} and {b}; reshape one of them")
