"""Trees and losses by Optax's names: functions leaf by leaf, and short ones by its arguments, projections among them."""

from __future__ import annotations

import functools
import io
import operator
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from afx import nn, optim, pytree
from afx.core.array.array import Array
from afx.errors import ArgumentError
from afx.migrate.for_lax import Short
from afx.ops.creation.creation import asarray, full_like as filled, ones_like as one, zeros_like as zero
from afx.ops.elementwise.arithmetic import divide, multiply, square, subtract
from afx.ops.elementwise.comparison import maximum, minimum, where as choose
from afx.ops.elementwise.exponentials import log_sigmoid
from afx.ops.indexing.index import is_sequence
from afx.ops.nn.activations import log_softmax
from afx.ops.reductions.cumulative import logsumexp
from afx.ops.reductions.sums import sum as sum_

__all__ = ["LOSSES", "PROJECTIONS", "get", "vdot"]

np_: Any = np  # NumPy's functions, of Arrays

# of leaves
LEAVES: dict[str, Callable[..., Any]] = {
    "add": operator.add, "conj": np.conj, "div": divide, "mul": multiply, "ones_like": one, "sub": subtract, "zeros_like": zero,
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return a function of trees, of which those of `optax.tree_utils` begin with ``tree_``, a loss or a projection."""
    last = name.removeprefix("tree_")
    if last in LEAVES:
        return functools.partial(pytree.map, LEAVES[last])
    for table in (OWN, LOSSES, PROJECTIONS):
        if last in table:
            return table[last]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _total(fn: Callable[..., Any], *trees: Any) -> Any:
    return functools.reduce(operator.add, [fn(*xs) for xs in zip(*map(pytree.leaves, trees), strict=True)], 0.0)


def _product(x: Any, y: Any) -> Any:
    return (np.conj(x) * y).sum()


def vdot(first: Any, second: Any) -> Array:
    """Return the product of two trees as vectors."""
    return asarray(_total(_product, first, second))


def total(tree: Any) -> Array:
    """Return the sum of all elements."""
    return asarray(_total(np.sum, pytree.map(asarray, tree)))


def norm(tree: Any, ord: Any = None, *, squared: bool = False) -> Array:
    """Return the norm of all elements, of order 2, 1 or inf, or its square."""
    leaves = [asarray(x).reshape(-1) for x in pytree.leaves(tree)]
    z = asarray(np.linalg.norm(np.concatenate(leaves), ord or 2))
    return square(z) if squared else z


def get(tree: Any, key: str, default: Any = None) -> Any:
    """Return the value of the field, or the key, of a name, wherever it stands.

    Raises:
        KeyError: there are several.
    """
    found = list(_named(tree, key))
    if len(found) > 1:
        raise KeyError(f"tree_get: {len(found)} values of the name {key!r}; write where it stands")
    return found[0] if found else default


def fields_of(tree: Any) -> dict[Any, Any]:
    """Return the parts of one level of a tree by their keys, places or names: none of a leaf."""
    if issubclass(type(tree), dict):
        return dict(tree)
    if hasattr(tree, "_asdict"):
        return dict(tree._asdict())
    if hasattr(tree, "__attrs_attrs__") and not isinstance(tree, Array):
        return {f.name: getattr(tree, f.name) for f in tree.__attrs_attrs__}
    return dict(enumerate(tree)) if is_sequence(tree) else {}


def _named(tree: Any, key: str) -> Any:
    for name, value in fields_of(tree).items():
        if name == key:
            yield value
        else:
            yield from _named(value, key)


def with_fields(tree: Any, new: dict[Any, Any]) -> Any:
    """Return one level of a tree with other parts."""
    if issubclass(type(tree), dict):
        return new
    if hasattr(tree, "__attrs_attrs__"):
        return attrs.evolve(tree, **new)
    return tree._replace(**new) if hasattr(tree, "_asdict") else type(tree)(new.values())


def put(tree: Any, **values: Any) -> Any:
    """Return a tree with other values of the fields, or keys, of these names, wherever they stand."""
    parts = fields_of(tree)
    return with_fields(tree, {n: values.get(n, put(part, **values)) for n, part in parts.items()}) if parts else tree


def _extreme(fn: Any, tree: Any) -> Any:
    return functools.reduce(fn, [fn.reduce(asarray(x), axis=None) for x in pytree.leaves(tree)])


OWN: dict[str, Short] = {
    "add_scale": lambda tree_x, scalar, tree_y: pytree.map(lambda x, y: x + scalar * y, tree_x, tree_y),
    "allclose": lambda a, b, rtol=1e-5, atol=1e-8: all(
        pytree.leaves(pytree.map(lambda x, y: np.allclose(x, y, rtol, atol), a, b))
    ),
    "bias_correction": lambda moment, decay, count: pytree.map(lambda m: m / (1 - decay**count), moment),
    "cast": lambda tree, dtype: tree if dtype is None else pytree.map(lambda x: asarray(x).astype(dtype), tree),
    "clip": lambda tree, min_value=None, max_value=None: pytree.map(
        lambda x: np.clip(asarray(x), min_value, max_value), tree
    ),
    "dtype": lambda tree: pytree.leaves(tree)[0].dtype,
    "full_like": lambda tree, fill_value: pytree.map(lambda x: filled(x, fill_value), tree),
    "get": get,
    "max": lambda tree: _extreme(np.maximum, tree),
    "min": lambda tree: _extreme(np.minimum, tree),
    "norm": norm,
    "real": lambda tree: pytree.map(np.real, tree),
    "scale": lambda scalar, tree: pytree.map(lambda x: scalar * x, tree),
    "set": put,
    "size": lambda tree: int(_total(np.size, tree)),
    "sum": total,
    "update_moment": lambda updates, moments, decay, order: pytree.map(
        lambda u, m: (1 - decay) * u**order + decay * m, updates, moments
    ),
    "vdot": vdot,
    "where": lambda condition, tree_x, tree_y: pytree.map(lambda x, y: choose(condition, x, y), tree_x, tree_y),
}
OWN.update(add_scalar_mul=OWN["add_scale"], inner=vdot, l2_norm=norm, scalar_mul=OWN["scale"])


# --- What Flax keeps of trees in files


def to_state_dict(target: Any) -> Any:
    """Return dicts with the names of fields, and places as text; functions are left out."""
    parts = fields_of(target)
    if not parts and not isinstance(target, (dict, list, tuple)):
        return target
    return {f"{name}": to_state_dict(value) for name, value in parts.items() if not callable(value) and name != "tx"}


def from_state_dict(target: Any, state: Any) -> Any:
    """Return a tree like another one, of what such dicts hold.

    Raises:
        ArgumentError: they hold other names.
    """
    known: Any = to_state_dict(target)
    if known is target and not isinstance(target, dict):
        return state
    if sorted(known) != sorted(state):
        raise ArgumentError(
            f"from_state_dict: names differ: got {sorted(state)}, of {sorted(known)}; give what was kept"
        )
    parts = fields_of(target)
    return with_fields(
        target, {n: from_state_dict(v, state[f"{n}"]) if f"{n}" in state else v for n, v in parts.items()}
    )


def to_bytes(target: Any) -> bytes:
    """Return the leaves of a tree as bytes of a file of NumPy's."""
    file = io.BytesIO()
    np.savez(file, *pytree.leaves(to_state_dict(target)))
    return file.getvalue()


def from_bytes(target: Any, encoded_bytes: bytes) -> Any:
    """Return a tree like another one of such bytes."""
    with np.load(io.BytesIO(encoded_bytes)) as kept:
        leaves = [asarray(kept[name]) for name in kept.files]
    return from_state_dict(target, pytree.unflatten(pytree.structure(to_state_dict(target)), leaves))


# --- Losses


def _cosine(x: Any, y: Any, epsilon: Any, axis: Any) -> Any:
    """Return the cosine of the angle between rows."""
    x, y = [v / np_.sqrt(maximum((v * v).sum(axis, keepdims=True), epsilon)) for v in map(asarray, (x, y))]
    return sum_(x * y, axis)


def _relative(q: Any, p: Any, axis: Any) -> Any:
    """Return p log p less p q, where 0 log 0 is 0."""
    return sum_(choose(p == 0, 0.0, p * (np_.log(choose(p == 0, 1.0, p)) - q)), axis)


def _cross_entropy(x: Any, y: Any, axis: Any, keep: Any) -> Any:
    """Return the cross entropy of rows and probabilities, those of 0 left out, of the elements that are kept."""
    x = x if keep is None else choose(keep, x, -np.inf)
    return -sum_(choose(asarray(y) == 0, 0.0, y * log_softmax(x, axis=axis)), axis=axis)


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
