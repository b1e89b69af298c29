"""Strips: functions of the second tier over neighbouring elements, each a function of LLVM that all its callers share.

Its loop has one vector at a time. What is left over at the end of a strip goes through memory of one whole vector, whose
other elements repeat the last one: so the code of a function stands once in a module, and raises no flag of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from afx.compiler.native_backend.functions.table import emit_fast
from afx.compiler.native_backend.llvm.op import memory_type, read, read_one, written
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Fast

__all__ = ["call_on_strip"]


def call_on_strip(
    w: Writer, function: Fast, dtype: str, operands: Sequence[tuple[str, int]], out: str, count: str, lanes: int
) -> None:
    """Add a call of a function on a strip.

    Args:
        w: where it is emitted.
        function: what is computed.
        dtype: of operands and result.
        operands: pointers and strides, which are 0 or those of neighbours.
        out: where the results go, next to each other.
        count: length of the strip.
        lanes: how many elements are computed at once.
    """
    strides = [stride for _, stride in operands]
    name = f"@strip.{function.name}.{dtype}.{'.'.join(map(str, strides))}"
    names = [f"%x{k}" for k in range(len(operands))]
    params = ", ".join([f"ptr {x}" for x in (*names, "%z")])
    w.define(
        name,
        f"internal void {name}({params}, i64 %count) noinline",
        lambda: _Strip(w, function, dtype, strides, lanes).emit(names),
    )
    w.line(f"call void {name}({', '.join([f'ptr {p}' for p in (*[p for p, _ in operands], out)])}, i64 {count})")


class _Strip:
    """Emitter of the loop over a strip."""

    def __init__(self, w: Writer, function: Fast, dtype: str, strides: Sequence[int], lanes: int) -> None:
        self.w = w
        self.function = function
        self.dtype = dtype
        self.strides = strides
        self.lanes = lanes
        self.size = int(dtype[1:])

    def emit(self, names: Sequence[str]) -> None:
        """Add it; operands that repeat one element are read anew for each vector."""
        w, before = self.w, self.w.lanes
        w.lanes = self.lanes
        whole = w.let(f"and i64 %count, {-self.lanes}")
        rest = w.let(f"mul nuw nsw i64 {w.let(f'sub nuw nsw i64 %count, {whole}')}, {self.size}")
        edges = [self._edge(x, whole, rest) if stride else x for x, stride in zip(names, self.strides, strict=True)]
        edge = w.local(f"[{self.lanes} x {memory_type(self.dtype)}]", 64)

        def vector(i: str) -> None:
            is_whole = w.let(f"icmp ult i64 {i}, {whole}")
            xs = [
                read(w, self.dtype, self._chosen(is_whole, x, i, other)) if stride else read_one(w, self.dtype, x)
                for x, other, stride in zip(names, edges, self.strides, strict=True)
            ]
            z = emit_fast(w, self.function, xs, self.dtype)
            written(w, self.dtype, z, self._chosen(is_whole, "%z", i, edge))

        w.loop("0", "%count", self.lanes, vector)
        self.w.copy(self._at("%z", whole), edge, rest)
        w.line("ret void")
        w.lanes = before

    def _edge(self, x: str, whole: str, rest: str) -> str:
        """Return memory of one vector that begins with what is left over."""
        w = self.w
        found = w.local(f"[{self.lanes} x {memory_type(self.dtype)}]", 64)
        last = self._at(x, w.let("sub nsw i64 %count, 1"))
        written(w, self.dtype, read_one(w, self.dtype, last), found)
        self.w.copy(found, self._at(x, whole), rest)
        return found

    def _at(self, pointer: str, i: str) -> str:
        return self.w.element(memory_type(self.dtype), pointer, i)

    def _chosen(self, is_whole: str, pointer: str, i: str, edge: str) -> str:
        return self.w.let(f"select i1 {is_whole}, ptr {self._at(pointer, i)}, ptr {edge}")
