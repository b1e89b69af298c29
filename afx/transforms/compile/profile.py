"""Profiles: where the time of a function goes, by the lines of the user's code."""

from __future__ import annotations

import linecache
import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from afx import pytree
from afx.compiler.executable import Plan
from afx.compiler.native_backend.run.swap import is_installed
from afx.compiler.report import short_place, table
from afx.compiler.schedule.cost import EquationCost, equation_costs, equations_of, find_denormals, time_instructions
from afx.compiler.schedule.schedule import Schedule
from afx.core import argument_of
from afx.core.graph import Equation
from afx.errors import ArgumentError
from afx.runtime.control_register import run_flushing, run_in_mode
from afx.transforms._arguments import name_of
from afx.transforms.compile.compiled_call import Backend
from afx.transforms.compile.jit import jit

SLOW = 'they take many processors a hundred times as long; jit(fn, denormals="flush") takes them as zeros'


@attrs.frozen
class LineTime:
    """The time of one line of the user's code.

    Attributes:
        place: ``file.py:12`` with its folders; empty for what no line is known of.
        text: the line, where its file can be read.
        seconds: of a call of NumPy's plan. Time that several lines share, as in a fused loop or in the steps of a scan,
            is divided by `EquationCost.weight`.
        native_seconds: of a call of machine code, all of it divided so; nan where there is none.
        flops: arithmetic operations.
        nbytes: bytes read and written, were nothing kept in a cache.
        names: the operations, each once.
        meets_denormals: whether an operand is denormal, and is not flushed, as far as the processor tells.
    """

    place: str
    text: str
    seconds: float
    native_seconds: float
    flops: int
    nbytes: int
    names: tuple[str, ...]
    meets_denormals: bool = False


@attrs.frozen
class Profile:
    """Lines, the dearest first; it prints as a table, and `afx.plot.profile` draws it.

    Attributes:
        name: the function.
        seconds: of a call of NumPy's plan, without the time of `jit` around it.
        native_seconds: of a call of machine code; nan where there is none.
        lines: those that take time.
        reason: why there is no machine code, empty where there is.
    """

    name: str
    seconds: float
    native_seconds: float
    lines: tuple[LineTime, ...]
    reason: str = ""

    def __str__(self) -> str:
        native = f"{_micro(self.native_seconds)} µs native" if not self.reason else f"no machine code: {self.reason}"
        rows = [
            (
                _micro(line.seconds),
                f"{line.seconds / self.seconds:.0%}" if self.seconds else "-",
                _micro(line.native_seconds),
                short_place(line.place) or "(no line)",
                line.text[:60] or ", ".join(line.names)[:60],
            )
            for line in self.lines
        ]
        head = ("µs", "", "native", "line", "")
        places = [short_place(line.place) or ", ".join(line.names) for line in self.lines if line.meets_denormals]
        note = f"\ndenormal operands: {', '.join(places)}; {SLOW}" if places else ""
        return f"{self.name}: {_micro(self.seconds)} µs NumPy, {native}\n{table(head, rows, right={0, 1, 2})}{note}"


