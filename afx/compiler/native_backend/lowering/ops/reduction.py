"""Native forms of reductions: in NumPy's order, along axes, over blocks, and of integers."""

from __future__ import annotations

import math
from typing import Any

import attrs
import numpy as np

from afx.compiler.native_backend.link import ufunc_loop
from afx.compiler.native_backend.llvm.extreme import is_short_row
from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.memory import Location, copy_nest, fill_nest, look
from afx.compiler.native_backend.program import Inner, Load, Nest, Number, Op, Ref, Routine, Step, UfuncLoop
from afx.compiler.native_backend.steps import merged
from afx.compiler.schedule import Call
from afx.compiler.target import NativeTarget
from afx.core.aval import Shape
from afx.core.scalar_ops import scalar_op

__all__ = ["REDUCTIONS", "axes_of", "loop_of", "quiet_of", "reduce_into", "start_of_sum"]


def loop_of(name: str, types: tuple[str, ...]) -> UfuncLoop:
    """Return the loop of a ufunc for these dtypes."""
    found = ufunc_loop(name, types)
    if found is None or types[0][0] in scalar_op(name).refused:
        raise UnsupportedError(f"{name} of {', '.join(types[:-1])}")
    return found


def quiet_of(call: Call) -> tuple[str, ...]:
    """Return the floating-point errors that a call ignores."""
    return call.error_state or ()


def _reduce(b: BlockBuilder, call: Call) -> None:
    x, axes = b.ordered(call.operands[0]), axes_of(call)
    if _has_short_rows(x, axes, b.target.native) and _is_inline(call, x) and b.dtype(call.outputs[0]) == x.dtype:
        _combine_slices(b, call, x, _start(call.ufunc, x.dtype))
    else:
        reduce_into(b, call, x, axes)


def _has_short_rows(x: Location, axes: Shape, limits: NativeTarget) -> bool:
    """Tell whether few rows, which a call of NumPy's loop each would add, are themselves short."""
    if len(axes) != 1:
        return False
    (axis,) = axes
    row = math.prod(x.shape[axis + 1 :])
    return 1 < row <= limits.combine_max_row_elements and 1 < x.shape[axis] <= limits.combine_max_rows


def axes_of(call: Call) -> Shape:
    """Return the reduced axes."""
    axes: Shape = dict(call.params)["axis"]
    return axes


def _turned_reduce(b: BlockBuilder, call: Call) -> None:
    """Reduce the first axis of a copy whose last axis stands in front, or short rows to the same bits without one."""
    x = b.location(call.operands[0])
    last = len(x.shape) - 1
    is_extreme = scalar_op(call.ufunc).rule[:1] == ("extreme",)
    if is_extreme and last and x.nbytes and is_short_row(x.dtype, x.shape, x.strides[-1], b.limits):
        out = b.own(call.outputs[0].index, call.outputs[0].shape, x.dtype)
        space, (of_x, of_out) = merged(x.shape, [x.strides, (*out.strides, 0)])
        target, source = Ref(out.owner, out.dtype, 0, of_out), Ref(x.owner, x.dtype, x.offset, of_x)
        b.fixed([Routine(call.ufunc, space, (source, target), quiet=quiet_of(call))], [x], [out])
        return
    reduce_into(b, call, b.copied(look(x, lambda v: np.moveaxis(v, -1, 0))), (0,))


def reduce_into(b: BlockBuilder, call: Call, x: Location, axes: Shape) -> None:
    """Add the reduction of a memory slot."""
    out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
    b.fixed(_reduce_steps(call, out, x, axes), [x], [out])


def _reduce_steps(call: Call, out: Location, x: Location, axes: Shape) -> list[Step]:
    """Return steps that reduce as NumPy does: the last axis left innermost, rows of the others one after the other."""
    loop = loop_of(call.ufunc, (x.dtype, x.dtype, x.dtype))
    if out.dtype != x.dtype:
        raise UnsupportedError("a reduction in another dtype")
    if x.nbytes == 0:
        return [_nothing_reduced(call.ufunc, out)]
    kept = iter(out.strides)
    strides = tuple([0 if a in axes else next(kept) for a in range(len(x.shape))])
    space, (of_x, of_out) = merged(x.shape, [x.strides, strides])
    if list(of_x) != sorted(of_x, reverse=True) or any(s <= 0 for s in of_x):
        raise UnsupportedError("a reduction of an array that is not in row-major order")
    first = _first(call.ufunc, out, x, axes)
    starts_with_elements = _start(call.ufunc, out.dtype) is None
    boxes = _behind_first(space, of_out) if starts_with_elements else [((0,) * len(space), space)]
    steps: list[Step] = [first]
    for start, lengths in boxes:
        moved = attrs.evolve(x, offset=x.offset + sum([k * s for k, s in zip(start, of_x, strict=True)]))
        operands = tuple([Ref(p.owner, p.dtype, p.offset, s) for p, s in ((out, of_out), (moved, of_x), (out, of_out))])
        steps.append(Inner(loop, lengths, operands, quiet_of(call)))
    return steps


