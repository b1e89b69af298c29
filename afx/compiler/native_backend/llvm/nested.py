"""Nested loops as LLVM IR: over the axes of a space, with the pointers of operands moved along, and NumPy's inner loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from afx.compiler.native_backend.llvm.looks import leave_at, looking_axis
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import PARTS, Ref, UfuncLoop
from afx.core.aval import Shape

__all__ = ["call_loop", "element_at", "move", "over", "start_of"]


def start_of(w: Writer, ref: Ref) -> str:
    """Return the pointer to the first element."""
    return w.shifted(f"%r{ref.root}", ref.offset)


def over(
    w: Writer,
    space: Shape,
    refs: Sequence[Ref],
    body: Callable[[list[str]], None],
    first: int = 0,
    start: Sequence[str] | None = None,
    is_cut: bool = False,
    nanoseconds: float = 0.0,
) -> None:
    """Add loops over the outer axes, from the first one on; the body gets the operands' pointers.

    That over the first axis of a nest that is cut goes from ``%low`` to ``%high``. Where the body takes so many nanoseconds,
    one of the loops looks for signals.
    """
    lengths = [n // (PARTS if is_cut and k == 0 else 1) for k, n in enumerate(space)]
    looking = first + looking_axis(lengths[first:], nanoseconds, w.limits)

    def nested(axis: int, pointers: list[str]) -> None:
        if axis == len(space):
            body(pointers)
            return
        low, high = ("%low", "%high") if is_cut and axis == 0 else ("0", str(space[axis]))
        leave = leave_at(w, nanoseconds * math.prod(space[axis + 1 :])) if axis == looking >= first else None
        w.loop(low, high, 1, lambda i: nested(axis + 1, move(w, pointers, refs, axis, i)), leave)

    nested(first, [start_of(w, ref) for ref in refs] if start is None else list(start))


def move(w: Writer, pointers: Sequence[str], refs: Sequence[Ref], axis: int, i: str, unit: int = 1) -> list[str]:
    """Return the pointers to what lies so many units of elements further along an axis."""
    return [element_at(w, p, i, unit * ref.strides[axis]) for p, ref in zip(pointers, refs, strict=True)]


def element_at(w: Writer, pointer: str, i: str, stride: int) -> str:
    """Return the pointer to an element so many strides further."""
    return w.shifted(pointer, w.let(f"mul nsw i64 {i}, {stride}")) if stride else pointer


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
