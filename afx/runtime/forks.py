"""Forks: what holds locks, or waits for threads, begins anew in a forked process, which has one thread alone."""

from __future__ import annotations

import os
import weakref
from typing import Protocol

__all__ = ["Renewable", "renew_after_fork"]


class Renewable(Protocol):
    """What has a state that a fork may leave behind half changed."""

    def renew(self) -> None:
        """Take new locks, and forget what other threads were about to do."""
        ...


_known: weakref.WeakSet[Renewable] = weakref.WeakSet()


def renew_after_fork(thing: Renewable) -> None:
    """Have ``thing.renew()`` called in each process that is forked off while it exists."""
    _known.add(thing)


def _renew_all() -> None:
    for thing in list(_known):
        thing.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
