"""Reductions of rows as LLVM IR: a row of results stays in registers while others are combined with it, in NumPy's order."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import attrs

from afx.compiler.native_backend.llvm.extreme import row_vectors
from afx.compiler.native_backend.llvm.nested import over
from afx.compiler.native_backend.llvm.op import element_type, emit, read, written
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
    """Add loops over the rows of results, each in vectors that LLVM keeps in registers; within these over what it is made of."""
    (out, x, _), outer = step.operands, range(len(step.space) - 1)
    kept, reduced = [tuple([k for k in outer if bool(out.strides[k]) == is_kept]) for is_kept in (True, False)]
    rows, turns = _along(step.space, kept), _along(step.space, reduced)
    dtype, kind = out.dtype, element_type(out.dtype)
    width, starts = row_vectors(w, dtype, step.space[-1])
    places = [w.local(f"<{width} x {kind}>", 64) for _ in starts]

    def each(pointer: str) -> Iterator[tuple[str, str]]:
        return ((place, w.element(kind, pointer, start)) for place, start in zip(places, starts, strict=True))

    def make(pointers: list[str]) -> None:
        w.lanes = width
        for place, at in each(pointers[0]):
            written(w, dtype, read(w, dtype, at), place)
        over(w, turns, [_within(x, reduced)], combine, start=pointers[1:])
        for place, at in each(pointers[0]):
            written(w, dtype, read(w, dtype, place), at)
        w.lanes = 1

    def combine(pointers: list[str]) -> None:
        for place, at in each(pointers[0]):
            xs = [read(w, dtype, p) for p in (place, at)]
            written(w, dtype, emit(w, step.loop.ufunc, xs, [dtype, dtype], dtype), place)

    cost = step.nanoseconds / math.prod(rows)
    over(w, rows, [_within(out, kept), _within(x, kept)], make, nanoseconds=cost)


def _along(values: Shape, axes: Sequence[int]) -> Shape:
    return tuple([values[k] for k in axes])


def _within(ref: Ref, axes: Sequence[int]) -> Ref:
    return attrs.evolve(ref, strides=_along(ref.strides, axes))
