"""Gamma and beta families: gamma, chi squared, beta, F and Student's t."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from afx.core import Array, ArrayLike
from afx.ops import abs as abs_, asarray, broadcast_arrays, exp, log, log1p, minimum, sqrt, stack, sum as sum_, where
from afx.ops.special import distributions
from afx.ops.special.distributions import fisher, fisherc
from afx.ops.special.gamma import betaln, digamma, digamma_gap, gammaln
from afx.ops.special.incomplete import (
    betainc,
    betaincc,
    betainccinv,
    betaincinv,
    density_beta,
    density_gamma,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
)
from afx.ops.special.log_incomplete import (
    log_beta_density,
    log_betainc,
    log_betaincc,
    log_gamma_density,
    log_gammainc,
    log_gammaincc,
)
from afx.stats._distribution import ContinuousDistribution, continuous
from afx.stats.elementary import HALF_LOG_2PI

__all__ = ["beta", "chi2", "f", "gamma", "gennorm", "invgamma", "t"]

# --- Stirling's series: what is left of log-gamma and digamma behind their large terms, with derivatives by the
# argument
#
# Entropies are sums in which these large terms cancel, so that they are written in what is left.

FAR = 10.0  # from here on eight terms of either series are exact to the last digit of float64
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
OF_GAMMALN = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1))
OF_DIGAMMA = tuple(b / (2 * k) for k, b in enumerate(BERNOULLI, 1))


def _sum_series(coefficients: tuple[float, ...], square: Array) -> Array:
    total = 0.0 * square
    for coefficient in reversed(coefficients):
        total = total * square + coefficient
    return total


def gammaln_rest(a: Array) -> Array:
    """Return the logarithm of the gamma function less ``(a - ½) log a - a + ½ log 2π``, for numbers above 0."""
    far = a > FAR
    inverse, near = 1 / where(far, a, FAR), where(far, 1.0, a)
    direct = gammaln(near) + near - (near - 0.5) * log(near) - HALF_LOG_2PI
    return where(far, inverse * _sum_series(OF_GAMMALN, inverse * inverse), direct)


def digamma_rest(a: Array) -> Array:
    """Return ``log a - digamma(a)``, for numbers above 0."""
    far = a > FAR
    inverse, near = 1 / where(far, a, FAR), where(far, 1.0, a)
    series = 0.5 * inverse + inverse * inverse * _sum_series(OF_DIGAMMA, inverse * inverse)
    return where(far, series, log(near) - digamma(near))


def shares_entropy(a: Array) -> Array:
    """Return the entropy of shares that follow a Dirichlet law of parameters ``a``, along the first axis."""
    total = sum_(a, axis=0)
    terms = 0.5 * log(a / total) + gammaln_rest(a) + (a - 1) * (digamma_rest(a) - digamma_rest(total))
    return sum_(terms, axis=0) - gammaln_rest(total) + (a.shape[0] - 1) * (HALF_LOG_2PI - 0.5 * log(total))


# --- Gamma family: the gamma distribution and chi squared, as sums of squares and waiting times; its inverse; powers
# of it


def _gamma(a: Array, loc: ArrayLike, scale: ArrayLike) -> ContinuousDistribution:
    return ContinuousDistribution(
        logpdf=lambda y: log_gamma_density(a, y),
        pdf=lambda y: density_gamma(a, y),
        cdf=lambda y: gammainc(a, y),
        sf=lambda y: gammaincc(a, y),
        logcdf=lambda y: log_gammainc(a, y),
        logsf=lambda y: log_gammaincc(a, y),
        ppf=lambda q: gammaincinv(a, q),
        isf=lambda q: gammainccinv(a, q),
        mean=lambda: a,
        var=lambda: a,
        entropy=lambda: HALF_LOG_2PI + 0.5 * log(a) + gammaln_rest(a) + (a - 1) * digamma_rest(a),
        low=0.0,
        allowed=a > 0,
        loc=loc,
        scale=scale,
    )


@continuous
def gamma(a: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Gamma distribution of shape ``a``: density ``xᵃ⁻¹ exp(-x) / Γ(a)`` for x of 0 or more."""
    return _gamma(asarray(a), loc, scale)


