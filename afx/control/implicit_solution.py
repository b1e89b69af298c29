"""Implicit solutions: what iterative solvers of linear systems share, their operands and their derivatives.

The solution differentiates implicitly, not through the iterations: it is refined by ``x + S (b - A x)``, where the solver
S counts as fixed. The value hardly moves, and each refinement makes one more order of derivatives right (Newton's method
on the equation).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from afx import pytree
from afx.control._subgraphs import body_of
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of
from afx.core.tracing.tracer import to_array
from afx.errors import ShapeError
from afx.ops.creation.creation import asarray, zeros
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.where import where
from afx.ops.linalg.products import matmul
from afx.ops.reductions.moments import vector_norm
from afx.transforms.compiled_call import CompiledGraph, call
from afx.transforms.custom_call import custom_call
from afx.transforms.custom_rules import CustomRules
from afx.transforms.vjp import vjp

__all__ = [
    "ORDERS",
    "IterativeResult",
    "Matvec",
    "Operand",
    "Operator",
    "linear_solution",
    "matvec_of",
    "nonzero",
    "residual_bound",
    "solve_implicitly",
]

Operator: TypeAlias = ArrayLike | Callable[[Array], Array]
Matvec: TypeAlias = Callable[[Array], Array]
Solver: TypeAlias = Callable[[Matvec, Matvec, Array, Array], tuple[Array, Array]]

ORDERS = 3  # of derivatives that are right


class IterativeResult(NamedTuple):
    """A solution, how many iterations it took, and whether its residual is as small as asked."""

    x: Array
    iterations: Array
    converged: Array


def nonzero(x: Array) -> Array:
    """Return a number, 1 in place of 0, for denominators whose numerators are 0 too."""
    return where(x == 0, 1, x)


def residual_bound(b: Array, tol: float, atol: float) -> Array:
    """Return how small a residual is asked for, given the right side."""
    relative = tol * vector_norm(b)
    return where(relative > atol, relative, atol)


def matvec_of(a: Operator | None, who: str) -> Matvec:
    """Return a matrix as a function of vectors."""
    if a is None:
        return lambda v: v
    if callable(a):
        return a
    matrix = asarray(a)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"{who}: needs a square matrix or a function: got {matrix.aval}; use vmap for several")
    return lambda v: matmul(matrix, v)


class Operand:
    """A linear function with its closed-over values apart, so that these can stay fixed."""

    def __init__(self, fn: Matvec, like: Aval, who: str) -> None:
        body = body_of(fn, pytree.structure((like,)), [like], who)
        self._program: CompiledGraph = body.program
        self._like = like
        self.consts: list[Any] = body.lifted

    def at(self, consts: Sequence[Any], transposed: bool = False) -> Matvec:
        """Return the function, or its transpose, with these values instead of its closed-over ones."""

        def forth(v: Array) -> Array:
            found: Array = to_array(call(self._program, v, *consts)[0])
            return found

        def back(v: Array) -> Array:
            return vjp(forth, zeros(self._like.shape, self._like.dtype))[1](v)[0]

        return back if transposed else forth


def linear_solution(run: Callable[..., Array], who: str) -> Callable[..., Array]:
    """Return a solver as a function that is linear in the right side, with its own transpose.

    Args:
        run: (whether the system is transposed, right side, *constants) to the solution.
        who: for messages.
    """

    def linear(transposed: bool, v: Array, *consts: Any) -> Array:
        def fn(v: Array, *consts: Any) -> list[Array]:
            return [run(transposed, v, *consts)]

        def forward(xs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
            return [linear(transposed, *xs)], xs[1:]  # by this rule, where outer derivatives trace it

        def backward(kept: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
            return [linear(not transposed, cts[0], *kept), *[None] * len(kept)]

        def push(xs: Sequence[Any], ts: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
            return [linear(transposed, *xs)], [linear(transposed, ts[0], *xs[1:])]

        found: Array = to_array(custom_call(CustomRules(who, fn, forward, backward, push), [v, *consts])[0])
        return found

    return linear


def solve_implicitly(
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
    matvec, rhs = matvec_of(a, who), asarray(b)
    if rhs.ndim != 1 or aval_of(matvec(stop_gradient(rhs))).shape != rhs.shape:
        raise ShapeError(f"{who}: b is a vector that the matrix fits: got {rhs.aval}; reshape it, or use vmap")
    forth, guess = Operand(matvec, rhs.aval, who), Operand(matvec_of(M, who), rhs.aval, who)
    count = len(forth.consts)
    fixed = [stop_gradient(c) for c in (*forth.consts, *guess.consts)]

    def run(transposed: bool, v: Array, start: Array, *consts: Any) -> tuple[Array, Array]:
        turned = transposed and not symmetric
        return solve(forth.at(consts[:count], turned), guess.at(consts[count:], turned), v, start)

    def from_nought(transposed: bool, v: Array, *consts: Any) -> Array:
        return run(transposed, v, v * 0, *consts)[0]

    linear = linear_solution(from_nought, who)
    start = zeros(rhs.shape, rhs.dtype) if x0 is None else stop_gradient(asarray(x0))
    x, iterations = run(False, stop_gradient(rhs), start, *fixed)
    left = stop_gradient(rhs) - forth.at(fixed[:count])(x)
    converged = vector_norm(left) <= residual_bound(stop_gradient(rhs), *limits) * (1 + 1e-6)
    for _ in range(ORDERS):
        x = x + linear(False, rhs - matvec(x), *fixed)
    return IterativeResult(x, iterations, converged)
