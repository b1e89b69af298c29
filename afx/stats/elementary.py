"""Elementary distributions: exponential, Weibull, Laplace, logistic, Cauchy, uniform."""

from __future__ import annotations

import math

from afx.core.array.array import Array, ArrayLike
from afx.ops.creation.creation import asarray, zeros_like
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import negative
from afx.ops.elementwise.exponential import exp, expm1, log, log1p, log_sigmoid, sigmoid
from afx.ops.elementwise.trigonometry import arctan2, tan
from afx.ops.elementwise.where import where
from afx.ops.special.entropy import logit, xlogy
from afx.ops.special.gamma import gamma, gammaln
from afx.ops.special.student import log_square_plus_one
from afx.stats._distribution import ContinuousDistribution, log1mexp
from afx.stats._family import continuous

__all__ = ["cauchy", "expon", "laplace", "logistic", "uniform", "weibull_min"]


EULER = 0.57721566490153286  # the negative derivative of the gamma function at 1


@continuous
def expon(loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Exponential distribution: density ``exp(-x)`` for x of 0 or more."""
    return ContinuousDistribution(
        logpdf=negative,
        cdf=lambda y: -expm1(-y),
        logcdf=log1mexp,
        logsf=negative,
        ppf=lambda q: -log1p(-q),
        isf=lambda q: -log(q),
        mean=lambda: 1.0,
        var=lambda: 1.0,
        entropy=lambda: 1.0,
        low=0.0,
        loc=loc,
        scale=scale,
    )


@continuous
def weibull_min(c: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Weibull distribution: the survival function is ``exp(-xᶜ)`` for x of 0 or more."""
    k = asarray(c)
    return ContinuousDistribution(
        logpdf=lambda y: log(k) + xlogy(k - 1, y) - y**k,
        cdf=lambda y: -expm1(-(y**k)),
        logcdf=lambda y: log1mexp(y**k),
        logsf=lambda y: -(y**k),
        ppf=lambda q: (-log1p(-q)) ** (1 / k),
        isf=lambda q: (-log(q)) ** (1 / k),
        mean=lambda: gamma(1 + 1 / k),
        var=lambda: _weibull_variance(1 / k),
        entropy=lambda: EULER * (1 - 1 / k) - log(k) + 1,
        low=0.0,
        allowed=k > 0,
        loc=loc,
        scale=scale,
    )


_ZETA = (
    1.6449340668482264,
    1.2020569031595942,
    1.0823232337111381,
    1.03692775514337,
    1.0173430619844492,
    1.008349277381923,
    1.0040773561979444,
    1.0020083928260821,
    1.000994575127818,
    1.0004941886041194,
    1.000246086553308,
    1.0001227133475785,
)  # of the numbers from 2 on
FLAT = 1 / 32  # up to this reciprocal twelve terms of the series are exact


def _weibull_variance(e: Array) -> Array:
    """Return the variance of the Weibull distribution of shape 1 / e; for small e by Taylor's series of log-gamma at 1."""
    flat = e < FLAT
    small, large = where(flat, e, 0.0), where(flat, 1.0, e)
    series = 0.0 * e
    for n in range(13, 1, -1):
        series = (-small) * series + (2**n - 2) * _ZETA[n - 2] / n
    excess = where(flat, small * small * series, gammaln(1 + 2 * large) - 2 * gammaln(1 + large))
    return gamma(1 + e) ** 2 * expm1(excess)


@continuous
def uniform(loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Uniform distribution from ``loc`` to ``loc + scale``."""
    return ContinuousDistribution(
        logpdf=lambda y: 0 * y,
        cdf=lambda y: y,
        sf=lambda y: 1 - y,
        logcdf=log,
        logsf=lambda y: log1p(-y),
        ppf=lambda q: q,
        isf=lambda q: 1 - q,
        mean=lambda: 0.5,
        var=lambda: 1 / 12,
        entropy=lambda: 0.0,
        low=0.0,
        high=1.0,
        loc=loc,
        scale=scale,
    )


# -- of two sides --
@continuous
def logistic(loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Logistic distribution: the distribution function is the sigmoid."""
    return ContinuousDistribution(
        logpdf=lambda y: log_sigmoid(y) + log_sigmoid(-y),
        cdf=sigmoid,
        sf=lambda y: sigmoid(-y),
        logcdf=log_sigmoid,
        logsf=lambda y: log_sigmoid(-y),
        ppf=logit,
        isf=lambda q: -logit(q),
        mean=lambda: 0.0,
        var=lambda: math.pi**2 / 3,
        entropy=lambda: 2.0,
        loc=loc,
        scale=scale,
    )


def _laplace_cdf(y: Array) -> Array:
    tail = 0.5 * exp(-abs_(y))
    return where(y < 0, tail, 1 - tail)


def _laplace_logcdf(y: Array) -> Array:
    low = y < 0
    return where(low, y - math.log(2), log1p(-0.5 * exp(-where(low, 0, y))))


def _laplace_quantile(q: Array) -> Array:
    return where(q < 0.5, log(2 * where(q < 0.5, q, 0.5)), -log(2 * where(q < 0.5, 0.5, 1 - q)))


@continuous
def laplace(loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Laplace distribution: density ``½ exp(-|x|)``, whose derivative at 0 is 0."""
    return ContinuousDistribution(
        logpdf=lambda y: -abs_(y) - math.log(2),
        cdf=_laplace_cdf,
        sf=lambda y: _laplace_cdf(-y),
        logcdf=_laplace_logcdf,
        logsf=lambda y: _laplace_logcdf(-y),
        ppf=_laplace_quantile,
        isf=lambda q: -_laplace_quantile(q),
        mean=lambda: 0.0,
        var=lambda: 2.0,
        entropy=lambda: math.log(2) + 1,
        loc=loc,
        scale=scale,
    )


def _cauchy_cdf(y: Array) -> Array:
    return arctan2(zeros_like(y) + 1, -y) / math.pi


def _cauchy_logcdf(y: Array) -> Array:
    low = y < 0
    return where(low, log(_cauchy_cdf(where(low, y, -1))), log1p(-_cauchy_cdf(-where(low, 1, y))))


def _cauchy_quantile(q: Array) -> Array:
    far = abs_(q - 0.5) > 0.25
    tail = where(q < 0.5, -q, 1 - q)
    return where(far, 1 / tan(math.pi * where(far, tail, 0.25)), tan(math.pi * where(far, 0, q - 0.5)))


@continuous
def cauchy(loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Cauchy distribution: density ``1 / (π (1 + x²))``."""
    return ContinuousDistribution(
        logpdf=lambda y: -math.log(math.pi) - log_square_plus_one(y),
        cdf=_cauchy_cdf,
        sf=lambda y: _cauchy_cdf(-y),
        logcdf=_cauchy_logcdf,
        logsf=lambda y: _cauchy_logcdf(-y),
        ppf=_cauchy_quantile,
        isf=lambda q: -_cauchy_quantile(q),
        mean=lambda: math.nan,
        var=lambda: math.nan,
        entropy=lambda: math.log(4 * math.pi),
        loc=loc,
        scale=scale,
    )
