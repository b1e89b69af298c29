"""Memory of native blocks: slots of values, their lifetimes in the arena, and iteration spaces with merged axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.arena import Arena
from afx.compiler.native_backend.lowering.items import Item
from afx.compiler.native_backend.program import Block, Load, Nest, Number, Op, Ref, Root, Value
from afx.core.aval import Shape
from afx.core.dtypes import DType

__all__ = [
    "Location",
    "broadcast",
    "copy_nest",
    "dense",
    "dtype_name",
    "fill_nest",
    "look",
    "of_array",
    "part_of",
    "place_memory",
]


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
