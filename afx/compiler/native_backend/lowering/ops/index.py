"""Native forms of indexing: gather, scatter, cumulative ops, and indices of extremes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs

from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.memory import Location, broadcast, copy_nest, fill_nest
from afx.compiler.native_backend.lowering.ops.reduction import loop_of, quiet_of
from afx.compiler.native_backend.program import Extreme, Indexed, Inner, Ref, Step
from afx.compiler.operands import Operand
from afx.compiler.schedule import Call
from afx.core.aval import Shape, broadcast_shapes
from afx.core.scalar_ops import ALL, scalar_op

__all__ = ["INDEXED"]


def _axis(call: Call) -> int:
    axis: int = dict(call.params)["axis"]
    return axis


def _gather(b: BlockBuilder, call: Call) -> None:
    axis, (first, *others) = _axis(call), call.operands
    if axis and len(others) > 1:
        raise UnsupportedError(f"{call.op} behind the first axis by several indices, whose result NumPy lays out anew")
    x, indices = b.location(first), _indices(b, others)
    out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
    if len(indices) > 1:
        b.lay_out_as(out.owner, [x, *indices])
    b.fixed([_indexed("gather", out, x, indices, axis)], [x, *indices], [out])


def _scatter(b: BlockBuilder, call: Call) -> None:
    values, indices = b.location(call.operands[0]), _indices(b, call.operands[1:])
    out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
    _check_sum(out.dtype)
    _write(b, call, "add", fill_nest(out), values, indices, out, [])


def _update(kind: Literal["set", "add"]) -> Callable[[BlockBuilder, Call], None]:
    def lower(b: BlockBuilder, call: Call) -> None:
        x, values = [b.location(v) for v in call.operands[:2]]
        indices = _indices(b, call.operands[2:])
        out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
        if kind == "add":
            _check_sum(out.dtype)
        _write(b, call, kind, copy_nest(out, x), values, indices, out, [x])

    return lower


def _check_sum(dtype: str) -> None:
    if dtype not in scalar_op("add").dtypes:
        raise UnsupportedError(f"a scattered sum of {dtype}")


def _write(
    b: BlockBuilder, call: Call, kind: Literal["set", "add"], start: Step, values: Location, indices: list[Location],
    out: Location, reads: list[Location],
) -> None:  # fmt: skip
    """Add what writes values into an array that another step has begun."""
    step = attrs.evolve(_indexed(kind, values, out, indices, _axis(call)), quiet=quiet_of(call))
    b.fixed([start, step], [values, *indices, *reads], [out])


def _indices(b: BlockBuilder, operands: Sequence[Operand]) -> list[Location]:
    """Return the locations of index arrays."""
    found: list[Location] = []
    for x in operands:
        found.append(b.location(x))
        if found[-1].dtype[0] not in "iu" or found[-1].dtype == "u8":
            raise UnsupportedError(f"indices of {found[-1].dtype}")
    return found


def _indexed(
    kind: Literal["gather", "set", "add"], part: Location, whole: Location, indices: list[Location], axis: int
) -> Indexed:
    """Return the step between the elements named by indices and the array that they are part of."""
    common = broadcast_shapes([i.shape for i in indices])
    assert common is not None
    count, behind = len(indices), axis + len(indices)
    space: Shape = (*whole.shape[:axis], *common, *whole.shape[behind:])
    if 0 in space and 0 not in common:  # indices are looked at all the same
        raise UnsupportedError("no elements at indices")
    lead, rest = (0,) * axis, (0,) * (len(whole.shape) - behind)
    strides: Shape = (*whole.strides[:axis], *(0,) * len(common), *whole.strides[behind:])
    locations = [Ref(i.owner, i.dtype, i.offset, (*lead, *broadcast(i, common), *rest)) for i in indices]
    return Indexed(
        kind, space, part.over(space),
        Ref(whole.owner, whole.dtype, whole.offset, strides), tuple(locations),
        whole.strides[axis : axis + count], whole.shape[axis : axis + count],
    )  # fmt: skip


# -- cumulative ops --
def _cumulative(ufunc: str) -> Callable[[BlockBuilder, Call], None]:
    def lower(b: BlockBuilder, call: Call) -> None:
        """Call NumPy's loop as its ``accumulate`` does: each result is the operand of the next."""
        params: dict[str, Any] = dict(call.params)
        x = b.location(call.operands[0])
        out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
        loop, steps = loop_of(ufunc, (out.dtype,) * 3), list[Step]()
        if x.dtype != out.dtype:
            if not {x.dtype, out.dtype} <= ALL:
                raise UnsupportedError(f"{call.op} of {x.dtype}")
            wide = b.temporary(x.shape, out.dtype)
            b.fixed([copy_nest(wide, x)], [x], [wide])
            x = wide
        axis = params["axis"]
        from_x, into = (_along(p, axis, params.get("reverse", False)) for p in (x, out))
        rows = [attrs.evolve(p, shape=p.shape[:-1], strides=p.strides[:-1]) for p in (from_x, into)]
        steps.append(copy_nest(rows[1], rows[0]))
        if x.shape[axis] > 1:
            steps.append(_accumulation(loop, from_x, into, call, b.limits.cumulative_min_neighbours))
        b.fixed(steps, [x], [out])

    return lower


