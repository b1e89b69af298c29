"""Memory of native blocks: what they are built of, slots and lifetimes of values, and which of them may share memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from afx.compiler.native_backend.program.elements import Fast, Load, Number, Op, Ref, Root, UfuncLoop, Value
from afx.compiler.native_backend.program.leaves import Nest
from afx.compiler.native_backend.program.steps import Block, Step
from afx.compiler.schedule.buffers import Arena
from afx.compiler.schedule.schedule import (
    Branch,
    Buffer,
    Call,
    Fused,
    Instruction,
    Loop,
    Operand,
    Schedule,
    View,
)
from afx.core import DType, Shape
from afx.core.primitive import Printable

# --- Items: what a block is built of, steps that run together and groups of calls that share one loop


@attrs.define(eq=False)
class Item:
    """Steps that run together, and the memory that they read and write, by the index of its owner."""

    steps: list[Step] = attrs.field(factory=list)
    reads: set[int] = attrs.field(factory=set)
    writes: list[int] = attrs.field(factory=list)
    arena: int = 0  # bytes of scratch that it needs beside

    @property
    def touched(self) -> set[int]:
        """All memory that they read or write."""
        return self.reads.union(self.writes)


@attrs.define(eq=False)
class Group(Item):
    """Fused calls over one space."""

    space: Shape = ()
    quiet: tuple[str, ...] | None = None
    values: list[Value] = attrs.field(factory=list)
    known: dict[Any, int] = attrs.field(factory=dict)
    folds: list[tuple[int, str, Ref]] = attrs.field(factory=list)  # as in `Nest`
    parts: list[tuple[int, Ref]] = attrs.field(factory=list)  # values that are also written into parts of other arrays
    made: dict[int, int] = attrs.field(factory=dict)  # buffer index to the number of its value

    def add(self, value: Value) -> int:
        """Return the number of a value, entered once."""
        if value not in self.known:
            self.known[value] = len(self.values)
            self.values.append(value)
        return self.known[value]


Recipe: TypeAlias = "Callable[[Group, Callable[[Operand], int]], int]"
"""Adds an operation to a group, given what gives the numbers of its operands there."""


def recipe_of(
    out: Buffer,
    operands: Sequence[Operand],
    quiet: tuple[str, ...] | None,
    make: Callable[[Group, list[int]], int],
    known: Container[int],
) -> dict[int, Recipe]:
    """Return how a value is made, where loops that read it better read its only array, which is no larger, and make it again.

    So it is with signs, sizes and choices between numbers, which raise no errors; but not with what is made of such ones,
    whose indices are known: loops would make whole chains again.
    """
    arrays = [x for x in operands if isinstance(x, Buffer)]
    is_cheap = quiet is None and len(arrays) == 1 and arrays[0].dtype.itemsize <= out.dtype.itemsize
    is_cheap = is_cheap and arrays[0].index not in known
    return {out.index: lambda group, number_of: make(group, [number_of(x) for x in operands])} if is_cheap else {}


def call_of(loop: UfuncLoop | Fast | str, dtype: str) -> Callable[[Group, list[int]], int]:
    """Return a function that adds an operation to a group."""
    return lambda group, args: group.add(Op(loop, dtype, tuple(args)))


READ: dict[type[Any], tuple[str, ...]] = {
    Call: ("operands",),
    View: ("source",),
    Fused: ("sliced", "whole"),
    Branch: ("operands", "index"),
    Loop: ("tests", "consts", "carry", "xs", "carry_back"),
}
MADE: dict[type[Any], tuple[str, ...]] = {
    Call: ("outputs",),
    View: ("out",),
    Fused: ("outputs",),
    Branch: ("outputs",),
    Loop: ("outputs", "ys"),
}


def made_by(instruction: Instruction) -> tuple[Buffer, ...]:
    """Return the buffers that an instruction defines."""
    return tuple(_buffers_of(instruction, MADE))


def reads_of(instruction: Instruction) -> list[int]:
    """Return the numbers of the buffers that an instruction reads."""
    return [x.index for x in _buffers_of(instruction, READ)]


def _buffers_of(instruction: Instruction, fields: Mapping[type[Any], tuple[str, ...]]) -> list[Buffer]:
    values: list[Any] = []
    for name in fields.get(type(instruction), ()):
        value = getattr(instruction, name)
        values += value if isinstance(value, tuple) else (value,)
    return [x for x in values if isinstance(x, Buffer)]


def with_views_first(instructions: Iterable[Instruction]) -> list[Instruction]:
    """Return instructions with each view right behind what it looks at: one that copies keeps no loops apart then."""
    ordered = list[Instruction]()
    waiting: dict[int, list[View]] = {}
    known, made = list(instructions), set[int]()
    for instruction in known:
        made.update([x.index for x in made_by(instruction)])
        if isinstance(instruction, View):
            waiting.setdefault(instruction.source.index, []).append(instruction)

    def add(instruction: Instruction) -> None:
        ordered.append(instruction)
        for x in made_by(instruction):
            for view in waiting.pop(x.index, ()):
                add(view)

    for source in [index for index in waiting if index not in made]:
        for view in waiting.pop(source):
            add(view)
    for instruction in known:
        if not isinstance(instruction, View):
            add(instruction)
    return ordered


# --- Memory of native blocks: slots of values, their lifetimes in the arena, and iteration spaces with merged axes


@attrs.frozen(repr=False)
class Location(Printable):
    """Strided elements in the memory of an owner.

    Attributes:
        owner: the index of the buffer that owns the memory.
        offset: bytes to the first element.
        strides: bytes between neighbours along each axis.
        shape: lengths of the axes.
        dtype: NumPy's name without byte order.
    """

    owner: int
    offset: int
    strides: Shape
    shape: Shape
    dtype: str

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * int(self.dtype[1:])

    @property
    def ref(self) -> Ref:
        """Its elements over its own axes."""
        return Ref(self.owner, self.dtype, self.offset, self.strides)

    def over(self, space: Shape) -> Ref:
        """Return its elements over a space that it broadcasts to."""
        return Ref(self.owner, self.dtype, self.offset, broadcast(self, space))


def dtype_name(dtype: DType) -> str:
    """Return a dtype's name without byte order.

    >>> dtype_name(np.dtype("float32")), dtype_name(np.dtype(bool))
    ('f4', 'b1')
    """
    return dtype.str[1:]


def dense(shape: Shape, size: int) -> Shape:
    """Return the strides of row-major memory.

    >>> dense((2, 3), 4)
    (12, 4)
    """
    strides: list[int] = []
    for length in reversed(shape):
        strides.append(size)
        size *= length
    return tuple(reversed(strides))


def broadcast(location: Location, space: Shape) -> Shape:
    """Return strides over a space that an operand broadcasts to.

    >>> broadcast(Location(0, 0, (12, 4), (1, 3), "f4"), (5, 7, 3))
    (0, 0, 4)
    """
    lead = len(space) - len(location.shape)
    pairs = zip(location.shape, location.strides, space[lead:], strict=True)
    return (0,) * lead + tuple([0 if n == 1 and m != 1 else s for n, s, m in pairs])


def of_array(location: Location) -> Any:
    """Return an array of a slot's shape and strides, whose elements must not be read."""
    low = sum([min(0, (n - 1) * s) for n, s in zip(location.shape, location.strides, strict=True)])
    high = sum([max(0, (n - 1) * s) for n, s in zip(location.shape, location.strides, strict=True)])
    memory = np.empty(high - low + int(location.dtype[1:]), np.uint8)
    return np.ndarray(location.shape, location.dtype, memory, -low, location.strides)


