"""Parameter derivatives: incomplete gamma and beta functions by their parameters, in every order, by quadrature.

The n-th derivative of a density f by its parameter is f times a polynomial of the derivatives of log f. Its integral over
the whole axis is 0, so it may be taken from either end; from the nearer one nearly all of the integrand has one sign.
On the axis of log t (or of the log-odds of t) the integrand falls smoothly from the end of the interval. Its logarithm
says where it has become negligible. Parameters below 1, where it would fall too slowly, are raised by 1, and the
difference that makes has a closed form.

Everything here takes and gives float64 arrays of one shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from afx.ops._kinds.special import scipy
from afx.ops.special._polygamma import psi, psi_gap
from afx.ops.special._quadrature import integral
from afx.ops.special._stirling import HALF_LOG_2PI, log_beta, stirling

__all__ = [
    "TINY",
    "bell",
    "beta_by_parameters",
    "beta_front",
    "beta_logs",
    "beta_width",
    "gamma_by_parameter",
    "gamma_front",
    "gamma_width",
    "log_less",
]

TINY = 1e-30  # what a parameter of 0 stands for: near enough to the limit, and its reciprocal is finite in float32 too
DEPTH = 45.0  # what is exp(-45) times the largest is left out
STEPS = 60
_where: Any = np.where  # its result type is not known to checkers


def bell(m: int, n: int, g: Mapping[tuple[int, int], Any]) -> Any:
    """Return ``exp(-h)`` times the derivative of exp(h) of order m by one and n by the other variable.

    Args:
        m: the first order.
        n: the second order.
        g: the derivatives of h, by their orders.
    """
    table: dict[tuple[int, int], Any] = {(0, 0): 1.0}
    for i in range(m + 1):
        for j in range(1 if i == 0 else 0, n + 1):
            first, second = (i - 1, j) if i else (0, j - 1)  # the orders left when one derivative has been taken
            table[i, j] = sum(
                math.comb(first, p)
                * math.comb(second, q)
                * table[first - p, second - q]
                * g[(p + 1, q) if i else (p, q + 1)]
                for p in range(first + 1)
                for q in range(second + 1)
            )
    return table[m, n]


def log_less(log_ratio: Any, off: Any) -> Any:
    """Return the logarithm of a ratio less ``off``, exact near 0, where that is the ratio - 1 as exactly as it is known."""
    near = np.abs(off) < 0.1
    u = _where(near, off, 0.0)
    total = np.zeros_like(u)
    for k in range(18, 1, -1):
        total = total * u + (-1) ** (k + 1) / k
    return _where(near, total * u * u, log_ratio - off)


def _width(fall: Callable[[Any], Any], slope: Callable[[Any], Any], start: Any) -> Any:
    """Return where a convex function, which is more than `DEPTH` at the start, is that, by Newton's method from there."""
    width = start
    for _ in range(STEPS):
        step = (fall(width) - DEPTH) / slope(width)
        step = _where(np.isfinite(step), step, 0.0)
        width = width - step
        if not np.any(np.abs(step) > 0.01 * width):
            break
    return width


# -- gamma --
def gamma_front(a: Any, x: Any) -> Any:
    """Return ``a log x - x - log Γ(a)``, accurate for large a."""
    large = _where(a < 1, 1.0, a)
    peak = (
        0.5 * np.log(large) - HALF_LOG_2PI - stirling(large) + large * log_less(np.log(x / large), (x - large) / large)
    )
    small = _where(a < 1, a, 1.0)
    return _where(a < 1, small * np.log(x) - x - scipy("gammaln")(small), peak)


def _gamma_terms(order: int, log_t: Any, a: Any) -> list[Any]:
    """Return the derivatives of the logarithm of ``t**a / Γ(a)`` by a, from the first on."""
    return [(log_t if k == 0 else 0.0) - psi(k, a) for k in range(order)]


