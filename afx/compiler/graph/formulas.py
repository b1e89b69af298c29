"""Formulas: elementwise operations in terms of others, for targets and languages that lack them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from afx.core.registry import FUNCTIONS

# --- Formulas: elementwise operations in terms of others, for languages that lack them
#
# Each is a function of Arrays of one dtype, accurate near 0 and where a part overflows. A language's table names the
# operations that it has; the equations of others become those of the traced formula.

F: Any = FUNCTIONS
DOUBLE = np.dtype(np.float64)
ROOT_2, LOG_2, LOG_2PI = math.sqrt(2.0), math.log(2.0), math.log(2 * math.pi)
TINY = 1e-20  # below, x is tan x, exp x - 1 and their like to all digits


# -- parts of numbers --
def _is_float(x: Any) -> bool:
    return bool(x.dtype.kind == "f")


def _signbit(x: Any) -> Any:
    return (x < 0) | ((x == 0) & (1 / x < 0)) if _is_float(x) else x < 0


def _trunc(x: Any) -> Any:
    return F.where(x < 0, F.ceil(x), F.floor(x)) if _is_float(x) else x


def _remainder(x: Any, y: Any) -> Any:
    rest = F.fmod(x, y)
    remainder = F.where((rest != 0) & ((rest < 0) ^ (y < 0)), rest + y, rest)
    return F.where(rest == 0, F.where(y < 0, -0.0, 0.0), remainder)


def _floor_divide(x: Any, y: Any) -> Any:
    """Return what is left when C's remainder is taken away, as NumPy does, so that inf divides."""
    rest = F.fmod(x, y)
    quotient = (x - rest) / y
    quotient = F.where((rest != 0) & ((rest < 0) ^ (y < 0)), quotient - 1.0, quotient)
    below = F.floor(quotient)
    below = F.where(quotient - below > 0.5, below + 1.0, below)
    floored = F.where(below == 0, x / y * 0.0, below)
    return F.where(y == 0, x / y, floored)


# -- exponentials --
def _expm1(x: Any) -> Any:
    """Return ``exp(x) - 1``: near 0 by half the argument's hyperbolic tangent."""
    half = F.tanh(x * 0.5)
    near = F.where(F.abs(x) < TINY, x, 2.0 * half / (1.0 - half))  # half of a denormal number is rounded
    return F.where(F.abs(x) < 1.0, near, F.exp(x) - 1.0)


def _log1p(x: Any) -> Any:
    """Return ``log(1 + x)``: near 0 with the sum's rounding taken out (Goldberg 1991, theorem 4)."""
    total = x + 1.0
    near = F.where(total == 1.0, x, F.log(total) * x / (total - 1.0))
    return F.where(F.abs(x) < 1.0, near, F.log(total))


def _logaddexp(x: Any, y: Any) -> Any:
    gap = F.where(x == y, 0.0, x - y)
    return F.maximum(x, y) + F.log1p(F.exp(-F.abs(gap)))


def _logaddexp2(x: Any, y: Any) -> Any:
    return F.where(x == y, x + 1.0, _logaddexp(x * LOG_2, y * LOG_2) / LOG_2)


def _hypot(x: Any, y: Any) -> Any:
    a, b = F.abs(x), F.abs(y)
    top, low = F.maximum(a, b), F.minimum(a, b)
    regular = (top > 0) & (top < math.inf)
    part = F.where(regular, low, 0.0) / F.where(regular, top, 1.0)
    length = F.where(regular, top * F.sqrt(part * part + 1.0), top)
    return F.where((a == math.inf) | (b == math.inf), math.inf, length)


# -- functions of the circle, and of the hyperbola --
def _sinh(x: Any) -> Any:
    up, half = F.expm1(x), F.exp(F.abs(x) * 0.5)
    far = F.sign(x) * (half * 0.5 * half)  # which overflows where the result does
    near = (up + up / (up + 1.0)) * 0.5
    return F.where(F.abs(x) < 1.0, near, F.where(F.abs(x) < 20.0, (F.exp(x) - F.exp(-x)) * 0.5, far))


