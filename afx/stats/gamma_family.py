"""Gamma family: the gamma distribution and chi squared, as sums of squares and waiting times; its inverse; powers of it."""

from __future__ import annotations

import math

from afx.core.array.array import Array, ArrayLike
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.exponential import exp, log, log1p
from afx.ops.elementwise.where import where
from afx.ops.special.gamma import gammaln
from afx.ops.special.incomplete_gamma import density, gammainc, gammaincc, gammainccinv, gammaincinv
from afx.ops.special.log_incomplete_gamma import log_gamma_density, log_gammainc, log_gammaincc
from afx.stats._distribution import ContinuousDistribution
from afx.stats._family import continuous
from afx.stats._stirling import digamma_rest, gammaln_rest
from afx.stats.normal import HALF_LOG_2PI

__all__ = ["chi2", "gamma", "gennorm", "invgamma"]


def _gamma(a: Array, loc: ArrayLike, scale: ArrayLike) -> ContinuousDistribution:
    return ContinuousDistribution(
        logpdf=lambda y: log_gamma_density(a, y),
        pdf=lambda y: density(a, y),
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

    def power(y: Array) -> Array:
        return where(y == 0, 0.0, where(y == 0, 1.0, abs_(y)) ** b)

    def logcdf(y: Array) -> Array:
        low = y < 0
        tail = log_gammaincc(c, power(y)) - math.log(2)
        return where(low, tail, log1p(-0.5 * gammaincc(c, power(y))))

    def cdf(y: Array) -> Array:
        tail = 0.5 * gammaincc(c, power(y))
        return where(y < 0, tail, 1 - tail)

    def ppf(q: Array) -> Array:
        low = q < 0.5
        size = gammainccinv(c, 2 * where(low, q, 1 - q)) ** c
        return where(low, -size, size)

    return ContinuousDistribution(
        logpdf=lambda y: log(b / 2) - gammaln(c) - power(y),
        cdf=cdf,
        sf=lambda y: cdf(-y),
        logcdf=logcdf,
        logsf=lambda y: logcdf(-y),
        ppf=ppf,
        isf=lambda q: -ppf(q),
        mean=lambda: 0.0 * b,
        var=lambda: exp(gammaln(3 * c) - gammaln(c)),
        entropy=lambda: c - log(b / 2) + gammaln(c),
        allowed=b > 0,
        loc=loc,
        scale=scale,
    )
