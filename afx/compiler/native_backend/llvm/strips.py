"""Strips as LLVM IR: neighbouring elements step by step, elements at indices, searches, first elements and random words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.functions.table import emit_fast
from afx.compiler.native_backend.llvm.loops import element_at, move, over, start_of
from afx.compiler.native_backend.llvm.op import (
    FLOATS,
    align,
    compared,
    element_type,
    emit,
    memory_type,
    read,
    read_one,
    stored,
    written,
)
from afx.compiler.native_backend.llvm.writer import FACTORIZATION, Writer, as_pointers
from afx.compiler.native_backend.program.elements import Fast
from afx.compiler.native_backend.program.leaves import COMBINING, Routine
from afx.compiler.schedule.arrays import PHILOX_FACTORS, PHILOX_ROUNDS, PHILOX_STEPS

# --- Strips: as many neighbouring elements of a row as are computed one step after the other
#
# All strips of a row share their code. The last one may be shorter: loops end earlier there, and what fills no vector
# takes vectors of half the size, and half of that, which no other strip comes to. LLVM fills a vector of less than
# sixteen bytes up with elements of any value, which raise flags: two floats are computed as four, each of them twice.
#
# A function of the second tier over a strip is a function of LLVM that all its callers share. Its loop has one vector
# at a time. What is left over at the end goes through memory of one whole vector, whose other elements repeat the
# last one: so the code of a function stands once in a module, and raises no flag of its own.

SINGLE_LANES = 4  # of vectors of elements of four bytes that are not filled up

Lines: TypeAlias = "tuple[int, Callable[[str], None]]"
"""How many elements, in several vectors, and what adds the code for them."""


class Extent:
    """Elements of a strip.

    Args:
        w: where loops are emitted.
        count: how many there are.
        rest: how many there are in the last strip; 0 where that is as long as all others.
        is_last: whether this strip is the last one, as a value of LLVM, where that is shorter.

    Attributes:
        has_singles: whether elements are floats of four bytes.
    """

    def __init__(self, w: Writer, count: int, rest: int = 0, is_last: str = "") -> None:
        self.w = w
        self.count: int = count
        self.rest: int = rest
        self.is_last: str = is_last
        self.has_singles: bool = False

    def length(self, multiple: int = 1) -> str:
        """Return how many elements there are, rounded down to a multiple."""
        whole, rest = [n // multiple * multiple for n in (self.count, self.rest)]
        return self.w.let(f"select i1 {self.is_last}, i64 {rest}, i64 {whole}") if self.rest else str(whole)

    def loop(self, width: int, body: Callable[[str], None], lines: Lines | None = None) -> None:
        """Add a loop over vectors, and what is left over; ``lines`` of several vectors come before, where they are given."""
        step, first = lines or (width, body)
        self.w.lanes = width
        if self.rest:
            self.w.loop("0", self.length(step), step, first)
        else:
            self._loop(0, self.count // step * step, step, first)
        ends = [n // step * step for n in (self.count, self.rest)]
        if ends[0] < self.count:
            assert not self.rest
            self._smaller(ends[0], self.count, width, body)
        elif ends[1] < self.rest:
            self.w.when(self.is_last, lambda: self._smaller(ends[1], self.rest, width, body))
        self.w.lanes = 1

    def _smaller(self, at: int, end: int, width: int, body: Callable[[str], None]) -> None:
        """Add loops over vectors, then over smaller and smaller ones."""
        while width >= 2:
            whole = end - (end - at) % width
            is_repeated = self.has_singles and width < SINGLE_LANES
            self.w.lanes, self.w.elements = (SINGLE_LANES, width) if is_repeated else (width, 0)
            self._loop(at, whole, width, body)
            at, width = whole, width // 2
        self.w.lanes, self.w.elements = 1, 0
        self._loop(at, end, 1, body)

    def _loop(self, at: int, end: int, step: int, body: Callable[[str], None]) -> None:
        if end - at > step:
            self.w.loop(str(at), str(end), step, body)
        elif end > at:
            body(str(at))


def call_on_strip(
    w: Writer, function: Fast, dtype: str, operands: Sequence[tuple[str, int]], out: str, count: str, lanes: int
) -> None:
    """Add a call of a function on a strip.

    Args:
        w: where it is emitted.
        function: what is computed.
        dtype: of operands and result.
        operands: pointers and strides, which are 0 or those of neighbours.
        out: where the results go, next to each other.
        count: length of the strip.
        lanes: how many elements are computed at once.
    """
    strides = [stride for _, stride in operands]
    name = f"@strip.{function.name}.{dtype}.{'.'.join(map(str, strides))}"
    names = [f"%x{k}" for k in range(len(operands))]
    params = as_pointers([*names, "%z"])
    w.define(
        name,
        f"internal void {name}({params}, i64 %count) noinline",
        lambda: _emit(w, function, dtype, strides, lanes, names),
    )
    w.line(f"call void {name}({as_pointers([*[p for p, _ in operands], out])}, i64 {count})")


def _emit(w: Writer, function: Fast, dtype: str, strides: Sequence[int], lanes: int, names: Sequence[str]) -> None:
    """Add the loop over a strip; operands that repeat one element are read anew for each vector."""
    kind, before, w.lanes = memory_type(dtype), w.lanes, lanes
    whole = w.let(f"and i64 %count, {-lanes}")
    rest = w.let(f"mul nuw nsw i64 {w.let(f'sub nuw nsw i64 %count, {whole}')}, {int(dtype[1:])}")
    memory = [w.local(f"[{lanes} x {kind}]", 64) if stride else "" for stride in (*strides, 1)]
    for x, edge in zip(names, memory, strict=False):
        if edge:  # memory of one vector that begins with what is left over, and repeats the last element
            last = w.element(kind, x, w.let("sub nsw i64 %count, 1"))
            written(w, dtype, read_one(w, dtype, last), edge)
            w.copy(edge, w.element(kind, x, whole), rest)

    def vector(i: str) -> None:
        is_whole = w.let(f"icmp ult i64 {i}, {whole}")

        def chosen(pointer: str, edge: str) -> str:
            return w.let(f"select i1 {is_whole}, ptr {w.element(kind, pointer, i)}, ptr {edge}")

        xs = [
            read(w, dtype, chosen(x, edge)) if edge else read_one(w, dtype, x)
            for x, edge in zip(names, memory, strict=False)
        ]
        written(w, dtype, emit_fast(w, function, xs, dtype), chosen("%z", memory[-1]))

    w.loop("0", "%count", lanes, vector)
    w.copy(w.element(kind, "%z", whole), memory[-1], rest)
    w.line("ret void")
    w.lanes = before


# --- Indices as LLVM IR: elements at indices that arrays of integers name


def emit_indexed(w: Writer, step: Routine) -> None:
    """Add the loops of elements at indices: those are read once for the axes behind the last one that they walk along."""
    _Indexed(w, step).emit()


class _Indexed:
    """Emitter: ``part`` are the elements that are made or given, ``whole`` is the array that is indexed."""

    def __init__(self, w: Writer, step: Routine) -> None:
        self.w, self.name, self.space = w, step.name, step.space
        *self.indices, x, z = step.operands
        self.part, self.whole = (z, x) if self.name == "gather" else (x, z)
        self.refs = [self.part, self.whole, *self.indices]
        count = len(self.indices)
        self.steps, self.lengths = step.sizes[:count], step.sizes[count:]
        self.depth = max([k + 1 for ref in self.indices for k, s in enumerate(ref.strides) if s] or [0])

    def emit(self) -> None:
        """Add the loops."""
        is_line = self.space and self.depth == len(self.space) and not self.whole.strides[-1]
        if is_line and all(index.strides[-1] == index.size for index in self.indices):
            over(self.w, self.space[:-1], self.refs, self._line)
        else:
            over(self.w, self.space[: self.depth], self.refs, self._move)

    def _move(self, pointers: list[str]) -> None:
        part, whole, *indices = pointers
        for index, ref, length, stride in zip(indices, self.indices, self.lengths, self.steps, strict=True):
            whole = self.w.shifted(whole, _offset(self.w, index, ref.dtype, length, stride))
        self._rows(part, whole)

    def _line(self, pointers: list[str]) -> None:
        """Add a line of elements: strip by strip, their indices are checked in lanes before they are used."""
        w, (part, whole, *indices) = self.w, pointers
        length, most = self.space[-1], w.limits.strip_elements
        offsets = w.local(f"[{min(length, most)} x i64]", 64)

        def strip(start: str, count: int) -> None:
            places = [element_at(w, p, start, ref.strides[-1]) for p, ref in zip(indices, self.indices, strict=True)]
            Extent(w, count).loop(w.limits.index_lanes, lambda i: self._check(places, i, offsets))
            w.loop("0", str(count), 1, lambda i: transfer(start, i))

        def transfer(start: str, i: str) -> None:
            k = w.let(f"add nuw nsw i64 {start}, {i}")
            there = w.shifted(whole, w.let(f"load i64, ptr {w.element('i64', offsets, i)}, align 8"))
            self._element(element_at(w, part, k, self.part.strides[-1]), there)

        stop = length - length % most
        if stop:
            w.loop("0", str(stop), most, lambda start: strip(start, most))
        if stop < length:
            strip(str(stop), length - stop)

    def _check(self, places: list[str], i: str, offsets: str) -> None:
        """Store how many bytes neighbouring indices lead away."""
        w, kind, total = self.w, self.w.vector("i64"), ""
        for pointer, ref, length, stride in zip(places, self.indices, self.lengths, self.steps, strict=True):
            leads = _offset(w, w.element(element_type(ref.dtype), pointer, i), ref.dtype, length, stride)
            total = w.let(f"add {kind} {total}, {leads}") if total else leads
        w.line(f"store {kind} {total}, ptr {w.element('i64', offsets, i)}, align 8")

    def _rows(self, part: str, whole: str) -> None:
        """Add loops over the axes that no index walks along, vectors at once where elements are next to each other."""
        w, space, size = self.w, self.space[self.depth :], self.part.size
        dense = bool(space) and self.part.strides[-1] == size == self.whole.strides[-1]

        def one(pointers: list[str]) -> None:
            self._element(pointers[0], pointers[1])

        def row(pointers: list[str]) -> None:
            extent = Extent(w, space[-1])
            extent.has_singles = self.part.dtype == "f4" and self.name in COMBINING
            extent.loop(w.limits.vector_bytes // size, lambda i: one([element_at(w, p, i, size) for p in pointers]))

        outer = self.space[:-1] if dense else self.space
        over(w, outer, self.refs[:2], row if dense else one, self.depth, [part, whole])

    def _element(self, part: str, whole: str) -> None:
        w, dtype = self.w, self.part.dtype
        value = read(w, dtype, whole if self.name == "gather" else part)
        if self.name in COMBINING:
            value = emit(w, COMBINING[self.name], [read(w, dtype, whole), value], [dtype, dtype], dtype)
        written(w, dtype, value, part if self.name == "gather" else whole)


def _offset(w: Writer, pointer: str, dtype: str, length: int, step: int) -> str:
    """Return how many bytes an index leads away; one outside of its axis is a fault, and leads nowhere."""
    index, kind, test = read(w, dtype, pointer), w.vector("i64"), w.vector("i1")
    if dtype[1:] != "8":
        index = w.let(f"{'sext' if dtype[0] == 'i' else 'zext'} {w.vector(element_type(dtype))} {index} to {kind}")
    zero, all_of = (w.splat("i64", str(n)) for n in (0, length))
    below = w.let(f"icmp slt {kind} {index}, {zero}")
    index = w.let(f"select {test} {below}, {kind} {w.let(f'add {kind} {index}, {all_of}')}, {kind} {index}")
    outside = w.let(f"icmp uge {kind} {index}, {all_of}")
    w.fault(outside)
    checked = w.let(f"select {test} {outside}, {kind} {zero}, {kind} {index}")
    return w.let(f"mul {kind} {checked}, {w.splat('i64', str(step))}")


def emit_refusal(w: Writer, step: Routine) -> None:
    """Add the loop that copies numbers, of which one that is not 0 is a matrix without factors."""
    x, out = step.operands

    def copy(pointers: list[str]) -> None:
        value = read(w, x.dtype, pointers[0])
        w.fault(compared(w, "une", [value, w.splat(element_type(x.dtype), "0.0")], x.dtype), FACTORIZATION)
        written(w, out.dtype, value, pointers[1])

    over(w, step.space, (x, out), copy)


# --- Binary search as LLVM IR: a fixed number of halvings without a branch, of several values side by side


def emit_search(w: Writer, step: Routine) -> None:
    """Add the loops over values; in vectors where these lie side by side, of which the last one may overlap the one before."""
    value, _, out = step.operands
    *outer, count = step.space or (1,)
    lanes = w.limits.search_lanes
    if count < lanes or (value.strides[-1], out.strides[-1]) != (value.size, out.size):
        over(w, step.space, step.operands, lambda at: _look(w, step, *at))
        return

    def search(pointers: list[str]) -> None:
        def look(i: str) -> None:
            at = move(w, pointers, step.operands, len(outer), i)
            w.lanes = lanes
            _look(w, step, *at)
            w.lanes = 1

        w.loop("0", str(count - lanes), lanes, look)
        look(str(count - lanes))

    over(w, tuple(outer), step.operands, search)


def _look(w: Writer, step: Routine, value_at: str, vector: str, out: str) -> None:
    """Store how many elements stand before values: the place lies in a range whose length is known, and is halved."""
    value, place = read(w, step.operands[0].dtype, value_at), Lanes(w, "i64", w.splat("i64", "0"))
    length = step.sizes[0]
    while length:
        half = (length + 1) // 2
        x = _element(w, step, vector, place + (half - 1))
        is_before = _stands_before(w, step.operands[0].dtype, x, value, step.name == "search.right")
        place = place + is_before.choose(place.constant(half), 0)
        length -= half
    written(w, "i8", place.name, out)


def _element(w: Writer, step: Routine, vector: str, index: Lanes) -> str:
    """Return elements at indices of the sorted vector, operand 1, to which a pointer points."""
    dtype, offset = step.operands[1].dtype, (index * step.sizes[1]).name
    if w.lanes == 1:
        return read(w, dtype, w.shifted(vector, offset))
    kind, n, suffix = memory_type(dtype), w.lanes, w.suffix(memory_type(dtype))
    function, of_places = f"@llvm.masked.gather.{suffix}.v{n}p0", f"<{n} x ptr>"
    vector_kind, test = w.vector(kind), w.vector("i1")
    w.declare(function, f"declare {vector_kind} {function}({of_places}, i32, {test}, {vector_kind})")
    at = w.let(f"getelementptr i8, ptr {vector}, <{n} x i64> {offset}")
    args = f"{of_places} {at}, i32 {align(dtype)}, {test} {w.splat('i1', 'true')}, {vector_kind} poison"
    raw = w.let(f"call {vector_kind} {function}({args})")
    return w.let(f"icmp ne <{n} x i8> {raw}, zeroinitializer") if dtype == "b1" else raw


def _stands_before(w: Writer, dtype: str, x: str, value: str, is_right: bool = False) -> Lanes:
    """Tell whether an element stands before a value, or beside it, in NumPy's order, in which nan is the largest."""
    kind, test = element_type(dtype), w.vector("i1")
    if dtype not in FLOATS:
        sign = "s" if dtype[0] == "i" else "u"
        return Lanes(w, "i1", w.let(f"icmp {sign}{'le' if is_right else 'lt'} {w.vector(kind)} {x}, {value}"))
    is_nan = compared(w, "uno", [value, value], dtype)
    if not is_right:
        is_nan = w.let(f"and {test} {is_nan}, {compared(w, 'ord', [x, x], dtype)}")
    return Lanes(w, "i1", w.let(f"or {test} {is_nan}, {compared(w, 'ole' if is_right else 'olt', [x, value], dtype)}"))


