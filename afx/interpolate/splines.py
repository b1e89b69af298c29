"""B-splines: their evaluation, derivatives and integrals, and splines of any degree through points."""

from __future__ import annotations

import operator
from typing import Any

import attrs
import numpy as np

from afx.core import Array, Shown, integer, normalize_axis
from afx.errors import ArgumentError, ShapeError
from afx.interpolate.piecewise import Extrapolate, Interpolant, check_ascending, column, columns, pair_of, place
from afx.ops import broadcast_to, clip, concat, cumsum, diff, reshape, searchsorted, take, where
from afx.ops.creation.creation import Nested, asarray, promote_operands, stop_gradient
from afx.ops.linalg.solve import solve

__all__ = ["BSpline", "make_interp_spline"]


@attrs.frozen(init=False)
class BSpline(Interpolant, Shown):
    """A sum of B-splines, ``Σ c[j] B(x; t[j], …, t[j + k + 1])``, differentiable in coefficients, knots and x. A tree.

    Attributes:
        t: float[n + k + 1], the knots, ascending.
        c: float[n, …], the coefficients, with the axis of the splines in front.
        k: the degree.
        extrapolate: whether the polynomials at the ends go on outside, else values there are nan; or ``"periodic"``.
        axis: where the axes of x stand in values.

    >>> BSpline([0.0, 0.0, 1.0, 1.0], [2.0, 4.0], 1)(0.5)
    Array(3., dtype=float32)
    """

    t: Array
    c: Array
    k: int
    extrapolate: Extrapolate
    axis: int

    def __init__(self, t: Nested, c: Nested, k: int, extrapolate: Extrapolate = True, axis: int = 0) -> None:
        knots, given = promote_operands(t, c)
        knots, given = pair_of(knots, given, "BSpline")
        degree = integer(k, "BSpline", "k")
        axis = normalize_axis(axis, given.ndim, "BSpline")
        if degree < 0 or knots.ndim != 1 or knots.size < 2 * degree + 2 or given.shape[axis] < knots.size - degree - 1:
            raise ShapeError(
                f"BSpline: n coefficients of degree k have n + k + 1 knots, n above k: got {knots.aval}, {given.aval} and k={k}"
            )
        check_ascending(knots, "BSpline", strictly=False)
        front = given if axis == 0 else asarray(given).transpose(axis, *[a for a in range(given.ndim) if a != axis])
        self._fill(knots, front[: knots.size - degree - 1], degree, extrapolate, axis)

    def _fill(self, t: Array, c: Array, k: int, extrapolate: Extrapolate, axis: int) -> None:
        self.__attrs_init__(t, c, k, extrapolate, axis)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # attrs makes it
        self._mode(None)

    def _outside(self) -> Extrapolate:
        return self.extrapolate

    def _ends(self) -> tuple[Array, Array]:
        return self.t[self.k], self.t[self.t.size - self.k - 1]

    def __call__(self, x: Nested, nu: int = 0, extrapolate: Extrapolate | None = None) -> Array:
        """Return the values at x, or those of a derivative, by de Boor's recursion.

        Args:
            x: any shape.
            nu: the order of the derivative.
            extrapolate: as it was made unless given.
        """
        if nu:
            return self.derivative(nu)(x, extrapolate=self._mode(extrapolate))
        k = self.k
        at = self._inside(asarray(x, self.t.dtype), self._mode(extrapolate))
        inner = stop_gradient(self.t[k : self.t.size - k])
        index = clip(searchsorted(inner, stop_gradient(at), side="right") - 1, 0, inner.size - 2) + k
        index = _before_repeated(stop_gradient(self.t), index, k)
        parts = [take(self.c, index - k + j, axis=0) for j in range(k + 1)]
        like = reshape(at, at.shape + (1,) * (self.c.ndim - 1))
        for r in range(1, k + 1):
            for j in range(k, r - 1, -1):
                low, high = (take(self.t, index + shift, axis=0) for shift in (j - k, j + 1 - r))
                share = reshape((at - low) / (high - low), like.shape)
                parts[j] = (1 - share) * parts[j - 1] + share * parts[j]
        return place(parts[k] + 0 * like, at.ndim, self.axis)

    def derivative(self, nu: int = 1) -> BSpline:
        """Return the derivative of an order; of a negative one the antiderivative."""
        if nu <= 0:
            return self if nu == 0 else self.antiderivative(-nu)
        if self.k == 0:
            return _made(self.t, self.c * 0, 0, self)
        t, k = self.t[1:-1], self.k
        span = column(t[k:] - t[: t.size - k], self.c)
        empty = span == 0
        return _made(t, where(empty, 0, k * diff(self.c, axis=0) / where(empty, 1, span)), k - 1, self).derivative(
            nu - 1
        )

    def antiderivative(self, nu: int = 1) -> BSpline:
        """Return the antiderivative of an order, 0 at the first knot; periodic ones are not so."""
        if nu <= 0:
            return self.derivative(-nu)
        t, k = self.t, self.k
        areas = self.c * column(t[k + 1 :] - t[: t.size - k - 1], self.c) / (k + 1)
        c = concat([areas[:1] * 0, cumsum(areas, axis=0)], axis=0)
        return _made(concat([t[:1], t, t[-1:]], axis=0), c, k + 1, self).antiderivative(nu - 1)


