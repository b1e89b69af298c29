"""Logarithms of incomplete functions: gamma and beta with their densities, finite where the functions underflow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, Function, Primitive, bind2, bind_single, register_function
from afx.ops._kinds.elementwise import binary
from afx.ops._kinds.special import bind_special, parametric, scipy
from afx.ops.elementwise.comparison import minimum, where
from afx.ops.elementwise.exponentials import exp, log, log1p
from afx.ops.special._incomplete import TINY, beta_front, beta_tail, gamma_front, gamma_tail, log_of_share
from afx.ops.special._quadrature import double, record_double
from afx.ops.special.gamma import digamma, digamma_gap
from afx.ops.special.incomplete import betainc_slope_p, density_beta, density_gamma, gammainc_slope_p, ternary

# --- Logarithms of incomplete gamma functions: with their density, finite where the functions underflow

_where: Any = np.where  # its result type is not known to checkers


# -- the density --
def log_gamma_density(a: Array, x: Array) -> Array:
    """Return the logarithm of the gamma distribution's density, accurate for large a."""
    return bind2(log_gamma_density_p, a, x)


def _log_density_gamma(a: Any, x: Any) -> Any:
    a = _where((a >= 0) & (a < TINY), TINY, a)
    z = _where(x == 0, _where(a < 1, math.inf, -math.inf), gamma_front(a, x) - np.log(x))
    z = _where(a == 1, -x, z)
    return _where((a < 0) | (x < 0), math.nan, _where(x == math.inf, -math.inf, z))


def _log_density_by_x_gamma(_z: Array, a: Array, x: Array) -> Array:
    border = where(a > 1, math.inf, where(a < 1, -math.inf, -1))
    return where(x == 0, border, (a - 1) / where(x == 0, 1, x) - 1)


log_gamma_density_p: Primitive = binary(
    "log_gamma_density",
    double(_log_density_gamma),
    (lambda _z, a, x: log(x) - digamma(where(a < TINY, TINY, a)), _log_density_by_x_gamma),
    kinds="f",
    native=record_double(_log_density_gamma),
)


# -- the tail --
def _moment_gamma(a: Array, x: Array, upper: bool, m: int, n: int) -> Array:
    """Return the mean of ``sᵐ (1 - eˢ)ⁿ``, the tail's logarithm of no powers: see `gamma_tail`."""
    return bind_single(gamma_tail_p, a, x, upper=upper, m=m, n=n)


def _tail_by_a_gamma(z: Array, a: Array, x: Array, *, upper: bool, m: int, n: int) -> Array:
    raised = _moment_gamma(a, x, upper, m + 1, n)
    return raised - z * _moment_gamma(a, x, upper, 1, 0) if m or n else raised


def _tail_by_x_gamma(z: Array, a: Array, x: Array, *, upper: bool, m: int, n: int) -> Array:
    raised = _moment_gamma(a, x, upper, m, n + 1)
    return raised - z * _moment_gamma(a, x, upper, 0, 1) if m or n else raised


gamma_tail_p: Primitive = parametric(
    "gamma_tail", double(gamma_tail), (_tail_by_a_gamma, _tail_by_x_gamma), {"upper": True, "m": 0, "n": 0}
)


# -- the logarithms --
def is_deep(z: Array) -> Array:
    """Tell where the exponential of logarithms is so small that it has lost digits, or soon has."""
    return z < 0.5 * math.log(float(np.finfo(z.dtype).tiny))


def _values_gamma(upper: bool) -> Function:
    names = ("gammaincc", "gammainc") if upper else ("gammainc", "gammaincc")

    def compute(a: Any, x: Any) -> Any:
        return log_of_share(upper, *[scipy(name)(a, x) for name in names], a, x)

    return double(compute)


def _partials_gamma(upper: bool) -> Any:
    """Return the derivatives by both operands: ratios, and where these would be 0 / 0, from the tail's moments."""
    safe = (1.0, 30.0) if upper else (30.0, 1.0)  # where there is a tail, whose value is not taken

    def split(z: Array, a: Array, x: Array) -> tuple[Array, Array, Array, Array]:
        """Return where the tail tells, plus or minus the function elsewhere, and the tail's operands, safe elsewhere."""
        deep = is_deep(z)
        share = exp(where(deep, 0, z))
        return deep, -share if upper else share, where(deep, a, safe[0]), where(deep, minimum(x, HUGE), safe[1])

    def by_a(z: Array, a: Array, x: Array) -> Array:
        deep, share, c, y = split(z, a, x)
        slope = bind_single(gammainc_slope_p, where(deep, 1, a), where(deep, 1, x), order=1)
        return where(deep, log(y) - digamma(c) + _moment_gamma(c, y, upper, 1, 0), slope / share)

    def by_x(z: Array, a: Array, x: Array) -> Array:
        deep, share, c, y = split(z, a, x)
        near = density_gamma(where(deep, 1, a), where(deep, 1, x)) / share
        return where(deep, c / y - 1 + _moment_gamma(c, y, upper, 0, 1), near)

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
    Array(-2612.33, dtype=float64)
    """
    return bind_special(log_gammainc_p, a, x)


log_gammainc_p: Primitive = binary("log_gammainc", _values_gamma(upper=False), _partials_gamma(upper=False), kinds="f")


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
    Array(-787.32, dtype=float64)
    """
    return bind_special(log_gammaincc_p, a, x)


