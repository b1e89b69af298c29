"""Beta family: the beta distribution, and F and Student's t, whose odds follow it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from afx.core.array.array import Array, ArrayLike
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.exponential import log, log1p
from afx.ops.elementwise.where import where
from afx.ops.manipulation.join import broadcast_arrays, stack
from afx.ops.special import student
from afx.ops.special.fisher import fisher, fisherc
from afx.ops.special.gamma import betaln, digamma_gap
from afx.ops.special.incomplete_beta import betainc, betaincc, betainccinv, betaincinv, density
from afx.ops.special.log_incomplete_beta import log_beta_density, log_betainc, log_betaincc
from afx.stats._distribution import ContinuousDistribution
from afx.stats._family import continuous
from afx.stats._stirling import digamma_rest, gammaln_rest, shares_entropy
from afx.stats.normal import HALF_LOG_2PI

__all__ = ["beta", "f", "t"]

Fn: TypeAlias = Callable[[Array, Array, Array], Array]


@continuous
def beta(a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Beta distribution: density ``xᵃ⁻¹ (1 - x)ᵇ⁻¹ / B(a, b)`` for x from 0 to 1."""
    c, d = asarray(a), asarray(b)
    return ContinuousDistribution(
        logpdf=lambda y: log_beta_density(c, d, y),
        pdf=lambda y: density(c, d, y),
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

    def logcdf(y: Array) -> Array:
        far = y < -1
        ratio = -where(far, y, -1) / sqrt(n)
        near = where(ratio < _FAR, ratio, 1)
        tail = _choose_side(log_betaincc, log_betainc, half, n / 2, near**2)
        # farther out the leading term is all: ratio**-n / (a B(a, 1/2)), a = n / 2
        tail = where(ratio < _FAR, tail, -n * log(where(ratio < _FAR, _FAR, ratio)) - log(n / 2) - betaln(n / 2, half))
        return where(far, tail - math.log(2), log1p(-student.stdtr(n, -where(far, -1, y))))

    return ContinuousDistribution(
        logpdf=lambda y: student.log_density(n, y),
        cdf=lambda y: student.stdtr(n, y),
        sf=lambda y: student.stdtr(n, -y),
        logcdf=logcdf,
        logsf=lambda y: logcdf(-y),
        ppf=lambda q: student.stdtrit(n, q),
        isf=lambda q: -student.stdtrit(n, q),
        mean=lambda: where(n > 1, 0.0, math.inf),
        var=lambda: where(n > 2, n / where(n > 2, n - 2, 1), where(n > 1, math.inf, math.nan)),
        entropy=lambda: (n + 1) / 2 * digamma_gap(n / 2, half) + 0.5 * log(n) + betaln(n / 2, half),
        allowed=n > 0,
        loc=loc,
        scale=scale,
    )
