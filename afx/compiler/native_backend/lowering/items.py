"""Items: what a block is built of, steps that run together and groups of calls that share one loop."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from afx.compiler.native_backend.program import Fast, Op, Ref, Step, UfuncLoop, Value
from afx.compiler.operands import Buffer, Operand
from afx.compiler.schedule import Branch, Call, Fused, Instruction, Loop, View
from afx.core.aval import Shape

__all__ = ["Group", "Item", "Recipe", "call_of", "made_by", "reads_of", "recipe_of", "with_views_first"]


@attrs.define(eq=False)
class Item:
    """Steps that run together, and the memory that they read and write, by the index of its owner."""

    steps: list[Step] = attrs.field(factory=list)
    reads: set[int] = attrs.field(factory=set)
    writes: list[int] = attrs.field(factory=list)
    arena: int = 0  # bytes of scratch that it needs beside

    @property
    def touched(self) -> set[int]:
        """All memory that they read or write."""
        return self.reads.union(self.writes)


@attrs.define(eq=False)
class Group(Item):
    """Fused calls over one space."""

    space: Shape = ()
    quiet: tuple[str, ...] | None = None
    values: list[Value] = attrs.field(factory=list)
    known: dict[Any, int] = attrs.field(factory=dict)
    folds: list[tuple[int, str, Ref]] = attrs.field(factory=list)  # as in `Nest`
    parts: list[tuple[int, Ref]] = attrs.field(factory=list)  # values that are also written into parts of other arrays
    made: dict[int, int] = attrs.field(factory=dict)  # buffer index to the number of its value

    def add(self, value: Value) -> int:
        """Return the number of a value, entered once."""
        if value not in self.known:
            self.known[value] = len(self.values)
            self.values.append(value)
        return self.known[value]


Recipe: TypeAlias = "Callable[[Group, Callable[[Operand], int]], int]"
"""Adds an operation to a group, given what gives the numbers of its operands there."""


def recipe_of(
    out: Buffer,
    operands: Sequence[Operand],
    quiet: tuple[str, ...] | None,
    make: Callable[[Group, list[int]], int],
    known: Container[int],
) -> dict[int, Recipe]:
    """Return how a value is made, where loops that read it better read its only array, which is no larger, and make it again.

    So it is with signs, sizes and choices between numbers, which raise no errors; but not with what is made of such ones,
    whose indices are known: loops would make whole chains again.
    """
    arrays = [x for x in operands if isinstance(x, Buffer)]
    is_cheap = quiet is None and len(arrays) == 1 and arrays[0].dtype.itemsize <= out.dtype.itemsize
    is_cheap = is_cheap and arrays[0].index not in known
    return {out.index: lambda group, number_of: make(group, [number_of(x) for x in operands])} if is_cheap else {}


def call_of(loop: UfuncLoop | Fast | str, dtype: str) -> Callable[[Group, list[int]], int]:
    """Return what adds an operation to a group."""
    return lambda group, args: group.add(Op(loop, dtype, tuple(args)))


READ: dict[type[Any], tuple[str, ...]] = {
    Call: ("operands",),
    View: ("source",),
    Fused: ("sliced", "whole"),
    Branch: ("operands", "index"),
    Loop: ("tests", "consts", "carry", "xs", "carry_back"),
}
MADE: dict[type[Any], tuple[str, ...]] = {
    Call: ("outputs",),
    View: ("out",),
    Fused: ("outputs",),
    Branch: ("outputs",),
    Loop: ("outputs", "ys"),
}


def made_by(instruction: Instruction) -> tuple[Buffer, ...]:
    """Return the buffers that an instruction defines."""
    return tuple(_buffers_of(instruction, MADE))


def reads_of(instruction: Instruction) -> list[int]:
    """Return the numbers of the buffers that an instruction reads."""
    return [x.index for x in _buffers_of(instruction, READ)]


def _buffers_of(instruction: Instruction, fields: Mapping[type[Any], tuple[str, ...]]) -> list[Buffer]:
    found: list[Any] = []
    for name in fields.get(type(instruction), ()):
        value: Any = getattr(instruction, name)
        found += value if isinstance(value, tuple) else (value,)
    return [x for x in found if isinstance(x, Buffer)]


def with_views_first(instructions: Iterable[Instruction]) -> list[Instruction]:
    """Return instructions with each view right behind what it looks at: one that copies keeps no loops apart then."""
    found = list[Instruction]()
    waiting: dict[int, list[View]] = {}
    known, made = list(instructions), set[int]()
    for instruction in known:
        made.update([x.index for x in made_by(instruction)])
        if isinstance(instruction, View):
            waiting.setdefault(instruction.source.index, []).append(instruction)

    def add(instruction: Instruction) -> None:
        found.append(instruction)
        for x in made_by(instruction):
            for view in waiting.pop(x.index, ()):
                add(view)

    for source in [index for index in waiting if index not in made]:
        for view in waiting.pop(source):
            add(view)
    for instruction in known:
        if not isinstance(instruction, View):
            add(instruction)
    return found
