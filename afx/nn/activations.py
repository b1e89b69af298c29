"""Activations."""

from __future__ import annotations

from afx.core.array.array import Array, ArrayLike
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import multiply
from afx.ops.elementwise.where import where
from afx.ops.nn import activations as gates
from afx.ops.nn.activations import gelu_exact, gelu_tanh, relu, silu
from afx.ops.nn.softmax import log_softmax, softmax

__all__ = ["elu", "gelu", "leaky_relu", "log_softmax", "relu", "silu", "softmax"]


def leaky_relu(x: ArrayLike, slope: float = 0.01) -> Array:
    """Return x where it is positive, ``slope · x`` elsewhere; the derivative at 0 is ``slope``.

    >>> leaky_relu(asarray([-1.0, 1.0]))
    Array([-0.01,  1.  ], dtype=float32)
    """
    return where(asarray(x) > 0, x, multiply(x, slope))


def elu(x: ArrayLike, alpha: float = 1.0) -> Array:
    """Return x where it is positive, ``alpha · (exp(x) - 1)`` elsewhere (Clevert et al. 2016); the slope at 0 is alpha.

    >>> elu(asarray([0.0, 1.0]))
    Array([0., 1.], dtype=float32)
    """
    z = gates.elu(x)
    return z if alpha == 1.0 else where(z > 0, z, alpha * z)


def gelu(x: ArrayLike, *, approximate: bool = True) -> Array:
    """Return ``x · Φ(x)``, where Φ is the normal distribution function (Hendrycks & Gimpel 2016).

    Args:
        x: any shape.
        approximate: by ``½x(1 + tanh(√(2/π)(x + 0.044715x³)))``, within 5e-4; else exactly, with the error function.

    >>> gelu(1.0).round(4)
    Array(0.8412, dtype=float32)
    """
    return gelu_tanh(x) if approximate else gelu_exact(x)
