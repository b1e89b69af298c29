"""Parameter derivatives: incomplete gamma and beta functions, their tails and Fisher's function, by quadrature."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from afx.core import Function
from afx.ops._kinds.special import scipy
from afx.ops.special._quadrature import integral
from afx.ops.special.gamma import HALF_LOG_2PI, bare_psi, log_beta, psi_gap, psi_rest, stirling

# --- Parameter derivatives: incomplete gamma and beta functions by their parameters, in every order, by quadrature
#
# The n-th derivative of a density f by its parameter is f times a polynomial of the derivatives of log f. Its
# integral over the whole axis is 0, so it may be taken from either end; from the nearer one nearly all of the
# integrand has one sign. On the axis of log t (or of the log-odds of t) the integrand falls smoothly from the end of
# the interval. Its logarithm says where it has become negligible. Parameters below 1, where it would fall too slowly,
# are raised by 1, and the difference that makes has a closed form.
#
# Everything here takes and gives float64 arrays of one shape.

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
    table = {(0, 0): 1.0}
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
    return [(log_t if k == 0 else 0.0) - bare_psi(k, a) for k in range(order)]


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
    sign = _where(np.log(x) <= bare_psi(0, a), -1.0, 1.0)  # towards 0, or towards infinity
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
    g = {(i, j): bare_psi(i + j - 1, a + b) for i in range(1, m + 1) for j in range(1, n + 1)}
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


# --- Relative tails: gamma and beta integrals over their integrands, finite where the integrals underflow
#
# The gamma integral is taken over log t, the beta integral over the log-odds of t. From x to the near end of that
# axis it is the integrand at x times a tail. The tail's logarithm and its moments, the derivatives, come from Gauss's
# rule on the interval where the integrand is not negligible, as in `afx.ops.special._incomplete`.
#
# Everything here takes and gives float64 arrays of one shape.

DEEP = 1e-200  # shares below this are computed as the integrand times a tail


def _tail(log_weight: Function, moment: Function | None, width: Any, *xs: Any) -> Any:
    """Return the mean of ``moment`` under the weight, or the logarithm of the weight's integral where there is none."""

    def weight(u: Any, width: Any, *ys: Any) -> Any:
        return np.exp(log_weight(u * width, *ys))

    def weighted(u: Any, width: Any, *ys: Any) -> Any:
        assert moment
        return weight(u, width, *ys) * moment(u * width, *ys)

    total = integral(weight, width, *xs)
    return integral(weighted, width, *xs) / total if moment else np.log(width * total)


def gamma_tail(a: Any, x: Any, *, upper: bool, m: int, n: int) -> Any:
    """Return the mean of ``sᵐ (1 - eˢ)ⁿ`` under ``exp(a s - x (eˢ - 1))``, s from 0 to infinity, or to -infinity.

    Without powers it is the logarithm of the weight's integral, the tail.
    """
    sign = 1.0 if upper else -1.0

    def log_weight(v: Any, a: Any, x: Any) -> Any:
        return a * (sign * v) - x * np.expm1(sign * v)

    def moment(v: Any, _a: Any, _x: Any) -> Any:
        return (sign * v) ** m * (-np.expm1(sign * v)) ** n

    return _tail(log_weight, moment if m or n else None, gamma_width(a, x, sign), a, x)


def beta_tail(a: Any, b: Any, x: Any, *, upper: bool, m: int, n: int) -> Any:
    """Return the mean of ``log(t / x)ᵐ log((1 - t) / (1 - x))ⁿ`` under ``(t / x)ᵃ ((1 - t) / (1 - x))ᵇ``.

    The log-odds of t run from those of x to infinity, or to -infinity. Without powers it is the logarithm of the
    weight's integral, the tail. It is nan unless a, b > 0 and 0 < x < 1.
    """

    def log_weight(v: Any, a: Any, b: Any, x: Any) -> Any:
        first, second = beta_logs(x, not upper, v)
        return a * first + b * second

    def moment(v: Any, _a: Any, _b: Any, x: Any) -> Any:
        first, second = beta_logs(x, not upper, v)
        return first**m * second**n

    z = _tail(log_weight, moment if m or n else None, beta_width(a, b, x, not upper), a, b, x)
    return _where((a > 0) & (b > 0) & (x > 0) & (x < 1), z, np.nan)


def log_of_share(upper: bool, share: Any, rest: Any, *xs: Any) -> Any:
    """Return the logarithm of an incomplete function from its value, that of its complement, and its operands."""
    z = _where(share > 0.5, np.log1p(-rest), np.log(share))
    *parameters, x = xs
    inside = (x > 0) & (x < (1 if len(parameters) == 2 else np.inf))
    for parameter in parameters:
        inside &= (parameter > 0) & (parameter < np.inf)
    deep = (share < DEEP) & inside
    if deep.any():
        chosen = [y[deep] for y in xs]
        front, tail = (gamma_front, gamma_tail) if len(chosen) == 2 else (beta_front, beta_tail)
        z[deep] = front(*chosen) + tail(*chosen, upper=upper, m=0, n=0)
    return z


# --- Fisher's distribution function by its degrees of freedom: quadrature in which no large terms cancel
#
# F(a, b, s) is the regularised incomplete beta function of a and b at the share ``a s / (a s + b)``, half the degrees
# of freedom being a and b. Its density by log s has a logarithm whose derivative by a is ``log r + 1 - r + c`` with
# ``r = s (a + b) / (a s + b)`` and ``c = ψ(a + b) - ψ(a) - log((a + b) / a)``. For large a or b the derivatives of
# the beta function by a and by its share, whose sum this is, cancel.

LARGE = 15.0  # from here on the terms cancel more than the quadrature loses
BEND = 45.0  # how far the integrand is more than a power of s


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
        return np.exp(c * first + d * second) * bell(m, n, degree_terms(m, n, slopes, (a, b, inverse, share), bare_psi))

    given = (a, b, s, c, d, x, swap, low, down, psi_rest(a, b), psi_rest(b, a))
    z = bend * integral(integrand, 0 * bend, bend, *given)
    if np.any(width > bend):
        z = z + (width - bend) * integral(integrand, bend, width - bend, *given)
    front = beta_front(c, d, x)
    return _where(front < -745, 0.0, np.exp(front) * _where(down, z, -z))
