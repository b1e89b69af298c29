"""Iterative solvers: linear systems whose matrix is an array or a function of vectors.

The solution differentiates implicitly, not through the iterations: it is refined by ``x + S (b - A x)``, where the solver
S counts as fixed. The value hardly moves, and each refinement makes one more order of derivatives right (Newton's method
on the equation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from afx import pytree
from afx.control._subgraphs import body_of
from afx.control.while_loop import fori_loop, while_loop
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.tracing.tracer import to_array
from afx.errors import ShapeError
from afx.ops.creation.creation import asarray, zeros
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.where import where
from afx.ops.linalg.lstsq import lstsq
from afx.ops.linalg.products import matmul
from afx.ops.reductions.moments import vector_norm
from afx.ops.reductions.sums import sum as sum_
from afx.transforms.compiled_call import call
from afx.transforms.custom_call import custom_call
from afx.transforms.custom_rules import CustomRules
from afx.transforms.vjp import vjp

__all__ = ["IterativeResult", "cg", "gmres"]

Operator: TypeAlias = ArrayLike | Callable[[Array], Array]
Matvec: TypeAlias = Callable[[Array], Array]
Solver: TypeAlias = Callable[[Matvec, Matvec, Array, Array], tuple[Array, Array]]

ORDERS = 3  # of derivatives that are right


class IterativeResult(NamedTuple):
    """A solution, how many iterations it took, and whether its residual is as small as asked."""

    x: Array
    iterations: Array
    converged: Array


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
    """Return x with ``a @ x = b`` for a symmetric positive definite matrix, by conjugate gradients.

    Differentiable by b and by what a is made of, up to the third order; it compiles and batches.

    Args:
        a: float[n, n], or a linear function of float[n].
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
        bound = _bound(rhs, tol, atol)
        most = 10 * rhs.shape[0] if maxiter is None else maxiter

        def step(carry: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
            x, r, p, rz, k = carry
            q = matvec(p)
            length = rz / _nonzero(sum_(p * q))
            r = r - length * q
            z = inverse(r)
            fresh = sum_(r * z)
            return x + length * p, r, z + fresh / _nonzero(rz) * p, fresh, k + 1

        r = rhs - matvec(x)
        z = inverse(r)
        found = while_loop(
            lambda carry: (vector_norm(carry[1]) > bound) & (carry[4] < most), step, (x, r, z, sum_(r * z), asarray(0))
        )
        return found[0], found[4]

    return _implicit(solve, a, b, x0, M, (tol, atol), True, "cg")


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
        a: float[n, n], or a linear function of float[n].
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
        bound = _bound(rhs, tol, atol)
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

    return _implicit(solve, a, b, x0, M, (tol, atol), False, "gmres")


def _least_residual(matvec: Matvec, r: Array, width: int) -> Array:
    """Return the change that makes the residual least, among combinations of ``width`` products with it (Arnoldi)."""
    size = vector_norm(r)
    first = r / _nonzero(size)
    basis = zeros((width + 1, r.shape[0]), r.dtype).at[0].set(first)

    def grow(k: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        basis, heights = carry
        v = matvec(basis[k])
        along = basis @ v
        v = v - along @ basis
        again = basis @ v  # twice is enough
        v = v - again @ basis
        length = vector_norm(v)
        lost = length <= 1e-14 * vector_norm(along + again)
        basis = basis.at[k + 1].set(where(lost, 0, v / _nonzero(length)))
        return basis, heights.at[k].set((along + again).at[k + 1].set(where(lost, 0, length)))

    basis, heights = fori_loop(0, width, grow, (basis, zeros((width, width + 1), r.dtype)))
    target = zeros((width + 1,), r.dtype).at[0].set(size)
    return matmul(lstsq(heights.T, target)[0], basis[:-1])


# -- what both have --
def _nonzero(x: Array) -> Array:
    return where(x == 0, 1, x)


def _bound(b: Array, tol: float, atol: float) -> Array:
    relative = tol * vector_norm(b)
    return where(relative > atol, relative, atol)


def _matvec(a: Operator | None, who: str) -> Matvec:
    """Return a matrix as a function of vectors."""
    if a is None:
        return lambda v: v
    if callable(a):
        return a
    matrix = asarray(a)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"{who}: needs a square matrix or a function: got {matrix.aval}; use vmap for several")
    return lambda v: matmul(matrix, v)


class _Operator:
    """A linear function with its closed-over values apart, so that these can stay fixed."""

    def __init__(self, fn: Matvec, like: Array, who: str) -> None:
        body = body_of(fn, pytree.structure((like,)), [like.aval], who)
        self._program = body.program
        self.consts = body.lifted

    def at(self, consts: Sequence[Any], transposed: bool = False) -> Matvec:
        """Return the function, or its transpose, with these values instead of its closed-over ones."""

        def forth(v: Array) -> Array:
            found: Array = to_array(call(self._program, v, *consts)[0])
            return found

        return (lambda v: vjp(forth, v * 0)[1](v)[0]) if transposed else forth


def _implicit(
    solve: Solver,
    a: Operator,
    b: ArrayLike,
    x0: ArrayLike | None,
    M: Operator | None,
    limits: tuple[float, float],
    symmetric: bool,
    who: str,
) -> IterativeResult:
    """Return a solution and its derivatives."""
    matvec, rhs = _matvec(a, who), asarray(b)
    if rhs.ndim != 1 or aval_of(matvec(stop_gradient(rhs))).shape != rhs.shape:
        raise ShapeError(f"{who}: b is a vector that the matrix fits: got {rhs.aval}; reshape it, or use vmap")
    forth, guess = _Operator(matvec, rhs, who), _Operator(_matvec(M, who), rhs, who)
    count = len(forth.consts)
    fixed = [stop_gradient(c) for c in (*forth.consts, *guess.consts)]

    def run(transposed: bool, v: Array, start: Array, *consts: Any) -> tuple[Array, Array]:
        turned = transposed and not symmetric
        return solve(forth.at(consts[:count], turned), guess.at(consts[count:], turned), v, start)

    def linear(transposed: bool, v: Array, *consts: Any) -> Array:
        """Return the solver as a linear function of the right side, with its own transpose."""

        def fn(v: Array, *consts: Any) -> list[Array]:
            return [run(transposed, v, v * 0, *consts)[0]]

        def forward(xs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
            return [linear(transposed, *xs)], xs[1:]  # by this rule, where outer derivatives trace it

        def backward(kept: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
            return [linear(not transposed, cts[0], *kept), *[None] * len(kept)]

        def push(xs: Sequence[Any], ts: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
            return [linear(transposed, *xs)], [linear(transposed, ts[0], *xs[1:])]

        found: Array = to_array(custom_call(CustomRules(who, fn, forward, backward, push), [v, *consts])[0])
        return found

    start = zeros(rhs.shape, rhs.dtype) if x0 is None else stop_gradient(asarray(x0))
    x, iterations = run(False, stop_gradient(rhs), start, *fixed)
    left = stop_gradient(rhs) - forth.at(fixed[:count])(x)
    converged = vector_norm(left) <= _bound(stop_gradient(rhs), *limits) * (1 + 1e-6)
    for _ in range(ORDERS):
        x = x + linear(False, rhs - matvec(x), *fixed)
    return IterativeResult(x, iterations, converged)
