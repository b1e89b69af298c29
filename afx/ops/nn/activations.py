"""Activations: ops of their own, for speed or for their derivative at a kink."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind1, bind2
from afx.ops._kinds.elementwise import binary, unary
from afx.ops._kinds.special import scipy
from afx.ops.elementwise.exponential import exp, sigmoid
from afx.ops.elementwise.where import clip, where
from afx.ops.special.errors import density, ndtr

__all__: list[str] = []


def relu(x: ArrayLike) -> Array:
    """Return x where it is positive, 0 elsewhere; the derivative at 0 is 0.

    >>> relu(-1.0)
    Array(0., dtype=float32)
    """
    return bind1(relu_p, x)


def _relu_run(x: Any) -> Any:
    return np.maximum(x, 0)


relu_p: Primitive = unary(
    "relu",
    _relu_run,
    lambda _z, x: (x > 0).astype(x.dtype),
    kinds="iuf",
    masks_cotangent=True,
    finite_partials=True,
    smooth=False,
    traceable=True,
)


def elu(x: ArrayLike) -> Array:
    """Return x where it is positive, ``exp(x) - 1`` elsewhere.

    >>> elu(1.0)
    Array(1., dtype=float32)
    """
    return bind1(elu_p, x)


def _elu_run(x: Any) -> Any:
    return np.maximum(x, 0) + np.expm1(np.minimum(x, 0))


def _elu_slope(_z: Array, x: Array) -> Array:
    return exp(where(x > 0, 0, x))


elu_p: Primitive = unary(
    "elu", _elu_run, _elu_slope, kinds="f", promotes_to_float=True, finite_partials=True, traceable=True
)


# Beyond these bounds an activation is the identity or 0 to the last digit, in every dtype. Clipping there costs nothing
# in accuracy, and keeps infinity times zero (and the overflow of powers) out of the formulas.
SILU_BOUND = 1e4
GELU_BOUND = 40.0


def silu(x: ArrayLike) -> Array:
    """Return ``x · sigmoid(x)``, also called swish (Elfwing et al. 2018).

    >>> silu(1.0).round(4)
    Array(0.7311, dtype=float32)
    """
    return bind1(silu_p, x)


def _silu_run(x: Any) -> Any:
    bounded = np.maximum(x, -SILU_BOUND)
    with np.errstate(over="ignore"):  # exp = inf gives 0
        return bounded / (1 + np.exp(bounded * -1.0))


def _silu_slope(_z: Array, x: Array) -> Array:
    return sigmoid(x) + clip(x, -SILU_BOUND, SILU_BOUND) * (sigmoid(x) * sigmoid(-x))


silu_p: Primitive = unary(
    "silu", _silu_run, _silu_slope, kinds="f", promotes_to_float=True, finite_partials=True, traceable=True
)


def gelu_tanh(x: ArrayLike) -> Array:
    """Return ``½x(1 + tanh(√(2/π)(x + 0.044715x³)))``, within 5e-4 of ``x · Φ(x)`` (Hendrycks & Gimpel 2016)."""
    return bind1(gelu_tanh_p, x)


RATE = 2 * math.sqrt(2 / math.pi)  # ½(1 + tanh(v)) is sigmoid(2v)
CUBE = 0.044715


def _gelu_tanh_run(x: Any) -> Any:
    u = np.clip(x * 1.0, -GELU_BOUND, GELU_BOUND)
    with np.errstate(over="ignore"):  # exp = inf gives 0
        return np.maximum(x, -GELU_BOUND) / (1 + np.exp(u * (u * u * (-RATE * CUBE) - RATE)))


def _gelu_tanh_slope(_z: Array, x: Array) -> Array:
    u = clip(x, -GELU_BOUND, GELU_BOUND)
    v = u * (u * u * (RATE * CUBE) + RATE)
    return sigmoid(v) + u * (sigmoid(v) * sigmoid(-v)) * (u * u * (3 * RATE * CUBE) + RATE)


gelu_tanh_p: Primitive = unary(
    "gelu_tanh",
    _gelu_tanh_run,
    _gelu_tanh_slope,
    kinds="f",
    promotes_to_float=True,
    finite_partials=True,
    traceable=True,
)


def gelu_exact(x: ArrayLike) -> Array:
    """Return ``x · Φ(x)`` with the exact normal distribution function Φ; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.
    """
    return bind1(gelu_p, x)


def _gelu_run(x: Any) -> Any:
    return np.maximum(x, -GELU_BOUND) * _ndtr(x)


_ndtr = scipy("ndtr", "gelu: the exact form needs SciPy: pip install 'afx[scipy]', or approximate=True")


def _gelu_slope(_z: Array, x: Array) -> Array:
    return ndtr(x) + clip(x, -GELU_BOUND, GELU_BOUND) * density(x)


gelu_p: Primitive = unary(
    "gelu", _gelu_run, _gelu_slope, kinds="f", promotes_to_float=True, finite_partials=True, traceable=True
)


def scale_kept(x: ArrayLike, scale: ArrayLike) -> Array:
    """Return ``x * scale``, and 0 where the scale is 0, even of infinities: no cotangent needs a mask then.

    >>> scale_kept(math.inf, 0.0)
    Array(0., dtype=float32)
    """
    return bind2(scale_kept_p, x, scale)


def _scale_kept_run(x: Any, scale: Any) -> Any:
    return np.where(scale != 0, x, 0) * scale


scale_kept_p: Primitive = binary(
    "scale_kept",
    _scale_kept_run,
    (lambda _z, _x, scale: scale, lambda _z, x, scale: where(scale != 0, x, 0)),
    kinds="fc",
    promotes_to_float=True,
    traceable=True,
)
