"""Looks: running loops let Python see signals and other threads, as LLVM IR.

Each loop that may take long adds about how long its last steps took, by the cost of its body, to the time since the clock
was read. Where that is some tenths of a millisecond, the clock is read; where that tells some milliseconds, a function of
Python is called, in whose beginning Python runs signal handlers and hands its lock to others. Where a handler raises, all
loops end, and the kernel hands the exception on. Threads that help look at the team's word alone.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

from afx.compiler.native_backend.llvm.flags import Flags
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.target import NativeTarget

__all__ = [
    "IS_FIRST", "STATE_WORDS", "STOPPED", "TEAM", "THREAD", "Leave", "Looks", "leave_at", "leave_long", "looking_axis",
    "steps_between",
]  # fmt: skip

# words of the state of a call, of which the first one holds faults: its sign tells that a handler raised
TEAM, THREAD, IS_FIRST, SPENT, LIMIT, CLOCK, LOOKED = 8, 16, 24, 32, 40, 48, 56
STATE_WORDS = 8
STOPPED = 272  # in a team's memory: whether all of its threads shall end
RAISED = -(1 << 63)

Leave = Callable[[str, str, str], None]
"""Adds the end of a step: of its number, where to go when the loop ends early, and where else."""


def steps_between(nanoseconds: float, limits: NativeTarget) -> int:
    """Return how many steps of a loop are counted together, a power of two.

    >>> [steps_between(ns, NativeTarget()) for ns in (30_000.0, 100.0)]
    [1, 256]
    """
    return 1 << max(0, math.ceil(math.log2(limits.look_count_nanoseconds / max(nanoseconds, 1e-3))))


def leave_at(w: Writer, nanoseconds: float, unit: int = 1) -> Leave:
    """Return what ends a step that takes so long, of a loop whose number grows by ``unit``, a power of two."""
    return partial(_end_step, w, nanoseconds, unit)


def leave_long(w: Writer, length: int, nanoseconds: float, unit: int = 1) -> Leave | None:
    """Return the same for a loop of so many steps, None where that is short."""
    return leave_at(w, nanoseconds, unit) if length * nanoseconds >= w.limits.look_min_nanoseconds else None


def looking_axis(lengths: Sequence[int], nanoseconds: float, limits: NativeTarget) -> int:
    """Return which of nested loops looks: the innermost one that is long enough; -1 where none has to.

    >>> [looking_axis(n, 10.0, NativeTarget()) for n in ([1000, 3, 8], [8, 3, 10_000], [10, 10])]
    [0, 2, -1]
    """
    if math.prod(lengths) * nanoseconds < limits.look_min_nanoseconds:
        return -1
    for axis in reversed(range(len(lengths))):
        if lengths[axis] > 1 and steps_between(nanoseconds, limits) <= lengths[axis]:
            return axis
        nanoseconds *= lengths[axis]
    return -1


def _end_step(w: Writer, nanoseconds: float, unit: int, number: str, stop: str, go: str) -> None:
    if not w.has_python:
        w.line(f"br label %{go}")
        return
    w.looks = True
    steps = steps_between(nanoseconds, w.limits)
    if steps > 1:
        k, mask, last = w.fresh(), steps * unit - 1, (steps - 1) * unit
        is_due = w.let(f"icmp eq i64 {w.let(f'and i64 {number}, {mask}')}, {last}")
        w.line(f"br i1 {is_due}, label %look{k}, label %{go}")
        w.label(f"look{k}")
    raised = w.let(f"call i1 @look(ptr %fault, i64 {math.ceil(steps * nanoseconds)})")
    w.line(f"br i1 {raised}, label %{stop}, label %{go}")


class Looks:
    """Emitter of the functions that looks call, and of the state of a call."""

    def __init__(self, w: Writer, flags: Flags) -> None:
        self.w = w
        self.flags = flags

    def begin(self, state: str) -> None:
        """Set up the state of a call."""
        first = self.w.limits.look_first_nanoseconds
        for offset, value in ((IS_FIRST, 1), (SPENT, 0), (LIMIT, first), (CLOCK, 0), (LOOKED, 0), (THREAD, 0)):
            self._store(state, offset, str(value))

    def define(self) -> None:
        """Add the functions."""
        self.w.define("look", "internal i1 @look(ptr %fault, i64 %ns)", self._count)
        self.w.define("late", "internal i1 @look.late(ptr %fault) noinline cold", self._late)

    def _count(self) -> None:
        w = self.w
        spent = w.let(f"add i64 {self._load('%fault', SPENT)}, %ns")
        self._store("%fault", SPENT, spent)
        is_early = w.let(f"icmp slt i64 {spent}, {self._load('%fault', LIMIT)}")
        w.leave(is_early, "ret i1 false")
        w.line(f"ret i1 {w.let('call i1 @look.late(ptr %fault)')}")

    def _late(self) -> None:
        """Read the clock, and call Python where the last look was long ago."""
        w = self.w
        self._store("%fault", SPENT, "0")
        has_raised = w.let(f"icmp slt i64 {w.let('load i64, ptr %fault')}, 0")
        w.leave(has_raised, "ret i1 true")
        is_first = w.let(f"icmp ne i64 {self._load('%fault', IS_FIRST)}, 0")
        w.line(f"br i1 {is_first}, label %first, label %helper")
        w.label("helper")
        self._ask_team()
        w.label("first")
        now = self._read_clock()
        before = self._load("%fault", CLOCK)
        self._store("%fault", CLOCK, now)
        is_new, looked = w.let(f"icmp eq i64 {before}, 0"), w.shifted("%fault", LOOKED)
        w.leave(is_new, f"store i64 {now}, ptr {looked}", "ret i1 false")
        self._adapt(w.let(f"sub i64 {now}, {before}"))
        since = w.let(f"sub i64 {now}, {self._load('%fault', LOOKED)}")
        w.leave(w.let(f"icmp slt i64 {since}, {w.limits.look_every_nanoseconds}"), "ret i1 false")
        self._call_python()

    def _ask_team(self) -> None:
        """End where the first thread's handler raised."""
        w = self.w
        team = w.let(f"load ptr, ptr {w.shifted('%fault', TEAM)}")
        word = w.let(f"load atomic i64, ptr {w.shifted(team, STOPPED)} monotonic, align 8")
        is_over = w.let(f"icmp ne i64 {word}, 0")
        w.when(is_over, lambda: self._store("%fault", 0, str(RAISED)))
        w.line(f"ret i1 {is_over}")

    def _read_clock(self) -> str:
        w = self.w
        w.declare("clock_gettime", "declare i32 @clock_gettime(i32, ptr)")
        location = w.local("[2 x i64]", 8)
        w.line(f"%v{w.fresh()} = call i32 @clock_gettime(i32 {time.CLOCK_MONOTONIC}, ptr {location})")
        seconds = w.let(f"mul i64 {self._load(location, 0)}, 1000000000")
        return w.let(f"add i64 {seconds}, {self._load(location, 8)}")

    def _adapt(self, passed: str) -> None:
        """Change the limit, where the clock was read too soon or too late."""
        w, limits = self.w, self.w.limits
        limit = self._load("%fault", LIMIT)
        doubled, half = w.let(f"shl i64 {limit}, 1"), w.let(f"lshr i64 {limit}, 1")
        is_early = w.let(f"icmp slt i64 {passed}, {limits.look_read_min_nanoseconds}")
        is_late = w.let(f"icmp sgt i64 {passed}, {limits.look_read_max_nanoseconds}")
        new = w.let(
            f"select i1 {is_early}, i64 {doubled}, i64 {w.let(f'select i1 {is_late}, i64 {half}, i64 {limit}')}"
        )
        for comparison, bound in (("sgt", limits.look_max_nanoseconds), ("slt", limits.look_least_nanoseconds)):
            new = w.let(f"select i1 {w.let(f'icmp {comparison} i64 {new}, {bound}')}, i64 {bound}, i64 {new}")
        self._store("%fault", LIMIT, new)

    def _call_python(self) -> None:
        """Call Python's function with its lock, and end where that raised; what it computes leaves no flags."""
        w = self.w
        w.declare("save", "declare ptr @PyEval_SaveThread()")
        w.declare("restore", "declare void @PyEval_RestoreThread(ptr)")
        w.declare("call", "declare ptr @PyObject_CallNoArgs(ptr)")
        w.declare("decref", "declare void @Py_DecRef(ptr)")
        w.declare("python.look", "@python.look = external global i8")
        thread = w.let(f"load ptr, ptr {w.shifted('%fault', THREAD)}")
        is_away = w.let(f"icmp ne ptr {thread}, null")
        w.when(is_away, lambda: w.line(f"call void @PyEval_RestoreThread(ptr {thread})"))
        result = self.flags.keep_around(lambda: w.let("call ptr @PyObject_CallNoArgs(ptr @python.look)"))
        has_raised = w.let(f"icmp eq ptr {result}, null")
        w.when(w.let(f"xor i1 {has_raised}, true"), lambda: w.line(f"call void @Py_DecRef(ptr {result})"))

        def leave() -> None:
            w.line(f"store ptr {w.let('call ptr @PyEval_SaveThread()')}, ptr {w.shifted('%fault', THREAD)}")

        w.when(is_away, leave)
        w.when(has_raised, self._stop)
        self._store("%fault", LOOKED, self._read_clock())
        w.line(f"ret i1 {has_raised}")

    def _stop(self) -> None:
        """Have all loops end, those of threads that help too."""
        w = self.w
        self._store("%fault", 0, str(RAISED))
        self._store("%fault", LIMIT, "0")
        team = w.let(f"load ptr, ptr {w.shifted('%fault', TEAM)}")

        def tell() -> None:
            w.line(f"store atomic i64 1, ptr {w.shifted(team, STOPPED)} monotonic, align 8")

        w.when(w.let(f"icmp ne ptr {team}, null"), tell)

    def _load(self, state: str, offset: int) -> str:
        return self.w.let(f"load i64, ptr {self.w.shifted(state, offset)}")

    def _store(self, state: str, offset: int, value: str) -> None:
        self.w.line(f"store i64 {value}, ptr {self.w.shifted(state, offset)}")
