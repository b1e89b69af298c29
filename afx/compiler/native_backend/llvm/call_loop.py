"""Ufunc calls: NumPy's inner loops called by pointer, as LLVM IR."""

from __future__ import annotations

from collections.abc import Sequence

from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import UfuncLoop

__all__ = ["call_loop"]


def call_loop(w: Writer, loop: UfuncLoop, pointers: Sequence[str], sizes: Sequence[str], steps: Sequence[int]) -> None:
    """Call a loop of NumPy: arrays of pointers, sizes and strides, and its own data.

    Loops of ``np.linalg`` have none; those that stand in for them note faults there.
    """
    w.declare(f"{loop.symbol}", f'declare void @"{loop.symbol}"(ptr, ptr, ptr, ptr)')
    data = "%fault" if loop.ufunc.startswith("linalg.") else "null"
    if loop.has_data:
        data = f'@"{loop.symbol}.data"'
        w.declare(data, f"{data} = external global i8")
    args = _array(w, "ptr", pointers)
    counts = _array(w, "i64", sizes)
    strides = _array(w, "i64", [str(s) for s in steps])
    w.line(f'call void @"{loop.symbol}"(ptr {args}, ptr {counts}, ptr {strides}, ptr {data})')


def _array(w: Writer, kind: str, values: Sequence[str]) -> str:
    location = w.local(f"[{len(values)} x i64]", 16)  # eight bytes each, also where pointers have four
    for k, value in enumerate(values):
        w.line(f"store {kind} {value}, ptr {w.shifted(location, 8 * k)}")
    return location
