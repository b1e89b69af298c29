"""Gamma functions: gamma and beta, their logarithms and derivatives, by Stirling's series where numbers are large."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind1, bind2, bind_single
from afx.errors import ArgumentError
from afx.ops._kinds.elementwise import binary, nondifferentiable, unary
from afx.ops._kinds.special import check_order, parametric, scipy
from afx.ops.creation.creation import as_array
from afx.ops.elementwise.arithmetic import add, subtract
from afx.ops.elementwise.comparison import where
from afx.ops.elementwise.trigonometry import cos, sin
from afx.ops.special._quadrature import double, record_double

# --- Stirling's series: logarithms of gamma and beta functions in which no large numbers cancel, on bare float64
# values

FAR = 100.0  # from here on logarithms of gamma functions cancel in that of the beta function
STIRLING_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_where: Any = np.where  # its result type is not known to checkers


def stirling(a: Any) -> Any:
    """Return the logarithm of the gamma function less ``(a - ½) log a - a + ½ log 2π``."""
    far = a > 12
    inverse = 1 / _where(far, a, math.inf)
    total = np.zeros_like(inverse)
    for coefficient in reversed(STIRLING_SERIES):
        total = total * inverse * inverse + coefficient
    near = _where(far, 1.0, a)
    return _where(far, total * inverse, scipy("gammaln")(near) + near - (near - 0.5) * np.log(near) - HALF_LOG_2PI)


def log_beta(a: Any, b: Any) -> Any:
    """Return the logarithm of the beta function; for large parameters no large logarithms cancel in it."""
    far = (a > 0) & (b > 0) & (np.maximum(a, b) > FAR) & (np.maximum(a, b) < math.inf)
    c, d = _where(far, np.maximum(a, b), 2 * FAR), _where(far, np.minimum(a, b), 1.0)
    total = HALF_LOG_2PI + stirling(c) - stirling(c + d) + stirling(d)
    total = total - (c + d - 0.5) * np.log1p(d / c) + (d - 0.5) * np.log(d) - d * np.log(c)
    return _where(far, total, scipy("betaln")(a, b))


# --- Polygamma: digamma, its derivatives and their differences on plain arrays

LARGEST_ORDER = 170  # whose factorial is a float64
LARGE = 20.0  # from here on the asymptotic series is exact to the last digit
PSI_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132)


def bare_psi(n: int, x: Any) -> Any:
    """Return the n-th derivative of digamma: ``(-1)ⁿ⁺¹ n! ζ(n + 1, x)`` from the first on."""
    if n == 0:
        return scipy("digamma")(x)
    return scipy("zeta")(n + 1.0, x) * ((-1.0) ** (n + 1) * math.factorial(n))


def psi_gap(n: int, x: Any, d: Any, y: Any = None) -> Any:
    """Return ``psi(n, x + d) - psi(n, x)``, accurate for small d beside a large x, too.

    Where both have a pole it is the limit for an integer d; where the first alone has, -inf. Where d cancels nearly
    all of x, y says what is left.
    """
    y = x + d if y is None else y
    pole = (y <= 0) & (np.floor(y) == y)
    both = pole & (x <= 0) & (np.floor(x) == x)
    x, y = _where(both, 1 - x, _where(pole, 1.0, x)), _where(both, 1 - y, _where(pole, 1.0, y))
    low = bare_psi(n, x)
    gap = _where(x == y, 0.0, _where(np.isinf(low), -low, bare_psi(n, y) - low))
    if n == 0:
        first, second = _where(x > 1, x, 1.0), _where(y > 1, y, 1.0)
        gap = _where((x > LARGE) & (y > LARGE), np.log1p(d / first) + _asymptotic_rest(first, second, d), gap)
    return _where(pole & ~both, -math.inf, _where(both, (-1) ** n, 1) * gap)


def psi_rest(x: Any, d: Any) -> Any:
    """Return ``psi(0, x + d) - psi(0, x) - log((x + d) / x)`` of positive numbers, accurate for large x, too."""
    y, far = x + d, x > LARGE
    return _where(
        far,
        _asymptotic_rest(_where(far, x, 1.0), _where(far, y, 1.0), d),
        bare_psi(0, y) - bare_psi(0, x) - np.log1p(d / x),
    )


def _asymptotic_rest(x: Any, y: Any, d: Any) -> Any:
    u, v = 1 / (x * x), 1 / (y * y)
    total, power, mixed = np.zeros_like(u), 1.0, 1.0  # mixed is (uᵏ - vᵏ) / (u - v)
    for coefficient in PSI_SERIES:
        total = total + coefficient * mixed
        power = power * v
        mixed = mixed * u + power
    return d / x / y / 2 + total * (d / x * (x + y) / x / y / y)


# --- Gamma functions: gamma and beta, their logarithms, and the derivatives of those


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


def rgamma_slope(z: Array, x: Array) -> Array:
    """Return the derivative of ``z = 1 / gamma(x)``, by reflection below a half."""
    left = x < 0.5
    y = where(left, x, 0)  # by reflection: Γ(1 - x) sin(πx) / π
    reflected = gamma(1 - y) * (cos(math.pi * y) - digamma(1 - y) * sin(math.pi * y) / math.pi)
    return where(left, reflected, -z * digamma(where(left, 1, x)))


rgamma_p: Primitive = unary("rgamma", scipy("rgamma"), rgamma_slope, kinds="f", promotes_to_float=True)


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
        ArgumentError: n is no integer, less than 0, or above 170, where n! is no float64.
        MissingExtraError: SciPy is not installed.

    >>> polygamma(1, 1.0)
    Array(1.644934, dtype=float32)
    """
    n = check_order(n, "polygamma")
    if n > LARGEST_ORDER:
        raise ArgumentError(f"polygamma: n! is no float64 above {LARGEST_ORDER}: got {n}; take a lower order")
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
DIMENSIONS_MAX: Final = 10_000


@register_function
def multigammaln(a: ArrayLike, d: int) -> Array:
    """Return the logarithm of the multivariate gamma function of dimension d; needs the extra ``scipy``.

    Args:
        a: greater than ``(d - 1) / 2``, any shape.
        d: from 1 to 10 000, a Python int: so many logarithms are added up.

    Raises:
        ArgumentError: d is no integer, or out of its range.
        MissingExtraError: SciPy is not installed.

    >>> multigammaln(1.5, 2)
    Array(0.4515827, dtype=float32)
    """
    d = check_order(d, "multigammaln", 1)
    if d > DIMENSIONS_MAX:
        raise ArgumentError(f"multigammaln: one logarithm a dimension: got d={d:.4g}; give at most {DIMENSIONS_MAX}")
    z = gammaln(a) + d * (d - 1) / 4 * math.log(math.pi)
    for k in range(1, d):
        z = z + gammaln(subtract(a, k / 2))
    return z


@register_function
def factorial(x: ArrayLike) -> Array:
    """Return ``gamma(x + 1)``, 0 of negative numbers, as SciPy's; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> factorial(4.0)
    Array(24., dtype=float32)
    """
    n = as_array(x)
    return where(n < 0, 0, gamma(add(where(n < 0, 0, n), 1)))
