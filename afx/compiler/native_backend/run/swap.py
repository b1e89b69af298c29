r"""Swap-in of machine code: plans run NumPy until their kernel is ready, then the kernel, with the same bits.

A plan is compiled once its calls have taken some milliseconds in all; the process that compiles needs none of this
one's time. As no bit depends on when a kernel comes, none waits for it. Calls that the kernel refuses, and those that
meet floating-point errors which are not ignored, run NumPy's plan, which warns at the user's line; where it is to warn, a
few times, as Python shows the warnings of a line once: then the kernel warns.

Each call is answered by the state in which its plan's machine code is::

               calls took long                it cannot be made
    Waiting --------------------> Compiling ------------------------> Refused
     |  ^ \                        |      \
     |  |  \ code is kept:         |       \ its bits are its own,                     it refuses several
     |  |   \ as if it arrived     |        \ or the call waits for it                 calls in a row
     |  |    \---------------------|         \                                      --------------------> Resting
     |  |                          v          \-------------->        it refuses   /                        |
     |  |                       OnTrial ---------------------> Linked -----------> Faltering                | some calls
     |  | a call took long       |  ^      it was faster          ^  <-----------                           | later it
     v  |                        v  | minutes later               |    it takes a call                      | takes one
    Trusted                    Doubted                            \-----------------------------------------/
    (NumPy's calls were faster: in an earlier process; in the trial)

A call that is interrupted while it begins to compile leaves its plan waiting; so does a fork, in the child. A call that
`Waiting` or `Compiling` answers by NumPy's plan goes over to what comes while it is in a loop. `OnTrial` falters as
`Linked` does. `Trusted`, `Doubted` and `Resting` are kinds of `Refused`.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib.util
import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias, TypeVar

import attrs

from afx.compiler.native_backend.run.job import CodeJob, Kernels, NumpyPlan, Run
from afx.compiler.native_backend.run.trial import Trial, read_clocks, read_time, run_timed
from afx.compiler.native_backend.service.helper import FASTER_BY_NUMPY, NOT_INSTALLED, REFUSED, code_folder, log, warn
from afx.compiler.numpy_backend.loops import run_with_looks
from afx.compiler.report import PlanStatus
from afx.compiler.schedule.schedule import Schedule
from afx.compiler.target import DEFAULT, Target, current
from afx.core.graph import Graph
from afx.core.registry import loaded_modules
from afx.runtime.buffer_cache import IdleBuffers
from afx.runtime.control_register import run_as_caller
from afx.runtime.thread_pool import between_forks, renew_after_fork, undisturbed

SHORT = f"its calls have not taken {DEFAULT.native.compile_min_seconds * 1e3:g} ms yet"
FIRST_REST, LONGEST_REST = 4, 1024  # calls that NumPy's plan answers before kernels are asked again
R = TypeVar("R")

AWAITED = "it is compiled before its first call"

# --- Machine code of one plan


class CompiledPlan(NumpyPlan, Protocol):
    """A plan with machine code: states know theirs by it alone, so that a plan that is dropped frees all of it at once."""

    @property
    def code(self) -> NativeCode:
        """Its machine code."""
        ...


class State(Protocol):
    """Who answers the next call, and why."""

    @property
    def run(self) -> Callable[[Sequence[Any], CompiledPlan], list[Any] | None]:
        """``run(values, plan)`` gives results, or None where NumPy's plan shall run."""
        ...

    @property
    def reason(self) -> str:
        """Why it is not, or may not stay, machine code."""
        ...


