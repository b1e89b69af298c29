"""Where plans keep NumPy's floating-point warnings to themselves: equations that were traced under ``np.errstate``.

The backward pass of a branch that was not taken divides by zero on purpose and discards the result. Entering
``np.errstate`` costs as much as a small ufunc, so neighbouring lines share one; lines that cannot warn join either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from afx.core.graph import Equation

__all__ = ["Silence", "common", "silence_of", "silenced"]

# the warnings that a line ignores: none of them (), or None where the line cannot warn
Silence: TypeAlias = "tuple[str, ...] | None"
MOVES = frozenset({"select", "reshape", "permute", "broadcast"})


def silence_of(eq: Equation) -> Silence:
    """Return what an equation ignores; None for one that moves or compares values, which never warns."""
    p = eq.primitive
    if p.lowering.may_alias or p.algebra.canonical in MOVES or all(v.aval.dtype.kind == "b" for v in eq.outputs):
        return None
    return eq.ignored_fp_errors


def common(equations: Sequence[Equation]) -> tuple[Silence, bool]:
    """Return what equations that run at once ignore, and whether all that can warn agree."""
    found = {silence for eq in equations if (silence := silence_of(eq)) is not None}
    if len(found) > 1:
        return (), False
    return (found.pop() if found else None), True


def silenced(lines: Sequence[str], silences: Sequence[Silence], margin: str = "") -> list[str]:
    """Return the lines of a program with runs of quiet ones inside ``with np.errstate``."""
    found: list[str] = []
    k = 0
    while k < len(lines):
        names = silences[k]
        end = _end(silences, k) if names else k + 1
        if names:
            states = ", ".join([f"{name}='ignore'" for name in names])
            found.append(f"{margin}with np.errstate({states}):")
        found += [f"    {line}" if names else line for line in lines[k:end]]
        k = end
    return found


def _end(silences: Sequence[Silence], start: int) -> int:
    """Return where a quiet run ends: behind its last line that could warn."""
    end = k = start + 1
    while k < len(silences) and silences[k] in (None, silences[start]):
        k += 1
        if silences[k - 1] is not None:
            end = k
    return end
