"""Sorts of rows without NumPy: what they give is the one ascending order, by whatever steps it is found.

Floats are compared as integers that have their order, -0 before 0 and nan last, so that sorted rows have one pattern of bits.
Indices are those of a stable sort, of which -0 and 0 are equal. Of short rows the elements in front of each one are counted in
vectors; longer ones are sorted by one digit after the other, the lowest first (Knuth 1998, Algorithm 5.2.5R).
"""

from __future__ import annotations

from collections.abc import Sequence

from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.llvm.op import FLOATS, memory_type, spread
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.standalone.matrix_loops import Elements, each, given, variable

COUNTED = 384  # rows that are counted: sorting by digits takes as long there
VECTOR = 16  # keys of four bytes that are compared at once
DIGITS = {1: (1, 8), 2: (2, 8), 4: (3, 11), 8: (6, 11)}  # bytes of an element to the number of digits, and their bits


def sort_numbers(size: int, n: int) -> int:
    """Return how many float64 a sort of so many elements of so many bytes works with: keys twice, places, counts of digits."""
    count, bits = DIGITS[size]
    return 2 * (n + VECTOR) if n <= COUNTED else 3 * n + (count << bits) // 2


def define_sort(w: Writer, symbol: str, name: str, dtype: str) -> None:
    """Define a function of a row, its indices where it finds those, its length and memory to work in; it returns 0."""
    finds = name.startswith("argsort.")
    order = "ptr noalias %order, " if finds else ""
    head = f'internal i32 @"{symbol}"(ptr noalias %row, {order}i64 %n, ptr noalias %work)'
    w.function(head, lambda: _Sort(w, dtype, finds=finds).emit())


