"""Trials of machine code: the first calls of a kernel are timed by turns with NumPy's plan, which gives the same."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from afx.compiler.native_backend.run.job import NumpyPlan, Run
from afx.compiler.target import NativeTarget


def read_clocks() -> tuple[float, float, float]:
    """Return the time, and the processor time of this thread and of the process."""
    return time.perf_counter(), time.thread_time(), time.process_time()


class Trial:
    """First calls of a kernel: timed by turns with NumPy's plan, as both give the same.

    A call on one thread counts by its processor time where that is less than by the clock: other programs hardly change it.
    The least of each decides; where these lie close together, the trial goes on. Where NumPy's plan takes
    milliseconds, and several times as long as the kernel, one call of each does; a kernel's first call may be its slowest.
    """

    __slots__ = ("_kernel_run", "_limits", "_seconds")

    def __init__(self, kernel_run: Run, limits: NativeTarget) -> None:
        self._kernel_run = kernel_run
        self._limits = limits
        self._seconds: tuple[list[float], list[float]] = ([], [])

    def run(self, values: Sequence[Any], plan: NumpyPlan) -> tuple[list[Any] | None, bool | None]:
        """Run one of both; return its results, and whether the kernel is faster, None while that is open."""
        numpy_times, kernel_times = self._seconds
        turn = len(kernel_times) > len(numpy_times)
        before = read_clocks()
        results = plan.run_numpy(*values) if turn else self._kernel_run(values, plan)
        if results is None:  # then NumPy's plan runs too, and nothing is compared
            return None, None
        self._seconds[not turn].append(self._seconds_between(before, read_clocks()))
        return results, self._verdict(numpy_times, kernel_times) if numpy_times else None

    def _verdict(self, numpy_times: list[float], kernel_times: list[float]) -> bool | None:
        limits, count = self._limits, len(numpy_times)
        numpy_time, kernel_time = min(numpy_times), min(kernel_times)
        slower, faster = max(numpy_time, kernel_time), min(numpy_time, kernel_time)
        is_plain = numpy_time >= max(limits.trial_single_ratio * kernel_time, limits.trial_single_min_seconds)
        is_clear = count >= limits.trial_min_calls and slower >= limits.trial_clear_ratio * faster
        if is_plain or is_clear or count >= limits.trial_max_calls:
            return kernel_time <= numpy_time
        return None

    def _seconds_between(self, before: tuple[float, float, float], after: tuple[float, float, float]) -> float:
        """Return how long a call took, or would have taken alone, as far as its processor time tells."""
        wall, own, everyone = [b - a for a, b in zip(before, after, strict=True)]
        has_others = everyone - own > self._limits.trial_max_other_share * own
        return wall if has_others else min(wall, own)
