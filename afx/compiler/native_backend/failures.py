"""Failures of the compiler and their reasons: the user hears of each kind once, and the logger ``afx.jit``; NumPy's plans run."""

from __future__ import annotations

import contextlib
import importlib
import sys
import warnings
from typing import Any, Literal

__all__ = ["FASTER_BY_NUMPY", "NOT_INSTALLED", "REFUSED", "TOO_LONG", "UNKNOWN_HERE", "log", "warn"]

# why a plan has no machine code
FASTER_BY_NUMPY = "NumPy's calls were faster"
NOT_INSTALLED = "the extra native (llvmlite) is not installed"
TOO_LONG = "it is too long"
UNKNOWN_HERE = "this Python or processor is not known to the native back end"
REFUSED = (
    "machine code left {} calls in a row to NumPy's plan: their floating-point errors, indices or arguments were NumPy's to "
    "judge"
)

_WARNED: list[str] = []  # the kinds of which was told


def warn(kind: Literal["plan", "compiler"], reason: str) -> None:
    """Warn once a process of plans that are not compiled, and once that none is compiled any longer."""
    if kind not in _WARNED:
        _WARNED.append(kind)
        whole = "NumPy plans without machine code" if kind == "compiler" else "a NumPy plan without machine code"
        with contextlib.suppress(RuntimeWarning):  # warnings may be errors: not for the thread that waits
            warnings.warn(f"afx runs {whole}: {reason}", RuntimeWarning, stacklevel=2)


def log(message: str, *, is_asked: bool) -> None:
    """Write to the logger ``afx.jit``: a warning where machine code was asked for, else an info, if logging is loaded."""
    logging: Any = importlib.import_module("logging") if is_asked else sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("afx.jit").log(logging.WARNING if is_asked else logging.INFO, "%s", message)
