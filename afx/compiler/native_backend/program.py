"""Native programs: loop nests, reductions, products and loops over pointers, as frozen data that pickles.

A program is made in the process that runs it and printed as LLVM IR in the child process that compiles it. It names the
inner loops of NumPy's ufuncs by symbols; their addresses are filled in when the object code is linked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import attrs

from afx.compiler.native_backend.elements import Fast, Load, Number, Op, Ref, Root, UfuncLoop, Value
from afx.compiler.native_backend.leaves import Extreme, Indexed, Inner, Leaf, Nest, Product, Words
from afx.core.aval import Shape

__all__ = [
    "PARTS",
    "Block",
    "BlockLoop",
    "Choice",
    "Extreme",
    "Fast",
    "Indexed",
    "Inner",
    "Leaf",
    "Load",
    "Nest",
    "Number",
    "Op",
    "Param",
    "Phase",
    "Product",
    "Program",
    "Ref",
    "Root",
    "Scan",
    "Step",
    "UfuncLoop",
    "Value",
    "While",
    "WhileBack",
    "Words",
    "loops_of",
    "step_blocks",
]


RESIDUAL_ALIGNMENT = 8  # bytes: as much as any element needs


@attrs.frozen
class Scan:
    """Loop of known length over a block.

    The body's parameters are constants, carry, elements, next carry, results; of elements and results each step gets
    its own row. The carry moves between two pieces of memory, of which the first holds the last one in the end.

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

    body: Block
    length: int
    reverse: bool
    consts: tuple[int, ...]
    init: tuple[int, ...]
    carry: tuple[int, ...]
    other: tuple[int, ...]
    xs: tuple[int, ...]
    ys: tuple[int, ...]
    carry_bytes: Shape
    x_bytes: Shape
    y_bytes: Shape
    constants: tuple[int, ...]
    arena: int
    quiet: tuple[str, ...] = attrs.field(default=(), kw_only=True)


@attrs.frozen
class While:
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

    test: Block
    body: Block
    test_consts: tuple[int, ...]
    consts: tuple[int, ...]
    init: tuple[int, ...]
    carry: tuple[int, ...]
    other: tuple[int, ...]
    verdict: int
    carry_bytes: Shape
    test_constants: tuple[int, ...]
    constants: tuple[int, ...]
    arena: int
    quiet: tuple[str, ...] = attrs.field(default=(), kw_only=True)


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

    back: Block
    back_init: tuple[int, ...]
    back_carry: tuple[int, ...]
    back_other: tuple[int, ...]
    back_bytes: Shape
    residual_bytes: Shape
    back_constants: tuple[int, ...]
    rows: int

    @property
    def residual_offsets(self) -> Shape:
        """Where each residual lies in a row, and behind them the size of a row."""
        found = [0]
        for size in self.residual_bytes:
            found.append(-(-(found[-1] + size) // RESIDUAL_ALIGNMENT) * RESIDUAL_ALIGNMENT)
        return tuple(found)


@attrs.frozen
class Choice:
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

    bodies: tuple[Block, ...]
    index: int
    dtype: str
    operands: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: tuple[tuple[int, ...], ...]
    arena: int
    quiet: tuple[str, ...] = attrs.field(default=(), kw_only=True)


@attrs.frozen
class BlockLoop:
    """Loop over blocks of the elements or rows of a space, as many in each but for the last one.

    Its steps write different parts of arrays, so that threads may share them; those of a loop that is not cut may also
    add to one array, in their order.

    Attributes:
        bodies: a step; where the last one is shorter, that one too.
        length: number of steps.
        roots: of each body, the memory of its parameters.
        strides: of each body, by how many bytes the parameters of one step lie behind those of the step before.
        arena: the offset of the bodies' arena; of a loop that is cut, each thread has one of its own behind it.
        elements: how many elements it runs over.
        is_cut: whether it runs part by part.
    """

    bodies: tuple[Block, ...]
    length: int
    roots: tuple[tuple[int, ...], ...]
    strides: tuple[Shape, ...]
    arena: int
    elements: int
    is_cut: bool = False

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena of a step."""
        return max([body.arena for body in self.bodies])


Step: TypeAlias = "Leaf | Scan | While | Choice | BlockLoop"


@attrs.frozen
class Block:
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
        return bool(self.phases) or any(block.is_shared for step in self.steps for block in step_blocks(step))

    def all_steps(self) -> Iterator[Step]:
        """Yield its steps and those of the blocks within."""
        for step in self.steps:
            yield step
            for block in step_blocks(step):
                yield from block.all_steps()


@attrs.frozen
class Param:
    """Array that the program's function takes from Python.

    Attributes:
        shape: its lengths.
        dtype: as `Ref.dtype`.
        checked: whether it comes from outside, so that type, layout and shape are looked at in each call.
    """

    shape: Shape
    dtype: str
    checked: bool


PARTS = 8  # of each nest that is cut, shared out among threads


@attrs.frozen
class Phase:
    """Neighbouring steps of a block that run together.

    Attributes:
        start: the first one.
        stop: the one behind the last.
        is_shared: whether there are steps among them that are cut; others run with the first part.
    """

    start: int
    stop: int
    is_shared: bool


@attrs.frozen
class Program:
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


def step_blocks(step: Step) -> tuple[Block, ...]:
    """Return the blocks that a step runs."""
    if isinstance(step, Choice | BlockLoop):
        return step.bodies
    if isinstance(step, WhileBack):
        return (step.test, step.body, step.back)
    return (step.body,) if isinstance(step, Scan) else (step.test, step.body) if isinstance(step, While) else ()


def loops_of(block: Block) -> Iterator[UfuncLoop]:
    """Yield the loops of NumPy that a block calls."""
    for step in block.all_steps():
        if isinstance(step, Nest):
            names = [v.name for v in step.values if isinstance(v, Op)]
            loops = [name.loop if isinstance(name, Fast) else name for name in names]
            yield from [loop for loop in loops if isinstance(loop, UfuncLoop)]
        elif isinstance(step, Inner | Product) and step.loop is not None:
            yield step.loop
