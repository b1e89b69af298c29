"""Loop nests as LLVM IR: fused elementwise operations in strips, and groups of short rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import attrs

from afx.compiler.native_backend.functions import complex_numbers
from afx.compiler.native_backend.functions.table import emit_fast
from afx.compiler.native_backend.llvm.loops import (
    Leave,
    call_loop,
    element_at,
    leave_at,
    leave_long,
    move,
    over,
    start_of,
)
from afx.compiler.native_backend.llvm.op import (
    element_type,
    emit,
    memory_type,
    number,
    read,
    read_apart,
    read_one,
    shuffled,
    stored,
    written,
)
from afx.compiler.native_backend.llvm.reductions import (
    FOLD_BLOCK,
    FOLD_LANES,
    Accumulator,
    accumulate,
    fill,
    lane_start,
)
from afx.compiler.native_backend.llvm.strips import SINGLE_LANES, Extent, Lines, call_on_strip
from afx.compiler.native_backend.llvm.writer import Flags, Writer
from afx.compiler.native_backend.program.elements import Fast, Load, Number, Op, Ref, UfuncLoop, Value
from afx.compiler.native_backend.program.leaves import Nest
from afx.compiler.target import NativeTarget
from afx.core.scalar_ops import scalar_op

# --- Groups of short rows as LLVM IR: as many rows at once as fill whole vectors, where a row alone fills none
#
# What is stored, and most of what is read, lies row behind row. Of an operand that is the same in every row, or in
# every column, vectors take each element as often as they need it.

APART_BYTES = (4, 8)  # of elements that are taken out of vectors: LLVM moves others one by one
REPEATED_BYTES = (1, 4, 8)  # of elements that vectors repeat


class RowGroups(NamedTuple):
    """How neighbouring rows are grouped.

    Attributes:
        lanes: elements of a vector.
        rows: of a group.
        vectors: of a group.
    """

    lanes: int
    rows: int
    vectors: int


def apply_op(w: Writer, op: Op, args: list[str], dtypes: list[str]) -> str:
    """Emit an operation that is no call of NumPy."""
    assert not isinstance(op.name, UfuncLoop)
    if isinstance(op.name, Fast):
        return emit_fast(w, op.name, args, op.dtype)
    if complex_numbers.KINDS.keys() & {op.dtype, dtypes[-1]}:
        return complex_numbers.RULES[scalar_op(op.name).parts or op.name](w, args, dtypes, op.dtype)
    return emit(w, op.name, args, dtypes, op.dtype)


def is_near(stride: int, ref: Ref, limits: NativeTarget) -> bool:
    """Tell whether elements are one, neighbours, or close enough to be taken out of vectors."""
    most = limits.apart_max_distance * ref.size if ref.size in APART_BYTES else 0
    return stride in (0, ref.size) or (stride % ref.size == 0 and abs(stride) <= most)


def group_rows(nest: Nest, limits: NativeTarget) -> list[RowGroups]:
    """Return groups of the rows of a nest, larger ones first; none where rows are better taken one by one."""
    if len(nest.space) < 2 or nest.folds or (nest.is_cut and len(nest.space) == 2) or not nest.operations:
        return []
    if any(op.is_loop for op in nest.operations) or not _are_in_groups(nest, limits):
        return []
    sizes = [int(value.dtype[1:]) for value in nest.values]
    (count, length), lanes, row_groups = nest.space[-2:], limits.vector_bytes // max(sizes), list[RowGroups]()
    has_singles = 4 in sizes or any(value.dtype == "c8" for value in nest.values)
    least = max(SINGLE_LANES if has_singles else 2, limits.vector_min_bytes // max(sizes))
    if length % lanes == 0 or length > 2 * lanes:
        return []
    while lanes >= least:
        common = math.gcd(lanes, length)
        groups = RowGroups(lanes, lanes // common, length // common)
        if 1 < groups.rows <= count and groups.vectors * len(nest.values) <= limits.group_max_values:
            row_groups.append(groups)
            count %= groups.rows
        lanes //= 2
    return row_groups


def _are_in_groups(nest: Nest, limits: NativeTarget) -> bool:
    """Tell whether results lie row behind row, and operands too, or are the same in every row or column."""
    stored = {ref.root for _, ref in nest.stores}
    repeated = [ref for ref in nest.loads.values() if not _is_dense(ref, nest)]
    return all(_is_dense(ref, nest) for _, ref in nest.stores) and all(
        ref.root not in stored
        and ref.size in REPEATED_BYTES
        and 0 in ref.strides[-2:]
        and all(is_near(stride, ref, limits) for stride in ref.strides[-2:])
        for ref in repeated
    )


def _is_dense(ref: Ref, nest: Nest) -> bool:
    return ref.strides[-2:] == (nest.space[-1] * ref.size, ref.size)


def emit_groups(
    w: Writer, nest: Nest, groups: RowGroups, turns: int, pointers: Sequence[str], leave: Leave | None
) -> None:
    """Add a loop over so many groups of rows; pointers are those of the operands' first elements."""
    refs = nest.loads
    w.lanes = groups.lanes
    columns = range(groups.vectors)
    repeated = {
        k: [_vector(w, nest, groups, ref, pointer, c) for c in columns]
        for (k, ref), pointer in zip(refs.items(), pointers, strict=False)
        if not ref.strides[-2]
    }

    def group(i: str) -> None:
        at = move(w, pointers, nest.refs, -2, i, groups.rows)
        for c in columns:
            given = {k: vectors[c] for k, vectors in repeated.items()}
            given |= {
                k: _vector(w, nest, groups, ref, at[n], c)
                for n, (k, ref) in enumerate(refs.items())
                if k not in repeated
            }
            values = _values(w, nest, given)
            for (k, ref), pointer in zip(nest.stores, at[len(refs) :], strict=True):
                written(w, ref.dtype, values[k], w.shifted(pointer, c * groups.lanes * ref.size))

    w.loop("0", str(turns), 1, group, leave)
    w.lanes = 1


