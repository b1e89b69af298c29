"""Gamma functions: gamma and beta, their logarithms and derivatives, by Stirling's series where numbers are large."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from afx.core import Array, ArrayLike, Function, Params, Primitive, bind_single, register_function
from afx.errors import ArgumentError
from afx.ops._basic import xp
from afx.ops._kinds.elementwise import TINY, binary, nondifferentiable, unary
from afx.ops._kinds.special import (
    alone_in_float64,
    bind_special,
    check_order,
    in_doubles,
    parametric,
    polynomial,
    scipy,
)
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


def log_beta(a: Any, b: Any, near: Function | None = None) -> Any:
    """Return the logarithm of the beta function; for large parameters no large logarithms cancel in it.

    Args:
        a: one parameter.
        b: the other one.
        near: what computes it of others, in place of SciPy.
    """
    far = (a > 0) & (b > 0) & (np.maximum(a, b) > FAR) & (np.maximum(a, b) < math.inf)
    c, d = _where(far, np.maximum(a, b), 2 * FAR), _where(far, np.minimum(a, b), 1.0)
    total = HALF_LOG_2PI + stirling(c) - stirling(c + d) + stirling(d)
    total = total - (c + d - 0.5) * np.log1p(d / c) + (d - 0.5) * np.log(d) - d * np.log(c)
    return _where(far, total, (near or scipy("betaln"))(a, b))


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
    Array(3.17805383, dtype=float64)
    """
    return bind_special(gammaln_p, x)


RECURRED = 10  # from here on Stirling's series, reached by recurrence, has all digits
MANY_DERIVATIVES = 20  # of digamma, up to which the formula has them


# (ζ(k) - 1) (-1)ᵏ / k from k = 2 on: of lgamma(2 + d) - (1 - γ) d, in d (Abramowitz & Stegun 1964, 6.1.33)
LGAMMA_TWO = (
    0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986, 0.0028905103307415234,
    -0.001192753911703261, 0.0005096695247430425, -0.00022315475845357939, 9.945751278180853e-05,
    -4.492623673813314e-05, 2.050721277567069e-05, -9.439488275268397e-06, 4.374866789907488e-06,
    -2.039215753801366e-06, 9.55141213040742e-07, -4.492469198764566e-07, 2.1207184805554665e-07,
    -1.0043224823968099e-07, 4.7698101693639804e-08, -2.2711094608943164e-08, 1.0838659214896955e-08,
    -5.183475041970047e-09, 2.4836745438024785e-09, -1.1921401405860912e-09, 5.731367241678862e-10,
    -2.7595228851242334e-10, 1.330476437424449e-10, -6.4229645638381e-11, 3.1044247747322276e-11,
    -1.5021384080754142e-11,
)  # fmt: skip


EULER = 0.5772156649015329


def _climb(y: Any, step: Callable[[Any, Any], Any], start: float) -> tuple[Any, Any]:
    """Return a number moved above 10 by ones, and what the steps there come to."""
    total = start
    for _ in range(RECURRED):
        is_small = y < RECURRED
        total = step(total, xp.where(is_small, y, 1.0 if start else math.inf))
        y = xp.where(is_small, y + 1.0, y)
    return y, total


def _descend(y: Any) -> tuple[Any, Any]:
    """Return a number from 1/2 to 10 moved by ones to 2 and at most a half more or less, less 2, and the factors passed."""
    product = 1.0
    for _ in range(RECURRED - 2):
        is_large = y > 2.5
        y = xp.where(is_large, y - 1.0, y)
        product = product * xp.where(is_large, y, 1.0)
    return y - 2.0, product


def _stirling(y: Any) -> Any:
    """Return what Stirling's series adds to ``(y - 1/2) log y - y + log(2π)/2``."""
    inverse = 1.0 / y
    return inverse * polynomial(inverse * inverse, STIRLING_SERIES)


def log_gamma_two(d: Any) -> Any:
    """Return ``lgamma(2 + d)`` of d of a size up to a half."""
    return d * ((1.0 - EULER) + d * polynomial(d, LGAMMA_TWO))


