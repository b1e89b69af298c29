"""Job: the ranks that this process computes with, for parts of afx that let rank 0 decide, or all of them write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


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

    def share(self, value: float | None) -> float | None:
        """Return rank 0's number."""
        ...

    @property
    def own_slots(self) -> Sequence[int]:
        """The slots that this process computes."""
        ...

    @property
    def held_slots(self) -> Sequence[int]:
        """The slots whose states this process keeps."""
        ...

    @property
    def slots(self) -> int:
        """The number of slots of all ranks."""
        ...

    def repeat_until_committed(self, name: str, attempt: Callable[[], R]) -> R:
        """Return the result of an attempt that all ranks make and finish."""
        ...

    def gather_texts(self, text: str) -> list[str]:
        """Return the texts of all ranks, within such an attempt."""
        ...

    def outline(self, tree: Any) -> Any:
        """Return what of a tree is the same on any number of ranks."""
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


def share(value: float | None) -> float | None:
    """Return rank 0's number where there are several ranks, all of which ask; else this process's own.

    >>> share(0.5)
    0.5
    """
    return _current[-1].share(value) if _current and _current[-1].ranks > 1 else value


def current() -> Job | None:
    """Return the ranks that this process computes with; None outside of a job.

    >>> current() is None
    True
    """
    return _current[-1] if _current else None


def outline(tree: T) -> T:
    """Return what of a tree is the same on any number of ranks, to compare structures.

    >>> outline((1, 2))
    (1, 2)
    """
    return _current[-1].outline(tree) if _current else tree


def is_writer() -> bool:
    """Tell whether this process writes what all ranks have: rank 0, or the only one.

    >>> is_writer()
    True
    """
    return not _current or _current[-1].rank == 0
