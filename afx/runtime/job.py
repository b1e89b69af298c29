"""Job: the ranks that this process computes with, for parts of afx that let rank 0 decide or write."""

from __future__ import annotations

from typing import Final, Protocol

__all__ = ["begin", "decide", "end", "is_writer"]


class Job(Protocol):
    """The ranks of a distributed program."""

    @property
    def rank(self) -> int:
        """The number of this process."""
        ...

    @property
    def ranks(self) -> int:
        """The number of processes."""
        ...

    def decide(self, verdict: bool) -> bool:
        """Return rank 0's verdict."""
        ...


_current: Final[list[Job]] = []


def begin(job: Job) -> None:
    """Make the ranks known."""
    _current.append(job)


def end(job: Job) -> None:
    """Forget the ranks."""
    if job in _current:
        _current.remove(job)


def decide(verdict: bool) -> bool:
    """Return rank 0's verdict where there are several ranks, all of which ask; else this process's own.

    >>> decide(True)
    True
    """
    return _current[-1].decide(verdict) if _current and _current[-1].ranks > 1 else verdict


def is_writer() -> bool:
    """Tell whether this process writes what all ranks have: rank 0, or the only one.

    >>> is_writer()
    True
    """
    return not _current or _current[-1].rank == 0