# --- First elements as LLVM IR: those of a row that come first in its order, equal ones as they stand
#
# They are kept in order. Vectors of the row of which none stands before the last of them are passed over.


def emit_first(w: Writer, step: Routine) -> None:
    """Add the loops over rows."""
    cost = 0.3 * step.space[-1]
    over(w, step.space[:-1], step.operands, lambda at: _First(w, step, *at).emit(), nanoseconds=cost)


class _First:
    """Emitter of one row: its first elements so far, and where they stand, are in memory of the stack."""

    def __init__(self, w: Writer, step: Routine, x: str, out: str) -> None:
        self.w, self.step, self.x, self.out = w, step, x, out
        self.dtype, (self.count, self.stride) = step.operands[0].dtype, step.sizes
        self.kind = memory_type(self.dtype)
        self.found, self.places = (w.local(f"[{self.count} x {kind}]", 64) for kind in (self.kind, "i64"))
        self.last = w.element(self.kind, self.found, self.count - 1)

    def emit(self) -> None:
        """Add the loops along the row, and one that stores what they have found."""
        w, length, (*_, ref) = self.w, self.step.space[-1], self.step.operands
        w.loop("0", str(self.count), 1, lambda i: self._insert(self._read(i), i, i))
        lanes = 4 * w.limits.vector_bytes // int(self.dtype[1:])
        stop = length - (length - self.count) % lanes
        w.loop(str(self.count), str(stop), lanes, lambda i: self._pass_over(i, lanes))
        w.loop(str(stop), str(length), 1, self._offer)
        kind = memory_type(ref.dtype)
        source = self.places if self.step.name == "first.places" else self.found

        def store(i: str) -> None:
            value = w.let(f"load {kind}, ptr {w.element(kind, source, i)}")
            w.line(f"store {kind} {value}, ptr {element_at(w, self.out, i, self.stride)}, align {align(ref.dtype)}")

        w.loop("0", str(self.count), 1, store)

    def _read(self, i: str) -> str:
        return read(self.w, self.dtype, self.w.element(self.kind, self.x, i))

    def _pass_over(self, start: str, lanes: int) -> None:
        """Add what offers the elements of a vector one by one, where any of them stands before the last one found."""
        w = self.w
        w.lanes = lanes
        some = w.any(_stands_before(w, self.dtype, self._read(start), read_one(w, self.dtype, self.last)).name)
        w.lanes = 1
        w.when(some, lambda: w.loop(start, w.let(f"add nsw i64 {start}, {lanes}"), 1, self._offer))

    def _offer(self, i: str) -> None:
        w, value = self.w, self._read(i)
        is_before = _stands_before(w, self.dtype, value, read(w, self.dtype, self.last)).name
        w.when(is_before, lambda: self._insert(value, i, str(self.count - 1)))

    def _insert(self, value: str, i: str, free: str) -> None:
        """Add a loop that moves what the value stands before, into a free place at first, and puts it in front of that."""
        w, before = self.w, list[str]()

        def down(_: str, values: Sequence[str]) -> list[str]:
            before[:] = [*values, w.let(f"sub nsw i64 {values[0]}, 1")]
            return before[1:]

        def leave(_: str, done: str, following: str) -> None:
            here, there = before
            other = read(w, self.dtype, w.element(self.kind, self.found, there))
            w.line(f"br i1 {_stands_before(w, self.dtype, value, other).name}, label %m{following}, label %{done}")
            w.label(f"m{following}")
            self._put(other, w.let(f"load i64, ptr {w.element('i64', self.places, there)}"), here)
            w.line(f"br label %{following}")

        (place,) = w.carry([("i64", free)], "0", free, 1, down, leave)
        self._put(value, i, place)

    def _put(self, value: str, i: str, place: str) -> None:
        w = self.w
        stored(w, self.dtype, value, w.element(self.kind, self.found, place))
        w.line(f"store i64 {i}, ptr {w.element('i64', self.places, place)}, align 8")


