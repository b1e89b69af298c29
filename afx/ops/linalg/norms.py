"""Norms and least squares: condition numbers, ranks, polar factors, Sylvester's equation, pseudo-inverses."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from afx.core import Array, ArrayLike, bind, bind_single, epsilon, float32, float64, promote, real_dtype, to_lower_level
from afx.core.aval import Aval, aval_of, broadcast_shapes, normalize_axes
from afx.core.primitive import Params, Primitive, Tangents, Value, Values, define
from afx.errors import ArgumentError, ShapeError
from afx.ops._basic import in_floats
from afx.ops._kinds.linear import batch_along_axes
from afx.ops._kinds.matrix import (
    adjoint,
    choice,
    conjugate,
    eigh_by_lapack,
    finite_matrices,
    floating,
    hermitian,
    matrices,
    matrix_op,
    pinv_by_lapack,
    plain,
    promote_pair,
    singular_values_by_lapack,
    square,
    svd_by_lapack,
    symmetrize_lower,
    transposed,
)
from afx.ops.creation.creation import SEQUENCES, as_array, asarray, zeros
from afx.ops.creation.matrices import eye
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.comparison import where
from afx.ops.elementwise.complex import real
from afx.ops.linalg.solve import inv, slogdet, solve
from afx.ops.linalg.spectra import svdvals_p
from afx.ops.manipulation.join import concat, moveaxis
from afx.ops.manipulation.shape import astype, broadcast_to, reshape
from afx.ops.reductions.moments import vector_norm, vector_norm_p
from afx.ops.reductions.sums import count_nonzero, max as max_, min as min_, reduce_over, sum as sum_

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder

# --- Sylvester's equation: solutions for stacks of matrices
#
# Its solution X of ``A X + X B = C`` differentiates by the same equation: ``A dX + dX B = dC - dA X - X dB``.


def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> Array:
    """Return x with ``a @ x + x @ b = q``, as one linear system of m·n unknowns.

    Args:
        a: float[..., m, m], real or complex.
        b: float[..., n, n]; no eigenvalue of it is minus one of a.
        q: float[..., m, n].

    Raises:
        ShapeError: the shapes do not fit.
        numpy.linalg.LinAlgError: there is no solution, or more than one.

    >>> solve_sylvester(np.array([[2.0]]), np.array([[1.0]]), np.array([[6.0]]))
    Array([[2.]], dtype=float64)
    """
    operands = [floating(x, "solve_sylvester") for x in (a, b, q)]
    dtype = promote(tuple([x.dtype for x in operands]), (False,) * 3)
    x, y, z = [astype(x, dtype) for x in operands]
    square(x.aval, "solve_sylvester")
    square(y.aval, "solve_sylvester")
    lead = broadcast_shapes([x.shape[:-2], y.shape[:-2], z.shape[:-2]])
    if lead is None or z.shape[-2:] != (x.shape[-1], y.shape[-1]):
        raise ShapeError(
            f"solve_sylvester: q has the rows of a and the columns of b: got {x.aval}, {y.aval} and {z.aval}; reshape q"
        )
    full = [broadcast_to(v, (*lead, *v.shape[-2:])) for v in (x, y, z)]
    return bind_single(sylvester_p, *full, hermitian=False)


def solve_lyapunov(h: Array, q: Array) -> Array:
    """Return x with ``h @ x + x @ h = q`` for symmetric (Hermitian) h; what is undetermined is 0."""
    return bind_single(sylvester_p, h, h, q, hermitian=True)


def _abstract_sylvester(a: Aval, b: Aval, q: Aval, *, hermitian: bool) -> Aval:
    square(a, "solve_sylvester")
    return q


def _impl(a: Any, b: Any, q: Any, *, hermitian: bool) -> Any:
    square(Aval(a.shape, a.dtype), "solve_sylvester")
    if hermitian:
        w, v = eigh_by_lapack(a)
        vh = v.swapaxes(-1, -2).conj()
        sums = w[..., :, None] + w[..., None, :]
        inner = vh @ q @ v
        return v @ np.divide(inner, sums, out=np.zeros_like(inner), where=sums != 0) @ vh
    m, n = q.shape[-2:]
    one, other = np.eye(m, dtype=a.dtype), np.eye(n, dtype=a.dtype)
    system = np.einsum("...ij,kl->...ikjl", a, other) + np.einsum("ij,...lk->...ikjl", one, b)
    right = q.reshape(*q.shape[:-2], m * n, 1)
    return plain(np.linalg.solve(system.reshape(*q.shape[:-2], m * n, m * n), right)).reshape(q.shape)


def _push_sylvester(tangents: Tangents, z: Value, xs: Values, params: Params) -> Value:
    ta, tb, tq = tangents
    terms = [tq] if tq is not None else []
    terms += [-(ta @ z)] if ta is not None else []
    terms += [-(z @ tb)] if tb is not None else []
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return to_lower_level(bind_single(sylvester_p, xs[0], xs[1], total, **params))


def _pull_sylvester(
    ct: Value, z: Value, xs: Values, params: Params, avals: tuple[Aval | None, ...]
) -> list[Value | None]:
    y = bind_single(sylvester_p, transposed(xs[0]), transposed(xs[1]), ct, **params)
    cotangents = [
        -(y @ transposed(z)) if avals[0] is not None else None,
        -(transposed(z) @ y) if avals[1] is not None else None,
        y if avals[2] is not None else None,
    ]
    return [None if v is None else to_lower_level(v) for v in cotangents]


sylvester_p: Primitive = define(
    name="solve_sylvester",
    kind="custom",
    impl=_impl,
    abstract_eval=_abstract_sylvester,
    vjp_all=_pull_sylvester,
    reads=(7, 7, 6),
    jvp=_push_sylvester,
    batch=batch_along_axes("solve_sylvester"),
    calls_lapack=True,
)


# --- Polar decomposition: the factors, and the nuclear norm, whose derivative is the unitary one
#
# With ``a = u h``, u with orthonormal columns and h positive semidefinite, the factor turns by
#
#     du = u Ω + (1 - u uᴴ) da h⁻¹,    h Ω + Ω h = uᴴ da - daᴴ u
#
# (Kenney & Laub 1991): sums of singular values divide, no differences, so that equal ones are like any others.


class PolarResult(NamedTuple):
    """The factor with orthonormal columns (rows, of wide matrices), and the positive semidefinite one behind it."""

    u: Array
    p: Array


def polar(a: ArrayLike) -> PolarResult:
    """Return u and p with ``u @ p = a``: u has orthonormal columns or rows, p is symmetric and positive semidefinite.

    Derivatives of every order are right where singular values are equal; at matrices without full rank there are none.

    Args:
        a: float[..., m, n], real or complex.

    Raises:
        ShapeError: no matrices.
        numpy.linalg.LinAlgError: it does not converge.

    >>> polar(np.diag([2.0, -3.0])).p
    Array([[2., 0.],
           [0., 3.]], dtype=float64)
    """
    x = floating(a, "polar")
    matrices(x.aval, "polar")
    u = polar_factor(x, partial=False)
    return PolarResult(u, hermitian(adjoint(u) @ x))


def polar_factor(x: Array, partial: bool) -> Array:
    """Return the factor with orthonormal columns; ``partial`` leaves out directions of singular value 0."""
    if x.shape[-2] < x.shape[-1]:
        return adjoint(bind_single(polar_p, adjoint(x), partial=partial))
    return bind_single(polar_p, x, partial=partial)


def _polar_abstract(a: Aval, *, partial: bool) -> Aval:
    matrices(a, "polar")
    return a


def _polar_run(a: Any, *, partial: bool) -> Any:
    u, s, vh = svd_by_lapack(a)
    if partial:
        u = u * (s != 0)[..., None, :]
    return u @ vh


def _turn_factor(t: Array, u: Array, a: Array) -> Array:
    """Return how the factor turns: a linear function of t that is its own adjoint."""
    h = hermitian(adjoint(u) @ a)
    inner = adjoint(u) @ t
    turned = u @ solve_lyapunov(h, inner - adjoint(inner))
    if a.shape[-2] == a.shape[-1]:
        return turned
    outside = t - u @ inner
    return turned + adjoint(solve(h, adjoint(outside)))


def _polar_push(t: Array, z: Array, a: Array, *, partial: bool) -> Array:
    return _turn_factor(t, z, a)


def _polar_pull(ct: Array, z: Array, a: Array, *, partial: bool) -> Array:
    return conjugate(_turn_factor(conjugate(ct), z, a))


polar_p: Primitive = matrix_op("polar", _polar_run, _polar_abstract, _polar_push, _polar_pull, reads=3)


class QdwhResult(NamedTuple):
    """A polar decomposition, how many steps it took, and whether they converged."""

    u: Array
    h: Array
    num_iters: Array
    is_converged: Array


def qdwh(x: ArrayLike, *, is_hermitian: bool = False, max_iterations: int = 10, eps: float | None = None) -> QdwhResult:
    """Return `polar`'s u and p, here h, by weighted Halley steps (Nakatsukasa, Bai & Gygi 2010), with `polar`'s derivatives.

    Args:
        x: float[..., m, n], real or complex, of full rank, with no fewer rows than columns.
        is_hermitian: is not read, as in JAX.
        max_iterations: the most steps.
        eps: steps end when u moves by less than the cube root of 5 eps; the dtype's unless given.

    Raises:
        ShapeError: fewer rows than columns.

    >>> qdwh(np.diag([2.0, -3.0])).h.round(12)
    Array([[2., 0.],
           [0., 3.]], dtype=float64)
    """
    a = floating(x, "qdwh")
    matrices(a.aval, "qdwh")
    if a.shape[-2] < a.shape[-1]:
        raise ShapeError(f"qdwh: has as many rows as columns, or more: got {a.aval}; transpose it, or use polar")
    tolerance = epsilon(a.dtype) if eps is None else float(eps)
    u, steps, is_converged = bind(qdwh_p, a, eps=tolerance, limit=operator.index(max_iterations))
    return QdwhResult(u, hermitian(adjoint(u) @ a), steps, is_converged)


def _qdwh_abstract(a: Aval, *, eps: float, limit: int) -> tuple[Aval, Aval, Aval]:
    matrices(a, "qdwh")
    return a, Aval(a.shape[:-2], np.dtype(np.int64)), Aval(a.shape[:-2], np.dtype(bool))


def _qdwh_run(a: Any, *, eps: float, limit: int) -> tuple[Any, Any, Any]:
    u, steps, is_converged = (np.empty(z.shape, z.dtype) for z in _qdwh_abstract(aval_of(a), eps=eps, limit=limit))
    with np.errstate(all="ignore"):
        for k in np.ndindex(a.shape[:-2]):
            u[k], steps[k], is_converged[k] = _halley(a[k], eps, limit)
    return u, steps, is_converged


_norm: Any = np.linalg.norm  # its result type is not known to checkers


def _halley(a: Any, eps: float, limit: int) -> tuple[Any, int, bool]:
    """Return the unitary factor of one matrix, the steps that it took, and whether they converged."""
    u = a / a.dtype.type(math.sqrt(_one_norm(a) * _one_norm(a.T)) or 1)
    low, steps, is_converged = eps, 0, False  # low bounds the singular values of u from below
    while steps < limit and not (is_converged and low + 5 * eps >= 1):
        weights, low = _weights(low) if low + 5 * eps < 1 else ((3.0, 1.0, 3.0), low)
        last, u, steps = u, _halley_step(u, *weights), steps + 1
        is_converged = bool(_norm(u - last) <= np.cbrt(5 * eps))
    return 1.5 * u - 0.5 * u @ (u.conj().T @ u), steps, is_converged


def _one_norm(a: Any) -> float:
    return float(np.abs(a).sum(axis=0).max(initial=0))


def _weights(low: float) -> tuple[tuple[float, float, float], float]:
    """Return the weights of a step, and the bound of singular values after it."""
    square_ = low * low
    d = (4 * (1 / square_ - 1) / square_) ** (1 / 3)
    root = math.sqrt(1 + d)
    a = root + math.sqrt(2 - d + 2 * (2 - square_) / (square_ * root))
    b = (a - 1) ** 2 / 4
    c = a + b - 1
    return (a, b, c), low * (a + b * square_) / (1 + c * square_)


def _halley_step(u: Any, a: float, b: float, c: float) -> Any:
    """Return ``u (a + b uᴴu) (1 + c uᴴu)⁻¹``, by a QR factorisation."""
    first, rest, root = (u.real.dtype.type(x) for x in (b / c, (a - b / c) / math.sqrt(c), math.sqrt(c)))
    q = np.linalg.qr(np.concatenate([root * u, np.eye(u.shape[-1], dtype=u.dtype)]))[0]
    return first * u + rest * (q[: len(u)] @ q[len(u) :].conj().T)


def _qdwh_push(t: Array, z: tuple[Array, Array, Array], a: Array, **_params: Any) -> tuple[Array, None, None]:
    return _turn_factor(t, z[0], a), None, None


def _qdwh_pull(ct: tuple[Array, Any, Any], z: tuple[Array, Array, Array], a: Array, **_params: Any) -> Array:
    return conjugate(_turn_factor(conjugate(ct[0]), z[0], a))


qdwh_p: Primitive = matrix_op("qdwh", _qdwh_run, _qdwh_abstract, _qdwh_push, _qdwh_pull, reads=3, multiple_results=True)


def nuclear_norm(x: Array) -> Array:
    """Return the sum of the singular values."""
    return bind_single(nuclear_norm_p, x)


def _nuclear_abstract(a: Aval) -> Aval:
    matrices(a, "matrix_norm")
    return Aval(a.shape[:-2], real_dtype(a.dtype))


def _nuclear_run(a: Any) -> Any:
    values = singular_values_by_lapack(a)
    return values.sum(axis=-1)


def _nuclear_native(xp: Recorder, out: Any, a: Any) -> None:
    s = xp.new((*a.shape[:-2], min(a.shape[-2:])), np.float64)
    xp.call("linalg.svd", [finite_matrices(xp, a)], [s])
    xp.give(out, xp.reduce("add", xp.cast(s, out.dtype), s.ndim - 1))


nuclear_norm_p: Primitive = matrix_op(
    "nuclear_norm",
    _nuclear_run,
    _nuclear_abstract,
    lambda t, _z, a: sum_(real(conjugate(polar_factor(a, partial=True)) * t), axis=(-2, -1)),
    lambda ct, _z, a: reshape(ct, (*ct.shape, 1, 1)) * conjugate(polar_factor(a, partial=True)),
    reads=2,
    native=_nuclear_native,
)


# --- Matrix norms: norms, condition numbers and ranks from singular values

MatrixOrd: TypeAlias = float | Literal["fro", "nuc"]

ORDS = ("fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf)


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: MatrixOrd = "fro") -> Array:
    """Return a norm of matrices; derivatives at a zero matrix are 0, and equal singular values share them evenly.

    Args:
        x: float[..., m, n].
        keepdims: keeps the last two axes, with length 1.
        ord: ``"fro"`` (Frobenius), ``"nuc"`` (the sum of the singular values), 2 or -2 (the largest or smallest of them),
            1 or -1 (the largest or smallest sum of a column), inf or -inf (of a row).

    Raises:
        ArgumentError: another norm.
        ShapeError: no matrices.

    >>> matrix_norm(afx.asarray([[3.0, 4.0]]))
    Array(5., dtype=float32)
    """
    if x.__class__ in SEQUENCES:
        x = asarray(x)
    y = floating(x, "matrix_norm")
    matrices(y.aval, "matrix_norm")
    choice("matrix_norm", "ord", ord, ORDS)
    if ord == "fro":
        return vector_norm(y, (-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        if ord == "nuc" or (ord == 2 and 0 in y.shape[-2:]):  # of no singular values the largest is 0
            z = nuclear_norm(y)
        else:
            z = (max_ if ord == 2 else min_)(bind_single(svdvals_p, y), axis=-1)
        return reshape(z, (*z.shape, 1, 1)) if keepdims else z
    assert not isinstance(ord, str)
    sums = sum_(abs_(y), axis=-2 if abs(ord) == 1 else -1, keepdims=True)
    if ord > 0 and 0 in y.shape[-2:]:
        return sum_(sums, axis=(-2, -1), keepdims=keepdims)
    return (max_ if ord > 0 else min_)(sums, axis=(-2, -1), keepdims=keepdims)


def norm(
    x: ArrayLike,
    ord: float | Literal["fro", "f", "nuc"] | None = None,
    axis: int | tuple[int, ...] | None = None,
    keepdims: bool = False,
) -> Array:
    """Return NumPy's norm: Euclid's of all elements, or a vector or matrix norm along axes.

    Args:
        x: any shape where ``ord`` is None; a vector or a matrix where it is not, or along ``axis``.
        ord: None, or as `matrix_norm` has it for matrices, and `vector_norm` for vectors.
        axis: one axis for vector norms, two for matrix norms; None for all.
        keepdims: keeps the axes, with length 1.

    Raises:
        ArgumentError: a norm that vectors or matrices do not have.
        ShapeError: neither one axis nor two.

    >>> norm(afx.asarray([3.0, 4.0]))
    Array(5., dtype=float32)
    """
    if x.__class__ in SEQUENCES:
        x = asarray(x)
    if axis is None and ord is None and getattr(x, "dtype", None) in (float32, float64):
        return reduce_over(vector_norm_p, x, None, keepdims, "norm")
    y = as_array(in_floats(x, "norm"))
    if axis is None and ord is None:
        return vector_norm(y, keepdims=keepdims)
    given = tuple(range(y.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if len(given) == 1:
        if isinstance(ord, str):
            raise ArgumentError(f"norm: vectors have no norm {ord!r}: got {y.aval}; give a number, inf or -inf")
        return vector_norm(y, given, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(given) != 2:
        raise ShapeError(f"norm: norms are of one axis or two: got {y.aval} and axis={axis}; name them by axis=")
    normalize_axes(given, y.ndim, "norm")
    kind = "fro" if ord is None or ord == "f" else ord
    z = matrix_norm(moveaxis(y, given, (-2, -1)), ord=kind, keepdims=keepdims)
    return moveaxis(z, (-2, -1), given) if keepdims else z


def cond(x: ArrayLike, p: MatrixOrd | None = None) -> Array:
    """Return the condition number of matrices, ``norm(x, p) * norm(inv(x), p)``; inf where they are singular.

    Args:
        x: float[..., m, n]; square where p is not 2 or -2.
        p: as `matrix_norm` has it; None is 2, the largest singular value by the smallest, -2 its inverse.

    Raises:
        ShapeError: no matrices, or not square.
        ArgumentError: another norm.

    >>> cond(afx.asarray([[4.0, 0.0], [0.0, 2.0]]))
    Array(2., dtype=float32)
    """
    y = floating(x, "cond")
    matrices(y.aval, "cond")
    if 0 in y.shape[-2:]:
        raise np.linalg.LinAlgError(f"cond: empty matrices have none: got {y.aval}; give at least one row and column")
    if p in (None, 2, -2):
        s = bind_single(svdvals_p, y)
        large, small = (s[..., -1], s[..., 0]) if p == -2 else (s[..., 0], s[..., -1])
        return where(small == 0, np.inf, large / where(small == 0, 1, small))
    assert p is not None
    square(y.aval, "cond")
    singular = slogdet(y).logabsdet == -np.inf
    safe = where(reshape(singular, (*singular.shape, 1, 1)), eye(y.shape[-1], dtype=y.dtype), y)
    return where(singular, np.inf, matrix_norm(y, ord=p) * matrix_norm(inv(safe), ord=p))


def matrix_rank(
    A: ArrayLike, tol: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = None
) -> Array:
    """Return the rank of matrices: the number of singular values above a tolerance; it has no derivative.

    Args:
        A: float[..., m, n]; a vector or a number has rank 1, or 0 where it is zero.
        tol: the tolerance, of the shape of the leading axes or one for all.
        hermitian: whether A is symmetric (Hermitian), so that only its lower triangle is read.
        rtol: the tolerance relative to the largest singular value; max(m, n) times the dtype's resolution by default.

    Raises:
        ArgumentError: tol and rtol together.

    >>> int(matrix_rank(afx.asarray([[1.0, 2.0], [2.0, 4.0]])))
    1
    """
    x = floating(A, "matrix_rank")
    if tol is not None and rtol is not None:
        raise ArgumentError("matrix_rank: takes one tolerance: got tol and rtol; leave one out")
    if x.ndim < 2:
        return astype(count_nonzero(x) > 0, np.int64)
    if 0 in x.shape[-2:]:
        return zeros(x.shape[:-2], dtype=np.int64)
    s = bind_single(svdvals_p, symmetrize_lower(x) if hermitian else x)
    relative = max(x.shape[-2:]) * epsilon(real_dtype(x.dtype)) if rtol is None else rtol
    bound = max_(s, axis=-1) * asarray(relative, dtype=s.dtype) if tol is None else asarray(tol)
    return count_nonzero(s > reshape(bound, (*bound.shape, 1)), axis=-1)


# --- Least squares: minimum-norm solutions and pseudo-inverses of stacks of matrices
#
# The rules are those of Golub & Pereyra 1973, "The differentiation of pseudo-inverses and nonlinear least squares
# problems whose variables separate", for complex matrices with the conjugate transpose.


class LstsqResult(NamedTuple):
    """The solution, the sums of squared residuals, the rank, and the singular values of the matrix."""

    x: Array
    residuals: Array
    rank: Array
    singular_values: Array


def pinv(
    a: ArrayLike, rcond: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = None
) -> Array:
    """Return the Moore-Penrose pseudo-inverse of matrices.

    Its derivative is that among matrices of the same rank: where the rank changes there is none, and of singular values
    that ``rcond`` leaves out it holds as far as these are 0.

    Args:
        a: float[..., m, n], real or complex.
        rcond: singular values up to this share of the largest count as 0; max(m, n) times the dtype's resolution by
            default. One number, or one for each matrix, float[...], whose values must be known.
        hermitian: whether a is symmetric (Hermitian), so that only its lower triangle is read.
        rtol: the standard's name of rcond.

    Raises:
        ShapeError: no matrices, or other tolerances than one for each.
        ArgumentError: rcond is no number, or given twice.
        ConcreteValueError: rcond is not known yet.
        numpy.linalg.LinAlgError: it does not converge.

    >>> pinv(afx.asarray([[2.0, 0.0], [0.0, 0.0]]))
    Array([[0.5, 0. ],
           [0. , 0. ]], dtype=float32)
    """
    x = floating(a, "pinv")
    matrices(x.aval, "pinv")
    if hermitian:
        square(x.aval, "pinv")
    if rcond is not None and rtol is not None:
        raise ArgumentError("pinv: takes one tolerance: got rcond and rtol; leave one out")
    given = rtol if rcond is None else rcond
    full = symmetrize_lower(x) if hermitian else x
    if given is not None and aval_of(given, "pinv").ndim:
        return _one_by_one(full, asarray(given))
    return bind_single(pinv_p, full, rcond=_cutoff(x.aval, given, "pinv"))


def _one_by_one(x: Array, rcond: Array) -> Array:
    """Return the pseudo-inverses with a tolerance for each matrix: those that share one are taken together."""
    *batch, m, n = x.shape
    if broadcast_shapes([rcond.shape, tuple(batch)]) != tuple(batch):
        raise ShapeError(
            f"pinv: takes one tolerance, or one for each matrix: got {rcond.aval} for {x.aval}; reshape it"
        )
    cutoffs = np.broadcast_to(rcond.concrete("pinv"), batch).ravel()
    if not cutoffs.size:
        return bind_single(pinv_p, x, rcond=0.0)
    flat = reshape(x, (cutoffs.size, m, n))
    shared = np.unique(cutoffs, return_inverse=True)
    places = [np.flatnonzero(shared[1] == k) for k in range(shared[0].size)]
    inverses = concat([bind_single(pinv_p, flat[at], rcond=float(cutoffs[at[0]])) for at in places])
    return reshape(inverses[np.argsort(np.concatenate(places))], (*batch, n, m))


def _cutoff(a: Aval, given: Any, who: str) -> float:
    if given is None:
        return max(a.shape[-2:]) * epsilon(real_dtype(a.dtype))
    try:
        return float(given)
    except (TypeError, ValueError):
        raise ArgumentError(f"{who}: the tolerance is one number: got {given!r}; call it for each matrix") from None


def _abstract_lstsq(a: Aval, *, rcond: float) -> Aval:
    matrices(a, "pinv")
    return Aval((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)


def _run(a: Any, *, rcond: float) -> Any:
    return pinv_by_lapack(a, rcond)


def _push_lstsq(t: Array, z: Array, a: Array, *, rcond: float) -> Array:
    back = adjoint(z) @ z
    right = adjoint(t) - (adjoint(t) @ a) @ z
    left = adjoint(t) @ back
    return (z @ adjoint(z)) @ right + left - z @ (a @ left) - z @ t @ z


def _pull_lstsq(ct: Array, z: Array, a: Array, *, rcond: float) -> Array:
    g, h = conjugate(ct), adjoint(conjugate(ct))
    right = (h @ z) @ adjoint(z)
    left = (adjoint(z) @ z) @ h
    gradient = right - a @ (z @ right) + left - (left @ z) @ a - adjoint(z) @ g @ adjoint(z)
    return conjugate(gradient)


def _native_pinv(xp: Recorder, out: Any, a: Any, *, rcond: float) -> None:
    """Invert what is above the cutoff of singular values."""
    if not xp.has_own_bits:
        xp.refuse("singular values whose small ones NumPy leaves out")
    m, n = a.shape[-2:]
    k, lead = min(m, n), a.shape[:-2]
    u, s, vh = [xp.new((*lead, *core), np.float64) for core in ((m, k), (k,), (k, n))]
    xp.call("linalg.svd_s", [finite_matrices(xp, a)], [u, s, vh])
    is_large = xp.ufunc("greater", s, xp.ufunc("multiply", s[..., :1], rcond))
    inverses = xp.where(is_large, xp.ufunc("divide", 1.0, xp.where(is_large, s, 1.0)), 0.0)
    scaled, z = xp.new(u.shape, np.float64), xp.new((*lead, n, m), np.float64)
    xp.copy(scaled, xp.ufunc("multiply", u, inverses.reshape((*lead, 1, k))))
    xp.call("matmul", [vh.swapaxes(-1, -2), scaled.swapaxes(-1, -2)], [z], refuses=False)
    xp.give(out, xp.cast(z, out.dtype))


pinv_p: Primitive = matrix_op("pinv", _run, _abstract_lstsq, _push_lstsq, _pull_lstsq, reads=3, native=_native_pinv)


def lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None = None) -> LstsqResult:
    """Return the x of least length that makes ``a @ x - b`` shortest.

    Args:
        a: float[..., m, n], real or complex, of any rank.
        b: float[..., m, k], or a vector float[m].
        rcond: singular values up to this share of the largest count as 0; max(m, n) times the dtype's resolution by
            default.

    Returns:
        x[..., n, k], the sums of squared residuals[..., k] (none of them, [..., 0], where m <= n; unlike NumPy's they are
        given for matrices without full rank too, as shapes do not depend on values), the rank, and the singular values.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: rcond is no number.
        numpy.linalg.LinAlgError: it does not converge.

    >>> lstsq(afx.asarray([[1.0], [1.0]]), afx.asarray([1.0, 3.0])).x.round(3)
    Array([2.], dtype=float32)
    """
    x, y = promote_pair(a, b, "lstsq")
    matrices(x.aval, "lstsq")
    vector = y.ndim == 1
    if y.ndim < 1 or y.shape[0 if vector else -2] != x.shape[-2]:
        raise ShapeError(f"lstsq: rows of b are as many as those of a: got a {x.aval} and b {y.aval}; reshape b")
    cutoff = _cutoff(x.aval, rcond, "lstsq")
    right = reshape(y, (-1, 1)) if vector else y
    solution = bind_single(pinv_p, x, rcond=cutoff) @ right
    rank, s = matrix_rank(x, rtol=cutoff), bind_single(svdvals_p, x)
    if x.shape[-2] > x.shape[-1]:
        off = right - x @ solution
        residuals = sum_(real(off * conjugate(off)), axis=-2)
    else:
        residuals = zeros((*solution.shape[:-2], 0), dtype=s.dtype)
    return LstsqResult(solution[..., 0] if vector else solution, residuals, rank, s)