def _log_gamma(y: Any) -> Any:
    """Return ``lgamma(y)`` for y from 1/2 on: by Taylor's series around 2, or Stirling's."""
    is_large = y > RECURRED
    far = xp.where(is_large, y, RECURRED)
    by_stirling = (far - 0.5) * xp.log(far) - far + HALF_LOG_2PI + _stirling(far)
    is_low = y < 1.5
    d, product = _descend(xp.where(is_large | is_low, 2.0, y))
    d = xp.where(is_low, y - 1.0, d)
    near = log_gamma_two(d) + xp.where(is_low, -xp.log1p(d), xp.log(product))
    return xp.where(is_large, by_stirling, near)


def _sine(x: Any) -> Any:
    """Return ``sin(pi x)``, exactly 0 of integers."""
    nearest = xp.rint(x)
    sine = xp.sin((x - nearest) * math.pi)
    return xp.where(xp.fmod(nearest, 2.0) == 0.0, sine, -sine)


def _gammaln(x: Any) -> Any:
    is_low = x < 0.5
    logarithm = _log_gamma(xp.where(is_low, 1.0 - x, x))
    size = xp.abs(x)
    turn = xp.where(size < TINY, size, xp.abs(_sine(x)) / math.pi)  # pi times a denormal number has few bits
    low = xp.where(turn == 0.0, math.inf, -xp.log(turn) - logarithm)
    return xp.where(size == math.inf, x, xp.where(is_low, low, logarithm))


gammaln_p: Primitive = unary(
    "gammaln", scipy("gammaln"), lambda _z, x: digamma(x), kinds="f", formula=in_doubles(_gammaln)
)


@register_function
def gamma(x: ArrayLike) -> Array:
    """Return the gamma function; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> gamma(5.0)
    Array(24., dtype=float64)
    """
    return bind_special(gamma_p, x)


def _gamma(x: Any) -> Any:
    """Return the gamma function: by products below 10, beyond by Stirling's series, powers of half the exponent at a time."""
    is_low = x < 0.5
    y = xp.where(is_low, 1.0 - x, x)
    is_large = y > RECURRED
    far = xp.where(is_large, xp.minimum(y, 200.0), RECURRED)
    half = xp.power(far, far * 0.5 - 0.25)
    by_stirling = half * xp.exp(-far) * half * (math.sqrt(2 * math.pi) * xp.exp(_stirling(far)))
    is_small = y < 1.5
    d, product = _descend(xp.where(is_large | is_small, 2.0, y))
    d = xp.where(is_small, y - 1.0, d)
    near = xp.exp(log_gamma_two(d)) * product / xp.where(is_small, y, 1.0)
    z = xp.where(is_large, by_stirling, near)
    sine = _sine(x)
    low = xp.where(x == 0.0, 1.0 / x, xp.where(sine == 0.0, math.nan, math.pi / (sine * z)))
    return xp.where(is_low, low, xp.where(x == math.inf, x, z))


gamma_p: Primitive = unary("gamma", scipy("gamma"), lambda z, x: z * digamma(x), kinds="f", formula=in_doubles(_gamma))


@register_function
def rgamma(x: ArrayLike) -> Array:
    """Return ``1 / gamma(x)``, 0 at the poles of that, with derivatives of every order there; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> rgamma(5.0)
    Array(0.04166667, dtype=float64)
    """
    return bind_special(rgamma_p, x)


def rgamma_slope(z: Array, x: Array) -> Array:
    """Return the derivative of ``z = 1 / gamma(x)``, by reflection below a half."""
    left = x < 0.5
    y = where(left, x, 0)  # by reflection: Γ(1 - x) sin(πx) / π
    reflected = gamma(1 - y) * (cos(math.pi * y) - digamma(1 - y) * sin(math.pi * y) / math.pi)
    return where(left, reflected, -z * digamma(where(left, 1, x)))


