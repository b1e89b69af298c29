"""Matrix distributions: Wishart and that of correlations (Lewandowski et al.); and the multinomial one of counts."""

from __future__ import annotations

import math

import numpy as np

from afx.core import Array, ArrayLike, DType, epsilon, float64, get_default_dtype
from afx.errors import ShapeError
from afx.ops import abs as abs_, arange, asarray, diagonal, exp, eye, floor, log, matmul, sqrt, where, xlogy, zeros
from afx.ops.linalg.factorizations import cholesky, solve_triangular
from afx.ops.manipulation.join import concat, moveaxis, stack
from afx.ops.manipulation.shape import broadcast_to, expand_dims
from afx.ops.reductions.sums import all as all_, sum as sum_
from afx.ops.special.gamma import betaln, gammaln, multigammaln
from afx.random import beta as draw_beta, chisquare, multinomial as draw_multinomial, normal, split
from afx.random.keys import ShapeLike
from afx.stats._distribution import check_data, floating, quiet, read_real
from afx.stats.elementary import HALF_LOG_2PI
from afx.stats.gamma_family import digamma_rest, gammaln_rest
from afx.stats.law import Vectors

__all__ = ["lkj", "lkj_cholesky", "multinomial", "wishart"]


class _Multinomial(Vectors):
    """Multinomial distribution: how often each of k things comes in ``n`` draws, of probabilities ``p``, float[..., k].

    As in SciPy, the components are the last axis of x; other axes broadcast. Counts that are none have probability 0.

    >>> afx.stats.multinomial.pmf(np.array([1, 2]), 3, np.array([0.5, 0.5]))
    Array(0.375, dtype=float64)
    """

    name: str = "multinomial"
    names: tuple[str, ...] = ("n", "p")
    axes: tuple[int, ...] = (0, 1)
    kind: str = "whole"

    def logpmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
        """Return the logarithm of the probability.

        Raises:
            ShapeError: x and p are not of one length.
        """
        k, count, shares = floating("multinomial", x, n, p)
        if not k.ndim or not shares.ndim or k.shape[-1] != shares.shape[-1]:
            raise ShapeError(f"multinomial: x and p have one length: got {k.aval} and {shares.aval}; reshape them")
        inside = all_((k >= 0) & (floor(k) == k), axis=-1) & (sum_(k, axis=-1) == count)
        allowed = (count >= 0) & (floor(count) == count) & all_(shares >= 0, axis=-1)
        allowed = allowed & (abs_(sum_(shares, axis=-1) - 1) < 1e-6)
        with quiet():
            safe = where(expand_dims(inside, -1), k, 0.0)
            z = gammaln(count + 1) + sum_(xlogy(safe, shares) - gammaln(safe + 1), axis=-1)
            return where(allowed, where(inside, z, -math.inf), math.nan)

    def pmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
        """Return the probability."""
        return exp(self.logpmf(x, n, p))

    def mean(self, n: ArrayLike, p: ArrayLike) -> Array:
        """Return the means, float[..., k]."""
        count, shares = floating("multinomial", n, p)
        return expand_dims(count, -1) * shares

    def cov(self, n: ArrayLike, p: ArrayLike) -> Array:
        """Return the covariance, float[..., k, k]."""
        count, shares = floating("multinomial", n, p)
        apart = broadcast_to(expand_dims(shares, -2), (*shares.shape, shares.shape[-1]))
        return expand_dims(expand_dims(count, -1), -1) * (_make_diagonal(shares) - apart * expand_dims(shares, -1))

    def fit(self, x: ArrayLike) -> dict[str, Array]:
        """Return ``n`` and ``p`` of the greatest likelihood, by name, in float64: the shares of all counts.

        Args:
            x: int[points, k], counts of one sum, or several.

        Raises:
            ShapeError: x is no matrix with points.
            ArgumentError: what is no count.

        >>> afx.stats.multinomial.fit(np.array([[1, 3], [2, 2]]))["p"]
        Array([0.375, 0.625], dtype=float64)
        """
        counts = read_real(x, "multinomial")
        if counts.ndim != 2 or not counts.shape[0]:
            raise ShapeError(f"multinomial.fit: data are counts, int[points, k]: got {counts.aval}; reshape them")
        check_data(
            counts,
            lambda y: (y >= 0) & (np.floor(y) == y) & np.isfinite(y),
            "multinomial",
            "data are counts, whole numbers of 0 or more",
            "leave such points out",
        )
        return {"n": sum_(counts, axis=1), "p": sum_(counts, axis=0) / sum_(counts)}

    def rvs(self, key: ArrayLike, shape: ShapeLike, n: ArrayLike, p: ArrayLike) -> Array:
        """Return draws, int[*shape, k], as `afx.random.multinomial` does."""
        return draw_multinomial(key, n, p, shape)


