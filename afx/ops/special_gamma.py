"""The gamma and beta functions, their logarithms, and the derivatives of those."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array import Array, ArrayLike
from afx.core.functions import public
from afx.core.primitive import Primitive
from afx.core.tracer import bind1, bind2, lowered, single
from afx.ops._kinds import binary, nondifferentiable, unary
from afx.ops._special import family, scipy, whole
from afx.ops.arithmetic import add, subtract
from afx.ops.rounding import floor
from afx.ops.selection import where

__all__ = ["beta", "betaln", "digamma", "factorial", "gamma", "gammaln", "gammasgn", "multigammaln", "polygamma", "psi"]


@public
def gammaln(x: ArrayLike) -> Array:
    """Return the logarithm of the absolute value of the gamma function; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> gammaln(5.0)
    Array(3.1780539, dtype=float32)
    """
    return bind1(gammaln_p, x)


gammaln_p = unary("gammaln", scipy("gammaln"), lambda _z, x: digamma(x), kinds="f", floating=True, domain=(0.2, 4.0))


@public
def gamma(x: ArrayLike) -> Array:
    """Return the gamma function; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> gamma(5.0)
    Array(24., dtype=float32)
    """
    return bind1(gamma_p, x)


gamma_p = unary("gamma", scipy("gamma"), lambda z, x: z * digamma(x), kinds="f", floating=True, domain=(0.2, 4.0))


@public
def gammasgn(x: ArrayLike) -> Array:
    """Return the sign of the gamma function, which has derivative 0; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> gammasgn(-0.5)
    Array(-1., dtype=float32)
    """
    return bind1(gammasgn_p, x)


gammasgn_p = nondifferentiable("gammasgn", scipy("gammasgn"), kinds="f", floating=True)


@public
def digamma(x: ArrayLike) -> Array:
    """Return the derivative of `gammaln`, also called psi; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> digamma(1.0)
    Array(-0.5772157, dtype=float32)
    """
    return bind1(digamma_p, x)


digamma_p = unary(
    "digamma",
    scipy("digamma"),
    lambda _z, x: single(polygamma_p, x, n=1),
    kinds="f",
    floating=True,
    domain=(0.2, 4.0),
)

psi = digamma


@public
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
    n = whole(n, "polygamma")
    return digamma(x) if n == 0 else single(polygamma_p, x, n=n)


def _polygamma(x: Any, *, n: int) -> Any:
    """Return ``(-1)ⁿ⁺¹ n! ζ(n + 1, x)``."""
    x = np.asarray(x)
    z = scipy("zeta")(x.dtype.type(n + 1) if x.dtype.kind == "f" else float(n + 1), x)
    return z * ((-1.0) ** (n + 1) * math.factorial(n))


def _polygamma_next(_z: Array, x: Array, *, n: int) -> Array:
    return single(polygamma_p, x, n=n + 1)


polygamma_p: Primitive = family(
    "polygamma",
    _polygamma,
    (_polygamma_next,),
    {"n": 1},
    domain=(0.2, 4.0),
)


# -- beta -------------------------------------------------------------------------------------------------------------
def psi_gap(a: Array, b: Array) -> Array:
    """Return ``digamma(a) - digamma(a + b)``, its limit where both have poles, and inf where the second alone has."""
    total = a + b
    pole = (total <= 0) & (lowered(floor(total)) == total)
    both = pole & (a <= 0) & (lowered(floor(a)) == a)
    above = digamma(where(both, 1 - a, where(pole, 1, a)))
    return where(pole & ~both, math.inf, above - digamma(where(both, 1 - total, where(pole, 1, total))))


@public
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the logarithm of the absolute value of the beta function; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> betaln(2.0, 3.0)
    Array(-2.4849067, dtype=float32)
    """
    return bind2(betaln_p, a, b)


betaln_p = binary(
    "betaln",
    scipy("betaln"),
    (lambda _z, a, b: psi_gap(a, b), lambda _z, a, b: psi_gap(b, a)),
    kinds="f",
    floating=True,
    domain=(0.2, 4.0),
)


@public
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the beta function ``gamma(a) gamma(b) / gamma(a + b)``; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> beta(2.0, 3.0)
    Array(0.08333334, dtype=float32)
    """
    return bind2(beta_p, a, b)


beta_p = binary(
    "beta",
    scipy("beta"),
    (lambda z, a, b: z * psi_gap(a, b), lambda z, a, b: z * psi_gap(b, a)),
    kinds="f",
    floating=True,
    domain=(0.2, 4.0),
)


# -- of integers and matrices -----------------------------------------------------------------------------------------
@public
def multigammaln(a: ArrayLike, d: int) -> Array:
    """Return the logarithm of the multivariate gamma function of dimension d; needs the extra ``scipy``.

    Args:
        a: greater than ``(d - 1) / 2``, any shape.
        d: 1 or more, a Python int.

    Raises:
        ArgumentError: d is no integer, or less than 1.
        MissingExtraError: SciPy is not installed.

    >>> multigammaln(1.5, 2)
    Array(0.45158267, dtype=float32)
    """
    d = whole(d, "multigammaln", 1)
    z = gammaln(a) + d * (d - 1) / 4 * math.log(math.pi)
    for k in range(1, d):
        z = z + gammaln(subtract(a, k / 2))
    return z


@public
def factorial(x: ArrayLike) -> Array:
    """Return ``gamma(x + 1)``; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> factorial(4.0)
    Array(24., dtype=float32)
    """
    return gamma(add(x, 1))
