"""Strict instructions as LLVM IR: floating-point arithmetic that raises the flags of its own operands, where it stands.

Of plain instructions LLVM takes the flags for nothing: it fills short vectors up with elements that nobody asked for,
computes both operations of a pair for both elements, hoists a quotient out of the branch that guards it, and moves it
behind the place where flags are read. Constrained intrinsics stay where they are and what they are. Whole vectors in
long loops, where nothing of that happens, may be plain: LLVM unrolls and schedules those better.
"""

from __future__ import annotations

from collections.abc import Sequence

from afx.compiler.native_backend.llvm.writer import Writer

__all__ = ["compare_strictly", "compute_strictly"]

SIZES = {"float": 32, "double": 64}


def compute_strictly(w: Writer, name: str, kind: str, xs: Sequence[str], result: str = "") -> str:
    """Emit ``fadd``, ``fsub``, ``fmul``, ``fdiv``, ``sqrt`` or ``fptrunc`` of elements of a kind and return its value.

    >>> w = Writer()
    >>> print(compute_strictly(w, "fdiv", "float", ["%x", "%y"]), "call" in w.lines[-1])
    %v1 True
    """
    if not w.keeps_flags:
        return _compute(w, name, kind, xs, result)
    is_whole = w.lanes * SIZES[kind] >= 8 * w.limits.vector_min_bytes and not w.elements
    if w.has_long_loops and is_whole and name in ("fadd", "fsub", "fmul", "fdiv"):
        return w.let(f"{name} {w.vector(kind)} {', '.join(xs)}")
    function = f"experimental.constrained.{name}{f'.{w.suffix(result)}' if result else ''}"
    return w.intrinsic(function, kind, xs, result, ("round.tonearest", "fpexcept.strict"))


def _compute(w: Writer, name: str, kind: str, xs: Sequence[str], result: str) -> str:
    """Emit a plain instruction, where no flag is read."""
    old = w.vector(kind)
    if name == "sqrt":
        return w.intrinsic(name, kind, xs)
    if result:
        return w.let(f"{name} {old} {xs[0]} to {w.vector(result)}")
    return w.let(f"{name} {old} {', '.join(xs)}")


def compare_strictly(w: Writer, predicate: str, kind: str, xs: Sequence[str]) -> str:
    """Compare without a flag for nan, as NumPy does."""
    if not w.keeps_flags:
        return w.let(f"fcmp {predicate} {w.vector(kind)} {xs[0]}, {xs[1]}")
    return w.intrinsic("experimental.constrained.fcmp", kind, xs, "i1", (predicate, "fpexcept.strict"))
