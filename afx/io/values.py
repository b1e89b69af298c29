"""Values: constituents of tree structures and graph parameters, as JSON and back.

JSON's own null, booleans, integers and strings stand for themselves; everything else is an object with one key that
says what it is, such as ``{"float": "0.1"}`` or ``{"function": "afx.nn:relu"}``.
"""

from __future__ import annotations

import base64
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final, TypeAlias

import attrs
import numpy as np

from afx.core.aval import Aval, aval_of
from afx.core.graph import Constant, Equation, Graph, Literal, Var, check
from afx.core.primitive import Primitive, lookup
from afx.errors import AfxError, FileFormatError, TreeError
from afx.io.naming import Names, name_of
from afx.pytree.nodes import RecordNode, class_node, named_tuple_node
from afx.transforms.compiled_call import CompiledGraph

__all__ = ["Decoder", "Encoder", "Json", "check_fields", "record_node"]

Json: TypeAlias = Any  # what JSON can say: no narrower type is recursive for both checkers
Ndarray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


class Encoder:
    """Writes values as JSON and collects the arrays among them, each once, under names that tell where they stand."""

    def __init__(self) -> None:
        self.arrays: dict[str, Ndarray] = {}
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
        return name

    def name(self, thing: object, path: str) -> str:
        """Return the name by which a class or function is found again."""
        return name_of(thing, path)

    def value(self, value: Any, path: str) -> Json:
        """Return a static value as JSON.

        Raises:
            TreeError: a value that no file can hold, such as a lambda.
        """
        kind: Any = value.__class__
        if value is None or kind in (bool, int, str):
            return value
        for known, write in _WRITERS:
            if isinstance(value, known):
                return write(self, value, path)
        if attrs.has(kind):
            return {"record": name_of(kind, path), "values": self._fields(value, path)}
        if callable(value):
            return {"function": name_of(value, path)}
        raise TreeError(
            f"save: a value that no file can hold, at {path or 'the top'}: got {kind.__qualname__}; "
            "make it an array, a number, a string, a named function or a frozen class of such values"
        )

    def _fields(self, value: Any, path: str) -> dict[str, Json]:
        kind: Any = value.__class__
        names = record_node(kind).names
        return {name: self.value(getattr(value, name), f"{path}.{name}") for name in names}

    def _tuple(self, value: tuple[Any, ...], path: str) -> Json:
        if hasattr(value, "_fields"):
            return {"record": name_of(type(value), path), "values": self._fields(value, path)}
        return {"tuple": [self.value(item, f"{path}[{k}]") for k, item in enumerate(value)]}

    def _partial(self, value: functools.partial[Any], path: str) -> Json:
        return {
            "partial": self.value(value.func, path),
            "args": [self.value(item, path) for item in value.args],
            "keywords": {name: self.value(item, path) for name, item in value.keywords.items()},
        }

    def _graph(self, graph: Graph, path: str) -> Json:
        return {
            "graph": [_aval(var.aval) for var in graph.inputs],
            "constants": [self.array(constant.value, f"{path}constant") for _, constant in graph.constants],
            "equations": [
                {
                    "primitive": eq.primitive.name,
                    "inputs": [self._atom(atom, path) for atom in eq.inputs],
                    "outputs": [_aval(var.aval) for var in eq.outputs],
                    "params": {name: self.value(item, f"{path}{eq.primitive.name}.{name}") for name, item in eq.params},
                    "ignored_fp_errors": list(eq.ignored_fp_errors),
                }
                for eq in graph.equations
            ],
            "outputs": [self._atom(atom, path) for atom in graph.outputs],
        }

    def _atom(self, atom: Any, path: str) -> Json:
        if hasattr(atom, "index"):
            return atom.index
        return {"literal": self.value(atom.value, path), "aval": _aval(atom.aval)}


def _aval(aval: Aval) -> Json:
    return [aval.dtype.str, list(aval.shape), aval.weak]


