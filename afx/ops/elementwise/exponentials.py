"""Exponentials: exponential functions and logarithms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, Primitive, bind1, bind2, register_function
from afx.ops._basic import xp
from afx.ops._kinds.elementwise import TINY, Parts, binary, unary
from afx.ops.creation.creation import as_array
from afx.ops.elementwise.comparison import isinf, where

LOG2 = math.log(2.0)
LOG2E = 1 / LOG2
LOG10 = math.log(10.0)


@register_function
def exp(x: ArrayLike) -> Array:
    """Return the exponential function.

    >>> exp(0.5).round(4)
    Array(1.6487, dtype=float32)
    """
    return bind1(exp_p, x)


def exp_parts(x: Parts) -> Parts:
    """Return ``exp(x)``, by halves of the exponent, so that a part overflows where it is infinite alone."""
    a, b = x
    b = xp.where(a == -math.inf, 0.0, b)
    half = xp.exp(a * 0.5)
    is_real = b == 0.0
    return half * (half * xp.where(is_real, 1.0, xp.cos(b))), xp.where(is_real, b, half * (half * xp.sin(b)))


exp_p: Primitive = unary("exp", np.exp, lambda z, _x: z, kinds="fc", finite_partials=True, parts=exp_parts)


@register_function
def exp2(x: ArrayLike) -> Array:
    """Return 2 to the power x.

    >>> exp2(3.0)
    Array(8., dtype=float32)
    """
    return bind1(complex_exp2_p if _is_complex(x) else exp2_p, x)


def _complex_exp2_run(x: Any) -> Any:
    """Return the real power of two, turned by the imaginary part: NumPy's ``exp(x * log(2))`` loses its digits."""
    z: Any = np.asarray(x)
    angle: Any = z.imag * LOG2
    with np.errstate(all="ignore"):
        turned: Any = np.exp2(z.real) * (np.cos(angle) + 1j * np.sin(angle))
        if not np.isfinite(turned).all():
            turned = xp.where(np.isfinite(turned), turned, np.exp2(z))
    return turned.astype(np.result_type(z.dtype, np.complex64))[()]


def _exp2_parts(x: Parts) -> Parts:
    return exp_parts((x[0] * LOG2, x[1] * LOG2))


complex_exp2_p: Primitive = unary(
    "complex_exp2", _complex_exp2_run, lambda z, _x: z * LOG2, kinds="fc", parts=_exp2_parts
)
exp2_p: Primitive = unary(
    "exp2",
    np.exp2,
    lambda z, _x: z * LOG2,
    kinds="f",
    finite_partials=True,
    formula=lambda x: xp.power(2.0, x),
    formula_kinds="fc",
    parts=_exp2_parts,
)


@register_function
def expm1(x: ArrayLike) -> Array:
    """Return ``exp(x) - 1``, exact near 0.

    >>> expm1(0.5).round(4)
    Array(0.6487, dtype=float32)
    """
    return bind1(complex_expm1_p if _is_complex(x) else expm1_p, x)


def _is_complex(x: ArrayLike) -> bool:
    return x.dtype.kind == "c" if isinstance(x, (Array, np.ndarray)) else isinstance(x, (complex, np.complexfloating))


def _complex_expm1_run(x: Any) -> Any:
    """Return what NumPy gives, but for infinite parts, where it loses the limits that its ``exp`` knows, and 0."""
    far = ~np.isfinite(x) | (x == 0)
    if not far.any():
        return np.expm1(x)
    with np.errstate(invalid="ignore"):
        z = np.asarray(np.expm1(x))
    np.copyto(z, np.exp(x) - 1, where=far)
    return z[()]


def _expm1(x: Any) -> Any:
    """Return ``exp(x) - 1``: near 0 by half the argument's hyperbolic tangent."""
    half = xp.tanh(x * 0.5)
    near = xp.where(xp.abs(x) < TINY, x, 2.0 * half / (1.0 - half))  # half of a denormal number is rounded
    return xp.where(xp.abs(x) < 1.0, near, xp.exp(x) - 1.0)


def _expm1_parts(x: Parts) -> Parts:
    a, b = x
    sine = xp.sin(b * 0.5)
    return xp.expm1(a) * xp.cos(b) - 2.0 * sine * sine, exp_parts(x)[1]


