"""Items: what a block is built of, steps that run together and groups of calls that share one loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from afx.compiler.native_backend.program import Fast, Op, Ref, Step, UfuncLoop, Value
from afx.compiler.operands import Buffer
from afx.compiler.schedule import Alloc, Free, Instruction, Loop, View
from afx.core.aval import Shape

__all__ = ["Group", "Item", "call_of", "made_by"]


@attrs.define(eq=False)
class Item:
    """Steps that run together, and the memory that they read and write, by the index of its owner."""

    steps: list[Step] = attrs.field(factory=list)
    reads: set[int] = attrs.field(factory=set)
    writes: list[int] = attrs.field(factory=list)
    arena: int = 0  # bytes of scratch that it needs beside


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


def call_of(loop: UfuncLoop | Fast | str, dtype: str) -> Callable[[Group, list[int]], int]:
    """Return what adds an operation to a group."""
    return lambda group, args: group.add(Op(loop, dtype, tuple(args)))


def made_by(instruction: Instruction) -> tuple[Buffer, ...]:
    """Return the buffers that an instruction defines."""
    if isinstance(instruction, View):
        return (instruction.out,)
    if isinstance(instruction, Loop):
        return (*instruction.outputs, *instruction.ys)
    return () if isinstance(instruction, Alloc | Free) else instruction.outputs
