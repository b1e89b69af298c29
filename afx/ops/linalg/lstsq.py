"""Least squares: minimum-norm solutions and pseudo-inverses of stacks of matrices.

The rules are those of Golub & Pereyra 1973, "The differentiation of pseudo-inverses and nonlinear least squares problems
whose variables separate", for complex matrices with the conjugate transpose.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of, broadcast_shapes
from afx.core.dtypes import real_dtype
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind_single
from afx.errors import ArgumentError, ShapeError
from afx.ops._kinds.matrix import (
    adjoint,
    conjugate,
    floating,
    matrices,
    matrix_op,
    plain,
    promote_pair,
    square,
    symmetrize_lower,
)
from afx.ops.creation.creation import asarray, zeros
from afx.ops.elementwise.complex import real
from afx.ops.linalg.norms import matrix_rank
from afx.ops.linalg.svd import svdvals_p
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import reshape
from afx.ops.reductions.sums import sum as sum_

__all__ = ["LstsqResult", "lstsq", "pinv"]


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

    Its derivative is that among matrices of the same rank: where the rank changes there is none.

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
        numpy.linalg.LinAlgError: it does not converge, as with nan.

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
    cutoffs: Any = np.broadcast_to(rcond.concrete("pinv"), batch).ravel()
    if not cutoffs.size:
        return bind_single(pinv_p, x, rcond=0.0)
    flat = reshape(x, (cutoffs.size, m, n))
    shared: tuple[Any, Any] = np.unique(cutoffs, return_inverse=True)
    places = [np.flatnonzero(shared[1] == k) for k in range(shared[0].size)]
    found = concat([bind_single(pinv_p, flat[at], rcond=float(cutoffs[at[0]])) for at in places])
    return reshape(found[np.argsort(np.concatenate(places))], (*batch, n, m))


def _cutoff(a: Aval, given: Any, who: str) -> float:
    if given is None:
        return max(a.shape[-2:]) * float(np.finfo(real_dtype(a.dtype)).eps)
    try:
        return float(given)
    except (TypeError, ValueError):
        raise ArgumentError(f"{who}: the tolerance is one number: got {given!r}; call it for each matrix") from None


def _abstract(a: Aval, *, rcond: float) -> Aval:
    matrices(a, "pinv")
    return Aval((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)


def _run(a: Any, *, rcond: float) -> Any:
    return plain(np.linalg.pinv(a, rcond))


def _push(t: Array, z: Array, a: Array, *, rcond: float) -> Array:
    back = adjoint(z) @ z
    right = adjoint(t) - (adjoint(t) @ a) @ z
    left = adjoint(t) @ back
    return (z @ adjoint(z)) @ right + left - z @ (a @ left) - z @ t @ z


def _pull(ct: Array, z: Array, a: Array, *, rcond: float) -> Array:
    g, h = conjugate(ct), adjoint(conjugate(ct))
    right = (h @ z) @ adjoint(z)
    left = (adjoint(z) @ z) @ h
    found = right - a @ (z @ right) + left - (left @ z) @ a - adjoint(z) @ g @ adjoint(z)
    return conjugate(found)


pinv_p: Primitive = matrix_op("pinv", _run, _abstract, _push, _pull, reads=3)


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
        numpy.linalg.LinAlgError: it does not converge, as with nan.

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
    found = bind_single(pinv_p, x, rcond=cutoff) @ right
    rank, s = matrix_rank(x, rtol=cutoff), bind_single(svdvals_p, x)
    if x.shape[-2] > x.shape[-1]:
        off = right - x @ found
        residuals = sum_(real(off * conjugate(off)), axis=-2)
    else:
        residuals = zeros((*found.shape[:-2], 0), dtype=s.dtype)
    return LstsqResult(found[..., 0] if vector else found, residuals, rank, s)
