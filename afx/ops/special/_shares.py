"""Shares: incomplete gamma and beta functions as formulas, where SciPy does not compute them.

The smaller of the function and its complement is the integrand at x times a tail, taken by Gauss's rule over log t, or the
log-odds of t, as in `afx.ops.special._incomplete`: without choices of elements, so that they are traced as they stand.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from afx.ops._basic import xp
from afx.ops._kinds.special import polynomial
from afx.ops.special._incomplete import DEPTH, beta_at, beta_front, beta_logs, gamma_front
from afx.ops.special._quadrature import rule
from afx.ops.special.gamma import log_gamma_two

TERMS = 20  # of the series of a small parameter, up to x = 1
FROM_END = 0.05  # nearer to an end the way to the other one is too long
GAMMA_STEPS, BETA_STEPS = 8, 16  # of Newton's method, from bounds that are near, and not so near


def _find_end(fall: Callable[[Any], Any], slope: Callable[[Any], Any], start: Any, steps: int) -> Any:
    """Return where a convex function is about `DEPTH` at least, from where it is more."""
    for _ in range(steps):
        start = start - (fall(start) - DEPTH) / slope(start)
    return start


def _integrate(weight: Callable[..., Any], end: Any, *xs: Any) -> Any:
    """Return the integral of a function of places and parameters, from 0 to the end."""
    u, weights = rule()
    return end * xp.sum(weight(u * end[..., None], *[x[..., None] for x in xs]) * weights, axis=-1)


def _gamma_weight(v: Any, a: Any, x: Any, sign: Any) -> Any:
    return xp.exp(a * (sign * v) - x * xp.expm1(sign * v))


def _beta_change(v: Any, a: Any, b: Any, x: Any, is_low: Any) -> Any:
    first, second = beta_logs(x, is_low, v)
    return a * first + b * second


def _beta_weight(v: Any, a: Any, b: Any, x: Any, is_low: Any) -> Any:
    return xp.exp(_beta_change(v, a, b, x, is_low))


def gamma_shares(a: Any, x: Any) -> tuple[Any, Any]:
    """Return the regularised incomplete gamma function and its complement."""
    a, x = xp.broadcast_arrays(a, x)
    inside = (a > 0) & (a < math.inf) & (x > 0) & (x < math.inf)
    b, y = xp.where(inside, a, 2.0), xp.where(inside, x, 1.0)
    by_series = (b < 1) & (y <= 1)
    small, near = xp.where(by_series, b, 0.5), xp.where(by_series, y, 0.5)
    log_first = small * xp.log(near) - xp.where(
        small < 0.5, log_gamma_two(small) - xp.log1p(small), log_gamma_two(small - 1)
    )
    terms = [0.0, *[(-1) ** k * small / (math.factorial(k) * (small + k)) for k in range(1, TERMS)]]
    rest = xp.exp(log_first) * polynomial(near, terms)
    b, y = xp.where(by_series, 2.0, b), xp.where(by_series, 1.0, y)
    is_low = y < b
    sign = xp.where(is_low, -1.0, 1.0)
    end = _find_end(
        lambda v: y * xp.expm1(sign * v) - b * sign * v,
        lambda v: sign * (y * xp.exp(sign * v) - b),
        xp.where(is_low, (DEPTH + xp.sqrt(DEPTH * DEPTH + 8 * b * DEPTH)) / (2 * b), xp.sqrt((2 * DEPTH + 12) / y)),
        GAMMA_STEPS,
    )
    tail = xp.exp(gamma_front(b, y)) * _integrate(_gamma_weight, end, b, y, sign)
    share = xp.where(by_series, xp.exp(log_first) + rest, xp.where(is_low, tail, 1.0 - tail))
    other = xp.where(by_series, -xp.expm1(log_first) - rest, xp.where(is_low, 1.0 - tail, tail))
    is_wrong = (a < 0) | (x < 0) | ((a == 0) & (x == 0)) | (xp.minimum(a, x) == math.inf) | xp.isnan(a + x)
    is_none = (x == 0) | (a == math.inf)
    return _finish(inside, is_wrong, is_none, share, other)


def beta_shares(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """Return the regularised incomplete beta function and its complement."""
    a, b, x = xp.broadcast_arrays(a, b, x)
    least, most = xp.minimum(a, b), xp.maximum(a, b)
    inside = (least > 0) & (most < math.inf) & (x > 0) & (x < 1)
    c, d, y = xp.where(inside, a, 1.0), xp.where(inside, b, 1.0), xp.where(inside, x, 0.5)
    power = xp.exp(beta_front(c, d, y))  # by a or b at most the share on that side
    is_large, is_small = (power > 0.5 * c) & (y > FROM_END), (power > 0.5 * d) & (1 - y > FROM_END)
    is_low = is_small | (~is_large & (y * (c + d) <= c))
    from_near = xp.where(is_low, c, d)  # the parameter of the end that the integral goes to
    is_raised = from_near < 1  # where the integrand would fall too slowly
    e, f = xp.where(is_raised & is_low, c + 1, c), xp.where(is_raised & ~is_low, d + 1, d)
    end = _find_end(
        lambda v: -_beta_change(v, e, f, y, is_low),
        lambda v: xp.where(is_low, 1.0, -1.0) * (e - (e + f) * beta_at(y, is_low, v)),
        (DEPTH - (e + f) * xp.where(is_low, xp.log1p(-y), xp.log(y))) / xp.where(is_low, e, f),
        BETA_STEPS,
    )
    raised = xp.where(is_low, y, 1 - y) * ((c + d) / from_near)  # the front of the raised function by that of this
    ratio = xp.where(is_raised, raised, 1.0)
    tail = power * ratio * _integrate(_beta_weight, end, e, f, y, is_low)
    tail = xp.where(is_raised, tail + power / from_near, tail)
    share, other = xp.where(is_low, tail, 1.0 - tail), xp.where(is_low, 1.0 - tail, tail)
    is_wrong = (least < 0) | (most == 0) | (least == math.inf) | (x < 0) | (x > 1) | xp.isnan(a + b + x)
    is_none = (x == 0) | ((x != 1) & ((b == 0) | (a == math.inf)))
    return _finish(inside, is_wrong, is_none, share, other)


def _finish(inside: Any, is_wrong: Any, is_none: Any, share: Any, other: Any) -> tuple[Any, Any]:
    """Return shares with their limits: nan of what is wrong, 0 and 1, or 1 and 0."""
    limits = [xp.where(is_wrong, math.nan, xp.where(is_none, low, 1.0 - low)) for low in (0.0, 1.0)]
    return xp.where(inside, share, limits[0]), xp.where(inside, other, limits[1])
