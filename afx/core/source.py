"""Where in a user's file an operation was written."""

from __future__ import annotations

import sys
from types import CodeType, FrameType
from typing import NamedTuple

__all__ = ["Source", "caller"]

_PACKAGE = __name__.rsplit(".", 2)[0] + "."


class Source(NamedTuple):
    """A place in a user's code; turned into a line only when asked."""

    code: CodeType
    offset: int

    def __str__(self) -> str:
        line = next((n for a, b, n in self.code.co_lines() if a <= self.offset < b and n), self.code.co_firstlineno)
        return f"{self.code.co_filename}:{line}"


def caller() -> Source | None:
    """Return the nearest place outside afx that led here."""
    frame: FrameType | None = sys._getframe(2)  # the documented way to the caller's line
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame = frame.f_back
    return None if frame is None else Source(frame.f_code, frame.f_lasti)
