"""Zeta: Hurwitz's zeta function, differentiable by both arguments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind2, bind_single
from afx.ops._kinds.elementwise import binary
from afx.ops._kinds.special import parametric, scipy
from afx.ops.special._incomplete import bell
from afx.ops.special._quadrature import double

__all__ = ["zeta"]

TERMS = 12  # summed one by one; the rest is Euler and Maclaurin's formula, at 12 + q exact to the last digit
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


@register_function
def zeta(x: ArrayLike, q: ArrayLike = 1.0) -> Array:
    """Return Hurwitz's zeta function, the sum of ``(k + q)**-x`` over k = 0, 1, 2 …, Riemann's where q is 1.

    It has derivatives of every order by both arguments. Needs the extra ``scipy``.

    Args:
        x: greater than 1, any shape.
        q: positive, a shape that broadcasts.

    Raises:
        ShapeError: the shapes do not broadcast.
        MissingExtraError: SciPy is not installed.

    >>> zeta(2.0)
    Array(1.644934, dtype=float32)
    """
    return bind2(zeta_p, x, q)


def _slopes(x: Any, q: Any, *, order: int) -> Any:
    """Return the derivative by x: that of each term, of the integral of the rest, and of its corrections."""
    total = np.zeros_like(x)
    for k in range(TERMS):
        total = total + _term(order, x, q + k, 1.0)
    w = q + TERMS
    logs = {(n, 0): (-1) ** n * math.factorial(n - 1) / (x - 1) ** n for n in range(1, order + 1)}
    total = total + _term(order, x, w, w / (x - 1), logs) + _term(order, x, w, 0.5)
    rising, roots = x, [x]
    for j, bernoulli in enumerate(BERNOULLI, 1):
        logs = {(n, 0): -math.factorial(n - 1) * sum((-root) ** -n for root in roots) for n in range(1, order + 1)}
        total = total + _term(order, x, w, rising * (bernoulli / math.factorial(2 * j)) / w ** (2 * j - 1), logs)
        roots += [x + 2 * j - 1, x + 2 * j]
        rising = rising * roots[-2] * roots[-1]
    where_: Any = np.where
    return where_((x > 1) & (q > 0), total, math.nan)


def _term(order: int, x: Any, w: Any, factor: Any, logs: dict[tuple[int, int], Any] | None = None) -> Any:
    """Return the derivative of ``factor · w**-x``; ``logs`` are those of the factor's logarithm, none where it is fixed."""
    g = logs or {(n, 0): 0.0 for n in range(1, order + 1)}
    power = w**-x
    g = {**g, (1, 0): g[1, 0] - np.log(w)}
    z: Any = np.where(power == 0, 0.0, power * (factor * bell(order, 0, g)))
    return z


def _slope(x: Array, q: Array, order: int) -> Array:
    return bind_single(zeta_slope_p, x, q, order=order) if order else zeta(x, q)


def _slope_by_x(_z: Array, x: Array, q: Array, *, order: int) -> Array:
    return _slope(x, q, order + 1)


def _slope_by_q(_z: Array, x: Array, q: Array, *, order: int) -> Array:
    return -(x * _slope(x + 1, q, order) + order * _slope(x + 1, q, order - 1))


zeta_slope_p: Primitive = parametric(
    "zeta_slope", double(_slopes), (_slope_by_x, _slope_by_q), {"order": 1}, domain=(1.5, 4.0)
)

zeta_p: Primitive = binary(
    "zeta",
    scipy("zeta"),
    (lambda _z, x, q: _slope(x, q, 1), lambda _z, x, q: -x * zeta(x + 1, q)),
    kinds="f",
    promotes_to_float=True,
    domain=(1.5, 4.0),
)
