"""Memory of plans: what they keep between calls, up to a number of bytes altogether, least recently used first.

A plan keeps itself and its machine code, and sets of buffers, which are sooner made again. So beyond the limit sets of
buffers go first, then whole plans; what runs next makes its own anew.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from afx.errors import ArgumentError

__all__ = ["IdleBuffers", "set_cache_limit", "tick"]

DEFAULT_LIMIT_BYTES = 256 * 10**6

_clock = itertools.count(1)
_limit = [DEFAULT_LIMIT_BYTES]


def tick() -> int:
    """Return a number that is larger than all before: the time, for what was used last."""
    return next(_clock)


class IdleBuffers:
    """The sets of buffers of one plan, or of its machine code, that no call uses, each as the function that runs on it.

    A call takes a set from ``recent`` and puts it back, and pays for nothing else. Where a plan makes a new set, those
    of all plans move to ``older``; a plan whose set is older takes it from there and so marks it as used.

    Attributes:
        recent: sets used since some plan last made one.
        set_bytes: of one set.
        max_sets: that the plan keeps: more calls than that seldom run at once.
        fixed_bytes: of the plan itself and its machine code.
        forget: called, where it is set, when the plan as a whole shall go.
        plan: those of the plan, where this is about its machine code.
    """

    __slots__ = ("__weakref__", "_older", "_used", "fixed_bytes", "forget", "max_sets", "plan", "recent", "set_bytes")

    def __init__(self, set_bytes: int, max_sets: int, fixed_bytes: int = 0, plan: IdleBuffers | None = None) -> None:
        self.max_sets: int = max_sets
        self.recent: list[Any] = []
        self.set_bytes: int = set_bytes
        self.fixed_bytes: int = fixed_bytes
        self.forget: weakref.WeakMethod[Callable[[], None]] | None = None
        self.plan: IdleBuffers | None = plan
        self._older: list[Any] = []
        self._used = tick()
        key = id(self)
        _known[key] = weakref.ref(self, lambda _: _known.pop(key, None))

    @property
    def nbytes(self) -> int:
        """Bytes of all its sets."""
        return (len(self.recent) + len(self._older)) * self.set_bytes

    def take_older(self) -> Any:
        """Return a set that was not used for a while, None where there is none: then the plan makes a new one."""
        self._used = tick()
        if self.plan is not None:
            self.plan._used = self._used
        try:
            return self._older.pop()
        except IndexError:
            _make_room(self)
            return None

    def settle(self) -> None:
        """Count the recent sets among the older ones."""
        while self.recent and len(self._older) < self.max_sets:
            try:
                self._older.append(self.recent.pop())
            except IndexError:  # a call of another thread took it
                return

    def drop(self) -> None:
        """Free the sets."""
        self.recent.clear()
        self._older.clear()

    @property
    def used(self) -> int:
        """When the plan was last seen to run: a larger number is later."""
        return self._used


# by identity; no lock, which a signal's handler or a forked process would wait for: single calls of a dict are whole
_known: dict[int, weakref.ref[IdleBuffers]] = {}


def _in_order_of_use() -> list[IdleBuffers]:
    return sorted([idle for ref in list(_known.values()) if (idle := ref()) is not None], key=_use)


def _make_room(newest: IdleBuffers) -> None:
    """Let plans that were not used for longest go, so that one more set stays within the limit."""
    known = _in_order_of_use()
    for idle in known:
        idle.settle()
    _shrink(known, newest, newest.set_bytes)


def _shrink(known: Sequence[IdleBuffers], newest: IdleBuffers, more: int) -> None:
    """Drop buffers, then plans, of those that were used before the newest, until all and ``more`` are within the limit."""
    total = more + sum([idle.nbytes + idle.fixed_bytes for idle in known])
    for idle in known:
        if total > _limit[0] and idle is not newest:
            total -= idle.nbytes
            idle.drop()
    for idle in known:
        forget = idle.forget and idle.forget()
        if total > _limit[0] and forget is not None and idle is not newest and idle is not newest.plan:
            total -= idle.fixed_bytes
            forget()


def _use(idle: IdleBuffers) -> tuple[int, bool]:
    return idle.used, idle.plan is not None


def set_cache_limit(limit: int) -> int:
    """Set how many bytes compiled functions keep while they do not run; return the limit that was in force.

    Plans keep the memory of their intermediate values from call to call, and themselves with their machine code. Beyond the
    limit those that were not used for longest give their buffers back, and take new memory when they run again; where that
    is not enough, they are forgotten, and made again by a new trace. The function that ran last keeps its own. By
    default 256 MB are kept.

    Args:
        limit: a number of bytes; 0 lets only the function that ran last keep anything.

    Raises:
        ArgumentError: the limit is negative or no integer.

    >>> before = set_cache_limit(10**9)
    >>> set_cache_limit(before)
    1000000000
    """
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise ArgumentError(
            f"set_cache_limit: the limit is a number of bytes: got {limit!r}; give an integer from 0 on"
        )
    before, _limit[0] = _limit[0], limit
    known = _in_order_of_use()
    if known:
        _shrink(known, known[-1], 0)
    return before
