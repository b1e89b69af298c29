"""Complex formulas: operations in terms of the parts of numbers, for code that computes with real numbers alone."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, TypeAlias

from afx.core.registry import FUNCTIONS

F: Any = FUNCTIONS
LOG_2 = math.log(2.0)
Parts: TypeAlias = tuple[Any, Any]


def _times(x: Parts, y: Parts) -> Parts:
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


def _over(x: Parts, y: Parts) -> Parts:
    """Return the quotient by Smith's formula (1962), as NumPy does."""
    (a, b), (c, d) = x, y
    is_wide = F.abs(c) >= F.abs(d)
    top, low = F.where(is_wide, c, d), F.where(is_wide, d, c)
    is_zero = top == 0.0
    ratio = low / F.where(is_zero, 1.0, top)
    scale = 1.0 / (top + low * ratio)
    first, second = F.where(is_wide, a, b), F.where(is_wide, b, a)
    imaginary = F.where(is_wide, b - a * ratio, b * ratio - a)
    size = F.abs(c)
    return F.where(is_zero, a / size, (first + second * ratio) * scale), F.where(is_zero, b / size, imaginary * scale)


def _exp_parts(x: Parts) -> Parts:
    """Return ``exp(x)``, by halves of the exponent, so that a part overflows where it is infinite alone."""
    a, b = x
    b = F.where(a == -math.inf, 0.0, b)
    half = F.exp(a * 0.5)
    is_real = b == 0.0
    return half * (half * F.where(is_real, 1.0, F.cos(b))), F.where(is_real, b, half * (half * F.sin(b)))


def _log_size(x: Parts) -> Any:
    """Return ``log |x|``: near 1 by log1p."""
    a, b = F.abs(x[0]), F.abs(x[1])
    top, low, size = F.maximum(a, b), F.minimum(a, b), F.hypot(a, b)
    is_near = (size > 0.5) & (size < 2.0)
    gap = F.where(is_near, (top - 1.0) * (top + 1.0) + low * low, 0.0)
    return F.where(is_near, 0.5 * F.log1p(gap), F.log(size))


def _log_parts(x: Parts) -> Parts:
    return _log_size(x), F.atan2(x[1], x[0])


def _log1p_parts(x: Parts) -> Parts:
    a, b = x
    gap = a * (a + 2.0) + b * b
    is_near = F.abs(gap) < 0.5
    return F.where(is_near, 0.5 * F.log1p(F.where(is_near, gap, 0.0)), _log_size((a + 1.0, b))), F.atan2(b, a + 1.0)


def _expm1_parts(x: Parts) -> Parts:
    a, b = x
    sine = F.sin(b * 0.5)
    return F.expm1(a) * F.cos(b) - 2.0 * sine * sine, _exp_parts(x)[1]


def _sqrt_parts(x: Parts) -> Parts:
    a, b = x
    size = 2.0 * F.sqrt(F.abs(a) * 0.125 + F.hypot(a * 0.125, b * 0.125))
    other = F.where(
        F.abs(b) == math.inf, math.inf, F.where(size == 0.0, 0.0, F.abs(b) * 0.5 / F.where(size == 0.0, 1.0, size))
    )
    is_right = a >= 0.0
    return F.where(is_right, size, other), F.copysign(F.where(is_right, other, size), b)


def _power_parts(x: Parts, y: Parts) -> Parts:
    """Return ``exp(y log x)``: of 0, what it is."""
    z = _exp_parts(_times(y, _log_parts(x)))
    is_zero = (x[0] == 0.0) & (x[1] == 0.0)
    at_zero = F.where((y[0] == 0.0) & (y[1] == 0.0), 1.0, F.where(y[0] > 0.0, 0.0, math.nan))
    return F.where(is_zero, at_zero, z[0]), F.where(is_zero, at_zero * 0.0, z[1])


def _sinh_parts(x: Parts) -> Parts:
    return F.sinh(x[0]) * F.cos(x[1]), F.cosh(x[0]) * F.sin(x[1])


def _cosh_parts(x: Parts) -> Parts:
    return F.cosh(x[0]) * F.cos(x[1]), F.sinh(x[0]) * F.sin(x[1])


def _tanh_parts(x: Parts) -> Parts:
    """Return ``tanh(x)`` in Kahan's form (1987)."""
    a, b = x
    is_far = F.abs(a) > 20.0
    near = F.where(is_far, 0.0, a)
    tangent, sine = F.tan(b), F.sinh(near)
    beta = 1.0 + tangent * tangent
    below = 1.0 + beta * sine * sine
    real, rest = beta * F.sqrt(1.0 + sine * sine) * sine / below, 4.0 * F.sin(b) * F.cos(b) * F.exp(-2.0 * F.abs(a))
    return F.where(is_far, F.sign(a), real), F.where(is_far, rest, tangent / below)


def _turned(function: Callable[[Parts], Parts]) -> Callable[[Parts], Parts]:
    """Return the function ``-i f(i x)``."""

    def turned(x: Parts) -> Parts:
        a, b = function((-x[1], x[0]))
        return b, -a

    return turned