class _Sort:
    """Emitter of the function of one dtype, of elements or of indices."""

    def __init__(self, w: Writer, dtype: str, *, finds: bool) -> None:
        self.w = w
        self.finds = finds
        self.dtype = dtype
        self.size = int(dtype[1:])
        self.n = Lanes(w, "i64", "%n")
        self.kind = f"i{8 * self.size}" if dtype in FLOATS else memory_type(dtype)
        self.key_bytes = max(self.size, 4)
        self.row = Elements(w, self.kind, "%row", [self.size])
        self.order = Elements(w, "i64", "%order", [8])

    def emit(self) -> None:
        """Add both ways."""
        w = self.w
        w.line(f"br i1 {self.n.compare('sle', COUNTED).name}, label %short, label %long")
        w.label("short")
        self._count()
        w.line("ret i32 0")
        w.label("long")
        self._sort_by_digits()
        w.line("ret i32 0")

    # -- keys --
    @property
    def _key_kind(self) -> str:
        return f"i{8 * self.key_bytes}"

    def _key(self, bits: Lanes) -> Lanes:
        """Return an element as a signed integer that has its place in the order, the last one of floats for nan."""
        w, sign = self.w, 8 * self.size - 1
        if self.dtype in FLOATS:
            x = Lanes(w, FLOATS[self.dtype], w.let(f"bitcast {bits.kind} {bits.name} to {FLOATS[self.dtype]}"))
            if self.finds:
                bits = x.compare("oeq", 0.0).choose(bits.constant(0), bits)
            nan = {64: 0x7FF8000000000000, 32: 0x7FC00000}[8 * self.size]
            bits = self._turned(x.compare("uno", 0.0).choose(bits.constant(nan), bits))
        elif self.dtype[0] == "u":
            bits = bits ^ (1 << sign)
        if self.size >= self.key_bytes:
            return bits
        return Lanes(w, self._key_kind, w.let(f"sext {bits.kind} {bits.name} to {self._key_kind}"))

    def _element(self, key: Lanes) -> Lanes:
        """Return the element of a key."""
        bits = key if self.size >= self.key_bytes else key.truncated(self.kind)
        if self.dtype in FLOATS:
            return self._turned(bits)
        return bits ^ (1 << 8 * self.size - 1) if self.dtype[0] == "u" else bits

    def _turned(self, bits: Lanes) -> Lanes:
        """Return a float's bits as an integer of its order, or back: all but the sign of negative ones are turned over."""
        sign = 8 * self.size - 1
        return bits ^ ((bits >> sign) & ((1 << sign) - 1))

    def _memory(self, kind: str, place: Lanes) -> Elements:
        """Return memory to work in, behind so many float64."""
        return Elements(self.w, kind, self.w.shifted("%work", (place * 8).name), [int(kind[1:]) // 8])

    # -- short rows: the place of an element is how many stand in front of it --
    def _count(self) -> None:
        """Sort a short row: the place of each element is the number of those that come before it."""
        w, n, lanes = self.w, self.n, 4 * VECTOR // self.key_bytes
        end = (n + (lanes - 1)) & -lanes
        keys, places = self._memory(self._key_kind, n.constant(0)), self._memory(self._key_kind, end)
        for i in each(w, 0, n):
            keys[i,] = self._key(self.row[i,])
        for i in each(w, n, end):
            keys[i,] = Lanes(w, self._key_kind, str((1 << 8 * self.key_bytes - 1) - 1))
        total = w.local(f"<{lanes} x {self._key_kind}>", 64)
        for start in each(w, 0, end, lanes):
            self._count_before(keys, start, end, lanes, total)
            at, w.lanes = places.at(start), lanes
            counted = Lanes(w, self._key_kind, w.let(f"load {w.vector(self._key_kind)}, ptr {total}"))
            w.line(f"store {counted.type} {counted.name}, ptr {at}, align {self.key_bytes}")
            w.lanes = 1
        for i in each(w, 0, n):
            place = places[i,] if self.key_bytes == 8 else places[i,].extended()
            if self.finds:
                self.order[place,] = i
            else:
                self.row[place,] = self._element(keys[i,])

    def _count_before(self, keys: Elements, start: Lanes, end: Lanes, lanes: int, total: str) -> None:
        """Count what stands in front of neighbours: of those before them equal ones too, among themselves by their places."""
        w, kind, at, stop = self.w, self._key_kind, keys.at(start), start + lanes
        w.lanes = lanes
        own = Lanes(w, kind, w.let(f"load {w.vector(kind)}, ptr {at}, align {self.key_bytes}"))
        w.line(f"store {own.type} zeroinitializer, ptr {total}")
        numbers = Lanes(w, kind, f"<{', '.join([f'{kind} {k}' for k in range(lanes)])}>")
        for first, last, predicate in ((0, start, "sle"), (start, stop, ""), (stop, end, "slt")):
            for j in each(w, first, last):
                w.lanes = 1
                one = keys[j,].name
                here = "" if predicate else w.let(f"sub i64 {j.name}, {start.name}")
                here = w.let(f"trunc i64 {here} to {kind}") if here and kind != "i64" else here
                w.lanes = lanes
                key = Lanes(w, kind, spread(w, kind, one))
                is_before = key.compare(predicate or "slt", own)
                if not predicate:
                    later = Lanes(w, kind, spread(w, kind, here)).compare("slt", numbers)
                    is_before = is_before | (key.compare("eq", own) & later)
                seen = Lanes(w, kind, w.let(f"load {own.type}, ptr {total}"))
                w.line(f"store {own.type} {is_before.choose(seen + 1, seen).name}, ptr {total}")
        w.lanes = 1

    # -- long rows: stable passes, a digit each; where all elements have the same one, none --
    def _sort_by_digits(self) -> None:
        """Sort a row digit by digit, from the lowest on, each by counting; a digit that all elements share is left out."""
        w, n, (count, bits) = self.w, self.n, DIGITS[self.size]
        counts = self._memory("i32", n * 3)
        for i in each(w, 0, count << bits):
            counts[i,] = i.truncated("i32").constant(0)
        keys, order = [[variable(w, "ptr"), variable(w, "ptr")] for _ in range(2)]
        for k, place in ((0, n * 0), (1, n)):
            keys[k][()] = Lanes(w, "ptr", self._memory(self._key_kind, place).at(n.constant(0)))
        order[0][()] = Lanes(w, "ptr", "%order" if self.finds else "%work")
        order[1][()] = Lanes(w, "ptr", self._memory("i64", n * 2).at(n.constant(0)))
        self._count_digits(counts)
        for number in each(w, 0, count):
            start, shift = number << bits, number * bits
            source = Elements(w, self._key_kind, keys[0][()].name, [self.key_bytes])
            most = counts[start + self._digit(source[n.constant(0),], shift),]
            for _ in given(w, most.compare("ne", n.truncated("i32"))):
                self._pass(keys, order, counts, start, shift)
        last = Elements(w, self._key_kind, keys[0][()].name, [self.key_bytes])
        found = Elements(w, "i64", order[0][()].name, [8])
        for i in each(w, 0, n):
            if self.finds:
                self.order[i,] = found[i,]
            else:
                self.row[i,] = self._element(last[i,] ^ (1 << 8 * self.size - 1))

    def _count_digits(self, counts: Elements) -> None:
        """Write the keys down, and count at each place of their digits how often each one stands there."""
        n, (count, bits) = self.n, DIGITS[self.size]
        keys = self._memory(self._key_kind, n.constant(0))
        for i in each(self.w, 0, n):
            key = self._key(self.row[i,]) ^ (1 << 8 * self.size - 1)
            keys[i,] = key
            if self.finds:
                self.order[i,] = i
            for k in range(count):
                place = self._digit(key, n.constant(k * bits)) + (k << bits)
                counts[place,] += 1

    def _digit(self, key: Lanes, shift: Lanes) -> Lanes:
        """Return the bits of a key from one on, a natural number."""
        w, wide = self.w, key if self.key_bytes == 8 else key.extended()
        return Lanes(w, "i64", w.let(f"lshr i64 {wide.name}, {shift.name}")) & ((1 << DIGITS[self.size][1]) - 1)

    def _pass(
        self, keys: Sequence[Elements], order: Sequence[Elements], counts: Elements, start: Lanes, shift: Lanes
    ) -> None:
        """Add the pass of one digit, whose counts become places."""
        w, total = self.w, variable(self.w, "i32")
        total[()] = Lanes(w, "i32", "0")
        for digit in each(w, start, start + (1 << DIGITS[self.size][1])):
            before = total[()]
            total[()] = before + counts[digit,]
            counts[digit,] = before
        source, target = [Elements(w, self._key_kind, v[()].name, [self.key_bytes]) for v in keys]
        places, moved = [Elements(w, "i64", v[()].name, [8]) for v in order]
        for i in each(w, 0, self.n):
            key = source[i,]
            digit = start + self._digit(key, shift)
            place = counts[digit,]
            counts[digit,] = place + 1
            target[place.extended(),] = key
            if self.finds:
                moved[place.extended(),] = places[i,]
        for first, second in (keys, order) if self.finds else (keys,):
            first[()], second[()] = second[()], first[()]
