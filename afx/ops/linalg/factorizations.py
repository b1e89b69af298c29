"""Factorizations: triangular systems, Cholesky, LU and QR, and factors that serve several right-hand sides."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from afx.core import Array, ArrayLike, Aval, DType, Primitive, bind, bind_single, real_dtype
from afx.errors import ArgumentError, ShapeError
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops._kinds.linear import batch_unchanged
from afx.ops._kinds.matrix import (
    adjoint,
    arrays,
    batch_of,
    by_lapack,
    choice,
    conjugate,
    floating,
    hermitian,
    matrices,
    matrix_op,
    matrix_pair_op,
    plain,
    promote_pair,
    right_sides,
    solution_aval,
    square,
    square_aval,
    transposed,
)
from afx.ops.creation.creation import asarray, zeros
from afx.ops.creation.matrices import eye, tril, triu
from afx.ops.elementwise.comparison import equal
from afx.ops.elementwise.complex import conj, real
from afx.ops.indexing.getitem import take_along_axis
from afx.ops.indexing.index import is_sequence
from afx.ops.linalg.solve import substitute, substitute_small, triangles_pay
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import astype, broadcast_to, reshape
from afx.ops.sorting.sort import argsort
from afx.runtime.blas import Solver, find_solver

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


# --- Triangular systems: forward and back substitution on stacks of matrices
#
# The rules are those of Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic
# differentiation", restricted to the triangle.

BLOCK = 64  # systems up to this size are solved at once


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    *,
    trans: Literal[0, 1, 2, "N", "T", "C"] = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Return x with ``a @ x = b`` for triangular matrices, by substitution.

    Args:
        a: float[..., n, n]; only one triangle is read.
        b: float[..., n, k], or a vector float[n].
        trans: 0 or "N" solves with a, 1 or "T" with its transpose, 2 or "C" with its conjugate transpose.
        lower: whether the lower triangle is read; the upper one where not.
        unit_diagonal: whether the diagonal counts as ones and is not read.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: no pair of factors, or trans is none of these.
        numpy.linalg.LinAlgError: the diagonal has a 0.

    >>> solve_triangular(afx.asarray([[2.0, 1.0], [0.0, 4.0]]), afx.asarray([4.0, 8.0]))
    Array([1., 2.], dtype=float32)
    """
    choice("solve_triangular", "trans", trans, (0, 1, 2, "N", "T", "C"))
    x, y = promote_pair(a, b, "solve_triangular")
    if trans in (1, 2, "T", "C") and x.ndim > 1:
        x, lower = transposed(conj(x) if trans in (2, "C") else x), not lower
    z = substituted(x, right_sides(x, y, "solve_triangular"), lower, unit_diagonal)
    return z[..., 0] if y.ndim == 1 else z


def substituted(a: Any, b: Any, lower: bool, unit: bool = False) -> Array:
    """Return the solution of triangular systems whose right-hand sides are matrices."""
    return bind_single(solve_triangular_p, a, b, lower=lower, unit=unit)


def right_solve_triangular(b: Any, a: Any, lower: bool) -> Array:
    """Return ``b @ a⁻¹`` for triangular matrices."""
    return transposed(substituted(transposed(a), transposed(b), not lower))


def _abstract_triangular(a: Aval, b: Aval, *, lower: bool, unit: bool) -> Aval:
    return solution_aval("solve_triangular", a, b)


def solved(a: Any, b: Any, *, lower: bool, unit: bool) -> Any:
    """Solve triangular systems of bare values."""
    if triangles_pay(a, b):
        return substitute_small(a, b, lower=lower, unit=unit)
    if a.shape[-1] > BLOCK and b.size:
        wide = np.promote_types(np.result_type(a, b), np.float64)  # in which NumPy computes smaller ones
        if (solve := find_solver(wide.char)) is not None:
            return _solved_by_blas(solve, a, b, wide, lower, unit)
    a = np.tril(a) if lower else np.triu(a)
    if unit:
        a[..., range(a.shape[-1]), range(a.shape[-1])] = 1
    if lower:  # backwards it is upper, and NumPy's solution of such a system exchanges no rows
        return np.ascontiguousarray(_upwards(a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :])
    return _upwards(a, b)


