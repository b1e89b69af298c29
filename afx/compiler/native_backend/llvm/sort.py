"""Sorting as LLVM IR: NumPy's functions for whole rows, called by pointer."""

from __future__ import annotations

from afx.compiler.native_backend.llvm.flags import Flags
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.orders import Sort

__all__ = ["emit_sort"]


def emit_sort(w: Writer, step: Sort, flags: Flags) -> None:
    """Add the loop over rows; flags that comparisons raise are none of NumPy's, and memory that is short is a fault."""
    symbol, size = f'@"{step.loop.symbol}"', int(step.values.dtype[1:])
    pointers = "ptr, ptr" if step.out is not None else "ptr"
    w.declare(symbol, f"declare i32 {symbol}({pointers}, i64, ptr)")

    def row(number: str) -> None:
        args = [f"ptr {_row(w, step.values.root, step.values.offset, number, step.length * size)}"]
        if step.out is not None:
            out = _row(w, step.out.root, step.out.offset, number, step.length * 8)
            w.loop("0", str(step.length), 1, lambda i: w.line(f"store i64 {i}, ptr {_index(w, out, i)}"))
            args.append(f"ptr {out}")
        call = f"call i32 {symbol}({', '.join(args)}, i64 {step.length}, ptr null)"
        w.fault(w.let(f"icmp ne i32 {flags.keep_around(lambda: w.let(call))}, 0"))

    w.loop("0", str(step.rows), 1, row)


def _row(w: Writer, root: int, offset: int, number: str, nbytes: int) -> str:
    return w.shifted(w.shifted(f"%r{root}", offset), w.let(f"mul nsw i64 {number}, {nbytes}"))


def _index(w: Writer, out: str, i: str) -> str:
    return w.let(f"getelementptr i64, ptr {out}, i64 {i}")
