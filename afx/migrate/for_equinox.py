"""Equinox's names: trees, filters, transformations, and the layers of `afx.migrate.equinox_layers`."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from afx import pytree
from afx.core import Array
from afx.errors import ArgumentError
from afx.migrate import equinox_layers
from afx.migrate.for_lax import vmap
from afx.migrate.for_trees import put, tree_flatten, tree_leaves, tree_map
from afx.ops.callback import callback
from afx.ops.creation.creation import asarray
from afx.ops.indexing.index import is_sequence
from afx.transforms.compile.jit import jit
from afx.transforms.derivatives.grad import value_and_grad

__all__ = ["field", "filter_tree", "is_array"]

Module: type = object  # where it is no base class


def __getattr__(name: str) -> Any:
    """Return a layer."""
    return getattr(equinox_layers, name)


# --- Trees


def tree_at(
    where: Callable[[Any], Any], pytree_: Any, replace: Any = None, replace_fn: Any = None, is_leaf: Any = None
) -> Any:
    """Return a tree with the part that a function points to replaced, or each of several parts.

    >>> tree_at(lambda t: (t[0], t[1]), ([1, 2], None), ([3], 4), is_leaf=lambda x: x is None)
    ([3], 4)
    """
    leaves, treedef = tree_flatten(pytree_, is_leaf)
    marked = put(treedef, list(map(np.int64, range(len(leaves)))))
    pointed = where(marked)
    is_pointed = functools.partial(operator.is_, pointed)
    is_one = any(map(is_pointed, tree_leaves(marked, is_pointed))) or not is_sequence(pointed)
    nodes, values = ([pointed], [replace]) if is_one else (pointed, replace)
    new = dict(zip(map(id, nodes), [values] * len(nodes) if replace_fn else values, strict=True))

    def is_new(x: Any) -> bool:
        return id(x) in new

    parts, outline = tree_flatten(marked, is_new)
    if new.keys() <= set(map(id, parts)):
        if replace_fn:
            chosen = filter(is_new, parts)  # calls come in the order of the tree
            new |= {id(part): replace_fn(tree_map(leaves.__getitem__, part)) for part in chosen}
        return put(outline, [new[id(part)] if is_new(part) else leaves[part] for part in parts])
    tree = put(treedef, leaves)  # whose own fields are set, as static ones are
    places = where(_Place(tree))
    for place, value in zip([places] if is_one else places, values or [None] * len(nodes), strict=True):
        if not any(part is place.owner_ for part in tree_leaves(tree, functools.partial(operator.is_, place.owner_))):
            raise ArgumentError(f"tree_at: {place.name_!r} is in no node of the tree; replace the field that holds it")
        object.__setattr__(place.owner_, place.name_, replace_fn(place.part_) if replace_fn else value)
    return tree


class _Place:
    """A part of a model, and the field that it is in."""

    __slots__ = ("name_", "owner_", "part_")

    def __init__(self, part: Any, owner: Any = None, name: str = "") -> None:
        self.part_, self.owner_, self.name_ = part, owner, name

    def __getattr__(self, name: str) -> Any:
        return _Place(getattr(self.part_, name), self.part_, name)

    def __getitem__(self, key: Any) -> Any:
        return _Place(self.part_[key])


def partition(pytree_: Any, filter_spec: Any, replace: Any = None, is_leaf: Any = None) -> tuple[Any, Any]:
    """Return two trees: of the leaves that a function, or a tree of truth values, chooses, and of the others."""
    if replace is not None or is_leaf is not None:
        raise ArgumentError("partition: leaves are arrays, others None: got replace= or is_leaf=; write afx.pytree.map")
    (leaves, treedef), (marks, _) = tree_flatten(pytree_), tree_flatten(filter_spec)
    is_marked = len(marks) == len(leaves) and marks[0] is not filter_spec  # models can be called, too
    if not is_marked and not callable(filter_spec):
        parts: tuple[Any, Any] = pytree.partition(pytree_, filter_spec)  # of marks of whole branches
        return parts
    chosen = [bool(mark) for mark in (marks if is_marked else map(filter_spec, leaves))]
    pairs = list(zip(leaves, chosen, strict=True))
    first, second = ([leaf if mark is keep else None for leaf, mark in pairs] for keep in (True, False))
    return put(treedef, first), put(treedef, second)


def combine(*trees: Any, is_leaf: Any = None) -> Any:
    """Return a tree of the first leaf at each place that is not None."""

    def stops(x: Any) -> bool:
        return x is None or (is_leaf is not None and is_leaf(x))

    flat = [tree_flatten(tree, stops) for tree in trees]
    if len({len(leaves) for leaves, _ in flat}) > 1:
        raise ArgumentError("combine: the trees differ: give parts of one tree")
    places = zip(*[leaves for leaves, _ in flat], strict=True)
    return put(flat[0][1], [next((leaf for leaf in place if leaf is not None), None) for place in places])


def filter_tree(pytree_: Any, filter_spec: Any, inverse: bool = False, replace: Any = None, is_leaf: Any = None) -> Any:
    """Return a tree with None for leaves that are not chosen, or are; integers in fields are no leaves."""
    return partition(pytree_, filter_spec, replace, is_leaf)[inverse]


def apply_updates(model: Any, updates: Any) -> Any:
    """Return a model with updates added where there are some."""
    known, (pairs, treedef) = dict(pytree.flatten_with_path(updates)[0]), pytree.flatten_with_path(model)
    return pytree.unflatten(treedef, [leaf + known[path] if path in known else leaf for path, leaf in pairs])


def tree_equal(*trees: Any) -> bool:
    """Tell whether trees have the same structure and the same elements."""
    return all(pytree.equal(trees[0], tree) for tree in trees[1:])


def is_array(x: Any) -> bool:
    """Tell whether a value is an array."""
    return isinstance(x, (Array, np.ndarray, np.generic))


def is_array_like(x: Any) -> bool:
    """Tell whether a value is an array, or a number."""
    return is_array(x) or isinstance(x, (bool, int, float, complex))


def is_inexact_array_like(x: Any) -> bool:
    """Tell whether a value is an array of floats, or such a number."""
    return is_inexact_array(x) or isinstance(x, (float, complex))


def is_inexact_array(x: Any) -> bool:
    """Tell whether a value is an array of floats."""
    return is_array(x) and x.dtype.kind in "fc"


def field(*, static: bool = False, **kwargs: Any) -> Any:
    """Return a field, of the structure where it is static."""
    return pytree.static(**kwargs) if static else attrs.field(**kwargs)


static_field: Callable[..., Any] = functools.partial(field, static=True)


def tree_check(tree: Any) -> None:
    """Do nothing: trees here are checked as they are made."""


def error_if(x: Any, pred: Any, msg: str) -> Any:
    """Return x, or raise where a condition holds; under `afx.jit` when the values are there."""
    callback(_refuse, pred, msg)
    return x


def _refuse(pred: Any, msg: str) -> None:
    if np.any(pred):
        raise ArgumentError(f"error_if: {msg}")


def tree_serialise_leaves(path_or_file: Any, pytree_: Any, *_: Any, **__: Any) -> None:
    """Write the leaves of a tree to a file of NumPy's."""
    arrays = pytree.leaves(pytree_)
    if hasattr(path_or_file, "write"):
        np.savez(path_or_file, *arrays)
    else:
        with Path(path_or_file).open("wb") as file:  # under this name, to which NumPy would add an ending
            np.savez(file, *arrays)


