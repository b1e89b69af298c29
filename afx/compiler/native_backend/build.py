"""Building of machine code: a schedule lowered, compiled in the child process, linked, and called."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from afx.compiler.native_backend.child import compile_text
from afx.compiler.native_backend.code_cache import get_code, put_code
from afx.compiler.native_backend.failures import warn
from afx.compiler.native_backend.link import layout, link, load_linker
from afx.compiler.native_backend.llvm.emit import emit_programs
from afx.compiler.native_backend.llvm.flags import Layout
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.lower import explain_schedule, lower_plan, lower_schedule
from afx.compiler.native_backend.pieces import Lowered
from afx.compiler.native_backend.process import Job, service
from afx.compiler.native_backend.program import Product, Program
from afx.compiler.native_backend.pseudo_code import describe_program, describe_reasons
from afx.compiler.native_backend.run import MixedRunner, Runner
from afx.compiler.native_backend.swap import NativeCode, NumpyPlan, Run, Trial
from afx.compiler.native_backend.unit import make_unit
from afx.compiler.numpy_backend.exec import NumpyBackend
from afx.compiler.schedule import Schedule
from afx.compiler.target import Target
from afx.core.registry import loaded_modules

__all__ = ["explain", "start", "text_of"]

SCHEDULE_MAX_INSTRUCTIONS = 20_000  # lowering takes seconds for more
IMAGE_COPIES = 2  # of object code: sections in memory, and what the linker knows of them
INSTRUCTION_BYTES = 3000  # of the programs of kernels, by instruction: measured
UNKNOWN_HERE = "this Python or processor is not known to the native back end"
TOO_LONG = "it is too long"
AWAITED_MAX_INSTRUCTIONS = 2000  # lowered within this process, in less time than another one needs to import afx

Made: TypeAlias = "tuple[Schedule | None, tuple[Lowered, ...], bytes]"
"""A schedule that calls kernels, None where one is the whole; their programs; the object code."""

Done: TypeAlias = "Callable[[Made | None, str], None]"


def start(code: NativeCode) -> None:
    """Have the machine code of a plan made; it settles in another thread, or at once where there is none.

    Where the caller waits for it, lowering it here stops nobody.
    """
    where = layout()
    if where is None:
        code.give_up(UNKNOWN_HERE)
        return
    schedule, target = code.schedule, code.target
    if len(schedule) > SCHEDULE_MAX_INSTRUCTIONS:
        code.give_up(TOO_LONG)
        return

    def done(made: Made | None, reason: str) -> None:
        if made is None:
            code.give_up(reason)
            return
        try:
            run = _linked(made, code)
            is_chosen = target.tier > 1 or (made[0] is None and target.backend == "native")
            code.settle("linked", run if is_chosen else Trial(code, run))
        except Exception as error:
            warn("plan", f"machine code cannot be linked ({type(error).__name__}: {error})")
            code.give_up(f"it cannot be linked: {error}")

    if code.is_awaited and len(schedule.instructions) <= AWAITED_MAX_INSTRUCTIONS:
        _start_here(schedule, target, where, done)
    else:
        service.submit(Job((schedule, where, target.cpu, target.tier, service.folder, loaded_modules()), done))


def _start_here(schedule: Schedule, target: Target, where: Layout, done: Done) -> None:
    """Lower a schedule within this process; the other one needs nothing but LLVM for the rest."""
    try:
        mixed, pieces, text = make_unit(schedule, target.tier, where)
    except Exception as error:
        if not isinstance(error, UnsupportedError):
            warn("plan", f"a program could not be lowered ({type(error).__name__}: {error})")
        done(None, str(error))
        return
    known = get_code(text, target.cpu, service.folder)
    if known is not None:
        done((mixed, pieces, known), "")
        return

    def compiled(code: bytes | None, reason: str) -> None:
        if code is not None:
            put_code(text, target.cpu, service.folder, code)
        done(None if code is None else (mixed, pieces, code), reason)

    service.submit(Job((text, target.cpu), compiled))
    with contextlib.suppress(Exception):  # linking meets it again
        load_linker()


def _linked(made: Made, code: NativeCode) -> Run:
    """Return what runs the kernels that were made, with BLAS held to one thread where it is called."""
    mixed, pieces, image = made
    code.idle.fixed_bytes += IMAGE_COPIES * len(image) + INSTRUCTION_BYTES * len(code.schedule)
    kernels = link([program for program, _ in pieces], image)
    if mixed is not None:
        several = MixedRunner(mixed, code.target, kernels, [constants for _, constants in pieces], code.idle)
        code.own_idle = several.idle
        return _held(several, code) if code.policy else several
    ((program, constants),) = pieces
    runner = Runner(code.schedule, code.target, kernels[0], constants, code.idle)
    code.own_idle = runner.idle
    calls_blas = any(isinstance(step, Product) and step.loop is not None for step in program.block.all_steps())
    return _held(runner.bind(), code) if code.policy and calls_blas else runner.bind()


def _held(run: Run, code: NativeCode) -> Run:
    (policy,) = code.policy

    def within(values: Sequence[Any], plan: NumpyPlan) -> list[Any] | None:
        with policy:
            return run(values, plan)

    return within


def explain(schedule: Schedule, target: Target) -> tuple[tuple[str, str], ...]:
    """Return each instruction with the reason why it has no native form; what refuses the whole stands beside the results."""
    pairs, where = explain_schedule(schedule, target.tier), layout()
    for_all = UNKNOWN_HERE if where is None else TOO_LONG if len(schedule) > SCHEDULE_MAX_INSTRUCTIONS else ""
    if where is None or for_all:
        return tuple([(text, reason or for_all) for text, reason in pairs])
    if any(reason for _, reason in pairs):
        return pairs
    try:
        lower_schedule(schedule, target.tier)
        make_unit(schedule, target.tier, where)
    except UnsupportedError as error:
        return (*pairs, (f"return {', '.join(map(str, schedule.results))}", str(error)))
    return pairs


def text_of(schedule: Schedule, target: Target, form: str) -> str:
    """Return ``llvm`` or ``assembly`` of a schedule's machine code, or its ``source``; empty where it has none."""
    where = layout()
    try:
        mixed, pieces = lower_plan(schedule, target.tier)
    except UnsupportedError:
        return ""
    if form == "source":
        return _source(schedule, target, mixed, [program for program, _ in pieces])
    if where is None:
        return ""
    text: str = compile_text(emit_programs([program for program, _ in pieces], where), target.cpu, form=form)
    return text


def _source(schedule: Schedule, target: Target, mixed: Schedule | None, programs: Sequence[Program]) -> str:
    """Return kernels as pseudo-code, and the calls of NumPy between them."""
    parts = [describe_reasons(explain_schedule(schedule, target.tier))]
    parts += [describe_program(program, k) for k, program in enumerate(programs)]
    if mixed is not None:
        parts.append(NumpyBackend.compile(mixed, target, [_unbound for _ in programs]).source)
    return "\n\n".join(parts)


def _unbound() -> Callable[..., None]:
    raise AssertionError("a source text is not run")
