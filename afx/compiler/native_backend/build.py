"""Building of machine code: a schedule lowered, compiled in the child process, linked, and called."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.native_backend.child import compile_text
from afx.compiler.native_backend.convert import UnsupportedError
from afx.compiler.native_backend.emit import emit_program
from afx.compiler.native_backend.link import Kernel, layout, link
from afx.compiler.native_backend.lower import explain_schedule, lower_schedule
from afx.compiler.native_backend.process import Job, Made, service, warn
from afx.compiler.native_backend.program import Product, Program
from afx.compiler.native_backend.swap import NativeCode, NumpyPlan, Run, Trial, run_numpy
from afx.compiler.schedule import Schedule
from afx.compiler.target import Target
from afx.core.aval import Aval
from afx.runtime.output_pool import OutputPool

__all__ = ["Runner", "explain_schedule", "start", "text_of"]

SCHEDULE_MAX_INSTRUCTIONS = 1500  # LLVM takes seconds for more
CHUNK_SECONDS = 0.02  # of a loop, between which Python looks for Ctrl-C
FIRST_CHUNK_STEPS = 1 << 8
ERRORS = ((1, "divide"), (2, "over"), (8, "invalid"))
NAME = "kernel"


def start(code: NativeCode) -> None:
    """Have the machine code of a plan made; it settles in another thread, or at once where there is none."""
    where = layout()
    if where is None:
        code.settle("this Python or processor is not known to the native back end", run_numpy)
        return
    if len(code.schedule.instructions) > SCHEDULE_MAX_INSTRUCTIONS:
        code.settle("it is too long", run_numpy)
        return

    def done(made: Made | None, reason: str) -> None:
        if made is None:
            code.settle(reason, run_numpy)
            return
        try:
            program, constants, image = made
            run = _held(Runner(code.schedule, code.target, link(program, NAME, image), constants), program, code)
            code.settle("linked", run if code.target.backend == "native" else Trial(code, run))
        except Exception as error:
            warn(f"machine code cannot be linked ({error})")
            code.settle(str(error), run_numpy)

    service.submit(Job(code.schedule, NAME, done), where, code.target.cpu)


def _held(run: Run, program: Program, code: NativeCode) -> Run:
    """Return what runs a kernel with BLAS held to one thread, where it calls BLAS."""
    if not code.policy or not any(isinstance(step, Product) for step in program.block.all_steps()):
        return run
    (policy,) = code.policy

    def within(values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        with policy:
            return run(values, plan)

    return within


def text_of(schedule: Schedule, target: Target, form: str) -> str:
    """Return ``llvm`` or ``assembly`` of a schedule's machine code; empty where it has none."""
    where = layout()
    try:
        program = lower_schedule(schedule)[0]
    except UnsupportedError:
        return ""
    text: str = compile_text(emit_program(program, NAME, where), target.cpu, form=form) if where is not None else ""
    return text


@attrs.define(eq=False)
class _Space:
    """Memory of one call at a time."""

    arena: Any
    state: Any
    pools: list[OutputPool | None]


class Runner:
    """Calls a kernel: makes the arrays of the results, walks through loops in chunks, looks at errors."""

    def __init__(self, schedule: Schedule, target: Target, kernel: Kernel, constants: tuple[Any, ...]) -> None:
        program = kernel.program
        self.kernel = kernel
        self.call = kernel.call
        self.constants = constants
        self.outputs = [
            (p.shape, np.dtype(p.dtype))
            for p in program.params[len(schedule.inputs) : len(program.params) - len(constants)]
        ]
        self.target = target
        self.arena_bytes = program.block.arena
        self.is_loop = program.is_loop
        self.chunk = FIRST_CHUNK_STEPS
        self.pools = [
            Aval(shape, dtype).nbytes >= target.pool_min_bytes and not self.is_loop for shape, dtype in self.outputs
        ]
        self.free: list[_Space] = []

    def __call__(self, values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        """Return the results, or None where NumPy's plan shall run."""
        try:
            space = self.free.pop()
        except IndexError:
            space = self._space()
        outs = [
            np.empty(shape, dtype) if pool is None else pool()
            for (shape, dtype), pool in zip(self.outputs, space.pools, strict=True)
        ]
        try:
            errors = self._errors(values, outs, space)
        finally:
            if len(self.free) < self.target.bindings_max_sets:
                self.free.append(space)
        if errors and (errors < 0 or _are_heard(errors)):
            return None
        return outs

    def _errors(self, values: Sequence[Any], outs: list[Any], space: _Space) -> int:
        """Call the kernel; return the errors that it saw, -1 where it refuses."""
        if self.is_loop:
            return self._walk(values, outs, space)
        return self.call(*values, *outs, *self.constants, space.arena)

    def _walk(self, values: Sequence[Any], outs: list[Any], space: _Space) -> int:
        """Run a loop chunk by chunk, each about as long as Python may be kept from a signal."""
        state, errors, chunk = space.state, 0, self.chunk
        state[0] = 0
        while True:
            state[1] = state[0] + chunk
            start = time.perf_counter()
            found = self.call(*values, *outs, *self.constants, space.arena, state)
            seconds = time.perf_counter() - start
            if found < 0:
                return found
            errors |= found
            reached = int(state[2])
            if reached < int(state[1]):  # the end of the loop, or -1: its condition ended it
                return errors
            state[0] = reached
            wanted = chunk * CHUNK_SECONDS / max(seconds, 1e-9)
            chunk = self.chunk = max(1, int(min(wanted, 4 * chunk)))

    def _space(self) -> _Space:
        memory = np.empty(self.arena_bytes + 64, np.uint8)
        start = -memory.ctypes.data % 64
        pools = [
            OutputPool(Aval(shape, dtype), self.target.pool_max_arrays) if pooled else None
            for (shape, dtype), pooled in zip(self.outputs, self.pools, strict=True)
        ]
        return _Space(memory[start : start + self.arena_bytes], np.zeros(3, np.int64), pools)


def _are_heard(errors: int) -> bool:
    """Tell whether the caller's ``np.errstate`` ignores not all of these errors."""
    state: dict[str, str] = dict(np.geterr())  # type: ignore[arg-type]  # a TypedDict
    return any(errors & flag and state[kind] != "ignore" for flag, kind in ERRORS)
