"""Losses, one number per example: reduce them with `afx.mean` or `afx.sum`."""

from __future__ import annotations

from afx.core.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.errors import ShapeError
from afx.nn.activations import log_softmax
from afx.ops.arithmetic import abs as abs_
from afx.ops.arithmetic import multiply, subtract
from afx.ops.creation import asarray
from afx.ops.exponential import softplus
from afx.ops.indexing import take_along_axis
from afx.ops.reductions import sum
from afx.ops.selection import minimum
from afx.ops.shaping import expand_dims

__all__ = ["huber", "mse", "sigmoid_binary_cross_entropy", "softmax_cross_entropy"]


def softmax_cross_entropy(logits: ArrayLike, targets: ArrayLike) -> Array:
    """Return ``-log softmax(logits)[target]`` for each example.

    Args:
        logits: float[..., classes].
        targets: int[...], the class of each example; or float[..., classes], a distribution over them.

    Returns:
        float[...].

    Raises:
        ShapeError: the shapes do not belong together.

    >>> softmax_cross_entropy(asarray([[0.0, 0.0]]), asarray([1]))
    Array([0.6931472], dtype=float32)
    """
    a, t = aval_of(logits, "softmax_cross_entropy"), aval_of(targets, "softmax_cross_entropy")
    classes = t.dtype.kind in "iu"
    if not a.ndim or t.shape != (a.shape[:-1] if classes else a.shape):
        raise ShapeError(
            f"softmax_cross_entropy: got logits {a} and targets {t}; targets are classes int[...] "
            "or distributions float[..., classes]"
        )
    shares = log_softmax(logits)
    if classes:
        return -take_along_axis(shares, expand_dims(targets, -1), axis=-1)[..., 0]
    return -sum(multiply(targets, shares), axis=-1)


def sigmoid_binary_cross_entropy(logits: ArrayLike, targets: ArrayLike) -> Array:
    """Return ``log(1 + exp(y)) - t·y`` for each logit y and target t in [0, 1], without overflow.

    Source: the paper's histogram classifier, section 6.

    >>> sigmoid_binary_cross_entropy(asarray([1000.0]), asarray([1.0]))
    Array([0.], dtype=float32)
    """
    y = asarray(logits)
    # softplus(y) - t y = (1 - t) softplus(y) + t softplus(-y): no difference of large numbers
    return (1 - asarray(targets)) * softplus(y) + multiply(targets, softplus(-y))


def mse(predictions: ArrayLike, targets: ArrayLike) -> Array:
    """Return the squared difference of each element.

    Raises:
        ShapeError: the shapes differ (a silent broadcast would compare every pair).

    >>> mse(asarray([3.0]), asarray([1.0]))
    Array([4.], dtype=float32)
    """
    _same("mse", predictions, targets)
    d = subtract(predictions, targets)
    return d * d


def huber(predictions: ArrayLike, targets: ArrayLike, delta: float = 1.0) -> Array:
    """Return ½d² where the difference d is within ``delta``, and ``delta·(|d| - ½delta)`` beyond (Huber 1964).

    >>> huber(asarray([3.0]), asarray([1.0]))
    Array([1.5], dtype=float32)
    """
    _same("huber", predictions, targets)
    d = abs_(subtract(predictions, targets))
    near = minimum(d, delta)
    return near * (d - 0.5 * near)


def _same(who: str, x: ArrayLike, y: ArrayLike) -> None:
    a, b = aval_of(x, who), aval_of(y, who)
    if a.shape != b.shape:
        raise ShapeError(f"{who}: predictions and targets differ in shape: got {a} and {b}; reshape one of them")
