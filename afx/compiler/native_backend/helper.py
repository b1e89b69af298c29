"""Helper: the thread that looks for kept machine code and hands plans to the compiler.

It imports what a caller's thread need not wait for. A process is forked off between two of its tasks, as the locks of
modules that it imports would stay taken in the new process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import queue
import threading
from collections.abc import Callable, Generator

from afx.compiler.target import current

__all__ = ["ask_helper", "between_forks"]


_working = [threading.RLock()]  # held by tasks, one within another, and around a fork
_held_by_fork: list[bool] = []


@contextlib.contextmanager
def between_forks() -> Generator[None]:
    """Let no process be forked off inside of the ``with`` block."""
    with _working[0]:
        yield


class _Helper:
    """A thread that is started with its first task."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def ask(self, task: Callable[[], None]) -> None:
        """Have a task done, which raises nothing.

        Raises:
            RuntimeError: no thread can be started.
        """
        if self._is_closed:
            return
        if self._thread is None:
            thread = threading.Thread(target=self._serve, name="afx native helper", daemon=True)
            thread.start()
            self._thread = thread
        self._inbox.put(task)

    def _serve(self) -> None:
        while (task := self._inbox.get()) is not None:
            with between_forks(), contextlib.suppress(Exception):
                task()
            del task  # what it holds may go while the next one is awaited

    def close(self) -> None:
        """Do no more than the task at hand."""
        thread, self._is_closed = self._thread, True
        while not self._inbox.empty():
            with contextlib.suppress(queue.Empty):
                self._inbox.get_nowait()
        self._inbox.put(None)
        if thread is not None:
            thread.join(current.target.service.task_max_seconds)


_helper = [_Helper()]


def ask_helper(task: Callable[[], None]) -> None:
    """Have a task done by the helper.

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
    _helper[0], _working[0] = _Helper(), threading.RLock()


@atexit.register
def _close() -> None:
    _helper[0].close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_child)
