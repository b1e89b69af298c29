"""Multivariate distributions: normal, Student's t, Dirichlet and multinomial, with the normal's distribution function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, aval_of, broadcast_shapes, epsilon, float64, get_default_dtype
from afx.errors import ShapeError
from afx.ops import argsort, asin, cumsum, diagonal, exp, eye, gammaln, log, matmul, sin, take_along_axis
from afx.ops.creation.creation import asarray, stop_gradient, zeros
from afx.ops.elementwise.arithmetic import abs as abs_, sqrt
from afx.ops.elementwise.comparison import clip, isnan, maximum, where
from afx.ops.linalg.factorizations import cholesky, solve_triangular
from afx.ops.linalg.spectra import eigh
from afx.ops.manipulation.join import broadcast_arrays, concat, moveaxis
from afx.ops.manipulation.shape import astype, broadcast_to, expand_dims, reshape
from afx.ops.reductions.sums import all as all_, max as max_, mean, sum as sum_
from afx.ops.special.errors import ndtr, ndtri, xlogy
from afx.random import dirichlet as draw_dirichlet, multivariate_normal as draw_normal, normal as draw_standard
from afx.random.keys import ShapeLike
from afx.stats._distribution import check_data, fit_shares, floating, quiet, read_real
from afx.stats.gamma_family import shares_entropy
from afx.stats.law import Vectors
from afx.transforms.custom_derivatives import custom_jvp

__all__ = ["dirichlet", "multivariate_normal"]

# --- Bivariate normal: the distribution function by Genz's method, with its exact derivatives

_nodes: Any = np.polynomial.legendre.leggauss(20)
TWO_NODES, TWO_WEIGHTS = (_nodes[0] + 1) / 2, _nodes[1] / 2  # from 0 to 1
STEEP = 0.925  # correlations from which on the integrand by the angle has a peak (Genz 2004, section 2.4)
FAR = 40.0  # numbers beyond which a normal one never lies, in float64
LEAST = -100.0  # exponents below which a term counts for nothing


def _upper(h: Array, k: Array, r: Array) -> Array:
    """Return the probability that two normal numbers of correlation r lie above h and k, to 1e-15."""
    with quiet():
        return where(abs(r) < STEEP, _integrate_by_angle(h, k, where(abs(r) < STEEP, r, 0.0)), _near_line(h, k, r))


def _integrate_by_angle(h: Array, k: Array, r: Array) -> Array:
    """Return the integral of the density from independence to correlation r, by the angle (Drezner & Wesolowsky 1990)."""
    angle = asin(r)
    sines = sin(expand_dims(angle, -1) * TWO_NODES)
    products, squares = expand_dims(h * k, -1), expand_dims((h * h + k * k) / 2, -1)
    heights = exp((sines * products - squares) / (1 - sines * sines))
    return sum_(heights * TWO_WEIGHTS, axis=-1) * angle / (2 * math.pi) + ndtr(-h) * ndtr(-k)


def _near_line(h: Array, k: Array, r: Array) -> Array:
    """Return the probability for numbers that nearly lie on a line: a series and the rest of it (Genz 2004, equation 12)."""
    k = where(r < 0, -k, k)
    product, gap = h * k, (h - k) ** 2
    rest = (1 - r) * (1 + r)
    is_line = rest <= 0
    rest = where(is_line, 1.0, rest)
    width, distance = sqrt(rest), sqrt(gap)
    c, d = (4 - product) / 8, (12 - product) / 16
    height = -(gap / rest + product) / 2
    series = width * exp(height) * (1 - c * (gap - rest) * (1 - d * gap / 5) / 3 + c * d * rest**2 / 5)
    tail = exp(-product / 2) * math.sqrt(2 * math.pi) * ndtr(-distance / width) * distance
    tail = tail * (1 - c * gap * (1 - d * gap / 5) / 3)
    x = expand_dims(rest, -1) * TWO_NODES**2
    wide, cc, dd = (expand_dims(v, -1) for v in (product, c, d))
    exponent = -(expand_dims(gap, -1) / x + wide) / 2
    root = sqrt(1 - x)
    bracket = exp(-wide * (1 - root) / (2 * (1 + root))) / root - (1 + cc * x * (1 + dd * x))
    integral = sum_(where(exponent > LEAST, exp(exponent) * bracket, 0.0) * TWO_WEIGHTS, axis=-1) * width
    total = where(height > LEAST, series, 0.0) - where(product > LEAST, tail, 0.0) + integral
    total = where(is_line, 0.0, total) / (-2 * math.pi)
    between = where(k > h, where(h < 0, ndtr(k) - ndtr(h), ndtr(-h) - ndtr(-k)), 0.0)
    return where(r < 0, between - total, total + ndtr(-maximum(h, k)))


def _cdf_of_two(h: Array, k: Array, r: Array) -> Array:
    share = _upper(-clip(h, -FAR, FAR), -clip(k, -FAR, FAR), r)
    return astype(clip(share, 0.0, 1.0), h.dtype)


def _rule_of_two(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    """Return the value, and its derivative: by a bound the density there times that the other number lies below its own."""
    h, k, r = primals
    by_h, by_k, by_r = tangents
    width = sqrt((1 - r) * (1 + r))
    slope = (
        density(h) * ndtr((k - r * h) / width) * by_h
        + density(k) * ndtr((h - r * k) / width) * by_k
        + density(h) * density((k - r * h) / width) / width * by_r
    )
    return _bivariate_cdf(h, k, r), slope


def density(x: Array) -> Array:
    """Return the density of a normal number."""
    return exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


_bivariate_cdf = custom_jvp(_cdf_of_two, _rule_of_two)


# --- Multivariate normal: the distribution function in three dimensions by Plackett's formula, in more by a lattice


# -- three dimensions --
def _graded_rule(edges: tuple[float, ...], order: int) -> tuple[Any, Any]:
    """Return the nodes and weights of Gauss and Legendre's rule on each of several intervals."""
    rule = np.polynomial.legendre.leggauss(order)
    starts, widths = np.array(edges[:-1])[:, None], np.diff(edges)[:, None]
    return (starts + widths * (rule[0] + 1) / 2).reshape(-1), (widths * rule[1] / 2).reshape(-1)