def _roots(x: Parts) -> tuple[Parts, Parts]:
    """Return ``√(1 + x)`` and ``√(1 - x)``."""
    return _sqrt_parts((1.0 + x[0], x[1])), _sqrt_parts((1.0 - x[0], -x[1]))


def _asin_parts(x: Parts) -> Parts:
    """Return the arc sine, as the next ones in Kahan's form (1987)."""
    (a, b), (c, d) = _roots(x)
    return F.atan2(x[0], a * c - b * d), F.asinh(c * b - d * a)


def _acos_parts(x: Parts) -> Parts:
    (a, b), (c, d) = _roots(x)
    return 2.0 * F.atan2(c, a), F.asinh(a * d - b * c)


def _acosh_parts(x: Parts) -> Parts:
    (a, b), (c, d) = _sqrt_parts((x[0] + 1.0, x[1])), _sqrt_parts((x[0] - 1.0, x[1]))
    return F.asinh(c * a + d * b), 2.0 * F.atan2(d, a)


def _atanh_parts(x: Parts) -> Parts:
    a, b = x
    gap = (1.0 - a) * (1.0 - a) + b * b
    return 0.25 * F.log1p(4.0 * a / gap), 0.5 * F.atan2(2.0 * b, (1.0 - a) * (1.0 + a) - b * b)


def _scaled_log(factor: float) -> Callable[[Parts], Parts]:
    return lambda x: (_log_size(x) * factor, F.atan2(x[1], x[0]) * factor)


def _sign_parts(x: Parts) -> Parts:
    size = F.hypot(*x)
    size = F.where(size == 0.0, 1.0, size)
    return x[0] / size, x[1] / size


def _ordered(compare: Callable[[Any, Any], Any]) -> Callable[[Parts, Parts], Any]:
    return lambda x, y: F.where(x[0] == y[0], compare(x[1], y[1]), compare(x[0], y[0]))


def truth(x: Parts) -> Any:
    """Tell where numbers are not 0."""
    return (x[0] != 0.0) | (x[1] != 0.0)


def each_part(function: Callable[..., Any]) -> Callable[..., Parts]:
    """Return a function of parts that does the same with both of them."""
    return lambda *xs, **params: (function(*[a for a, _ in xs], **params), function(*[b for _, b in xs], **params))


def _exp2_parts(x: Parts) -> Parts:
    return _exp_parts((x[0] * LOG_2, x[1] * LOG_2))


def _inverse(x: Parts) -> Parts:
    return _over((x[0] * 0.0 + 1.0, x[1] * 0.0), x)


def _square_parts(x: Parts) -> Parts:
    return _times(x, x)


def _cos_parts(x: Parts) -> Parts:
    return _cosh_parts((-x[1], x[0]))


IN_PARTS: dict[str, Callable[..., Parts]] = {  # whose results are complex
    "acos": _acos_parts, "acosh": _acosh_parts, "add": each_part(operator.add), "asin": _asin_parts,
    "asinh": _turned(_asin_parts), "atan": _turned(_atanh_parts), "atanh": _atanh_parts, "complex_exp2": _exp2_parts,
    "complex_expm1": _expm1_parts, "cos": _cos_parts, "cosh": _cosh_parts, "divide": _over, "exp": _exp_parts,
    "exp2": _exp2_parts, "expm1": _expm1_parts, "log": _log_parts, "log10": _scaled_log(1 / math.log(10.0)),
    "log1p": _log1p_parts, "log2": _scaled_log(1 / LOG_2), "multiply": _times, "negative": each_part(operator.neg),
    "positive": each_part(operator.pos), "pow": _power_parts, "reciprocal": _inverse, "round": each_part(F.round),
    "sign": _sign_parts, "sin": _turned(_sinh_parts), "sinh": _sinh_parts, "sqrt": _sqrt_parts, "square": _square_parts,
    "subtract": each_part(operator.sub), "tan": _turned(_tanh_parts), "tanh": _tanh_parts,
}  # fmt: skip
ONE_REAL: dict[str, Callable[[Parts], Any]] = {
    "abs": lambda x: F.hypot(*x),
    "isfinite": lambda x: F.isfinite(x[0]) & F.isfinite(x[1]),
    "isinf": lambda x: F.isinf(x[0]) | F.isinf(x[1]),
    "isnan": lambda x: F.isnan(x[0]) | F.isnan(x[1]),
    "logical_not": lambda x: ~truth(x),
}
TWO_REAL: dict[str, Callable[[Parts, Parts], Any]] = {
    "equal": lambda x, y: (x[0] == y[0]) & (x[1] == y[1]),
    "greater": _ordered(operator.gt),
    "greater_equal": _ordered(operator.ge),
    "less": _ordered(operator.lt),
    "less_equal": _ordered(operator.le),
    "logical_and": lambda x, y: truth(x) & truth(y),
    "logical_or": lambda x, y: truth(x) | truth(y),
    "logical_xor": lambda x, y: truth(x) ^ truth(y),
    "not_equal": lambda x, y: (x[0] != y[0]) | (x[1] != y[1]),
}
OF_PARTS: dict[str, Callable[..., Any]] = {**ONE_REAL, **TWO_REAL}  # whose results are real
