"""Metrics of classes and probabilities: precision, recall, their mean, log loss, calibration."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.array_api import finfo
from afx.core.aval import aval_of, integer
from afx.core.dtypes import float64, int64
from afx.errors import ArgumentError, ShapeError
from afx.nn.losses._targets import check_classes, check_shares
from afx.nn.metrics import confusion_matrix
from afx.ops.creation.creation import asarray, ones, zeros
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.exponential import log
from afx.ops.elementwise.where import clip, maximum, where
from afx.ops.indexing.getitem import take_along_axis
from afx.ops.indexing.segments import segment_sum
from afx.ops.manipulation.diagonals import diagonal
from afx.ops.manipulation.shape import astype, expand_dims
from afx.ops.reductions.sums import mean, sum
from afx.ops.sorting.sort import searchsorted

__all__ = ["Calibration", "calibration", "calibration_error", "f1_score", "log_loss", "precision", "recall"]

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
        found = values[1]
    elif average == "weighted":
        found = _ratio(sum(values * wanted), sum(wanted))
    else:
        found = values if average is None else mean(values)
    return astype(found, zeros(()).dtype)


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
