"""Loops on stacks of small matrices without LAPACK: products, Cholesky's factors, solutions by elimination with row exchange.

They have the signature of the loops of ``np.linalg`` (Golub & Van Loan 2013, Algorithms 4.2.1 and 3.4.1). A matrix without
factors in finite numbers sets a bit of the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from afx.compiler.native_backend.llvm.op import FLOATS
from afx.compiler.native_backend.llvm.writer import Writer

__all__ = ["MATRIX_LOOPS"]

FACTORIZATION = 2


class _Matrices:
    """Emitter of a loop on stacks: its operands, sizes and strides, and elements by their indices."""

    def __init__(self, w: Writer, dtypes: Sequence[str], cores: Sequence[int], sizes: int) -> None:
        self.w = w
        self.kind = FLOATS[dtypes[0]]
        self.bytes = int(dtypes[0][1:])
        self.cores = cores
        self.count = self._size(0)
        self.sizes = [self._size(1 + k) for k in range(sizes)]
        self.outer = [self._step(k) for k in range(len(cores))]
        self.inner: list[list[str]] = []
        position = len(cores)
        for core in cores:
            self.inner.append([self._step(position + k) for k in range(core)])
            position += core

    def _size(self, k: int) -> str:
        return self.w.let(f"load i64, ptr {self.w.shifted('%sizes', 8 * k)}")

    def _step(self, k: int) -> str:
        return self.w.let(f"load i64, ptr {self.w.shifted('%steps', 8 * k)}")

    def of(self, i: str) -> list[str]:
        """Return where each operand's matrix ``i`` begins."""
        w = self.w
        firsts = [w.let(f"load ptr, ptr {w.shifted('%args', 8 * k)}") for k in range(len(self.cores))]
        return [w.shifted(p, w.let(f"mul i64 {i}, {step}")) for p, step in zip(firsts, self.outer, strict=True)]

    def at(self, pointer: str, strides: Sequence[str | int], *indices: str) -> str:
        """Return where an element lies."""
        for stride, index in zip(strides, indices, strict=True):
            pointer = self.w.shifted(pointer, self.w.let(f"mul i64 {index}, {stride}"))
        return pointer

    def load(self, location: str) -> str:
        return self.w.let(f"load {self.kind}, ptr {location}")

    def store(self, value: str, location: str) -> None:
        self.w.line(f"store {self.kind} {value}, ptr {location}")

    def op(self, name: str, x: str, y: str) -> str:
        return self.w.let(f"{name} {self.kind} {x}, {y}")

    def subtract_product(self, location: str, x: str, y: str) -> None:
        """Subtract a product from what is stored."""
        self.store(self.op("fsub", self.load(location), self.op("fmul", x, y)), location)

    def fail(self, condition: str) -> None:
        """Note a matrix without factors."""
        w = self.w
        seen = w.let("load i64, ptr %fault")
        more = w.let(f"select i1 {condition}, i64 {FACTORIZATION}, i64 0")
        w.line(f"store i64 {w.let(f'or i64 {seen}, {more}')}, ptr %fault")

    def next(self, i: str) -> str:
        return self.w.let(f"add i64 {i}, 1")

    def each(self, start: str, stop: str, body: Callable[[str], None]) -> None:
        self.w.loop(start, stop, 1, body)


def _product(rows: int | None, terms: int, columns: int | None) -> Callable[[Writer, Sequence[str]], None]:
    """Return the loop of products whose core sizes stand at these places; None for an axis that is not there."""

    def emit(w: Writer, dtypes: Sequence[str]) -> None:
        """Multiply stacks: each element is one chain over k."""
        has_rows, has_columns = rows is not None, columns is not None
        cores = (1 + has_rows, 1 + has_columns, has_rows + has_columns)
        m = _Matrices(w, dtypes, cores, 1 + has_rows + has_columns)
        counts = ["1" if k is None else m.sizes[k] for k in (rows, columns)]
        total = w.local(m.kind, 8)

        def matrix(i: str) -> None:
            x, y, z = m.of(i)

            def element(r: str, c: str) -> None:
                m.store("0.0", total)
                row, column = [r] if has_rows else [], [c] if has_columns else []

                def term(k: str) -> None:
                    a, b = m.load(m.at(x, m.inner[0], *row, k)), m.load(m.at(y, m.inner[1], k, *column))
                    m.store(m.op("fadd", m.load(total), m.op("fmul", a, b)), total)

                m.each("0", m.sizes[terms], term)
                m.store(m.load(total), m.at(z, m.inner[2], *row, *column))

            m.each("0", counts[0], lambda r: m.each("0", counts[1], lambda c: element(r, c)))

        m.each("0", m.count, matrix)
        w.line("ret void")

    return emit


