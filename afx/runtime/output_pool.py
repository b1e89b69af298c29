"""Output pool: memory of results that nobody holds any longer is used for the next ones.

New pages cost more than the arithmetic on them. A plan remembers the large arrays that it handed out; one that only the
plan itself still refers to (views refer to the array they belong to) can be written again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from afx.compiler.target import Target
from afx.core.aval import Aval

__all__ = ["OutputPool", "donated_or_empty", "pooled_bytes", "without_debugger_refs"]


def without_debugger_refs(count: Callable[[], int]) -> int:
    """Return a function's count of references without those of debuggers, which would make it too large."""
    trace, profile = sys.gettrace(), sys.getprofile()
    sys.settrace(None)
    sys.setprofile(None)
    try:
        return count()
    finally:
        sys.settrace(trace)
        sys.setprofile(profile)


def _alone() -> int:
    """Return what `sys.getrefcount` returns for an array that only a list holds; that differs between versions of Python."""
    for array in [np.empty(1)]:
        return sys.getrefcount(array)
    raise AssertionError


ALONE = without_debugger_refs(_alone)


class OutputPool:
    """Gives memory for one result of a plan; each belongs to one set of buffers, so that no two calls meet in it."""

    __slots__ = ("_count", "aval", "kept")

    def __init__(self, aval: Aval, count: int) -> None:
        self.aval: Aval = aval
        self._count = count
        self.kept: list[np.ndarray[Any, np.dtype[Any]]] = []

    def __call__(self) -> np.ndarray[Any, np.dtype[Any]]:
        """Return an array that nobody else refers to; its elements are arbitrary."""
        for array in self.kept:
            if sys.getrefcount(array) == ALONE:
                if not array.flags.writeable:  # asking is quicker
                    array.flags.writeable = True
                return array
        fresh = np.empty(self.aval.shape, self.aval.dtype)
        self.kept.append(fresh)
        del self.kept[: -self._count]
        return fresh


def pooled_bytes(outputs: Iterable[Aval], target: Target) -> int:
    """Return how much memory of results a set of buffers remembers at most."""
    sizes = [a.nbytes for a in outputs]
    return target.pool_max_arrays * sum([n for n in sizes if n >= target.pool_min_bytes])


def donated_or_empty(x: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return an argument's own memory where the caller gave it away, which makes it writeable; else new memory."""
    flags = x.flags
    return x if flags.writeable and flags.c_contiguous else np.empty(x.shape, x.dtype)
