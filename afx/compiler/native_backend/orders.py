"""Leaves of native programs that ask for the order of elements: sorted rows, and places in sorted vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import attrs

from afx.compiler.native_backend.elements import Access, Names, Ref, UfuncLoop
from afx.compiler.native_backend.steps import Leaf, LookUp, join_lengths
from afx.core.aval import Shape

if TYPE_CHECKING:
    from afx.compiler.target import NativeTarget

__all__ = ["Search", "Sort"]


@attrs.frozen
class Search(LookUp):
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


@attrs.frozen
class Sort(Leaf):
    """Rows sorted by NumPy's function, in place, or the indices that sort them.

    Attributes:
        loop: NumPy's function.
        rows: number of rows, next to each other.
        length: elements of each.
        values: the rows.
        out: the indices, as int64; None sorts the values.
    """

    loop: UfuncLoop
    rows: int
    length: int
    values: Ref
    out: Ref | None = None
    quiet: tuple[str, ...] = ()

    def accesses(self) -> list[Access]:
        """Return the values, which change where no indices are asked for, and those."""
        return [Access(self.values, "a")] if self.out is None else [Access(self.values, "r"), Access(self.out, "w")]

    def map_refs(self, change: Callable[[Ref], Ref]) -> Sort:
        """Return the same of other memory."""
        values = change(self.values)
        return attrs.evolve(self, values=values, out=None if self.out is None else change(self.out))

    @property
    def may_fault(self) -> bool:
        """Whether memory may be short: always."""
        return True

    @property
    def elements(self) -> int:
        """How many elements it sorts."""
        return self.rows * self.length

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        return 20 * self.rows + 2.0 * self.elements * self.length.bit_length()

    @property
    def loops(self) -> Iterator[UfuncLoop]:
        """NumPy's function."""
        return iter((self.loop,))

    @property
    def called_roots(self) -> set[int]:
        """The roots of values and indices."""
        return {*self.touched}

    def lines(self, names: Names, arena: int) -> list[str]:  # of loops over blocks
        """Return the call."""
        values, comment = names[self.values.root], f"# {self.rows} × {self.length}: NumPy's {self.loop.ufunc}"
        return [
            f"{values}.sort()  {comment}"
            if self.out is None
            else f"{names[self.out.root]} = argsort({values})  {comment}"
        ]