def _along(x: Location, axis: int, is_reverse: bool) -> Location:
    """Return a location whose last axis is the one that is run along, from where it begins."""
    shape, strides = list(x.shape), list(x.strides)
    length, stride = shape.pop(axis), strides.pop(axis)
    offset = x.offset + (length - 1) * stride * is_reverse
    return attrs.evolve(x, shape=(*shape, length), strides=(*strides, -stride if is_reverse else stride), offset=offset)


def _accumulation(loop: Any, x: Location, out: Location, call: Call, least: int) -> Inner:
    """Return the loop that adds each element to the sum before it: along the axis, or step by step over so many neighbours."""
    space, size = (*x.shape[:-1], x.shape[-1] - 1), int(out.dtype[1:])
    has_rows = len(space) > 1 and space[-2] >= least and out.strides[-2] == size != abs(out.strides[-1])
    order = (len(space) - 1, *range(len(space) - 1)) if has_rows else range(len(space))

    def ref(p: Location, offset: int) -> Ref:
        return Ref(p.owner, p.dtype, p.offset + offset, tuple([p.strides[k] for k in order]))

    operands = (ref(out, 0), ref(x, x.strides[-1]), ref(out, out.strides[-1]))
    return Inner(loop, tuple([space[k] for k in order]), operands, quiet_of(call))


# -- indices of extremes --
def _extreme(is_max: bool) -> Callable[[BlockBuilder, Call], None]:
    def lower(b: BlockBuilder, call: Call) -> None:
        x = b.location(call.operands[0])
        if x.dtype not in ALL:
            raise UnsupportedError(f"{call.op} of {x.dtype}")
        out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
        rows = _along(x, _axis(call), False)
        if abs(rows.strides[-1]) != int(x.dtype[1:]) and math.prod(x.shape) > b.limits.extreme_max_elements:
            raise UnsupportedError(f"{call.op} of large arrays along another axis than the last one")
        operands = Ref(x.owner, x.dtype, rows.offset, rows.strides), Ref(out.owner, out.dtype, 0, (*out.strides, 0))
        b.fixed([Extreme(is_max, rows.shape, *operands)], [x], [out])

    return lower


INDEXED: dict[str, Callable[[BlockBuilder, Call], None]] = {
    "gather": _gather,
    "select": _gather,
    "scatter": _scatter,
    "scatter_unread": _scatter,
    "index_set": _update("set"),
    "index_add": _update("add"),
    "cumulative_sum": _cumulative("add"),
    "cummax": _cumulative("maximum"),
    "cummin": _cumulative("minimum"),
    "argmax": _extreme(True),
    "argmin": _extreme(False),
}
