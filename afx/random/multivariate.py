"""Multivariate samplers: random vectors and matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of, broadcast_shapes, checked_shape
from afx.errors import ShapeError
from afx.ops.linalg.cholesky import cholesky
from afx.ops.linalg.products import matmul
from afx.ops.manipulation.shape import astype
from afx.ops.random.orthogonal import random_orthogonal
from afx.ops.random.uniform_family import random_draw
from afx.ops.reductions.moments import vector_norm
from afx.random._arguments import ShapeLike, checked_key, floating
from afx.random.keys import split

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["ball", "multivariate_normal", "orthogonal", "sphere"]


def multivariate_normal(
    key: ArrayLike, mean: ArrayLike, cov: ArrayLike, shape: ShapeLike = None, *, dtype: DTypeLike | None = None
) -> Array:
    """Return normal vectors of a mean and a covariance, by its Cholesky factor; differentiable in both.

    Args:
        key: uint32[2].
        mean: float[..., n].
        cov: float[..., n, n], symmetric and positive definite.
        shape: of what is drawn, not counting the axis of the vectors; that of the parameters without one.
        dtype: that of the parameters, or the default dtype.

    Raises:
        ShapeError: the covariance does not fit the mean, or the parameters do not broadcast to the shape.
        DtypeError: the dtype is not a real floating one.
        LinAlgError: NumPy's: the covariance is not positive definite.

    >>> multivariate_normal(afx.random.key(0), np.zeros(2), np.eye(2), 5).shape
    (5, 2)
    """
    who = "multivariate_normal"
    checked_key(key, who)
    a, b = aval_of(mean, who), aval_of(cov, who)
    if not a.ndim or b.ndim < 2 or b.shape[-2:] != (a.shape[-1],) * 2:
        raise ShapeError(f"{who}: a vector and a matrix of its length: got {a} and {b}; transpose or reshape them")
    found = floating(dtype, who, mean, cov)
    parts = [a.shape[:-1], b.shape[:-2]]
    lengths = broadcast_shapes(parts) if shape is None else checked_shape(shape, who)
    if lengths is None or broadcast_shapes([lengths, *parts]) != lengths:
        raise ShapeError(f"{who}: parameters do not broadcast to the shape: got {a}, {b} and shape {shape}; widen it")
    z = random_draw(key, "normal", (*lengths, a.shape[-1], 1), found)
    return matmul(cholesky(astype(cov, found)), z)[..., 0] + astype(mean, found)


def orthogonal(key: ArrayLike, n: int, shape: ShapeLike = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return orthogonal matrices, float[*shape, n, n], evenly from all of them (Mezzadri 2007).

    >>> q = orthogonal(afx.random.key(0), 3)
    >>> bool(afx.max(afx.abs(q @ q.T - afx.eye(3))) < 1e-5)
    True
    """
    found = floating(dtype, "orthogonal", 0.0)
    lengths = checked_shape(() if shape is None else shape, "orthogonal")
    return random_orthogonal(checked_key(key, "orthogonal"), (*lengths, *checked_shape((n, n), "orthogonal")), found)


def sphere(key: ArrayLike, n: int, shape: ShapeLike = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return vectors of length 1, float[*shape, n], evenly from all directions.

    >>> sphere(afx.random.key(0), 3, 5).shape
    (5, 3)
    """
    found = floating(dtype, "sphere", 0.0)
    lengths = checked_shape(() if shape is None else shape, "sphere")
    z = random_draw(checked_key(key, "sphere"), "normal", (*lengths, *checked_shape(n, "sphere")), found)
    return z / vector_norm(z, axis=-1, keepdims=True)


def ball(key: ArrayLike, n: int, shape: ShapeLike = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return vectors of length up to 1, float[*shape, n], evenly from the ball that they fill.

    >>> ball(afx.random.key(0), 3, 5).shape
    (5, 3)
    """
    first, second = split(checked_key(key, "ball"))
    directions = sphere(first, n, shape, dtype=dtype)
    lengths = random_draw(second, "uniform", (*directions.shape[:-1], 1), directions.dtype)
    return directions * lengths ** (1 / max(n, 1))