def _solved_by_blas(solve: Solver, a: Any, b: Any, wide: np.dtype[Any], lower: bool, unit: bool) -> Any:
    if not (unit or a.diagonal(axis1=-2, axis2=-1).all()):
        raise np.linalg.LinAlgError("Singular matrix")
    batch = batch_of(a, b)
    x = np.empty((*batch, *b.shape[-2:]), wide)
    x[...] = b
    matrices = np.broadcast_to(a, (*batch, *a.shape[-2:])) if batch else a
    for k in np.ndindex(batch):
        matrix = np.asarray(matrices[k], wide)
        is_dense = matrix.flags.c_contiguous or matrix.flags.f_contiguous
        solve(matrix if is_dense else np.ascontiguousarray(matrix), x[k], lower, unit)
    return x.astype(np.result_type(a, b), copy=False)


def _upwards(a: Any, b: Any) -> Any:
    """Solve upper triangular systems by halves."""
    n = a.shape[-1]
    if n <= BLOCK:
        return plain(np.linalg.solve(a, b))
    half = n // 2
    low = _upwards(a[..., half:, half:], b[..., half:, :])
    high = _upwards(a[..., :half, :half], b[..., :half, :] - a[..., :half, half:] @ low)
    return np.concatenate([high, low], axis=-2)


def _triangle(x: Array, lower: bool, unit: bool) -> Array:
    return tril(x, k=-1 if unit else 0) if lower else triu(x, k=1 if unit else 0)


def _push_triangular(ta: Any, tb: Any, z: Array, a: Array, b: Array, *, lower: bool, unit: bool) -> Array:
    moved = None if ta is None else _triangle(ta, lower, unit) @ z
    right = tb if moved is None else -moved if tb is None else tb - moved
    return substituted(a, right, lower, unit)


def _pull_triangular(ct: Array, z: Any, a: Array, wanted: bool, *, lower: bool, unit: bool) -> tuple[Any, Array]:
    back = substituted(transposed(a), ct, not lower, unit)
    return -_triangle(back @ transposed(z), lower, unit) if wanted else None, back


def _native_triangular(xp: Recorder, out: Any, a: Any, b: Any, *, lower: bool, unit: bool) -> None:
    """Substitute row by row where bits may be others than LAPACK's, or are; else solve an upper triangular system.

    In that no rows are exchanged; a lower one is that from behind.
    """
    is_substituted = triangles_pay(a, b) or (xp.has_own_bits and a.shape[-1] <= BLOCK)
    a, b = xp.matrix(a), xp.cast(b, "f8") if is_substituted else xp.matrix(b)
    if is_substituted:
        with np.errstate(all="ignore"):
            is_zero = substitute(xp, a, b, out, lower=lower, unit=unit)
        if not unit:
            xp.refuse_where(is_zero)
        return
    if unit or a.shape[-1] > BLOCK:
        xp.refuse("large matrices, or of ones with a diagonal of ones")
    upper, z = xp.new(a.shape, "f8"), xp.new(out.shape, "f8") if lower else out
    xp.give(upper, xp.where(np.triu(np.ones(a.shape[-2:], bool)), a[..., ::-1, ::-1] if lower else a, 0.0))
    xp.call("linalg.solve", [upper, b[..., ::-1, :] if lower else b], [z])
    if lower:
        xp.copy(out, z[..., ::-1, :])


solve_triangular_p: Primitive = matrix_pair_op(
    "solve_triangular", solved, _abstract_triangular, _push_triangular, _pull_triangular, native=_native_triangular
)


# --- Cholesky factorization: lower triangular factors of stacks of matrices
#
# Rules are those of Murray 2016, "Differentiation of the Cholesky decomposition", for complex matrices with the
# conjugate transpose.

_lapack: Any = np.linalg.cholesky  # its result type is not known to checkers
_gives_nan: contextvars.ContextVar[bool] = contextvars.ContextVar("afx_cholesky_gives_nan", default=False)


