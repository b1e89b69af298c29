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
from afx.core.dtypes import DType, promote
from afx.core.tracing.tracer import to_array
from afx.errors import OperandError, ShapeError
from afx.ops.creation.creation import asarray, zeros
from afx.ops.creation.promotion import promote_operands
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.where import where
from afx.ops.linalg.products import matmul
from afx.ops.manipulation.shape import astype
from afx.ops.reductions.moments import vector_norm
from afx.transforms.compile.compiled_call import CompiledGraph, call
from afx.transforms.custom.custom_call import custom_call
from afx.transforms.custom.custom_rules import CustomRules
from afx.transforms.derivatives.vjp import vjp
from afx.transforms.sparse.csr import Csr
from afx.transforms.sparse.sparse_matrix import SparseMatrix

__all__ = [
    "ORDERS",
    "IterativeResult",
    "Matvec",
    "Operand",
    "Operator",
    "linear_solution",
    "matvec_of",
    "promote_system",
    "replace_zeros",
    "residual_bound",
    "solve_implicitly",
]

Operator: TypeAlias = ArrayLike | Csr | SparseMatrix | Callable[[Array], Array]
Matvec: TypeAlias = Callable[[Array], Array]
Solver: TypeAlias = Callable[[Matvec, Matvec, Array, Array], tuple[Array, Array]]

SPARSE = Csr, SparseMatrix
ORDERS = 3  # of derivatives that are right


class IterativeResult(NamedTuple):
    """A solution, how many iterations it took, and whether its residual is as small as asked."""

    x: Array
    iterations: Array
    converged: Array


def replace_zeros(x: Array) -> Array:
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
    matrix = a if isinstance(a, SPARSE) else asarray(a)
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"{who}: needs a square matrix or a function: got {describe(matrix)}; use vmap for several")
    return product_with(matrix)


def product_with(matrix: Array | Csr | SparseMatrix) -> Matvec:
    """Return the product with a matrix, dense or sparse, as a function of vectors."""
    return lambda v: matmul(matrix, v) if isinstance(matrix, Array) else matrix @ v


def describe(matrix: Array | Csr | SparseMatrix) -> str:
    """Return what a message says of a matrix."""
    return repr(matrix.aval if isinstance(matrix, Array) else matrix)


def promote_system(who: str, *operands: Any) -> tuple[list[Any], DType]:
    """Return a system's operands, matrix and right side first, with one floating dtype for the arrays among them.

    Functions are as they are, and what is None behind matrix and right side.

    Raises:
        OperandError: the matrix is None or another library's sparse matrix, or the right side no array.
    """
    found = list(operands)
    if found[0] is None or (hasattr(found[0], "tocoo") and not callable(found[0])):
        raise OperandError(
            f"{who}: needs a matrix, a Csr or a function: got {type(found[0]).__name__}; Csr.from_sparse takes SciPy's"
        )
    if found[1] is None or callable(found[1]) or isinstance(found[1], SPARSE):
        raise OperandError(f"{who}: the right side is an array: got {found[1]!r}; take .todense() of a sparse matrix")
    plain = [k for k, x in enumerate(found) if x is not None and not callable(x) and not isinstance(x, SPARSE)]
    arrays = promote_operands(*[found[k] for k in plain])
    dtype = promote(tuple([x.dtype for x in arrays]), (False,) * len(arrays), floating=True)
    for k, x in zip(plain, arrays, strict=True):
        found[k] = astype(x, dtype)
    return found, dtype


def in_dtype(fn: Matvec, dtype: DType) -> Matvec:
    """Return a function whose results have this dtype."""
    return lambda v: astype(fn(v), dtype)


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
    (a, rhs, before, begin), dtype = promote_system(who, a, b, M, x0)
    matvec = matvec_of(a, who)
    image = aval_of(matvec(stop_gradient(rhs))) if rhs.ndim == 1 else None
    if image is None or image.shape != rhs.shape:
        raise ShapeError(f"{who}: b is a vector that the matrix fits: got {rhs.aval}; reshape it, or use vmap")
    dtype = promote((dtype, image.dtype), (False, False))  # that of what functions close over counts too
    rhs, matvec = astype(rhs, dtype), in_dtype(matvec, dtype)
    forth, guess = Operand(matvec, rhs.aval, who), Operand(in_dtype(matvec_of(before, who), dtype), rhs.aval, who)
    symmetric = symmetric and dtype.kind != "c"  # the transpose of a Hermitian matrix is its conjugate
    count = len(forth.consts)
    fixed = [stop_gradient(c) for c in (*forth.consts, *guess.consts)]

    def run(transposed: bool, v: Array, start: Array, *consts: Any) -> tuple[Array, Array]:
        turned = transposed and not symmetric
        return solve(forth.at(consts[:count], turned), guess.at(consts[count:], turned), v, start)

    def from_nought(transposed: bool, v: Array, *consts: Any) -> Array:
        return run(transposed, v, v * 0, *consts)[0]

    linear = linear_solution(from_nought, who)
    start = zeros(rhs.shape, rhs.dtype) if begin is None else stop_gradient(astype(begin, dtype))
    x, iterations = run(False, stop_gradient(rhs), start, *fixed)
    left = stop_gradient(rhs) - forth.at(fixed[:count])(x)
    converged = vector_norm(left) <= residual_bound(stop_gradient(rhs), *limits) * (1 + 1e-6)
    for _ in range(ORDERS):
        x = x + linear(False, rhs - matvec(x), *fixed)
    return IterativeResult(x, iterations, converged)
