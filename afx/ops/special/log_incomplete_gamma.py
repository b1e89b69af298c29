"""Logarithms of incomplete gamma functions: with their density, finite where the functions underflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind2, bind_single
from afx.ops._kinds.elementwise import binary
from afx.ops._kinds.special import parametric, scipy
from afx.ops.elementwise.exponential import exp, log
from afx.ops.elementwise.where import minimum, where
from afx.ops.special._incomplete import TINY, gamma_front
from afx.ops.special._log_incomplete import gamma_tail, log_of_share
from afx.ops.special._quadrature import double, record_double
from afx.ops.special.gamma import digamma
from afx.ops.special.incomplete_gamma import density, gammainc_slope_p

__all__ = ["is_deep", "log_gamma_density", "log_gammainc", "log_gammaincc"]

_where: Any = np.where  # its result type is not known to checkers


# -- the density --
def log_gamma_density(a: Array, x: Array) -> Array:
    """Return the logarithm of the gamma distribution's density, accurate for large a."""
    return bind2(log_gamma_density_p, a, x)


def _log_density(a: Any, x: Any) -> Any:
    a = _where((a >= 0) & (a < TINY), TINY, a)
    z = _where(x == 0, _where(a < 1, math.inf, -math.inf), gamma_front(a, x) - np.log(x))
    z = _where(a == 1, -x, z)
    return _where((a < 0) | (x < 0), math.nan, _where(x == math.inf, -math.inf, z))


def _log_density_by_a(_z: Array, a: Array, x: Array) -> Array:
    return log(x) - digamma(where(a < TINY, TINY, a))


def _log_density_by_x(_z: Array, a: Array, x: Array) -> Array:
    border = where(a > 1, math.inf, where(a < 1, -math.inf, -1))
    return where(x == 0, border, (a - 1) / where(x == 0, 1, x) - 1)


log_gamma_density_p: Primitive = binary(
    "log_gamma_density",
    double(_log_density),
    (_log_density_by_a, _log_density_by_x),
    kinds="f",
    promotes_to_float=True,
    domain=(0.5, 3.0),
    native=record_double(_log_density),
)


# -- the tail --
def _moment(a: Array, x: Array, upper: bool, m: int, n: int) -> Array:
    return bind_single(gamma_tail_p, a, x, upper=upper, m=m, n=n)


def _tail_by_a(z: Array, a: Array, x: Array, *, upper: bool, m: int, n: int) -> Array:
    raised = _moment(a, x, upper, m + 1, n)
    return raised - z * _moment(a, x, upper, 1, 0) if m or n else raised


def _tail_by_x(z: Array, a: Array, x: Array, *, upper: bool, m: int, n: int) -> Array:
    raised = _moment(a, x, upper, m, n + 1)
    return raised - z * _moment(a, x, upper, 0, 1) if m or n else raised


gamma_tail_p: Primitive = parametric(
    "gamma_tail", double(gamma_tail), (_tail_by_a, _tail_by_x), {"upper": True, "m": 0, "n": 0}, domain=(1.5, 1.7)
)


# -- the logarithms --
def is_deep(z: Array) -> Array:
    """Tell where the exponential of logarithms is so small that it has lost digits, or soon has."""
    return z < 0.5 * math.log(float(np.finfo(z.dtype).tiny))


def _values(upper: bool) -> Callable[..., Any]:
    names = ("gammaincc", "gammainc") if upper else ("gammainc", "gammaincc")

    def compute(a: Any, x: Any) -> Any:
        return log_of_share(upper, *[scipy(name)(a, x) for name in names], a, x)

    return double(compute)


def _partials(upper: bool) -> Any:
    """Return the derivatives by both operands: ratios, and where these would be 0 / 0, from the tail's moments."""
    safe = (1.0, 30.0) if upper else (30.0, 1.0)

    def split(z: Array, a: Array, x: Array) -> tuple[Array, Array, Array, Array]:
        deep = is_deep(z)
        share = exp(where(deep, 0, z))
        return deep, -share if upper else share, where(deep, a, safe[0]), where(deep, minimum(x, HUGE), safe[1])

    def by_a(z: Array, a: Array, x: Array) -> Array:
        deep, share, c, y = split(z, a, x)
        slope = bind_single(gammainc_slope_p, where(deep, 1, a), where(deep, 1, x), order=1)
        return where(deep, log(y) - digamma(c) + _moment(c, y, upper, 1, 0), slope / share)

    def by_x(z: Array, a: Array, x: Array) -> Array:
        deep, share, c, y = split(z, a, x)
        near = density(where(deep, 1, a), where(deep, 1, x)) / share
        return where(deep, c / y - 1 + _moment(c, y, upper, 0, 1), near)

    return by_a, by_x


HUGE = 1e30  # beyond it the derivative by x is -1 to the last digit


@register_function
def log_gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the logarithm of `gammainc`, finite where that underflows, and so are its derivatives of every order.

    Needs the extra ``scipy``.

    Args:
        a: not negative, any shape.
        x: not negative, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> log_gammainc(500.0, 1.0).round(2)
    Array(-2612.33, dtype=float32)
    """
    return bind2(log_gammainc_p, a, x)


log_gammainc_p: Primitive = binary(
    "log_gammainc", _values(upper=False), _partials(upper=False), kinds="f", promotes_to_float=True, domain=(0.5, 3.0)
)


@register_function
def log_gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the logarithm of `gammaincc`, finite where that underflows, and so are its derivatives of every order.

    Needs the extra ``scipy``.

    Args:
        a: not negative, any shape.
        x: not negative, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> log_gammaincc(3.0, 800.0).round(2)
    Array(-787.32, dtype=float32)
    """
    return bind2(log_gammaincc_p, a, x)


log_gammaincc_p: Primitive = binary(
    "log_gammaincc", _values(upper=True), _partials(upper=True), kinds="f", promotes_to_float=True, domain=(0.5, 3.0)
)
