"""Batch trace: tracers of `vmap` stand for many values along a batch axis, which is kept in front."""

from __future__ import annotations

from typing import Any, NamedTuple

from afx.core.array.array import Array, to_numpy_value
from afx.core.aval import Aval, Shape
from afx.core.primitive import Primitive
from afx.core.tracing.tape import snapshot_operand, to_operand
from afx.core.tracing.tracer import Trace, Tracer, to_array
from afx.errors import ConcreteValueError, OperandError

__all__ = ["BatchTrace", "BatchTracer", "Unbatched"]

_new = object.__new__


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
        return tuple([self._output(v) for v in z]) if p.multiple_results else self._output(z)

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
