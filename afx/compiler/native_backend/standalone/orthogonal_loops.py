"""Orthogonal factorizations: of stacks of matrices without LAPACK, QR, eigenvalues of symmetric matrices, singular values.

They have the signature of the loops of ``np.linalg``. Reflections are Householder's (Golub & Van Loan 2013, Algorithms 5.1.1,
5.2.1), eigenvalues and vectors those of cyclic Jacobi rotations (Algorithm 8.5.3). Singular values are the lengths of columns
that one-sided rotations make orthogonal (Demmel & Veselic 1992, Algorithm 4.1); a QR factorization of these completes the
vectors, also of a matrix without full rank. Pairs are taken row by row, so that signs are the algorithm's. Eigenvalues,
singular values and their vectors are nan where a matrix holds inf or nan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import attrs

from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.standalone.matrix_loops import Elements, Stacks, given, repeat, variable

SWEEPS = 60  # at most, over all pairs: ten do
NEGLIGIBLE = 2.0**-56  # of the largest element, which rotations leave
ROUNDING = 2.0**-52
EXPONENT = 0x7FF0000000000000

# --- Reflections


def _reflect(m: Stacks, x: Elements, of: Elements, tau: Lanes, first: Lanes, ends: tuple[Lanes, Lanes, Lanes]) -> None:
    """Reflect rows from the first one on by a vector that begins with 1 and stands below it in the same column of ``of``.

    Args:
        m: the stacks.
        x: what is reflected.
        of: what holds the vector.
        tau: the factor of the vector's square.
        first: row and column where the vector begins.
        ends: the number of rows, the first column of x that is reflected, and the last one's successor.
    """
    rows, start, stop = ends
    sums = _vector(m, m.work)
    for c in m.each(start, stop):
        sums[c,] = x[first, c]
    for r in m.each(first + 1, rows):
        factor = of[r, first]
        for c in m.each(start, stop):
            sums[c,] += factor * x[r, c]
    for c in m.each(start, stop):
        sums[c,] *= tau
        x[first, c] -= sums[c,]
    for r in m.each(first + 1, rows):
        factor = of[r, first]
        for c in m.each(start, stop):
            x[r, c] -= factor * sums[c,]


def _factor(m: Stacks, x: Elements, rows: Lanes, columns: Lanes, k: Lanes, tau: Elements) -> None:
    """Leave the triangle above reflections that make it, and their factors."""
    big, total = m.number(), m.number()
    for c in m.each(0, k):
        big[()], total[()] = _zero(m), _zero(m)
        for r in m.each(c + 1, rows):
            size = x[r, c].unary("fabs")
            big[()] = size.compare("ogt", big[()]).choose(size, big[()])
        head = x[c, c]
        size = head.unary("fabs")
        unit = _power(size.compare("ogt", big[()]).choose(size, big[()]))
        for r in m.each(c + 1, rows):
            part = x[r, c] / unit
            total[()] += part * part
        part = head / unit  # all in this unit: what is rounded to a denormal number would not be a reflection
        root = -(part * part + total[()]).sqrt().copysign(head)
        turns = total[()].compare("une", 0.0)
        tau[c,] = turns.choose((root - part) / root, 0.0)
        for _ in given(m.w, turns):
            for r in m.each(c + 1, rows):
                x[r, c] = x[r, c] / unit / (part - root)
            x[c, c] = root * unit
            _reflect(m, x, x, tau[c,], c, (rows, c + 1, columns))


def _form(m: Stacks, q: Elements, of: Elements, tau: Elements, ends: tuple[Lanes, Lanes, Lanes]) -> None:
    """Write the first columns of the product of reflections, given the numbers of rows, columns and reflections."""
    rows, columns, k = ends
    for r, c in m.cells(rows, columns):
        q[r, c] = r.compare("eq", c).choose(Lanes(m.w, m.kind, "1.0"), 0.0)
    for t in m.each(0, k):
        c = k - 1 - t
        _reflect(m, q, of, tau[c,], c, (rows, c, columns))


def _vector(m: Stacks, pointer: str) -> Elements:
    return Elements(m.w, m.kind, pointer, [8])


def _zero(m: Stacks) -> Lanes:
    return Lanes(m.w, m.kind, "0.0")


def _power(x: Lanes) -> Lanes:
    """Return the power of two below a positive number, the least normal one of tiny numbers, by which quotients are exact."""
    power = (x.bits() & EXPONENT).as_float()
    return power.compare("oeq", 0.0).choose(x.constant(2.0**-1022), power)


def _qr_raw(w: Writer, dtypes: Sequence[str]) -> None:
    """Write R over the upper triangle of a matrix, the vectors of the reflections below it, and their factors."""
    m = Stacks(w, dtypes, ranks=(2, 1), sizes=3)
    rows, columns, k = m.sizes
    for a, tau in m:
        _factor(m, a, rows, columns, k, tau)


def _q(w: Writer, dtypes: Sequence[str], *, is_complete: bool) -> None:
    """Write Q from what `_qr_raw` leaves: square, or with as many columns as there are reflections."""
    m = Stacks(w, dtypes, ranks=(2, 1, 2), sizes=2 if is_complete else 3)
    rows, reflections = m.sizes[0], m.sizes[-1]
    for raw, tau, q in m:
        _form(m, q, raw, tau, (rows, rows if is_complete else reflections, reflections))


# --- Rotations


def _matrix(m: Stacks, at: Lanes, columns: Lanes) -> Elements:
    """Return a dense matrix in memory to work in, so many numbers from its beginning."""
    return Elements(m.w, m.kind, m.w.shifted(m.work, (at * 8).name), [columns * 8, 8])


def _tangent(x: Lanes) -> tuple[Lanes, Lanes]:
    """Return cosine and sine of the smaller angle whose double has the cotangent x."""
    size = x.unary("fabs")
    one = x.constant(1.0)
    t = (one / (size + (size * size + 1.0).sqrt())).copysign(x)
    c = one / (t * t + 1.0).sqrt()
    return c, t * c


def _rotate(m: Stacks, x: Elements, p: Lanes, q: Lanes, angle: tuple[Lanes, Lanes], count: Lanes) -> None:
    """Turn two rows."""
    c, s = angle
    for k in m.each(0, count):
        a, b = x[p, k], x[q, k]
        x[p, k] = c * a - s * b
        x[q, k] = s * a + c * b


def _sweep(m: Stacks, n: Lanes, turn: Callable[[Lanes, Lanes, Elements], None]) -> None:
    """Take all pairs in turn until none is turned, which a function notes."""
    turned, count = variable(m.w, "i64"), variable(m.w, "i64")
    turned[()], count[()] = n.constant(1), n.constant(0)
    for _ in repeat(m.w, lambda: turned[()].compare("ne", 0) & count[()].compare("slt", SWEEPS)):
        turned[()] = n.constant(0)
        for p in m.each(0, n):
            for q in m.each(p + 1, n):
                turn(p, q, turned)
        count[()] = count[()] + 1


def _unit(m: Stacks, of: Elements, rows: Lanes, columns: Lanes) -> Lanes:
    """Return a power of two by which the elements are divided first; nan where one is inf or nan."""
    big, odd = m.number(), m.number()
    big[()], odd[()] = _zero(m), _zero(m)
    for r, c in m.cells(rows, columns):
        x = of[r, c]
        size = x.unary("fabs")
        big[()] = size.compare("ogt", big[()]).choose(size, big[()])
        odd[()] += x * 0.0
    return big[()].compare("oeq", 0.0).choose(big[()].constant(1.0), _power(big[()])) + odd[()]


def _identity(m: Stacks, x: Elements, n: Lanes) -> None:
    for r, c in m.cells(n, n):
        x[r, c] = r.compare("eq", c).choose(Lanes(m.w, m.kind, "1.0"), 0.0)


def _arrange(m: Stacks, values: Elements, n: Lanes, test: str, rows: Sequence[tuple[Elements, Lanes]]) -> None:
    """Sort values, and rows of so many elements with them: the first of equal ones first."""
    best = variable(m.w, "i64")
    for k in m.each(0, n):
        best[()] = k
        for j in m.each(k + 1, n):
            best[()] = values[j,].compare(test, values[best[()],]).choose(j, best[()])
        chosen = best[()]
        values[k,], values[chosen,] = values[chosen,], values[k,]
        for x, count in rows:
            for c in m.each(0, count):
                x[k, c], x[chosen, c] = x[chosen, c], x[k, c]


def _eigh(w: Writer, dtypes: Sequence[str], *, is_upper: bool = False, has_vectors: bool = True) -> None:
    """Make symmetric matrices diagonal."""
    m = Stacks(w, dtypes, ranks=(2, 1, 2) if has_vectors else (2, 1), sizes=1)
    (n,) = m.sizes
    for a, values, *vectors in m:
        x, v = _matrix(m, n * 0, n), _matrix(m, n * n, n)
        unit = _unit(m, a, n, n)
        for r, c in m.cells(n, n):
            own = r.compare("sle" if is_upper else "sge", c)
            x[r, c] = a[own.choose(r, c), own.choose(c, r)] / unit
        if has_vectors:
            _identity(m, v, n)
        _diagonalize(m, x, n, v if has_vectors else None)
        for k in m.each(0, n):
            values[k,] = x[k, k] * unit
        _arrange(m, values, n, "olt", [(v, n)] if has_vectors else [])
        for z in vectors:
            for r, c in m.cells(n, n):
                z[r, c] = v[c, r] * (unit / unit)


def _diagonalize(m: Stacks, x: Elements, n: Lanes, v: Elements | None) -> None:
    """Turn pairs of rows and columns until the elements beside the diagonal are negligible, and v with them."""

    def turn(p: Lanes, q: Lanes, turned: Elements) -> None:
        beside = x[p, q]
        for _ in given(m.w, beside.unary("fabs").compare("ogt", NEGLIGIBLE)):
            low, high = x[p, p], x[q, q]
            angle = c, s = _tangent((high - low) / (beside * 2.0))
            moved = s / c * beside
            _rotate(m, x, p, q, angle, n)
            for k in m.each(0, n):
                x[k, p], x[k, q] = x[p, k], x[q, k]
            x[p, p], x[q, q] = low - moved, high + moved
            x[p, q] = x[q, p] = _zero(m)
            if v is not None:
                _rotate(m, v, p, q, angle, n)
            turned[()] = n.constant(1)

    _sweep(m, n, turn)


@attrs.frozen
class _Sides:
    """A matrix with at least as many rows as columns, or its transpose: its columns as rows, and what they are made of.

    Attributes:
        rows: of the matrix, its larger length.
        columns: its smaller length.
        x: its columns, which rotations make orthogonal.
        v: the rotations.
        tau: factors of reflections.
    """

    rows: Lanes
    columns: Lanes
    x: Elements
    v: Elements
    tau: Elements


def _lay_out_sides(m: Stacks, long: Lanes, k: Lanes) -> _Sides:
    """Return the places in memory of a matrix's columns and of what they are made of."""
    x, v = _matrix(m, long, long), _matrix(m, long + long * k, k)
    return _Sides(long, k, x, v, _vector(m, m.w.shifted(m.work, ((long + long * k + k * k) * 8).name)))


