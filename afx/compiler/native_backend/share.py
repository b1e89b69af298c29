"""Shares: threads that run a kernel together, each some parts of its large loop nests.

The threads of this process's one crew help whoever calls first; who calls meanwhile runs alone. A helper that is done goes
on watching in machine code for the next call, for about as long as it would take to wake it up.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from afx.compiler.native_backend.interface import PARTS
from afx.compiler.native_backend.link import Kernel
from afx.compiler.native_backend.llvm.team import DISMISSED, ENDED, JOB, MEMBERS, TEAM_BYTES, TICKET
from afx.compiler.target import Target, current
from afx.runtime.autotune import Autotuner
from afx.runtime.thread_pool import Worker, find_workers, get_threads, single_threaded

__all__ = ["SharedKernel", "run_on_threads", "shared_call", "team_memory"]


def shared_call(kernel: Kernel, target: Target) -> Callable[..., int]:
    """Return what calls a kernel, on several threads where they share parts of it."""
    return SharedKernel(kernel.call, target) if kernel.interface.is_shared else kernel.call


def team_memory(kernel: Kernel) -> tuple[Any, ...]:
    """Return the last argument of a kernel whose parts threads share: one call's memory at a time."""
    if not kernel.interface.is_shared:
        return ()
    return (_team(1),)


def _team(members: int) -> Any:
    """Return the memory of a team of one, or of several, for which no program runs."""
    raw = np.zeros(2 * TEAM_BYTES // 8, np.int64)
    start = -raw.ctypes.data % 128 // 8
    team = raw[start : start + TEAM_BYTES // 8]
    team[MEMBERS // 8], team[ENDED // 8] = members, 1
    return team


class SharedKernel:
    """A kernel whose parts threads share; how many run it is what was faster, which changes no bit."""

    def __init__(self, call: Callable[..., int], target: Target) -> None:
        self._call = call
        self._tuner = Autotuner(2, target) if get_threads() > 1 else None

    def __call__(self, *args: Any) -> int:
        """Return the errors seen, -1 where the kernel refuses."""
        tuner = self._tuner
        if tuner is None or single_threaded.depth:
            return self._call(*args)
        policy = tuner.pick()
        start = time.perf_counter()
        errors, jobs = _run(self._call, args, 1 if policy else get_threads())
        if jobs:  # calls of loops do one chunk, of more steps or fewer
            tuner.observe(policy, (time.perf_counter() - start) / jobs)
        return errors


def run_on_threads(call: Callable[..., int], args: tuple[Any, ...], threads: int = 1) -> int:
    """Call a kernel on so many threads at once; return the errors seen, -1 where it refuses.

    Args:
        call: the kernel.
        args: of the kernel, the last one the memory of the team.
        threads: how many; none of them waits for one that does not come.
    """
    return _run(call, args, 1 if single_threaded.depth else threads)[0]


def _run(call: Callable[..., int], args: tuple[Any, ...], threads: int) -> tuple[int, int]:
    """Call a kernel, with the crew's help where it is free; return the errors seen, and how many jobs there were."""
    crew = _crew[0]
    if threads < 2 or not crew.lock.acquire(blocking=False):
        return _counted(call, args, args[-1])
    try:
        crew.summon(call, threads)
        return _counted(call, (*args[:-1], crew.team), crew.team)
    finally:
        crew.lock.release()


def _counted(call: Callable[..., int], args: tuple[Any, ...], team: Any) -> tuple[int, int]:
    before = int(team[TICKET // 8])
    errors = call(*args)
    return errors, (int(team[TICKET // 8]) - before) // JOB


class _Crew:
    """The threads that help, with the memory that they watch; one call at a time has the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.team: Any = _team(2)
        self._numbers = [np.array([k]) for k in range(1, PARTS)]
        self._is_closed = False

    def summon(self, call: Callable[..., int], threads: int) -> None:
        """Have workers help who are not watching, by way of a kernel that is about to be called."""
        workers: Sequence[Worker] = () if self._is_closed else find_workers(min(threads, PARTS) - 1)
        for number, worker in zip(self._numbers, workers, strict=False):
            if worker.leave is None:
                worker.leave = self._dismiss
                worker.inbox.put(partial(_help, call, self.team, number, worker))
        self.team[DISMISSED // 8] = 0

    def _dismiss(self) -> None:
        """Let helpers stop watching."""
        self.team[DISMISSED // 8] = 1

    def close(self) -> None:
        """Wait until nobody is in machine code, which is about to go."""
        self._is_closed = True
        self._dismiss()
        end = time.perf_counter() + current.target.service.task_max_seconds
        while any(worker.leave for worker in find_workers(0)) and time.perf_counter() < end:
            time.sleep(current.target.service.room_seconds)


def _help(call: Callable[..., int], team: Any, number: Any, worker: Worker) -> None:
    """Help the team; called by a worker."""
    try:
        call(team, number)
    finally:
        worker.leave = None


_crew = [_Crew()]


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    _crew[0] = _Crew()


@atexit.register
def _close() -> None:
    _crew[0].close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
