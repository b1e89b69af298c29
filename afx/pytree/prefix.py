"""Prefix trees: a value may stand for a whole subtree of the tree that it is laid over."""

from collections.abc import Callable, Iterator
from typing import Any

from afx.errors import TreeError
from afx.pytree.flatten import is_leaf, leaves, structure
from afx.pytree.nodes import DictNode, Marked, Node
from afx.pytree.registry import INSIDE, IS_INSTANCE, IS_LEAF, IS_MARKED, IS_STATIC, IS_TABLE, OUTSIDE, Mode, learn
from afx.pytree.treedef import paths

__all__ = ["broadcast_prefix"]


def broadcast_prefix(
    prefix: object, tree: object, *, is_leaf: Callable[[Any], bool] = is_leaf, who: str = "broadcast_prefix"
) -> list[Any]:
    """Return what a prefix tree says of each leaf of a tree: a value stands for all leaves below it.

    Args:
        prefix: of the tree's structure from the top, down to its values.
        tree: the tree whose leaves are described.
        is_leaf: tells which parts of the prefix are values; arrays and numbers by default.
        who: the name for messages.

    Returns:
        One value for each leaf of the tree, in their order.

    Raises:
        TreeError: the prefix has other classes, lengths or keys than the tree; the message names the path.

    >>> from afx import pytree
    >>> pytree.broadcast_prefix({"a": 1, "b": 2}, {"a": [0.0, 0.0], "b": 0.0})
    [1, 1, 2]
    """
    return list(_laid(prefix, tree, OUTSIDE, "", is_leaf, who))


def _laid(prefix: Any, tree: Any, mode: Mode, path: str, is_value: Callable[[Any], bool], who: str) -> Iterator[Any]:
    """Yield the values for the leaves below one node."""
    cls: type = tree.__class__
    kind = mode.kinds.get(cls) or learn(cls, mode)
    if kind is IS_STATIC or kind is IS_MARKED:
        return
    if is_value(prefix):
        yield from [prefix] * _count(tree, mode)
    elif kind is IS_LEAF or kind is IS_TABLE or type(prefix) is not type(tree):
        if _count(tree, mode):
            raise _unfit(prefix, tree, path, who)
    elif kind is IS_INSTANCE:
        yield from _laid(prefix, tree, INSIDE, path, is_value, who)
    else:
        opener: Any = kind
        (mine, parts), (node, children) = opener(prefix), opener(tree)
        _check_node(mine, node, path, who)
        for part, child, step in zip(parts, children, node.steps(), strict=True):
            yield from _laid(part, child, mode, path + step, is_value, who)


def _count(tree: Any, mode: Mode) -> int:
    """Return the number of leaves of a part of a tree."""
    if mode is INSIDE and type(tree) in (int, bool):
        return 0
    return 0 if type(tree) is Marked else len(leaves(tree))


def _check_node(mine: Node, node: Node, path: str, who: str) -> None:
    """Raise where a container of the prefix has other keys or another length than the tree's."""
    if mine == node:
        return
    if isinstance(mine, DictNode) and isinstance(node, DictNode):
        if more := [key for key in mine.keys if key not in node.keys]:
            raise TreeError(
                f"{who}: the prefix has more than the tree, at {path or 'the top'}: got {more}; leave it out"
            )
        missing = next(key for key in node.keys if key not in mine.keys)
        raise TreeError(f"{who}: the prefix does not fit: got nothing for {path}[{missing!r}]; give it the structure")
    raise TreeError(
        f"{who}: the prefix does not fit, at {path or 'the top'}: got {mine.arity} parts for {node.arity}; "
        "give it the structure"
    )


def _unfit(prefix: Any, tree: Any, path: str, who: str) -> TreeError:
    first = path + paths(structure(tree))[0]
    return TreeError(
        f"{who}: the prefix does not fit: got nothing for {first or 'the top'}, where it has a "
        f"{type(prefix).__name__}; give it the tree's structure"
    )
