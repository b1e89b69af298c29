"""Normal numbers cut, skewed and wound around a circle: truncated, skew-normal and von Mises distributions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.control.while_loop import fori_loop
from afx.core import Array, ArrayLike, epsilon, float64
from afx.ops import abs as abs_, arctan2, astype, cos, expand_dims, floor, sin, spence, sqrt, sum as sum_
from afx.ops.creation.creation import asarray, full, stop_gradient, zeros_like
from afx.ops.elementwise.comparison import clip, isinf, isnan, maximum, minimum, where
from afx.ops.elementwise.exponentials import exp, log, log1p, logaddexp
from afx.ops.manipulation.join import broadcast_arrays, concat
from afx.ops.reductions.cumulative import log1mexp
from afx.ops.special.bessel import i0e, i0e_fall
from afx.ops.special.errors import log_ndtr, ndtri_exp
from afx.stats._distribution import ContinuousDistribution, continuous
from afx.stats.elementary import HALF_LOG_2PI, log_share
from afx.stats.multivariate import _bivariate_cdf

__all__ = ["skewnorm", "truncnorm", "vonmises", "wrapcauchy"]

_rule: Any = np.polynomial.legendre.leggauss(96)
NODES, WEIGHTS = (_rule[0] + 1) / 2, _rule[1] / 2  # from 0 to 1
HALVINGS = 64  # of an interval, down to the last digit of float64


def _invert(fn: Callable[[Array], Array], slope: Callable[[Array], Array], q: Array, low: Array, high: Array) -> Array:
    """Return where a rising function is q, between two ends: by halving, then Newton's steps, which carry derivatives."""

    def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = 0.5 * (ends[0] + ends[1])
        is_low = fn(middle) < q
        return where(is_low, middle, ends[0]), where(is_low, ends[1], middle)

    left, right, *_ = broadcast_arrays(stop_gradient(low), stop_gradient(high), stop_gradient(q), fn(low))
    left, right = fori_loop(0, HALVINGS, lambda k, ends: stop_gradient_pair(halve(k, ends)), (left, right))
    x = stop_gradient(0.5 * (left + right))
    for _ in range(2):  # the second for second derivatives
        height = slope(x)
        flat = height <= 0
        x = x - where(flat, 0.0, (fn(x) - q) / where(flat, 1.0, height))
    return x


