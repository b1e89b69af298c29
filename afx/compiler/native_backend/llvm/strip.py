"""Strips: as many neighbouring elements of a row as are computed one step after the other.

All strips of a row share their code. The last one may be shorter: loops end earlier there, and what fills no vector takes
vectors of half the size, and half of that, which no other strip comes to. LLVM fills a vector of less than sixteen bytes up
with elements of any value, which raise flags: two floats are computed as four, each of them twice.

A function of the second tier over a strip is a function of LLVM that all its callers share. Its loop has one vector at a
time. What is left over at the end goes through memory of one whole vector, whose other elements repeat the last one: so the
code of a function stands once in a module, and raises no flag of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from afx.compiler.native_backend.functions.table import emit_fast
from afx.compiler.native_backend.llvm.op import memory_type, read, read_one, written
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Fast

__all__ = ["SINGLE_LANES", "Extent", "Lines", "call_on_strip"]

SINGLE_LANES = 4  # of vectors of elements of four bytes that are not filled up

Lines: TypeAlias = "tuple[int, Callable[[str], None]]"
"""How many elements, in several vectors, and what adds the code for them."""


class Extent:
    """Elements of a strip.

    Args:
        w: where loops are emitted.
        count: how many there are.
        rest: how many there are in the last strip; 0 where that is as long as all others.
        is_last: whether this strip is the last one, as a value of LLVM, where that is shorter.

    Attributes:
        has_singles: whether elements are floats of four bytes.
    """

    def __init__(self, w: Writer, count: int, rest: int = 0, is_last: str = "") -> None:
        self.w = w
        self.count: int = count
        self.rest: int = rest
        self.is_last: str = is_last
        self.has_singles: bool = False

    def length(self, multiple: int = 1) -> str:
        """Return how many elements there are, rounded down to a multiple."""
        whole, rest = [n // multiple * multiple for n in (self.count, self.rest)]
        return self.w.let(f"select i1 {self.is_last}, i64 {rest}, i64 {whole}") if self.rest else str(whole)

    def loop(self, width: int, body: Callable[[str], None], lines: Lines | None = None) -> None:
        """Add a loop over vectors, and what is left over; ``lines`` of several vectors come before, where they are given."""
        step, first = lines or (width, body)
        self.w.lanes = width
        if self.rest:
            self.w.loop("0", self.length(step), step, first)
        else:
            self._loop(0, self.count // step * step, step, first)
        ends = [n // step * step for n in (self.count, self.rest)]
        if ends[0] < self.count:
            assert not self.rest
            self._smaller(ends[0], self.count, width, body)
        elif ends[1] < self.rest:
            self.w.when(self.is_last, lambda: self._smaller(ends[1], self.rest, width, body))
        self.w.lanes = 1

    def _smaller(self, at: int, end: int, width: int, body: Callable[[str], None]) -> None:
        """Add loops over vectors, then over smaller and smaller ones."""
        while width >= 2:
            whole = end - (end - at) % width
            is_repeated = self.has_singles and width < SINGLE_LANES
            self.w.lanes, self.w.elements = (SINGLE_LANES, width) if is_repeated else (width, 0)
            self._loop(at, whole, width, body)
            at, width = whole, width // 2
        self.w.lanes, self.w.elements = 1, 0
        self._loop(at, end, 1, body)

    def _loop(self, at: int, end: int, step: int, body: Callable[[str], None]) -> None:
        if end - at > step:
            self.w.loop(str(at), str(end), step, body)
        elif end > at:
            body(str(at))


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
