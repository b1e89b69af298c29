"""Located tape: a tape with the user's line of every operation, for messages and for hunting nan.

Finding the line at every operation would cost a tenth of the time of small programs, so plain tapes do without. When a
backward pass fails, the function runs once more on a tape of this kind, and the message names the line.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
import weakref
from collections.abc import Generator, Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from afx.core.array.array import Array
from afx.core.primitive import Primitive
from afx.core.tracing.source_info import Source, caller
from afx.core.tracing.tape import Tape, TapeTracer
from afx.core.tracing.tracer import Tracer, bind, bind1, bind2
from afx.errors import NanError

__all__ = ["LocatedTape", "debug_nans", "debugging", "nan_error", "seen_origin"]

OPEN_BLOCKS: list[bool] = []  # not empty while some context looks for nan, or disables jit: one look costs nothing
_debugging: contextvars.ContextVar[bool] = contextvars.ContextVar("afx_debug_nans", default=False)


@contextlib.contextmanager
def debug_nans() -> Generator[None]:
    """Raise where a function's result or gradient is nan, naming the operation and the user's line that made the first.

    Inside the ``with`` block the results of jitted functions, derivatives and loops are checked, and jitted functions run
    as plain Python. A nan in a branch that `where` discards does not count. Of single operations, called outside of such
    functions in the block's thread, the arrays that are still in use when it ends are checked (not under a profiler).

    Raises:
        NanError: from within the block, where a result is nan though no argument is; at its end, for single operations.

    >>> import afx
    >>> with debug_nans():
    ...     afx.grad(lambda x: afx.sqrt(x) * x)(4.0)
    Array(3., dtype=float32)
    """
    token = _debugging.set(True)
    OPEN_BLOCKS.append(True)
    watch = NanWatch() if sys.getprofile() is None else None
    try:
        if watch is not None:
            sys.setprofile(watch.returned)
        yield
    finally:
        OPEN_BLOCKS.pop()
        _debugging.reset(token)
        if watch is not None and sys.getprofile() == watch.returned:
            sys.setprofile(None)
    if watch is not None:
        watch.check()


def debugging() -> bool:
    """Tell whether a `debug_nans` block is open."""
    return _debugging.get()


class NanOrigin(NamedTuple):
    """The operation that made a nan from operands without one, and the user's line."""

    name: str
    source: Source | None

    def __str__(self) -> str:
        return f"{self.name}: nan from operands without nan{at(self.source)}; guard the operand with afx.where"


class NanWatch:
    """What single operations on plain values made of nan, seen by Python's profiling hook, so that other calls cost nothing.

    Each nan keeps the origin of the operand from which it comes. A nan that came in from outside has none.
    """

    def __init__(self) -> None:
        # by identity of the value, which it keeps
        self._found: dict[int, tuple[Any, weakref.ref[Array], NanOrigin]] = {}

    def returned(self, frame: FrameType, event: str, result: Any) -> None:
        """Look at what a function returns: operations make a nan, others may hand it on, as indexing does."""
        if event != "return":
            return
        if frame.f_code not in BINDING:
            self._hand_on(frame, result)
            return
        several: tuple[Any, ...] = result if result.__class__ is tuple else (result,)
        outs = [z for z in several if z.__class__ is Array and has_nan(z)]
        if not outs:
            return
        names = frame.f_locals
        operands = names["xs"] if "xs" in names else [names[k] for k in ("x", "y") if k in names]
        ill = [x._value if x.__class__ is Array else x for x in operands if has_nan(x)]
        origin = next((self._found[id(x)][2] for x in ill if id(x) in self._found), None)
        if origin is None and ill:
            return
        origin = NanOrigin(names["p"].name, caller(2)) if origin is None else origin
        self._found |= {id(z._value): (z._value, weakref.ref(z), origin) for z in outs}

    def _hand_on(self, frame: FrameType, result: Any) -> None:
        if result.__class__ is not Array or id(result._value) in self._found or not has_nan(result):
            return
        for x in frame.f_locals.values():
            origin = self.origin_of(x)
            if origin is not None:
                self._found[id(result._value)] = result._value, weakref.ref(result), origin
                return

    def origin_of(self, x: Any) -> NanOrigin | None:
        """Return where a nan of an array comes from, None where that was not seen."""
        found = self._found.get(id(x._value)) if x.__class__ is Array else None
        return None if found is None else found[2]

    def forget(self) -> None:
        """Forget what was seen: it has been reported."""
        self._found.clear()

    def check(self) -> None:
        """Raise `NanError` where an array that is in use holds a nan whose origin was seen."""
        for _, array, origin in self._found.values():
            if array() is not None:
                raise NanError(str(origin))


BINDING = frozenset(fn.__code__ for fn in (bind, bind1, bind2))


def _open_watch() -> NanWatch | None:
    watch = getattr(sys.getprofile(), "__self__", None)
    return watch if isinstance(watch, NanWatch) else None


def seen_origin(xs: Sequence[Any]) -> NanOrigin | None:
    """Return where the first nan in some arrays comes from, as far as the block that is open has seen it."""
    watch = _open_watch()
    return None if watch is None else next((o for o in map(watch.origin_of, xs) if o is not None), None)


def nan_error(text: str) -> NanError:
    """Return the error to raise; the end of the block, should it be caught before, does not raise it again."""
    watch = _open_watch()
    if watch is not None:
        watch.forget()
    return NanError(text)


class LocatedTape(Tape):
    """A tape with the source of each entry.

    Attributes:
        sources: by index of the entry, the source location outside afx that computed it.
    """

    __slots__ = ("checks", "sources")

    def __init__(self, name: str, *, checks: bool = False) -> None:
        super().__init__(name)
        self.sources: dict[int, Source | None] = {}
        self.checks: bool = checks

    def apply1(self, p: Primitive, x: Any) -> Any:
        """Record an elementwise op of one operand and where it stands."""
        return self._located(p, (x,), super().apply1(p, x))

    def apply2(self, p: Primitive, x: Any, y: Any) -> Any:
        """Record an elementwise op of two operands and where it stands."""
        return self._located(p, (x, y), super().apply2(p, x, y))

    def apply(self, p: Primitive, xs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Carry out an op, record it and where it stands."""
        return self._located(p, xs, super().apply(p, xs, params))

    def _located(self, p: Primitive, xs: tuple[Any, ...], z: Any) -> Any:
        source = caller(3)
        if z.__class__ is TapeTracer and z._trace is self and not self.checks:
            self.sources[z._index] = source
            return z
        outs: tuple[Any, ...] = z if p.multiple_results else (z,)
        for t in outs:
            if isinstance(t, Tracer) and t._trace is self:
                self.sources[t._index] = source  # type: ignore[attr-defined]  # this tape's tracers have it
        return z


def at(source: Source | None) -> str:
    """Return `` at file:line``, or nothing where the source location is unknown."""
    return "" if source is None else f" at {source}"


def has_nan(x: Any) -> bool:
    """Tell whether the plain value behind an operand holds a nan; unknown values count as free of it."""
    while isinstance(x, Array):
        x = x._value
    known: Any = (np.ndarray, np.generic, float, complex)
    return isinstance(x, known) and bool(np.any(np.isnan(x)))
