"""Native forms of calls: reductions, elementwise calls, folds and indexing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.native_backend.functions.table import has_fast
from afx.compiler.native_backend.llvm.reductions import is_short_row
from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.memory import (
    Group,
    Location,
    broadcast,
    call_of,
    copy_nest,
    dtype_name,
    fill_nest,
    look,
)
from afx.compiler.native_backend.program.elements import Fast, Load, Number, Op, Ref, UfuncLoop
from afx.compiler.native_backend.program.leaves import COMBINING, Nest, Routine, UfuncCall
from afx.compiler.native_backend.program.steps import Step, merged
from afx.compiler.native_backend.service.link import ufunc_loop
from afx.compiler.schedule.schedule import Buffer, Call, ErrorState, Number as ScheduleNumber, Operand
from afx.compiler.target import NativeTarget
from afx.core import Shape, broadcast_shapes
from afx.core.scalar_ops import ADD, ALL, COMPLEX, REAL, scalar_op

# --- Native forms of reductions: in NumPy's order, along axes, over blocks, and of integers


def loop_of(name: str, types: tuple[str, ...], stands_alone: bool = False) -> UfuncLoop:
    """Return the loop of a ufunc for these dtypes; where no code of NumPy runs, also one that asks for Python's lock."""
    loop = ufunc_loop(name, types)
    if loop is None or (types[0][0] in scalar_op(name).refused and not stands_alone):
        raise UnsupportedError(f"{name} of {', '.join(types[:-1] or types)}")
    return loop


def quiet_of(call: Call) -> tuple[str, ...]:
    """Return the floating-point errors that a call ignores."""
    return call.error_state or ()


def _reduce(b: BlockBuilder, call: Call) -> None:
    axes = axes_of(call)
    if _adds_rows(b, call, axes):
        _fold(b, call, call.operands[0], call.ufunc, axes, _start(call.ufunc, dtype_name(call.outputs[0].dtype)))
        return
    x = b.ordered(call.operands[0])
    if _has_short_rows(x, axes, b.target.native) and _is_inline(call, x) and b.dtype(call.outputs[0]) == x.dtype:
        _combine_slices(b, call, x, _start(call.ufunc, x.dtype))
    else:
        reduce_into(b, call, x, axes)


def _adds_rows(b: BlockBuilder, call: Call, axes: Shape) -> bool:
    """Tell whether rows of floats, which a loop makes, are added up one after the other: in it, so that none is stored.

    Loops over many elements are shared by threads, each of which has its own rows of the result.
    """
    (operand,) = call.operands
    if not isinstance(operand, Buffer) or not b.is_elementwise(operand):
        return False
    x, op = b.locations[operand.index], scalar_op(call.ufunc)
    is_large = math.prod(x.shape) >= b.limits.share_min_elements
    is_sum = op.lane is not None and op.start is not None and x.dtype in ("f4", "f8") and x.dtype in op.dtypes
    is_reduced = [k in axes for k, n in enumerate(x.shape) if n != 1]
    has_rows = x.nbytes > 0 and any(is_reduced) and not is_reduced[-1]
    is_whole = dtype_name(call.outputs[0].dtype) == x.dtype and b.is_row_major(x)
    return has_rows and is_sum and is_whole and not (is_large and is_reduced[0])


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
    """Reduce the last axis as the first one of a copy; extremes of short rows have the same bits without one."""
    x = b.location(call.operands[0])
    last = len(x.shape) - 1
    is_extreme = scalar_op(call.ufunc).rule[:1] == ("extreme",)
    if is_extreme and last and x.nbytes and is_short_row(x.dtype, x.shape, x.strides[-1], b.limits):
        out = b.own(call.outputs[0].index, call.outputs[0].shape, x.dtype)
        space, (of_x, of_out) = merged(x.shape, [x.strides, (*out.strides, 0)])
        target, source = Ref(out.owner, out.dtype, 0, of_out), Ref(x.owner, x.dtype, x.offset, of_x)
        walk = Routine(f"extreme.{scalar_op(call.ufunc).fold}", space, (source, target), quiet=quiet_of(call))
        b.fixed([walk], [x], [out])
        return
    reduce_into(b, call, b.copied(look(x, lambda v: np.moveaxis(v, -1, 0))), (0,))