def profile(fn: Callable[..., Any], *args: Any, seconds: float = 0.2) -> Profile:
    """Measure a function's compiled plans, and return the time of each line of the user's code.

    NumPy's plan runs with a clock between its instructions; of machine code the whole call is timed and divided by cost.

    Args:
        fn: a function of arrays and trees of them, jitted or not; ``afx.grad(loss)`` is profiled like any other.
        *args: its arguments; for static ones pass ``functools.partial``.
        seconds: about how long each of both plans runs.

    Raises:
        ArgumentError: ``fn`` is no function, or ``seconds`` is no time.

    >>> import afx
    >>> def loss(w, x):
    ...     hidden = afx.tanh(x @ w)
    ...     return afx.sum(hidden**2)
    >>> found = afx.debug.profile(afx.grad(loss), afx.ones((8, 4)), afx.ones((16, 8)), seconds=0.0)
    >>> sorted(name for line in found.lines for name in line.names if name in ("matmul", "tanh"))
    ['matmul', 'tanh']
    >>> found.seconds >= max(line.seconds for line in found.lines)
    True
    """
    if not callable(fn):
        raise ArgumentError(f"profile: the first argument is a function: got {fn!r}; write profile(fn, *args)")
    if not 0 <= seconds < math.inf:
        raise ArgumentError(f"profile: seconds is a time: got {seconds}; pass how long to measure, such as 0.2")
    name = f"profile of {name_of(fn)}"
    values = [argument_of(x, name) for x in pytree.flatten(args)[0]]
    plan = _plan(fn, args, "numpy")
    given = (plan.schedule, plan.target, values, seconds)
    times = run_flushing(time_instructions, *given) if plan.flushes else run_in_mode(False, time_instructions, *given)
    denormal_steps = set[int]() if plan.flushes else find_denormals(plan.schedule, plan.target, values)
    slow = {n for k, i in enumerate(plan.schedule) if k in denormal_steps for n in equations_of(i)}
    native, reason = _time_machine_code(fn, args, values, seconds)
    costs = {k: list(equation_costs(eq)) for k, eq in enumerate(plan.graph.equations)}
    spent = _divide(_spread_times(plan.schedule, times), costs)
    sources = {_place(plan.graph.equations[n]) for n in slow}
    lines = tuple([attrs.evolve(x, meets_denormals=x.place in sources) for x in _sum_by_line(spent, native)])
    return Profile(name, float(times.sum()), native, lines, reason)


def _plan(fn: Callable[..., Any], args: Sequence[Any], backend: Backend) -> Plan:
    return jit(fn, backend=backend).lower(*args).plan


def _time_machine_code(
    fn: Callable[..., Any], args: Sequence[Any], values: Sequence[Any], seconds: float
) -> tuple[float, str]:
    """Return the median of calls of machine code, or nan and why there is none."""
    if not is_installed():
        return math.nan, 'the extra "native" is not installed'
    plan = _plan(fn, args, "native")
    plan(*values)
    if plan.status.backend != "native":
        return math.nan, plan.status.reason
    times, end = list[float](), time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        plan(*values)
        times.append(time.perf_counter() - start)
    return float(np.median(times)), ""


def _spread_times(schedule: Schedule, times: npt.NDArray[np.float64]) -> list[tuple[list[int], float]]:
    """Return the time of each instruction beside the equations that it computes; that of memory counts for the next one."""
    shares, waiting = list[tuple[list[int], float]](), 0.0
    for instruction, seconds in zip(schedule, times, strict=True):
        numbers, waiting = equations_of(instruction), waiting + float(seconds)
        if numbers:
            shares.append((numbers, waiting))
            waiting = 0.0
    return shares


def _divide(
    times: Sequence[tuple[Sequence[int], float]], costs: Mapping[int, list[EquationCost]]
) -> list[tuple[EquationCost, float]]:
    """Return what each equation does with its share of the time of the instruction that computes it."""
    divided = list[tuple[EquationCost, float]]()
    for numbers, seconds in times:
        own = [cost for number in numbers for cost in costs[number]]
        whole = sum([cost.weight for cost in own])
        divided += [(cost, seconds * cost.weight / whole) for cost in own]
    return divided


def _sum_by_line(spent: Sequence[tuple[EquationCost, float]], native: float) -> tuple[LineTime, ...]:
    """Return the lines that equations come from, the dearest first."""
    groups = defaultdict[str, list[tuple[EquationCost, float]]](list)
    for cost, seconds in spent:
        groups[_place(cost.equation)].append((cost, seconds))
    whole = sum([cost.weight for cost, _ in spent])
    lines = [
        LineTime(
            place,
            _read_line(place),
            sum([seconds for _, seconds in own]),
            native * sum([cost.weight for cost, _ in own]) / whole,
            sum([cost.flops for cost, _ in own]),
            sum([cost.nbytes for cost, _ in own]),
            tuple(dict.fromkeys([cost.equation.primitive.name for cost, _ in own])),
        )
        for place, own in groups.items()
    ]
    return tuple(sorted(lines, key=lambda line: -line.seconds))


def _place(eq: Equation) -> str:
    return "" if eq.source is None else str(eq.source)


def _read_line(place: str) -> str:
    file, _, number = place.rpartition(":")
    return linecache.getline(file, int(number)).strip() if file else ""


def _micro(seconds: float) -> str:
    return "-" if math.isnan(seconds) else f"{seconds * 1e6:,.1f}"
