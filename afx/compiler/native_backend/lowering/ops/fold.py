"""Folds: reductions in the order of the second tier, joined to the loops that make what they reduce."""

from __future__ import annotations

import math

from afx.compiler.native_backend.lowering.convert import BlockBuilder
from afx.compiler.native_backend.program import Ref
from afx.compiler.operands import Buffer, Number, Operand
from afx.compiler.schedule import Call
from afx.core.aval import Shape
from afx.core.scalar_ops import scalar_op

__all__ = ["lower_fold"]


def lower_fold(b: BlockBuilder, call: Call) -> bool:
    """Add a call that is a reduction of floats; tell whether it was one."""
    found = _reduction_of(call)
    if found is None:
        return False
    x, ufunc, axes = found
    out = call.outputs[0]
    dtype = x.literal.aval.dtype if isinstance(x, Number) else x.dtype
    if 0 in x.shape or scalar_op(ufunc).lane is None or dtype != out.dtype or out.dtype.char not in "fd":
        return False
    if call.method == "reduce" and _is_lone_reduction(b, x, axes):
        return False
    _fold(b, call, x, ufunc, axes)
    return True


def _is_lone_reduction(b: BlockBuilder, x: Operand, axes: Shape) -> bool:
    """Tell whether a large array that nothing here makes is reduced along other axes than the last one.

    That has a form of its own, whose pieces threads share; the order is the same, one row after the other.
    """
    if not isinstance(x, Buffer) or not axes or len(x.shape) - 1 in axes:
        return False
    location = b.locations[x.index]
    is_ordered = list(location.strides) == sorted(location.strides, reverse=True) and location.strides[-1] > 0
    is_large = math.prod(x.shape) >= b.limits.share_min_elements
    return is_large and is_ordered and location.owner not in b.defined


def _fold(b: BlockBuilder, call: Call, x: Operand, ufunc: str, axes: Shape) -> None:
    """Add a reduction to the group that makes its operand, or to one that reads it."""
    out = call.outputs[0]
    space = (b.locations[x.index] if isinstance(x, Buffer) else b.location(x)).shape
    location = b.own(out.index, out.shape, b.dtype(out))
    kept = iter(location.strides)
    strides = tuple([0 if axis in axes else next(kept) for axis in range(len(space))])
    k, group = b.group_of(space, [x], call.error_state, tuple([s == 0 for s in strides]))
    group.folds.append((b.value(group, k, x), ufunc, Ref(location.owner, location.dtype, 0, strides)))
    group.writes.append(location.owner)
    b.stored.add(location.owner)
    b.defined[location.owner] = k


def _reduction_of(call: Call) -> tuple[Operand, str, Shape] | None:
    """Return what a call reduces, by which ufunc, along which axes; None where it does something else."""
    if call.method in ("reduce", "turned_reduce"):
        axes: Shape = dict(call.params)["axis"]
        return call.operands[0], call.ufunc, axes
    if call.method not in ("dot", "flat_dot", "vecdot"):
        return None
    x, y = call.operands
    rank = len(x.shape)
    if _is_ones(y):
        return x, "add", tuple(range(rank)) if call.method == "flat_dot" else (rank - 1,)
    if _is_ones(x) and call.method == "dot" and len(x.shape) == 1:
        return y, "add", (max(len(y.shape) - 2, 0),)
    return None


def _is_ones(x: Operand) -> bool:
    return isinstance(x, Number) and x.form == "filled" and x.literal.value == 1
