"""Structured laws: normal vectors by Cholesky factors, by precisions and as random walks; and ordered classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from afx.core import Array, ArrayLike, DType, float64, get_default_dtype
from afx.errors import ShapeError
from afx.ops import arange, concat, diagonal, eye, floor, matmul, minimum, sum as sum_, where, zeros_like
from afx.ops.elementwise.exponentials import exp, log, log_sigmoid
from afx.ops.linalg.factorizations import cholesky, solve_triangular
from afx.ops.manipulation.shape import astype, broadcast_to, expand_dims
from afx.ops.reductions.cumulative import cumsum, log1mexp
from afx.random import logistic, normal
from afx.random.keys import ShapeLike
from afx.stats._distribution import floating, quiet
from afx.stats.elementary import HALF_LOG_2PI
from afx.stats.law import Shape, Support, Vectors, shape_of
from afx.stats.multivariate import _whiten

__all__ = ["gaussian_random_walk", "multivariate_normal_cholesky", "multivariate_normal_precision", "ordered_logistic"]


class _Normal(Vectors):
    """Normal vectors of a mean float[..., n] and a matrix float[..., n, n]."""

    def _read(
        self, x: ArrayLike, mean: ArrayLike, matrix: ArrayLike, alone: DType = float64
    ) -> tuple[Array, Array, Array]:
        """Return points, mean and matrix of one length, or raise `ShapeError`."""
        y, m, c = floating(self.name, x, mean, matrix, alone=alone)
        n = c.shape[-1] if c.ndim else 0
        if c.ndim < 2 or c.shape[-2] != n or not y.ndim or y.shape[-1] != n or (m.ndim and m.shape[-1] != n):
            raise ShapeError(
                f"{self.name}: x and mean are vectors of the matrix's length: got x {y.aval}, mean {m.aval} and "
                f"{c.aval}; reshape them"
            )
        return y, m, c

    def _draw(self, key: ArrayLike, shape: ShapeLike, mean: Array, roots: Array) -> Array:
        """Return the mean plus standard normal rows times a matrix."""
        z = normal(key, (*shape_of(shape), roots.shape[-1]), dtype=roots.dtype)
        return mean + matmul(expand_dims(z, -2), roots)[..., 0, :]


class _ByCholesky(_Normal):
    """Multivariate normal distribution of mean float[..., n] and covariance ``factor factorᵀ``, the factor lower.

    >>> afx.stats.multivariate_normal_cholesky.logpdf(np.zeros(2), np.zeros(2), np.eye(2)).round(4)
    Array(-1.8379, dtype=float64)
    """

    name: str = "multivariate_normal_cholesky"
    names: tuple[str, ...] = ("mean", "factor")
    axes: tuple[int, ...] = (1, 2)

    def logpdf(self, x: ArrayLike, mean: ArrayLike, factor: ArrayLike) -> Array:
        """Return the logarithm of the density; what stands above the diagonal is not read.

        Raises:
            ShapeError: x, mean and factor have other lengths.
        """
        y, m, c = self._read(x, mean, factor)
        z = _whiten(c, y - m)
        return -0.5 * sum_(z * z, axis=-1) - sum_(log(diagonal(c)), axis=-1) - c.shape[-1] * HALF_LOG_2PI

    def pdf(self, x: ArrayLike, mean: ArrayLike, factor: ArrayLike) -> Array:
        """Return the density."""
        return exp(self.logpdf(x, mean, factor))

    def mean(self, mean: ArrayLike, factor: ArrayLike) -> Array:
        """Return the mean."""
        return self._read(mean, mean, factor)[1]

    def cov(self, mean: ArrayLike, factor: ArrayLike) -> Array:
        """Return the covariance."""
        c = self._read(mean, mean, factor)[2]
        return matmul(c, c.mT)

    def entropy(self, mean: ArrayLike, factor: ArrayLike) -> Array:
        """Return the differential entropy."""
        c = self._read(mean, mean, factor)[2]
        return sum_(log(diagonal(c)), axis=-1) + c.shape[-1] * (HALF_LOG_2PI + 0.5)

    def rvs(self, key: ArrayLike, shape: ShapeLike, mean: ArrayLike, factor: ArrayLike) -> Array:
        """Return draws, float[*shape, n]."""
        _, m, c = self._read(mean, mean, factor, get_default_dtype())
        return self._draw(key, shape, m, c.mT)


class _ByPrecision(_Normal):
    """Multivariate normal distribution of mean float[..., n] and precision float[..., n, n], the covariance's inverse.

    >>> afx.stats.multivariate_normal_precision.logpdf(np.zeros(2), np.zeros(2), np.eye(2)).round(4)
    Array(-1.8379, dtype=float64)
    """

    name: str = "multivariate_normal_precision"
    names: tuple[str, ...] = ("mean", "precision")
    axes: tuple[int, ...] = (1, 2)

    def logpdf(self, x: ArrayLike, mean: ArrayLike, precision: ArrayLike) -> Array:
        """Return the logarithm of the density.

        Raises:
            ShapeError: x, mean and precision have other lengths.
            numpy.linalg.LinAlgError: the precision is not positive definite.
        """
        y, m, c = self._read(x, mean, precision)
        factor = cholesky(c)
        z = matmul(expand_dims(y - m, -2), factor)[..., 0, :]
        return -0.5 * sum_(z * z, axis=-1) + sum_(log(diagonal(factor)), axis=-1) - c.shape[-1] * HALF_LOG_2PI

    def pdf(self, x: ArrayLike, mean: ArrayLike, precision: ArrayLike) -> Array:
        """Return the density."""
        return exp(self.logpdf(x, mean, precision))

    def mean(self, mean: ArrayLike, precision: ArrayLike) -> Array:
        """Return the mean."""
        return self._read(mean, mean, precision)[1]

    def cov(self, mean: ArrayLike, precision: ArrayLike) -> Array:
        """Return the covariance."""
        back = self._inverse_factor(mean, precision)
        return matmul(back.mT, back)

    def entropy(self, mean: ArrayLike, precision: ArrayLike) -> Array:
        """Return the differential entropy."""
        c = self._read(mean, mean, precision)[2]
        return c.shape[-1] * (HALF_LOG_2PI + 0.5) - sum_(log(diagonal(cholesky(c))), axis=-1)

    def rvs(self, key: ArrayLike, shape: ShapeLike, mean: ArrayLike, precision: ArrayLike) -> Array:
        """Return draws, float[*shape, n]."""
        _, m, c = self._read(mean, mean, precision, get_default_dtype())
        return self._draw(key, shape, m, self._inverse_factor(m, c))

    def _inverse_factor(self, mean: ArrayLike, precision: ArrayLike) -> Array:
        c = self._read(mean, mean, precision)[2]
        return solve_triangular(cholesky(c), broadcast_to(eye(c.shape[-1], dtype=c.dtype), c.shape), lower=True)


class _RandomWalk(Vectors):
    """Gaussian random walk float[..., n] from ``loc``: sums of independent normal steps of mean ``drift``.

    >>> afx.stats.gaussian_random_walk.mean(3, 1.0, drift=0.5)
    Array([0.5, 1. , 1.5], dtype=float64)
    """

    name: str = "gaussian_random_walk"
    names: tuple[str, ...] = ("n", "scale", "drift", "loc")
    axes: tuple[int, ...] = (0, 0, 0)
    is_sized: bool = True
    defaults: Mapping[str, Any] = {"scale": 1.0, "drift": 0.0, "loc": 0.0}  # nobody writes into it

    def logpdf(self, x: ArrayLike, scale: ArrayLike = 1.0, drift: ArrayLike = 0.0, loc: ArrayLike = 0.0) -> Array:
        """Return the logarithm of the density.

        Raises:
            ShapeError: x has no axis.
        """
        y, s, d, start = (v if k == 0 else expand_dims(v, -1) for k, v in enumerate(self._read(x, scale, drift, loc)))
        if not y.ndim:
            raise ShapeError(f"gaussian_random_walk: x is a walk float[..., n]: got {y.aval}; give an axis of steps")
        begun = broadcast_to(start, (*y.shape[:-1], 1)) if start.ndim <= y.ndim else start
        z = (concat([y[..., :1] - begun, y[..., 1:] - y[..., :-1]], axis=-1) - d) / s
        with quiet():
            heights = sum_(-0.5 * z * z - log(s) - HALF_LOG_2PI, axis=-1)
            return where(s[..., 0] > 0, heights, math.nan)

    def pdf(self, x: ArrayLike, scale: ArrayLike = 1.0, drift: ArrayLike = 0.0, loc: ArrayLike = 0.0) -> Array:
        """Return the density."""
        return exp(self.logpdf(x, scale, drift, loc))

    def mean(self, n: int, scale: ArrayLike = 1.0, drift: ArrayLike = 0.0, loc: ArrayLike = 0.0) -> Array:
        """Return the means, float[..., n]."""
        s, d, start = (expand_dims(v, -1) for v in self._read(scale, drift, loc))
        return start + d * astype(arange(1, n + 1), s.dtype) + 0 * s

    def cov(self, n: int, scale: ArrayLike = 1.0, drift: ArrayLike = 0.0, loc: ArrayLike = 0.0) -> Array:
        """Return the covariance, float[..., n, n]: that of the earlier of two times."""
        s = self._read(scale, drift, loc)[0]
        times = astype(arange(1, n + 1), s.dtype)
        return expand_dims(s * s, (-2, -1)) * minimum(times, expand_dims(times, -1))

    def rvs(
        self,
        key: ArrayLike,
        shape: ShapeLike,
        n: int,
        scale: ArrayLike = 1.0,
        drift: ArrayLike = 0.0,
        loc: ArrayLike = 0.0,
    ) -> Array:
        """Return draws, float[*shape, n]."""
        s, d, start = (expand_dims(v, -1) for v in self._read(scale, drift, loc, alone=get_default_dtype()))
        return start + cumsum(d + s * normal(key, (*shape_of(shape), n), dtype=s.dtype), axis=-1)

    def _read(self, *xs: ArrayLike, alone: DType = float64) -> list[Array]:
        return floating("gaussian_random_walk", *xs, alone=alone)


class _OrderedLogistic(Vectors):
    """Classes 0 to k - 1 by which of ascending ``cuts``, float[..., k - 1], a logistic number about ``eta`` lies between.

    >>> afx.stats.ordered_logistic.pmf(np.arange(3), 0.0, np.array([-1.0, 1.0])).round(4)
    Array([0.2689, 0.4621, 0.2689], dtype=float64)
    """

    name: str = "ordered_logistic"
    names: tuple[str, ...] = ("eta", "cuts")
    axes: tuple[int, ...] = (0, 1)
    rank: int = 0
    kind: str = "whole"

    def shapes(self, *args: Any) -> tuple[Shape, Shape]:
        """Return the shapes of independent values and of one, which is a number."""
        return self._logs(*args)[0].shape[:-1], ()

    def support(self, *args: Any) -> Support:
        """Return where values lie."""
        return Support("whole", 0, self._logs(*args)[0].shape[-1] - 1)

    def logpmf(self, k: ArrayLike, eta: ArrayLike, cuts: ArrayLike) -> Array:
        """Return the logarithm of the probability of a class; -inf of what is none.

        Raises:
            ShapeError: the cuts have no axis.
        """
        y, *given = floating("ordered_logistic", k, eta, cuts)
        logs, allowed = self._logs(*given)
        classes = astype(arange(logs.shape[-1]), logs.dtype)
        inside = (floor(y) == y) & (y >= 0) & (y < logs.shape[-1])
        z = sum_(where(expand_dims(y, -1) == classes, logs, 0.0), axis=-1)  # as machine code has it: no gathering
        return where(allowed, where(inside, z, -math.inf), math.nan)

    def pmf(self, k: ArrayLike, eta: ArrayLike, cuts: ArrayLike) -> Array:
        """Return the probability of a class."""
        return exp(self.logpmf(k, eta, cuts))

    def mean(self, eta: ArrayLike, cuts: ArrayLike) -> Array:
        """Return the mean of the classes' numbers."""
        return self._moment(eta, cuts, 0.0, 1)

    def var(self, eta: ArrayLike, cuts: ArrayLike) -> Array:
        """Return their variance."""
        return self._moment(eta, cuts, expand_dims(self.mean(eta, cuts), -1), 2)

    def rvs(self, key: ArrayLike, shape: ShapeLike, eta: ArrayLike, cuts: ArrayLike) -> Array:
        """Return draws, float[*shape]."""
        e, c = floating("ordered_logistic", eta, cuts, alone=get_default_dtype())
        lead = self.shapes(eta, cuts)[0] if shape is None else shape_of(shape)
        x = e + logistic(key, lead, dtype=e.dtype)
        return sum_(astype(expand_dims(x, -1) > c, e.dtype), axis=-1)

    def _moment(self, eta: ArrayLike, cuts: ArrayLike, about: Any, power: int) -> Array:
        logs, allowed = self._logs(eta, cuts)
        classes = astype(arange(logs.shape[-1]), logs.dtype)
        return where(allowed, sum_(exp(logs) * (classes - about) ** power, axis=-1), math.nan)

    def _logs(self, eta: ArrayLike, cuts: ArrayLike) -> tuple[Array, Array]:
        """Return the logarithms of all probabilities, float[..., k], and where the cuts ascend."""
        e, c = floating("ordered_logistic", eta, cuts)
        if not c.ndim or not c.shape[-1]:
            raise ShapeError(f"ordered_logistic: cuts are float[..., k - 1], one at least: got {c.aval}; give an axis")
        d = c - expand_dims(e, -1)
        gaps = d[..., 1:] - d[..., :-1]
        rising = gaps > 0
        between = log_sigmoid(d[..., 1:]) + log_sigmoid(-d[..., :-1]) + log1mexp(where(rising, gaps, 1.0))
        none = zeros_like(d[..., :1])
        logs = concat([log_sigmoid(d[..., :1]), between, log_sigmoid(-d[..., -1:])], axis=-1) + none
        return logs, sum_(astype(~rising, int), axis=-1) == 0


gaussian_random_walk: _RandomWalk = _RandomWalk()
multivariate_normal_cholesky: _ByCholesky = _ByCholesky()
multivariate_normal_precision: _ByPrecision = _ByPrecision()
ordered_logistic: _OrderedLogistic = _OrderedLogistic()