def _cholesky(w: Writer, dtypes: Sequence[str]) -> None:
    """Factorize stacks of positive definite matrices, column by column: the lower factor."""
    m = _Matrices(w, dtypes, (2, 2), 1)
    (n,) = m.sizes
    w.declare("sqrt", f"declare {m.kind} @llvm.sqrt.f{8 * m.bytes}({m.kind})")

    def matrix(i: str) -> None:
        a, z = m.of(i)

        def start(r: str, c: str) -> None:
            is_below = w.let(f"icmp sge i64 {r}, {c}")
            value = w.let(f"select i1 {is_below}, {m.kind} {m.load(m.at(a, m.inner[0], r, c))}, {m.kind} 0.0")
            m.store(value, m.at(z, m.inner[1], r, c))

        def column(c: str) -> None:
            def subtract(k: str) -> None:
                factor = m.load(m.at(z, m.inner[1], c, k))
                m.each(
                    c,
                    n,
                    lambda r: m.subtract_product(m.at(z, m.inner[1], r, c), m.load(m.at(z, m.inner[1], r, k)), factor),
                )

            m.each("0", c, subtract)
            square = m.load(m.at(z, m.inner[1], c, c))
            m.fail(w.let(f"xor i1 {w.let(f'fcmp ogt {m.kind} {square}, 0.0')}, true"))
            root = w.let(f"call {m.kind} @llvm.sqrt.f{8 * m.bytes}({m.kind} {square})")

            def divide(r: str) -> None:
                location = m.at(z, m.inner[1], r, c)
                m.store(m.op("fdiv", m.load(location), root), location)

            m.each(c, n, divide)

        m.each("0", n, lambda r: m.each("0", n, lambda c: start(r, c)))
        m.each("0", n, column)

    m.each("0", m.count, matrix)
    w.line("ret void")


class _Elimination(_Matrices):
    """Emitter of elimination with row exchange in a copy of a matrix, beside the right sides."""

    def work(self, n: str) -> str:
        """Return memory on the stack for one matrix."""
        return self.w.let(f"alloca {self.kind}, i64 {self.op_int('mul', n, n)}, align 16")

    def op_int(self, name: str, x: str, y: str | int) -> str:
        return self.w.let(f"{name} i64 {x}, {y}")

    def take(self, a: str, into: str, n: str) -> list[str | int]:
        """Copy a matrix; return the strides of the copy."""
        strides: list[str | int] = [self.op_int("mul", n, self.bytes), self.bytes]

        def element(r: str, c: str) -> None:
            self.store(self.load(self.at(a, self.inner[0], r, c)), self.at(into, strides, r, c))

        self.each("0", n, lambda r: self.each("0", n, lambda c: element(r, c)))
        return strides

    def pivot(self, lu: str, strides: Sequence[str | int], n: str, k: str) -> str:
        """Return the row, from ``k`` on, whose element of column ``k`` is largest."""
        w = self.w
        best, most = w.local("i64", 8), w.local(self.kind, 8)
        w.declare("fabs", f"declare {self.kind} @llvm.fabs.f{8 * self.bytes}({self.kind})")
        w.line(f"store i64 {k}, ptr {best}")
        self.store("-1.0", most)

        def row(r: str) -> None:
            size = w.let(
                f"call {self.kind} @llvm.fabs.f{8 * self.bytes}({self.kind} {self.load(self.at(lu, strides, r, k))})"
            )

            def take() -> None:
                self.store(size, most)
                w.line(f"store i64 {r}, ptr {best}")

            w.when(w.let(f"fcmp ogt {self.kind} {size}, {self.load(most)}"), take)

        self.each(k, n, row)
        return w.let(f"load i64, ptr {best}")

    def exchange(self, x: str, strides: Sequence[str | int], columns: str, r: str, s: str) -> None:
        """Exchange two rows."""

        def column(c: str) -> None:
            a, b = self.at(x, strides, r, c), self.at(x, strides, s, c)
            first, second = self.load(a), self.load(b)
            self.store(second, a)
            self.store(first, b)

        self.each("0", columns, column)

    def eliminate(
        self,
        lu: str,
        strides: Sequence[str | int],
        n: str,
        k: str,
        sides: Sequence[tuple[str, Sequence[str | int], str]],
    ) -> None:
        """Subtract multiples of row ``k`` from those below, and from the right sides' rows."""
        head = self.load(self.at(lu, strides, k, k))

        def side(r: str, factor: str, x: str, own: Sequence[str | int], c: str) -> None:
            self.subtract_product(self.at(x, own, r, c), factor, self.load(self.at(x, own, k, c)))

        def row(r: str) -> None:
            factor = self.op("fdiv", self.load(self.at(lu, strides, r, k)), head)
            self.each(
                self.next(k),
                n,
                lambda c: self.subtract_product(
                    self.at(lu, strides, r, c), factor, self.load(self.at(lu, strides, k, c))
                ),
            )
            for x, own, columns in sides:
                self.each("0", columns, partial(side, r, factor, x, own))

        self.each(self.next(k), n, row)

    def substitute(
        self, lu: str, strides: Sequence[str | int], n: str, x: str, own: Sequence[str | int], columns: str
    ) -> None:
        """Solve the triangular system that is left, from the last row."""

        def row(t: str) -> None:
            r = self.op_int("sub", self.op_int("sub", n, 1), t)
            head = self.load(self.at(lu, strides, r, r))

            def column(c: str) -> None:
                location = self.at(x, own, r, c)
                self.each(
                    self.next(r),
                    n,
                    lambda k: self.subtract_product(
                        location, self.load(self.at(lu, strides, r, k)), self.load(self.at(x, own, k, c))
                    ),
                )
                self.store(self.op("fdiv", self.load(location), head), location)

            self.each("0", columns, column)

        self.each("0", n, row)


