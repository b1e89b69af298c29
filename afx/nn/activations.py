"""Activations: elementwise functions between layers, and shares of an axis."""

from __future__ import annotations

from afx.core import Array, ArrayLike, Tracer, aval_of, normalize_axis
from afx.errors import ArgumentError, ShapeError
from afx.ops import asarray, clip, isinf, maximum, sigmoid, softplus, split, tanh, where
from afx.ops.elementwise.arithmetic import abs as abs_, hypot, multiply, sign, sqrt
from afx.ops.nn import activations as ops
from afx.ops.nn.activations import gelu_exact, gelu_tanh, relu

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "mish",
    "relu6",
    "selu",
    "soft_sign",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
]


def leaky_relu(x: ArrayLike, slope: ArrayLike = 0.01) -> Array:
    """Return x where it is positive, ``slope · x`` elsewhere; the derivative at 0 is ``slope``.

    A slope that is an array is learned with the rest (PReLU, He et al. 2015).

    >>> leaky_relu(afx.asarray([-1.0, 1.0]))
    Array([-0.01,  1.  ], dtype=float32)
    """
    return where(asarray(x) > 0, x, multiply(x, slope))


def elu(x: ArrayLike, alpha: float = 1.0) -> Array:
    """Return x where it is positive, ``alpha · (exp(x) - 1)`` elsewhere (Clevert et al. 2016); the slope at 0 is alpha.

    >>> elu(afx.asarray([0.0, 1.0]))
    Array([0., 1.], dtype=float32)
    """
    z = ops.elu(x)
    return z if alpha == 1.0 else where(z > 0, z, alpha * z)


def celu(x: ArrayLike, alpha: float = 1.0) -> Array:
    """Return x where it is positive, ``alpha · (exp(x / alpha) - 1)`` elsewhere (Barron 2017): slope 1 at 0.

    >>> celu(afx.asarray([0.0, 1.0]), 2.0)
    Array([0., 1.], dtype=float32)
    """
    if not isinstance(alpha, Tracer) and not alpha > 0:
        raise ArgumentError(f"celu: alpha is positive: got {alpha}; use relu for the limit at 0")
    y = asarray(x)
    return where(y > 0, y, alpha * ops.elu(where(y > 0, 0, y) / alpha))


# Klambauer et al. 2017, equation 14: means and variances of normal numbers stay 0 and 1.
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def selu(x: ArrayLike) -> Array:
    """Return ``scale · elu(x, alpha)`` with the constants that keep mean 0 and variance 1 (Klambauer et al. 2017).

    >>> selu(1.0)
    Array(1.050701, dtype=float32)
    """
    return SELU_SCALE * elu(x, SELU_ALPHA)


def gelu(x: ArrayLike, *, approximate: bool = True) -> Array:
    """Return ``x · Φ(x)``, where Φ is the normal distribution function (Hendrycks & Gimpel 2016).

    Args:
        x: any shape.
        approximate: by ``½x(1 + tanh(√(2/π)(x + 0.044715x³)))``, within 5e-4; else exactly, with the error function.

    >>> gelu(1.0).round(4)
    Array(0.8412, dtype=float32)
    """
    return gelu_tanh(x) if approximate else gelu_exact(x)


def mish(x: ArrayLike) -> Array:
    """Return ``x · tanh(softplus(x))`` (Misra 2019).

    >>> mish(1.0).round(4)
    Array(0.8651, dtype=float32)
    """
    y = asarray(x)
    is_identity = y > ops.GELU_BOUND  # to the last digit; infinity would meet a slope of 0 there
    bounded = clip(where(is_identity, 0, y), -ops.SILU_BOUND, ops.GELU_BOUND)
    return where(is_identity, y, bounded * tanh(softplus(bounded)))