class NativeCode:
    """Machine code of one plan, from none to linked.

    Attributes:
        job: what it is made of.
        state: who answers the next call.
        since: the time at which it was settled who runs, None before.
        refusals: calls that a kernel left to NumPy's plan.
    """

    def __init__(self, job: CodeJob, graph: Graph | None = None) -> None:
        """Take the graph of a plan whose bits are portable: its code runs from the first call on."""
        self.job = job
        self.state: State = Waiting(job) if graph is None else _load_portable()(job, graph)
        self.since: float | None = None
        self.refusals: int = 0
        self._lock = threading.Lock()
        renew_after_fork(self)

    def become(self, state: State) -> None:
        """Let this state, which settles who runs, answer from now on."""
        before, self.state, self.since = self.state, state, time.time()
        if isinstance(before, Compiling):
            before.ready.set()

    @property
    def is_settled(self) -> bool:
        """Whether it is made, or none is; what has arrived is linked."""
        if isinstance(self.state, Compiling):
            self.state.link(self)
        return not isinstance(self.state, (Waiting, Compiling))

    @property
    def is_linked(self) -> bool:
        """Whether a kernel answers the next call."""
        return self.is_settled and not isinstance(self.state, Refused)

    def begin(self) -> None:
        """Ask for it, unless another thread has: a call that is interrupted here leaves it to the next one."""
        compiling = None
        try:
            with self._lock:
                if isinstance(self.state, Waiting):
                    compiling = self.state = Compiling(self.state)
            if compiling is not None:
                with undisturbed:
                    start(self)
        except BaseException:
            if compiling is not None and self.state is compiling:
                self.state = compiling.waiting
                compiling.ready.set()
            raise

    def compile(self) -> None:
        """Have it compiled, and wait for that: again where another thread, which began, was interrupted."""
        while not self.is_settled:
            self.begin()
            if isinstance(state := self.state, Compiling):
                state.ready.wait()
                state.link(self, waits=True)

    def note_refusal(self) -> None:
        """Count a call that was left to NumPy's plan, where a kernel runs; one too many in a row ends that."""
        state = self.state
        if isinstance(state, (Linked, OnTrial)):
            self.state = state = Faltering(state)
        if isinstance(state, Resting):
            self.refusals += 1
        if not isinstance(state, Faltering):
            return
        self.refusals += 1
        state.refused += 1
        if state.refused >= self.job.target.native.refused_max_calls:
            self.become(Resting(state.state, REFUSED.format(state.refused)))
            if self.refusals == state.refused:  # for the first time
                log(f"{self.state.reason}; it is asked again now and then", is_asked=self.job.is_awaited)

    @property
    def status(self) -> PlanStatus:
        """Who answers the next call."""
        own = self.job.target.backend
        backend = "numpy" if not self.is_linked else own if own == "portable" else "native"
        return PlanStatus(backend, self.state.reason, self.since, self.refusals)

    @property
    def idle_bytes(self) -> int:
        """Bytes of the buffers that its kernels keep between calls."""
        state = self.state.state if isinstance(self.state, (Faltering, Resting)) else self.state
        kernels: Kernels | None = getattr(state, "kernels", None)
        return kernels.idle.nbytes if kernels is not None else 0

    def text(self, form: str) -> str:
        """Return ``source``, ``llvm`` or ``assembly``, made in this process; empty where it has no native form."""
        from afx.compiler.native_backend.service.build import text_of

        if self.job.target.backend == "portable":
            portable: Any = self.state
            return str(portable.text()) if form == "llvm" else ""

        return text_of(self.job.schedule, self.job.target, form)

    def renew(self) -> None:
        """Take a new lock in a forked process, in which nobody compiles."""
        self._lock = threading.Lock()
        if isinstance(self.state, Compiling):
            self.state = self.state.renewed()
        elif self.job.target.backend == "portable":
            portable: Any = self.state
            portable.renew()


def _load_portable() -> Any:
    """Return the state of portable code, which imports what emits machine code."""
    with between_forks():
        from afx.compiler.native_backend.run.portable import Portable

    return Portable


# --- Before there is machine code: waiting, and compiling

Arrival: TypeAlias = "tuple[Any, str]"  # what was made, or None and why


