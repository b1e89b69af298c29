"""Source information: the line of a user's file that made an operation."""

from __future__ import annotations

import sys
import threading
from bisect import bisect_right
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any, NamedTuple, cast

__all__ = ["ORIGIN", "Source", "SourceLocation", "caller", "module_names", "places_of", "stack_level"]

_PACKAGE = __name__.partition(".")[0] + "."


class SourceLocation(NamedTuple):
    """A source location in a user's code as text, which other processes understand."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Source(NamedTuple):
    """A source location in a user's code; turned into a line only when asked, or pickled."""

    code: CodeType
    offset: int

    @property
    def file(self) -> str:
        """The file."""
        return self.code.co_filename

    @property
    def place(self) -> SourceLocation:
        """The file, line and function."""
        code = self.code
        line = next((n for a, b, n in code.co_lines() if a <= self.offset < b and n), code.co_firstlineno)
        return SourceLocation(code.co_filename, line, code.co_qualname)

    def __str__(self) -> str:
        return str(self.place)

    def __reduce__(self) -> tuple[type[SourceLocation], SourceLocation]:
        return (SourceLocation, self.place)


def places_of(sources: Iterable[Source | SourceLocation | None]) -> list[SourceLocation | None]:
    """Return the lines of many source locations; the table of lines of each function is read once."""
    tables: dict[CodeType, tuple[list[int], list[int]]] = {}
    found: list[SourceLocation | None] = []
    for source in sources:
        if not isinstance(source, Source):
            found.append(source)
            continue
        code = source.code
        if code not in tables:
            rows = [(start, line or code.co_firstlineno) for start, _, line in code.co_lines()]
            tables[code] = [start for start, _ in rows], [line for _, line in rows]
        starts, lines = tables[code]
        line = lines[bisect_right(starts, source.offset) - 1]
        found.append(_location(SourceLocation, (code.co_filename, line, code.co_qualname)))
    return found


class _Origin(threading.local):
    """What operations are made from that no line of the user's runs for: a graph's equation, or a forward operation."""

    source: Any = None  # a Source or a SourceLocation, or None


ORIGIN = _Origin()
_own: set[int] = set()  # the identities of the namespaces of afx's modules, as they are met
module_names: dict[str, str] = {}  # of the users' files, as they are met


def caller(depth: int = 2) -> Source | None:
    """Return the nearest source location outside afx that led here; so many frames up at least are afx's own.

    Where `ORIGIN` names one, that is it: a graph is evaluated, or an operation pulled back.
    """
    origin: Source | None = ORIGIN.source
    if origin is not None:
        return origin
    frame: FrameType | None = sys._getframe(depth)  # the documented way to the caller's line
    while frame is not None and (id(frame.f_globals) in _own or _is_own(frame)):
        frame = frame.f_back
    return None if frame is None else _source(Source, (frame.f_code, frame.f_lasti))


def stack_level() -> int:
    """Return the ``stacklevel`` with which its caller's `warnings.warn` names the nearest line outside afx."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and _is_own(frame):
        frame, level = frame.f_back, level + 1
    return level


def _is_own(frame: FrameType) -> bool:
    name: str = frame.f_globals.get("__name__", "")
    if not name.startswith(_PACKAGE):
        module_names[frame.f_code.co_filename] = name
        return False
    _own.add(id(frame.f_globals))
    return True


_source = _location = cast("Any", tuple.__new__)  # quicker than the named tuples' own
