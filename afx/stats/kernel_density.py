"""Kernel densities: a normal law around each point of a sample."""

from __future__ import annotations

import math
from typing import Literal

import attrs
import numpy as np

from afx.core import Array, ArrayLike, Shown, Tracer
from afx.errors import ArgumentError, ShapeError
from afx.ops import diagonal, exp, expand_dims, full, log, logsumexp, matmul, ndtr, reshape, sum as sum_
from afx.ops.linalg.factorizations import cholesky, solve_triangular
from afx.random import categorical, normal, split
from afx.random.keys import ShapeLike
from afx.stats._distribution import floating

__all__ = ["GaussianKde", "gaussian_kde"]


@attrs.frozen
class GaussianKde(Shown):
    """A kernel density; made by `gaussian_kde`. A tree, so that it goes through `jit` and has derivatives by its points.

    Attributes:
        points: float[d, n].
        weights: float[n], which sum to 1.
        root: float[d, d], the lower Cholesky factor of the covariance of each normal law.
    """

    points: Array
    weights: Array
    root: Array

    def logpdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density, float[m] for float[d, m] (of one dimension float[m])."""
        y, points = floating("gaussian_kde", x, self.points)
        d = points.shape[0]
        y = reshape(y, (1, -1)) if d == 1 and y.ndim < 2 else expand_dims(y, -1) if y.ndim == 1 else y
        if y.ndim != 2 or y.shape[0] != d:
            raise ShapeError(f"gaussian_kde: x is [{d}, points]: got {y.aval}; transpose it")
        gap = solve_triangular(self.root, reshape(expand_dims(y, -1) - expand_dims(points, 1), (d, -1)), lower=True)
        squares = reshape(sum_(gap * gap, axis=0), (y.shape[1], -1))
        top = sum_(log(diagonal(self.root))) + 0.5 * d * math.log(2 * math.pi)
        return logsumexp(-0.5 * squares, axis=-1, b=self.weights) - top

    def pdf(self, x: ArrayLike) -> Array:
        """Return the density, float[m] for float[d, m] (of one dimension float[m])."""
        return exp(self.logpdf(x))

    __call__ = pdf

    def evaluate(self, x: ArrayLike) -> Array:
        """Return `pdf`, by SciPy's name."""
        return self.pdf(x)

    def cdf(self, x: ArrayLike) -> Array:
        """Return the distribution function in one dimension, of any shape.

        Raises:
            ShapeError: there are more dimensions.
        """
        y, points = floating("gaussian_kde", x, self.points)
        if points.shape[0] != 1:
            raise ShapeError(
                f"gaussian_kde: a distribution function has one dimension: got {points.aval}; integrate pdf"
            )
        return sum_(self.weights * ndtr((expand_dims(y, -1) - points[0]) / self.root[0, 0]), axis=-1)

    def rvs(self, key: ArrayLike, shape: ShapeLike = None) -> Array:
        """Return draws, float[d, *shape], of one dimension float[*shape]."""
        first, second = split(key)
        place = categorical(first, log(self.weights), shape)
        noise = normal(second, (self.points.shape[0], place.size), dtype=self.points.dtype)
        drawn = self.points[:, reshape(place, -1)] + matmul(self.root, noise)
        return reshape(drawn, place.shape if drawn.shape[0] == 1 else (drawn.shape[0], *place.shape))


def gaussian_kde(
    points: ArrayLike, bandwidth: float | Literal["scott", "silverman"] = "scott", *, weights: ArrayLike | None = None
) -> GaussianKde:
    """Return the kernel density of a sample: the mean of normal laws around its points.

    Their covariance is that of the sample times the square of the bandwidth, as in SciPy.

    Args:
        points: float[d, n], or float[n] in one dimension.
        bandwidth: a factor above 0; or Scott's, ``n^(-1 / (d + 4))``, or Silverman's, ``(n (d + 2) / 4)^(-1 / (d + 4))``,
            n the effective number of points, ``1 / Σ weights²``.
        weights: float[n], of any sum; equal without them.

    Raises:
        ShapeError: there is no sample of two points or more, or no weight for each.
        ArgumentError: another bandwidth; weights that are negative, or all 0.
        numpy.linalg.LinAlgError: the points lie on a line or plane.

    >>> density = gaussian_kde(np.array([1.0, 2.0, 4.0]))
    >>> density.pdf(np.array([2.0])).round(4)
    Array([0.2149], dtype=float64)
    """
    given = floating("gaussian_kde", points, *([] if weights is None else [weights]))
    x = reshape(given[0], (1, -1)) if given[0].ndim == 1 else given[0]
    if x.ndim != 2 or x.shape[1] < 2:
        raise ShapeError(f"gaussian_kde: points are [d, n], two or more: got {given[0].aval}; transpose them")
    d, n = x.shape
    w = full((n,), 1 / n, x.dtype) if weights is None else given[1]
    _check_weights(w, n)
    w = w / sum_(w)
    squares = sum_(w * w)
    if bandwidth == "scott":
        factor = squares ** (1 / (d + 4))
    elif bandwidth == "silverman":
        factor = (squares * 4 / (d + 2)) ** (1 / (d + 4))
    elif isinstance(bandwidth, str) or not bandwidth > 0:
        raise ArgumentError(
            f"gaussian_kde: a bandwidth is above 0, 'scott' or 'silverman': got {bandwidth!r}; use 'scott'"
        )
    else:
        factor = full((), bandwidth, x.dtype)
    gap = x - sum_(w * x, axis=1, keepdims=True)
    covariance = matmul(w * gap, gap.T) / (1 - squares)
    return GaussianKde(x, w, factor * cholesky(covariance))


def _check_weights(weights: Array, n: int) -> None:
    if weights.shape != (n,):
        raise ShapeError(f"gaussian_kde: a weight for each point: got {weights.aval} for {n} points; reshape them")
    if isinstance(weights, Tracer):
        return
    values = np.asarray(weights)
    if not ((values >= 0).all() and 0 < values.sum() < math.inf):
        raise ArgumentError(
            f"gaussian_kde: weights are 0 or more, and not all 0: got {weights.aval} from {values.min():g} to {values.max():g}; "
            "leave the others out"
        )
