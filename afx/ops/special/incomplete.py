"""Incomplete functions: gamma and beta, regularised, and their inverses, differentiable by all arguments."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, Function, Primitive, bind2, bind_single, register_function
from afx.ops._kinds.elementwise import binary, elementwise
from afx.ops._kinds.special import bind_in_double, bind_special, in_doubles, parametric, scipy
from afx.ops.elementwise.comparison import where
from afx.ops.elementwise.exponentials import log, log1p
from afx.ops.special import _shares
from afx.ops.special._incomplete import TINY, bell, beta_by_parameters, beta_front, gamma_by_parameter, gamma_front
from afx.ops.special._quadrature import double, record_double
from afx.ops.special.gamma import digamma, digamma_gap, polygamma

# --- Incomplete gamma functions: regularised ones and their inverses, differentiable by both arguments

_where: Any = np.where  # its result type is not known to checkers


# -- the density --
def density_gamma(a: Array, x: Array) -> Array:
    """Return ``x**(a - 1) exp(-x) / Γ(a)``, the density of the gamma distribution."""
    return bind2(gamma_density_p, a, x)


def _density_gamma(a: Any, x: Any, front: Function = gamma_front) -> Any:
    a = _where((a >= 0) & (a < TINY), TINY, a)
    z = np.exp(front(a, x) - np.log(x))
    z = _where(x == 0, _where(a == 1, 1.0, _where(a < 1, math.inf, 0.0)), z)
    return _where((a < 0) | (x < 0), math.nan, _where(x == math.inf, 0.0, z))


def _density_by_a_gamma(z: Array, a: Array, x: Array) -> Array:
    inside = (z != 0) & (x != 0)
    slope = log(where(inside, x, 1)) - digamma(where(a < TINY, TINY, a))
    return where(inside, z * slope, where((x == 0) & (a <= 1), -math.inf, 0))


def _density_by_x_gamma(z: Array, a: Array, x: Array) -> Array:
    inside = (z != 0) & (x != 0)
    border = where(a == 1, -1, where(a == 2, 1, where((a > 1) & (a < 2), math.inf, 0)))
    return where(inside, z * ((a - 1) / where(inside, x, 1) - 1), where(x == 0, border, 0))


gamma_density_p: Primitive = binary(
    "gamma_density",
    double(_density_gamma),
    (_density_by_a_gamma, _density_by_x_gamma),
    kinds="f",
    native=record_double(_density_gamma),
    formula=in_doubles(functools.partial(_density_gamma, front=_shares.gamma_front)),
)


# -- the integral --
def _slope_gamma(a: Array, x: Array, order: int = 1) -> Array:
    return bind_single(gammainc_slope_p, a, x, order=order)


def _slope_by_a_gamma(_z: Array, a: Array, x: Array, *, order: int) -> Array:
    return _slope_gamma(a, x, order + 1)


def _slope_by_x_gamma(_z: Array, a: Array, x: Array, *, order: int) -> Array:
    d = density_gamma(a, x)
    low = where(a < TINY, TINY, a)
    g = {(k, 0): -polygamma(k - 1, low) for k in range(1, order + 1)}
    g[1, 0] = log(where(d == 0, 1, x)) + g[1, 0]
    return where(d == 0, 0, d * bell(order, 0, g))


gammainc_slope_p: Primitive = parametric(
    "gammainc_slope", double(gamma_by_parameter), (_slope_by_a_gamma, _slope_by_x_gamma), {"order": 1}
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
    Array(0.86466472, dtype=float64)
    """
    return bind_special(gammainc_p, a, x)