class Waiting:
    """NumPy's calls run until they have taken some time; where machine code is awaited, the first call waits for it."""

    __slots__ = ("_has_begun", "_has_looked", "_seconds", "_trusts", "reason")

    def __init__(self, job: CodeJob, *, trusts: bool = True) -> None:
        """Take whether what earlier processes found is believed: that NumPy's calls were faster."""
        self.reason: str = AWAITED if job.is_awaited else SHORT
        self._trusts = trusts
        self._has_begun = self._has_looked = False
        self._seconds = 0.0

    def run(self, values: Sequence[Any], plan: CompiledPlan) -> list[Any] | None:
        """Run NumPy's plan and ask for machine code once that has taken some time; wait for it where it is awaited."""
        code = plan.code
        if code.job.is_awaited:
            code.compile()
        elif not self._has_begun:
            self._has_begun = True
            self._begin_early(code)
        if code.state is not self:
            return code.state.run(values, plan)
        results = run_watched(values, plan, is_disturbed=False)
        if code.state is not self:
            return results
        if not (self._seconds or _preloaded):
            _preload(code.job)
        self._seconds += code.job.last_seconds
        if self._seconds >= code.job.target.native.compile_min_seconds:
            code.begin()
        return results

    def _begin_early(self, code: NativeCode) -> None:
        """Link what earlier processes kept; where NumPy's plan is slow, begin to compile before its first call.

        Where it would take longer than compiling, wait for machine code, as long as it would run.
        """
        job = code.job
        if has_kept():
            try:
                with undisturbed:
                    if not self.look(code):
                        _start_compiler()  # the calls that are to be counted will ask for it
            except Exception as error:  # no memory, say
                log(f"kept code could not be looked for ({error})", is_asked=False)
        if job.numpy_seconds >= job.target.native.early_min_seconds and code.state is self:
            code.begin()
            if job.is_long and isinstance(state := code.state, Compiling):
                state.ready.wait(2 * job.numpy_seconds)  # which is the least that it takes
                state.link(code)

    def look(self, code: NativeCode) -> bool:
        """Run what an earlier process kept, where there is something; tell whether there is."""
        if self._has_looked:
            return False
        self._has_looked = True
        cached = _load_start().look(code.job, self._trusts)
        if cached is not None:
            is_slower = cached.made is None
            code.become(Trusted() if is_slower else _link(code.job, cached.made, "", is_tried=cached.is_tried))
        return cached is not None


class Compiling:
    """It is being compiled: NumPy's calls run, or wait for it; the next call links what another thread brings.

    Attributes:
        waiting: what it was before, and is again where its start is interrupted.
        ready: set once something has arrived, or nothing will.
    """

    __slots__ = ("_arrived", "_linking", "ready", "waiting")
    reason = "it is being compiled"

    def __init__(self, waiting: Waiting, arrived: Arrival | None = None) -> None:
        self.waiting: Waiting = waiting
        self.ready: threading.Event = threading.Event()
        self._arrived = arrived
        self._linking = threading.Lock()

    def arrive(self, made: Any, reason: str) -> None:
        """Note what was made, or why nothing was: the next call links it, as nobody else takes the lock from it."""
        self._arrived = made, reason
        self.ready.set()

    def run(self, values: Sequence[Any], plan: CompiledPlan) -> list[Any] | None:
        """Link what has arrived, unless another thread does, and run it; else NumPy's plan."""
        code = plan.code
        if code.job.is_awaited:
            code.compile()
        elif self._arrived is None:
            leave_room()
        else:
            self.link(code)
        state = code.state
        if state is not self:
            return state.run(values, plan)
        return run_watched(values, plan, is_disturbed=True)

    @property
    def has_arrived(self) -> bool:
        """Whether there is something to link."""
        return self._arrived is not None

    def link(self, code: NativeCode, *, waits: bool = False) -> None:
        """Link what has arrived; a call that is interrupted leaves it to the next one.

        Args:
            code: whose state this is.
            waits: whether to wait for another thread that links it.
        """
        if self._arrived is None or not self._linking.acquire(blocking=waits):
            return
        try:
            if code.state is self:
                with undisturbed:
                    code.become(_link(code.job, *self._arrived))
        finally:
            self._linking.release()

    def renewed(self) -> Waiting | Compiling:
        """Return what it is in a forked process, in which nobody compiles, and another thread's locks stay locked."""
        return self.waiting if self._arrived is None else Compiling(self.waiting, self._arrived)