def _make_diagonal(x: Array) -> Array:
    """Return matrices with vectors on their diagonals."""
    n = x.shape[-1]
    return stack([where(asarray([i == j for j in range(n)]), x, 0.0) for i in range(n)], axis=-2)


class _Wishart(Vectors):
    """Wishart distribution of ``df`` degrees of freedom and scale float[..., p, p]: of sums of squares of normal vectors.

    Matrices are the last two axes, unlike SciPy's; other axes broadcast. df is above p - 1.

    >>> afx.stats.wishart.logpdf(np.eye(2), 3.0, np.eye(2)).round(4)
    Array(-3.531, dtype=float64)
    """

    name: str = "wishart"
    names: tuple[str, ...] = ("df", "scale")
    axes: tuple[int, ...] = (0, 2)
    rank: int = 2
    kind: str = "covariance"

    def logpdf(self, x: ArrayLike, df: ArrayLike, scale: ArrayLike) -> Array:
        """Return the logarithm of the density.

        Raises:
            ShapeError: x or the scale are no matrices of one size.
            numpy.linalg.LinAlgError: one of them is not positive definite.
        """
        y, n, s = _square("wishart", x, df, scale)
        p = s.shape[-1]
        root, own = cholesky(s), cholesky(y)
        ratio = solve_triangular(root, own, lower=True)
        with quiet():
            z = 0.5 * (n - p - 1) * _log_det(own) - 0.5 * sum_(ratio * ratio, axis=(-2, -1))
            z = z - 0.5 * n * (p * math.log(2) + _log_det(root)) - multigammaln(where(n > p - 1, n, p) / 2, p)
            return where(n > p - 1, z, math.nan)

    def pdf(self, x: ArrayLike, df: ArrayLike, scale: ArrayLike) -> Array:
        """Return the density."""
        return exp(self.logpdf(x, df, scale))

    def mean(self, df: ArrayLike, scale: ArrayLike) -> Array:
        """Return the mean, ``df · scale``."""
        _, n, s = _square("wishart", scale, df, scale)
        return expand_dims(expand_dims(n, -1), -1) * s

    def var(self, df: ArrayLike, scale: ArrayLike) -> Array:
        """Return the variance of each element."""
        _, n, s = _square("wishart", scale, df, scale)
        sides = diagonal(s)
        return expand_dims(expand_dims(n, -1), -1) * (s * s + expand_dims(sides, -1) * expand_dims(sides, -2))

    def entropy(self, df: ArrayLike, scale: ArrayLike) -> Array:
        """Return the differential entropy."""
        _, n, s = _square("wishart", scale, df, scale)
        p = s.shape[-1]
        z = 0.5 * (p + 1) * (_log_det(cholesky(s)) + p * math.log(2)) + 0.25 * p * (p - 1) * (1 + math.log(math.pi))
        for i in range(p):
            a = 0.5 * (n - i)
            z = z + HALF_LOG_2PI + 0.5 * (p - i) * log(a) + gammaln_rest(a) + 0.5 * (n - p - 1) * digamma_rest(a)
        return z

    def rvs(self, key: ArrayLike, shape: ShapeLike, df: ArrayLike, scale: ArrayLike) -> Array:
        """Return draws, float[*shape, p, p], by Bartlett's decomposition; with derivatives by both parameters."""
        _, n, s = _square("wishart", scale, df, scale, get_default_dtype())
        p = s.shape[-1]
        lead = n.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
        first, second = split(key)
        below = normal(first, (*lead, p, p), dtype=s.dtype)
        on = sqrt(chisquare(second, expand_dims(n, -1) - asarray(list(range(p)), s.dtype), (*lead, p)))
        rows = [concat([below[..., i, :i], on[..., i : i + 1], 0 * below[..., i, i + 1 :]], axis=-1) for i in range(p)]
        factor = matmul(cholesky(s), stack(rows, axis=-2))
        return matmul(factor, factor.mT)


