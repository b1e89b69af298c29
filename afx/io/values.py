"""Values: trees without their arrays, and constituents of structures and graph parameters, as JSON and back."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

import attrs
import numpy as np

from afx.core import Array, Ndarray, Primitive, Tracer, wrap
from afx.core.graph import Graph
from afx.errors import FileFormatError, TracerError, TreeError
from afx.io.archive import read_dtype
from afx.io.graph_values import NamesInGraphs, check_word, read_graph, read_primitive, write_graph
from afx.io.naming import AllowedNames, RefusedNameError, find_public, is_allowed, is_tree_class, name_of
from afx.pytree.nodes import (
    LEAF,
    DictNode,
    Node,
    RecordNode,
    SequenceNode,
    class_node,
    dict_node,
    named_tuple_node,
    sequence_node,
)
from afx.pytree.treedef import flatten, leaves, trails
from afx.transforms.compile.compiled_call import CompiledGraph

# --- Values: constituents of tree structures and graph parameters, as JSON and back
#
# JSON's own null, booleans, integers and strings stand for themselves; everything else is an object with one key that
# says what it is, such as ``{"float": "0.1"}`` or ``{"function": "afx.nn:relu"}``.

Json: TypeAlias = Any  # what JSON can say: no narrower type is recursive for both checkers


def check_unmasked(tree: object, who: str) -> None:
    """Refuse a tree with a masked array, whose mask would be lost."""
    if any(isinstance(leaf, np.ma.MaskedArray) for leaf in leaves(tree)):
        raise TreeError(f"{who}: a masked array would lose its mask: got one; call .filled() first")


class Encoder:
    """Writes values as JSON and collects the arrays among them, each once, under names that tell where they stand."""

    def __init__(self) -> None:
        self.arrays: dict[str, Ndarray] = {}
        self.named: dict[str, Any] = {}  # classes and functions by the names under which they are found again
        self._names: dict[int, str] = {}  # by the identity of arrays that self._kept keeps alive
        self._kept: list[object] = []

    def array(self, value: Any, path: str) -> str:
        """Collect an array and return its name; one that the tree holds twice is kept once."""
        name = self._names.get(id(value))
        if name is None:
            name = _member_name(path, len(self.arrays), self.arrays)
            self._names[id(value)] = name
            self._kept.append(value)
            self.arrays[name] = np.asarray(value)
            check_unmasked(value, f"save{path and f', at {path}'}")
        return name

    def name(self, thing: object, path: str) -> str:
        """Return the name by which a class or function is found again."""
        name = name_of(thing, path)
        self.named[name] = thing
        return name

    def value(self, value: Any, path: str) -> Json:
        """Return a static value as JSON.

        Raises:
            TreeError: a value that no file can hold, such as a lambda.
        """
        kind = value.__class__
        if value is None or kind in (bool, int, str):
            return value
        for known, write in _WRITERS:
            if isinstance(value, known):
                return write(self, value, path)
        if attrs.has(kind):
            return {"record": self.name(kind, path), "values": self._fields(value, path)}
        if callable(value):
            return {"function": self.name(value, path)}
        raise TreeError(
            f"save: a value that no file can hold, at {path or 'the top'}: got {kind.__qualname__}; "
            "make it an array, a number, a string, a named function or a frozen class of such values"
        )

    def _fields(self, value: Any, path: str) -> dict[str, Json]:
        names = record_node(value.__class__).names
        return {name: self.value(getattr(value, name), f"{path}.{name}") for name in names}

    def _tuple(self, value: tuple[Any, ...], path: str) -> Json:
        if hasattr(value, "_fields"):
            return {"record": self.name(type(value), path), "values": self._fields(value, path)}
        return {"tuple": [self.value(item, f"{path}[{k}]") for k, item in enumerate(value)]}

    def _partial(self, value: functools.partial[Any], path: str) -> Json:
        return {
            "partial": self.value(value.func, path),
            "args": [self.value(item, path) for item in value.args],
            "keywords": {name: self.value(item, path) for name, item in value.keywords.items()},
        }


class TreeEncoder(Encoder):
    """An encoder of files that hold no graph: of afx they name what `load` takes from every file, the closed list."""

    def name(self, thing: object, path: str) -> str:
        """Return the name by which a class or function is found again.

        Raises:
            TreeError: a part of afx that `load` would refuse.
        """
        name = super().name(thing, path)
        is_own = name.partition(":")[0].partition(".")[0] == "afx"
        if is_own and not (find_public(name) or is_allowed(name)):
            raise TreeError(
                f"save: a part of afx that no file may name, at {path or 'the top'}: got {name}; save the arrays and "
                "settings that it is made from, or call it in a function of your own module"
            )
        return name


def _member_name(path: str, number: int, taken: Mapping[str, object]) -> str:
    """Return the key path as the name of an archive's member, where it is a plain one."""
    name = path.removeprefix(".").replace("'", "") or "value"
    plain = all(c.isalnum() or c in "._[]-" for c in name) and name.isascii() and ".." not in name and name[0] != "."
    if plain and len(name) < 200 and name not in taken:
        return name
    while (free := f"array_{number}") in taken:  # as the name of a field
        number += 1
    return free


