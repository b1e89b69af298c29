"""Shares: incomplete gamma and beta functions as formulas, where SciPy does not compute them.

The smaller of the function and its complement is the integrand at x times a tail, taken by Gauss's rule over log t, or the
log-odds of t, as in `afx.ops.special._incomplete`: without choices of elements, so that they are traced as they stand. Where
a small parameter leaves the integrand flat, a series is taken. No large numbers cancel in exponents: they are written by what
log and exp are less the first terms of their series, and by the exact distance from the mean.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from afx.ops._basic import xp
from afx.ops._kinds.special import polynomial
from afx.ops.special._incomplete import DEPTH
from afx.ops.special._quadrature import rule
from afx.ops.special.gamma import HALF_LOG_2PI, STIRLING_SERIES, log_gamma_two, stirling

TERMS = 20  # of the series of a small parameter, up to x = 1, or beta's up to NEAR_END
# up to where the series is taken; nearer than the second the way to the other end is too long
NEAR_END, FROM_END = 0.15, 0.05
SPLITTER = 2.0**27 + 1.0
STEPS = 4  # of Newton's method
HUGE, TINY = 1e280, 1e-200
LARGEST = 1e290  # of parameters, whose products have exact remainders; and the least is one over it
LOG_SERIES = [1 / (2 * k + 1) for k in range(1, 23)]
EXP_SERIES = [1 / math.factorial(k) for k in range(2, 20)]


# --- Parts of exponents in which nothing cancels


def _log_less(u: Any) -> Any:
    """Return ``log(1 + u) - u``, by the series of atanh near 0."""
    is_near = (u > -0.6) & (u < 1.5)
    w = xp.where(is_near, u, 0.0) / (2.0 + xp.where(is_near, u, 0.0))
    return xp.where(is_near, w * (2.0 * w * w * polynomial(w * w, LOG_SERIES) - u), xp.log1p(u) - u)


def _log_ratio_less(ratio: Any, u: Any) -> Any:
    """Return ``log(ratio) - u`` of a ratio and what it is less 1, which is exact near 0."""
    is_near = (u > -0.6) & (u < 1.5)
    return xp.where(is_near, _log_less(xp.where(is_near, u, 0.0)), xp.log(ratio) - u)


def _exp_less(v: Any) -> Any:
    """Return ``exp(v) - 1 - v``."""
    is_near = xp.abs(v) < 1.0
    u = xp.where(is_near, v, 0.0)
    return xp.where(is_near, u * u * polynomial(u, EXP_SERIES), xp.expm1(v) - v)


def _split(x: Any) -> tuple[Any, Any]:
    """Return the upper half of a number's digits and the lower one (Veltkamp)."""
    c = SPLITTER * x
    high = c - (c - x)
    return high, x - high


def _off_mean(a: Any, b: Any, x: Any) -> Any:
    """Return ``a - (a + b) x`` with all its digits: what the sum and the product round off is added (Knuth, Dekker)."""
    n = a + b
    part = n - a
    rest = (a - (n - part)) + (b - part)
    product = n * x
    (high, low), (first, second) = _split(n), _split(x)
    error = ((high * first - product) + high * second + low * first) + low * second
    return (a - product) - (error + rest * x)


def _log_gamma_gap(q: Any, p: Any) -> Any:
    """Return ``lgamma(q + p) - lgamma(q)`` of q and p above 0 with all its digits, by recurrence and Stirling's series."""
    passed = 0.0
    for _ in range(10):
        is_small = q < 10.0
        step = xp.where(is_small, p / q, 0.0)
        passed = passed + step + passed * step
        q = xp.where(is_small, q + 1.0, q)
    u, w = 1.0 / q, 1.0 / (q + p)
    total, slope = 0.0 * u, 0.0 * u  # Stirling's series at w, and its divided difference between w and u
    for c in reversed([c for pair in STIRLING_SERIES for c in (0.0, pair)]):
        slope = slope * u + total
        total = total * w + c
    u = p / q
    return q * _log_less(u) - 0.5 * xp.log1p(u) + p * xp.log(q + p) - u * w * slope - xp.log1p(passed)


def _find_end(fall: Callable[[Any], Any], slope: Callable[[Any], Any], start: Any) -> Any:
    """Return where a convex function is about `DEPTH`, from where it is more, by Newton's steps of its logarithm by that of v.

    Of a power that is one step; no step is long, since a convex function that is 0 at 0 rises at least as fast as v.
    """
    for _ in range(STEPS):
        f = fall(start)
        start = start * xp.exp(-xp.log(f / DEPTH) * (f / (start * slope(start))))
    return start


def _integrate(fall: Callable[..., Any], end: Any, *xs: Any) -> Any:
    """Return the integral of ``exp(-fall)`` of places and parameters, from 0 to the end."""
    u, weights = rule()
    return end * xp.sum(xp.exp(-fall(u * end[..., None], *[x[..., None] for x in xs])) * weights, axis=-1)


# --- Gamma


