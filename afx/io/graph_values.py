"""Graph values: graphs as JSON and back, every part of what is read checked against what a trace can give."""

from __future__ import annotations

import importlib
import itertools
import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeGuard

import numpy as np

from afx.compiler.schedule.schedule import check_operands
from afx.core import Aval, Primitive, aval_of, check_dtype, lookup
from afx.core.graph import Atom, Constant, Equation, Graph, Literal, Var, check
from afx.errors import FileFormatError, GraphError
from afx.io.archive import read_dtype
from afx.io.naming import AllowedNames

# --- Graph checks: parameters of equations in the form that traces give them, so that results are as their Avals say
#
# Rules of ops take parameters as public functions have made them: axes counted from the front, slices within their
# axis, windows that fit. Machine code trusts the Avals that follow from them. A file may say anything.

Avals: TypeAlias = Sequence[Aval]
Params: TypeAlias = Mapping[str, Any]
_Rule: TypeAlias = Callable[[Any, Avals, str], bool]
FROM_THE_BACK: Final = frozenset(
    {"argmax", "argmin", "argsort", "fft", "ifft", "irfft", "nanargmax", "nanargmin", "rfft", "sort"}
)
WORDS: Final[Mapping[str, frozenset[str]]] = {
    "norm": frozenset({"backward", "forward", "ortho"}),
    "side": frozenset({"left", "right"}),
}


def check_equation(eq: Equation) -> None:
    """Verify an equation of a file beyond the Avals that its op gives.

    Raises:
        GraphError: parameters that no trace gives, or operands that do not fit them or the graphs they hold.
    """
    params, avals, control = eq.keywords, eq.avals, eq.primitive.lowering.control
    if control is not None:
        check_operands(control(params), avals, str(eq))
        return
    if eq.primitive.name == "call":
        inputs = params["program"].graph.inputs
        _require([(a.shape, a.dtype) for a in avals] == [(v.aval.shape, v.aval.dtype) for v in inputs], "operands", eq)
        return
    for name, value in params.items():
        _require(name not in _PARAMETERS or _PARAMETERS[name](value, avals, eq.primitive.name), name, eq)
    fits = _FITS.get(eq.primitive.name)
    _require(fits is None or fits(params, avals), "operands", eq)


def _require(holds: bool, what: str, eq: Equation) -> None:
    if not holds:
        raise GraphError(f"check: {what} of `{eq}` are none that a trace gives; trace the function again")


# --- parameters, by their names


def _is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    return isinstance(value, tuple)


def _are_integers(value: Any, least: int) -> bool:
    return _is_tuple(value) and all(type(item) is int and item >= least for item in value)


def _is_axis(value: Any, avals: Avals, op: str) -> bool:
    axes = len(avals[0].shape) + (op == "stack")
    if _is_tuple(value):
        axes += len(value) if op == "put_into_window" else 0
        return _are_integers(value, 0) and list(value) == sorted({a for a in value if a < axes})
    if op in ("scatter", "scatter_unread"):
        return type(value) is int and value >= 0  # compared with the shape below
    return type(value) is int and (-axes <= value < 0 if op in FROM_THE_BACK else 0 <= value < axes)


def _are_pairs(value: Any, avals: Avals, op: str) -> bool:
    return _is_tuple(value) and all(_are_integers(pair, -(1 << 31)) and len(pair) == 2 for pair in value)


def _is_flag(value: Any, avals: Avals, op: str) -> bool:
    return type(value) is bool or (op == "solve_banded" and type(value) is int and 0 <= value < avals[0].shape[-2])


def _is_word(choices: frozenset[str]) -> _Rule:
    return lambda value, avals, op: value in choices