log_gammaincc_p: Primitive = binary("log_gammaincc", _values_gamma(upper=True), _partials_gamma(upper=True), kinds="f")


# --- Logarithms of incomplete beta functions: with their density, finite where the functions underflow


# -- the density --
def log_beta_density(a: Array, b: Array, x: Array) -> Array:
    """Return the logarithm of the beta distribution's density, accurate for large a and b."""
    return bind_single(log_beta_density_p, a, b, x)


def _log_density_beta(a: Any, b: Any, x: Any) -> Any:
    a, b = (_where((c >= 0) & (c < TINY), TINY, c) for c in (a, b))
    z = beta_front(a, b, x) - np.log(x) - np.log1p(-x)
    z = _where(x == 0, _where(a == 1, np.log(b), _where(a < 1, math.inf, -math.inf)), z)
    z = _where(x == 1, _where(b == 1, np.log(a), _where(b < 1, math.inf, -math.inf)), z)
    return _where((a < 0) | (b < 0) | (x < 0) | (x > 1), math.nan, z)


def _pole(c: Array, y: Array) -> Array:
    """Return ``(c - 1) / y``, 0 where both are 0."""
    return where((y == 0) & (c == 1), 0, (c - 1) / where((y == 0) & (c == 1), 1, y))


log_beta_density_p: Primitive = ternary(
    "log_beta_density",
    double(_log_density_beta),
    (
        lambda _z, a, b, x: log(x) + digamma_gap(where(a < TINY, TINY, a), b),
        lambda _z, a, b, x: log1p(-x) + digamma_gap(where(b < TINY, TINY, b), a),
        lambda _z, a, b, x: _pole(a, x) - _pole(b, 1 - x),
    ),
    native=record_double(_log_density_beta),
)


# -- the tail --
def _moment_beta(a: Array, b: Array, x: Array, upper: bool, m: int, n: int) -> Array | float:
    return bind_single(beta_tail_p, a, b, x, upper=upper, m=m, n=n) if m or n else 1.0


def _tail_by_a_beta(z: Array, a: Array, b: Array, x: Array, *, upper: bool, m: int, n: int) -> Any:
    raised = _moment_beta(a, b, x, upper, m + 1, n)
    return raised - z * _moment_beta(a, b, x, upper, 1, 0) if m or n else raised


def _tail_by_b(z: Array, a: Array, b: Array, x: Array, *, upper: bool, m: int, n: int) -> Any:
    raised = _moment_beta(a, b, x, upper, m, n + 1)
    return raised - z * _moment_beta(a, b, x, upper, 0, 1) if m or n else raised


def _hazard(upper: bool, a: Array, b: Array, x: Array) -> Array:
    """Return the derivative by x of the logarithm of the integrand at x times the tail."""
    z = exp(-bind_single(beta_tail_p, a, b, x, upper=upper, m=0, n=0)) / (x * (1 - x))
    return -z if upper else z


def _tail_by_x_beta(z: Array, a: Array, b: Array, x: Array, *, upper: bool, m: int, n: int) -> Any:
    hazard = _hazard(upper, a, b, x)
    if not (m or n):
        return hazard - a / x + b / (1 - x)
    total = -z * hazard
    total = total - _moment_beta(a, b, x, upper, m - 1, n) * m / x if m else total
    return total + _moment_beta(a, b, x, upper, m, n - 1) * n / (1 - x) if n else total


beta_tail_p: Primitive = parametric(
    "beta_tail", double(beta_tail), (_tail_by_a_beta, _tail_by_b, _tail_by_x_beta), {"upper": True, "m": 0, "n": 0}
)


# -- the logarithms --
def _values_beta(upper: bool) -> Function:
    names = ("betaincc", "betainc") if upper else ("betainc", "betaincc")

    def compute(*xs: Any) -> Any:
        return log_of_share(upper, *[scipy(name)(*xs) for name in names], *xs)

    return double(compute)


def _partials_beta(upper: bool) -> Any:
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
        return where(deep, log(y) + digamma_gap(c, d) + _moment_beta(c, d, y, upper, 1, 0), slope / share)

    def by_b(z: Array, a: Array, b: Array, x: Array) -> Array:
        deep, share, near, (c, d, y) = split(z, a, b, x)
        slope = bind_single(betainc_slope_p, *near, m=0, n=1)
        return where(deep, log1p(-y) + digamma_gap(d, c) + _moment_beta(c, d, y, upper, 0, 1), slope / share)

    def by_x(z: Array, a: Array, b: Array, x: Array) -> Array:
        deep, share, near, at = split(z, a, b, x)
        return where(deep, _hazard(upper, *at), density_beta(*near) / share)

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
    Array(-2296.38, dtype=float64)
    """
    return bind_special(log_betainc_p, a, b, x)


log_betainc_p: Primitive = ternary("log_betainc", _values_beta(upper=False), _partials_beta(upper=False))


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
    Array(-2296.38, dtype=float64)
    """
    return bind_special(log_betaincc_p, a, b, x)


log_betaincc_p: Primitive = ternary("log_betaincc", _values_beta(upper=True), _partials_beta(upper=True))
