"""Pairwise sums: LLVM IR of sums in the order of NumPy's loops.

A sum of up to 128 elements has eight accumulators, joined in pairs, and adds what is left over one by one; a longer one
is the sum of its halves, the first of which is rounded down to a multiple of eight (``pairwise_sum`` of NumPy's
``loops_utils.h``). Four neighbouring sums of up to 128 elements are computed side by side, so that none waits for its own
last addition.
"""

from __future__ import annotations

from collections.abc import Sequence

from afx.compiler.native_backend.llvm.op import element_type, shuffled
from afx.compiler.native_backend.llvm.strip import SINGLE_LANES
from afx.compiler.native_backend.llvm.writer import Writer, compute_strictly

__all__ = ["PAIRWISE_MIN_ELEMENTS", "emit_sum"]

PAIRWISE_MIN_ELEMENTS = 8  # fewer ones are added to a zero whose sign is that of NumPy's version
LEAF = 128


def emit_sum(w: Writer, dtype: str, pointer: str, count: int) -> str:
    """Return the sum of neighbouring elements, eight or more."""
    kind, name = element_type(dtype), f"@sum.{dtype}"
    w.define(name, f"internal {kind} {name}(ptr %x, i64 %n)", lambda: _Sum(w, dtype, name).emit())
    return w.let(f"call {kind} {name}(ptr {pointer}, i64 {count})")


class _Sum:
    """Emitter of the function of one dtype."""

    def __init__(self, w: Writer, dtype: str, name: str) -> None:
        self.w = w
        self.name = name
        self.kind = element_type(dtype)
        self.size = int(dtype[1:])

    def emit(self) -> None:
        """Add a leaf, four leaves, and two halves."""
        w = self.w
        w.line(f"br i1 {w.let(f'icmp sle i64 %n, {LEAF}')}, label %leaf, label %longer")
        w.label("leaf")
        w.line(f"ret {self.kind} {self._finished(self._begun('%x'), '%x', '8', '%n')}")
        w.label("longer")
        low, high = self._halves("%n")
        first, second, third, fourth = *self._halves(low), *self._halves(high)
        w.line(f"br i1 {w.let(f'icmp sle i64 {low}, {LEAF}')}, label %halves, label %look")
        w.label("look")
        fits = [w.let(f"icmp sle i64 {n}, {LEAF}") for n in (second, fourth)]
        w.line(f"br i1 {w.let(f'and i1 {fits[0]}, {fits[1]}')}, label %leaves, label %halves")
        w.label("leaves")
        self._leaves((first, second, third, fourth))
        w.label("halves")
        both = [
            w.let(f"call {self.kind} {self.name}(ptr {p}, i64 {n})")
            for p, n in (("%x", low), (self.w.element(self.kind, "%x", low), high))
        ]
        w.line(f"ret {self.kind} {self._add(*both)}")

    def _halves(self, n: str) -> tuple[str, str]:
        """Return the lengths of the halves of a sum."""
        low = self.w.let(f"and i64 {self.w.let(f'lshr i64 {n}, 1')}, -8")
        return low, self.w.let(f"sub i64 {n}, {low}")

    def _add(self, x: str, y: str) -> str:
        return compute_strictly(self.w, "fadd", self.kind, [x, y])

    def _begun(self, pointer: str) -> str:
        """Return the first eight elements."""
        return self.w.let(f"load <8 x {self.kind}>, ptr {pointer}, align {self.size}")

    def _more(self, sums: Sequence[str], pointers: Sequence[str], start: str, stop: str) -> list[str]:
        """Add to accumulators what follows from one index on, eight elements at a time."""
        w, kind = self.w, f"<8 x {self.kind}>"

        def add(i: str, sums: Sequence[str]) -> list[str]:
            parts = [self._begun(w.element(self.kind, p, i)) for p in pointers]
            return [w.let(f"fadd {kind} {x}, {part}") for x, part in zip(sums, parts, strict=True)]

        return w.carry([(kind, x) for x in sums], start, stop, 8, add)

    def _finished(self, total: str, pointer: str, start: str, n: str) -> str:
        """Return a sum of so many elements, of which the eight accumulators have seen those before ``start``."""
        w, whole = self.w, self.w.let(f"and i64 {n}, -8")
        (total,) = self._more([total], [pointer], start, whole)

        def add(i: str, sums: Sequence[str]) -> list[str]:
            x = w.let(f"load {self.kind}, ptr {w.element(self.kind, pointer, i)}, align {self.size}")
            return [w.let(f"fadd {self.kind} {sums[0]}, {x}")]

        (total,) = w.carry([(self.kind, self._add_pairs(total))], whole, n, 1, add)
        return total

    def _add_pairs(self, total: str) -> str:
        """Return the sum of the eight accumulators."""
        w, lanes = self.w, 8
        for width in (4, 2):
            w.lanes = SINGLE_LANES if self.kind == "float" else width  # LLVM fills shorter ones up
            parts = [[2 * (k % width) + odd for k in range(w.lanes)] for odd in (0, 1)]
            total, lanes = self._add(*[shuffled(w, self.kind, total, lanes, part) for part in parts]), w.lanes
        w.lanes = 1
        return self._add(*[w.let(f"extractelement <{lanes} x {self.kind}> {total}, i64 {k}") for k in (0, 1)])

    def _leaves(self, lengths: Sequence[str]) -> None:
        """Return from the function with the sum of four leaves, the first of which is the shortest."""
        w, pointers = self.w, ["%x"]
        for n in lengths[:-1]:
            pointers.append(self.w.element(self.kind, pointers[-1], n))
        begun = self._more([self._begun(p) for p in pointers], pointers, "8", lengths[0])
        parts = [self._finished(x, p, lengths[0], n) for x, p, n in zip(begun, pointers, lengths, strict=True)]
        halves = [self._add(*parts[:2]), self._add(*parts[2:])]
        w.line(f"ret {self.kind} {self._add(*halves)}")