_FLAGS: Final = ("full", "hermitian", "logarithm", "lower", "partial", "reverse", "unit", "upper")
_PARAMETERS: Final[Mapping[str, _Rule]] = {
    "axes": lambda v, avals, op: _are_integers(v, 0) and sorted(v) == list(range(len(avals[0].shape))),
    "axis": _is_axis,
    "dilation": lambda v, avals, op: _are_integers(v, 1),
    "dtype": lambda v, avals, op: isinstance(v, np.dtype),
    "groups": lambda v, avals, op: type(v) is int and v >= 1,
    "index": lambda v, avals, op: (
        _is_tuple(v) and all(k is None or type(k) is int or (_are_integers(k, -(1 << 48)) and len(k) == 3) for k in v)
    ),
    "n": lambda v, avals, op: type(v) is int and v >= (op == "irfft"),
    "padding": _are_pairs,
    "purpose": lambda v, avals, op: type(v) is int and v >= 0,
    "shape": lambda v, avals, op: _are_integers(v, 0),
    "shifts": lambda v, avals, op: _are_pairs(v, avals, op) and all(0 <= axis < len(avals[0].shape) for axis, _ in v),
    "sizes": lambda v, avals, op: _are_integers(v, 0),
    "stride": lambda v, avals, op: _are_integers(v, 1),
    "window": lambda v, avals, op: _are_integers(v, 1),
    **dict.fromkeys(_FLAGS, _is_flag),
    **dict.fromkeys(("eps", "power", "rcond"), lambda value, avals, op: type(value) in (int, float)),
    **{name: _is_word(words) for name, words in WORDS.items()},
}


# --- operands, by op


def _result(op: str, avals: Avals, **params: Any) -> tuple[int, ...]:
    inferred: Any = lookup(op).abstract_eval(*avals, **params)
    shape: tuple[int, ...] = inferred.shape
    return shape


def _convolves(p: Params, x: Aval, kernel: Aval, result: Aval | None) -> bool:
    axes, groups = len(x.shape) - 2, p["groups"]
    lengths = {len(p[name]) for name in ("stride", "dilation", "padding")}
    if lengths != {axes} or len(kernel.shape) != len(x.shape) or x.shape[-1] != kernel.shape[-2] * groups:
        return False
    where = {name: p[name] for name in ("stride", "dilation", "padding", "groups")}
    shape = _result("conv", [x, kernel], **where)
    return kernel.shape[-1] % groups == 0 and min(shape) >= 0 and (result is None or shape == result.shape)


def _columns(p: Params, x: Aval, columns: Aval | None) -> bool:
    where = {name: p[name] for name in ("window", "stride", "dilation", "padding")}
    if {len(value) for value in where.values()} != {len(x.shape) - 2}:
        return False
    shape = _result("im2col", [x], **where)
    return min(shape) >= 0 and (columns is None or shape == columns.shape)


def _is_reduced(x: Aval, axis: tuple[int, ...], z: Aval) -> bool:
    return tuple([n for k, n in enumerate(x.shape) if k not in axis]) == z.shape


def _lengths(xs: Avals, axis: int) -> tuple[int, ...]:
    return tuple([x.shape[axis] for x in xs])


def _like(shape: Sequence[int], x: Aval) -> Aval:
    return Aval(tuple(shape), x.dtype)


