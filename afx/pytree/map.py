"""Tree maps: `map` and `map_with_path` over whole trees."""

import builtins
from collections.abc import Callable
from typing import TypeAlias, TypeVar, overload

from afx.errors import TreeError
from afx.pytree.flatten import flatten, flatten_until, unflatten
from afx.pytree.treedef import Leaf, difference, paths

__all__ = ["map", "map_with_path"]

T = TypeVar("T")
IsLeaf: TypeAlias = "Callable[[Leaf], bool] | None"


@overload
def map(fn: Callable[[Leaf], object], tree: T, /, *, is_leaf: IsLeaf = None) -> T: ...
@overload
def map(fn: Callable[[Leaf, Leaf], object], tree: T, other: object, /, *, is_leaf: IsLeaf = None) -> T: ...
@overload
def map(
    fn: Callable[[Leaf, Leaf, Leaf], object], tree: T, other: object, third: object, /, *, is_leaf: IsLeaf = None
) -> T: ...
@overload
def map(
    fn: Callable[[Leaf, Leaf, Leaf, Leaf], object],
    tree: T,
    other: object,
    third: object,
    fourth: object,
    /,
    *,
    is_leaf: IsLeaf = None,
) -> T: ...
@overload
def map(fn: Callable[..., object], tree: T, /, *rest: object, is_leaf: IsLeaf = None) -> T: ...
def map(fn: Callable[..., object], tree: T, /, *rest: object, is_leaf: IsLeaf = None) -> T:
    """Apply a function to every leaf, or to the matching leaves of several trees.

    Args:
        fn: takes one leaf of each tree and gives the new leaf.
        tree: the tree whose structure the result has.
        rest: trees of the same structure.
        is_leaf: tells which parts of the trees are leaves, beside those that are by nature; None is taken for one by
            ``lambda x: x is None``.

    Returns:
        A tree of the structure of `tree`; it is typed as `tree` is, for leaves mostly become leaves of the same kind.

    Raises:
        TreeError: the structures differ; the message names the first key path where they do.

    >>> from afx import pytree
    >>> pytree.map(lambda p, g: p - 0.5 * g, {"w": [1.0, 2.0]}, {"w": [2.0, 2.0]})
    {'w': [0.0, 1.0]}
    """
    found, treedef = flatten(tree) if is_leaf is None else flatten_until(tree, is_leaf)
    columns = [found]
    for number, other in enumerate(rest, 2):
        others, structure = flatten(other) if is_leaf is None else flatten_until(other, is_leaf)
        if structure != treedef:
            path, mine, theirs = difference(treedef, structure)
            raise TreeError(
                f"map: tree {number} has another structure than the first, at {path or 'the top'}: "
                f"got {mine} in the first and {theirs} in tree {number}; give trees of one structure"
            )
        columns.append(others)
    return unflatten(treedef, builtins.map(fn, *columns))


def map_with_path(fn: Callable[[str, Leaf], object], tree: T) -> T:
    """Apply a function to the key path and the value of every leaf.

    >>> from afx import pytree
    >>> pytree.map_with_path(lambda path, p: 0.0 if path.endswith("['b']") else p, {"w": 3.0, "b": 2.0})
    {'w': 3.0, 'b': 0.0}
    """
    found, treedef = flatten(tree)
    return unflatten(treedef, builtins.map(fn, paths(treedef), found))
