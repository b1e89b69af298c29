"""Shares: threads that run a kernel together, each some parts of its large loop nests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.compiler.native_backend.link import Kernel
from afx.compiler.native_backend.llvm.looks import STOPPED
from afx.compiler.native_backend.llvm.team import ARRIVED, CALLER, ENDED, JOB, MEMBERS, TEAM_BYTES, TICKET
from afx.compiler.native_backend.program import PARTS
from afx.compiler.target import Target
from afx.runtime.autotune import Autotuner
from afx.runtime.thread_pool import get_threads, run_blocks, single_threaded

__all__ = ["SharedKernel", "run_on_threads", "shared_call", "team_memory"]


def shared_call(kernel: Kernel, target: Target) -> Callable[..., int]:
    """Return what calls a kernel, on several threads where they share parts of it."""
    return SharedKernel(kernel.call, target) if kernel.program.block.is_shared else kernel.call


def team_memory(kernel: Kernel) -> tuple[Any, ...]:
    """Return the last argument of a kernel whose parts threads share: one call's memory at a time."""
    if not kernel.program.block.is_shared:
        return ()
    raw = np.zeros(2 * TEAM_BYTES // 8, np.int64)
    start = -raw.ctypes.data % 128 // 8
    return (raw[start : start + TEAM_BYTES // 8],)


class SharedKernel:
    """A kernel whose parts threads share; how many run it is what was faster, which changes no bit."""

    def __init__(self, call: Callable[..., int], target: Target) -> None:
        self._call = call
        self._tuner = Autotuner(2, target) if get_threads() > 1 else None

    def __call__(self, *args: Any) -> int:
        """Return the errors seen, -1 where the kernel refuses."""
        tuner = self._tuner
        if tuner is None:
            return run_on_threads(self._call, args)
        policy = tuner.pick()
        start = time.perf_counter()
        found = run_on_threads(self._call, args, 1 if policy else get_threads())
        jobs = int(args[-1][TICKET // 8]) // JOB  # calls of loops do one chunk, of more steps or fewer
        if jobs:
            tuner.observe(policy, (time.perf_counter() - start) / jobs)
        return found


def run_on_threads(call: Callable[..., int], args: tuple[Any, ...], threads: int = 1) -> int:
    """Call a kernel on so many threads at once; return the errors seen, -1 where it refuses.

    Args:
        call: the kernel.
        args: of the kernel, the last one the memory of the team.
        threads: how many; none of them waits for one that does not come.
    """
    team = args[-1]
    threads = 1 if single_threaded.depth else min(threads, PARTS)
    team[TICKET // 8] = team[ENDED // 8] = team[ARRIVED // 8] = team[STOPPED // 8] = 0
    team[MEMBERS // 8] = threads
    caller = team[CALLER // 8] = threading.get_ident()
    if threads == 1:
        return call(*args)
    found: list[int] = []
    runs = [True]

    def take_part(*_: Any) -> None:
        if threading.get_ident() != caller or (runs and runs.pop()):
            found.append(call(*args))

    run_blocks(take_part, threads, 1, [()] * threads, ())
    if runs:  # others were faster, and found nothing to do
        found.append(call(*args))
    errors = 0
    for seen in found:
        errors |= seen  # -1 stays
    return errors
