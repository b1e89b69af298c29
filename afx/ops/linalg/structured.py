"""Structured matrices: those that vectors make, those that a size makes, and updates of factorisations."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np

from afx.core import Array, ArrayLike, DTypeLike, broadcast_shapes, integer, wrap
from afx.core.dtypes import check_dtype, default_complex, get_default_dtype
from afx.errors import ArgumentError, ShapeError
from afx.ops._kinds.matrix import choice, floating, promote_pair
from afx.ops.creation.creation import Nested, asarray, promote_operands
from afx.ops.creation.matrices import eye, triu
from afx.ops.elementwise.arithmetic import abs as abs_, sign
from afx.ops.elementwise.comparison import where
from afx.ops.elementwise.complex import conj
from afx.ops.indexing.getitem import take
from afx.ops.linalg.banded import solve_banded
from afx.ops.linalg.factorizations import qr, solve_triangular
from afx.ops.linalg.matrix_functions import expm, expm_p, frechet
from afx.ops.linalg.spectra import eigh, eigvalsh
from afx.ops.manipulation.edit import diagonal
from afx.ops.manipulation.join import atleast_2d, concat, matrix_transpose, stack
from afx.ops.manipulation.pad import flip, pad
from afx.ops.manipulation.shape import astype, broadcast_to, expand_dims

Kind = Literal["symmetric", "lower", "upper"]


# --- Matrices of vectors: each is a selection of elements, so that its derivative adds up where they came from


def _vector(x: Nested, who: str, least: int = 0) -> Array:
    y = asarray(x)
    if not y.ndim or y.shape[-1] < least:
        wanted = f"a vector of {least} or more numbers" if least else "a vector"
        raise ShapeError(f"{who}: needs {wanted}: got {y.aval}; reshape it")
    return y


def block_diag(*arrs: Nested) -> Array:
    """Return a matrix with these on its diagonal, zeros elsewhere; a vector is one row, leading axes are batches.

    >>> block_diag([[1.0]], [2.0, 3.0])
    Array([[1., 0., 0.],
           [0., 2., 3.]], dtype=float32)
    """
    xs = [atleast_2d(x) for x in promote_operands(*(arrs or (np.zeros((1, 0), get_default_dtype()),)))]
    lead = broadcast_shapes([x.shape[:-2] for x in xs])
    if lead is None:
        raise ShapeError(f"block_diag: batches do not fit: got {', '.join([str(x.aval) for x in xs])}; reshape one")
    dtype, columns = np.result_type(*[x.dtype for x in xs]), sum([x.shape[-1] for x in xs])
    rows: list[Array] = []
    start = 0
    for x in xs:
        around = (start, columns - start - x.shape[-1])
        full = broadcast_to(astype(x, dtype), (*lead, *x.shape[-2:]))
        rows.append(pad(full, [(0, 0)] * (full.ndim - 1) + [around]))
        start += x.shape[-1]
    return concat(rows, axis=-2)


def toeplitz(c: Nested, r: Nested | None = None) -> Array:
    """Return the matrix with constant diagonals of a first column c and a first row r, whose first number is not read.

    Args:
        c: [..., m].
        r: [..., n], the conjugate of c unless given.

    >>> toeplitz([1.0, 2.0], [9.0, 3.0, 4.0])
    Array([[1., 3., 4.],
           [2., 1., 3.]], dtype=float32)
    """
    column, row = (_vector(v, "toeplitz") for v in promote_operands(c, c if r is None else r))
    row = conj(column) if r is None else row
    m, n = column.shape[-1], row.shape[-1]
    values = _joined(flip(column, axis=-1), row[..., 1:])
    return take(values, np.arange(m)[::-1, None] + np.arange(n), axis=-1)


def _joined(x: Array, y: Array) -> Array:
    """Return batches of vectors one behind the other."""
    lead = broadcast_shapes([x.shape[:-1], y.shape[:-1]])
    if lead is None:
        raise ShapeError(f"toeplitz, hankel: batches do not fit: got {x.aval} and {y.aval}; reshape one")
    return concat([broadcast_to(v, (*lead, v.shape[-1])) for v in (x, y)], axis=-1)


def hankel(c: Nested, r: Nested | None = None) -> Array:
    """Return the matrix with constant antidiagonals of a first column c and a last row r, whose first number is not read.

    >>> hankel([1.0, 2.0], [9.0, 3.0])
    Array([[1., 2.],
           [2., 3.]], dtype=float32)
    """
    column, row = (_vector(v, "hankel") for v in promote_operands(c, c if r is None else r))
    row = column * 0 if r is None else row
    m, n = column.shape[-1], row.shape[-1]
    return take(_joined(column, row[..., 1:]), np.arange(m)[:, None] + np.arange(n), axis=-1)


def circulant(c: Nested) -> Array:
    """Return the matrix whose columns are a vector, each one place further down than that before it.

    >>> circulant([1.0, 2.0, 3.0])
    Array([[1., 3., 2.],
           [2., 1., 3.],
           [3., 2., 1.]], dtype=float32)
    """
    x = _vector(c, "circulant")
    steps = np.arange(x.shape[-1])
    return take(x, (steps[:, None] - steps) % max(x.shape[-1], 1), axis=-1)


def _with_subdiagonal(row: Array, below: Array) -> Array:
    """Return the matrix of a first row and the diagonal below the main one."""
    n = row.shape[-1]
    lower = where(np.eye(n - 1, n, dtype=bool), expand_dims(below, -1), np.zeros((), below.dtype))
    return concat([expand_dims(row, -2), lower], axis=-2)


def companion(a: Nested) -> Array:
    """Return the matrix whose eigenvalues are the roots of a polynomial, the highest coefficient first.

    Raises:
        ShapeError: fewer than two coefficients.

    >>> companion([1.0, -3.0, 2.0])
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    x = _vector(a, "companion", 2)
    row = -(x[..., 1:] / x[..., :1])
    return _with_subdiagonal(row, broadcast_to(np.ones(1, row.dtype), (*row.shape[:-1], row.shape[-1] - 1)))