def _read_aval(item: Json) -> Aval:
    dtype, shape, weak = item
    return Aval(tuple(map(int, shape)), np.dtype(str(dtype)), bool(weak))


def _member_name(path: str, number: int, taken: Mapping[str, object]) -> str:
    """Return the key path as the name of an archive's member, where it is a plain one."""
    name = path.removeprefix(".").replace("'", "") or "value"
    plain = all(c.isalnum() or c in "._[]-" for c in name) and name.isascii() and ".." not in name and name[0] != "."
    return name if plain and len(name) < 200 and name not in taken else f"array_{number}"


_WRITERS: Final[tuple[tuple[Any, Callable[[Encoder, Any, str], Json]], ...]] = (
    (Enum, lambda e, v, path: {"enum": name_of(type(v), path), "name": v.name}),
    ((bool, np.bool_), lambda e, v, path: bool(v)),
    (float, lambda e, v, path: {"float": repr(float(v))}),
    (complex, lambda e, v, path: {"complex": [repr(v.real), repr(v.imag)]}),
    (bytes, lambda e, v, path: {"bytes": base64.b64encode(v).decode()}),
    (np.dtype, lambda e, v, path: {"dtype": v.str}),
    (np.ndarray, lambda e, v, path: {"array": e.array(v, path)}),
    (np.generic, lambda e, v, path: {"scalar": e.array(v, path)}),
    (Primitive, lambda e, v, path: {"primitive": v.name}),
    (Graph, lambda e, v, path: e._graph(v, path)),
    (CompiledGraph, lambda e, v, path: {"program": e._graph(v.graph, path)}),
    (tuple, lambda e, v, path: e._tuple(v, path)),
    (frozenset, lambda e, v, path: {"frozenset": [e.value(x, path) for x in sorted(v, key=repr)]}),
    (range, lambda e, v, path: {"range": [v.start, v.stop, v.step]}),
    (type, lambda e, v, path: {"class": name_of(v, path)}),
    (functools.partial, lambda e, v, path: e._partial(v, path)),
)


class Decoder:
    """Reads values from JSON, with the arrays of the file and the names that it may use."""

    def __init__(self, arrays: Mapping[str, Ndarray], names: Names) -> None:
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

    def record(self, name: object, what: str = "class") -> Any:
        """Return a class that may stand in a tree: a frozen attrs class or a named tuple."""
        found: Any = self.names.find(name, what)
        if not inspect.isclass(found) or not (
            attrs.has(found) or (tuple in found.__mro__ and hasattr(found, "_fields"))
        ):
            raise FileFormatError(f"load: {name} is no frozen class: got {found!r}; {_FORGED}")
        return found

    def build(self, value: Json) -> Any:
        """Build the instance of a class without its ``__init__``."""
        cls, values = self.record(value["record"]), value["values"]
        node = record_node(cls)
        check_fields(cls, node.names, tuple(values))
        return node.build([self.value(values[name]) for name in node.names])

    def function(self, name: object) -> Any:
        """Return a function of a module that is allowed."""
        found = self.names.find(name, "function")
        if not isinstance(found, FunctionType | BuiltinFunctionType | np.ufunc) and not callable(found):
            raise FileFormatError(f"load: {name} is no function: got {found!r}; {_FORGED}")
        return found

    def graph(self, value: Json) -> Graph:
        """Return a graph, checked equation by equation.

        Raises:
            FileFormatError: an op that this afx does not have, or equations that do not fit.
        """
        try:
            avals = [_read_aval(item) for item in value["graph"]]
            names = value["constants"]
            numbers = itertools.count()
            inputs = tuple([Var(next(numbers), aval) for aval in avals])
            arrays = [self.array(name) for name in names]
            constants = tuple([(Var(next(numbers), aval_of(array)), Constant(array)) for array in arrays])
            known: list[Var] = [*inputs, *[var for var, _ in constants]]
            equations = [self._equation(item, known, numbers) for item in value["equations"]]
            graph = Graph(inputs, constants, tuple(equations), tuple([self._atom(a, known) for a in value["outputs"]]))
            check(graph)
        except (AfxError, KeyError, IndexError, TypeError, ValueError) as error:
            raise FileFormatError(
                f"load: a graph that does not hold together ({error}): got its equations; {_FORGED}"
            ) from error
        return graph

    def _equation(self, item: Json, known: list[Var], numbers: Iterator[int]) -> Equation:
        inputs = tuple([self._atom(atom, known) for atom in item["inputs"]])
        outputs = tuple([Var(next(numbers), _read_aval(aval)) for aval in item["outputs"]])
        params = tuple([(str(name), self.value(param)) for name, param in item["params"].items()])
        known.extend(outputs)
        return Equation(
            self.primitive(item["primitive"]),
            inputs,
            outputs,
            params,
            ignored_fp_errors=tuple(item["ignored_fp_errors"]),
        )

    def _atom(self, item: Json, known: Sequence[Var]) -> Var | Literal:
        return known[item] if isinstance(item, int) else Literal(self.value(item["literal"]), _read_aval(item["aval"]))

    def primitive(self, name: object) -> Primitive:
        """Return a primitive by its name."""
        try:
            return lookup(str(name))
        except KeyError:
            raise FileFormatError(f"load: afx has no op of this name: got {name!r}; {_FORGED}") from None

    def enum(self, value: Json) -> Any:
        """Return a member of an enumeration."""
        cls = self.names.find(value["enum"], "class")
        if not (isinstance(cls, type) and issubclass(cls, Enum)) or value["name"] not in cls.__members__:
            raise FileFormatError(f"load: {value['enum']} has no member {value['name']!r}: got {cls!r}; {_FORGED}")
        return cls[value["name"]]


