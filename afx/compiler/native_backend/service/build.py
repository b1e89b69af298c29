"""Building within this process: schedules lowered for callers that wait, and what machine code says of itself."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from afx.compiler.native_backend.llvm.emit import emit_programs
from afx.compiler.native_backend.llvm.writer import Addresses
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.lower import explain_schedule, lower_plan, lower_schedule
from afx.compiler.native_backend.program.steps import Program
from afx.compiler.native_backend.service.child import compile_text
from afx.compiler.native_backend.service.code_cache import Done, get_code, keep_kernels, put_code, remember_code
from afx.compiler.native_backend.service.helper import TOO_LONG, UNKNOWN_HERE, code_folder, warn
from afx.compiler.native_backend.service.link import layout
from afx.compiler.native_backend.service.process import service
from afx.compiler.native_backend.service.unit import lay_out, make_unit
from afx.compiler.numpy_backend.exec import NumpyBackend
from afx.compiler.schedule.schedule import Schedule
from afx.compiler.target import Target


def compile_here(schedule: Schedule, target: Target, where: Addresses, key: str, done: Done) -> None:
    """Lower a schedule within this process; the other one needs nothing but LLVM for the rest."""
    try:
        unit = make_unit(schedule, target, where)
    except Exception as error:
        if not isinstance(error, UnsupportedError):
            warn("plan", f"a program could not be lowered ({type(error).__name__}: {error})")
        done(None, str(error))
        return
    folder, text = code_folder(), unit[2]
    known = get_code(text, target.cpu, folder)
    if known is not None:
        done(lay_out(unit, known), "")
        return

    def compiled(code: bytes | None, reason: str) -> None:
        if code is not None:
            with contextlib.suppress(Exception):  # before the caller goes on: its next function may give the same text
                remember_code(text, target.cpu, code)
        made = None if code is None else lay_out(unit, code)
        done(made, reason)
        if code is not None:
            with contextlib.suppress(Exception):  # the caller, who waits no longer, has it
                put_code(text, target.cpu, folder, code)
                keep_kernels(key, folder, made)

    service.submit((text, target.cpu), compiled, (0, len(schedule)))


def explain(schedule: Schedule, target: Target) -> tuple[tuple[str, str], ...]:
    """Return each instruction with the reason why it has no native form; what refuses the whole stands beside the results."""
    pairs, where = explain_schedule(schedule, target), layout()
    for_all = (
        UNKNOWN_HERE if where is None else TOO_LONG if len(schedule) > target.native.lower_max_instructions else ""
    )
    if where is None or for_all:
        return tuple([(text, reason or for_all) for text, reason in pairs])
    if any(reason for _, reason in pairs):
        return pairs
    try:
        lower_schedule(schedule, target)
        make_unit(schedule, target, where)
    except UnsupportedError as error:
        return (*pairs, (f"return {', '.join(map(str, schedule.results))}", str(error)))
    return pairs


def text_of(schedule: Schedule, target: Target, form: str) -> str:
    """Return ``llvm`` or ``assembly`` of a schedule's machine code, or its ``source``; empty where it has none."""
    where = layout()
    try:
        mixed, pieces = lower_plan(schedule, target)
    except UnsupportedError:
        return ""
    if form == "source":
        return _source(schedule, target, mixed, [program for program, _ in pieces])
    if where is None:
        return ""
    made = emit_programs([program for program, _ in pieces], where, target.native)
    text: str = compile_text(made, target.cpu, form=form)
    return text


def _source(schedule: Schedule, target: Target, mixed: Schedule | None, programs: Sequence[Program]) -> str:
    """Return kernels as pseudo-code, and the calls of NumPy between them."""
    parts = [_describe_reasons(explain_schedule(schedule, target))]
    parts += [program.text(k) for k, program in enumerate(programs)]
    if mixed is not None:
        parts.append(NumpyBackend.compile(mixed, target, [_unbound for _ in programs]).source)
    return "\n\n".join(parts)


def _describe_reasons(reasons: Sequence[tuple[str, str]]) -> str:
    """Return which instructions have a native form, and why the others have none, as comments."""
    without = [(text.split("\n")[0], why) for text, why in reasons if why]
    head = f"# machine code: {len(reasons) - len(without)} of {len(reasons)} instructions have a native form"
    return "\n".join([head, *[f"# NumPy's: {text}  ({why})" for text, why in without]])


def _unbound() -> Callable[..., None]:
    raise AssertionError("a source text is not run")