def reduce_into(b: BlockBuilder, call: Call, x: Location, axes: Shape) -> None:
    """Add the reduction of a memory slot."""
    out = b.own_buffer(call.outputs[0])
    b.fixed(_reduce_steps(call, out, x, axes), [x], [out])


def _reduce_steps(call: Call, out: Location, x: Location, axes: Shape) -> list[Step]:
    """Return steps that reduce as NumPy does: the last axis left innermost, rows of the others one after the other."""
    loop = loop_of(call.ufunc, (x.dtype, x.dtype, x.dtype))
    if out.dtype != x.dtype:
        raise UnsupportedError("a reduction in another dtype")
    if x.nbytes == 0:
        return [_nothing_reduced(call.ufunc, out)]
    unreduced = iter(out.strides)
    strides = tuple([0 if a in axes else next(unreduced) for a in range(len(x.shape))])
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
        steps.append(UfuncCall(loop, lengths, operands, quiet_of(call)))
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
    start = _start(ADD, dtype)
    assert start is not None
    return start


def _start(ufunc: str, dtype: str) -> Number | None:
    """Return what a reduction begins with; None where that is the first element."""
    value: complex | None = scalar_op(ufunc).start
    if value is None:
        return None
    if ufunc == ADD and dtype[0] in "fc":
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
    out = b.own_buffer(call.outputs[0])
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
    ops, left = list[Op](), [*range(count)]
    while len(left) > 1:
        first = count + len(ops)
        ops += [Op(ufunc, dtype, (a, b)) for a, b in zip(left[::2], left[1::2], strict=False)]
        left = [*range(first, count + len(ops)), *left[len(left) - len(left) % 2 :]]
    return ops


REDUCTIONS = {"reduce": _reduce, "turned_reduce": _turned_reduce, "unrolled_reduce": _unrolled_reduce}


# --- Native forms of elementwise calls, which share loops: ufuncs of NumPy and SciPy, casts, choices


def add_ufunc(b: BlockBuilder, out: Buffer, name: str, xs: Sequence[Operand], quiet: ErrorState) -> None:
    """Add a call of a ufunc of NumPy to a block, in the dtypes of the loop that NumPy takes.

    Raises:
        UnsupportedError: NumPy has none of this name, or one with another result.
    """
    ufunc = getattr(np, name, None)
    if not isinstance(ufunc, np.ufunc):
        raise UnsupportedError(f"{name}: no ufunc of NumPy")
    types = tuple(map(dtype_name, ufunc.resolve_dtypes((*[x.dtype for x in xs], *[None] * ufunc.nout))))
    if dtype_name(out.dtype) != types[-1]:
        raise UnsupportedError(f"{name}: NumPy's result has another dtype")
    make = _operation(b, name, types)

    def add(group: Group, args: list[int]) -> int:
        return make(group, [_cast_in(b, group, k, want) for k, want in zip(args, types, strict=False)])

    b.elementwise(out, xs, quiet, add)


def _operation(b: BlockBuilder, name: str, types: tuple[str, ...]) -> Callable[[Group, list[int]], int]:
    if set(types[:-1]) <= scalar_op(name).dtypes and len(set(types[:-1])) == 1:
        return call_of(name, types[-1])
    if has_fast(name, types, b.tier, b.target.backend == "portable"):
        return call_of(Fast(name, loop_of(name, types, b.target.stands_alone)), types[-1])
    return call_of(loop_of(name, types, b.target.stands_alone), types[-1])


def _cast_in(b: BlockBuilder, group: Group, k: int, want: str) -> int:
    """Return a value of a group in another dtype, as NumPy casts operands of a ufunc."""
    value = group.values[k]
    have = value.dtype
    if have == want:
        return k
    if isinstance(value, Number):
        return group.add(Number(np.dtype(have).type(value.value).astype(want).item(), want))
    taken = ALL | {"f2"} if b.target.stands_alone else ALL
    if have not in taken or want not in taken | COMPLEX:
        raise UnsupportedError(f"cast of {have} to {want}")
    return group.add(Op("cast", want, (k,)))


