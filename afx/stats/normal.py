"""Normal family: the normal distribution and that of its exponential."""

from __future__ import annotations

import math

from afx.core.array.array import Array, ArrayLike
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.exponential import exp, expm1, log
from afx.ops.special.errors import log_ndtr, ndtr, ndtri
from afx.stats._distribution import ContinuousDistribution
from afx.stats._family import continuous

__all__ = ["lognorm", "norm"]

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def _log_density(y: Array) -> Array:
    return -0.5 * y**2 - HALF_LOG_2PI


@continuous
def norm(loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Normal distribution of mean ``loc`` and standard deviation ``scale``."""
    return ContinuousDistribution(
        logpdf=_log_density,
        cdf=ndtr,
        sf=lambda y: ndtr(-y),
        logcdf=log_ndtr,
        logsf=lambda y: log_ndtr(-y),
        ppf=ndtri,
        isf=lambda q: -ndtri(q),
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