def _solve(w: Writer, dtypes: Sequence[str]) -> None:
    """Solve stacks of systems: the result begins as the right sides."""
    m = _Elimination(w, dtypes, (2, 2, 2), 2)
    n, columns = m.sizes
    lu = m.work(n)

    def matrix(i: str) -> None:
        a, y, x = m.of(i)
        m.each(
            "0",
            n,
            lambda r: m.each(
                "0", columns, lambda c: m.store(m.load(m.at(y, m.inner[1], r, c)), m.at(x, m.inner[2], r, c))
            ),
        )
        _solve_one(m, lu, m.take(a, lu, n), n, x, m.inner[2], columns)

    m.each("0", m.count, matrix)
    w.line("ret void")


def _inv(w: Writer, dtypes: Sequence[str]) -> None:
    """Invert stacks of matrices: the result begins as the identity."""
    m = _Elimination(w, dtypes, (2, 2), 1)
    (n,) = m.sizes
    lu = m.work(n)

    def matrix(i: str) -> None:
        a, x = m.of(i)

        def one(r: str, c: str) -> None:
            value = w.let(f"uitofp i1 {w.let(f'icmp eq i64 {r}, {c}')} to {m.kind}")
            m.store(value, m.at(x, m.inner[1], r, c))

        m.each("0", n, lambda r: m.each("0", n, lambda c: one(r, c)))
        _solve_one(m, lu, m.take(a, lu, n), n, x, m.inner[1], n)

    m.each("0", m.count, matrix)
    w.line("ret void")


def _solve_one(
    m: _Elimination, lu: str, strides: Sequence[str | int], n: str, x: str, own: Sequence[str | int], columns: str
) -> None:
    def step(k: str) -> None:
        best = m.pivot(lu, strides, n, k)
        m.exchange(lu, strides, n, k, best)
        m.exchange(x, own, columns, k, best)
        head = m.load(m.at(lu, strides, k, k))
        m.fail(m.w.let(f"fcmp oeq {m.kind} {head}, 0.0"))
        m.eliminate(lu, strides, n, k, [(x, own, columns)])

    m.each("0", n, step)
    m.substitute(lu, strides, n, x, own, columns)


def _det(w: Writer, dtypes: Sequence[str]) -> None:
    """Return determinants of stacks: products of the heads, whose sign changes with each exchange of rows."""
    m = _Elimination(w, dtypes, (2, 0), 1)
    (n,) = m.sizes
    lu = m.work(n)

    def matrix(i: str) -> None:
        a, z = m.of(i)
        strides = m.take(a, lu, n)
        m.store("1.0", z)

        def step(k: str) -> None:
            best = m.pivot(lu, strides, n, k)
            m.exchange(lu, strides, n, k, best)
            head = m.load(m.at(lu, strides, k, k))
            total = m.op("fmul", m.load(z), head)
            is_moved = w.let(f"icmp ne i64 {best}, {k}")
            m.store(w.let(f"select i1 {is_moved}, {m.kind} {w.let(f'fneg {m.kind} {total}')}, {m.kind} {total}"), z)
            has_head = w.let(f"fcmp une {m.kind} {head}, 0.0")
            w.when(has_head, lambda: m.eliminate(lu, strides, n, k, []))

        m.each("0", n, step)

    m.each("0", m.count, matrix)
    w.line("ret void")


MATRIX_LOOPS: dict[str, Callable[[Writer, Sequence[str]], None]] = {
    "linalg.cholesky_lo": _cholesky,
    "linalg.det": _det,
    "linalg.inv": _inv,
    "linalg.solve": _solve,
    "matmul": _product(0, 1, 2),
    "matvec": _product(0, 1, None),
    "vecdot": _product(None, 0, None),
    "vecmat": _product(None, 0, 1),
}
