"""Strengthening: weak types end where tracing ends, so that no back end knows them.

A weak value has Python's precision, which is float64 (complex128) to a plan. Where it is only moved (``where``, ``stack``,
``broadcast`` …) and all that reads it converts it to one dtype, it is made in that dtype at once: to round and to
move is to move and to round.
"""

from __future__ import annotations

import attrs
import numpy as np

from afx.core import Aval, DType, common_dtype
from afx.core.graph import Atom, Constant, Equation, Graph, Literal, Var, indices_of
from afx.core.primitive import holds_graphs, precise, primitive_for_role
from afx.core.tracing.traces import GraphTrace, evaluate, renumber

PROMOTING_MOVES = frozenset({"concat", "select", "stack"})
MOVES = PROMOTING_MOVES | {"broadcast", "embed", "gather", "permute", "reshape", "slice"}


def strengthen(graph: Graph, *, expanding: bool = False) -> Graph:
    """Return a graph without weak types that computes the same; its outputs have the dtypes that their Avals name.

    Args:
        graph: any graph.
        expanding: whether functions that it holds are inlined, in which weak operands meet what they meet.

    >>> import afx
    >>> print(strengthen(afx.trace(lambda x: x * afx.where(x > 0, 0.5, 0.0))(afx.ones(2))))
    graph(a:float32[2]) {
      b:bool[2] = greater(a, 0.0)
      c:float32[2] = where(b, 0.5, 0.0)
      d:float32[2] = multiply(a, c)
      return d
    }
    """
    if not any([a.aval.weak for a in _atoms(graph)]):
        return graph
    if expanding and any(map(_runs_function, graph.equations)):
        with GraphTrace("plan", expanding=True) as trace:
            graph = trace.finish(evaluate(graph, *[trace.input(v.aval) for v in graph.inputs]))
    return _Strengthening(graph).run()


def _runs_function(eq: Equation) -> bool:
    return eq.primitive.opaque and holds_graphs(eq.primitive) and any(a.aval.weak for a in eq.inputs)


def _atoms(graph: Graph) -> list[Atom]:
    atoms = [*graph.inputs, *graph.outputs, *[v for v, _ in graph.constants]]
    for eq in graph.equations:
        atoms += eq.inputs
        atoms += eq.outputs
    return atoms


class _Strengthening:
    """One run over a graph: the dtypes that readers want, found from the last equation to the first; then all anew."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._count = max(indices_of(_atoms(graph)), default=-1) + 1
        self._wanted: dict[int, set[DType]] = {}
        self._made: dict[int, Var] = {}
        self._casts: dict[tuple[int, DType], Var] = {}
        self._equations: list[Equation] = []

    def run(self) -> Graph:
        """Return the graph without weak types."""
        graph = self._graph
        for atom in graph.outputs:
            self._want(atom, atom.aval.dtype)
        for eq in reversed(graph.equations):
            for atom, dtype in zip(eq.inputs, self._operand_dtypes(eq), strict=True):
                self._want(atom, eq.aval.dtype if _casts(eq) else dtype)
        inputs = [self._define(v, precise(v.aval.dtype)) for v in graph.inputs]
        constants = [self._constant(v, c) for v, c in graph.constants]
        for eq in graph.equations:
            self._enter(eq)
        outputs = [self._read(a, a.aval.dtype) for a in graph.outputs]
        return renumber(inputs, constants, self._equations, outputs)

    def _want(self, atom: Atom, dtype: DType) -> None:
        if isinstance(atom, Var) and atom.aval.weak:
            self._wanted.setdefault(atom.index, set()).add(dtype)

    def _moved_in(self, eq: Equation) -> DType | None:
        """Return the dtype in which an equation moves weak values, None where it computes with them."""
        if eq.primitive.algebra.canonical not in MOVES or not eq.aval.weak:
            return None
        exact = precise(eq.aval.dtype)
        wanted = self._wanted.get(eq.outputs[0].index, set())
        return next(iter(wanted)) if len(wanted) == 1 and all(d.kind == exact.kind for d in wanted) else exact

    def _operand_dtypes(self, eq: Equation) -> list[DType]:
        """Return the dtype in which each operand is read, if it is weak."""
        p, avals = eq.primitive, eq.avals
        dtypes = [precise(a.dtype) for a in avals]
        first, made = p.condition_operands, self._moved_in(eq)
        if p.algebra.canonical in PROMOTING_MOVES:
            common = made or eq.aval.dtype
        elif p.algebra.canonical in MOVES:
            return [
                made if made is not None and a.dtype.kind == made.kind else d
                for a, d in zip(avals, dtypes, strict=True)
            ]
        elif p.is_elementwise and all(a.weak for a in avals):
            common = common_dtype(avals, p.promotes_to_float)
            common = precise(common)
        else:
            return dtypes
        return [*dtypes[:first], *[common for _ in dtypes[first:]]]

    def _define(self, var: Var, dtype: DType) -> Var:
        new = Var(var.index, Aval(var.aval.shape, dtype)) if var.aval.weak else var
        self._made[var.index] = new
        return new

    def _constant(self, var: Var, constant: Constant) -> tuple[Var, Constant]:
        wanted = self._wanted.get(var.index, set())
        if not var.aval.weak or len(wanted) != 1:
            return self._define(var, constant.value.dtype), constant
        with np.errstate(over="ignore"):
            value = constant.value.astype(next(iter(wanted)))
        return self._define(var, value.dtype), Constant(value)

    def _enter(self, eq: Equation) -> None:
        """Enter an equation with its new operands; a conversion to what is there already is no equation."""
        x = eq.inputs[0] if eq.inputs else None
        if _casts(eq) and isinstance(x, Var) and x.aval.weak:
            self._made[eq.outputs[0].index] = self._in_dtype(self._made[x.index], eq.aval.dtype, eq)
            return
        inputs = tuple([self._read(a, d) for a, d in zip(eq.inputs, self._operand_dtypes(eq), strict=True)])
        made = self._moved_in(eq)
        outputs = tuple([self._define(v, made or precise(v.aval.dtype)) for v in eq.outputs])
        self._equations.append(attrs.evolve(eq, inputs=inputs, outputs=outputs))

    def _read(self, atom: Atom, dtype: DType) -> Atom:
        """Return an operand, in a dtype if it is weak."""
        if isinstance(atom, Var):
            made = self._made[atom.index]
            return self._in_dtype(made, dtype, None) if atom.aval.weak else made
        if not atom.aval.weak:
            return atom
        with np.errstate(over="ignore"):
            return Literal(dtype.type(atom.value).item(), Aval((), dtype))

    def _in_dtype(self, x: Var, dtype: DType, eq: Equation | None) -> Var:
        """Return a variable in a dtype, converted where it has another."""
        if x.aval.dtype == dtype:
            return x
        converted = self._casts.get((x.index, dtype))
        if converted is None:
            converted = self._casts[x.index, dtype] = Var(self._count, Aval(x.aval.shape, dtype))
            self._count += 1
            new = Equation(primitive_for_role("cast"), (x,), (converted,), (("dtype", dtype),))
            self._equations.append(
                new if eq is None else attrs.evolve(new, source=eq.source, ignored_fp_errors=eq.ignored_fp_errors)
            )
        return converted


def _casts(eq: Equation) -> bool:
    return eq.primitive.algebra.canonical == "cast"
