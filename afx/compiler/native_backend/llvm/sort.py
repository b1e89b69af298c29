"""Sorting as LLVM IR: NumPy's functions for whole rows, called by pointer."""

from __future__ import annotations

from functools import partial

from afx.compiler.native_backend.llvm.flags import Flags
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Product, Ref, UfuncLoop

__all__ = ["emit_sort"]


def emit_sort(w: Writer, step: Product, loop: UfuncLoop, flags: Flags) -> None:
    """Add the loop over rows; flags that comparisons raise are none of NumPy's, and memory that is short is a fault."""
    symbol, (rows, length) = f'@"{loop.symbol}"', step.sizes
    w.declare(symbol, f"declare i32 {symbol}({', '.join(['ptr'] * len(step.operands))}, i64, ptr)")

    def row(number: str) -> None:
        pointers = [_row(w, ref, number, length) for ref in step.operands]
        for out in pointers[1:]:
            w.loop("0", str(length), 1, partial(_store_index, w, out))
        call = f"call i32 {symbol}({', '.join([f'ptr {p}' for p in pointers])}, i64 {length}, ptr null)"
        w.fault(w.let(f"icmp ne i32 {flags.keep_around(lambda: w.let(call))}, 0"))

    w.loop("0", str(rows), 1, row)


def _row(w: Writer, ref: Ref, number: str, length: int) -> str:
    return w.shifted(w.shifted(f"%r{ref.root}", ref.offset), w.let(f"mul nsw i64 {number}, {length * ref.size}"))


def _store_index(w: Writer, out: str, i: str) -> None:
    w.line(f"store i64 {i}, ptr {w.element('i64', out, i)}")
