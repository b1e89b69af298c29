"""Discrete distributions: Poisson, binomial, negative binomial, geometric."""

from __future__ import annotations

from afx.core.array.array import ArrayLike
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.exponential import expm1, log
from afx.ops.elementwise.rounding import floor
from afx.ops.special.entropy import xlog1py
from afx.ops.special.incomplete_beta import betainc, betaincc
from afx.ops.special.incomplete_gamma import gammainc, gammaincc
from afx.ops.special.log_incomplete_beta import log_beta_density, log_betainc, log_betaincc
from afx.ops.special.log_incomplete_gamma import log_gamma_density, log_gammainc, log_gammaincc
from afx.ops.special.whole_quantiles import binomial_quantile, geometric_quantile, nbinom_quantile, poisson_quantile
from afx.stats._distribution import DiscreteDistribution, discrete, log1mexp

__all__ = ["binom", "geom", "nbinom", "poisson"]


@discrete
def poisson(mu: ArrayLike, loc: ArrayLike = 0) -> DiscreteDistribution:
    """Poisson distribution of mean ``mu``, 0 or more."""
    mean = asarray(mu)
    return DiscreteDistribution(
        logpdf=lambda k: log_gamma_density(k + 1, mean),
        cdf=lambda k: gammaincc(k + 1, mean),
        sf=lambda k: gammainc(k + 1, mean),
        logcdf=lambda k: log_gammaincc(k + 1, mean),
        logsf=lambda k: log_gammainc(k + 1, mean),
        ppf=lambda q: poisson_quantile(mean, q),
        low=0.0,
        allowed=mean >= 0,
        loc=loc,
    )


@discrete
def binom(n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> DiscreteDistribution:
    """Binomial distribution: of the successes, each of probability ``p``, in ``n`` trials."""
    count, rate = asarray(n), asarray(p)
    return DiscreteDistribution(
        logpdf=lambda k: log_beta_density(k + 1, count - k + 1, rate) - log(count + 1),
        cdf=lambda k: betaincc(k + 1, count - k, rate),
        sf=lambda k: betainc(k + 1, count - k, rate),
        logcdf=lambda k: log_betaincc(k + 1, count - k, rate),
        logsf=lambda k: log_betainc(k + 1, count - k, rate),
        ppf=lambda q: binomial_quantile(count, rate, q),
        low=0.0,
        high=count,
        allowed=(count >= 0) & (floor(count) == count) & (rate >= 0) & (rate <= 1),
        loc=loc,
    )


@discrete
def nbinom(n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> DiscreteDistribution:
    """Negative binomial distribution: of the failures before ``n`` successes, each of probability ``p``."""
    count, rate = asarray(n), asarray(p)
    return DiscreteDistribution(
        logpdf=lambda k: log_beta_density(count, k + 1, rate) + log(rate) - log(count + k),
        cdf=lambda k: betainc(count, k + 1, rate),
        sf=lambda k: betaincc(count, k + 1, rate),
        logcdf=lambda k: log_betainc(count, k + 1, rate),
        logsf=lambda k: log_betaincc(count, k + 1, rate),
        ppf=lambda q: nbinom_quantile(count, rate, q),
        low=0.0,
        allowed=(count > 0) & (rate > 0) & (rate <= 1),
        loc=loc,
    )


@discrete
def geom(p: ArrayLike, loc: ArrayLike = 0) -> DiscreteDistribution:
    """Geometric distribution: of the trials up to the first success, of probability ``p``."""
    rate = asarray(p)
    return DiscreteDistribution(
        logpdf=lambda k: xlog1py(k - 1, -rate) + log(rate),
        cdf=lambda k: -expm1(xlog1py(k, -rate)),
        logcdf=lambda k: log1mexp(-xlog1py(k, -rate)),
        logsf=lambda k: xlog1py(k, -rate),
        ppf=lambda q: geometric_quantile(rate, q),
        low=1.0,
        allowed=(rate > 0) & (rate <= 1),
        loc=loc,
    )