def part_of(location: Location, array: Any, view: Any) -> Location:
    """Return the location of a view of an array that stands for a location."""
    offset = view.__array_interface__["data"][0] - array.__array_interface__["data"][0]
    return Location(location.owner, location.offset + offset, view.strides, view.shape, dtype_name(view.dtype))


def look(location: Location, view: Callable[[Any], Any]) -> Location:
    """Return the location of the view that a function takes of an array which lies there.

    >>> look(Location(0, 0, (12, 4), (2, 3), "f4"), lambda x: x[1, ::2])
    Location(owner=0, offset=12, strides=(8,), shape=(2,), dtype='f4')
    """
    x = of_array(location)
    return part_of(location, x, view(x))


def place_memory(items: Sequence[Item], params: Sequence[int], sizes: dict[int, int]) -> Block:
    """Return the block of steps, whose memory lies in an arena from the first write to the last use.

    Args:
        items: what runs, in order; each gets the offset of its scratch in the arena.
        params: owners that are parameters of the block.
        sizes: bytes of each owner.
    """
    arena, roots = Arena(), [Root(k) for k in range(len(params))]
    numbers = {owner: k for k, owner in enumerate(params)}
    last: dict[int, int] = {}
    for k, item in enumerate(items):
        for owner in (*item.reads, *item.writes):
            last[owner] = k
    for k, item in enumerate(items):
        empty = sorted([owner for owner in item.reads if owner not in numbers and not sizes[owner]])
        for owner in (*empty, *item.writes):
            if owner not in numbers:
                numbers[owner] = len(roots)
                roots.append(Root(-1, arena.take(sizes[owner])))
        if item.arena:
            offset = arena.take(item.arena)
            arena.give(offset, item.arena)
            item.arena = offset
        for owner in item.reads | set(item.writes):
            if last[owner] == k and roots[numbers[owner]].param < 0:
                arena.give(roots[numbers[owner]].offset, sizes[owner])
    steps = [step.place(numbers, item.arena) for item in items for step in item.steps]
    return Block(len(params), tuple(roots), tuple(steps), arena.size)


