"""Activations."""

from __future__ import annotations

import math

from afx.core.array import Array, ArrayLike
from afx.ops.arithmetic import multiply, subtract
from afx.ops.creation import asarray
from afx.ops.exponential import exp, expm1, sigmoid
from afx.ops.gates import gelu_exact, relu
from afx.ops.moments import logsumexp
from afx.ops.selection import minimum, where

__all__ = ["elu", "gelu", "leaky_relu", "log_softmax", "relu", "silu", "softmax"]


def leaky_relu(x: ArrayLike, slope: float = 0.01) -> Array:
    """Return x where it is positive, ``slope · x`` elsewhere; the derivative at 0 is ``slope``.

    >>> leaky_relu(asarray([-1.0, 1.0]))
    Array([-0.01,  1.  ], dtype=float32)
    """
    return where(asarray(x) > 0, x, multiply(x, slope))


def elu(x: ArrayLike, alpha: float = 1.0) -> Array:
    """Return x where it is positive, ``alpha · (exp(x) - 1)`` elsewhere (Clevert et al. 2016).

    >>> elu(asarray([0.0, 1.0]))
    Array([0., 1.], dtype=float32)
    """
    y = asarray(x)
    return where(y > 0, y, alpha * expm1(minimum(y, 0.0)))


def silu(x: ArrayLike) -> Array:
    """Return ``x · sigmoid(x)``, also called swish (Elfwing et al. 2018).

    >>> silu(0.0)
    Array(0., dtype=float32)
    """
    return multiply(x, sigmoid(x))


def gelu(x: ArrayLike, *, approximate: bool = True) -> Array:
    """Return ``x · Φ(x)``, where Φ is the normal distribution function (Hendrycks & Gimpel 2016).

    Args:
        x: any shape.
        approximate: by ``½x(1 + tanh(√(2/π)(x + 0.044715x³)))``, within 5e-4; else exactly, with the error function.

    >>> gelu(0.0)
    Array(0., dtype=float32)
    """
    if not approximate:
        return gelu_exact(x)
    y = asarray(x)
    return y * sigmoid(2 * math.sqrt(2 / math.pi) * (y + 0.044715 * y * y * y))


def softmax(x: ArrayLike, axis: int = -1) -> Array:
    """Return ``exp(x) / sum(exp(x))`` along an axis, without overflow.

    Elements that are -inf have the share 0; a row of them alone has no share to give, and is nan.

    >>> softmax(asarray([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    return exp(log_softmax(x, axis))


def log_softmax(x: ArrayLike, axis: int = -1) -> Array:
    """Return ``x - log(sum(exp(x)))`` along an axis, without overflow.

    >>> log_softmax(asarray([0.0, 0.0]))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    return subtract(x, logsumexp(x, axis, keepdims=True))