_slept = [0.0]  # when that last was


def leave_room() -> None:
    """Leave Python's lock to the thread that starts the compiler and links, now and then: sleep for a moment.

    A thread that gives the lock away for moments, as NumPy's calls do, and takes it back before another one wakes up,
    keeps it for ever: Python asks for it only where nobody gave it away for some milliseconds.
    """
    if time.perf_counter() - _slept[0] > current.target.service.room_every_seconds:
        time.sleep(current.target.service.room_seconds)
        _slept[0] = time.perf_counter()


def _link(job: CodeJob, made: Any, reason: str, *, is_tried: bool = False) -> State:
    """Link what was made: it stays where it was tried before, or has bits of its own."""
    if made is None:
        return Refused(reason)
    try:
        kernels: Kernels = _load_start().link(job, made)
    except Exception as error:
        warn("plan", f"machine code cannot be linked ({type(error).__name__}: {error})")
        return Refused(f"it cannot be linked: {error}")
    if job.target.tier > 1 or is_tried or (kernels.is_whole and (job.is_awaited or job.is_long)):
        return Linked(kernels, kernels.run)
    return OnTrial(job, kernels)


# --- Handing over: a call of NumPy's plan that has begun, and is in a loop, goes over to machine code when that comes


def run_watched(values: Sequence[Any], plan: CompiledPlan, *, is_disturbed: bool) -> list[Any]:
    """Run NumPy's plan and note how long it took; where it has loops, they ask for machine code and go over to it.

    Args:
        values: of the call.
        plan: what runs.
        is_disturbed: whether code is being compiled meanwhile.
    """
    job = plan.code.job
    if not job.hands_over:
        return run_timed(job, values, plan, is_disturbed=is_disturbed)
    watch = _Watch(values, plan)
    try:
        return run_with_looks(watch, lambda: run_timed(job, values, plan, is_disturbed=is_disturbed))
    except _HandedOver as done:
        if done.watch is not watch:
            raise
        plan.drop_buffers()  # of this call as well
        return done.results
    finally:
        job.begun_seconds = 0.0


class _HandedOver(Exception):
    """A call is done by machine code."""

    def __init__(self, watch: _Watch, results: list[Any]) -> None:
        self.watch = watch
        self.results = results


class _Watch:
    """Looks between the steps of a call's loops: begins to compile after some time, and runs what arrives.

    It gives the same bits from the beginning, in a fraction of the time that has gone, where that went into calls of
    NumPy on few numbers. What is the matter with the call, errors that are heard of say, is for NumPy's plan to find,
    which then goes on. Numbers of errors and denormals are those of the caller, not of the loop.
    """

    def __init__(self, values: Sequence[Any], plan: CompiledPlan) -> None:
        self._values = values
        self._plan = plan
        self._context = contextvars.copy_context()
        self._start = read_clocks()
        self._calls = 0.0
        self._is_done = False

    def look(self, calls: float) -> None:
        """Begin, link or hand over."""
        self._calls += calls
        if self._is_done:
            return
        code = self._plan.code
        state = code.state
        if isinstance(state, Waiting):
            job = code.job
            if read_time() - self._start[0] >= job.target.native.compile_min_seconds:
                job.last_seconds = read_time() - self._start[0]
                self._as_caller(code.begin)
        elif isinstance(state, Compiling):
            leave_room()
            if state.has_arrived:
                self._as_caller(state.link, code)
        else:
            self._is_done = True
            if isinstance(state, (OnTrial, Linked)) and state.kernels.is_whole:
                self._hand_over(code)

    def _hand_over(self, code: NativeCode) -> None:
        own = read_clocks()[1] - self._start[1]
        if own > code.job.target.native.hand_over_max_call_seconds * self._calls:
            return
        code.job.begun_seconds = own
        results = self._as_caller(code.state.run, self._values, self._plan)
        if results is not None:
            raise _HandedOver(self, results)
        code.note_refusal()

    def _as_caller(self, run: Callable[..., R], *args: Any) -> R:
        return self._context.copy().run(run_as_caller, run, *args)