_WRITERS: Final[tuple[tuple[Any, Callable[[Encoder, Any, str], Json]], ...]] = (
    (Enum, lambda e, v, path: {"enum": e.name(v.__class__, path), "name": v.name}),
    ((bool, np.bool_), lambda e, v, path: bool(v)),
    (float, lambda e, v, path: {"float": repr(float(v))}),
    (complex, lambda e, v, path: {"complex": [repr(v.real), repr(v.imag)]}),
    (bytes, lambda e, v, path: {"bytes": base64.b64encode(v).decode()}),
    (np.dtype, lambda e, v, path: {"dtype": v.str}),
    (np.ndarray, lambda e, v, path: {"array": e.array(v, path)}),
    (np.generic, lambda e, v, path: {"scalar": e.array(v, path)}),
    (Primitive, lambda e, v, path: {"primitive": v.name}),
    (Graph, lambda e, v, path: write_graph(v, path, e)),
    (CompiledGraph, lambda e, v, path: {"program": write_graph(v.graph, path, e)}),
    (tuple, lambda e, v, path: e._tuple(v, path)),
    (frozenset, lambda e, v, path: {"frozenset": [e.value(x, path) for x in sorted(v, key=repr)]}),
    (range, lambda e, v, path: {"range": [v.start, v.stop, v.step]}),
    (type, lambda e, v, path: {"class": e.name(v, path)}),
    (functools.partial, lambda e, v, path: e._partial(v, path)),
)


class Decoder:
    """Reads values from JSON, with the arrays of the file and the names that it may use."""

    def __init__(self, arrays: Mapping[str, Ndarray], names: AllowedNames) -> None:
        self.arrays = arrays
        self.names = names
        self._shared: dict[str, Any] = {}

    def array(self, name: object) -> Ndarray:
        """Return an array of the file.

        Raises:
            FileFormatError: the file has none of this name.
        """
        if not isinstance(name, str) or name not in self.arrays:
            raise FileFormatError(f"load: the structure names an array that is missing: got {name!r}; {_FORGED}")
        return self.arrays[name]

    def shared(self, name: str, make: Callable[[Ndarray], Any]) -> Any:
        """Return what is made of an array of the file, the same for every reference to it."""
        if name not in self._shared:
            self._shared[name] = make(self.arrays[name])
        return self._shared[name]

    def value(self, value: Json) -> Any:
        """Return a static value.

        Raises:
            FileFormatError: no value of this format, or a name that is not allowed.
        """
        if value is None or type(value) in (bool, int, str):
            return value
        if isinstance(value, dict):
            for key in value:  # pyright: ignore[reportUnknownVariableType]  # JSON
                if key in _READERS:
                    return _READERS[key](self, value)
        raise FileFormatError(f"load: a value of no known kind: got {value!r}; {_FORGED}")

    def record(self, name: object) -> Any:
        """Return a class that may stand in a tree: a frozen attrs class or a named tuple."""
        cls = self.names.find(name, "class")
        if not is_tree_class(cls) or issubclass(cls, Enum):
            raise FileFormatError(f"load: {name} is no frozen class: got {cls!r}; {_FORGED}")
        return cls

    def build(self, value: Json) -> Any:
        """Build the instance of a class without its ``__init__``."""
        cls, values = self.record(value["record"]), value["values"]
        return build_record(cls, {name: self.value(item) for name, item in values.items()})

    def function(self, name: object) -> Any:
        """Return a function of the closed list, or one that is allowed."""
        function = self.names.find(name, "function")
        if not callable(function):
            raise FileFormatError(f"load: {name} is no function: got {function!r}; {_FORGED}")
        return function

    def parameter(self, value: Json) -> Any:
        """Return a parameter of an equation: plain data, and what was allowed by name."""
        return _ParameterDecoder(self.arrays, NamesInGraphs(self.names)).value(value)

    def enum(self, value: Json) -> Any:
        """Return a member of an enumeration."""
        cls = self.names.find(value["enum"], "class")
        if not (isinstance(cls, type) and issubclass(cls, Enum)) or value["name"] not in cls.__members__:
            raise FileFormatError(f"load: {value['enum']} has no member {value['name']!r}: got {cls!r}; {_FORGED}")
        return cls[value["name"]]