@contextlib.contextmanager
def giving_nan() -> Generator[None]:
    """Let `cholesky` give nan for what is not positive definite: what leaves a density's support shall not raise."""
    token = _gives_nan.set(True)
    try:
        yield
    finally:
        _gives_nan.reset(token)


def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Array:
    """Return the lower triangular L with ``L @ Lᴴ = a`` of symmetric (Hermitian) positive definite matrices.

    Only the lower triangle is read (the upper one where ``upper``); derivatives are those of the symmetric (Hermitian)
    part.

    Args:
        a: float[..., n, n], real or complex.
        upper: returns the upper triangular U with ``Uᴴ @ U = a``.

    Raises:
        ShapeError: not square.
        numpy.linalg.LinAlgError: not positive definite.

    >>> cholesky(np.array([[4.0]]))
    Array([[2.]], dtype=float64)
    """
    x = floating(a, "cholesky")
    square(x.aval, "cholesky")
    op = cholesky_or_nan_p if _gives_nan.get() else cholesky_p
    z = bind_single(op, adjoint(x) if upper else x)
    return adjoint(z) if upper else z


def _half(x: Array) -> Array:
    """Return the lower triangle with half of the diagonal."""
    half: Array = x * _weights(x.shape[-1], real_dtype(x.dtype))
    return half


@functools.lru_cache(maxsize=16)
def _weights(n: int, dtype: DType) -> Any:
    return (np.tri(n, n, -1) + 0.5 * np.eye(n)).astype(dtype)


def _push_cholesky(t: Array, z: Array, a: Any) -> Array:
    inner = right_solve_triangular(substituted(z, hermitian(t), lower=True), adjoint(z), lower=False)
    return z @ _half(inner)


def _pull_cholesky(ct: Array, z: Array, a: Any) -> Array:
    inner = _half(adjoint(z) @ conjugate(ct))
    return conjugate(hermitian(right_solve_triangular(substituted(adjoint(z), inner, lower=False), z, lower=True)))


def _factor_or_nan(a: Any) -> Any:
    try:
        return _lapack(a)
    except np.linalg.LinAlgError:
        if a.ndim == 2:
            return np.full(a.shape, np.nan, a.dtype)
    out = np.empty(a.shape, a.dtype)
    for k in np.ndindex(*a.shape[:-2]):
        out[k] = _factor_or_nan(a[k])
    return out


def _factor_natively(xp: Recorder, out: Any, a: Any) -> None:
    xp.call("linalg.cholesky_lo", [xp.matrix(a)], [out], refuses=False, quiet=("divide", "invalid", "over"))


cholesky_p: Primitive = matrix_op(
    "cholesky",
    np.linalg.cholesky,
    functools.partial(square_aval, "cholesky"),
    _push_cholesky,
    _pull_cholesky,
    reads=1,
    native=by_lapack("cholesky_lo"),
)
cholesky_or_nan_p: Primitive = matrix_op(
    "cholesky_or_nan",
    _factor_or_nan,
    functools.partial(square_aval, "cholesky"),
    _push_cholesky,
    _pull_cholesky,
    reads=1,
    native=_factor_natively,
)


# --- LU factorization: with partial pivoting, of stacks of matrices
#
# The rules are Giles 2008's of a square matrix; L and U of others are made square with the columns and rows of the
# unit matrix.

PANEL = 64  # columns that are eliminated one by one before the others follow in one product


class LUResult(NamedTuple):
    """A permutation matrix P, a lower triangular L with ones on its diagonal, and an upper triangular U."""

    P: Array
    L: Array
    U: Array


@overload
def lu(a: ArrayLike, *, permute_l: Literal[False] = False) -> LUResult: ...


@overload
def lu(a: ArrayLike, *, permute_l: Literal[True]) -> tuple[Array, Array]: ...


