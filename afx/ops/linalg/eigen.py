"""Eigendecomposition: eigenvalues and eigenvectors of stacks of symmetric (Hermitian) and general matrices.

Source: Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation". Complex
matrices take the conjugate transpose; eigenvectors have length 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval
from afx.core.dtypes import DType, real_dtype
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind, bind_single
from afx.ops._kinds.matrix import (
    IGNORED,
    adjoint,
    arrays,
    choice,
    conjugate,
    diag_embed,
    divide_by_gaps,
    floating,
    hermitian,
    largest,
    living_columns,
    living_values,
    matrix_op,
    plain,
    row,
    square,
    symmetrize_lower,
    transposed,
)
from afx.ops.elementwise.complex import real
from afx.ops.linalg.solve import inv, solve
from afx.ops.manipulation.diagonals import diagonal
from afx.ops.reductions.sums import sum as sum_

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder

__all__ = ["EigResult", "EighResult", "eig", "eigh", "eigvals", "eigvalsh"]


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
        numpy.linalg.LinAlgError: it does not converge.

    >>> eigh(np.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Array([1., 2.], dtype=float64)
    """
    upper = {"upper": True} if UPLO is not None and UPLO in "Uu" else {}  # LAPACK's signs are those of the triangle
    return EighResult(*bind(eigh_p, _operand(a, UPLO, "eigh"), **upper))


def eigvalsh(a: ArrayLike, UPLO: Literal["L", "U"] | None = None) -> Array:
    """Return the eigenvalues, ascending, of symmetric (Hermitian) matrices; arguments and derivatives are `eigh`'s.

    >>> eigvalsh(np.array([[2.0, 0.0], [0.0, 1.0]]))
    Array([1., 2.], dtype=float64)
    """
    return bind_single(eigvalsh_p, _operand(a, UPLO, "eigvalsh"))


def _operand(a: ArrayLike, triangle: str | None, who: str) -> Array:
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
    return xp.matrix(xp.ufunc("add", half, half.swapaxes(-1, -2)))


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
    return arrays(np.linalg.eigh(_hermitian_part(a), "U" if upper else "L"))


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
    return np.linalg.eigvalsh(_hermitian_part(a))


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
    x = floating(a, "eig")
    return EigResult(*bind(eig_p, x))


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
    along = sum_(conjugate(v) * x, axis=-2, keepdims=True)
    return x - v * along


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