# --- With machine code: on trial, linked, or left to NumPy's plan


class OnTrial:
    """The first calls of kernels are compared with those of NumPy's plan, which gives the same; the faster one stays."""

    __slots__ = ("_trial", "kernels")
    reason = "the kernel and NumPy's calls are compared"

    def __init__(self, job: CodeJob, kernels: Kernels) -> None:
        self.kernels: Kernels = kernels
        self._trial = Trial(kernels.run, job)

    def run(self, values: Sequence[Any], plan: CompiledPlan) -> list[Any] | None:
        """Run one of both."""
        results, is_faster = self._trial.run(values, plan)
        if is_faster is not None:
            job = plan.code.job
            if is_faster:
                plan.code.become(Linked(self.kernels, self.kernels.run))
                plan.drop_buffers()
            else:
                plan.code.become(Doubted(job, self.kernels, self._trial.kernel_seconds))
            if is_faster or not self._trial.is_crowded:  # a later process may have the processors to itself
                _load_start().keep_verdict(job, is_faster)
        return results


@attrs.frozen(eq=False)
class Linked:
    """Kernels run."""

    kernels: Kernels
    run: Run
    reason: str = ""


class Faltering:
    """Kernels that have refused their last calls: once they take one, they run by themselves again.

    Attributes:
        state: what it was before.
        refused: how many calls in a row.
    """

    __slots__ = ("refused", "state")

    def __init__(self, state: Linked | OnTrial) -> None:
        self.state: Linked | OnTrial = state
        self.refused: int = 0

    @property
    def reason(self) -> str:
        """Why they may not stay."""
        return self.state.reason

    def run(self, values: Sequence[Any], plan: CompiledPlan) -> list[Any] | None:
        """Run them."""
        results, code = self.state.run(values, plan), plan.code
        if results is not None and code.state is self:
            code.state = self.state
        return results


class Refused:
    """NumPy's plan runs, as its reason says."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason: str = reason

    def run(self, values: Sequence[Any], plan: CompiledPlan) -> list[Any] | None:
        """Leave a call to NumPy's plan."""
        return plan.run_numpy(*values)


class Resting(Refused):
    """NumPy's plan runs for some calls, after several that kernels left to it; then they are asked again.

    What was the matter with those calls (floating-point errors, an index) says nothing of later ones: the first rest is
    short, and each call that is refused after one doubles the next.
    """

    __slots__ = ("_left", "_rest", "state")

    def __init__(self, state: Linked | OnTrial, reason: str) -> None:
        super().__init__(reason)
        self.state: Linked | OnTrial = state
        self._left = self._rest = FIRST_REST

    def run(self, values: Sequence[Any], plan: CompiledPlan) -> list[Any] | None:
        """Run NumPy's plan, or the kernels once more."""
        if self._left > 0:
            self._left -= 1
            return plan.run_numpy(*values)
        results, code = self.state.run(values, plan), plan.code
        if results is None:
            self._left = self._rest = min(2 * self._rest, LONGEST_REST)
        elif code.state is self:
            code.become(self.state)
        return results


