"""Sorts of rows without NumPy, in place: what they give is the one ascending order, by whatever steps it is found.

Floats are compared as integers that have their order, -0 before 0 and nan last, so that sorted rows have one pattern of bits.
Indices are those of a stable sort: equal elements, of which -0 and 0 are two, are compared by their places. Rows are cut at a
pivot by a loop without branches (Edelkamp & Weiß 2016, "BlockQuicksort"; Lomuto's scheme), short ones sorted by insertion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.llvm.op import FLOATS, memory_type
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.standalone.matrix_loops import Elements, each, repeat, variable

SHORT = 24  # rows that insertion sorts
DEPTH = 64  # parts that wait: the shorter one goes first, so that each is at most half of the one below
STEP, START = 6364136223846793005, 1442695040888963407  # of Knuth's linear congruential generator, for places of pivots

Before: TypeAlias = Callable[[Lanes, Lanes], Lanes]
"""Whether an element stands before another one."""


def define_sort(w: Writer, symbol: str, name: str, dtype: str) -> None:
    """Define a function of a row, its indices where it finds those, its length and a pointer; it returns 0."""
    if name.startswith("argsort."):
        w.function(f'internal i32 @"{symbol}"(ptr %row, ptr %order, i64 %n, ptr %data)', lambda: _argsort(w, dtype))
    else:
        w.function(f'internal i32 @"{symbol}"(ptr %row, i64 %n, ptr %data)', lambda: _sort(w, dtype))


def _sort(w: Writer, dtype: str) -> None:
    """Sort elements, floats as integers."""
    kind, n = _integer(dtype), Lanes(w, "i64", "%n")
    row = Elements(w, kind, "%row", [int(dtype[1:])])
    if dtype in FLOATS:
        for i in each(w, 0, n):
            row[i,] = _ordered(row[i,], FLOATS[dtype])
    less = _less(dtype)
    _sort_by(w, row, n, lambda x, y: x.compare(less, y))
    if dtype in FLOATS:
        for i in each(w, 0, n):
            row[i,] = _turned(row[i,])
    w.line("ret i32 0")


def _argsort(w: Writer, dtype: str) -> None:
    """Sort indices by their elements, and by themselves where these are equal."""
    row = Elements(w, _integer(dtype), "%row", [int(dtype[1:])])
    less = _less(dtype)

    def element(k: Lanes) -> Lanes:
        x: Lanes = row[k,]
        return _ordered(x, FLOATS[dtype], joins_zeros=True) if dtype in FLOATS else x

    def before(i: Lanes, j: Lanes) -> Lanes:
        x, y = element(i), element(j)
        return x.compare(less, y) | (x.compare("eq", y) & i.compare("slt", j))

    _sort_by(w, Elements(w, "i64", "%order", [8]), Lanes(w, "i64", "%n"), before)
    w.line("ret i32 0")


def _integer(dtype: str) -> str:
    return f"i{8 * int(dtype[1:])}" if dtype in FLOATS else memory_type(dtype)


def _less(dtype: str) -> str:
    return "ult" if dtype[0] in "ub" else "slt"


def _turned(bits: Lanes) -> Lanes:
    """Return a float's bits as an integer of its order, or back: all but the sign of negative ones are turned over."""
    size = int(bits.kind[1:])
    mask: int = 2 ** (size - 1) - 1
    return bits ^ ((bits >> (size - 1)) & mask)


def _ordered(bits: Lanes, kind: str, *, joins_zeros: bool = False) -> Lanes:
    """Return an integer that has a float's place in the order, the last one for nan."""
    size = int(bits.kind[1:])
    x = Lanes(bits.w, kind, bits.w.let(f"bitcast {bits.kind} {bits.name} to {kind}"))
    if joins_zeros:
        bits = x.compare("oeq", 0.0).choose(bits.constant(0), bits)
    nan = {64: 0x7FF8000000000000, 32: 0x7FC00000}[size]
    return _turned(x.compare("uno", 0.0).choose(bits.constant(nan), bits))


def _sort_by(w: Writer, a: Elements, n: Lanes, before: Before) -> None:
    """Sort elements: parts that wait lie on a stack, from where to where each reaches."""
    starts, stops = [Elements(w, "i64", w.local(f"[{DEPTH} x i64]", 16), [8]) for _ in range(2)]
    top, low, high, seed = [variable(w, "i64") for _ in range(4)]
    zero = n.constant(0)
    starts[zero,], stops[zero,], top[()], seed[()] = zero, n, n.constant(1), n.constant(START)
    for _ in repeat(w, lambda: top[()].compare("sgt", 0)):
        top[()] = last = top[()] - 1
        low[()], high[()] = starts[last,], stops[last,]
        for _ in repeat(w, lambda: (high[()] - low[()]).compare("sgt", SHORT)):
            start, stop = low[()], high[()]
            pivot = _pivot(w, a, seed, start, stop, before)
            middle = _cut(w, a, start, stop, partial(_is_before, before, pivot))
            behind = _cut(w, a, middle, stop, partial(before, pivot), turned=True)
            is_left_short = (middle - start).compare("slt", stop - behind)
            place = top[()]
            starts[place,], stops[place,] = is_left_short.choose(behind, start), is_left_short.choose(stop, middle)
            top[()] = place + 1
            low[()], high[()] = is_left_short.choose(start, behind), is_left_short.choose(middle, stop)
        _insert(w, a, low[()], high[()], before)


def _is_before(before: Before, y: Lanes, x: Lanes) -> Lanes:
    return before(x, y)


def _pivot(w: Writer, a: Elements, seed: Elements, start: Lanes, stop: Lanes, before: Before) -> Lanes:
    """Return the middle one of three elements at places that no arrangement foresees."""
    xs = [a[place,] for place in _places(w, seed, start, stop)]
    is_less = before(xs[0], xs[1])
    low, high = is_less.choose(xs[0], xs[1]), is_less.choose(xs[1], xs[0])
    top = before(xs[2], high).choose(xs[2], high)
    return before(top, low).choose(low, top)


def _places(w: Writer, seed: Elements, start: Lanes, stop: Lanes) -> Iterator[Lanes]:
    for _ in range(3):
        number = seed[()] * STEP + START
        seed[()] = number
        high = Lanes(w, "i64", w.let(f"lshr i64 {number.name}, 33"))
        yield start + Lanes(w, "i64", w.let(f"urem i64 {high.name}, {(stop - start).name}"))


def _cut(
    w: Writer, a: Elements, start: Lanes, stop: Lanes, test: Callable[[Lanes], Lanes], *, turned: bool = False
) -> Lanes:
    """Bring elements of which a test is true (false, where turned) to the front; return where they end."""
    end = variable(w, "i64")
    end[()] = start
    for i in each(w, start, stop):
        place = end[()]
        x = a[i,]
        a[i,] = a[place,]
        a[place,] = x
        passed = test(x)
        step = Lanes(w, "i64", w.let(f"zext i1 {passed.name} to i64"))
        end[()] = place + 1 - step if turned else place + step
    return end[()]


def _insert(w: Writer, a: Elements, start: Lanes, stop: Lanes, before: Before) -> None:
    place = variable(w, "i64")
    for i in each(w, start, stop):
        x = a[i,]
        place[()] = i

        def moves(x: Lanes = x) -> Lanes:
            behind = place[()].compare("sgt", start)
            return behind & before(x, a[behind.choose(place[()] - 1, start),])

        for _ in repeat(w, moves):
            a[place[()],] = a[place[()] - 1,]
            place[()] = place[()] - 1
        a[place[()],] = x
