"""Discrete distributions: Bernoulli, binomial and beta-binomial, negative binomial, geometric, Poisson."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from afx.core import Array, ArrayLike, Tracer, epsilon
from afx.errors import ArgumentError, ConcreteValueError
from afx.ops import arange, asarray, broadcast_arrays, floor, reshape, stop_gradient, sum as sum_, xlog1py, xlogy
from afx.ops.elementwise.comparison import maximum, minimum, where
from afx.ops.elementwise.exponentials import exp, expm1, log, log1p
from afx.ops.reductions.cumulative import cumsum, log1mexp, logsumexp
from afx.ops.special.distributions import binomial_quantile, geometric_quantile, nbinom_quantile, poisson_quantile
from afx.ops.special.incomplete import betainc, betaincc, gammainc, gammaincc
from afx.ops.special.log_incomplete import (
    log_beta_density,
    log_betainc,
    log_betaincc,
    log_gamma_density,
    log_gammainc,
    log_gammaincc,
)
from afx.stats._distribution import DiscreteDistribution, discrete
from afx.stats.elementary import log_share

__all__ = ["bernoulli", "betabinom", "binom", "geom", "nbinom", "poisson"]


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
        isf=lambda q: poisson_quantile(mean, q, upper=True),
        mean=lambda: mean,
        var=lambda: mean,
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
        isf=lambda q: binomial_quantile(count, rate, q, upper=True),
        mean=lambda: count * rate,
        var=lambda: count * rate * (1 - rate),
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
        isf=lambda q: nbinom_quantile(count, rate, q, upper=True),
        mean=lambda: count * (1 - rate) / rate,
        var=lambda: count * (1 - rate) / rate**2,
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
        isf=lambda q: geometric_quantile(rate, q, upper=True),
        mean=lambda: 1 / rate,
        var=lambda: (1 - rate) / rate**2,
        entropy=lambda: -(xlog1py(1 - rate, -rate) + xlogy(rate, rate)) / rate,
        low=1.0,
        allowed=(rate > 0) & (rate <= 1),
        loc=loc,
    )


@discrete
def bernoulli(p: ArrayLike, loc: ArrayLike = 0) -> DiscreteDistribution:
    """Bernoulli distribution: 1 with probability ``p``, otherwise 0."""
    rate = asarray(p)
    return DiscreteDistribution(
        logpdf=lambda k: xlogy(k, rate) + xlog1py(1 - k, -rate),
        pdf=lambda k: where(k == 1, rate, 1 - rate),
        cdf=lambda k: 1 - rate + 0 * k,
        sf=lambda k: rate + 0 * k,
        logcdf=lambda k: log1p(-rate) + 0 * k,
        logsf=lambda k: log(rate) + 0 * k,
        ppf=lambda q: where(q <= 1 - rate, 0.0, 1.0),
        isf=lambda q: where(q >= rate, 0.0, 1.0),
        mean=lambda: rate,
        var=lambda: rate * (1 - rate),
        entropy=lambda: -(xlogy(rate, rate) + xlog1py(1 - rate, -rate)),
        low=0.0,
        high=1.0,
        allowed=(rate >= 0) & (rate <= 1),
        loc=loc,
    )


TERMS_MAX: Final = 10_000_000  # of the sums of one call, which take some seconds then


def _largest_of(count: Array) -> int:
    """Return the largest number of trials, up to which there are sums.

    Raises:
        ConcreteValueError: it is traced.
        ArgumentError: there are too many of them.
    """
    if isinstance(count, Tracer):
        raise ConcreteValueError(f"betabinom: its sums need a known n: got {count.aval}; give it from outside of jit")
    counts = np.asarray(count)
    largest = int(np.max(counts, initial=0, where=np.isfinite(counts)))
    if largest > TERMS_MAX:
        raise ArgumentError(
            f"betabinom: distribution functions and quantiles are sums over n + 1 numbers: got n = {largest:.4g}, more than "
            f"{TERMS_MAX:,}; sum exp(logpdf(k)) over the numbers that matter, or take norm with this mean and std"
        )
    return largest


def _log_betabinom(k: Array, count: Array, first: Array, second: Array, allowed: Array) -> Array:
    """Return the logarithm of the probability of k, by Bayes' rule, in which any share of successes will do.

    Here it is the mean of what k leaves likely: in each density by itself no large terms cancel.
    """
    eps = epsilon(k.dtype)
    share = (first + k) / (first + second + count)
    share = stop_gradient(where(allowed, minimum(maximum(share, eps * eps), 1 - eps), 0.5))
    seen = log_beta_density(k + 1, count - k + 1, share) - log(count + 1)
    return seen + log_beta_density(first, second, share) - log_beta_density(first + k, second + (count - k), share)


@discrete
def betabinom(n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0) -> DiscreteDistribution:
    """Beta-binomial distribution: of the successes in ``n`` trials, whose probability follows ``beta(a, b)``.

    Distribution functions and quantiles are sums over all numbers, and need an ``n`` that is known, of at most ten million.
    """
    count, first, second = asarray(n), asarray(a), asarray(b)
    allowed = (count >= 0) & (floor(count) == count) & (first > 0) & (second > 0)

    def logpdf(k: Array) -> Array:
        return _log_betabinom(k, count, first, second, allowed)

    def walk(like: Array) -> tuple[Array, Array]:
        """Return all numbers along a new first axis, and the logarithms of their probabilities."""
        rank = broadcast_arrays(like, count, first, second)[0].ndim
        k = reshape(arange(_largest_of(count) + 1, dtype=like.dtype), (-1,) + (1,) * rank)
        inside = k <= count
        return k, where(inside, logpdf(where(inside, k, 0.0)), -math.inf)

    def tails(y: Array) -> tuple[Array, Array]:
        k, logarithm = walk(y)
        below, above = (logsumexp(where(side, logarithm, -math.inf), axis=0) for side in (k <= y, k > y))
        return log_share(below, above), log_share(above, below)

    def ppf(q: Array) -> Array:
        _, logarithm = walk(q)
        below = cumsum(exp(logarithm), axis=0) * (1 + 8 * epsilon(q.dtype)) < q
        return minimum(sum_(below, axis=0).astype(q.dtype), count)

    def isf(q: Array) -> Array:
        _, logarithm = walk(q)
        above = cumsum(exp(logarithm)[:0:-1], axis=0) > q * (1 + 8 * epsilon(q.dtype))
        return minimum(sum_(above, axis=0).astype(q.dtype), count)

    return DiscreteDistribution(
        logpdf=logpdf,
        logcdf=lambda y: tails(y)[0],
        logsf=lambda y: tails(y)[1],
        ppf=ppf,
        isf=isf,
        mean=lambda: count * (first / (first + second)),
        var=lambda: (
            count * (first / (first + second)) * (second / (first + second)) * (1 + (count - 1) / (first + second + 1))
        ),
        low=0.0,
        high=count,
        allowed=allowed,
        loc=loc,
    )
