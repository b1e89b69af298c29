"""Graph trace: values are unknown, operations become equations of a `Graph`."""

from __future__ import annotations

import math
from _thread import get_ident
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from afx.core.array.array import Array, snapshot, to_numpy_value, wrap
from afx.core.aval import Aval, Shape, aval_of
from afx.core.dtypes import DType, promote
from afx.core.graph import Atom, Constant, Equation, Graph, Literal, Var, number_variables
from afx.core.primitive import Primitive, primitive_for_role
from afx.core.registry import FUNCTIONS
from afx.core.tracing.source_info import caller
from afx.core.tracing.tracer import Trace, Tracer, bind
from afx.core.weakness import WeakArray, infer, met_dtype, takes
from afx.errors import ConcreteValueError, OperandError

__all__ = ["GraphTrace", "GraphTracer"]

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
    """The trace of `afx.trace` and `afx.jit`; it sees shapes and dtypes only.

    Attributes:
        expanding: whether opaque calls are inlined, as plans want them.
        lifted: tracers of outer traces that the function closed over; they became extra inputs of the graph.
    """

    __slots__ = (
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
        "lifted",
    )
    knows_values = False

    def __init__(self, name: str, *, expanding: bool = False) -> None:
        super().__init__(name)
        self.expanding: bool = expanding
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
            value: Any = x.exact if isinstance(x, WeakArray) else np.asarray(snapshot(x, self.name))
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
        return tuple([self._tracer(v) for v in outputs]) if p.multiple_results else self._tracer(outputs[0])

    def equation(self, p: Primitive, xs: tuple[Any, ...], params: dict[str, Any]) -> tuple[Var, ...]:
        """Enter an equation; return the variables it defines."""
        # loops in place of comprehensions here and below: each of these is a call, which would double a trace's time
        atoms = self._atoms_of_one_dtype(xs) if p.is_elementwise and p.lowering.ufunc not in LOGICAL else None
        if atoms is None:
            found: list[Atom] = []
            weak = False
            for x in xs:
                atom = x._var if x.__class__ is GraphTracer and x._trace is self else self.atom(x)
                found.append(atom)
                weak = weak or atom.aval.weak
            atoms = tuple(found)
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

    def count_equations(self) -> int:
        """Return how many equations there are so far."""
        return len(self._equations)

    def silence_discarded(self, chosen: set[int]) -> None:
        """Let equations ignore floating-point errors whose results go nowhere but into branches of choices.

        Args:
            chosen: indices of the equations that may be silenced, and whose choices count.
        """
        used, heard = set[int](), set[int]()
        for k in range(len(self._equations) - 1, min(chosen, default=0) - 1, -1):
            eq = self._equations[k]
            results = [v.index for v in eq.outputs]
            silent = k in chosen and used.issuperset(results) and heard.isdisjoint(results)
            if silent:
                self._equations[k] = attrs.evolve(eq, ignored_fp_errors=FP_ERRORS)
            chooses = k in chosen and eq.primitive.algebra.canonical == "select"
            for j, atom in enumerate(eq.inputs):
                if isinstance(atom, Var):
                    used.add(atom.index)
                    if not silent and not (chooses and j):
                        heard.add(atom.index)

    def last_source(self) -> Any:
        """Return where the last equation stands."""
        return self._equations[-1].source if self._equations else None

    def _ignored_fp_errors(self, now: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the warnings that are ignored here, and were not where the trace began."""
        return tuple([name for name, state in now.items() if state == "ignore" != self._errors[name]])

    def _atoms_of_one_dtype(self, xs: tuple[Any, ...]) -> tuple[Atom, ...] | None:
        """Return the operands of an elementwise op if they are tracers of one inexact dtype, and numbers, which take it."""
        common: DType | None = None
        found: list[Any] = []
        has_numbers = False
        for x in xs:
            if x.__class__ is GraphTracer and x._trace is self:
                var = x._var
                if var.aval.weak or var.aval.dtype is not (common or var.aval.dtype):
                    return None
                common = var.aval.dtype
                found.append(var)
            elif x.__class__ is float or (x.__class__ is int and -EXACT < x < EXACT):
                has_numbers = True
                found.append(x)
            else:
                return None
        if common is None or common.kind not in "fc":
            return None
        if has_numbers:
            aval = Aval((), common)
            found = [x if x.__class__ is Var else Literal(common.type(x).item(), aval) for x in found]
        return tuple(found)

    def _same_dtype(self, p: Primitive, xs: tuple[Any, ...], atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
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
        dtype = promote(tuple([a.dtype for a in avals]), tuple([a.weak for a in avals]), p.promotes_to_float)
        if all(a.dtype.kind in "iu" for a in avals) and _compares(p):
            if dtype.kind == "f" or (dtype == np.uint64 and _holds_traced_numbers(atoms)):
                return atoms  # signed beside unsigned: NumPy compares them as they are
            atoms, dtype = _comparable(atoms, dtype)
        if p.lowering.ufunc in LOGICAL:
            return atoms  # which ask for truth alone, of numbers of any dtype
        return tuple(
            [
                a if k < first or (a.aval.dtype == dtype and not a.aval.weak) else self._converted(x, a, dtype, p)
                for k, (x, a) in enumerate(zip(xs, atoms, strict=True))
            ]
        )

    def _met(self, p: Primitive, xs: tuple[Any, ...], atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
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
            "compute with afx's functions, or let the argument be static: "
            "afx.jit(fn, static_argnums=…) or static_argnames=…"
        )

    @property
    def equations(self) -> Sequence[Equation]:
        """The equations so far."""
        return self._equations

    def finish(self, outputs: Sequence[Any]) -> Graph:
        """End the trace and return its graph; variables are numbered in order of definition."""
        atoms = tuple([self.atom(x) for x in outputs])
        self.alive = False
        inputs, constants, equations = (*self._inputs, *self._lifted_vars), self._constants, self._equations
        number_variables(inputs, constants, equations)
        return Graph(inputs, tuple(constants), tuple(equations), atoms)


EXACT = 1 << 53  # integers up to here are floats
LOGICAL = (np.logical_and, np.logical_or, np.logical_xor)
MIXED = "qQ->?"  # a loop of ufuncs that compare signed integers with unsigned ones as they are


def _compares(p: Primitive) -> bool:
    return p.lowering.ufunc is not None and MIXED in p.lowering.ufunc.types


def _comparable(atoms: tuple[Atom, ...], dtype: DType) -> tuple[tuple[Atom, ...], DType]:
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

    new_inputs = tuple([define(v) for v in inputs])
    new_constants = tuple([(define(v), c) for v, c in constants])
    body = tuple(
        [
            Equation(
                e.primitive,
                tuple([use(a) for a in e.inputs]),
                tuple([define(v) for v in e.outputs]),
                e.params,
                e.source,
                e.ignored_fp_errors,
            )
            for e in equations
        ]
    )
    return Graph(new_inputs, new_constants, body, tuple([use(a) for a in outputs]))
