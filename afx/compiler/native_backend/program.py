"""Native programs: loop nests, reductions, products and loops over pointers, as frozen data that pickles.

A program is made in the process that runs it and printed as LLVM IR in the child process that compiles it. It names the
inner loops of NumPy's ufuncs by symbols; their addresses are filled in when the object code is linked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

import attrs

from afx.compiler.native_backend.elements import Fast, Load, Number, Op, Ref, Root, UfuncLoop, Value
from afx.core.aval import Shape

__all__ = [
    "PARTS",
    "Block",
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
    "Words",
    "chunked_step",
]


@attrs.frozen
class Nest:
    """Fused elementwise operations over one iteration space.

    Attributes:
        space: lengths of the axes, neighbours merged as far as all strides allow.
        values: what is computed for each element, operands before their use.
        stores: which values are written, and where.
        quiet: floating-point warnings that its equations ignore.
        folds: values that are reduced, by which ufunc, and where to: strides are 0 along reduced axes.
        is_cut: whether it runs part by part, along its first axis.
    """

    space: Shape
    values: tuple[Value, ...]
    stores: tuple[tuple[int, Ref], ...]
    quiet: tuple[str, ...] = ()
    folds: tuple[tuple[int, str, Ref], ...] = ()
    is_cut: bool = False

    @property
    def refs(self) -> list[Ref]:
        """What it reads and writes: values that are loaded, stores, folds."""
        loads = [v.ref for v in self.values if isinstance(v, Load)]
        return [*loads, *[ref for _, ref in self.stores], *[ref for *_, ref in self.folds]]

    def on_refs(self, change: Callable[[Ref], Ref]) -> Nest:
        """Return the nest with other ones, changed in that order."""
        values = tuple([Load(change(v.ref)) if isinstance(v, Load) else v for v in self.values])
        stores = tuple([(k, change(ref)) for k, ref in self.stores])
        folds = tuple([(k, ufunc, change(ref)) for k, ufunc, ref in self.folds])
        return attrs.evolve(self, values=values, stores=stores, folds=folds)


@attrs.frozen
class Inner:
    """Inner loop of a ufunc run over strided operands: a reduction where the result has strides of 0.

    Attributes:
        loop: the ufunc's loop.
        space: lengths of the axes; the last one is the loop's own.
        operands: in the order of the loop.
        quiet: floating-point warnings that it ignores.
    """

    loop: UfuncLoop
    space: Shape
    operands: tuple[Ref, ...]
    quiet: tuple[str, ...] = ()


@attrs.frozen
class Indexed:
    """Elements whose indices arrays of integers name: read from an array, or written into one, in row-major order.

    Attributes:
        kind: ``gather`` reads elements, ``set`` and ``add`` write them.
        space: lengths of the axes.
        part: the elements that are made or given.
        whole: the array that is indexed; its strides are 0 along axes of the indices alone.
        indices: one for each indexed axis; negative ones count from its end, others outside of it are faults.
        steps: bytes between neighbours along the indexed axes.
        lengths: of the indexed axes.
        quiet: floating-point warnings that it ignores.
    """

    kind: Literal["gather", "set", "add"]
    space: Shape
    part: Ref
    whole: Ref
    indices: tuple[Ref, ...]
    steps: Shape
    lengths: Shape
    quiet: tuple[str, ...] = ()

    @property
    def operands(self) -> tuple[Ref, ...]:
        """All that it reads and writes."""
        return (self.part, self.whole, *self.indices)


@attrs.frozen
class Extreme:
    """Place of the first largest or smallest element along an axis; nan counts as both.

    Attributes:
        is_max: whether it is the largest.
        space: lengths of the axes; the last one is searched.
        x: what is searched.
        out: the indices, as int64; its last stride is 0.
    """

    is_max: bool
    space: Shape
    x: Ref
    out: Ref
    quiet: tuple[str, ...] = ()

    @property
    def operands(self) -> tuple[Ref, ...]:
        """What it reads, and what it writes."""
        return (self.x, self.out)


@attrs.frozen
class Product:
    """Call of a generalized ufunc's loop, such as that of ``np.matmul``, or the same product in tiles.

    Attributes:
        loop: its loop; None for tiles.
        sizes: the number of core calls, then the core dimensions.
        operands: with the outer stride alone.
        core_strides: strides of the core dimensions, operand by operand.
        quiet: floating-point warnings that it ignores.
        refuses: whether it marks operands without a result as invalid operations: a fault, as NumPy raises then.
    """

    loop: UfuncLoop | None
    sizes: Shape
    operands: tuple[Ref, ...]
    core_strides: Shape
    quiet: tuple[str, ...] = ()
    refuses: bool = False


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
    """

    bodies: tuple[Block, ...]
    index: int
    dtype: str
    operands: tuple[int, ...]
    outputs: tuple[int, ...]
    constants: tuple[tuple[int, ...], ...]
    arena: int