def gamma_width(a: Any, x: Any, sign: Any) -> Any:
    """Return how far from log x the integrand has become negligible, on the way of this sign."""
    lowest = (DEPTH + np.sqrt(DEPTH * DEPTH + 8 * a * DEPTH)) / (2 * a)
    return _width(
        lambda v: x * np.expm1(sign * v) - a * sign * v,
        lambda v: sign * (x * np.exp(sign * v) - a),
        _where(sign < 0, lowest, np.sqrt((2 * DEPTH + 12) / x)),
    )


def _gamma_tail(a: Any, x: Any, order: int) -> Any:
    """Return the derivative of the regularised function by a, which is large or has x far from 0."""
    sign = _where(np.log(x) <= psi(0, a), -1.0, 1.0)  # towards 0, or towards infinity
    width = gamma_width(a, x, sign)

    def integrand(u: Any, a: Any, x: Any, end: Any, *terms: Any) -> Any:
        v = u * end
        g = {(k, 0): term for k, term in enumerate(terms, 1)}
        g[1, 0] = terms[0] + v
        return np.exp(a * v - x * np.expm1(v)) * bell(order, 0, g)

    return -sign * width * integral(integrand, a, x, sign * width, *_gamma_terms(order, np.log(x), a))


def gamma_by_parameter(a: Any, x: Any, *, order: int) -> Any:
    """Return the derivative of the regularised lower incomplete gamma function by a, of order 1 or more."""
    raised = (a < 1) & ((x <= 1) | (order > 1))
    low = np.maximum(a, TINY)
    high = _where(raised, a + 1, low)
    z = np.exp(gamma_front(high, x)) * _gamma_tail(high, x, order)
    one = low + 1
    g = {(k, 0): term for k, term in enumerate(_gamma_terms(order, np.log(x), one), 1)}
    term = np.exp(low * np.log(x) - x - scipy("gammaln")(one)) * bell(order, 0, g)
    z = _where(raised, z + term, z)
    z = _where(gamma_front(high, x) < -745, _where(raised & (term != 0), term, 0.0), z)
    return _where((a < 0) | (x < 0), math.nan, _where((x == 0) | (x == math.inf), 0.0 * a, z))


# -- beta --
def beta_front(a: Any, b: Any, x: Any) -> Any:
    """Return ``a log x + b log(1 - x) - log B(a, b)``, accurate for large a and b."""
    small = (a < 1) | (b < 1)
    c, d = _where(small, 1.0, a), _where(small, 1.0, b)
    off = x * d - c * (1 - x)  # from the mean
    peak = 0.5 * np.log(c / (c + d) * d) - HALF_LOG_2PI + stirling(c + d) - stirling(c) - stirling(d)
    peak = peak + c * log_less(np.log(x * (c + d) / c), off / c)
    peak = peak + d * log_less(np.log((1 - x) * (c + d) / d), -off / d)
    c, d = _where(small, a, 1.0), _where(small, b, 1.0)
    return _where(small, c * np.log(x) + d * np.log1p(-x) - log_beta(c, d), peak)


def _beta_terms(m: int, n: int, a: Any, b: Any, x: Any, up: int = 0) -> dict[tuple[int, int], Any]:
    """Return the derivatives, up to the orders m and n, of the logarithm of ``x**a (1 - x)**b`` over a beta function.

    That is ``Γ(a + up) Γ(b + up) / Γ(a + b)``.
    """
    g = {(i, j): psi(i + j - 1, a + b) for i in range(1, m + 1) for j in range(1, n + 1)}
    g |= {(i, 0): psi_gap(i - 1, a + up, b - up, a + b) for i in range(1, m + 1)}
    g |= {(0, j): psi_gap(j - 1, b + up, a - up, a + b) for j in range(1, n + 1)}
    return _replace_first(g, np.log(x), np.log1p(-x))


def _replace_first(g: Mapping[tuple[int, int], Any], first: Any, second: Any) -> dict[tuple[int, int], Any]:
    """Return derivatives of which those of order 1 have changed."""
    change = {(1, 0): first, (0, 1): second}
    return {key: value + change[key] if key in change else value for key, value in g.items()}


