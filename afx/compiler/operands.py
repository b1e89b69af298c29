"""Operands: what instructions read and write, buffers with known storage and numbers, and where instructions come from."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import attrs

from afx.core.aval import Aval, Shape
from afx.core.dtypes import DType
from afx.core.graph import Literal as Scalar
from afx.core.graph import name_of

__all__ = ["Alias", "Buffer", "Number", "Operand", "Sources", "Storage"]

Alias: TypeAlias = Literal["same", "disjoint", "unknown"]
"""How the memory of an operand lies to the memory that the instruction writes.

``same``: it is the memory of an output (for an operand that is donated: it may be), element for element at the same
indices, so that each element must be read before it is written. ``disjoint``: no byte is shared. ``unknown``: bytes may
be shared in any way. Two operands that are only read may always overlap each other.
"""

Storage: TypeAlias = Literal["input", "constant", "arena", "fresh", "pooled", "donated", "view", "scratch"]
"""Where a buffer's memory comes from; it says what `Buffer.location` means.

``input``: the argument number ``location``. Its strides, alignment and owner are the caller's.
``constant``: the array number ``location`` of `Schedule.constants`. ``arena``: ``location`` bytes behind the start of
the schedule's block, row-major, aligned to 64 bytes. ``fresh``: new memory of each run, which results may be; made by
`Alloc`, or by the call itself where ``allocates`` is set; ``location`` is 0. ``pooled``: the same, by `Alloc`, from a pool
of memory whose results nobody holds any longer. ``donated``: by `Alloc`, the memory of input ``location`` where that is
writeable and row-major, else new memory. ``view``: strides over the memory of another buffer, whose `Buffer.index` is
``location``. ``scratch``: inside a `Fused` alone: an intermediate value, of which one block is kept in slot ``location`` of
`Fused.scratch`, or in no memory at all.
"""


@attrs.frozen
class Buffer:
    """A value in memory.

    Attributes:
        index: number of the graph's variable whose value it is; no two buffers of a schedule share one. Bodies of
            loops and branches count anew.
        shape: lengths of the axes, of the whole value also within a `Fused`.
        dtype: NumPy's dtype, in the machine's byte order.
        storage: where its memory comes from.
        location: the offset, the slot or the number that belongs to `storage`.
        strides: bytes from one element to the next along each axis; None where they are known only at run time (arguments,
            their views, and what an implementation made).
    """

    index: int
    shape: Shape
    dtype: DType
    storage: Storage
    location: int = 0
    strides: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """The name of the graph's variable."""
        return name_of(self.index)

    @property
    def aval(self) -> Aval:
        """Shape and dtype."""
        return Aval(self.shape, self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.aval.nbytes

    def __str__(self) -> str:
        location = {"arena": "@", "input": "#", "constant": "!", "scratch": "%", "donated": "^", "view": ">"}
        mark = location.get(self.storage)
        return f"{self.name}:{self.aval}{'' if mark is None else f'{mark}{self.location}'}"


class Sources(tuple[Any, ...]):
    """The lines of the user's code that made the equations of a graph, by number; they stay in this process."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[Sources], tuple[()]]:
        return Sources, ()


@attrs.frozen
class Number:
    """A number among the operands.

    Attributes:
        literal: its value and dtype.
        form: ``array``: an array of no axes; ``filled``: an array of `shape` that holds it everywhere; ``scalar``: a
            NumPy scalar of its dtype.
        shape: of ``filled`` ones; within a `Fused`, the shape of the whole value.
    """

    literal: Scalar
    form: Literal["array", "filled", "scalar"] = "array"
    shape: Shape = ()

    def __str__(self) -> str:
        return str(self.literal) if self.form != "filled" else f"{self.literal}[{','.join(map(str, self.shape))}]"


Operand: TypeAlias = Buffer | Number