def add_cast(b: BlockBuilder, out: Buffer, x: Operand, quiet: ErrorState) -> None:
    """Add a conversion of an operand to a block; one of floats to fewer bits overflows without a word."""
    want = dtype_name(out.dtype)
    if isinstance(x, Buffer) and out.dtype.itemsize < x.dtype.itemsize and want[0] == "f":
        quiet = tuple(sorted({*(quiet or ()), "over"}))
    b.elementwise(out, [x], quiet, lambda group, args: _cast_in(b, group, args[0], want))


def add_select(b: BlockBuilder, out: Buffer, xs: Sequence[Operand]) -> None:
    """Add a choice, by the first operand, of elements of the other two to a block.

    Raises:
        UnsupportedError: in half precision, but in code without NumPy.
    """
    want = dtype_name(out.dtype)
    if want not in ALL | COMPLEX and not b.target.stands_alone:
        raise UnsupportedError(f"where of {out.dtype}")

    def add(group: Group, args: list[int]) -> int:
        test = _cast_in(b, group, args[0], "b1")
        return group.add(Op("select", want, (test, *[_cast_in(b, group, k, want) for k in args[1:]])))

    b.elementwise(out, xs, None, add)


def add_fast(b: BlockBuilder, out: Buffer, name: str, xs: Sequence[Operand], quiet: ErrorState) -> bool:
    """Add a call of a function of the second tier to a block; tell whether there is one of this name."""
    types = [dtype_name(x.dtype) for x in (out, *xs) if isinstance(x, Buffer)]
    if not has_fast(name, tuple(types), b.tier):
        return False
    b.elementwise(out, xs, quiet, call_of(Fast(name, None), types[0]))
    return True


def add_scipy_ufunc(b: BlockBuilder, out: Buffer, name: str, xs: Sequence[Operand], quiet: ErrorState) -> None:
    """Add a call of SciPy's loop on strips, as of NumPy's, to a block.

    Raises:
        UnsupportedError: operands are of several dtypes.
    """
    types = [dtype_name(x.dtype) for x in (*xs, out)]
    if len(set(types)) > 1:
        raise UnsupportedError(f"{name} of operands of several dtypes")
    function: UfuncLoop | Fast
    if b.target.stands_alone and types[0] in REAL:  # by a formula: SciPy's loop is not called, and need not be there
        function = UfuncLoop(f"special.{name}", tuple(types), False)
    else:
        function = loop = loop_of(f"special.{name}", tuple(types))
        if has_fast(f"rounded.{name}", types, b.tier, b.target.backend == "portable"):
            function = Fast(f"rounded.{name}", loop)
    b.elementwise(out, xs, quiet, call_of(function, types[-1]))


# --- Folds: reductions in the order of the second tier, joined to the loops that make what they reduce


def lower_fold(b: BlockBuilder, call: Call) -> bool:
    """Add a call that is a reduction of floats; tell whether it was one."""
    reduction = _reduction_of(call)
    if reduction is None:
        return False
    x, ufunc, axes = reduction
    out = call.outputs[0]
    if 0 in x.shape or scalar_op(ufunc).lane is None or x.dtype != out.dtype or out.dtype.char not in "fd":
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


def _fold(b: BlockBuilder, call: Call, x: Operand, ufunc: str, axes: Shape, start: Number | None = None) -> None:
    """Add a reduction to the group that makes its operand, or to one that reads it; its result to a start, if there is one."""
    out = call.outputs[0]
    space = (b.locations[x.index] if isinstance(x, Buffer) else b.location(x)).shape
    location = result = b.own_buffer(out)
    if start is not None:
        location = b.temporary(result.shape, result.dtype)
    unreduced = iter(location.strides)
    strides = tuple([0 if axis in axes else next(unreduced) for axis in range(len(space))])
    k, group = b.group_of(space, [x], call.error_state, tuple([s == 0 for s in strides]))
    group.folds.append((b.value(group, k, x), ufunc, Ref(location.owner, location.dtype, 0, strides)))
    group.writes.append(location.owner)
    b.stored.add(location.owner)
    b.defined[location.owner] = k
    if start is not None:
        values = Load(location.ref), start, Op(ufunc, result.dtype, (1, 0))
        b.fixed([Nest(result.shape, values, ((2, result.ref),), quiet_of(call))], [location], [result])


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
        return x, ADD, tuple(range(rank)) if call.method == "flat_dot" else (rank - 1,)
    if _is_ones(x) and call.method == "dot" and len(x.shape) == 1:
        return y, ADD, (max(len(y.shape) - 2, 0),)
    return None