def leslie(f: Nested, s: Nested) -> Array:
    """Return Leslie's matrix of growth by ages: fertilities f in the first row, survivals s below the diagonal.

    Raises:
        ShapeError: s has not one number less than f.

    >>> leslie([0.0, 2.0], [0.5])
    Array([[0. , 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    first, rest = promote_operands(f, s)
    row, below = _vector(first, "leslie", 1), _vector(rest, "leslie")
    if below.shape[-1] != row.shape[-1] - 1 or below.shape[:-1] != row.shape[:-1]:
        raise ShapeError(
            f"leslie: there is one survival less than fertilities: got {row.aval} and {below.aval}; cut one"
        )
    return _with_subdiagonal(row, below)


def fiedler(a: Nested) -> Array:
    """Return the matrix of the distances of numbers from each other, ``|aᵢ - aⱼ|``.

    >>> fiedler([1.0, 4.0])
    Array([[0., 3.],
           [3., 0.]], dtype=float32)
    """
    x = _vector(a, "fiedler")
    return abs_(expand_dims(x, -1) - expand_dims(x, -2))


def fiedler_companion(a: Nested) -> Array:
    """Return `companion`'s matrix in another basis, with five diagonals (Fiedler 2003).

    Raises:
        ShapeError: fewer than two coefficients.

    >>> fiedler_companion([1.0, -3.0, 2.0])
    Array([[ 3., -2.],
           [ 1.,  0.]], dtype=float32)
    """
    x = _vector(a, "fiedler_companion", 2)
    n = x.shape[-1] - 1
    places, ones = np.zeros((n, n), int), np.zeros((n, n), x.dtype)
    ones[range(0, n - 2, 2), range(2, n, 2)] = ones[range(3, n, 2), range(1, n - 2, 2)] = ones[1:2, 0] = 1
    places[range(0, n - 1, 2), range(1, n, 2)] = range(2, n + 1, 2)
    places[range(2, n, 2), range(1, n - 1, 2)] = range(3, n + 1, 2)
    places[0, 0] = 1
    return where(places > 0, take(-(x / x[..., :1]), places, axis=-1), ones)


def convolution_matrix(a: Nested, n: int, mode: Literal["full", "same", "valid"] = "full") -> Array:
    """Return the matrix by which a product convolves vectors of n numbers with a: ``m @ v`` is ``convolve(a, v, mode)``.

    Raises:
        ArgumentError: n is not positive, or another mode.
        ShapeError: a is empty.

    >>> convolution_matrix([1.0, 2.0], 2)
    Array([[1., 0.],
           [2., 1.],
           [0., 2.]], dtype=float32)
    """
    x, size = _vector(a, "convolution_matrix", 1), integer(n, "convolution_matrix", "n")
    choice("convolution_matrix", "mode", mode, ("full", "same", "valid"))
    if size < 1:
        raise ArgumentError(f"convolution_matrix: vectors have one number or more: got n={n}; give their length")
    m = x.shape[-1]
    count = {"full": m + size - 1, "same": max(m, size), "valid": max(m, size) - min(m, size) + 1}[mode]
    first = (m + size - 1 - count) // 2
    padded = pad(x, [(0, 0)] * (x.ndim - 1) + [(size - 1, size - 1)])
    return take(padded, first + np.arange(count)[:, None] - np.arange(size) + size - 1, axis=-1)


# --- Matrices of a size


def _made(numbers: Any, dtype: DTypeLike | None, who: str) -> Array:
    target = get_default_dtype() if dtype is None else check_dtype(dtype, who)
    return wrap(np.asarray(numbers).astype(target))


def hilbert(n: int, dtype: DTypeLike | None = None) -> Array:
    """Return Hilbert's matrix, ``1 / (i + j + 1)``, of the default dtype unless one is given.

    >>> hilbert(2).round(4)
    Array([[1.    , 0.5   ],
           [0.5   , 0.3333]], dtype=float32)
    """
    steps = np.arange(integer(n, "hilbert", "n"))
    return _made(1 / (steps[:, None] + steps + 1), dtype, "hilbert")


def invhilbert(n: int, exact: bool = False, dtype: DTypeLike | None = None) -> Array:
    """Return the inverse of Hilbert's matrix, whole numbers rounded once; ``exact`` gives them as int64, up to n of 14.

    Raises:
        ArgumentError: exact, and n beyond 14.

    >>> invhilbert(2, exact=True)
    Array([[ 4, -6],
           [-6, 12]], dtype=int64)
    """
    size = integer(n, "invhilbert", "n")
    if exact and size > 14:
        raise ArgumentError(f"invhilbert: int64 holds it up to n=14: got {n}; leave exact=False")

    def entry(i: int, j: int) -> int:
        tops = math.comb(size + i, size - j - 1) * math.comb(size + j, size - i - 1) * math.comb(i + j, i) ** 2
        return (1 - (i + j) % 2 * 2) * (i + j + 1) * tops

    return _made(_table(size, entry), np.int64 if exact else dtype, "invhilbert")


def _table(size: int, entry: Callable[[int, int], int]) -> Any:
    """Return a matrix of Python's integers, which do not overflow."""
    numbers = [[entry(i, j) for j in range(size)] for i in range(size)]
    return np.array(numbers, dtype=object).reshape(size, size)


