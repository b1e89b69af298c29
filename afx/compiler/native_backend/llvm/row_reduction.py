"""Reductions of rows as LLVM IR: results stay in registers while rows are combined with them, in NumPy's order.

Of rows that are longer one piece after the other is reduced, which threads may share; rows to come are fetched ahead, as
pieces of neighbouring rows lie too far apart for the processor to see them coming.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeGuard

import attrs

from afx.compiler.native_backend.llvm.extreme import row_vectors
from afx.compiler.native_backend.llvm.looks import leave_long
from afx.compiler.native_backend.llvm.nested import element_at, over, start_of
from afx.compiler.native_backend.llvm.op import element_type, emit, read, written
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Inner, Ref, Step
from afx.compiler.target import NativeTarget
from afx.core.aval import Shape
from afx.core.scalar_ops import scalar_op

__all__ = ["combine_rows", "count_pieces", "is_row_reduction"]

COMBINING = ("arithmetic", "extreme")
LINE = 64  # bytes of the cache


def is_row_reduction(step: Step) -> TypeGuard[Inner]:
    """Tell whether a step adds rows of neighbouring floats to each other, by an instruction."""
    if not isinstance(step, Inner) or len(step.operands) != 3 or not step.space:
        return False
    (out, x, into), op = step.operands, scalar_op(step.loop.ufunc)
    is_instruction = out.dtype in ("f4", "f8") and out.dtype in op.dtypes and op.rule[0] in COMBINING
    is_reduction = out == into and out.dtype == x.dtype and 0 in out.strides[:-1]
    return is_instruction and is_reduction and x.strides[-1] == out.strides[-1] == x.size


def combine_rows(w: Writer, step: Inner) -> None:
    """Add loops over pieces of rows of results, within these over the rows that each is made of."""
    size, length = step.operands[1].size, step.space[-1]
    piece = _piece(step, w.limits)
    whole, rest = divmod(length, piece)
    starts = [start_of(w, ref) for ref in step.operands[:2]]
    if length == piece:
        _combine(w, step, starts, length)
        return

    def at(i: str) -> list[str]:
        return [element_at(w, p, i, piece * size) for p in starts]

    low, high = (
        ("%low", w.let(f"call i64 @llvm.smin.i64(i64 %high, i64 {whole})")) if step.is_cut else ("0", str(whole))
    )
    if step.is_cut:
        w.declare("smin", "declare i64 @llvm.smin.i64(i64, i64)")
    w.loop(low, high, 1, lambda i: _combine(w, step, at(i), piece), leave_long(w, whole, step.nanoseconds / whole))
    if rest and step.is_cut:
        w.when(w.let(f"icmp sgt i64 %high, {whole}"), lambda: _combine(w, step, at(str(whole)), rest))
    elif rest:
        _combine(w, step, at(str(whole)), rest)


def count_pieces(step: Inner, limits: NativeTarget) -> int:
    """Return how many pieces the rows of a reduction have."""
    return -(-step.space[-1] // _piece(step, limits))


def _piece(step: Inner, limits: NativeTarget) -> int:
    """Return the elements of a piece: pieces are about equal, all but the last one whole vectors."""
    length, size = step.space[-1], step.operands[1].size
    lanes = limits.vector_bytes // size
    count = -(-length * size // limits.row_max_bytes)
    return length if count == 1 else -(-length // (count * lanes)) * lanes


def _combine(w: Writer, step: Inner, starts: Sequence[str], length: int) -> None:
    """Add the loops over rows of results, of so many elements, and over the rows that each is made of."""
    out, x, _ = step.operands
    outer = range(len(step.space) - 1)
    kept, reduced = [tuple([k for k in outer if bool(out.strides[k]) == is_kept]) for is_kept in (True, False)]
    rows, turns = _along(step.space, kept), _along(step.space, reduced)
    ahead = x.strides[reduced[-1]] * w.limits.row_ahead_rows if length < step.space[-1] else 0

    dtype, kind = out.dtype, element_type(out.dtype)
    width, places = row_vectors(w, dtype, length)
    kept_in = [w.local(f"<{width} x {kind}>", 64) for _ in places]

    def each(pointer: str) -> Iterator[tuple[str, str]]:
        return ((own, w.element(kind, pointer, place)) for own, place in zip(kept_in, places, strict=True))

    def make(pointers: list[str]) -> None:
        w.lanes = width
        for own, at in each(pointers[0]):
            written(w, dtype, read(w, dtype, at), own)
        over(w, turns, [_within(x, reduced)], combine, start=pointers[1:])
        for own, at in each(pointers[0]):
            written(w, dtype, read(w, dtype, own), at)
        w.lanes = 1

    def combine(pointers: list[str]) -> None:
        for line in range(0, length * x.size, LINE) if ahead else ():
            w.declare("prefetch", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
            w.line(f"call void @llvm.prefetch.p0(ptr {w.shifted(pointers[0], ahead + line)}, i32 0, i32 3, i32 1)")
        for own, at in each(pointers[0]):
            xs = [read(w, dtype, p) for p in (own, at)]
            written(w, dtype, emit(w, step.loop.ufunc, xs, [dtype, dtype], dtype), own)

    cost = step.nanoseconds / math.prod(rows) * length / step.space[-1]
    over(w, rows, [_within(out, kept), _within(x, kept)], make, start=starts, nanoseconds=cost)


def _along(values: Shape, axes: Sequence[int]) -> Shape:
    return tuple([values[k] for k in axes])


def _within(ref: Ref, axes: Sequence[int]) -> Ref:
    return attrs.evolve(ref, strides=_along(ref.strides, axes))