def _made(t: Array, c: Array, k: int, like: BSpline) -> BSpline:
    spline = BSpline.__new__(BSpline)
    mode = like.extrapolate
    spline._fill(t, c, k, False if mode == "periodic" and k > like.k else mode, like.axis)
    return spline


def _before_repeated(t: Array, index: Array, k: int) -> Array:
    """Return the interval, one of some length: at the end, that in front of repeated knots."""
    last = searchsorted(t, t[t.size - k - 1], side="left") - 1
    return clip(index, None, last) if k else index


def make_interp_spline(
    x: Nested,
    y: Nested,
    k: int = 3,
    t: Nested | None = None,
    bc_type: str | tuple[Any, Any] | None = None,
    axis: int = 0,
) -> BSpline:
    """Return the spline of degree k through points, differentiable in both; it solves a full system.

    Args:
        x: float[n], ascending.
        y: [..., n, ...], real or complex.
        k: the degree.
        t: the knots; not-a-knot's, or the points themselves where there are conditions, unless given.
        bc_type: None or ``"not-a-knot"``, ``"natural"``, ``"clamped"``, or a pair, one for each end, of these, None,
            or lists of ``(order, value)`` of derivatives; k - 1 conditions in all where there are any.
        axis: that of y along which the points lie.

    Raises:
        ShapeError: too few points, or the number of knots does not fit the points and conditions.
        ArgumentError: another condition.

    >>> make_interp_spline([0.0, 1.0, 2.0], [0.0, 1.0, 4.0], k=2)(1.5).round(4)
    Array(2.25, dtype=float32)
    """
    degree = integer(k, "make_interp_spline", "k")
    points, values = columns(x, y, axis, "make_interp_spline", 1)
    first, last = _conditions(bc_type)
    knots = asarray(t, points.dtype) if t is not None else _knots(points, degree, bool(first or last))
    n = knots.size - degree - 1
    if n != points.size + len(first) + len(last) or n < degree + 1:
        raise ShapeError(
            f"make_interp_spline: degree {degree} wants as many points and conditions as coefficients: got {points.aval}, "
            f"{len(first) + len(last)} conditions and {knots.aval} knots; give others"
        )
    check_ascending(knots, "make_interp_spline", strictly=False)
    basis = BSpline(knots, np.eye(n, dtype=points.dtype), degree)
    rows = [basis.derivative(order)(points[:1]) for order, _ in first] + [basis(points)]
    rows += [basis.derivative(order)(points[-1:]) for order, _ in last]
    ends = [
        [broadcast_to(asarray(v, values.dtype), values.shape[1:])[None] for _, v in given] for given in (first, last)
    ]
    right = concat([*ends[0], values, *ends[1]], axis=0)
    matrix = concat(rows, axis=0)
    c = reshape(solve(matrix, reshape(right, (n, -1))), right.shape)
    spline = BSpline.__new__(BSpline)
    spline._fill(knots, c, degree, True, normalize_axis(axis, values.ndim, "make_interp_spline"))
    return spline


_NAMED: dict[Any, list[tuple[int, float]]] = {None: [], "not-a-knot": [], "natural": [(2, 0.0)], "clamped": [(1, 0.0)]}


def _conditions(bc_type: Any) -> list[list[tuple[int, Any]]]:
    """Return the conditions at both ends as orders and values of derivatives."""
    pair: Any = (bc_type, bc_type) if bc_type is None or isinstance(bc_type, str) else bc_type
    try:
        named: list[Any] = [_NAMED.get(v, v) if v is None or isinstance(v, str) else v for v in pair]
        pairs = [[(operator.index(order), value) for order, value in given] for given in named]
    except (TypeError, ValueError):
        pairs = []
    if len(pairs) != 2:
        raise ArgumentError(
            f"make_interp_spline: an end is None, 'not-a-knot', 'natural', 'clamped' or a list of (order, value): got "
            f"{bc_type!r}; take one of them, or CubicSpline for periodic ones"
        )
    return pairs


def _knots(x: Array, k: int, conditions: bool) -> Array:
    """Return knots: repeated at the ends, between them the points, or not-a-knot's choice of them."""
    if k == 0:
        return concat([x, x[-1:]], axis=0)
    ends = [broadcast_to(v, (k + 1,)) for v in (x[0], x[-1])]
    if conditions or k == 1:
        inner = x[1:-1]
    else:
        between = x if k % 2 else (x[1:] + x[:-1]) / 2
        cut = (k + 1) // 2 if k % 2 else k // 2
        inner = between[cut : between.size - cut] if between.size > 2 * cut else between[:0]
    return concat([ends[0], inner, ends[1]], axis=0)
