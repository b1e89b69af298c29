"""Stirling's series: logarithms of gamma and beta functions in which no large numbers cancel, on bare float64 values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.ops._kinds.special import scipy

__all__ = ["HALF_LOG_2PI", "log_beta", "stirling"]

FAR = 100.0  # from here on logarithms of gamma functions cancel in that of the beta function
SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_where: Any = np.where  # its result type is not known to checkers


def stirling(a: Any) -> Any:
    """Return the logarithm of the gamma function less ``(a - ½) log a - a + ½ log 2π``."""
    far = a > 12
    inverse = 1 / _where(far, a, math.inf)
    total = np.zeros_like(inverse)
    for coefficient in reversed(SERIES):
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