def _square(
    who: str, x: ArrayLike, number: ArrayLike, scale: ArrayLike, alone: DType = float64
) -> tuple[Array, Array, Array]:
    y, n, s = floating(who, x, number, scale, alone=alone)
    if min(y.ndim, s.ndim) < 2 or y.shape[-2:] != s.shape[-1:] * 2 or s.shape[-2:] != s.shape[-1:] * 2:
        raise ShapeError(f"{who}: takes square matrices of one size: got {y.aval} and {s.aval}; reshape them")
    return y, n, s


def _log_det(factor: Array) -> Array:
    """Return the logarithm of a determinant, by its Cholesky factor."""
    return 2 * sum_(log(diagonal(factor)), axis=-1)


class _Lkj(Vectors):
    """Distribution of correlation matrices, float[..., d, d]: density proportional to the determinant to ``eta - 1``.

    At ``eta`` 1 all are equally likely, above it those near the identity likelier. Source: Lewandowski, Kurowicka & Joe
    2009, equation 16.

    >>> afx.stats.lkj.pdf(np.array([[1.0, 0.3], [0.3, 1.0]]), 1.0).round(4)
    Array(0.5, dtype=float64)
    """

    name: str = "lkj"
    names: tuple[str, ...] = ("d", "eta")
    axes: tuple[int, ...] = (0,)
    rank: int = 2
    kind: str = "correlation"
    is_sized: bool = True

    def logpdf(self, x: ArrayLike, eta: ArrayLike) -> Array:
        """Return the logarithm of the density, by the elements below the diagonal; -inf where that is not of ones.

        Raises:
            ShapeError: x is no square matrix.
            numpy.linalg.LinAlgError: it is not positive definite.
        """
        y, shape, _ = _square("lkj", x, eta, x)
        d = y.shape[-1]
        with quiet():
            z = (shape - 1) * _log_det(cholesky(y)) - _lkj_constant(shape, d)
            is_one = all_(abs_(diagonal(y) - 1) <= 16 * d * epsilon(y.dtype), axis=-1)
            return where(shape > 0, where(is_one, z, -math.inf), math.nan)

    def pdf(self, x: ArrayLike, eta: ArrayLike) -> Array:
        """Return the density."""
        return exp(self.logpdf(x, eta))

    def mean(self, d: int, eta: ArrayLike) -> Array:
        """Return the mean, the identity."""
        var = self.var(d, eta)
        return eye(d, dtype=var.dtype) + 0 * var

    def var(self, d: int, eta: ArrayLike) -> Array:
        """Return the variances of the elements, those of beta numbers beside the diagonal."""
        (e,) = floating("lkj", eta)
        with quiet():
            return (1 - eye(d, dtype=e.dtype)) / expand_dims(where(e > 0, 2 * e + (d - 1), math.nan), (-2, -1))

    def rvs(self, key: ArrayLike, shape: ShapeLike, d: int, eta: ArrayLike) -> Array:
        """Return draws, float[*shape, d, d], of partial correlations (ibid., section 2.4)."""
        factor = _draw_factor(key, shape, d, eta)
        return matmul(factor, factor.mT)


