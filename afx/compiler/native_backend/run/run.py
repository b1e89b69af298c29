"""Runs of kernels: whole plans, pieces between NumPy's calls, and threads that run one kernel together."""

from __future__ import annotations

import atexit
import itertools
import operator
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from afx.compiler.native_backend.llvm.team import DISMISSED, ENDED, JOB, MEMBERS, TEAM_BYTES, TICKET
from afx.compiler.native_backend.program.interface import PARTS, Interface
from afx.compiler.native_backend.run.job import NumpyPlan, Run
from afx.compiler.native_backend.service.helper import log
from afx.compiler.native_backend.service.link import Kernel
from afx.compiler.numpy_backend.exec import Executable, NumpyBackend, bound_bytes
from afx.compiler.schedule.buffers import ALIGNMENT
from afx.compiler.schedule.schedule import Alloc, Buffer, Free, Instruction, Schedule, View
from afx.compiler.target import Target, current
from afx.core import Aval, DType, Shape
from afx.core.tracing.tracer import NUMPY_ERRORS, stack_level
from afx.runtime.buffer_cache import IdleBuffers, OutputPool, donated_or_empty, pooled_bytes, to_dense
from afx.runtime.control_register import keeps_underflow, run_flushing
from afx.runtime.thread_pool import Autotuner, Worker, find_workers, get_threads, single_threaded

# --- Shares: threads that run a kernel together, each some parts of its large loop nests
#
# The threads of this process's one crew help whoever calls first; who calls meanwhile runs alone. A helper that is
# done goes on watching in machine code for the next call, for about as long as it would take to wake it up.


def shared_call(kernel: Kernel, target: Target) -> SharedKernel | Callable[..., int]:
    """Return a function that calls a kernel, on several threads where they share parts of it."""
    return SharedKernel(kernel.call, target) if kernel.interface.is_shared else kernel.call


def _flushing(call: SharedKernel | Callable[..., int]) -> tuple[Callable[..., int], tuple[None, ...]]:
    """Return a function that calls a kernel so that it computes without denormals, and its last arguments."""
    return (call.flush, ()) if isinstance(call, SharedKernel) else (call, (None,))


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
        return self._run(args)

    def flush(self, *args: Any) -> int:
        """Do so without denormals: the kernel sets the register, for the threads that help as well."""
        return self._run(args, (None,))

    def _run(self, args: tuple[Any, ...], more: tuple[None, ...] = ()) -> int:
        tuner = self._tuner
        if tuner is None or single_threaded.depth:
            return self._call(*args, *more)
        policy = tuner.pick()
        start = time.perf_counter()
        errors, jobs = _run_share(self._call, args, 1 if policy else get_threads(), more)
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
    return _run_share(call, args, 1 if single_threaded.depth else threads)[0]


def _run_share(
    call: Callable[..., int], args: tuple[Any, ...], threads: int, more: tuple[None, ...] = ()
) -> tuple[int, int]:
    """Call a kernel, with the crew's help where it is free; return the errors seen, and how many jobs there were."""
    crew = _crew[0]
    if threads < 2 or not crew.lock.acquire(blocking=False):
        return _counted(call, args, more)
    try:
        crew.summon(call, threads)
        return _counted(call, (*args[:-1], crew.team), more)
    finally:
        crew.lock.release()


