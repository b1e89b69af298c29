"""Trials of machine code: the first calls of a kernel are timed by turns with NumPy's plan, which gives the same."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

from afx.compiler.native_backend.service.helper import FASTER_BY_NUMPY
from afx.compiler.schedule.schedule import Schedule
from afx.compiler.target import Target
from afx.runtime.buffer_cache import IdleBuffers

Run: TypeAlias = "Callable[[Sequence[Any], NumpyPlan], list[Any] | None]"


class NumpyPlan(Protocol):
    """What a plan offers to its machine code; it is handed over at each call, so that neither keeps the other alive."""

    @property
    def flushes(self) -> bool:
        """Whether it computes without denormals."""
        ...

    def run_numpy(self, *inputs: Any) -> list[Any]:
        """Run NumPy's calls."""
        ...

    def drop_buffers(self) -> None:
        """Free the buffers of NumPy's calls."""
        ...


class Code(Protocol):
    """What starts and tries the machine code of a plan asks of it; `NativeCode` says what it is."""

    run: Run | None
    schedule: Schedule
    target: Target
    policy: Sequence[AbstractContextManager[None]]
    idle: IdleBuffers
    own_idle: IdleBuffers | None
    key: str
    has_looked: bool
    is_awaited: bool
    is_long: bool
    trusts: bool

    @property
    def state(self) -> str:
        """``waiting``, ``compiling``, ``linked``, or why there is none."""
        ...

    def arrive(self, made: Any, reason: str) -> None:
        """Note what was made, or why nothing was."""
        ...

    def settle(self, state: str, run: Run) -> None:
        """Run this from now on."""
        ...

    def give_up(self, reason: str) -> None:
        """Run NumPy's plan from now on."""
        ...

    def trust_numpy(self, seconds: float) -> None:
        """Run NumPy's plan for so long, as an earlier process found its calls faster."""
        ...


def run_numpy(values: Sequence[Any], plan: NumpyPlan) -> list[Any]:
    """Leave a call to NumPy's plan."""
    return plan.run_numpy(*values)


class Doubt:
    """Leaves calls to NumPy's plan, for some minutes: who was faster on a busy machine is asked again."""

    def __init__(self, code: Code, trial: Trial) -> None:
        self._code = weakref.ref(code)
        self._trial = trial
        self.end: float = time.perf_counter() + code.target.native.trial_again_seconds

    def __call__(self, values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        """Run NumPy's plan, or another trial."""
        code = self._code()
        if time.perf_counter() < self.end or code is None or code.run is not self:
            return plan.run_numpy(*values)
        code.settle("linked", self._trial.renew())
        return code.run(values, plan) if code.run is not None else None


def read_clocks() -> tuple[float, float, float]:
    """Return the time, and the processor time of this thread and of the process."""
    return time.perf_counter(), time.thread_time(), time.process_time()


class Trial:
    """First calls of a kernel: timed by turns with NumPy's plan, as both give the same.

    A call on one thread counts by its processor time where that is less than by the clock: other programs hardly change it.
    The least of each decides; where these lie close together, the trial goes on. Where NumPy's plan takes
    milliseconds, and several times as long as the kernel, one call of each does; a kernel's first call may be its slowest.
    """

    def __init__(self, code: Code, run: Run, told: Callable[[bool], None] = lambda _: None) -> None:
        self._code = weakref.ref(code)
        self._told = told
        self.kernel_run = run
        self._limits = code.target.native
        self._seconds: tuple[list[float], list[float]] = ([], [])

    def __call__(self, values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        """Run one of both."""
        numpy_times, kernel_times = self._seconds
        turn = len(kernel_times) > len(numpy_times)
        before = read_clocks()
        results = plan.run_numpy(*values) if turn else self.kernel_run(values, plan)
        if results is None:  # then NumPy's plan runs too, and nothing is compared
            return None
        self._seconds[not turn].append(self._seconds_between(before, read_clocks()))
        if numpy_times:
            self._decide(numpy_times, kernel_times, plan)
        return results

    def _decide(self, numpy_times: list[float], kernel_times: list[float], plan: NumpyPlan) -> None:
        limits, count = self._limits, len(numpy_times)
        numpy_time, kernel_time = min(numpy_times), min(kernel_times)
        slower, faster = max(numpy_time, kernel_time), min(numpy_time, kernel_time)
        is_plain = numpy_time >= max(limits.trial_single_ratio * kernel_time, limits.trial_single_min_seconds)
        is_clear = count >= limits.trial_min_calls and slower >= limits.trial_clear_ratio * faster
        if not (is_plain or is_clear or count >= limits.trial_max_calls):
            return
        code = self._code()
        assert code is not None
        if kernel_time > numpy_time:
            code.settle(FASTER_BY_NUMPY, Doubt(code, self))
        else:
            code.settle("linked", self.kernel_run)
            plan.drop_buffers()
        self._told(kernel_time <= numpy_time)

    def renew(self) -> Trial:
        """Return a trial of the same kernel."""
        code = self._code()
        assert code is not None
        return Trial(code, self.kernel_run, self._told)

    def _seconds_between(self, before: tuple[float, float, float], after: tuple[float, float, float]) -> float:
        """Return how long a call took, or would have taken alone, as far as its processor time tells."""
        wall, own, everyone = [b - a for a, b in zip(before, after, strict=True)]
        has_others = everyone - own > self._limits.trial_max_other_share * own
        return wall if has_others else min(wall, own)
