"""Error state: wraps runs of generated lines in ``np.errstate``.

The backward pass of a branch that was not taken divides by zero on purpose and discards the result. Entering
``np.errstate`` costs as much as a small ufunc, so neighbouring lines share one; lines that cannot warn join either side.
"""

from __future__ import annotations

from collections.abc import Sequence

from afx.compiler.numpy_backend.program import Line, make_line
from afx.compiler.schedule import ErrorState

__all__ = ["common_errstate", "wrap_errstate"]


def common_errstate(states: Sequence[ErrorState]) -> tuple[ErrorState, bool]:
    """Return what calls that run at once ignore, and whether all that can warn agree."""
    found = {state for state in states if state is not None}
    if len(found) > 1:
        return (), False
    return (found.pop() if found else None), True


def wrap_errstate(lines: Sequence[Line], states: Sequence[ErrorState], margin: str = "") -> list[Line]:
    """Return the lines of a program with runs of those that ignore errors inside ``with np.errstate``."""
    if not any(states):
        return list(lines)
    found: list[Line] = []
    k = 0
    while k < len(lines):
        names = states[k]
        end = _end(states, k) if names else k + 1
        if names:
            ignored = ", ".join([f"{name}='ignore'" for name in names])
            found.append(Line(f"{margin}with np_errstate({ignored}):"))
            found += [make_line(("    " + text.replace("\n", "\n    "), number)) for text, number in lines[k:end]]
        else:
            found.append(lines[k])
        k = end
    return found


def _end(states: Sequence[ErrorState], start: int) -> int:
    """Return where a run ends: behind its last line that could warn."""
    end = k = start + 1
    while k < len(states) and states[k] in (None, states[start]):
        k += 1
        if states[k - 1] is not None:
            end = k
    return end
