"""Trees as plain Python: how a leaf of an argument is read, and how a result is put together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from afx.errors import ExportError
from afx.pytree import TreeDef
from afx.pytree.nodes import LEAF, DictNode, Node, RecordNode

__all__ = ["leaf_texts", "tree_text"]


def leaf_texts(treedef: TreeDef[Any], roots: Sequence[str]) -> list[str]:
    """Return how each leaf of a tuple of arguments is read; classes are dicts of their fields.

    >>> from afx import pytree
    >>> leaf_texts(pytree.structure(({"w": [1.0, 2.0]}, 3.0)), ["params", "x"])
    ["params['w'][0]", "params['w'][1]", 'x']
    """
    found: list[str] = []
    waiting = [iter(roots)]  # the texts of the children that are still to come, of each node that is open
    tokens = iter(treedef.tokens)
    next(tokens)
    if len(treedef.tokens) == 1:
        return list(roots)
    for token in tokens:
        while (text := next(waiting[-1], None)) is None:
            waiting.pop()
        if token is LEAF:
            found.append(text)
        elif isinstance(token, Node):
            children = [f"{text}{step}" for step in _steps(token)]
            if token.is_flat:
                found += children
            else:
                waiting.append(iter(children))
    return found


def _steps(node: Node) -> Iterator[str]:
    if isinstance(node, DictNode):
        yield from (f"[{_key_text(key)}]" for key in node.keys)
    elif not isinstance(node, RecordNode):
        yield from node.steps()
    elif issubclass(node.kind, tuple):
        yield from (f"[{k}]" for k in range(node.arity))
    else:
        yield from (f"[{name!r}]" for name in node.names)


def tree_text(treedef: TreeDef[Any], leaves: Sequence[str]) -> str:
    """Return the expression of a tree of these leaves; classes are dicts of their fields.

    >>> from afx import pytree
    >>> tree_text(pytree.structure({"b": 1.0, "a": (2.0, None)}), ["x", "y"])
    "{'a': (x, None), 'b': y}"
    """
    rest, built = list(leaves), list[str]()
    for token in reversed(treedef.tokens):
        if token is LEAF:
            built.append(rest.pop())
        elif isinstance(token, tuple):
            built.append(_key_text(token[1]) if isinstance(token[1], (int, str)) else "None")
        elif isinstance(token, Node):
            if token.is_flat:
                children = [rest.pop() for _ in range(token.arity)][::-1]
            else:
                children = built[: -token.arity - 1 : -1]
                del built[-token.arity :]
            built.append(_show(token, children))
    return built[0]


def _show(node: Node, children: Sequence[str]) -> str:
    if isinstance(node, DictNode):
        return (
            f"{{{', '.join([f'{_key_text(key)}: {child}' for key, child in zip(node.keys, children, strict=True)])}}}"
        )
    if not isinstance(node, RecordNode):
        return node.show(children)
    if issubclass(node.kind, tuple):
        return f"({', '.join(children)}{',' * (len(children) == 1)})"
    return f"{{{', '.join([f'{name!r}: {child}' for name, child in zip(node.names, children, strict=True)])}}}"


def _key_text(key: object) -> str:
    """Return the literal that equals a key, members of enumerations as what they are made of.

    Raises:
        ExportError: there is none.
    """
    if key is None or isinstance(key, bool):
        return repr(key)
    if isinstance(key, str):
        return str.__repr__(key)
    if isinstance(key, int):
        return int.__repr__(key)
    if isinstance(key, bytes):
        return bytes.__repr__(key)
    if isinstance(key, float) and math.isfinite(key):
        return float.__repr__(key)
    if key.__class__ is tuple:
        items: Any = key
        return f"({', '.join(map(_key_text, items))}{',' * (len(items) == 1)})"
    raise ExportError(f"to_numpy: a key that has no form as text: got {key!r}; use texts and numbers")
