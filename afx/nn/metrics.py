"""Metrics: the quality of predictions in numbers that people know, of classes and probabilities too."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from afx.core import Array, ArrayLike, aval_of, float64, int64, integer, is_inexact
from afx.core.array_api import finfo
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.nn.losses.classification import as_numbers, check_classes, check_shares, known
from afx.ops import abs as abs_, arange, asarray, diagonal, log, ones, segment_sum, take_along_axis, zeros
from afx.ops.elementwise.comparison import clip, isnan, maximum, where
from afx.ops.manipulation.shape import astype, expand_dims, reshape
from afx.ops.reductions.sums import any as any_, mean, sum
from afx.ops.sorting.sort import argmax, searchsorted, sort

__all__ = [
    "Calibration",
    "accuracy",
    "calibration",
    "calibration_error",
    "confusion_matrix",
    "f1_score",
    "log_loss",
    "precision",
    "r2_score",
    "recall",
    "roc_auc",
    "top_k_accuracy",
]

# --- Metrics


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
    predicted = _predict_classes("confusion_matrix", predictions, targets)
    a, t = aval_of(predictions), aval_of(targets)
    if classes is None:
        if a.ndim == t.ndim:
            raise ArgumentError(f"confusion_matrix: predictions are classes of unknown number: got {a}; give classes=")
        classes = a.shape[-1]
    for x in (predicted, targets):
        check_classes(x, classes, "confusion_matrix")
    rows, columns = (astype(reshape(x, -1), int64) for x in (targets, predicted))
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
    share = 1 - rest / where(is_constant, 1, total)
    return mean(where(is_constant, where(rest == 0, 1.0, 0.0), share))


# --- Metrics of classes and probabilities: precision, recall, their mean, log loss, calibration

Average: TypeAlias = Literal["binary", "macro", "micro", "weighted"]


def _counts(
    who: str, predictions: ArrayLike, targets: ArrayLike, classes: int | None, average: Average | None
) -> tuple[Array, Array, Array]:
    """Return of each class how many were right, how often it was predicted, and how often it was the target."""
    if average not in (None, "binary", "macro", "micro", "weighted"):
        raise ArgumentError(f"{who}: average is binary, macro, micro, weighted or None: got {average!r}; choose one")
    if classes is None and average == "binary":
        classes = 2
    table = confusion_matrix(predictions, targets, classes)
    if average == "binary" and table.shape != (2, 2):
        raise ArgumentError(
            f'{who}: of more than two classes an average is taken: got {table.shape[0]}; give average="macro"'
        )
    right, predicted, wanted = (astype(x, float64) for x in (diagonal(table), sum(table, axis=0), sum(table, axis=1)))
    if average == "micro":
        return sum(right, keepdims=True), sum(predicted, keepdims=True), sum(wanted, keepdims=True)
    return right, predicted, wanted


def _ratio(part: Array, whole: Array) -> Array:
    """Return a share, 0 of nothing."""
    return where(whole > 0, part / maximum(whole, 1), 0.0)


def _average_classes(values: Array, wanted: Array, average: Average | None) -> Array:
    """Return the value of class 1, a mean over classes, or all values, in the default dtype."""
    if average == "binary":
        value = values[1]
    elif average == "weighted":
        value = _ratio(sum(values * wanted), sum(wanted))
    else:
        value = values if average is None else mean(values)
    return astype(value, zeros(()).dtype)


def precision(
    predictions: ArrayLike, targets: ArrayLike, classes: int | None = None, *, average: Average | None = "binary"
) -> Array:
    """Return which share of the examples taken for a class belong to it; 0 of none (van Rijsbergen 1979).

    Args:
        predictions: float[..., classes], scores of which the largest counts; or int[...], classes.
        targets: int[...], classes.
        classes: their number; needed where the predictions are classes of more than two.
        average: "binary" of two classes that of class 1, "macro" the mean over classes, "weighted" that by how often
            each is a target, "micro" all examples together; None for float[classes].

    Raises:
        ShapeError: the shapes do not belong together.
        ArgumentError: the number of classes is unknown, or is not two where it should be.
        IndexRangeError: a target or prediction is no class, where they are known.

    >>> precision(afx.asarray([0, 1, 1]), afx.asarray([0, 0, 1]))
    Array(0.5, dtype=float32)
    """
    right, predicted, wanted = _counts("precision", predictions, targets, classes, average)
    return _average_classes(_ratio(right, predicted), wanted, average)


def recall(
    predictions: ArrayLike, targets: ArrayLike, classes: int | None = None, *, average: Average | None = "binary"
) -> Array:
    """Return which share of the examples of a class were found; 0 of none. Arguments and errors are `precision`'s.

    >>> recall(afx.asarray([0, 1, 1]), afx.asarray([0, 0, 1]))
    Array(1., dtype=float32)
    """
    right, _, wanted = _counts("recall", predictions, targets, classes, average)
    return _average_classes(_ratio(right, wanted), wanted, average)


def f1_score(
    predictions: ArrayLike, targets: ArrayLike, classes: int | None = None, *, average: Average | None = "binary"
) -> Array:
    """Return the harmonic mean of `precision` and `recall`; 0 where both are. Arguments and errors are `precision`'s.

    >>> f1_score(afx.asarray([0, 1, 1]), afx.asarray([0, 0, 1])).round(4)
    Array(0.6667, dtype=float32)
    """
    right, predicted, wanted = _counts("f1_score", predictions, targets, classes, average)
    return _average_classes(_ratio(2 * right, predicted + wanted), wanted, average)


def log_loss(probabilities: ArrayLike, targets: ArrayLike) -> Array:
    """Return the mean of ``-log p`` of what was right; a probability of 0 counts as the dtype's eps.

    Args:
        probabilities: float[..., classes]; or float[...], those of class 1.
        targets: int[...], classes.

    Raises:
        ShapeError: the shapes do not belong together.
        ArgumentError: probabilities outside of [0, 1], where they are known.
        IndexRangeError: a target is no class, where they are known.

    >>> log_loss(afx.asarray([0.5, 0.25]), afx.asarray([1, 0])).round(4)
    Array(0.4904, dtype=float32)
    """
    a, t = aval_of(probabilities, "log_loss"), aval_of(targets, "log_loss")
    check_shares(probabilities, "log_loss")
    p = asarray(probabilities) * 1.0
    if a.shape == t.shape:
        check_classes(targets, 2, "log_loss")
        own = where(asarray(targets) == 1, p, 1 - p)
    elif a.ndim and a.shape[:-1] == t.shape:
        check_classes(targets, a.shape[-1], "log_loss")
        own = take_along_axis(p, expand_dims(asarray(targets), -1), axis=-1)
    else:
        raise ShapeError(f"log_loss: takes [..., classes] or [...] and int[...]: got {a} and {t}; reshape one of them")
    eps = float(finfo(own.dtype).eps)
    return -mean(log(clip(own, eps, 1.0)))


class Calibration(NamedTuple):
    """How often what was given a probability happened; of a bin without examples both are nan.

    Attributes:
        predicted: float[bins], the mean probability of each bin.
        observed: float[bins], the share of examples of class 1.
        counts: int[bins], how many examples there are.
    """

    predicted: Array
    observed: Array
    counts: Array


def calibration(probabilities: ArrayLike, targets: ArrayLike, bins: int = 10) -> Calibration:
    """Return the reliability diagram of probabilities: what was predicted and what happened, in bins of equal width.

    Source: DeGroot & Fienberg 1983; scikit-learn's ``calibration_curve`` leaves empty bins out.

    Args:
        probabilities: float[examples], of class 1.
        targets: int[examples] or bool[examples]: 0 and 1.
        bins: how many.

    Raises:
        ShapeError: the shapes differ, or are no vectors.
        ArgumentError: a probability outside of [0, 1], where they are known, or no bins.
        IndexRangeError: other targets, where they are known.

    >>> calibration(afx.asarray([0.1, 0.2, 0.9]), afx.asarray([0, 1, 1]), 2).observed
    Array([0.5, 1. ], dtype=float32)
    """
    a, t = aval_of(probabilities, "calibration"), aval_of(targets, "calibration")
    if a.ndim != 1 or a.shape != t.shape:
        raise ShapeError(
            f"calibration: probabilities and targets are vectors of one length: got {a} and {t}; reshape them"
        )
    if integer(bins, "calibration", "bins") < 1:
        raise ArgumentError(f"calibration: bins is a number of bins: got {bins}; give 1 or more")
    check_shares(probabilities, "calibration")
    check_classes(targets, 2, "calibration")
    p = asarray(probabilities) * 1.0
    place = searchsorted(astype(asarray(np.linspace(0, 1, bins + 1)[1:-1]), p.dtype), p)
    count = segment_sum(ones(place.shape, int64), place, bins)
    total, share = astype(maximum(count, 1), p.dtype), astype(asarray(targets), p.dtype)
    means = [where(count > 0, segment_sum(x, place, bins) / total, math.nan) for x in (p, share)]
    return Calibration(means[0], means[1], count)


def calibration_error(probabilities: ArrayLike, targets: ArrayLike, bins: int = 10) -> Array:
    """Return the expected calibration error: the mean gap of `calibration` over all examples (Naeini et al. 2015).

    Arguments and errors are those of `calibration`.

    >>> calibration_error(afx.asarray([0.1, 0.2, 0.9]), afx.asarray([0, 1, 1]), 2).round(4)
    Array(0.2667, dtype=float32)
    """
    predicted, observed, counts = calibration(probabilities, targets, bins)
    gap = where(counts > 0, abs_(where(counts > 0, predicted - observed, 0.0)), 0.0)
    return sum(gap * astype(counts, gap.dtype)) / maximum(astype(sum(counts), gap.dtype), 1)
