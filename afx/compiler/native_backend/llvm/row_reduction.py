"""Reductions of rows as LLVM IR: a row of results stays in registers while others are combined with it, in NumPy's order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from afx.compiler.native_backend.llvm.nested import over
from afx.compiler.native_backend.llvm.op import element_type, emit, lanes, read, written
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Inner, Ref
from afx.compiler.target import NativeTarget
from afx.core.aval import Shape
from afx.core.scalar_ops import scalar_op

__all__ = ["combine_rows", "stays_in_registers"]

COMBINING = ("arithmetic", "extreme")


def stays_in_registers(step: Inner, limits: NativeTarget) -> bool:
    """Tell whether a reduction adds short rows of neighbouring floats to each other, by an instruction."""
    if len(step.operands) != 3 or not step.space:
        return False
    (out, x, into), op = step.operands, scalar_op(step.loop.ufunc)
    is_instruction = out.dtype in ("f4", "f8") and out.dtype in op.dtypes and op.rule[0] in COMBINING
    is_reduction = out == into and out.dtype == x.dtype and 0 in out.strides[:-1]
    is_dense = x.strides[-1] == out.strides[-1] == x.size
    return is_instruction and is_reduction and is_dense and step.space[-1] * x.size <= limits.row_max_bytes


def combine_rows(w: Writer, step: Inner) -> None:
    """Add loops over the rows of results, within these over the rows that each is made of."""
    out, x, _ = step.operands
    outer = range(len(step.space) - 1)
    kept, reduced = [tuple([k for k in outer if bool(out.strides[k]) == is_kept]) for is_kept in (True, False)]
    rows, turns = _along(step.space, kept), _along(step.space, reduced)

    def combine(pointers: list[str]) -> None:
        row = _Row(w, step, pointers[0])
        over(w, turns, [_within(x, reduced)], lambda at: row.combine(at[0]), start=pointers[1:])
        row.write()

    cost = step.nanoseconds / math.prod(rows)
    over(w, rows, [_within(out, kept), _within(x, kept)], combine, nanoseconds=cost)


def _along(values: Shape, axes: Sequence[int]) -> Shape:
    return tuple([values[k] for k in axes])


def _within(ref: Ref, axes: Sequence[int]) -> Ref:
    return attrs.evolve(ref, strides=_along(ref.strides, axes))


class _Row:
    """A row of results in vectors, each in memory that LLVM keeps in a register."""

    def __init__(self, w: Writer, step: Inner, pointer: str) -> None:
        self.w = w
        self.ufunc = step.loop.ufunc
        self.dtype = step.operands[0].dtype
        self.pointer = pointer
        self.size = int(self.dtype[1:])
        self.chunks = [(at, width, self._begin(at, width)) for at, width in self._vectors(step.space[-1])]

    def _vectors(self, length: int) -> list[tuple[int, int]]:
        """Return where vectors begin, and how wide they are: none is narrower than what a processor fills."""
        found, at, width = list[tuple[int, int]](), 0, self.w.limits.vector_bytes // self.size
        while at < length:
            while width > 1 and at + width > length:
                width = width // 2 if width * self.size > self.w.limits.vector_min_bytes else 1
            found.append((at, width))
            at += width
        return found

    def _begin(self, at: int, width: int) -> str:
        w = self.w
        w.lanes = width
        kept = w.local(lanes(w, element_type(self.dtype)), 64)
        written(w, self.dtype, read(w, self.dtype, w.shifted(self.pointer, at * self.size)), kept)
        w.lanes = 1
        return kept

    def combine(self, pointer: str) -> None:
        """Combine each element with that of another row."""
        w = self.w
        for at, width, kept in self.chunks:
            w.lanes = width
            xs = [read(w, self.dtype, p) for p in (kept, w.shifted(pointer, at * self.size))]
            written(w, self.dtype, emit(w, self.ufunc, xs, [self.dtype] * 2, self.dtype), kept)
        w.lanes = 1

    def write(self) -> None:
        """Write the row where it was read."""
        w = self.w
        for at, width, kept in self.chunks:
            w.lanes = width
            written(w, self.dtype, read(w, self.dtype, kept), w.shifted(self.pointer, at * self.size))
        w.lanes = 1