def _cosh(x: Any) -> Any:
    half = F.exp(F.abs(x) * 0.5)
    return F.where(F.abs(x) < 20.0, (F.exp(x) + F.exp(-x)) * 0.5, half * 0.5 * half)


def _atan2(y: Any, x: Any) -> Any:
    both = (F.abs(x) == math.inf) & (F.abs(y) == math.inf)
    quotient = F.where(both, F.sign(y) * F.sign(x), y / F.where(x == 0, 1.0, x))
    below = F.signbit(y)
    angle = F.where(x == 0, F.where(below, -math.pi / 2, math.pi / 2), F.atan(quotient))
    angle = F.where(y == 0, F.where(F.isnan(x), x, 0.0), F.where((x == 0) & F.isnan(y), y, angle))
    turned = angle + F.where(below, -math.pi, math.pi)
    return F.where(F.signbit(x) & ~((x == 0) & (y != 0)), turned, F.where((y == 0) & ~F.isnan(x), y, angle))


def _asinh(x: Any) -> Any:
    size = F.abs(x)
    near = F.where(size < 1e8, size, 1.0)
    square = near * near
    small = F.log1p(near + square / (F.sqrt(square + 1.0) + 1.0))
    return F.where(x == 0, x, F.sign(x) * F.where(size < 1e8, small, F.log(size) + LOG_2))


def _acosh(x: Any) -> Any:
    above = F.where(x > 1e8, 1.0, x - 1.0)
    small = F.log1p(above + F.sqrt(above * (above + 2.0)))
    return F.where(x > 1e8, F.log(x) + LOG_2, F.where(x < 1.0, math.nan, small))


def _atanh(x: Any) -> Any:
    size = F.abs(x)
    return F.where(x == 0, x, F.sign(x) * F.log1p(2.0 * size / (1.0 - size)) * 0.5)


# -- error functions, in doubles --
# (1 + 2 x) exp(x²) erfc(x) of x >= 0 in t = (x - 2) / (x + 2), by interpolation at Chebyshev's points
# (the form of Shepherd & Laframboise 1981); relative error 4e-15
ERFC = (
    1.276978381552528, -0.09276382658574282, -0.16603039761511157, 0.16405128003299507, -0.0542200010015152,
    -0.00803401506894144, 0.008722654073227731, 0.0012713387838584073, -0.001456816036292486, -0.00045433942632052863,
    0.00020637996274817962, 0.00015103222023724484, -1.5579421730892988e-06, -3.639980086397072e-05,
    -1.3377034483279394e-05, 3.654444559603514e-06, 5.04508915742431e-06, 1.6001422991224405e-06,
    -5.2439202652125e-07, -9.516236273721383e-07, -3.542860066329134e-07, 2.357169363422332e-07,
    1.810316692312155e-07, -2.5287633322309966e-08, -2.985396711717024e-08,
)  # fmt: skip
# erf(x) / x in x² up to 1/2, by Taylor's series
ERF = tuple([2 / math.sqrt(math.pi) * (-1) ** k / (math.factorial(k) * (2 * k + 1)) for k in range(13)])


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    total: Any = coefficients[-1]
    for c in coefficients[-2::-1]:
        total = x * total + c
    return total


def _bell(x: Any) -> Any:
    """Return ``exp(-x²)``: x in a part whose square is exact, and the rest."""
    size = F.minimum(F.abs(x), 40.0)
    head = F.floor(size * 16.0) / 16.0
    return F.exp(-(head * head)) * F.exp((head - size) * (head + size))


def _scaled_tail(x: Any) -> Any:
    """Return ``exp(x²) erfc(x)`` of a number that is not negative."""
    size = F.where(x < 1e150, x, 1e150)  # beyond, the polynomial has its last value, and 1/x is left
    far = F.where(x < 1e150, 1.0, x)
    near = _polynomial((size - 2.0) / (size + 2.0), ERFC) / (2.0 * size + 1.0)
    return F.where(x < 1e150, near, 1.0 / math.sqrt(math.pi) / far)


