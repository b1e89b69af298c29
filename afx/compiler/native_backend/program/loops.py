"""Loops and branches of native programs: steps that run blocks, whose parameters are memory of the block around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

import attrs

from afx.compiler.native_backend.program.elements import Access, Names, Ref
from afx.compiler.native_backend.program.steps import Block, Step, evolve
from afx.core import Shape
from afx.core.primitive import Printable

WHILE_TURNS = 1000  # of a loop whose length is unknown, in predictions


@attrs.frozen(repr=False)
class Arg(Printable):
    """Memory that a block takes as a parameter.

    Attributes:
        roots: number of the root in the block around it, or of two that are taken by turns.
        stride: by how many bytes it moves on from turn to turn.
        offset: bytes from there.
    """

    roots: tuple[int, ...]
    stride: int = 0
    offset: int = 0

    def text(self, names: Names, number: str) -> str:
        """Return its name, in the turn of a number."""
        name = names[self.roots[0]]
        return f"{name}{f'_{self.offset}' if self.offset else ''}{f'[{number}]' if self.stride else ''}"


@attrs.frozen(repr=False)
class Body(Printable):
    """A block and the memory that it takes.

    Attributes:
        block: what runs.
        args: its parameters, in order.
    """

    block: Block
    args: tuple[Arg, ...]

    def lines(self, names: Names, arena: int, number: str = "t") -> list[str]:
        """Return the block as text, indented."""
        params = [arg.text(names, number) for arg in self.args]
        return _indented(self.block.lines(params, arena))


def _as_tuple(roots: int | tuple[int, ...] | None) -> tuple[int, ...]:
    return roots if isinstance(roots, tuple) else () if roots is None else (roots,)


def _indented(lines: Sequence[str]) -> list[str]:
    return ["    " + line for line in lines]


@attrs.frozen(eq=False, repr=False)
class Control(Step):
    """A step that runs blocks.

    Attributes:
        bodies: the blocks, with their memory.
        arena: the offset of the blocks' arena in that of the block around them.
        quiet: floating-point warnings that it ignores as a whole.
        own: the names of other fields that hold numbers of roots.
    """

    own: ClassVar[tuple[str, ...]] = ()
    bodies: tuple[Body, ...]
    arena: int = attrs.field(default=0, kw_only=True)
    quiet: tuple[str, ...] = attrs.field(default=(), kw_only=True)
    has_turns = True

    def accesses(self) -> list[Access]:
        """Return its own memory, and that which its blocks may change."""
        args = [arg.roots for body in self.bodies for arg in body.args]
        own = [_as_tuple(getattr(self, name)) for name in self.own]
        return [Access(Ref(root, "", 0, ()), "a") for roots in (*own, *args) for root in roots]

    def map_refs(self, change: Callable[[Ref], Ref]) -> Self:
        """Return the same with other memory, in the order of its accesses."""

        def changed(roots: Any) -> Any:
            if isinstance(roots, int):
                return change(Ref(roots, "", 0, ())).root
            return roots and tuple(map(changed, roots))

        own = {name: changed(getattr(self, name)) for name in self.own}
        args = [[attrs.evolve(arg, roots=changed(arg.roots)) for arg in body.args] for body in self.bodies]
        bodies = [attrs.evolve(body, args=tuple(new)) for body, new in zip(self.bodies, args, strict=True)]
        return evolve(self, bodies=tuple(bodies), **own)

    def place(self, numbers: Mapping[int, int], arena: int) -> Self:
        """Return the same in its block."""
        return evolve(self.with_roots(numbers), arena=arena)

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks that it runs."""
        return tuple([body.block for body in self.bodies])

    def map_blocks(self, change: Callable[[Block], Block]) -> Self:
        """Return the same with other blocks."""
        return evolve(self, bodies=tuple([attrs.evolve(body, block=change(body.block)) for body in self.bodies]))

    @property
    def called_roots(self) -> set[int]:
        """All of its roots."""
        return {*self.touched}


