"""Buffer cache: sets of buffers that plans keep between calls, up to a number of bytes altogether."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from typing import Any

from afx.errors import ArgumentError

__all__ = ["IdleBuffers", "set_cache_limit"]

DEFAULT_LIMIT_BYTES = 256 * 10**6

_clock = itertools.count(1)
_lock = threading.Lock()
_limit = [DEFAULT_LIMIT_BYTES]


class IdleBuffers:
    """The sets of buffers of one plan that no call uses, each as the function that runs on it.

    A call takes a set from ``recent`` and puts it back, and pays for nothing else. Where a plan makes a new set, those
    of all plans move to ``older``; a plan whose set is older takes it from there and so marks it as used.

    Attributes:
        recent: sets used since some plan last made one.
        set_bytes: of one set.
        max_sets: that the plan keeps: more calls than that seldom run at once.
    """

    __slots__ = ("__weakref__", "_older", "_used", "max_sets", "recent", "set_bytes")

    def __init__(self, set_bytes: int, max_sets: int) -> None:
        self.max_sets: int = max_sets
        self.recent: list[Any] = []
        self.set_bytes: int = set_bytes
        self._older: list[Any] = []
        self._used = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all its sets."""
        return (len(self.recent) + len(self._older)) * self.set_bytes

    def take_older(self) -> Any:
        """Return a set that was not used for a while, None where there is none: then the plan makes a new one."""
        self._used = next(_clock)
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


_plans: weakref.WeakSet[IdleBuffers] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):  # no thread is between the two where a process is forked off
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def _make_room(newest: IdleBuffers) -> None:
    """Let those that were not used for longest drop their sets, so that one more stays within the limit."""
    with _lock:
        _plans.add(newest)
        plans = sorted(_plans, key=_use)
        for idle in plans:
            idle.settle()
        total = sum([idle.nbytes for idle in plans]) + newest.set_bytes
        for idle in plans:
            if total <= _limit[0]:
                return
            if idle is not newest:
                total -= idle.nbytes
                idle.drop()


def _use(idle: IdleBuffers) -> int:
    return idle.used


def set_cache_limit(limit: int) -> int:
    """Set how many bytes of buffers compiled functions keep while they do not run; return the limit that was in force.

    Plans keep the memory of their intermediate values from call to call. Beyond the limit those that were not used for
    longest give theirs back, and take new memory when they run again; the function that ran last keeps its own. By default
    256 MB are kept.

    Args:
        limit: a number of bytes; 0 lets only the function that ran last keep its buffers.

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
    with _lock:
        plans = sorted(_plans, key=_use)
        total = sum([idle.nbytes for idle in plans])
        for idle in plans[:-1]:
            if total > limit:
                total -= idle.nbytes
                idle.drop()
    return before
