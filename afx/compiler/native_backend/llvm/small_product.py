"""Small products as LLVM IR: sums of products in registers, in an order that is known.

Where NumPy's bits are asked for, a result that is not finite is NumPy's to compute: its loops raise flags of their own for
infinities, which BLAS multiplies by the zeros that fill up its vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.llvm.nested import call_loop, over
from afx.compiler.native_backend.llvm.op import element_type, memory_type, read, read_one, shuffled, written
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Product
from afx.compiler.native_backend.sums import Arithmetic

__all__ = ["emit_small_product"]


def emit_small_product(w: Writer, step: Product) -> None:
    """Add a product whose orders are known, of one pair of matrices after the other."""
    batch, cost = step.sizes[:1] if step.sizes[0] > 1 else (), step.nanoseconds / step.sizes[0]
    over(w, batch, step.operands, lambda pointers: _SmallProduct(w, step, pointers).emit(), nanoseconds=cost)


class _Chunk(NamedTuple):
    """Elements of a result that are computed at once.

    Attributes:
        row: of the first one.
        column: of the first one.
        width: how many there are, along the axis of lanes.
    """

    row: int
    column: int
    width: int


class _Vector(NamedTuple):
    """Neighbouring elements of a result that are written at once: where they begin, in bytes, and how many there are."""

    place: int
    width: int
    name: str


class _SmallProduct:
    """Emitter of the product of two matrices."""

    def __init__(self, w: Writer, step: Product, pointers: list[str]) -> None:
        assert step.orders is not None
        self.w, self.step, self.orders = w, step, step.orders
        self.x, self.y, self.out = pointers
        self.dtype = step.operands[2].dtype
        self.size = int(self.dtype[1:])
        if len(step.sizes) == 2:
            self.rows, self.terms, self.columns = 1, step.sizes[1], 1
            self.strides: Sequence[int] = (0, step.core_strides[0], step.core_strides[1], 0, 0, 0)
        else:
            _, self.rows, self.terms, self.columns = step.sizes
            self.strides = step.core_strides
        x_row, _, _, y_column, out_row, out_column = self.strides
        by_columns = self.columns > 1 and y_column == out_column == self.size
        by_rows = self.rows > 1 and x_row == out_row == self.size
        self.lane_axis: int = 1 if by_columns else 0 if by_rows else -1

    def emit(self) -> None:
        """Add all elements, and NumPy's loop where one of them is not finite."""
        w, count = self.w, self.w.lanes
        odd, vectors = "false", list[_Vector]()
        for chunk in self._chunks():
            w.lanes = chunk.width
            value = self._sum(chunk)
            place = chunk.row * self.strides[4] + chunk.column * self.strides[5]
            vectors.append(self._join(vectors, _Vector(place, chunk.width, value.name)))
            if self.step.loop is not None:
                odd = w.let(f"or i1 {odd}, {self._is_odd(value)}")
        for place, w.lanes, name in vectors:
            written(w, self.dtype, name, w.shifted(self.out, place))
        w.lanes = count
        if self.step.loop is not None:
            w.declare("expect", "declare i1 @llvm.expect.i1(i1, i1)")
            w.when(w.let(f"call i1 @llvm.expect.i1(i1 {odd}, i1 false)"), self._call)

    def _join(self, before: list[_Vector], last: _Vector) -> _Vector:
        """Return a vector with those of its width taken in front that end where it begins: what reads them may take all."""
        w, most = self.w, self.w.limits.vector_bytes // self.size
        while self.step.is_read_whole and before and 1 < last.width <= most // 2:
            first = before[-1]
            if first.width != last.width or first.place + first.width * self.size != last.place:
                break
            before.pop()
            order = range(2 * last.width)
            both = shuffled(w, element_type(self.dtype), first.name, last.width, order, last.name)
            last = _Vector(first.place, 2 * last.width, both)
        return last

    def _call(self) -> None:
        step = self.step
        assert step.loop is not None
        strides = [0, 0, 0, *step.core_strides]
        call_loop(self.w, step.loop, [self.x, self.y, self.out], ["1", *map(str, step.sizes[1:])], strides)

    def _chunks(self) -> list[_Chunk]:
        """Return the elements in vectors whose lanes are added up in one order, and what is left one by one."""
        found: list[_Chunk] = []
        lines, length = (self.columns, self.rows) if self.lane_axis == 0 else (self.rows, self.columns)
        for line in range(lines):
            at = 0
            while at < length:
                width = self._width(line, at, length)
                row, column = (at, line) if self.lane_axis == 0 else (line, at)
                found.append(_Chunk(row, column, width))
                at += width
        return found

    def _width(self, line: int, at: int, length: int) -> int:
        width = self.w.limits.vector_bytes // self.size
        while width > 1 and (at + width > length or not self._is_even(line, at, width)):
            width //= 2
        return width if self.lane_axis >= 0 and width * self.size >= self.w.limits.vector_min_bytes else 1

    def _is_even(self, line: int, at: int, width: int) -> bool:
        numbers = [
            self.orders.numbers[k * self.columns + line if self.lane_axis == 0 else line * self.columns + k]
            for k in range(at, at + width)
        ]
        return len({*numbers}) == 1

    def _sum(self, chunk: _Chunk) -> Lanes:
        x_row, x_term, y_term, y_column, *_ = self.strides

        def term(k: int) -> tuple[Lanes, Lanes]:
            x = self._load(self._at(self.x, chunk.row, x_row, k, x_term), self.lane_axis == 0)
            y = self._load(self._at(self.y, k, y_term, chunk.column, y_column), self.lane_axis == 1)
            return x, y

        order = self.orders.kinds[self.orders.numbers[chunk.row * self.columns + chunk.column]]
        ops = Arithmetic[Lanes](
            term, Lanes.__mul__, Lanes.__add__, Lanes.fma, Lanes.widen, Lanes.rounded, lambda x: x.constant(0.0)
        )
        found: Lanes = order.evaluate(ops)
        return found

    def _load(self, pointer: str, is_vector: bool) -> Lanes:
        load = read if is_vector else read_one
        return Lanes(self.w, memory_type(self.dtype), load(self.w, self.dtype, pointer))

    def _at(self, pointer: str, i: int, first: int, j: int, second: int) -> str:
        return self.w.shifted(pointer, i * first + j * second)

    def _is_odd(self, value: Lanes) -> str:
        """Return whether a value is infinite or nan, of vectors one of its lanes; no flag is raised."""
        return self.w.any(value.unary("fabs").compare("ueq", float("inf")).name)
