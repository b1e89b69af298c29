"""Thread pool: blocks of a fused loop are shared out among workers and the caller.

NumPy releases the interpreter's lock inside its loops, so that threads on large blocks run side by side. Which thread
computes a block changes nothing in the result. A caller that finds the workers busy computes all its blocks itself.
"""

from __future__ import annotations

import contextvars
import functools
import itertools
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from afx.runtime.control_register import is_flushing, run_in_mode
from afx.runtime.processors import count_processors

__all__ = ["Worker", "find_workers", "get_threads", "run_blocks", "single_threaded"]

Block = Callable[..., None]


class Worker:
    """A thread that waits for work.

    Attributes:
        inbox: what it does next.
        leave: while it watches for more work of one kind, what ends that.
    """

    def __init__(self) -> None:
        self.leave: Callable[[], None] | None = None
        self.inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="afx worker", daemon=True).start()

    def _serve(self) -> None:
        run_in_mode(False, self._work)  # whatever the mode of the thread that started this one

    def _work(self) -> None:
        while True:
            self.inbox.get()()

    def ask(self, task: Callable[[], None]) -> None:
        """Have a task done, by a thread that does not watch for other work first."""
        if self.leave is not None:
            self.leave()
        self.inbox.put(task)


class _Pool:
    """The threads of this process, made when they are first needed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.workers: list[Worker] = []
        self.threads = count_processors()

    def helpers(self, count: int) -> list[Worker]:
        """Return workers, fewer where no more threads can be started; the caller has the lock."""
        while len(self.workers) < min(count, self.threads - 1):
            try:
                self.workers.append(Worker())
            except RuntimeError:  # a system without threads, such as WebAssembly, or without one more
                self.threads = len(self.workers) + 1
        return self.workers[:count]


_pool = [_Pool()]


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    threads = _pool[0].threads
    _pool[0] = _Pool()
    _pool[0].threads = threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class _Alone(threading.local):
    """Inside of ``with single_threaded:`` a thread shares out nothing: it computes its blocks itself."""

    depth: int = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


single_threaded: _Alone = _Alone()


def get_threads() -> int:
    """Return how many threads a plan may use, the caller's own among them."""
    return _pool[0].threads


def set_threads(count: int) -> None:
    """Set how many threads a plan may use; 1 is the caller's own alone."""
    _pool[0].threads = max(1, int(count))


def find_workers(count: int) -> Sequence[Worker]:
    """Return so many threads that help, all there are for 0; fewer where none can be started, or one is about to be."""
    pool = _pool[0]
    if len(pool.workers) < count and pool.lock.acquire(blocking=False):
        try:
            pool.helpers(count)
        finally:
            pool.lock.release()
    return pool.workers[: count or None]


class _Share:
    """One helper's part of a call, and what became of it."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.context = contextvars.copy_context()
        self.is_flushing = is_flushing()
        self.work: Callable[[], None] | None = work  # None as soon as it is done: it holds what callers may give away
        self.error: BaseException | None = None
        self.begun = threading.Lock()  # taken by the helper, or by the caller, who then needs no helper any more
        self.done = threading.Lock()
        self.done.acquire()

    def __call__(self) -> None:
        try:
            if self.begun.acquire(blocking=False) and self.work is not None:
                run_in_mode(self.is_flushing, self.context.run, self.work)
        except BaseException as error:  # handed to the caller
            self.error = error
        finally:
            self.work = None
            self.done.release()

    def join(self) -> None:
        """Wait for the helper if it has begun, else see to it that it never does; may be called again."""
        if self.begun.acquire(blocking=False):
            self.work = None
            return
        with self.done:
            pass


def run_blocks(fn: Block, size: int, block: int, scratch: Sequence[tuple[Any, ...]], args: tuple[Any, ...]) -> None:
    """Call ``fn(k, start, stop, *scratch, *args)`` for each block k of ``size`` elements."""
    count = -(-size // block)
    numbers = iter(range(count))

    def work(own: tuple[Any, ...]) -> None:
        for k in numbers:
            fn(k, k * block, min(size, (k + 1) * block), own, *args)

    pool = _pool[0]
    extra = min(pool.threads, len(scratch), count) - 1
    if extra < 1 or single_threaded.depth or not pool.lock.acquire(blocking=False):
        work(scratch[0])
        return
    try:
        _shared(work, numbers, scratch, pool.helpers(extra))
    finally:
        pool.lock.release()


def _shared(
    work: Callable[[tuple[Any, ...]], None],
    numbers: Iterator[int],
    scratch: Sequence[tuple[Any, ...]],
    helpers: Sequence[Worker],
) -> None:
    shares = [_Share(functools.partial(work, own)) for own in scratch[1 : 1 + len(helpers)]]
    try:
        for helper, share in zip(helpers, shares, strict=True):
            helper.ask(share)
        work(scratch[0])
    finally:
        _end(numbers, shares)
    for share in shares:
        if share.error is not None:
            raise share.error


def _end(numbers: Iterator[int], shares: Sequence[_Share]) -> None:
    """Let nobody start another block and wait for all; interrupts are raised then, since helpers write into our memory."""
    interrupt: BaseException | None = None
    while True:
        try:
            for _ in itertools.islice(numbers, 1 << 60):
                pass
            for share in shares:
                share.join()
            break
        except BaseException as error:  # what a signal's handler raises, Ctrl-C's or the user's own
            interrupt = error
    if interrupt is not None:
        raise interrupt
