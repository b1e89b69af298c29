"""Tiles: products of small matrices as LLVM IR, in registers.

A tile of the result, some rows by some vectors of columns, stays in registers while k ascends: each element is one chain of
fused multiplications and additions, whose bits depend on neither tile nor vector. Vectors at the edge are masked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import attrs

from afx.compiler.native_backend.elements import Ref
from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.llvm.nested import over
from afx.compiler.native_backend.llvm.op import memory_type, read_one
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Product
from afx.compiler.target import NativeTarget

__all__ = ["cut_tiles", "emit_tiles", "tile_of"]


def emit_tiles(w: Writer, step: Product) -> None:
    """Add a product whose second operand and result have columns next to each other."""
    batch = step.sizes[:1] if step.sizes[0] > 1 else ()
    over(w, batch, step.operands, lambda pointers: _Product(w, step, pointers).emit())


def tile_of(step: Product, limits: NativeTarget) -> tuple[int, int]:
    """Return how many rows, and how many vectors of columns, a tile has."""
    rows = min(limits.product_tile_max_rows, step.sizes[1])
    lanes = limits.vector_bytes // int(step.operands[2].dtype[1:])
    return rows, min(limits.product_tile_max_vectors // rows, -(-step.sizes[3] // lanes))


def cut_tiles(step: Product, limits: NativeTarget) -> Product:
    """Return a product that is cut between tiles, along the axis that has more of them.

    >>> from afx.compiler.native_backend.elements import Ref
    >>> sizes, refs = (1, 32, 784, 512), (Ref(0, "f4", 0, ()),) * 3
    >>> cut = cut_tiles(Product(None, sizes, refs, (3136, 4, 2048, 4, 2048, 4)), NativeTarget())
    >>> cut.axis, cut.parts, cut.stops[:2]
    (3, 16, (32, 64))
    """
    rows, vectors = tile_of(step, limits)
    width = vectors * (limits.vector_bytes // int(step.operands[2].dtype[1:]))
    stops = {axis: [*range(n, step.sizes[axis], n), step.sizes[axis]] for axis, n in ((1, rows), (3, width))}
    axis = max(stops, key=lambda axis: len(stops[axis]))
    return attrs.evolve(step, axis=axis, stops=tuple(stops[axis]), is_cut=True)


class _Product:
    """Emitter of the product of two matrices."""

    def __init__(self, w: Writer, step: Product, pointers: list[str]) -> None:
        self.w = w
        self.step = step
        _, self.m, self.k, self.n = step.sizes
        self.a, self.b, self.c = pointers
        self.a_row, self.a_k, self.b_k, _, self.c_row, _ = step.core_strides
        self.ref: Ref = step.operands[2]
        self.size = int(self.ref.dtype[1:])
        self.lanes = w.limits.vector_bytes // self.size
        self.rows, self.vectors = tile_of(step, w.limits)

    def emit(self) -> None:
        """Add the loops over tiles: columns, then rows."""
        width = self.vectors * self.lanes
        left = self.n % width
        count = -(-left // self.lanes)

        def rest(j: str) -> None:
            self._columns(j, count, left - (count - 1) * self.lanes)

        self._repeat(3, width, lambda j: self._columns(j, self.vectors, self.lanes), rest)

    def _repeat(self, axis: int, step: int, body: Callable[[str], None], rest: Callable[[str], None]) -> None:
        """Add a loop over tiles along an axis, and the smaller one at its end: all, or from one to another."""
        w, size = self.w, self.step.sizes[axis]
        whole = size // step * step
        if self.step.is_cut and self.step.axis == axis:
            stop = w.let(f"mul i64 %high, {step}")
            is_last = w.let(f"icmp sgt i64 {stop}, {whole}")
            w.loop(w.let(f"mul i64 %low, {step}"), w.let(f"select i1 {is_last}, i64 {whole}, i64 {stop}"), step, body)
            if whole < size:
                w.when(is_last, lambda: rest(str(whole)))
            return
        if whole > step:
            w.loop("0", str(whole), step, body)
        elif whole:
            body("0")
        if whole < size:
            rest(str(whole))

    def _columns(self, j: str, vectors: int, last: int) -> None:
        """Add the tiles below each other; the last vector holds so many columns."""

        def tile(rows: int, i: str) -> None:
            self._tile(i, j, rows, vectors, last)

        self._repeat(1, self.rows, partial(tile, self.rows), partial(tile, self.m % self.rows))

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
        return Lanes(self.w, memory_type(self.ref.dtype), read_one(self.w, self.ref.dtype, pointer))

    def _mask(self, columns: int) -> str:
        bits = ", ".join([f"i1 {'true' if k < columns else 'false'}" for k in range(self.lanes)])
        return f"<{self.lanes} x i1> <{bits}>"

    def _load(self, pointer: str, vector: int, columns: int) -> Lanes:
        w, one = self.w, memory_type(self.ref.dtype)
        kind = f"<{self.lanes} x {one}>"
        at = w.shifted(pointer, vector * w.limits.vector_bytes)
        if columns == self.lanes:
            return Lanes(w, one, w.let(f"load {kind}, ptr {at}, align {self.size}"))
        name = f"@llvm.masked.load.v{self.lanes}f{8 * self.size}.p0"
        w.declare(name, f"declare {kind} {name}(ptr, i32, <{self.lanes} x i1>, {kind})")
        others = self._splat(at).name  # a column of its own: zeros times infinity would raise flags
        rest = f"i32 {self.size}, {self._mask(columns)}, {kind} {others}"
        return Lanes(w, one, w.let(f"call {kind} {name}(ptr {at}, {rest})"))

    def _store(self, value: str, pointer: str, vector: int, columns: int) -> None:
        w = self.w
        kind = f"<{self.lanes} x {memory_type(self.ref.dtype)}>"
        at = w.shifted(pointer, vector * w.limits.vector_bytes)
        if columns == self.lanes:
            w.line(f"store {kind} {value}, ptr {at}, align {self.size}")
            return
        name = f"@llvm.masked.store.v{self.lanes}f{8 * self.size}.p0"
        w.declare(name, f"declare void {name}({kind}, ptr, i32, <{self.lanes} x i1>)")
        w.line(f"call void {name}({kind} {value}, ptr {at}, i32 {self.size}, {self._mask(columns)})")
