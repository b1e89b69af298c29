"""Located tape: a tape with the user's line of every operation, for messages and for hunting nan.

Finding the line at every operation would cost a tenth of the time of small programs, so plain tapes do without. When a
backward pass fails, the function runs once more on a tape of this kind, and the message names the line.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Generator
from typing import Any

import numpy as np

from afx.core.array.array import Array
from afx.core.primitive import Primitive
from afx.core.tracing.source_info import Source, caller
from afx.core.tracing.tape import Tape, TapeTracer
from afx.core.tracing.tracer import Tracer

__all__ = ["LocatedTape", "debug_nans", "debugging"]

OPEN_BLOCKS: list[bool] = []  # not empty while some context looks for nan, or disables jit: one look costs nothing
_debugging: contextvars.ContextVar[bool] = contextvars.ContextVar("afx_debug_nans", default=False)


@contextlib.contextmanager
def debug_nans() -> Generator[None]:
    """Raise where a function's result or gradient is nan, naming the operation and the user's line that made the first.

    Inside the ``with`` block the results of jitted functions, derivatives and loops are checked, and jitted functions run
    as plain Python. A nan in a branch that `where` discards does not count.

    Raises:
        NanError: from within the block, where a result is nan though no argument is.

    >>> import afx
    >>> with debug_nans():
    ...     afx.grad(lambda x: afx.sqrt(x) * x)(4.0)
    Array(3., dtype=float32)
    """
    token = _debugging.set(True)
    OPEN_BLOCKS.append(True)
    try:
        yield
    finally:
        OPEN_BLOCKS.pop()
        _debugging.reset(token)


def debugging() -> bool:
    """Tell whether a `debug_nans` block is open."""
    return _debugging.get()


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
