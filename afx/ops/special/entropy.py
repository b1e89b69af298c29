"""Entropies: log-odds, divergences, and products with a logarithm that are 0 where their factor is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind1, bind2
from afx.ops._kinds.elementwise import binary, unary
from afx.ops._kinds.special import ignore_fp_errors
from afx.ops.elementwise.exponential import log, log1p
from afx.ops.elementwise.where import where

_where: Any = np.where  # its result type is not known to checkers

__all__ = ["entr", "kl_div", "logit", "rel_entr", "xlog1py", "xlogy"]


@register_function
def logit(p: ArrayLike) -> Array:
    """Return ``log(p / (1 - p))``, accurate at 0, ½ and 1; its derivative at 0 and 1 is inf.

    >>> logit(0.5)
    Array(0., dtype=float32)
    """
    return bind1(logit_p, p)


def _logit(p: Any) -> Any:
    s = np.clip(2 * p - 1.0, -0.5, 0.5)  # in the middle, exact where the logarithm is small
    outside = np.abs(p - 0.5) > 0.25
    return _where(outside, np.log(p) - np.log1p(-1.0 * p), np.log1p(s) - np.log1p(-s))


logit_p: Primitive = unary(
    "logit",
    ignore_fp_errors(_logit),
    lambda _z, p: 1 / (p * (1 - p)),
    kinds="f",
    promotes_to_float=True,
    domain=(0.1, 0.9),
)


@register_function
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``x log(y)``, 0 where x is 0, even if y is; there both its derivatives are 0 unless y is positive.

    >>> xlogy(2.0, 3.0).round(4)
    Array(2.1972, dtype=float32)
    """
    return bind2(xlogy_p, x, y)


def _xlogy(x: Any, y: Any) -> Any:
    return _where((x == 0) & ~np.isnan(y), 0.0 * x, x * np.log(y))


def _xlogy_by_x(_z: Array, x: Array, y: Array) -> Array:
    nothing = (x == 0) & (y <= 0)
    return where(nothing, 0, log(where(nothing, 1, y)))


def _xlogy_by_y(_z: Array, x: Array, y: Array) -> Array:
    nothing = (x == 0) & (y <= 0)
    return where(nothing, 0, x / where(nothing, 1, y))


xlogy_p: Primitive = binary(
    "xlogy", ignore_fp_errors(_xlogy), (_xlogy_by_x, _xlogy_by_y), kinds="f", promotes_to_float=True, domain=(0.1, 4.0)
)


@register_function
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``x log(1 + y)``, 0 where x is 0, even if y is -1; both derivatives are 0 there, unless y is above -1.

    >>> xlog1py(0.0, -1.0)
    Array(0., dtype=float32)
    """
    return bind2(xlog1py_p, x, y)


def _xlog1py(x: Any, y: Any) -> Any:
    return _where((x == 0) & ~np.isnan(y), 0.0 * x, x * np.log1p(y))


def _xlog1py_by_x(_z: Array, x: Array, y: Array) -> Array:
    nothing = (x == 0) & (y <= -1)
    return where(nothing, 0, log1p(where(nothing, 0, y)))


def _xlog1py_by_y(_z: Array, x: Array, y: Array) -> Array:
    nothing = (x == 0) & (y <= -1)
    return where(nothing, 0, x / (1 + where(nothing, 0, y)))


xlog1py_p: Primitive = binary(
    "xlog1py",
    ignore_fp_errors(_xlog1py),
    (_xlog1py_by_x, _xlog1py_by_y),
    kinds="f",
    promotes_to_float=True,
    domain=(-0.5, 4.0),
)


# -- entropies --
@register_function
def entr(x: ArrayLike) -> Array:
    """Return ``-x log(x)``, 0 at 0, where its derivative is inf, and -inf below.

    >>> entr(0.0)
    Array(0., dtype=float32)
    """
    return bind1(entr_p, x)


def _entr(x: Any) -> Any:
    z = _where(x > 0, x * -np.log(x), 0.0 * x)
    return _where(x < 0, -math.inf, z)


def _entr_slope(_z: Array, x: Array) -> Array:
    return where(x < 0, 0, -log(where(x < 0, 1, x)) - 1)


entr_p: Primitive = unary(
    "entr", ignore_fp_errors(_entr), _entr_slope, kinds="f", promotes_to_float=True, domain=(0.1, 4.0)
)


@register_function
def rel_entr(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``x log(x / y)``, 0 where x is 0 and y is not negative, and inf where either is negative or y alone is 0.

    Both its derivatives at (0, 0) are 0, and so they are where its value is inf.

    >>> rel_entr(0.5, 0.25).round(4)
    Array(0.3466, dtype=float32)
    """
    return bind2(rel_entr_p, x, y)


def _log_ratio(x: Any, y: Any) -> Any:
    ratio = np.divide(x, y)
    lost = (ratio < np.finfo(ratio.dtype).tiny) | (ratio == math.inf)
    return _where(lost, np.log(x) - np.log(y), np.log(ratio))


def _rel_entr(x: Any, y: Any) -> Any:
    z = _where((x > 0) & (y > 0), x * _log_ratio(x, y), 0.0 * (x + np.minimum(y, 1.0)))
    return _where((x < 0) | (y < 0) | ((x > 0) & (y == 0)), math.inf, z)


def _ordinary(x: Array, y: Array) -> Array:
    """Tell where a divergence is finite and has derivatives."""
    return (x >= 0) & (y > 0)


def _rel_entr_by_x(_z: Array, x: Array, y: Array) -> Array:
    ordinary = _ordinary(x, y)
    return where(ordinary, log(where(ordinary, x, 1)) - log(where(ordinary, y, 1)) + 1, 0)


def _rel_entr_by_y(_z: Array, x: Array, y: Array) -> Array:
    ordinary = _ordinary(x, y)
    return where(ordinary, -where(ordinary, x, 0) / where(ordinary, y, 1), 0)


rel_entr_p: Primitive = binary(
    "rel_entr",
    ignore_fp_errors(_rel_entr),
    (_rel_entr_by_x, _rel_entr_by_y),
    kinds="f",
    promotes_to_float=True,
    domain=(0.1, 4.0),
)


@register_function
def kl_div(x: ArrayLike, y: ArrayLike) -> Array:
    """Return ``x log(x / y) - x + y``, y where x is 0 and y is not negative, and inf where `rel_entr` is.

    Its derivatives at (0, 0) are 0 by x and 1 by y; where its value is inf, both are 0.

    >>> kl_div(0.5, 0.25).round(4)
    Array(0.0966, dtype=float32)
    """
    return bind2(kl_div_p, x, y)


def _kl_div(x: Any, y: Any) -> Any:
    z = _where(x == 0, y, x * _log_ratio(x, y) - x + y)
    return _where((x < 0) | (y < 0) | ((x > 0) & (y == 0)), math.inf, z)


def _kl_div_by_x(_z: Array, x: Array, y: Array) -> Array:
    ordinary = _ordinary(x, y)
    return where(ordinary, log(where(ordinary, x, 1)) - log(where(ordinary, y, 1)), 0)


def _kl_div_by_y(_z: Array, x: Array, y: Array) -> Array:
    ordinary, origin = _ordinary(x, y), (x == 0) & (y == 0)
    return where(ordinary | origin, 1 - where(ordinary, x, 0) / where(ordinary, y, 1), 0)


kl_div_p: Primitive = binary(
    "kl_div",
    ignore_fp_errors(_kl_div),
    (_kl_div_by_x, _kl_div_by_y),
    kinds="f",
    promotes_to_float=True,
    domain=(0.1, 4.0),
)