def _lkj_constant(shape: Array, d: int) -> Array:
    """Return the logarithm of the integral of the determinant's power."""
    levels = [shape + 0.5 * (d - 1 - k) for k in range(1, d)]
    constant = [(d - k) * ((2 * b - 1) * math.log(2) + betaln(b, b)) for k, b in enumerate(levels, 1)]
    return sum(constant, zeros((), shape.dtype))


def _draw_factor(key: ArrayLike, shape: ShapeLike, d: int, eta: ArrayLike) -> Array:
    """Return Cholesky factors of drawn correlations, by partial ones (ibid., section 2.4)."""
    (e,) = floating("lkj", eta, alone=get_default_dtype())
    lead = e.shape if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    columns: list[Array] = []
    rest = asarray(1.0, e.dtype) + zeros((*lead, d), e.dtype)  # of each row's squared length
    for j, own in enumerate(split(key, max(d, 1))):
        level = e + 0.5 * (d - 2 - j) if j < d - 1 else e
        share = 2 * draw_beta(own, expand_dims(level, -1), expand_dims(level, -1), (*lead, d)) - 1
        place = asarray([-1 if i < j else int(i > j) for i in range(d)])
        column = where(place == 0, sqrt(rest), where(place > 0, share * sqrt(rest), 0.0))
        rest = where(place > 0, rest * (1 - share * share), rest)
        columns.append(column)
    return moveaxis(stack(columns, axis=0), 0, -1)


class _LkjCholesky(Vectors):
    """Distribution of lower Cholesky factors of correlation matrices, float[..., d, d], whose matrices are `lkj`'s.

    The density is that by the elements below the diagonal.

    >>> afx.stats.lkj_cholesky.pdf(np.eye(2), np.float64(1.0)).round(4)
    Array(0.5, dtype=float64)
    """

    name: str = "lkj_cholesky"
    names: tuple[str, ...] = ("d", "eta")
    axes: tuple[int, ...] = (0,)
    rank: int = 2
    kind: str = "correlation_factor"
    is_sized: bool = True

    def logpdf(self, x: ArrayLike, eta: ArrayLike) -> Array:
        """Return the logarithm of the density; -inf where rows have not length 1, or a diagonal element is not positive.

        Raises:
            ShapeError: x is no square matrix.
        """
        y, shape, _ = _square("lkj_cholesky", x, eta, x)
        d = y.shape[-1]
        sides = diagonal(y)
        powers = asarray([d - k for k in range(1, d + 1)], y.dtype) + 2 * expand_dims(shape - 1, -1)
        inside = all_(sides > 0, axis=-1)
        with quiet():
            z = sum_(where(expand_dims(inside, -1), powers * log(sides), 0.0), axis=-1) - _lkj_constant(shape, d)
            lengths = sum_(y * y, axis=-1)
            inside = inside & all_(abs_(lengths - 1) <= 1e3 * d * epsilon(y.dtype), axis=-1)
            return where(shape > 0, where(inside, z, -math.inf), math.nan)

    def pdf(self, x: ArrayLike, eta: ArrayLike) -> Array:
        """Return the density."""
        return exp(self.logpdf(x, eta))

    def mean(self, d: int, eta: ArrayLike) -> Array:
        """Return the mean: on the diagonal those of roots of beta numbers, 0 beside it."""
        ones = lkj.mean(d, eta)
        levels = expand_dims(0.5 * arange(d - 1, -1, -1, dtype=ones.dtype), -1) + expand_dims(asarray(eta), (-2, -1))
        with quiet():
            return exp(betaln(levels[..., :1, :], 0.5) - betaln(levels, 0.5)) * ones

    def rvs(self, key: ArrayLike, shape: ShapeLike, d: int, eta: ArrayLike) -> Array:
        """Return draws, float[*shape, d, d]."""
        return _draw_factor(key, shape, d, eta)


lkj: _Lkj = _Lkj()
lkj_cholesky: _LkjCholesky = _LkjCholesky()
multinomial: _Multinomial = _Multinomial()
wishart: _Wishart = _Wishart()