def gamma_front(a: Any, x: Any) -> Any:
    """Return ``a log x - x - lgamma(a)``."""
    is_small = a < 1.0
    large, small = xp.where(is_small, 1.0, a), xp.where(is_small, a, 1.0)
    peak = 0.5 * xp.log(large) - HALF_LOG_2PI - stirling(large)
    peak = peak + large * _log_ratio_less(x / large, (x - large) / large)
    low = small * xp.log(x) - x + xp.log(small) - _log_gamma_one(small)
    return xp.where(is_small, low, peak)


def _log_gamma_one(p: Any) -> Any:
    """Return ``lgamma(1 + p)`` of p from 0 to 1."""
    return xp.where(p < 0.5, log_gamma_two(p) - xp.log1p(p), log_gamma_two(p - 1.0))


def _gamma_fall(v: Any, a: Any, x: Any, sign: Any) -> Any:
    """Return by how much the logarithm of the integrand has fallen at a place ``log t = log x + sign v``."""
    return (x - a) * (sign * v) + x * _exp_less(sign * v)


def gamma_shares(a: Any, x: Any) -> tuple[Any, Any]:
    """Return the regularised incomplete gamma function and its complement."""
    a, x = xp.broadcast_arrays(a, x)
    inside = (a > 0) & (a < math.inf) & (x > 0) & (x < math.inf)
    b, y = xp.where(inside, a, 2.0), xp.where(inside, x, 1.0)
    by_series = (b < 1) & (y <= 1)
    small, near = xp.where(by_series, b, 0.5), xp.where(by_series, y, 0.5)
    terms = [0.0, *[(-1) ** k * small / (math.factorial(k) * (small + k)) for k in range(1, TERMS)]]
    first, second = _add_series(small * xp.log(near) - _log_gamma_one(small), polynomial(near, terms))
    b, y = xp.where(by_series, 2.0, b), xp.where(by_series, 1.0, y)
    is_low = y < b
    sign = xp.where(is_low, -1.0, 1.0)
    end = _find_end(
        lambda v: _gamma_fall(v, b, y, sign),
        lambda v: sign * ((y - b) + y * xp.expm1(sign * v)),
        xp.where(is_low, DEPTH / b + xp.sqrt(2 * DEPTH / b), xp.sqrt((2 * DEPTH + 12) / y)),
    )
    tail = xp.exp(gamma_front(b, y)) * _integrate(_gamma_fall, end, b, y, sign)
    share = xp.where(by_series, first, xp.where(is_low, tail, 1.0 - tail))
    other = xp.where(by_series, second, xp.where(is_low, 1.0 - tail, tail))
    is_wrong = (a < 0) | (x < 0) | ((a == 0) & (x == 0)) | (xp.minimum(a, x) == math.inf) | xp.isnan(a + x)
    is_none = (x == 0) | (a == math.inf)
    return _finish(inside, is_wrong, is_none, share, other)


def _add_series(log_first: Any, rest: Any) -> tuple[Any, Any]:
    """Return a share and its complement by the logarithm of its first term, and the others by that."""
    first = xp.exp(log_first)
    return first + first * rest, -xp.expm1(log_first) - first * rest


# --- Beta


def beta_front(a: Any, b: Any, x: Any) -> Any:
    """Return ``a log x + b log(1 - x) - log B(a, b)``."""
    is_small = (a < 1) | (b < 1)
    c, d = xp.where(is_small, 1.0, a), xp.where(is_small, 1.0, b)
    off, n = _off_mean(c, d, x), c + d
    peak = 0.5 * xp.log(c / n * d) - HALF_LOG_2PI + stirling(n) - stirling(c) - stirling(d)
    peak = peak + c * _log_ratio_less(x * (n / c), -off / c) + d * _log_ratio_less((1.0 - x) * (n / d), off / d)
    c, d = xp.where(is_small, xp.minimum(a, b), 1.0), xp.where(is_small, xp.maximum(a, b), 1.0)
    low = xp.where(is_small, a, 1.0) * xp.log(x) + xp.where(is_small, b, 1.0) * xp.log1p(-x)
    low = low + xp.log(c) - _log_gamma_one(xp.minimum(c, 1.0)) + _log_gamma_gap(d, c)
    return xp.where(is_small, low, peak)


def _beta_fall(v: Any, off: Any, n: Any, x: Any, sign: Any) -> Any:
    """Return by how much the logarithm of the integrand has fallen where log-odds have changed by ``sign v``."""
    s = sign * v
    c, u = xp.minimum(x, 1.0 - x), xp.where(x > 0.5, -s, s)  # the logarithm of a mean of exponentials, less its mean
    near = xp.where(xp.abs(u) < 1.0, u, 0.0)
    by_series = _log_less(c * xp.expm1(near)) + c * _exp_less(near)
    far = u > 30.0
    direct = xp.where(far, u + xp.log(c + (1.0 - c) * xp.exp(-xp.abs(u))), xp.log1p(c * xp.expm1(xp.minimum(u, 30.0))))
    return n * xp.where(xp.abs(u) < 1.0, by_series, direct - c * u) - off * s


