"""Helper: a thread that does tasks in the order of their ranks."""

from __future__ import annotations

import contextlib
import itertools
import queue
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Worker"]

T = TypeVar("T")


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
