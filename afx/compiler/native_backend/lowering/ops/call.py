"""Native forms of calls: elementwise ufuncs, casts, reductions, products; others record what their op's implementation does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.native_backend.functions.table import has_fast
from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.items import Group, call_of
from afx.compiler.native_backend.lowering.memory import (
    copy_nest,
    dense,
    dtype_name,
    fill_nest,
    of_array,
    part_of,
)
from afx.compiler.native_backend.lowering.ops.fold import lower_fold
from afx.compiler.native_backend.lowering.ops.index import INDEXED
from afx.compiler.native_backend.lowering.ops.product import PRODUCTS, lower_matmul
from afx.compiler.native_backend.lowering.ops.reduction import REDUCTIONS, loop_of, quiet_of
from afx.compiler.native_backend.lowering.recorder import record
from afx.compiler.native_backend.program import Fast, Load, Number, Op
from afx.compiler.operands import Buffer, Operand
from afx.compiler.schedule import Call
from afx.core.primitive import lookup
from afx.core.scalar_ops import ALL, COMPLEX, scalar_op

__all__ = ["lower_call"]


def lower_call(b: BlockBuilder, call: Call) -> None:
    """Add one call to a block.

    Raises:
        UnsupportedError: it has no native form.
    """
    lower = METHODS.get(call.method)
    if lower is None:
        raise UnsupportedError(f"{call.op}.{call.method}")
    if _makes_nothing(b, call) or (b.tier > 1 and lower_fold(b, call)):
        return
    if call.method in NAMED_METHODS and lookup(call.op).lowering.native is not None:
        record(b, call)
    else:
        lower(b, call)


def _makes_nothing(b: BlockBuilder, call: Call) -> bool:
    """Enter results without elements, or products of nothing; tell whether a call has such results.

    Raises:
        UnsupportedError: it makes others of operands without elements, and has no native form for those.
    """
    is_named = call.method in NAMED_METHODS
    if any(out.nbytes for out in call.outputs):
        is_void = any(0 in x.shape for x in call.operands)
        if is_void and is_named and call.op not in OF_NOTHING:
            raise UnsupportedError(f"{call.op} of no elements")
        if is_void and call.method in ("ufunc", *PRODUCTS):
            (buffer,) = call.outputs
            location = b.own(buffer.index, buffer.shape, b.dtype(buffer))
            b.fixed([fill_nest(location)], [], [location])
            return True
        return False
    may_raise = call.op in FAULTING and any(x.shape and 0 not in x.shape for x in call.operands[1:])
    if may_raise or (is_named and call.op not in NAMED and lookup(call.op).lowering.native is None):
        return False
    for out in call.outputs:
        b.own(out.index, out.shape, b.dtype(out))
    return True


# -- elementwise --
def _ufunc(b: BlockBuilder, call: Call) -> None:
    ufunc: Any = getattr(np, call.ufunc, None)
    if not isinstance(ufunc, np.ufunc):
        raise UnsupportedError(f"{call.op}: no ufunc of NumPy")
    if ufunc.signature is not None:
        lower_matmul(b, call)
        return
    types = _types_of(ufunc, call.operands)
    if dtype_name(call.outputs[0].dtype) != types[-1]:
        raise UnsupportedError(f"{call.op}: NumPy's result has another dtype")
    make = _operation(b, call, types)

    def add(group: Group, args: list[int]) -> int:
        return make(group, [_cast_in(group, k, want) for k, want in zip(args, types, strict=False)])

    b.elementwise(call.outputs[0], call.operands, call.error_state, add, call.allocates)


def _types_of(ufunc: Any, operands: Sequence[Operand]) -> tuple[str, ...]:
    """Return the dtypes of the loop that NumPy takes for operands, and of its result."""
    dtypes = [x.dtype if isinstance(x, Buffer) else x.literal.aval.dtype for x in operands]
    found = ufunc.resolve_dtypes((*dtypes, *[None] * ufunc.nout))
    return tuple([dtype_name(t) for t in found])


def _operation(b: BlockBuilder, call: Call, types: tuple[str, ...]) -> Callable[[Group, list[int]], int]:
    if set(types[:-1]) <= scalar_op(call.ufunc).dtypes and len(set(types[:-1])) == 1:
        return call_of(call.ufunc, types[-1])
    if b.tier > 1 and has_fast(call.ufunc, types):
        return call_of(Fast(call.ufunc, loop_of(call.ufunc, types)), types[-1])
    return call_of(loop_of(call.ufunc, types), types[-1])


def _cast_in(group: Group, k: int, want: str) -> int:
    """Return a value of a group in another dtype, as NumPy casts operands of a ufunc."""
    value = group.values[k]
    have = value.ref.dtype if isinstance(value, Load) else value.dtype
    if have == want:
        return k
    if isinstance(value, Number):
        return group.add(Number(np.dtype(have).type(value.value).astype(want).item(), want))
    _check_cast(have, want)
    return group.add(Op("cast", want, (k,)))


def _check_cast(have: str, want: str) -> None:
    if have not in ALL or want not in ALL | COMPLEX:
        raise UnsupportedError(f"cast of {have} to {want}")


def _cast(b: BlockBuilder, call: Call) -> None:
    out, want = call.outputs[0], dtype_name(call.outputs[0].dtype)
    x = call.operands[0]
    narrow = isinstance(x, Buffer) and out.dtype.itemsize < x.dtype.itemsize
    quiet = tuple(sorted({*quiet_of(call), "over"})) if narrow and want[0] == "f" else call.error_state
    b.elementwise(out, call.operands, quiet, lambda group, args: _cast_in(group, args[0], want))


def _select(b: BlockBuilder, call: Call) -> None:
    want = dtype_name(call.outputs[0].dtype)

    def add(group: Group, args: list[int]) -> int:
        test = _cast_in(group, args[0], "b1")
        return group.add(Op("select", want, (test, *[_cast_in(group, k, want) for k in args[1:]])))

    if dtype_name(call.outputs[0].dtype) not in ALL:
        raise UnsupportedError(f"where of {call.outputs[0].dtype}")
    b.elementwise(call.outputs[0], call.operands, call.error_state, add)


def _copy(b: BlockBuilder, call: Call) -> None:
    """Copy to a dense array of another shape."""
    x = b.location(call.operands[0])
    out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
    as_x = attrs.evolve(out, shape=x.shape, strides=dense(x.shape, int(x.dtype[1:])))
    b.fixed([copy_nest(as_x, x)], [x], [out])


INTO: dict[str, Callable[[BlockBuilder, Call], None]] = {
    "cast": _cast,
    "convert": _cast,
    "where": _select,
    "reshape": _copy,
}


def _apply(b: BlockBuilder, call: Call) -> None:
    """Look at a constant, copy, or call SciPy's loop."""
    is_number = len(call.operands) == 1 and not isinstance(call.operands[0], Buffer)
    if is_number and lookup(call.op).lowering.may_alias:
        if not b.look(call.outputs[0], call.op, call.params, b.location(call.operands[0])):
            raise UnsupportedError(f"{call.op} of a number")
        return
    lower = INTO.get(call.op) or INDEXED.get(call.op)
    if lower is not None:
        lower(b, call)
        return
    want = dtype_name(call.outputs[0].dtype)
    if b.tier > 1 and has_fast(call.op, (want, *[b.dtype(x) for x in call.operands if isinstance(x, Buffer)])):
        b.elementwise(
            call.outputs[0], call.operands, call.error_state, call_of(Fast(call.op, None), want), call.allocates
        )
        return
    if lookup(call.op).lowering.scipy_ufunc:
        _scipy_ufunc(b, call, lookup(call.op).lowering.scipy_ufunc)
        return
    raise UnsupportedError(call.op)