def relu6(x: ArrayLike) -> Array:
    """Return x within 0 and 6 (Howard et al. 2017); the derivative is 0 at 0 and beyond 6, as that of `relu`.

    >>> relu6(afx.asarray([-1.0, 3.0, 8.0]))
    Array([0., 3., 6.], dtype=float32)
    """
    return where(asarray(x) >= 6, 6, relu(x))


def hard_tanh(x: ArrayLike) -> Array:
    """Return x within -1 and 1.

    >>> hard_tanh(afx.asarray([-3.0, 0.5]))
    Array([-1. ,  0.5], dtype=float32)
    """
    y = asarray(x)
    return clip(y, 0 if y.dtype.kind in "bu" else -1, 1)


def hard_sigmoid(x: ArrayLike) -> Array:
    """Return ``x / 6 + ½`` within 0 and 1 (Howard et al. 2019).

    >>> hard_sigmoid(afx.asarray([-3.0, 0.0, 9.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return clip(asarray(x) / 6 + 0.5, 0, 1)


def hard_silu(x: ArrayLike) -> Array:
    """Return ``x · hard_sigmoid(x)``, also called hard swish (Howard et al. 2019).

    >>> hard_silu(afx.asarray([-3.0, 3.0]))
    Array([-0.,  3.], dtype=float32)
    """
    y = asarray(x)
    return (maximum(y, 0) if y.dtype.kind == "u" else maximum(y, -3)) * hard_sigmoid(y)


hard_swish = hard_silu


def squareplus(x: ArrayLike, b: ArrayLike = 4.0) -> Array:
    """Return ``(x + √(x² + b)) / 2``, a smooth `relu` without exponentials (Barron 2021).

    Args:
        x: any shape.
        b: 0 or more: how round the corner is.

    >>> squareplus(0.0)
    Array(1., dtype=float32)
    """
    y = asarray(x)
    is_end, is_right = isinf(y), y >= 0
    bounded = where(is_end, 0, y)
    root = sqrt(b)
    left, right = where(is_right, -1.0, bounded), where(is_right, bounded, 1)
    fall = root * (root / (hypot(left, root) / 2 - left / 2)) / 4
    return where(is_end, maximum(y, 0), where(is_right, right / 2 + hypot(right, root) / 2, fall))


def sparse_plus(x: ArrayLike) -> Array:
    """Return 0 up to -1, x from 1 on, ``(x + 1)² / 4`` between (Blondel, Martins & Niculae 2020).

    >>> sparse_plus(afx.asarray([-2.0, 0.0, 2.0]))
    Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    y = asarray(x)
    return where(y >= 1, y, clip(y + 1.0, 0, 2) ** 2 / 4)


def sparse_sigmoid(x: ArrayLike) -> Array:
    """Return ``(x + 1) / 2`` within 0 and 1, the slope of `sparse_plus`; its own slope on the bounds is that inside.

    >>> sparse_sigmoid(afx.asarray([-2.0, 0.0, 2.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return clip(asarray(x) + 1.0, 0, 2) / 2


def soft_sign(x: ArrayLike) -> Array:
    """Return ``x / (1 + |x|)`` (Bergstra et al. 2009).

    >>> soft_sign(1.0)
    Array(0.5, dtype=float32)
    """
    y = asarray(x)
    is_small = abs_(y) <= 1
    small, large = where(is_small, y, 0), where(is_small, 1, y)
    return where(is_small, small / (1 + abs_(small)), sign(large) / (1 + 1 / abs_(large)))


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """Return the first half of an axis times the sigmoid of the second (Dauphin et al. 2017).

    Raises:
        ShapeError: the axis has no halves.

    >>> glu(afx.asarray([2.0, 0.0]))
    Array([1.], dtype=float32)
    """
    a = aval_of(x, "glu")
    axis = normalize_axis(axis, a.ndim, "glu")
    if a.shape[axis] % 2:
        raise ShapeError(f"glu: the axis has two halves: got {a} and {axis=}; give an even length")
    first, second = split(x, 2, axis=axis)
    return first * sigmoid(second)
