"""Binary search as LLVM IR: a fixed number of halvings without a branch, so that searches of several values overlap."""

from __future__ import annotations

from afx.compiler.native_backend.llvm.nested import element_at, over
from afx.compiler.native_backend.llvm.op import FLOATS, compared, element_type, read
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Routine

__all__ = ["emit_search"]


def emit_search(w: Writer, step: Routine) -> None:
    """Add the loops over values."""
    over(w, step.space, step.operands, lambda at: _look(w, step, *at))


def _look(w: Writer, step: Routine, value_at: str, vector: str, out: str) -> None:
    """Store how many elements stand before a value: the place lies in a range whose length is known, and is halved."""
    value, place, length = read(w, step.operands[0].dtype, value_at), "0", step.sizes[0]
    while length > 1:
        half = length // 2
        last = w.let(f"add nuw nsw i64 {place}, {half - 1}")
        is_before = _stands_before(w, step, _element(w, step, vector, last), value)
        place = w.let(f"select i1 {is_before}, i64 {w.let(f'add nuw nsw i64 {place}, {half}')}, i64 {place}")
        length -= half
    is_last = w.let(f"zext i1 {_stands_before(w, step, _element(w, step, vector, place), value)} to i64")
    w.line(f"store i64 {w.let(f'add nuw nsw i64 {place}, {is_last}')}, ptr {out}")


def _element(w: Writer, step: Routine, vector: str, index: str) -> str:
    return read(w, step.operands[1].dtype, element_at(w, vector, index, step.sizes[1]))


def _stands_before(w: Writer, step: Routine, x: str, value: str) -> str:
    """Tell whether an element stands before a value, in NumPy's order, in which nan is the largest."""
    dtype, is_right = step.operands[0].dtype, step.name == "search.right"
    if dtype not in FLOATS:
        sign = "s" if dtype[0] == "i" else "u"
        return w.let(f"icmp {sign}{'le' if is_right else 'lt'} {element_type(dtype)} {x}, {value}")
    kind = element_type(dtype)
    is_nan = w.let(f"fcmp uno {kind} {value}, {value}")
    if not is_right:
        is_nan = w.let(f"and i1 {is_nan}, {w.let(f'fcmp ord {kind} {x}, {x}')}")
    return w.let(f"or i1 {is_nan}, {compared(w, 'ole' if is_right else 'olt', [x, value], dtype)}")
