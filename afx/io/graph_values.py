"""Graph values: graphs as JSON and back, every part of what is read checked against what a trace can give.

Parameters of equations reach compiled programs as text, and machine code takes shapes as they stand. So a graph of a
file holds numbers, dtypes, plain words and further graphs; functions and classes only where the caller allowed them.
"""

from __future__ import annotations

import importlib
import itertools
import keyword
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from afx.core.aval import Aval, aval_of
from afx.core.dtypes import check_dtype
from afx.core.graph import Atom, Constant, Equation, Graph, Literal, Var, check
from afx.core.primitive import Primitive, lookup
from afx.errors import FileFormatError
from afx.io.archive import read_dtype
from afx.io.graph_checks import check_equation
from afx.io.naming import Names

__all__ = ["NamesInGraphs", "check_word", "read_graph", "read_primitive", "write_graph"]

Json: TypeAlias = Any
WORD: Final = re.compile(r"[\w .,>+*-]*", re.ASCII)  # no text that calls anything, wherever it is put in
FP_ERRORS: Final = frozenset({"all", "divide", "over", "under", "invalid"})
RECORDS: Final = frozenset(  # what ops of afx keep in parameters
    {
        "afx.control.while_graphs:WhileLoop",
        "afx.ops.linalg._divided_differences:Exponential",
        "afx.ops.linalg._divided_differences:Logarithm",
        "afx.ops.linalg._divided_differences:Power",
    }
)


class Writer(Protocol):
    """What writes the values within a graph."""

    def array(self, value: Any, path: str) -> str:
        """Collect an array and return its name."""
        ...

    def value(self, value: Any, path: str) -> Json:
        """Return a static value as JSON."""
        ...


class Reader(Protocol):
    """What reads the values within a graph."""

    def array(self, name: object) -> np.ndarray[Any, np.dtype[Any]]:
        """Return an array of the file."""
        ...

    def value(self, value: Json) -> Any:
        """Return a static value."""
        ...

    def parameter(self, value: Json) -> Any:
        """Return a parameter of an equation."""
        ...


class NamesInGraphs(Names):
    """The classes and functions that parameters may use: a few records of afx, and what was allowed by name."""

    def __init__(self, names: Names) -> None:
        super().__init__(())
        self.entries: dict[str, Any] = names.entries

    def find(self, text: object, what: str) -> Any:
        """Return the class or function of this name; raises as `Names.find` does."""
        if isinstance(text, str) and text in RECORDS:
            module, name = text.split(":")
            return getattr(importlib.import_module(module), name)
        return self.find_allowed(text, what)


# --- writing


def write_graph(graph: Graph, path: str, writer: Writer) -> Json:
    """Return a graph as JSON, its constants collected by the writer."""
    return {
        "graph": [_write_aval(var.aval) for var in graph.inputs],
        "constants": [writer.array(constant.value, f"{path}constant") for _, constant in graph.constants],
        "equations": [_write_equation(eq, path, writer) for eq in graph.equations],
        "outputs": [_write_atom(atom, path, writer) for atom in graph.outputs],
    }


def _write_equation(eq: Equation, path: str, writer: Writer) -> Json:
    return {
        "primitive": eq.primitive.name,
        "inputs": [_write_atom(atom, path, writer) for atom in eq.inputs],
        "outputs": [_write_aval(var.aval) for var in eq.outputs],
        "params": {name: writer.value(item, f"{path}{eq.primitive.name}.{name}") for name, item in eq.params},
        "ignored_fp_errors": list(eq.ignored_fp_errors),
    }


def _write_atom(atom: Atom, path: str, writer: Writer) -> Json:
    if isinstance(atom, Var):
        return atom.index
    return {"literal": writer.value(atom.value, path), "aval": _write_aval(atom.aval)}


def _write_aval(aval: Aval) -> Json:
    return [aval.dtype.str, list(aval.shape), aval.weak]


# --- reading


