"""Elements of native programs: memory, constants, and operations on one element of each operand."""

from __future__ import annotations

from typing import TypeAlias

import attrs

from afx.core.aval import Shape

__all__ = ["Fast", "Load", "Number", "Op", "Ref", "Root", "UfuncLoop", "Value"]


@attrs.frozen
class Root:
    """Memory of a block that shares no byte with its other roots.

    Attributes:
        param: position among the block's parameters, or -1 where it lies in the arena.
        offset: bytes from the parameter, or from the beginning of the arena.
    """

    param: int
    offset: int = 0


@attrs.frozen
class Ref:
    """Strided elements in a root.

    Attributes:
        root: number of the root in its block.
        dtype: NumPy's name without byte order, such as ``f4``.
        offset: bytes to the first element.
        strides: bytes between neighbours, one an axis of the iteration space.
    """

    root: int
    dtype: str
    offset: int
    strides: Shape


@attrs.frozen
class UfuncLoop:
    """Inner loop of a NumPy ufunc, called by pointer.

    Attributes:
        ufunc: its name in NumPy.
        dtypes: of operands and results, as `Ref.dtype`.
        has_data: whether NumPy passes it a pointer of its own.
    """

    ufunc: str
    dtypes: tuple[str, ...]
    has_data: bool

    @property
    def symbol(self) -> str:
        """Name under which its address is linked; that of its data ends in ``.data``."""
        return f"ufunc.{self.ufunc}.{'.'.join(self.dtypes)}"


@attrs.frozen
class Fast:
    """Function of the second tier, with bits of its own.

    Attributes:
        name: as in the table of `afx.compiler.native_backend.functions`.
        loop: NumPy's loop, for elements that the function leaves to it; None where it takes all.
    """

    name: str
    loop: UfuncLoop | None


@attrs.frozen
class Load:
    """Element read from memory."""

    ref: Ref


@attrs.frozen
class Number:
    """Constant.

    Attributes:
        value: as Python's number.
        dtype: its type.
    """

    value: bool | int | float | complex
    dtype: str

    def __eq__(self, other: object) -> bool:
        # repr tells 0.0 from -0.0 and finds nan equal to itself
        return isinstance(other, Number) and repr(self.value) == repr(other.value) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((repr(self.value), self.dtype))


@attrs.frozen
class Op:
    """Operation on earlier values of its nest.

    Attributes:
        name: an operation of `afx.compiler.native_backend.llvm.op`, the loop of a ufunc, or a function of the second tier.
        dtype: of the result.
        args: positions of the operands.
    """

    name: str | UfuncLoop | Fast
    dtype: str
    args: tuple[int, ...]


Value: TypeAlias = "Load | Number | Op"
