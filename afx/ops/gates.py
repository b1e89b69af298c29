"""Gates: activations that are ops of their own, for speed or for their derivative at a kink."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np

from afx.core.array import Array, ArrayLike
from afx.core.tracer import bind1
from afx.errors import MissingExtraError
from afx.ops._kinds import unary
from afx.ops.exponential import exp

__all__: list[str] = []


def relu(x: ArrayLike) -> Array:
    """Return x where it is positive, 0 elsewhere; the derivative at 0 is 0.

    >>> relu(-1.0)
    Array(0., dtype=float32)
    """
    return bind1(relu_p, x)


def _relu_run(x: Any) -> Any:
    return np.maximum(x, 0)


def _relu_slope(_z: Array, x: Array) -> Array:
    return (x > 0).astype(x.dtype)


relu_p = unary("relu", _relu_run, _relu_slope, kinds="iuf", masking=True, bounded=True, smooth=False)


def gelu_exact(x: ArrayLike) -> Array:
    """Return ``x · Φ(x)`` with the exact normal distribution function Φ; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.
    """
    return bind1(gelu_p, x)


def _gelu_run(x: Any) -> Any:
    return x * _ndtr(x)


def _ndtr(x: Any) -> Any:
    try:
        special: Any = importlib.import_module("scipy.special")
    except ImportError as error:
        raise MissingExtraError(
            "gelu: the exact form needs SciPy: pip install 'afx[scipy]', or approximate=True"
        ) from error
    return special.ndtr(x)


def normal_cdf(x: ArrayLike) -> Array:
    """Return the normal distribution function; needs the extra ``scipy``."""
    return bind1(normal_cdf_p, x)


def _density(_z: Array, x: Array) -> Array:
    return exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


normal_cdf_p = unary("normal_cdf", _ndtr, _density, kinds="f", floating=True, bounded=True)


def _gelu_slope(_z: Array, x: Array) -> Array:
    return normal_cdf(x) + x * _density(x, x)


gelu_p = unary("gelu", _gelu_run, _gelu_slope, kinds="f", floating=True, bounded=True)