class _ParameterDecoder(Decoder):
    """Reads parameters of equations, whose texts are words."""

    def value(self, value: Json) -> Any:
        return check_word(value) if isinstance(value, str) else super().value(value)


def record_node(cls: type) -> RecordNode:
    """Return the node of a frozen attrs class or of a named tuple."""
    return class_node(cls) if attrs.has(cls) else named_tuple_node(cls)


def build_record(cls: type, values: Mapping[str, Any]) -> Any:
    """Build the instance of a class from its fields by name, in whatever order; new fields take their defaults.

    Raises:
        FileFormatError: the class lacks a field that was saved, or has a new one without a default.
    """
    node = record_node(cls)
    missing, extra = [n for n in node.names if n not in values], [n for n in values if n not in node.names]
    defaults = _defaults(cls)
    if extra or not defaults.keys() >= set(missing):
        raise RefusedNameError(
            f"load: the fields of {cls.__qualname__} changed since it was saved: got {list(values)} for {list(node.names)} "
            f"(new: {missing}, gone: {extra}); give new fields defaults, or pass allow=[...] with a class of the old "
            "fields under the old name"
        )
    return node.build([values[name] if name in values else defaults[name]() for name in node.names])


def _defaults(cls: type) -> dict[str, Callable[[], Any]]:
    """Return functions that make the default of each field that has one, as the class itself would."""
    if not attrs.has(cls):
        known = getattr(cls, "_field_defaults", {})
        return {name: functools.partial(_constant, value) for name, value in known.items()}
    return {
        field.name: functools.partial(_default_of, field)
        for field in attrs.fields(cls)
        if field.default is not attrs.NOTHING and not getattr(field.default, "takes_self", False)
    }


def _constant(value: Any) -> Any:
    return value


def _default_of(field: Any) -> Any:
    value = field.default.factory() if hasattr(field.default, "factory") else field.default
    return value if field.converter is None else field.converter(value)


_FORGED: Final = "the header was changed by hand, or written by a newer version of afx"

_READERS: Final[dict[str, Callable[[Decoder, Any], Any]]] = {
    "float": lambda d, v: float(v["float"]),
    "complex": lambda d, v: complex(float(v["complex"][0]), float(v["complex"][1])),
    "bytes": lambda d, v: base64.b64decode(v["bytes"], validate=True),
    "dtype": lambda d, v: read_dtype(v["dtype"]),
    "array": lambda d, v: d.array(v["array"]),
    "scalar": lambda d, v: d.array(v["scalar"])[()],
    "tuple": lambda d, v: tuple(map(d.value, v["tuple"])),
    "frozenset": lambda d, v: frozenset(map(d.value, v["frozenset"])),
    "range": lambda d, v: range(*v["range"]),
    "class": lambda d, v: d.names.find(v["class"], "class"),
    "enum": lambda d, v: d.enum(v),
    "record": lambda d, v: d.build(v),
    "function": lambda d, v: d.function(v["function"]),
    "primitive": lambda d, v: read_primitive(v["primitive"]),
    "graph": lambda d, v: read_graph(v, d),
    "program": lambda d, v: CompiledGraph(read_graph(v["program"], d)),
    "partial": lambda d, v: functools.partial(
        d.value(v["partial"]),
        *[d.value(item) for item in v["args"]],
        **{name: d.value(item) for name, item in v["keywords"].items()},
    ),
}


# --- Structure: a tree without its arrays, as a flat list of JSON items in preorder
#
# An item is a node (``["tuple", 2]``, ``["list", 3]``, ``["dict", keys]``, ``["class", name, fields]``), whose
# children follow; a leaf (``["leaf", kind, value]``); or a static value (``["static", value]``). Neither depth nor
# length is limited by recursion.

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
    kind: Any = getattr(node, "kind", type(node))
    raise TreeError(
        f"save: a container that no file can hold, at {path or 'the top'}: got {kind.__name__}; use a frozen class"
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
            return dict_node(tuple(map(decoder.value, keys)))
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
