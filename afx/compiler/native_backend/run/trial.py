"""Trials of machine code: the first calls of a kernel are compared with what NumPy's plan takes, which gives the same."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from afx.compiler.native_backend.run.job import CodeJob, NumpyPlan, Run
from afx.compiler.target import NativeTarget

read_time: Callable[[], float] = time.perf_counter


def read_clocks() -> tuple[float, float, float]:
    """Return the time, and the processor time of this thread and of the process."""
    return read_time(), time.thread_time(), time.process_time()


def run_timed(job: CodeJob, values: Sequence[Any], plan: NumpyPlan, *, is_disturbed: bool) -> list[Any]:
    """Run NumPy's plan and note how long that took, for the trial that is to come.

    Args:
        job: where it is noted.
        values: of the call.
        plan: what runs.
        is_disturbed: whether code is being compiled meanwhile, which makes calls on several threads slower.
    """
    limits = job.target.native
    if 0.0 < job.last_seconds < limits.trial_single_min_seconds:  # there are several, and all clocks take a microsecond
        start = read_time()
        results = plan.run_numpy(*values)
        job.last_seconds = read_time() - start
        job.least_seconds = min(job.least_seconds, job.last_seconds)
        return results
    before = read_clocks()
    results = plan.run_numpy(*values)
    job.last_seconds, is_alone = _seconds_between(before, read_clocks(), limits)
    if is_alone or not is_disturbed:
        job.least_seconds = min(job.least_seconds, job.last_seconds)
    return results


def _seconds_between(
    before: tuple[float, float, float], after: tuple[float, float, float], limits: NativeTarget
) -> tuple[float, bool]:
    """Return how long a call took, or would have taken alone, and whether one thread computed it.

    Where other programs hold the processors, a call on several threads ends no later alone than one after the other.
    """
    wall, own, everyone = after[0] - before[0], after[1] - before[1], after[2] - before[2]
    has_others = everyone - own > limits.trial_max_other_share * own
    return min(wall, everyone if has_others else own), not has_others


class Trial:
    """First calls of a kernel: timed, as those of NumPy's plan before them were, which gives the same.

    A call counts by its processor time where that is less than by the clock: other programs hardly change it.
    The least of each decides. NumPy's plan is run again only where it is not known to be the slower one; where both lie
    close together, they run by turns. A call that takes long is compared once; of short ones a kernel's first may be its
    slowest.
    """

    __slots__ = ("_job", "_kernel_run", "_seconds", "_varies", "is_crowded")

    def __init__(self, kernel_run: Run, job: CodeJob) -> None:
        self._kernel_run = kernel_run
        self._job = job
        self._varies = job.schedule.depends_on_values()
        self._seconds: tuple[list[float], list[float]] = ([], [])
        self.is_crowded: bool = False  # whether other programs held the processors for half of a call

    def run(self, values: Sequence[Any], plan: NumpyPlan) -> tuple[list[Any] | None, bool | None]:
        """Run one of both; return its results, and whether the kernel is faster, None while that is open."""
        numpy_times, kernel_times = self._seconds
        limits = self._job.target.native
        ahead = limits.trial_min_calls - 1 if self._job.least_seconds < limits.trial_long_min_seconds else 0
        turn = len(kernel_times) > len(numpy_times) + ahead
        before = read_clocks()
        results = plan.run_numpy(*values) if turn else self._kernel_run(values, plan)
        if results is None:  # then NumPy's plan runs too, and nothing is compared
            return None, None
        after = read_clocks()
        seconds, _ = _seconds_between(before, after, limits)
        self._seconds[not turn].append(seconds)
        self.is_crowded |= after[0] - before[0] > 2.0 * seconds
        return results, self._verdict() if kernel_times else None

    @property
    def kernel_seconds(self) -> float:
        """The least that a call of the kernel took."""
        return min(self._seconds[1], default=math.inf)

    def _verdict(self) -> bool | None:
        """Return whether the kernel is faster, as far as the calls so far tell; None where more of them are needed."""
        job, limits, kernel_time = self._job, self._job.target.native, self.kernel_seconds
        numpy_times, calls = self._seconds[0], len(self._seconds[1])
        known = min([job.least_seconds, *numpy_times])
        numpy_time = max(job.begun_seconds, known if known < math.inf else 0.0)
        if numpy_time >= limits.trial_known_ratio * kernel_time:
            is_plain = numpy_time >= max(limits.trial_single_ratio * kernel_time, limits.trial_single_min_seconds)
            is_long = numpy_time >= limits.trial_long_min_seconds
            return True if is_plain or is_long or calls >= limits.trial_min_calls else None
        # that the kernel is slower, earlier calls tell where all of them do the same work, and are not thousands, of which
        # the least is less than that of a few
        is_told = not self._varies and job.least_seconds >= limits.trial_single_min_seconds
        numpy_time = known if is_told else min(numpy_times, default=math.inf)
        is_long = max(kernel_time, numpy_times[0] if numpy_times else 0.0) >= limits.trial_long_min_seconds
        pairs, ratio = len(numpy_times), kernel_time / max(numpy_time, 1e-9)
        # a kernel's first call is the first that writes to its memory, which may take several times as long as its work
        slow_ratio = limits.trial_slow_ratio if calls > 1 else limits.trial_first_slow_ratio
        if ratio >= slow_ratio and (is_long or calls > 1):
            return False
        if ratio >= limits.trial_clear_ratio and calls >= limits.trial_min_calls:
            return False
        is_clear = pairs >= limits.trial_min_calls and numpy_time >= limits.trial_clear_ratio * kernel_time
        is_first = calls == 1 and ratio > 1.0
        if is_clear or (is_long and pairs and not is_first) or pairs >= limits.trial_max_calls:
            return kernel_time <= numpy_time
        return None