def _scipy_ufunc(b: BlockBuilder, call: Call, name: str) -> None:
    """Call SciPy's loop on strips, as NumPy's."""
    types = [dtype_name(x.dtype) for x in (*call.operands, *call.outputs) if isinstance(x, Buffer)]
    if len(types) != len(call.operands) + 1 or len(set(types)) > 1:
        raise UnsupportedError(f"{call.op} of operands of several dtypes")
    loop = loop_of(f"special.{name}", tuple(types))
    b.elementwise(call.outputs[0], call.operands, call.error_state, call_of(loop, types[-1]), call.allocates)


def _copies(b: BlockBuilder, call: Call) -> None:
    """Copy each of the views that an op makes."""
    source = b.location(call.operands[0])
    x = of_array(source)
    views = lookup(call.op).impl(x, **dict(call.params))
    if not all(np.may_share_memory(x, z) or not z.size for z in views):
        raise UnsupportedError(f"{call.op} that copies")
    outs = [b.own(out.index, out.shape, b.dtype(out)) for out in call.outputs]
    steps = [copy_nest(out, part_of(source, x, z)) for out, z in zip(outs, views, strict=True) if z.size]
    b.fixed(steps, [source], outs)


METHODS: dict[str, Callable[[BlockBuilder, Call], None]] = {
    "ufunc": _ufunc,
    **REDUCTIONS,
    **PRODUCTS,
    "into": _apply,
    "kernel": _apply,
    "copy": _copy,
    "copies": _copies,
    "apply": _apply,
}
NAMED_METHODS = frozenset({"into", "kernel", "apply", "copy", "copies"})  # of which the op decides
NAMED = frozenset({*INTO, *INDEXED})
FAULTING = frozenset({"gather", "select", "scatter", "scatter_unread", "index_set", "index_add"})  # which look at them
# of arrays without elements, with native form for such operands
OF_NOTHING = frozenset(
    {*FAULTING, "embed", "slice_set", "slice_add", "concat", "sum", "prod", "any", "all", "searchsorted"}
)
