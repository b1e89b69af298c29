"""Steps of native programs: the questions that whoever reads a program asks each of them.

`Step.accesses` tells the memory that it touches, `Step.map_refs` gives the same on other memory, `Step.blocks` are the
blocks that it runs. What follows from its form alone, such as its cost and its text, it tells itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from afx.compiler.native_backend.elements import Access, Names, Ref, UfuncLoop
from afx.core.aval import Shape

if TYPE_CHECKING:
    from typing import Self

    from afx.compiler.native_backend.program import Block
    from afx.compiler.target import NativeTarget

__all__ = ["Leaf", "RowAccess", "Step", "evolve", "join_lengths", "merged"]

S = TypeVar("S")


@attrs.frozen
class RowAccess:
    """Bytes of one row that a step reads or writes.

    Attributes:
        ref: as in the step.
        pitch: bytes from row to row.
        low: the first byte of the first row.
        high: the one behind its last.
        writes: whether it is written.
        adds: whether all rows are combined in one place, one after the other.
    """

    ref: Ref
    pitch: int
    low: int
    high: int
    writes: bool
    adds: bool = False

    @classmethod
    def of(cls, ref: Ref, pitch: int, reach: Sequence[int], writes: bool, adds: bool = False) -> RowAccess:
        """Return the access of elements that lie so many bytes apart along the axes within a row."""
        low = ref.offset + sum([r for r in reach if r < 0])
        high = ref.offset + sum([r for r in reach if r > 0]) + ref.size
        return cls(ref, pitch, low, high, writes, adds)

    @property
    def shift(self) -> int:
        """Which row of its memory is the first."""
        return self.low // self.pitch


class Step:
    """What a block runs: a leaf, or a loop over blocks.

    Attributes:
        space: lengths of the axes that it works on, where it has any.
        quiet: floating-point warnings that it ignores.
        has_turns: whether it is a loop or a branch of the program, and no loop over parts of arrays.
        is_cut: whether it runs part by part, which threads share.
        is_by_element: whether its loops run over single elements, which LLVM may unroll.
    """

    __slots__ = ()
    space: Shape = ()
    quiet: tuple[str, ...] = ()
    has_turns: bool = False
    is_cut: bool = False
    is_by_element: bool = False

    @property
    def is_void(self) -> bool:
        """Whether it has no element to work on."""
        return 0 in self.space

    @property
    def may_fault(self) -> bool:
        """Whether it may find that NumPy has to decide."""
        return False

    @property
    def turns(self) -> int:
        """How often its blocks run."""
        return 1

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        raise NotImplementedError  # each kind of step has its own

    @property
    def calls_blas(self) -> bool:
        """Whether it calls a function of linear algebra, which may use threads of its own."""
        return False

    @property
    def elements(self) -> int:
        """How many elements it works on."""
        return math.prod(self.space)

    @property
    def row_space(self) -> Shape:
        """The lengths of its axes, where it may work row by row."""
        return self.space

    @property
    def parts(self) -> int:
        """Number of parts that it can be cut into."""
        return 1

    @property
    def touched(self) -> list[int]:
        """The roots that it touches, each once, in the order of operands."""
        return list(dict.fromkeys([access.ref.root for access in self.accesses()]))

    @property
    def loops(self) -> Iterator[UfuncLoop]:
        """The loops of NumPy that it calls itself."""
        return iter(())

    @property
    def called_roots(self) -> set[int]:
        """The roots that functions may read, whose bits may depend on strides."""
        return set()

    def accesses(self) -> list[Access]:
        """Return the memory that it touches, operand by operand."""
        raise NotImplementedError  # each kind of step has its own

    def map_refs(self, change: Callable[[Ref], Ref]) -> Self:
        """Return the step with other memory, operand by operand."""
        raise NotImplementedError  # each kind of step has its own

    def place(self, numbers: Mapping[int, int], arena: int) -> Self:  # of loops over blocks
        """Return the step in its block, where roots have these numbers and its scratch memory begins there."""
        return self.with_roots(numbers)

    def with_roots(self, numbers: Mapping[int, int]) -> Self:
        """Return the same with other numbers of roots."""
        return self.map_refs(lambda ref: attrs.evolve(ref, root=numbers[ref.root]))

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks that it runs."""
        return ()

    def repeated_blocks(self) -> tuple[Block, ...]:
        """Return the blocks that run more than once, or may."""
        return self.blocks()

    def row_accesses(self, rows: int) -> list[RowAccess] | None:  # of steps that have any
        """Return what it touches in each of so many rows; None where it is not a step of rows."""
        return None

    def on_rows(self, count: int, rows: int) -> Self:  # of steps of rows
        """Return the same on so many of all rows."""
        return self

    def is_written_out(self, limits: NativeTarget) -> bool:
        """Tell whether its time is spent in loops over vectors that are written out, or is short."""
        return not self.is_by_element or self.elements <= limits.passes_few_elements

    def lines(self, names: Names, arena: int) -> list[str]:
        """Return it as text; ``arena`` is where scratch memory of its block begins."""
        raise NotImplementedError  # each kind of step has its own


