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
        lambda: _emit(w, function, dtype, strides, lanes, names),
    )
    w.line(f"call void {name}({', '.join([f'ptr {p}' for p in (*[p for p, _ in operands], out)])}, i64 {count})")


def _emit(w: Writer, function: Fast, dtype: str, strides: Sequence[int], lanes: int, names: Sequence[str]) -> None:
    """Add the loop over a strip; operands that repeat one element are read anew for each vector."""
    kind, before, w.lanes = memory_type(dtype), w.lanes, lanes
    whole = w.let(f"and i64 %count, {-lanes}")
    rest = w.let(f"mul nuw nsw i64 {w.let(f'sub nuw nsw i64 %count, {whole}')}, {int(dtype[1:])}")
    memory = [w.local(f"[{lanes} x {kind}]", 64) if stride else "" for stride in (*strides, 1)]
    for x, edge in zip(names, memory, strict=False):
        if edge:  # memory of one vector that begins with what is left over, and repeats the last element
            last = w.element(kind, x, w.let("sub nsw i64 %count, 1"))
            written(w, dtype, read_one(w, dtype, last), edge)
            w.copy(edge, w.element(kind, x, whole), rest)

    def vector(i: str) -> None:
        is_whole = w.let(f"icmp ult i64 {i}, {whole}")

        def chosen(pointer: str, edge: str) -> str:
            return w.let(f"select i1 {is_whole}, ptr {w.element(kind, pointer, i)}, ptr {edge}")

        xs = [
            read(w, dtype, chosen(x, edge)) if edge else read_one(w, dtype, x)
            for x, edge in zip(names, memory, strict=False)
        ]
        written(w, dtype, emit_fast(w, function, xs, dtype), chosen("%z", memory[-1]))

    w.loop("0", "%count", lanes, vector)
    w.copy(w.element(kind, "%z", whole), memory[-1], rest)
    w.line("ret void")
    w.lanes = before
