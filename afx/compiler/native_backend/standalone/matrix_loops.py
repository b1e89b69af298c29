"""Loops on stacks of small matrices without LAPACK: products, Cholesky's factors, solutions by elimination with row exchange.

They have the signature of the loops of ``np.linalg`` (Golub & Van Loan 2013, Algorithms 4.2.1 and 3.4.1). A matrix without
factors in finite numbers sets a bit of the fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.functions.portable import log
from afx.compiler.native_backend.llvm.op import FLOATS
from afx.compiler.native_backend.llvm.writer import FACTORIZATION, Writer
from afx.core.scalar_ops import MATMUL


def each(w: Writer, start: Lanes | int, stop: Lanes | int, step: int = 1) -> Iterator[Lanes]:
    """Emit a loop around what is emitted in the body of Python's loop over this."""
    first, end = [x.name if isinstance(x, Lanes) else str(x) for x in (start, stop)]
    k = w.fresh()
    w.fall(f"before{k}")
    w.fall(f"head{k}")
    i = Lanes(w, "i64", w.let(f"phi i64 [ {first}, %before{k} ], [ %next{k}, %last{k} ]"))
    w.line(f"br i1 {w.let(f'icmp slt i64 {i.name}, {end}')}, label %inside{k}, label %done{k}")
    w.label(f"inside{k}")
    yield i
    w.fall(f"last{k}")
    w.line(f"%next{k} = add nsw i64 {i.name}, {step}")
    w.line(f"br label %head{k}")
    w.label(f"done{k}")


def repeat(w: Writer, condition: Callable[[], Lanes]) -> Iterator[None]:
    """Emit a loop around what is emitted in the body of Python's loop over this, while a condition holds."""
    k = w.fresh()
    w.fall(f"head{k}")
    w.line(f"br i1 {condition().name}, label %inside{k}, label %done{k}")
    w.label(f"inside{k}")
    yield
    w.line(f"br label %head{k}")
    w.label(f"done{k}")


def given(w: Writer, condition: Lanes) -> Iterator[None]:
    """Emit what is emitted in the body of Python's loop over this so that it runs where a condition holds."""
    k = w.fresh()
    w.line(f"br i1 {condition.name}, label %inside{k}, label %done{k}")
    w.label(f"inside{k}")
    yield
    w.fall(f"done{k}")


class Elements:
    """Elements in memory by their indices: of a matrix, a vector, or a number, whose index is ``()``."""

    def __init__(self, w: Writer, kind: str, pointer: str, strides: Sequence[Lanes | int] = ()) -> None:
        self._w = w
        self._kind = kind
        self._pointer = pointer
        self._strides = strides

    def at(self, *indices: Lanes) -> str:
        """Return the pointer to an element."""
        pointer = self._pointer
        for index, stride in zip(indices, self._strides, strict=True):
            pointer = self._w.shifted(pointer, (index * stride).name)
        return pointer

    def __getitem__(self, indices: tuple[Lanes, ...]) -> Lanes:
        return Lanes(self._w, self._kind, self._w.let(f"load {self._kind}, ptr {self.at(*indices)}"))

    def __setitem__(self, indices: tuple[Lanes, ...], value: Lanes) -> None:
        self._w.line(f"store {self._kind} {value.name}, ptr {self.at(*indices)}")

    def transposed(self) -> Elements:
        """Return the same elements with their indices in reverse order."""
        return Elements(self._w, self._kind, self._pointer, self._strides[::-1])

    def chosen(self, condition: Lanes, other: Elements) -> Elements:
        """Return these where a condition holds, and others where not."""
        pointer = self._w.let(f"select i1 {condition.name}, ptr {self._pointer}, ptr {other._pointer}")
        pairs = zip(self._strides, other._strides, strict=True)
        strides = [condition.choose(Lanes(self._w, "i64", str(a)) if isinstance(a, int) else a, b) for a, b in pairs]
        return Elements(self._w, self._kind, pointer, strides)


def variable(w: Writer, kind: str) -> Elements:
    """Return memory of one value."""
    return Elements(w, kind, w.local(kind, 8))