# --- Random words as LLVM IR: blocks of Philox4x32-10 (Salmon et al. 2011), in integers of 64 bits

MASK = 0xFFFFFFFF
BLOCK_BYTES = 16


def emit_words(w: Writer, step: Routine) -> None:
    """Add the loops over keys and blocks."""
    key, *counter, out = [start_of(w, ref) for ref in step.operands]
    (keys, blocks, _), (purpose,) = step.space, step.sizes

    def of_key(k: str) -> None:
        words = w.shifted(key, w.let(f"mul nsw i64 {k}, 8"))
        first, second = (_wide(w, w.let(f"load i32, ptr {w.shifted(words, at)}, align 4")) for at in (0, 4))
        rows = w.shifted(out, w.let(f"mul nsw i64 {k}, {blocks * BLOCK_BYTES}"))
        if counter:
            number = w.let(f"load i64, ptr {w.shifted(counter[0], w.let(f'mul nsw i64 {k}, 8'))}")
            _block(w, (first, second), number, purpose, rows)
            return
        w.loop(
            "0", str(blocks), 1,
            lambda i: _block(w, (first, second), i, purpose, w.shifted(rows, w.let(f"mul nsw i64 {i}, {BLOCK_BYTES}"))),
        )  # fmt: skip

    w.loop("0", str(keys), 1, of_key)


