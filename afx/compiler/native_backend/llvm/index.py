"""Indices as LLVM IR: elements at indices that arrays of integers name."""

from __future__ import annotations

from afx.compiler.native_backend.llvm.extent import Extent
from afx.compiler.native_backend.llvm.nested import element_at, over
from afx.compiler.native_backend.llvm.op import element_type, emit, read, written
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Indexed, Ref

__all__ = ["emit_indexed"]


def emit_indexed(w: Writer, step: Indexed) -> None:
    """Add the loops of elements at indices: those are read once for the axes behind the last one that they walk along."""
    refs = step.refs
    depth = max([k + 1 for ref in step.indices for k, s in enumerate(ref.strides) if s] or [0])
    if step.space and depth == len(step.space) and all(map(_is_dense, step.indices)) and not step.whole.strides[-1]:
        over(w, step.space[:-1], refs, lambda p: _line(w, step, p))
        return

    def move(pointers: list[str]) -> None:
        part, whole, *indices = pointers
        for k, index in enumerate(indices):
            whole = w.shifted(whole, _offset(w, index, step.indices[k].dtype, step.lengths[k], step.steps[k]))
        _rows(w, step, depth, part, whole)

    over(w, step.space[:depth], refs, move)


def _is_dense(index: Ref) -> bool:
    return index.strides[-1] == int(index.dtype[1:])


def _line(w: Writer, step: Indexed, pointers: list[str]) -> None:
    """Add a line of elements: strip by strip, their indices are checked in lanes before they are used."""
    part, whole, *indices = pointers
    length, most = step.space[-1], w.limits.strip_elements
    offsets = w.local(f"[{min(length, most)} x i64]", 64)

    def strip(start: str, count: int) -> None:
        places = [
            w.shifted(p, w.let(f"mul nsw i64 {start}, {ref.strides[-1]}"))
            for p, ref in zip(indices, step.indices, strict=True)
        ]
        Extent(w, count).loop(w.limits.index_lanes, lambda i: _check(w, step, places, i, offsets))
        w.loop("0", str(count), 1, lambda i: move(start, i))

    def move(start: str, i: str) -> None:
        k = w.let(f"add nuw nsw i64 {start}, {i}")
        there = w.shifted(whole, w.let(f"load i64, ptr {w.element('i64', offsets, i)}, align 8"))
        _element(w, step, element_at(w, part, k, step.part.strides[-1]), there)

    stop = length - length % most
    if stop:
        w.loop("0", str(stop), most, lambda start: strip(start, most))
    if stop < length:
        strip(str(stop), length - stop)


def _check(w: Writer, step: Indexed, places: list[str], i: str, offsets: str) -> None:
    """Store how many bytes neighbouring indices lead away."""
    kind, total = w.vector("i64"), ""
    for pointer, ref, length, stride in zip(places, step.indices, step.lengths, step.steps, strict=True):
        leads = _offset(w, w.element(element_type(ref.dtype), pointer, i), ref.dtype, length, stride)
        total = w.let(f"add {kind} {total}, {leads}") if total else leads
    w.line(f"store {kind} {total}, ptr {w.element('i64', offsets, i)}, align 8")


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


def _rows(w: Writer, step: Indexed, depth: int, part: str, whole: str) -> None:
    """Add loops over the axes that no index walks along, vectors at once where elements are next to each other."""
    space, refs = step.space[depth:], (step.part, step.whole)
    size = int(step.part.dtype[1:])
    dense = bool(space) and step.part.strides[-1] == size == step.whole.strides[-1]

    def one(pointers: list[str]) -> None:
        _element(w, step, pointers[0], pointers[1])

    def row(pointers: list[str]) -> None:
        width = w.limits.vector_bytes // size
        Extent(w, space[-1]).loop(width, lambda i: one([element_at(w, p, i, size) for p in pointers]))

    over(w, step.space[:-1] if dense else step.space, refs, row if dense else one, depth, [part, whole])


def _element(w: Writer, step: Indexed, part: str, whole: str) -> None:
    dtype = step.part.dtype
    if step.kind == "gather":
        written(w, dtype, read(w, dtype, whole), part)
        return
    value = read(w, dtype, part)
    if step.kind == "add":
        value = emit(w, "add", [read(w, dtype, whole), value], [dtype, dtype], dtype)
    written(w, dtype, value, whole)