class Stacks:
    """The operands of a loop on stacks: sizes of the matrices, and each matrix of every stack in turn.

    Args:
        w: the writer of the loop.
        dtypes: of the operands.
        ranks: how many axes a core array of each operand has: 2 for matrices, 1 for vectors.
        sizes: how many different lengths these axes have.
    """

    def __init__(self, w: Writer, dtypes: Sequence[str], ranks: Sequence[int], sizes: int) -> None:
        self.w = w
        self.kind: str = FLOATS[dtypes[0]]
        self._bytes = int(dtypes[0][1:])
        self._count = self._read("%sizes", 0)
        self.sizes: list[Lanes] = [self._read("%sizes", k + 1) for k in range(sizes)]
        steps = iter([self._read("%steps", k) for k in range(len(ranks) + sum(ranks))])
        self._outer = [next(steps) for _ in ranks]
        self._inner = [[next(steps) for _ in range(rank)] for rank in ranks]

    def _read(self, of: str, k: int) -> Lanes:
        return Lanes(self.w, "i64", self.w.let(f"load i64, ptr {self.w.shifted(of, 8 * k)}"))

    def __iter__(self) -> Iterator[list[Elements]]:
        w = self.w
        for i in each(w, 0, self._count):
            firsts = [w.let(f"load ptr, ptr {w.shifted('%args', 8 * k)}") for k in range(len(self._outer))]
            starts = [w.shifted(p, (i * step).name) for p, step in zip(firsts, self._outer, strict=True)]
            yield [Elements(w, self.kind, p, strides) for p, strides in zip(starts, self._inner, strict=True)]
        w.line("ret void")

    def each(self, start: Lanes | int, stop: Lanes | int) -> Iterator[Lanes]:
        """Emit a loop."""
        return each(self.w, start, stop)

    def cells(self, rows: Lanes | int, columns: Lanes | int) -> Iterator[tuple[Lanes, Lanes]]:
        """Emit a loop over rows and one over columns."""
        for r in self.each(0, rows):
            for c in self.each(0, columns):
                yield r, c

    def number(self, kind: str = "") -> Elements:
        """Return memory of one number."""
        return Elements(self.w, kind or self.kind, self.w.local(kind or self.kind, 8))

    @property
    def work(self) -> str:
        """The pointer to memory to work in, which stands behind the operands."""
        return self.w.let(f"load ptr, ptr {self.w.shifted('%args', 8 * len(self._outer))}")

    def square(self, n: Lanes) -> Elements:
        """Return memory to work in as one matrix."""
        return Elements(self.w, self.kind, self.work, [n * self._bytes, self._bytes])

    def fail(self, condition: Lanes) -> None:
        """Note a matrix without factors."""
        fault = Elements(self.w, "i64", "%fault")
        seen = fault[()]
        fault[()] = seen | condition.choose(seen.constant(FACTORIZATION), 0)


def _product(rows: int | None, terms: int, columns: int | None) -> Callable[[Writer, Sequence[str]], None]:
    """Return the loop of products whose core sizes stand at these places; None for an axis that is not there."""

    def emit(w: Writer, dtypes: Sequence[str]) -> None:
        """Multiply stacks: each element is one chain over k."""
        has_rows, has_columns = rows is not None, columns is not None
        ranks = (1 + has_rows, 1 + has_columns, has_rows + has_columns)
        m = Stacks(w, dtypes, ranks=ranks, sizes=1 + has_rows + has_columns)
        total = m.number()
        for x, y, z in m:
            for r, c in m.cells(1 if rows is None else m.sizes[rows], 1 if columns is None else m.sizes[columns]):
                row, column = (r,) * has_rows, (c,) * has_columns
                total[()] = Lanes(w, m.kind, "0.0")
                for k in m.each(0, m.sizes[terms]):
                    total[()] = total[()] + x[*row, k] * y[k, *column]
                z[*row, *column] = total[()]

    return emit


def _cholesky(w: Writer, dtypes: Sequence[str]) -> None:
    """Factorize stacks of positive definite matrices, column by column: the lower factor."""
    m = Stacks(w, dtypes, ranks=(2, 2), sizes=1)
    (n,) = m.sizes
    for a, z in m:
        for r, c in m.cells(n, n):
            z[r, c] = r.compare("sge", c).choose(a[r, c], 0.0)
        for c in m.each(0, n):
            for k in m.each(0, c):
                factor = z[c, k]
                for r in m.each(c, n):
                    z[r, c] -= z[r, k] * factor
            square = z[c, c]
            m.fail(square.compare("ule", 0.0))
            root = square.sqrt()
            for r in m.each(c, n):
                z[r, c] /= root


def _pivot(m: Stacks, lu: Elements, n: Lanes, k: Lanes) -> Lanes:
    """Return the row, from ``k`` on, whose element of column ``k`` is largest."""
    best, most = m.number("i64"), m.number()
    best[()], most[()] = k, Lanes(m.w, m.kind, "-1.0")
    for r in m.each(k, n):
        size = lu[r, k].unary("fabs")
        is_larger = size.compare("ogt", most[()])
        best[()], most[()] = is_larger.choose(r, best[()]), is_larger.choose(size, most[()])
    return best[()]


def _exchange(m: Stacks, x: Elements, columns: Lanes, r: Lanes, s: Lanes) -> None:
    """Exchange two rows."""
    for c in m.each(0, columns):
        x[r, c], x[s, c] = x[s, c], x[r, c]


