"""Pieces: schedules of which some instructions have no native form, with kernels between NumPy's calls.

A run of neighbouring native instructions becomes one `Call` of the method ``native``. What it writes gets memory of its
own behind the schedule's block, since a kernel may read an operand after NumPy's plan would have overwritten it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs

from afx.compiler.arena import ALIGNMENT, Arena
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
    if _has_effects(schedule):
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


def _has_effects(schedule: Schedule) -> bool:
    for i in schedule.instructions:
        bodies = i.bodies if isinstance(i, Loop | Branch) else ()
        if any(map(_has_effects, bodies)) or (isinstance(i, Call) and lookup(i.op).has_effects):
            return True
        if isinstance(i, Loop) and i.condition is not None and _has_effects(i.condition):
            return True
    return False


def _split(schedule: Schedule, lower: Lower, explain: Explain, found: list[Lowered], limits: NativeTarget) -> Schedule:
    return _Splitter(schedule, lower, explain, found, limits).split()


class _Splitter:
    """The instructions so far, and the run that is being collected."""

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
        self._uses: dict[int, set[int]] = {}  # owner to the positions of the instructions that read it
        for k, i in enumerate(schedule.instructions):
            for index in reads_of(i):
                self._uses.setdefault(self._owner(index), set()).add(k)
        for index in _results(schedule):
            self._uses.setdefault(self._owner(index), set()).add(len(schedule))
        self._out: list[Instruction] = []
        self._run: list[int] = []  # positions, from the first native instruction to the last one seen
        self._moved: dict[int, Buffer] = {}

    def split(self) -> Schedule:
        """Return the schedule with calls of kernels."""
        reasons = self._explain(self.schedule)
        instructions = self.schedule.instructions
        before: list[int] = []  # what belongs to the next instruction, or to the run if that is native
        for k, i in enumerate(instructions):
            if isinstance(i, Alloc | Free | View):
                before.append(k)
            elif reasons[k] and self._can_run_before(i):
                self._out.append(self._within(i))
            elif reasons[k]:
                self._flush()
                self._out += [instructions[j] for j in before]
                self._out.append(self._within(i))
                before = []
            else:
                if not self._run:
                    kept = [j for j in before if not isinstance(instructions[j], Alloc)]
                    self._out += [instructions[j] for j in kept]
                    before = [j for j in before if j not in kept]
                self._run += [*before, k]
                before = []
        self._flush()
        self._out += [instructions[j] for j in before]
        return self._finish()

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
        made = {b.index for k in self._run for b in made_by(self.schedule.instructions[k])}
        read = set(reads_of(i))
        is_new = all(b.storage == "fresh" for b in made_by(i)) and isinstance(i, Call) and i.allocates
        return bool(self._run) and is_new and not read & made and not read & set(self._views)

    def _owner(self, index: int) -> int:
        while index in self._views:
            index = self._views[index].source.index
        return index

    # -- runs --
    def _flush(self) -> None:
        """End the run: as one kernel where that is worth it, as it was otherwise."""
        run = [self.schedule.instructions[k] for k in self._run]
        if sum([_calls(i, self._limits) for i in run]) >= self._limits.piece_min_calls:
            try:
                self._out += self._piece(run)
                self._run = []
                return
            except UnsupportedError:
                pass  # such as a result that lies in another order
        self._out += run
        self._run = []

    def _piece(self, run: Sequence[Instruction]) -> list[Instruction]:
        """Return the instructions that stand for a run."""
        steps = [i for i in run if not isinstance(i, Alloc | Free | View)]
        inside = set(self._run)
        made = [b for i in steps for b in made_by(i)]
        own = {b.index for b in made}
        outs = tuple([b for b in made if not self._uses.get(b.index, set()) <= inside])
        read = dict.fromkeys([index for i in steps for index in reads_of(i)])
        owners = dict.fromkeys([self._owner(index) for index in read])
        inputs = tuple([self._buffers[k] for k in owners if k not in own and k not in self._constants])
        if not outs:
            raise UnsupportedError("a run that leaves nothing")
        views = self._views_of(read)
        before = [view for view in views if view not in run]
        sub = Schedule(
            inputs,
            tuple([self._constants[k] for k in owners if k in self._constants]),
            (*before, *[i for i in run if i in views or not isinstance(i, Alloc | Free | View)]),
            tuple([Result(b) for b in outs]),
        )
        self.found.append(self._lower(sub))
        self._moved |= {b.index: b for b in outs}
        aliases: tuple[Alias, ...] = tuple(["disjoint" for _ in inputs])
        call = Call("native", "native", inputs, aliases, outs, params=(("number", len(self.found) - 1),))
        allocs = [Alloc(b) for b in outs if b.storage != "arena"]
        return [*allocs, call, *[i for i in run if isinstance(i, View | Free)]]

    def _views_of(self, read: dict[int, None]) -> list[View]:
        """Return the views that a run reads, sources first."""
        found: dict[int, View] = {}

        def add(index: int) -> None:
            view = self._views.get(index)
            if view is not None and index not in found:
                add(view.source.index)
                found[index] = view

        for index in read:
            add(index)
        return list(found.values())

    # -- the whole --
    def _finish(self) -> Schedule:
        """Return the schedule without what nothing reads any longer, kernels' results in memory of their own."""
        schedule, out = self.schedule, self._known(self._needed(self._out))
        last: dict[int, int] = {}
        for k, i in enumerate(out):
            last |= {self._owner(index): k for index in reads_of(i)}
        last |= {self._owner(index): len(out) for index in _results(schedule)}
        base = -(-schedule.arena_bytes // ALIGNMENT) * ALIGNMENT
        arena = Arena()
        for k, i in enumerate(out):
            if isinstance(i, Call) and i.method == "native":
                for b in i.outputs:
                    if b.storage == "arena":
                        self._moved[b.index] = attrs.evolve(b, location=base + arena.take(b.nbytes))
            for index, b in self._moved.items():
                if b.storage == "arena" and last.get(index) == k:
                    arena.give(b.location - base, b.nbytes)
        return attrs.evolve(
            schedule, instructions=tuple([self._on_moved(i) for i in out]), arena_bytes=base + arena.size
        )

    def _needed(self, instructions: Sequence[Instruction]) -> list[Instruction]:
        """Return instructions without views that nothing reads."""
        wanted = set(_results(self.schedule))
        kept: list[Instruction] = []
        for i in reversed(instructions):
            if isinstance(i, View) and i.out.index not in wanted:
                continue
            wanted |= set(reads_of(i))
            kept.append(i)
        return kept[::-1]

    def _known(self, instructions: Sequence[Instruction]) -> list[Instruction]:
        """Return instructions that free nothing but what exists."""
        known = {b.index for i in instructions for b in made_by(i)}
        found: list[Instruction] = []
        for i in instructions:
            if isinstance(i, Free):
                i = Free(tuple([b for b in i.buffers if b.index in known]))
                if not i.buffers:
                    continue
            found.append(i)
        return found

    def _on_moved(self, i: Instruction) -> Instruction:
        """Return an instruction on the memory of kernels' results, which no output takes."""
        if isinstance(i, Call):
            moved = [isinstance(x, Buffer) and self._owner(x.index) in self._moved for x in i.operands]
            aliases = tuple([_alias(a, at) for a, at in zip(i.aliases, moved, strict=True)])
            i = attrs.evolve(i, aliases=aliases)
        found: Instruction = _replaced(i, self._moved)
        return found


def _alias(before: Alias, is_moved: bool) -> Alias:
    return "disjoint" if is_moved else before


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


def _results(schedule: Schedule) -> list[int]:
    return [r.operand.index for r in schedule.results if isinstance(r.operand, Buffer)]


def _calls(i: Instruction, limits: NativeTarget) -> int:
    """Return about how many calls of NumPy an instruction is."""
    if isinstance(i, Fused):
        return len(i.body)
    return limits.piece_loop_calls if isinstance(i, Loop) else int(isinstance(i, Call))