def read_graph(value: Json, reader: Reader) -> Graph:
    """Return a graph, checked equation by equation.

    Raises:
        FileFormatError: an op that this afx does not have, equations that do not fit, or a name that is not allowed.
    """
    try:
        graph = _read_graph(value, reader)
        check(graph)
        for eq in graph.equations:
            check_equation(eq)
    except FileFormatError:
        raise
    except Exception as error:  # whatever a rule of an op says about parameters that no trace gives
        raise FileFormatError(
            f"load: a graph that does not hold together ({type(error).__name__}: {error}): got its equations; {_FORGED}"
        ) from error
    return graph


def _read_graph(value: Json, reader: Reader) -> Graph:
    numbers = itertools.count()
    inputs = tuple([Var(next(numbers), _read_aval(item)) for item in value["graph"]])
    arrays = [reader.array(name) for name in value["constants"]]
    constants = tuple([(Var(next(numbers), aval_of(array)), Constant(array)) for array in arrays])
    known: list[Var] = [*inputs, *[var for var, _ in constants]]
    equations = [_read_equation(item, known, numbers, reader) for item in value["equations"]]
    return Graph(inputs, constants, tuple(equations), tuple([_read_atom(a, known, reader) for a in value["outputs"]]))


def _read_equation(item: Json, known: list[Var], numbers: Iterator[int], reader: Reader) -> Equation:
    primitive = read_primitive(item["primitive"])
    inputs = tuple([_read_atom(atom, known, reader) for atom in item["inputs"]])
    outputs = tuple([Var(next(numbers), _read_aval(aval)) for aval in item["outputs"]])
    params = tuple([(_read_key(name), reader.parameter(param)) for name, param in item["params"].items()])
    ignored = tuple(item["ignored_fp_errors"])
    if not FP_ERRORS.issuperset(ignored):
        raise FileFormatError(f"load: no names of floating-point errors: got {ignored!r}; {_FORGED}")
    known.extend(outputs)
    return Equation(primitive, inputs, outputs, params, ignored_fp_errors=ignored)


def read_primitive(name: object) -> Primitive:
    """Return a primitive by its name.

    Raises:
        FileFormatError: there is none.
    """
    try:
        return lookup(str(name))
    except KeyError:
        raise FileFormatError(f"load: afx has no op of this name: got {name!r}; {_FORGED}") from None


def _read_key(name: str) -> str:
    if not name.isidentifier() or keyword.iskeyword(name):
        raise FileFormatError(f"load: no name of a parameter: got {name!r}; {_FORGED}")
    return name


def check_word(text: str) -> str:
    """Return a text that may be a parameter: the name of a mode, of axes, of a distribution.

    Raises:
        FileFormatError: it has other characters than words have.
    """
    if WORD.fullmatch(text) is None:
        raise FileFormatError(f"load: a parameter that is no word: got {text!r}; {_FORGED}")
    return text


def _read_aval(item: Json) -> Aval:
    dtype, shape, weak = item
    if any(type(length) is not int or not 0 <= length < 1 << 48 for length in shape) or type(weak) is not bool:
        raise FileFormatError(f"load: no shape and dtype of an array: got {item!r}; {_FORGED}")
    return Aval(tuple(shape), check_dtype(read_dtype(dtype), "load"), weak)


def _read_atom(item: Json, known: Sequence[Var], reader: Reader) -> Atom:
    if type(item) is int:
        if not 0 <= item < len(known):
            raise FileFormatError(f"load: a variable that is not defined: got number {item}; {_FORGED}")
        return known[item]
    value, aval = reader.value(item["literal"]), _read_aval(item["aval"])
    if not isinstance(value, bool | int | float | complex | np.generic) or aval.shape:
        raise FileFormatError(f"load: a literal that is no number: got {item!r}; {_FORGED}")
    np.array(value, aval.dtype)  # raises where the dtype does not hold the number
    return Literal(value, aval)  # type: ignore[arg-type]  # a scalar of NumPy computes as a number


_FORGED: Final = "the header was changed by hand, or written by a newer version of afx"
