"""Shares of phases: parts of large loop nests run on all threads that a plan may use."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afx.compiler.native_backend.program import PARTS, Program
from afx.compiler.target import Target
from afx.runtime.autotune import Autotuner
from afx.runtime.thread_pool import get_threads, run_blocks, single_threaded

__all__ = ["SharedKernel", "run_phases"]


class SharedKernel:
    """A kernel with phases; how many threads run them is what was faster, which changes no bit."""

    def __init__(self, call: Callable[..., int], program: Program, target: Target) -> None:
        self._call = call
        self._program = program
        self._tuner = Autotuner(2, target) if get_threads() > 1 else None

    def __call__(self, args: Sequence[Any]) -> int:
        """Run all phases; return the errors seen, -1 where the kernel refuses."""
        tuner = self._tuner
        if tuner is None:
            return run_phases(self._call, self._program, args)
        policy = tuner.pick()
        start = time.perf_counter()
        found = run_phases(self._call, self._program, args, 1 if policy else get_threads())
        tuner.observe(policy, time.perf_counter() - start)
        return found


def run_phases(call: Callable[..., int], program: Program, args: Sequence[Any], threads: int = 1) -> int:
    """Call a program phase by phase; return the errors seen, -1 where it refuses.

    Args:
        call: the kernel.
        program: its program.
        args: all but the last argument: which phase, and which parts of it.
        threads: how many may run it.
    """
    found: list[int] = []
    threads = 1 if single_threaded.depth else threads
    states = [(np.array([0, 0, 0, k], np.int64),) for k in range(min(threads, PARTS))]

    def run(_k: int, start: int, stop: int, own: tuple[Any], number: int) -> None:
        (state,) = own
        state[:3] = number, start, stop
        found.append(call(*args, state))

    for number, phase in enumerate(program.phases):
        if phase.is_shared and threads > 1:
            run_blocks(run, PARTS, 1, states, (number,))
        else:
            run(0, 0, PARTS, states[0], number)
        if min(found) < 0:
            return -1
    errors = 0
    for seen in found:
        errors |= seen
    return errors
