"""Recording trace: runs a function on plain values and keeps the program that ran as a `Graph`.

So a run can be repeated although what the function closes over has changed since: arrays of the caller that were written
into, names bound to other values, the variable of a loop. Python control flow works, and stays as it went.
"""

from __future__ import annotations

from typing import Any

from afx.core.array.array import Array, to_numpy_value
from afx.core.aval import Aval
from afx.core.graph import Atom, Var
from afx.core.primitive import Primitive
from afx.core.tracing.graph_trace import GraphTrace
from afx.core.tracing.tape import plain_value, to_operand
from afx.core.tracing.tracer import Tracer, bind, is_known, to_lower_level

__all__ = ["RecordingTrace", "UnknownValueError"]

_new = object.__new__


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
        found = [
            self._known_as(v, w, plain=plain) for v, w in zip(outputs, z if p.multiple_results else (z,), strict=True)
        ]
        return tuple(found) if p.multiple_results else found[0]

    def _stand_in(self, atom: Atom, x: Any) -> Any:
        assert isinstance(atom, Var)
        return self._known_as(atom, to_numpy_value(x, self.name), plain=True)

    def concrete_value(self, x: Any, who: str) -> Any:
        """Return the bare value where reading it loses nothing, or raise."""
        return x._value if x._plain else plain_value(x, who, self.name)

    def show(self, x: Any) -> str:
        """Return the repr of a tracer."""
        return f"Traced<{x._value!r} by {self.name}>" if self.alive else f"Traced<{x.aval} by {self.name}, ended>"
