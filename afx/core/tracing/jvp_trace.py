"""JVP trace: tracers of forward mode hold a value and its tangent."""

from __future__ import annotations

from typing import Any

from afx.core.array.array import Array, snapshot, to_numpy_value
from afx.core.aval import SCALARS
from afx.core.dtypes import weak_dtype
from afx.core.primitive import Primitive
from afx.core.tracing.graph_trace import GraphTrace
from afx.core.tracing.tape import plain_value, snapshot_operand, to_operand
from afx.core.tracing.tracer import Trace, Tracer, bind, meet, to_array, to_lower_level
from afx.core.weakness import WeakArray

__all__ = ["JVPTrace", "JVPTracer"]

_new = object.__new__


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
        values, tangents = self._split(p, xs)
        if p.derivative.jvp is None:
            return bind(p, *values, **params)
        if (
            p.derivative.concrete_vjp is not None
        ):  # an op that holds functions computes its outputs and their tangents together
            zs, ts = p.derivative.jvp(tangents, None, values, params)
            self.check_closure(params, p.name, *zs, *ts)
            return tuple([self._pair(z, t) for z, t in zip(zs, ts, strict=True)])
        z = bind(p, *values, **params)
        if self.is_ground:
            values = tuple([to_lower_level(v) for v in values])
        plain = (
            (tuple([to_lower_level(v) for v in z]) if p.multiple_results else to_lower_level(z))
            if self.is_ground
            else z
        )
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
