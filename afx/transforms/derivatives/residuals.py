"""Residuals of a loop's step: which values the way back reads from memory, and where inputs of graphs are alive."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from afx.core import Aval, Params, Primitive, Shape, Value, bind, to_lower_level
from afx.core.graph import Equation, Graph, Literal, Var
from afx.core.primitive import Printable
from afx.core.tracing.traces import GraphTrace, GraphTracer, number_of, silent
from afx.ops import logical_or, not_equal
from afx.transforms.derivatives.cotangent_masks import live_operand

# --- Residuals of a loop's step: which values the way back reads from memory, and which it computes anew
#
# What a step moves or adds up is made again of residuals that are kept anyway, of constants of the loop, or of
# smaller values: the loop then stacks less, and the way back reads less (as rematerialisation does, Griewank &
# Walther 2008, ch. 12, but for single cheap operations). The same operations give the same bits.

MOVES = frozenset({"permute", "reshape", "broadcast", "slice", "stack", "concat"})
ARITHMETIC: Collection[Any] = (np.add, np.subtract, np.multiply, np.negative)
DEPTH = 4  # operations behind each other that are done again


@attrs.frozen(eq=False, repr=False)
class Residuals(Printable):
    """What is kept of a forward run, by the identities of variables, whose numbers are given last.

    Attributes:
        saved: values that it returns.
        remade: equations that give the others, in order.
    """

    saved: Mapping[int, Var]
    remade: tuple[Equation, ...] = ()

    def enter(self, trace: GraphTrace) -> dict[int, GraphTracer]:
        """Return what stands for each value in a trace, of which those that are kept become inputs."""
        tracers = {k: trace.input(v.aval) for k, v in self.saved.items()}
        for eq in self.remade:
            xs = [number_of(a) if isinstance(a, Literal) else tracers[id(a)] for a in eq.inputs]
            with silent(eq.ignored_fp_errors):
                tracers[id(eq.outputs[0])] = bind(eq.primitive, *xs, **eq.keywords)
        return tracers


def choose_residuals(wanted: Sequence[Var], equations: Sequence[Equation], fixed: Sequence[Var]) -> Residuals:
    """Return which values are kept and which are made again.

    Args:
        wanted: what the way back reads.
        equations: of the forward run.
        fixed: inputs that do not change in a loop, which cost nothing.
    """
    chooser = _Chooser(wanted, equations, fixed)
    places = {id(v): k for k, eq in enumerate(equations) for v in eq.outputs}
    for v in sorted(wanted, key=lambda v: places.get(id(v), -1), reverse=True):
        chooser.remake(v)
    remade = [eq for eq in equations if id(eq) in chooser.remade]
    made = {id(eq.outputs[0]) for eq in remade}
    return Residuals({k: v for k, v in chooser.chosen.items() if k not in made}, tuple(remade))


class _Chooser:
    """Decides for one value after the other, the last one first."""

    def __init__(self, wanted: Sequence[Var], equations: Sequence[Equation], fixed: Sequence[Var]) -> None:
        self.chosen = {id(v): v for v in wanted}
        self.remade: set[int] = set()
        self._fixed = {id(v) for v in fixed}
        self._makers = {id(eq.outputs[0]): eq for eq in equations if len(eq.outputs) == 1 and _is_cheap(eq)}
        self._defined = {id(v) for eq in equations for v in eq.outputs}

    def remake(self, v: Var) -> None:
        """Have a value made again where what that reads is no larger than it."""
        for depth in range(DEPTH, 0, -1):
            leaves, equations = dict[int, Var](), list[Equation]()
            self._walk(v, depth, leaves, equations)
            added = sum([x.aval.nbytes for k, x in leaves.items() if k not in self.chosen and k not in self._fixed])
            moves = all(eq.primitive.algebra.canonical in MOVES for eq in equations)
            if equations and (added < v.aval.nbytes or (moves and added == v.aval.nbytes)):
                self.chosen |= leaves
                self.remade |= {id(eq) for eq in equations}
                return

    def _walk(self, v: Var, depth: int, leaves: dict[int, Var], equations: list[Equation]) -> None:
        eq = self._makers.get(id(v)) if depth else None
        if eq is None or (equations and id(v) in self.chosen):
            leaves[id(v)] = v
            return
        equations.append(eq)
        for x in eq.inputs:
            if isinstance(x, Var):
                self._walk(x, depth - 1, leaves, equations)


def _is_cheap(eq: Equation) -> bool:
    p = eq.primitive
    is_move = p.algebra.canonical in MOVES
    return (is_move or p.lowering.ufunc in ARITHMETIC) and not p.has_effects and not p.opaque


# --- Masks through graphs: where the inputs of a graph are alive, by its structure alone


def live_inputs(graph: Graph, alive: Sequence[Value]) -> list[Value]:
    """Return where the inputs of a graph are alive, None where nowhere: derivatives or not.

    Args:
        graph: the function.
        alive: the mask of each output, None where it is dead.
    """
    masks: dict[int, Value] = {}

    def note(index: int, alive: Value) -> None:
        masks[index] = alive if index not in masks else to_lower_level(logical_or(masks[index], alive))

    for atom, mask in zip(graph.outputs, alive, strict=True):
        if not isinstance(atom, Literal) and mask is not None:
            note(atom.index, mask)
    for eq in reversed(graph.equations):
        own = [masks.pop(v.index, None) for v in eq.outputs]
        if all(m is None for m in own):
            continue
        avals, outs = eq.avals, [v.aval.shape for v in eq.outputs]
        for k, atom in enumerate(eq.inputs):
            if not isinstance(atom, Literal):
                note(atom.index, _live_of(eq.primitive, k, own, avals, eq.keywords, outs))
    return [masks.get(v.index) for v in graph.inputs]


def _live_of(
    p: Primitive, k: int, alive: Sequence[Value], avals: Sequence[Aval], params: Params, outs: Sequence[Shape]
) -> Value:
    """Return where an operand is alive of an op whose values are unknown."""
    plain = (
        p.masking.nonnegative_linear
        and p.derivative.vjps is not None
        and len(p.derivative.vjps) == len(avals)
        and not any(p.derivative.reads)
    )
    if not plain or alive[0] is None:
        return live_operand(p, k, alive, avals, params, outs)
    assert p.derivative.vjps is not None
    marks = to_lower_level(alive[0].astype(np.float32))
    cotangent = p.derivative.vjps[k](marks, None, (None,) * len(avals), params, avals[k].shape, np.dtype(np.float32))
    return to_lower_level(not_equal(cotangent, 0))
