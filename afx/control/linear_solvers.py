"""Iterative solvers: linear systems and least squares of arrays or functions, with derivatives of the solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, NamedTuple, TypeAlias

import attrs

from afx import pytree
from afx.control._subgraphs import body_of
from afx.control.while_loop import fori_loop, while_loop
from afx.core import Array, ArrayLike, Aval, DType, aval_of, floating_dtype, real_dtype, to_array
from afx.errors import ArgumentError, OperandError, ShapeError
from afx.ops import abs as abs_, astype, concat, conj, hypot, matmul, maximum, sum as sum_, vector_norm, where
from afx.ops.creation.creation import asarray, promote_operands, stop_gradient, zeros
from afx.ops.linalg.norms import lstsq
from afx.transforms.compile.compiled_call import CompiledGraph, call
from afx.transforms.custom_call import CustomRules, custom_call
from afx.transforms.derivatives.grad import vjp
from afx.transforms.sparse.sparse_matrix import Csr, SparseMatrix

# --- Implicit solutions: what iterative solvers of linear systems share, their operands and their derivatives
#
# The solution differentiates implicitly, not through the iterations: it is refined by ``x + S (b - A x)``, where the
# solver S counts as fixed. The value hardly moves, and each refinement makes one more order of derivatives right
# (Newton's method on the equation).

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
    system = list(operands)
    if system[0] is None or (hasattr(system[0], "tocoo") and not callable(system[0])):
        raise OperandError(
            f"{who}: needs a matrix, a Csr or a function: got {type(system[0]).__name__}; Csr.from_sparse takes SciPy's"
        )
    if system[1] is None or callable(system[1]) or isinstance(system[1], SPARSE):
        raise OperandError(f"{who}: the right side is an array: got {system[1]!r}; take .todense() of a sparse matrix")
    plain = [k for k, x in enumerate(system) if x is not None and not callable(x) and not isinstance(x, SPARSE)]
    arrays = promote_operands(*[system[k] for k in plain])
    dtype = floating_dtype(*[x.dtype for x in arrays])
    for k, x in zip(plain, arrays, strict=True):
        system[k] = astype(x, dtype)
    return system, dtype


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
            product: Array = to_array(call(self._program, v, *consts)[0])
            return product

        def back(v: Array) -> Array:
            return vjp(forth, zeros(self._like.shape, self._like.dtype))[1](v)[0]

        return back if transposed else forth


def linear_solution(run: Callable[Concatenate[bool, Array, ...], Array], who: str) -> Callable[..., Array]:
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

        def backward(residuals: Sequence[Any], cts: Sequence[Any]) -> Sequence[Any]:
            return [linear(not transposed, cts[0], *residuals), *[None] * len(residuals)]

        def push(xs: Sequence[Any], ts: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
            return [linear(transposed, *xs)], [linear(transposed, ts[0], *xs[1:])]

        solution: Array = to_array(custom_call(CustomRules(who, fn, forward, backward, push), [v, *consts])[0])
        return solution

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
    dtype = floating_dtype(dtype, _image_of(matvec, rhs, who).dtype)  # that of what functions close over counts too
    rhs, matvec = astype(rhs, dtype), in_dtype(matvec, dtype)
    forth, guess = Operand(matvec, rhs.aval, who), Operand(in_dtype(matvec_of(before, who), dtype), rhs.aval, who)
    fixed = [stop_gradient(c) for c in (*forth.consts, *guess.consts)]
    # the transpose of a Hermitian matrix is its conjugate
    run = _solve_by_constants(solve, forth, guess, symmetric and dtype.kind != "c")
    linear = linear_solution(lambda transposed, v, *consts: run(transposed, v, v * 0, *consts)[0], who)
    start = zeros(rhs.shape, rhs.dtype) if begin is None else stop_gradient(astype(begin, dtype))
    x, iterations = run(False, stop_gradient(rhs), start, *fixed)
    left = stop_gradient(rhs) - forth.at(fixed[: len(forth.consts)])(x)
    converged = vector_norm(left) <= residual_bound(stop_gradient(rhs), *limits) * (1 + 1e-6)
    for _ in range(ORDERS):
        x = x + linear(False, rhs - matvec(x), *fixed)
    return IterativeResult(x, iterations, converged)


def _solve_by_constants(
    solve: Solver, forth: Operand, guess: Operand, symmetric: bool
) -> Callable[..., tuple[Array, Array]]:
    """Return a solver of (whether the system is transposed, right side, start, *constants of matrix and guess)."""
    count = len(forth.consts)

    def run(transposed: bool, v: Array, start: Array, *consts: Any) -> tuple[Array, Array]:
        turned = transposed and not symmetric
        return solve(forth.at(consts[:count], turned), guess.at(consts[count:], turned), v, start)

    return run


def _image_of(matvec: Matvec, rhs: Array, who: str) -> Aval:
    """Return shape and dtype of a matrix's product with the right side, which it fits."""
    image = aval_of(matvec(stop_gradient(rhs))) if rhs.ndim == 1 else None
    if image is None or image.shape != rhs.shape:
        raise ShapeError(f"{who}: b is a vector that the matrix fits: got {rhs.aval}; reshape it, or use vmap")
    return image


