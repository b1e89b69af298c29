"""SymPy form: a traced function of few numbers as expressions, to be read, printed as LaTeX and calculated with."""

from __future__ import annotations

import functools
import importlib
import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from afx import pytree
from afx.core import DType, Function, Primitive
from afx.core.graph import Equation, Literal
from afx.errors import ExportError, MissingExtraError
from afx.export.templates import Names, NoTemplateError, Table, Template, Texts, Walk
from afx.export.traced import Slot, trace_program
from afx.ops.indexing.index import native

# --- Table of SymPy: operations on arrays of expressions, element by element

DENOMINATOR = 1000  # largest of a fraction that a number is shown as, where that rounds to it
ROUNDING = 1.5  # last digits that make no difference: constants are computed


def load_sympy() -> Any:
    """Return SymPy.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return importlib.import_module("sympy")
    except ImportError:
        raise MissingExtraError("to_sympy: needs SymPy: pip install 'afx[sympy]'") from None


def to_number(value: Any, dtype: DType) -> Any:
    """Return a number of SymPy's: a fraction, or one times π or a root of it, where that rounds to the value.

    >>> import math
    >>> [to_number(x, np.dtype("float64")) for x in (0.1, 2 / 3, -math.pi / 2, 1 / math.sqrt(2 * math.pi))]
    [1/10, 2/3, -pi/2, sqrt(2)/(2*sqrt(pi))]
    """
    sympy = load_sympy()
    if dtype.kind == "b":
        return sympy.true if value else sympy.false
    if dtype.kind == "c":
        real = np.dtype("float64" if dtype.itemsize == 16 else "float32")
        return to_number(value.real, real) + sympy.I * to_number(value.imag, real)
    if dtype.kind in "iu":
        return sympy.Integer(int(value))
    number = float(value)
    if not math.isfinite(number):
        return sympy.nan if math.isnan(number) else sympy.oo * (1 if number > 0 else -1)
    if number == 0:
        return sympy.Integer(0)
    root = sympy.sqrt(sympy.pi)
    for unit in (sympy.Integer(1), sympy.pi, sympy.log(2), sympy.sqrt(2), root, 1 / root, sympy.sqrt(2) / root):
        fraction = Fraction(number / float(unit)).limit_denominator(DENOMINATOR)
        candidate = float(fraction) * float(unit)
        if abs(candidate - number) <= ROUNDING * float(np.spacing(dtype.type(abs(number)))):
            return sympy.Rational(fraction.numerator, fraction.denominator) * unit
    return sympy.Float(str(dtype.type(number)))


class Expressions:
    """The values of a graph: arrays of expressions, by name."""

    def __init__(self, make: Callable[[str], str]) -> None:
        self.values: dict[str, Any] = {}
        self._make = make

    def begin(self, eq: Equation) -> None:
        """Take no notice."""

    def literal(self, literal: Literal) -> str:
        """Return the name of a number."""
        return self.constant(self._make("number"), np.asarray(literal.value, literal.aval.dtype))

    def constant(self, name: str, value: np.ndarray[Any, Any]) -> str:
        """Enter an array of numbers."""
        self.values[name] = each(functools.partial(to_number, dtype=value.dtype), value.astype(object))
        return name


def each(fn: Function, *xs: Any) -> Any:
    """Apply a function of expressions to arrays of them, which broadcast."""
    results = np.empty(np.broadcast_shapes(*[np.shape(x) for x in xs]), object)
    for place, values in zip(np.ndindex(results.shape), np.broadcast(*xs), strict=True):
        results[place] = fn(*values)
    return results


# -- elementwise --
SAME = """acos acosh asin asinh atan atan2 atanh beta cos cosh digamma erf erfc erfinv exp floor gamma log sign sin sinh
    sqrt tan tanh zeta"""  # SymPy's functions of the same name
NAMES = {name: name for name in SAME.split()} | {  # and the others
    "abs": "Abs", "ceil": "ceiling", "conj": "conjugate", "equal": "Eq", "gammaln": "loggamma", "greater": "Gt",
    "greater_equal": "Ge", "imag": "im", "less": "Lt", "less_equal": "Le", "logical_and": "And", "logical_not": "Not",
    "logical_or": "Or", "logical_xor": "Xor", "maximum": "Max", "minimum": "Min", "not_equal": "Ne", "real": "re",
    "remainder": "Mod",
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {
    "cbrt": lambda x: load_sympy().real_root(x, 3),
    "deg2rad": lambda x: x * load_sympy().pi / 180,
    "exp2": lambda x: 2**x,
    "expm1": lambda x: load_sympy().exp(x) - 1,
    "isnan": lambda x: load_sympy().Ne(x, x),
    "log10": lambda x: load_sympy().log(x, 10),
    "log1p": lambda x: load_sympy().log(1 + x),
    "log2": lambda x: load_sympy().log(x, 2),
    "negative": operator.neg,
    "positive": lambda x: x,
    "rad2deg": lambda x: x * 180 / load_sympy().pi,
    "reciprocal": lambda x: 1 / x,
    "square": lambda x: x**2,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "divide": lambda x, y: x / y,
    "floor_divide": lambda x, y: load_sympy().floor(x / y),
    "hypot": lambda x, y: load_sympy().sqrt(x**2 + y**2),
    "logaddexp": lambda x, y: load_sympy().log(load_sympy().exp(x) + load_sympy().exp(y)),
    "multiply": operator.mul,
    "pow": lambda x, y: x**y,
    "subtract": operator.sub,
}
LOGICAL = {"bitwise_and": "And", "bitwise_or": "Or", "bitwise_invert": "Not"}


def _function(p: Primitive) -> Function | None:
    formula = UNARY.get(p.name) or BINARY.get(p.name)
    if formula is not None:
        return formula
    name = NAMES.get(p.name, "")
    return getattr(load_sympy(), name) if name else None


def _elementwise(p: Primitive) -> Template[Expressions] | None:
    fn = _function(p)
    if fn is None:
        return None

    def write(writer: Expressions, eq: Equation, xs: Texts, zs: Texts) -> None:
        if any(a.aval.dtype.kind == "b" for a in eq.inputs) and not p.name.startswith("logical"):
            raise NoTemplateError("of conditions")
        values = [writer.values[x] for x in xs]
        if p.name.startswith("logical"):
            pairs = zip(eq.inputs, values, strict=True)
            values = [v if a.aval.dtype.kind == "b" else each(load_sympy().Ne, v, 0) for a, v in pairs]
        writer.values[zs[0]] = each(fn, *values)

    return write


SYMPY: Table[Expressions] = Table("SymPy", _elementwise)


@SYMPY.rule("bitwise_and", "bitwise_or", "bitwise_invert")
def _logical(writer: Expressions, eq: Equation, xs: Texts, zs: Texts) -> None:
    if eq.aval.dtype.kind != "b":
        raise NoTemplateError("of integers")
    fn = getattr(load_sympy(), LOGICAL[eq.primitive.name])
    writer.values[zs[0]] = each(fn, *[writer.values[x] for x in xs])


@SYMPY.rule("cast", "convert")
def _cast(writer: Expressions, eq: Equation, xs: Texts, zs: Texts) -> None:
    have, want = eq.inputs[0].aval.dtype.kind, eq.aval.dtype.kind
    x = writer.values[xs[0]]
    if have == "b" and want != "b":
        x = each(_where, x, 1, 0)
    elif want == "b" and have != "b":
        x = each(load_sympy().Ne, x, 0)
    elif "biufc".index(want) < "biufc".index(have):
        raise NoTemplateError("to numbers that cannot hold it")
    writer.values[zs[0]] = x


# -- arrays --
def _over(fn: Callable[[Sequence[Any]], Any]) -> Template[Expressions]:
    """Return the template of a reduction from a function of all elements."""

    def write(writer: Expressions, eq: Equation, xs: Texts, zs: Texts) -> None:
        x, axis = writer.values[xs[0]], eq.keywords["axis"]
        kept = [a for a in range(x.ndim) if a not in axis]
        rows = x.transpose((*kept, *axis)).reshape((*[x.shape[a] for a in kept], -1))
        results = np.empty(rows.shape[:-1], object)
        for place in np.ndindex(results.shape):
            results[place] = fn(list(rows[place]))
        writer.values[zs[0]] = results

    return write


def _over_all(name: str) -> Template[Expressions]:
    return _over(lambda xs: getattr(load_sympy(), name)(*xs))


REDUCTIONS = {"sum": "Add", "prod": "Mul", "max": "Max", "min": "Min", "all": "And", "any": "Or"}
SYMPY.rules |= {name: _over_all(function) for name, function in REDUCTIONS.items()}


@SYMPY.rule("logsumexp")
def _logsumexp(writer: Expressions, eq: Equation, xs: Texts, zs: Texts) -> None:
    sympy = load_sympy()
    writer.values[xs[0]] = each(sympy.exp, writer.values[xs[0]])
    _over_all("Add")(writer, eq, xs, zs)
    writer.values[zs[0]] = each(sympy.log, writer.values[zs[0]])


def _plain(compute: Function) -> Template[Expressions]:
    """Return the template of what NumPy does with arrays of anything."""

    def write(writer: Expressions, eq: Equation, xs: Texts, zs: Texts) -> None:
        results = np.empty(eq.aval.shape, object)
        results[...] = compute(*[writer.values[x] for x in xs], **eq.keywords)
        writer.values[zs[0]] = results

    return write


def _take(x: Any, index: Any) -> Any:
    return x[native(index)]


def _set(x: Any, values: Any, index: Any) -> Any:
    z = x.copy()
    z[native(index)] = values
    return z


def _add(x: Any, values: Any, index: Any) -> Any:
    return _set(x, _take(x, index) + values, index)


def _embed(x: Any, shape: Any, index: Any) -> Any:
    return _set(np.full(shape, load_sympy().Integer(0)), x, index)


def _concat(*xs: Any, axis: int, sizes: Any) -> Any:  # noqa: ARG001  # all parameters of the operation are given
    return np.concatenate(xs, axis)


def _stack(*xs: Any, axis: int) -> Any:
    return np.stack(xs, axis)


def _where(condition: Any, x: Any, y: Any) -> Any:
    return load_sympy().Piecewise((x, condition), (y, True))


@SYMPY.rule("where")
def _select(writer: Expressions, _: Equation, xs: Texts, zs: Texts) -> None:
    writer.values[zs[0]] = each(_where, *[writer.values[x] for x in xs])


SYMPY.rules |= {
    "broadcast_to": _plain(np.broadcast_to),
    "concat": _plain(_concat),
    "embed": _plain(_embed),
    "matmul": _plain(np.matmul),
    "permute_dims": _plain(np.transpose),
    "reshape": _plain(np.reshape),
    "slice": _plain(_take),
    "slice_add": _plain(_add),
    "slice_set": _plain(_set),
    "stack": _plain(_stack),
    "stop_gradient": _plain(np.array),
}


# --- Export to SymPy: a function, or its derivative, as expressions

ELEMENTS = 64  # of an argument: more of them are no expression that a person reads


def to_sympy(fn: Callable[..., Any], /, *args: Any, simplify: bool = True) -> Any:
    """Return a function, or its derivative, as expressions of SymPy: a notebook shows them as formulas.

    A number becomes a symbol of its argument's name; an array becomes one symbol an element. So ``sympy.latex``,
    ``sympy.diff``, ``sympy.series`` and others take what afx computes. Numbers are fractions where they are exactly that.

    Args:
        fn: a function of numbers and small arrays, such as ``afx.grad(bell)``; it is traced, not run.
        *args: example arguments, of which structure, shapes and dtypes count.
        simplify: whether ``sympy.simplify`` shortens each expression.

    Returns:
        The result's tree: an expression for each number, ``sympy.Array`` for each array.

    Raises:
        ExportError: an operation has no form in SymPy, or an argument has more than 64 elements.
        MissingExtraError: SymPy is not installed.

    >>> import afx, numpy as np
    >>> from afx import export
    >>> def bell(x, width):
    ...     return afx.exp(-((x / width) ** 2) / 2)
    >>> export.to_sympy(afx.grad(bell), np.float64(0.0), np.float64(1.0))
    -x*exp(-x**2/(2*width**2))/width**2
    """
    sympy, names = load_sympy(), Names()
    program = trace_program(fn, args, "to_sympy")
    where = f"to_sympy: {program.name}"
    walk = Walk(SYMPY, names, where)
    walk.check(program.graph)
    writer = Expressions(names.make)
    operands = [names.make(slot.path) for slot in program.inputs]
    for name, slot in zip(operands, program.inputs, strict=True):
        writer.values[name] = _symbols(sympy, name, slot, where)
    shorten = sympy.simplify if simplify else _keep
    results = [_result(sympy, writer.values[name], shorten) for name in walk.write(writer, program.graph, operands)]
    return pytree.unflatten(program.out_tree, results)


def _keep(expression: Any) -> Any:
    return expression


def _symbols(sympy: Any, name: str, slot: Slot, where: str) -> Any:
    if slot.size > ELEMENTS:
        raise ExportError(f"{where}: {slot.path} has too many elements to be read: got {slot}; pass at most {ELEMENTS}")
    kinds = {"f": {"real": True}, "i": {"integer": True}, "u": {"integer": True}}
    if slot.dtype.kind == "b":
        raise ExportError(f"{where}: {slot.path} is a condition, no number: got {slot}; close over it")
    symbols = np.empty(slot.shape, object)
    for place in np.ndindex(slot.shape):
        label = "_".join([name, *map(str, place)])
        symbols[place] = sympy.Symbol(label, **kinds.get(slot.dtype.kind, {}))
    return symbols


def _result(sympy: Any, value: Any, shorten: Callable[[Any], Any]) -> Any:
    if not value.ndim:
        return shorten(value[()])
    return sympy.Array([shorten(x) for x in value.flat], value.shape)
