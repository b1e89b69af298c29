"""Iterative solvers: linear systems whose matrix is an array or a function of vectors, with derivatives of the solution."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from afx.control.implicit_solution import (
    IterativeResult,
    Matvec,
    Operator,
    replace_zeros,
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

Carry: TypeAlias = tuple[Array, ...]  # the solution, its residual, what a method keeps, and the number of steps
Step: TypeAlias = Callable[[Carry], Carry]


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

    def begin(matvec: Matvec, inverse: Matvec, rhs: Array, x: Array) -> tuple[Carry, Step]:
        def step(carry: Carry) -> Carry:
            x, r, p, rz, k = carry
            q = matvec(p)
            length = rz / replace_zeros(_take_inner_product(p, q))
            r = r - length * q
            z = inverse(r)
            fresh = _take_inner_product(r, z)
            return x + length * p, r, z + fresh / replace_zeros(rz) * p, fresh, k + 1

        r = rhs - matvec(x)
        z = inverse(r)
        return (x, r, z, _take_inner_product(r, z), asarray(0)), step

    return _solve(begin, a, b, x0, M, (tol, atol), maxiter, "cg", symmetric=True)


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

    Arguments, derivatives and errors are those of `cg`, for any matrix; ``restart`` is how many directions are kept, and
    ``maxiter`` the most restarts.

    >>> gmres(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([3.0, 4.0])).x.round(4)
    Array([1., 1.], dtype=float64)
    """

    def begin(matvec: Matvec, inverse: Matvec, rhs: Array, x: Array) -> tuple[Carry, Step]:
        def cycle(carry: Carry) -> Carry:
            x, r, k = carry
            x = x + _least_residual(lambda v: inverse(matvec(v)), inverse(r), min(restart, r.shape[0]))
            return x, rhs - matvec(x), k + 1

        return (x, rhs - matvec(x), asarray(0)), cycle

    return _solve(begin, a, b, x0, M, (tol, atol), maxiter, "gmres", width=restart)


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

    Arguments, derivatives and errors are those of `cg`, for any matrix; an iteration takes two products.

    >>> bicgstab(np.array([[2.0, 1.0], [0.0, 4.0]]), np.array([3.0, 4.0])).x.round(4)
    Array([1., 1.], dtype=float64)
    """

    def begin(matvec: Matvec, inverse: Matvec, rhs: Array, x: Array) -> tuple[Carry, Step]:
        shadow = rhs - matvec(x)

        def step(carry: Carry) -> Carry:
            x, r, p, v, rho, ratio, omega, k = carry
            fresh = _take_inner_product(shadow, r)
            p = r + fresh / replace_zeros(rho) * ratio / replace_zeros(omega) * (p - omega * v)
            direction = inverse(p)
            v = matvec(direction)
            length = fresh / replace_zeros(_take_inner_product(shadow, v))
            half = r - length * v
            second = inverse(half)
            t = matvec(second)
            omega = _take_inner_product(t, half) / replace_zeros(_take_inner_product(t, t))
            return x + length * direction + omega * second, half - omega * t, p, v, fresh, length, omega, k + 1

        one, nought = sum_(shadow) * 0 + 1, shadow * 0
        return (x, shadow, nought, nought, one, one, one, asarray(0)), step

    return _solve(begin, a, b, x0, M, (tol, atol), maxiter, "bicgstab")


def _solve(
    begin: Callable[[Matvec, Matvec, Array, Array], tuple[Carry, Step]],
    a: Operator,
    b: ArrayLike,
    x0: ArrayLike | None,
    M: Operator | None,
    tolerance: tuple[float, float],
    most: int | None,
    who: str,
    *,
    symmetric: bool = False,
    width: int = 1,
) -> IterativeResult:
    """Return what a method finds whose steps, of ``width`` iterations each, go on until the residual is small."""

    def solve(matvec: Matvec, inverse: Matvec, rhs: Array, x: Array) -> tuple[Array, Array]:
        bound = residual_bound(rhs, *tolerance)
        last = 10 * rhs.shape[0] if most is None else most
        first, step = begin(matvec, inverse, rhs, x)
        found = while_loop(lambda carry: (vector_norm(carry[1]) > bound) & (carry[-1] < last), step, first)
        return found[0], found[-1] * min(width, rhs.shape[0])

    return solve_implicitly(solve, a, b, x0, M, tolerance, symmetric, who)


def _take_inner_product(x: Array, y: Array) -> Array:
    return sum_(conj(x) * y)


def _least_residual(matvec: Matvec, r: Array, width: int) -> Array:
    """Return the change that makes the residual least, among combinations of ``width`` products with it (Arnoldi)."""
    size = vector_norm(r)
    first = r / replace_zeros(size)
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
        basis = basis.at[k + 1].set(where(lost, 0, v / replace_zeros(length)))
        return basis, heights.at[k].set((along + again).at[k + 1].set(where(lost, 0, length)))

    basis, heights = fori_loop(0, width, grow, (basis, zeros((width, width + 1), r.dtype)))
    target = zeros((width + 1,), r.dtype).at[0].set(size)
    return matmul(lstsq(heights.T, target)[0], basis[:-1])