def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Return Hadamard's matrix of ones and minus ones with orthogonal rows (Sylvester 1867).

    Raises:
        ArgumentError: n is no power of two.

    >>> hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int64)
    """
    size = integer(n, "hadamard", "n")
    if size < 1 or size & (size - 1):
        raise ArgumentError(f"hadamard: n is a power of two: got {n}; give one")
    steps = np.arange(size)
    return _made(1 - 2 * (np.bitwise_count(steps[:, None] & steps) % 2).astype(int), dtype, "hadamard")


def pascal(n: int, kind: Kind = "symmetric", exact: bool = True) -> Array:
    """Return Pascal's triangle as a matrix: binomial coefficients, int64 where exact, else floats of the default dtype.

    Raises:
        ArgumentError: another kind; exact, and n beyond what int64 holds.

    >>> pascal(3, kind="lower")
    Array([[1, 0, 0],
           [1, 1, 0],
           [1, 2, 1]], dtype=int64)
    """
    choice("pascal", "kind", kind, ("symmetric", "lower", "upper"))
    lower = _table(integer(n, "pascal", "n"), math.comb)
    return _whole({"lower": lower, "upper": lower.T}.get(kind, lower @ lower.T), exact, "pascal")


def invpascal(n: int, kind: Kind = "symmetric", exact: bool = True) -> Array:
    """Return the inverse of `pascal`'s matrix; arguments are the same.

    >>> invpascal(3, kind="lower")
    Array([[ 1,  0,  0],
           [-1,  1,  0],
           [ 1, -2,  1]], dtype=int64)
    """
    choice("invpascal", "kind", kind, ("symmetric", "lower", "upper"))
    lower = _table(integer(n, "invpascal", "n"), lambda i, j: (-1) ** (i + j) * math.comb(i, j))
    return _whole({"lower": lower, "upper": lower.T}.get(kind, lower.T @ lower), exact, "invpascal")


def _whole(numbers: Any, exact: bool, who: str) -> Array:
    if exact and any([abs(x) >= 2**63 for x in numbers.ravel()]):
        raise ArgumentError(f"{who}: int64 does not hold its numbers: got n={len(numbers)}; give exact=False")
    return _made(numbers, np.int64 if exact else None, who)


def dft(n: int, scale: Literal["sqrtn", "n"] | None = None, dtype: DTypeLike | None = None) -> Array:
    """Return the matrix of the discrete Fourier transform, ``exp(-2πi jk / n)``, over √n or n where ``scale`` says so.

    >>> dft(2).real
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    choice("dft", "scale", scale, (None, "sqrtn", "n"))
    size = integer(n, "dft", "n")
    rows = np.fft.fft(np.eye(size), axis=0) if size else np.zeros((0, 0))
    part = {"sqrtn": math.sqrt(size), "n": size}.get(scale or "", 1)
    return _made(rows / part, default_complex() if dtype is None else dtype, "dft")