def copy_nest(out: Location, x: Location, quiet: tuple[str, ...] = ()) -> Nest:
    """Return the nest that copies an operand, broadcast and cast, to a memory slot."""
    load = Load(x.over(out.shape))
    values: list[Value] = [load] if x.dtype == out.dtype else [load, Op("cast", out.dtype, (0,))]
    return Nest(out.shape, tuple(values), ((len(values) - 1, out.ref),), quiet)


def fill_nest(out: Location, value: complex = 0) -> Nest:
    """Return the nest that fills memory with a number."""
    number = Number(np.dtype(out.dtype).type(value).item(), out.dtype)
    return Nest(out.shape, (number,), ((0, out.ref),))


# --- Alias analysis: which memory steps may share, so that results take that of arguments, and carries stay in place
#
# A kernel of which an argument is half overwritten can neither refuse nor be run again by NumPy. So programs with
# steps that may fault, such as those with indices, take new memory for their results.


def keep_in_place(block: Block, carries: Sequence[tuple[int, int, int]]) -> tuple[Block, set[int]]:
    """Return the body of a loop without copies of carries that can stay where they are, and which of them those are.

    A carry stays where one step copies it whole, and the steps behind it read the copy alone, or only read.

    Args:
        block: the body.
        carries: for each its parameter, that of the next one, and its bytes.
    """
    in_place: set[int] = set()
    touching = _steps_by_root(block)
    for number, (old, new, nbytes) in enumerate(carries):
        writers = touching.get(new, [])
        if not writers or not _copies(block.steps[writers[0]], old, new, nbytes):
            continue
        first = writers[0]
        if len(writers) > 1 and touching[old][-1] > first:
            continue
        in_place.add(number)
        shared = (*block.shared, old, new)
        block = attrs.evolve(block, steps=(*block.steps[:first], *block.steps[first + 1 :]), shared=shared)
        touching = _steps_by_root(block)
    return block, in_place