def _far_erfc(x: Any) -> Any:
    size = F.where(F.isnan(x), 0.0, x)
    tail = F.where(F.isnan(x), x, _bell(size) * _scaled_tail(F.abs(size)))
    return F.where(x < 0.0, 2.0 - tail, tail)


def _erf(x: Any) -> Any:
    near = x * _polynomial(F.where(F.abs(x) < 0.5, x * x, 0.0), ERF)
    return F.where(F.abs(x) < 0.5, near, F.sign(x) * (1.0 - _far_erfc(F.abs(x))))


def _erfc(x: Any) -> Any:
    return F.where(F.abs(x) < 0.5, 1.0 - _erf(x), _far_erfc(x))


def _erfcx(x: Any) -> Any:
    size = F.where(F.isnan(x), 0.0, F.abs(x))
    tail = _scaled_tail(size)
    return F.where(F.isnan(x), x, F.where(x < 0.0, 2.0 / _bell(size) - tail, tail))


def _log_ndtr(x: Any) -> Any:
    low = F.where(x < -1.0, x, -1.0)
    below = F.log(_scaled_tail(low / -ROOT_2)) - LOG_2 - low * low * 0.5
    return F.where(x < -1.0, below, F.log1p(_far_erfc(x / ROOT_2) * -0.5))


# -- quantiles of the normal distribution (Wichura 1988, AS 241): in 0.180625 - q², and in √(-log p) less 1.6 or 5 --
NEAR_HALF = (
    (
        3.387132872796366608, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125, 45921.953931549871457,
        67265.770927008700853, 33430.575583588128105, 2509.0809287301226727,
    ),
    (
        1.0, 42.313330701600911252, 687.1870074920579083, 5394.1960214247511077, 21213.794301586595867,
        39307.89580009271061, 28729.085735721942674, 5226.495278852854561,
    ),
)  # fmt: skip
IN_TAIL = (
    (
        1.42343711074968357734, 4.6303378461565452959, 5.7694972214606914055, 3.64784832476320460504,
        1.27045825245236838258, 0.24178072517745061177, 0.0227238449892691845833, 7.7454501427834140764e-4,
    ),
    (
        1.0, 2.05319162663775882187, 1.6763848301838038494, 0.68976733498510000455, 0.14810397642748007459,
        0.0151986665636164571966, 5.475938084995344946e-4, 1.05075007164441684324e-9,
    ),
)  # fmt: skip
FAR_IN_TAIL = (
    (
        6.6579046435011037772, 5.4637849111641143699, 1.7848265399172913358, 0.29656057182850489123,
        0.026532189526576123093, 0.0012426609473880784386, 2.71155556874348757815e-5, 2.01033439929228813265e-7,
    ),
    (
        1.0, 0.59983220655588793769, 0.13692988092273580531, 0.0148753612908506148525, 7.868691311456132591e-4,
        1.8463183175100546818e-5, 1.4215117583164458887e-7, 2.04426310338993978564e-15,
    ),
)  # fmt: skip


def _ratio(x: Any, parts: tuple[Sequence[float], Sequence[float]]) -> Any:
    return _polynomial(x, parts[0]) / _polynomial(x, parts[1])


def _quantile(q: Any, log_tail: Any) -> Any:
    """Return the quantile at ``q + 1/2``, whose smaller tail's logarithm is given."""
    root = F.sqrt(-F.where(log_tail < 0.0, log_tail, -1.0))
    tail = F.where(
        root < 5.0, _ratio(F.minimum(root, 5.0) - 1.6, IN_TAIL), _ratio(F.clip(root, 5.0, 30.0) - 5.0, FAR_IN_TAIL)
    )
    is_near = F.abs(q) < 0.425
    near = F.where(is_near, q, 0.0)
    z = F.where(is_near, near * _ratio(0.180625 - near * near, NEAR_HALF), F.sign(q) * tail)
    return F.where(log_tail == -math.inf, F.sign(q) * math.inf, z)


