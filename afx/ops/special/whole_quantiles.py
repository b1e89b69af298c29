"""Discrete quantiles: steps with derivative 0."""

from __future__ import annotations

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


def _step(name: str, guess: Callable[..., Any], cdf: Callable[..., Any], arity: int, least: float = 0.0) -> Primitive:
    """Make an op from a real quantile, which may be off by rounding, and the distribution function that settles it."""

    def compute(*xs: Any) -> Any:
        *parameters, q = xs
        k = np.maximum(np.ceil(guess(*parameters, q)), least)
        bound = q * (1 - ROUNDING)
        k = k + (cdf(k, *parameters) < bound)
        lower = np.maximum(k - 1, least)
        where_: Any = np.where
        return where_(cdf(lower, *parameters) >= bound, lower, k)

    return elementwise(
        name, double(compute), (0.0,) * arity, kinds="f", promotes_to_float=True, domain=(0.2, 0.9), smooth=False
    )


def _poisson(mu: Any, q: Any) -> Any:
    return scipy("pdtrik")(q, mu)


def _poisson_cdf(k: Any, mu: Any) -> Any:
    return scipy("gammaincc")(k + 1, mu)


def _binomial(n: Any, p: Any, q: Any) -> Any:
    return np.minimum(scipy("bdtrik")(q, n, p), n)


def _binomial_cdf(k: Any, n: Any, p: Any) -> Any:
    return np.where(k >= n, 1.0, scipy("betaincc")(k + 1, np.maximum(n - k, 0), p))


def _nbinom(n: Any, p: Any, q: Any) -> Any:
    return scipy("nbdtrik")(q, n, p)


def _nbinom_cdf(k: Any, n: Any, p: Any) -> Any:
    return scipy("betainc")(n, k + 1, p)


def _geometric(p: Any, q: Any) -> Any:
    return np.log1p(-q) / np.log1p(-p)


def _geometric_cdf(k: Any, p: Any) -> Any:
    return -np.expm1(k * np.log1p(-p))


poisson_quantile_p: Primitive = _step("poisson_quantile", _poisson, _poisson_cdf, 2)
binomial_quantile_p: Primitive = _step("binomial_quantile", _binomial, _binomial_cdf, 3)
nbinom_quantile_p: Primitive = _step("nbinom_quantile", _nbinom, _nbinom_cdf, 3)
geometric_quantile_p: Primitive = _step("geometric_quantile", _geometric, _geometric_cdf, 2, least=1.0)


def poisson_quantile(mu: Array, q: Array) -> Array:
    """Return the quantile of the Poisson distribution."""
    return bind_single(poisson_quantile_p, mu, q)


def binomial_quantile(n: Array, p: Array, q: Array) -> Array:
    """Return the quantile of the binomial distribution."""
    return bind_single(binomial_quantile_p, n, p, q)


def nbinom_quantile(n: Array, p: Array, q: Array) -> Array:
    """Return the quantile of the negative binomial distribution."""
    return bind_single(nbinom_quantile_p, n, p, q)


def geometric_quantile(p: Array, q: Array) -> Array:
    """Return the quantile of the geometric distribution."""
    return bind_single(geometric_quantile_p, p, q)
