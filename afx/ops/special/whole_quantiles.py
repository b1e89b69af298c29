"""Discrete quantiles: steps with derivative 0."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.core.array.array import Array
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind_single
from afx.ops._kinds.elementwise import elementwise
from afx.ops._kinds.special import scipy
from afx.ops.special._quadrature import double

__all__ = ["binomial_quantile", "geometric_quantile", "nbinom_quantile", "poisson_quantile"]

ROUNDING = 2e-15  # a distribution function that falls short of the probability by no more has reached it
DOUBLINGS = 80  # of a step from the guess
HALVINGS = 160

_where: Any = np.where  # its result type is not known to checkers
Moments = Callable[..., tuple[Any, Any, Any]]


def _least(reached: Callable[[Any], Any], guess: Any, least: float, most: Any) -> Any:
    """Return the least whole number from which on a condition holds: by ever longer steps from a guess, then by halving."""
    high: Any = np.clip(guess, least, most)
    low, first = high - 1, np.maximum(1.0, np.floor(high * 1e-12))
    step = first
    for _ in range(DOUBLINGS):
        short: Any = (high < most) & ~reached(high)
        if not np.any(short):
            break
        low, high = _where(short, high, low), _where(short, np.minimum(high + step, most), high)
        step = 2 * step
    step = first
    for _ in range(DOUBLINGS):
        far: Any = (low >= least) & reached(np.maximum(low, least))
        if not np.any(far):
            break
        low, high = _where(far, np.maximum(low - step, least - 1), low), _where(far, low, high)
        step = 2 * step
    for _ in range(HALVINGS):
        middle: Any = np.floor(0.5 * (low + high))
        inside: Any = (middle > low) & (middle < high)
        if not np.any(inside):
            break
        enough = reached(_where(inside, middle, high))
        low, high = _where(inside & ~enough, middle, low), _where(inside & enough, middle, high)
    return high


def _step(
    name: str,
    moments: Moments,
    tails: tuple[Callable[..., Any], Callable[..., Any]],
    arity: int,
    least: float = 0.0,
    most: Callable[..., Any] = lambda *_: math.inf,
) -> tuple[Primitive, Primitive]:
    """Make ops of the quantiles of a probability and of a complement, each settled by its own tail.

    Args:
        name: the law's.
        moments: of the parameters: mean, standard deviation and skewness, for a guess (Cornish & Fisher 1938).
        tails: the distribution function of a number and the parameters, and its complement.
        arity: how many operands there are: the parameters and the probability.
        least: the least number.
        most: the greatest, of the parameters.
    """

    def settle(upper: bool, *xs: Any) -> Any:
        *parameters, q = xs
        mean, width, skewness = moments(*parameters)
        z = scipy("ndtri")(q) * (-1 if upper else 1)
        guess = np.ceil(mean + width * (z + skewness * (z * z - 1) / 6))
        bound = q * (1 + ROUNDING) if upper else q * (1 - ROUNDING)

        def reached(k: Any) -> Any:  # of nan too, so that no search goes on for it
            return ~(tails[1](k, *parameters) > bound) if upper else ~(tails[0](k, *parameters) < bound)

        found = _least(reached, np.where(np.isfinite(guess), guess, least), least, most(*parameters))
        unknown = np.isnan(sum(xs))
        return np.where(unknown, math.nan, found)

    def make(op: str, upper: bool) -> Primitive:
        compute = double(functools.partial(settle, upper))
        return elementwise(
            op, compute, (0.0,) * arity, kinds="f", promotes_to_float=True, domain=(0.2, 0.9), smooth=False
        )

    return make(f"{name}_quantile", False), make(f"{name}_upper_quantile", True)


def _poisson_moments(mu: Any) -> tuple[Any, Any, Any]:
    return mu, np.sqrt(mu), 1 / np.sqrt(mu)


def _poisson_cdf(k: Any, mu: Any) -> Any:
    return scipy("gammaincc")(k + 1, mu)


def _poisson_sf(k: Any, mu: Any) -> Any:
    return scipy("gammainc")(k + 1, mu)


def _binomial_moments(n: Any, p: Any) -> tuple[Any, Any, Any]:
    width = np.sqrt(n * p * (1 - p))
    return n * p, width, (1 - 2 * p) / width


def _binomial_cdf(k: Any, n: Any, p: Any) -> Any:
    return np.where(k >= n, 1.0, scipy("betaincc")(k + 1, np.maximum(n - k, 0), p))


def _binomial_sf(k: Any, n: Any, p: Any) -> Any:
    return np.where(k >= n, 0.0, scipy("betainc")(k + 1, np.maximum(n - k, 0), p))


def _nbinom_moments(n: Any, p: Any) -> tuple[Any, Any, Any]:
    failures = n * (1 - p)
    return failures / p, np.sqrt(failures) / p, (2 - p) / np.sqrt(failures)


def _nbinom_cdf(k: Any, n: Any, p: Any) -> Any:
    return scipy("betainc")(n, k + 1, p)


def _nbinom_sf(k: Any, n: Any, p: Any) -> Any:
    return scipy("betaincc")(n, k + 1, p)


def _geometric_moments(p: Any) -> tuple[Any, Any, Any]:
    return 1 / p, np.sqrt(1 - p) / p, (2 - p) / np.sqrt(1 - p)


def _geometric_sf(k: Any, p: Any) -> Any:
    return np.exp(k * np.log1p(-p))


poisson_quantile_p: Primitive
poisson_upper_p: Primitive
binomial_quantile_p: Primitive
binomial_upper_p: Primitive
nbinom_quantile_p: Primitive
nbinom_upper_p: Primitive
geometric_quantile_p: Primitive
geometric_upper_p: Primitive

poisson_quantile_p, poisson_upper_p = _step("poisson", _poisson_moments, (_poisson_cdf, _poisson_sf), 2)


def _largest_count(n: Any, _p: Any) -> Any:
    return np.ceil(n)


binomial_quantile_p, binomial_upper_p = _step(
    "binomial", _binomial_moments, (_binomial_cdf, _binomial_sf), 3, most=_largest_count
)
nbinom_quantile_p, nbinom_upper_p = _step("nbinom", _nbinom_moments, (_nbinom_cdf, _nbinom_sf), 3)


def _geometric_cdf(k: Any, p: Any) -> Any:
    return -np.expm1(k * np.log1p(-p))


geometric_quantile_p, geometric_upper_p = _step(
    "geometric", _geometric_moments, (_geometric_cdf, _geometric_sf), 2, least=1.0
)


def poisson_quantile(mu: Array, q: Array, upper: bool = False) -> Array:
    """Return the quantile of the Poisson distribution, of a complement where ``upper`` says so."""
    return bind_single(poisson_upper_p if upper else poisson_quantile_p, mu, q)


def binomial_quantile(n: Array, p: Array, q: Array, upper: bool = False) -> Array:
    """Return the quantile of the binomial distribution, of a complement where ``upper`` says so."""
    return bind_single(binomial_upper_p if upper else binomial_quantile_p, n, p, q)


def nbinom_quantile(n: Array, p: Array, q: Array, upper: bool = False) -> Array:
    """Return the quantile of the negative binomial distribution, of a complement where ``upper`` says so."""
    return bind_single(nbinom_upper_p if upper else nbinom_quantile_p, n, p, q)


def geometric_quantile(p: Array, q: Array, upper: bool = False) -> Array:
    """Return the quantile of the geometric distribution, of a complement where ``upper`` says so."""
    return bind_single(geometric_upper_p if upper else geometric_quantile_p, p, q)
