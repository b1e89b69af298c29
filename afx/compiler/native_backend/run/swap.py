"""Swap-in of machine code: plans run NumPy until their kernel is ready, then the kernel, with the same bits.

A plan is compiled once its calls have taken some milliseconds in all; the process that compiles needs none of this
one's time. As no bit depends on when a kernel comes, none waits for it. Calls that the kernel refuses, and those that
meet floating-point errors which are not ignored, run NumPy's plan, which warns at the user's line.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from afx.compiler.native_backend.run.trial import NumpyPlan, Run, Trial, run_numpy
from afx.compiler.native_backend.service.helper import FASTER_BY_NUMPY, NOT_INSTALLED, REFUSED, code_folder, log, warn
from afx.compiler.report import PlanStatus
from afx.compiler.schedule.schedule import Loop, Schedule
from afx.compiler.target import DEFAULT, Target, current
from afx.core.registry import loaded_modules
from afx.runtime.buffer_cache import IdleBuffers
from afx.runtime.thread_pool import between_forks, renew_after_fork

REASONS = {
    "waiting": f"its calls have not taken {DEFAULT.native.compile_min_seconds * 1e3:g} ms yet",
    "compiling": "it is being compiled",
}


class NativeCode:
    """Machine code of one plan, from none to linked.

    Attributes:
        run: ``run(values, plan)`` gives results, or None where NumPy's plan shall run; None before it is compiled.
        state: ``waiting``, ``compiling``, ``linked``, or why there is none.
        schedule: of the plan.
        target: what it is compiled for.
        policy: what holds BLAS to one thread, as in NumPy's plan.
        idle: the buffers of the plan, whose size counts machine code too.
        own_idle: those of the kernels, None before they are linked.
        key: under which kernels are kept, an empty text where it is not known, or none are.
        has_looked: whether what earlier processes kept was looked for.
        is_awaited: whether the first call waits for it.
        is_long: whether NumPy's plan is so slow that its first call waits, for as long as that would take at most.
        trusts: whether what earlier processes found is believed: that NumPy's calls were faster.
        since: the time at which it was settled who runs, None before.
        refusals: calls that a kernel left to NumPy's plan.
    """

    def __init__(
        self,
        schedule: Schedule,
        target: Target,
        policy: Sequence[AbstractContextManager[None]],
        idle: IdleBuffers,
    ) -> None:
        self.schedule = schedule
        self.target = target
        self.policy = policy
        self.idle: IdleBuffers = idle
        self.own_idle: IdleBuffers | None = None
        self.key: str = ""
        self.has_looked: bool = False
        self.is_long: bool = False
        self.trusts: bool = True
        self._has_asked = False
        self._arrived: tuple[Any, str] | None = None
        self.is_awaited: bool = target.backend == "native"
        self.run: Run | None = None
        self._state: str = "waiting"
        self.since: float | None = None
        self.refusals: int = 0
        self._refused_in_a_row = 0
        self._seconds = 0.0
        self._lock, self._taking = threading.Lock(), threading.Lock()
        self._ready = threading.Event()
        renew_after_fork(self)

    @property
    def state(self) -> str:
        """``waiting``, ``compiling``, ``linked``, or why there is none."""
        if self._arrived is not None:
            self.take_arrived()
        return self._state

    def arrive(self, made: Any, reason: str) -> None:
        """Note what was made, or why nothing was: the next call links it, as nobody else takes the lock from it."""
        self._arrived = made, reason
        if self._state == "compiling" and not self.is_awaited:
            self.run = _LinkFirst(self)
        self._ready.set()

    def take_arrived(self) -> None:
        """Link what has arrived; a call that is interrupted leaves it to the next one."""
        if not self._taking.acquire(blocking=False):
            return
        try:
            if self._arrived is not None and self._state == "compiling":
                _load_start().take(self, *self._arrived)
            self._arrived = None
        finally:
            self._taking.release()

    def compile(self) -> None:
        """Have it compiled beside the calls; where it is awaited, return when that is done."""
        while True:
            self._begin()
            if not self.is_awaited:
                return
            self._ready.wait()
            if self._arrived is not None:
                with self._taking:  # where another thread links it, that has ended
                    pass
            if self.state not in (
                "waiting",
                "compiling",
            ):  # as it is again where another thread, which began, was interrupted
                return

    def _begin(self) -> None:
        """Ask for it, unless another thread has: a call that is interrupted here leaves it to the next one."""
        begins = False
        try:
            with self._lock:
                begins = self._state == "waiting"
                if begins:
                    self._state, self.run = "compiling", None if self.is_awaited else leave_room
            if begins:
                start(self)
        except BaseException:
            if begins:
                self._wait_again()
            raise

    def text(self, form: str) -> str:
        """Return ``source``, ``llvm`` or ``assembly``, made in this process; empty where it has no native form."""
        from afx.compiler.native_backend.service.build import text_of

        return text_of(self.schedule, self.target, form)

    def settle(self, state: str, run: Run) -> None:
        """Run this from now on."""
        self._state, self.run, self._refused_in_a_row = state, run, 0
        self.since = time.time()
        self._ready.set()

    def note_refusal(self) -> None:
        """Count a call that was left to NumPy's plan, where a kernel runs; one too many in a row ends that."""
        run = self.run
        if self.state != "linked" or run is None:
            return
        self.refusals += 1
        self._refused_in_a_row += 1
        if self._refused_in_a_row >= self.target.native.refused_max_calls:
            reason = REFUSED.format(self._refused_in_a_row)
            self.give_up(reason)
            log(f"{reason}; it runs NumPy's plan from now on", is_asked=self.is_awaited)
        elif self._refused_in_a_row == 1:
            self.run = _Watched(self, run)

    def take_back(self, run: Run) -> None:
        """Run a kernel by itself, which has taken a call again."""
        self.run, self._refused_in_a_row = run, 0

    @property
    def status(self) -> PlanStatus:
        """Who answers the next call."""
        if self.state == "linked":
            on_trial = "the kernel and NumPy's calls are timed by turns" if isinstance(self.run, Trial) else ""
            return PlanStatus("native", on_trial, self.since, self.refusals)
        reason = REASONS.get(self.state, self.state)
        if self.state == "waiting" and self.is_awaited:
            reason = "it is compiled before its first call"
        return PlanStatus("numpy", reason, self.since, self.refusals)

    def give_up(self, reason: str) -> None:
        """Run NumPy's plan from now on."""
        self.settle(reason, run_numpy)

    def renew(self) -> None:
        """Take a new lock in a forked process, in which nobody compiles."""
        self._lock, self._taking = threading.Lock(), threading.Lock()
        if self._arrived is None:
            self._wait_again()

    def _wait_again(self) -> None:
        if self._state == "compiling":
            self._state, self.run = "waiting", None
            self._ready.set()
            self._ready = threading.Event()

    def _begin_early(self) -> None:
        """Link what earlier processes kept; where NumPy's plan is slow, wait for machine code as long as that would run."""
        seconds = count_calls(self.schedule) * self.target.native.numpy_call_seconds
        self.is_long = seconds >= self.target.native.wait_min_seconds
        if has_kept():
            try:
                if not _load_start().look(self):
                    _start_compiler()  # the calls that are to be counted will ask for it
            except Exception as error:  # no memory, say
                log(f"kept code could not be looked for ({error})", is_asked=False)
        if self.is_long and self._state == "waiting":
            self._begin()
            self._ready.wait(2 * seconds)  # which is the least that it takes
            if self._arrived is not None:
                self.take_arrived()

    def trust_numpy(self, seconds: float) -> None:
        """Run NumPy's plan, as an earlier process found it faster; a call that takes long asks again."""
        self.settle(FASTER_BY_NUMPY, _Trusted(self, seconds))

    def ask_again(self) -> None:
        """Forget who was faster: the next call looks for machine code once more, without a word of earlier processes."""
        self.trusts = self.has_looked = self._has_asked = False
        self._ready = threading.Event()
        self._state, self.run = "waiting", None

    def count(self, values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        """Run NumPy's plan and ask for machine code once that has taken some time; wait for it where it is awaited."""
        if self.is_awaited:
            self.compile()
            return None if self.run is None else self.run(values, plan)
        if not self._has_asked:
            self._has_asked = True
            self._begin_early()
            if self.run is not None:
                return self.run(values, plan)
        start = time.perf_counter()
        results = plan.run_numpy(*values)
        self._seconds += time.perf_counter() - start
        if self._seconds >= self.target.native.compile_min_seconds:
            self.compile()
        return results


# What runs for a while knows its `NativeCode` weakly: a plan that is dropped is freed with all its machine code at once.


class _LinkFirst:
    """Links what has arrived, unless another thread does, and runs."""

    def __init__(self, code: NativeCode) -> None:
        self._code = weakref.ref(code)

    def __call__(self, values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        code = self._code()
        if code is not None:
            code.take_arrived()
        run = None if code is None else code.run
        return plan.run_numpy(*values) if run is None or run is self else run(values, plan)


class _Watched:
    """A kernel that has refused its last call: once it takes one, it runs by itself again."""

    def __init__(self, code: NativeCode, run: Run) -> None:
        self._code, self._run = weakref.ref(code), run

    def __call__(self, values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        results, code = self._run(values, plan), self._code()
        if results is not None and code is not None and code.run is self:
            code.take_back(self._run)
        return results


class _Trusted:
    """NumPy's plan, as an earlier process found it faster; a call that takes long asks again."""

    def __init__(self, code: NativeCode, seconds: float) -> None:
        self._code, self._seconds = weakref.ref(code), seconds

    def __call__(self, values: Sequence[Any], plan: NumpyPlan) -> list[Any]:
        start = time.perf_counter()
        results = plan.run_numpy(*values)
        code = self._code()
        if time.perf_counter() - start > self._seconds and code is not None and code.run is self:
            code.ask_again()
        return results


def start(code: NativeCode) -> None:
    """Have machine code made; whatever goes wrong, NumPy's plan runs."""
    try:
        _load_start().start(code)
    except Exception as error:  # no memory, say, or an llvmlite that cannot be loaded
        warn("plan", f"a program could not be given to the compiler ({type(error).__name__}: {error})")
        code.give_up(f"it could not be given to the compiler: {error}")


def _load_start() -> Any:
    """Return the module that starts and links machine code, which a first call does without."""
    with between_forks():
        from afx.compiler.native_backend.run import start

    return start


@functools.cache
def has_kept() -> bool:
    """Tell whether earlier processes kept machine code."""
    folder = code_folder()
    try:
        with os.scandir(folder) if folder else contextlib.nullcontext(()) as kept:
            return any(kept)
    except OSError:
        return False


@functools.cache
def foresee() -> None:
    """Start the process that compiles, where nothing is kept, and load what links: once a process, in its first call."""
    with contextlib.suppress(Exception):  # what is wrong with it is the first plan's to meet
        if not has_kept():
            _start_compiler()
        _load_start().load()


def _start_compiler() -> None:
    with between_forks():
        from afx.compiler.native_backend.service.process import service

    service.start(loaded_modules())


def count_calls(schedule: Schedule) -> int:
    """Return how many calls of NumPy a plan makes, where a condition ends a loop those of one step."""
    loops = [i for i in schedule.instructions if isinstance(i, Loop)]
    return len(schedule) + sum([(i.length or 1) * sum([1 + count_calls(body) for body in i.bodies]) for i in loops])


def explain(schedule: Schedule, target: Target) -> tuple[tuple[str, str], ...]:
    """Return each instruction with the reason why it has no native form, an empty text where it has one.

    What refuses the whole stands beside the results; without the extra ``native`` nothing has one.
    """
    from afx.compiler.native_backend.service import build

    pairs = build.explain(schedule, target)
    return pairs if is_installed() else tuple([(text, reason or NOT_INSTALLED) for text, reason in pairs])


def status_without_code(schedule: Schedule, target: Target) -> PlanStatus:
    """Return the status of a plan that has no machine code to come."""
    if target.backend == "numpy":
        return PlanStatus("numpy", 'the back end "numpy" was asked for')
    return PlanStatus("numpy", "it has no instructions" if is_installed() else NOT_INSTALLED)


class _LeaveRoom:
    """Leaves calls to NumPy's plan, and Python's lock to the thread that starts the compiler and links, now and then.

    A thread that gives the lock away for moments, as NumPy's calls do, and takes it back before another one wakes up,
    keeps it for ever: Python asks for it only where nobody gave it away for some milliseconds.
    """

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, values: Sequence[Any], plan: NumpyPlan) -> list[Any]:
        """Sleep if the last sleep was a millisecond ago, and run NumPy's plan."""
        if time.perf_counter() - self._last > current.target.service.room_every_seconds:
            time.sleep(current.target.service.room_seconds)
            self._last = time.perf_counter()
        return plan.run_numpy(*values)


leave_room: Run = _LeaveRoom()


def native_code(
    schedule: Schedule,
    target: Target,
    policy: Sequence[AbstractContextManager[None]],
    idle: IdleBuffers,
) -> NativeCode | None:
    """Return the machine code of a plan, still to be made; None where the target wants none or the extra is missing."""
    if target.backend == "numpy" or not schedule.instructions or not is_installed():
        return None
    return NativeCode(schedule, target, policy, idle)


@functools.cache
def is_installed() -> bool:
    """Tell whether llvmlite, the extra ``native``, is there."""
    try:
        return importlib.util.find_spec("llvmlite") is not None
    except ValueError:  # a module of this name that says nothing of its origin, such as a test's
        return False
