"""Traces: values become equations of a graph, pairs with tangents, or batches; and graphs are evaluated."""

from __future__ import annotations

import contextlib
import math
from _thread import get_ident
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import attrs
import numpy as np

from afx.core.array.array import Array, ArrayLike, capture, snapshot, to_numpy_value, wrap
from afx.core.aval import SCALARS, Aval, Shape, aval_of, common_dtype
from afx.core.dtypes import DType, weak_dtype
from afx.core.graph import (
    Atom,
    Atoms,
    Constant,
    Equation,
    Graph,
    Literal,
    Var,
    drop_effects,
    number_variables,
    op_has_effects,
)
from afx.core.primitive import Params, Primitive, WeakArray, infer, met_dtype, primitive_for_role, takes, weak_or_strong
from afx.core.registry import FUNCTIONS
from afx.core.tracing.tape import plain_value, snapshot_operand, to_operand
from afx.core.tracing.tracer import (
    INNERMOST,
    ORIGIN,
    Trace,
    Tracer,
    bind,
    caller,
    is_known,
    meet,
    to_array,
    to_lower_level,
    way_out,
)
from afx.errors import ConcreteValueError, GraphError, OperandError

# --- Graph trace: values are unknown, operations become equations of a `Graph`

FP_ERRORS = ("divide", "over", "under", "invalid")
_new = object.__new__


class GraphTracer(Tracer):
    """A variable of the graph that is being built."""

    __slots__ = ("_var",)
    _var: Var

    @property
    def shape(self) -> Shape:
        """The lengths of the axes."""
        return self._var.aval.shape

    @property
    def dtype(self) -> DType:
        """The NumPy dtype of the elements."""
        return self._var.aval.dtype

    @property
    def aval(self) -> Aval:
        """The shape and dtype as one value."""
        return self._var.aval


