"""Fisher's distribution function by its degrees of freedom: quadrature in which no large terms cancel.

F(a, b, s) is the regularised incomplete beta function of a and b at the share ``a s / (a s + b)``, half the degrees of
freedom being a and b. Its density by log s has a logarithm whose derivative by a is ``log r + 1 - r + c`` with
``r = s (a + b) / (a s + b)`` and ``c = ψ(a + b) - ψ(a) - log((a + b) / a)``. For large a or b the derivatives of the beta
function by a and by its share, whose sum this is, cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.ops.special._incomplete import TINY, bell, beta_by_parameters, beta_front, beta_logs, beta_width, log_less
from afx.ops.special._polygamma import psi, psi_rest
from afx.ops.special._quadrature import integral

__all__ = ["degree_terms", "fisher_by_degrees", "sides"]

LARGE = 15.0  # from here on the terms cancel more than the quadrature loses
BEND = 45.0  # how far the integrand is more than a power of s
_where: Any = np.where  # its result type is not known to checkers


def degree_terms(
    m: int, n: int, first: tuple[Any, Any], own: tuple[Any, Any, Any, Any], polygamma: Callable[[int, Any], Any]
) -> dict[tuple[int, int], Any]:
    """Return the derivatives of the logarithm of the density by a and b, up to the orders m and n.

    Args:
        m: the highest order by a.
        n: the highest order by b.
        first: the derivatives of order 1.
        own: a, b, ``1 / (a s + b)`` and ``s / (a s + b)``.
        polygamma: (order, x) to its value.
    """
    a, b, inverse, share = own
    total = a + b

    def log_by(i: int, j: int) -> Any:
        """Return a derivative of ``-log(a s + b)``."""
        return (-1) ** (i + j) * math.factorial(i + j - 1) * share**i * inverse**j

    def power_by(i: int, x: Any) -> Any:
        """Return a derivative of ``x log x - log Γ(x)``."""
        return (-1) ** i * math.factorial(i - 2) / x ** (i - 1) - polygamma(i - 1, x)

    g = {(1, 0): first[0], (0, 1): first[1]}
    for i in range(m + 1):
        for j in range(n + 1):
            if i + j > 1:
                z = total * log_by(i, j) + polygamma(i + j - 1, total)
                z = z + (i * log_by(i - 1, j) if i else 0.0) + (j * log_by(i, j - 1) if j else 0.0)
                g[i, j] = z + (power_by(i, a) if j == 0 else 0.0) + (power_by(j, b) if i == 0 else 0.0)
    return g


def fisher_by_degrees(a: Any, b: Any, s: Any, *, m: int, n: int) -> Any:
    """Return the derivative of Fisher's distribution function, of order m by a and n by b, one of them not 0."""
    allowed = (a > 0) & (b > 0) & (s >= 0)
    a, b = np.maximum(a, TINY), np.maximum(b, TINY)
    inside = allowed & np.isfinite(a + b + s) & (sides(a, b, s)[3] > 0)
    large = inside & (np.maximum(a, b) > LARGE) if m + n == 1 else inside
    z = np.array(_where(allowed, 0.0, math.nan))
    for where, compute in ((inside & ~large, _add_beta_slopes), (large, _integrate)):
        if np.any(where):
            z[where] = compute(a[where], b[where], s[where], m, n)
    return z


def sides(a: Any, b: Any, s: Any) -> tuple[Any, Any, Any, Any]:
    """Return whether to exchange the parameters, so that the share is at most a half, these, and the share."""
    swap = a * s > b
    odds = _where(swap, b / (a * s), a * s / b)
    return swap, _where(swap, b, a), _where(swap, a, b), odds / (1 + odds)


def _add_beta_slopes(a: Any, b: Any, s: Any, m: int, n: int) -> Any:
    """Return a first derivative as the sum of those by the parameter and by the share."""
    swap, c, d, x = sides(a, b, s)
    own = beta_by_parameters(c, d, x, m=1, n=0), beta_by_parameters(c, d, x, m=0, n=1)
    moved = _where(x == 0, 0.0, np.exp(beta_front(c, d, x)))
    return _where(swap, -own[m], own[n]) + (moved / a if m else -moved / b)


def _integrate(a: Any, b: Any, s: Any, m: int, n: int) -> Any:
    """Return the integral from the nearer end, towards which the integrand falls."""
    swap, c, d, x = sides(a, b, s)
    down = s <= 1
    low = down != swap  # the direction of the share that is at most a half
    width = beta_width(c, d, x, low)
    bend = np.minimum(width, BEND)

    def integrand(u: Any, start: Any, length: Any, *given: Any) -> Any:
        a, b, s, c, d, x, swap, low, down, by_a, by_b = given
        v = start + u * length
        first, second = beta_logs(x, low, v)
        there = s * np.exp(_where(down, -v, v))
        inverse, share = 1 / (a * there + b), 1 / (a + b / there)
        near, far = np.log(x * (c + d) / c) + first, np.log((1 - x) * (c + d) / d) + second
        slopes = (
            log_less(_where(swap, far, near), b * (share - inverse)) + by_a,
            log_less(_where(swap, near, far), a * (inverse - share)) + by_b,
        )
        return np.exp(c * first + d * second) * bell(m, n, degree_terms(m, n, slopes, (a, b, inverse, share), psi))

    given = (a, b, s, c, d, x, swap, low, down, psi_rest(a, b), psi_rest(b, a))
    z = bend * integral(integrand, 0 * bend, bend, *given)
    if np.any(width > bend):
        z = z + (width - bend) * integral(integrand, bend, width - bend, *given)
    front = beta_front(c, d, x)
    return _where(front < -745, 0.0, np.exp(front) * _where(down, z, -z))