def lu(a: ArrayLike, *, permute_l: bool = False) -> LUResult | tuple[Array, Array]:
    """Return P, L and U with ``P @ L @ U = a``; rows are exchanged so that no element of L is larger than 1.

    Derivatives are those while the order of the rows stays; they exist where the first min(m, n) columns of a are
    linearly independent, and for wide matrices the first m.

    Args:
        a: float[..., m, n], real or complex.
        permute_l: returns ``P @ L`` and U.

    Raises:
        ShapeError: no matrices.
        numpy.linalg.LinAlgError: where it is differentiated and U has a 0 on its diagonal.

    >>> lu(afx.asarray([[1.0, 2.0], [2.0, 2.0]])).U
    Array([[2., 2.],
           [0., 1.]], dtype=float32)
    """
    x = floating(a, "lu")
    order, packed = bind(lu_p, x)
    k = min(x.shape[-2:])
    lower = tril(packed[..., :k], k=-1) + eye(x.shape[-2], k, dtype=x.dtype)
    upper = triu(packed[..., :k, :])
    back = argsort(order, axis=-1)
    if permute_l:
        return _permute_rows(lower, back), upper
    places = reshape(back, (*back.shape, 1))
    return LUResult(astype(equal(places, np.arange(x.shape[-2])), x.real.dtype), lower, upper)


def _permute_rows(x: Array, order: Array) -> Array:
    """Return the rows of matrices in an order."""
    return take_along_axis(x, broadcast_to(reshape(order, (*order.shape, 1)), x.shape), axis=-2)


def _abstract_lu(a: Aval) -> tuple[Aval, Aval]:
    matrices(a, "lu")
    return Aval(a.shape[:-1], np.dtype(np.int64)), Aval(a.shape, a.dtype)


def _eliminate(a: Any) -> Any:
    """Eliminate panels of columns, then what stands right of each in one product."""
    m, n = a.shape[-2:]
    count = math.prod(a.shape[:-2])
    z = np.array(a).reshape((count, m, n))
    order = plain(np.zeros((count, m), np.int64) + np.arange(m))
    for start in range(0, min(m, n), PANEL):
        stop = min(start + PANEL, m, n)
        turned = _eliminate_lu(z[:, start:, start:stop]) + start
        order[:, start:] = np.take_along_axis(order, turned, axis=-1)
        for others in (z[..., :start], z[..., stop:]):
            others[:, start:] = np.take_along_axis(others, turned[..., None], axis=-2)
        if stop < n:
            right = solved(z[:, start:stop, start:stop], z[:, start:stop, stop:], lower=True, unit=True)
            z[:, start:stop, stop:] = right
            z[:, stop:, stop:] -= z[:, stop:, start:stop] @ right
    return order.reshape(a.shape[:-1]), z.reshape(a.shape)


def _eliminate_lu(z: Any) -> Any:
    """Factorise panels in place, and return the order in which that takes their rows; columns of zeros are left."""
    each = plain(np.arange(z.shape[0]))
    order = plain(np.zeros(z.shape[:-1], np.int64) + np.arange(z.shape[1]))
    for k in range(z.shape[-1]):
        best = k + np.argmax(np.abs(z[:, k:, k]), axis=-1)
        for x in (z, order):
            x[each, k], x[each, best] = x[each, best], x[each, k]
        pivot = z[:, k : k + 1, k]
        z[:, k + 1 :, k] /= np.where(pivot == 0, 1, pivot)
        z[:, k + 1 :, k + 1 :] -= z[:, k + 1 :, k, None] * z[:, k, None, k + 1 :]
    return order


def _squares(packed: Array) -> tuple[Array, Array]:
    """Return L and U as square matrices."""
    m, n = packed.shape[-2:]
    k, lead = min(m, n), packed.shape[:-2]
    lower = tril(packed[..., :k], k=-1)
    if m > k:
        lower = concat([lower, broadcast_to(np.zeros((), packed.dtype), (*lead, m, m - k))], axis=-1)
    upper = triu(packed[..., :k, :])
    if n > k:
        rows = np.eye(n, dtype=packed.dtype)[k:]
        upper = concat([upper, broadcast_to(rows, (*lead, *rows.shape))], axis=-2)
    return lower + eye(m, dtype=packed.dtype), upper


def _push_lu(t: Array, z: tuple[Array, Array], a: Any) -> tuple[None, Array]:
    order, packed = z
    lower, upper = _squares(packed)
    inner = right_solve_triangular(
        substituted(lower, _permute_rows(t, order), lower=True, unit=True), upper, lower=False
    )
    return None, lower @ tril(inner, k=-1) + triu(inner) @ upper


