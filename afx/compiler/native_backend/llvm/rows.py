"""Rows of residuals: memory of the C library that grows with the steps of a loop, as LLVM IR."""

from __future__ import annotations

from collections.abc import Sequence

from afx.compiler.native_backend.llvm.writer import Writer

__all__ = ["Rows"]


class Rows:
    """The residuals of one loop: their address, and how many rows there is room for."""

    def __init__(self, w: Writer, state: str, offsets: Sequence[int]) -> None:
        self.w = w
        self._address, self._room = state, w.shifted(state, 8)
        self._offsets, self._size = offsets[:-1], offsets[-1]

    def begin(self) -> None:
        """Begin without rows."""
        self.w.line(f"store ptr null, ptr {self._address}")
        self.w.line(f"store i64 0, ptr {self._room}")

    def at(self, row: str) -> list[str]:
        """Return where the residuals of a step lie."""
        base = self.w.let(f"load ptr, ptr {self._address}")
        start = self.w.shifted(base, self.w.let(f"mul i64 {row}, {self._size}"))
        return [self.w.shifted(start, offset) for offset in self._offsets]

    def make_room(self, row: str, failed: str) -> None:
        """Have memory for a row, twice as much where there is none; where that is too much, note a fault and go to a label."""
        w, k = self.w, self.w.fresh()
        w.declare("realloc", "declare ptr @PyMem_RawRealloc(ptr, i64)")
        room = w.let(f"load i64, ptr {self._room}")
        w.line(f"br i1 {w.let(f'icmp slt i64 {row}, {room}')}, label %fits{k}, label %grow{k}")
        w.label(f"grow{k}")
        is_empty = w.let(f"icmp eq i64 {room}, 0")
        more = w.let(f"select i1 {is_empty}, i64 {w.limits.residuals_first_rows}, i64 {w.let(f'mul i64 {room}, 2')}")
        nbytes = w.let(f"mul i64 {more}, {self._size}")
        w.line(
            f"br i1 {w.let(f'icmp sgt i64 {nbytes}, {w.limits.residuals_max_bytes}')}, label %full{k}, label %take{k}"
        )
        w.label(f"take{k}")
        before = w.let(f"load ptr, ptr {self._address}")
        memory = w.let(f"call ptr @PyMem_RawRealloc(ptr {before}, i64 {nbytes})")
        w.line(f"br i1 {w.let(f'icmp eq ptr {memory}, null')}, label %full{k}, label %grown{k}")
        w.label(f"full{k}")
        w.line("store i64 1, ptr %fault")
        w.line(f"br label %{failed}")
        w.label(f"grown{k}")
        w.line(f"store ptr {memory}, ptr {self._address}")
        w.line(f"store i64 {more}, ptr {self._room}")
        w.line(f"br label %fits{k}")
        w.label(f"fits{k}")

    def end(self) -> None:
        """Give the memory back."""
        self.w.declare("free", "declare void @PyMem_RawFree(ptr)")
        self.w.line(f"call void @PyMem_RawFree(ptr {self.w.let(f'load ptr, ptr {self._address}')})")
        self.w.line(f"store ptr null, ptr {self._address}")