def _eliminate(m: Stacks, lu: Elements, n: Lanes, k: Lanes, sides: Sequence[tuple[Elements, Lanes]] = ()) -> None:
    """Subtract multiples of row ``k`` from those below, and from the right sides' rows."""
    head = lu[k, k]
    for r in m.each(k + 1, n):
        factor = lu[r, k] / head
        for c in m.each(k + 1, n):
            lu[r, c] -= factor * lu[k, c]
        for x, columns in sides:
            for c in m.each(0, columns):
                x[r, c] -= factor * x[k, c]


def _solve_one(m: Stacks, a: Elements, lu: Elements, n: Lanes, x: Elements, columns: Lanes) -> None:
    """Solve the systems of a matrix, of which x begins as the right sides."""
    _copy(m, a, lu, n, n)
    for k in m.each(0, n):
        best = _pivot(m, lu, n, k)
        _exchange(m, lu, n, k, best)
        _exchange(m, x, columns, k, best)
        m.fail(lu[k, k].compare("oeq", 0.0))
        _eliminate(m, lu, n, k, [(x, columns)])
    for t in m.each(0, n):  # the triangular system that is left, from the last row
        r = n - 1 - t
        head = lu[r, r]
        for c in m.each(0, columns):
            for k in m.each(r + 1, n):
                x[r, c] -= lu[r, k] * x[k, c]
            x[r, c] /= head


def _copy(m: Stacks, of: Elements, to: Elements, rows: Lanes, columns: Lanes) -> None:
    for r, c in m.cells(rows, columns):
        to[r, c] = of[r, c]


def _solve(w: Writer, dtypes: Sequence[str]) -> None:
    """Solve stacks of systems: the result begins as the right sides."""
    m = Stacks(w, dtypes, ranks=(2, 2, 2), sizes=2)
    n, columns = m.sizes
    lu = m.square(n)
    for a, y, x in m:
        _copy(m, y, x, n, columns)
        _solve_one(m, a, lu, n, x, columns)


def _inv(w: Writer, dtypes: Sequence[str]) -> None:
    """Invert stacks of matrices: the result begins as the identity."""
    m = Stacks(w, dtypes, ranks=(2, 2), sizes=1)
    (n,) = m.sizes
    lu = m.square(n)
    for a, x in m:
        for r, c in m.cells(n, n):
            x[r, c] = r.compare("eq", c).choose(Lanes(w, m.kind, "1.0"), 0.0)
        _solve_one(m, a, lu, n, x, n)


def _det(w: Writer, dtypes: Sequence[str]) -> None:
    """Return determinants of stacks: products of the heads, whose sign changes with each exchange of rows."""
    m = Stacks(w, dtypes, ranks=(2, 0), sizes=1)
    (n,) = m.sizes
    lu = m.square(n)
    for a, z in m:
        _copy(m, a, lu, n, n)
        z[()] = Lanes(w, m.kind, "1.0")
        for k in m.each(0, n):
            best = _pivot(m, lu, n, k)
            _exchange(m, lu, n, k, best)
            head = lu[k, k]
            total = z[()] * head
            z[()] = best.compare("ne", k).choose(-total, total)
            for _ in given(w, head.compare("une", 0.0)):
                _eliminate(m, lu, n, k)


def _slogdet(w: Writer, dtypes: Sequence[str]) -> None:
    """Return signs of determinants, and logarithms of their sizes."""
    m = Stacks(w, dtypes, ranks=(2, 0, 0), sizes=1)
    (n,) = m.sizes
    lu = m.square(n)
    for a, sign, size in m:
        _copy(m, a, lu, n, n)
        sign[()], size[()] = Lanes(w, m.kind, "1.0"), Lanes(w, m.kind, "0.0")
        for k in m.each(0, n):
            best = _pivot(m, lu, n, k)
            _exchange(m, lu, n, k, best)
            head = lu[k, k]
            is_turned = best.compare("ne", k) ^ head.compare("olt", 0.0)
            turned = is_turned.choose(-sign[()], sign[()])
            sign[()] = head.compare("oeq", 0.0).choose(head.constant(0.0), turned)
            size[()] += log(head.unary("fabs").widen()).narrow(m.kind)
            for _ in given(w, head.compare("une", 0.0)):
                _eliminate(m, lu, n, k)


MATRIX_LOOPS: dict[str, Callable[[Writer, Sequence[str]], None]] = {
    "linalg.cholesky_lo": _cholesky,
    "linalg.det": _det,
    "linalg.inv": _inv,
    "linalg.slogdet": _slogdet,
    "linalg.solve": _solve,
    MATMUL: _product(0, 1, 2),
    "matvec": _product(0, 1, None),
    "vecdot": _product(None, 0, None),
    "vecmat": _product(None, 0, 1),
}
