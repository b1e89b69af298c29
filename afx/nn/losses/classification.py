"""Classification and likelihood losses: scores beside classes, and parameters of distributions, with checked targets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, Tracer, aval_of, common_dtype, is_inexact, to_numpy_value
from afx.errors import ArgumentError, DtypeError, IndexRangeError, ShapeError
from afx.ops import asarray, gammaln, max, maximum, mean, multiply, stop_gradient, subtract, sum, take_along_axis, where
from afx.ops._basic import in_floats
from afx.ops.elementwise.exponentials import exp, log, log_sigmoid, sigmoid
from afx.ops.manipulation.shape import astype, expand_dims
from afx.ops.nn import activations as likelihoods
from afx.ops.nn.activations import log_softmax, relu
from afx.ops.reductions.cumulative import subtract_top

__all__ = [
    "dice",
    "focal",
    "gaussian_nll",
    "hinge",
    "kl_divergence",
    "margin_ranking",
    "poisson_nll",
    "sigmoid_binary_cross_entropy",
    "softmax_cross_entropy",
]

# --- Target checks: shapes, dtypes and ranges of targets beside predictions, where values are known

ROUNDING = 1e-3  # by which sums of shares in half precision may miss 1


def known(targets: ArrayLike) -> Any:
    """Return the values of targets as NumPy's, None where they are not known or there are none."""
    if isinstance(targets, Tracer) or not aval_of(targets).size:
        return None
    return to_numpy_value(targets, "targets")


def _extremes(targets: ArrayLike) -> list[Any]:
    """Return the smallest and the largest target, none where they are not known or there are none."""
    value = known(targets)
    return [] if value is None else [np.minimum.reduce(value, None), np.maximum.reduce(value, None)]


def check_classes(targets: ArrayLike, count: int, who: str) -> None:
    """Raise where targets are no classes."""
    for extreme in _extremes(targets):
        if not 0 <= extreme < count:
            raise IndexRangeError(
                f"{who}: a target is no class: got {extreme} for {count} classes; leave such examples "
                "out, or give them the weight 0"
            )


def check_shares(targets: ArrayLike, who: str) -> None:
    """Raise where targets are no probabilities."""
    aval = aval_of(targets)
    if aval.dtype.kind == "c":
        raise DtypeError(f"{who}: targets are probabilities: got {aval}; take a part first")
    extremes = _extremes(targets)
    if any(extreme < -ROUNDING or extreme > 1 + ROUNDING for extreme in extremes):  # nan passes, as it does elsewhere
        raise ArgumentError(
            f"{who}: targets are probabilities, from 0 to 1: got numbers from {extremes[0]} to {extremes[-1]}; "
            "labels of -1 and 1 become (labels + 1) / 2"
        )


def as_numbers(targets: ArrayLike, beside: ArrayLike) -> Array:
    """Return targets that are integers or booleans in the dtype of what they are compared with."""
    t, a = aval_of(targets), aval_of(beside)
    return asarray(targets) if is_inexact(t.dtype) else astype(targets, common_dtype((a,), True))


def check_same_shape(who: str, x: ArrayLike, y: ArrayLike, names: str = "predictions and targets") -> None:
    """Raise where shapes differ; one number for all is fine."""
    a, b = aval_of(x, who), aval_of(y, who)
    if a.shape != b.shape and b.ndim:
        raise ShapeError(f"{who}: {names} differ in shape: got {a} and {b}; reshape one of them")


def difference(who: str, predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Return predictions less targets, in the predictions' dtype."""
    check_same_shape(who, predictions, targets)
    return subtract(predictions, targets if aval_of(targets).weak else as_numbers(targets, predictions))


def check_positive(who: str, name: str, value: Any, advice: str) -> None:
    """Raise where a parameter is no positive number, as far as it is known."""
    if isinstance(value, str) or (not isinstance(value, Tracer) and not value > 0):
        raise ArgumentError(f"{who}: {name} is positive: got {value}; {advice}")


# --- Classification losses: scores (logits) beside classes, shares or signs


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
    is_counted = None if mask is None else _checked_mask(mask, a.shape[:-1], who)
    if a.ndim and t.shape == a.shape:
        check_shares(targets, who)
        weights = as_numbers(targets, logits)
        loss = -sum(likelihoods.multiply_logarithms(weights, log_softmax(logits)), axis=-1)
    elif a.ndim and t.shape == a.shape[:-1] and t.dtype.kind in "iu":
        targets = targets if is_counted is None else where(is_counted, targets, 0)
        check_classes(targets, a.shape[-1], who)
        loss = _beside_classes(logits, targets)
    else:
        raise ShapeError(
            f"{who}: targets do not fit: got logits {a} and targets {t}; targets are classes int[...] "
            "or distributions float[..., classes]"
        )
    if isinstance(smoothing, Tracer) or smoothing:
        loss = (1 - smoothing) * loss - smoothing * mean(log_softmax(logits), axis=-1)
    return loss if is_counted is None else where(is_counted, loss, 0)


def _beside_classes(logits: ArrayLike, classes: ArrayLike) -> Array:
    """Return ``-log softmax(logits)[class]``, of which the exponentials are all that every logit costs."""
    x = in_floats(logits, "softmax_cross_entropy")
    if x.dtype.kind != "f":
        raise DtypeError(f"softmax_cross_entropy: logits are real: got {aval_of(logits)}; take the abs or a part")
    top = max(stop_gradient(x), axis=-1, keepdims=True)
    total = log(sum(exp(subtract_top(x, top)), axis=-1))
    chosen = take_along_axis(x, expand_dims(classes, -1), axis=-1)
    return total - subtract_top(chosen, where(top == -math.inf, 0, top))[..., 0]


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
    scaled = exp(gamma * wrong) * loss
    return scaled if alpha is None else (alpha * t + (1 - alpha) * (1 - t)) * scaled


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


# --- Likelihood losses: what is predicted are the parameters of a distribution, or two scores in an order


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