complex_expm1_p: Primitive = unary(
    "complex_expm1", _complex_expm1_run, lambda _z, x: exp(x), kinds="fc", parts=_expm1_parts
)
expm1_p: Primitive = unary(
    "expm1", np.expm1, lambda _z, x: exp(x), kinds="fc", finite_partials=True, formula=_expm1, parts=_expm1_parts
)  # z + 1 loses the tail


@register_function
def log(x: ArrayLike) -> Array:
    """Return the natural logarithm; its derivative at 0 is inf.

    >>> log(2.0).round(4)
    Array(0.6931, dtype=float32)
    """
    return bind1(log_p, x)


def log_size(x: Parts) -> Any:
    """Return ``log |x|``: near 1 by log1p."""
    a, b = xp.abs(x[0]), xp.abs(x[1])
    top, low, size = xp.maximum(a, b), xp.minimum(a, b), xp.hypot(a, b)
    is_near = (size > 0.5) & (size < 2.0)
    gap = xp.where(is_near, (top - 1.0) * (top + 1.0) + low * low, 0.0)
    return xp.where(is_near, 0.5 * xp.log1p(gap), xp.log(size))


def log_parts(x: Parts) -> Parts:
    """Return the logarithm of the size, and the angle."""
    return log_size(x), xp.arctan2(x[1], x[0])


log_p: Primitive = unary("log", np.log, lambda _z, x: 1 / x, kinds="fc", parts=log_parts)


@register_function
def log1p(x: ArrayLike) -> Array:
    """Return ``log(1 + x)``, exact near 0.

    >>> log1p(0.5).round(4)
    Array(0.4055, dtype=float32)
    """
    return bind1(log1p_p, x)


def _log1p(x: Any) -> Any:
    """Return ``log(1 + x)``: near 0 with the sum's rounding taken out (Goldberg 1991, theorem 4)."""
    total = x + 1.0
    near = xp.where(total == 1.0, x, xp.log(total) * x / (total - 1.0))
    return xp.where(xp.abs(x) < 1.0, near, xp.log(total))


def _log1p_parts(x: Parts) -> Parts:
    a, b = x
    gap = a * (a + 2.0) + b * b
    is_near = xp.abs(gap) < 0.5
    return xp.where(is_near, 0.5 * xp.log1p(xp.where(is_near, gap, 0.0)), log_size((a + 1.0, b))), xp.arctan2(
        b, a + 1.0
    )


log1p_p: Primitive = unary("log1p", np.log1p, lambda _z, x: 1 / (1 + x), kinds="fc", formula=_log1p, parts=_log1p_parts)


@register_function
def log2(x: ArrayLike) -> Array:
    """Return the logarithm to the base 2.

    >>> log2(8.0)
    Array(3., dtype=float32)
    """
    return bind1(log2_p, x)


def _scaled_log(factor: float) -> Callable[[Parts], Parts]:
    return lambda x: (log_size(x) * factor, xp.arctan2(x[1], x[0]) * factor)


log2_p: Primitive = unary(
    "log2",
    np.log2,
    lambda _z, x: 1 / (x * LOG2),
    kinds="fc",
    formula=lambda x: xp.log(x) / LOG2,
    formula_kinds="fc",
    parts=_scaled_log(LOG2E),
)


@register_function
def log10(x: ArrayLike) -> Array:
    """Return the logarithm to the base 10.

    >>> log10(10.0)
    Array(1., dtype=float32)
    """
    return bind1(log10_p, x)


log10_p: Primitive = unary(
    "log10",
    np.log10,
    lambda _z, x: 1 / (x * LOG10),
    kinds="fc",
    formula=lambda x: xp.log(x) / LOG10,
    formula_kinds="fc",
    parts=_scaled_log(1 / LOG10),
)


