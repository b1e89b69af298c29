"""Stirling's series: what is left of log-gamma and digamma behind their large terms, with derivatives by the argument.

Entropies are sums in which these large terms cancel, so that they are written in what is left.
"""

from __future__ import annotations

from afx.core.array.array import Array
from afx.ops.elementwise.exponential import log
from afx.ops.elementwise.where import where
from afx.ops.reductions.sums import sum as sum_
from afx.ops.special.gamma import digamma, gammaln
from afx.stats.normal import HALF_LOG_2PI

__all__ = ["digamma_rest", "gammaln_rest", "shares_entropy"]

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
