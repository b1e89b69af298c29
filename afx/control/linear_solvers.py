"""Iterative solvers: linear systems whose matrix is an array or a function of vectors, with derivatives of the solution."""

from __future__ import annotations

from afx.control.implicit_solution import (
    IterativeResult,
    Matvec,
    Operator,
    nonzero,
    residual_bound,
    solve_implicitly,
)
from afx.control.while_loop import fori_loop, while_loop
from afx.core.array.array import Array, ArrayLike
from afx.ops.creation.creation import asarray, zeros
from afx.ops.elementwise.complex import conj
from afx.ops.elementwise.where import where
from afx.ops.linalg.lstsq import lstsq
from afx.ops.linalg.products import matmul
from afx.ops.reductions.moments import vector_norm
from afx.ops.reductions.sums import sum as sum_

__all__ = ["bicgstab", "cg", "gmres"]


def cg(
    a: Operator,
    b: ArrayLike,
    x0: ArrayLike | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Operator | None = None,
) -> IterativeResult:
    """Return x with ``a @ x = b`` for a symmetric (Hermitian) positive definite matrix, by conjugate gradients.

    Differentiable by b and by what a is made of, up to the third order; it compiles and batches.

    Args:
        a: float[n, n], dense or sparse, or a linear function of float[n]; complex ones too.
        b: float[n].
        x0: where to start; zeros where absent.
        tol: the residual's norm, relative to that of b, at which to stop.
        atol: an absolute one; the larger of the two counts.
        maxiter: the most iterations; ten times n where absent.
        M: an approximation of the inverse of a, positive definite, as a is given.

    Raises:
        ShapeError: b is no vector, or a does not fit it.

    >>> cg(np.diag([2.0, 4.0]), np.array([2.0, 2.0])).x
    Array([1. , 0.5], dtype=float64)
    """

    def solve(matvec: Matvec, inverse: Matvec, rhs: Array, x: Array) -> tuple[Array, Array]:
        bound = residual_bound(rhs, tol, atol)
        most = 10 * rhs.shape[0] if maxiter is None else maxiter

        def step(carry: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
            x, r, p, rz, k = carry
            q = matvec(p)
            length = rz / nonzero(_inner(p, q))
            r = r - length * q
            z = inverse(r)
            fresh = _inner(r, z)
            return x + length * p, r, z + fresh / nonzero(rz) * p, fresh, k + 1

        r = rhs - matvec(x)
        z = inverse(r)
        found = while_loop(
            lambda carry: (vector_norm(carry[1]) > bound) & (carry[4] < most), step, (x, r, z, _inner(r, z), asarray(0))
        )
        return found[0], found[4]

    return solve_implicitly(solve, a, b, x0, M, (tol, atol), True, "cg")


def gmres(
    a: Operator,
    b: ArrayLike,
    x0: ArrayLike | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Operator | None = None,
) -> IterativeResult:
    """Return x with ``a @ x = b`` by generalised minimal residuals, restarted (Saad & Schultz 1986).

    Differentiable by b and by what a is made of, up to the third order; it compiles and batches.

    Args:
        a: float[n, n], dense or sparse, or a linear function of float[n]; complex ones too.
        b: float[n].
        x0: where to start; zeros where absent.
        tol: the residual's norm, relative to that of b, at which to stop.
        atol: an absolute one; the larger of the two counts.
        restart: how many directions are kept.
        maxiter: the most restarts; ten times n where absent.
        M: an approximation of the inverse of a, as a is given.

    Raises:
        ShapeError: b is no vector, or a does not fit it.

    >>> gmres(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([3.0, 4.0])).x.round(4)
    Array([1., 1.], dtype=float64)
    """

    def solve(matvec: Matvec, inverse: Matvec, rhs: Array, x: Array) -> tuple[Array, Array]:
        bound = residual_bound(rhs, tol, atol)
        most = 10 * rhs.shape[0] if maxiter is None else maxiter
        width = min(restart, rhs.shape[0])

        def cycle(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            x, r, k = carry
            x = x + _least_residual(lambda v: inverse(matvec(v)), inverse(r), width)
            return x, rhs - matvec(x), k + 1

        found = while_loop(
            lambda carry: (vector_norm(carry[1]) > bound) & (carry[2] < most), cycle, (x, rhs - matvec(x), asarray(0))
        )
        return found[0], found[2] * width

    return solve_implicitly(solve, a, b, x0, M, (tol, atol), False, "gmres")


def bicgstab(
    a: Operator,
    b: ArrayLike,
    x0: ArrayLike | None = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Operator | None = None,
) -> IterativeResult:
    """Return x with ``a @ x = b`` by stabilised biconjugate gradients (van der Vorst 1992), in the memory of eight vectors.

    Differentiable by b and by what a is made of, up to the third order; it compiles and batches.

    Args:
        a: float[n, n], dense or sparse, or a linear function of float[n]; complex ones too.
        b: float[n].
        x0: where to start; zeros where absent.
        tol: the residual's norm, relative to that of b, at which to stop.
        atol: an absolute one; the larger of the two counts.
        maxiter: the most iterations, of two products each; ten times n where absent.
        M: an approximation of the inverse of a, as a is given.

    Raises:
        ShapeError: b is no vector, or a does not fit it.

    >>> bicgstab(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([3.0, 4.0])).x.round(4)
    Array([1., 1.], dtype=float64)
    """

    def solve(matvec: Matvec, inverse: Matvec, rhs: Array, x: Array) -> tuple[Array, Array]:
        bound = residual_bound(rhs, tol, atol)
        most = 10 * rhs.shape[0] if maxiter is None else maxiter
        shadow = rhs - matvec(x)

        def step(carry: tuple[Array, ...]) -> tuple[Array, ...]:
            x, r, p, v, rho, ratio, omega, k = carry
            fresh = _inner(shadow, r)
            p = r + fresh / nonzero(rho) * ratio / nonzero(omega) * (p - omega * v)
            direction = inverse(p)
            v = matvec(direction)
            length = fresh / nonzero(_inner(shadow, v))
            half = r - length * v
            second = inverse(half)
            t = matvec(second)
            omega = _inner(t, half) / nonzero(_inner(t, t))
            return x + length * direction + omega * second, half - omega * t, p, v, fresh, length, omega, k + 1

        one = sum_(shadow) * 0 + 1
        nought = shadow * 0
        begin: tuple[Array, ...] = (x, shadow, nought, nought, one, one, one, asarray(0))
        found = while_loop(
            lambda carry: (vector_norm(carry[1]) > bound) & (carry[7] < most),
            step,
            begin,
        )
        return found[0], found[7]

    return solve_implicitly(solve, a, b, x0, M, (tol, atol), False, "bicgstab")


def _inner(x: Array, y: Array) -> Array:
    return sum_(conj(x) * y)


def _least_residual(matvec: Matvec, r: Array, width: int) -> Array:
    """Return the change that makes the residual least, among combinations of ``width`` products with it (Arnoldi)."""
    size = vector_norm(r)
    first = r / nonzero(size)
    basis = zeros((width + 1, r.shape[0]), r.dtype).at[0].set(first)

    def grow(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        basis, heights = carry
        v = matvec(basis[k])
        along = conj(basis) @ v
        v = v - along @ basis
        again = conj(basis) @ v  # twice is enough
        v = v - again @ basis
        length = vector_norm(v)
        lost = length <= 1e-14 * vector_norm(along + again)
        basis = basis.at[k + 1].set(where(lost, 0, v / nonzero(length)))
        return basis, heights.at[k].set((along + again).at[k + 1].set(where(lost, 0, length)))

    basis, heights = fori_loop(0, width, grow, (basis, zeros((width, width + 1), r.dtype)))
    target = zeros((width + 1,), r.dtype).at[0].set(size)
    return matmul(lstsq(heights.T, target)[0], basis[:-1])