def helmert(n: int, full: bool = False, dtype: DTypeLike | None = None) -> Array:
    """Return Helmert's matrix, whose rows are orthonormal and, but for the first where ``full``, add up to 0.

    >>> helmert(2).round(4)
    Array([[ 0.7071, -0.7071]], dtype=float32)
    """
    size = integer(n, "helmert", "n")
    k = np.arange(size)[:, None]
    rows = np.tri(size, size, -1) - np.diag(np.arange(size))
    rows = rows / np.sqrt(np.maximum(k * (k + 1), 1))
    rows[:1] = 1 / math.sqrt(max(size, 1))
    return _made(rows if full else rows[1:], dtype, "helmert")


# --- Factorisations: products with their factors, updates, and what reads diagonals alone


def qr_multiply(
    a: ArrayLike, c: ArrayLike, mode: Literal["right", "left"] = "right", conjugate: bool = False
) -> tuple[Array, Array]:
    """Return the product of the factor q of `qr` and c, and r; ``"right"`` is ``c @ q``, ``"left"`` ``q @ c``.

    Args:
        a: float[..., m, n].
        c: what is multiplied, a vector too.
        mode: the side on which q stands.
        conjugate: whether q is conjugated.

    >>> [z.round(4).tolist() for z in qr_multiply(np.array([[3.0], [4.0]]), np.array([1.0, 0.0]))]
    [[-0.6], [[-5.0]]]
    """
    choice("qr_multiply", "mode", mode, ("right", "left"))
    x, y = promote_pair(a, c, "qr_multiply")
    q, r = qr(x)
    q = conj(q) if conjugate else q
    return (y @ q if mode == "right" else q @ y), r


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    eigvals_only: bool = False,
    *,
    select: Literal["a", "i"] = "a",
    select_range: tuple[int, int] | None = None,
) -> Array | tuple[Array, Array]:
    """Return eigenvalues, and eigenvectors unless ``eigvals_only``, of real symmetric matrices with three diagonals.

    The matrices are laid out in full, so that derivatives are those of `eigh`.

    Args:
        d: float[..., n], the main diagonal.
        e: float[..., n - 1], the one beside it.
        eigvals_only: leaves out the vectors.
        select: ``"a"`` for all, ``"i"`` for those from the first to the last index of ``select_range``.
        select_range: two indices, both included.

    Raises:
        ShapeError: the lengths do not fit.
        ArgumentError: another selection.

    >>> eigh_tridiagonal(np.array([1.0, 1.0]), np.array([2.0]), eigvals_only=True).round(4)
    Array([-1.,  3.], dtype=float64)
    """
    choice("eigh_tridiagonal", "select", select, ("a", "i"))
    main, side = promote_pair(d, e, "eigh_tridiagonal")
    main = _vector(main, "eigh_tridiagonal", 1)
    n = main.shape[-1]
    if side.shape != (*main.shape[:-1], n - 1):
        raise ShapeError(f"eigh_tridiagonal: e has one number less than d: got {main.aval} and {side.aval}; cut one")
    lower = expand_dims(side, -1) * np.eye(n - 1, n, dtype=side.dtype)
    lower = pad(lower, [(0, 0)] * (lower.ndim - 2) + [(1, 0), (0, 0)])
    full = lower + matrix_transpose(lower) + expand_dims(main, -1) * np.eye(n, dtype=main.dtype)
    wanted = (
        slice(None) if select == "a" or select_range is None else slice(int(select_range[0]), int(select_range[1]) + 1)
    )
    if eigvals_only:
        return eigvalsh(full)[..., wanted]
    w, v = eigh(full)
    return w[..., wanted], v[..., wanted]


