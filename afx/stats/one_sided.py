"""One-sided distributions: Gumbel's, Pareto's and Rayleigh's, and the halves of the normal and Cauchy ones."""

from __future__ import annotations

import math

from afx.core.array.array import Array, ArrayLike
from afx.ops.creation.creation import asarray, zeros_like
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.exponential import exp, expm1, log, log1p
from afx.ops.elementwise.trigonometry import arctan2, tan
from afx.ops.elementwise.where import where
from afx.ops.special.errors import erf, erfinv, log_ndtr, ndtr, ndtri
from afx.ops.special.student import log_square_plus_one
from afx.stats._distribution import ContinuousDistribution, log1mexp
from afx.stats._family import continuous
from afx.stats.elementary import EULER

__all__ = ["gumbel_r", "halfcauchy", "halfnorm", "pareto", "rayleigh"]


@continuous
def gumbel_r(loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Gumbel distribution of maxima: the distribution function is ``exp(-exp(-x))``."""
    return ContinuousDistribution(
        logpdf=lambda y: -y - exp(-y),
        cdf=lambda y: exp(-exp(-y)),
        sf=lambda y: -expm1(-exp(-y)),
        logcdf=lambda y: -exp(-y),
        logsf=lambda y: where(y > UNDERFLOW, -y, log1mexp(exp(-where(y > UNDERFLOW, 0.0, y)))),
        ppf=lambda q: -log(-log(q)),
        isf=lambda q: -log(-log1p(-q)),
        mean=lambda: EULER,
        var=lambda: math.pi**2 / 6,
        entropy=lambda: EULER + 1,
        loc=loc,
        scale=scale,
    )


UNDERFLOW = 80.0  # from where on exp(-exp(-x)) is 1 - exp(-x) to the last digit, in float32 before exp(-x) is 0


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
        logcdf=lambda y: log1mexp(0.5 * y * y),
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

    def logcdf(y: Array) -> Array:
        small = y < 1
        return where(small, log(cdf(where(small, y, 0.5))), log1p(-sf(where(small, 1.0, y))))

    def logsf(y: Array) -> Array:
        small = y < 1
        return where(small, log1p(-cdf(where(small, y, 0.5))), log(sf(where(small, 1.0, y))))

    return ContinuousDistribution(
        logpdf=lambda y: math.log(2 / math.pi) - log_square_plus_one(y),
        cdf=cdf,
        sf=sf,
        logcdf=logcdf,
        logsf=logsf,
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