@continuous
def chi2(df: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Chi-squared distribution of ``df`` degrees of freedom: the gamma distribution of shape ``df / 2`` and scale 2."""
    return _gamma(asarray(df) / 2, loc, asarray(scale) * 2)


@continuous
def invgamma(a: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Inverse gamma distribution of shape ``a``: of 1 over a gamma number, for x above 0."""
    c = asarray(a)
    return ContinuousDistribution(
        logpdf=lambda y: log_gamma_density(c, 1 / y) - 2 * log(y),
        cdf=lambda y: gammaincc(c, 1 / y),
        sf=lambda y: gammainc(c, 1 / y),
        logcdf=lambda y: log_gammaincc(c, 1 / y),
        logsf=lambda y: log_gammainc(c, 1 / y),
        ppf=lambda q: 1 / gammainccinv(c, q),
        isf=lambda q: 1 / gammaincinv(c, q),
        mean=lambda: where(c > 1, 1 / where(c > 1, c - 1, 1), math.inf),
        var=lambda: where(c > 2, 1 / (where(c > 2, c - 1, 1) ** 2 * where(c > 2, c - 2, 1)), math.inf),
        entropy=lambda: HALF_LOG_2PI - 1.5 * log(c) + gammaln_rest(c) + (1 + c) * digamma_rest(c),
        low=0.0,
        is_open=True,
        allowed=c > 0,
        loc=loc,
        scale=scale,
    )


@continuous
def gennorm(beta: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Generalised normal distribution: density proportional to ``exp(-|x|^beta)``; laplace at 1, a normal one at 2."""
    b = asarray(beta)
    c = 1 / b

    log_peak = log(b / 2) - gammaln(c)

    def power(y: Array) -> Array:
        return where(y == 0, 0.0, where(y == 0, 1.0, abs_(y)) ** b)

    def beyond(y: Array) -> tuple[Array, Array, Array]:
        """Return the power, the probability of one tail, and whether it is the lower one.

        Where the power is too small for a number, the density is that at 0.
        """
        size, most = power(y), float(np.finfo(y.dtype).max) / 4
        near = size == 0
        size = where(near, 1.0, size)
        return size, where(near, 0.5 - y * exp(log_peak), 0.5 * gammaincc(c, minimum(size, most))), (y < 0) & ~near

    def logcdf(y: Array) -> Array:
        size, tail, low = beyond(y)
        return where(low, log_gammaincc(c, size) - math.log(2), log1p(-tail))

    def cdf(y: Array) -> Array:
        _, tail, low = beyond(y)
        return where(low, tail, 1 - tail)

    def ppf(q: Array) -> Array:
        low = q < 0.5
        size = gammainccinv(c, 2 * where(low, q, 1 - q))
        near = size == 0
        root = where(near, 1.0, size) ** c
        width = exp(minimum(-log_peak, math.log(float(np.finfo(q.dtype).max) / 2)))
        return where(near, (q - 0.5) * width, where(low, -root, root))

    return ContinuousDistribution(
        logpdf=lambda y: log_peak - power(y),
        cdf=cdf,
        logcdf=logcdf,
        ppf=ppf,
        mean=lambda: 0.0 * b,
        var=lambda: exp(gammaln(3 * c) - gammaln(c)),
        entropy=lambda: c - log(b / 2) + gammaln(c),
        allowed=b > 0,
        is_symmetric=True,
        loc=loc,
        scale=scale,
    )


# --- Beta family: the beta distribution, and F and Student's t, whose odds follow it

Fn: TypeAlias = Callable[[Array, Array, Array], Array]


@continuous
def beta(a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Beta distribution: density ``xᵃ⁻¹ (1 - x)ᵇ⁻¹ / B(a, b)`` for x from 0 to 1."""
    c, d = asarray(a), asarray(b)
    return ContinuousDistribution(
        logpdf=lambda y: log_beta_density(c, d, y),
        pdf=lambda y: density_beta(c, d, y),
        cdf=lambda y: betainc(c, d, y),
        sf=lambda y: betaincc(c, d, y),
        logcdf=lambda y: log_betainc(c, d, y),
        logsf=lambda y: log_betaincc(c, d, y),
        ppf=lambda q: betaincinv(c, d, q),
        isf=lambda q: betainccinv(c, d, q),
        mean=lambda: c / (c + d),
        var=lambda: c / (c + d) * (d / (c + d)) / (c + d + 1),
        entropy=lambda: shares_entropy(stack(broadcast_arrays(c, d))),
        low=0.0,
        high=1.0,
        allowed=(c > 0) & (d > 0),
        loc=loc,
        scale=scale,
    )


# -- odds --
def _shares(odds: Array) -> tuple[Array, Array]:
    """Return ``odds / (1 + odds)`` and its complement, both to the last digit."""
    large = odds > 1
    u = where(large, 1 / (1 + 1 / where(large, odds, 1)), where(large, 1, odds) / (1 + where(large, 1, odds)))
    return u, 1 / (1 + odds)


def _choose_side(low: Fn, high: Fn, a: Array, b: Array, odds: Array) -> Array:
    """Return ``low(a, b, u)``, which is ``high(b, a, 1 - u)``, for the share u of odds, by the smaller of the two."""
    u, v = _shares(odds)
    small = odds < 1
    return where(small, low(a, b, where(small, u, 0.5)), high(b, a, where(small, 0.5, v)))


def _odds(a: Array, b: Array, q: Array) -> Array:
    """Return the odds at which the beta distribution function is q."""
    u = betaincinv(a, b, q)
    large = u > 0.5
    v = betainccinv(b, a, where(large, q, 0.5))
    low = where(large, 0.5, u)
    return where(large, (1 - v) / v, low / (1 - low))


@continuous
def f(dfn: ArrayLike, dfd: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """F distribution: of the ratio of two chi-squared numbers, each over its degrees of freedom."""
    m, n = asarray(dfn), asarray(dfd)
    a, b, ratio = m / 2, n / 2, m / n

    def logpdf(y: Array) -> Array:
        odds = ratio * y
        return _choose_side(log_beta_density, log_beta_density, a, b, odds) + log(ratio) - 2 * log1p(odds)

    def entropy() -> Array:
        rest, first, second = digamma_rest(a + b), digamma_rest(a), digamma_rest(b)
        large = HALF_LOG_2PI + gammaln_rest(a) + gammaln_rest(b) - gammaln_rest(a + b) + 0.5 * log(1 / a + 1 / b)
        return large + a * (first - rest) + b * (second - rest) - first + second

    return ContinuousDistribution(
        logpdf=logpdf,
        cdf=lambda y: fisher(a, b, y),
        sf=lambda y: fisherc(a, b, y),
        logcdf=lambda y: _choose_side(log_betainc, log_betaincc, a, b, ratio * y),
        logsf=lambda y: _choose_side(log_betaincc, log_betainc, a, b, ratio * y),
        ppf=lambda q: _odds(a, b, q) / ratio,
        isf=lambda q: 1 / (ratio * _odds(b, a, q)),
        mean=lambda: where(n > 2, n / where(n > 2, n - 2, 1), math.inf),
        var=lambda: where(n > 4, 2 * (m + n - 2) * (n / (n - 2)) ** 2 / (m * where(n > 4, n - 4, 1)), math.inf),
        entropy=entropy,
        low=0.0,
        allowed=(m > 0) & (n > 0),
        loc=loc,
        scale=scale,
    )


# -- Student's t --
_FAR = 1e12  # whose square a float32 holds, and beside which one rounds to one


@continuous
def t(df: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Student's t distribution of ``df`` degrees of freedom."""
    n = asarray(df)
    half = asarray(0.5, n.dtype)

    def log_tail(ratio: Array) -> Array:
        """Return the logarithm of both far tails, their leading term."""
        return -n * log(ratio) - log(n / 2) - betaln(n / 2, half)

    def cdf(y: Array) -> Array:
        ratio = abs_(y) / sqrt(n)
        far = ratio > _FAR
        tail = exp(log_tail(where(far, ratio, _FAR))) / 2
        return where(far, where(y < 0, tail, 1 - tail), distributions.stdtr(n, where(far, 0, y)))

    def logcdf(y: Array) -> Array:
        low = y < -1
        ratio = -where(low, y, -1) / sqrt(n)
        far = ratio > _FAR
        tail = _choose_side(log_betaincc, log_betainc, half, n / 2, where(far, 1, ratio) ** 2)
        tail = where(far, log_tail(where(far, ratio, _FAR)), tail)
        return where(low, tail - math.log(2), log1p(-cdf(-where(low, -1, y))))

    return ContinuousDistribution(
        logpdf=lambda y: distributions.log_density(n, y),
        cdf=cdf,
        logcdf=logcdf,
        ppf=lambda q: distributions.stdtrit(n, q),
        mean=lambda: where(n > 1, 0.0, math.inf),
        var=lambda: where(n > 2, n / where(n > 2, n - 2, 1), where(n > 1, math.inf, math.nan)),
        entropy=lambda: (n + 1) / 2 * digamma_gap(n / 2, half) + 0.5 * log(n) + betaln(n / 2, half),
        allowed=n > 0,
        is_symmetric=True,
        loc=loc,
        scale=scale,
    )
