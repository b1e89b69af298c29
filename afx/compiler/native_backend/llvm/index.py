"""Indices as LLVM IR: elements at indices that arrays of integers name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afx.compiler.native_backend.llvm.op import INLINE, element_type, read, written
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Indexed, Ref
from afx.core.aval import Shape

__all__ = ["emit_indexed", "walk"]

VECTOR_BYTES = 64  # of rows that are moved: LLVM splits what is wider than the processor

Walk = Callable[[list[str]], None]


def emit_indexed(w: Writer, step: Indexed) -> None:
    """Add the loops of elements at indices: those are read once for the axes behind the last one that they walk along."""
    refs = step.operands
    depth = max([k + 1 for ref in step.indices for k, s in enumerate(ref.strides) if s] or [0])

    def move(pointers: list[str]) -> None:
        part, whole, *indices = pointers
        for k, index in enumerate(indices):
            whole = w.shifted(whole, _offset(w, index, step.indices[k].dtype, step.lengths[k], step.steps[k]))
        _rows(w, step, depth, part, whole)

    walk(w, step.space[:depth], refs, [w.shifted(f"%r{ref.root}", ref.offset) for ref in refs], move)


def walk(w: Writer, space: Shape, refs: Sequence[Ref], pointers: list[str], body: Walk, first: int = 0) -> None:
    """Add loops over axes, from the axis ``first`` of the operands on; the body gets their pointers."""
    if not space:
        body(pointers)
        return

    def inside(i: str) -> None:
        found = [_moved(w, p, i, ref.strides[first]) for p, ref in zip(pointers, refs, strict=True)]
        walk(w, space[1:], refs, found, body, first + 1)

    w.loop("0", str(space[0]), 1, inside)


def _moved(w: Writer, pointer: str, i: str, stride: int) -> str:
    return w.shifted(pointer, w.let(f"mul nsw i64 {i}, {stride}")) if stride else pointer


def _offset(w: Writer, pointer: str, dtype: str, length: int, step: int) -> str:
    """Return how many bytes an index leads away; one outside of its axis is a fault, and leads nowhere."""
    index = read(w, dtype, pointer)
    if dtype[1:] != "8":
        index = w.let(f"{'sext' if dtype[0] == 'i' else 'zext'} {element_type(dtype)} {index} to i64")
    below = w.let(f"icmp slt i64 {index}, 0")
    index = w.let(f"select i1 {below}, i64 {w.let(f'add i64 {index}, {length}')}, i64 {index}")
    outside = w.let(f"icmp uge i64 {index}, {length}")
    w.fault(outside)
    return w.let(f"mul i64 {w.let(f'select i1 {outside}, i64 0, i64 {index}')}, {step}")


def _rows(w: Writer, step: Indexed, depth: int, part: str, whole: str) -> None:
    """Add loops over the axes that no index walks along, vectors at once where elements are next to each other."""
    space, refs = step.space[depth:], (step.part, step.whole)
    size = int(step.part.dtype[1:])
    dense = bool(space) and step.part.strides[-1] == size == step.whole.strides[-1]

    def one(pointers: list[str]) -> None:
        _element(w, step, pointers[0], pointers[1])

    def row(pointers: list[str]) -> None:
        at, lanes = 0, VECTOR_BYTES // size
        while lanes:
            whole_vectors = space[-1] - (space[-1] - at) % lanes
            w.lanes = lanes
            if whole_vectors > at:
                w.loop(str(at), str(whole_vectors), lanes, lambda i: one([_moved(w, p, i, size) for p in pointers]))
            at, lanes = whole_vectors, lanes // 2
        w.lanes = 1

    walk(w, space[:-1] if dense else space, refs, [part, whole], row if dense else one, depth)


def _element(w: Writer, step: Indexed, part: str, whole: str) -> None:
    dtype = step.part.dtype
    if step.kind == "gather":
        written(w, dtype, read(w, dtype, whole), part)
        return
    value = read(w, dtype, part)
    if step.kind == "add":
        value = INLINE["add"][1](w, [read(w, dtype, whole), value], dtype)
    written(w, dtype, value, whole)
