"""Forks: what holds locks, or waits for threads, begins anew in a forked process, which has one thread alone.

The locks of modules that another thread imports would stay taken there for ever: a fork waits until they are loaded.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Generator
from typing import Protocol

from afx.compiler.target import current

__all__ = ["Renewable", "between_forks", "renew_after_fork"]


class Renewable(Protocol):
    """What has a state that a fork may leave behind half changed."""

    def renew(self) -> None:
        """Take new locks, and forget what other threads were about to do."""
        ...


_loading = [threading.RLock()]
_held_by_fork: list[bool] = []


@contextlib.contextmanager
def between_forks() -> Generator[None]:
    """Let no process be forked off inside of the ``with`` block, which loads modules."""
    with _loading[0]:
        yield


def _before_fork() -> None:
    _held_by_fork[:] = [_loading[0].acquire(timeout=current.target.service.fork_max_seconds)]


def _after_fork() -> None:
    if _held_by_fork.pop():
        _loading[0].release()


_known: weakref.WeakSet[Renewable] = weakref.WeakSet()


def renew_after_fork(thing: Renewable) -> None:
    """Have ``thing.renew()`` called in each process that is forked off while it exists."""
    _known.add(thing)


def _renew_all() -> None:
    _loading[0] = threading.RLock()
    for thing in list(_known):
        thing.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_renew_all)
