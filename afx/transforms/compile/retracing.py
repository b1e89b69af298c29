"""Retracing: a log of a jitted function's traces, and a warning where static values alone call for new ones."""

from __future__ import annotations

import contextlib
import contextvars
import math
import sys
import warnings
from collections.abc import Generator, Sequence
from typing import Any

from afx import pytree
from afx.core.tracing.debug_nans import OPEN_BLOCKS, debugging
from afx.core.tracing.source_info import caller
from afx.errors import RetraceWarning
from afx.pytree.treedef import static_values

__all__ = ["Retracing", "disable_jit"]

WARN_AFTER_TRACES = 10  # of arguments that differ in static values alone

_disabled: contextvars.ContextVar[bool] = contextvars.ContextVar("afx_disable_jit", default=False)


@contextlib.contextmanager
def disable_jit() -> Generator[None]:
    """Run jitted functions as plain Python inside of the ``with`` block: prints, debuggers and branches work there.

    >>> import afx
    >>> with disable_jit():
    ...     afx.jit(lambda x: x if x > 0 else -x)(-2.0)
    2.0
    """
    token = _disabled.set(True)
    OPEN_BLOCKS.append(True)
    try:
        yield
    finally:
        OPEN_BLOCKS.pop()
        _disabled.reset(token)


def is_disabled() -> bool:
    """Tell whether jitted functions run as plain Python here."""
    return _disabled.get() or debugging()


class Retracing:
    """What is known of the traces of one function."""

    __slots__ = ("_first", "_last", "_seen", "_warned", "count")

    def __init__(self) -> None:
        self.count: int = 0
        self._first: tuple[Any, ...] | None = None  # the first trace, until there is another one to compare it with
        self._seen: dict[Any, int] = {}  # traces by all that is no static value
        self._last: tuple[Any, Any, Any] | None = None
        self._warned = False

    def note(self, name: str, fixed: Sequence[Any], treedef: Any, kinds: Sequence[Any], seconds: float) -> None:
        """Take down a trace: log it, and warn where static values alone have called for many."""
        self.count += 1
        if self.count == 1:
            self._first = fixed, treedef, kinds
            self._log(name, None, seconds)
            return
        first, self._first = self._first, None
        if first is not None:
            self._take_down(*first)
        before, values, seen = self._take_down(fixed, treedef, kinds)
        self._log(name, before, seconds)
        if seen >= WARN_AFTER_TRACES and not self._warned and before is not None:
            self._warned = True
            _warn(name, seen, _differing(before[0], values))

    def _take_down(self, fixed: Sequence[Any], treedef: Any, kinds: Sequence[Any]) -> tuple[Any, Any, int]:
        """Note a trace; return the one before, its own static values, and how many differ from it in these alone."""
        values = _static_values(fixed, treedef)
        shape = (tuple([path for path, _ in values]), tuple(pytree.paths(treedef)), tuple(kinds))
        before, self._last = self._last, (values, shape[1], tuple(kinds))
        seen = self._seen[shape] = self._seen.get(shape, 0) + 1
        return before, values, seen

    def _log(self, name: str, before: Any, seconds: float) -> None:
        """Write to the logger ``afx.jit``, if the user has loaded Python's logging."""
        logging: Any = sys.modules.get("logging")
        if logging is not None:
            logger = logging.getLogger("afx.jit")
            if logger.isEnabledFor(logging.INFO):
                logger.info("%s: traced in %.1f ms: %s", name, 1e3 * seconds, _reason(before, self._last))


def _static_values(fixed: Sequence[Any], treedef: Any) -> list[tuple[str, Any]]:
    """Return paths and tokens of all static values: static arguments, then those in trees."""
    named = [(f"static argument {key!r}" if isinstance(key, str) else f"static argument {key}", v) for key, v in fixed]
    return [*named, *[(_argument(path), token) for path, token in static_values(treedef)]]


def _argument(path: str) -> str:
    """Return the name of what stands at this path of the tree of ``(args, kwargs)``."""
    if path.startswith("[0]["):
        number, _, rest = path[4:].partition("]")
        return f"argument {number}{rest}"
    return f"argument {path[4:-1]}" if path.startswith("[1][") and path.count("[") == 2 else f"arguments{path}"


def _differing(old: Sequence[tuple[str, Any]], new: Sequence[tuple[str, Any]]) -> tuple[str, Any, Any]:
    """Return the first static value that differs: its path, what it was and what it is."""
    for (path, was), (_, now) in zip(old, new, strict=False):
        if was != now:
            return path, was[1], now[1]
    return ("a static value", None, None)


def _reason(before: Any, now: Any) -> str:
    """Say why a function was traced."""
    if before is None:
        return "first call"
    if before[2] != now[2]:
        olds, news = ", ".join(map(str, before[2])), ", ".join(map(str, now[2]))
        return f"shapes and dtypes ({news}) after ({olds})"
    if before[1] != now[1]:
        return "another structure of arguments"
    path, was, value = _differing(before[0], now[0])
    return "options in force differ" if was is value is None else f"{path} is {value!r}, was {was!r}"


def _warn(name: str, count: int, found: tuple[str, Any, Any]) -> None:
    path, was, now = found
    advice = "make the function once, outside of the loop" if callable(now) else "let it be an array (afx.asarray)"
    if isinstance(now, float) and math.isnan(now):
        advice = "nan differs from itself: let it be an array, or None"
    message = (
        f"{name}: traced {count} times for static values alone: {path} is {now!r}, was {was!r}; {advice}, "
        "so that one trace serves all its values"
    )
    source = caller()
    if source is None:
        warnings.warn(message, RetraceWarning, stacklevel=2)
    else:
        warnings.warn_explicit(message, RetraceWarning, source.place.file, source.place.line)