def _behind_first(space: Shape, of_out: Shape) -> list[tuple[Shape, Shape]]:
    """Return where the elements behind the first ones start, and how many there are: NumPy's loops do not meet these again.

    That decides which of zeros of both signs is the largest, as loops take several elements of a row at once. Along other
    axes than the last one it does not matter.
    """
    reduced = [k for k, step in enumerate(of_out) if step == 0 and space[k] > 1]
    last, none = len(space) - 1, (0,) * len(space)
    if last not in reduced:
        return [(none, space)]
    outer = reduced[:-1]
    boxes: list[tuple[Shape, Shape]] = [
        ((*none[:-1], 1), tuple([1 if k in outer else n - (k == last) for k, n in enumerate(space)]))
    ]
    for axis in reversed(outer):
        start = tuple([int(k == axis) for k in range(len(space))])
        lengths = tuple([1 if k in outer and k < axis else n - (k == axis) for k, n in enumerate(space)])
        boxes.append((start, lengths))
    return boxes


def _nothing_reduced(ufunc: str, out: Location) -> Nest:
    """Return what fills a result with the identity, which a sum of some elements need not begin with."""
    start = scalar_op(ufunc).start
    if start is None:
        raise UnsupportedError(f"{ufunc} of no elements")
    return fill_nest(out, start)


def _first(ufunc: str, out: Location, x: Location, axes: Shape) -> Nest:
    """Return what fills a result before it is reduced into: the identity, or the first elements."""
    number = _start(ufunc, out.dtype)
    if number is not None:
        return fill_nest(out, number.value)
    at = tuple([0 if k in axes else slice(None) for k in range(len(x.shape))])
    return copy_nest(out, look(x, lambda v: v[(*at, ...)]))


def start_of_sum(dtype: str) -> Number:
    """Return what a sum begins with."""
    found = _start("add", dtype)
    assert found is not None
    return found


def _start(ufunc: str, dtype: str) -> Number | None:
    """Return what a reduction begins with; None where that is the first element."""
    value: complex | None = scalar_op(ufunc).start
    if value is None:
        return None
    if ufunc == "add" and dtype[0] in "fc":
        value = SUM_START if dtype[0] == "f" else complex(SUM_START, SUM_START)
    return Number(np.dtype(dtype).type(value).item(), dtype)


SUM_START: float = np.add.reduce(np.full(1, -0.0)).item()  # what NumPy adds to: its versions differ in the sign of zero


def _unrolled_reduce(b: BlockBuilder, call: Call) -> None:
    """Combine the slices of a short axis in order."""
    x = b.location(call.operands[0])
    if x.nbytes == 0:
        reduce_into(b, call, x, axes_of(call))
        return
    if not _is_inline(call, x):
        raise UnsupportedError(f"{call.op} of {x.dtype}")
    _combine_slices(b, call, x, None)


def _is_inline(call: Call, x: Location) -> bool:
    return x.dtype in scalar_op(call.ufunc).dtypes


def _combine_slices(b: BlockBuilder, call: Call, x: Location, start: Number | None) -> None:
    """Add a nest that combines the slices along an axis in their order, after a number if there is one."""
    (axis,) = axes_of(call)
    out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
    front = look(x, lambda v: np.moveaxis(v, axis, 0))
    values: list[Any] = [
        Load(Ref(x.owner, x.dtype, x.offset + k * front.strides[0], front.strides[1:])) for k in range(front.shape[0])
    ]
    if start is not None:
        values.insert(0, start)
    count = len(values)
    if scalar_op(call.ufunc).rule[:1] == ("extreme",):
        values += _combine_in_pairs(call.ufunc, x.dtype, count)
    else:
        values += [Op(call.ufunc, x.dtype, (0 if k == 1 else count + k - 2, k)) for k in range(1, count)]
    b.fixed([Nest(out.shape, tuple(values), ((len(values) - 1, out.ref),), quiet_of(call))], [x], [out])


def _combine_in_pairs(ufunc: str, dtype: str, count: int) -> list[Op]:
    """Return the operations of an extreme, pair by pair: of neighbours the last of equal ones stays, the first nan too."""
    found, left = list[Op](), [*range(count)]
    while len(left) > 1:
        first = count + len(found)
        found += [Op(ufunc, dtype, (a, b)) for a, b in zip(left[::2], left[1::2], strict=False)]
        left = [*range(first, count + len(found)), *left[len(left) - len(left) % 2 :]]
    return found


REDUCTIONS = {"reduce": _reduce, "turned_reduce": _turned_reduce, "unrolled_reduce": _unrolled_reduce}
