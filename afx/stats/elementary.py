"""Elementary distributions: normal, exponential, Weibull, Laplace, logistic, Cauchy, uniform, and one-sided ones."""

from __future__ import annotations

import math
from collections.abc import Callable

from afx.core import Array, ArrayLike
from afx.ops import abs as abs_, arctan2, asarray, gamma, gammaln, minimum, negative, sqrt, tan, where, zeros_like
from afx.ops.elementwise.exponentials import exp, expm1, log, log1p, log_sigmoid, sigmoid
from afx.ops.reductions.cumulative import log1mexp
from afx.ops.special.distributions import log_square_plus_one
from afx.ops.special.errors import erf, erfinv, log_ndtr, logit, ndtr, ndtri, xlogy
from afx.stats._distribution import ContinuousDistribution, continuous

__all__ = [
    "cauchy",
    "expon",
    "gumbel_l",
    "gumbel_r",
    "halfcauchy",
    "halfnorm",
    "laplace",
    "logistic",
    "lognorm",
    "norm",
    "pareto",
    "rayleigh",
    "uniform",
    "weibull_min",
]

# --- Normal family: the normal distribution and that of its exponential

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _log_density(y: Array) -> Array:
    return -0.5 * y**2 - HALF_LOG_2PI


@continuous
def norm(loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Normal distribution of mean ``loc`` and standard deviation ``scale``."""
    return ContinuousDistribution(
        logpdf=_log_density,
        cdf=ndtr,
        logcdf=log_ndtr,
        ppf=ndtri,
        mean=lambda: 0.0,
        var=lambda: 1.0,
        entropy=lambda: HALF_LOG_2PI + 0.5,
        has_limits=True,
        is_symmetric=True,
        loc=loc,
        scale=scale,
    )


@continuous
def lognorm(s: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Log-normal distribution: of ``loc + scale exp(s z)`` for a standard normal z."""
    sigma = asarray(s)
    return ContinuousDistribution(
        logpdf=lambda y: _log_density(log(y) / sigma) - log(sigma * y),
        cdf=lambda y: ndtr(log(y) / sigma),
        sf=lambda y: ndtr(-log(y) / sigma),
        logcdf=lambda y: log_ndtr(log(y) / sigma),
        logsf=lambda y: log_ndtr(-log(y) / sigma),
        ppf=lambda q: exp(sigma * ndtri(q)),
        isf=lambda q: exp(-sigma * ndtri(q)),
        mean=lambda: exp(sigma**2 / 2),
        var=lambda: expm1(sigma**2) * exp(sigma**2),
        entropy=lambda: HALF_LOG_2PI + 0.5 + log(sigma),
        low=0.0,
        is_open=True,
        allowed=sigma > 0,
        loc=loc,
        scale=scale,
    )


# --- Elementary distributions

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


def log_share(part: Array, rest: Array) -> Array:
    """Return the logarithm of a share, by that of the rest where the share is near 1 and its own has no digits."""
    small = (rest < -0.7) & (rest > -math.inf)
    return where(small, log1p(-exp(where(small, rest, -1.0))), minimum(part, 0.0))


UNDERFLOW = 80.0  # from where on exp(-exp(-x)) is 1 - exp(-x) to the last digit, in float32 before exp(-x) is 0


def _log_least(u: Array) -> Array:
    """Return ``log(1 - exp(-exp(u)))``: u itself where ``exp(u)`` is hardly a number."""
    low = u < -UNDERFLOW
    return where(low, u, log1mexp(exp(where(low, 0.0, u))))


@continuous
def weibull_min(c: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Weibull distribution: the survival function is ``exp(-xᶜ)`` for x of 0 or more."""
    k = asarray(c)
    return ContinuousDistribution(
        logpdf=lambda y: log(k) + xlogy(k - 1, y) - y**k,
        cdf=lambda y: -expm1(-(y**k)),
        logcdf=lambda y: _log_least(k * log(y)),
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
        logcdf=log_sigmoid,
        ppf=logit,
        mean=lambda: 0.0,
        var=lambda: math.pi**2 / 3,
        entropy=lambda: 2.0,
        is_symmetric=True,
        loc=loc,
        scale=scale,
    )


def _laplace_cdf(y: Array) -> Array:
    low = y < 0
    tail = 0.5 * exp(where(low, y, -y))  # the absolute value has no derivative at 0, where this has one
    return where(low, tail, 1 - tail)


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
        logcdf=_laplace_logcdf,
        ppf=_laplace_quantile,
        mean=lambda: 0.0,
        var=lambda: 2.0,
        entropy=lambda: math.log(2) + 1,
        is_symmetric=True,
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
        logcdf=_cauchy_logcdf,
        ppf=_cauchy_quantile,
        mean=lambda: math.nan,
        var=lambda: math.nan,
        entropy=lambda: math.log(4 * math.pi),
        is_symmetric=True,
        loc=loc,
        scale=scale,
    )


# --- One-sided distributions: Gumbel's, Pareto's and Rayleigh's, and the halves of the normal and Cauchy ones


@continuous
def gumbel_r(loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Gumbel distribution of maxima: the distribution function is ``exp(-exp(-x))``."""
    return ContinuousDistribution(
        logpdf=lambda y: -y - exp(-y),
        cdf=lambda y: exp(-exp(-y)),
        sf=lambda y: -expm1(-exp(-y)),
        logcdf=lambda y: -exp(-y),
        logsf=lambda y: _log_least(-y),
        ppf=lambda q: -log(-log(q)),
        isf=lambda q: -log(-log1p(-q)),
        mean=lambda: EULER,
        var=lambda: math.pi**2 / 6,
        entropy=lambda: EULER + 1,
        loc=loc,
        scale=scale,
    )


@continuous
def gumbel_l(loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Gumbel distribution of minima: the survival function is ``exp(-exp(x))``."""
    return ContinuousDistribution(
        logpdf=lambda y: y - exp(y),
        cdf=lambda y: -expm1(-exp(y)),
        sf=lambda y: exp(-exp(y)),
        logcdf=_log_least,
        logsf=lambda y: -exp(y),
        ppf=lambda q: log(-log1p(-q)),
        isf=lambda q: log(-log(q)),
        mean=lambda: -EULER,
        var=lambda: math.pi**2 / 6,
        entropy=lambda: EULER + 1,
        loc=loc,
        scale=scale,
    )


@continuous
def pareto(b: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Pareto distribution: the survival function is ``x`` to the power ``-b`` for x of 1 or more."""
    c = asarray(b)
    return ContinuousDistribution(
        logpdf=lambda y: log(c) - (c + 1) * log(y),
        cdf=lambda y: -expm1(-c * log(y)),
        sf=lambda y: y**-c,
        logcdf=lambda y: log1mexp(c * log(y)),
        logsf=lambda y: -c * log(y),
        ppf=lambda q: exp(-log1p(-q) / c),
        isf=lambda q: exp(-log(q) / c),
        mean=lambda: where(c > 1, c / where(c > 1, c - 1, 1), math.inf),
        var=lambda: where(c > 2, c / (where(c > 2, c - 1, 1) ** 2 * where(c > 2, c - 2, 1)), math.inf),
        entropy=lambda: 1 + 1 / c - log(c),
        low=1.0,
        middle=2.0,
        allowed=c > 0,
        loc=loc,
        scale=scale,
    )


@continuous
def rayleigh(loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Rayleigh distribution: of the length of a standard normal vector in the plane."""
    return ContinuousDistribution(
        logpdf=lambda y: log(y) - 0.5 * y * y,
        pdf=lambda y: y * exp(-0.5 * y * y),
        cdf=lambda y: -expm1(-0.5 * y * y),
        sf=lambda y: exp(-0.5 * y * y),
        logcdf=lambda y: _log_least(2 * log(y) - math.log(2)),
        logsf=lambda y: -0.5 * y * y,
        ppf=lambda q: sqrt(-2 * log1p(-q)),
        isf=lambda q: sqrt(-2 * log(q)),
        mean=lambda: math.sqrt(math.pi / 2),
        var=lambda: 2 - math.pi / 2,
        entropy=lambda: 1 + EULER / 2 - 0.5 * math.log(2),
        low=0.0,
        loc=loc,
        scale=scale,
    )


@continuous
def halfnorm(loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Half-normal distribution: of the absolute value of a standard normal number."""
    root = math.sqrt(0.5)

    def logcdf(y: Array) -> Array:
        small = y < 1
        return where(small, log(erf(where(small, y, 0.5) * root)), log1p(-2 * ndtr(-where(small, 1.0, y))))

    def logsf(y: Array) -> Array:
        small = y < 1
        return where(small, log1p(-erf(where(small, y, 0.5) * root)), log_ndtr(-where(small, 1.0, y)) + math.log(2))

    return ContinuousDistribution(
        logpdf=lambda y: 0.5 * math.log(2 / math.pi) - 0.5 * y * y,
        cdf=lambda y: erf(y * root),
        sf=lambda y: 2 * ndtr(-y),
        logcdf=logcdf,
        logsf=logsf,
        ppf=lambda q: erfinv(q) / root,
        isf=lambda q: -ndtri(0.5 * q),
        mean=lambda: math.sqrt(2 / math.pi),
        var=lambda: 1 - 2 / math.pi,
        entropy=lambda: 0.5 * math.log(math.pi / 2) + 0.5,
        low=0.0,
        loc=loc,
        scale=scale,
    )


@continuous
def halfcauchy(loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Half-Cauchy distribution: density ``2 / (π (1 + x²))`` for x of 0 or more."""

    def sf(y: Array) -> Array:
        return arctan2(zeros_like(y) + 1, y) * (2 / math.pi)

    def cdf(y: Array) -> Array:
        return arctan2(y, zeros_like(y) + 1) * (2 / math.pi)

    def take_log(y: Array, of_below: Callable[[Array], Array], of_above: Callable[[Array], Array]) -> Array:
        small = y < 1
        return where(small, of_below(cdf(where(small, y, 0.5))), of_above(sf(where(small, 1.0, y))))

    def log_rest(share: Array) -> Array:
        return log1p(-share)

    return ContinuousDistribution(
        logpdf=lambda y: math.log(2 / math.pi) - log_square_plus_one(y),
        cdf=cdf,
        sf=sf,
        logcdf=lambda y: take_log(y, log, log_rest),
        logsf=lambda y: take_log(y, log_rest, log),
        ppf=lambda q: _cotangent(1 - q, q),
        isf=lambda q: _cotangent(q, 1 - q),
        mean=lambda: math.inf,
        var=lambda: math.inf,
        entropy=lambda: math.log(2 * math.pi),
        low=0.0,
        loc=loc,
        scale=scale,
    )


def _cotangent(q: Array, rest: Array) -> Array:
    """Return ``cot(π q / 2)``, of which ``rest`` is 1 - q, by the smaller of the two."""
    near = q < 0.5
    return where(near, 1 / tan(math.pi / 2 * where(near, q, 0.5)), tan(math.pi / 2 * where(near, 0.5, rest)))