def _erfinv(x: Any) -> Any:
    rest = 1.0 - F.abs(x)
    z = _quantile(x * 0.5, F.log(F.maximum(rest * 0.5, 0.0))) / ROOT_2
    z = F.where(F.abs(x) < TINY, x * (math.sqrt(math.pi) / 2), z)
    return F.where(x == 0.0, 0.0, F.where(rest < 0.0, math.nan, z))  # SciPy's zero has no sign


def _ndtri(p: Any) -> Any:
    z = _quantile(p - 0.5, F.log(F.maximum(F.minimum(p, 1.0 - p), 0.0)))
    return F.where((p < 0.0) | (p > 1.0), math.nan, z)


def _erfcinv(y: Any) -> Any:
    half = y * 0.5
    z = _quantile(0.5 - half, F.log(F.maximum(F.minimum(half, 1.0 - half), 0.0))) / ROOT_2
    return F.where((y < 0.0) | (y > 2.0), math.nan, F.where(y == 1.0, -0.0, z))


def _ndtri_exp(y: Any) -> Any:
    """Return the quantile at exp(y): far out by ``x² = -2y - log(2π) - 2 log x + 2 log(1 - 1/x² + 3/x⁴ - …)``."""
    is_far, is_huge = y < -600.0, y < -1e100
    near = F.where(is_far, -1.0, y)
    z = _quantile(F.exp(near) - 0.5, F.where(near < -LOG_2, near, F.log(-F.expm1(F.minimum(near, 0.0)))))
    twice = F.where(is_far & ~is_huge, y, -600.0) * -2.0
    x = F.sqrt(twice)
    for _ in range(5):
        inverse = 1.0 / (x * x)
        rest = F.log1p(-inverse * _polynomial(inverse, (1.0, -3.0, 15.0, -105.0, 945.0)))
        x = F.sqrt(twice - LOG_2PI - 2.0 * F.log(x) + 2.0 * rest)
    x = F.where(is_huge, F.sqrt(F.maximum(-y, 0.0)) * ROOT_2, x)
    return F.where(is_far, -x, F.where(y > 0.0, math.nan, z))


# -- gamma functions: Stirling's series where the argument is large, reached by recurrence; reflection below 0 --
LARGE = 10
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


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
    total: Any = start
    for _ in range(LARGE):
        is_small = y < LARGE
        total = step(total, F.where(is_small, y, 1.0 if start else math.inf))
        y = F.where(is_small, y + 1.0, y)
    return y, total


def _descend(y: Any) -> tuple[Any, Any]:
    """Return a number from 1/2 to 10 moved by ones to 2 and at most a half more or less, less 2, and the factors passed."""
    product: Any = 1.0
    for _ in range(LARGE - 2):
        is_large = y > 2.5
        y = F.where(is_large, y - 1.0, y)
        product = product * F.where(is_large, y, 1.0)
    return y - 2.0, product


def _stirling(y: Any) -> Any:
    """Return what Stirling's series adds to ``(y - 1/2) log y - y + log(2π)/2``."""
    inverse = 1.0 / y
    return inverse * _polynomial(inverse * inverse, STIRLING)


def _log_gamma_two(d: Any) -> Any:
    """Return ``lgamma(2 + d)`` of d of a size up to a half."""
    return d * ((1.0 - EULER) + d * _polynomial(d, LGAMMA_TWO))


