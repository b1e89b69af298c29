"""LSMR: sparse and structured linear least squares by bidiagonalization (Fong & Saunders 2011)."""

from __future__ import annotations

from typing import Any

import attrs

from afx.control.implicit_solution import (
    ORDERS,
    IterativeResult,
    Matvec,
    Operand,
    Operator,
    describe,
    in_dtype,
    linear_solution,
    product_with,
    promote_system,
    replace_zeros,
)
from afx.control.while_loop import while_loop
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of
from afx.core.dtypes import DType, promote, real_dtype
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.creation import asarray, zeros
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import hypot
from afx.ops.elementwise.complex import conj
from afx.ops.elementwise.where import maximum
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import astype
from afx.ops.reductions.moments import vector_norm

__all__ = ["lsmr"]


def lsmr(
    a: Operator,
    b: ArrayLike,
    *,
    columns: int | None = None,
    damp: float | Array = 0.0,
    tol: float = 1e-6,
    atol: float = 0.0,
    maxiter: int | None = None,
) -> IterativeResult:
    """Return the x for which ``|a @ x - b|² + damp² |x|²`` is smallest, by products with a and its transpose alone.

    Differentiable by b and by what a is made of, up to the third order, where columns of a are independent or damped; it
    compiles and batches.

    Args:
        a: float[m, n], dense or sparse, or a linear function of float[n], whose transpose is found by `vjp`; complex
            ones too.
        b: float[m].
        columns: n, where a is a function.
        damp: how much the size of x counts, a real number; differentiable where it is an array.
        tol: the norm of ``aᵀ (b - a x)`` relative to that of ``aᵀ b`` at which to stop.
        atol: an absolute one; the larger of the two counts.
        maxiter: the most iterations; ten times n where absent.

    Raises:
        ShapeError: b is no vector, or a does not fit it.
        ArgumentError: a is a function and ``columns`` is absent.

    >>> lsmr(np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 2.0, 3.0])).x.round(4)
    Array([1., 1.], dtype=float64)
    """
    forward, n, rhs = _rectangular(a, b, columns)
    target = rhs
    if not (isinstance(damp, (int, float)) and damp == 0):
        forward, target = _append_damping(forward, damp, rhs.dtype), concat([rhs, zeros((n,), rhs.dtype)])
    operand = Operand(forward, Aval((n,), rhs.dtype), "lsmr")
    fixed = [stop_gradient(c) for c in operand.consts]
    most = 10 * n if maxiter is None else maxiter

    def pair(consts: Any) -> tuple[Matvec, Matvec]:
        return operand.at(consts), _conjugate_product(operand.at(consts, transposed=True))

    def inverse(transposed: bool, v: Array, *consts: Any) -> Array:
        """Return the solution of the normal equations, by two least squares problems."""
        there, back = pair(consts)

        def solve(v: Array) -> Array:
            return _bidiagonalize(there, back, _bidiagonalize(back, there, v, tol, atol, most)[0], tol, atol, most)[0]

        return _conjugate_product(solve)(v) if transposed else solve(v)  # their matrix is Hermitian

    there, back = pair(fixed)
    x, iterations, slope = _bidiagonalize(there, back, stop_gradient(target), tol, atol, most)
    linear = linear_solution(inverse, "lsmr")
    now, adjoint = pair(operand.consts)
    for _ in range(ORDERS):
        x = x + linear(False, adjoint(target - now(x)), *fixed)
    return IterativeResult(x, iterations, slope)


def _rectangular(a: Operator, b: ArrayLike, columns: int | None) -> tuple[Matvec, int, Array]:
    """Return the matrix as a function of vectors, the number of its columns, and b in the dtype of both."""
    (held, rhs), dtype = promote_system("lsmr", a, b)
    if not callable(a):
        if len(held.shape) != 2:
            raise ShapeError(f"lsmr: needs a matrix or a function: got {describe(held)}; use vmap for several")
        forward, n = product_with(held), held.shape[1]
    elif columns is None:
        raise ArgumentError("lsmr: a function does not show its columns: got none; give columns=n")
    else:
        forward, n = a, columns
    image = aval_of(forward(zeros((n,), dtype)))
    if rhs.ndim != 1 or image.shape != rhs.shape:
        raise ShapeError(f"lsmr: b is a vector that the matrix fits: got {rhs.aval}; reshape it, or use vmap")
    dtype = promote((dtype, image.dtype), (False, False))
    return in_dtype(forward, dtype), n, astype(rhs, dtype)


def _append_damping(forward: Matvec, damp: float | Array, dtype: DType) -> Matvec:
    """Return the matrix with a multiple of the identity below."""
    factor = astype(asarray(damp), real_dtype(dtype))
    return lambda v: concat([forward(v), factor * v])


def _conjugate_product(fn: Matvec) -> Matvec:
    """Return the function with the conjugate matrix; a real one as it is."""
    return lambda v: conj(fn(conj(v)))


@attrs.frozen
class Bidiagonal:
    """The state of the iteration, in the paper's names: x, u, v and h's, and the two rotations."""

    x: Array
    u: Array
    v: Array
    h: Array
    h_bar: Array
    alpha: Array
    alpha_bar: Array
    rho: Array
    rho_bar: Array
    c_bar: Array
    s_bar: Array
    zeta_bar: Array
    count: Array


def _bidiagonalize(
    forward: Matvec, back: Matvec, b: Array, tol: float, atol: float, most: int
) -> tuple[Array, Array, Array]:
    """Return the solution of least squares, the iterations it took, and whether its slope is as small as asked."""
    beta = vector_norm(b)
    u = b / replace_zeros(beta)
    v = back(u)
    alpha = vector_norm(v)
    v = v / replace_zeros(alpha)
    slope = alpha * beta
    bound = maximum(tol * slope, atol)
    one = slope * 0 + 1
    begin = Bidiagonal(v * 0, u, v, v, v * 0, alpha, alpha, one, one, one, slope * 0, slope, asarray(0))

    def advance(s: Bidiagonal) -> Bidiagonal:
        u = forward(s.v) - s.alpha * s.u
        beta = vector_norm(u)
        u = u / replace_zeros(beta)
        v = back(u) - beta * s.v
        alpha = vector_norm(v)
        v = v / replace_zeros(alpha)
        rho = hypot(s.alpha_bar, beta)
        c, sine = s.alpha_bar / replace_zeros(rho), beta / replace_zeros(rho)
        theta = sine * alpha
        rho_bar = hypot(s.c_bar * rho, theta)
        c_bar, s_bar = s.c_bar * rho / replace_zeros(rho_bar), theta / replace_zeros(rho_bar)
        h_bar = s.h - s.s_bar * rho * rho / replace_zeros(s.rho * s.rho_bar) * s.h_bar
        x = s.x + c_bar * s.zeta_bar / replace_zeros(rho * rho_bar) * h_bar
        h = v - theta / replace_zeros(rho) * s.h
        scalars = alpha, c * alpha, rho, rho_bar, c_bar, s_bar, -s_bar * s.zeta_bar
        return Bidiagonal(x, u, v, h, h_bar, *scalars, s.count + 1)

    end = while_loop(lambda s: (abs_(s.zeta_bar) > bound) & (s.count < most), advance, begin)
    return end.x, end.count, abs_(end.zeta_bar) <= bound
