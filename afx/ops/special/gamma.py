"""Gamma functions: gamma and beta, their logarithms, and the derivatives of those."""

from __future__ import annotations

import math
from typing import Any

from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind1, bind2, bind_single
from afx.ops._kinds.elementwise import binary, nondifferentiable, unary
from afx.ops._kinds.special import check_order, parametric, scipy
from afx.ops.elementwise.arithmetic import add, subtract
from afx.ops.elementwise.trigonometry import cos, sin
from afx.ops.elementwise.where import where
from afx.ops.special._polygamma import psi as bare_psi
from afx.ops.special._polygamma import psi_gap
from afx.ops.special._quadrature import double, record_double
from afx.ops.special._stirling import log_beta

__all__ = [
    "beta",
    "betaln",
    "digamma",
    "factorial",
    "gamma",
    "gammaln",
    "gammasgn",
    "multigammaln",
    "polygamma",
    "psi",
    "rgamma",
]


@register_function
def gammaln(x: ArrayLike) -> Array:
    """Return the logarithm of the absolute value of the gamma function; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> gammaln(5.0)
    Array(3.1780539, dtype=float32)
    """
    return bind1(gammaln_p, x)


gammaln_p: Primitive = unary(
    "gammaln", scipy("gammaln"), lambda _z, x: digamma(x), kinds="f", promotes_to_float=True, domain=(0.2, 4.0)
)


@register_function
def gamma(x: ArrayLike) -> Array:
    """Return the gamma function; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> gamma(5.0)
    Array(24., dtype=float32)
    """
    return bind1(gamma_p, x)


gamma_p: Primitive = unary(
    "gamma", scipy("gamma"), lambda z, x: z * digamma(x), kinds="f", promotes_to_float=True, domain=(0.2, 4.0)
)


@register_function
def rgamma(x: ArrayLike) -> Array:
    """Return ``1 / gamma(x)``, 0 at the poles of that, with derivatives of every order there; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> rgamma(5.0)
    Array(0.04166667, dtype=float32)
    """
    return bind1(rgamma_p, x)


def _rgamma_slope(z: Array, x: Array) -> Array:
    left = x < 0.5
    y = where(left, x, 0)  # by reflection: Γ(1 - x) sin(πx) / π
    reflected = gamma(1 - y) * (cos(math.pi * y) - digamma(1 - y) * sin(math.pi * y) / math.pi)
    return where(left, reflected, -z * digamma(where(left, 1, x)))


rgamma_p: Primitive = unary("rgamma", scipy("rgamma"), _rgamma_slope, kinds="f", promotes_to_float=True)


@register_function
def gammasgn(x: ArrayLike) -> Array:
    """Return the sign of the gamma function, which has derivative 0; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> gammasgn(-0.5)
    Array(-1., dtype=float32)
    """
    return bind1(gammasgn_p, x)


gammasgn_p: Primitive = nondifferentiable("gammasgn", scipy("gammasgn"), kinds="f", promotes_to_float=True)


@register_function
def digamma(x: ArrayLike) -> Array:
    """Return the derivative of `gammaln`, also called psi; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> digamma(1.0)
    Array(-0.5772157, dtype=float32)
    """
    return bind1(digamma_p, x)


digamma_p: Primitive = unary(
    "digamma",
    scipy("digamma"),
    lambda _z, x: bind_single(polygamma_p, x, n=1),
    kinds="f",
    promotes_to_float=True,
    domain=(0.2, 4.0),
)

psi = digamma


@register_function
def polygamma(n: int, x: ArrayLike) -> Array:
    """Return the n-th derivative of `digamma`; needs the extra ``scipy``.

    Args:
        n: 0 or more, a Python int.
        x: any shape.

    Raises:
        ArgumentError: n is no integer, or less than 0.
        MissingExtraError: SciPy is not installed.

    >>> polygamma(1, 1.0)
    Array(1.644934, dtype=float32)
    """
    n = check_order(n, "polygamma")
    return digamma(x) if n == 0 else bind_single(polygamma_p, x, n=n)


def _run(x: Any, *, n: int) -> Any:
    return bare_psi(n, x)


def _next(_z: Array, x: Array, *, n: int) -> Array:
    return bind_single(polygamma_p, x, n=n + 1)


polygamma_p: Primitive = parametric(
    "polygamma",
    double(_run),
    (_next,),
    {"n": 1},
    domain=(0.2, 4.0),
)


# -- beta --
def digamma_gap(x: Array, d: Array | float, n: int = 0) -> Array:
    """Return ``polygamma(n, x + d) - polygamma(n, x)``, accurate for small d beside a large x."""
    return bind_single(digamma_gap_p, x, d, n=n)


def _gap_by_x(_z: Array, x: Array, d: Array, *, n: int) -> Array:
    return digamma_gap(x, d, n + 1)


def _gap_by_d(_z: Array, x: Array, d: Array, *, n: int) -> Array:
    return polygamma(n + 1, x + d)


def _digamma_gap(x: Any, d: Any, *, n: int) -> Any:
    return psi_gap(n, x, d)


digamma_gap_p: Primitive = parametric(
    "digamma_gap", double(_digamma_gap), (_gap_by_x, _gap_by_d), {"n": 0}, domain=(0.2, 4.0)
)


@register_function
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the logarithm of the absolute value of the beta function; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> betaln(2.0, 3.0)
    Array(-2.4849067, dtype=float32)
    """
    return bind2(betaln_p, a, b)


betaln_p: Primitive = binary(
    "betaln",
    double(log_beta),
    (lambda _z, a, b: -digamma_gap(a, b), lambda _z, a, b: -digamma_gap(b, a)),
    kinds="f",
    promotes_to_float=True,
    domain=(0.2, 4.0),
    native=record_double(log_beta),
)


@register_function
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the beta function ``gamma(a) gamma(b) / gamma(a + b)``; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> beta(2.0, 3.0)
    Array(0.08333334, dtype=float32)
    """
    return bind2(beta_p, a, b)


beta_p: Primitive = binary(
    "beta",
    scipy("beta"),
    (lambda z, a, b: -z * digamma_gap(a, b), lambda z, a, b: -z * digamma_gap(b, a)),
    kinds="f",
    promotes_to_float=True,
    domain=(0.2, 4.0),
)


# -- of integers and matrices --
@register_function
def multigammaln(a: ArrayLike, d: int) -> Array:
    """Return the logarithm of the multivariate gamma function of dimension d; needs the extra ``scipy``.

    Args:
        a: greater than ``(d - 1) / 2``, any shape.
        d: 1 or more, a Python int.

    Raises:
        ArgumentError: d is no integer, or less than 1.
        MissingExtraError: SciPy is not installed.

    >>> multigammaln(1.5, 2)
    Array(0.4515827, dtype=float32)
    """
    d = check_order(d, "multigammaln", 1)
    z = gammaln(a) + d * (d - 1) / 4 * math.log(math.pi)
    for k in range(1, d):
        z = z + gammaln(subtract(a, k / 2))
    return z


@register_function
def factorial(x: ArrayLike) -> Array:
    """Return ``gamma(x + 1)``; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> factorial(4.0)
    Array(24., dtype=float32)
    """
    return gamma(add(x, 1))
