"""Fisher's F distribution: its function of half the degrees of freedom, and the complement, differentiable by all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind_single
from afx.ops._kinds.special import parametric, scipy
from afx.ops.elementwise.exponential import log, log1p
from afx.ops.elementwise.where import minimum, where
from afx.ops.special._fisher import degree_terms, fisher_by_degrees, sides
from afx.ops.special._incomplete import bell
from afx.ops.special._quadrature import double
from afx.ops.special.gamma import digamma_gap, polygamma
from afx.ops.special.incomplete_beta import density, positive, ternary

__all__ = ["fisher", "fisher_slope", "fisherc"]

_where: Any = np.where  # its result type is not known to checkers


def fisher(a: ArrayLike, b: ArrayLike, s: ArrayLike) -> Array:
    """Return ``betainc(a, b, a s / (a s + b))``: the probability of a ratio below s, of 2a and 2b degrees of freedom."""
    return bind_single(fisher_p, a, b, s)


def fisherc(a: ArrayLike, b: ArrayLike, s: ArrayLike) -> Array:
    """Return ``1 - fisher(a, b, s)``, accurate where it is small."""
    return bind_single(fisherc_p, a, b, s)


def fisher_slope(a: ArrayLike, b: ArrayLike, s: ArrayLike, m: int, n: int) -> Array:
    """Return the derivative of `fisher`, of order m by a and n by b."""
    return bind_single(fisher_slope_p, a, b, s, m=m, n=n)


def _side(near: str, far: str) -> Callable[..., Any]:
    """Return one of the two functions, by the smaller one of the share and its complement."""

    def run(a: Any, b: Any, s: Any) -> Any:
        swap, c, d, x = sides(a, b, s)
        return _where((a > 0) & (b > 0) & (s >= 0), _where(swap, scipy(far)(c, d, x), scipy(near)(c, d, x)), np.nan)

    return double(run)


def _density(a: Array, b: Array, s: Array) -> Array:
    """Return the density by s, which is positive."""
    a, b = positive(a), positive(b)
    odds = minimum(a * s / b, float(np.finfo(s.dtype).max) / 4)
    small = odds <= 1
    x, y = where(small, odds, 1), 1 / where(small, 1, odds)
    u, v = x / (1 + x), y / (1 + y)  # the share, or its complement, where it is the smaller one
    front = where(small, density(a, b, where(small, u, 0.5)), density(b, a, where(small, 0.5, v)))
    return front * where(small, u * (1 - u), v * (1 - v)) / s


def _by_s(_z: Any, a: Array, b: Array, s: Array) -> Array:
    a, b = positive(a), positive(b)
    inside = a * s / b > 0
    return where(inside, _density(a, b, where(inside, s, 1)), density(a, b, where(inside, 0, 0 * s)) * a / b)


def _slope_by_s(_z: Any, a: Array, b: Array, s: Array, *, m: int, n: int) -> Array:
    a, b = positive(a), positive(b)
    inside = a * s / b > 0
    t = where(inside, s, 1)
    inverse, share = 1 / (a * t + b), 1 / (a + b / t)
    by_a = log((a + b) * share) - b * (share - inverse) + digamma_gap(a, b) - log1p(b / a)
    by_b = log((a + b) * inverse) - a * (inverse - share) + digamma_gap(b, a) - log1p(a / b)
    terms = degree_terms(m, n, (by_a, by_b), (a, b, inverse, share), polygamma)
    front = where(inside, _density(a, b, t), 0)
    return where(front == 0, 0, front * bell(m, n, terms))


def _slope_by_a(_z: Any, a: Array, b: Array, s: Array, *, m: int, n: int) -> Array:
    return fisher_slope(a, b, s, m + 1, n)


def _slope_by_b(_z: Any, a: Array, b: Array, s: Array, *, m: int, n: int) -> Array:
    return fisher_slope(a, b, s, m, n + 1)


fisher_p: Primitive = ternary(
    "fisher",
    _side("betainc", "betaincc"),
    (
        lambda _z, a, b, s: fisher_slope(a, b, s, 1, 0),
        lambda _z, a, b, s: fisher_slope(a, b, s, 0, 1),
        _by_s,
    ),
    domain=(0.2, 3.0),
)
fisherc_p: Primitive = ternary(
    "fisherc",
    _side("betaincc", "betainc"),
    (
        lambda _z, a, b, s: -fisher_slope(a, b, s, 1, 0),
        lambda _z, a, b, s: -fisher_slope(a, b, s, 0, 1),
        lambda z, a, b, s: -_by_s(z, a, b, s),
    ),
    domain=(0.2, 3.0),
)
fisher_slope_p: Primitive = parametric(
    "fisher_slope",
    double(fisher_by_degrees),
    (
        _slope_by_a,
        _slope_by_b,
        _slope_by_s,
    ),
    {"m": 1, "n": 0},
    domain=(0.2, 3.0),
)