@attrs.frozen(repr=False)
class Loop(Control):
    """Loop over a block: of known length, while a condition holds, or back over the rows that such a loop has left.

    The block takes constants, the carry, elements, where the next carry goes, and results; of elements and results each
    turn gets its own row. The carry moves between two pieces of memory, of which the first holds the last one in the
    end; two carries may exchange theirs.

    Attributes:
        bodies: a turn; in front of it the condition, where there is one.
        length: number of turns; None where a condition or rows decide.
        reverse: whether rows are walked from the last one.
        init: memory of the first carry.
        carry: memory in which the carry ends.
        other: the second memory of the carry.
        carry_bytes: size of each carry.
        verdict: memory of the condition.
        rows: memory of three int64: the address of rows of residuals in memory of the C library, which grows with the
            turns of a loop with a condition; how many there is room for; how many there are in the end.
    """

    own: ClassVar[tuple[str, ...]] = ("init", "carry", "other", "verdict", "rows")
    length: int | None
    reverse: bool
    init: tuple[int, ...]
    carry: tuple[int, ...]
    other: tuple[int, ...]
    carry_bytes: Shape
    verdict: int | None = None
    rows: int | None = None

    @property
    def residuals(self) -> tuple[Arg, ...]:
        """What its block takes of each row of residuals."""
        return tuple([arg for body in self.bodies for arg in body.args if arg.roots == (self.rows,)])

    @property
    def turns(self) -> int:
        """Number of turns that are reckoned with."""
        return WHILE_TURNS if self.length is None else self.length

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        return self.turns * (sum([block.nanoseconds for block in self.blocks()]) + 5)

    def lines(self, names: Names, arena: int) -> list[str]:
        """Return the loop, with what starts it, and what ends each turn."""
        init, carry, other = [[names[root] for root in roots] for roots in (self.init, self.carry, self.other)]
        new = [b if b in carry else f"{a}_next" for a, b in zip(carry, other, strict=True)]
        known, arena = {**names, **dict(zip(self.other, new, strict=True))}, arena + self.arena
        turned = [(a, b) for a, b in zip(carry, new, strict=True) if a != b]
        turn = f"    {', '.join([a for a, _ in turned])} = {', '.join([b for _, b in turned])}"
        return [
            *[f"{b} = {a}" for a, b in zip(init, carry, strict=True) if a != b],
            *self._head(known, arena),
            *self.bodies[-1].lines(known, arena),
            *([turn] if turned else []),
        ]

    def _head(self, names: Names, arena: int) -> list[str]:
        """Return what begins each turn."""
        if self.verdict is not None:
            return ["while True:", *self.bodies[0].lines(names, arena), f"    if not {names[self.verdict]}: break"]
        turns = "steps" if self.length is None else f"range({self.length})"
        return [f"for t in {f'reversed({turns})' if self.reverse else turns}:"]


@attrs.frozen(repr=False)
class Choice(Control):
    """One of several blocks.

    Attributes:
        bodies: the blocks.
        index: memory of the number of the block that runs; beyond the last one, the last one does.
        dtype: of that number.
    """

    own: ClassVar[tuple[str, ...]] = ("index",)
    index: int
    dtype: str

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        return 5 + max([block.nanoseconds for block in self.blocks()])

    def lines(self, names: Names, arena: int) -> list[str]:
        """Return the cases."""
        lines = [f"match {names[self.index]}:"]
        for k, body in enumerate(self.bodies):
            lines += _indented([f"case {k}:", *body.lines(names, arena + self.arena)])
        return lines


@attrs.frozen(repr=False)
class BlockLoop(Control):
    """Loop over blocks of the elements or rows of a space, as many in each but for the last one.

    Its steps write different parts of arrays, so that threads may share them; those of a loop that is not cut may also
    add to one array, in their order.

    Attributes:
        bodies: a step; where the last one is shorter, that one too.
        length: number of steps.
        total: how many elements it runs over.
        is_cut: whether it runs part by part, each thread in an arena of its own.
    """

    length: int
    total: int
    is_cut: bool = False
    has_turns = False

    @property
    def parts(self) -> int:
        """Number of steps."""
        return self.length

    @property
    def elements(self) -> int:
        """How many elements it runs over."""
        return self.total

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena of a step."""
        return max([block.arena for block in self.blocks()])

    def repeated_blocks(self) -> tuple[Block, ...]:
        """Return the block of all steps but the last one."""
        return self.blocks()[:1]

    @property
    def turns(self) -> int:
        """Number of steps."""
        return self.length

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        return self.length * self.bodies[0].block.nanoseconds

    @property
    def called_roots(self) -> set[int]:
        """The roots that loops of NumPy read in its blocks."""
        return {root for body in self.bodies for k in body.block.called_params for root in body.args[k].roots}

    def lines(self, names: Names, arena: int) -> list[str]:
        """Return the loop; the last block, where it is shorter, runs the same lines."""
        comment = "  # shared by threads" if self.is_cut else ""
        return [f"for b in {self.length} blocks:{comment}", *self.bodies[0].lines(names, arena + self.arena, "b")]
