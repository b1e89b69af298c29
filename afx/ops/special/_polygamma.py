"""Polygamma: digamma, its derivatives and their differences on plain arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.ops._kinds.special import scipy

__all__ = ["psi", "psi_gap", "psi_rest"]

LARGE = 20.0  # from here on the asymptotic series is exact to the last digit
SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)
_where: Any = np.where  # its result type is not known to checkers


def psi(n: int, x: Any) -> Any:
    """Return the n-th derivative of digamma: ``(-1)ⁿ⁺¹ n! ζ(n + 1, x)`` from the first on."""
    if n == 0:
        return scipy("digamma")(x)
    return scipy("zeta")(n + 1.0, x) * ((-1.0) ** (n + 1) * math.factorial(n))


def psi_gap(n: int, x: Any, d: Any, y: Any = None) -> Any:
    """Return ``psi(n, x + d) - psi(n, x)``, accurate for small d beside a large x, too.

    Where both have a pole it is the limit for an integer d; where the first alone has, -inf. Where d cancels nearly
    all of x, y says what is left.
    """
    y = x + d if y is None else y
    pole = (y <= 0) & (np.floor(y) == y)
    both = pole & (x <= 0) & (np.floor(x) == x)
    x, y = _where(both, 1 - x, _where(pole, 1.0, x)), _where(both, 1 - y, _where(pole, 1.0, y))
    low = psi(n, x)
    gap = _where(x == y, 0.0, _where(np.isinf(low), -low, psi(n, y) - low))
    if n == 0:
        first, second = _where(x > 1, x, 1.0), _where(y > 1, y, 1.0)
        gap = _where((x > LARGE) & (y > LARGE), np.log1p(d / first) + _asymptotic_rest(first, second, d), gap)
    return _where(pole & ~both, -math.inf, _where(both, (-1) ** n, 1) * gap)


def psi_rest(x: Any, d: Any) -> Any:
    """Return ``psi(0, x + d) - psi(0, x) - log((x + d) / x)`` of positive numbers, accurate for large x, too."""
    y, far = x + d, x > LARGE
    return _where(
        far, _asymptotic_rest(_where(far, x, 1.0), _where(far, y, 1.0), d), psi(0, y) - psi(0, x) - np.log1p(d / x)
    )


def _asymptotic_rest(x: Any, y: Any, d: Any) -> Any:
    u, v = 1 / (x * x), 1 / (y * y)
    total, power, mixed = np.zeros_like(u), 1.0, 1.0  # mixed is (uᵏ - vᵏ) / (u - v)
    for coefficient in SERIES:
        total = total + coefficient * mixed
        power = power * v
        mixed = mixed * u + power
    return d / x / y / 2 + total * (d / x * (x + y) / x / y / y)
