"""Likelihood losses: what is predicted are the parameters of a distribution, or two scores in an order."""

from __future__ import annotations

import math

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError, ShapeError
from afx.nn.losses._targets import as_numbers, check_positive, check_same_shape, check_shares, difference, known
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.exponential import exp, log, sigmoid
from afx.ops.elementwise.where import maximum
from afx.ops.nn.activations import relu
from afx.ops.reductions.sums import sum
from afx.ops.special.gamma import gammaln

__all__ = ["dice", "gaussian_nll", "margin_ranking", "poisson_nll"]


def gaussian_nll(
    predictions: ArrayLike, targets: ArrayLike, variance: ArrayLike, *, eps: float = 1e-6, full: bool = False
) -> Array:
    """Return ``½ (log variance + (prediction - target)² / variance)``, minus the logarithm of a normal density.

    Source: Nix & Weigend 1994.

    Args:
        predictions: any shape, the means.
        targets: of the same shape.
        variance: of the same shape, or one number for all.
        eps: the least variance that counts, below which it has no derivative.
        full: with the constant ``½ log 2π``.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: a negative variance, where it is known, or an eps that is not positive.

    >>> gaussian_nll(afx.asarray([3.0]), afx.asarray([1.0]), afx.asarray([4.0])).round(4)
    Array([1.1931], dtype=float32)
    """
    check_positive("gaussian_nll", "eps", eps, "use 1e-6")
    check_same_shape("gaussian_nll", predictions, variance, "predictions and variances")
    value = known(variance)
    if value is not None and (value < 0).any():
        raise ArgumentError(
            f"gaussian_nll: variances are 0 or more: got {value.min()}; predict their logarithm, and exp it"
        )
    spread = maximum(variance, eps)
    loss = 0.5 * (log(spread) + difference("gaussian_nll", predictions, targets) ** 2 / spread)
    return loss + 0.5 * math.log(2 * math.pi) if full else loss


def poisson_nll(predictions: ArrayLike, targets: ArrayLike, *, log_input: bool = True, full: bool = False) -> Array:
    """Return ``exp(y) - target · y``, minus the logarithm of a Poisson probability, for the logarithm y of a rate.

    Args:
        predictions: any shape, logarithms of rates.
        targets: of the same shape, or one number for all: counts.
        log_input: False for predictions that are rates, above 0.
        full: with the constant ``log target!`` (PyTorch takes Stirling's approximation of it).

    Raises:
        ShapeError: the shapes differ.

    >>> poisson_nll(afx.asarray([0.0, 1.0]), afx.asarray([2, 2])).round(4)
    Array([1.    , 0.7183], dtype=float32)
    """
    check_same_shape("poisson_nll", predictions, targets)
    y, t = asarray(predictions), as_numbers(targets, predictions)
    loss = exp(y) - t * y if log_input else y - t * log(y)
    return loss + gammaln(t + 1) if full else loss


def dice(
    logits: ArrayLike, targets: ArrayLike, *, axis: int | tuple[int, ...] | None = None, smooth: float = 1.0
) -> Array:
    """Return 1 less the overlap ``(2 Σ p t + smooth) / (Σ p + Σ t + smooth)`` of shares p = sigmoid(logits) and targets t.

    Source: Milletari et al. 2016, equation 2, without their squares.

    Args:
        logits: float[batch, ...].
        targets: of the same shape, in [0, 1].
        axis: what is summed over; all axes but the first without it.
        smooth: 0 or more; keeps what is empty on both sides at 0.

    Returns:
        float[batch], or the axes that are left.

    Raises:
        ShapeError: the shapes differ, or there is no axis to sum over.
        ArgumentError: targets outside of [0, 1], where they are known, or a negative smooth.

    >>> dice(afx.asarray([[99.0, -99.0]]), afx.asarray([[1, 1]]), smooth=0.0).round(4)
    Array([0.3333], dtype=float32)
    """
    check_same_shape("dice", logits, targets)
    check_shares(targets, "dice")
    a = aval_of(logits)
    if not isinstance(smooth, Tracer) and not smooth >= 0:
        raise ArgumentError(f"dice: smooth is 0 or more: got {smooth}; use 1")
    if axis is None and a.ndim < 2:
        raise ShapeError(f"dice: logits are [batch, ...]: got {a}; give axis=")
    axes = tuple(range(1, a.ndim)) if axis is None else axis
    p, t = sigmoid(logits), as_numbers(targets, logits)
    return 1 - (2 * sum(p * t, axis=axes) + smooth) / (sum(p, axis=axes) + sum(t + 0 * p, axis=axes) + smooth)


def margin_ranking(x: ArrayLike, y: ArrayLike, targets: ArrayLike, margin: float = 0.0) -> Array:
    """Return ``max(0, margin - target · (x - y))``: x should be larger where the target is 1, y where it is -1.

    Args:
        x: any shape, scores.
        y: of the same shape.
        targets: of the same shape, or one number for all: 1 or -1.
        margin: by how much, 0 or more.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: targets other than -1 and 1, where they are known.

    >>> margin_ranking(afx.asarray([1.0, 1.0]), afx.asarray([3.0, 0.5]), afx.asarray([1, 1]))
    Array([2., 0.], dtype=float32)
    """
    check_same_shape("margin_ranking", x, targets, "scores and targets")
    gap = difference("margin_ranking", x, y)
    value = known(targets)
    if value is not None and not (abs(value) == 1).all():
        raise ArgumentError(
            "margin_ranking: targets are -1 and 1: got other numbers; labels of 0 and 1 become 2 * labels - 1"
        )
    return relu(margin - as_numbers(targets, gap) * gap)
