"""Values: arithmetic on the names of an ONNX graph, each operation of which writes a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import numpy as np

from afx.core.dtypes import DType
from afx.export.onnx.dims import Length

if TYPE_CHECKING:
    from afx.export.onnx.writer import OnnxWriter

__all__ = ["BOOL", "INT64", "Operand", "Value", "where"]

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
