"""Factorisations of symmetric (Hermitian) matrices: Cholesky's, and into eigenvectors. Leading axes are batches.

Rules are those of Giles 2008 and, for Cholesky's, of Murray 2016, "Differentiation of the Cholesky decomposition".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from afx.core.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of
from afx.core.dtypes import DType, real_dtype
from afx.core.primitive import Params, Primitive, Value, register
from afx.core.tracer import bind, lowered, raised, single
from afx.errors import DtypeError
from afx.ops.creation import eye
from afx.ops.linalg import checked, conjugate_transpose, floating, lapack, solve_p, square, transposed
from afx.ops.reductions import sum as sum_
from afx.ops.selection import where

__all__ = ["EighResult", "cholesky", "eigh", "eigvalsh"]


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors as columns."""

    eigenvalues: Array
    eigenvectors: Array


def cholesky(a: ArrayLike, *, upper: bool = False) -> Array:
    """Return the lower triangular L with ``L @ Lᴴ = a`` of symmetric (Hermitian) positive definite matrices.

    Only the lower triangle is read; derivatives are those of the symmetric part.

    Args:
        a: float[..., n, n].
        upper: returns Lᴴ.

    Raises:
        ShapeError: not square.
        numpy.linalg.LinAlgError: not positive definite.

    >>> cholesky(np.array([[4.0]]))
    Array([[2.]], dtype=float64)
    """
    x = floating(a, "cholesky")
    square(x.aval, "cholesky")
    z = single(cholesky_p, (x + conjugate_transpose(x)) / 2)
    return conjugate_transpose(z) if upper else z


def _cholesky_abstract(a: Aval) -> Aval:
    square(a, "cholesky")
    lapack(a, "cholesky")
    return Aval(a.shape, a.dtype)


def _real_only(x: Value, who: str) -> None:
    if x.dtype.kind == "c":
        raise DtypeError(
            f"{who}: complex matrices have no derivative here yet: got {aval_of(x)}; differentiate real ones"
        )


def _half(x: Value) -> Array:
    """Return the lower triangle with half of the diagonal."""
    n = x.shape[-1]
    weights = np.tri(n, n, -1) + 0.5 * np.eye(n)
    half: Array = x * weights.astype(real_dtype(x.dtype))
    return half


def _cholesky_pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
    _real_only(z, "cholesky")
    factor = raised(z)
    inner = _half(transposed(factor) @ raised(ct))
    found = single(solve_p, transposed(factor), transposed(single(solve_p, transposed(factor), transposed(inner))))
    return lowered((found + transposed(found)) / 2)


def _cholesky_push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    _real_only(z, "cholesky")
    factor = raised(z)
    inner = conjugate_transpose(single(solve_p, factor, conjugate_transpose(single(solve_p, factor, raised(ts[0])))))
    return lowered(factor @ _half(inner))


def _cholesky_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    return single(cholesky_p, xs[0])


cholesky_p = register(
    Primitive(
        name="cholesky",
        kind="custom",
        run=checked(_cholesky_abstract, np.linalg.cholesky),
        abstract=_cholesky_abstract,
        pullbacks=(_cholesky_pull,),
        reads=(1,),
        jvp=_cholesky_push,
        batch=_cholesky_batch,
    )
)


def eigh(a: ArrayLike) -> EighResult:
    """Return the eigenvalues, ascending, and eigenvectors of symmetric (Hermitian) matrices.

    Derivatives are those of the symmetric part. Between equal eigenvalues the eigenvectors' derivative does not exist
    and counts as 0, so that functions that do not depend on the choice of eigenvectors have finite, right derivatives.

    Raises:
        ShapeError: not square.

    >>> eigh(np.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    Array([1., 2.], dtype=float64)
    """
    x = floating(a, "eigh")
    square(x.aval, "eigh")
    values, vectors = bind(eigh_p, (x + conjugate_transpose(x)) / 2)
    return EighResult(values, vectors)


def eigvalsh(a: ArrayLike) -> Array:
    """Return the eigenvalues, ascending, of symmetric (Hermitian) matrices.

    >>> eigvalsh(np.array([[2.0, 0.0], [0.0, 1.0]]))
    Array([1., 2.], dtype=float64)
    """
    return eigh(a).eigenvalues


def _eigh_abstract(a: Aval) -> tuple[Aval, Aval]:
    square(a, "eigh")
    lapack(a, "eigh")
    return Aval(a.shape[:-1], real_dtype(a.dtype)), Aval(a.shape, a.dtype)


def _eigh_run(a: Any) -> tuple[Any, Any]:
    found = np.linalg.eigh(a)
    return found[0], found[1]


def _gaps(w: Array) -> Array:
    """Return 1 / (w_j - w_i), 0 where they are equal."""
    d = w.reshape((*w.shape[:-1], 1, w.shape[-1])) - w.reshape((*w.shape, 1))
    return where(d == 0, 0.0, 1 / where(d == 0, 1.0, d))


def _diagonal(w: Array) -> Array:
    return w.reshape((*w.shape, 1)) * eye(w.shape[-1], dtype=w.dtype)


def _eigh_joint(
    ct: Value, z: Value, xs: tuple[Value, ...], params: Params, avals: tuple[Aval | None, ...]
) -> list[Value]:
    _real_only(z[1], "eigh")
    w, v = (raised(x) for x in z)
    cw, cv = (raised(c) for c in ct)
    found = v @ (_diagonal(cw) + _gaps(w) * (transposed(v) @ cv)) @ transposed(v)
    return [lowered((found + transposed(found)) / 2)]


def _eigh_push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    _real_only(z[1], "eigh")
    w, v = (raised(x) for x in z)
    inner = transposed(v) @ raised(ts[0]) @ v
    slope = sum_(inner * eye(w.shape[-1], dtype=w.dtype), axis=-1)
    return lowered(slope), lowered(v @ (_gaps(w) * inner))


def _eigh_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    return bind(eigh_p, xs[0])


eigh_p = register(
    Primitive(
        name="eigh",
        kind="custom",
        run=checked(_eigh_abstract, _eigh_run),
        abstract=_eigh_abstract,
        joint=_eigh_joint,
        reads=(1,),
        jvp=_eigh_push,
        batch=_eigh_batch,
        multiple=True,
    )
)
