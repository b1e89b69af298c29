"""Spectra: eigenvalues and eigenvectors, singular values and vectors of stacks of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np

from afx.core import Array, ArrayLike, Aval, DType, Primitive, bind, bind_single, real_dtype
from afx.ops._kinds.matrix import (
    IGNORED,
    adjoint,
    choice,
    column,
    conjugate,
    diag_embed,
    divide_by_gaps,
    eigh_by_lapack,
    either,
    finite_matrices,
    floating,
    hermitian,
    inverse_or_zero,
    largest,
    living_columns,
    living_values,
    matrices,
    matrix_op,
    not_finite,
    plain,
    row,
    singular_values_by_lapack,
    square,
    svd_by_lapack,
    symmetrize_lower,
    transposed,
)
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.comparison import where
from afx.ops.elementwise.complex import real
from afx.ops.linalg.solve import inv, solve
from afx.ops.manipulation.edit import diagonal
from afx.ops.manipulation.join import concat
from afx.ops.reductions.sums import sum as sum_

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


# --- Eigendecomposition: eigenvalues and eigenvectors of stacks of symmetric (Hermitian) and general matrices
#
# Source: Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation".
# Complex matrices take the conjugate transpose; eigenvectors have length 1.


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


class EigResult(NamedTuple):
    """Eigenvalues in no order, and eigenvectors of length 1 as columns."""

    eigenvalues: Array
    eigenvectors: Array


# -- symmetric (Hermitian) --
def eigh(a: ArrayLike, UPLO: Literal["L", "U"] | None = None) -> EighResult:
    """Return the eigenvalues, ascending, and eigenvectors of symmetric (Hermitian) matrices.

    Without UPLO they are those of the symmetric (Hermitian) part, as in JAX; NumPy reads the lower triangle. An
    eigenvector can change its sign (its phase, where complex): the derivatives are of eigenvectors that turn no more than
    they must. Those of equal eigenvalues turn among each other without bound: derivatives of what depends on them are
    nan, and so are second derivatives, while first derivatives of what depends on eigenvalues alone are right. Functions
    of a matrix, such as `sqrtm`, `logm` and `funm` with ``hermitian=True``, have all derivatives there.

    Args:
        a: float[..., n, n], real or complex.
        UPLO: the triangle that is read, and differentiated: "L" (lower) or "U" (upper); None for both.

    Raises:
        ShapeError: not square.
        ArgumentError: another triangle.
        numpy.linalg.LinAlgError: it does not converge; of matrices with inf or nan, results are nan.

    >>> eigh(np.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Array([1., 2.], dtype=float64)
    """
    upper = {"upper": True} if UPLO is not None and UPLO in "Uu" else {}  # LAPACK's signs are those of the triangle
    return EighResult(*bind(eigh_p, _operand_eigen(a, UPLO, "eigh"), **upper))


def eigvalsh(a: ArrayLike, UPLO: Literal["L", "U"] | None = None) -> Array:
    """Return the eigenvalues, ascending, of symmetric (Hermitian) matrices; arguments and derivatives are `eigh`'s.

    >>> eigvalsh(np.array([[2.0, 0.0], [0.0, 1.0]]))
    Array([1., 2.], dtype=float64)
    """
    return bind_single(eigvalsh_p, _operand_eigen(a, UPLO, "eigvalsh"))


def _operand_eigen(a: ArrayLike, triangle: str | None, who: str) -> Array:
    """Return an operand of which the Hermitian part is to be taken."""
    x = floating(a, who)
    square(x.aval, who)
    if triangle is None:
        return x
    choice(who, "UPLO", triangle, ("L", "U", "l", "u"))
    return symmetrize_lower(adjoint(x) if triangle in "Uu" else x)


def _hermitian_part(a: Any) -> Any:
    half = a / 2  # the sum could overflow
    return half + half.swapaxes(-1, -2).conj()


def _eigh_abstract(a: Aval, *, upper: bool = False) -> tuple[Aval, Aval]:
    square(a, "eigh")
    return Aval(a.shape[:-1], real_dtype(a.dtype)), Aval(a.shape, a.dtype)


def _eigh_native(xp: Recorder, w: Any, v: Any, a: Any, *, upper: bool = False) -> None:
    xp.call("linalg.eigh_up" if upper else "linalg.eigh_lo", [_hermitian_matrix(xp, a)], [w, v], quiet=IGNORED)


def _hermitian_matrix(xp: Recorder, a: Any) -> Any:
    """Return what `_hermitian_part` does of recorded matrices, as LAPACK's loops take them."""
    xp.check_floats(a)
    half = xp.ufunc("divide", a, 2.0)
    return finite_matrices(xp, xp.ufunc("add", half, half.swapaxes(-1, -2)))


def _eigh_push(t: Array, z: tuple[Array, Array], a: Any, *, upper: bool = False) -> tuple[Array, Array]:
    w, v = z
    h = hermitian(t)
    inner = adjoint(v) @ h @ v
    return real(diagonal(inner)), v @ divide_by_gaps(inner, w, largest(w), h)


def _eigh_pull(
    ct: tuple[Array, Array], z: tuple[Array, Array], a: Any, *, alive: tuple[Any, Any], upper: bool = False
) -> Array:
    w, v = z
    g = conjugate(ct[1])
    marks = living_columns(alive[1]), living_values(alive[0])
    inner = diag_embed(ct[0]) + divide_by_gaps(adjoint(v) @ g, w, largest(w), g, marks)
    return conjugate(hermitian(v @ inner @ adjoint(v)))


def _eigh_run(a: Any, *, upper: bool = False) -> Any:
    return eigh_by_lapack(_hermitian_part(a), "U" if upper else "L")


eigh_p: Primitive = matrix_op(
    "eigh",
    _eigh_run,
    _eigh_abstract,
    _eigh_push,
    _eigh_pull,
    reads=1,
    multiple_results=True,
    is_read=True,
    native=_eigh_native,
)


def _eigvalsh_abstract(a: Aval) -> Aval:
    square(a, "eigvalsh")
    return Aval(a.shape[:-1], real_dtype(a.dtype))


def _eigvalsh_push(t: Array, z: Any, a: Array) -> Array:
    v = bind(eigh_p, a)[1]
    return real(diagonal(adjoint(v) @ hermitian(t) @ v))


def _eigvalsh_pull(ct: Array, z: Any, a: Array) -> Array:
    v = bind(eigh_p, a)[1]
    return conjugate(v * row(ct) @ adjoint(v))


def _eigvalsh_run(a: Any) -> Any:
    half = _hermitian_part(a)
    wrong = not_finite(half)
    if wrong is None:
        return np.linalg.eigvalsh(half)
    return np.where(wrong[..., 0], np.nan, np.linalg.eigvalsh(np.where(wrong, 0, half)))


def _eigvalsh_native(xp: Recorder, w: Any, a: Any) -> None:
    xp.call("linalg.eigvalsh_lo", [_hermitian_matrix(xp, a)], [w], quiet=IGNORED)


eigvalsh_p: Primitive = matrix_op(
    "eigvalsh", _eigvalsh_run, _eigvalsh_abstract, _eigvalsh_push, _eigvalsh_pull, reads=2, native=_eigvalsh_native
)


# -- general --
def eig(a: ArrayLike) -> EigResult:
    """Return the eigenvalues and eigenvectors of square matrices; they are always complex (NumPy's: only where needed).

    The phase of an eigenvector is not unique: the derivative is of one whose change is orthogonal to it. Between equal
    eigenvalues what depends on eigenvectors has derivative nan, as in `eigh`. At matrices without n independent eigenvectors
    there is no derivative: near them it grows without bound.

    Args:
        a: float[..., n, n], real or complex.

    Raises:
        ShapeError: not square.
        numpy.linalg.LinAlgError: nan or inf; where it is differentiated, eigenvectors that are dependent.

    >>> eig(np.array([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues.imag
    Array([ 1., -1.], dtype=float64)
    """
    return EigResult(*bind(eig_p, floating(a, "eig")))


def eigvals(a: ArrayLike) -> Array:
    """Return the eigenvalues of square matrices; they are always complex, and their derivatives are `eig`'s.

    >>> eigvals(np.array([[2.0, 1.0], [0.0, 1.0]])).real
    Array([2., 1.], dtype=float64)
    """
    return bind_single(eigvals_p, floating(a, "eigvals"))


def _complex(dtype: DType) -> DType:
    return np.dtype({"f": "F", "d": "D"}.get(dtype.char, dtype.char))


def _eig_abstract(a: Aval) -> tuple[Aval, Aval]:
    square(a, "eig")
    return Aval(a.shape[:-1], _complex(a.dtype)), Aval(a.shape, _complex(a.dtype))


def _eig_run(a: Any) -> Any:
    w, v = np.linalg.eig(a)
    return w.astype(_complex(a.dtype)), v.astype(_complex(a.dtype))


def _apart(x: Array, v: Array) -> Array:
    """Return columns without their parts along those of v, which have length 1."""
    return x - v * sum_(conjugate(v) * x, axis=-2, keepdims=True)


def _eig_push(t: Array, z: tuple[Array, Array], a: Any) -> tuple[Array, Array]:
    w, v = z
    inner = solve(v, t @ v)
    return diagonal(inner), _apart(v @ divide_by_gaps(inner, w, largest(w), inner), v)


def _eig_pull(ct: tuple[Array, Array], z: tuple[Array, Array], a: Any, *, alive: tuple[Any, Any]) -> Array:
    w, v = z
    gw, gv = conjugate(ct[0]), conjugate(ct[1])
    turned = adjoint(v) @ _apart(gv, v)
    marks = living_columns(alive[1]), living_values(alive[0])
    inner = diag_embed(gw) + divide_by_gaps(turned, conjugate(w), largest(w), turned, marks)
    return conjugate(solve(adjoint(v), inner @ adjoint(v)))


eig_p: Primitive = matrix_op(
    "eig", _eig_run, _eig_abstract, _eig_push, _eig_pull, reads=1, multiple_results=True, is_read=True
)


def _eigvals_abstract(a: Aval) -> Aval:
    square(a, "eigvals")
    return Aval(a.shape[:-1], _complex(a.dtype))


def _eigvals_run(a: Any) -> Any:
    return plain(np.linalg.eigvals(a)).astype(_complex(a.dtype))


def _eigvals_push(t: Array, z: Any, a: Array) -> Array:
    v = bind(eig_p, a)[1]
    return diagonal(solve(v, t @ v))


def _eigvals_pull(ct: Array, z: Any, a: Array) -> Array:
    v = bind(eig_p, a)[1]
    return transposed(v * row(ct) @ inv(v))


eigvals_p: Primitive = matrix_op("eigvals", _eigvals_run, _eigvals_abstract, _eigvals_push, _eigvals_pull, reads=2)


# --- Singular value decomposition: of stacks of matrices, and singular values alone
#
# The rules are those of Townsend 2016, "Differentiating the singular value decomposition", and Giles 2008, with 1 /
# (s_j² - s_i²) split into 1 / (s_j - s_i) and 1 / (s_j + s_i). So only the former is lost where singular values are
# equal.


class SVDResult(NamedTuple):
    """Left singular vectors as columns, singular values, descending, and right singular vectors as conjugated rows."""

    U: Array
    S: Array
    Vh: Array


@overload
def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: Literal[True] = True, hermitian: bool = False
) -> SVDResult: ...


