"""Program: a schedule as Python, in functions that run one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from afx.compiler.numpy_backend.names import Names
from afx.compiler.schedule import Schedule
from afx.core.named_tuples import maker_of

__all__ = ["Bind", "Clock", "Line", "Part", "Program", "make_line"]

Bind: TypeAlias = "Callable[[], Callable[..., None]]"
"""Binds a kernel to memory of its own; it is called with operands and outputs."""


Clock: TypeAlias = "Callable[[int], None]"
"""Is told the number of each instruction of a schedule as it ends."""


class Line(NamedTuple):
    """A line of Python, or several.

    Attributes:
        text: the line.
        equation: number of the equation that NumPy's warnings in this line are about, -1 for none.
    """

    text: str
    equation: int = -1


make_line: Callable[[tuple[Any, ...]], Line] = maker_of(Line)


class Part(NamedTuple):
    """One function of a program.

    Attributes:
        bound: names that it reads from outside, bound once.
        functions: lines of the functions inside of it.
        arguments: names of values that earlier parts made.
        lines: its body.
        makes: names of values that it makes and does not delete.
    """

    bound: tuple[str, ...]
    functions: tuple[Line, ...]
    arguments: tuple[str, ...]
    lines: tuple[Line, ...]
    makes: tuple[str, ...]


class Program(NamedTuple):
    """A schedule as Python.

    Attributes:
        schedule: the schedule.
        names: what names stand for.
        inputs: names of the arguments.
        parts: the functions, in the order in which they run; the last one gives the results.
        results: the expressions that are returned.
        bodies: schedules of loops and branches by the names of their functions.
        fallbacks: schedules that are compiled when they are first needed, by the names of theirs.
    """

    schedule: Schedule
    names: Names
    inputs: tuple[str, ...]
    parts: tuple[Part, ...]
    results: tuple[str, ...]
    bodies: dict[str, Schedule]
    fallbacks: dict[str, Schedule]