def rotate_carries(block: Block, carries: Sequence[tuple[int, int, int]]) -> tuple[Block, dict[int, int]]:
    """Return the body of a loop without copies of carries to others, and by whose memory each such pair takes turns.

    Where one carry becomes the old value of another one, which nothing but the step that makes the latter anew reads,
    element by element, the two exchange their memory: as in steps of second order, which know the state before.

    Args:
        block: the body.
        carries: for each its parameter, that of the next one, and its bytes.
    """
    partners: dict[int, int] = {}
    touching = _steps_by_root(block)
    for i, (old, new, nbytes) in enumerate(carries):
        for j, (before, copied, size) in enumerate(carries):
            if i == j or size != nbytes or {i, j} & partners.keys():
                continue
            copies, readers = touching.get(copied, []), touching.get(before, [])
            is_copied = len(copies) == 1 and _copies(block.steps[copies[0]], old, copied, nbytes)
            if not is_copied or len(readers) != 1 or not _can_overwrite(block, new, before):
                continue
            steps = (*block.steps[: copies[0]], *block.steps[copies[0] + 1 :])
            shared, donated = (*block.shared, old, copied), (*block.donated, (new, before))
            block = attrs.evolve(block, steps=steps, shared=shared, donated=donated)
            touching = _steps_by_root(block)
            partners |= {i: j, j: i}
    return block, partners


def _steps_by_root(block: Block) -> dict[int, list[int]]:
    """Return which steps touch each root, in their order."""
    steps: dict[int, list[int]] = {}
    for k, step in enumerate(block.steps):
        for root in step.touched:
            steps.setdefault(root, []).append(k)
    return steps


def _copies(step: Step, old: int, new: int, nbytes: int) -> bool:
    """Tell whether a step copies one parameter to another, and does nothing else."""
    if not isinstance(step, Nest) or step.folds or len(step.values) != 1 or len(step.stores) != 1:
        return False
    (value,), ((_, target),) = step.values, step.stores
    if not isinstance(value, Load) or (value.ref.root, target.root) != (old, new):
        return False
    size, lies = int(target.dtype[1:]), dense(step.space, int(target.dtype[1:]))
    whole = size
    for n in step.space:
        whole *= n
    same = value.ref.offset == target.offset == 0 and value.ref.strides == target.strides == lies
    return same and value.ref.dtype == target.dtype and whole == nbytes


def donate_memory(block: Block, schedule: Schedule) -> Block:
    """Return a program's block that says which results may be the memory of which arguments.

    NumPy's plan has chosen them; here those are left whose every element is read before, or where, it is written.
    """
    if any(step.may_fault for step in block.all_steps()) or any(step.has_turns for step in block.steps):
        return block
    pairs = [pair for pair in _chosen(schedule) if _can_overwrite(block, *pair)]
    return attrs.evolve(block, donated=tuple(pairs))


def _chosen(schedule: Schedule) -> list[tuple[int, int]]:
    """Return the parameters of a program that NumPy's plan writes into others: results and arguments."""
    given = {b.index: b.location for b in schedule.donated}
    results = [r.operand.index for r in schedule.results]
    return [
        (len(schedule.inputs) + k, given[index])
        for k, index in enumerate(results)
        if index in given and results.count(index) == 1
    ]


def _can_overwrite(block: Block, result: int, argument: int) -> bool:
    """Tell whether nothing reads an element of an argument once that of the result is written."""
    first = next((k for k, step in enumerate(block.steps) if result in step.touched), -1)
    if first < 0 or any(argument in step.touched for step in block.steps[first + 1 :]):
        return False
    step = block.steps[first]
    return argument not in step.touched or (isinstance(step, Nest) and _is_elementwise(step, result, argument))


def _is_elementwise(nest: Nest, result: int, argument: int) -> bool:
    """Tell whether a nest reads from an argument what it writes to a result, element by element, and in one loop."""
    if any(op.is_call for op in nest.operations):
        return False
    targets = [ref for ref in nest.refs if ref.root == result]
    stores = [ref for _, ref in nest.stores if ref.root == result]
    if len(targets) != 1 or len(stores) != 1:
        return False
    read = [ref for ref in nest.refs if ref.root == argument]
    return all(attrs.evolve(ref, root=result) == targets[0] for ref in read)