def _rgamma(x: Any) -> Any:
    is_pole = (x <= 0.0) & (xp.floor(x) == x)
    near = xp.where(xp.abs(x) < TINY, x, 1.0 / _gamma(xp.where(is_pole, 1.0, x)))  # whose gamma function may overflow
    return xp.where(is_pole & (x != 0.0), 0.0, near)


rgamma_p: Primitive = unary("rgamma", scipy("rgamma"), rgamma_slope, kinds="f", formula=in_doubles(_rgamma))


@register_function
def gammasgn(x: ArrayLike) -> Array:
    """Return the sign of the gamma function, which has derivative 0; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> gammasgn(-0.5)
    Array(-1., dtype=float64)
    """
    return bind_special(gammasgn_p, x)


def _gammasgn(x: Any) -> Any:
    sign = xp.sign(_sine(x))
    below = xp.where(sign == 0.0, math.nan, sign)
    return xp.where(x < 0.0, below, xp.where(xp.isnan(x), x, xp.where(xp.signbit(x), -1.0, 1.0)))


gammasgn_p: Primitive = nondifferentiable("gammasgn", scipy("gammasgn"), kinds="f", formula=_gammasgn)


@register_function
def digamma(x: ArrayLike) -> Array:
    """Return the derivative of `gammaln`, also called psi; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> digamma(1.0)
    Array(-0.57721566, dtype=float64)
    """
    return bind_special(digamma_p, x)


DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


# digamma from 1 to 2: the root there, in three parts, and digamma(x) / (x - root) less a constant, in x - 1 (Boost 1.88,
# boost/math/special_functions/digamma.hpp); 2 ulp
ROOT_PARTS = (1569415565 / 2**30, 381566830 / 2**60, 0.9016312093258695918615325266959189453125e-19)


SLOPE_PARTS = 0.99558162689208984


NEAR_ROOT = (
    (
        0.25479851061131551, -0.32555031186804491, -0.65031853770896507, -0.28919126444774784, -0.045251321448739056,
        -0.0020713321167745952,
    ),
    (
        1.0, 2.0767117023730469, 1.4606242909763515, 0.43593529692665969, 0.054151797245674225, 0.0021284987017821144,
        -0.55789841321675513e-6,
    ),
)  # fmt: skip


def _digamma_one(x: Any) -> Any:
    """Return digamma of numbers from 1 to 2, whose root lies among them."""
    gap = x - ROOT_PARTS[0] - ROOT_PARTS[1] - ROOT_PARTS[2]
    return gap * SLOPE_PARTS + gap * polynomial(x - 1.0, NEAR_ROOT[0]) / polynomial(x - 1.0, NEAR_ROOT[1])


# Taylor's series of digamma in x - LOW_ROOT, a float64 near the root below 0
LOW_ROOT = -0.5040830082644554
AT_LOW_ROOT = (
    7.289763902976895e-17, 8.939798558792134, -0.8093454625306499, 32.258572064915505, -2.7610116487908227,
    128.27342343090902, -14.706721735530332, 513.2704629562861, -75.37700066344615, 2055.5357119463315, -368.5783503832184,
)  # fmt: skip


def _digamma(x: Any) -> Any:
    is_low = x < 0.5
    high = xp.where(is_low, 1.0 - x, x)
    y, total = _climb(high, lambda total, x: total + 1.0 / x, 0.0)
    inverse = 1.0 / y
    square = inverse * inverse
    psi = xp.log(y) - inverse * 0.5 - square * polynomial(square, DIGAMMA_SERIES) - total
    angle = (x - xp.rint(x)) * math.pi
    turn = xp.where(angle == 0.0, math.nan, math.pi * xp.cos(angle) / xp.sin(angle))
    is_near = (high >= 1.0) & (high <= 2.0)
    psi = xp.where(is_near, _digamma_one(xp.where(is_near, high, 1.0)), psi)
    gap = x - LOW_ROOT
    low = xp.where(xp.abs(gap) < 1 / 64, polynomial(gap, AT_LOW_ROOT), psi - turn)
    return xp.where(x == 0.0, -1.0 / x, xp.where(is_low, low, psi))


