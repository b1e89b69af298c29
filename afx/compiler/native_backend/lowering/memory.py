"""Memory of native blocks: slots of values, their lifetimes in the arena, and iteration spaces with merged axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

import attrs
import numpy as np

from afx.compiler.arena import Arena
from afx.compiler.native_backend.llvm.step import on_roots
from afx.compiler.native_backend.program import (
    BlockLoop,
    Choice,
    Extreme,
    Indexed,
    Inner,
    Load,
    Nest,
    Op,
    Ref,
    Root,
    Scan,
    Step,
    Value,
    While,
    WhileBack,
)
from afx.core.aval import Shape
from afx.core.dtypes import DType

__all__ = [
    "Location",
    "broadcast",
    "copy_nest",
    "dense",
    "dtype_name",
    "finish_steps",
    "is_void",
    "merge_axes",
    "merged",
    "of_array",
    "part_of",
    "place_memory",
]


class Item(Protocol):
    """What memory is placed for."""

    steps: list[Step]
    reads: set[int]
    writes: list[int]
    arena: int


@attrs.frozen
class Location:
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
    found: list[int] = []
    for length in reversed(shape):
        found.append(size)
        size *= length
    return tuple(reversed(found))


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


def place_memory(
    items: Sequence[Item], params: Sequence[int], sizes: dict[int, int], arena: Arena
) -> tuple[list[Root], dict[int, int]]:
    """Return the roots of a block and, for each owner of memory, the number of its root.

    Args:
        items: what runs, in order; each gets the offset of its scratch in ``arena``.
        params: owners that are parameters of the block.
        sizes: bytes of each owner.
        arena: where all others lie, from their first write to their last use.
    """
    roots = [Root(k) for k in range(len(params))]
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
    return roots, numbers


def finish_steps(items: Sequence[Item], numbers: dict[int, int], arena: Arena) -> list[Step]:
    """Return the steps in order, with roots for owners and axes merged."""
    return [_finish(step, numbers, item.arena) for item in items for step in item.steps]


def _finish(step: Step, numbers: dict[int, int], arena: int) -> Step:
    def roots(owners: Sequence[int]) -> Shape:
        return tuple([numbers[owner] for owner in owners])

    if isinstance(step, BlockLoop):
        return attrs.evolve(step, arena=arena, roots=tuple(map(roots, step.roots)))
    if not isinstance(step, Scan | While | Choice):
        moved = on_roots(step, numbers)
        return (
            merge_axes(moved)
            if isinstance(moved, Nest)
            else _merge_indexed(moved)
            if isinstance(moved, Indexed)
            else moved
        )
    if isinstance(step, Choice):
        constants = tuple(map(roots, step.constants))
        index, operands, outputs = numbers[step.index], roots(step.operands), roots(step.outputs)
        return attrs.evolve(step, index=index, operands=operands, outputs=outputs, constants=constants, arena=arena)
    own = ("xs", "ys") if isinstance(step, Scan) else ("test_consts", "test_constants")
    names = ("consts", "init", "carry", "other", "constants", *own)
    changes: dict[str, Any] = {name: roots(getattr(step, name)) for name in names}
    if isinstance(step, While):
        changes["verdict"] = numbers[step.verdict]
    if isinstance(step, WhileBack):
        back = ("back_init", "back_carry", "back_other", "back_constants")
        changes |= {name: roots(getattr(step, name)) for name in back} | {"rows": numbers[step.rows]}
    return attrs.evolve(step, arena=arena, **changes)


def is_void(step: Step) -> bool:
    """Tell whether a step has no element to work on."""
    return isinstance(step, Nest | Inner | Indexed | Extreme) and 0 in step.space


def merge_axes(nest: Nest) -> Nest:
    """Join neighbouring axes over which all operands walk evenly, and drop those of length 1.

    >>> from afx.compiler.native_backend.program import Load, Ref
    >>> ref = Ref(0, "f4", 0, (12, 4))
    >>> merge_axes(Nest((2, 3), (Load(ref),), ((0, ref),))).space
    (6,)
    """
    space, strides = merged(nest.space, [ref.strides for ref in nest.refs])
    found = iter(strides)
    return attrs.evolve(nest.on_refs(lambda ref: attrs.evolve(ref, strides=next(found))), space=space)


def _merge_indexed(step: Indexed) -> Indexed:
    space, strides = merged(step.space, [ref.strides for ref in step.operands])
    part, whole, *indices = [attrs.evolve(ref, strides=s) for ref, s in zip(step.operands, strides, strict=True)]
    return attrs.evolve(step, space=space, part=part, whole=whole, indices=tuple(indices))


def merged(space: Shape, strides: Sequence[Shape]) -> tuple[Shape, list[Shape]]:
    """Return a space and strides over it with as few axes as all of these strides allow.

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


def copy_nest(out: Location, x: Location, quiet: tuple[str, ...] = ()) -> Nest:
    """Return the nest that copies an operand, broadcast and cast, to a memory slot."""
    load = Load(Ref(x.owner, x.dtype, x.offset, broadcast(x, out.shape)))
    values: list[Value] = [load] if x.dtype == out.dtype else [load, Op("cast", out.dtype, (0,))]
    return Nest(
        out.shape, tuple(values), ((len(values) - 1, Ref(out.owner, out.dtype, out.offset, out.strides)),), quiet
    )