def _log_gamma(y: Any) -> Any:
    """Return ``lgamma(y)`` for y from 1/2 on: by Taylor's series around 2, or Stirling's."""
    is_large = y > LARGE
    far = F.where(is_large, y, LARGE)
    by_stirling = (far - 0.5) * F.log(far) - far + LOG_2PI / 2 + _stirling(far)
    is_low = y < 1.5
    d, product = _descend(F.where(is_large | is_low, 2.0, y))
    d = F.where(is_low, y - 1.0, d)
    near = _log_gamma_two(d) + F.where(is_low, -F.log1p(d), F.log(product))
    return F.where(is_large, by_stirling, near)


def _sine(x: Any) -> Any:
    """Return ``sin(pi x)``, exactly 0 of integers."""
    nearest = F.round(x)
    sine = F.sin((x - nearest) * math.pi)
    return F.where(F.fmod(nearest, 2.0) == 0.0, sine, -sine)


def _gammaln(x: Any) -> Any:
    is_low = x < 0.5
    logarithm = _log_gamma(F.where(is_low, 1.0 - x, x))
    sine = F.abs(_sine(x))
    low = F.where(sine == 0.0, math.inf, math.log(math.pi) - F.log(sine) - logarithm)
    return F.where(F.abs(x) == math.inf, x, F.where(is_low, low, logarithm))


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
    return gap * SLOPE_PARTS + gap * _ratio(x - 1.0, NEAR_ROOT)


def _digamma(x: Any) -> Any:
    is_low = x < 0.5
    y, total = _climb(F.where(is_low, 1.0 - x, x), lambda total, x: total + 1.0 / x, 0.0)
    inverse = 1.0 / y
    square = inverse * inverse
    psi = F.log(y) - inverse * 0.5 - square * _polynomial(square, DIGAMMA) - total
    angle = (x - F.round(x)) * math.pi
    turn = F.where(angle == 0.0, math.nan, math.pi * F.cos(angle) / F.sin(angle))
    is_near = (x >= 1.0) & (x <= 2.0)
    psi = F.where(is_near, _digamma_one(F.where(is_near, x, 1.0)), psi)
    return F.where(x == 0.0, -1.0 / x, F.where(is_low, psi - turn, psi))


def _gammasgn(x: Any) -> Any:
    sign = F.sign(_sine(x))
    below = F.where(sign == 0.0, math.nan, sign)
    at_least = F.where(F.isnan(x), x, F.where(F.signbit(x), -1.0, 1.0))
    return F.where(F.signbit(x) & (x != 0.0), below, at_least)


def _gamma(x: Any) -> Any:
    """Return the gamma function: by products below 10, beyond by Stirling's series, powers of half the exponent at a time."""
    is_low = x < 0.5
    y = F.where(is_low, 1.0 - x, x)
    is_large = y > LARGE
    far = F.where(is_large, F.minimum(y, 200.0), LARGE)
    half = F.pow(far, far * 0.5 - 0.25)
    by_stirling = half * F.exp(-far) * half * (math.sqrt(2 * math.pi) * F.exp(_stirling(far)))
    is_small = y < 1.5
    d, product = _descend(F.where(is_large | is_small, 2.0, y))
    d = F.where(is_small, y - 1.0, d)
    near = F.exp(_log_gamma_two(d)) * product / F.where(is_small, y, 1.0)
    z = F.where(is_large, by_stirling, near)
    sine = _sine(x)
    low = F.where(x == 0.0, 1.0 / x, F.where(sine == 0.0, math.nan, math.pi / (sine * z)))
    return F.where(is_low, low, F.where(x == math.inf, x, z))


def _rgamma(x: Any) -> Any:
    is_pole = (x <= 0.0) & (F.floor(x) == x)
    near = F.where(F.abs(x) < TINY, x, 1.0 / _gamma(F.where(is_pole, 1.0, x)))  # whose gamma function may overflow
    return F.where(is_pole & (x != 0.0), 0.0, near)


# B(2 j) / (2 j)!, of the Euler-Maclaurin sum
BERNOULLI = (
    0.08333333333333333, -0.001388888888888889, 3.306878306878307e-05, -8.267195767195768e-07, 2.08767569878681e-08,
    -5.284190138687493e-10, 1.3382536530684679e-11, -3.3896802963225827e-13, 8.586062056277845e-15, -2.174868698558062e-16,
)  # fmt: skip