digamma_p: Primitive = unary(
    "digamma", scipy("digamma"), lambda _z, x: bind_single(polygamma_p, x, n=1), kinds="f", formula=in_doubles(_digamma)
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
    Array(1.64493407, dtype=float64)
    """
    n = check_order(n, "polygamma")
    if n > LARGEST_ORDER:
        raise ArgumentError(f"polygamma: n! is no float64 above {LARGEST_ORDER}: got {n}; take a lower order")
    return digamma(x) if n == 0 else bind_special(polygamma_p, x, n=n)


def _run(x: Any, *, n: int) -> Any:
    return bare_psi(n, x)


def _next(_z: Array, x: Array, *, n: int) -> Array:
    return bind_single(polygamma_p, x, n=n + 1)


# B(2 j) / (2 j)!, of the Euler-Maclaurin sum
BERNOULLI = (
    0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07, 2.08767569878681e-08,
    -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15, -2.174868698558062e-16,
)  # fmt: skip


def _hurwitz(s: int, x: Any) -> Any:
    """Return the sum of ``(x + k)^-s`` over k from 0 on, of positive x (Johansson 2015, Euler-Maclaurin)."""
    total = 0.0
    for k in range(RECURRED):
        total = total + (x + float(k)) ** -s
    y = x + float(RECURRED)
    inverse = 1.0 / y
    square, factor, tail = inverse * inverse, s * inverse, inverse * 0.0
    for j, b in enumerate(BERNOULLI):
        tail = tail + b * factor
        factor = factor * square * ((s + 2 * j + 1) * (s + 2 * j + 2))
    return total + y ** (1 - s) / (s - 1.0) + y**-s * (0.5 + tail)


def _polygamma(x: Any, *, n: int = 1) -> Any:
    """Return the n-th derivative of digamma: below 0 by that of ``psi(x) = psi(1 - x) - π cot πx``."""
    x = x.astype(np.float64)
    is_low = x < 0.0
    z = _hurwitz(n + 1, xp.where(is_low, 1.0 - x, x)) * ((-1.0) ** (n + 1) * math.factorial(n))
    angle = (x - xp.rint(x)) * math.pi
    cotangent, terms = xp.cos(angle) / xp.sin(angle), np.polynomial.Polynomial((0.0, 1.0))
    for _ in range(n):
        terms = terms.deriv() * np.polynomial.Polynomial((-math.pi, 0.0, -math.pi))
    low = (-1.0) ** n * z - math.pi * polynomial(cotangent, terms.coef.tolist())
    pole = (-1.0) ** (n + 1) * math.inf
    return xp.where((x == -math.inf) | (x <= 0.0) & (angle == 0.0), pole, xp.where(is_low, low, z))


def _is_low(_avals: Any, params: Params) -> bool:
    return 1 <= int(params.get("n", 1)) <= MANY_DERIVATIVES


polygamma_p: Primitive = parametric(
    "polygamma", double(_run), (_next,), {"n": 1}, formula=_polygamma, takes_formula=_is_low
)


# -- beta --
def digamma_gap(x: Array, d: Array | float, n: int = 0) -> Array:
    """Return ``polygamma(n, x + d) - polygamma(n, x)``, accurate for small d beside a large x."""
    return bind_single(digamma_gap_p, x, d, n=n)


def _gap_by_x(_z: Array, x: Array, d: Array, *, n: int) -> Array:
    return digamma_gap(x, d, n + 1)


def _gap_by_d(_z: Array, x: Array, d: Array, *, n: int) -> Array:
    return polygamma(n + 1, x + d)


def _digamma_gap(x: Any, d: Any, *, n: int = 0) -> Any:
    return psi_gap(n, x, d)


def _is_first(_avals: Any, params: Params) -> bool:
    return int(params.get("n", 0)) == 0


digamma_gap_p: Primitive = parametric(
    "digamma_gap",
    double(_digamma_gap),
    (_gap_by_x, _gap_by_d),
    {"n": 0},
    formula=in_doubles(_digamma_gap),
    takes_formula=_is_first,
)


@register_function
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the logarithm of the absolute value of the beta function; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> betaln(2.0, 3.0)
    Array(-2.48490665, dtype=float64)
    """
    return bind_special(betaln_p, a, b)


def _poles(a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
    """Return parameters in order, whether the lower one is a pole, and whether it has a limit, of its mirror."""
    low, high = xp.minimum(a, b), xp.maximum(a, b)
    is_pole = ((a <= 0.0) & (xp.floor(a) == a)) | ((b <= 0.0) & (xp.floor(b) == b))  # beside nan, too
    is_limit = (xp.floor(low) == low) & (xp.floor(high) == high) & (low > -math.inf) & (low <= 0.0) & (low + high < 1.0)
    return xp.where(is_limit, 1.0 - low - high, xp.where(is_pole, 1.0, low)), high, is_pole, is_limit


def log_beta_near(a: Any, b: Any) -> Any:
    """Return the logarithm of the beta function by those of gamma functions; of a large one beside a negative one as above."""
    low, high, is_pole, is_limit = _poles(a, b)
    less, more = xp.minimum(low, high), xp.maximum(low, high)
    is_far = (less + more > FAR) & (more > 2 * FAR) & (more < math.inf)
    c, d = xp.where(is_far, more, 2 * FAR), xp.where(is_far, less, -0.5)
    far = _gammaln(d) + d + stirling(c) - stirling(c + d) - (c + d - 0.5) * xp.log1p(d / c) - d * xp.log(c)
    z = xp.where(is_far, far, _gammaln(low) + _gammaln(high) - _gammaln(low + high))
    z = xp.where((high == math.inf) & (low < math.inf), xp.where(low < 0.0, math.inf, -math.inf), z)
    return xp.where(is_pole & ~is_limit, math.inf, z)


def _log_beta(a: Any, b: Any) -> Any:
    return log_beta(a, b, log_beta_near)


betaln_p: Primitive = binary(
    "betaln",
    double(log_beta),
    (lambda _z, a, b: -digamma_gap(a, b), lambda _z, a, b: -digamma_gap(b, a)),
    kinds="f",
    native=record_double(log_beta),
    formula=in_doubles(_log_beta),
)


@register_function
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the beta function ``gamma(a) gamma(b) / gamma(a + b)``; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> beta(2.0, 3.0)
    Array(0.08333333, dtype=float64)
    """
    return bind_special(beta_p, a, b)


def _beta(a: Any, b: Any) -> Any:
    _, high, is_pole, is_limit = _poles(a, b)
    sign = xp.where(is_pole, 1.0, _gammasgn(a) * _gammasgn(b) * _gammasgn(a + b))
    sign = xp.where(is_limit & (xp.fmod(high, 2.0) != 0.0), -1.0, sign)
    size = xp.exp(_log_beta(a, b))
    return xp.where(size == 0.0, size, sign * size)


beta_p: Primitive = binary(
    "beta",
    scipy("beta"),
    (lambda z, a, b: -z * digamma_gap(a, b), lambda z, a, b: -z * digamma_gap(b, a)),
    kinds="f",
    formula=in_doubles(_beta),
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
    Array(0.45158271, dtype=float64)
    """
    d = check_order(d, "multigammaln", 1)
    if d > DIMENSIONS_MAX:
        raise ArgumentError(f"multigammaln: one logarithm a dimension: got d={d:.4g}; give at most {DIMENSIONS_MAX}")
    (y,) = alone_in_float64("multigammaln", a)
    z = gammaln(y) + d * (d - 1) / 4 * math.log(math.pi)
    for k in range(1, d):
        z = z + gammaln(subtract(y, k / 2))
    return z


@register_function
def factorial(x: ArrayLike) -> Array:
    """Return ``gamma(x + 1)``, 0 of negative numbers, as SciPy's; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> factorial(4.0)
    Array(24., dtype=float64)
    """
    (n,) = alone_in_float64("factorial", x)
    return where(n < 0, 0, gamma(add(where(n < 0, 0, n), 1)))
