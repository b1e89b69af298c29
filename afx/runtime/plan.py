"""Plans: a graph as straight-line calls on bare NumPy values."""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from afx.core.aval import aval_of
from afx.core.graph import Graph, Literal
from afx.core.tracer import compute

__all__ = ["Plan", "make_plan"]


@attrs.frozen(eq=False)
class Plan:
    """A graph made ready to run: ``plan(*values)`` gives the outputs as fresh bare NumPy values.

    Attributes:
        graph: what it computes.
    """

    graph: Graph
    _steps: tuple[Any, ...] = attrs.field(repr=False)
    _constants: tuple[Any, ...] = attrs.field(repr=False)

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run it on bare values of the graph's input shapes and dtypes."""
        slots: list[Any] = [*inputs, *self._constants]
        for primitive, atoms, params in self._steps:
            z = compute(primitive, tuple([slots[i] if i >= 0 else v for i, v in atoms]), params)
            slots.extend(z) if primitive.multiple else slots.append(z)
        sources = {id(x) for x in (*inputs, *self._constants)}
        return [_fresh(slots[i] if i >= 0 else v, sources) for i, v in map(_slot, self.graph.outputs)]


def _slot(atom: Any) -> tuple[int, Any]:
    if isinstance(atom, Literal):
        return -1, (atom.value if atom.aval.weak else atom.aval.dtype.type(atom.value))
    return atom.index, None


def _fresh(x: Any, sources: set[int]) -> Any:
    """Return an output that shares no memory with the inputs."""
    value = np.asarray(x, aval_of(x).dtype)
    return value.copy() if id(x) in sources or value.base is not None else value


def make_plan(graph: Graph) -> Plan:
    """Return the plan of a graph."""
    steps = tuple([(e.primitive, tuple([_slot(a) for a in e.inputs]), e.keywords) for e in graph.equations])
    return Plan(graph, steps, tuple([c.value for _, c in graph.constants]))