def tree_deserialise_leaves(path_or_file: Any, like: Any, *_: Any, **__: Any) -> Any:
    """Return a tree like another one of the leaves in a file."""
    with np.load(path_or_file) as kept:
        return put(pytree.structure(like), [asarray(kept[name]) for name in kept.files])


def filter_value_and_grad(fun: Any = None, *, has_aux: bool = False) -> Any:
    """Return `afx.value_and_grad` by the first argument, whose leaves that are no arrays of floats have None."""
    if fun is None:
        return functools.partial(filter_value_and_grad, has_aux=has_aux)
    slopes: Any = value_and_grad  # of any function

    @functools.wraps(fun)
    def run(x: Any, *args: Any, **kwargs: Any) -> Any:
        floats, others = partition(x, is_inexact_array)

        def compute(floats: Any) -> Any:
            return fun(combine(floats, others), *args, **kwargs)

        return slopes(compute, has_aux=has_aux)(floats)

    return run


def filter_grad(fun: Any = None, *, has_aux: bool = False) -> Any:
    """Return `afx.grad` by the first argument, whose leaves that are no arrays of floats have None."""
    if fun is None:
        return functools.partial(filter_grad, has_aux=has_aux)
    slopes = filter_value_and_grad(fun, has_aux=has_aux)

    @functools.wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        value, grads = slopes(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return run


def filter_jit(fun: Any = None, **_: Any) -> Any:
    """Return `afx.jit` of a function, for which leaves of arguments and results that are no arrays are static."""
    if fun is None:
        return filter_jit
    compiled = dict[Any, Any]()

    @functools.wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree_flatten((args, kwargs))
        arrays = [x for x in leaves if is_array(x)]
        still: tuple[tuple[Any, ...], ...] = tuple([() if is_array(x) else (x, x.__class__) for x in leaves])
        key = treedef, still, tuple([(x.shape, x.dtype) for x in arrays])
        if key not in compiled:
            compiled[key] = _compile(fun, treedef, still)
        return compiled[key](arrays)

    return run


def _compile(fun: Any, treedef: Any, still: Any) -> Callable[[list[Any]], Any]:
    """Return a function of the arrays among a function's arguments, which keeps what else the results hold."""
    results = list[Any]()

    def call(arrays: list[Any]) -> list[Any]:
        given = iter(arrays)
        args, kwargs = put(treedef, [part[0] if part else next(given) for part in still])
        leaves, found = tree_flatten(fun(*args, **kwargs))
        results[:] = found, [() if is_array(x) else (x,) for x in leaves]
        return [x for x in leaves if is_array(x)]

    fast = jit(call)

    def run(arrays: list[Any]) -> Any:
        found = iter(fast(arrays))
        return put(results[0], [part[0] if part else next(found) for part in results[1]])

    return run


def if_array(axis: Any) -> Any:
    """Return the axis itself: what is no array has none."""
    return axis


def filter_vmap(fn: Any = None, **axes: Any) -> Any:
    """Return a function of batches; without axes every argument is one, by keyword too."""
    return functools.partial(filter_vmap, **axes) if fn is None else vmap(fn, **axes)


def inference_mode(tree: Any, value: bool = True) -> Any:
    """Return a model whose dropouts let everything through, or not."""
    kind: Any = tree.__class__
    if is_sequence(tree):
        parts = [inference_mode(x, value) for x in tree]
        return kind(*parts) if hasattr(tree, "_fields") else kind(parts)
    if kind is dict:
        return {key: inference_mode(x, value) for key, x in tree.items()}
    if not attrs.has(kind):
        return tree
    new: Any = object.__new__(kind)
    for name in [f.name for f in attrs.fields(kind) if hasattr(tree, f.name)]:
        object.__setattr__(new, name, value if name == "inference" else inference_mode(getattr(tree, name), value))
    return new
