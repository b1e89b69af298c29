"""Pieces: schedules of which some instructions have no native form, with kernels between NumPy's calls.

A run of neighbouring native instructions becomes one `Call` of the method ``native``, which reads its operands for longer
than they did. So buffers are assigned anew: what is left of NumPy's calls and the kernels share one arena.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from afx.compiler.buffers import Interval, assign_offsets
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.items import made_by, reads_of
from afx.compiler.native_backend.program import Program
from afx.compiler.operands import Alias, Buffer
from afx.compiler.schedule import Alloc, Branch, Call, Free, Fused, Instruction, Loop, Result, Schedule, View
from afx.compiler.target import NativeTarget
from afx.core.primitive import lookup

__all__ = ["Lowered", "split_schedule"]

Lowered: TypeAlias = "tuple[Program, tuple[Any, ...]]"
Lower: TypeAlias = "Callable[[Schedule], Lowered]"
Explain: TypeAlias = "Callable[[Schedule], list[str]]"

KEPT = ("params", "body", "bodies", "condition", "back")  # fields of instructions that name no buffers around them


def split_schedule(
    schedule: Schedule, lower: Lower, explain: Explain, why: str, limits: NativeTarget
) -> tuple[Schedule, tuple[Lowered, ...]]:
    """Return a schedule with calls of kernels, and these kernels' programs and captured arrays by their numbers.

    Args:
        schedule: the whole.
        lower: makes the program of a schedule.
        explain: gives for each instruction why it has no native form.
        why: why the whole is not one kernel.
        limits: which runs are worth a kernel.

    Raises:
        UnsupportedError: no run of its instructions is worth a kernel.
    """
    if any(isinstance(i, Call) and lookup(i.op).has_effects for i in schedule.at_any_depth()):
        raise UnsupportedError("a call that does more than compute, which may not run again where a kernel gives up")
    found: list[Lowered] = []
    mixed = _split(_on_new_memory(schedule), lower, explain, found, limits)
    if not found:
        raise UnsupportedError(why)
    return mixed, tuple(found)


def _on_new_memory(schedule: Schedule) -> Schedule:
    """Return a schedule that writes into no donated argument, so that NumPy's plan can start again."""
    allocs = [i.buffer for i in schedule.instructions if isinstance(i, Alloc) and i.buffer.storage == "donated"]
    new = {b.index: attrs.evolve(b, storage="pooled", location=0) for b in allocs}
    return attrs.evolve(schedule, instructions=_replaced(schedule.instructions, new)) if new else schedule


def _split(schedule: Schedule, lower: Lower, explain: Explain, found: list[Lowered], limits: NativeTarget) -> Schedule:
    return _Splitter(schedule, lower, explain, found, limits).split()