def _pull_lu(ct: tuple[Any, Array], z: tuple[Array, Array], a: Any) -> Array:
    order, packed = z
    lower, upper = _squares(packed)
    inner = tril(transposed(lower) @ ct[1], k=-1) + triu(ct[1] @ transposed(upper))
    back = substituted(
        transposed(lower), right_solve_triangular(inner, transposed(upper), lower=True), lower=False, unit=True
    )
    return _permute_rows(back, argsort(order, axis=-1))


lu_p: Primitive = matrix_op("lu", _eliminate, _abstract_lu, _push_lu, _pull_lu, reads=1, multiple_results=True)


# --- QR factorization: of stacks of matrices
#
# The rules are those of Walter & Lehmann 2010, "Algorithmic differentiation of linear algebra functions with
# application in optimum experimental design", for complex matrices with the conjugate transpose.


class QRResult(NamedTuple):
    """An orthogonal (unitary) Q and an upper triangular R whose product is the matrix."""

    Q: Array
    R: Array


@overload
def qr(a: ArrayLike, mode: Literal["reduced", "complete"] = "reduced") -> QRResult: ...


@overload
def qr(a: ArrayLike, mode: Literal["r"]) -> Array: ...


def qr(a: ArrayLike, mode: Literal["reduced", "complete", "r"] = "reduced") -> QRResult | Array:
    """Return Q with orthonormal columns and the upper triangular R with ``Q @ R = a``.

    Derivatives exist where the first min(m, n) columns of a are linearly independent. The columns that "complete" adds
    to a tall matrix's Q are any basis of what is left: their derivative is the one that turns them no more than they
    must, so that functions of the space they span have right derivatives.

    Args:
        a: float[..., m, n], real or complex.
        mode: "reduced" gives Q[..., m, k] and R[..., k, n] with k = min(m, n), "complete" Q[..., m, m] and R[..., m, n],
            "r" only the R of "reduced".

    Raises:
        ShapeError: no matrices.
        ArgumentError: another mode.
        numpy.linalg.LinAlgError: where it is differentiated and R has a 0 on its diagonal.

    >>> qr(afx.asarray([[0.0, 2.0], [1.0, 3.0]])).R
    Array([[-1., -3.],
           [ 0., -2.]], dtype=float32)
    """
    choice("qr", "mode", mode, ("reduced", "complete", "r"))
    x = floating(a, "qr")
    matrices(x.aval, "qr")
    rows, columns = x.shape[-2:]
    if rows >= columns:
        q, r = bind(qr_p, x, full=mode == "complete" and rows > columns)
    else:  # the columns beyond the square are expressed in those of Q
        q, r = bind(qr_p, x[..., :rows], full=False)
        r = concat([r, adjoint(q) @ x[..., rows:]], axis=-1)
    return r if mode == "r" else QRResult(q, r)


def _abstract_qr(a: Aval, *, full: bool) -> tuple[Aval, Aval]:
    matrices(a, "qr")
    *lead, m, n = a.shape
    k = m if full else min(m, n)
    return Aval((*lead, m, k), a.dtype), Aval((*lead, k, n), a.dtype)


def _factor_qr(a: Any, *, full: bool) -> Any:
    return arrays(np.linalg.qr(a, mode="complete" if full else "reduced"))


def _mirror_triangle(x: Array) -> Array:
    """Return the Hermitian matrix with the upper triangle of x, its diagonal's real part."""
    above = triu(x, k=1)
    return above + adjoint(above) + real(x) * eye(x.shape[-1], dtype=real(x).dtype)


def _push_qr(t: Array, z: tuple[Array, Array], a: Array, *, full: bool) -> tuple[Array, Array]:
    n = t.shape[-1]
    q, r = z[0][..., :n], z[1][..., :n, :]
    c = right_solve_triangular(t, r, lower=False)
    inner = adjoint(q) @ c
    below = inner - triu(inner)
    # dR R⁻¹: upper triangular with a real diagonal; what is left of inner is skew-Hermitian
    upper = triu(inner, k=1) + adjoint(below) + real(inner) * eye(n, dtype=real(inner).dtype)
    dq, dr = c - q @ upper, upper @ r
    if not full:
        return dq, dr
    others = z[0][..., n:]
    blank = broadcast_to(zeros((), dtype=t.dtype), (*t.shape[:-2], others.shape[-1], n))
    return concat([dq, -q @ (adjoint(c) @ others)], axis=-1), concat([dr, blank], axis=-2)