@overload
def expm_frechet(A: ArrayLike, E: ArrayLike, compute_expm: Literal[True] = True) -> tuple[Array, Array]: ...
@overload
def expm_frechet(A: ArrayLike, E: ArrayLike, compute_expm: Literal[False]) -> Array: ...
def expm_frechet(A: ArrayLike, E: ArrayLike, compute_expm: bool = True) -> Array | tuple[Array, Array]:
    """Return the exponential of matrices and its derivative in a direction, or the latter alone.

    >>> expm_frechet(np.zeros((1, 1)), np.ones((1, 1)), compute_expm=False)
    Array([[1.]], dtype=float64)
    """
    x, t = promote_pair(A, E, "expm_frechet")
    if x.shape != t.shape:
        raise ShapeError(f"expm_frechet: the direction has the matrix's shape: got {x.aval} and {t.aval}; reshape it")
    slope = frechet(expm_p, x, t)
    return (expm(x), slope) if compute_expm else slope


def cholesky_update(r: ArrayLike, w: ArrayLike) -> Array:
    """Return the upper factor of ``r.T @ r + w w.T``, for an upper factor r and a vector w, without forming the product.

    >>> cholesky_update(np.array([[3.0]]), np.array([4.0]))
    Array([[5.]], dtype=float64)
    """
    upper, vector = promote_pair(r, w, "cholesky_update")
    _, factor = qr(concat([upper, expand_dims(vector, -2)], axis=-2))
    signs = sign(diagonal(factor))
    return expand_dims(where(signs == 0, 1, conj(signs)), -1) * factor


def householder_product(a: ArrayLike, taus: ArrayLike) -> Array:
    """Return the first columns of the product of reflections ``I - τ v vᴴ``, as LAPACK's geqrf stores their vectors.

    Args:
        a: float[..., m, n]: below the diagonal, vectors whose first number is 1.
        taus: float[..., k], k at most n.

    Raises:
        ShapeError: no matrix, or no vector.

    >>> householder_product(np.array([[5.0], [1.0]]), np.array([1.0]))
    Array([[ 0.],
           [-1.]], dtype=float64)
    """
    x, factors = promote_pair(a, taus, "householder_product")
    if x.ndim < 2 or not factors.ndim:
        raise ShapeError(f"householder_product: a matrix and a vector: got {x.aval} and {factors.aval}; insert axes")
    (m, n), k = x.shape[-2:], factors.shape[-1]
    v = x[..., :k] * np.tri(m, k, -1, dtype=x.dtype) + np.eye(m, k, dtype=x.dtype)
    vh = conj(matrix_transpose(v))
    column = expand_dims(factors, -1)  # of the compact form I - V T Vᴴ (Schreiber & Van Loan 1989)
    inverse = np.eye(k, dtype=x.dtype) + column * triu(vh @ v, 1)
    return eye(m, n, dtype=x.dtype) - v @ solve_triangular(inverse, column * vh[..., :n], unit_diagonal=True)


def tridiagonal_solve(dl: ArrayLike, d: ArrayLike, du: ArrayLike, b: ArrayLike) -> Array:
    """Return x with ``a @ x = b`` for matrices with three diagonals; needs the extra ``scipy``.

    Args:
        dl: float[..., n], ``a[i, i - 1]``; the first is not read.
        d: float[..., n], the main diagonal.
        du: float[..., n], ``a[i, i + 1]``; the last is not read.
        b: float[..., n, k].

    >>> tridiagonal_solve(np.zeros(2), np.array([2.0, 4.0]), np.array([1.0, 0.0]), np.array([[4.0], [8.0]]))
    Array([[1.],
           [2.]], dtype=float64)
    """
    below, main, above = (floating(x, "tridiagonal_solve") for x in promote_operands(dl, d, du))
    if not below.shape == main.shape == above.shape or not main.shape[-1:]:
        raise ShapeError(
            f"tridiagonal_solve: diagonals are of one length: got {below.aval}, {main.aval}, {above.aval}; pad them"
        )
    zero = below[..., :1] * 0
    rows = [concat([zero, above[..., :-1]], axis=-1), main, concat([below[..., 1:], zero], axis=-1)]
    return solve_banded((1, 1), stack(rows, axis=-2), b)


def symmetric_product(a: ArrayLike, c: ArrayLike, alpha: ArrayLike = 1.0, beta: ArrayLike = 0.0) -> Array:
    """Return ``alpha · a @ a.T + beta · c``.

    >>> symmetric_product(np.array([[1.0, 2.0]]), np.array([[7.0]]))
    Array([[5.]], dtype=float64)
    """
    x, y = promote_pair(a, c, "symmetric_product")
    return x @ matrix_transpose(x) * alpha + y * beta
