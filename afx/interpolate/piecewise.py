"""Piecewise polynomials: splines through points, by the slopes there, with derivatives and integrals."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias, TypeVar

import attrs
import numpy as np

from afx.core import Array, ArrayLike, Shown, Tracer, aval_of, normalize_axis
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops import (
    abs as abs_,
    argsort,
    clip,
    cumsum,
    diff,
    floor,
    max as max_,
    real,
    roll,
    searchsorted,
    sign,
    take,
    where,
)
from afx.ops._kinds.matrix import choice, promote_pair
from afx.ops.creation.creation import Nested, asarray, promote_operands, stop_gradient
from afx.ops.linalg.solve import solve
from afx.ops.linalg.structured import tridiagonal_solve
from afx.ops.manipulation.join import concat, moveaxis, stack
from afx.ops.manipulation.shape import broadcast_to, reshape

__all__ = ["Akima1DInterpolator", "CubicSpline", "PPoly", "PchipInterpolator"]

Extrapolate: TypeAlias = bool | Literal["periodic"]
Condition: TypeAlias = str | tuple[int, ArrayLike]
S = TypeVar("S", bound="Interpolant")


# --- Points and values


def columns(x: Nested, y: Nested, axis: int, who: str, least: int = 2, *, in_order: bool = True) -> tuple[Array, Array]:
    """Return ascending points float[n] and values float[n, …], with the axis of the points in front.

    Points that are not given in order are sorted, and values with them.
    """
    points, values = (asarray(v) for v in promote_operands(x, y))
    axis = normalize_axis(axis, values.ndim, who)
    if points.ndim != 1 or points.size < least or values.shape[axis] != points.size:
        raise ShapeError(
            f"{who}: takes {least} points or more and a value for each: got {points.aval} and {values.aval}; reshape them"
        )
    values = moveaxis(values, axis, 0)
    if not in_order and (isinstance(points, Tracer) or (np.diff(np.asarray(points)) < 0).any()):
        order = argsort(points)
        points, values = take(points, order), take(values, order, axis=0)
    check_ascending(points, who)
    return pair_of(points, values, who)


def pair_of(x: ArrayLike, values: ArrayLike, who: str) -> tuple[Array, Array]:
    """Return points and values in one precision, the points real where values are complex."""
    if aval_of(x, who).dtype.kind == "c":
        raise DtypeError(f"{who}: points are real: got {aval_of(x)}; take a part")
    points, promoted = promote_pair(x, values, who)
    return real(points), promoted


def check_ascending(points: Array, who: str, strictly: bool = True) -> None:
    """Raise where points are known and do not ascend."""
    if not isinstance(points, Tracer):
        steps = np.diff(np.asarray(points))
        if not ((steps > 0) if strictly else (steps >= 0)).all():
            raise ArgumentError(
                f"{who}: points ascend: got {points.aval} that do not; sort them, and leave out repeated ones"
            )


def column(v: Array, like: Array) -> Array:
    """Return a vector laid along the first axis of an array."""
    return reshape(v, (-1,) + (1,) * (like.ndim - 1))


def place(values: Array, count: int, axis: int) -> Array:
    """Return values with the ``count`` axes of where they are at moved from the front to ``axis``."""
    return moveaxis(values, range(count), range(axis, axis + count)) if axis else values


class Interpolant:
    """What piecewise polynomials and B-splines share: how they go on outside, and integrals by antiderivatives."""

    __slots__ = ()

    def _outside(self) -> Extrapolate:
        raise NotImplementedError  # each kind of function has its own

    def _ends(self) -> tuple[Array, Array]:
        raise NotImplementedError  # each kind of function has its own

    def _mode(self, extrapolate: Extrapolate | None) -> Extrapolate:
        mode = self._outside() if extrapolate is None else extrapolate
        if mode not in (True, False, "periodic"):
            raise ArgumentError(
                f"interpolate: extrapolate is True, False or 'periodic': got {mode!r}; take one of them"
            )
        return mode

    def _inside(self, at: Array, mode: Extrapolate) -> Array:
        """Return where to evaluate: moved by periods, nan outside, or as it is."""
        low, high = self._ends()
        if mode == "periodic":
            return at - stop_gradient(floor((at - low) / (high - low))) * (high - low)
        return at if mode else where((at < low) | (at > high), math.nan, at)

    def integrate(self, a: ArrayLike, b: ArrayLike, extrapolate: Extrapolate | None = None) -> Array:
        """Return the integral from a to b, numbers or arrays that broadcast.

        Args:
            a: the lower end.
            b: the upper end.
            extrapolate: how the function goes on outside its points, as it was made unless given; without extrapolation
                the integral is nan there.
        """
        mode, (low, high) = self._mode(extrapolate), self._ends()
        primitive = self.antiderivative()
        ends = [asarray(v, low.dtype) for v in (a, b)]
        if mode != "periodic":
            area: Array = primitive(ends[1], extrapolate=mode) - primitive(ends[0], extrapolate=mode)
            return area
        whole, totals = primitive(high) - primitive(low), list[Array]()
        for end in ends:
            turns = stop_gradient(floor((end - low) / (high - low)))
            totals.append(primitive(end - turns * (high - low)) + turns * whole)
        return totals[1] - totals[0]

    def antiderivative(self, nu: int = 1) -> Any:
        """Return the antiderivative that is 0 at the first point."""
        raise NotImplementedError  # each kind of function has its own

    def __call__(self, x: Nested, nu: int = 0, extrapolate: Extrapolate | None = None) -> Array:
        """Return the values at x."""
        raise NotImplementedError  # each kind of function has its own


# --- Piecewise polynomials


@attrs.frozen(init=False)
class PPoly(Interpolant, Shown):
    """A polynomial on each interval between points: ``Σ c[m, i] (x - x[i])^(k - m)``. A tree of arrays.

    Attributes:
        c: float[k + 1, n, …], the coefficients, the highest power first.
        x: float[n + 1], ascending.
        extrapolate: whether the first and the last polynomial go on outside, else values there are nan; or ``"periodic"``.
        axis: where the axes of x stand in values.

    >>> PPoly([[1.0], [0.0]], [0.0, 2.0]).integrate(0.0, 2.0)
    Array(2., dtype=float32)
    """

    c: Array
    x: Array
    extrapolate: Extrapolate
    axis: int

    def __init__(self, c: Nested, x: Nested, extrapolate: Extrapolate | None = None, axis: int = 0) -> None:
        points, coefficients = pair_of(asarray(x), asarray(c), "PPoly")
        if points.ndim != 1 or coefficients.ndim < 2 or points.size != coefficients.shape[1] + 1:
            raise ShapeError(
                f"PPoly: c is [k + 1, n, …], x [n + 1]: got {coefficients.aval} and {points.aval}; reshape them"
            )
        check_ascending(points, "PPoly")
        self._fill(coefficients, points, True if extrapolate is None else extrapolate, axis)

    def _fill(self, c: Array, x: Array, extrapolate: Extrapolate, axis: int) -> None:
        self.__attrs_init__(c, x, extrapolate, axis)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # attrs makes it
        self._mode(None)

    def _outside(self) -> Extrapolate:
        return self.extrapolate

    def _ends(self) -> tuple[Array, Array]:
        return self.x[0], self.x[-1]

    def __call__(self, x: Nested, nu: int = 0, extrapolate: Extrapolate | None = None) -> Array:
        """Return the values at x, or those of a derivative.

        Args:
            x: any shape.
            nu: the order of the derivative.
            extrapolate: as it was made unless given.
        """
        if nu:
            return self.derivative(nu)(x, extrapolate=self._mode(extrapolate))
        at = self._inside(asarray(x, self.x.dtype), self._mode(extrapolate))
        index = clip(searchsorted(stop_gradient(self.x), stop_gradient(at), side="right") - 1, 0, self.x.size - 2)
        step = at - take(self.x, index, axis=0)
        step = reshape(step, step.shape + (1,) * (self.c.ndim - 2))
        total = take(self.c[0], index, axis=0)
        for coefficients in self.c[1:]:
            total = total * step + take(coefficients, index, axis=0)
        return place(total + 0 * step, at.ndim, self.axis)

    def derivative(self, nu: int = 1) -> PPoly:
        """Return the derivative of an order; of a negative one the antiderivative."""
        if nu < 0:
            return self.antiderivative(-nu)
        k = self.c.shape[0] - 1
        if nu > k:
            return made(PPoly, self.c[:1] * 0, self.x, self.extrapolate, self.axis)
        powers = np.arange(k, nu - 1, -1)
        factors = np.array([math.perm(int(p), nu) for p in powers], self.x.dtype)
        return made(PPoly, self.c[: k + 1 - nu] * column(asarray(factors), self.c), self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> PPoly:
        """Return the antiderivative of an order, continuous and 0 at the first point; periodic ones are not so."""
        if nu <= 0:
            return self.derivative(-nu)
        c = self.c / column(asarray(np.arange(self.c.shape[0], 0, -1).astype(self.x.dtype)), self.c)
        step, area = column(diff(self.x), self.c[0]), self.c[0] * 0
        for coefficients in c:
            area = (area + coefficients) * step
        start = concat([area[:1] * 0, cumsum(area, axis=0)[:-1]], axis=0)
        mode = False if self.extrapolate == "periodic" else self.extrapolate
        return made(PPoly, concat([c, start[None]], axis=0), self.x, mode, self.axis).antiderivative(nu - 1)


P = TypeVar("P", bound=PPoly)


def made(cls: type[P], c: Array, x: Array, extrapolate: Extrapolate, axis: int) -> P:
    """Return a piecewise polynomial of parts that are known to fit."""
    poly = cls.__new__(cls)
    poly._fill(c, x, extrapolate, axis)
    return poly


def _hermite(x: Array, y: Array, slopes: Array) -> Array:
    """Return the coefficients of the cubic polynomials through points with given slopes."""
    step = column(diff(x), y)
    chord = diff(y, axis=0) / step
    bend = (slopes[:-1] + slopes[1:] - 2 * chord) / step
    return stack([bend / step, (chord - slopes[:-1]) / step - bend, slopes[:-1], y[:-1]], axis=0)


# --- Cubic splines


@attrs.frozen(init=False)
class CubicSpline(PPoly):
    """The twice continuously differentiable cubic spline through points; needs the extra ``scipy``.

    Differentiable in the values, the points and where it is evaluated. Periodic ones solve a full system.

    Args:
        x: float[n], ascending.
        y: [..., n, ...], real or complex.
        axis: that of y along which the points lie.
        bc_type: ``"not-a-knot"``, ``"natural"``, ``"clamped"`` or ``"periodic"``; or a pair, one for each end, of these
            or of ``(order, value)`` of a first or second derivative.
        extrapolate: True unless given, ``"periodic"`` where the spline is.

    >>> CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 8.0, 27.0])(1.5).round(4)
    Array(3.375, dtype=float32)
    """

    def __init__(
        self,
        x: Nested,
        y: Nested,
        axis: int = 0,
        bc_type: str | tuple[Condition, Condition] = "not-a-knot",
        extrapolate: Extrapolate | None = None,
    ) -> None:
        points, values = columns(x, y, axis, "CubicSpline")
        periodic = bc_type == "periodic"
        slopes = _periodic_slopes(points, values) if periodic else _cubic_slopes(points, values, bc_type)
        mode = ("periodic" if periodic else True) if extrapolate is None else extrapolate
        self._fill(_hermite(points, values, slopes), points, mode, normalize_axis(axis, values.ndim, "CubicSpline"))


_NAMED: dict[str, tuple[int, float]] = {"natural": (2, 0.0), "clamped": (1, 0.0)}


def _condition(given: Any, who: str) -> tuple[int, Any] | None:
    """Return the order and value of a derivative at an end, None for not-a-knot."""
    if isinstance(given, str) and given in (*_NAMED, "not-a-knot"):
        return _NAMED.get(given)
    if isinstance(given, (tuple, list)) and len(given) == 2 and given[0] in (1, 2):  # pyright: ignore[reportUnknownArgumentType]  # as the user gave it
        return given[0], given[1]  # pyright: ignore[reportUnknownVariableType]  # as the user gave it
    raise ArgumentError(
        f"{who}: an end is 'not-a-knot', 'natural', 'clamped' or (order, value) of order 1 or 2, 'periodic' for both: "
        f"got {given!r}; take one of them"
    )


def _cubic_slopes(x: Array, y: Array, bc_type: Any) -> Array:
    """Return the slopes at the points: a system with three diagonals (de Boor 1978, chapter IV)."""
    pair = (bc_type, bc_type) if isinstance(bc_type, str) else bc_type
    if len(pair) != 2:
        raise ArgumentError(f"CubicSpline: bc_type is one condition or two: got {bc_type!r}; give one for each end")
    first, last = (_condition(c, "CubicSpline") for c in pair)
    step, n = diff(x), x.size
    chord = diff(y, axis=0) / column(step, y)
    if n == 2:  # not-a-knot is the slope of the chord
        first, last = (first or (1, chord[0])), (last or (1, chord[0]))
    if n == 3 and first is None and last is None:
        bend = (chord[1] - chord[0]) / (x[2] - x[0])
        return stack([chord[0] - step[0] * bend, chord[0] + step[0] * bend, chord[1] + step[1] * bend], axis=0)
    head = _end_row(first, step, chord, 1.0)
    tail = _end_row(last, step[::-1], chord[::-1], -1.0)
    inner = 3 * (column(step[1:], y) * chord[:-1] + column(step[:-1], y) * chord[1:])
    zero = step[:1] * 0
    below = concat([zero, step[1:], reshape(tail[1], (1,))], axis=0)
    main = concat([reshape(head[0], (1,)), 2 * (step[1:] + step[:-1]), reshape(tail[0], (1,))], axis=0)
    above = concat([reshape(head[1], (1,)), step[:-1], zero], axis=0)
    right = concat([head[2][None], inner, tail[2][None]], axis=0)
    return reshape(tridiagonal_solve(below, main, above, reshape(right, (n, -1))), right.shape)


def _end_row(given: tuple[int, Any] | None, step: Array, chord: Array, side: float) -> tuple[Array, Array, Array]:
    """Return an end's row of the system: its coefficients for the slope there and the next, and the right side."""
    h = step[0]
    if given is None:
        span = h + step[1]
        return step[1], span, ((h + 2 * span) * step[1] * chord[0] + h * h * chord[1]) / span
    order, value = given
    level = broadcast_to(asarray(value, chord.dtype), chord.shape[1:])
    if order == 1:
        return h * 0 + 1, h * 0, level
    return 2 * h, h, 3 * h * chord[0] - side * 0.5 * h * h * level


