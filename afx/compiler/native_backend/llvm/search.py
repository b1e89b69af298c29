"""Binary search as LLVM IR: a fixed number of halvings without a branch, so that searches of several values overlap."""

from __future__ import annotations

from afx.compiler.native_backend.leaves import Search
from afx.compiler.native_backend.llvm.nested import element_at, over
from afx.compiler.native_backend.llvm.op import FLOATS, compared, element_type, read
from afx.compiler.native_backend.llvm.writer import Writer

__all__ = ["emit_search"]


def emit_search(w: Writer, step: Search) -> None:
    """Add the loops over values."""
    over(w, step.space, step.refs, lambda at: _look(w, step, *at))


def _look(w: Writer, step: Search, value_at: str, out: str, vector: str) -> None:
    """Store how many elements stand before a value: the place lies in a range whose length is known, and is halved."""
    value, place, length = read(w, step.values.dtype, value_at), "0", step.length
    while length > 1:
        half = length // 2
        last = w.let(f"add nuw nsw i64 {place}, {half - 1}")
        is_before = _stands_before(w, step, _element(w, step, vector, last), value)
        place = w.let(f"select i1 {is_before}, i64 {w.let(f'add nuw nsw i64 {place}, {half}')}, i64 {place}")
        length -= half
    is_last = w.let(f"zext i1 {_stands_before(w, step, _element(w, step, vector, place), value)} to i64")
    w.line(f"store i64 {w.let(f'add nuw nsw i64 {place}, {is_last}')}, ptr {out}")


def _element(w: Writer, step: Search, vector: str, index: str) -> str:
    return read(w, step.values.dtype, element_at(w, vector, index, step.stride))


def _stands_before(w: Writer, step: Search, x: str, value: str) -> str:
    """Tell whether an element stands before a value, in NumPy's order, in which nan is the largest."""
    dtype, kind = step.values.dtype, element_type(step.values.dtype)
    if dtype not in FLOATS:
        sign = "s" if dtype[0] == "i" else "u"
        return w.let(f"icmp {sign}{'le' if step.is_right else 'lt'} {kind} {x}, {value}")
    is_nan = w.let(f"fcmp uno {kind} {value}, {value}")
    if not step.is_right:
        is_nan = w.let(f"and i1 {is_nan}, {w.let(f'fcmp ord {kind} {x}, {x}')}")
    return w.let(f"or i1 {is_nan}, {compared(w, 'ole' if step.is_right else 'olt', [x, value], dtype)}")
