"""Steps that run blocks, by their fields: metadata says which of them are roots, how these are touched, and which are blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from afx.compiler.native_backend.elements import Access, Ref
from afx.compiler.native_backend.steps import Step, evolve

if TYPE_CHECKING:
    from typing import Self

    from afx.compiler.native_backend.program import Block

__all__ = ["BLOCKS", "BOTH", "READ", "WRITE", "Carrying", "Control"]

READ, WRITE, BOTH = {"mode": "r"}, {"mode": "w"}, {"mode": "a"}
BLOCKS = {"is_block": True}


class Control(Step):
    """A step that runs blocks.

    Attributes:
        arena: the offset of the blocks' arena in that of the block around it.
    """

    __slots__ = ()
    arena: int

    def accesses(self) -> list[Access]:
        """Return the roots that its blocks may touch, each a whole."""
        fields = [(f.metadata["mode"], getattr(self, f.name)) for f in _fields(self) if "mode" in f.metadata]
        return [Access(Ref(root, "", 0, ()), mode) for mode, value in fields for root in _flat(value)]

    def map_refs(self, change: Callable[[Ref], Ref]) -> Self:
        """Return the same with other roots."""

        def moved(value: Any) -> Any:
            return change(Ref(value, "", 0, ())).root if isinstance(value, int) else tuple(map(moved, value))

        names = [f.name for f in _fields(self) if "mode" in f.metadata]
        return evolve(self, **{name: moved(getattr(self, name)) for name in names})

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


def _fields(step: Control) -> tuple[Any, ...]:
    cls: Any = type(step)
    found: tuple[Any, ...] = attrs.fields(cls)
    return found


def _names_of_blocks(step: Control) -> list[str]:
    return [f.name for f in _fields(step) if "is_block" in f.metadata]


def _flat(value: Any) -> Iterator[int]:
    """Yield the roots of a field: one, several, or several of each block."""
    if isinstance(value, int):
        yield value
    else:
        for part in value:
            yield from _flat(part)