def _wide(w: Writer, word: str) -> str:
    return w.let(f"zext i32 {word} to i64")


def _low(w: Writer, x: str) -> str:
    return w.let(f"and i64 {x}, {MASK}")


def _high(w: Writer, x: str) -> str:
    return w.let(f"lshr i64 {x}, 32")


def _block(w: Writer, key: tuple[str, str], number: str, purpose: int, out: str) -> None:
    """Add one block: rounds on four words, the key growing with each."""
    x0, x1, x2, x3 = _low(w, number), _high(w, number), "0", str(purpose)
    k0, k1 = key
    for _ in range(PHILOX_ROUNDS):
        p0 = w.let(f"mul i64 {x0}, {PHILOX_FACTORS[0]}")
        p1 = w.let(f"mul i64 {x2}, {PHILOX_FACTORS[1]}")
        x0, x1, x2, x3 = _mixed(w, p1, x1, k0), _low(w, p1), _mixed(w, p0, x3, k1), _low(w, p0)
        k0, k1 = (_low(w, w.let(f"add i64 {k}, {s}")) for k, s in zip((k0, k1), PHILOX_STEPS, strict=True))
    for at, (low, high) in enumerate(((x0, x1), (x2, x3))):
        pair = w.let(f"or i64 {low}, {w.let(f'shl i64 {high}, 32')}")
        w.line(f"store i64 {pair}, ptr {w.shifted(out, 8 * at)}, align 8")


def _mixed(w: Writer, product: str, x: str, k: str) -> str:
    return w.let(f"xor i64 {w.let(f'xor i64 {_high(w, product)}, {x}')}, {k}")