# --- Iterative solvers: linear systems whose matrix is an array or a function of vectors, with derivatives of the
# solution

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
    return _solve(_begin_cg, a, b, x0, M, (tol, atol), maxiter, "cg", symmetric=True)


def _begin_cg(matvec: Matvec, inverse: Matvec, rhs: Array, x: Array) -> tuple[Carry, Step]:
    """Return solution, residual, direction and its product before the first iteration, and an iteration."""

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
    return _solve(_begin_bicgstab, a, b, x0, M, (tol, atol), maxiter, "bicgstab")


def _begin_bicgstab(matvec: Matvec, inverse: Matvec, rhs: Array, x: Array) -> tuple[Carry, Step]:
    """Return solution, residual, direction with its product and the scalars before the first iteration, and an iteration."""
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
        last_carry = while_loop(lambda carry: (vector_norm(carry[1]) > bound) & (carry[-1] < last), step, first)
        return last_carry[0], last_carry[-1] * min(width, rhs.shape[0])

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


# --- LSMR: sparse and structured linear least squares by bidiagonalization (Fong & Saunders 2011)


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
    return _solve_normal_equations(operand, target, (tol, atol, 10 * n if maxiter is None else maxiter))


def _solve_normal_equations(operand: Operand, b: Array, limits: tuple[float, float, int]) -> IterativeResult:
    """Return a solution of least squares and its derivatives."""
    fixed = [stop_gradient(c) for c in operand.consts]

    def pair(consts: Any) -> tuple[Matvec, Matvec]:
        return operand.at(consts), _conjugate_product(operand.at(consts, transposed=True))

    def inverse(transposed: bool, v: Array, *consts: Any) -> Array:
        """Return the solution of the normal equations, by two least squares problems."""
        matvec, rmatvec = pair(consts)

        def solve(v: Array) -> Array:
            return _bidiagonalize(matvec, rmatvec, _bidiagonalize(rmatvec, matvec, v, *limits)[0], *limits)[0]

        return _conjugate_product(solve)(v) if transposed else solve(v)  # their matrix is Hermitian

    matvec, rmatvec = pair(fixed)
    x, iterations, slope = _bidiagonalize(matvec, rmatvec, stop_gradient(b), *limits)
    linear = linear_solution(inverse, "lsmr")
    matvec, rmatvec = pair(operand.consts)
    for _ in range(ORDERS):
        x = x + linear(False, rmatvec(b - matvec(x)), *fixed)
    return IterativeResult(x, iterations, slope)


def _rectangular(a: Operator, b: ArrayLike, columns: int | None) -> tuple[Matvec, int, Array]:
    """Return the matrix as a function of vectors, the number of its columns, and b in the dtype of both."""
    (matrix, rhs), dtype = promote_system("lsmr", a, b)
    if not callable(a):
        if len(matrix.shape) != 2:
            raise ShapeError(f"lsmr: needs a matrix or a function: got {describe(matrix)}; use vmap for several")
        forward, n = product_with(matrix), matrix.shape[1]
    elif columns is None:
        raise ArgumentError("lsmr: a function does not show its columns: got none; give columns=n")
    else:
        forward, n = a, columns
    image = aval_of(forward(zeros((n,), dtype)))
    if rhs.ndim != 1 or image.shape != rhs.shape:
        raise ShapeError(f"lsmr: b is a vector that the matrix fits: got {rhs.aval}; reshape it, or use vmap")
    dtype = floating_dtype(dtype, image.dtype)
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
        return _rotate_bidiagonal(s, u, beta, v / replace_zeros(alpha), alpha)

    end = while_loop(lambda s: (abs_(s.zeta_bar) > bound) & (s.count < most), advance, begin)
    return end.x, end.count, abs_(end.zeta_bar) <= bound


def _rotate_bidiagonal(s: Bidiagonal, u: Array, beta: Array, v: Array, alpha: Array) -> Bidiagonal:
    """Return the state with the next two vectors of the bidiagonalization and their lengths, by two plane rotations."""
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