_FITS: Final[Mapping[str, Callable[[Params, Avals], bool]]] = {
    **dict.fromkeys(("gather", "select", "scatter", "scatter_unread"), lambda p, xs: len(xs) > 1),
    **dict.fromkeys(("index_add", "index_max", "index_min", "index_multiply", "index_set"), lambda p, xs: len(xs) > 2),
    "split": lambda p, xs: sum(p["sizes"]) == _lengths(xs, p["axis"])[0],
    "concat": lambda p, xs: _lengths(xs, p["axis"]) == p["sizes"],
    "stack": lambda p, xs: len({x.shape for x in xs}) == 1,
    "conv": lambda p, xs: _convolves(p, xs[0], xs[1], None),
    "conv_input": lambda p, xs: _convolves(p, _like(p["shape"], xs[0]), xs[1], xs[0]),
    "conv_kernel": lambda p, xs: _convolves(
        p, xs[0], _like((*p["window"], xs[0].shape[-1] // p["groups"], xs[1].shape[-1]), xs[0]), xs[1]
    ),
    "im2col": lambda p, xs: _columns(p, xs[0], None),
    "col2im": lambda p, xs: _columns(p, _like(p["shape"], xs[0]), xs[0]),
    "correlate": lambda p, xs: (
        len(xs[0].shape) == len(xs[1].shape) == 1 and (p["full"] or xs[0].size >= xs[1].size) and xs[1].size > 0
    ),
    "first_of_window": lambda p, xs: _is_reduced(xs[0], p["axis"], xs[1]),
    "pick_from_window": lambda p, xs: _is_reduced(xs[0], p["axis"], xs[1]) and xs[1].dtype.kind in "iu",
    "put_into_window": lambda p, xs: (
        xs[0].shape == xs[1].shape and xs[1].dtype.kind in "iu" and len(p["axis"]) == len(p["window"])
    ),
    "hermitian_function": lambda p, xs: len({x.shape for x in xs}) == 1,
    "random_orthogonal": lambda p, xs: len(p["shape"]) >= 2 and p["shape"][-1] == p["shape"][-2],
}


# --- Graph values
#
# Parameters of equations reach compiled programs as text, and machine code takes shapes as they stand. So a graph of
# a file holds numbers, dtypes, plain words and further graphs; functions and classes only where the caller allowed
# them.

Json: TypeAlias = Any
WORD: Final = re.compile(r"[\w .,>+*-]*", re.ASCII)  # no text that calls anything, wherever it is put in
FP_ERRORS: Final = frozenset({"all", "divide", "over", "under", "invalid"})
RECORDS: Final = frozenset(  # what ops of afx keep in parameters
    {
        "afx.control.while_loop:WhileLoop",
        "afx.ops.linalg.matrix_functions:Exponential",
        "afx.ops.linalg.matrix_functions:Logarithm",
        "afx.ops.linalg.matrix_functions:Power",
    }
)


class ValueWriter(Protocol):
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


class NamesInGraphs(AllowedNames):
    """The classes and functions that parameters may use: a few records of afx, and what was allowed by name."""

    def __init__(self, names: AllowedNames) -> None:
        super().__init__(())
        self.entries: dict[str, Any] = names.entries

    def find(self, text: object, what: str) -> Any:
        """Return the class or function of this name; raises as `AllowedNames.find` does."""
        module, _, name = str(text).partition(":")
        if f"{module}:{name}" in RECORDS:
            return getattr(importlib.import_module(module), name)
        return self.find_allowed(text, what)


# --- writing


def write_graph(graph: Graph, path: str, writer: ValueWriter) -> Json:
    """Return a graph as JSON, its constants collected by the writer."""
    return {
        "graph": [_write_aval(var.aval) for var in graph.inputs],
        "constants": [writer.array(constant.value, f"{path}constant") for _, constant in graph.constants],
        "equations": [_write_equation(eq, path, writer) for eq in graph.equations],
        "outputs": [_write_atom(atom, path, writer) for atom in graph.outputs],
    }


def _write_equation(eq: Equation, path: str, writer: ValueWriter) -> Json:
    return {
        "primitive": eq.primitive.name,
        "inputs": [_write_atom(atom, path, writer) for atom in eq.inputs],
        "outputs": [_write_aval(var.aval) for var in eq.outputs],
        "params": {name: writer.value(item, f"{path}{eq.primitive.name}.{name}") for name, item in eq.params},
        "ignored_fp_errors": list(eq.ignored_fp_errors),
    }


def _write_atom(atom: Atom, path: str, writer: ValueWriter) -> Json:
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
    known = [*inputs, *[var for var, _ in constants]]
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