def beta_logs(x: Any, low: Any, v: Any) -> tuple[Any, Any]:
    """Return how log t and log(1 - t) change from t = x on where the log-odds fall (``low``) or rise by v."""
    small = x <= 0.5  # the share that is exactly known
    c = np.minimum(x, 1 - x)
    s = _where(small == low, -v, v)
    near = np.log1p(c * np.expm1(np.minimum(s, 40.0)))
    total = _where(s > 40, s + np.log(c + (1 - c) * np.exp(-np.abs(s))), near)
    return _where(small, s, 0.0) - total, _where(small, 0.0, s) - total


def _beta_at(x: Any, low: Any, v: Any) -> Any:
    """Return the t at which the log-odds have fallen or risen by v."""
    return 1 / (1 + (1 - x) / x * np.exp(_where(low, v, -v)))


def _beta_change(a: Any, b: Any, x: Any, low: Any, v: Any) -> Any:
    """Return how the logarithm of the integrand changes there."""
    first, second = beta_logs(x, low, v)
    return a * first + b * second


def beta_width(a: Any, b: Any, x: Any, low: Any) -> Any:
    """Return how far from the log-odds of x the integrand has become negligible, towards 0 (``low``) or towards 1."""
    near, over = _where(low, a, b), _where(low, 1 - x, x)  # the parameter of the end that the integral goes to
    return _width(
        lambda v: -_beta_change(a, b, x, low, v),
        lambda v: _where(low, 1.0, -1.0) * (a - (a + b) * _beta_at(x, low, v)),
        (DEPTH - (a + b) * np.log(over)) / near,
    )


def _beta_tail(a: Any, b: Any, x: Any, m: int, n: int) -> Any:
    """Return the derivative of the regularised function by a and b, which are large or have x far from their end."""
    g = _beta_terms(m, n, a, b, x)
    low = g[1, 0] <= 0 if m >= n else g[0, 1] >= 0
    width = beta_width(a, b, x, low)
    keys = list(g)

    def integrand(u: Any, a: Any, b: Any, x: Any, low: Any, width: Any, *terms: Any) -> Any:
        first, second = beta_logs(x, low, u * width)
        h = _replace_first(dict(zip(keys, terms, strict=True)), first, second)
        return np.exp(a * first + b * second) * bell(m, n, h)

    z = width * integral(integrand, a, b, x, low, width, *g.values())
    return _where(low, z, -z)


def _beta_step(a: Any, b: Any, x: Any, m: int, n: int, up_a: Any, up_b: Any) -> Any:
    """Return the derivative of what raising a, b or both by 1 takes away from the regularised function."""
    front = np.exp(a * np.log(x) + b * np.log1p(-x) - np.log(a) - np.log(b) - scipy("betaln")(a, b))
    g = _beta_terms(m, n, a, b, x, 1)
    by_a = _where(up_b, _where(up_a, -x, -1.0), 0.0)
    by_b = _where(up_a, _where(up_b, 1 - x, 1.0), 0.0)
    z = (by_a * a + by_b * b) * bell(m, n, g)
    z = z + (m * by_a * bell(m - 1, n, g) if m else 0.0) + (n * by_b * bell(m, n - 1, g) if n else 0.0)
    return _where(front == 0, 0.0, front * z)


def beta_by_parameters(a: Any, b: Any, x: Any, *, m: int, n: int) -> Any:
    """Return the derivative of the regularised incomplete beta function, of order m by a and n by b, one of them not 0."""
    up_a = (a < 1) & ((x * (1 + b) <= 1) | (m > 1))
    up_b = (b < 1) & (((1 - x) * (1 + a) <= 1) | (n > 1))
    low_a, low_b = np.maximum(a, TINY), np.maximum(b, TINY)
    high_a, high_b = _where(up_a, a + 1, low_a), _where(up_b, b + 1, low_b)
    front = beta_front(high_a, high_b, x)
    z = _where(front < -745, 0.0, np.exp(front) * _beta_tail(high_a, high_b, x, m, n))
    z = _where(up_a | up_b, z + _beta_step(low_a, low_b, x, m, n, up_a, up_b), z)
    outside = (a < 0) | (b < 0) | (x < 0) | (x > 1)
    return _where(outside, math.nan, _where((x == 0) | (x == 1), 0.0 * (a + b), z))
