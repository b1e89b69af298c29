"""Graphs of while loops: the condition and the step, and what is derived from them for each kind of derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.simplify import simplify
from afx.control._subgraphs import batched_body, build, full_mask, inexact, zeros_of
from afx.core.aval import Aval
from afx.core.graph import Atom, Graph, Literal, Var
from afx.core.interpreter import evaluate
from afx.core.tracing.tracer import to_array
from afx.ops.elementwise.where import where
from afx.ops.manipulation.shape import reshape
from afx.ops.reductions.boolean import any as any_
from afx.transforms.compile.compiled_call import Back, CompiledGraph, VjpGraphs
from afx.transforms.derivatives.cotangent_masks import DEAD, MARKED

__all__ = ["StepGraphs", "WhileLoop"]


@attrs.frozen
class WhileLoop:
    """The static part of a loop.

    Attributes:
        test: (what it closes over, carry) to a boolean scalar.
        body: (what it closes over, carry) to the next carry.
        a: how many values the condition closes over.
        b: how many values the step closes over.
    """

    test: CompiledGraph
    body: CompiledGraph
    a: int
    b: int

    @property
    def of_test(self) -> list[Aval]:
        """What the condition closes over."""
        return [v.aval for v in self.test.graph.inputs[: self.a]]

    @property
    def of_body(self) -> list[Aval]:
        """What the step closes over."""
        return [v.aval for v in self.body.graph.inputs[: self.b]]

    @property
    def carry(self) -> list[Aval]:
        """The carry."""
        return [v.aval for v in self.body.graph.inputs[self.b :]]

    @property
    def differentiated_carry(self) -> list[int]:
        """The parts of the carry that have derivatives."""
        return [k for k, c in enumerate(self.carry) if inexact(c)]

    def parts(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return operands as those of the condition, of the step, and the carry with what follows it."""
        return list(values[: self.a]), list(values[self.a : self.a + self.b]), list(values[self.a + self.b :])

    def vjp_graphs(self, consts: Sequence[bool]) -> VjpGraphs:
        """Return the derivative of a step by these constants and the carry."""
        return self.body.vjp_graphs((*consts, *[inexact(c) for c in self.carry]))

    def step_graphs(self, consts: Sequence[bool], masked: bool) -> StepGraphs:
        """Return the step with what the way back over it reads, and that way; made once."""
        known = self.vjp_graphs(consts).step_graphs
        if masked not in known:
            known[masked] = _make_steps(self, consts, masked)
        found: StepGraphs = known[masked]
        return found

    def jvp_loop(self, consts: tuple[bool, ...]) -> WhileLoop:
        """Return the loop with tangents: of these constants behind the constants, of the carry behind the carry."""
        moved, n = self.differentiated_carry, len(self.carry)
        moving = (*consts, *[inexact(c) for c in self.carry])
        program = self.body.jvp_graph(moving)
        count = sum(consts)

        def step(*v: Any) -> list[Any]:
            own, tangents, state = v[: self.b], v[self.b : self.b + count], v[self.b + count :]
            outs = evaluate(program.program.graph, *own, *state[:n], *tangents, *state[n:])
            slopes = iter(outs[n:])
            full = [next(slopes) if m else zeros_of(c) for m, c in zip(program.moves, self.carry, strict=True)]
            return [*outs[:n], *[full[k] for k in moved]]

        def going(*v: Any) -> list[Any]:
            return evaluate(self.test.graph, *v[: self.a + n])

        state = [*self.carry, *[self.carry[k] for k in moved]]
        own = [*self.of_body, *[c for c, m in zip(self.of_body, consts, strict=True) if m]]
        test = build("condition", [*self.of_test, *state], going)
        return WhileLoop(test, build("body", [*own, *state], step), self.a, self.b + count)

    def batched_with_one_end(self, size: int, flags: Sequence[bool]) -> tuple[WhileLoop, list[bool]] | None:
        """Return the loop over a batch whose elements all end at one step, and which parts of its carry have a batch axis.

        None where the condition may differ along the batch.
        """
        of_test, of_body, carry = self.parts(flags)
        body, ends = batched_body(self.body, size, (*of_body, *carry), (self.b, self.b + len(carry)))
        test, differs = self.test.batched_where_needed(size, (*of_test, *ends))
        return None if differs[0] else (WhileLoop(test, body, self.a, self.b), ends)

    def batched(self, size: int, flags: Sequence[bool]) -> WhileLoop:
        """Return the loop over a batch: it runs as long as any element does, and the others keep their carry.

        What the condition closes over comes twice: its step needs it too.
        """
        of_test, of_body, _ = self.parts(flags)
        n = len(self.carry)
        test = self.test.batched(size, (*of_test, *[True] * n))
        body = self.body.batched(size, (*of_body, *[True] * n))

        def going(*v: Any) -> list[Any]:
            return [any_(evaluate(test.graph, *v)[0])]

        def step(*v: Any) -> list[Any]:
            old = v[self.a + self.b :]
            alive = evaluate(test.graph, *v[: self.a], *old)[0]
            new = evaluate(body.graph, *v[self.a :])
            return [where(reshape(alive, (size,) + (1,) * (y.ndim - 1)), x, y) for x, y in zip(new, old, strict=True)]

        consts = [v.aval for v in test.graph.inputs[: self.a]]
        inputs = [v.aval for v in body.graph.inputs]
        state = inputs[self.b :]
        return WhileLoop(
            build("condition", [*consts, *state], going),
            build("body", [*consts, *inputs[: self.b], *state], step),
            self.a,
            self.a + self.b,
        )


