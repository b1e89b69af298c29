"""Trees by Optax's names: functions of `optax.tree` and `optax.tree_utils`, leaf by leaf."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from afx import pytree
from afx.core.array.array import Array
from afx.ops.creation.creation import asarray, full_like as filled, ones_like as one, zeros_like as zero
from afx.ops.elementwise.arithmetic import divide, multiply, square, subtract
from afx.ops.elementwise.comparison import where as choose
from afx.ops.indexing.index import is_sequence

__all__ = ["get", "vdot"]

# of leaves
LEAVES: dict[str, Callable[..., Any]] = {
    "add": operator.add, "conj": np.conj, "div": divide, "mul": multiply, "ones_like": one, "sub": subtract, "zeros_like": zero,
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return a function of trees; those of `optax.tree_utils` begin with ``tree_``."""
    name = name.removeprefix("tree_")
    if name in LEAVES:
        return functools.partial(pytree.map, LEAVES[name])
    if name not in OWN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return OWN[name]


def _total(fn: Callable[..., Any], *trees: Any) -> Any:
    return functools.reduce(operator.add, [fn(*xs) for xs in zip(*map(pytree.leaves, trees), strict=True)], 0.0)


def vdot(first: Any, second: Any) -> Array:
    """Return the product of two trees as vectors."""
    return asarray(_total(_product, first, second))


def _product(x: Any, y: Any) -> Any:
    return (np.conj(x) * y).sum()


def sum(tree: Any) -> Array:
    """Return the sum of all elements."""
    return asarray(_total(np.sum, pytree.map(asarray, tree)))


def size(tree: Any) -> int:
    """Return the number of all elements."""
    return int(_total(np.size, tree))


def norm(tree: Any, ord: Any = None, *, squared: bool = False) -> Array:
    """Return the norm of all elements, of order 2, 1 or inf, or its square."""
    leaves = [asarray(x).reshape(-1) for x in pytree.leaves(tree)]
    z = asarray(np.linalg.norm(np.concatenate(leaves), ord or 2))
    return square(z) if squared else z


def scale(scalar: Any, tree: Any) -> Any:
    """Return a tree times a number."""
    return pytree.map(lambda x: scalar * x, tree)


def add_scale(first: Any, scalar: Any, second: Any) -> Any:
    """Return a tree and a multiple of another."""
    return pytree.map(lambda x, y: x + scalar * y, first, second)


def full_like(tree: Any, fill_value: Any) -> Any:
    """Return trees of one number."""
    return pytree.map(lambda x: filled(x, fill_value), tree)


def update_moment(updates: Any, moments: Any, decay: float, order: int) -> Any:
    """Return moving averages of powers."""
    return pytree.map(lambda u, m: (1 - decay) * u**order + decay * m, updates, moments)


def bias_correction(moment: Any, decay: float, count: Any) -> Any:
    """Return moving averages without the share of the start."""
    return pytree.map(lambda m: m / (1 - decay**count), moment)


def where(condition: Any, first: Any, second: Any) -> Any:
    """Return one of two trees."""
    return pytree.map(lambda x, y: choose(condition, x, y), first, second)


def get(tree: Any, key: str, default: Any = None) -> Any:
    """Return the value of the field, or the key, of a name, wherever it stands.

    Raises:
        KeyError: there are several.
    """
    found = list(_named(tree, key))
    if len(found) > 1:
        raise KeyError(f"tree_get: {len(found)} values of the name {key!r}; write where it stands")
    return found[0] if found else default


def _named(tree: Any, key: str) -> Any:
    fields: dict[Any, Any] = {}
    if issubclass(type(tree), dict):
        fields = tree
    elif hasattr(tree, "_asdict"):
        fields = tree._asdict()
    elif hasattr(tree, "__attrs_attrs__") and not isinstance(tree, Array):
        fields = {f.name: getattr(tree, f.name) for f in tree.__attrs_attrs__}
    elif is_sequence(tree):
        fields = dict(enumerate(tree))
    for name, value in fields.items():
        if name == key:
            yield value
        else:
            yield from _named(value, key)


OWN: dict[str, Callable[..., Any]] = {
    "add_scalar_mul": add_scale, "add_scale": add_scale, "bias_correction": bias_correction, "full_like": full_like,
    "get": get, "inner": vdot, "l2_norm": norm, "norm": norm, "scalar_mul": scale, "scale": scale, "size": size, "sum": sum,
    "update_moment": update_moment, "vdot": vdot, "where": where,
}  # fmt: skip