def _periodic_slopes(x: Array, y: Array) -> Array:
    first, last = (None, None) if isinstance(y, Tracer) else (np.asarray(y[0]), np.asarray(y[-1]))
    if first is not None and last is not None and not np.allclose(first, last, rtol=1e-15, atol=1e-15):
        raise ArgumentError("CubicSpline: a periodic spline ends where it begins: got other values; set y[-1] to y[0]")
    step = diff(x)
    chord = diff(y, axis=0) / column(step, y)
    before, m = roll(step, 1), x.size - 1
    one = np.eye(m, dtype=x.dtype)
    rows = column(step, step[:, None]) * np.roll(one, -1, 1) + column(before, step[:, None]) * np.roll(one, 1, 1)
    right = 3 * (column(step, y) * roll(chord, 1, axis=0) + column(before, y) * chord)
    matrix = rows + column(2 * (step + before), step[:, None]) * one
    slopes = reshape(solve(matrix, reshape(right, (m, -1))), right.shape)
    return concat([slopes, slopes[:1]], axis=0)


# --- Slopes by neighbours: monotone and Akima's


@attrs.frozen(init=False)
class PchipInterpolator(PPoly):
    """The cubic polynomials through points that rise and fall as these do, without overshoot (Fritsch & Butland 1984).

    Args:
        x: float[n], ascending.
        y: float[..., n, ...].
        axis: that of y along which the points lie.
        extrapolate: True unless given.

    >>> PchipInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 1.0])(1.5)
    Array(1., dtype=float32)
    """

    def __init__(self, x: Nested, y: Nested, axis: int = 0, extrapolate: Extrapolate | None = None) -> None:
        points, values = columns(x, y, axis, "PchipInterpolator")
        mode = True if extrapolate is None else extrapolate
        where_ = normalize_axis(axis, values.ndim, "PchipInterpolator")
        self._fill(_hermite(points, values, _monotone_slopes(points, values)), points, mode, where_)