class _Splitter:
    """The instructions so far, without views, and the run that is being collected."""

    def __init__(
        self, schedule: Schedule, lower: Lower, explain: Explain, found: list[Lowered], limits: NativeTarget
    ) -> None:
        self.schedule = schedule
        self.found = found
        self._lower = lower
        self._explain = explain
        self._limits = limits
        self._views = {i.out.index: i for i in schedule.instructions if isinstance(i, View)}
        self._constants = {b.index: (b, constant) for b, constant in schedule.constants}
        self._buffers = {b.index: b for b in schedule.inputs}
        self._buffers |= {b.index: b for i in schedule.instructions for b in made_by(i)}
        pairs = zip(schedule.instructions, explain(schedule), strict=True)
        self._steps = [(i, reason) for i, reason in pairs if not isinstance(i, Alloc | Free | View)]
        self._uses = self._positions([i for i, _ in self._steps])
        self._out: list[Instruction] = []
        self._run: list[int] = []  # positions of its steps

    def _positions(self, instructions: Sequence[Instruction]) -> dict[int, set[int]]:
        """Return where each piece of memory is read, by its owner: results are read behind all instructions."""
        found: dict[int, set[int]] = {}
        for k, i in enumerate(instructions):
            for index in reads_of(i):
                found.setdefault(self._owner(index), set()).add(k)
        for index in self._results():
            found.setdefault(self._owner(index), set()).add(len(instructions))
        return found

    def _results(self) -> list[int]:
        return [r.operand.index for r in self.schedule.results if isinstance(r.operand, Buffer)]

    def _owner(self, index: int) -> int:
        while index in self._views:
            index = self._views[index].source.index
        return index

    def split(self) -> Schedule:
        """Return the schedule with calls of kernels."""
        for k, (i, reason) in enumerate(self._steps):
            if not reason:
                self._run.append(k)
                continue
            if not self._can_run_before(i):
                self._flush()
            self._out.append(self._within(i))
        self._flush()
        return self._placed(self._with_views(self._out, self._results()))

    def _within(self, i: Instruction) -> Instruction:
        """Return an instruction with kernels in its bodies."""
        if not isinstance(i, Loop | Branch):
            return i
        bodies = tuple([_split(body, self._lower, self._explain, self.found, self._limits) for body in i.bodies])
        if isinstance(i, Branch):
            return attrs.evolve(i, bodies=bodies)
        return attrs.evolve(i, body=bodies[0], back=bodies[1] if bodies[1:] else None)

    def _can_run_before(self, i: Instruction) -> bool:
        """Tell whether an instruction may run before the run that is collected: it writes new memory, and reads none of its."""
        made = {b.index for k in self._run for b in made_by(self._steps[k][0])}
        is_new = all(b.storage == "fresh" for b in made_by(i)) and isinstance(i, Call) and i.allocates
        return is_new and made.isdisjoint(map(self._owner, reads_of(i)))

    # -- runs --
    def _flush(self) -> None:
        """End the run: as one kernel where that is worth it, as it was otherwise."""
        run = [self._steps[k][0] for k in self._run]
        if sum([_calls(i, self._limits) for i in run]) >= self._limits.piece_min_calls:
            with contextlib.suppress(UnsupportedError):  # such as a result that lies in another order
                run = [self._piece(run)]
        self._out += run
        self._run = []

    def _piece(self, run: Sequence[Instruction]) -> Call:
        """Return the call of a kernel that stands for a run."""
        inside, made = set(self._run), {b.index: b for i in run for b in made_by(i)}
        outs = tuple([b for k, b in made.items() if not self._uses.get(k, set()) <= inside])
        if not outs:
            raise UnsupportedError("a run that leaves nothing")
        given = [k for k in dict.fromkeys([self._owner(index) for i in run for index in reads_of(i)]) if k not in made]
        inputs = tuple([self._buffers[k] for k in given if k not in self._constants])
        constants = tuple([self._constants[k] for k in given if k in self._constants])
        sub = Schedule(inputs, constants, tuple(self._with_views(run)), tuple([Result(b) for b in outs]))
        self.found.append(self._lower(sub))
        aliases: tuple[Alias, ...] = tuple(["disjoint" for _ in inputs])
        return Call("native", "native", inputs, aliases, outs, params=(("number", len(self.found) - 1),))

    def _with_views(self, instructions: Sequence[Instruction], wanted: Sequence[int] = ()) -> list[Instruction]:
        """Return instructions, each behind the views that it reads, and those that are wanted at the end."""
        found: list[Instruction] = []
        shown: set[int] = set()

        def show(index: int) -> None:
            view = self._views.get(index)
            if view is not None and index not in shown:
                show(view.source.index)
                shown.add(index)
                found.append(view)

        for i in instructions:
            for index in reads_of(i):
                show(index)
            found.append(i)
        for index in wanted:
            show(index)
        return found

    # -- memory --
    def _placed(self, instructions: Sequence[Instruction]) -> Schedule:
        """Return the schedule of these instructions, in an arena of their own."""
        last = {owner: max(places) for owner, places in self._positions(instructions).items()}
        pairs = [(k, b) for k, i in enumerate(instructions) for b in made_by(i) if b.storage == "arena"]
        intervals = [Interval(b.index, b.nbytes, k, last.get(b.index, k), False, True) for k, b in pairs]
        donated_to = {b.index: owner for k, b in pairs for owner in self._overwritten(instructions[k], b)}
        offsets, arena = assign_offsets(intervals, donated_to)
        moved = {k: attrs.evolve(self._buffers[k], location=offset) for k, offset in offsets.items()}
        freed = self._freed(instructions, last)
        allocated = {i.buffer.index for i in self.schedule.instructions if isinstance(i, Alloc)}
        found: list[Instruction] = []
        for k, i in enumerate(instructions):
            is_native = isinstance(i, Call) and i.method == "native"
            found += [Alloc(b) for b in made_by(i) if b.index in allocated or (is_native and b.storage != "arena")]
            found.append(_replaced(i, moved))
            if k in freed:
                found.append(Free(tuple(freed[k])))
        return attrs.evolve(self.schedule, instructions=tuple(found), arena_bytes=arena.size, widest_bytes=arena.widest)

    def _overwritten(self, i: Instruction, out: Buffer) -> list[int]:
        """Return the owner whose memory an instruction takes for an output, as it reads it for the last time."""
        if isinstance(i, Call) and i.method == "native":
            return []
        read = {self._owner(index) for index in reads_of(i)} & self._buffers.keys()
        return [k for k in read if (self._buffers[k].storage, self._buffers[k].location) == ("arena", out.location)]

    def _freed(self, instructions: Sequence[Instruction], last: Mapping[int, int]) -> dict[int, list[Buffer]]:
        """Return what is freed early, and exists, by the position of the last instruction that reads it."""
        known = {b.index for i in instructions for b in made_by(i)}
        frees = [b for i in self.schedule.instructions if isinstance(i, Free) for b in i.buffers if b.index in known]
        found: dict[int, list[Buffer]] = {}
        for b in frees:
            found.setdefault(last[self._owner(b.index)], []).append(b)
        return found


def _replaced(value: Any, buffers: dict[int, Buffer]) -> Any:
    """Return an instruction with other buffers; bodies count anew and stay."""
    if isinstance(value, Buffer):
        return buffers.get(value.index, value)
    if isinstance(value, tuple):
        return tuple([_replaced(v, buffers) for v in value])  # pyright: ignore[reportUnknownVariableType]  # of any kind
    if isinstance(value, Call | View | Free | Alloc | Fused | Loop | Branch):
        names = [f.name for f in attrs.fields(type(value)) if f.name not in KEPT]
        return attrs.evolve(value, **{name: _replaced(getattr(value, name), buffers) for name in names})
    return value


def _calls(i: Instruction, limits: NativeTarget) -> int:
    """Return about how many calls of NumPy an instruction is."""
    if isinstance(i, Fused):
        return len(i.body)
    return limits.piece_loop_calls if isinstance(i, Loop) else int(isinstance(i, Call))
