"""Steps that run blocks, by their fields: metadata says which of them are roots, how these are touched, and which are blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from afx.compiler.native_backend.steps import Step, evolve

if TYPE_CHECKING:
    from typing import Self

    from afx.compiler.native_backend.program import Block

__all__ = ["BLOCKS", "Carrying", "Control"]

BLOCKS = {"is_block": True}


class Control(Step):
    """A step that runs blocks.

    Attributes:
        arena: the offset of the blocks' arena in that of the block around it.
    """

    __slots__ = ()
    arena: int

    @property
    def has_turns(self) -> bool:
        """Whether it is a loop or a branch of the program."""
        return True

    def place(self, numbers: Mapping[int, int], arena: int) -> Self:
        """Return the same in its block."""
        return evolve(self.with_roots(numbers), arena=arena)

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks that it runs."""
        found: list[Block] = []
        for name in _names_of_blocks(self):
            value: Block | tuple[Block, ...] = getattr(self, name)
            found += value if isinstance(value, tuple) else (value,)
        return tuple(found)

    def map_blocks(self, change: Callable[[Block], Block]) -> Self:
        """Return the same with other blocks."""
        changes: dict[str, Block | tuple[Block, ...]] = {}
        for name in _names_of_blocks(self):
            value: Block | tuple[Block, ...] = getattr(self, name)
            changes[name] = tuple(map(change, value)) if isinstance(value, tuple) else change(value)
        return evolve(self, **changes)

    @property
    def called_roots(self) -> set[int]:
        """All of its roots."""
        return {*self.touched}


class Carrying(Control):
    """A loop whose steps hand on a carry, which moves between two pieces of memory."""

    __slots__ = ()


def _names_of_blocks(step: Control) -> list[str]:
    cls: Any = type(step)
    return [f.name for f in attrs.fields(cls) if "is_block" in f.metadata]
