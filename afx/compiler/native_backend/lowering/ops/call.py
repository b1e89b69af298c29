"""Native forms of calls: by their methods, by their ops' roles, or recorded from what their ops' implementations do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.memory import copy_nest, fill_nest, look, of_array, part_of
from afx.compiler.native_backend.lowering.ops.elementwise import (
    add_cast,
    add_fast,
    add_scipy_ufunc,
    add_select,
    add_ufunc,
)
from afx.compiler.native_backend.lowering.ops.fold import lower_fold
from afx.compiler.native_backend.lowering.ops.product import PRODUCTS, lower_matmul
from afx.compiler.native_backend.lowering.ops.reduction import REDUCTIONS
from afx.compiler.native_backend.lowering.recorder import record
from afx.compiler.operands import Buffer
from afx.compiler.schedule import Call, View
from afx.core.primitive import lookup

__all__ = ["lower_call", "lower_view"]


def lower_call(b: BlockBuilder, call: Call) -> None:
    """Add one call to a block.

    Raises:
        UnsupportedError: it has no native form.
    """
    lower = METHODS.get(call.method)
    if lower is None:
        raise UnsupportedError(f"{call.op}.{call.method}")
    if not _makes_nothing(b, call) and not (b.tier > 1 and lower_fold(b, call)):
        lower(b, call)


def lower_view(b: BlockBuilder, view: View) -> None:
    """Add a view to a block, a copy where NumPy makes one."""
    if view.out.nbytes == 0:  # of memory that nobody reads
        b.own(view.out.index, view.out.shape, b.dtype(view.out))
    elif not b.look(view.out, view.op, view.params, b.locations[view.source.index]):
        lower_call(b, Call(view.op, "apply", (view.source,), ("disjoint",), (view.out,), "", view.params, True))


def _makes_nothing(b: BlockBuilder, call: Call) -> bool:
    """Enter results without elements, or products of nothing; tell whether a call has such results.

    Raises:
        UnsupportedError: it makes others of operands without elements, and has no native form for those.
    """
    is_named = METHODS[call.method] is _apply
    if is_named and lookup(call.op).lowering.takes_empty:
        return False
    if any(out.nbytes for out in call.outputs):
        is_void = any(0 in x.shape for x in call.operands)
        if is_void and is_named:
            raise UnsupportedError(f"{call.op} of no elements")
        if is_void and call.method in ("ufunc", *PRODUCTS):
            (buffer,) = call.outputs
            location = b.own(buffer.index, buffer.shape, b.dtype(buffer))
            b.fixed([fill_nest(location)], [], [location])
            return True
        return False
    if is_named and lookup(call.op).lowering.native is None and lookup(call.op).algebra.canonical not in ROLES:
        return False
    for out in call.outputs:
        b.own(out.index, out.shape, b.dtype(out))
    return True


def _ufunc(b: BlockBuilder, call: Call) -> None:
    ufunc = getattr(np, call.ufunc, None)
    if isinstance(ufunc, np.ufunc) and ufunc.signature is not None:
        lower_matmul(b, call)
    else:
        add_ufunc(b, call.outputs[0], call.ufunc, call.operands, call.error_state, call.allocates)


def _cast(b: BlockBuilder, call: Call) -> None:
    add_cast(b, call.outputs[0], call.operands[0], call.error_state)


def _select(b: BlockBuilder, call: Call) -> None:
    add_select(b, call.outputs[0], call.operands)


def _copy(b: BlockBuilder, call: Call) -> None:
    """Copy to a dense array of another shape."""
    x = b.location(call.operands[0])
    out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
    b.fixed([copy_nest(look(out, lambda v: v.reshape(x.shape)), x)], [x], [out])


def _apply(b: BlockBuilder, call: Call) -> None:
    """Do as the op's record says: look at a constant, share loops over elements, record the implementation, or call SciPy."""
    p, (x, *others), (out, *_) = lookup(call.op), call.operands, call.outputs
    is_number = not others and not isinstance(x, Buffer)
    if is_number and p.lowering.may_alias and b.look(out, call.op, call.params, b.location(x)):
        pass
    elif p.algebra.canonical in ROLES:
        ROLES[p.algebra.canonical](b, call)
    elif p.lowering.native is not None:
        record(b, call, p.lowering.native)
    elif add_fast(b, out, call.op, call.operands, call.error_state, call.allocates):
        pass
    elif p.lowering.scipy_ufunc:
        add_scipy_ufunc(b, out, p.lowering.scipy_ufunc, call.operands, call.error_state, call.allocates)
    else:
        raise UnsupportedError(call.op)


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


Form = Callable[[BlockBuilder, Call], None]
ROLES: dict[str, Form] = {"cast": _cast, "select": _select, "reshape": _copy}  # of ops, as `Algebra.canonical`
METHODS: dict[str, Form] = {
    "ufunc": _ufunc,
    **REDUCTIONS,
    **PRODUCTS,
    "into": _apply,
    "kernel": _apply,
    "apply": _apply,
    "copy": _copy,
    "copies": _copies,
}
