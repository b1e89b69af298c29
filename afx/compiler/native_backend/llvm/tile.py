"""Tiles: products of small matrices as LLVM IR, in registers.

A tile of the result, some rows by some vectors of columns, stays in registers while k ascends: each element is one chain of
fused multiplications and additions, whose bits depend on neither tile nor vector. Vectors at the edge are masked.
"""

from __future__ import annotations

from collections.abc import Callable

from afx.compiler.native_backend.elements import Ref
from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.llvm.nest import over, start_of
from afx.compiler.native_backend.llvm.op import memory_type
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Product

__all__ = ["emit_tiles"]

VECTOR_BYTES = 64
TILE_VECTORS = 16  # of results in registers: with those of operands two thirds of 32
TILE_ROWS = 8


def emit_tiles(w: Writer, step: Product) -> None:
    """Add a product whose second operand and result have columns next to each other."""
    batch, *_ = step.sizes
    refs = list(step.operands)
    if batch == 1:
        _Product(w, step, [start_of(w, ref) for ref in refs]).emit()
    else:
        over(w, (batch,), refs, lambda pointers: _Product(w, step, pointers).emit())


class _Product:
    """Emitter of the product of two matrices."""

    def __init__(self, w: Writer, step: Product, pointers: list[str]) -> None:
        self.w = w
        _, self.m, self.k, self.n = step.sizes
        self.a, self.b, self.c = pointers
        self.a_row, self.a_k, self.b_k, _, self.c_row, _ = step.core_strides
        self.ref: Ref = step.operands[2]
        self.size = int(self.ref.dtype[1:])
        self.lanes = VECTOR_BYTES // self.size
        self.rows = min(TILE_ROWS, self.m)
        self.vectors = min(TILE_VECTORS // self.rows, -(-self.n // self.lanes))

    def emit(self) -> None:
        """Add the loops over tiles: columns, then rows."""
        width = self.vectors * self.lanes
        whole = self.n // width * width
        self._repeat(0, whole, width, lambda j: self._columns(j, self.vectors, self.lanes))
        left = self.n - whole
        if left:
            count = -(-left // self.lanes)
            self._columns(str(whole), count, left - (count - 1) * self.lanes)

    def _repeat(self, start: int, stop: int, step: int, body: Callable[[str], None]) -> None:
        if stop - start > step:
            self.w.loop(str(start), str(stop), step, body)
        elif stop > start:
            body(str(start))

    def _columns(self, j: str, vectors: int, last: int) -> None:
        """Add the tiles below each other; the last vector holds so many columns."""
        whole = self.m // self.rows * self.rows
        self._repeat(0, whole, self.rows, lambda i: self._tile(i, j, self.rows, vectors, last))
        if whole < self.m:
            self._tile(str(whole), j, self.m - whole, vectors, last)

    def _tile(self, i: str, j: str, rows: int, vectors: int, last: int) -> None:
        w, kind = self.w, f"<{self.lanes} x {memory_type(self.ref.dtype)}>"
        a = self._moved(self.a, (i, self.a_row))
        b = self._moved(self.b, (j, self.size))
        c = self._moved(self.c, (i, self.c_row), (j, self.size))
        sums = [[w.local(kind, 64) for _ in range(vectors)] for _ in range(rows)]
        for location in [location for row in sums for location in row]:
            w.line(f"store {kind} zeroinitializer, ptr {location}")

        def step(k: str) -> None:
            at_a, at_b = self._moved(a, (k, self.a_k)), self._moved(b, (k, self.b_k))
            ys = [self._load(at_b, v, last if v == vectors - 1 else self.lanes) for v in range(vectors)]
            for r, row in enumerate(sums):
                x = self._splat(w.shifted(at_a, r * self.a_row))
                for y, location in zip(ys, row, strict=True):
                    total = Lanes(w, x.kind, w.let(f"load {kind}, ptr {location}"))
                    w.line(f"store {kind} {x.fma(y, total).name}, ptr {location}")

        count, w.lanes = w.lanes, self.lanes
        w.loop("0", str(self.k), 1, step)
        for r, row in enumerate(sums):
            for v, location in enumerate(row):
                value = w.let(f"load {kind}, ptr {location}")
                self._store(value, w.shifted(c, r * self.c_row), v, last if v == vectors - 1 else self.lanes)
        w.lanes = count

    def _moved(self, pointer: str, *steps: tuple[str, int]) -> str:
        for index, stride in steps:
            if index != "0" and stride:
                pointer = self.w.shifted(pointer, self.w.let(f"mul nuw nsw i64 {index}, {stride}"))
        return pointer

    def _splat(self, pointer: str) -> Lanes:
        w, one = self.w, memory_type(self.ref.dtype)
        kind = f"<{self.lanes} x {one}>"
        value = w.let(f"load {one}, ptr {pointer}, align {self.size}")
        first = w.let(f"insertelement {kind} poison, {one} {value}, i64 0")
        found = w.let(f"shufflevector {kind} {first}, {kind} poison, <{self.lanes} x i32> zeroinitializer")
        return Lanes(w, one, found)

    def _mask(self, columns: int) -> str:
        bits = ", ".join([f"i1 {'true' if k < columns else 'false'}" for k in range(self.lanes)])
        return f"<{self.lanes} x i1> <{bits}>"

    def _load(self, pointer: str, vector: int, columns: int) -> Lanes:
        w, one = self.w, memory_type(self.ref.dtype)
        kind = f"<{self.lanes} x {one}>"
        at = w.shifted(pointer, vector * VECTOR_BYTES)
        if columns == self.lanes:
            return Lanes(w, one, w.let(f"load {kind}, ptr {at}, align {self.size}"))
        name = f"@llvm.masked.load.v{self.lanes}f{8 * self.size}.p0"
        w.declare(name, f"declare {kind} {name}(ptr, i32, <{self.lanes} x i1>, {kind})")
        rest = f"i32 {self.size}, {self._mask(columns)}, {kind} zeroinitializer"
        return Lanes(w, one, w.let(f"call {kind} {name}(ptr {at}, {rest})"))

    def _store(self, value: str, pointer: str, vector: int, columns: int) -> None:
        w = self.w
        kind = f"<{self.lanes} x {memory_type(self.ref.dtype)}>"
        at = w.shifted(pointer, vector * VECTOR_BYTES)
        if columns == self.lanes:
            w.line(f"store {kind} {value}, ptr {at}, align {self.size}")
            return
        name = f"@llvm.masked.store.v{self.lanes}f{8 * self.size}.p0"
        w.declare(name, f"declare void {name}({kind}, ptr, i32, <{self.lanes} x i1>)")
        w.line(f"call void {name}({kind} {value}, ptr {at}, i32 {self.size}, {self._mask(columns)})")
