"""Metrics: the quality of predictions in numbers that people know."""

from __future__ import annotations

import math

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of, integer
from afx.core.dtypes import float64, int64, is_inexact
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.nn.losses._targets import as_numbers, check_classes, known
from afx.ops.creation.creation import asarray, zeros
from afx.ops.creation.ranges import arange
from afx.ops.elementwise.comparison import isnan
from afx.ops.elementwise.where import where
from afx.ops.indexing.getitem import take_along_axis
from afx.ops.manipulation.shape import astype, expand_dims, reshape
from afx.ops.reductions.boolean import any as any_
from afx.ops.reductions.sums import mean, sum
from afx.ops.sorting.sort import argmax, searchsorted, sort

__all__ = ["accuracy", "confusion_matrix", "r2_score", "roc_auc", "top_k_accuracy"]


def _predict_classes(who: str, predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Return predicted classes: as they are given, or those with the largest score."""
    a, t = aval_of(predictions, who), aval_of(targets, who)
    if t.dtype.kind not in "iub":
        raise DtypeError(f"{who}: targets are classes: got {t}; use astype(int)")
    if a.ndim == t.ndim + 1 and a.shape[:-1] == t.shape and a.shape[-1]:
        check_classes(targets, a.shape[-1], who)
        return argmax(predictions, axis=-1)
    if a.shape == t.shape and a.dtype.kind in "iub":
        return asarray(predictions)
    raise ShapeError(
        f"{who}: predictions do not fit the targets: got {a} and {t}; give scores [..., classes] or classes int[...]"
    )


def accuracy(predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Return the share of examples whose class is right; nan of none.

    Args:
        predictions: float[..., classes], scores of which the largest counts; or int[...], classes.
        targets: int[...], classes.

    Raises:
        ShapeError: the shapes do not belong together.
        DtypeError: targets are no classes.

    >>> accuracy(afx.asarray([[0.1, 0.9], [0.8, 0.2]]), afx.asarray([1, 1]))
    Array(0.5, dtype=float32)
    """
    return _share(_predict_classes("accuracy", predictions, targets) == targets)


def _share(is_right: Array) -> Array:
    """Return the mean of booleans, in the default dtype."""
    return mean(astype(is_right, zeros(()).dtype))


def top_k_accuracy(scores: ArrayLike, targets: ArrayLike, k: int) -> Array:
    """Return the share of examples whose class is among the ``k`` with the largest scores.

    Of equal scores those of lower classes are larger. A nan is no score: such an example is wrong.

    Args:
        scores: float[..., classes].
        targets: int[...], classes.
        k: 1 or more.

    Raises:
        ShapeError: the shapes do not belong together.
        ArgumentError: k is not from 1 to the number of classes.

    >>> top_k_accuracy(afx.asarray([[0.1, 0.5, 0.4], [0.5, 0.4, 0.1]]), afx.asarray([2, 2]), 2)
    Array(0.5, dtype=float32)
    """
    a, t = aval_of(scores, "top_k_accuracy"), aval_of(targets, "top_k_accuracy")
    if not a.ndim or a.shape[:-1] != t.shape or t.dtype.kind not in "iu":
        raise ShapeError(f"top_k_accuracy: scores are [..., classes] and targets int[...]: got {a} and {t}; reshape")
    if not 1 <= integer(k, "top_k_accuracy", "k") <= a.shape[-1]:
        raise ArgumentError(
            f"top_k_accuracy: k is from 1 to the number of classes: got {k} of {a.shape[-1]}; choose one"
        )
    check_classes(targets, a.shape[-1], "top_k_accuracy")
    index = expand_dims(asarray(targets), -1)
    x, own = asarray(scores), take_along_axis(scores, index, axis=-1)
    before = (x > own) | ((x == own) & (arange(a.shape[-1]) < index))
    return _share((sum(before, axis=-1) < k) & ~isnan(own)[..., 0])


def confusion_matrix(predictions: ArrayLike, targets: ArrayLike, classes: int | None = None) -> Array:
    """Return how many examples of each class (rows) were taken for each class (columns).

    Args:
        predictions: float[..., classes], scores of which the largest counts; or int[...], classes.
        targets: int[...], classes.
        classes: their number; needed where the predictions are classes.

    Returns:
        int64[classes, classes].

    Raises:
        ShapeError: the shapes do not belong together.
        ArgumentError: the number of classes is unknown.
        IndexRangeError: a target or prediction is no class, where they are known.

    >>> confusion_matrix(afx.asarray([0, 1, 1]), afx.asarray([0, 0, 1]), classes=2)
    Array([[1, 1],
           [0, 1]], dtype=int64)
    """
    found = _predict_classes("confusion_matrix", predictions, targets)
    a, t = aval_of(predictions), aval_of(targets)
    if classes is None:
        if a.ndim == t.ndim:
            raise ArgumentError(f"confusion_matrix: predictions are classes of unknown number: got {a}; give classes=")
        classes = a.shape[-1]
    for x in (found, targets):
        check_classes(x, classes, "confusion_matrix")
    rows, columns = (astype(reshape(x, -1), int64) for x in (targets, found))
    return zeros((classes, classes), int64).at[rows, columns].add(1)


def roc_auc(scores: ArrayLike, targets: ArrayLike) -> Array:
    """Return the area under the receiver operating characteristic: how often a 1 has a larger score than a 0.

    Pairs with equal scores count half (the Mann-Whitney statistic; Hanley & McNeil 1982). A score of nan gives nan.

    Args:
        scores: float[examples].
        targets: int[examples] or bool[examples]: 0 and 1.

    Raises:
        ShapeError: the shapes differ, or are no vectors.
        ArgumentError: other targets, or examples of one class alone, where they are known.

    >>> roc_auc(afx.asarray([0.1, 0.4, 0.35, 0.8]), afx.asarray([0, 0, 1, 1]))
    Array(0.75, dtype=float32)
    """
    a, t = aval_of(scores, "roc_auc"), aval_of(targets, "roc_auc")
    if a.ndim != 1 or a.shape != t.shape:
        raise ShapeError(f"roc_auc: scores and targets are vectors of one length: got {a} and {t}; reshape them")
    value = known(targets)
    if value is not None and set(np.unique(value).tolist()) != {0, 1}:
        raise ArgumentError("roc_auc: targets are 0 and 1, with examples of both: got others; compare with the class")
    x, is_one = asarray(scores), asarray(targets) == 1
    order = sort(x)
    twice_ranks = searchsorted(order, x, side="left") + searchsorted(order, x, side="right") + 1
    ones = sum(astype(is_one, int64))
    pairs = ones * (a.size - ones)
    wins = sum(where(is_one, twice_ranks, 0)) - ones * (ones + 1)
    if not is_inexact(a.dtype):
        return wins / (2 * pairs)
    area = astype(astype(wins, float64) / astype(2 * pairs, float64), a.dtype)  # counts that float32 does not hold
    return where(any_(isnan(x)), math.nan, area)


def r2_score(predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Return R², the share of the targets' variance that predictions explain: 1 is perfect, 0 what the mean does.

    The order of arguments is that of the losses (scikit-learn's is the other one). Where targets are constant it is 1 if
    predictions are right and 0 if not, as in scikit-learn.

    Args:
        predictions: float[examples] or float[examples, outputs].
        targets: of the same shape; of several outputs the mean is taken.

    Raises:
        ShapeError: the shapes differ, or there are no examples.

    >>> r2_score(afx.asarray([1.0, 2.0, 4.0]), afx.asarray([1.0, 2.0, 3.0]))
    Array(0.5, dtype=float32)
    """
    a, t = aval_of(predictions, "r2_score"), aval_of(targets, "r2_score")
    if a.shape != t.shape or a.ndim not in (1, 2) or not a.size:
        raise ShapeError(
            f"r2_score: takes [examples] or [examples, outputs] twice: got {a} and {t}; reshape one of them"
        )
    y = as_numbers(targets, predictions)
    rest = sum((y - predictions) ** 2, axis=0)
    total = sum((y - mean(y, axis=0)) ** 2, axis=0)
    is_constant = total == 0
    found = 1 - rest / where(is_constant, 1, total)
    return mean(where(is_constant, where(rest == 0, 1.0, 0.0), found))