def _hurwitz(s: int, x: Any) -> Any:
    """Return the sum of ``(x + k)^-s`` over k from 0 on, of positive x (Johansson 2015, Euler-Maclaurin)."""
    total: Any = 0.0
    for k in range(LARGE):
        total = total + (x + float(k)) ** -s
    y = x + float(LARGE)
    inverse = 1.0 / y
    square, factor, tail = inverse * inverse, s * inverse, inverse * 0.0
    for j, b in enumerate(BERNOULLI):
        tail = tail + b * factor
        factor = factor * square * ((s + 2 * j + 1) * (s + 2 * j + 2))
    return total + y ** (1 - s) / (s - 1.0) + y**-s * (0.5 + tail)


def _polygamma(x: Any, *, n: int = 1) -> Any:
    """Return the n-th derivative of digamma: below 0 by that of ``psi(x) = psi(1 - x) - π cot πx``."""
    x = F.astype(x, DOUBLE)
    is_low = x < 0.0
    z = _hurwitz(n + 1, F.where(is_low, 1.0 - x, x)) * ((-1.0) ** (n + 1) * math.factorial(n))
    angle = (x - F.round(x)) * math.pi
    cotangent, terms = F.cos(angle) / F.sin(angle), np.polynomial.Polynomial((0.0, 1.0))
    for _ in range(n):
        terms = terms.deriv() * np.polynomial.Polynomial((-math.pi, 0.0, -math.pi))
    low = (-1.0) ** n * z - math.pi * _polynomial(cotangent, terms.coef.tolist())
    pole = (-1.0) ** (n + 1) * math.inf
    return F.where((x == -math.inf) | (x <= 0.0) & (angle == 0.0), pole, F.where(is_low, low, z))


# -- modified Bessel functions of the first kind, whole orders --
FAR_BESSEL = 25.0  # from where Hankel's expansion has all digits of the first orders


def _scaled_bessel(x: Any, n: int) -> Any:
    """Return ``exp(-x) I(n, x)`` for x from 0 on: by its power series, or Hankel's expansion (DLMF 10.25.2, 10.40.1)."""
    near, far = F.minimum(x, FAR_BESSEL), F.maximum(x, FAR_BESSEL)
    square = near * near * 0.25
    series = _polynomial(square, [1.0 / (math.factorial(k) * math.factorial(k + n)) for k in range(60)])
    terms, inverse = [1.0], 0.125 / far
    for k in range(1, 30):
        terms.append(terms[-1] * -(4 * n * n - (2 * k - 1) ** 2) / k)
    beyond = _polynomial(inverse, terms) / (math.sqrt(2 * math.pi) * F.sqrt(far))
    return F.where(x > FAR_BESSEL, beyond, F.exp(-near) * series * (near * 0.5) ** n)


def _bessel(is_scaled: bool) -> Callable[..., Any]:
    def formula(x: Any, *, v: float = 0.0) -> Any:
        x, n = F.astype(x, DOUBLE), int(v)
        size = F.abs(x)
        z = _scaled_bessel(size, n)
        z = z if is_scaled else z * F.exp(size)
        z = F.where(size == math.inf, 0.0 if is_scaled else math.nan, z)
        return z * F.where(x < 0.0, -1.0, 1.0) if n % 2 else z

    return formula


