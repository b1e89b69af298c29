"""Native forms of elementwise calls, which share loops: ufuncs of NumPy and SciPy, casts, choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afx.compiler.native_backend.functions.table import has_fast
from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.items import Group, call_of
from afx.compiler.native_backend.lowering.memory import dtype_name
from afx.compiler.native_backend.lowering.ops.reduction import loop_of
from afx.compiler.native_backend.program import Fast, Load, Number, Op
from afx.compiler.operands import Buffer, Operand
from afx.compiler.schedule import ErrorState
from afx.core.scalar_ops import ALL, COMPLEX, scalar_op

__all__ = ["add_cast", "add_fast", "add_scipy_ufunc", "add_select", "add_ufunc", "dtype_of"]


def dtype_of(x: Operand) -> Any:
    """Return NumPy's dtype of an operand."""
    return x.dtype if isinstance(x, Buffer) else x.literal.aval.dtype


def add_ufunc(
    b: BlockBuilder, out: Buffer, name: str, xs: Sequence[Operand], quiet: ErrorState, allocates: bool = False
) -> None:
    """Add a call of a ufunc of NumPy to a block, in the dtypes of the loop that NumPy takes.

    Raises:
        UnsupportedError: NumPy has none of this name, or one with another result.
    """
    ufunc: Any = getattr(np, name, None)
    if not isinstance(ufunc, np.ufunc):
        raise UnsupportedError(f"{name}: no ufunc of NumPy")
    types = tuple(map(dtype_name, ufunc.resolve_dtypes((*map(dtype_of, xs), *[None] * ufunc.nout))))
    if dtype_name(out.dtype) != types[-1]:
        raise UnsupportedError(f"{name}: NumPy's result has another dtype")
    make = _operation(b, name, types)

    def add(group: Group, args: list[int]) -> int:
        return make(group, [_cast_in(group, k, want) for k, want in zip(args, types, strict=False)])

    b.elementwise(out, xs, quiet, add, allocates)


def _operation(b: BlockBuilder, name: str, types: tuple[str, ...]) -> Callable[[Group, list[int]], int]:
    if set(types[:-1]) <= scalar_op(name).dtypes and len(set(types[:-1])) == 1:
        return call_of(name, types[-1])
    if b.tier > 1 and has_fast(name, types):
        return call_of(Fast(name, loop_of(name, types)), types[-1])
    return call_of(loop_of(name, types), types[-1])


def _cast_in(group: Group, k: int, want: str) -> int:
    """Return a value of a group in another dtype, as NumPy casts operands of a ufunc."""
    value = group.values[k]
    have = value.ref.dtype if isinstance(value, Load) else value.dtype
    if have == want:
        return k
    if isinstance(value, Number):
        return group.add(Number(np.dtype(have).type(value.value).astype(want).item(), want))
    if have not in ALL or want not in ALL | COMPLEX:
        raise UnsupportedError(f"cast of {have} to {want}")
    return group.add(Op("cast", want, (k,)))


def add_cast(b: BlockBuilder, out: Buffer, x: Operand, quiet: ErrorState, allocates: bool = False) -> None:
    """Add a conversion of an operand to a block; one of floats to fewer bits overflows without a word."""
    want = dtype_name(out.dtype)
    if isinstance(x, Buffer) and out.dtype.itemsize < x.dtype.itemsize and want[0] == "f":
        quiet = tuple(sorted({*(quiet or ()), "over"}))
    b.elementwise(out, [x], quiet, lambda group, args: _cast_in(group, args[0], want), allocates)


def add_select(b: BlockBuilder, out: Buffer, xs: Sequence[Operand]) -> None:
    """Add a choice, by the first operand, of elements of the other two to a block.

    Raises:
        UnsupportedError: of complex numbers, or in half precision.
    """
    want = dtype_name(out.dtype)
    if want not in ALL:
        raise UnsupportedError(f"where of {out.dtype}")

    def add(group: Group, args: list[int]) -> int:
        test = _cast_in(group, args[0], "b1")
        return group.add(Op("select", want, (test, *[_cast_in(group, k, want) for k in args[1:]])))

    b.elementwise(out, xs, None, add)


def add_fast(
    b: BlockBuilder, out: Buffer, name: str, xs: Sequence[Operand], quiet: ErrorState, allocates: bool
) -> bool:
    """Add a call of a function of the second tier to a block; tell whether there is one of this name."""
    types = [dtype_name(x.dtype) for x in (out, *xs) if isinstance(x, Buffer)]
    if b.tier == 1 or not has_fast(name, tuple(types)):
        return False
    b.elementwise(out, xs, quiet, call_of(Fast(name, None), types[0]), allocates)
    return True


def add_scipy_ufunc(
    b: BlockBuilder, out: Buffer, name: str, xs: Sequence[Operand], quiet: ErrorState, allocates: bool = False
) -> None:
    """Add a call of SciPy's loop on strips, as of NumPy's, to a block.

    Raises:
        UnsupportedError: operands are of several dtypes.
    """
    types = [dtype_name(dtype_of(x)) for x in (*xs, out)]
    if len(set(types)) > 1:
        raise UnsupportedError(f"{name} of operands of several dtypes")
    loop = loop_of(f"special.{name}", tuple(types))
    b.elementwise(out, xs, quiet, call_of(loop, types[-1]), allocates)
