"""Classification losses: scores (logits) beside classes, shares or signs."""

from __future__ import annotations

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.nn.losses._targets import as_numbers, check_classes, check_positive, check_same_shape, check_shares, known
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import multiply
from afx.ops.elementwise.exponential import exp, log, log_sigmoid, sigmoid
from afx.ops.elementwise.where import where
from afx.ops.indexing.getitem import take_along_axis
from afx.ops.manipulation.shape import expand_dims
from afx.ops.nn import softmax as likelihoods
from afx.ops.nn.activations import relu
from afx.ops.nn.softmax import log_softmax
from afx.ops.reductions.sums import mean, sum

__all__ = ["focal", "hinge", "kl_divergence", "sigmoid_binary_cross_entropy", "softmax_cross_entropy"]


def softmax_cross_entropy(
    logits: ArrayLike, targets: ArrayLike, *, smoothing: float = 0.0, mask: ArrayLike | None = None
) -> Array:
    """Return ``-log softmax(logits)[target]`` for each example.

    A class of probability 0 adds nothing, even where its logit is -inf.

    Args:
        logits: float[..., classes].
        targets: int[...], the class of each example; or [..., classes] of any dtype, a distribution over them.
        smoothing: the share of each target that is spread evenly over all classes (Szegedy et al. 2016, section 7).
        mask: bool[...], False for examples whose loss is 0 whatever their target is (padding); the mean over the others
            is ``afx.sum(loss) / afx.sum(mask)``.

    Returns:
        float[...].

    Raises:
        ShapeError: the shapes do not belong together.
        IndexRangeError: a class is not one of 0, 1, …, classes - 1 (a negative one where values are known; under `jit`
            it counts from the end).
        ArgumentError: a distribution with numbers outside of [0, 1], where they are known, or a smoothing outside.

    >>> softmax_cross_entropy(afx.asarray([[0.0, 0.0]]), afx.asarray([1]))
    Array([0.6931472], dtype=float32)
    """
    who = "softmax_cross_entropy"
    a, t = aval_of(logits, who), aval_of(targets, who)
    if not isinstance(smoothing, Tracer) and not 0 <= smoothing <= 1:
        raise ArgumentError(f"{who}: smoothing is a share from 0 to 1: got {smoothing}; give such")
    kept = None if mask is None else _checked_mask(mask, a.shape[:-1], who)
    shares = log_softmax(logits)
    if a.ndim and t.shape == a.shape:
        check_shares(targets, who)
        weights = as_numbers(targets, logits)
        loss = -sum(likelihoods.multiply_logarithms(weights, shares), axis=-1)
    elif a.ndim and t.shape == a.shape[:-1] and t.dtype.kind in "iu":
        targets = targets if kept is None else where(kept, targets, 0)
        check_classes(targets, a.shape[-1], who)
        loss = -take_along_axis(shares, expand_dims(targets, -1), axis=-1)[..., 0]
    else:
        raise ShapeError(
            f"{who}: targets do not fit: got logits {a} and targets {t}; targets are classes int[...] "
            "or distributions float[..., classes]"
        )
    if isinstance(smoothing, Tracer) or smoothing:
        loss = (1 - smoothing) * loss - smoothing * mean(shares, axis=-1)
    return loss if kept is None else where(kept, loss, 0)


def _checked_mask(mask: ArrayLike, shape: tuple[int, ...], who: str) -> Array:
    m = asarray(mask)
    if m.dtype.kind != "b":
        raise DtypeError(f"{who}: a mask is True where an example counts: got {m.aval}; use astype(bool)")
    if m.shape != shape:
        raise ShapeError(f"{who}: the mask has a value for each example: got {m.aval} for {shape}; reshape it")
    return m


def sigmoid_binary_cross_entropy(logits: ArrayLike, targets: ArrayLike) -> Array:
    """Return ``log(1 + exp(y)) - t·y`` for each logit y and target t in [0, 1], without overflow or loss of digits.

    Source: the paper's histogram classifier, section 6.

    Args:
        logits: any shape.
        targets: of the same shape, or one number for all; integers and booleans take the logits' dtype.

    Raises:
        ShapeError: the shapes differ (a silent broadcast would compare every pair).
        ArgumentError: targets outside of [0, 1], where they are known.

    >>> sigmoid_binary_cross_entropy(afx.asarray([1000.0]), afx.asarray([1.0]))
    Array([0.], dtype=float32)
    """
    check_same_shape("sigmoid_binary_cross_entropy", logits, targets)
    check_shares(targets, "sigmoid_binary_cross_entropy")
    weak = aval_of(targets).weak
    return likelihoods.sigmoid_binary_cross_entropy(logits, targets if weak else as_numbers(targets, logits))