class Doubted(Refused):
    """NumPy's calls were faster, for some minutes: who was on a busy machine is asked again.

    So is who was in calls that took less work: where one of NumPy's takes several times as long as the kernel's did.
    """

    __slots__ = ("_known", "_long", "end", "kernels")

    def __init__(self, job: CodeJob, kernels: Kernels, kernel_seconds: float) -> None:
        super().__init__(FASTER_BY_NUMPY)
        limits = job.target.native
        self.kernels: Kernels = kernels
        self.end: float = read_time() + limits.trial_again_seconds
        self._known = math.inf  # what earlier calls took says little after minutes
        self._long = max(limits.trial_slow_ratio * kernel_seconds, job.target.service.trusted_max_seconds)

    def run(self, values: Sequence[Any], plan: CompiledPlan) -> list[Any] | None:
        """Run NumPy's plan, or another trial."""
        code = plan.code
        start = read_time()
        if start < self.end or code.state is not self:
            results = plan.run_numpy(*values)
            seconds = read_time() - start
            if seconds > self._long:
                self._known, self.end = seconds, 0.0
            return results
        code.job.least_seconds = self._known
        code.become(OnTrial(code.job, self.kernels))
        return code.state.run(values, plan)


class Trusted(Refused):
    """NumPy's calls were faster in an earlier process; a call that takes long looks for machine code all the same."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(FASTER_BY_NUMPY)

    def run(self, values: Sequence[Any], plan: CompiledPlan) -> list[Any] | None:
        """Run NumPy's plan; after a long call, the next one waits for machine code as the first one did."""
        start = time.perf_counter()
        results = plan.run_numpy(*values)
        code = plan.code
        if time.perf_counter() - start > current.target.service.trusted_max_seconds and code.state is self:
            code.state = Waiting(code.job, trusts=False)
        return results


# --- How it starts


def start(code: NativeCode) -> None:
    """Have machine code made; whatever goes wrong, NumPy's plan runs."""
    compiling = code.state
    if not isinstance(compiling, Compiling):
        return
    try:
        if not compiling.waiting.look(code):
            reason = _load_start().start(code.job, compiling.arrive)
            if reason:
                code.become(Refused(reason))
    except Exception as error:  # no memory, say, or an llvmlite that cannot be loaded
        warn("plan", f"a program could not be given to the compiler ({type(error).__name__}: {error})")
        code.become(Refused(f"it could not be given to the compiler: {error}"))


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

    service.start()


_preloaded: list[bool] = []  # not empty once that was asked for


def _preload(job: CodeJob) -> None:
    """Let the compiling process import what lowers schedules, where it will lower this one: imports delay LLVM there."""
    if job.is_slow or not is_installed():
        return
    _preloaded.append(True)
    with contextlib.suppress(Exception), between_forks():  # what is wrong with it is the first plan's to meet
        from afx.compiler.native_backend.service.process import service

        service.preload(loaded_modules())


def explain(schedule: Schedule, target: Target) -> tuple[tuple[str, str], ...]:
    """Return each instruction with the reason why it has no native form, an empty text where it has one.

    What refuses the whole stands beside the results; without the extra ``native`` nothing has one.
    """
    from afx.compiler.native_backend.service import build

    pairs = build.explain(schedule, target)
    return pairs if is_installed() else tuple([(text, reason or NOT_INSTALLED) for text, reason in pairs])


def status_without_code(target: Target) -> PlanStatus:
    """Return the status of a plan that has no machine code to come."""
    if target.backend == "numpy":
        return PlanStatus("numpy", 'the back end "numpy" was asked for')
    return PlanStatus("numpy", "it has no instructions" if is_installed() else NOT_INSTALLED)


def native_code(
    schedule: Schedule,
    target: Target,
    policy: Sequence[AbstractContextManager[None]],
    idle: IdleBuffers,
    graph: Graph,
    flushes: bool,
) -> NativeCode | None:
    """Return the machine code of a plan, still to be made; None where the target wants none or the extra is missing."""
    if target.backend == "portable":
        return NativeCode(CodeJob(schedule, target, policy, idle), graph)
    if target.backend == "numpy" or not schedule.instructions or not is_installed():
        return None
    return NativeCode(CodeJob(schedule, target, policy, idle, flushes=flushes))


@functools.cache
def is_installed() -> bool:
    """Tell whether llvmlite, the extra ``native``, is there."""
    try:
        return importlib.util.find_spec("llvmlite") is not None
    except ValueError:  # a module of this name that says nothing of its origin, such as a test's
        return False