def _values(w: Writer, nest: Nest, given: dict[int, str]) -> list[str]:
    """Return what a nest computes of a vector of each operand."""
    results = list[str]()
    for k, value in enumerate(nest.values):
        if isinstance(value, Op):
            dtypes = [nest.values[j].dtype for j in value.args]
            results.append(apply_op(w, value, [results[j] for j in value.args], dtypes))
        else:
            results.append(number(w, value) if isinstance(value, Number) else given[k])
    return results


def _vector(w: Writer, nest: Nest, groups: RowGroups, ref: Ref, pointer: str, column: int) -> str:
    """Return the elements of one vector of a group."""
    length, first = nest.space[-1], column * groups.lanes
    outer, inner = ref.strides[-2:]
    if outer == inner == 0:
        return read_one(w, ref.dtype, pointer)
    if outer and inner:
        return read(w, ref.dtype, w.shifted(pointer, first * ref.size))
    w.lanes = groups.rows if outer else length
    distance = (outer or inner) // ref.size
    x = read(w, ref.dtype, pointer) if distance == 1 else read_apart(w, ref.dtype, pointer, distance)
    order = [(first + k) // length if outer else (first + k) % length for k in range(groups.lanes)]
    x = shuffled(w, element_type(ref.dtype), x, w.lanes, order)
    w.lanes = groups.lanes
    return x


# --- Turned squares as LLVM IR: rows of operands whose neighbours lie along another axis than those of the results
#
# As many rows as a vector has elements are read, turned in registers, and written.


def turned_axis(nest: Nest, limits: NativeTarget) -> int | None:
    """Return the axis along which neighbours of operands lie, other than the last one; None where there is no such one."""
    lanes, loads = limits.turn_bytes // nest.refs[0].size, nest.refs[: -len(nest.stores) or None]
    away = [ref for ref in loads if ref.strides and ref.strides[-1] not in (0, ref.size)]
    if nest.folds or not away or len(nest.operations) > limits.turn_max_operations or lanes < 2:
        return None
    if any(op.is_call for op in nest.operations):
        return None
    axes = [k for k, s in enumerate(away[0].strides[:-1]) if s == away[0].size]
    is_even = len(away) == len(loads) or nest.space[-1] % lanes == 0
    sizes = {int(value.dtype[1:]) for value in nest.values}
    is_fit = sizes == {away[0].size} and away[0].size in APART_BYTES and "c" not in [v.dtype[0] for v in nest.values]
    if len(axes) != 1 or not is_even or not is_fit or min(nest.space[axes[0]], nest.space[-1]) < lanes:
        return None
    are_turned = all(ref.strides[axes[0]] == ref.size for ref in away)
    return axes[0] if are_turned and all(ref.strides[-1] == ref.size for _, ref in nest.stores) else None


def emit_turned(w: Writer, nest: Nest, axis: int, pointers: Sequence[str]) -> None:
    """Add what a square of elements takes, which begins at pointers: along an axis, and the last one."""
    lanes = w.lanes = w.limits.turn_bytes // nest.refs[0].size
    refs = nest.loads
    rows = dict[int, list[str]]()
    for (k, ref), pointer in zip(refs.items(), pointers, strict=False):
        if ref.strides[-1] not in (0, ref.size):
            found = [read(w, ref.dtype, w.shifted(pointer, r * ref.strides[-1])) for r in range(lanes)]
            rows[k] = _turn(w, element_type(ref.dtype), found)
    for r in range(lanes):
        given = {
            k: rows[k][r]
            if k in rows
            else (read if ref.strides[-1] else read_one)(w, ref.dtype, w.shifted(pointer, r * ref.strides[axis]))
            for (k, ref), pointer in zip(refs.items(), pointers, strict=False)
        }
        values = _values(w, nest, given)
        for (k, ref), pointer in zip(nest.stores, pointers[len(refs) :], strict=True):
            written(w, ref.dtype, values[k], w.shifted(pointer, r * ref.strides[axis]))
    w.lanes = 1


def _turn(w: Writer, kind: str, rows: list[str]) -> list[str]:
    """Return the columns of a square whose rows are vectors: squares in it are exchanged, from single elements to halves."""
    lanes, half = len(rows), 1
    while half < lanes:
        low = [j if not j & half else lanes + j - half for j in range(lanes)]
        high = [j + half if not j & half else lanes + j for j in range(lanes)]
        pairs = {
            r: (
                shuffled(w, kind, rows[r], lanes, low, rows[r + half]),
                shuffled(w, kind, rows[r], lanes, high, rows[r + half]),
            )
            for r in range(lanes)
            if not r & half
        }
        rows = [pairs[r & ~half][bool(r & half)] for r in range(lanes)]
        half *= 2
    return rows


# --- Loop nests as LLVM IR: fused elementwise operations, with NumPy's own loops called on strips that stay in the
# cache


class NestEmitter:
    """Emitter of one nest.

    Operations of one level run in one loop; calls of NumPy's loops, each on a strip, stand at odd levels between.
    """

    def __init__(self, w: Writer, nest: Nest, flags: Flags) -> None:
        self.w = w
        self.flags = flags
        self.nest = nest
        functions = sum([op.is_function for op in nest.operations])
        self.splits: bool = functions > 1 and bool(nest.space) and nest.space[-1] >= w.limits.split_min_length
        self.levels: list[int] = nest.levels(self._is_apart)
        self.length: int = nest.space[-1] if nest.space else 1
        self.loads: dict[int, str] = {}
        self.targets: list[str] = []
        self.strips: dict[int, str] = {}
        self.direct: set[int] = set()
        self.refs: list[Ref] = nest.refs
        self.nanoseconds: float = nest.nanoseconds / max(1, math.prod(nest.space))  # of an element
        self.groups: list[RowGroups] = group_rows(nest, w.limits)
        self.outer: int = self._outer()
        self.accumulators: list[Accumulator] = [
            Accumulator(w, ufunc, ref.dtype, math.prod(nest.space[self.outer :]), self.length)
            for _, ufunc, ref in (nest.folds if self.outer < len(nest.space) else ())
        ]
        self.sums: list[str] = []
        self.rows: list[str] = []  # of results of folds, that stay in registers
        self.kept: int = self._kept()
        self.strip: int = FOLD_BLOCK if any(a.is_long for a in self.accumulators) else w.limits.strip_elements

    def _outer(self) -> int:
        """Return the number of axes before those at the end that all folds reduce."""
        outer = len(self.nest.space)
        while self.nest.folds and outer and not any(ref.strides[outer - 1] for *_, ref in self.nest.folds):
            outer -= 1
        return outer

    def _kept(self) -> int:
        """Return the number of axes before those that folds reduce, where a row of results fits into registers; else -1."""
        limits, refs, operations = self.w.limits, [ref for *_, ref in self.nest.folds], self.nest.operations
        vectors = sum([-(-self.length * _size(ref.dtype) // limits.vector_bytes) for ref in refs])
        if not 0 < vectors <= limits.row_max_bytes // limits.vector_bytes or any(
            ref.strides[-1:] != (_size(ref.dtype),) for ref in refs
        ):
            return -1
        if vectors * len(operations) > limits.fold_row_max_operations or any(op.is_function for op in operations):
            return -1
        patterns = {tuple(map(bool, ref.strides[:-1])) for ref in refs}
        kept = sum(min(patterns))
        return kept if patterns == {(True,) * kept + (False,) * (len(self.nest.space) - 1 - kept)} else -1

    def emit(self) -> None:
        """Add the loops."""
        is_long = math.prod(self.nest.space) >= self.w.limits.long_loop_min_elements
        self.w.has_long_loops = is_long and not self.nest.quiet
        self._emit()
        self.w.has_long_loops = False

    def _emit(self) -> None:
        """Choose the loops of a nest: rows of folds in registers, groups of short rows, turned squares, single rows, or folds."""
        w, space, folds = self.w, self.nest.space, self.nest.folds
        if self.kept >= 0:
            whole = self.nanoseconds * math.prod(space[self.kept :])
            over(w, space[: self.kept], self.refs, self._fold_rows, is_cut=self.nest.is_cut, nanoseconds=whole)
            return
        adds = any(0 in ref.strides[: self.outer] for *_, ref in folds) or not self.accumulators
        for _, ufunc, ref in folds if adds else ():
            lengths = tuple([n if s else 1 for n, s in zip(space, ref.strides, strict=True)])
            over(w, lengths, [ref], partial(self._fill, ufunc, ref), is_cut=self.nest.is_cut)
        row = self.nanoseconds * self.length
        if not self.accumulators and self.groups:
            over(w, space[:-2], self.refs, self._rows, is_cut=self.nest.is_cut, nanoseconds=row * space[-2])
            return
        if not self.accumulators and (axis := turned_axis(self.nest, w.limits)) is not None:
            self._turn(axis)
            return
        if not self.accumulators:
            over(w, space[:-1], self.refs, self._row, is_cut=self.nest.is_cut, nanoseconds=row)
            return
        whole = row * math.prod(space[self.outer : -1])
        rows = space[: self.outer]
        fold = partial(self._fold, adds=adds)
        over(w, rows, self.refs, fold, is_cut=self.nest.is_cut, nanoseconds=whole)

    def _turn(self, axis: int) -> None:
        """Add loops over squares of an axis and the last one; what is left of the axis goes row by row."""
        w, nest, refs, lanes = self.w, self.nest, self.refs, self.w.limits.turn_bytes // self.refs[0].size
        length, around = nest.space[-1], [k for k in range(len(nest.space) - 1) if k != axis]
        others = [attrs.evolve(ref, strides=tuple([ref.strides[k] for k in around])) for ref in refs]
        space, is_cut = tuple([nest.space[k] for k in around]), nest.is_cut and axis == 0
        low, high, stop = "0", str(nest.space[axis]), str(nest.space[axis] // lanes * lanes)
        if is_cut:
            whole = w.let(f"and i64 {w.let('sub i64 %high, %low')}, {-lanes}")
            low, high, stop = "%low", "%high", w.let(f"add i64 %low, {whole}")

        def squares(pointers: list[str]) -> None:
            def square(j: str) -> None:  # the last one overlaps the one before
                last = str(length - lanes)
                at = w.let(f"select i1 {w.let(f'icmp sgt i64 {j}, {last}')}, i64 {last}, i64 {j}")
                emit_turned(w, nest, axis, move(w, pointers, refs, -1, at))

            w.loop("0", str(length), lanes, square)

        def along(body: Callable[[list[str]], None], start: str, end: str, step: int, pointers: list[str]) -> None:
            leave = leave_at(w, self.nanoseconds * step * length * (math.prod(space) if is_cut else 1), step)
            w.loop(start, end, step, lambda i: body(move(w, pointers, refs, axis, i)), leave)

        for body, start, end, step in ((squares, low, stop, lanes), (self._row, stop, high, 1)):
            if is_cut:
                inside = partial(over, w, space, others, body, 0)
                along(inside, start, end, step, [start_of(w, ref) for ref in refs])
            elif start != end:
                run = partial(along, body, start, end, step)
                over(w, space, others, run, is_cut=nest.is_cut)

    def _fill(self, ufunc: str, ref: Ref, pointers: list[str]) -> None:
        fill(self.w, ufunc, ref, pointers[0])

    def _fold(self, pointers: list[str], adds: bool) -> None:
        """Add the loops over the axes that folds reduce, and what becomes of the lanes."""
        w = self.w
        for accumulator in self.accumulators:
            accumulator.begin()
        row = self.nanoseconds * self.length
        over(w, self.nest.space[:-1], self.refs, self._row, self.outer, pointers, nanoseconds=row)
        targets = pointers[len(pointers) - len(self.accumulators) :]
        for (_, ufunc, ref), accumulator, target in zip(self.nest.folds, self.accumulators, targets, strict=True):
            if adds:
                accumulate(w, ufunc, ref.dtype, accumulator.total(), target)
            else:
                written(w, ref.dtype, accumulator.total(), target)

    def _fold_rows(self, pointers: list[str]) -> None:
        """Add the loops over the axes that folds reduce, with rows of results in registers, and store these."""
        w, folds, row = self.w, self.nest.folds, self.nanoseconds * self.length
        self.rows = [w.local(f"[{self.length} x {memory_type(ref.dtype)}]", 64) for *_, ref in folds]
        for start, (_, ufunc, ref) in zip(self.rows, folds, strict=True):
            self._over_row(ref, partial(self._begin_vector, lane_start(ufunc, ref.dtype), ref, start))
        over(w, self.nest.space[:-1], self.refs, self._row, self.kept, pointers, nanoseconds=row)
        for start, (*_, ref), end in zip(self.rows, folds, pointers[-len(folds) :], strict=True):
            self._over_row(ref, partial(self._end_vector, ref, start, end))

    def _begin_vector(self, value: Number, ref: Ref, start: str, i: str) -> None:
        stored(self.w, ref.dtype, number(self.w, value), self._at(start, ref, i))

    def _end_vector(self, ref: Ref, start: str, end: str, i: str) -> None:
        written(self.w, ref.dtype, read(self.w, ref.dtype, self._at(start, ref, i)), self._at(end, ref, i))

    def _over_row(self, ref: Ref, body: Callable[[str], None]) -> None:
        """Add what is done with each vector of a row of results."""
        extent, width = Extent(self.w, self.length), self.w.limits.vector_bytes // _size(ref.dtype)
        extent.has_singles = ref.dtype == "f4"
        extent.loop(width, body, self._unrolled(width, body))

    def _unrolled(self, width: int, body: Callable[[str], None]) -> Lines | None:
        """Return the vectors of a row one by one, so that LLVM knows where each is."""
        whole = self.length // width * width

        def each(_: str) -> None:
            for i in range(0, whole, width):
                body(str(i))

        return (whole, each) if whole else None

    def _is_apart(self, value: Value) -> bool:
        """Tell whether an operation has a loop of its own over each strip: a call of NumPy, or one of several functions."""
        return value.is_loop or (self.splits and value.is_function)

    def _rows(self, pointers: list[str]) -> None:
        """Add the loops over groups of short rows, and over rows that are left."""
        w, row, count, cost = self.w, 0, self.nest.space[-2], self.nanoseconds * self.length

        for groups in self.groups:
            turns, nanoseconds = (count - row) // groups.rows, cost * groups.rows
            leave = leave_long(w, turns, nanoseconds)
            emit_groups(w, self.nest, groups, turns, move(w, pointers, self.refs, -2, str(row)), leave)
            row += turns * groups.rows
        if row < count:
            w.loop(str(row), str(count), 1, lambda i: self._row(move(w, pointers, self.refs, -2, i)))

    def _row(self, pointers: list[str]) -> None:
        """Add the loops over one row: at once, or strip by strip."""
        loads = self.nest.loads
        self.loads = dict(zip(loads, pointers, strict=False))
        self.targets = pointers[len(loads) : len(loads) + len(self.nest.stores)]
        self.sums = self.rows or pointers[len(loads) + len(self.nest.stores) :]
        calls = any(level % 2 for level in self.levels)
        limits = self.w.limits
        is_short = calls or self.strip != limits.strip_elements
        strip = self.strip if is_short else min(self.length, limits.strip_max_elements)
        if self.length <= strip:
            self._strip("0", Extent(self.w, self.length))
            return
        turns, cost = self.length // strip, self.nanoseconds * strip
        leave = leave_long(self.w, turns, cost, strip)
        self.w.loop("0", str(self.length), strip, lambda start: self._strip(start, self._extent(start, strip)), leave)

    def _extent(self, start: str, strip: int) -> Extent:
        """Return how many elements the strip has that begins there."""
        rest = self.length % strip
        is_last = self.w.let(f"icmp eq i64 {start}, {self.length - rest}") if rest else ""
        return Extent(self.w, strip, rest, is_last)

    def _strip(self, start: str, extent: Extent) -> None:
        """Add the levels of one strip: loops of inline operations and calls by turns."""
        self._levels_of_strip(start, extent)
        for accumulator in self.accumulators:
            accumulator.join()

    def _levels_of_strip(self, start: str, extent: Extent) -> None:
        self._place_strips(start)
        last = max(self.levels)
        for level in range(last + 1 + last % 2):
            ops = [k for k, v in enumerate(self.nest.values) if isinstance(v, Op) and self.levels[k] == level]
            if level % 2:
                for k in ops:
                    self._call(k, start, extent)
            else:
                self._inline(level, ops, start, extent)

    def _place_strips(self, start: str) -> None:
        """Choose memory for values that a later level reads: an output where that is dense, else a local strip.

        So are the outputs of calls, at odd levels, from which a loop of the next level stores and folds.
        """
        values, w = self.nest.values, self.w
        later = {
            k
            for j, value in enumerate(values)
            for k in value.args
            if isinstance(values[k], Op) and self.levels[k] < self.levels[j]
        }
        ends = {k for k, _ in self.nest.stores} | {k for k, *_ in self.nest.folds}
        later |= {k for k in ends if self.levels[k] % 2}
        self.strips, self.direct = {}, set()
        for n, (k, ref) in enumerate(self.nest.stores):
            if k in later and k not in self.strips and _inner_stride(ref) == _size(ref.dtype):
                self.strips[k] = element_at(w, self.targets[n], start, _size(ref.dtype))
                self.direct.add(n)
        for k in sorted(later - set(self.strips)):
            kind = memory_type(self.nest.values[k].dtype)
            self.strips[k] = w.local(f"[{min(self.strip, self.length)} x {kind}]", 64)

    def _call(self, k: int, start: str, extent: Extent) -> None:
        op = self.nest.values[k]
        assert isinstance(op, Op)
        operands = [self._operand(j, start) for j in op.args]
        out = self.strips.get(k) or self.w.local(f"[{min(self.strip, self.length)} x {memory_type(op.dtype)}]", 64)
        if isinstance(op.name, Fast):
            self._call_function(op.name, op.dtype, operands, out, extent)
            return
        assert isinstance(op.name, UfuncLoop)
        loop, pointers, strides = (
            op.name,
            [*[p for p, _ in operands], out],
            [*[s for _, s in operands], _size(op.dtype)],
        )
        self.flags.keep(loop, lambda: call_loop(self.w, loop, pointers, [extent.length()], strides))

    def _call_function(
        self, function: Fast, dtype: str, operands: list[tuple[str, int]], out: str, extent: Extent
    ) -> None:
        """Add a loop that computes one function over a strip: many elements are on their way at once."""
        w, size = self.w, _size(dtype)
        if all(stride in (0, size) for _, stride in operands):
            call_on_strip(w, function, dtype, operands, out, extent.length(), w.limits.vector_bytes // size)
            return

        def body(i: str) -> None:
            xs = [(read if s else read_one)(w, dtype, element_at(w, p, i, s)) for p, s in operands]
            written(w, dtype, emit_fast(w, function, xs, dtype), element_at(w, out, i, size))

        extent.loop(1, body)

    def _operand(self, j: int, start: str) -> tuple[str, int]:
        """Return the pointer and the stride with which NumPy's loop reads an operand."""
        value = self.nest.values[j]
        if isinstance(value, Number):
            location = self.w.local(memory_type(value.dtype), 16)
            written(self.w, value.dtype, number(self.w, value), location)
            return location, 0
        if isinstance(value, Load):
            stride = value.ref.strides[-1] if value.ref.strides else 0
            return element_at(self.w, self.loads[j], start, stride), stride
        return self.strips[j], _size(value.dtype)

    def _inline(self, level: int, ops: list[int], start: str, extent: Extent) -> None:
        """Add loops for the operations of a level and the stores that become possible there."""
        stores = [
            n
            for n, (k, _) in enumerate(self.nest.stores)
            if n not in self.direct and self.levels[k] + self.levels[k] % 2 == level
        ]
        folds = [n for n, (k, *_) in enumerate(self.nest.folds) if self.levels[k] + self.levels[k] % 2 == level]
        if not stores and not folds and self.strips.keys().isdisjoint(ops):
            return
        element = partial(self._element, ops, stores, folds, start)
        lines: Lines | None = None
        is_unrolled = len(ops) <= self.w.limits.unroll_max_operations and extent.count > FOLD_LANES
        if folds and self.accumulators and is_unrolled:
            lines = FOLD_LANES, partial(self._lines, element)
        width = self._lanes(ops, stores, folds)
        if folds and self.rows:
            lines = self._unrolled(width, element)
        extent.has_singles = any(self.nest.values[k].dtype in ("f4", "c8") for k in ops) or bool(folds)
        extent.loop(width, element, lines)

    def _lines(self, element: Callable[..., None], i: str) -> None:
        """Add the operations on as many elements as a fold has lanes."""
        for lane in range(0, FOLD_LANES, self.w.lanes):
            at = self.w.let(f"add nuw nsw i64 {i}, {lane}") if lane else i
            element(at, lane)

    def _lanes(self, ops: list[int], stores: list[int], folds: list[int]) -> int:
        """Return how many elements are computed at once: one where neighbours are not next to each other."""
        reads = {j for k in ops for j in self.nest.values[k].args} | {self.nest.stores[n][0] for n in stores}
        reads |= {self.nest.folds[n][0] for n in folds}
        values = [self.nest.values[k] for k in reads]
        loads = [v.ref for v in values if isinstance(v, Load)]
        written_to = [self.nest.stores[n][1] for n in stores]
        if not self.accumulators:
            written_to += [self.nest.folds[n][2] for n in folds]
        if not self.nest.space or any(ref.strides[-1] != _size(ref.dtype) for ref in written_to):
            return 1
        if not all(is_near(ref.strides[-1], ref, self.w.limits) for ref in loads):
            return 1
        dtypes = [self.nest.values[k].dtype for k in (*reads, *ops)]
        widest = max([_size(dtype) // (1 + (dtype[0] == "c")) for dtype in dtypes])
        return min(self.w.limits.vector_max_lanes, self.w.limits.vector_bytes // widest)

    def _element(
        self, ops: list[int], stores: list[int], folds: list[int], start: str, i: str, lane: int | None = None
    ) -> None:
        """Add the operations of one level on one element."""
        w, values = self.w, self.nest.values
        at = i if start == "0" else w.let(f"add nsw i64 {start}, {i}")
        known: dict[int, str] = {}

        def get(k: int) -> str:
            value = values[k]
            if isinstance(value, Number):
                return number(w, value)
            if k not in known and isinstance(value, Load):
                known[k] = self._load(self.loads[k], value.ref, at)
            elif k not in known:
                known[k] = read(w, value.dtype, self._in_strip(k, i))
            return known[k]

        for k in ops:
            op = values[k]
            assert isinstance(op, Op)
            known[k] = apply_op(w, op, [get(j) for j in op.args], [values[j].dtype for j in op.args])
            if k in self.strips:
                stored(w, op.dtype, known[k], self._in_strip(k, i))
        results = [get(self.nest.stores[n][0]) for n in stores]  # before one is written where an operand lies
        for n, value in zip(stores, results, strict=True):
            ref = self.nest.stores[n][1]
            written(w, ref.dtype, value, self._at(self.targets[n], ref, at))
        for n in folds:
            self._add_to_fold(n, get(self.nest.folds[n][0]), i, at, lane)

    def _in_strip(self, k: int, i: str) -> str:
        """Return the pointer to an element of the strip that holds an operation's results."""
        dtype = self.nest.values[k].dtype
        return self._at(self.strips[k], Ref(0, dtype, 0, (_size(dtype),)), i)

    def _add_to_fold(self, n: int, x: str, i: str, at: str, lane: int | None) -> None:
        """Add an element of a strip, which is one of the row, to a fold."""
        _, ufunc, ref = self.nest.folds[n]
        if self.accumulators:
            self.accumulators[n].add(x, self._lane(i) if lane is None else lane)
        else:
            store = stored if self.rows else written
            accumulate(self.w, ufunc, ref.dtype, x, self._at(self.sums[n], ref, at), store)

    def _load(self, pointer: str, ref: Ref, i: str) -> str:
        """Load elements of a row."""
        w, at, stride = self.w, self._at(pointer, ref, i), _inner_stride(ref)
        if stride in (0, _size(ref.dtype)):
            return (read if stride else read_one)(w, ref.dtype, at)
        return read_apart(w, ref.dtype, at, stride // _size(ref.dtype)) if w.lanes > 1 else read(w, ref.dtype, at)

    def _lane(self, i: str) -> str | int:
        """Return the lane of an element."""
        return int(i) % FOLD_LANES if i.isdecimal() else self.w.let(f"and i64 {i}, {FOLD_LANES - 1}")

    def _at(self, pointer: str, ref: Ref, i: str) -> str:
        """Return the pointer to an element of a row; typed where neighbours are dense, which vectorizes best."""
        stride = _inner_stride(ref) if self.nest.space else 0
        if stride == 0 or i == "0":
            return pointer
        if stride == _size(ref.dtype):
            return self.w.element(memory_type(ref.dtype), pointer, i)
        return element_at(self.w, pointer, i, stride)


def _size(dtype: str) -> int:
    return int(dtype[1:])


def _inner_stride(ref: Ref) -> int:
    return ref.strides[-1] if ref.strides else _size(ref.dtype)