def focal(logits: ArrayLike, targets: ArrayLike, gamma: float = 2.0, *, alpha: float | None = None) -> Array:
    """Return the binary cross entropy times ``(1 - p)^gamma``, p the share of the right answer (Lin et al. 2017).

    Args:
        logits: any shape.
        targets: of the same shape, or one number for all, in [0, 1].
        gamma: how much less well classified examples count; 0 gives the cross entropy.
        alpha: the weight of the class 1, beside ``1 - alpha`` of the class 0; without it both weigh 1.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: targets outside of [0, 1], where they are known, or a negative gamma.

    >>> focal(afx.asarray([0.0]), afx.asarray([1])).round(4)
    Array([0.1733], dtype=float32)
    """
    check_same_shape("focal", logits, targets)
    check_shares(targets, "focal")
    if not isinstance(gamma, Tracer) and not gamma >= 0:
        raise ArgumentError(f"focal: gamma is 0 or more: got {gamma}; the paper's is 2")
    y, t = asarray(logits), as_numbers(targets, logits)
    loss = likelihoods.sigmoid_binary_cross_entropy(y, t)
    # the logarithm of 1 - p: neither a power of 0 nor a share rounded to 0 comes into it
    is_mixed = (t > 0) & (t < 1)
    mixed = log(where(is_mixed, t * sigmoid(-y) + (1 - t) * sigmoid(y), 0.5))
    wrong = where(is_mixed, mixed, where(t > 0.5, log_sigmoid(-y), log_sigmoid(y)))
    found = exp(gamma * wrong) * loss
    return found if alpha is None else (alpha * t + (1 - alpha) * (1 - t)) * found


def hinge(scores: ArrayLike, targets: ArrayLike, margin: float = 1.0) -> Array:
    """Return ``max(0, margin - target·score)`` for targets of -1 and 1; the derivative on the margin is 0.

    Args:
        scores: any shape.
        targets: of the same shape, or one number for all: -1 or 1.
        margin: positive.

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: targets other than -1 and 1, where they are known, or a margin that is not positive.

    >>> hinge(afx.asarray([0.5, 2.0]), afx.asarray([1, 1]))
    Array([0.5, 0. ], dtype=float32)
    """
    check_same_shape("hinge", scores, targets)
    check_positive("hinge", "margin", margin, "use 1")
    value = known(targets)
    if value is not None and not np.all(np.abs(np.asarray(value, float)) == 1):
        raise ArgumentError("hinge: targets are -1 and 1: got other numbers; labels of 0 and 1 become 2 * labels - 1")
    return relu(margin - multiply(as_numbers(targets, scores), scores))


def kl_divergence(logits: ArrayLike, targets: ArrayLike) -> Array:
    """Return ``sum(t · (log t - log softmax(logits)))``: how far the targets' distribution is from the predicted one.

    A class with the target 0 adds nothing; one with a target, whose logit is -inf, makes it inf.

    Args:
        logits: float[..., classes]; logarithms of probabilities are logits too.
        targets: float[..., classes], distributions.

    Returns:
        float[...].

    Raises:
        ShapeError: the shapes differ.
        ArgumentError: targets outside of [0, 1], where they are known.

    >>> kl_divergence(afx.asarray([0.0, 0.0]), afx.asarray([0.5, 0.5]))
    Array(0., dtype=float32)
    """
    a, t = aval_of(logits, "kl_divergence"), aval_of(targets, "kl_divergence")
    if not a.ndim or a.shape != t.shape:
        raise ShapeError(
            f"kl_divergence: logits and targets differ in shape: got {a} and {t}; give [..., classes] twice"
        )
    check_shares(targets, "kl_divergence")
    weights = as_numbers(targets, logits)
    is_there = weights > 0
    gap = log(where(is_there, weights, 1)) - where(is_there, log_softmax(logits), 0)
    return sum(weights * gap, axis=-1)