@register_function
def logaddexp(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``log(exp(x) + exp(y))`` without overflow; its derivatives at (inf, 0) are 1 and 0, at equal values ½ each.

    >>> logaddexp(1000.0, 0.0)
    Array(1000., dtype=float32)
    """
    return bind2(logaddexp_p, x, y)


def _share(x: Array, y: Array) -> Array:
    """Return ``exp(x) / (exp(x) + exp(y))``, one half where both are the same infinity."""
    same = (x == y) & isinf(x)  # inf - inf would be nan
    return sigmoid(where(same, 0, x) - where(same, 0, y))


def _larger_and_gap(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the larger number and the smaller one less that: 0 of equal infinities, whose difference would be nan."""
    larger, smaller = np.maximum(x, y), np.minimum(x, y)
    same = smaller == larger
    return larger, xp.where(same, 0, smaller) - xp.where(same, 0, larger)


def _logaddexp_run(x: Any, y: Any) -> Any:
    # NumPy's own formula, but its loop takes one number after the other: those of exp and log1p take several at once
    larger, gap = _larger_and_gap(x, y)
    return larger + np.log1p(np.exp(gap))


logaddexp_p: Primitive = binary(
    "logaddexp",
    _logaddexp_run,
    (lambda _z, x, y: _share(x, y), lambda _z, x, y: _share(y, x)),
    kinds="f",
    commutative=True,
    finite_partials=True,
    traceable=True,
)


@register_function
def logaddexp2(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``log2(2**x + 2**y)`` without overflow; its derivatives are those of `logaddexp`.

    >>> logaddexp2(1000.0, 1000.0)
    Array(1001., dtype=float32)
    """
    return bind2(logaddexp2_p, x, y)


def _logaddexp2_run(x: Any, y: Any) -> Any:
    larger, gap = _larger_and_gap(x, y)
    return larger + np.log1p(np.exp2(gap)) * LOG2E


logaddexp2_p: Primitive = binary(
    "logaddexp2",
    _logaddexp2_run,
    (lambda _z, x, y: _share(x * LOG2, y * LOG2), lambda _z, x, y: _share(y * LOG2, x * LOG2)),
    kinds="f",
    commutative=True,
    finite_partials=True,
    traceable=True,
)


@register_function
def sigmoid(x: ArrayLike) -> Array:
    """Return the logistic function ``1 / (1 + exp(-x))``, accurate in both tails.

    >>> sigmoid(0.0)
    Array(0.5, dtype=float32)
    """
    return bind1(sigmoid_p, x)


def _sigmoid_run(x: Any) -> Any:
    with np.errstate(over="ignore"):  # exp = inf gives 0, the limit
        return 1 / (1 + np.exp(x * -1.0))  # NumPy has no minus for booleans, and unsigned numbers wrap round


def sigmoid_slope(x: ArrayLike) -> Array:
    """Return the derivative of `sigmoid`, by what its value is made of, which plans compute once for both."""
    return bind1(sigmoid_slope_p, x)


def _sigmoid_slope_run(x: Any) -> Any:
    with np.errstate(over="ignore"):
        odds = np.exp(x * -1.0)
        share = 1 / (1 + odds)
    return np.minimum(odds, np.finfo(x.dtype).max) * share * share  # 0 where the odds are infinite


sigmoid_slope_p: Primitive = unary(
    "sigmoid_slope",
    _sigmoid_slope_run,
    lambda z, x: z * (1 - 2 * sigmoid(x)),
    kinds="f",
    finite_partials=True,
    traceable=True,
)


sigmoid_p: Primitive = unary(
    "sigmoid", _sigmoid_run, lambda _z, x: sigmoid_slope(x), kinds="f", finite_partials=True, traceable=True
)


@register_function
def softplus(x: ArrayLike) -> Array:
    """Return ``log(1 + exp(x))`` without overflow.

    >>> softplus(1000.0)
    Array(1000., dtype=float32)
    """
    return bind1(softplus_p, x)


def _softplus_run(x: Any) -> Any:
    # as exact as logaddexp(x, 0), and about ten times as fast: NumPy's exp and log1p work on several numbers at once
    return np.maximum(x, 0) + np.log1p(np.exp(np.abs(x) * -1.0))


softplus_p: Primitive = unary(
    "softplus", _softplus_run, lambda _z, x: sigmoid(x), kinds="f", finite_partials=True, traceable=True
)


@register_function
def log_sigmoid(x: ArrayLike) -> Array:
    """Return ``log(sigmoid(x))``, which is ``-softplus(-x)``, without overflow.

    >>> log_sigmoid(-1000.0)
    Array(-1000., dtype=float32)
    """
    y = as_array(x)
    return -softplus(y * -1.0 if y.dtype.kind in "bu" else -y)