@attrs.frozen
class Words:
    """Random words: blocks of Philox4x32-10, four 32-bit words each.

    Attributes:
        keys: how many keys there are.
        blocks: how many blocks each key gives; their numbers count from 0, where ``counter`` is None.
        purpose: the last word of the counter.
        key: two words for each key, next to each other.
        out: the words of each key's blocks, next to each other.
        counter: the number of each key's only block.
    """

    keys: int
    blocks: int
    purpose: int
    key: Ref
    out: Ref
    counter: Ref | None = None
    quiet: tuple[str, ...] = ()

    @property
    def operands(self) -> tuple[Ref, ...]:
        """What it reads and writes."""
        return (self.key, self.out, *([] if self.counter is None else [self.counter]))


Leaf: TypeAlias = "Nest | Inner | Product | Indexed | Extreme | Words"
Step: TypeAlias = "Leaf | Scan | While | Choice"


@attrs.frozen
class Block:
    """Straight-line program over its parameters, which overlap nowhere.

    Attributes:
        params: how many there are: inputs, outputs, captured constants.
        roots: its memory.
        steps: what runs, in order.
        arena: bytes of memory for its intermediate values.
        shared: parameters that may be the same memory.
    """

    params: int
    roots: tuple[Root, ...]
    steps: tuple[Step, ...]
    arena: int
    shared: tuple[int, ...] = ()

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
    """Neighbouring steps of a program that run together.

    Attributes:
        start: the first one.
        stop: the one behind the last.
        is_shared: whether there are nests among them that are cut; other steps run with the first part.
    """

    start: int
    stop: int
    is_shared: bool


@attrs.frozen
class Program:
    """What is compiled at once: one function for Python.

    It takes the arrays of ``params``, an arena, and for a loop an array of three int64: from which step, up to which,
    and where it stopped. A program with phases takes such an array too: which phase, from which part, up to which.

    Attributes:
        block: what it computes; the block of a loop holds that loop alone.
        params: of the block.
        releases_gil: whether other Python threads run meanwhile.
        phases: its steps in groups, where it has nests that threads share.
    """

    block: Block
    params: tuple[Param, ...]
    releases_gil: bool
    phases: tuple[Phase, ...] = ()

    @property
    def is_loop(self) -> bool:
        """Whether it runs in chunks of steps."""
        return chunked_step(self.block) >= 0


def step_blocks(step: Step) -> tuple[Block, ...]:
    """Return the blocks that a step runs."""
    if isinstance(step, Choice):
        return step.bodies
    return (step.body,) if isinstance(step, Scan) else (step.test, step.body) if isinstance(step, While) else ()


def chunked_step(block: Block) -> int:
    """Return which step is the loop that runs in chunks, the longest one; -1 where a block has no loop."""
    lengths = [
        (step.length if isinstance(step, Scan) else 1 << 62) if isinstance(step, Scan | While) else -1
        for step in block.steps
    ]
    longest = max(lengths, default=-1)
    return lengths.index(longest) if longest >= 0 else -1
