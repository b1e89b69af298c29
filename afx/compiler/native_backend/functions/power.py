"""Powers and lengths of floats, by doubles: pow as ``2^(y·log2 x)``, hypot as a square root."""

from __future__ import annotations

from afx.compiler.native_backend.functions.exponential import INFINITY, LOG2E, clamp, exp2_single
from afx.compiler.native_backend.functions.lanes import Lanes, bits_of
from afx.compiler.native_backend.functions.logarithm import LOG, log_is_hard, split

__all__ = ["hypot", "hypot_is_hard", "power", "power_is_hard"]

FAR = 126.0  # beyond, the result may be denormal or overflow


def _exponent(x: Lanes, y: Lanes) -> Lanes:
    """Return ``y · log2(x)`` of positive floats x, as a double; of infinite y 0, which raises no flag."""
    y = _is_large(y).choose(y.constant(0.0), y)
    k, m = split(x.widen())
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    half = f * f * 0.5
    log = f - (half - s * (half + z * z.polynomial(LOG)))
    return y.widen() * log.fma(LOG2E, k.to_float())


def power_is_hard(x: Lanes, y: Lanes) -> Lanes:
    """Tell where x is no positive finite number, y is not finite, or the result is of extreme size."""
    far = (_exponent(x, y).bits() << 1).compare("uge", bits_of("double", FAR) << 1)
    return log_is_hard(x) | _is_large(y) | far


def power(x: Lanes, y: Lanes) -> Lanes:
    """Return ``x ** y`` of floats."""
    return exp2_single(clamp(_exponent(x, y), -FAR, FAR)).narrow("float")


def hypot_is_hard(x: Lanes, y: Lanes) -> Lanes:
    """Tell where an operand is infinite or nan."""
    return _is_large(x) | _is_large(y)


def _is_large(x: Lanes) -> Lanes:
    """Tell where a float is infinite or nan."""
    return (x.bits() << 1).compare("uge", INFINITY["float"] << 1)


def hypot(x: Lanes, y: Lanes) -> Lanes:
    """Return ``sqrt(x² + y²)`` of floats."""
    a, b = x.widen(), y.widen()
    return (a * a + b * b).unary("sqrt").rounded()