def _pull_qr(ct: tuple[Array, Array], z: tuple[Array, Array], a: Any, *, full: bool) -> Array:
    n = z[1].shape[-1]
    q, r, cq, cr = z[0][..., :n], z[1][..., :n, :], ct[0][..., :n], ct[1][..., :n, :]
    c = cq + conjugate(q) @ _mirror_triangle(cr @ transposed(r) - transposed(q) @ cq)
    if full:
        others = z[0][..., n:]
        c = c - conjugate(others) @ (adjoint(ct[0][..., n:]) @ conjugate(q))
    return right_solve_triangular(c, transposed(r), lower=True)


def _native_qr(xp: Recorder, q: Any, r: Any, a: Any, *, full: bool) -> None:
    """Make Q of the reflections that LAPACK leaves below R, as NumPy does."""
    xp.matrix(a)
    raw, tau = xp.new(a.shape, "f8"), xp.new((*a.shape[:-2], min(a.shape[-2:])), "f8")
    xp.copy(raw, a)
    ignored = ("divide", "over")  # as by NumPy, which raises where an argument is wrong, and never here
    xp.call("linalg.qr_r_raw", [raw], [tau], refuses=False, quiet=ignored, changes=1)
    xp.call("linalg.qr_complete" if full else "linalg.qr_reduced", [raw, tau], [q], refuses=False, quiet=ignored)
    xp.give(r, xp.where(np.triu(np.ones(r.shape[-2:], bool)), raw[..., : r.shape[-2], :], 0.0))


qr_p: Primitive = matrix_op(
    "qr", _factor_qr, _abstract_qr, _push_qr, _pull_qr, reads=1, multiple_results=True, native=_native_qr
)


# --- Kept factorizations: one serves several right-hand sides, as in SciPy


class LUFactorResult(NamedTuple):
    """L and U in one matrix, L without its ones, and LAPACK's exchanges: row k with row piv[k], one after the other."""

    lu: Array
    piv: Array


def lu_factor(a: ArrayLike) -> LUFactorResult:
    """Return the LU factorisation of square matrices, for `lu_solve`; derivatives are `lu`'s.

    Args:
        a: float[..., n, n], real or complex.

    Raises:
        ShapeError: not square.

    >>> lu_factor(np.array([[1.0, 2.0], [2.0, 2.0]])).piv
    Array([1, 1], dtype=int64)
    """
    x = floating(a, "lu_factor")
    square(x.aval, "lu_factor")
    order, packed = bind(lu_p, x)
    return LUFactorResult(packed, bind_single(exchanges_p, order, back=False))


def _exchange(x: Any, *, back: bool) -> Any:
    """Return the exchanges that lead to orders of rows; back, the orders that exchanges lead to."""
    given = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    each, order = plain(np.arange(len(given))), plain(np.zeros_like(given) + np.arange(x.shape[-1]))
    places = given.copy()
    if back and ((given < 0) | (given >= x.shape[-1])).any():
        raise ArgumentError(f"lu_solve: pivots are rows, from 0 to {x.shape[-1] - 1}: got {x}; give lu_factor's")
    for k in range(x.shape[-1]):
        if not back:
            places[:, k] = np.argmax(order == given[:, k, None], axis=-1)
        order[each, k], order[each, places[:, k]] = order[each, places[:, k]], order[each, k]
    return np.reshape(order if back else places, x.shape)


def _exchange_abstract(x: Aval, *, back: bool) -> Aval:
    return x


exchanges_p: Primitive = nondifferentiable(
    "lu_exchanges", _exchange, _exchange_abstract, batch=batch_unchanged("lu_exchanges"), core_axes=1
)