def _svd(w: Writer, dtypes: Sequence[str], *, has_vectors: bool, is_full: bool = False) -> None:
    """Make columns orthogonal, and sort them by their lengths."""
    m = Stacks(w, dtypes, ranks=(2, 2, 1, 2) if has_vectors else (2, 1), sizes=3)
    height, width, k = m.sizes
    is_tall = height.compare("sge", width)
    long = is_tall.choose(height, width)
    for a, *outs in m:
        z = _lay_out_sides(m, long, k)
        unit = _unit(m, a, height, width)
        for r, c in m.cells(k, long):
            z.x[r, c] = a[is_tall.choose(c, r), is_tall.choose(r, c)] / unit
        _identity(m, z.v, k)
        _orthogonalize(m, z)
        _arrange(m, z.tau, k, "ogt", [(z.x, long), (z.v, k)])
        turned = z.x.transposed()
        _factor(m, turned, long, k, k, z.tau)
        values = outs[1] if has_vectors else outs[0]
        for c in m.each(0, k):
            values[c,] = turned[c, c].unary("fabs") * unit
        pairs: list[tuple[Elements, Lanes]] = []
        if has_vectors:
            _write_vectors(m, z, outs[0], outs[2], is_tall, long if is_full else k)
            pairs = [(outs[0].transposed(), height), (outs[2], width)]
            sizes = (height, height if is_full else k), (width if is_full else k, width)
            for x, size in zip(outs[::2], sizes, strict=True):
                for r, c in m.cells(*size):
                    x[r, c] *= unit / unit  # nan where the matrix has none
        # squares of lengths that differ by 10^160 are zeros, and were not told apart
        _arrange(m, values, k, "ogt", pairs)


