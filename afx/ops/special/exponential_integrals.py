"""Exponential integrals: of whole order and of real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind1, bind_single
from afx.ops._kinds.elementwise import unary
from afx.ops._kinds.special import check_order, parametric, scipy
from afx.ops.elementwise.exponential import exp

__all__ = ["exp1", "expi", "expn"]


@register_function
def expn(n: int, x: ArrayLike) -> Array:
    """Return the exponential integral ``∫ exp(-xt) / tⁿ dt`` from t = 1 to infinity; needs the extra ``scipy``.

    Args:
        n: 0 or more, a Python int.
        x: not negative, any shape.

    Raises:
        ArgumentError: n is no integer, or less than 0.
        MissingExtraError: SciPy is not installed.

    >>> expn(2, 0.0)
    Array(1., dtype=float32)
    """
    return bind_single(expn_p, x, n=check_order(n, "expn"))


def _expn(x: Any, *, n: int) -> Any:
    x = np.asarray(x)
    return scipy("expn")(x.dtype.type(n) if x.dtype.kind == "f" else float(n), x)


def _expn_slope(_z: Array, x: Array, *, n: int) -> Array:
    return -expn(n - 1, x) if n else -exp(-x) / x * (1 + 1 / x)


expn_p: Primitive = parametric("expn", _expn, (_expn_slope,), {"n": 2}, domain=(0.2, 4.0))


@register_function
def exp1(x: ArrayLike) -> Array:
    """Return the exponential integral ``∫ exp(-t) / t dt`` from x to infinity; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> exp1(1.0).round(4)
    Array(0.2194, dtype=float32)
    """
    return bind1(exp1_p, x)


exp1_p: Primitive = unary(
    "exp1", scipy("exp1"), lambda _z, x: -exp(-x) / x, kinds="f", promotes_to_float=True, domain=(0.2, 4.0)
)


@register_function
def expi(x: ArrayLike) -> Array:
    """Return the exponential integral ``∫ exp(t) / t dt`` from -infinity to x, its principal value.

    Needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.

    >>> expi(1.0).round(4)
    Array(1.8951, dtype=float32)
    """
    return bind1(expi_p, x)


expi_p: Primitive = unary(
    "expi", scipy("expi"), lambda _z, x: exp(x) / x, kinds="f", promotes_to_float=True, domain=(0.2, 4.0)
)
