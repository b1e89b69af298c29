"""Writer: nodes, values and graphs of an ONNX model that is being made, with lengths in terms of dynamic axes."""

from __future__ import annotations

import functools
import importlib
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from afx.core import DType, Ndarray
from afx.core.graph import Atom, Equation, Literal
from afx.errors import ExportError
from afx.export.templates import Names, NoTemplateError, Walk

# --- Lengths: what a program's numbers are in terms of its dynamic axes, found by tracing it at several of their
# lengths
#
# A length is a polynomial that is linear in each axis (``batch``, ``2*batch + 1``, ``batch*time``): a flattened axis
# is a product, a joined one a sum. Its coefficients follow from a trace at each corner of a grid; one more trace
# verifies them.

Term: TypeAlias = tuple[str, ...]
PLAIN = {
    bool,
    int,
    float,
    complex,
    str,
    tuple,
    type(None),
    *[type(np.dtype(c)) for c in np.typecodes["All"] if c not in "OVSUMm"],
}  # parameters that compare by value
MOST_FACTOR = 64  # of a length, within a float that is a ratio of numbers and lengths


@attrs.frozen
class Dim:
    """A length that depends on dynamic axes.

    Attributes:
        terms: coefficients of products of axes; that of no axis stands under ``()``.

    >>> batch = Dim(((("batch",), 1),))
    >>> print(2 * batch + 1, "|", batch - batch)
    2*batch + 1 | 0
    """

    terms: tuple[tuple[Term, int], ...]

    @property
    def known(self) -> dict[Term, int]:
        """The coefficients by products of axes."""
        return dict(self.terms)

    def __add__(self, other: Length) -> Length:
        terms = self.known
        for term, c in _terms(other).items():
            terms[term] = terms.get(term, 0) + c
        return _make(terms)

    def __mul__(self, other: Length) -> Length:
        terms: dict[Term, int] = {}
        for (one, c), (two, d) in itertools.product(self.terms, _terms(other).items()):
            term = tuple(sorted((*one, *two)))
            terms[term] = terms.get(term, 0) + c * d
        return _make(terms)

    def __neg__(self) -> Length:
        return self * -1

    def __sub__(self, other: Length) -> Length:
        return self + -other

    def __rsub__(self, other: Length) -> Length:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __str__(self) -> str:
        parts = [
            "*".join([*([str(c)] if c != 1 or not term else []), *term])
            for term, c in sorted(self.terms, key=lambda item: -len(item[0]))
        ]
        return " + ".join(parts)

    def at(self, lengths: Mapping[str, int]) -> int:
        """Return the length at lengths of the axes."""
        return sum([c * math.prod([lengths[axis] for axis in term]) for term, c in self.terms])


Length: TypeAlias = int | Dim


@attrs.frozen
class Ratio:
    """A float that is a length times or divided by: a mean's factor.

    Attributes:
        factor: a number.
        length: what it is multiplied with, or divided by.
        divides: whether it is divided.
    """

    factor: float
    length: Length
    divides: bool


def product(lengths: Sequence[Length]) -> Length:
    """Return the number of elements of a shape."""
    total: Length = 1
    for n in lengths:
        total = total * n
    return total


def _terms(x: Length) -> dict[Term, int]:
    return x.known if isinstance(x, Dim) else {(): x}


def _make(terms: Mapping[Term, int]) -> Length:
    nonzero = {term: c for term, c in terms.items() if c}
    if nonzero.keys() <= {()}:
        return nonzero.get((), 0)
    return Dim(tuple(sorted(nonzero.items())))