def _orthogonalize(m: Stacks, z: _Sides) -> None:
    """Turn pairs of columns until their products are rounding errors, and leave their squared lengths."""
    bound = (z.rows.to_float().sqrt() + 4.0) * ROUNDING
    sums = [m.number() for _ in range(3)]

    def products(p: Lanes, q: Lanes) -> list[Lanes]:
        for total in sums:
            total[()] = _zero(m)
        for k in m.each(0, z.rows):
            a, b = z.x[p, k], z.x[q, k]
            for total, term in zip(sums, (a * a, b * b, a * b), strict=True):
                total[()] += term
        return [total[()] for total in sums]

    def turn(p: Lanes, q: Lanes, turned: Elements) -> None:
        first, second, beside = products(p, q)
        least = (first.sqrt() * second.sqrt()) * bound
        for _ in given(m.w, beside.unary("fabs").compare("ogt", least)):
            angle = _tangent((second - first) / (beside * 2.0))
            _rotate(m, z.x, p, q, angle, z.rows)
            _rotate(m, z.v, p, q, angle, z.columns)
            turned[()] = z.rows.constant(1)

    _sweep(m, z.columns, turn)
    for k in m.each(0, z.columns):
        z.tau[k,] = products(k, k)[0]


def _write_vectors(m: Stacks, z: _Sides, u: Elements, vh: Elements, is_tall: Lanes, count: Lanes) -> None:
    """Complete the vectors of the longer side, and turn those round whose value was negative."""
    many, few = u.chosen(is_tall, vh.transposed()), vh.chosen(is_tall, u.transposed())
    factors = z.x.transposed()
    _form(m, many, factors, z.tau, (z.rows, count, z.columns))
    for c in m.each(0, z.columns):
        sign = factors[c, c]
        for r in m.each(0, z.rows):
            x = many[r, c]
            many[r, c] = sign.compare("olt", 0.0).choose(-x, x)
        for r in m.each(0, z.columns):
            few[c, r] = z.v[c, r]


ORTHOGONAL_LOOPS: Final[dict[str, Callable[[Writer, Sequence[str]], None]]] = {
    "linalg.eigh_lo": _eigh,
    "linalg.eigh_up": lambda w, dtypes: _eigh(w, dtypes, is_upper=True),
    "linalg.eigvalsh_lo": lambda w, dtypes: _eigh(w, dtypes, has_vectors=False),
    "linalg.qr_complete": lambda w, dtypes: _q(w, dtypes, is_complete=True),
    "linalg.qr_r_raw": _qr_raw,
    "linalg.qr_reduced": lambda w, dtypes: _q(w, dtypes, is_complete=False),
    "linalg.svd": lambda w, dtypes: _svd(w, dtypes, has_vectors=False),
    "linalg.svd_f": lambda w, dtypes: _svd(w, dtypes, has_vectors=True, is_full=True),
    "linalg.svd_s": lambda w, dtypes: _svd(w, dtypes, has_vectors=True),
}
