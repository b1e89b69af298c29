"""Trees by Optax's names: functions of `optax.tree` and `optax.tree_utils`, leaf by leaf."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from afx import pytree
from afx.core.array.array import Array
from afx.migrate.for_jax import Short
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


def _cast(tree: Any, dtype: Any) -> Any:
    return tree if dtype is None else pytree.map(lambda x: asarray(x).astype(dtype), tree)


OWN: dict[str, Short] = {
    "add_scale": lambda tree_x, scalar, tree_y: pytree.map(lambda x, y: x + scalar * y, tree_x, tree_y),
    "allclose": lambda a, b, rtol=1e-5, atol=1e-8: all(
        pytree.leaves(pytree.map(lambda x, y: np.allclose(x, y, rtol, atol), a, b))
    ),
    "bias_correction": lambda moment, decay, count: pytree.map(lambda m: m / (1 - decay**count), moment),
    "cast": _cast,
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
