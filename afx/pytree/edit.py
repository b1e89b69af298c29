"""Tree edits: trees split in two, combined, and changed at one leaf."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from afx.errors import TreeError
from afx.pytree.compare import check_structure
from afx.pytree.flatten import flatten, flatten_until, leaves, unflatten
from afx.pytree.prefix import broadcast_prefix
from afx.pytree.treedef import Leaf, Tree, paths

__all__ = ["combine", "partition", "reduce", "update_at"]

T = TypeVar("T")
R = TypeVar("R")


def reduce(fn: Callable[[R, Leaf], R], tree: object, initial: R) -> R:
    """Combine all leaves of a tree by a function, one after the other.

    Args:
        fn: takes what was found so far and a leaf, and gives what is found with it.
        tree: the tree.
        initial: what is found without any leaf.

    >>> from afx import pytree
    >>> pytree.reduce(lambda total, x: total + x, {"a": 1.0, "b": [2.0, 3.0]}, 0.0)
    6.0
    """
    return functools.reduce(fn, leaves(tree), initial)


def partition(tree: T, predicate: "Tree | Callable[[str, Leaf], bool]") -> tuple[T, T]:
    """Split a tree in two of its structure: what a predicate holds for, and the rest, with None instead of the others.

    `combine` puts them together again. `afx.optim.partition` trains groups of parameters.

    Args:
        tree: the tree.
        predicate: a function ``(path, leaf) -> bool``, or a prefix tree of bools.

    Raises:
        TreeError: a prefix tree does not fit.

    >>> from afx import pytree
    >>> chosen, rest = pytree.partition({"w": 1.0, "n": 3}, lambda path, leaf: isinstance(leaf, float))
    >>> chosen, rest, pytree.combine(chosen, rest)
    ({'w': 1.0, 'n': None}, {'w': None, 'n': 3}, {'w': 1.0, 'n': 3})
    """
    found, treedef = flatten(tree)
    if callable(predicate):
        holds = [bool(predicate(path, leaf)) for path, leaf in zip(paths(treedef), found, strict=True)]
    else:
        holds = broadcast_prefix(predicate, tree, is_leaf=lambda x: isinstance(x, bool), who="partition")
    chosen = [leaf if h else None for leaf, h in zip(found, holds, strict=True)]
    rest = [None if h else leaf for leaf, h in zip(found, holds, strict=True)]
    return unflatten(treedef, chosen), unflatten(treedef, rest)


def _is_none(x: object) -> bool:
    return x is None


def combine(tree: T, *others: T) -> T:
    """Combine trees that have None for missing leaves: each leaf comes from the tree that has it.

    Raises:
        TreeError: the structures differ, or two trees have a leaf at one key path.

    >>> from afx import pytree
    >>> pytree.combine({"w": 1.0, "n": None}, {"w": None, "n": 3})
    {'w': 1.0, 'n': 3}
    """
    first, treedef = flatten_until(tree, _is_none)
    columns = [first]
    for other in others:
        found, structure = flatten_until(other, _is_none)
        check_structure(structure, treedef, "combine", "a tree", "pass what pytree.partition returns")
        columns.append(found)
    chosen = [[x for x in column if x is not None] for column in zip(*columns, strict=True)]
    for k, several in enumerate(chosen):
        if len(several) > 1:
            raise TreeError(
                f"combine: {len(several)} trees have a leaf at {paths(treedef)[k] or 'the top'}: got "
                f"{type(several[0]).__name__} and {type(several[1]).__name__}; leave None in one"
            )
    return unflatten(treedef, [several[0] if several else None for several in chosen])


class _Mark:
    """Stands for a leaf while a selector runs."""

    __slots__ = ("index",)
    __afx_leaf__ = True

    def __init__(self, index: int) -> None:
        self.index = index


def update_at(tree: T, where: "str | Callable[[T], object]", new: "Tree | Callable[[Leaf], object]") -> T:
    """Return a tree with one leaf, or all leaves of one part, changed; the given tree stays as it is.

    Args:
        tree: the tree, mostly of frozen classes.
        where: the key path of a leaf or a part, such as ``".layers[0].weight"``, or a function of the tree that returns
            leaves or parts of it.
        new: the new leaf, a tree of new leaves of the part's structure, or a function of each leaf.

    Raises:
        TreeError: there is no such key path, or the new leaves do not fit it.

    >>> from afx import pytree
    >>> pytree.update_at({"w": [1.0, 2.0], "b": 0.0}, "['w'][1]", 5.0)
    {'w': [1.0, 5.0], 'b': 0.0}
    >>> pytree.update_at({"w": [1.0, 2.0], "b": 0.0}, lambda tree: tree["w"], lambda leaf: 10 * leaf)
    {'w': [10.0, 20.0], 'b': 0.0}
    """
    found, treedef = flatten(tree)
    if isinstance(where, str):
        chosen = [k for k, path in enumerate(paths(treedef)) if _starts_with(path, where)]
        shape = None
    else:
        marks, shape = flatten(where(unflatten(treedef, [_Mark(k) for k in range(len(found))])))
        if not all(isinstance(mark, _Mark) for mark in marks):
            raise TreeError("update_at: the function returns parts of the tree it is given: got something else; select")
        chosen = [cast("_Mark", mark).index for mark in marks]
    if not chosen:
        raise TreeError(f"update_at: there are no leaves at {where!r}: got {treedef}; see pytree.paths")
    after: list[Any] = list(found)
    if callable(new):
        values = [new(found[k]) for k in chosen]
    else:
        values, structure = flatten(new)
        if len(values) != len(chosen) or (shape is not None and structure != shape):
            raise TreeError(
                f"update_at: the new part has another structure: got {structure} for {len(chosen)} leaves; "
                "give its structure, or a function of each leaf"
            )
    for k, value in zip(chosen, values, strict=True):
        after[k] = value
    return unflatten(treedef, after)


def _starts_with(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", ".", "[")
