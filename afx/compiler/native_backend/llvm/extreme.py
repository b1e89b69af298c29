"""Extremes of rows and their places as LLVM IR: the extreme of a row in lanes, then the first element that equals it.

An extreme does not mind an element twice, so that a short row is some vectors, of which the last one may overlap the one
before; only the sign of a zero, and what nan carries, depend on the order in which elements are compared, and such rows
are compared again in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from afx.compiler.native_backend.llvm.fold import FOLD_LANES, Accumulator
from afx.compiler.native_backend.llvm.nested import element_at, over
from afx.compiler.native_backend.llvm.op import element_type, emit, read, shuffled, spread, written
from afx.compiler.native_backend.llvm.writer import Writer, compare_strictly
from afx.compiler.native_backend.program import Routine
from afx.compiler.target import NativeTarget
from afx.core.aval import Shape

__all__ = ["emit_extreme", "emit_ordered_extreme", "is_short_row", "row_vectors"]

UFUNCS = {"argmax": "maximum", "argmin": "minimum"}


def emit_extreme(w: Writer, step: Routine) -> None:
    """Add the loops that look for the first extreme of each row; the first nan is one."""
    x, _ = step.operands
    is_dense = x.dtype in ("f4", "f8") and x.strides[-1] == x.size and step.space[-1] >= FOLD_LANES
    search = _Lanes(w, step).search if is_dense else partial(_search_each, w, step)
    if is_short_row(x.dtype, step.space, x.strides[-1], w.limits):
        search = partial(_search_short_row, w, step)
    over(w, step.space[:-1], step.operands, search)


def _search_short_row(w: Writer, step: Routine, pointers: list[str]) -> None:
    """Add what stores the index of the extreme of a row that registers hold."""
    x, out = pointers
    row = _ShortRow(w, step.operands[0].dtype, step.space[-1], x)
    w.line(f"store i64 {row.find(row.extreme(UFUNCS[step.name]))}, ptr {out}")


class _Lanes:
    """Emitter for rows of floats that are next to each other."""

    def __init__(self, w: Writer, step: Routine) -> None:
        self.w = w
        self.dtype = step.operands[0].dtype
        self.kind = element_type(self.dtype)
        self.length = step.space[-1]
        self.lanes = w.limits.vector_bytes // int(self.dtype[1:])
        self.extreme = Accumulator(w, UFUNCS[step.name], self.dtype, self.length)

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


def _search_each(w: Writer, step: Routine, pointers: list[str]) -> None:
    """Add what stores the index of the extreme of one row, element by element."""
    dtype, stride = step.operands[0].dtype, step.operands[0].strides[-1]
    kind = element_type(dtype)

    def look(i: str, values: Sequence[str]) -> list[str]:
        known, place = values
        x = read(w, dtype, element_at(w, pointers[0], i, stride))
        better = _is_better(w, step.name, dtype, x, known)
        if dtype in ("f4", "f8"):
            new, old = w.let(f"fcmp uno {kind} {x}, 0.0"), w.let(f"fcmp ord {kind} {known}, 0.0")
            better = w.let(f"or i1 {better}, {w.let(f'and i1 {new}, {old}')}")
        best = w.let(f"select i1 {better}, {kind} {x}, {kind} {known}")
        return [best, w.let(f"select i1 {better}, i64 {i}, i64 {place}")]

    first = read(w, dtype, pointers[0])
    _, place = w.carry([(kind, first), ("i64", "0")], "1", str(step.space[-1]), 1, look)
    w.line(f"store i64 {place}, ptr {pointers[1]}")


def _is_better(w: Writer, name: str, dtype: str, x: str, known: str) -> str:
    if dtype != "b1":
        return emit(w, "greater" if name == "argmax" else "less", [x, known], [dtype, dtype], "b1")
    first, second = (x, known) if name == "argmax" else (known, x)
    return w.let(f"and i1 {first}, {w.let(f'xor i1 {second}, true')}")


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
        w, found = self.w, self.vectors[0]
        w.lanes = self.lanes
        for x in self.vectors[1:]:
            found = self._better(name, found, x)
        width = self.lanes
        while width > 1:
            width //= 2
            found = self._better(name, found, self._turned(found, width))
        w.lanes = 1
        return found

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
        partial(_extreme_of_row, w, step.name, step.operands[0].dtype, step.space[-1]),
    )


def _extreme_of_row(w: Writer, ufunc: str, dtype: str, length: int, pointers: Sequence[str]) -> None:
    x, out = pointers
    row = _ShortRow(w, dtype, length, x)
    found = row.first(row.extreme(ufunc))
    written(w, dtype, found, out)
    name, kind = f"@ordered.{ufunc}.{dtype}", row.kind
    w.define(name, f"internal {kind} {name}(ptr %x, i64 %n) noinline cold", partial(_in_order, w, ufunc, dtype))
    is_odd = compare_strictly(w, "ueq", kind, [found, "0.0"])
    w.when(is_odd, lambda: written(w, dtype, w.let(f"call {kind} {name}(ptr {x}, i64 {length})"), out))


def _in_order(w: Writer, ufunc: str, dtype: str) -> None:
    """Return the extreme of elements from the first one on."""
    kind = element_type(dtype)

    def compare(i: str, best: Sequence[str]) -> list[str]:
        x = read(w, dtype, w.element(kind, "%x", i))
        return [emit(w, ufunc, [*best, x], [dtype, dtype], dtype)]

    (best,) = w.carry([(kind, read(w, dtype, "%x"))], "1", "%n", 1, compare)
    w.line(f"ret {kind} {best}")
