"""Cholesky factorization: lower triangular factors of stacks of matrices.

Rules are those of Murray 2016, "Differentiation of the Cholesky decomposition", for complex matrices with the conjugate
transpose.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval
from afx.core.dtypes import DType, real_dtype
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind_single
from afx.ops._kinds.matrix import adjoint, by_lapack, conjugate, floating, hermitian, matrix_op, square
from afx.ops.linalg.triangular import right_solve_triangular, substituted

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder

__all__ = ["cholesky"]

_lapack: Any = np.linalg.cholesky  # its result type is not known to checkers
_gives_nan: contextvars.ContextVar[bool] = contextvars.ContextVar("afx_cholesky_gives_nan", default=False)


@contextlib.contextmanager
def giving_nan() -> Generator[None]:
    """Let `cholesky` give nan for what is not positive definite: what leaves a density's support shall not raise."""
    token = _gives_nan.set(True)
    try:
        yield
    finally:
        _gives_nan.reset(token)


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
    op = cholesky_or_nan_p if _gives_nan.get() else cholesky_p
    z = bind_single(op, adjoint(x) if upper else x)
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


def _factor_or_nan(a: Any) -> Any:
    try:
        return _lapack(a)
    except np.linalg.LinAlgError:
        if a.ndim == 2:
            return np.full(a.shape, np.nan, a.dtype)
    out = np.empty(a.shape, a.dtype)
    for k in np.ndindex(*a.shape[:-2]):
        out[k] = _factor_or_nan(a[k])
    return out


def _factor_natively(xp: Recorder, out: Any, a: Any) -> None:
    xp.call("linalg.cholesky_lo", [xp.matrix(a)], [out], refuses=False, quiet=("divide", "invalid", "over"))


cholesky_p: Primitive = matrix_op(
    "cholesky", np.linalg.cholesky, _abstract, _push, _pull, reads=1, native=by_lapack("cholesky_lo")
)
cholesky_or_nan_p: Primitive = matrix_op(
    "cholesky_or_nan", _factor_or_nan, _abstract, _push, _pull, reads=1, native=_factor_natively
)
