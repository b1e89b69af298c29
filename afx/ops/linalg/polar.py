"""Polar decomposition: the factors, and the nuclear norm, whose derivative is the unitary one.

With ``a = u h``, u with orthonormal columns and h positive semidefinite, the factor turns by

    du = u Ω + (1 - u uᴴ) da h⁻¹,    h Ω + Ω h = uᴴ da - daᴴ u

(Kenney & Laub 1991): sums of singular values divide, no differences, so that equal ones are like any others.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval
from afx.core.dtypes import real_dtype
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind_single
from afx.ops._kinds.matrix import adjoint, conjugate, floating, hermitian, matrices, matrix_op
from afx.ops.elementwise.complex import real
from afx.ops.linalg.solve import solve
from afx.ops.linalg.sylvester import solve_lyapunov
from afx.ops.manipulation.shape import reshape
from afx.ops.reductions.sums import sum as sum_

__all__ = ["PolarResult", "nuclear_norm", "polar"]


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
        numpy.linalg.LinAlgError: it does not converge, as with nan.

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
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    if partial:
        u = u * (s != 0)[..., None, :]
    return u @ vh


def _turn_factor(t: Array, u: Array, a: Array) -> Array:
    """Return how the factor turns: a linear function of t that is its own adjoint."""
    h = hermitian(adjoint(u) @ a)
    inner = adjoint(u) @ t
    found = u @ solve_lyapunov(h, inner - adjoint(inner))
    if a.shape[-2] == a.shape[-1]:
        return found
    outside = t - u @ inner
    return found + adjoint(solve(h, adjoint(outside)))


def _polar_push(t: Array, z: Array, a: Array, *, partial: bool) -> Array:
    return _turn_factor(t, z, a)


def _polar_pull(ct: Array, z: Array, a: Array, *, partial: bool) -> Array:
    return conjugate(_turn_factor(conjugate(ct), z, a))


polar_p: Primitive = matrix_op("polar", _polar_run, _polar_abstract, _polar_push, _polar_pull, reads=3)


def nuclear_norm(x: Array) -> Array:
    """Return the sum of the singular values."""
    return bind_single(nuclear_norm_p, x)


def _nuclear_abstract(a: Aval) -> Aval:
    matrices(a, "matrix_norm")
    return Aval(a.shape[:-2], real_dtype(a.dtype))


def _nuclear_run(a: Any) -> Any:
    return np.sum(np.linalg.svd(a, compute_uv=False), axis=-1)


def _nuclear_push(t: Array, z: Any, a: Array) -> Array:
    return sum_(real(conjugate(polar_factor(a, partial=True)) * t), axis=(-2, -1))


def _nuclear_pull(ct: Array, z: Any, a: Array) -> Array:
    return reshape(ct, (*ct.shape, 1, 1)) * conjugate(polar_factor(a, partial=True))


nuclear_norm_p: Primitive = matrix_op(
    "nuclear_norm", _nuclear_run, _nuclear_abstract, _nuclear_push, _nuclear_pull, reads=2
)