class GraphTrace(Trace):
    """The trace of `afx.trace` and `afx.jit`; it sees shapes and dtypes only. As a context it is the innermost one.

    Attributes:
        expanding: whether opaque calls are inlined, as plans want them.
        is_branch: whether what is made of unknown values from outside alone is part of the graph too.
        lifted: tracers of outer traces that the function closed over; they became extra inputs of the graph.
    """

    __slots__ = (
        "_around",
        "_constants",
        "_count",
        "_equations",
        "_errors",
        "_inputs",
        "_known",
        "_lifted_vars",
        "_quiet",
        "_state",
        "expanding",
        "is_branch",
        "lifted",
    )
    knows_values = False

    def __init__(self, name: str, *, expanding: bool = False, is_branch: bool = False) -> None:
        super().__init__(name)
        self.expanding: bool = expanding
        self.is_branch: bool = is_branch
        self._count = 0
        self._errors: Mapping[str, Any] = np.geterr()
        self._state = self._errors  # in which the last equation was made, and what it ignores
        self._quiet: tuple[str, ...] = ()
        self._inputs: list[Var] = []
        self._constants: list[tuple[Var, Constant]] = []
        self._known: dict[int, tuple[Any, Var]] = {}
        self._equations: list[Equation] = []
        self._lifted_vars: list[Var] = []
        self.lifted: list[Any] = []

    def __enter__(self) -> Self:
        self._around = INNERMOST.graph, INNERMOST.branch
        if self.knows_values:  # what is recorded is computed at once
            INNERMOST.graph = INNERMOST.branch = None
        else:
            INNERMOST.graph = self
        if self.is_branch:
            INNERMOST.branch = self
        return self

    def __exit__(self, *_: object) -> None:
        INNERMOST.graph, INNERMOST.branch = self._around
        self.alive = False

    def input(self, aval: Aval) -> GraphTracer:
        """Enter an input of the function."""
        var = self._var(aval)
        self._inputs.append(var)
        return self._tracer(var)

    def _var(self, aval: Aval) -> Var:
        var = Var(self._count, aval)
        self._count += 1
        return var

    def _tracer(self, var: Var) -> GraphTracer:
        t = _new(GraphTracer)
        t._trace = self
        t._var = var
        t._value = None
        return t

    def tracer(self, var: Var) -> GraphTracer:
        """Return a tracer of a variable of this trace."""
        return self._tracer(var)

    def var_of(self, x: Any) -> Var | None:
        """Return the variable of a tracer of this trace, None for everything else."""
        return x._var if x.__class__ is GraphTracer and x._trace is self else None

    def atom(self, x: Any) -> Atom:
        """Return the variable or literal that stands for an operand."""
        own = self.var_of(x)
        if own is not None:
            return own
        aval = aval_of(x, self.name)
        if x.__class__ is WeakArray and not aval.shape:
            return Literal(x.exact.item(), aval)
        if aval.weak and not isinstance(x, Array):
            return Literal(to_numpy_value(x, self.name), aval)
        if not isinstance(x, Array) and aval.shape == ():
            return Literal(x.item(), aval)
        if id(x) in self._known:
            return self._known[id(x)][1]
        if isinstance(x, Tracer):
            x._trace.check()
            var = self._var(x.aval)
            self._lifted_vars.append(var)
            self.lifted.append(x)
        else:
            value = x.exact if isinstance(x, WeakArray) else np.asarray(capture(x, self.name))
            var = self._var(aval)
            self._constants.append((var, Constant(value)))
        if isinstance(x, Array):  # immutable: the same object is the same constant
            self._known[id(x)] = (x, var)
        return var

    def apply(self, p: Primitive, xs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Make an equation of an op."""
        if self.owner != get_ident():
            self.check()
        if p.decompose is not None and (self.expanding or not p.opaque):
            return p.decompose(xs, params)
        outputs = self.equation(p, xs, params)
        return tuple(map(self._tracer, outputs)) if p.multiple_results else self._tracer(outputs[0])

    def equation(self, p: Primitive, xs: tuple[Any, ...], params: dict[str, Any]) -> tuple[Var, ...]:
        """Enter an equation; return the variables it defines."""
        # loops in place of comprehensions here and below: each of these is a call, which would double a trace's time
        atoms = self._atoms_of_one_dtype(xs) if p.is_elementwise and p.lowering.ufunc not in LOGICAL else None
        if atoms is None:
            operands: list[Atom] = []
            weak = False
            for x in xs:
                atom = x._var if x.__class__ is GraphTracer and x._trace is self else self.atom(x)
                operands.append(atom)
                weak = weak or atom.aval.weak
            atoms = tuple(operands)
            if p.is_elementwise:
                atoms = self._same_dtype(p, xs, atoms)
            elif weak:
                atoms = self._met(p, xs, atoms)
        results: list[Var] = []
        for aval in infer(p, [a.aval for a in atoms], params):
            results.append(Var(self._count, aval))
            self._count += 1
        outputs = tuple(results)
        state = np.geterr()
        if state != self._state:
            self._state, self._quiet = state, self._ignored_fp_errors(state)
        given = tuple(sorted(params.items())) if params else ()
        self._equations.append(Equation(p, atoms, outputs, given, caller(), self._quiet))
        return outputs

    def has_effects(self, p: Primitive, params: Params) -> bool:
        """Tell whether an op runs for its effect too, so that it is part of the innermost graph."""
        return op_has_effects(p, params.values())

    def count_equations(self) -> int:
        """Return how many equations there are so far."""
        return len(self._equations)

    def drop_effects(self, start: int) -> None:
        """Drop the equations from here on that run for their effect alone: they came of a step that was tried in vain."""
        self._equations[start:] = drop_effects(self._equations[start:], ())

    def silence_discarded(self, chosen: set[int]) -> None:
        """Let equations ignore floating-point errors whose results go nowhere but into branches of choices.

        Args:
            chosen: indices of the equations that may be silenced, and whose choices count.
        """
        used, reported = set[int](), set[int]()
        for k in range(len(self._equations) - 1, min(chosen, default=0) - 1, -1):
            eq = self._equations[k]
            results = [v.index for v in eq.outputs]
            silent = k in chosen and used.issuperset(results) and reported.isdisjoint(results)
            if silent:
                self._equations[k] = attrs.evolve(eq, ignored_fp_errors=FP_ERRORS)
            chooses = k in chosen and eq.primitive.algebra.canonical == "select"
            for j, atom in enumerate(eq.inputs):
                if isinstance(atom, Var):
                    used.add(atom.index)
                    if not silent and not (chooses and j):
                        reported.add(atom.index)

    def last_source(self) -> Any:
        """Return where the last equation stands."""
        return self._equations[-1].source if self._equations else None

    def _ignored_fp_errors(self, now: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the warnings that are ignored here, and were not where the trace began."""
        return tuple([name for name, state in now.items() if state == "ignore" != self._errors[name]])

    def _atoms_of_one_dtype(self, xs: tuple[Any, ...]) -> Atoms | None:
        """Return the operands of an elementwise op if they are tracers of one inexact dtype, and numbers, which take it."""
        common: DType | None = None
        operands: list[Any] = []
        has_numbers = False
        for x in xs:
            if x.__class__ is GraphTracer and x._trace is self:
                var = x._var
                if var.aval.weak or var.aval.dtype is not (common or var.aval.dtype):
                    return None
                common = var.aval.dtype
                operands.append(var)
            elif x.__class__ is float or (x.__class__ is int and -EXACT < x < EXACT):
                has_numbers = True
                operands.append(x)
            else:
                return None
        if common is None or common.kind not in "fc":
            return None
        if has_numbers:
            aval = Aval((), common)
            operands = [x if x.__class__ is Var else Literal(common.type(x).item(), aval) for x in operands]
        return tuple(operands)

    def _same_dtype(self, p: Primitive, xs: tuple[Any, ...], atoms: Atoms) -> Atoms:
        """Convert the operands of an elementwise op to the dtype it computes in: equations are strongly typed."""
        first, common, weak = p.condition_operands, None, 0
        for atom in atoms[first:] if first else atoms:
            aval = atom.aval
            if aval.weak:
                weak += 1
            elif common is None or common is aval.dtype:
                common = aval.dtype
            else:
                break
        else:
            if common is None:  # all are weak
                return atoms
            if not weak and common.kind in "fc":
                return atoms
        avals = [a.aval for a in atoms[first:]]
        dtype = common_dtype(avals, p.promotes_to_float)
        ufunc = p.lowering.ufunc
        if ufunc is not None and MIXED in ufunc.types and all(a.dtype.kind in "iu" for a in avals):
            if dtype.kind == "f" or (dtype == np.uint64 and _holds_traced_numbers(atoms)):
                return atoms  # signed beside unsigned: NumPy compares them as they are
            atoms, dtype = _comparable(atoms, dtype)
        if ufunc in LOGICAL:
            return atoms  # which ask for truth alone, of numbers of any dtype
        return tuple(
            [
                a if k < first or (a.aval.dtype == dtype and not a.aval.weak) else self._converted(x, a, dtype, p)
                for k, (x, a) in enumerate(zip(xs, atoms, strict=True))
            ]
        )

    def _met(self, p: Primitive, xs: tuple[Any, ...], atoms: Atoms) -> Atoms:
        """Convert weak operands of other ops to the dtype that they meet."""
        dtype = met_dtype(p, [a.aval for a in atoms])
        if dtype is None or dtype.kind not in "fc":
            return atoms
        return tuple(
            [
                self._converted(x, a, takes(a.aval, dtype), p) if a.aval.weak and a.aval.dtype.kind in "fc" else a
                for x, a in zip(xs, atoms, strict=True)
            ]
        )

    def _converted(self, x: Any, atom: Atom, dtype: DType, p: Primitive) -> Atom:
        if isinstance(atom, Literal):
            if dtype.kind in "iu" and not _holds(dtype, atom.value):
                raise OperandError(
                    f"{p.name}: {atom.value} is out of bounds for {dtype}: got it beside an array of {dtype}; "
                    "convert the array with astype"
                )
            return Literal(dtype.type(atom.value).item(), Aval((), dtype))
        if x.__class__ is WeakArray:
            return self.atom(wrap(x.in_dtype(dtype)))
        value = x if isinstance(x, Tracer) else self._stand_in(atom, x)
        if atom.aval.weak and atom.aval.dtype.kind == "i" and dtype.kind in "iu" and dtype != atom.aval.dtype:
            return self.atom(bind(primitive_for_role("fit"), value, dtype=dtype))
        return self.atom(FUNCTIONS.astype(value, dtype))

    def _stand_in(self, atom: Atom, x: Any) -> Any:
        """Return a tracer of a constant."""
        assert isinstance(atom, Var)
        return self._tracer(atom)

    def concrete_value(self, x: Any, who: str) -> Any:
        """Return the bare value where reading it loses nothing, or raise."""
        source = caller()
        where = "" if source is None else f" at {source}"
        if who == "bool":
            raise ConcreteValueError(
                f"bool: the branch depends on a traced value: got {x.aval} in {self.name}{where}; "
                "choose with afx.where (or afx.cond), or let the argument be static: "
                "afx.jit(fn, static_argnums=…) or static_argnames=…"
            )
        raise ConcreteValueError(
            f"{who}: the value is unknown while tracing: got {x.aval} in {self.name}{where}; "
            f"{way_out()}, or let the argument be static: "
            "afx.jit(fn, static_argnums=…) or static_argnames=…"
        )

    @property
    def equations(self) -> Sequence[Equation]:
        """The equations so far."""
        return self._equations

    def finish(self, outputs: Sequence[Any]) -> Graph:
        """End the trace and return its graph; variables are numbered in order of definition."""
        atoms = tuple(map(self.atom, outputs))
        self.alive = False
        inputs, constants, equations = (*self._inputs, *self._lifted_vars), self._constants, self._equations
        number_variables(inputs, constants, equations)
        return Graph(inputs, tuple(constants), tuple(equations), atoms)


EXACT = 1 << 53  # integers up to here are floats
LOGICAL = (np.logical_and, np.logical_or, np.logical_xor)
MIXED = "qQ->?"  # a loop of ufuncs that compare signed integers with unsigned ones as they are


def _comparable(atoms: Atoms, dtype: DType) -> tuple[Atoms, DType]:
    """Return integers, and the dtype in which they compare also with Python's that their own dtype does not hold."""
    if any(isinstance(a, Literal) and not _holds(dtype, a.value) for a in atoms):
        dtype = np.dtype(np.float64)  # in which such a number is an infinity
        return tuple([_infinite(a, dtype) if isinstance(a, Literal) and a.aval.weak else a for a in atoms]), dtype
    return atoms, np.dtype(np.int64) if _holds_traced_numbers(atoms) else dtype


def _holds_traced_numbers(atoms: Sequence[Atom]) -> bool:
    return any(a.aval.weak and not isinstance(a, Literal) for a in atoms)


def _infinite(literal: Literal, dtype: DType) -> Literal:
    number: Any = literal.value
    return Literal(math.copysign(math.inf, number), Aval((), dtype))


def _holds(dtype: DType, number: Any) -> bool:
    info = np.iinfo(dtype)
    return bool(info.min <= number <= info.max)


def renumber(
    inputs: Sequence[Var],
    constants: Sequence[tuple[Var, Constant]],
    equations: Sequence[Equation],
    outputs: Sequence[Atom],
) -> Graph:
    """Return a graph whose variables are numbered from 0 in the order of definition."""
    names: dict[int, Var] = {}

    def define(var: Var) -> Var:
        names[var.index] = new = Var(len(names), var.aval)
        return new

    def use(atom: Atom) -> Atom:
        return names[atom.index] if isinstance(atom, Var) else atom

    def follow(e: Equation) -> Equation:
        operands = tuple(map(use, e.inputs))
        return Equation(e.primitive, operands, tuple(map(define, e.outputs)), e.params, e.source, e.ignored_fp_errors)

    new_inputs = tuple(map(define, inputs))
    new_constants = tuple([(define(v), c) for v, c in constants])
    body = tuple(map(follow, equations))
    return Graph(new_inputs, new_constants, body, tuple(map(use, outputs)))


# --- Interpreter: evaluates a graph one equation after the other, on plain arrays or tracers

NOTHING = contextlib.nullcontext()


def evaluate(graph: Graph, *inputs: ArrayLike) -> list[Array]:
    """Return the outputs of a graph for these inputs, each op bound anew.

    So a graph can be differentiated, batched or traced into another one.

    Raises:
        GraphError: another number of inputs than the graph has.

    >>> import afx
    >>> evaluate(afx.trace(afx.sin)(0.0), afx.zeros(()))
    [Array(0., dtype=float32)]
    """
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise GraphError(f"evaluate: runs a Graph: got {type(graph).__name__}; make one with afx.trace(fn)(*args)")
    if len(inputs) != len(graph.inputs):
        raise GraphError(
            f"evaluate: the graph has {len(graph.inputs)} inputs: got {len(inputs)} values; give one for each"
        )
    known = [*inputs, *[weak_or_strong(c.value) if v.aval.weak else wrap(c.value) for v, c in graph.constants]]

    def read(atoms: Sequence[Any]) -> list[Any]:
        return [number_of(a) if isinstance(a, Literal) else known[a.index] for a in atoms]

    outer = ORIGIN.source
    try:
        for eq in graph.equations:
            ORIGIN.source = None if eq.primitive.opaque else eq.source or outer  # what is held has lines of its own
            with silent(eq.ignored_fp_errors) if eq.ignored_fp_errors else NOTHING:
                out = bind(eq.primitive, *read(eq.inputs), **eq.keywords)
            known.extend(out) if eq.primitive.multiple_results else known.append(out)
    finally:
        ORIGIN.source = outer
    return [x if isinstance(x, Array) else wrap(np.asarray(x)) for x in read(graph.outputs)]


def silent(names: Sequence[str]) -> contextlib.AbstractContextManager[None]:
    """Return a context in which NumPy ignores these floating-point errors."""
    state: Any = dict.fromkeys(names, "ignore")
    return np.errstate(**state)


def number_of(literal: Literal) -> Any:
    """Return a literal as a weak Python number, or as a NumPy scalar where its dtype is fixed."""
    return literal.value if literal.aval.weak else literal.aval.dtype.type(literal.value)


# --- JVP trace: tracers of forward mode hold a value and its tangent


class JVPTracer(Tracer):
    """A value and its tangent, both of the next lower level."""

    __slots__ = ("_tangent",)
    _tangent: Any


def _graph_under(xs: tuple[Any, ...]) -> GraphTrace | None:
    """Return the trace of the graph that operations on some operands become part of, None where they are computed."""
    for x in xs:
        while isinstance(x, Tracer):
            if isinstance(x._trace, GraphTrace):
                return x._trace
            x = x._value
    return None


class JVPTrace(Trace):
    """The trace of `afx.jvp`: concrete, so that Python control flow works; memory does not grow with its length.

    Attributes:
        is_ground: whether all values and tangents are bare NumPy values.
    """

    __slots__ = ("_chooses", "_tangents", "is_ground")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.is_ground: bool = True
        self._chooses: bool = False
        self._tangents: dict[GraphTrace, set[int]] = {}  # which equations of a graph compute tangents

    def finish(self) -> None:
        """Mark the trace as ended; tangents that choices discard do not warn in plans."""
        self.alive = False
        if self._chooses:
            for graph, tangents in self._tangents.items():
                graph.silence_discarded(tangents)
        self._tangents.clear()

    def input(self, x: Any, tangent: Any) -> JVPTracer:
        """Enter an input of the function with its tangent."""
        return self._make(self._lift(x), self._lift(tangent))

    def _lift(self, x: Any) -> Any:
        if isinstance(x, Tracer):
            self.is_ground = False
            return x
        value = snapshot(x, self.name)
        return weak_dtype(value.__class__).type(value) if value.__class__ in SCALARS else value

    def _make(self, value: Any, tangent: Any) -> JVPTracer:
        t = _new(JVPTracer)
        t._trace = self
        t._value = value
        t._tangent = tangent
        return t

    def apply(self, p: Primitive, xs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Carry out an op on values and tangents."""
        self.check()
        if WeakArray in [x.__class__ for x in xs]:
            xs = meet(p, xs)
        if p.derivative.through is not None:
            return p.derivative.through(*xs, **params)
        values, tangents = self._split(p, xs)
        if p.derivative.jvp is None:
            return bind(p, *values, **params)
        # an op that holds functions computes its outputs and their tangents together
        if p.derivative.concrete_vjp is not None:
            zs, ts = p.derivative.jvp(tangents, None, values, params)
            self.check_closure(params, p.name, *zs, *ts)
            return tuple([self._pair(z, t) for z, t in zip(zs, ts, strict=True)])
        z = bind(p, *values, **params)
        if self.is_ground:
            values = tuple(map(to_lower_level, values))
        plain = (tuple(map(to_lower_level, z)) if p.multiple_results else to_lower_level(z)) if self.is_ground else z
        graph = None if self.is_ground else _graph_under((*values, *tangents))
        if graph is None:
            t = p.derivative.jvp(tangents, plain, values, params)
        else:
            start = graph.count_equations()
            t = p.derivative.jvp(tangents, plain, values, params)
            self._tangents.setdefault(graph, set()).update(range(start, graph.count_equations()))
            self._chooses = self._chooses or p.algebra.canonical == "select"
        if p.multiple_results:
            return tuple([self._pair(v, w) for v, w in zip(z, t, strict=True)])
        return self._pair(z, t)

    def _pair(self, z: Any, t: Any) -> Any:
        """Return an output with its tangent, cast to the output's dtype; without one it is a plain value."""
        if t is None or z.dtype.kind not in "fc":
            return z
        if t.dtype != z.dtype:
            t = to_array(t) if not self.is_ground else to_lower_level(t)
            t = (t.real if t.dtype.kind == "c" and z.dtype.kind == "f" else t).astype(z.dtype)
        return self._make(to_lower_level(z), to_lower_level(t))

    def _split(self, p: Primitive, xs: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        values: list[Any] = []
        tangents: list[Any] = []
        for x in xs:
            if isinstance(x, JVPTracer) and x._trace is self:
                values.append(x._value)
                tangents.append(x._tangent)
                continue
            if isinstance(x, Tracer):
                self.is_ground = False
            values.append(x if isinstance(x, Array) else to_numpy_value(x, p.name))
            tangents.append(None)
        values = [to_operand(v) if self.is_ground else snapshot_operand(v, p.name) for v in values]
        if not self.is_ground:
            tangents = [None if t is None else to_operand(t) for t in tangents]
        return tuple(values), tuple(tangents)

    def concrete_value(self, x: Any, who: str) -> Any:
        """Return the bare value where reading it loses nothing, or raise."""
        return plain_value(x, who, self.name)

    def show(self, x: Any) -> str:
        """Return the repr of a tracer."""
        return f"Traced<{x._value!r} by {self.name}>"


# --- Batch trace: tracers of `vmap` stand for many values along a batch axis, which is kept in front


class BatchTracer(Tracer):
    """A value with a batch axis in front, which the function does not see."""

    __slots__ = ()

    @property
    def shape(self) -> Shape:
        """The lengths of the axes, without the batch axis."""
        shape: Shape = self._value.shape
        return shape[1:]

    @property
    def aval(self) -> Aval:
        """The shape, without the batch axis, and dtype."""
        return Aval(self.shape, self.dtype, self._value.aval.weak)


class Unbatched(NamedTuple):
    """An output of a batching rule that is the same for the whole batch, and has no batch axis."""

    value: Any


def _plain_operand(x: Any, who: str) -> Any:
    return to_operand(to_numpy_value(x, who))


class BatchTrace(Trace):
    """The trace of `afx.vmap`.

    Attributes:
        size: the length of the batch axis.
    """

    __slots__ = ("size",)
    knows_values = False

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name)
        self.size: int = size

    def input(self, x: Any) -> BatchTracer:
        """Enter an Array whose first axis is the batch."""
        t = _new(BatchTracer)
        t._trace = self
        t._value = x
        return t

    def apply(self, p: Primitive, xs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Carry out an op for the whole batch."""
        self.check()
        if p.batch is None:
            raise OperandError(f"vmap: {p.name} has no batching rule: got {xs}; call it outside vmap, in a loop")
        batched = tuple([isinstance(x, BatchTracer) and x._trace is self for x in xs])
        inner = [x._value if b else x for x, b in zip(xs, batched, strict=True)]
        operand = snapshot_operand if any(isinstance(x, Tracer) for x in inner) else _plain_operand
        values = tuple([x if isinstance(x, Array) else operand(x, p.name) for x in inner])
        z = p.batch(self.size, values, batched, params)
        if p.derivative.concrete_vjp is not None:
            self.check_closure(params, p.name, *[v.value if isinstance(v, Unbatched) else v for v in z])
        return tuple(map(self._output, z)) if p.multiple_results else self._output(z)

    def _output(self, v: Any) -> Any:
        return v.value if isinstance(v, Unbatched) else self.input(to_array(v))

    def concrete_value(self, x: Any, who: str) -> Any:
        """Return the bare value where reading it loses nothing, or raise."""
        if who == "bool":
            raise ConcreteValueError(
                f"bool: the branch would differ from element to element: got {x.aval} in {self.name}; "
                "choose with afx.where"
            )
        raise ConcreteValueError(
            f"{who}: the value differs from element to element: got {x.aval} in {self.name}; "
            "compute with afx's functions"
        )

    def show(self, x: Any) -> str:
        """Return the repr of a tracer."""
        return f"Traced<{x.aval}, {self.size} times, by {self.name}>"


# --- Recording trace: runs a function on plain values and keeps the program that ran as a `Graph`
#
# So a run can be repeated although what the function closes over has changed since: arrays of the caller that were
# written into, names bound to other values, the variable of a loop. Python control flow works, and stays as it went.


class UnknownValueError(BaseException):
    """A value is abstract or differs along a batch, so that nothing can be computed; its recorder's caller catches it."""


class RecordingTracer(Tracer):
    """A plain value, the variable that stands for it, and whether no derivative flows through it."""

    __slots__ = ("_plain", "_var")
    _plain: bool
    _var: Var

    @property
    def aval(self) -> Aval:
        """The shape and dtype as one value."""
        return self._var.aval


def to_concrete(x: Any) -> Any:
    """Return the plain operand behind the tracers of any number of transformations, others as they are."""
    if not isinstance(x, Tracer):
        return x
    if not is_known(x):
        raise UnknownValueError
    while isinstance(x, Tracer):
        x._trace.check()
        x = x._value
    return to_operand(x)


class RecordingTrace(GraphTrace):
    """An abstract trace that knows the values too."""

    __slots__ = ()
    knows_values = True

    def enter(self, x: Tracer) -> RecordingTracer:
        """Enter an input, traced by an outer transformation."""
        var = self._var(x.aval)
        self._inputs.append(var)
        return self._known_as(var, to_concrete(x), plain=False)

    def known_input(self, aval: Aval, value: Any) -> RecordingTracer:
        """Enter an input whose value is given; it may stand for a Python number, as its Aval says."""
        var = self._var(aval)
        self._inputs.append(var)
        return self._known_as(var, value, plain=False)

    def enter_plain(self, x: Array) -> RecordingTracer:
        """Enter an input that is not traced."""
        var = self._var(x.aval)
        self._inputs.append(var)
        return self._known_as(var, x, plain=True)

    def _known_as(self, var: Var, value: Any, *, plain: bool) -> RecordingTracer:
        t = _new(RecordingTracer)
        t._trace = self
        t._var = var
        t._value = to_lower_level(value)
        t._plain = plain
        return t

    def var_of(self, x: Any) -> Var | None:
        """Return the variable of a tracer of this trace, None for everything else."""
        return x._var if x.__class__ is RecordingTracer and x._trace is self else None

    def apply(self, p: Primitive, xs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Carry out an op, and make an equation of it."""
        self.check()
        z = bind(p, *[to_concrete(x) for x in xs], **params)
        outputs = self.equation(p, xs, params)
        plain = not p.is_differentiable or all(x._plain for x in xs if x.__class__ is RecordingTracer)
        results = [
            self._known_as(v, w, plain=plain) for v, w in zip(outputs, z if p.multiple_results else (z,), strict=True)
        ]
        return tuple(results) if p.multiple_results else results[0]

    def _stand_in(self, atom: Atom, x: Any) -> Any:
        assert isinstance(atom, Var)
        return self._known_as(atom, to_numpy_value(x, self.name), plain=True)

    def concrete_value(self, x: Any, who: str) -> Any:
        """Return the bare value where reading it loses nothing, or raise."""
        return x._value if x._plain else plain_value(x, who, self.name)

    def show(self, x: Any) -> str:
        """Return the repr of a tracer."""
        return f"Traced<{x._value!r} by {self.name}>" if self.alive else f"Traced<{x.aval} by {self.name}, ended>"
