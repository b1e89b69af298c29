"""Indices as LLVM IR: elements at indices that arrays of integers name."""

from __future__ import annotations

from afx.compiler.native_backend.llvm.nested import element_at, over
from afx.compiler.native_backend.llvm.op import element_type, emit, read, written
from afx.compiler.native_backend.llvm.strip import Extent
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Routine

__all__ = ["emit_indexed"]


def emit_indexed(w: Writer, step: Routine) -> None:
    """Add the loops of elements at indices: those are read once for the axes behind the last one that they walk along."""
    _Indexed(w, step).emit()


class _Indexed:
    """Emitter: ``part`` are the elements that are made or given, ``whole`` is the array that is indexed."""

    def __init__(self, w: Writer, step: Routine) -> None:
        self.w, self.name, self.space = w, step.name, step.space
        *self.indices, x, z = step.operands
        self.part, self.whole = (z, x) if self.name == "gather" else (x, z)
        self.refs = [self.part, self.whole, *self.indices]
        count = len(self.indices)
        self.steps, self.lengths = step.sizes[:count], step.sizes[count:]
        self.depth = max([k + 1 for ref in self.indices for k, s in enumerate(ref.strides) if s] or [0])

    def emit(self) -> None:
        """Add the loops."""
        is_line = self.space and self.depth == len(self.space) and not self.whole.strides[-1]
        if is_line and all(index.strides[-1] == index.size for index in self.indices):
            over(self.w, self.space[:-1], self.refs, self._line)
        else:
            over(self.w, self.space[: self.depth], self.refs, self._move)

    def _move(self, pointers: list[str]) -> None:
        part, whole, *indices = pointers
        for index, ref, length, stride in zip(indices, self.indices, self.lengths, self.steps, strict=True):
            whole = self.w.shifted(whole, _offset(self.w, index, ref.dtype, length, stride))
        self._rows(part, whole)

    def _line(self, pointers: list[str]) -> None:
        """Add a line of elements: strip by strip, their indices are checked in lanes before they are used."""
        w, (part, whole, *indices) = self.w, pointers
        length, most = self.space[-1], w.limits.strip_elements
        offsets = w.local(f"[{min(length, most)} x i64]", 64)

        def strip(start: str, count: int) -> None:
            places = [element_at(w, p, start, ref.strides[-1]) for p, ref in zip(indices, self.indices, strict=True)]
            Extent(w, count).loop(w.limits.index_lanes, lambda i: self._check(places, i, offsets))
            w.loop("0", str(count), 1, lambda i: move(start, i))

        def move(start: str, i: str) -> None:
            k = w.let(f"add nuw nsw i64 {start}, {i}")
            there = w.shifted(whole, w.let(f"load i64, ptr {w.element('i64', offsets, i)}, align 8"))
            self._element(element_at(w, part, k, self.part.strides[-1]), there)

        stop = length - length % most
        if stop:
            w.loop("0", str(stop), most, lambda start: strip(start, most))
        if stop < length:
            strip(str(stop), length - stop)

    def _check(self, places: list[str], i: str, offsets: str) -> None:
        """Store how many bytes neighbouring indices lead away."""
        w, kind, total = self.w, self.w.vector("i64"), ""
        for pointer, ref, length, stride in zip(places, self.indices, self.lengths, self.steps, strict=True):
            leads = _offset(w, w.element(element_type(ref.dtype), pointer, i), ref.dtype, length, stride)
            total = w.let(f"add {kind} {total}, {leads}") if total else leads
        w.line(f"store {kind} {total}, ptr {w.element('i64', offsets, i)}, align 8")

    def _rows(self, part: str, whole: str) -> None:
        """Add loops over the axes that no index walks along, vectors at once where elements are next to each other."""
        w, space, size = self.w, self.space[self.depth :], self.part.size
        dense = bool(space) and self.part.strides[-1] == size == self.whole.strides[-1]

        def one(pointers: list[str]) -> None:
            self._element(pointers[0], pointers[1])

        def row(pointers: list[str]) -> None:
            width = w.limits.vector_bytes // size
            Extent(w, space[-1]).loop(width, lambda i: one([element_at(w, p, i, size) for p in pointers]))

        outer = self.space[:-1] if dense else self.space
        over(w, outer, self.refs[:2], row if dense else one, self.depth, [part, whole])

    def _element(self, part: str, whole: str) -> None:
        w, dtype = self.w, self.part.dtype
        value = read(w, dtype, whole if self.name == "gather" else part)
        if self.name == "add":
            value = emit(w, "add", [read(w, dtype, whole), value], [dtype, dtype], dtype)
        written(w, dtype, value, part if self.name == "gather" else whole)


def _offset(w: Writer, pointer: str, dtype: str, length: int, step: int) -> str:
    """Return how many bytes an index leads away; one outside of its axis is a fault, and leads nowhere."""
    index, kind, test = read(w, dtype, pointer), w.vector("i64"), w.vector("i1")
    if dtype[1:] != "8":
        index = w.let(f"{'sext' if dtype[0] == 'i' else 'zext'} {w.vector(element_type(dtype))} {index} to {kind}")
    zero, all_of = (w.splat("i64", str(n)) for n in (0, length))
    below = w.let(f"icmp slt {kind} {index}, {zero}")
    index = w.let(f"select {test} {below}, {kind} {w.let(f'add {kind} {index}, {all_of}')}, {kind} {index}")
    outside = w.let(f"icmp uge {kind} {index}, {all_of}")
    w.fault(outside)
    inside = w.let(f"select {test} {outside}, {kind} {zero}, {kind} {index}")
    return w.let(f"mul {kind} {inside}, {w.splat('i64', str(step))}")
