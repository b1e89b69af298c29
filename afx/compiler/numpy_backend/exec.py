"""Execution: Python source becomes functions, and these are bound to sets of buffers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from afx.compiler.numpy_backend.emit import emit, module_globals, relocate
from afx.compiler.numpy_backend.program import (
    Bind,
    Clock,
    Line,
    NumpyProgram,
    ProgramPart,
    head,
    make_line,
    shared_lines,
)
from afx.compiler.schedule.schedule import Fused, Schedule
from afx.compiler.target import Target
from afx.core import Function, SourceLocation, places_of
from afx.runtime.thread_pool import get_threads

Run: TypeAlias = "Callable[..., list[Any]]"


def scratch_bytes(schedule: Schedule) -> int:
    """Return how much memory blocks of fused loops have, for each thread."""
    fused = [i for i in schedule.instructions if isinstance(i, Fused)]
    return sum([f.space.block * math.prod(tail) * t.itemsize for f in fused for t, tail in f.scratch])


def bound_bytes(schedule: Schedule) -> int:
    """Return how much memory `Executable.bind` takes, without that of results; bodies have their own."""
    within = [bound_bytes(inner) for i in schedule.instructions if i.has_schedules for inner in i.schedules]
    return schedule.arena_bytes + get_threads() * scratch_bytes(schedule) + sum(within)


class NumpyBackend:
    """The back end that is always there: each instruction is one or a few calls of NumPy."""

    @staticmethod
    def compile(
        schedule: Schedule, target: Target, kernels: Sequence[Bind] = (), clock: Clock | None = None
    ) -> Executable:
        """Return a schedule as a program that can be bound to buffers; calls of kernels name them by their numbers.

        A clock is called after each instruction of the schedule, not within loops and branches.

        >>> import afx
        >>> from afx.compiler.schedule.lowering import schedule_graph
        >>> schedule = schedule_graph(afx.trace(lambda x: x + 1.0)(afx.ones(2)), Target())
        >>> NumpyBackend.compile(schedule, Target()).bind()(np.ones(2, np.float32))
        [array([2., 2.], dtype=float32)]
        """
        return Executable(emit(schedule, target, kernels, clock), target, kernels)


class Executable:
    """A compiled schedule.

    Attributes:
        program: its Python.
    """

    __slots__ = ("_binds", "_bodies", "_driver", "_target", "program")

    def __init__(self, program: NumpyProgram, target: Target, kernels: Sequence[Bind] = ()) -> None:
        self.program: NumpyProgram = program
        self._target = target
        self._bodies = {name: NumpyBackend.compile(body, target, kernels) for name, body in program.bodies.items()}
        last = len(program.parts) - 1
        texts = [_part_lines(program, k, part, is_last=k == last) for k, part in enumerate(program.parts)]
        locations = places_of(program.schedule.sources)
        self._binds = [_compiled(lines, locations) for lines in texts]
        self._driver = _compiled([Line(_driver_text(program))], ()) if last else None

    def bind(self) -> Run:
        """Return the function that runs on buffers of its own: bare values in, fresh bare values out."""
        program = self.program
        space = dict(program.names.shared)
        for name, body in self._bodies.items():
            space[name] = body.bind()
        for name, schedule in program.fallbacks.items():
            space[name] = _Fallback(schedule, self._target)
        alignment = self._target.arena_alignment_bytes
        block = np.empty(program.schedule.arena_bytes + alignment, np.uint8)
        space["arena"] = (block, -block.ctypes.data % alignment)
        for name, binding in program.names.own.items():
            space[name] = binding.make(space)
        steps = [
            bind(*[space[name] for name in part.bound]) for bind, part in zip(self._binds, program.parts, strict=True)
        ]
        run: Run = steps[0] if self._driver is None else self._driver(*steps)
        return run

    @property
    def source(self) -> str:
        """The program as readable Python: what is made once, then what each call runs, or what of it is left out."""
        lines = list(self._lines())
        return "\n".join([*head(lines), *lines])

    def _lines(self) -> Iterator[str]:
        yield from self._setup()
        yield from ("", self._functions(), "")

    def _setup(self) -> Iterator[str]:
        program = self.program
        yield from shared_lines(program.names)
        if program.schedule.arena_bytes:
            yield f"arena = np.empty({program.schedule.arena_bytes}, np.uint8)"
        for name, binding in program.names.own.items():
            yield f"{name} = {binding.text()}"
        for name, body in self._bodies.items():
            yield f"\ndef {name}(*values):\n    " + "\n".join(body._lines()).replace("\n", "\n    ").rstrip()
            yield "    return run(*values)"
        for name in program.fallbacks:
            yield f"{name} = ...  # the same step by NumPy, made when a number is not finite"

    def _functions(self) -> str:
        program = self.program
        if self._driver is None:
            return _text(_function("run", program.parts[0], program.inputs, _returns(program)))
        last = len(program.parts) - 1
        texts = [
            _text(_function(f"part_{k + 1}", part, part.arguments, _hands_on(program, k, is_last=k == last)))
            for k, part in enumerate(program.parts)
        ]
        return "\n\n".join([*texts, _driver(program)])


def _text(lines: Sequence[Line]) -> str:
    return "\n".join([line.text for line in lines])


class _Fallback:
    """A schedule that is compiled when it is first called."""

    __slots__ = ("_run", "_schedule", "_target")

    def __init__(self, schedule: Schedule, target: Target) -> None:
        self._schedule = schedule
        self._target = target
        self._run: Run | None = None

    def __call__(self, *values: Any) -> list[Any]:
        if self._run is None:
            self._run = NumpyBackend.compile(self._schedule, self._target).bind()
        return self._run(*values)


def _compiled(lines: Sequence[Line], locations: Sequence[SourceLocation | None]) -> Function:
    """Return the function ``bind`` of a text, whose warnings point at the source locations of its equations."""
    code = compile("\n".join([line.text for line in lines]), "<plan>", "exec")
    origins = [locations[line.equation] if line.equation >= 0 and locations else None for line in lines]
    origin = next(filter(None, origins), None)
    space: dict[str, Any] = {}
    if origin is not None:
        code, space = relocate(code, origins), module_globals(origin.file)
    exec(code, space)
    bind: Function = space.pop("bind")  # or the function and its globals would hold each other
    return bind


def _function(name: str, part: ProgramPart, arguments: Sequence[str], returns: str) -> list[Line]:
    head = Line(f"def {name}({', '.join(arguments)}):")
    body = [*part.lines, Line(f"return {returns}")]
    return [*part.functions, head, *[make_line((f"    {text}", number)) for text, number in body]]


def _part_lines(program: NumpyProgram, k: int, part: ProgramPart, is_last: bool) -> list[Line]:
    single = len(program.parts) == 1
    arguments = program.inputs if single else part.arguments
    function = _function("part", part, arguments, _returns(program) if single else _hands_on(program, k, is_last))
    inner = [make_line((f" {line}", number)) for text, number in function for line in text.split("\n")]
    return [Line(f"def bind({', '.join(part.bound)}):"), *inner, Line(" return part")]


def _returns(program: NumpyProgram) -> str:
    return f"[{', '.join(program.results)}]"


def _hands_on(program: NumpyProgram, k: int, is_last: bool) -> str:
    """Return what a part returns: values that later parts read, or the results."""
    if is_last:
        return _returns(program)
    return f"({', '.join(_made_for_later(program)[k])},)" if _made_for_later(program)[k] else "()"


def _made_for_later(program: NumpyProgram) -> list[list[str]]:
    """Return which values each part makes for later ones."""
    wanted: set[str] = set()
    names: list[list[str]] = []
    for part in reversed(program.parts):
        names.append([name for name in part.makes if name in wanted])
        wanted |= set(part.arguments)
    return names[::-1]


def _driver(program: NumpyProgram) -> str:
    """Return the function that runs the parts, and lets go of values after their last use."""
    makes = _made_for_later(program)
    last = {name: k for k, part in enumerate(program.parts) for name in part.arguments}
    lines: list[str] = []
    for k, part in enumerate(program.parts[:-1]):
        targets = f"{', '.join(makes[k])}, = " if makes[k] else ""
        lines.append(f"{targets}part_{k + 1}({', '.join(part.arguments)})")
        gone = [name for name in part.arguments if last[name] == k]
        if gone:
            lines.append(f"del {', '.join(gone)}")
    end = len(program.parts)
    lines.append(f"return part_{end}({', '.join(program.parts[-1].arguments)})")
    body = "\n    ".join(lines)
    return f"def run({', '.join(program.inputs)}):\n    {body}"


def _driver_text(program: NumpyProgram) -> str:
    parts = ", ".join([f"part_{k + 1}" for k in range(len(program.parts))])
    return f"def bind({parts}):\n " + _driver(program).replace("\n", "\n ") + "\n return run"