gammainc_p: Primitive = binary(
    "gammainc",
    scipy("gammainc"),
    (lambda _z, a, x: _slope_gamma(a, x), lambda _z, a, x: density_gamma(a, x)),
    kinds="f",
    formula=in_doubles(_shares.gamma_shares, 0),
    formula_sums=True,
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
    Array(0.13533528, dtype=float64)
    """
    return bind_special(gammaincc_p, a, x)


gammaincc_p: Primitive = binary(
    "gammaincc",
    scipy("gammaincc"),
    (lambda _z, a, x: -_slope_gamma(a, x), lambda _z, a, x: -density_gamma(a, x)),
    kinds="f",
    formula=in_doubles(_shares.gamma_shares, 1),
    formula_sums=True,
)


# -- the inverses --
def _move_quantile_gamma(z: Array, a: Array) -> Array:
    """Return how a quantile moves with a: the implicit derivative, 0 at both ends."""
    slope = _slope_gamma(a, z)
    still = (slope == 0) | (z == 0) | (z == math.inf)
    return where(still, 0, -slope / where(still, 1, density_gamma(a, z)))


def _inside(name: str) -> Function:
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
    Array(0.69314718, dtype=float64)
    """
    return bind_special(gammaincinv_p, a, p)


gammaincinv_p: Primitive = binary(
    "gammaincinv",
    _inside("gammaincinv"),
    (lambda z, a, _p: _move_quantile_gamma(z, a), lambda z, a, _p: 1 / density_gamma(a, z)),
    kinds="f",
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
    Array(0.69314718, dtype=float64)
    """
    return bind_special(gammainccinv_p, a, q)


gammainccinv_p: Primitive = binary(
    "gammainccinv",
    _inside("gammainccinv"),
    (lambda z, a, _q: _move_quantile_gamma(z, a), lambda z, a, _q: -1 / density_gamma(a, z)),
    kinds="f",
)


# --- Incomplete beta functions: regularised ones and their inverses, differentiable by all three arguments

Partial3 = Callable[[Array, Array, Array, Array], Array]


def ternary(name: str, compute: Function, partials: tuple[Partial3, Partial3, Partial3], **tags: Any) -> Primitive:
    """Make an elementwise op of three real operands from ``(z, a, b, x)`` to its derivative by each."""
    return elementwise(name, compute, partials, kinds="f", **tags)


# -- the density --
def density_beta(a: Array, b: Array, x: Array) -> Array:
    """Return ``x**(a - 1) (1 - x)**(b - 1) / B(a, b)``, the density of the beta distribution."""
    return bind_single(beta_density_p, a, b, x)


def _density_beta(a: Any, b: Any, x: Any, front: Function = beta_front) -> Any:
    a, b = (_where((c >= 0) & (c < TINY), TINY, c) for c in (a, b))
    z = np.exp(front(a, b, x) - np.log(x) - np.log1p(-x))
    z = _where(x == 0, _where(a == 1, b, _where(a < 1, math.inf, 0.0)), z)
    z = _where(x == 1, _where(b == 1, a, _where(b < 1, math.inf, 0.0)), z)
    return _where((a < 0) | (b < 0) | (x < 0) | (x > 1), math.nan, z)


def positive(a: Array) -> Array:
    """Return a parameter, and what stands for 0 instead of it."""
    return where(a < TINY, TINY, a)


def _density_by_a_beta(z: Array, a: Array, b: Array, x: Array) -> Array:
    inside = (z != 0) & (x != 0)
    slope = log(where(inside, x, 1)) + digamma_gap(positive(a), positive(b))
    return where(inside, z * slope, where((x == 0) & (a <= 1), -math.inf, 0))


def _density_by_b(z: Array, a: Array, b: Array, x: Array) -> Array:
    inside = (z != 0) & (x != 1)
    slope = log1p(where(inside, -x, 0)) + digamma_gap(positive(b), positive(a))
    return where(inside, z * slope, where((x == 1) & (b <= 1), -math.inf, 0))


def _border(a: Array, b: Array) -> Array:
    """Return the derivative of the density at 0."""
    steep = where((a > 1) & (a < 2), math.inf, 0)
    return where(a == 1, -b * (b - 1), where(a == 2, b * (b + 1), steep))


def _density_by_x_beta(z: Array, a: Array, b: Array, x: Array) -> Array:
    inside = (z != 0) & (x != 0) & (x != 1)
    y = where(inside, x, 0.5)
    border = where(x == 0, _border(a, b), where(x == 1, -_border(b, a), 0))
    return where(inside, z * ((a - 1) / y - (b - 1) / (1 - y)), border)


beta_density_p: Primitive = ternary(
    "beta_density",
    double(_density_beta),
    (_density_by_a_beta, _density_by_b, _density_by_x_beta),
    native=record_double(_density_beta),
    formula=in_doubles(functools.partial(_density_beta, front=_shares.beta_front)),
)


# -- the integral --
def _slope_beta(a: Array, b: Array, x: Array, m: int, n: int) -> Array:
    return bind_single(betainc_slope_p, a, b, x, m=m, n=n)


def _slope_by_a_beta(_z: Array, a: Array, b: Array, x: Array, *, m: int, n: int) -> Array:
    return _slope_beta(a, b, x, m + 1, n)


def _slope_by_b(_z: Array, a: Array, b: Array, x: Array, *, m: int, n: int) -> Array:
    return _slope_beta(a, b, x, m, n + 1)


def _slope_by_x_beta(_z: Array, a: Array, b: Array, x: Array, *, m: int, n: int) -> Array:
    d = density_beta(a, b, x)
    low_a, low_b = positive(a), positive(b)
    g = {(i, j): polygamma(i + j - 1, low_a + low_b) for i in range(1, m + 1) for j in range(1, n + 1)}
    g |= {(i, 0): digamma_gap(low_a, low_b, i - 1) for i in range(1, m + 1)}
    g |= {(0, j): digamma_gap(low_b, low_a, j - 1) for j in range(1, n + 1)}
    if m:
        g[1, 0] = g[1, 0] + log(where(d == 0, 1, x))
    if n:
        g[0, 1] = g[0, 1] + log1p(where(d == 0, 0, -x))
    h = bell(m, n, g)
    return where((d == 0) | (h == 0), 0, d * h)  # an infinite density where nothing depends on the parameters


betainc_slope_p: Primitive = parametric(
    "betainc_slope", double(beta_by_parameters), (_slope_by_a_beta, _slope_by_b, _slope_by_x_beta), {"m": 1, "n": 0}
)


@register_function
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return the regularised incomplete beta function ``∫₀ˣ tᵃ⁻¹ (1 - t)ᵇ⁻¹ dt / B(a, b)``.

    It has derivatives of every order by all three arguments; those by a and b keep eight digits or more, in the tails too.
    Needs the extra ``scipy``.

    Args:
        a: not negative, any shape.
        b: not negative, a shape that broadcasts.
        x: from 0 to 1, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> betainc(2.0, 3.0, 0.5)
    Array(0.6875, dtype=float64)
    """
    return bind_in_double(betainc_p, a, b, x)


betainc_p: Primitive = ternary(
    "betainc",
    scipy("betainc"),
    (
        lambda _z, a, b, x: _slope_beta(a, b, x, 1, 0),
        lambda _z, a, b, x: _slope_beta(a, b, x, 0, 1),
        lambda _z, a, b, x: density_beta(a, b, x),
    ),
    formula=in_doubles(_shares.beta_shares, 0),
    formula_sums=True,
)


@register_function
def betaincc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Return ``1 - betainc(a, b, x)``, accurate where it is small; needs the extra ``scipy``.

    Args:
        a: not negative, any shape.
        b: not negative, a shape that broadcasts.
        x: from 0 to 1, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> betaincc(2.0, 3.0, 0.5)
    Array(0.3125, dtype=float64)
    """
    return bind_special(betaincc_p, a, b, x)


betaincc_p: Primitive = ternary(
    "betaincc",
    scipy("betaincc"),
    (
        lambda _z, a, b, x: -_slope_beta(a, b, x, 1, 0),
        lambda _z, a, b, x: -_slope_beta(a, b, x, 0, 1),
        lambda _z, a, b, x: -density_beta(a, b, x),
    ),
    formula=in_doubles(_shares.beta_shares, 1),
    formula_sums=True,
)


# -- the inverses --
def _move_quantile_beta(z: Array, a: Array, b: Array, m: int, n: int) -> Array:
    """Return how a quantile moves with a or b: the implicit derivative, 0 at both ends."""
    slope = _slope_beta(a, b, z, m, n)
    still = (slope == 0) | (z == 0) | (z == 1)
    return where(still, 0, -slope / where(still, 1, density_beta(a, b, z)))


def _betaincinv(a: Any, b: Any, p: Any) -> Any:
    """Return SciPy's quantile, and the first term of its series for small probabilities, where SciPy's is nan."""
    z = scipy("betaincinv")(a, b, p)
    lost = np.isnan(z) & (a > 0) & (b > 0) & (p > 0) & (p < 1e-30)
    if np.any(lost):
        z = _where(lost, np.exp((np.log(p) + np.log(a) + scipy("betaln")(a, b)) / a), z)
    return z


@register_function
def betaincinv(a: ArrayLike, b: ArrayLike, p: ArrayLike) -> Array:
    """Return the x at which ``betainc(a, b, x)`` is p: the quantile of the beta distribution.

    Its derivatives by a and b make beta draws differentiable by their parameters. Needs the extra ``scipy``.

    Args:
        a: positive, any shape.
        b: positive, a shape that broadcasts.
        p: from 0 to 1, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> betaincinv(2.0, 2.0, 0.5)
    Array(0.5, dtype=float64)
    """
    return bind_in_double(betaincinv_p, a, b, p)


betaincinv_p: Primitive = ternary(
    "betaincinv",
    _betaincinv,
    (
        lambda z, a, b, _p: _move_quantile_beta(z, a, b, 1, 0),
        lambda z, a, b, _p: _move_quantile_beta(z, a, b, 0, 1),
        lambda z, a, b, _p: 1 / density_beta(a, b, z),
    ),
)


@register_function
def betainccinv(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> Array:
    """Return the x at which ``betaincc(a, b, x)`` is q; needs the extra ``scipy``.

    Args:
        a: positive, any shape.
        b: positive, a shape that broadcasts.
        q: from 0 to 1, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> betainccinv(2.0, 2.0, 0.5)
    Array(0.5, dtype=float64)
    """
    return bind_in_double(betainccinv_p, a, b, q)


betainccinv_p: Primitive = ternary(
    "betainccinv",
    scipy("betainccinv"),
    (
        lambda z, a, b, _q: _move_quantile_beta(z, a, b, 1, 0),
        lambda z, a, b, _q: _move_quantile_beta(z, a, b, 0, 1),
        lambda z, a, b, _q: -1 / density_beta(a, b, z),
    ),
)
