"""Short rows as LLVM IR: a row of neighbouring floats in a few vectors, of which the last one may overlap the one before.

An extreme does not mind an element twice, so no element stands alone; only the sign of a zero, and what nan carries,
depend on the order in which elements are compared, and such rows are compared again in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from afx.compiler.native_backend.llvm.nested import over
from afx.compiler.native_backend.llvm.op import element_type, emit, read, shuffled, written
from afx.compiler.native_backend.llvm.strict import compare_strictly
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Routine
from afx.compiler.target import NativeTarget
from afx.core.aval import Shape

__all__ = ["ShortRow", "emit_ordered_extreme", "is_short_row"]


def is_short_row(dtype: str, space: Shape, stride: int, limits: NativeTarget) -> bool:
    """Tell whether the rows of a space fill some vectors, none of which LLVM would fill up."""
    size = int(dtype[1:])
    is_dense = dtype in ("f4", "f8") and stride == size
    return is_dense and space[-1] <= limits.short_row_max_elements and space[-1] * size >= limits.vector_min_bytes


class ShortRow:
    """The elements of one row in registers."""

    def __init__(self, w: Writer, dtype: str, length: int, pointer: str) -> None:
        self.w = w
        self.dtype = dtype
        self.kind: str = element_type(dtype)
        most = min(length, w.limits.vector_bytes // int(dtype[1:]))
        self.lanes: int = 1 << (most.bit_length() - 1)
        self.starts: list[int] = [*range(0, length - self.lanes, self.lanes), length - self.lanes]
        w.lanes = self.lanes
        self.vectors: list[str] = [read(w, dtype, p) for p in [w.element(self.kind, pointer, k) for k in self.starts]]
        w.lanes = 1

    def extreme(self, name: str) -> str:
        """Return the largest or smallest element in all lanes, nan where there is one."""
        w, found = self.w, self.vectors[0]
        w.lanes = self.lanes
        for x in self.vectors[1:]:
            found = self._better(name, found, x)
        width = self.lanes
        while width > 1:
            width //= 2
            found = self._better(name, found, self._turned(found, width))
        w.lanes = 1
        return found

    def _better(self, name: str, x: str, y: str) -> str:
        return emit(self.w, name, [x, y], [self.dtype, self.dtype], self.dtype)

    def _turned(self, x: str, count: int) -> str:
        """Return a vector with its lanes moved round by so many."""
        return shuffled(self.w, self.kind, x, self.lanes, [(k + count) % self.lanes for k in range(self.lanes)])

    def first(self, x: str) -> str:
        """Return the first lane of a vector."""
        return self.w.let(f"extractelement <{self.lanes} x {self.kind}> {x}, i64 0")

    def find(self, x: str) -> str:
        """Return the index of the first element that is nan, or equal to that in all lanes of a vector."""
        w, bits = self.w, "0"
        w.lanes = self.lanes
        for vector, start in zip(self.vectors, self.starts, strict=True):
            odd = compare_strictly(w, "uno", self.kind, [vector, vector])
            equal = compare_strictly(w, "oeq", self.kind, [vector, x])
            test = w.let(f"or <{self.lanes} x i1> {odd}, {equal}")
            mask = w.let(f"zext i{self.lanes} {w.let(f'bitcast <{self.lanes} x i1> {test} to i{self.lanes}')} to i64")
            bits = w.let(f"or i64 {bits}, {w.let(f'shl i64 {mask}, {start}')}")
        w.lanes = 1
        w.declare("@llvm.cttz.i64", "declare i64 @llvm.cttz.i64(i64, i1)")
        return w.let(f"call i64 @llvm.cttz.i64(i64 {bits}, i1 false)")


def emit_ordered_extreme(w: Writer, step: Routine) -> None:
    """Add the loops over rows whose extreme is that of comparing elements one after the other."""
    over(
        w,
        step.space[:-1],
        step.operands,
        partial(_extreme_of_row, w, step.name, step.operands[0].dtype, step.space[-1]),
    )


def _extreme_of_row(w: Writer, ufunc: str, dtype: str, length: int, pointers: Sequence[str]) -> None:
    x, out = pointers
    row = ShortRow(w, dtype, length, x)
    found = row.first(row.extreme(ufunc))
    written(w, dtype, found, out)
    name, kind = f"@ordered.{ufunc}.{dtype}", row.kind
    w.define(name, f"internal {kind} {name}(ptr %x, i64 %n) noinline cold", partial(_in_order, w, ufunc, dtype))
    is_odd = compare_strictly(w, "ueq", kind, [found, "0.0"])
    w.when(is_odd, lambda: written(w, dtype, w.let(f"call {kind} {name}(ptr {x}, i64 {length})"), out))


def _in_order(w: Writer, ufunc: str, dtype: str) -> None:
    """Return the extreme of elements from the first one on."""
    kind = element_type(dtype)

    def compare(i: str, best: Sequence[str]) -> list[str]:
        x = read(w, dtype, w.element(kind, "%x", i))
        return [emit(w, ufunc, [*best, x], [dtype, dtype], dtype)]

    (best,) = w.carry([(kind, read(w, dtype, "%x"))], "1", "%n", 1, compare)
    w.line(f"ret {kind} {best}")
