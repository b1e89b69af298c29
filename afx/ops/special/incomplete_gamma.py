"""Incomplete gamma functions: regularised ones and their inverses, differentiable by both arguments."""

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
from afx.ops.elementwise.exponential import log
from afx.ops.elementwise.where import where
from afx.ops.special._incomplete import TINY, bell, gamma_by_parameter, gamma_front
from afx.ops.special._quadrature import double, record_double
from afx.ops.special.gamma import digamma, polygamma

__all__ = ["gammainc", "gammaincc", "gammainccinv", "gammaincinv"]

_where: Any = np.where  # its result type is not known to checkers


# -- the density --
def density(a: Array, x: Array) -> Array:
    """Return ``x**(a - 1) exp(-x) / Γ(a)``, the density of the gamma distribution."""
    return bind2(gamma_density_p, a, x)


def _density(a: Any, x: Any) -> Any:
    a = _where((a >= 0) & (a < TINY), TINY, a)
    z = np.exp(gamma_front(a, x) - np.log(x))
    z = _where(x == 0, _where(a == 1, 1.0, _where(a < 1, math.inf, 0.0)), z)
    return _where((a < 0) | (x < 0), math.nan, _where(x == math.inf, 0.0, z))


def _density_by_a(z: Array, a: Array, x: Array) -> Array:
    inside = (z != 0) & (x != 0)
    slope = log(where(inside, x, 1)) - digamma(where(a < TINY, TINY, a))
    return where(inside, z * slope, where((x == 0) & (a <= 1), -math.inf, 0))


def _density_by_x(z: Array, a: Array, x: Array) -> Array:
    inside = (z != 0) & (x != 0)
    border = where(a == 1, -1, where(a == 2, 1, where((a > 1) & (a < 2), math.inf, 0)))
    return where(inside, z * ((a - 1) / where(inside, x, 1) - 1), where(x == 0, border, 0))


gamma_density_p: Primitive = binary(
    "gamma_density",
    double(_density),
    (_density_by_a, _density_by_x),
    kinds="f",
    promotes_to_float=True,
    domain=(0.5, 3.0),
    native=record_double(_density),
)


# -- the integral --
def _slope(a: Array, x: Array, order: int = 1) -> Array:
    return bind_single(gammainc_slope_p, a, x, order=order)


def _slope_by_a(_z: Array, a: Array, x: Array, *, order: int) -> Array:
    return _slope(a, x, order + 1)


def _slope_by_x(_z: Array, a: Array, x: Array, *, order: int) -> Array:
    d = density(a, x)
    low = where(a < TINY, TINY, a)
    g = {(k, 0): -polygamma(k - 1, low) for k in range(1, order + 1)}
    g[1, 0] = log(where(d == 0, 1, x)) + g[1, 0]
    return where(d == 0, 0, d * bell(order, 0, g))


gammainc_slope_p: Primitive = parametric(
    "gammainc_slope", double(gamma_by_parameter), (_slope_by_a, _slope_by_x), {"order": 1}, domain=(0.5, 3.0)
)


@register_function
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularised lower incomplete gamma function ``∫₀ˣ tᵃ⁻¹ exp(-t) dt / Γ(a)``.

    It has derivatives of every order by both arguments; those by a keep about eleven digits, in the tails too. Needs
    the extra ``scipy``.

    Args:
        a: not negative, any shape.
        x: not negative, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> gammainc(1.0, 2.0)
    Array(0.86466473, dtype=float32)
    """
    return bind2(gammainc_p, a, x)


gammainc_p: Primitive = binary(
    "gammainc",
    scipy("gammainc"),
    (lambda _z, a, x: _slope(a, x), lambda _z, a, x: density(a, x)),
    kinds="f",
    promotes_to_float=True,
    domain=(0.5, 3.0),
)


@register_function
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularised upper incomplete gamma function, ``1 - gammainc(a, x)``, accurate where it is small.

    Needs the extra ``scipy``.

    Args:
        a: not negative, any shape.
        x: not negative, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> gammaincc(1.0, 2.0)
    Array(0.13533528, dtype=float32)
    """
    return bind2(gammaincc_p, a, x)


gammaincc_p: Primitive = binary(
    "gammaincc",
    scipy("gammaincc"),
    (lambda _z, a, x: -_slope(a, x), lambda _z, a, x: -density(a, x)),
    kinds="f",
    promotes_to_float=True,
    domain=(0.5, 3.0),
)


# -- the inverses --
def _move_quantile(z: Array, a: Array) -> Array:
    """Return how a quantile moves with a: the implicit derivative, 0 at both ends."""
    slope = _slope(a, z)
    still = (slope == 0) | (z == 0) | (z == math.inf)
    return where(still, 0, -slope / where(still, 1, density(a, z)))


def _inside(name: str) -> Callable[..., Any]:
    """Return SciPy's function, nan for negative numbers, the smallest included."""

    def compute(a: Any, p: Any) -> Any:
        return _where((a < 0) | (p < 0), math.nan, scipy(name)(a, p))

    return compute


@register_function
def gammaincinv(a: ArrayLike, p: ArrayLike) -> Array:
    """Return the x at which ``gammainc(a, x)`` is p: the quantile of the gamma distribution.

    Its derivative by a makes gamma draws differentiable by their shape. Needs the extra ``scipy``.

    Args:
        a: not negative, any shape.
        p: from 0 to 1, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> gammaincinv(1.0, 0.5)
    Array(0.6931472, dtype=float32)
    """
    return bind2(gammaincinv_p, a, p)


gammaincinv_p: Primitive = binary(
    "gammaincinv",
    _inside("gammaincinv"),
    (lambda z, a, _p: _move_quantile(z, a), lambda z, a, _p: 1 / density(a, z)),
    kinds="f",
    promotes_to_float=True,
    domain=(0.5, 0.9),
)


@register_function
def gammainccinv(a: ArrayLike, q: ArrayLike) -> Array:
    """Return the x at which ``gammaincc(a, x)`` is q; needs the extra ``scipy``.

    Args:
        a: not negative, any shape.
        q: from 0 to 1, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> gammainccinv(1.0, 0.5)
    Array(0.6931472, dtype=float32)
    """
    return bind2(gammainccinv_p, a, q)


gammainccinv_p: Primitive = binary(
    "gammainccinv",
    _inside("gammainccinv"),
    (lambda z, a, _q: _move_quantile(z, a), lambda z, a, _q: -1 / density(a, z)),
    kinds="f",
    promotes_to_float=True,
    domain=(0.5, 0.9),
)