@overload
def svd(a: ArrayLike, full_matrices: bool, compute_uv: Literal[False], hermitian: bool = False) -> Array: ...


@overload
def svd(a: ArrayLike, full_matrices: bool = True, *, compute_uv: Literal[False], hermitian: bool = False) -> Array: ...


def svd(
    a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> SVDResult | Array:
    """Return U, S and Vh with ``U[..., :k] * S @ Vh[..., :k, :] = a``, where k is the smaller of m and n.

    Singular vectors are not unique. Each pair can change its sign (its phase, where complex). Vectors of equal singular
    values rotate among each other, and ``full_matrices`` adds any basis of the complement. The derivatives are of vectors
    that rotate no more than they must; functions that do not depend on the choice have right ones. Vectors of equal
    singular values have no derivative: derivatives through them are nan, and so are second derivatives. So it is with
    those of a singular value 0 that could turn out of the space which the others span. First derivatives through singular
    values alone are right; `polar` has all derivatives there.

    Args:
        a: float[..., m, n], real or complex.
        full_matrices: whether U[..., m, m] and Vh[..., n, n] are square; U[..., m, k] and Vh[..., k, n] where not.
        compute_uv: whether singular vectors are wanted; only S where not, as `svdvals`.
        hermitian: whether a is symmetric (Hermitian), so that only its lower triangle is read.

    Raises:
        ShapeError: no matrices.
        numpy.linalg.LinAlgError: it does not converge; of matrices with inf or nan, results are nan.

    >>> svd(afx.asarray([[3.0, 0.0], [0.0, 4.0]])).S
    Array([4., 3.], dtype=float32)
    """
    x = _operand_svd(a, hermitian, "svd")
    return SVDResult(*bind(svd_p, x, full=full_matrices)) if compute_uv else bind_single(svdvals_p, x)


def svdvals(x: ArrayLike, /) -> Array:
    """Return the singular values of matrices, descending.

    Between equal ones the derivative by each is that of one choice of singular vectors: functions that treat equal
    singular values alike have right derivatives.

    Raises:
        ShapeError: no matrices.
        numpy.linalg.LinAlgError: it does not converge; of matrices with inf or nan, results are nan.

    >>> svdvals(afx.asarray([[3.0, 0.0], [0.0, 4.0]]))
    Array([4., 3.], dtype=float32)
    """
    return bind_single(svdvals_p, _operand_svd(x, False, "svdvals"))


def _operand_svd(a: ArrayLike, hermitian: bool, who: str) -> Array:
    x = floating(a, who)
    matrices(x.aval, who)
    if hermitian:
        square(x.aval, who)
    return symmetrize_lower(x) if hermitian else x


def _abstract(a: Aval, *, full: bool) -> tuple[Aval, Aval, Aval]:
    matrices(a, "svd")
    *lead, m, n = a.shape
    k = min(m, n)
    rows, columns = (m, n) if full else (k, k)
    return (Aval((*lead, m, rows), a.dtype), Aval((*lead, k), real_dtype(a.dtype)), Aval((*lead, columns, n), a.dtype))


def _run(a: Any, *, full: bool) -> Any:
    return svd_by_lapack(a, full=full)


def _native(xp: Recorder, u: Any, s: Any, vh: Any, a: Any, *, full: bool) -> None:
    xp.call("linalg.svd_f" if full else "linalg.svd_s", [finite_matrices(xp, a)], [u, s, vh], quiet=IGNORED)


def _sums(s: Array) -> Array:
    """Return the matrix of 1 / (s_i + s_j), 0 where both are 0."""
    return inverse_or_zero(row(s) + column(s))


def _even(x: Array, s: Array, against: Array, alive: tuple[Any, Any] = (True, False)) -> Array:
    """Return the part of a derivative that turns left and right singular vectors alike: over differences of singular values."""
    return divide_by_gaps(x, s, row(s) + column(s), against, alive)


def _odd(x: Array, s: Array, alive: tuple[Any, Any] = (True, False)) -> Array:
    """Return the part that turns them apart, a complex pair by its phase too: over sums of singular values."""
    if x.dtype.kind != "c":
        return _sums(s) * x
    vectors, values = map(either, alive)
    turns = (row(s) + column(s) == 0) & vectors & (values | (x != 0))
    return where(turns, np.nan, _sums(s) * x)


def _over_values(x: Array, s: Array, alive: tuple[Any, Any] = (True, False)) -> Array:
    """Return columns over singular values; over 0 they are 0, and nan where they, or cotangents, are not."""
    vectors, values = alive
    turns = (row(s) == 0) & vectors & (values | (x != 0))
    return where(turns, np.nan, x * row(inverse_or_zero(s)))


def _push_vectors(u: Array, turn: Array, out: Array, s: Array) -> Array:
    """Return the tangent of vectors that turn among themselves and, by ``out`` over s, out of the space they span."""
    k = turn.shape[-1]
    near, far = u[..., :k], u[..., k:]
    if u.shape[-2] == k:
        return near @ turn
    if not far.shape[-1]:
        return near @ turn + _over_values(out - near @ (adjoint(near) @ out), s)
    away = _over_values(adjoint(far) @ out, s)
    return concat([near @ turn + far @ away, -near @ adjoint(away)], axis=-1)


def _pull_vectors(u: Array, g: Array, k: int) -> Array:
    """Return the adjoint of `_push_vectors` by ``out``."""
    near, far = u[..., :k], u[..., k:]
    if not far.shape[-1]:
        return g - near @ (adjoint(near) @ g)
    return far @ (adjoint(far) @ g[..., :k] - adjoint(g[..., k:]) @ near)


def _push(t: Array, z: tuple[Array, Array, Array], a: Array, *, full: bool) -> tuple[Array, Array, Array]:
    u, s, vh = z
    k = s.shape[-1]
    left, right = u[..., :k], adjoint(vh[..., :k, :])
    inner = adjoint(left) @ t @ right
    even, odd = _even(inner + adjoint(inner), s, inner), _odd(inner - adjoint(inner), s)
    du = _push_vectors(u, (even + odd) / 2, t @ right, s)
    dv = _push_vectors(adjoint(vh), (even - odd) / 2, adjoint(t) @ left, s)
    return du, real(diagonal(inner)), adjoint(dv)


def _pull(
    ct: tuple[Array, Array, Array], z: tuple[Array, Array, Array], a: Any, *, full: bool, alive: tuple[Any, Any, Any]
) -> Array:
    """Return the cotangent of a matrix from those of its singular vectors and values (Townsend, 2016)."""
    u, s, vh = z
    v, k = adjoint(vh), s.shape[-1]
    of_u, of_v, values = _living(alive, k)
    both = of_u | of_v, values
    gu, gv = conjugate(ct[0]), conjugate(adjoint(ct[2]))  # adjoint rules in the inner product Re tr(gᴴ dz)
    left, right = u[..., :k], v[..., :k]
    x, y = adjoint(left) @ gu[..., :k], adjoint(right) @ gv[..., :k]
    even, odd = (
        _even(x + y, s, abs_(gu).sum((-2, -1), keepdims=True) + abs_(gv).sum((-2, -1), keepdims=True), both),
        _odd(x - y, s, both),
    )
    inner = (even + adjoint(even) + odd - adjoint(odd)) / 2 + diag_embed(ct[1])
    gradient = left @ inner @ adjoint(right)
    if u.shape[-2] > k:
        gradient = gradient + _over_values(_pull_vectors(u, gu, k), s, (of_u, values)) @ adjoint(right)
    if v.shape[-2] > k:
        gradient = gradient + left @ adjoint(_over_values(_pull_vectors(v, gv, k), s, (of_v, values)))
    return conjugate(gradient)


def _living(alive: tuple[Any, Any, Any], k: int) -> tuple[Any, Any, Any]:
    """Return bool[..., 1, k], or True or False of all: whether left and right vectors, and values, are alive."""
    left, values, right = alive
    left = left if isinstance(left, bool) else left[..., :k]
    right = right if isinstance(right, bool) else transposed(right[..., :k, :])
    return living_columns(left), living_columns(right), living_values(values)


svd_p: Primitive = matrix_op(
    "svd", _run, _abstract, _push, _pull, reads=1, multiple_results=True, is_read=True, native=_native
)


# -- singular values --
def _values_abstract(a: Aval) -> Aval:
    matrices(a, "svdvals")
    return Aval((*a.shape[:-2], min(a.shape[-2:])), real_dtype(a.dtype))


def _values_native(xp: Recorder, s: Any, a: Any) -> None:
    xp.call("linalg.svd", [finite_matrices(xp, a)], [s], quiet=IGNORED)


def _values_push(t: Array, z: Array, a: Array) -> Array:
    u, _, vh = bind(svd_p, a, full=False)
    return real(diagonal(adjoint(u) @ t @ adjoint(vh)))


def _values_pull(ct: Array, z: Any, a: Array) -> Array:
    u, _, vh = bind(svd_p, a, full=False)
    return conjugate(u * row(ct) @ vh)


svdvals_p: Primitive = matrix_op(
    "svdvals", singular_values_by_lapack, _values_abstract, _values_push, _values_pull, reads=2, native=_values_native
)