def stop_gradient_pair(ends: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the ends of an interval without their derivatives."""
    return stop_gradient(ends[0]), stop_gradient(ends[1])


# -- truncated --
FAR = 1e8  # beyond all ends that lie close to each other


def _log_between(low: Array, high: Array) -> Array:
    """Return the logarithm of the probability of a normal number between two, by the tail that is smaller."""
    is_right = low > 0
    a, b = where(is_right, -high, low), where(is_right, -low, high)
    top, gap = log_ndtr(b), log_ndtr(b) - log_ndtr(a)
    first, last = clip(low, -FAR, FAR), clip(high, -FAR, FAR)
    size, middle = last - first, 0.5 * (first + last)
    near = (size > 0) & (size * (1 + abs_(middle)) < epsilon(size.dtype) ** 0.2)
    h, m = where(near, size, 1.0), where(near, middle, 0.0)
    narrow = log(h) - 0.5 * m * m - HALF_LOG_2PI + (m * m - 1) * h * h / 24  # the density about the middle
    is_wide = ~(near | (gap <= 0) | (top == -math.inf))
    wide = where(is_wide, top + log1mexp(where(is_wide, gap, 1.0)), -math.inf)
    return where(near, narrow, wide)


REACH = 40.0  # beyond which the logarithm of a density, below its peak, is left out


def _truncated_moments(low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Return mean, variance and entropy of a truncated normal number, by quadrature on both sides of its peak.

    The formulas by densities at the ends cancel where these are close to each other, or far out on one side.
    """
    peak = minimum(maximum(low, 0.0), high)
    width = 2 * REACH / (sqrt(peak * peak + 2 * REACH) + abs_(peak))
    left, right = (expand_dims(minimum(part, width), -1) for part in (peak - low, high - peak))
    places = concat([-left * NODES, right * NODES], axis=-1)  # beside the peak
    depths = 0.5 * places * (places + 2 * expand_dims(peak, -1))
    heights = concat([left * WEIGHTS, right * WEIGHTS], axis=-1) * exp(-depths)
    whole = sum_(heights, axis=-1)
    shares = heights / expand_dims(whole, -1)
    beside = sum_(shares * places, axis=-1)
    var = sum_(shares * (places - expand_dims(beside, -1)) ** 2, axis=-1)
    entropy = log(whole) + sum_(shares * depths, axis=-1)
    return astype(peak + beside, low.dtype), astype(var, low.dtype), astype(entropy, low.dtype)


@continuous
def truncnorm(a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Truncated normal distribution: a standard normal number between ``a`` and ``b``, before location and scale."""
    low, high = broadcast_arrays(asarray(a), asarray(b))
    allowed = low < high
    low, high = where(allowed, low, -1.0), where(allowed, high, 1.0)
    total = _log_between(low, high)

    def quantile(below: Array, above: Array, is_left: Array) -> Array:
        """Return where shares of these logarithms lie below and above, by the tail on the left or that on the right."""
        left = ndtri_exp(logaddexp(log_ndtr(low), below + total))
        right = -ndtri_exp(logaddexp(log_ndtr(-high), above + total))
        return where(is_left, left, right)

    return ContinuousDistribution(
        logpdf=lambda y: -0.5 * y * y - HALF_LOG_2PI - total,
        logcdf=lambda y: log_share(_log_between(low, y) - total, _log_between(y, high) - total),
        logsf=lambda y: log_share(_log_between(y, high) - total, _log_between(low, y) - total),
        ppf=lambda q: quantile(log(q), log1p(-q), low <= 0),
        isf=lambda q: quantile(log1p(-q), log(q), high < 0),
        mean=lambda: _truncated_moments(low, high)[0],
        var=lambda: _truncated_moments(low, high)[1],
        entropy=lambda: _truncated_moments(low, high)[2],
        low=low,
        high=high,
        middle=_inside(low, high),
        allowed=allowed,
        loc=loc,
        scale=scale,
    )


def _inside(low: Array, high: Array) -> Array:
    """Return a number between two ends, which may be infinite."""
    first, last = where(isinf(low), -1.0, low), where(isinf(high), 1.0, high)
    return where(isinf(low), where(isinf(high), 0.0, last - 1), where(isinf(high), first + 1, 0.5 * (first + last)))


# -- skewed --
def _log_light_tail(y: Array, slant: Array) -> Array:
    """Return the logarithm of a probability below a number below 0: of a law skewed to the right, or far below."""
    y, slant = broadcast_arrays(maximum(y, FARTHEST), slant)
    # the logarithm of the density falls at least as that of a normal one of this precision
    fall = 1 + where(slant > 0, slant * slant, 0.0)
    length = 80 / (sqrt((y * fall) ** 2 + 80 * fall) - y * fall)

    def height(x: Array, tilt: Array) -> Array:
        return -0.5 * x * x + log_ndtr(tilt * x)

    places = expand_dims(y, -1) - expand_dims(length, -1) * NODES
    top = height(y, slant)
    total = sum_(WEIGHTS * exp(height(places, expand_dims(slant, -1)) - expand_dims(top, -1)), axis=-1)
    return math.log(2) - HALF_LOG_2PI + top + log(length * total)


FARTHEST = -1e100  # whose square is a number, and with a steep slant too
FAR_BELOW = -5.0  # from where on a tail of either kind is smooth enough for the quadrature


@continuous
def skewnorm(a: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Skew-normal distribution: density ``2 φ(x) Φ(a x)`` (Azzalini 1985).

    Distribution functions are right to 1e-15, and in the lighter tail, by quadrature, to as many digits.
    """
    slant = asarray(a)
    share = slant / sqrt(1 + slant * slant)

    def logpdf(y: Array, slant: Array = slant) -> Array:
        return math.log(2) - 0.5 * y * y - HALF_LOG_2PI + log_ndtr(slant * y)

    def logcdf(y: Array, slant: Array = slant) -> Array:
        if y.dtype != float64:  # whose sums lose too many digits
            return astype(logcdf(astype(y, float64), astype(slant, float64)), y.dtype)
        above = y > 0
        tail = _log_below(where(above, -y, y), where(above, -slant, slant))
        return where(isnan(y), math.nan, where(above, log1mexp(-tail), tail))

    def ppf(q: Array, slant: Array = slant) -> Array:
        ends = full(q.shape, 40.0, np.float64)  # in float32 the function between them has fewer digits than its inverse
        quantile = _invert(lambda y: exp(logcdf(y, slant)), lambda y: exp(logpdf(y, slant)), q, -ends, ends)
        return astype(quantile, q.dtype)

    return ContinuousDistribution(
        logpdf=logpdf,
        logcdf=logcdf,
        logsf=lambda y: logcdf(-y, -slant),
        ppf=ppf,
        isf=lambda q: -ppf(q, -slant),
        mean=lambda: math.sqrt(2 / math.pi) * share,
        var=lambda: 1 - 2 / math.pi * share * share,
        entropy=lambda: _skewed_entropy(slant),
        loc=loc,
        scale=scale,
    )


def _log_below(y: Array, slant: Array) -> Array:
    """Return the logarithm of a skew-normal probability below a number up to 0."""
    light = (y < 0) & ((slant > 0) | (y < FAR_BELOW))
    tail = _log_light_tail(where(light, y, -1.0), where(light, slant, 1.0))
    turn = -slant / sqrt(1 + slant * slant)
    whole = 2 * _bivariate_cdf(*broadcast_arrays(where(light, 0.0, y), zeros_like(y), turn))
    return where(light, tail, log(whole))


def _skewed_entropy(slant: Array) -> Array:
    # Φ(a x) log Φ(a x) is nothing farther out than this, for a normal density and for a steep Φ
    unit = 1 / expand_dims(stop_gradient(maximum(abs_(slant), 1.0)), -1)
    z = unit * asarray(np.concatenate([-12.0 + 0.5 * k + 0.5 * NODES for k in range(48)])).astype(slant.dtype)
    weights = unit * asarray(np.tile(0.5 * WEIGHTS, 48)).astype(slant.dtype)
    tilt = log_ndtr(expand_dims(slant, -1) * z)
    heights = 2 * exp(-0.5 * z * z - HALF_LOG_2PI + tilt)
    return HALF_LOG_2PI + 0.5 - math.log(2) - sum_(weights * where(heights > 0, heights * tilt, 0.0), axis=-1)


# -- around the circle --
def _circle_tail(kappa: Array, y: Array) -> Array:
    """Return the probability between -π and y, an angle of 0 or less, by quadrature from y down to where nothing is left."""
    length = minimum(y + math.pi, 14.2 / sqrt(kappa + 1e-30))
    angle = expand_dims(y, -1) - expand_dims(length, -1) * NODES
    k = expand_dims(kappa, -1)
    heights = exp(-2 * k * sin(0.5 * angle) ** 2)
    return astype(length * sum_(WEIGHTS * heights, axis=-1) / (2 * math.pi * i0e(kappa)), y.dtype)


def _circle_var(kappa: Array) -> Array:
    """Return the variance of an angle, by quadrature out to where nothing is left."""
    length = minimum(math.pi, 14.2 / sqrt(kappa + 1e-30))
    angle = expand_dims(length, -1) * NODES
    heights = angle * angle * exp(-2 * expand_dims(kappa, -1) * sin(0.5 * angle) ** 2)
    return astype(length * sum_(WEIGHTS * heights, axis=-1) / (math.pi * i0e(kappa)), kappa.dtype)


@continuous
def vonmises(kappa: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Von Mises distribution of angles: density ``exp(kappa cos x) / (2π I₀(kappa))``.

    As in SciPy the density is periodic, and the distribution function grows by 1 with each turn; it is 1/2 at 0.
    """
    k = asarray(kappa)

    def cdf(y: Array) -> Array:
        turns = floor((y + math.pi) / (2 * math.pi))
        angle = y - 2 * math.pi * turns
        low = angle < 0
        tail = _circle_tail(*broadcast_arrays(k, where(low, angle, -angle)))
        return turns + where(low, tail, 1 - tail)

    def logpdf(y: Array) -> Array:
        return -2 * k * sin(0.5 * y) ** 2 - math.log(2 * math.pi) - log(i0e(k))

    def ppf(q: Array) -> Array:
        low = q < 0.5
        ends = full(q.shape, math.pi, q.dtype)
        quantile = _invert(cdf, lambda y: exp(logpdf(y)), where(low, q, 1 - q), -ends, ends)
        return where(low, quantile, -quantile)

    return ContinuousDistribution(
        logpdf=logpdf,
        cdf=cdf,
        logcdf=lambda y: log(cdf(y)),
        ppf=ppf,
        mean=lambda: 0.0 * k,
        var=lambda: _circle_var(k),
        entropy=lambda: math.log(2 * math.pi) + log(i0e(k)) + k * i0e_fall(k) / i0e(k),
        allowed=k >= 0,
        is_symmetric=True,
        loc=loc,
        scale=scale,
    )


@continuous
def wrapcauchy(c: ArrayLike, loc: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> ContinuousDistribution:
    """Wrapped Cauchy distribution of angles from 0 to 2π: density ``(1 - c²) / (2π (1 + c² - 2c cos x))`` for c in (0, 1)."""
    k = asarray(c)
    wide, narrow = 1 + k, 1 - k

    def share(y: Array, side: float = 1.0) -> Array:
        height = sin(0.5 * y) + 0.0  # below 0 just above 2π; -0.0 would be the angle -π
        return arctan2(wide * where(height < 0, 0.0, height), side * narrow * cos(0.5 * y)) / math.pi

    def rest(y: Array) -> Array:
        return share(y, -1.0)

    return ContinuousDistribution(
        logpdf=lambda y: log(wide * narrow / (2 * math.pi)) - log(narrow**2 + 4 * k * sin(0.5 * y) ** 2),
        cdf=share,
        sf=rest,
        logcdf=lambda y: log_share(log(share(y)), log(rest(y))),
        logsf=lambda y: log_share(log(rest(y)), log(share(y))),
        ppf=lambda q: 2 * arctan2(narrow * sin(math.pi * q), wide * cos(math.pi * q)),
        isf=lambda q: 2 * arctan2(narrow * sin(math.pi * q), -wide * cos(math.pi * q)),
        mean=lambda: math.pi + 0.0 * k,
        var=lambda: math.pi**2 / 3 + 4 * spence(narrow),
        entropy=lambda: log(2 * math.pi * wide * narrow),
        low=0.0,
        high=2 * math.pi,
        middle=math.pi,
        allowed=(k > 0) & (k < 1),
        loc=loc,
        scale=scale,
    )