def _beta_slope(v: Any, off: Any, n: Any, x: Any, sign: Any) -> Any:
    """Return the derivative of that by v."""
    growth = xp.expm1(xp.minimum(sign * v, 600.0))
    return sign * (n * (x * (1.0 - x) * growth / (1.0 + x * growth)) - off)


def _beta_series(p: Any, q: Any, z: Any) -> tuple[Any, Any]:
    """Return both shares up to z near 0 of p below 1, where q z is at most 1."""
    terms, factor = [0.0 * p], 1.0 + 0.0 * p
    for k in range(1, TERMS):
        factor = factor * (k - q) * z / k
        terms.append(factor * p / (p + k))
    rest = sum(reversed(terms[:-1]), terms[-1])  # the smallest first
    return _add_series(p * xp.log(z) - _log_gamma_one(p) + _log_gamma_gap(q, p), rest)


def beta_shares(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """Return the regularised incomplete beta function and its complement."""
    a, b, x = xp.broadcast_arrays(a, b, x)
    least, most = xp.minimum(a, b), xp.maximum(a, b)
    inside = (least > 0) & (most < math.inf) & (x > 0) & (x < 1)
    c, d, y = xp.where(inside, a, 1.0), xp.where(inside, b, 1.0), xp.where(inside, x, 0.5)
    scale = LARGEST / xp.maximum(xp.maximum(c, d), LARGEST)  # of two that are huge, or tiny, the ratio alone counts
    y = xp.where((d > LARGEST) & (c <= HUGE), xp.minimum(y / scale, 0.5), y)  # and beside a huge one its product with x
    scale = xp.where(xp.minimum(c, d) > HUGE, scale, xp.where(xp.maximum(c, d) < TINY, 1 / TINY, 1.0))
    c, d = [xp.minimum(xp.maximum(z * scale, 1 / LARGEST), LARGEST) for z in (c, d)]
    at_low = (c < 1) & (y <= NEAR_END) & (d * y <= 1)
    at_high = (d < 1) & (1 - y <= NEAR_END) & (c * (1 - y) <= 1)
    by_series = at_low | at_high
    p = xp.where(by_series, xp.where(at_low, c, d), 0.5)
    q, z = xp.where(by_series, xp.where(at_low, d, c), 0.5), xp.where(by_series, xp.where(at_low, y, 1 - y), 0.1)
    near, over = _beta_series(p, q, z)
    is_low, tail = _beta_tail(xp.where(by_series, 1.0, c), xp.where(by_series, 1.0, d), xp.where(by_series, 0.5, y))
    share = xp.where(by_series, xp.where(at_low, near, over), xp.where(is_low, tail, 1.0 - tail))
    other = xp.where(by_series, xp.where(at_low, over, near), xp.where(is_low, 1.0 - tail, tail))
    is_wrong = (least < 0) | (most == 0) | (least == math.inf) | (x < 0) | (x > 1) | xp.isnan(a + b + x)
    is_none = (x == 0) | ((x != 1) & ((b == 0) | (a == math.inf)))
    return _finish(inside, is_wrong, is_none, share, other)


def _beta_tail(c: Any, d: Any, y: Any) -> tuple[Any, Any]:
    """Tell where the tail that is integrated is the lower one, and return its share."""
    off = _off_mean(c, d, y)
    power = xp.exp(beta_front(c, d, y))  # by a or b at most the share on that side
    is_large, is_small = (power > 0.5 * c) & (y > FROM_END), (power > 0.5 * d) & (1 - y > FROM_END)
    is_low = is_small | (~is_large & (off >= 0))
    from_near = xp.where(is_low, c, d)  # the parameter of the end that the integral goes to
    is_raised = from_near < 1  # where the integrand would fall too slowly
    n = xp.where(is_raised, c + d + 1, c + d)
    off = xp.where(is_raised, off + xp.where(is_low, 1.0 - y, -y), off)
    sign = xp.where(is_low, -1.0, 1.0)
    end = _find_end(
        lambda v: _beta_fall(v, off, n, y, sign),
        lambda v: _beta_slope(v, off, n, y, sign),
        (DEPTH - n * xp.where(is_low, xp.log1p(-y), xp.log(y))) / xp.where(is_raised, from_near + 1, from_near),
    )
    raised = xp.where(is_low, y, 1 - y) * ((c + d) / from_near)  # the front of the raised function by that of this
    ratio = xp.where(is_raised, raised, 1.0)
    tail = power * ratio * _integrate(_beta_fall, end, off, n, y, sign)
    return is_low, xp.where(is_raised, tail + power / from_near, tail)


def _finish(inside: Any, is_wrong: Any, is_none: Any, share: Any, other: Any) -> tuple[Any, Any]:
    """Return shares with their limits: nan of what is wrong, 0 and 1, or 1 and 0."""
    limits = [xp.where(is_wrong, math.nan, xp.where(is_none, low, 1.0 - low)) for low in (0.0, 1.0)]
    return xp.where(inside, share, limits[0]), xp.where(inside, other, limits[1])
