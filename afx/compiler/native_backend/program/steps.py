"""Native programs: blocks of steps as frozen data that pickles, and the questions that readers ask each step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

import attrs

from afx.compiler.native_backend.program.elements import Access, Names, Ref, Root, UfuncLoop
from afx.compiler.native_backend.program.interface import Interface, Param
from afx.compiler.target import NativeTarget
from afx.core import Shape
from afx.core.primitive import Printable

# --- Steps of native programs: the questions that whoever reads a program asks each of them
#
# `Step.accesses` tells the memory that it touches, `Step.map_refs` gives the same on other memory, `Step.blocks` are
# the blocks that it runs. What follows from its form alone, such as its cost and its text, it tells itself.

S = TypeVar("S")


@attrs.frozen(eq=False, repr=False)
class RowAccess(Printable):
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


class Step(Printable):
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

    def core_reach(self, operand: int) -> list[int]:  # of calls
        """Return how many bytes the last element of an operand lies behind its first one, along axes beside its space."""
        return []

    def row_accesses(self, rows: int) -> list[RowAccess] | None:
        """Return what it touches in each of so many rows."""
        if not self.space or self.space[0] % rows:
            return None
        each, rest = self.space[0] // rows, self.space[1:]
        accesses: list[RowAccess] = []
        for k, (ref, mode) in enumerate(self.accesses()):
            reach = [(each - 1) * ref.strides[0], *[(n - 1) * s for n, s in zip(rest, ref.strides[1:], strict=True)]]
            reach += self.core_reach(k)
            accesses.append(RowAccess.of(ref, each * ref.strides[0], reach, mode != "r"))
        return accesses


def evolve(step: S, **changes: Any) -> S:
    """Return a step with other fields, of whichever class it is."""
    kind: Any = attrs  # evolve asks for a class that is seen to be attrs'
    changed: S = kind.evolve(step, **changes)
    return changed


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
    axes = [axis for axis, n in enumerate(space) if n != 1]
    lengths, steps = list[int](), list[list[int]]([] for _ in strides)
    for axis in axes:
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


# --- Native programs: blocks of steps over pointers, as frozen data that pickles
#
# A program is made in the process that runs it and printed as LLVM IR in the child process that compiles it. It names
# the inner loops of NumPy's ufuncs by symbols; their addresses are filled in when the object code is linked.


@attrs.frozen(repr=False)
class Block(Printable):
    """Straight-line program over its parameters, which overlap nowhere.

    Attributes:
        params: how many there are: inputs, outputs, captured constants.
        roots: its memory.
        steps: what runs, in order.
        arena: bytes of memory for its intermediate values.
        shared: parameters that may be the same memory.
        donated: pairs of a result and an argument that may be the same memory, element for element.
        phases: its steps in groups, where it has steps that threads share.
    """

    params: int
    roots: tuple[Root, ...]
    steps: tuple[Step, ...]
    arena: int
    shared: tuple[int, ...] = ()
    donated: tuple[tuple[int, int], ...] = ()
    phases: tuple[Phase, ...] = ()

    @property
    def is_shared(self) -> bool:
        """Whether threads share parts of its steps, or of those of the blocks within."""
        return bool(self.phases) or any(block.is_shared for step in self.steps for block in step.blocks())

    def all_steps(self) -> Iterator[Step]:
        """Yield its steps and those of the blocks within."""
        for step in self.steps:
            yield step
            for block in step.blocks():
                yield from block.all_steps()

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        return sum([step.nanoseconds for step in self.steps], 0.0)

    @property
    def loops(self) -> Iterator[UfuncLoop]:
        """The loops of NumPy that it calls."""
        return (loop for step in self.all_steps() for loop in step.loops)

    @property
    def called_params(self) -> set[int]:
        """The parameters that functions may read, whose bits may depend on strides."""
        return {self.roots[k].param for step in self.steps for k in step.called_roots} - {-1}

    def lines(self, params: Sequence[str], arena: int = 0) -> list[str]:
        """Return its steps as text, with these names of parameters; its arena begins at this offset."""
        names: dict[int, str] = {}
        for k, root in enumerate(self.roots):
            base = params[root.param] if root.param >= 0 else f"m{arena + root.offset}"
            names[k] = base if root.param < 0 or not root.offset else f"{base}_{root.offset}"
        return [line for step in self.steps for line in step.lines(names, arena)] or ["pass"]


@attrs.frozen(eq=False, repr=False)
class Phase(Printable):
    """Neighbouring steps of a block that run together.

    Attributes:
        start: the first one.
        stop: the one behind the last.
        is_shared: whether there are steps among them that are cut; others run with the first part.
    """

    start: int
    stop: int
    is_shared: bool


@attrs.frozen(eq=False, repr=False)
class Program(Printable):
    """What is compiled at once: one function for Python.

    It takes the arrays of ``params``, an arena, and where threads share its parts the memory of their team.

    Attributes:
        block: what it computes.
        params: of the block.
        releases_gil: whether other Python threads run meanwhile.
    """

    block: Block
    params: tuple[Param, ...]
    releases_gil: bool

    @property
    def interface(self) -> Interface:
        """What its calls need to know."""
        block = self.block
        calls_blas = any(step.calls_blas for step in block.all_steps())
        loops = tuple(dict.fromkeys(block.loops))
        called = frozenset(block.called_params)
        return Interface(self.params, block.arena, block.donated, called, loops, calls_blas, block.is_shared)

    def text(self, number: int) -> str:
        """Return its parameters and steps; ``p0, p1 …`` are its arrays, ``m0, m64 …`` memory by its offset.

        A nest is a loop over all its elements: ``i, j …`` count along its axes, and an index counts elements of memory.
        """
        params = [f"p{k}: {p.dtype}[{','.join(map(str, p.shape))}]" for k, p in enumerate(self.params)]
        head = f"def native_{number}({', '.join(params)}):  # pseudo-code of machine code"
        lines = self.block.lines([f"p{k}" for k in range(self.block.params)])
        return "\n".join([head, *["    " + line for line in lines]])
