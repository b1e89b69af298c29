"""Cholesky factorization: lower triangular factors of stacks of matrices.

Rules are those of Murray 2016, "Differentiation of the Cholesky decomposition", for complex matrices with the conjugate
transpose.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval
from afx.core.dtypes import DType, real_dtype
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind_single
from afx.ops._kinds.matrix import adjoint, by_lapack, conjugate, floating, hermitian, matrix_op, square
from afx.ops.linalg.triangular import right_solve_triangular, substituted

__all__ = ["cholesky"]


def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Array:
    """Return the lower triangular L with ``L @ Lᴴ = a`` of symmetric (Hermitian) positive definite matrices.

    Only the lower triangle is read (the upper one where ``upper``); derivatives are those of the symmetric (Hermitian)
    part.

    Args:
        a: float[..., n, n], real or complex.
        upper: returns the upper triangular U with ``Uᴴ @ U = a``.

    Raises:
        ShapeError: not square.
        numpy.linalg.LinAlgError: not positive definite.

    >>> cholesky(np.array([[4.0]]))
    Array([[2.]], dtype=float64)
    """
    x = floating(a, "cholesky")
    square(x.aval, "cholesky")
    z = bind_single(cholesky_p, adjoint(x) if upper else x)
    return adjoint(z) if upper else z


def _abstract(a: Aval) -> Aval:
    square(a, "cholesky")
    return Aval(a.shape, a.dtype)


def _half(x: Array) -> Array:
    """Return the lower triangle with half of the diagonal."""
    half: Array = x * _weights(x.shape[-1], real_dtype(x.dtype))
    return half


@functools.lru_cache(maxsize=16)
def _weights(n: int, dtype: DType) -> Any:
    return (np.tri(n, n, -1) + 0.5 * np.eye(n)).astype(dtype)


def _push(t: Array, z: Array, a: Any) -> Array:
    inner = right_solve_triangular(substituted(z, hermitian(t), lower=True), adjoint(z), lower=False)
    return z @ _half(inner)


def _pull(ct: Array, z: Array, a: Any) -> Array:
    inner = _half(adjoint(z) @ conjugate(ct))
    found: Array = conjugate(
        hermitian(right_solve_triangular(substituted(adjoint(z), inner, lower=False), z, lower=True))
    )
    return found


cholesky_p: Primitive = matrix_op(
    "cholesky", np.linalg.cholesky, _abstract, _push, _pull, reads=1, native=by_lapack("cholesky_lo")
)
