"""Loops and branches of native programs: steps that run blocks, whose parameters are roots of the block around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs

from afx.compiler.native_backend.controls import BLOCKS, Carrying, Control
from afx.compiler.native_backend.elements import Names
from afx.compiler.native_backend.steps import BOTH, READ, WRITE
from afx.core.aval import Shape

if TYPE_CHECKING:
    from afx.compiler.native_backend.program import Block

__all__ = ["BlockLoop", "Choice", "Scan", "While", "WhileBack"]

WHILE_TURNS = 1000  # of a loop whose length is unknown, in predictions
RESIDUAL_ALIGNMENT = 8  # bytes: as much as any element needs


def _indented(lines: Sequence[str]) -> list[str]:
    return ["    " + line for line in lines]


def _alternate(
    names: Names, init: Sequence[int], carried: Sequence[int], second: Sequence[int]
) -> tuple[list[str], list[str], list[str], list[str]]:
    """Return what starts a loop, where a step finds the carry and leaves the next one, and what ends the step."""
    first, carry, other = [[names[root] for root in roots] for roots in (init, carried, second)]
    start = [f"{b} = {a}" for a, b in zip(first, carry, strict=True) if a != b]
    new = [b if b in carry else f"{a}_next" for a, b in zip(carry, other, strict=True)]
    turned = [(a, b) for a, b in zip(carry, new, strict=True) if a != b]
    turn = f"    {', '.join([a for a, _ in turned])} = {', '.join([b for _, b in turned])}"
    return start, carry, new, [turn] if turned else []


@attrs.frozen
class Scan(Carrying):
    """Loop of known length over a block.

    The body's parameters are constants, carry, elements, next carry, results; of elements and results each step gets
    its own row. The carry moves between two pieces of memory, of which the first holds the last one in the end; two carries may
    exchange theirs.

    Attributes:
        body: one step.
        length: number of steps.
        reverse: whether rows are walked from the last one.
        consts: memory of constants.
        init: memory of the first carry.
        carry: memory in which the carry ends.
        other: the second memory of the carry.
        xs: memory walked along.
        ys: memory of stacked results.
        carry_bytes: size of each carry.
        x_bytes: size of a row of each of ``xs``.
        y_bytes: size of a row of each of ``ys``.
        constants: memory of arrays that the body captured, its last parameters.
        arena: the offset of the body's arena in that of the block around it.
        quiet: floating-point warnings that it ignores as a whole.
    """

    body: Block = attrs.field(metadata=BLOCKS)
    length: int
    reverse: bool
    consts: tuple[int, ...] = attrs.field(metadata=READ)
    init: tuple[int, ...] = attrs.field(metadata=READ)
    carry: tuple[int, ...] = attrs.field(metadata=BOTH)
    other: tuple[int, ...] = attrs.field(metadata=BOTH)
    xs: tuple[int, ...] = attrs.field(metadata=READ)
    ys: tuple[int, ...] = attrs.field(metadata=WRITE)
    carry_bytes: Shape
    x_bytes: Shape
    y_bytes: Shape
    constants: tuple[int, ...] = attrs.field(metadata=READ)
    arena: int
    quiet: tuple[str, ...] = attrs.field(default=(), kw_only=True)

    @property
    def turns(self) -> int:
        """Number of steps."""
        return self.length

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        return self.length * (self.body.nanoseconds + 5)

    def lines(self, names: Names, arena: int) -> list[str]:
        """Return the loop over rows."""
        start, old, new, turn = _alternate(names, self.init, self.carry, self.other)
        xs, ys = [[names[root] + "[t]" for root in roots] for roots in (self.xs, self.ys)]
        consts, constants = [[names[root] for root in roots] for roots in (self.consts, self.constants)]
        params = [*consts, *old, *xs, *new, *ys, *constants]
        order = f"reversed(range({self.length}))" if self.reverse else f"range({self.length})"
        return [*start, f"for t in {order}:", *_indented(self.body.lines(params, arena + self.arena)), *turn]


@attrs.frozen
class While(Carrying):
    """Loop that runs while a condition holds.

    Attributes:
        test: from the condition's constants and the carry to one boolean.
        body: one step, as that of a `Scan` without elements and results.
        test_consts: memory of the condition's constants.
        consts: memory of the body's constants.
        init: memory of the first carry.
        carry: memory in which the carry ends.
        other: the second memory of the carry.
        verdict: memory of the condition.
        carry_bytes: size of each carry.
        test_constants: memory of arrays that the condition captured, its last parameters.
        constants: memory of arrays that the body captured.
        arena: the offset of the arena of condition and body.
        quiet: floating-point warnings that it ignores as a whole.
    """

    test: Block = attrs.field(metadata=BLOCKS)
    body: Block = attrs.field(metadata=BLOCKS)
    test_consts: tuple[int, ...] = attrs.field(metadata=READ)
    consts: tuple[int, ...] = attrs.field(metadata=READ)
    init: tuple[int, ...] = attrs.field(metadata=READ)
    carry: tuple[int, ...] = attrs.field(metadata=BOTH)
    other: tuple[int, ...] = attrs.field(metadata=BOTH)
    verdict: int = attrs.field(metadata=BOTH)
    carry_bytes: Shape
    test_constants: tuple[int, ...] = attrs.field(metadata=READ)
    constants: tuple[int, ...] = attrs.field(metadata=READ)
    arena: int
    quiet: tuple[str, ...] = attrs.field(default=(), kw_only=True)

    @property
    def turns(self) -> int:
        """Number of steps that are reckoned with."""
        return WHILE_TURNS

    @property
    def nanoseconds(self) -> float:
        """About how long it takes, for so many steps."""
        return WHILE_TURNS * sum([block.nanoseconds for block in self.blocks()])

    def lines(self, names: Names, arena: int) -> list[str]:
        """Return the loop and what ends it."""
        start, old, new, turn = _alternate(names, self.init, self.carry, self.other)
        consts, constants = [[names[root] for root in roots] for roots in (self.consts, self.constants)]
        test_consts, more = [[names[root] for root in roots] for roots in (self.test_consts, self.test_constants)]
        verdict = names[self.verdict]
        test = self.test.lines([*test_consts, *old, verdict, *more], arena + self.arena)
        body = self.body.lines([*consts, *old, *new, *self._rows(names), *constants], arena + self.arena)
        head = ["while True:", *_indented([*test, f"if not {verdict}: break"])]
        return [*start, *head, *_indented(body), *turn, *self._back_lines(names, arena)]

    def _rows(self, names: Names) -> list[str]:  # of loops with a way back
        return []

    def _back_lines(self, names: Names, arena: int) -> list[str]:  # of loops with a way back
        return []


@attrs.frozen
class WhileBack(While):
    """Loop that runs while a condition holds, and then back over its steps.

    The body gives residuals behind the next carry. They lie row by row in memory of the C library that grows with the
    steps. A step back takes constants, the residuals of a step, what is carried back, and where that goes.

    Attributes:
        back: one step back.
        back_init: memory of what is carried back, at first.
        back_carry: memory in which that ends.
        back_other: its second memory.
        back_bytes: size of each of these.
        residual_bytes: size of each residual.
        back_constants: memory of arrays that the step back captured, its last parameters.
        rows: memory of two int64: the address of the residuals, and how many rows there is room for.
    """

    back: Block = attrs.field(metadata=BLOCKS)
    back_init: tuple[int, ...] = attrs.field(metadata=READ)
    back_carry: tuple[int, ...] = attrs.field(metadata=BOTH)
    back_other: tuple[int, ...] = attrs.field(metadata=BOTH)
    back_bytes: Shape
    residual_bytes: Shape
    back_constants: tuple[int, ...] = attrs.field(metadata=READ)
    rows: int = attrs.field(metadata=BOTH)

    @property
    def residual_offsets(self) -> Shape:
        """Where each residual lies in a row, and behind them the size of a row."""
        found = [0]
        for size in self.residual_bytes:
            found.append(-(-(found[-1] + size) // RESIDUAL_ALIGNMENT) * RESIDUAL_ALIGNMENT)
        return tuple(found)

    def _rows(self, names: Names) -> list[str]:
        return [f"{names[self.rows]}_{k}[t]" for k in range(len(self.residual_bytes))]

    def _back_lines(self, names: Names, arena: int) -> list[str]:
        """Return the way back over the steps."""
        start, old, new, turn = _alternate(names, self.back_init, self.back_carry, self.back_other)
        consts, constants = [[names[root] for root in roots] for roots in (self.consts, self.back_constants)]
        inside = self.back.lines([*consts, *self._rows(names), *old, *new, *constants], arena + self.arena)
        return [*start, "for t in reversed(steps):", *_indented(inside), *turn]


@attrs.frozen
class Choice(Control):
    """One of several blocks: each takes operands, outputs and its own captured arrays.

    Attributes:
        bodies: the blocks.
        index: memory of the number of the block that runs; beyond the last one, the last one does.
        dtype: of that number.
        operands: memory that each block reads.
        outputs: memory that each block writes.
        constants: of each block, memory of arrays that it captured.
        arena: the offset of the blocks' arena.
        quiet: floating-point warnings that it ignores as a whole.
    """

    bodies: tuple[Block, ...] = attrs.field(metadata=BLOCKS)
    index: int = attrs.field(metadata=READ)
    dtype: str
    operands: tuple[int, ...] = attrs.field(metadata=READ)
    outputs: tuple[int, ...] = attrs.field(metadata=WRITE)
    constants: tuple[tuple[int, ...], ...] = attrs.field(metadata=READ)
    arena: int
    quiet: tuple[str, ...] = attrs.field(default=(), kw_only=True)

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        return 5 + max([block.nanoseconds for block in self.bodies])

    def lines(self, names: Names, arena: int) -> list[str]:
        """Return the cases."""
        lines, given = [f"match {names[self.index]}:"], [names[root] for root in (*self.operands, *self.outputs)]
        for k, (body, constants) in enumerate(zip(self.bodies, self.constants, strict=True)):
            inner = body.lines([*given, *[names[root] for root in constants]], arena + self.arena)
            lines += _indented([f"case {k}:", *_indented(inner)])
        return lines


@attrs.frozen
class BlockLoop(Control):
    """Loop over blocks of the elements or rows of a space, as many in each but for the last one.

    Its steps write different parts of arrays, so that threads may share them; those of a loop that is not cut may also
    add to one array, in their order.

    Attributes:
        bodies: a step; where the last one is shorter, that one too.
        length: number of steps.
        roots: of each body, the memory of its parameters.
        strides: of each body, by how many bytes the parameters of one step lie behind those of the step before.
        arena: the offset of the bodies' arena; of a loop that is cut, each thread has one of its own behind it.
        total: how many elements it runs over.
        is_cut: whether it runs part by part.
    """

    bodies: tuple[Block, ...] = attrs.field(metadata=BLOCKS)
    length: int
    roots: tuple[tuple[int, ...], ...] = attrs.field(metadata=BOTH)
    strides: tuple[Shape, ...]
    arena: int
    total: int
    is_cut: bool = False

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
        return max([body.arena for body in self.bodies])

    @property
    def has_turns(self) -> bool:
        """Whether it is a loop of the program: it is one over parts of arrays."""
        return False

    def repeated_blocks(self) -> tuple[Block, ...]:
        """Return the block of all steps but the last one."""
        return self.bodies[:1]

    @property
    def turns(self) -> int:
        """Number of steps."""
        return self.length

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        return self.length * self.bodies[0].nanoseconds

    @property
    def called_roots(self) -> set[int]:
        """The roots that loops of NumPy read in its blocks."""
        pairs = [(body.called_params, own) for body, own in zip(self.bodies, self.roots, strict=True)]
        return {own[k] for called, own in pairs for k in called}

    def lines(self, names: Names, arena: int) -> list[str]:
        """Return the loop; the last block, where it is shorter, runs the same lines."""
        pairs = zip(self.roots[0], self.strides[0], strict=True)
        params = [f"{names[root]}[b]" if stride else names[root] for root, stride in pairs]
        comment = "  # shared by threads" if self.is_cut else ""
        inside = self.bodies[0].lines(params, arena + self.arena)
        return [f"for b in {self.length} blocks:{comment}", *_indented(inside)]