def _is_ones(x: Operand) -> bool:
    return isinstance(x, ScheduleNumber) and x.form == "filled" and x.literal.value == 1


# --- Native forms of indexing: elements at indices, running sums and extremes, places of extremes


def index(
    kind: str, part: Location, whole: Location, indices: Sequence[Location], axis: int,
    quiet: tuple[str, ...],
) -> Routine:  # fmt: skip
    """Return the step between the elements that indices name along axes from one on, and the array that they are part of.

    Raises:
        UnsupportedError: of other indices than integers, or sums of complex numbers.
    """
    wrong = [i.dtype for i in indices if i.dtype[0] not in "iu" or i.dtype == "u8"]
    if wrong:
        raise UnsupportedError(f"indices of {wrong[0]}")
    if kind in COMBINING and whole.dtype not in scalar_op(COMBINING[kind]).dtypes:
        raise UnsupportedError(f"{kind} of {whole.dtype}")
    common = broadcast_shapes([i.shape for i in indices])
    assert common is not None
    count, stop = len(indices), axis + len(indices)
    space: Shape = (*whole.shape[:axis], *common, *whole.shape[stop:])
    if 0 in space and 0 not in common:  # indices are looked at all the same
        raise UnsupportedError("no elements at indices")
    lead, rest = (0,) * axis, (0,) * (len(whole.shape) - stop)
    strides: Shape = (*whole.strides[:axis], *(0,) * len(common), *whole.strides[stop:])
    locations = [Ref(i.owner, i.dtype, i.offset, (*lead, *broadcast(i, common), *rest)) for i in indices]
    refs = [part.over(space), Ref(whole.owner, whole.dtype, whole.offset, strides), *locations]
    space, joined = merged(space, [ref.strides for ref in refs])
    first, second, *of_indices = [attrs.evolve(ref, strides=s) for ref, s in zip(refs, joined, strict=True)]
    ends = (second, first) if kind == "gather" else (first, second)
    sizes = (*whole.strides[axis : axis + count], *whole.shape[axis : axis + count])
    return Routine(kind, space, (*of_indices, *ends), sizes, quiet)


def accumulate(
    ufunc: str, x: Location, out: Location, axis: int, quiet: tuple[str, ...], limits: NativeTarget
) -> list[Step]:
    """Return steps that call NumPy's loop as its ``accumulate`` does: each result is an operand of the next."""
    loop, (x, out) = loop_of(ufunc, (out.dtype,) * 3), [look(p, lambda v: np.moveaxis(v, axis, -1)) for p in (x, out)]
    steps: list[Step] = [copy_nest(look(out, lambda v: v[..., 0]), look(x, lambda v: v[..., 0]))]
    if x.shape[-1] < 2:
        return steps
    space, size = (*x.shape[:-1], x.shape[-1] - 1), int(out.dtype[1:])
    # along the axis, or, where so many neighbours lie beside it, step by step over these
    has_rows = len(space) > 1 and space[-2] >= limits.cumulative_min_neighbours
    has_rows = has_rows and out.strides[-2] == size != abs(out.strides[-1])
    order = (len(space) - 1, *range(len(space) - 1)) if has_rows else range(len(space))

    def ref(p: Location, offset: int) -> Ref:
        return Ref(p.owner, p.dtype, p.offset + offset, tuple([p.strides[k] for k in order]))

    operands = (ref(out, 0), ref(x, x.strides[-1]), ref(out, out.strides[-1]))
    return [*steps, UfuncCall(loop, tuple([space[k] for k in order]), operands, quiet)]


def find_extreme(is_max: bool, x: Location, out: Location, axis: int) -> Routine:
    """Return the routine that writes the places of the first largest or smallest elements along an axis.

    Raises:
        UnsupportedError: of complex numbers.
    """
    if x.dtype not in ALL:
        raise UnsupportedError(f"places of extremes of {x.dtype}")
    rows = look(x, lambda v: np.moveaxis(v, axis, -1))
    refs = rows.ref, Ref(out.owner, out.dtype, out.offset, (*out.strides, 0))
    return Routine("place.max" if is_max else "place.min", rows.shape, refs)
