"""Special functions: error and gamma functions, computed in float64, and products with logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from afx.export.onnx.elementwise import log1p, signbit
from afx.export.onnx.table import formulas
from afx.export.onnx.value import Value, where

__all__: list[str] = []

DOUBLE = np.dtype(np.float64)
ROOT_2, LOG_2PI = math.sqrt(2.0), math.log(2 * math.pi)


# -- error functions --
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


def _polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    found: Value | float = coefficients[-1]
    for c in coefficients[-2::-1]:
        found = x * found + c
    assert isinstance(found, Value)
    return found


def _scaled_tail(x: Value) -> Value:
    """Return ``exp(x²) erfc(x)`` of a number that is not negative."""
    size = where(x < 1e300, x, 1e300)
    return _polynomial((size - 2.0) / (size + 2.0), ERFC) / (2.0 * size + 1.0)


def _erfc(x: Value) -> Value:
    size = abs(x)
    tail = (-(x * x)).op("Exp") * _scaled_tail(where(x.is_nan(), 0.0, size))
    tail = where(x.is_nan(), x, tail)
    return where(x < 0.0, 2.0 - tail, tail)


def _erf(x: Value) -> Value:
    near = x * _polynomial(where(abs(x) < 0.5, x * x, 0.0), ERF)
    tail = _erfc(abs(x))
    return where(abs(x) < 0.5, near, x.op("Sign") * (1.0 - tail))


def _whole_erfc(x: Value) -> Value:
    return where(abs(x) < 0.5, 1.0 - _erf(x), _erfc(x))


def _erfcx(x: Value) -> Value:
    y = x.cast(DOUBLE)
    tail = _scaled_tail(where(y.is_nan(), 0.0, abs(y)))
    return where(y.is_nan(), y, where(y < 0.0, 2.0 * (y * y).op("Exp") - tail, tail))


def _log_ndtr(x: Value) -> Value:
    y = x.cast(DOUBLE)
    low = where(y < -1.0, y, -1.0)
    below = _scaled_tail(low / -ROOT_2).op("Log") - math.log(2.0) - low * low * 0.5
    return where(y < -1.0, below, log1p(_erfc(y / ROOT_2) * -0.5))


# -- gamma functions: Stirling's series where the argument is large, reached by recurrence; reflection below 0 --
LARGE = 10
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def _reflect(x: Value) -> tuple[Value, Value]:
    """Return where x is below 1/2, and the argument or its reflection there."""
    is_low = x < 0.5
    return is_low, where(is_low, 1.0 - x, x)


def _log_gamma(y: Value) -> Value:
    product: Value | None = None
    for _ in range(LARGE):
        factor = where(y < float(LARGE), y, 1.0)
        product = factor if product is None else product * factor
        y = y + where(y < float(LARGE), 1.0, y.writer.number(0.0, DOUBLE))
    assert product is not None
    inverse = 1.0 / y
    series = inverse * _polynomial(inverse * inverse, STIRLING)
    return (y - 0.5) * y.op("Log") - y + LOG_2PI / 2 + series - product.op("Log")


def _sine(x: Value) -> Value:
    """Return ``sin(pi x)``, exactly 0 of integers."""
    nearest = x.op("Round")
    is_even = nearest.op("Mod", 2.0, fmod=1).equals(0.0)
    sine = ((x - nearest) * math.pi).op("Sin")
    return where(is_even, sine, -sine)


def _gammaln(x: Value) -> Value:
    is_low, y = _reflect(x)
    found = _log_gamma(y)
    low = math.log(math.pi) - abs(_sine(x)).op("Log") - found
    return where(abs(x).equals(math.inf), x, where(is_low, low, found))


def _digamma(x: Value) -> Value:
    z = x.cast(DOUBLE)
    is_low, y = _reflect(z)
    total: Value | None = None
    for _ in range(LARGE):
        part = where(y < float(LARGE), 1.0 / y, 0.0)
        total = part if total is None else total + part
        y = y + where(y < float(LARGE), 1.0, y.writer.number(0.0, DOUBLE))
    assert total is not None
    inverse = 1.0 / y
    square = inverse * inverse
    found = y.op("Log") - inverse * 0.5 - square * _polynomial(square, DIGAMMA) - total
    angle = (z - z.op("Round")) * math.pi
    turn = where(angle.equals(0.0), math.nan, math.pi * angle.op("Cos") / angle.op("Sin"))
    return where(z.equals(0.0), -1.0 / z, where(is_low, found - turn, found))


def _gammasgn(x: Value) -> Value:
    sign = _sine(x).op("Sign")
    return where(
        signbit(x) & ~x.equals(0.0),
        where(sign.equals(0.0), math.nan, sign),
        where(x.is_nan(), x, where(signbit(x), -1.0, x.writer.number(1.0, x.dtype))),
    )


def _divergence(x: Value, y: Value, at_zero: Value, rest: Value) -> Value:
    """Return x log(x / y) and a rest, another value where x is 0, and inf where one is negative or y alone is 0."""
    ratio = x / y
    is_lost = (ratio < float(np.finfo(x.dtype).tiny)) | ratio.equals(math.inf)
    logarithm = where(is_lost, x.op("Log") - y.op("Log"), ratio.op("Log"))
    found = where(x.equals(0.0), at_zero, x * logarithm + rest)
    return where((x < 0.0) | (y < 0.0) | ((x > 0.0) & y.equals(0.0)), math.inf, found)


UNARY: dict[str, Callable[[Value], Value]] = {
    "erf": lambda x: x.op("Erf") if x.dtype != DOUBLE else _erf(x),
    "erfc": lambda x: _whole_erfc(x.cast(DOUBLE)),
    "erfcx": _erfcx,
    "ndtr": lambda x: _erfc(x.cast(DOUBLE) / -ROOT_2) * 0.5,
    "log_ndtr": _log_ndtr,
    "gammaln": lambda x: _gammaln(x.cast(DOUBLE)),
    "gammasgn": _gammasgn,
    "digamma": _digamma,
    "entr": lambda x: where(x.equals(0.0), 0.0, where(x < 0.0, -math.inf, -(x * x.op("Log")))),
}
BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "xlogy": lambda x, y: where(x.equals(0.0) & ~y.is_nan(), 0.0, x * y.op("Log")),
    "xlog1py": lambda x, y: where(x.equals(0.0) & ~y.is_nan(), 0.0, x * log1p(y)),
    "rel_entr": lambda x, y: _divergence(x, y, where(y.is_nan(), y, 0.0), x.writer.number(0.0, x.dtype)),
    "kl_div": lambda x, y: _divergence(x, y, y, y - x),
}
formulas(UNARY)
formulas(BINARY)