def _counted(call: Callable[..., int], args: tuple[Any, ...], more: tuple[None, ...]) -> tuple[int, int]:
    team = args[-1]
    before = int(team[TICKET // 8])
    errors = call(*args, *more)
    return errors, (int(team[TICKET // 8]) - before) // JOB


class _Crew:
    """The threads that help, with the memory that they watch; one call at a time has the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.team: Any = _team(2)
        self._numbers = [np.array([k]) for k in range(1, PARTS)]
        self._is_closed = False
        self._summons = 0

    def summon(self, call: Callable[..., int], threads: int) -> None:
        """Have workers help who are not watching, by way of a kernel that is about to be called."""
        workers: Sequence[Worker] = () if self._is_closed else find_workers(min(threads, PARTS) - 1)
        self._summons += 1
        for number, worker in zip(self._numbers, workers, strict=False):
            if worker.leave is None:
                worker.leave = self._dismiss
                worker.inbox.put(partial(self._help, call, number, worker))
        self.team[DISMISSED // 8] = 0

    def _help(self, call: Callable[..., int], number: Any, worker: Worker) -> None:
        """Help the team; called by a worker.

        A worker that no longer watches needs Python's lock to say so, and may get it from the next call alone, which
        still counted on it: it goes back then.
        """
        try:
            summons = -1
            while summons != self._summons and not self._is_closed:
                summons, worker.leave = self._summons, self._dismiss
                call(self.team, number)
                worker.leave = None
        finally:
            worker.leave = None

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


_crew = [_Crew()]


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    _crew[0] = _Crew()


@atexit.register
def _close() -> None:
    _crew[0].close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# --- Runs of kernels: whole plans, and pieces between NumPy's calls; the caller's ``np.errstate`` hears of their
# errors

R = TypeVar("R")

ERRORS = {0: "divide by zero", 1: "overflow", 3: "invalid value"}  # by their places in what `numpy.geterr` gives


def _nothing() -> None:
    """Return no memory for a result, as it is an argument's."""


def _memory_of(kernel: Kernel) -> tuple[Any, ...]:
    """Return the last arguments of a kernel, one call's at a time: its arena, and a team's memory."""
    return (_aligned(kernel.interface.arena), *team_memory(kernel))


def _warner(target: Target) -> Callable[[], None]:
    """Return a function that counts calls with floating-point errors, which run twice: the logger hears of it once."""
    calls = itertools.count(1)

    def count() -> None:
        if next(calls) == target.native.refused_max_calls:
            log(
                "calls with floating-point errors run twice: machine code, and NumPy's plan, which warns", is_asked=True
            )

    return count


class Warnings:
    """What becomes of floating-point errors that machine code meets and `numpy.errstate` does not ignore.

    Its results stand in calls with errors too: NumPy's plan runs for its warnings alone, which Python shows once a line.
    So it does in a few calls, behind which machine code warns itself.

    Attributes:
        heard: errors of a plan's kernels that NumPy's plan is to tell at its end; None where it then runs instead.
    """

    def __init__(self, target: Target) -> None:
        self.heard: threading.local | None = threading.local() if target.tier > 1 else None
        self._left = target.native.refused_max_calls - 1

    def warn(self, errors: int) -> bool:
        """Warn of a call's errors where NumPy's plan has often enough; tell whether that is all there is to do.

        Where a warning is an exception, NumPy's plan raises it, at its line.
        """
        if modes_of(errors) - {"ignore", "warn"}:
            return False
        self._left -= 1
        if self._left >= 0:
            return False
        try:
            tell(errors, "as in some before, whose warnings name the lines")
        except RuntimeWarning:
            return False
        return True

    def note(self, errors: int) -> None:
        """Warn of the errors of one of a plan's kernels, or keep them for its end.

        Raises:
            LeaveError: NumPy's plan shall run.
        """
        if not are_heard(errors) or getattr(self.heard, "errors", False) or self.warn(errors):
            return
        if self.heard is None:
            raise LeaveError
        self.heard.errors = errors


class Runner:
    """Calls a kernel: makes the arrays of the results, looks at errors."""

    def __init__(
        self, schedule: Schedule, target: Target, kernel: Kernel, constants: tuple[Any, ...], plan: IdleBuffers
    ) -> None:
        face = kernel.interface
        self.kernel = kernel
        self.call: SharedKernel | Callable[..., int] = shared_call(kernel, target)
        self.constants = constants
        self.outputs: list[tuple[Shape, DType]] = [
            (p.shape, np.dtype(p.dtype)) for p in face.params[len(schedule.inputs) : len(face.params) - len(constants)]
        ]
        self.target = target
        self.count_warning: Callable[[], None] = _warner(target)
        self.warnings: Warnings = Warnings(target)
        self.keeps_bits: bool = target.tier > 1  # which are not those of NumPy's plan
        count = len(schedule.inputs)
        self.donated: list[tuple[int, int]] = [(result - count, k) for result, k in face.donated]
        self.pools: list[bool] = [nbytes >= target.pool_min_bytes for nbytes in map(_nbytes, self.outputs)]
        pooled = [n for n, is_pooled in zip(map(_nbytes, self.outputs), self.pools, strict=True) if is_pooled]
        set_bytes = face.arena + target.pool_max_arrays * sum(pooled)
        self.idle: IdleBuffers = IdleBuffers(set_bytes, target.bindings_max_sets, plan=plan)
        self.scalars: list[int] = [k for k, p in enumerate(face.params) if p.checked and not p.shape]

    def bind(self) -> Run:
        """Return the function that calls the kernel; it gives None where NumPy's plan shall run."""
        call, outputs, constants, scalars, donated = self.call, self.outputs, self.constants, self.scalars, self.donated
        flushed, more = _flushing(call)
        idle, free, empty, ndarray = self.idle, self.idle.recent, np.empty, np.ndarray
        has_pools, max_free = any(self.pools), idle.max_sets
        taken = {out for out, _ in donated}
        shapes = [0 if k in taken else shape for k, (shape, _) in enumerate(outputs)]
        dtypes = [dtype for _, dtype in outputs]

        def run(values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
            try:
                space = free.pop()
            except IndexError:
                space = idle.take_older() or self._space()
            memory, pools = space
            # no comprehension, which is a call
            outs = list(map(operator.call, pools) if has_pools else map(empty, shapes, dtypes))
            for out, k in donated:
                outs[out] = donated_or_empty(values[k])
            if scalars:  # NumPy's scalars and Python's numbers
                values = list(values)
                for k in scalars:
                    if values[k].__class__ is not ndarray:
                        values[k] = np.asarray(values[k])
            try:
                if plan.flushes and not keeps_underflow():
                    errors = flushed(*values, *outs, *constants, *memory, *more)
                else:
                    errors = call(*values, *outs, *constants, *memory)
            finally:
                if len(free) < max_free:
                    free.append(space)
            if errors:
                is_given = any(outs[out] is values[k] for out, k in donated)
                return self._checked(errors, values, outs, plan, is_given)
            return outs

        return run

    def _checked(
        self, errors: int, values: Sequence[Any], outs: list[Any], plan: NumpyPlan, is_given: bool
    ) -> list[Any] | None:
        """Return results with which there is something the matter; ``is_given`` tells whether an argument is overwritten."""
        if errors and (errors < 0 or are_heard(errors)):
            if errors < 0:
                return None
            if is_given:
                tell(errors, "that donates its arguments")
            elif not self.warnings.warn(errors):
                if not self.keeps_bits:
                    return None
                self.count_warning()
                plan.run_numpy(*values)  # which warns, or raises, at the user's line; results stay those of the kernel
        return outs

    def _space(self) -> tuple[tuple[Any, ...], list[Callable[[], Any]]]:
        """Return memory of one call at a time: a kernel's last arguments, and where arrays of results come from."""
        pools: list[Callable[[], Any]] = [
            OutputPool(Aval(shape, dtype), self.target.pool_max_arrays) if pooled else partial(np.empty, shape, dtype)
            for (shape, dtype), pooled in zip(self.outputs, self.pools, strict=True)
        ]
        for out, _ in self.donated:
            pools[out] = _nothing  # which hands its memory on, as long as no pool remembers it
        return _memory_of(self.kernel), pools


def _nbytes(output: tuple[Shape, DType]) -> int:
    return Aval(*output).nbytes


class LeaveError(Exception):
    """A kernel cannot go on: NumPy's plan shall run."""


class MixedRunner:
    """Calls a plan of NumPy's calls with kernels between them."""

    def __init__(
        self,
        schedule: Schedule,
        target: Target,
        kernels: Sequence[Kernel],
        constants: Sequence[tuple[Any, ...]],
        plan: IdleBuffers,
        flushes: bool,
    ) -> None:
        self._count_warning = _warner(target)
        self.warnings: Warnings = Warnings(target)
        self._kernels_flush = flushes and all(map(_is_kernel_or_look, schedule.instructions))
        binds = [
            partial(_bound, kernel, own, target, self.warnings, self._kernels_flush)
            for kernel, own in zip(kernels, constants, strict=True)
        ]
        self.executable: Executable = NumpyBackend.compile(schedule, target, binds)
        pooled = pooled_bytes([r.operand.aval for r in schedule.results if isinstance(r.operand, Buffer)], target)
        arenas = sum([kernel.interface.arena for kernel in kernels])
        self.idle: IdleBuffers = IdleBuffers(
            bound_bytes(schedule) + arenas + pooled, target.bindings_max_sets, plan=plan
        )

    def __call__(self, values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        """Return the results, or None where NumPy's plan shall run: a call failed, or kernels flush what shall underflow.

        Errors that kernels have met in this thread are told when all have run, so that results stay those of the kernels.
        """
        idle, kernels_flush, values = self.idle, self._kernels_flush, to_dense(tuple(values))
        met = self.warnings.heard
        if kernels_flush and keeps_underflow():
            return None
        try:
            run = idle.recent.pop()
        except IndexError:
            run = idle.take_older() or self.executable.bind()
        try:
            is_plain = kernels_flush or not plan.flushes or keeps_underflow()
            results: list[Any] = run(*values) if is_plain else run_flushing(lambda: run(*values))
            if met is not None and getattr(met, "errors", False):
                self._count_warning()
                plan.run_numpy(*values)  # which warns, or raises, at the user's line
            return results
        except (LeaveError, *NUMPY_ERRORS):
            return None
        finally:
            if met is not None:
                met.__dict__.pop("errors", None)
            if len(idle.recent) < idle.max_sets:
                idle.recent.append(run)


def _is_kernel_or_look(instruction: Instruction) -> bool:
    return instruction.is_kernel or isinstance(instruction, View | Alloc | Free)


def _bound(
    kernel: Kernel, constants: tuple[Any, ...], target: Target, told: Warnings, flushes: bool
) -> Callable[..., None]:
    """Return a kernel with memory of its own, which raises `LeaveError` where NumPy's plan shall run."""
    face = kernel.interface
    keeping = shared_call(kernel, target)
    call, more = _flushing(keeping) if flushes else (keeping, ())
    rest = (*constants, *_memory_of(kernel), *more)
    inputs = sum([param.checked for param in face.params])
    copied = _copied_params(face)

    def run(*arrays: Any) -> None:
        errors = call(*arrays, *rest)
        if errors < 0:
            given = arrays[:inputs]
            if told.heard is not None:  # bits of its own: of anything a copy
                given = tuple([np.array(a, order="C") for a in given])
            else:
                given = tuple([_dense(a, k in copied) for k, a in enumerate(given)])
            errors = call(*given, *arrays[inputs:], *rest)
        if errors < 0:
            raise LeaveError
        if errors:
            told.note(errors)

    return run


def _dense(x: Any, is_copied: bool) -> Any:
    """Return an operand as a kernel takes it: scalars as arrays, arrays whose strides do not matter as dense copies."""
    if np.ndim(x) == 0:
        return np.array(x)
    return np.ascontiguousarray(x) if is_copied and _keeps_order(x) else x


def _keeps_order(x: Any) -> bool:
    """Tell whether NumPy lays out results of an array as those of its dense copy: in row-major order."""
    steps = [s for s, n in zip(x.strides, x.shape, strict=True) if n > 1 and s]
    return x.ndim == 1 or (steps == sorted(steps, reverse=True) and min(steps, default=1) > 0)


def _copied_params(face: Interface) -> set[int]:
    """Return the parameters of which a dense copy gives the same bits.

    Emitted operations alone read them: loops of NumPy may have other bits for other strides.
    """
    copied = {k for k, param in enumerate(face.params) if param.checked and param.shape}
    return copied - face.called_params


def _aligned(nbytes: int) -> Any:
    """Return memory that begins at a line of the cache."""
    memory = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + nbytes]


# -- floating-point errors --
def modes_of(errors: int) -> set[Any]:
    """Return what the caller's ``np.errstate`` does with these errors: "ignore", "warn", "raise" and so on."""
    return {mode for k, mode in enumerate(np.geterr().values()) if k in ERRORS and errors >> k & 1}


def are_heard(errors: int) -> bool:
    """Tell whether the caller's ``np.errstate`` ignores not all of these errors."""
    return bool(modes_of(errors) - {"ignore"})


def tell(errors: int, why: str) -> None:
    """Do what the caller's ``np.errstate`` says, for a call that does not run again to find the line.

    Raises:
        FloatingPointError: the caller wants these errors raised.
    """
    modes: list[Any] = [*np.geterr().values()]
    for k, error in ERRORS.items():
        if errors >> k & 1:
            _tell(modes[k], 1 << k, error, f"{error} encountered in a compiled call {why}")


def _tell(mode: str, flag: int, error: str, message: str) -> None:
    handler: Any = np.geterrcall()
    if mode == "raise":
        raise FloatingPointError(message)
    if mode == "warn":
        warnings.warn(message, RuntimeWarning, stacklevel=stack_level())
    elif mode == "print":
        sys.stderr.write(f"Warning: {message}\n")
    elif mode == "call":
        handler(error, flag)
    elif mode == "log":
        handler.write(f"Warning: {message}\n")