def _in_doubles(formula: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: formula(F.astype(x, DOUBLE))


Unary: TypeAlias = Callable[[Any], Any]
Binary: TypeAlias = Callable[[Any, Any], Any]
UNARY: dict[str, Unary] = {
    "acos": lambda x: F.atan(F.sqrt((1.0 - x) / (x + 1.0))) * 2.0,
    "acosh": _acosh,
    "asin": lambda x: F.atan(x / F.sqrt((1.0 - x) * (x + 1.0))),
    "asinh": _asinh,
    "atan": lambda x: F.atan2(x, 1.0),
    "atanh": _atanh,
    "cbrt": lambda x: F.copysign(F.pow(F.abs(x), 1 / 3), x),
    "cosh": _cosh,
    "deg2rad": lambda x: x * (math.pi / 180.0),
    "digamma": _in_doubles(_digamma),
    "erf": _in_doubles(_erf),
    "erfc": _in_doubles(_erfc),
    "erfcinv": _in_doubles(_erfcinv),
    "erfcx": _in_doubles(_erfcx),
    "erfinv": _in_doubles(_erfinv),
    "exp2": lambda x: F.pow(2.0, x),
    "expm1": _expm1,
    "gamma": _in_doubles(_gamma),
    "gammaln": _in_doubles(_gammaln),
    "gammasgn": _gammasgn,
    "isfinite": lambda x: F.abs(x) < math.inf if _is_float(x) else F.equal(x, x),
    "isinf": lambda x: F.abs(x) == math.inf if _is_float(x) else F.not_equal(x, x),
    "isnan": lambda x: F.not_equal(x, x),
    "log10": lambda x: F.log(x) / math.log(10.0),
    "log1p": _log1p,
    "log2": lambda x: F.log(x) / LOG_2,
    "log_ndtr": _in_doubles(_log_ndtr),
    "ndtr": _in_doubles(lambda x: _far_erfc(x / -ROOT_2) * 0.5),
    "ndtri": _in_doubles(_ndtri),
    "ndtri_exp": _in_doubles(_ndtri_exp),
    "positive": lambda x: x,
    "rad2deg": lambda x: x * (180.0 / math.pi),
    "reciprocal": lambda x: 1 / x,
    "rgamma": _in_doubles(_rgamma),
    "signbit": _signbit,
    "sinh": _sinh,
    "square": lambda x: x * x,
    "tan": lambda x: F.sin(x) / F.cos(x),
    "trunc": _trunc,
}
BINARY: dict[str, Binary] = {
    "atan2": _atan2,
    "copysign": lambda x, y: F.where(F.signbit(x) ^ F.signbit(y), -x, x),
    "floor_divide": _floor_divide,
    "hypot": _hypot,
    "logaddexp": _logaddexp,
    "logaddexp2": _logaddexp2,
    "remainder": _remainder,
}
FAMILIES: dict[str, Callable[..., Any]] = {
    "iv": _bessel(is_scaled=False),
    "ive": _bessel(is_scaled=True),
    "polygamma": _polygamma,
}
ORDERS = {"iv": range(9), "ive": range(9), "polygamma": range(1, 21)}  # of which families have formulas
FORMULAS: dict[str, Callable[..., Any]] = {**UNARY, **BINARY, **FAMILIES}
OF_COMPLEX = frozenset({"exp2", "isnan", "log10", "log2", "positive", "reciprocal", "square"})


# -- of whole numbers, and truth values --
def _same(x: Any) -> Any:
    return x


def _is_below_zero(x: Any) -> Any:
    return x < 0 if x.dtype.kind == "i" else F.not_equal(x, x)


WHOLE_UNARY: dict[str, Unary] = {
    "ceil": _same, "floor": _same, "isfinite": UNARY["isfinite"], "isinf": UNARY["isinf"], "isnan": UNARY["isnan"],
    "signbit": _is_below_zero, "trunc": _same,
}  # fmt: skip
TRUTH_BINARY: dict[str, Binary] = {
    "greater": lambda x, y: x & ~y, "greater_equal": lambda x, y: x | ~y, "less": lambda x, y: ~x & y,
    "less_equal": lambda x, y: ~x | y, "maximum": lambda x, y: x | y, "minimum": lambda x, y: x & y,
}  # fmt: skip
OF_TRUTH: dict[str, Callable[..., Any]] = {**WHOLE_UNARY, **TRUTH_BINARY, "abs": _same}