class Grid:
    """The lengths at which a program is traced: two of each dynamic axis in all combinations, and a third of all.

    Attributes:
        points: the lengths of the axes of each trace.
    """

    def __init__(self, axes: Sequence[str]) -> None:
        self.axes: tuple[str, ...] = tuple(axes)
        # lengths that are divided by few of the same numbers, and apart from another's
        low, high, third = ([start + 30 * k for k in range(len(axes))] for start in (12, 17, 23))
        corners = itertools.product(*zip(low, high, strict=True)) if axes else [()]
        self.points: list[dict[str, int]] = [dict(zip(self.axes, corner, strict=True)) for corner in corners]
        if axes:
            self.points.append(dict(zip(self.axes, third, strict=True)))

    def fit(self, values: Sequence[int]) -> Length | None:
        """Return the length that has these values at the points, None where no polynomial has."""
        if all(v == values[0] for v in values):
            return values[0]
        length = self._fit(list(values[:-1]), 0)
        if length is None or any(_value(length, p) != v for p, v in zip(self.points, values, strict=True)):
            return None
        return length

    def _fit(self, values: list[int], k: int) -> Length | None:
        if len(values) == 1:
            return values[0]
        half, axis = len(values) // 2, self.axes[k]
        low, high = self._fit(values[:half], k + 1), self._fit(values[half:], k + 1)
        if low is None or high is None:
            return None
        first, last = self.points[0][axis], self.points[len(self.points) - 2][axis]
        slope = _terms(high - low)
        if any(c % (last - first) for c in slope.values()):
            return None
        steep = _make({term: c // (last - first) for term, c in slope.items()})
        return low - steep * first + steep * Dim((((axis,), 1),))

    def fit_float(self, values: Sequence[float]) -> float | Ratio | None:
        """Return the number, or the ratio, that has these values at the points."""
        if all(repr(v) == repr(values[0]) for v in values):
            return values[0]
        if not all(math.isfinite(v) and v for v in values):
            return None
        near = 1e-6 if all(np.float32(v) == v for v in values) else 1e-12  # literals of float32 are rounded to it
        for factor, divides in itertools.product(range(1, MOST_FACTOR + 1), (False, True)):
            whole = [factor / v if divides else factor * v for v in values]
            if all(math.isclose(v, round(v), rel_tol=near) for v in whole):
                length = self.fit([round(v) for v in whole])
                if length is not None:
                    return Ratio(float(factor) if divides else 1.0 / factor, length, divides)
        return self._fit_factor(values)

    def _fit_factor(self, values: Sequence[float]) -> Ratio | None:
        some = [c for n in range(1, len(self.axes) + 1) for c in itertools.combinations(self.axes, n)]
        for term, divides in itertools.product(some, (True, False)):
            lengths = [math.prod([p[axis] for axis in term]) for p in self.points]
            factors = [v * n if divides else v / n for v, n in zip(values, lengths, strict=True)]
            if all(math.isclose(f, factors[0], rel_tol=1e-6) for f in factors):
                return Ratio(factors[0], Dim(((tuple(sorted(term)), 1),)), divides)
        return None

    def merge(self, values: Sequence[Any], refuse: Callable[[str], ExportError]) -> Any:
        """Return a parameter in terms of the axes, from what it is at each point.

        Raises:
            ExportError: of ``refuse``, where it is no polynomial.
        """
        first = values[0]
        merged: Any = None
        if len(values) == 1:
            return first
        lengths = {len(v) if v.__class__ is tuple else -1 for v in values}
        if len(lengths) == 1 and -1 not in lengths:
            return tuple([self.merge(items, refuse) for items in zip(*values, strict=True)])
        if all(type(v) is int for v in values):
            merged = self.fit(values)
        elif all(type(v) is float for v in values):
            merged = self.fit_float(values)
        elif first.__class__ not in PLAIN or all(v == first for v in values):
            return first  # of graphs, the equations are merged by themselves
        if merged is None:
            points = [tuple(p.values()) for p in self.points]
            raise refuse(f"{list(values)} where {' and '.join(self.axes)} are {points}")
        return merged


def _value(length: Length, point: Mapping[str, int]) -> int:
    return length.at(point) if isinstance(length, Dim) else length


# --- Patterns: what captured arrays are in terms of their indices, where their lengths are dynamic


def find_slopes(x: Ndarray) -> tuple[int, ...] | None:
    """Return c and d, e … of an array whose elements are c + d i + e j … at their indices; None of other arrays.

    >>> find_slopes(np.arange(6).reshape(2, 3) + 1), find_slopes(np.array([0, 1, 4]))
    ((1, 3, 1), None)
    """
    if x.dtype.kind not in "iuf" or not x.size or not np.array_equal(x, np.rint(x)):
        return None
    origin = (0,) * x.ndim
    start = int(x[origin])
    steps = [int(x[tuple(np.eye(x.ndim, dtype=int)[k])]) - start if n > 1 else 0 for k, n in enumerate(x.shape)]
    rows: list[Any] = [step * np.arange(n) for step, n in zip(steps, x.shape, strict=True)]
    wanted: Any = start + functools.reduce(np.add.outer, rows, np.zeros((), np.int64))
    return (start, *steps) if np.array_equal(x, wanted) else None


def is_triangle(x: Ndarray) -> bool:
    """Tell whether matrices hold where the column is not behind the row, and nowhere else."""
    return bool(np.array_equal(x, np.broadcast_to(np.tri(*x.shape[-2:]) > 0, x.shape)))


def same_bytes(x: Ndarray, y: Ndarray) -> bool:
    """Tell whether arrays are equal, nan to itself too."""
    return x is y or (x.shape == y.shape and x.tobytes() == y.tobytes())


# --- Values: arithmetic on the names of an ONNX graph, each operation of which writes a node

BOOL, INT64 = np.dtype(bool), np.dtype(np.int64)


@attrs.frozen(eq=False)
class Value:
    """A tensor of the graph that is being written.

    Attributes:
        writer: of the graph.
        name: in it.
        dtype: of its elements.
        shape: its lengths where they are known; of what formulas make, those of their first operand.
    """

    writer: OnnxWriter
    name: str
    dtype: DType
    shape: tuple[Length, ...] = ()

    # -- nodes --
    def op(self, kind: str, *others: Operand, dtype: Any = None, **attributes: Any) -> Value:
        """Return what an operator makes of it and others, of this dtype or its own; Python numbers have its dtype."""
        made = np.dtype(dtype) if dtype is not None else self.dtype
        names = [self.writer.like(x, self.dtype).name for x in others]
        return Value(self.writer, self.writer.op(kind, self.name, *names, **attributes), made, self.shape)

    def cast(self, dtype: Any) -> Value:
        """Return it in another dtype."""
        to = np.dtype(dtype)
        if to == self.dtype:
            return self
        return Value(self.writer, self.writer.op("Cast", self.name, to=self.writer.kind(to)), to, self.shape)

    def reshape(self, shape: Sequence[Length]) -> Value:
        """Return it in another shape."""
        return self.writer.reshape(self, shape)

    def transpose(self, axes: Sequence[int]) -> Value:
        """Return it with its axes in another order."""
        shape = tuple([self.shape[a] for a in axes])
        if tuple(axes) == tuple(range(len(axes))):
            return self
        return attrs.evolve(self.op("Transpose", perm=list(axes)), shape=shape)

    # -- arithmetic --
    def _binary(self, kind: str, other: Operand, flipped: bool = False) -> Value:
        return self.writer.arithmetic(kind, other, self) if flipped else self.writer.arithmetic(kind, self, other)

    def __add__(self, other: Operand) -> Value:
        return self._binary("Add", other)

    def __sub__(self, other: Operand) -> Value:
        return self._binary("Sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self._binary("Mul", other)

    def __truediv__(self, other: Operand) -> Value:
        return self._binary("Div", other)

    def __radd__(self, other: Operand) -> Value:
        return self._binary("Add", other, True)

    def __rsub__(self, other: Operand) -> Value:
        return self._binary("Sub", other, True)

    def __rmul__(self, other: Operand) -> Value:
        return self._binary("Mul", other, True)

    def __rtruediv__(self, other: Operand) -> Value:
        return self._binary("Div", other, True)

    def __neg__(self) -> Value:
        return self.writer.arithmetic("Neg", self)

    def __abs__(self) -> Value:
        return self.op("Abs")

    # -- comparisons --
    def __lt__(self, other: Operand) -> Value:
        return self.writer.compare("Less", self, other)

    def __gt__(self, other: Operand) -> Value:
        return self.writer.compare("Greater", self, other)

    def __ge__(self, other: Operand) -> Value:
        return self.writer.compare("GreaterOrEqual", self, other)

    def __le__(self, other: Operand) -> Value:
        return self.writer.compare("LessOrEqual", self, other)

    def equals(self, other: Operand) -> Value:
        """Return where it equals another."""
        return self.writer.compare("Equal", self, other)

    def is_nan(self) -> Value:
        """Return where it is nan."""
        return self.op("IsNaN", dtype=BOOL) if self.dtype.kind == "f" else ~self.equals(self)

    # -- truths --
    def __and__(self, other: Value) -> Value:
        return self.op("And", other)

    def __or__(self, other: Value) -> Value:
        return self.op("Or", other)

    def __xor__(self, other: Value) -> Value:
        return self.op("Xor", other)

    def __invert__(self) -> Value:
        return self.op("Not")


Operand: TypeAlias = Value | int | float


def where(test: Value, yes: Operand, no: Operand) -> Value:
    """Return one operand where a test holds, and the other elsewhere."""
    return test.writer.choose(test, yes, no)


# --- Writer: the nodes, initializers and graphs within graphs of an ONNX model that is being made

DTYPES = ("float32", "float64", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
# what onnxruntime computes with in all arithmetic; smaller integers are computed in int64, of which theirs are the last bits
COMPUTED = ("float32", "float64", "int32", "int64")


def computed(dtype: DType) -> DType:
    """Return the dtype in which runtimes compute with numbers of another."""
    return dtype if dtype.name in COMPUTED else INT64


def refuse_uint64(dtype: DType, what: str) -> None:
    """Raise `NoTemplateError` for numbers that int64, in which runtimes compute with them, does not hold."""
    if dtype == np.dtype(np.uint64):
        raise NoTemplateError(f"{what} of uint64")


Kind: TypeAlias = tuple[DType, tuple[Length, ...] | None]  # of a tensor, whose shape may be open
Named: TypeAlias = tuple[str, Kind]


@attrs.frozen
class Shaped:
    """What a template knows of an operand or a result.

    Attributes:
        shape: lengths, some of which may depend on dynamic axes.
        dtype: of its elements.
    """

    shape: tuple[Length, ...]
    dtype: DType


class OnnxWriter:
    """What a walk writes to.

    Attributes:
        walk: that writes.
        names: in use.
        grid: at which lengths of dynamic axes the program was traced.
        equation: that is being written.
        ins: what is known of the its operands.
        outs: the same of its results.
        params: its parameters.
        sources: of each dynamic axis, an input and which of its axes it is.
    """

    def __init__(self, walk: Walk[Any], grid: Grid, twins: Mapping[int, Sequence[Equation]], where: str) -> None:
        self.walk: Walk[Any] = walk
        self.names: Names = walk.names
        self.grid: Grid = grid
        self.where: str = where
        self.onnx: Any = importlib.import_module("onnx")
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.sources: dict[str, tuple[str, int]] = {}
        self.constants: dict[int, Sequence[Any]] = {}  # of captured arrays, by identity, those of the other traces
        self.prologue: list[Any] = []  # nodes of the outermost graph that compute lengths
        self._twins = twins
        self._known: dict[Any, str] = {}
        self._literals: dict[int, float | Ratio] = {}
        self.equation: Equation | None = None
        self.ins: list[Shaped] = []
        self.outs: list[Shaped] = []
        self.params: dict[str, Any] = {}
        self._wish = "t"
        self._kinds: dict[DType, int] = {}

    # -- what a walk tells --
    def begin(self, eq: Equation) -> None:
        """Merge what the traces say of an equation."""
        others = self._twins.get(id(eq), ())
        every = [eq, *others]
        self.equation = eq
        self.ins = [self._merge([e.inputs[k] for e in every], eq) for k in range(len(eq.inputs))]
        self.outs = [self._merge([e.outputs[k] for e in every], eq) for k in range(len(eq.outputs))]
        refuse = functools.partial(self._refuse, eq)
        self.params = {k: self.grid.merge([e.keywords[k] for e in every], refuse) for k in eq.keywords}
        self._literals = {
            id(x): self.grid.merge([e.inputs[k].value for e in every], refuse)  # type: ignore[union-attr]  # its twins are literals
            for k, x in enumerate(eq.inputs)
            if isinstance(x, Literal) and others
        }

    def _refuse(self, eq: Equation, what: str) -> ExportError:
        at = f" at {eq.source}" if eq.source is not None else ""
        return ExportError(
            f"{self.where}: {eq.primitive.name}{at} depends on dynamic axes otherwise than by sums and products: got {what}; "
            "export it with fixed lengths"
        )

    def _merge(self, atoms: Sequence[Atom], eq: Equation) -> Shaped:
        aval, *others = [a.aval for a in atoms]
        shape = self.grid.merge([aval.shape, *[a.shape for a in others]], functools.partial(self._refuse, eq))
        return Shaped(shape, aval.dtype)

    def literal(self, literal: Literal) -> str:
        """Return the scalar of a number."""
        value = self._literals.get(id(literal), literal.value)
        if isinstance(value, Ratio):
            return self.ratio(value, literal.aval.dtype).name
        if literal.aval.dtype.kind not in "fiub":
            return ""  # which the template refuses, by the dtype
        return self.number(value, literal.aval.dtype).name

    def constant(self, name: str, value: Ndarray) -> str:
        """Enter a captured array, or write what makes it where it depends on dynamic axes."""
        others = self.constants.get(id(value), ())
        if any(not same_bytes(other, value) for other in others):
            return self._varying([value, *others])
        if value.dtype.kind not in "fiub":
            return ""
        return self.initialize(name, value)

    def _varying(self, values: Sequence[Ndarray]) -> str:
        """Write an array that depends on dynamic axes: one number, sums of multiples of indices, or a triangle."""
        dtype = values[0].dtype
        if all(v.shape == () for v in values):
            number = self.grid.merge([v.item() for v in values], self._refuse_array)
            return (self.ratio(number, dtype) if isinstance(number, Ratio) else self.length(number).cast(dtype)).name
        shape: tuple[Length, ...] = self.grid.merge([v.shape for v in values], self._refuse_array)
        flat = values[0].reshape(-1)
        if flat.size and all(np.array_equal(v, np.broadcast_to(flat[0], v.shape)) for v in values):
            return self.full(shape, flat[0], dtype).name
        if dtype == BOOL and len(shape) >= 2 and all(map(is_triangle, values)):
            rows = self.reshape(self.count(shape[-2]), (shape[-2], 1))
            return self.expand(rows >= self.count(shape[-1]), shape).name
        slopes = [find_slopes(v) for v in values]
        if any(s is None for s in slopes):
            raise self._refuse_array(str([v.shape for v in values]))
        start, *steps = self.grid.merge(slopes, self._refuse_array)
        total = self.full([1] * len(shape), 0, INT64) + self.length(start)
        for k, step in enumerate(steps):
            if step != 0:
                row = self.reshape(self.count(shape[k]), [n if j == k else 1 for j, n in enumerate(shape)])
                total = total + row * self.length(step)
        return self.expand(total, shape).cast(dtype).name

    def _refuse_array(self, what: str) -> ExportError:
        return ExportError(
            f"{self.where}: a captured array depends on a dynamic axis: got {what}; compute it from an argument's values"
        )

    # -- nodes --
    def put(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> None:
        """Write a node."""
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), list(outputs), **attributes))

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Write a node with one output; return its name."""
        name = self.names.make(self._wish)
        self.put(kind, inputs, [name], **attributes)
        return name

    def name_results(self, values: Sequence[Value], names: Sequence[str], start: int) -> None:
        """Give values the names of results, as outputs of nodes that were written since ``start`` or by copies."""
        renamed: dict[str, str] = {}
        for value, name in zip(values, names, strict=True):
            last = self.nodes[-1] if len(self.nodes) > start else None
            outputs = [] if last is None or renamed.keys() & {*last.input} else list(last.output)
            if value.name in outputs and last is not None and len(values) in (1, len(outputs)):
                last.output[outputs.index(value.name)] = name
                renamed[value.name] = name
            else:
                self.put("Identity", [renamed.get(value.name, value.name)], [name])

    def wish(self, name: str) -> None:
        """Call what is written next after a result."""
        self._wish = f"{name}_part"

    def initialize(self, name: str, value: Ndarray) -> str:
        """Enter an array under a name."""
        self.initializers.append(self.onnx.numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def kind(self, dtype: DType) -> int:
        """Return ONNX's number of a dtype.

        Raises:
            NoTemplateError: it is none that is written.
        """
        if dtype not in self._kinds:
            if dtype.name not in DTYPES:
                raise NoTemplateError(f"{dtype.name}: models have {', '.join(DTYPES)}")
            self._kinds[dtype] = int(self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        return self._kinds[dtype]

    def value(self, name: str, known: Shaped) -> Value:
        """Return an operand as a value."""
        self.kind(known.dtype)
        return Value(self, name, known.dtype, known.shape)

    # -- graphs within graphs, which read values of those around them by name --
    def body(self, inputs: Sequence[Named], run: Callable[[], Sequence[str]], results: Sequence[Kind]) -> Any:
        """Return the graph of what is written while ``run`` returns its results.

        Args:
            inputs: names and kinds.
            run: writes.
            results: their kinds.
        """
        outer, self.nodes = self.nodes, []
        names = [self.op("Identity", name) for name in run()]
        nodes, self.nodes = self.nodes, outer
        given = [self.describe(name, kind) for name, kind in inputs]
        outputs = [self.describe(name, kind) for name, kind in zip(names, results, strict=True)]
        return self.onnx.helper.make_graph(drop_copies(nodes, {*names}), self.names.make("body"), given, outputs)

    def describe(self, name: str, kind: Kind, text: str = "") -> Any:
        """Return the ``ValueInfoProto`` of an input or a result."""
        dtype, shape = kind
        lengths = None if shape is None else [str(n).replace(" ", "") if isinstance(n, Dim) else n for n in shape]
        return self.onnx.helper.make_tensor_value_info(name, self.kind(dtype), lengths, text)

    # -- numbers and lengths --
    def number(self, value: Any, dtype: DType) -> Value:
        """Return a scalar."""
        with np.errstate(all="ignore"):
            return self.array(np.asarray(value).astype(dtype), "number")

    def array(self, value: Ndarray, wish: str = "constant") -> Value:
        """Return a known array, which stands in the model once."""
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._known:
            self._known[key] = self.initialize(self.names.make(wish), value)
        return Value(self, self._known[key], value.dtype, value.shape)

    def like(self, x: Operand, dtype: DType) -> Value:
        """Return a value, or the scalar of a number in this dtype."""
        return x if isinstance(x, Value) else self.number(x, dtype)

    def length(self, n: Length) -> Value:
        """Return a length as a scalar of int64, computed where it depends on dynamic axes."""
        if not isinstance(n, Dim):
            return self.number(n, INT64)
        if n not in self._known:
            nodes, self.nodes = self.nodes, self.prologue
            total = None
            for term, c in n.terms:
                part = self.number(c, INT64) if c != 1 or not term else None
                for axis in term:
                    symbol = self._measure(axis)
                    part = symbol if part is None else part * symbol
                assert part is not None
                total = part if total is None else total + part
            assert total is not None
            self._known[n] = total.name
            self.nodes = nodes
        return Value(self, self._known[n], INT64)

    def _measure(self, axis: str) -> Value:
        if axis not in self._known:
            source, place = self.sources[axis]
            self._known[axis] = self.names.make(f"length_of_{axis}")
            shape = self.op("Shape", source, start=place, end=place + 1)
            self.put("Squeeze", [shape], [self._known[axis]])
        return Value(self, self._known[axis], INT64)

    def ratio(self, x: Ratio, dtype: DType) -> Value:
        """Return a float that depends on dynamic axes."""
        length = self.length(x.length).cast(dtype)
        return x.factor / length if x.divides else x.factor * length

    def ints(self, lengths: Sequence[Length]) -> Value:
        """Return lengths as a vector of int64."""
        if not any(isinstance(n, Dim) for n in lengths):
            return self.array(np.array(lengths, np.int64), "lengths")
        key = ("lengths", tuple(lengths))
        if key not in self._known:
            scalars = [self.length(n) for n in lengths]
            nodes, self.nodes = self.nodes, self.prologue
            one = self.array(np.array([0]), "lengths")
            parts = [self.op("Unsqueeze", n.name, one.name) for n in scalars]
            self._known[key] = self.op("Concat", *parts, axis=0)
            self.nodes = nodes
        return Value(self, self._known[key], INT64, (len(lengths),))

    def count(self, n: Length) -> Value:
        """Return 0, 1 … as int64."""
        if not isinstance(n, Dim):
            return self.array(np.arange(n), "counts")
        zero, one = self.number(0, INT64), self.number(1, INT64)
        return Value(self, self.op("Range", zero.name, self.length(n).name, one.name), INT64, (n,))

    def full(self, shape: Sequence[Length], number: Any, dtype: DType) -> Value:
        """Return an array of one number."""
        scalar = self.number(number, dtype)
        return self.expand(scalar, shape) if shape else scalar

    # -- shapes --
    def expand(self, x: Value, shape: Sequence[Length]) -> Value:
        """Return x broadcast to a shape."""
        return attrs.evolve(x.op("Expand", self.ints(shape)), shape=tuple(shape))

    def reshape(self, x: Value, shape: Sequence[Length]) -> Value:
        """Return x in a shape; a single length that depends on dynamic axes is left to the runtime."""
        wanted = list(shape)
        if tuple(wanted) == x.shape and x.shape:
            return x
        dynamic = [k for k, n in enumerate(wanted) if isinstance(n, Dim)]
        if len(dynamic) == 1 and 0 not in wanted:
            wanted[dynamic[0]] = -1
        options = {"allowzero": 1} if 0 in wanted else {}
        return attrs.evolve(x.op("Reshape", self.ints(wanted), **options), shape=tuple(shape))

    # -- arithmetic --
    def arithmetic(self, kind: str, *xs: Operand, **attributes: Any) -> Value:
        """Return what an operator makes of operands of one dtype, computed in one that onnxruntime has for it."""
        dtype = self._common(xs)
        if dtype == BOOL:
            raise NoTemplateError(f"{kind} of bool")
        wide = computed(dtype)
        first, *rest = [self.like(x, dtype).cast(wide) for x in xs]
        return first.op(kind, *rest, **attributes).cast(dtype)

    def compare(self, kind: str, x: Operand, y: Operand) -> Value:
        """Return where a comparison holds."""
        dtype = self._common((x, y))
        if kind != "Equal":
            refuse_uint64(dtype, "comparisons")
        wide = dtype if dtype == BOOL and kind == "Equal" else computed(dtype)
        return self.like(x, dtype).cast(wide).op(kind, self.like(y, dtype).cast(wide), dtype=BOOL)

    def choose(self, test: Value, yes: Operand, no: Operand) -> Value:
        """Return one operand where a test holds, and the other elsewhere."""
        dtype = self._common((yes, no))
        wide = computed(dtype)
        xs = [self.like(x, dtype).cast(wide) for x in (yes, no)]
        return test.op("Where", *xs, dtype=wide).cast(dtype)

    def _common(self, xs: Sequence[Operand]) -> DType:
        dtypes = [x.dtype for x in xs if isinstance(x, Value)]
        return np.result_type(*dtypes)


def drop_copies(nodes: Sequence[Any], results: set[str]) -> list[Any]:
    """Return nodes without copies into results of what one node makes for them alone."""
    uses: dict[str, int] = {}
    for node in _all_nodes(nodes):
        for name in node.input:
            uses[name] = uses.get(name, 0) + 1
    makers = {name: node for node in nodes for name in node.output}
    remaining = list[Any]()
    for node in nodes:
        source = node.input[0] if node.input else ""
        if node.op_type == "Identity" and node.output[0] in results and uses[source] == 1 and source in makers:
            maker = makers[source]
            maker.output[list(maker.output).index(source)] = node.output[0]
        else:
            remaining.append(node)
    return remaining


def _all_nodes(nodes: Sequence[Any]) -> list[Any]:
    all_nodes = list(nodes)
    for node in nodes:
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                all_nodes += _all_nodes(graph.node)
    return all_nodes
