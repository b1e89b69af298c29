"""Reductions as LLVM IR: folds in lanes, pairwise sums, extremes with their places, and rows kept in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeGuard

import attrs

from afx.compiler.native_backend.functions.elementary import INFINITY, SIZE
from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.llvm.loops import element_at, leave_long, over, start_of
from afx.compiler.native_backend.llvm.op import (
    FLOATS,
    cast,
    element_type,
    emit,
    memory_type,
    number,
    read,
    shuffled,
    spread,
    stored,
    written,
)
from afx.compiler.native_backend.llvm.strips import SINGLE_LANES
from afx.compiler.native_backend.llvm.writer import Writer, compare_strictly, compute_strictly
from afx.compiler.native_backend.program.elements import Number, Ref
from afx.compiler.native_backend.program.leaves import Routine, UfuncCall
from afx.compiler.native_backend.program.steps import Step
from afx.compiler.target import NativeTarget
from afx.core import Shape
from afx.core.scalar_ops import ADD, FOLDS, MAXIMUM, scalar_op

# --- Folds: reductions of the second tier as LLVM IR, in 32 lanes, whatever the width of the processor's vectors
#
# Element j of a row belongs to lane j modulo 32. Lanes of long sums are joined every 1024 elements to totals that
# keep what rounding takes from them (Knuth's TwoSum); in the end halves of the lanes are combined until one is left.

FOLD_LANES = 32
FOLD_BLOCK = 1024  # elements of a row after which the lanes of a long sum are joined


class Accumulator:
    """Lanes of one reduction, in memory that LLVM keeps in registers where their numbers are known.

    Args:
        w: where it is emitted.
        ufunc: what combines two elements.
        dtype: of the elements.
        count: how many elements are reduced.
        length: of their rows: lanes behind it would keep the identity, which changes no bit.
    """

    def __init__(self, w: Writer, ufunc: str, dtype: str, count: int, length: int) -> None:
        self.w = w
        self.ufunc = ufunc
        self.dtype = dtype
        self.is_long: bool = ufunc == ADD and count > FOLD_BLOCK
        is_short = length < FOLD_LANES and not self.is_long
        self._width: int = max(SINGLE_LANES, 1 << (length - 1).bit_length()) if is_short else FOLD_LANES
        locations = [w.local(f"[{FOLD_LANES} x {memory_type(dtype)}]", 64) for _ in range(3 if self.is_long else 1)]
        self._lanes = locations[0]
        self._totals, self._rests = locations[1:] or ("", "")

    def begin(self) -> None:
        """Set all lanes to the identity."""
        for location in (self._lanes, self._totals, self._rests):
            if location:
                self._store(Lanes(self.w, self._kind, self._identity()), location)

    def add(self, value: str, lane: str | int) -> None:
        """Combine neighbouring elements, as many as the writer computes at once, with the lanes from this one on."""
        accumulate(self.w, self.ufunc, self.dtype, value, self.w.shifted(self._lanes, self._bytes(lane)), stored)

    def join(self) -> None:
        """Add the lanes of a long sum to its totals."""
        if not self.is_long:
            return
        part, total, rest = [self._load(location) for location in (self._lanes, self._totals, self._rests)]
        count, self.w.lanes = self.w.lanes, self._width
        both = total + part
        is_finite = (both.bits() & SIZE[self._kind]).compare("ult", INFINITY[self._kind])
        # differences of infinities raise flags
        total, part, whole = [is_finite.choose(x, 0.0) for x in (total, part, both)]
        there = whole - total
        rest = rest + ((total - (whole - there)) + (part - there))
        self.w.lanes = count
        for value, location in ((both, self._totals), (rest, self._rests)):
            self._store(value, location)
        self._store(Lanes(self.w, self._kind, self._identity()), self._lanes)

    def total(self) -> str:
        """Return the one value that all lanes come to."""
        w = self.w
        total = self._load(self._totals or self._lanes)
        count, w.lanes = w.lanes, self._width
        if self.is_long:
            both = total + self._load(self._rests)
            total = both.compare("uno", both).choose(total, both)  # of infinities the rest is nan
        value, width = total.name, self._width
        while width > 1:
            count_before, half = w.lanes, width // 2
            w.lanes = SINGLE_LANES if half == 2 and self.dtype == "f4" else half  # LLVM fills shorter ones up
            rows = [[k % half + first for k in range(w.lanes)] for first in (0, half)]
            parts = [shuffled(w, self._kind, value, count_before, row) for row in rows]
            if half == 1:
                parts = [w.let(f"extractelement <1 x {self._kind}> {p}, i64 0") for p in parts]
            value, width = emit(w, self.ufunc, parts, [self.dtype, self.dtype], self.dtype), half
        w.lanes = count
        return value

    @property
    def _kind(self) -> str:
        return element_type(self.dtype)

    def _bytes(self, lane: str | int) -> str | int:
        size = int(self.dtype[1:])
        return lane * size if isinstance(lane, int) else self.w.let(f"mul nuw nsw i64 {lane}, {size}")

    def _identity(self) -> str:
        count, self.w.lanes = self.w.lanes, self._width
        identity = number(self.w, lane_start(self.ufunc, self.dtype))
        self.w.lanes = count
        return identity

    def _load(self, location: str) -> Lanes:
        return Lanes(self.w, self._kind, self.w.let(f"load <{self._width} x {self._kind}>, ptr {location}, align 64"))

    def _store(self, value: Lanes, location: str) -> None:
        self.w.line(f"store <{self._width} x {self._kind}> {value.name}, ptr {location}, align 64")


def lane_start(ufunc: str, dtype: str) -> Number:
    """Return what lanes begin with."""
    value = scalar_op(ufunc).lane
    assert value is not None
    return Number(value, dtype)


def accumulate(
    w: Writer, ufunc: str, dtype: str, value: str, pointer: str, store: Callable[..., None] = written
) -> None:
    """Combine elements with those at a pointer."""
    before = read(w, dtype, pointer)
    store(w, dtype, emit(w, ufunc, [before, value], [dtype, dtype], dtype), pointer)


def fill(w: Writer, ufunc: str, ref: Ref, pointer: str) -> None:
    """Store the identity."""
    w.line(f"store {memory_type(ref.dtype)} {number(w, lane_start(ufunc, ref.dtype))}, ptr {pointer}")


# --- Pairwise sums: LLVM IR of sums in the order of NumPy's loops
#
# A sum of up to 128 elements has eight accumulators, joined in pairs, and adds what is left over one by one; a longer
# one is the sum of its halves, the first of which is rounded down to a multiple of eight (``pairwise_sum`` of NumPy's
# ``loops_utils.h``). Four neighbouring sums of up to 128 elements are computed side by side, so that none waits for
# its own last addition.

PAIRWISE_MIN_ELEMENTS = 8  # fewer ones are added to a zero whose sign is that of NumPy's version
LEAF = 128


def emit_sum(w: Writer, dtype: str, pointer: str, count: int) -> str:
    """Return the sum of neighbouring elements, eight or more."""
    kind, name = element_type(dtype), f"@sum.{dtype}"
    w.define(name, f"internal {kind} {name}(ptr %x, i64 %n)", lambda: _Sum(w, dtype, name).emit())
    return w.let(f"call {kind} {name}(ptr {pointer}, i64 {count})")


class _Sum:
    """Emitter of the function of one dtype."""

    def __init__(self, w: Writer, dtype: str, name: str) -> None:
        self.w = w
        self.name = name
        self.kind = element_type(dtype)
        self.size = int(dtype[1:])

    def emit(self) -> None:
        """Add a leaf, four leaves, and two halves."""
        w = self.w
        w.line(f"br i1 {w.let(f'icmp sle i64 %n, {LEAF}')}, label %leaf, label %longer")
        w.label("leaf")
        w.line(f"ret {self.kind} {self._finished(self._begun('%x'), '%x', '8', '%n')}")
        w.label("longer")
        low, high = self._halves("%n")
        first, second, third, fourth = *self._halves(low), *self._halves(high)
        w.line(f"br i1 {w.let(f'icmp sle i64 {low}, {LEAF}')}, label %halves, label %look")
        w.label("look")
        fits = [w.let(f"icmp sle i64 {n}, {LEAF}") for n in (second, fourth)]
        w.line(f"br i1 {w.let(f'and i1 {fits[0]}, {fits[1]}')}, label %leaves, label %halves")
        w.label("leaves")
        self._leaves((first, second, third, fourth))
        w.label("halves")
        both = [
            w.let(f"call {self.kind} {self.name}(ptr {p}, i64 {n})")
            for p, n in (("%x", low), (self.w.element(self.kind, "%x", low), high))
        ]
        w.line(f"ret {self.kind} {self._add(*both)}")

    def _halves(self, n: str) -> tuple[str, str]:
        """Return the lengths of the halves of a sum."""
        low = self.w.let(f"and i64 {self.w.let(f'lshr i64 {n}, 1')}, -8")
        return low, self.w.let(f"sub i64 {n}, {low}")

    def _add(self, x: str, y: str) -> str:
        return compute_strictly(self.w, "fadd", self.kind, [x, y])

    def _begun(self, pointer: str) -> str:
        """Return the first eight elements."""
        return self.w.let(f"load <8 x {self.kind}>, ptr {pointer}, align {self.size}")

    def _more(self, sums: Sequence[str], pointers: Sequence[str], start: str, stop: str) -> list[str]:
        """Add to accumulators what follows from one index on, eight elements at a time."""
        w, kind = self.w, f"<8 x {self.kind}>"

        def add(i: str, sums: Sequence[str]) -> list[str]:
            parts = [self._begun(w.element(self.kind, p, i)) for p in pointers]
            return [w.let(f"fadd {kind} {x}, {part}") for x, part in zip(sums, parts, strict=True)]

        return w.carry([(kind, x) for x in sums], start, stop, 8, add)

    def _finished(self, total: str, pointer: str, start: str, n: str) -> str:
        """Return a sum of so many elements, of which the eight accumulators have seen those before ``start``."""
        w, whole = self.w, self.w.let(f"and i64 {n}, -8")
        (total,) = self._more([total], [pointer], start, whole)

        def add(i: str, sums: Sequence[str]) -> list[str]:
            x = w.let(f"load {self.kind}, ptr {w.element(self.kind, pointer, i)}, align {self.size}")
            return [w.let(f"fadd {self.kind} {sums[0]}, {x}")]

        (total,) = w.carry([(self.kind, self._add_pairs(total))], whole, n, 1, add)
        return total

    def _add_pairs(self, total: str) -> str:
        """Return the sum of the eight accumulators."""
        w, lanes = self.w, 8
        for width in (4, 2):
            w.lanes = SINGLE_LANES if self.kind == "float" else width  # LLVM fills shorter ones up
            parts = [[2 * (k % width) + odd for k in range(w.lanes)] for odd in (0, 1)]
            total, lanes = self._add(*[shuffled(w, self.kind, total, lanes, part) for part in parts]), w.lanes
        w.lanes = 1
        return self._add(*[w.let(f"extractelement <{lanes} x {self.kind}> {total}, i64 {k}") for k in (0, 1)])

    def _leaves(self, lengths: Sequence[str]) -> None:
        """Return from the function with the sum of four leaves, the first of which is the shortest."""
        w, pointers = self.w, ["%x"]
        for n in lengths[:-1]:
            pointers.append(self.w.element(self.kind, pointers[-1], n))
        begun = self._more([self._begun(p) for p in pointers], pointers, "8", lengths[0])
        parts = [self._finished(x, p, lengths[0], n) for x, p, n in zip(begun, pointers, lengths, strict=True)]
        halves = [self._add(*parts[:2]), self._add(*parts[2:])]
        w.line(f"ret {self.kind} {self._add(*halves)}")


# --- Extremes of rows and their places as LLVM IR: the extreme of a row in lanes, then the first element that equals
# it
#
# An extreme does not mind an element twice, so that a short row is some vectors, of which the last one may overlap
# the one before; only the sign of a zero, and what nan carries, depend on the order in which elements are compared,
# and such rows are compared again in that order.


def emit_extreme(w: Writer, step: Routine) -> None:
    """Add the loops that look for the first extreme of each row; the first nan is one."""
    x, _ = step.operands
    is_dense = x.dtype in ("f4", "f8") and x.strides[-1] == x.size and step.space[-1] >= FOLD_LANES
    search = _Lanes(w, step).search if is_dense else partial(_search_chunk, w, step, count=1, ahead=0)
    if is_short_row(x.dtype, step.space, x.strides[-1], w.limits):
        search = partial(_search_short_row, w, step)
    beside = [k for k in range(len(step.space) - 1) if _is_column(step, k)]
    if beside and x.strides[-1] != x.size:
        _search_columns(w, step, beside[0])
    else:
        over(w, step.space[:-1], step.operands, search)


def _ufunc_of(step: Routine) -> str:
    """Return the ufunc that gives the extreme which a routine looks for."""
    return FOLDS[step.name.partition(".")[2]]


def _is_column(step: Routine, axis: int) -> bool:
    """Tell whether rows lie side by side along an axis, as their results do."""
    return step.space[axis] > 1 and all(ref.strides[axis] == ref.size for ref in step.operands)


def _search_columns(w: Writer, step: Routine, axis: int) -> None:
    """Add loops over chunks of rows that lie side by side, the extremes of each chunk and their places in registers."""
    x, count = step.operands[0], step.space[axis]
    chunk = _chunk(count, max(2 * x.size, 8), w.limits)  # places take as much room
    others = [k for k in range(len(step.space) - 1) if k != axis]

    def search(pointers: list[str]) -> None:
        def at(i: str) -> list[str]:
            return [element_at(w, p, i, chunk * ref.size) for p, ref in zip(pointers, step.operands, strict=True)]

        whole = count // chunk
        ahead = x.strides[-1] * w.limits.row_ahead_rows if count > chunk else 0
        w.loop("0", str(whole), 1, lambda i: _search_chunk(w, step, at(i), chunk, ahead))
        if count % chunk:
            _search_chunk(w, step, at(str(whole)), count % chunk, ahead)

    over(w, _along(step.space, others), [_within(ref, others) for ref in step.operands], search)


def _search_chunk(w: Writer, step: Routine, pointers: list[str], count: int, ahead: int) -> None:
    """Add the loop along some neighbouring rows, whose extremes and their places registers hold; a first nan stays."""
    x, _ = step.operands
    dtype, place_dtype = x.dtype, "i8" if x.size == 8 or step.space[-1] >= 1 << 31 else "i4"
    kind, of_place = element_type(dtype), element_type(place_dtype)
    w.lanes, starts = row_vectors(w, place_dtype, count)
    firsts = [read(w, dtype, w.shifted(pointers[0], start * x.size)) for start in starts]
    is_max = _ufunc_of(step) == MAXIMUM
    vector, places, test = w.vector(kind), w.vector(of_place), w.vector("i1")

    def look(i: str, values: Sequence[str]) -> list[str]:
        row, extremes, found = element_at(w, pointers[0], i, x.strides[-1]), list[str](), list[str]()
        if ahead:
            _fetch(w, w.shifted(row, ahead), count * x.size)
        place = spread(w, of_place, i if of_place == "i64" else w.let(f"trunc i64 {i} to {of_place}"))
        for start, known, old in zip(starts, values[: len(starts)], values[len(starts) :], strict=True):
            new = read(w, dtype, w.shifted(row, start * x.size))
            better = _is_better(w, is_max, dtype, new, known)
            extremes.append(w.let(f"select {test} {better}, {vector} {new}, {vector} {known}"))
            found.append(w.let(f"select {test} {better}, {places} {place}, {places} {old}"))
        return [*extremes, *found]

    begun = [*[(vector, first) for first in firsts], *[(places, "zeroinitializer")] * len(starts)]
    found = w.carry(begun, "1", str(step.space[-1]), 1, look)[len(starts) :]
    for start, place in zip(starts, found, strict=True):
        written(w, "i8", cast(w, place, place_dtype, "i8"), w.shifted(pointers[1], 8 * start))
    w.lanes = 1


def _search_short_row(w: Writer, step: Routine, pointers: list[str]) -> None:
    """Add what stores the index of the extreme of a row that registers hold."""
    x, out = pointers
    row = _ShortRow(w, step.operands[0].dtype, step.space[-1], x)
    w.line(f"store i64 {row.find(row.extreme(_ufunc_of(step)))}, ptr {out}")


class _Lanes:
    """Emitter for rows of floats that are next to each other."""

    def __init__(self, w: Writer, step: Routine) -> None:
        self.w = w
        self.dtype = step.operands[0].dtype
        self.kind = element_type(self.dtype)
        self.length = step.space[-1]
        self.lanes = w.limits.vector_bytes // int(self.dtype[1:])
        self.extreme = Accumulator(w, _ufunc_of(step), self.dtype, self.length, self.length)

    def search(self, pointers: list[str]) -> None:
        """Add what stores the index of the extreme of one row."""
        w, (x, out), whole = self.w, pointers, self.length - self.length % FOLD_LANES
        self.extreme.begin()
        w.loop("0", str(whole), FOLD_LANES, lambda i: self._combine(x, i))
        for i in range(whole, self.length):
            self.extreme.add(read(w, self.dtype, w.element(self.kind, x, i)), i - whole)
        best, k = self.extreme.total(), w.fresh()
        w.lanes = self.lanes
        w.loop("0", str(whole), self.lanes, lambda i: self._look(x, out, best, i, k))
        w.lanes = 1
        for i in range(whole, self.length):
            self._look(x, out, best, str(i), k)
        w.fall(f"known{k}")

    def _combine(self, x: str, i: str) -> None:
        """Combine as many elements as there are lanes with those before."""
        self.w.lanes = self.lanes
        for lane in range(0, FOLD_LANES, self.lanes):
            at = self.w.element(self.kind, x, self.w.let(f"add nuw nsw i64 {i}, {lane}"))
            self.extreme.add(read(self.w, self.dtype, at), lane)
        self.w.lanes = 1

    def _look(self, x: str, out: str, best: str, i: str, k: str) -> None:
        """Store the index of the first of neighbouring elements that is the extreme, and leave; nan equals nothing else."""
        w, count, n = self.w, self.w.lanes, self.w.fresh()
        value, wanted = read(w, self.dtype, w.element(self.kind, x, i)), spread(w, self.kind, best)
        kind, test = w.vector(self.kind), w.vector("i1")
        equal, odd = w.let(f"fcmp oeq {kind} {value}, {wanted}"), w.let(f"fcmp uno {kind} {value}, {value}")
        bits, at = w.let(f"or {test} {equal}, {odd}"), i
        if count > 1:
            bits = w.let(f"bitcast {test} {bits} to i{count}")
        w.line(f"br i1 {w.let(f'icmp ne i{count} {bits}, 0')}, label %found{n}, label %other{n}")
        w.label(f"found{n}")
        if count > 1:
            function = f"@llvm.cttz.i{count}"
            w.declare(function, f"declare i{count} {function}(i{count}, i1)")
            lane = w.let(f"call i{count} {function}(i{count} {bits}, i1 true)")
            at = w.let(f"add i64 {i}, {w.let(f'zext i{count} {lane} to i64')}")
        w.line(f"store i64 {at}, ptr {out}")
        w.line(f"br label %known{k}")
        w.label(f"other{n}")


def _is_better(w: Writer, is_max: bool, dtype: str, x: str, known: str) -> str:
    """Tell whether an element takes the place of the extreme before it; the first nan keeps it."""
    kind, test = element_type(dtype), w.vector("i1")
    if dtype in FLOATS:
        beyond = compare_strictly(w, "ugt" if is_max else "ult", kind, [x, known])
        return w.let(f"and {test} {beyond}, {compare_strictly(w, 'ord', kind, [known, known])}")
    first, second = (x, known) if is_max else (known, x)
    return w.let(f"icmp {'sgt' if dtype[0] == 'i' else 'ugt'} {w.vector(kind)} {first}, {second}")


def is_short_row(dtype: str, space: Shape, stride: int, limits: NativeTarget) -> bool:
    """Tell whether the rows of a space fill some vectors, none of which LLVM would fill up."""
    size = int(dtype[1:])
    is_dense = dtype in ("f4", "f8") and stride == size
    return is_dense and space[-1] <= limits.short_row_max_elements and space[-1] * size >= limits.vector_min_bytes


def row_vectors(w: Writer, dtype: str, length: int) -> tuple[int, list[int]]:
    """Return how many elements vectors of a row have, and where they begin; the last one may overlap the one before."""
    size = int(dtype[1:])
    most = min(length, w.limits.vector_bytes // size)
    width = 1 << (most.bit_length() - 1)
    width = width if width * size >= w.limits.vector_min_bytes else 1  # LLVM fills shorter ones up
    return width, [*range(0, length - width, width), length - width]


class _ShortRow:
    """The elements of one row in registers."""

    def __init__(self, w: Writer, dtype: str, length: int, pointer: str) -> None:
        self.w = w
        self.dtype = dtype
        self.kind = element_type(dtype)
        self.lanes, self.starts = row_vectors(w, dtype, length)
        w.lanes = self.lanes
        self.vectors = [read(w, dtype, p) for p in [w.element(self.kind, pointer, k) for k in self.starts]]
        w.lanes = 1

    def extreme(self, name: str) -> str:
        """Return the largest or smallest element in all lanes, nan where there is one."""
        w, best = self.w, self.vectors[0]
        w.lanes = self.lanes
        for x in self.vectors[1:]:
            best = self._better(name, best, x)
        width = self.lanes
        while width > 1:
            width //= 2
            best = self._better(name, best, self._turned(best, width))
        w.lanes = 1
        return best

    def _better(self, name: str, x: str, y: str) -> str:
        return emit(self.w, name, [x, y], [self.dtype, self.dtype], self.dtype)

    def _turned(self, x: str, count: int) -> str:
        """Return a vector with its lanes moved round by so many."""
        return shuffled(self.w, self.kind, x, self.lanes, [(k + count) % self.lanes for k in range(self.lanes)])

    def first(self, x: str) -> str:
        """Return the first lane of a vector."""
        return self.w.let(f"extractelement <{self.lanes} x {self.kind}> {x}, i64 0")

    def find(self, x: str) -> str:
        """Return the index of the first element that is nan, or equal to that in all lanes of a vector."""
        w, bits = self.w, "0"
        w.lanes = self.lanes
        for vector, start in zip(self.vectors, self.starts, strict=True):
            odd = compare_strictly(w, "uno", self.kind, [vector, vector])
            equal = compare_strictly(w, "oeq", self.kind, [vector, x])
            test = w.let(f"or <{self.lanes} x i1> {odd}, {equal}")
            mask = w.let(f"zext i{self.lanes} {w.let(f'bitcast <{self.lanes} x i1> {test} to i{self.lanes}')} to i64")
            bits = w.let(f"or i64 {bits}, {w.let(f'shl i64 {mask}, {start}')}")
        w.lanes = 1
        w.declare("@llvm.cttz.i64", "declare i64 @llvm.cttz.i64(i64, i1)")
        return w.let(f"call i64 @llvm.cttz.i64(i64 {bits}, i1 false)")


def emit_ordered_extreme(w: Writer, step: Routine) -> None:
    """Add the loops over rows whose extreme is that of comparing elements one after the other."""
    over(
        w,
        step.space[:-1],
        step.operands,
        partial(_extreme_of_row, w, _ufunc_of(step), step.operands[0].dtype, step.space[-1]),
    )


def _extreme_of_row(w: Writer, ufunc: str, dtype: str, length: int, pointers: Sequence[str]) -> None:
    x, out = pointers
    row = _ShortRow(w, dtype, length, x)
    extreme = row.first(row.extreme(ufunc))
    written(w, dtype, extreme, out)
    name, kind = f"@ordered.{ufunc}.{dtype}", row.kind
    w.define(name, f"internal {kind} {name}(ptr %x, i64 %n) noinline cold", partial(_in_order, w, ufunc, dtype))
    is_odd = compare_strictly(w, "ueq", kind, [extreme, "0.0"])
    w.when(is_odd, lambda: written(w, dtype, w.let(f"call {kind} {name}(ptr {x}, i64 {length})"), out))


def _in_order(w: Writer, ufunc: str, dtype: str) -> None:
    """Return the extreme of elements from the first one on."""
    kind = element_type(dtype)

    def compare(i: str, best: Sequence[str]) -> list[str]:
        x = read(w, dtype, w.element(kind, "%x", i))
        return [emit(w, ufunc, [*best, x], [dtype, dtype], dtype)]

    (best,) = w.carry([(kind, read(w, dtype, "%x"))], "1", "%n", 1, compare)
    w.line(f"ret {kind} {best}")


# --- Reductions of rows as LLVM IR: results stay in registers while rows are combined with them, in NumPy's order
#
# Of rows that are longer one chunk after the other is reduced, which threads may share; rows to come are fetched
# ahead, as chunks of neighbouring rows lie too far apart for the processor to see them coming.

COMBINING = ("arithmetic", "extreme")
LINE = 64  # bytes of the cache
RUNNING_NANOSECONDS = 1.5  # of a step that waits for the one before


def is_row_reduction(step: Step) -> TypeGuard[UfuncCall]:
    """Tell whether a step adds rows of neighbouring floats to each other, by an instruction."""
    if not isinstance(step, UfuncCall) or step.cores or step.loop is None or len(step.operands) != 3 or not step.space:
        return False
    (out, x, into), op = step.operands, scalar_op(step.loop.ufunc)
    is_instruction = out.dtype in ("f4", "f8") and out.dtype in op.dtypes and op.rule[0] in COMBINING
    is_reduction = out == into and out.dtype == x.dtype and 0 in out.strides[:-1]
    return is_instruction and is_reduction and x.strides[-1] == out.strides[-1] == x.size


def combine_rows(w: Writer, step: UfuncCall) -> None:
    """Add loops over chunks of rows of results, within these over the rows that each is made of."""
    size, length = step.operands[1].size, step.space[-1]
    chunk = _chunk(length, size, w.limits)
    whole, rest = divmod(length, chunk)
    starts = [start_of(w, ref) for ref in step.operands[:2]]
    if length == chunk:
        _combine(w, step, starts, length)
        return

    def at(i: str) -> list[str]:
        return [element_at(w, p, i, chunk * size) for p in starts]

    low, high = (
        ("%low", w.let(f"call i64 @llvm.smin.i64(i64 %high, i64 {whole})")) if step.is_cut else ("0", str(whole))
    )
    if step.is_cut:
        w.declare("smin", "declare i64 @llvm.smin.i64(i64, i64)")
    w.loop(low, high, 1, lambda i: _combine(w, step, at(i), chunk), leave_long(w, whole, step.nanoseconds / whole))
    if rest and step.is_cut:
        w.when(w.let(f"icmp sgt i64 %high, {whole}"), lambda: _combine(w, step, at(str(whole)), rest))
    elif rest:
        _combine(w, step, at(str(whole)), rest)


def cut_rows(step: UfuncCall, limits: NativeTarget) -> UfuncCall:
    """Return a reduction whose long rows threads share, chunk by chunk."""
    length = step.space[-1]
    chunk = _chunk(length, step.operands[1].size, limits)
    stops = (*range(chunk, length, chunk), length)
    return attrs.evolve(step, stops=stops, is_cut=True) if len(stops) > 1 else step


def _chunk(length: int, size: int, limits: NativeTarget) -> int:
    """Return the elements of a chunk: chunks are about equal, all but the last one whole vectors."""
    lanes = limits.vector_bytes // size
    count = -(-length * size // limits.row_max_bytes)
    return length if count == 1 else -(-length // (count * lanes)) * lanes


def _combine(w: Writer, step: UfuncCall, starts: Sequence[str], length: int) -> None:
    """Add the loops over rows of results, of so many elements, and over the rows that each is made of."""
    assert step.loop is not None
    ufunc, (out, x, _) = step.loop.ufunc, step.operands
    outer = range(len(step.space) - 1)
    unreduced, reduced = [tuple([k for k in outer if bool(out.strides[k]) == is_kept]) for is_kept in (True, False)]
    rows, turns = _along(step.space, unreduced), _along(step.space, reduced)
    ahead = x.strides[reduced[-1]] * w.limits.row_ahead_rows if length < step.space[-1] else 0

    dtype, kind = out.dtype, element_type(out.dtype)
    width, places = row_vectors(w, dtype, length)
    kept_in = [w.local(f"<{width} x {kind}>", 64) for _ in places]

    def each(pointer: str) -> Iterator[tuple[str, str]]:
        return ((own, w.element(kind, pointer, place)) for own, place in zip(kept_in, places, strict=True))

    def make(pointers: list[str]) -> None:
        w.lanes = width
        for own, at in each(pointers[0]):
            stored(w, dtype, read(w, dtype, at), own)
        over(w, turns, [_within(x, reduced)], combine, start=pointers[1:])
        for own, at in each(pointers[0]):
            written(w, dtype, read(w, dtype, own), at)
        w.lanes = 1

    def combine(pointers: list[str]) -> None:
        if ahead:
            _fetch(w, w.shifted(pointers[0], ahead), length * x.size)
        for own, at in each(pointers[0]):
            xs = [read(w, dtype, p) for p in (own, at)]
            stored(w, dtype, emit(w, ufunc, xs, [dtype, dtype], dtype), own)

    cost = step.nanoseconds / math.prod(rows) * length / step.space[-1]
    over(w, rows, [_within(out, unreduced), _within(x, unreduced)], make, start=starts, nanoseconds=cost)


def _fetch(w: Writer, pointer: str, nbytes: int) -> None:
    """Have the processor fetch memory that is read later."""
    w.declare("prefetch", "declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    for line in range(0, nbytes, LINE):
        w.line(f"call void @llvm.prefetch.p0(ptr {w.shifted(pointer, line)}, i32 0, i32 3, i32 1)")


def _along(values: Shape, axes: Sequence[int]) -> Shape:
    return tuple([values[k] for k in axes])


def _within(ref: Ref, axes: Sequence[int]) -> Ref:
    return attrs.evolve(ref, strides=_along(ref.strides, axes))


# --- Running results as LLVM IR: each stays in a register for the next one, in NumPy's order


def is_running(step: UfuncCall) -> bool:
    """Tell whether each result of a loop is an operand of the next one, by an instruction."""
    if step.cores or step.loop is None or len(step.operands) != 3 or not step.space:
        return False
    (before, x, out), op = step.operands, scalar_op(step.loop.ufunc)
    follows = before.strides == out.strides and before.offset + out.strides[-1] == out.offset != before.offset
    is_instruction = out.dtype == x.dtype and out.dtype in op.dtypes and op.rule[0] in COMBINING
    return follows and before.root == out.root and is_instruction


def emit_running(w: Writer, step: UfuncCall) -> None:
    """Add the loops over rows, and along each.

    Extremes, which may be taken in any grouping, are found in vectors: of 2, 4 ... neighbours, then with what was before.
    """
    assert step.loop is not None
    ufunc, (before, x, out), dtype, length = step.loop.ufunc, step.operands, step.operands[0].dtype, step.space[-1]
    kind, is_dense = element_type(dtype), x.strides[-1] == out.strides[-1] == x.size >= 4
    lanes = w.limits.vector_bytes // x.size if is_dense and scalar_op(ufunc).rule[0] == "extreme" else 1
    whole = length - length % lanes if lanes > 1 else 0

    def run(pointers: list[str]) -> None:
        def combine(i: str, known: Sequence[str]) -> list[str]:
            new = read(w, dtype, element_at(w, pointers[1], i, x.strides[-1]))
            for distance in [1 << k for k in range(w.lanes.bit_length() - 1)]:
                earlier = shuffled(w, kind, new, lanes, [k - distance * (k >= distance) for k in range(lanes)])
                new = emit(w, ufunc, [earlier, new], [dtype, dtype], dtype)
            result = emit(w, ufunc, [spread(w, kind, known[0]), new], [dtype, dtype], dtype)
            written(w, dtype, result, element_at(w, pointers[2], i, out.strides[-1]))
            return [result]

        def combine_lanes(i: str, known: Sequence[str]) -> list[str]:
            w.lanes = lanes
            (result,) = combine(i, known)
            w.lanes = 1
            return [w.let(f"extractelement <{lanes} x {kind}> {result}, i64 {lanes - 1}")]

        last = read(w, dtype, pointers[0])
        if whole:
            (last,) = w.carry([(kind, last)], "0", str(whole), lanes, combine_lanes, leave_long(w, whole, 1.0, lanes))
        w.carry([(kind, last)], str(whole), str(length), 1, combine, leave_long(w, length - whole, RUNNING_NANOSECONDS))

    over(w, step.outer, (before, x, out), run, nanoseconds=RUNNING_NANOSECONDS * length)
