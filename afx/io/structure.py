"""Structure: a tree without its arrays, as a flat list of JSON items in preorder.

An item is a node (``["tuple", 2]``, ``["list", 3]``, ``["dict", keys]``, ``["class", name, fields]``), whose children
follow; a leaf (``["leaf", kind, value]``); or a static value (``["static", value]``). Neither depth nor length is
limited by recursion.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from afx.core.array.array import Array, wrap
from afx.core.tracing.tracer import Tracer
from afx.errors import FileFormatError, TracerError, TreeError
from afx.io.values import Decoder, Encoder, Json, build_record
from afx.pytree.flatten import flatten
from afx.pytree.nodes import LEAF, DictNode, Node, RecordNode, SequenceNode, dict_node, sequence_node
from afx.pytree.treedef import trails

__all__ = ["read_tree", "write_tree"]

NUMBERS: Final = (bool, int, float, complex)


def write_tree(tree: object, encoder: Encoder) -> Json:
    """Return the structure of a tree, its arrays collected by the encoder.

    Raises:
        TreeError: a part that no file can hold.
        TracerError: a traced leaf.
    """
    leaves, treedef = flatten(tree)
    remaining = iter(leaves)
    items: list[Json] = []
    for token, trail in trails(treedef.tokens):
        path = "".join(trail)
        if token is LEAF:
            items.append(["leaf", *_leaf(next(remaining), path, encoder)])
        elif isinstance(token, Node):
            items.append(_node(token, path, encoder))
        elif isinstance(token, tuple):
            items.append(["static", encoder.value(token[1], path)])
    return items


def _leaf(leaf: Any, path: str, encoder: Encoder) -> tuple[str, Json]:
    if isinstance(leaf, Tracer):
        raise TracerError(f"save: a traced array has no numbers, at {path or 'the top'}: got {leaf.aval}; save outside")
    if isinstance(leaf, NUMBERS) and not isinstance(leaf, np.generic):
        return "number", encoder.value(leaf, path)
    kind = "array" if isinstance(leaf, Array) else "scalar" if isinstance(leaf, np.generic) else "ndarray"
    return kind, encoder.array(leaf, path)


def _node(node: Node, path: str, encoder: Encoder) -> Json:
    if isinstance(node, SequenceNode):
        return [node.kind.__name__, node.arity]
    if isinstance(node, DictNode):
        return ["dict", [encoder.value(key, path) for key in node.order]]
    if isinstance(node, RecordNode):
        return ["class", encoder.name(node.kind, path), list(node.names)]
    raise TreeError(
        f"save: a container that no file can hold, at {path or 'the top'}: got {node!r}; use a frozen class"
    )


# --- reading


def read_tree(items: Json, decoder: Decoder) -> Any:
    """Return the tree of a structure.

    Raises:
        FileFormatError: a list that is no structure, a name that is not allowed, or a class with other fields.
    """
    if not _parts(items):
        raise FileFormatError("load: the file holds no tree: got an empty structure; was it written by afx.io.save?")
    built: list[Any] = []  # what is built, the last in front
    for item in reversed(_parts(items)):
        match _parts(item):
            case ("leaf", kind, value):
                built.append(_read_leaf(kind, value, decoder))
            case ("static", value):
                built.append(decoder.value(value))
            case ("class", name, fields):
                names = _parts(fields)
                if len(set(names)) != len(names):
                    raise FileFormatError(f"load: a field twice: got {item!r}; {_FORGED}")
                children = _take(built, len(names), item)
                built.append(build_record(decoder.record(name), dict(zip(names, children, strict=True))))
            case _:
                node = _read_node(item, decoder)
                built.append(node.build(_take(built, node.arity, item)))
    if len(built) != 1:
        raise FileFormatError(f"load: a structure of more than one tree: got {len(built)}; {_FORGED}")
    _check(built[0])
    return built[0]


def _take(built: list[Any], count: int, item: Json) -> list[Any]:
    """Take as many children off, the first in front."""
    if len(built) < count:
        raise FileFormatError(f"load: a node without its children: got {item!r}; {_FORGED}")
    children = built[: -count - 1 : -1]
    del built[len(built) - count :]
    return children


def _read_leaf(kind: str, value: Json, decoder: Decoder) -> Any:
    if kind == "number":
        return decoder.value(value)
    array = decoder.array(value)
    if kind == "array":
        return decoder.shared(value, wrap)
    return array if kind == "ndarray" else array[()]


def _read_node(item: Json, decoder: Decoder) -> Node:
    match _parts(item):
        case ("tuple", size) if _is_size(size):
            return sequence_node(tuple, size)
        case ("list", size) if _is_size(size):
            return sequence_node(list, size)
        case ("dict", keys):
            return dict_node(tuple([decoder.value(key) for key in keys]))
        case _:
            raise FileFormatError(f"load: an item of no known kind: got {item!r}; {_FORGED}")


def _parts(item: Json) -> tuple[Json, ...]:
    """Return the members of a JSON list; of anything else none."""
    return tuple(item) if isinstance(item, list) else ()  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]  # JSON


def _is_size(size: Json) -> bool:
    return type(size) is int and size >= 0


def _check(tree: Any) -> None:
    """Take the tree apart again: what is no tree, such as a class that is not frozen, is refused here."""
    try:
        flatten(tree)
    except TreeError as error:
        raise FileFormatError(f"load: the file describes no tree ({error}): got its structure; {_FORGED}") from None


_FORGED: Final = "the header was changed by hand, or written by a newer version of afx"