@attrs.frozen
class StepGraphs:
    """A step of a loop and the way back over it.

    Attributes:
        forward: what the step closes over and the carry to the next carry, then residuals.
        back: what the step closes over, residuals, and what is carried back (sums for constants and cotangents of the
            carry, then the masks of both) to the latter.
    """

    forward: CompiledGraph
    back: CompiledGraph


def _make_steps(loop: WhileLoop, consts: Sequence[bool], masked: bool) -> StepGraphs:
    """Return the two graphs; of residuals only those are kept that the way back reads, and that differ from step to step."""
    pair, count = loop.vjp_graphs(consts), len(loop.carry)
    back = pair.masked([MARKED if own else DEAD for own in pair.owned]) if masked else pair.whole
    graph = simplify(pair.forward.graph)
    residuals = graph.outputs[count:]
    same: dict[Atom, Any] = {v: c.value for v, c in graph.constants}  # in each step
    read = _read(back.program.graph)
    kept = dict.fromkeys([a for k, a in enumerate(residuals) if k in read and _changes(a, loop.b) and a not in same])

    def walk(*v: Any) -> list[Any]:
        known = same | dict(zip(kept, v[loop.b :], strict=False))
        own = [known[a] if a in known else _find_constant(a, v[: loop.b]) for a in residuals]
        return _step_back(loop, consts, back, own, v[loop.b + len(kept) :])

    state = [c for c, m in zip(loop.of_body, consts, strict=True) if m]
    state += [loop.carry[k] for k in loop.differentiated_carry]
    marks = [Aval(a.shape, np.dtype(bool)) for a in state] if masked else []
    return StepGraphs(
        CompiledGraph(attrs.evolve(graph, outputs=(*graph.outputs[:count], *kept))),
        build("step back", [*loop.of_body, *[a.aval for a in kept], *state, *marks], walk),
    )


def _read(graph: Graph) -> set[int]:
    """Return the numbers of the variables that equations and outputs of a graph read."""
    atoms = [a for eq in graph.equations for a in eq.inputs]
    return {a.index for a in (*atoms, *graph.outputs) if isinstance(a, Var)}


def _changes(residual: Atom, consts: int) -> bool:
    return isinstance(residual, Var) and residual.index >= consts


def _find_constant(residual: Atom, consts: Sequence[Any]) -> Any:
    """Return a residual that is the same in each step; None for one that nothing reads."""
    if isinstance(residual, Literal):
        return np.asarray(residual.value, residual.aval.dtype)
    return consts[residual.index] if residual.index < len(consts) else None


def _step_back(
    loop: WhileLoop, consts: Sequence[bool], back: Back, residuals: Sequence[Any], state: Sequence[Any]
) -> list[Any]:
    """Return what is carried back, a step further: sums for constants and cotangents, then the masks of both if given."""
    owned = [loop.b + k for k in loop.differentiated_carry if loop.vjp_graphs(consts).owned[k]]
    summed = [k for k, m in enumerate(consts) if m]
    places = [*summed, *[loop.b + k for k in loop.differentiated_carry]]  # among the inputs of the step
    avals = [v.aval for v in loop.body.graph.inputs]
    values = dict(zip(places, state, strict=False))
    masks = dict(zip(places, state[len(places) :], strict=False))
    marks = [masks[k] for k in owned] if masks else []
    pulled, seen = back.sort(evaluate(back.program.graph, *residuals, *[values[k] for k in owned], *marks))
    slopes = {k: zeros_of(avals[k]) if pulled[k] is None else to_array(pulled[k]) for k in places}
    alive = {k: full_mask(pulled[k], seen[k], avals[k]) for k in masks}
    for k in summed:
        slopes[k] = values[k] if pulled[k] is None else values[k] + slopes[k]
        if masks:
            alive[k] = masks[k] | alive[k]
    return [*slopes.values(), *alive.values()]
