"""Leaves of native programs that ask for the order of elements: places in sorted vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import attrs

from afx.compiler.native_backend.elements import Access, Names, Ref
from afx.compiler.native_backend.steps import Spaced, join_lengths
from afx.core.aval import Shape

if TYPE_CHECKING:
    from afx.compiler.target import NativeTarget

__all__ = ["Search"]


@attrs.frozen
class Search(Spaced):
    """Binary search of values in a sorted vector; nan stands behind all numbers.

    Attributes:
        is_right: whether places lie behind equal elements.
        space: lengths of the axes of the values.
        values: what is looked for.
        out: the places, as int64.
        vector: where it is looked for, of the values' dtype; its strides are 0.
        length: elements of the vector.
        stride: bytes between them.
    """

    is_right: bool
    space: Shape
    values: Ref
    out: Ref
    vector: Ref
    length: int
    stride: int
    quiet: tuple[str, ...] = ()

    def accesses(self) -> list[Access]:
        """Return values, places and the vector."""
        return [Access(self.values, "r"), Access(self.out, "w"), Access(self.vector, "r")]

    def map_refs(self, change: Callable[[Ref], Ref]) -> Search:
        """Return the search of other memory."""
        values, out = change(self.values), change(self.out)
        return attrs.evolve(self, values=values, out=out, vector=change(self.vector))

    def place(self, numbers: Mapping[int, int], arena: int) -> Search:  # it has none
        """Return the same in its block, with neighbouring axes joined."""
        return self.with_roots(numbers).with_merged_axes()

    @property
    def row_space(self) -> Shape:
        """None: each row reads the whole vector."""
        return ()

    def row_accesses(self, rows: int) -> None:  # of steps that have any
        """Return None: each row reads the whole vector."""
        return

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        return 10 + 2.0 * self.elements * self.length.bit_length()

    def is_written_out(self, limits: NativeTarget) -> bool:
        """Tell whether it is short."""
        return self.elements * self.length.bit_length() <= limits.passes_few_elements

    def lines(self, names: Names, arena: int) -> list[str]:  # of loops over blocks
        """Return the search."""
        values, out, vector = [names[ref.root] for ref in self.refs]
        side = "right" if self.is_right else "left"
        count = join_lengths(self.space) or "1"
        return [f"{out} = searchsorted({vector}, {values}, {side!r})  # {count} values in {self.length} elements"]
