"""Failures of the compiler and their reasons: the user hears of each kind once, and NumPy's plans run."""

from __future__ import annotations

import contextlib
import warnings
from typing import Literal

__all__ = ["FASTER_BY_NUMPY", "NOT_INSTALLED", "TOO_LONG", "UNKNOWN_HERE", "warn"]

# why a plan has no machine code
FASTER_BY_NUMPY = "NumPy's calls were faster"
NOT_INSTALLED = "the extra native (llvmlite) is not installed"
TOO_LONG = "it is too long"
UNKNOWN_HERE = "this Python or processor is not known to the native back end"

_WARNED: list[str] = []  # the kinds of which was told


def warn(kind: Literal["plan", "compiler"], reason: str) -> None:
    """Warn once a process of plans that are not compiled, and once that none is compiled any longer."""
    if kind not in _WARNED:
        _WARNED.append(kind)
        whole = "NumPy plans without machine code" if kind == "compiler" else "a NumPy plan without machine code"
        with contextlib.suppress(RuntimeWarning):  # warnings may be errors: not for the thread that waits
            warnings.warn(f"afx runs {whole}: {reason}", RuntimeWarning, stacklevel=2)
