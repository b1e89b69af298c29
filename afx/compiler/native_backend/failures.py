"""Failures of the compiler: the user hears of each kind once, and NumPy's plans run."""

from __future__ import annotations

import contextlib
import warnings
from typing import Literal

__all__ = ["warn"]

_WARNED: list[str] = []  # the kinds of which was told


def warn(kind: Literal["plan", "compiler"], reason: str) -> None:
    """Warn once a process of plans that are not compiled, and once that none is compiled any longer."""
    if kind not in _WARNED:
        _WARNED.append(kind)
        whole = "NumPy plans without machine code" if kind == "compiler" else "a NumPy plan without machine code"
        with contextlib.suppress(RuntimeWarning):  # warnings may be errors: not for the thread that waits
            warnings.warn(f"afx runs {whole}: {reason}", RuntimeWarning, stacklevel=2)
