"""Extents: how many elements a strip has, and loops over them by vectors.

All strips of a row share their code. The last one may be shorter: loops end earlier there, and what fills no vector takes
vectors of half the size, and half of that, which no other strip comes to. LLVM fills a vector of less than sixteen bytes up
with elements of any value, which raise flags: two floats are computed as four, each of them twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from afx.compiler.native_backend.llvm.writer import Writer

__all__ = ["SINGLE_LANES", "Extent", "Lines"]

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