# finer towards 1, where the integrand has its peak if the correlations are nearly singular
THREE_NODES, THREE_WEIGHTS = _graded_rule((0.0, *[1 - 2.0**-k for k in range(1, 14, 2)], 1.0), 20)
LEAST_VARIANCE = 1e-32  # of a number when the other two are known; rounding may leave less, or nothing


def _cdf_of_three(a: Array, b: Array, c: Array, ab: Array, ac: Array, bc: Array) -> Array:
    """Return the probability that numbers lie below a, b and c, from their correlations.

    The derivative by the correlations with the first number, integrated from independence (Plackett 1954; Genz 2004,
    section 3.2). The first number is the one behind the two whose correlation is largest.
    """
    a, b, c = (clip(v, -FAR, FAR) for v in (a, b, c))
    last, middle = (abs(ab) > abs(bc)) & (abs(ab) >= abs(ac)), (abs(ac) > abs(bc)) & (abs(ac) > abs(ab))
    a, c, ab, bc = where(last, c, a), where(last, a, c), where(last, bc, ab), where(last, ab, bc)
    a, b, ac, bc = where(middle, b, a), where(middle, a, b), where(middle, bc, ac), where(middle, ac, bc)
    with quiet():
        total = ndtr(a) * _bivariate_cdf(b, c, bc) + _integrate_from_independence(a, b, c, ab, ac, bc)
        total = total + _integrate_from_independence(a, c, b, ac, ab, bc)
    return astype(clip(total, 0.0, 1.0), a.dtype)


