"""Gamma family: the gamma distribution and chi squared, as sums of squares and waiting times."""

from __future__ import annotations

from afx.core.array.array import Array, ArrayLike
from afx.ops.creation.creation import asarray
from afx.ops.special.incomplete_gamma import density, gammainc, gammaincc, gammaincinv
from afx.ops.special.log_incomplete_gamma import log_gamma_density, log_gammainc, log_gammaincc
from afx.stats._distribution import ContinuousDistribution, continuous

__all__ = ["chi2", "gamma"]


def _gamma(a: Array, loc: ArrayLike, scale: ArrayLike) -> ContinuousDistribution:
    return ContinuousDistribution(
        logpdf=lambda y: log_gamma_density(a, y),
        pdf=lambda y: density(a, y),
        cdf=lambda y: gammainc(a, y),
        sf=lambda y: gammaincc(a, y),
        logcdf=lambda y: log_gammainc(a, y),
        logsf=lambda y: log_gammaincc(a, y),
        ppf=lambda q: gammaincinv(a, q),
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
