"""Matrix norms: norms, condition numbers and ranks from singular values."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import normalize_axes
from afx.core.dtypes import float32, float64, real_dtype
from afx.core.tracing.tracer import bind_single
from afx.errors import ArgumentError, ShapeError
from afx.ops._kinds.matrix import choice, floating, matrices, square, symmetrize_lower
from afx.ops.creation.creation import SEQUENCES, asarray, zeros
from afx.ops.creation.matrices import eye
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.where import where
from afx.ops.linalg.determinants import slogdet
from afx.ops.linalg.polar import nuclear_norm
from afx.ops.linalg.solve import inv
from afx.ops.linalg.svd import svdvals_p
from afx.ops.manipulation.axes import moveaxis
from afx.ops.manipulation.shape import astype, reshape
from afx.ops.reductions.moments import vector_norm, vector_norm_p
from afx.ops.reductions.sums import count_nonzero, reduce_over
from afx.ops.reductions.sums import max as max_
from afx.ops.reductions.sums import min as min_
from afx.ops.reductions.sums import sum as sum_

__all__ = ["cond", "matrix_norm", "matrix_rank", "norm"]

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
    y = floating(x, "norm")
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
    kind: MatrixOrd = "fro" if ord is None or ord == "f" else ord
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
    relative = max(x.shape[-2:]) * float(np.finfo(real_dtype(x.dtype)).eps) if rtol is None else rtol
    bound: Any = max_(s, axis=-1) * asarray(relative, dtype=s.dtype) if tol is None else asarray(tol)
    return count_nonzero(s > reshape(bound, (*bound.shape, 1)), axis=-1)