def _integrate_from_independence(a: Array, b: Array, c: Array, ab: Array, ac: Array, bc: Array) -> Array:
    """Return the share of the correlation of a and b, when both correlations of a grow from 0 together."""
    a, b, c, ab, ac, bc = (expand_dims(v, -1) for v in (a, b, c, ab, ac, bc))
    angle = asin(ab)
    r = sin(angle * THREE_NODES)
    s = ac * where(ab == 0, THREE_NODES, r / where(ab == 0, 1.0, ab))
    rest = (1 - r) * (1 + r)
    height = exp((r * a * b - (a * a + b * b) / 2) / rest)
    centre = ((s - r * bc) * a + (bc - r * s) * b) / rest
    variance = (1 - r * r - s * s - bc * bc + 2 * r * s * bc) / rest
    below = ndtr((c - centre) / sqrt(maximum(variance, LEAST_VARIANCE)))
    return sum_(height * below * THREE_WEIGHTS, axis=-1) * angle[..., 0] / (2 * math.pi)


def _rule_of_three(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    """Return the value and its derivative: densities of one number or two, times what the others do then."""
    a, b, c, ab, ac, bc = primals
    slope = (
        _slope_by_bound(a, b, c, ab, ac, bc) * tangents[0]
        + _slope_by_bound(b, a, c, ab, bc, ac) * tangents[1]
        + _slope_by_bound(c, a, b, ac, bc, ab) * tangents[2]
        + _slope_by_correlation(a, b, c, ab, ac, bc) * tangents[3]
        + _slope_by_correlation(a, c, b, ac, ab, bc) * tangents[4]
        + _slope_by_correlation(b, c, a, bc, ab, ac) * tangents[5]
    )
    return _trivariate_cdf(a, b, c, ab, ac, bc), slope


def _slope_by_bound(a: Array, b: Array, c: Array, ab: Array, ac: Array, bc: Array) -> Array:
    """Return the derivative by a: the density there, times the probability of the others when it is known."""
    wide, long = sqrt((1 - ab) * (1 + ab)), sqrt((1 - ac) * (1 + ac))
    rest = clip((bc - ab * ac) / (wide * long), -1.0, 1.0)
    return density(a) * _bivariate_cdf((b - ab * a) / wide, (c - ac * a) / long, rest)


def _slope_by_correlation(a: Array, b: Array, c: Array, ab: Array, ac: Array, bc: Array) -> Array:
    """Return the derivative by the correlation of a and b: their density, times the probability of c when both are known."""
    rest = (1 - ab) * (1 + ab)
    variance = (1 - ab * ab - ac * ac - bc * bc + 2 * ab * ac * bc) / rest
    centre = ((ac - ab * bc) * a + (bc - ab * ac) * b) / rest
    height = density(a) * density((b - ab * a) / sqrt(rest)) / sqrt(rest)
    return height * ndtr((c - centre) / sqrt(maximum(variance, LEAST_VARIANCE)))


_trivariate_cdf = custom_jvp(_cdf_of_three, _rule_of_three)


# -- more dimensions --
POINTS = 1 << 14  # of the lattice
LEAST_PROBABILITY = 1e-300  # whose quantile is finite


def lattice_cdf(z: Array, r: Array) -> Array:
    """Return the probability that no number lies above its bound, float[..., n], with correlations float[..., n, n].

    One number after the other is drawn below its bound; the mean of the product of their probabilities is the result
    (Genz 1992). Points are Richtmyer's sequence of roots of primes, folded, so that the mean of N is off by about 1 / N
    where the integrand is smooth. The least likely bounds come first, and the points are always the same.
    """
    z = clip(z, -FAR, FAR)
    order = argsort(z, axis=-1)
    z = take_along_axis(z, order, axis=-1)
    r = take_along_axis(take_along_axis(r, expand_dims(order, -1), axis=-2), expand_dims(order, -2), axis=-1)
    factor = cholesky(r)
    n = z.shape[-1]
    points = _points(n - 1)
    with quiet():
        share = expand_dims(ndtr(z[..., 0]), -1)
        total, drawn = share, list[Array]()
        for i in range(1, n):
            drawn.append(ndtri(maximum(share * points[i - 1], LEAST_PROBABILITY)))
            row = [expand_dims(factor[..., i, j], -1) for j in range(i + 1)]
            centre = row[0] * drawn[0]
            for weight, y in zip(row[1:-1], drawn[1:], strict=True):
                centre = centre + weight * y
            share = ndtr((expand_dims(z[..., i], -1) - centre) / row[-1])
            total = total * share
        return astype(mean(total, axis=-1), z.dtype)


def _points(n: int) -> Any:
    """Return float[n, POINTS] between 0 and 1: multiples of roots of primes, folded so that their ends meet."""
    roots = np.sqrt(np.array(_primes(n), float))
    u = np.outer(roots, np.arange(POINTS) + 0.5) % 1.0
    return 1 - np.abs(2 * u - 1)


def _primes(n: int) -> list[int]:
    primes: list[int] = []
    candidate = 2
    while len(primes) < n:
        if all(candidate % p for p in primes):
            primes.append(candidate)
        candidate += 1
    return primes


# --- Multivariate distributions


class _Dirichlet(Vectors):
    """Dirichlet distribution: density of shares, proportional to the product of ``x_i`` to the power ``alpha_i - 1``.

    As in SciPy, x is float[k], or float[k, n] for n points: the components are its first axis. Of k - 1 components the
    last share is the rest. ``alpha`` is float[k], positive. Points that are no shares have density 0.

    >>> afx.stats.dirichlet.pdf(np.array([0.2, 0.3, 0.5]), np.ones(3)).round(4)
    Array(2., dtype=float64)
    """

    name: str = "dirichlet"
    names: tuple[str, ...] = ("alpha",)
    axes: tuple[int, ...] = (1,)
    kind: str = "simplex"

    def logpdf(self, x: ArrayLike, alpha: ArrayLike) -> Array:
        """Return the logarithm of the density.

        Raises:
            ShapeError: the components are not as many as those of alpha, or one fewer.
        """
        y, a = floating("dirichlet", x, alpha)
        if a.ndim != 1 or not y.ndim or a.shape[0] - y.shape[0] not in (0, 1):
            raise ShapeError(
                f"dirichlet: the first axis of x is as long as alpha: got x {y.aval} and alpha {a.aval}; transpose x"
            )
        if y.shape[0] < a.shape[0]:
            y = concat([y, 1 - sum_(y, axis=0, keepdims=True)], axis=0)
        powers = reshape(a, (-1,) + (1,) * (y.ndim - 1))
        inside = all_((y >= 0) & (y <= 1) | isnan(y), axis=0) & ~(abs_(sum_(y, axis=0) - 1) > 1e-9)
        with quiet():
            z = sum_(xlogy(powers - 1, where(inside, y, 0.5)), axis=0) + gammaln(sum_(a)) - sum_(gammaln(a))
            return where(all_(a > 0), where(inside, z, -math.inf), math.nan)

    def pdf(self, x: ArrayLike, alpha: ArrayLike) -> Array:
        """Return the density."""
        return exp(self.logpdf(x, alpha))

    def mean(self, alpha: ArrayLike) -> Array:
        """Return the means of all shares."""
        (a,) = floating("dirichlet", alpha)
        return a / sum_(a)

    def var(self, alpha: ArrayLike) -> Array:
        """Return the variances of all shares."""
        (a,) = floating("dirichlet", alpha)
        up, down = cumsum(a, axis=0)[:-1], cumsum(a[::-1], axis=0)[-2::-1]
        none = zeros((1,), a.dtype)
        others, total = concat([none, up], axis=0) + concat([down, none], axis=0), sum_(a)
        return a / total * (others / total) / (total + 1)

    def entropy(self, alpha: ArrayLike) -> Array:
        """Return the differential entropy."""
        (a,) = floating("dirichlet", alpha)
        return shares_entropy(astype(a, float64)).astype(a.dtype)

    def fit(self, x: ArrayLike) -> dict[str, Array]:
        """Return ``alpha`` of the greatest likelihood, by name, in float64, with derivatives by the data.

        Args:
            x: float[k, n], shares: the components are the first axis, as in `logpdf`.

        Raises:
            ShapeError: x is no matrix of two components and two points or more.
            ArgumentError: what is no share, or no maximum was found: all points are one.

        >>> x = np.array([[0.2, 0.3, 0.4, 0.5], [0.8, 0.7, 0.6, 0.5]])
        >>> afx.stats.dirichlet.fit(x)["alpha"].round(2)
        Array([ 6.14, 11.41], dtype=float64)
        """
        return {"alpha": fit_shares(read_real(x, "dirichlet"))}

    def log_events(self, x: ArrayLike, *args: Any) -> Array:
        """Return the logarithms of densities of shares along the last axis."""
        return self.logpdf(moveaxis(asarray(x), -1, 0), *args)

    def rvs(self, key: ArrayLike, shape: ShapeLike, alpha: ArrayLike) -> Array:
        """Return draws, float[*shape, k], as `afx.random.dirichlet` does."""
        return draw_dirichlet(key, alpha, shape)


class _MultivariateNormal(Vectors):
    """Multivariate normal distribution of mean float[..., n] and covariance float[..., n, n], positive definite.

    As in SciPy, x is float[..., n], the mean is 0 and the covariance the identity where they are not given; a number
    or a vector stands for a diagonal covariance. Leading axes broadcast.

    >>> afx.stats.multivariate_normal.logpdf(np.zeros(2), cov=np.eye(2)).round(4)
    Array(-1.8379, dtype=float64)
    """

    name: str = "multivariate_normal"
    names: tuple[str, ...] = ("mean", "cov")
    axes: tuple[int, ...] = (1, 2)

    def logpdf(
        self, x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1.0, *, allow_singular: bool = False
    ) -> Array:
        """Return the logarithm of the density.

        Args:
            x: float[..., n].
            mean: float[..., n].
            cov: float[..., n, n].
            allow_singular: takes a covariance that is singular to rounding; the density is that on its plane, by length,
                area and so on, and beside it 0. Equal eigenvalues have no derivative by the covariance.

        Raises:
            ShapeError: the covariance does not fit the mean, or x does not.
            numpy.linalg.LinAlgError: the covariance is not positive definite.
        """
        y, m, c = _align_operands(x, mean, cov)
        if allow_singular:
            return _log_density_on_plane(y - m, c)
        factor = cholesky(c)
        z = _whiten(factor, y - m)
        heights = sum_(log(diagonal(factor)), axis=-1)
        return -0.5 * sum_(z * z, axis=-1) - heights - 0.5 * c.shape[-1] * math.log(2 * math.pi)

    def pdf(
        self, x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1.0, *, allow_singular: bool = False
    ) -> Array:
        """Return the density."""
        return exp(self.logpdf(x, mean, cov, allow_singular=allow_singular))

    def entropy(self, mean: ArrayLike | None = None, cov: ArrayLike = 1.0, *, allow_singular: bool = False) -> Array:
        """Return the differential entropy; of a singular covariance, where it is allowed, that on its plane.

        Raises:
            numpy.linalg.LinAlgError: the covariance is not positive definite.
        """
        _, _, c = _align_operands(0.0 if mean is None and not aval_of(cov).ndim else _like(mean, cov), mean, cov)
        if allow_singular:
            values, _, kept, _ = _directions(c)
            each = 0.5 * log(where(kept, values, 1.0)) + where(kept, 0.5 * math.log(2 * math.pi) + 0.5, 0.0)
            return sum_(each, axis=-1)
        heights = sum_(log(diagonal(cholesky(c))), axis=-1)
        return heights + 0.5 * c.shape[-1] * (math.log(2 * math.pi) + 1)

    def fit(self, x: ArrayLike, *, mean: ArrayLike | None = None, cov: ArrayLike | None = None) -> dict[str, Array]:
        """Return ``mean`` and ``cov`` of the greatest likelihood, by name, in float64, with derivatives by the data.

        Args:
            x: float[points, n], or float[points] for n of 1.
            mean: float[n], the mean, if it is known.
            cov: float[n, n], the covariance, likewise.

        Raises:
            ShapeError: x has no points, or a known parameter does not fit it.
            ArgumentError: a number that is not finite.

        >>> found = afx.stats.multivariate_normal.fit(np.array([[1.0, 2.0], [3.0, 2.0], [2.0, 5.0]]))
        >>> found["mean"], found["cov"].round(3)
        (Array([2., 3.], dtype=float64), Array([[0.667, 0.   ],
               [0.   , 2.   ]], dtype=float64))
        """
        y = read_real(x, "multivariate_normal")
        y = reshape(y, (-1, 1)) if y.ndim == 1 else y
        if y.ndim != 2 or not y.shape[0]:
            raise ShapeError(f"multivariate_normal.fit: data are float[points, n]: got {y.aval}; reshape them")
        check_data(y, np.isfinite, "multivariate_normal", "data are finite numbers", "leave such points out")
        n = y.shape[1]
        m = sum_(y, axis=0) / y.shape[0] if mean is None else read_real(mean, "multivariate_normal")
        known = None if cov is None else read_real(cov, "multivariate_normal")
        if m.shape != (n,) or (known is not None and known.shape != (n, n)):
            raise ShapeError(
                f"multivariate_normal.fit: known parameters fit the data: got mean {m.aval} and cov "
                f"{None if known is None else known.aval} for {y.aval}; reshape them"
            )
        gaps = y - m
        c = matmul(gaps.T, gaps) / y.shape[0] if known is None else known
        return {"mean": m, "cov": c}

    def rvs(
        self, key: ArrayLike, shape: ShapeLike, mean: ArrayLike, cov: ArrayLike, *, allow_singular: bool = False
    ) -> Array:
        """Return draws, float[*shape, n], as `afx.random.multivariate_normal` does.

        Of a singular covariance, where it is allowed, they lie on its plane: equal eigenvalues have no derivative.
        """
        m, c = floating("multivariate_normal", mean, cov, alone=get_default_dtype())
        if not allow_singular:
            return draw_normal(key, m, c, shape)
        values, vectors, kept, _ = _directions(c)
        widths = where(kept, sqrt(where(kept, values, 1.0)), 0.0)
        lead = (
            broadcast_shapes([m.shape[:-1], c.shape[:-2]])
            if shape is None
            else (shape,)
            if isinstance(shape, int)
            else shape
        )
        assert lead is not None  # the parameters fit each other
        z = draw_standard(key, (*lead, c.shape[-1]), dtype=c.dtype) * widths
        return m + matmul(expand_dims(z, -2), vectors.mT)[..., 0, :]

    def cdf(self, x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1.0) -> Array:
        """Return the probability that no component is above that of x.

        In one to three dimensions it is right to 1e-15 (Genz 2004), and derivatives by x, mean and covariance are exact, of
        every order. In more it is the mean over 2¹⁴ points of a lattice (Genz 1992), always the same, off by about 1e-5,
        by 1e-4 where the covariance is nearly singular; derivatives are those of this mean. Needs the extra ``scipy``.

        Raises:
            ShapeError: the covariance does not fit the mean, or x does not.
            numpy.linalg.LinAlgError: the covariance is not positive definite.

        >>> afx.stats.multivariate_normal.cdf(np.zeros(2), cov=np.array([[1.0, 0.5], [0.5, 1.0]])).round(6)
        Array(0.333333, dtype=float64)
        """
        y, m, c = _align_operands(x, mean, cov)
        n = c.shape[-1]
        cholesky(c)  # refuses what is no covariance
        widths = sqrt(diagonal(c))
        z = (y - m) / widths
        if n == 1:
            return ndtr(z[..., 0])
        r = c / (expand_dims(widths, -1) * expand_dims(widths, -2))
        if n == 2:
            return _bivariate_cdf(*broadcast_arrays(z[..., 0], z[..., 1], r[..., 0, 1]))
        if n == 3:
            bounds = [z[..., k] for k in range(3)]
            return _trivariate_cdf(*broadcast_arrays(*bounds, r[..., 0, 1], r[..., 0, 2], r[..., 1, 2]))
        lead = broadcast_shapes([z.shape[:-1], r.shape[:-2]])
        assert lead is not None  # they went through `z` together
        return lattice_cdf(broadcast_to(z, (*lead, n)), broadcast_to(r, (*lead, n, n)))

    def logcdf(self, x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1.0) -> Array:
        """Return the logarithm of `cdf`."""
        return log(self.cdf(x, mean, cov))


def _align_operands(x: ArrayLike, mean: ArrayLike | None, cov: ArrayLike) -> tuple[Array, Array, Array]:
    """Return points, mean and covariance matrix of one length, or raise `ShapeError`."""
    y, m, c = floating("multivariate_normal", x, 0.0 if mean is None else mean, cov)
    n = max([v.shape[-1] if v.ndim else 1 for v in (m, c)])
    if mean is None and c.ndim == 0:
        n = y.shape[-1] if y.ndim else 1
    y = reshape(y, (*y.shape, 1)) if n == 1 and (not y.ndim or y.shape[-1] != 1) else y
    c = eye(n, dtype=c.dtype) * c if c.ndim < 2 else c
    if c.shape[-2:] != (n, n) or y.ndim == 0 or y.shape[-1] != n or (m.ndim and m.shape[-1] != n):
        raise ShapeError(
            f"multivariate_normal: x and mean are vectors of the covariance's length: got x {y.aval}, mean {m.aval} "
            f"and cov {c.aval}; reshape them"
        )
    return y, m, c


def _like(mean: ArrayLike | None, cov: ArrayLike) -> Array:
    """Return a point of the length that mean and covariance have."""
    return zeros(aval_of(cov if mean is None else mean).shape[-1:] or (1,), aval_of(cov).dtype)


def _directions(cov: Array) -> tuple[Array, Array, Array, Array]:
    """Return variances along directions, these, which of them are any, and the limit below which one is none."""
    values, vectors = eigh(cov)
    eps = epsilon(cov.dtype) * (1e6 if cov.dtype == np.float64 else 1e3)
    limit = stop_gradient(eps * max_(abs_(values), axis=-1, keepdims=True))
    return values, vectors, values > limit, limit


def _log_density_on_plane(gap: Array, cov: Array) -> Array:
    """Return the logarithm of the density on the plane of directions in which there is variance (as in SciPy)."""
    values, vectors, kept, limit = _directions(cov)
    safe = where(kept, values, 1.0)
    along = matmul(expand_dims(gap, -2), vectors)[..., 0, :]
    squares = sum_(where(kept, along * along / safe, 0.0), axis=-1)
    heights = sum_(where(kept, log(safe), 0.0), axis=-1)
    beside = sqrt(sum_(where(kept, 0.0, stop_gradient(along) ** 2), axis=-1)) >= 1e3 * limit[..., 0]
    rank = sum_(kept.astype(cov.dtype), axis=-1)
    z = -0.5 * (squares + heights + rank * math.log(2 * math.pi))
    return where(beside & (rank < cov.shape[-1]), -math.inf, z)


def _whiten(factor: Array, y: Array) -> Array:
    """Return the solutions of triangular systems for vectors along the last axis; one factor serves them all at once."""
    if factor.ndim == 2:
        flat = reshape(y, (-1, y.shape[-1]))
        return reshape(solve_triangular(factor, flat.T, lower=True).T, y.shape)
    return solve_triangular(factor, reshape(y, (*y.shape, 1)), lower=True)[..., 0]


dirichlet: _Dirichlet = _Dirichlet()
multivariate_normal: _MultivariateNormal = _MultivariateNormal()
