"""Relative tails: gamma and beta integrals over their integrands, finite where the integrals underflow.

The gamma integral is taken over log t, the beta integral over the log-odds of t. From x to the near end of that axis it
is the integrand at x times a tail. The tail's logarithm and its moments, the derivatives, come from Gauss's rule on the
interval where the integrand is not negligible, as in `afx.ops.special._incomplete`.

Everything here takes and gives float64 arrays of one shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from afx.ops.special._incomplete import beta_front, beta_logs, beta_width, gamma_front, gamma_width
from afx.ops.special._quadrature import integral

__all__ = ["beta_tail", "gamma_tail", "log_of_share"]

DEEP = 1e-200  # shares below this are computed as the integrand times a tail
_where: Any = np.where  # its result type is not known to checkers


def _tail(log_weight: Callable[..., Any], moment: Callable[..., Any] | None, width: Any, *xs: Any) -> Any:
    """Return the mean of ``moment`` under the weight, or the logarithm of the weight's integral where there is none."""

    def weight(u: Any, width: Any, *ys: Any) -> Any:
        return np.exp(log_weight(u * width, *ys))

    def weighted(u: Any, width: Any, *ys: Any) -> Any:
        assert moment
        return weight(u, width, *ys) * moment(u * width, *ys)

    total = integral(weight, width, *xs)
    return integral(weighted, width, *xs) / total if moment else np.log(width * total)


def gamma_tail(a: Any, x: Any, *, upper: bool, m: int, n: int) -> Any:
    """Return the mean of ``sᵐ (1 - eˢ)ⁿ`` under ``exp(a s - x (eˢ - 1))``, s from 0 to infinity, or to -infinity.

    Without powers it is the logarithm of the weight's integral, the tail.
    """
    sign = 1.0 if upper else -1.0

    def log_weight(v: Any, a: Any, x: Any) -> Any:
        return a * (sign * v) - x * np.expm1(sign * v)

    def moment(v: Any, _a: Any, _x: Any) -> Any:
        return (sign * v) ** m * (-np.expm1(sign * v)) ** n

    return _tail(log_weight, moment if m or n else None, gamma_width(a, x, sign), a, x)


def beta_tail(a: Any, b: Any, x: Any, *, upper: bool, m: int, n: int) -> Any:
    """Return the mean of ``log(t / x)ᵐ log((1 - t) / (1 - x))ⁿ`` under ``(t / x)ᵃ ((1 - t) / (1 - x))ᵇ``.

    The log-odds of t run from those of x to infinity, or to -infinity. Without powers it is the logarithm of the
    weight's integral, the tail. It is nan unless a, b > 0 and 0 < x < 1.
    """

    def log_weight(v: Any, a: Any, b: Any, x: Any) -> Any:
        first, second = beta_logs(x, not upper, v)
        return a * first + b * second

    def moment(v: Any, _a: Any, _b: Any, x: Any) -> Any:
        first, second = beta_logs(x, not upper, v)
        return first**m * second**n

    z = _tail(log_weight, moment if m or n else None, beta_width(a, b, x, not upper), a, b, x)
    return _where((a > 0) & (b > 0) & (x > 0) & (x < 1), z, np.nan)


def log_of_share(upper: bool, share: Any, rest: Any, *xs: Any) -> Any:
    """Return the logarithm of an incomplete function from its value, that of its complement, and its operands."""
    z = _where(share > 0.5, np.log1p(-rest), np.log(share))
    *parameters, x = xs
    inside = (x > 0) & (x < (1 if len(parameters) == 2 else np.inf))
    for parameter in parameters:
        inside &= (parameter > 0) & (parameter < np.inf)
    deep = (share < DEEP) & inside
    if deep.any():
        chosen = [y[deep] for y in xs]
        front, tail = (gamma_front, gamma_tail) if len(chosen) == 2 else (beta_front, beta_tail)
        z[deep] = front(*chosen) + tail(*chosen, upper=upper, m=0, n=0)
    return z