def lu_solve(lu_and_piv: tuple[ArrayLike, ArrayLike], b: ArrayLike, trans: Literal[0, 1, 2] = 0) -> Array:
    """Return x with ``a @ x = b`` from `lu_factor`'s result, differentiable by both.

    Args:
        lu_and_piv: what `lu_factor` returned.
        b: float[..., n, k], or a vector float[n].
        trans: 0 solves with a, 1 with its transpose, 2 with its conjugate transpose.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: no pair of factors, or trans is none of these.
        numpy.linalg.LinAlgError: a singular matrix.

    >>> lu_solve(lu_factor(np.array([[1.0, 2.0], [2.0, 2.0]])), np.array([5.0, 6.0]))
    Array([1., 2.], dtype=float64)
    """
    choice("lu_solve", "trans", trans, (0, 1, 2))
    lu, piv = _factored(lu_and_piv, "lu_solve", "lu_factor")
    packed, y = promote_pair(lu, b, "lu_solve")
    square(packed.aval, "lu_solve")
    pivots = asarray(piv)
    if pivots.dtype.kind not in "iu" or pivots.shape[-1:] != packed.shape[-1:]:
        raise ArgumentError(
            f"lu_solve: pivots are whole numbers, one for each row: got {pivots.aval} for lu {packed.aval}; give lu_factor's"
        )
    order = bind_single(exchanges_p, astype(pivots, np.int64), back=True)
    sides = right_sides(packed, y, "lu_solve")
    if not y.ndim or sides.shape[-2] != packed.shape[-1]:
        raise ShapeError(f"lu_solve: b has as many rows as lu: got lu {packed.aval} and b {y.aval}; reshape b")
    if trans == 0:
        z = solve_triangular(packed, _permute_batched_rows(sides, order), lower=True, unit_diagonal=True)
        z = solve_triangular(packed, z)
    else:
        z = solve_triangular(packed, sides, trans=trans)
        z = solve_triangular(packed, z, trans=trans, lower=True, unit_diagonal=True)
        z = _permute_batched_rows(z, argsort(order, axis=-1))
    return z[..., 0] if y.ndim == 1 else z


def _factored(pair: Any, who: str, maker: str) -> tuple[Any, Any]:
    if not is_sequence(pair) or len(pair) != 2:
        raise ArgumentError(f"{who}: takes what {maker} returns: got {type(pair).__name__}; write {who}({maker}(a), b)")
    return pair[0], pair[1]


def _permute_batched_rows(x: Array, order: Array) -> Array:
    """Return rows in an order; one order serves all batches."""
    lead = np.broadcast_shapes(x.shape[:-2], order.shape[:-1])
    places = broadcast_to(reshape(order, (*order.shape, 1)), (*lead, *x.shape[-2:]))
    return take_along_axis(broadcast_to(x, (*lead, *x.shape[-2:])), places, axis=-2)


def cho_factor(a: ArrayLike, lower: bool = False) -> tuple[Array, bool]:
    """Return Cholesky's factor and whether it is the lower one, for `cho_solve`; derivatives are `cholesky`'s.

    The other triangle holds zeros, where SciPy leaves what was there.

    Args:
        a: float[..., n, n], symmetric (Hermitian) and positive definite.
        lower: whether the lower triangle is read and returned; the upper one where not.

    Raises:
        ShapeError: not square.
        numpy.linalg.LinAlgError: not positive definite.

    >>> cho_factor(np.array([[4.0]]))
    (Array([[2.]], dtype=float64), False)
    """
    return cholesky(a, upper=not lower), lower


def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike) -> Array:
    """Return x with ``a @ x = b`` from `cho_factor`'s result, differentiable by both.

    Args:
        c_and_lower: what `cho_factor` returned.
        b: float[..., n, k], or a vector float[n].

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: no pair of factors.
        numpy.linalg.LinAlgError: a singular matrix.

    >>> cho_solve(cho_factor(np.array([[4.0]])), np.array([8.0]))
    Array([2.], dtype=float64)
    """
    c, lower = _factored(c_and_lower, "cho_solve", "cho_factor")
    if lower:
        return solve_triangular(c, solve_triangular(c, b, lower=True), trans=2, lower=True)
    return solve_triangular(c, solve_triangular(c, b, trans=2))
