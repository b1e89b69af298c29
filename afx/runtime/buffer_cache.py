"""Memory of plans: what they keep between calls, and memory of results that nobody holds any longer."""

from __future__ import annotations

import _thread
import ctypes
import itertools
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from afx.core import Aval, Ndarray
from afx.errors import ArgumentError
from afx.runtime.thread_pool import Thresholds

# --- Output pool: memory of results that nobody holds any longer is used for the next ones
#
# New pages cost more than the arithmetic on them. A plan remembers the large arrays that it handed out; one that only
# the plan itself still refers to (views refer to the array they belong to) can be written again.


def without_debugger_refs(count: Callable[[], int]) -> int:
    """Return a function's count of references without those of debuggers, which would make it too large.

    It is called in a thread of its own: what profilers written in C have set cannot be set again from Python.
    """
    found = list[int]()
    done = _thread.allocate_lock()

    def run() -> None:
        sys.settrace(None)
        sys.setprofile(None)
        found.append(count())
        done.release()

    done.acquire()
    try:
        _thread.start_new_thread(run, ())
    except RuntimeError:  # a browser has no threads
        return count()
    done.acquire()
    return found[0]


def _alone() -> int:
    """Return what `sys.getrefcount` returns for an array that only a list holds; that differs between versions of Python."""
    for array in [np.empty(1)]:
        return sys.getrefcount(array)
    raise AssertionError


ALONE = without_debugger_refs(_alone)


class OutputPool:
    """Gives memory for one result of a plan; each belongs to one set of buffers, so that no two calls meet in it."""

    __slots__ = ("_count", "aval", "cached")

    def __init__(self, aval: Aval, count: int) -> None:
        self.aval: Aval = aval
        self._count = count
        self.cached: list[Ndarray] = []

    def __call__(self) -> Ndarray:
        """Return an array that nobody else refers to; its elements are arbitrary."""
        for array in self.cached:
            if sys.getrefcount(array) == ALONE:
                if not array.flags.writeable:  # asking is quicker
                    array.flags.writeable = True
                return array
        fresh = np.empty(self.aval.shape, self.aval.dtype)
        self.cached.append(fresh)
        del self.cached[: -self._count]
        return fresh


def pooled_bytes(outputs: Iterable[Aval], target: Thresholds) -> int:
    """Return how much memory of results a set of buffers remembers at most."""
    sizes = [a.nbytes for a in outputs]
    return target.pool_max_arrays * sum([n for n in sizes if n >= target.pool_min_bytes])


def donated_or_empty(x: Ndarray) -> Ndarray:
    """Return an argument's own memory where the caller gave it away, which makes it writeable; else new memory."""
    flags = x.flags
    return x if flags.writeable and flags.c_contiguous else np.empty(x.shape, x.dtype)


DENSE = 0x101  # NumPy's flags of arrays in C's order, and aligned


def to_dense(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return bare values with a copy of each array that is not dense: in C's order, aligned, of the machine's byte order.

    >>> x = np.zeros((2, 3))
    >>> values = (x, 1.0)
    >>> to_dense(values) is values, to_dense((x.T,))[0].flags.c_contiguous
    (True, True)
    """
    for x in values:  # a loop: a comprehension is a call
        if x.__class__ is np.ndarray and (x.flags.num & DENSE != DENSE or not x.dtype.isnative):
            return tuple(map(_densified, values))
    return values


def _densified(x: Any) -> Any:
    if x.__class__ is not np.ndarray or (x.flags.num & DENSE == DENSE and x.dtype.isnative):
        return x
    return np.array(x, x.dtype.newbyteorder("="), order="C")


# --- Memory of plans: what they keep between calls, up to a number of bytes altogether, least recently used first
#
# A plan keeps itself and its machine code, and sets of buffers, which are sooner made again. So beyond the limit sets
# of buffers go first, then whole plans; what runs next makes its own anew. glibc keeps freed pages below the heap's
# last block for itself, until it is told to give them back.

DEFAULT_LIMIT_BYTES = 192 * 10**6
TRIM_BYTES = 1 << 25  # dropped, after which free pages go back to the system: that takes some milliseconds

_clock = itertools.count(1)
_limit = [DEFAULT_LIMIT_BYTES]
_untrimmed = [0]  # bytes dropped since pages were given back


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
    before = total = more + sum([idle.nbytes + idle.fixed_bytes for idle in known])
    if total <= _limit[0]:  # nearly always: a first call shall not ask each plan that lives how it is forgotten
        return
    for idle in known:
        if total > _limit[0] and idle is not newest:
            total -= idle.nbytes
            idle.drop()
    for idle in known:
        forget = idle.forget and idle.forget()
        if total > _limit[0] and forget is not None and idle is not newest and idle is not newest.plan:
            total -= idle.fixed_bytes
            forget()
    _untrimmed[0] += before - total
    if _untrimmed[0] >= TRIM_BYTES:
        _untrimmed[0] = 0
        _trim_heap()


def _trim_heap() -> None:
    """Give free pages of the heap back to the system, where the C library has a function for it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _use(idle: IdleBuffers) -> tuple[int, bool]:
    return idle.used, idle.plan is not None


def set_cache_limit(limit: int) -> int:
    """Set how many bytes compiled functions keep while they do not run; return the limit that was in force.

    Plans keep the memory of their intermediate values from call to call, and themselves with their machine code. Beyond the
    limit those that were not used for longest give their buffers back, and take new memory when they run again; where that
    is not enough, they are forgotten, and made again by a new trace. The function that ran last keeps its own. By
    default 192 MB are kept: with what memory allocators and the compiling process add, a program with many plans has at most
    some 256 MB more resident than with its largest alone.

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