def _monotone_slopes(x: Array, y: Array) -> Array:
    step = column(diff(x), y)
    chord = diff(y, axis=0) / step
    if x.size == 2:
        return concat([chord, chord], axis=0)
    left, right = chord[:-1], chord[1:]
    turns = (sign(left) != sign(right)) | (left == 0) | (right == 0)
    first, second = 2 * step[1:] + step[:-1], step[1:] + 2 * step[:-1]
    mean = (first + second) / (first / where(turns, 1, left) + second / where(turns, 1, right))
    ends = [_edge_slope(step[i], step[j], chord[i], chord[j]) for i, j in ((0, 1), (-1, -2))]
    return concat([ends[0][None], where(turns, 0, mean), ends[1][None]], axis=0)


def _edge_slope(h: Array, next_h: Array, chord: Array, next_chord: Array) -> Array:
    """Return the slope at an end by three points, limited so that the polynomial stays monotone."""
    slope = ((2 * h + next_h) * chord - h * next_chord) / (h + next_h)
    steep = (sign(chord) != sign(next_chord)) & (abs_(slope) > 3 * abs_(chord))
    return where(sign(slope) != sign(chord), 0, where(steep, 3 * chord, slope))


@attrs.frozen(init=False)
class Akima1DInterpolator(PPoly):
    """The cubic polynomials through points with slopes by four neighbours, which hardly overshoot (Akima 1970).

    Args:
        x: float[n], ascending.
        y: float[..., n, ...].
        axis: that of y along which the points lie.
        method: ``"akima"``, or ``"makima"``, which makes less of flat places.
        extrapolate: False unless given: values outside are nan.

    >>> Akima1DInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 2.0])(0.5)
    Array(0.5, dtype=float32)
    """

    def __init__(
        self,
        x: Nested,
        y: Nested,
        axis: int = 0,
        *,
        method: Literal["akima", "makima"] = "akima",
        extrapolate: Extrapolate | None = None,
    ) -> None:
        choice("Akima1DInterpolator", "method", method, ("akima", "makima"))
        points, values = columns(x, y, axis, "Akima1DInterpolator")
        slopes = _akima_slopes(points, values, 0.5 if method == "makima" else 0.0)
        where_ = normalize_axis(axis, values.ndim, "Akima1DInterpolator")
        self._fill(_hermite(points, values, slopes), points, False if extrapolate is None else extrapolate, where_)


def _akima_slopes(x: Array, y: Array, share: float) -> Array:
    chord = diff(y, axis=0) / column(diff(x), y)
    if x.size == 2:
        return concat([chord, chord], axis=0)
    before, after = 2 * chord[0] - chord[1], 2 * chord[-1] - chord[-2]
    ends = [2 * before - chord[0], before], [after, 2 * after - chord[-1]]
    m = concat([stack(ends[0], axis=0), chord, stack(ends[1], axis=0)], axis=0)
    weights = abs_(diff(m, axis=0)) + share * abs_(m[1:] + m[:-1])
    first, second = weights[2:], weights[:-2]
    both = first + second
    bends = both > 1e-9 * max_(stop_gradient(both))
    part = second / where(bends, both, 1)
    return where(bends, m[1:-2] + part * (m[2:-1] - m[1:-2]), 0.5 * (m[3:] + m[:-3]))
