"""Floating-point errors that kernels have seen: whether the caller's ``np.errstate`` hears of them, and telling it."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np

from afx.core.tracing.source_info import stack_level

__all__ = ["are_heard", "tell"]

ERRORS = ((1, "divide", "divide by zero"), (2, "over", "overflow"), (8, "invalid", "invalid value"))


def are_heard(errors: int) -> bool:
    """Tell whether the caller's ``np.errstate`` ignores not all of these errors."""
    state: dict[str, Any] = {**np.geterr()}
    return any(errors & flag and state[kind] != "ignore" for flag, kind, _ in ERRORS)


def tell(errors: int) -> None:
    """Do what the caller's ``np.errstate`` says, for a call that cannot run again to find the line.

    Raises:
        FloatingPointError: the caller wants these errors raised.
    """
    state: dict[str, Any] = {**np.geterr()}
    for flag, kind, words in ERRORS:
        if errors & flag:
            _tell(state[kind], flag, words)


def _tell(mode: str, flag: int, words: str) -> None:
    message = f"{words} encountered in a compiled call that donates its arguments"
    handler: Any = np.geterrcall()
    if mode == "raise":
        raise FloatingPointError(message)
    if mode == "warn":
        warnings.warn(message, RuntimeWarning, stacklevel=stack_level())
    elif mode == "print":
        sys.stderr.write(f"Warning: {message}\n")
    elif mode == "call":
        handler(words, flag)
    elif mode == "log":
        handler.write(f"Warning: {message}\n")