def record_node(cls: type) -> RecordNode:
    """Return the node of a frozen attrs class or of a named tuple."""
    return class_node(cls) if attrs.has(cls) else named_tuple_node(cls)


def check_fields(cls: type, now: tuple[str, ...], saved: tuple[str, ...]) -> None:
    """Compare the fields of a class with those that it had when the file was saved.

    Raises:
        FileFormatError: they differ.
    """
    if now != saved:
        missing, extra = [n for n in now if n not in saved], [n for n in saved if n not in now]
        raise FileFormatError(
            f"load: the fields of {cls.__qualname__} changed since it was saved: got {list(saved)} for {list(now)} "
            f"(new: {missing}, gone: {extra}); pass allow=[...] with a class of the old fields under the old name"
        )


_FORGED: Final = "the header was changed by hand, or written by a newer version of afx"

_READERS: Final[dict[str, Callable[[Decoder, Any], Any]]] = {
    "float": lambda d, v: float(v["float"]),
    "complex": lambda d, v: complex(float(v["complex"][0]), float(v["complex"][1])),
    "bytes": lambda d, v: base64.b64decode(v["bytes"], validate=True),
    "dtype": lambda d, v: np.dtype(str(v["dtype"])),
    "array": lambda d, v: d.array(v["array"]),
    "scalar": lambda d, v: d.array(v["scalar"])[()],
    "tuple": lambda d, v: tuple(d.value(item) for item in v["tuple"]),
    "frozenset": lambda d, v: frozenset(d.value(item) for item in v["frozenset"]),
    "range": lambda d, v: range(*v["range"]),
    "class": lambda d, v: d.names.find(v["class"], "class"),
    "enum": lambda d, v: d.enum(v),
    "record": lambda d, v: d.build(v),
    "function": lambda d, v: d.function(v["function"]),
    "primitive": lambda d, v: d.primitive(v["primitive"]),
    "graph": lambda d, v: d.graph(v),
    "program": lambda d, v: CompiledGraph(d.graph(v["program"])),
    "partial": lambda d, v: functools.partial(
        d.value(v["partial"]),
        *[d.value(item) for item in v["args"]],
        **{name: d.value(item) for name, item in v["keywords"].items()},
    ),
}
