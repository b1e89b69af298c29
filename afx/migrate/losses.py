"""Losses of Optax, and its projections: short functions, by their arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from afx import nn, optim, pytree
from afx.migrate.for_jax import Short
from afx.migrate.optax_trees import norm, vdot
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.comparison import maximum, minimum, where
from afx.ops.elementwise.exponentials import log_sigmoid
from afx.ops.nn.activations import log_softmax
from afx.ops.reductions.cumulative import logsumexp
from afx.ops.reductions.sums import sum as sum_

__all__ = ["LOSSES", "PROJECTIONS"]

np_: Any = np  # NumPy's functions, of Arrays


def __getattr__(name: str) -> Any:
    """Return a loss, or a projection of Optax's."""
    if name not in LOSSES and name not in PROJECTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return LOSSES.get(name) or PROJECTIONS[name]


def _cosine(x: Any, y: Any, epsilon: Any, axis: Any) -> Any:
    """Return the cosine of the angle between rows."""
    x, y = [v / np_.sqrt(maximum((v * v).sum(axis, keepdims=True), epsilon)) for v in map(asarray, (x, y))]
    return sum_(x * y, axis)


def _relative(q: Any, p: Any, axis: Any) -> Any:
    """Return p log p less p q, where 0 log 0 is 0."""
    return sum_(where(p == 0, 0.0, p * (np_.log(where(p == 0, 1.0, p)) - q)), axis)


def _cross_entropy(x: Any, y: Any, axis: Any, keep: Any) -> Any:
    """Return the cross entropy of rows and probabilities, those of 0 left out, of the elements that are kept."""
    x = x if keep is None else where(keep, x, -np.inf)
    return -sum_(where(asarray(y) == 0, 0.0, y * log_softmax(x, axis=axis)), axis=axis)


def sigmoid_binary_cross_entropy(logits: Any, labels: Any) -> Any:
    """Return the cross entropy of each logit."""
    x: Any = asarray(logits)
    y: Any = asarray(labels).astype(x.dtype)
    return -y * log_sigmoid(x) - (1.0 - y) * log_sigmoid(-x)


def softmax_cross_entropy(logits: Any, labels: Any, axis: Any = -1, where: Any = None) -> Any:
    """Return the cross entropy of each row and a row of probabilities, of elements where told so."""
    return _cross_entropy(asarray(logits), labels, axis, where)


def sigmoid_focal_loss(logits: Any, labels: Any, *, alpha: Any = None, gamma: Any = 2.0) -> Any:
    """Return cross entropies by a power of the probability that is missing (Lin and others 2017)."""
    x: Any = asarray(logits)
    y: Any = asarray(labels).astype(x.dtype)
    parts = np_.stack([log_sigmoid(x), log_sigmoid(-x)])
    missing = logsumexp(parts, 0, b=np_.stack([1 - y, y + 0.0 * x]))
    loss = sigmoid_binary_cross_entropy(x, y) * np_.exp(gamma * missing)
    return loss if alpha is None else (alpha * y + (1.0 - alpha) * (1.0 - y)) * loss


def poly_loss_cross_entropy(logits: Any, labels: Any, *, epsilon: Any = 2.0, axis: Any = -1) -> Any:
    """Return cross entropies and a share of the probability that is missing (Leng and others 2022)."""
    return softmax_cross_entropy(logits, labels, axis) + epsilon * sum_(labels * (1 - nn.softmax(logits, axis)), axis)


def ctc_loss(logits: Any, logit_paddings: Any, labels: Any, label_paddings: Any, blank_id: int = 0) -> Any:
    """Return the loss of sequences without alignment (Graves and others 2006); paddings are 1 behind the ends."""
    lengths = [sum_(1 - asarray(p), -1).astype(int) for p in (logit_paddings, label_paddings)]
    return nn.ctc(logits, labels, logit_lengths=lengths[0], label_lengths=lengths[1], blank=blank_id)


def _huber(gap: Any, delta: Any) -> Any:
    near = minimum(gap, delta)
    return 0.5 * near**2 + delta * (gap - near)


LOSSES: dict[str, Short] = {
    "convex_kl_divergence": lambda log_predictions, targets, axis=-1: (
        _relative(log_predictions, asarray(targets), axis) + sum_(np_.exp(asarray(log_predictions)) - targets, axis)
    ),
    "cosine_distance": lambda predictions, targets, epsilon=0.0, axis=-1: (
        1.0 - _cosine(predictions, targets, epsilon, axis)
    ),
    "cosine_similarity": lambda predictions, targets, epsilon=0.0, axis=-1: _cosine(
        predictions, targets, epsilon, axis
    ),
    "hinge_loss": lambda predictor_outputs, targets: maximum(0, 1 - predictor_outputs * targets),
    "huber_loss": lambda predictions, targets=0.0, delta=1.0: _huber(np_.abs(asarray(predictions) - targets), delta),
    "kl_divergence": lambda log_predictions, targets, axis=-1: _relative(log_predictions, asarray(targets), axis),
    "kl_divergence_with_log_targets": lambda log_predictions, log_targets, axis=-1: sum_(
        np_.exp(asarray(log_targets)) * (log_targets - log_predictions), axis
    ),
    "l2_loss": lambda predictions, targets=0.0: 0.5 * (asarray(predictions) - targets) ** 2,
    "log_cosh": lambda predictions, targets=0.0: (
        np_.logaddexp(asarray(predictions) - targets, targets - asarray(predictions)) - np.log(2.0)
    ),
    "safe_softmax_cross_entropy": lambda logits, labels: _cross_entropy(asarray(logits), labels, -1, None),
    "smooth_labels": lambda labels, alpha: (1.0 - alpha) * labels + alpha / labels.shape[-1],
    "softmax_cross_entropy_with_integer_labels": lambda logits, labels, axis=-1: nn.softmax_cross_entropy(
        np_.moveaxis(asarray(logits), axis, -1), labels
    ),
    "squared_error": lambda predictions, targets=0.0: (asarray(predictions) - targets) ** 2,
}
LOSSES["generalized_kl_divergence"] = LOSSES["convex_kl_divergence"]


# --- Projections of trees


def _along(x: Any, a: Any, share: Any) -> Any:
    """Return a point moved along another one."""
    return pytree.map(lambda v, w: v - share * w, x, a)


def _between(x: Any, low: Any, high: Any) -> Any:
    """Return numbers between bounds, which are trees or hold for all leaves."""
    ends = [b if pytree.structure(b) == pytree.structure(x) else pytree.map(lambda _, b=b: b, x) for b in (low, high)]
    return pytree.map(np_.clip, pytree.map(asarray, x), *ends)


PROJECTIONS: dict[str, Short] = {
    "projection_box": _between,
    "projection_halfspace": lambda x, a, b: _along(x, a, maximum(vdot(a, x) - b, 0.0) / vdot(a, a)),
    "projection_hypercube": lambda tree, scale=1.0: _between(tree, 0.0, scale),
    "projection_hyperplane": lambda x, a, b: _along(x, a, (vdot(a, x) - b) / vdot(a, a)),
    "projection_l1_ball": optim.project_l1_ball,
    "projection_l2_ball": optim.project_l2_ball,
    "projection_l2_sphere": lambda tree, scale=1.0: pytree.map(lambda v: v * (scale / norm(tree)), tree),
    "projection_linf_ball": lambda tree, scale=1.0: _between(tree, -scale, scale),
    "projection_non_negative": lambda tree: pytree.map(lambda v: maximum(v, 0.0), tree),
    "projection_simplex": optim.project_simplex,
}