class Leaf(Step):
    """A step without blocks, whose operands have a stride for each axis of its space.

    Attributes:
        operands: its memory.
    """

    __slots__ = ()
    operands: tuple[Ref, ...] = ()

    @property
    def modes(self) -> str:
        """How it touches its operands, of which it writes the last one."""
        return "r" * (len(self.operands) - 1) + "w"

    def accesses(self) -> list[Access]:
        """Return its operands."""
        modes: Any = self.modes
        return [*map(Access, self.operands, modes)]

    def map_refs(self, change: Callable[[Ref], Ref]) -> Self:
        """Return the step with other operands."""
        return evolve(self, operands=tuple(map(change, self.operands)))

    @property
    def called_roots(self) -> set[int]:
        """The roots of its operands, where it calls a loop of NumPy."""
        return {*self.touched} if any(True for _ in self.loops) else set()

    @property
    def refs(self) -> list[Ref]:
        """What it reads and writes."""
        return [access.ref for access in self.accesses()]

    def on_rows(self, count: int, rows: int) -> Self:
        """Return the same on so many of all rows."""
        return evolve(self, space=(count * (self.space[0] // rows), *self.space[1:]))

    def row_accesses(self, rows: int) -> list[RowAccess] | None:
        """Return what it touches in each of so many rows."""
        if not self.space or self.space[0] % rows:
            return None
        each, rest = self.space[0] // rows, self.space[1:]
        found: list[RowAccess] = []
        for ref, mode in self.accesses():
            reach = [(each - 1) * ref.strides[0], *[(n - 1) * s for n, s in zip(rest, ref.strides[1:], strict=True)]]
            found.append(RowAccess.of(ref, each * ref.strides[0], reach, mode != "r"))
        return found


def evolve(step: S, **changes: Any) -> S:
    """Return a step with other fields, of whichever class it is."""
    kind: Any = attrs  # evolve asks for a class that is seen to be attrs'
    found: S = kind.evolve(step, **changes)
    return found


def join_lengths(space: Sequence[int]) -> str:
    """Return lengths as text.

    >>> join_lengths((2, 3))
    '2 × 3'
    """
    return " × ".join(map(str, space))


def merged(space: Shape, strides: Sequence[Shape]) -> tuple[Shape, list[Shape]]:
    """Return a space and strides over it with as few axes as all of these strides allow, none of length 1.

    >>> merged((2, 1, 3), [(12, 12, 4), (0, 0, 4)])
    ((2, 3), [(12, 4), (0, 4)])
    """
    kept = [axis for axis, n in enumerate(space) if n != 1]
    lengths, steps = list[int](), list[list[int]]([] for _ in strides)
    for axis in kept:
        n = space[axis]
        if lengths and all(own[-1] == s[axis] * n for own, s in zip(steps, strides, strict=True)):
            lengths[-1] *= n
            for own, s in zip(steps, strides, strict=True):
                own[-1] = s[axis]
        else:
            lengths.append(n)
            for own, s in zip(steps, strides, strict=True):
                own.append(s[axis])
    return tuple(lengths), [tuple(own) for own in steps]
