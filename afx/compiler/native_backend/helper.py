"""Helper: the thread that looks for kept machine code and hands plans to the compiler.

It imports what a caller's thread need not wait for. A process is forked off between two of its tasks, as the locks of
modules that it imports would stay taken in the new process.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import queue
import threading
from collections.abc import Callable, Generator
from typing import Generic, TypeVar

from afx.compiler.target import current

__all__ = ["Worker", "ask_helper", "between_forks"]

T = TypeVar("T")


_working = [threading.RLock()]  # held by tasks, one within another, and around a fork
_held_by_fork: list[bool] = []


@contextlib.contextmanager
def between_forks() -> Generator[None]:
    """Let no process be forked off inside of the ``with`` block."""
    with _working[0]:
        yield


class Worker(Generic[T]):
    """A thread, started with its first task, and the tasks that wait for it.

    Attributes:
        thread: None before the first task.
    """

    def __init__(self, name: str, do: Callable[[T], None]) -> None:
        """Take what does a task, and raises nothing."""
        self._name = name
        self._do = do
        self._inbox: queue.PriorityQueue[tuple[tuple[int, int], int, list[T]]] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self.thread: threading.Thread | None = None
        self._is_closed = False

    def ask(self, task: T, rank: tuple[int, int] = (0, 0)) -> None:
        """Have a task done, the smallest rank first; once this is closed, none is.

        Raises:
            RuntimeError: no thread can be started.
        """
        if self._is_closed:
            return
        if self.thread is None:
            thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            thread.start()
            self.thread = thread
        self._inbox.put((rank, next(self._numbers), [task]))

    def _serve(self) -> None:
        while tasks := self._inbox.get()[2]:
            self._do(tasks.pop())  # what it holds may go while the next one is awaited
            self._inbox.task_done()

    @property
    def waiting(self) -> int:
        """How many tasks wait for the one at hand; none do once this is closed."""
        return 0 if self._is_closed else self._inbox.qsize()

    @property
    def is_busy(self) -> bool:
        """Whether tasks wait or are being done."""
        return self._inbox.unfinished_tasks > 0

    def close(self, seconds: float) -> list[T]:
        """Do no more than the task at hand, and wait so long for it; return those that waited."""
        self._is_closed = True
        left: list[T] = []
        with contextlib.suppress(queue.Empty):
            while True:
                left += self._inbox.get_nowait()[2]
        self._inbox.put(((0, 0), 0, []))
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(seconds)
        return left


def _do(task: Callable[[], None]) -> None:
    with between_forks(), contextlib.suppress(Exception):
        task()


def _new_helper() -> Worker[Callable[[], None]]:
    return Worker("afx native helper", _do)


_helper = [_new_helper()]


def ask_helper(task: Callable[[], None]) -> None:
    """Have a task done by the helper; whatever it raises is its own.

    Raises:
        RuntimeError: no thread can be started.
    """
    _helper[0].ask(task)


def _before_fork() -> None:
    _held_by_fork[:] = [_working[0].acquire(timeout=current.target.service.fork_max_seconds)]


def _after_fork() -> None:
    if _held_by_fork.pop():
        _working[0].release()


def _in_child() -> None:
    _helper[0], _working[0] = _new_helper(), threading.RLock()


@atexit.register
def _close() -> None:
    _helper[0].close(current.target.service.task_max_seconds)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
