"""Logarithms of incomplete beta functions: with their density, finite where the functions underflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind_single
from afx.ops._kinds.special import parametric, scipy
from afx.ops.elementwise.exponential import exp, log, log1p
from afx.ops.elementwise.where import where
from afx.ops.special._incomplete import TINY, beta_front
from afx.ops.special._log_incomplete import beta_tail, log_of_share
from afx.ops.special._quadrature import double, record_double
from afx.ops.special.gamma import digamma_gap
from afx.ops.special.incomplete_beta import betainc_slope_p, density, ternary
from afx.ops.special.log_incomplete_gamma import is_deep

__all__ = ["log_beta_density", "log_betainc", "log_betaincc"]

_where: Any = np.where  # its result type is not known to checkers


# -- the density --
def log_beta_density(a: Array, b: Array, x: Array) -> Array:
    """Return the logarithm of the beta distribution's density, accurate for large a and b."""
    return bind_single(log_beta_density_p, a, b, x)


def _log_density(a: Any, b: Any, x: Any) -> Any:
    a, b = (_where((c >= 0) & (c < TINY), TINY, c) for c in (a, b))
    z = beta_front(a, b, x) - np.log(x) - np.log1p(-x)
    z = _where(x == 0, _where(a == 1, np.log(b), _where(a < 1, math.inf, -math.inf)), z)
    z = _where(x == 1, _where(b == 1, np.log(a), _where(b < 1, math.inf, -math.inf)), z)
    return _where((a < 0) | (b < 0) | (x < 0) | (x > 1), math.nan, z)


def _log_density_by_a(_z: Array, a: Array, b: Array, x: Array) -> Array:
    return log(x) + digamma_gap(where(a < TINY, TINY, a), b)


def _pole(c: Array, y: Array) -> Array:
    """Return ``(c - 1) / y``, 0 where both are 0."""
    return where((y == 0) & (c == 1), 0, (c - 1) / where((y == 0) & (c == 1), 1, y))


def _log_density_by_x(_z: Array, a: Array, b: Array, x: Array) -> Array:
    return _pole(a, x) - _pole(b, 1 - x)


log_beta_density_p: Primitive = ternary(
    "log_beta_density",
    double(_log_density),
    (_log_density_by_a, lambda _z, a, b, x: log1p(-x) + digamma_gap(where(b < TINY, TINY, b), a), _log_density_by_x),
    domain=(0.2, 0.9),
    native=record_double(_log_density),
)


# -- the tail --
def _moment(a: Array, b: Array, x: Array, upper: bool, m: int, n: int) -> Array | float:
    return bind_single(beta_tail_p, a, b, x, upper=upper, m=m, n=n) if m or n else 1.0


def _tail_by_a(z: Array, a: Array, b: Array, x: Array, *, upper: bool, m: int, n: int) -> Any:
    raised = _moment(a, b, x, upper, m + 1, n)
    return raised - z * _moment(a, b, x, upper, 1, 0) if m or n else raised


def _tail_by_b(z: Array, a: Array, b: Array, x: Array, *, upper: bool, m: int, n: int) -> Any:
    raised = _moment(a, b, x, upper, m, n + 1)
    return raised - z * _moment(a, b, x, upper, 0, 1) if m or n else raised


def _hazard(upper: bool, a: Array, b: Array, x: Array) -> Array:
    """Return the derivative by x of the logarithm of the integrand at x times the tail."""
    z = exp(-bind_single(beta_tail_p, a, b, x, upper=upper, m=0, n=0)) / (x * (1 - x))
    return -z if upper else z


def _tail_by_x(z: Array, a: Array, b: Array, x: Array, *, upper: bool, m: int, n: int) -> Any:
    hazard = _hazard(upper, a, b, x)
    if not (m or n):
        return hazard - a / x + b / (1 - x)
    total = -z * hazard
    total = total - _moment(a, b, x, upper, m - 1, n) * m / x if m else total
    return total + _moment(a, b, x, upper, m, n - 1) * n / (1 - x) if n else total


beta_tail_p: Primitive = parametric(
    "beta_tail",
    double(beta_tail),
    (_tail_by_a, _tail_by_b, _tail_by_x),
    {"upper": True, "m": 0, "n": 0},
    domain=(0.45, 0.55),
)


# -- the logarithms --
def _values(upper: bool) -> Callable[..., Any]:
    names = ("betaincc", "betainc") if upper else ("betainc", "betaincc")

    def compute(*xs: Any) -> Any:
        return log_of_share(upper, *[scipy(name)(*xs) for name in names], *xs)

    return double(compute)


def _partials(upper: bool) -> Any:
    """Return the derivatives by the operands: ratios, and where these would be 0 / 0, from the tail's moments."""
    far = 0.9 if upper else 0.1

    def split(z: Array, *xs: Array) -> tuple[Array, Array, list[Array], list[Array]]:
        deep = is_deep(z)
        share = exp(where(deep, 0, z))
        near = [where(deep, safe, x) for safe, x in zip((1, 1, 0.5), xs, strict=True)]
        return deep, -share if upper else share, near, [where(deep, x, s) for s, x in zip((5, 5, far), xs, strict=True)]

    def by_a(z: Array, a: Array, b: Array, x: Array) -> Array:
        deep, share, near, (c, d, y) = split(z, a, b, x)
        slope = bind_single(betainc_slope_p, *near, m=1, n=0)
        return where(deep, log(y) + digamma_gap(c, d) + _moment(c, d, y, upper, 1, 0), slope / share)

    def by_b(z: Array, a: Array, b: Array, x: Array) -> Array:
        deep, share, near, (c, d, y) = split(z, a, b, x)
        slope = bind_single(betainc_slope_p, *near, m=0, n=1)
        return where(deep, log1p(-y) + digamma_gap(d, c) + _moment(c, d, y, upper, 0, 1), slope / share)

    def by_x(z: Array, a: Array, b: Array, x: Array) -> Array:
        deep, share, near, at = split(z, a, b, x)
        return where(deep, _hazard(upper, *at), density(*near) / share)

    return by_a, by_b, by_x


@register_function
def log_betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return the logarithm of `betainc`, finite where that underflows, and so are its derivatives of every order.

    Needs the extra ``scipy``.

    Args:
        a: not negative, any shape.
        b: not negative, a shape that broadcasts.
        x: from 0 to 1, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> log_betainc(500.0, 2.0, 0.01).round(2)
    Array(-2296.38, dtype=float32)
    """
    return bind_single(log_betainc_p, a, b, x)


log_betainc_p: Primitive = ternary("log_betainc", _values(upper=False), _partials(upper=False), domain=(0.2, 0.9))


@register_function
def log_betaincc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return the logarithm of `betaincc`, finite where that underflows, and so are its derivatives of every order.

    Needs the extra ``scipy``.

    Args:
        a: not negative, any shape.
        b: not negative, a shape that broadcasts.
        x: from 0 to 1, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> log_betaincc(2.0, 500.0, 0.99).round(2)
    Array(-2296.38, dtype=float32)
    """
    return bind_single(log_betaincc_p, a, b, x)


log_betaincc_p: Primitive = ternary("log_betaincc", _values(upper=True), _partials(upper=True), domain=(0.2, 0.9))
