"""Products as LLVM IR: small ones in a known order, and tiles of matrices in registers."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import attrs

from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.llvm.loops import call_loop, element_at, move, over, start_of
from afx.compiler.native_backend.llvm.op import element_type, memory_type, read, read_one, settled, shuffled, written
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program.elements import Arithmetic, Ref
from afx.compiler.native_backend.program.interface import PARTS
from afx.compiler.native_backend.program.leaves import UfuncCall
from afx.compiler.target import NativeTarget

# --- Small products as LLVM IR: sums of products in registers, in an order that is known
#
# Where NumPy's bits are asked for, a result that is not finite is NumPy's to compute: its loops raise flags of their
# own for infinities, which BLAS multiplies by the zeros that fill up its vectors.


def emit_small_product(w: Writer, step: UfuncCall) -> None:
    """Add a product whose orders are known, of one pair of matrices after the other."""
    batch, cost = step.sizes[:1] if step.sizes[0] > 1 else (), step.nanoseconds / step.sizes[0]
    over(w, batch, step.operands, lambda pointers: _SmallProduct(w, step, pointers).emit(), nanoseconds=cost)


class _Chunk(NamedTuple):
    """Elements of a result that are computed at once.

    Attributes:
        row: of the first one.
        column: of the first one.
        width: how many there are, along the axis of lanes.
        order: number of the order of their sums.
    """

    row: int
    column: int
    width: int
    order: int


class _Vector(NamedTuple):
    """Neighbouring elements of a result that are written at once: where they begin, in bytes, and how many there are."""

    place: int
    width: int
    name: str


class _SmallProduct:
    """Emitter of the product of two matrices."""

    def __init__(self, w: Writer, step: UfuncCall, pointers: list[str]) -> None:
        assert step.orders is not None
        self.w, self.step, self.orders = w, step, step.orders
        self.x, self.y, self.out = pointers
        self.dtype = step.operands[2].dtype
        self.size = int(self.dtype[1:])
        if step.is_sum_of_products:
            self.rows, self.terms, self.columns = 1, step.lengths[0], 1
            self.strides: Sequence[int] = (0, step.core_strides[0], step.core_strides[1], 0, 0, 0)
        else:
            self.rows, self.terms, self.columns = step.lengths
            self.strides = step.core_strides
        x_row, _, _, y_column, out_row, out_column = self.strides
        by_columns = self.columns > 1 and y_column == out_column == self.size
        by_rows = self.rows > 1 and x_row == out_row == self.size
        self.lane_axis: int = 1 if by_columns else 0 if by_rows else -1
        self.odd = ""  # where it is noted whether one of the elements is not finite
        self._loaded: dict[tuple[str, int, int, bool], str] = {}

    def emit(self) -> None:
        """Add all elements, and NumPy's loop where one of them is not finite."""
        w = self.w
        if self.step.loop is not None:
            self.odd = w.local("i1", 1)
            w.line(f"store i1 false, ptr {self.odd}")
        x, out = self.x, self.out
        for first, count, turn in self._runs():
            whole = count // turn * turn if count >= 2 * turn else 0
            if whole:
                w.loop(str(first), str(first + whole), turn, functools.partial(self._rows, (x, out), turn, first))
            if count > whole:
                self._rows((x, out), count - whole, first, first + whole)
        self.x, self.out = x, out
        if self.step.loop is not None:
            w.declare("expect", "declare i1 @llvm.expect.i1(i1, i1)")
            odd = w.let(f"load i1, ptr {self.odd}")
            w.when(w.let(f"call i1 @llvm.expect.i1(i1 {odd}, i1 false)"), self._call)

    def _runs(self) -> list[tuple[int, int, int]]:
        """Return where rows begin whose orders are the same, how many these are, and how many a turn of a loop computes."""
        operations = len(self._chunks(0, self.rows)) * self.terms
        if self.lane_axis == 0 or operations <= self.w.limits.product_inline_max_operations:
            return [(0, self.rows, self.rows)]
        numbers, n = self.orders.numbers, self.columns
        orders = [numbers[i * n : (i + 1) * n] for i in range(self.rows)]
        turn = max(1, self.w.limits.product_turn_operations * self.rows // operations)
        runs, first = list[tuple[int, int, int]](), 0
        for _, same in itertools.groupby(orders):
            count = len(list(same))
            runs.append((first, count, min(turn, count)))
            first += count
        return runs

    def _rows(self, whole: tuple[str, str], count: int, like: int, start: str | int) -> None:
        """Add the elements of so many rows, of an operand and the result, whose orders are those of another row."""
        w, lanes = self.w, self.w.lanes
        self._loaded.clear()
        self.x, self.out = [self._row(p, start, self.strides[k]) for p, k in zip(whole, (0, 4), strict=True)]
        odd, vectors = "false", list[_Vector]()
        for chunk in self._chunks(like, count):
            w.lanes = chunk.width
            value = self._sum(chunk)
            place = chunk.row * self.strides[4] + chunk.column * self.strides[5]
            vectors.append(self._join(vectors, _Vector(place, chunk.width, value.name)))
            if self.step.loop is not None:
                odd = w.let(f"or i1 {odd}, {self._is_odd(value)}")
        for place, w.lanes, name in vectors:
            written(w, self.dtype, name, w.shifted(self.out, place))
        w.lanes = lanes
        if self.step.loop is not None:
            before = w.let(f"load i1, ptr {self.odd}")
            w.line(f"store i1 {w.let(f'or i1 {before}, {odd}')}, ptr {self.odd}")

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
        call_loop(self.w, step.loop, [self.x, self.y, self.out], ["1", *map(str, step.lengths)], strides)

    def _row(self, pointer: str, i: str | int, stride: int) -> str:
        return self.w.shifted(pointer, i * stride) if isinstance(i, int) else element_at(self.w, pointer, i, stride)

    def _chunks(self, first: int, count: int) -> list[_Chunk]:
        """Return the elements of so many rows in vectors whose lanes are added up in one order, what is left one by one."""
        chunks: list[_Chunk] = []
        lines, length = (self.columns, count) if self.lane_axis == 0 else (count, self.columns)
        for line in range(lines):
            at = 0
            while at < length:
                width = self._width(first, line, at, length)
                row, column = (at, line) if self.lane_axis == 0 else (line, at)
                chunks.append(_Chunk(row, column, width, self._order(first + row, column)))
                at += width
        return chunks

    def _width(self, first: int, line: int, at: int, length: int) -> int:
        width = self.w.limits.vector_bytes // self.size
        while width > 1 and (at + width > length or not self._is_even(first, line, at, width)):
            width //= 2
        return width if self.lane_axis >= 0 and width * self.size >= self.w.limits.vector_min_bytes else 1

    def _is_even(self, first: int, line: int, at: int, width: int) -> bool:
        places = [(first + k, line) if self.lane_axis == 0 else (first + line, k) for k in range(at, at + width)]
        return len({self._order(*place) for place in places}) == 1

    def _order(self, row: int, column: int) -> int:
        return self.orders.numbers[row * self.columns + column]

    def _sum(self, chunk: _Chunk) -> Lanes:
        x_row, x_term, y_term, y_column, *_ = self.strides

        def term(k: int) -> tuple[Lanes, Lanes]:
            x = self._load(self.x, chunk.row * x_row + k * x_term, self.lane_axis == 0)
            y = self._load(self.y, k * y_term + chunk.column * y_column, self.lane_axis == 1)
            return x, y

        ops = Arithmetic[Lanes](
            term, Lanes.__mul__, Lanes.__add__, Lanes.fma, Lanes.widen, Lanes.rounded, lambda x: x.constant(0.0)
        )
        return self.orders.kinds[chunk.order].evaluate(ops)

    def _load(self, pointer: str, place: int, is_vector: bool) -> Lanes:
        """Return what lies so many bytes behind a pointer; other elements of the result that need it too take the same."""
        key = (pointer, place, self.w.lanes, is_vector)
        if key not in self._loaded:
            load = read if is_vector else read_one
            self._loaded[key] = load(self.w, self.dtype, self.w.shifted(pointer, place))
        return Lanes(self.w, memory_type(self.dtype), self._loaded[key])

    def _is_odd(self, value: Lanes) -> str:
        """Return whether a value is infinite or nan, of vectors one of its lanes; no flag is raised."""
        return self.w.any(value.unary("fabs").compare("ueq", float("inf")).name)


# --- Tiles: products of small matrices as LLVM IR, in registers
#
# A tile of the result, some rows by some vectors of columns, stays in registers while k ascends: each element is one
# chain of fused multiplications and additions, whose bits depend on neither tile nor vector. Vectors at the edge are
# masked.


def emit_tiles(w: Writer, step: UfuncCall) -> None:
    """Add a product whose second operand and result have columns next to each other."""
    cut = step.is_cut and not step.axis
    batch = step.space if math.prod(step.space) > 1 else ()
    if step.is_cut and step.cuts_each:
        _emit_pieces(w, step)
    else:
        over(w, batch, step.operands, lambda pointers: _Product(w, step, pointers).emit(), is_cut=cut)


def _emit_pieces(w: Writer, step: UfuncCall) -> None:
    """Add the pieces from ``%low`` to ``%high``, of which each array of the batch has the same number."""
    count = len(step.stops)

    def emit(array: str) -> None:
        begin = w.let(f"mul i64 {array}, {count}")
        low, high = [w.let(f"sub i64 {bound}, {begin}") for bound in ("%low", "%high")]
        first, last = f"call i64 @llvm.smax.i64(i64 {low}, i64 0)", f"call i64 @llvm.smin.i64(i64 {high}, i64 {count})"
        _Product(w, step, move(w, starts, step.operands, 0, array), (w.let(first), w.let(last))).emit()

    for name in ("smin", "smax"):
        w.declare(name, f"declare i64 @llvm.{name}.i64(i64, i64)")
    starts = [start_of(w, ref) for ref in step.operands]
    behind = w.let(f"add i64 %high, {count - 1}")
    w.loop(w.let(f"sdiv i64 %low, {count}"), w.let(f"sdiv i64 {behind}, {count}"), 1, emit)


def find_tile(m: int, n: int, size: int, limits: NativeTarget) -> tuple[int, int]:
    """Return how many rows, and how many vectors of columns, a tile has: equal ones as far as that goes.

    >>> [find_tile(m, n, 4, NativeTarget()) for m, n in ((512, 512), (14, 64), (9, 32), (20, 8), (1, 1000))]
    [(8, 2), (7, 2), (5, 2), (10, 1), (1, 16)]
    """
    vectors = -(-n // (limits.vector_bytes // size))
    most = limits.product_tile_max_rows if vectors > 1 else limits.product_tile_max_vectors
    rows = -(-m // -(-m // most))
    return rows, -(-vectors // -(-vectors // (limits.product_tile_max_vectors // rows)))


def cut_tiles(step: UfuncCall, limits: NativeTarget) -> UfuncCall:
    """Return a product that is cut for threads: between arrays of a batch, or tiles, along what two share most evenly.

    An operand that the caches do not hold is shared out by its columns. That between arrays of a batch may run with other
    steps on the same ones, and is cut later.

    >>> from afx.compiler.native_backend.program.elements import Ref
    >>> from afx.compiler.native_backend.program.leaves import MULTIPLIED
    >>> refs, lengths, strides = (Ref(0, "f4", 0, (0,)),) * 3, (32, 784, 512), (3136, 4, 2048, 4, 2048, 4)
    >>> cut = cut_tiles(UfuncCall(None, (1,), refs, (), MULTIPLIED, lengths, strides), NativeTarget())
    >>> cut.axis, cut.parts, cut.stops[:2]
    (3, 16, (32, 64))
    """
    m, n, size = step.lengths[step.rows - 1], step.lengths[-1], step.operands[2].size
    rows, vectors = find_tile(m, n, size, limits)
    width = vectors * (limits.vector_bytes // size)
    columns = len(step.lengths)
    lengths = {0: (1, step.space[0]), step.rows: (rows, m), columns: (width, n)}
    stops = {axis: [*range(by, length, by), length] for axis, (by, length) in lengths.items()}
    pieces = {0: step.space[0], step.rows: len(stops[step.rows]) * math.prod(step.space), columns: len(stops[columns])}
    axis = max(pieces, key=lambda axis: _evenness(pieces[axis]))
    if axis == step.rows and pieces[axis] < PARTS and pieces[axis] % 2:  # then one tile more
        by = -(-m // (pieces[axis] + 1))
        stops[axis] = [*range(by, m, by), m]
    shared = math.prod(step.lengths[step.rows :]) * size
    if (
        shared >= limits.product_columns_min_bytes
        and len(stops[columns]) >= PARTS // 2
        and not any(step.operands[1].strides)
    ):
        axis = columns
    return attrs.evolve(step, axis=axis, stops=tuple(stops[axis]), is_cut=axis > 0)


def _evenness(pieces: int) -> float:
    """Return how well two threads, and more of them, share so many pieces.

    >>> [_evenness(pieces) for pieces in (1, 2, 3, 4, 6, 7)]
    [1.0, 4.0, 4.5, 8.0, 12.0, 12.25]
    """
    return PARTS * 2 if pieces >= PARTS else pieces * pieces / -(-pieces // 2)


class _Product:
    """Emitter of the product of two matrices, or of sums of products over several axes.

    What is summed up by itself is a chain; `UfuncCall.added` and ``ends`` say where chains end.

    Attributes:
        pieces: the first one and that behind the last one, where it is cut.
        terms: of each axis of terms its length, and the strides of both operands along it.
        is_far: whether caches do not hold the terms of all chains: each is then added to what memory holds.
        by_block: whether one chain is cut into blocks of terms, over which all tiles go before the next block.
    """

    def __init__(
        self, w: Writer, step: UfuncCall, pointers: list[str], pieces: tuple[str, str] = ("%low", "%high")
    ) -> None:
        self.w = w
        self.step = step
        self.pieces = pieces
        self.a, self.b, self.c = pointers
        strides = iter(step.core_strides)
        a, b, c = [[next(strides) for _ in axes] for axes in step.cores]
        *self.outer, (self.m, self.a_row, self.c_row) = zip(step.lengths, a, c[:-1], strict=False)
        self.terms = list(zip(step.lengths[step.rows : -1], a[step.rows :], b, strict=False))
        self.n = step.lengths[-1]
        self.ref: Ref = step.operands[2]
        self.size = int(self.ref.dtype[1:])
        self.lanes = w.limits.vector_bytes // self.size
        self.kind = f"<{self.lanes} x {memory_type(self.ref.dtype)}>"
        self.rows, self.vectors = find_tile(self.m, self.n, self.size, w.limits)
        if step.is_cut and step.axis == step.rows:
            self.rows = step.stops[0]
        self.is_far = (
            sum([length * by for length, _, by in self.terms[: step.added]]) > w.limits.product_chain_max_bytes
        )
        self.is_first = ""  # whether nothing was written yet
        self.ends = ""  # where chains begin and end
        self.stops = step.ends or self._blocks()
        self.by_block = bool(self.stops) and self._is_streamed() and self._is_one_chain()
        self.span = "", ""  # from which term to which all tiles go on together

    def _is_streamed(self) -> bool:
        """Tell whether caches hold the terms of neither operand."""
        inner = self.terms[self.step.added :]
        reach = [sum([term[0] * abs(term[k]) for term in inner]) for k in (1, 2)]
        return min(reach) > self.w.limits.product_chain_max_bytes

    def _is_one_chain(self) -> bool:
        """Tell whether no sums of chains are added up but those at known ends."""
        return math.prod([length for length, *_ in self.terms[: self.step.added]]) == 1

    def _blocks(self) -> Sequence[int]:
        """Return where the terms of a single chain are cut, which goes on behind each cut from what was written."""
        count, by = math.prod([n for n, *_ in self.terms[self.step.added :]]), self.w.limits.product_block_terms
        return [*range(by, count, by), count] if self._is_one_chain() else ()

    def emit(self) -> None:
        """Add the loops over tiles: columns, then rows; around them those over chains, of which each is read again and again."""
        w, width = self.w, self.vectors * self.lanes
        if self.step.ends or self.by_block:
            self.ends = w.local(f"[{len(self.stops) + 1} x i64]", 16)
            for k, end in enumerate((0, *self.stops)):
                w.line(f"store i64 {end}, ptr {w.shifted(self.ends, 8 * k)}")
        left = self.n % width
        count = -(-left // self.lanes)

        def rest(j: str) -> None:
            self._columns(j, count, left - (count - 1) * self.lanes)

        whole = self.b

        def tiles(a: str, b: str) -> None:
            self.is_first = w.let(f"icmp eq ptr {b}, {whole}")
            if self.by_block:
                self.is_first = w.let(f"and i1 {self.is_first}, {w.let(f'icmp eq i64 {self.span[0]}, 0')}")
            self.a, self.b = a, b
            self._repeat(
                len(self.step.lengths), self.n, width, lambda j: self._columns(j, self.vectors, self.lanes), rest
            )

        def blocks(a: str, b: str) -> None:
            def block(a: str, b: str, start: str, stop: str) -> None:
                self.span = start, stop
                tiles(a, b)

            self._walk_chains(a, b, block)

        added = self.terms[: self.step.added]
        self._walk(added if self.is_far else (), self.a, self.b, blocks if self.by_block else tiles)

    def _repeat(
        self, axis: int, size: int, step: int, body: Callable[[str], None], rest: Callable[[str], None]
    ) -> None:
        """Add a loop over tiles along an axis, and the smaller one at its end: all, or from one to another."""
        w = self.w
        whole = size // step * step
        if self.step.is_cut and self.step.axis == axis:
            first, stop = [w.let(f"mul i64 {piece}, {step}") for piece in self.pieces]
            is_last = w.let(f"icmp sgt i64 {stop}, {whole}")
            w.loop(first, w.let(f"select i1 {is_last}, i64 {whole}, i64 {stop}"), step, body)
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
        width, step = self.step.panel or (1, self.size)
        b = self._moved(self.b, (j, step // width))

        def tile(a: str, c: str, rows: int, i: str) -> None:
            self._tile(self._moved(a, (i, self.a_row)), b, self._moved(c, (i, self.c_row)), rows, vectors, last)

        def inside(a: str, c: str) -> None:
            self._repeat(
                self.step.rows,
                self.m,
                self.rows,
                partial(tile, a, c, self.rows),
                partial(tile, a, c, self.m % self.rows),
            )

        self._walk(self.outer, self.a, self._moved(self.c, (j, self.size)), inside)

    def _walk(self, axes: Sequence[tuple[int, int, int]], a: str, b: str, body: Callable[[str, str], None]) -> None:
        """Add loops over axes, along which two pointers move."""
        if not axes:
            body(a, b)
            return
        (length, by_a, by_b), *inner = axes

        def turn(k: str) -> None:
            self._walk(inner, self._moved(a, (k, by_a)), self._moved(b, (k, by_b)), body)

        self.w.loop("0", str(length), 1, turn)

    def _tile(self, a: str, b: str, c: str, rows: int, vectors: int, last: int) -> None:
        """Add a tile of so many rows and vectors of columns, of which the last one holds ``last`` columns.

        Each vector of the result is summed up in a register: row by row, and vector by vector within a row.
        """
        w = self.w
        count, w.lanes = w.lanes, self.lanes
        sums = self._registers(rows * vectors)
        totals, add = self._summing(partial(self._add_term, sums, vectors, last), sums)
        # of each sum: its row, its vector in that, and how many columns the vector holds
        places = [
            (w.shifted(c, k // vectors * self.c_row), k % vectors, last if (k + 1) % vectors == 0 else self.lanes)
            for k in range(len(totals))
        ]
        if self.by_block and not self.step.ends:  # a chain goes on from what was written
            for location, place in zip(sums, places, strict=True):
                self._put(location, self._before(*place))
        add(a, b)
        for location, place in zip(totals, places, strict=True):
            self._store(self._get(location), *place)
        w.lanes = count

    def _add_term(self, sums: Sequence[str], vectors: int, last: int, at_a: str, at_b: str) -> None:
        """Add to the sums of a tile the products of a column of the one matrix and a row of the other."""
        ys = [self._load(at_b, v, last if v == vectors - 1 else self.lanes) for v in range(vectors)]
        for r in range(len(sums) // vectors):
            x = self._splat(self.w.shifted(at_a, r * self.a_row))
            for y, location in zip(ys, sums[r * vectors :], strict=False):
                self._put(location, x.fma(y, self._get(location)))

    # -- sums of chains --
    def _summing(self, step: Callable[[str, str], None], sums: list[str]) -> tuple[list[str], Callable[..., None]]:
        """Return where all terms are summed up, and what adds them, by a step for each that adds to the sums.

        Where several chains are summed up, each by itself, what they add to are other vectors.
        """
        added = self.step.added
        if self.by_block:
            return sums, partial(self._chain, step, start=self.span[0], stop=self.span[1])
        add: Callable[..., None] = partial(self._walk, self.terms[added:], body=step)
        if self.step.ends:
            sums, add = self._added(self._walk_chains, partial(self._chain, step), sums)
        if added and not self.is_far:
            sums, add = self._added(partial(self._walk, self.terms[:added]), add, sums)
        return sums, add

    def _added(
        self, walk: Callable[..., None], inner: Callable[..., None], parts: list[str]
    ) -> tuple[list[str], Callable[..., None]]:
        """Return vectors of sums, and what adds up to them what is walked over, of which each makes parts."""
        totals = self._registers(len(parts))

        def turn(*at: str) -> None:
            self._clear(parts)
            inner(*at)
            for total, part in zip(totals, parts, strict=True):
                self._put(total, self._get(total) + self._get(part))

        def walked(a: str, b: str) -> None:
            walk(a, b, turn)

        return totals, walked

    def _walk_chains(self, a: str, b: str, body: Callable[[str, str, str, str], None]) -> None:
        """Add a loop over chains, which begin and end at numbers of terms."""

        def turn(k: str) -> None:
            at = element_at(self.w, self.ends, k, 8)
            body(a, b, *[self.w.let(f"load i64, ptr {p}") for p in (at, self.w.shifted(at, 8))])

        self.w.loop("0", str(len(self.stops)), 1, turn)

    def _chain(self, step: Callable[[str, str], None], a: str, b: str, start: str, stop: str) -> None:
        """Add loops over the terms from one to another, along the last axis and over what there is of its rows."""
        w = self.w
        *outer, (length, by_a, by_b) = self.terms[self.step.added :]

        def along(row: str) -> None:
            rest, at_a, at_b = row, a, b
            for n, far_a, far_b in reversed(outer):
                k = w.let(f"srem i64 {rest}, {n}")
                rest = w.let(f"sdiv i64 {rest}, {n}")
                at_a, at_b = self._moved(at_a, (k, far_a)), self._moved(at_b, (k, far_b))
            begin = w.let(f"mul i64 {row}, {length}")
            low, high = w.let(f"sub i64 {start}, {begin}"), w.let(f"sub i64 {stop}, {begin}")
            low = w.let(f"select i1 {w.let(f'icmp slt i64 {low}, 0')}, i64 0, i64 {low}")
            high = w.let(f"select i1 {w.let(f'icmp sgt i64 {high}, {length}')}, i64 {length}, i64 {high}")
            w.loop(low, high, 1, lambda k: step(self._moved(at_a, (k, by_a)), self._moved(at_b, (k, by_b))))

        last = w.let(f"sdiv i64 {w.let(f'sub i64 {stop}, 1')}, {length}")
        w.loop(w.let(f"sdiv i64 {start}, {length}"), w.let(f"add i64 {last}, 1"), 1, along)

    # -- vectors that stay in registers --
    def _registers(self, count: int) -> list[str]:
        """Return locations of so many vectors of zeros."""
        locations = [self.w.local(self.kind, 64) for _ in range(count)]
        self._clear(locations)
        return locations

    def _clear(self, locations: Sequence[str]) -> None:
        for location in locations:
            self.w.line(f"store {self.kind} zeroinitializer, ptr {location}")

    def _get(self, location: str) -> Lanes:
        return Lanes(self.w, memory_type(self.ref.dtype), self.w.let(f"load {self.kind}, ptr {location}"))

    def _put(self, location: str, value: Lanes) -> None:
        self.w.line(f"store {self.kind} {value.name}, ptr {location}")

    def _moved(self, pointer: str, *steps: tuple[str, int]) -> str:
        for index, stride in steps:
            if index != "0" and stride:
                pointer = self.w.shifted(pointer, self.w.let(f"mul nsw i64 {index}, {stride}"))
        return pointer

    def _splat(self, pointer: str) -> Lanes:
        return Lanes(self.w, memory_type(self.ref.dtype), read_one(self.w, self.ref.dtype, pointer))

    def _mask(self, columns: int) -> str:
        bits = ", ".join([f"i1 {'true' if k < columns else 'false'}" for k in range(self.lanes)])
        return f"<{self.lanes} x i1> <{bits}>"

    def _load(self, pointer: str, vector: int, columns: int) -> Lanes:
        w, one, kind = self.w, memory_type(self.ref.dtype), self.kind
        at = w.shifted(pointer, vector * w.limits.vector_bytes)
        if columns == self.lanes:
            return Lanes(w, one, w.let(f"load {kind}, ptr {at}, align {self.size}"))
        name = f"@llvm.masked.load.v{self.lanes}f{8 * self.size}.p0"
        w.declare(name, f"declare {kind} {name}(ptr, i32, <{self.lanes} x i1>, {kind})")
        filling = self._splat(at).name  # a column of its own: zeros times infinity would raise flags
        rest = f"i32 {self.size}, {self._mask(columns)}, {kind} {filling}"
        return Lanes(w, one, w.let(f"call {kind} {name}(ptr {at}, {rest})"))

    def _before(self, pointer: str, vector: int, columns: int) -> Lanes:
        """Return what was written before, at first zeros."""
        before, zeros = self._load(pointer, vector, columns), f"{self.kind} zeroinitializer"
        return Lanes(self.w, before.kind, self.w.let(f"select i1 {self.is_first}, {zeros}, {self.kind} {before.name}"))

    def _store(self, value: Lanes, pointer: str, vector: int, columns: int) -> None:
        """Write a vector of results, or its first columns, added to what was written before where terms come in blocks."""
        w, kind = self.w, self.kind
        if self.is_far or (self.by_block and self.step.ends):
            value = self._before(pointer, vector, columns) + value
        elif self.by_block and self.step.added:
            value = value + 0.0  # no sum is -0
        value, at = settled(value), w.shifted(pointer, vector * w.limits.vector_bytes)
        if columns == self.lanes:
            w.line(f"store {kind} {value.name}, ptr {at}, align {self.size}")
            return
        name = f"@llvm.masked.store.v{self.lanes}f{8 * self.size}.p0"
        w.declare(name, f"declare void {name}({kind}, ptr, i32, <{self.lanes} x i1>)")
        w.line(f"call void {name}({kind} {value.name}, ptr {at}, i32 {self.size}, {self._mask(columns)})")
