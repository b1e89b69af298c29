"""Many dimensions and names: regular grids, radial basis functions, and one dimension by the name of a method."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import attrs
import numpy as np

from afx.core import Array, ArrayLike, Shown, Tracer
from afx.errors import ArgumentError, ShapeError
from afx.interpolate.piecewise import check_ascending, column, columns, pair_of, place
from afx.interpolate.splines import BSpline, make_interp_spline
from afx.ops import any as any_, broadcast_to, clip, exp, isnan, log, pad, reshape, searchsorted, sqrt, take, where
from afx.ops._kinds.matrix import choice, floating, promote_pair
from afx.ops.creation.creation import Nested, asarray, promote_operands, stop_gradient
from afx.ops.indexing.gather import gather
from afx.ops.linalg.solve import solve
from afx.ops.manipulation.join import broadcast_arrays, concat, stack
from afx.ops.reductions.sums import max as max_, min as min_, prod, sum as sum_

__all__ = ["RBFInterpolator", "RegularGridInterpolator", "interp1d"]

# --- One dimension

Kind = Literal["linear", "slinear", "nearest", "nearest-up", "previous", "next", "zero", "quadratic", "cubic"]
_OF_DEGREE: dict[Any, Kind] = {0: "zero", 1: "slinear", 2: "quadratic", 3: "cubic"}
_DEGREES = {"linear": 1, "slinear": 1, "quadratic": 2, "cubic": 3}
_STEPS = {
    "nearest": ("left", 0), "nearest-up": ("right", 0), "previous": ("right", 1), "zero": ("right", 1), "next": ("left", 0),
}  # fmt: skip


@attrs.frozen(init=False)
class interp1d:  # SciPy's name
    """The function through points by the name of a method; differentiable in values and points. A tree.

    Values outside are ``fill_value``, nan unless given, where SciPy raises unless told otherwise: ``"extrapolate"`` goes on,
    a pair is for below and above.

    Args:
        x: float[n], none twice.
        y: [..., n, ...], real or complex.
        kind: ``"linear"``, ``"nearest"`` (halves down), ``"nearest-up"``, ``"previous"``, ``"next"``, ``"quadratic"``,
            ``"cubic"`` …, or a spline's degree from 0 to 3.
        axis: that of y along which the points lie.
        bounds_error: whether points outside raise, as far as they are known; traced ones take ``fill_value``.
        fill_value: a number, a pair, or ``"extrapolate"``.
        assume_sorted: that the points ascend; they are sorted otherwise.

    Raises:
        ArgumentError: another kind or filling; both ``bounds_error`` and ``"extrapolate"``; from a call, a point outside.

    >>> interp1d([0.0, 1.0], [0.0, 10.0])(0.25)
    Array(2.5, dtype=float32)
    """

    x: Array
    y: Array
    spline: BSpline | None
    fill: tuple[Array, Array] | None
    kind: str
    axis: int
    bounds_error: bool

    def __init__(
        self,
        x: Nested,
        y: Nested,
        kind: Kind | Literal[0, 1, 2, 3] = "linear",
        axis: int = -1,
        *,
        bounds_error: bool | None = None,
        fill_value: ArrayLike | str | tuple[ArrayLike, ArrayLike] = math.nan,
        assume_sorted: bool = False,
    ) -> None:
        named: Any = _OF_DEGREE.get(kind, kind) if isinstance(kind, int) else kind
        choice("interp1d", "kind", named, (*_DEGREES, *_STEPS))
        degree = _DEGREES.get(named, 0)
        points, values = columns(x, y, axis, "interp1d", degree + 1, in_order=assume_sorted)
        spline = make_interp_spline(points, values, degree) if degree else None
        pair: Any = fill_value if fill_value.__class__ is tuple else (fill_value, fill_value)
        fill = None if isinstance(fill_value, str) else (asarray(pair[0], values.dtype), asarray(pair[1], values.dtype))
        if isinstance(fill_value, str) and fill_value != "extrapolate":
            raise ArgumentError(
                f"interp1d: fill_value is a number, a pair or 'extrapolate': got {fill_value!r}; take one"
            )
        if bounds_error and fill is None:
            raise ArgumentError("interp1d: points outside raise or are extrapolated: got both; leave one out")
        if fill is None and named in ("previous", "next"):  # of which one side has none, as in SciPy
            nothing = asarray(math.nan, values.dtype)
            fill = (nothing, values[-1]) if named == "previous" else (values[0], nothing)
        self.__attrs_init__(points, values, spline, fill, named, axis % values.ndim, bool(bounds_error))  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # attrs makes it

    def __call__(self, x: Nested) -> Array:
        """Return the values at x, of any shape."""
        at = asarray(x, self.x.dtype)
        if self.bounds_error:
            _refuse_outside((at < self.x[0]) | (at > self.x[-1]), "interp1d")
        if self.spline is not None:
            values = self.spline(at)
        else:
            choice("interp1d", "kind", self.kind, tuple(_STEPS))  # which a file may have changed
            breaks = self.x[1:] / 2 + self.x[:-1] / 2 if self.kind.startswith("nearest") else self.x
            side, back = _STEPS[self.kind]
            index = searchsorted(stop_gradient(breaks), stop_gradient(at), side=side) - back
            values = take(self.y, clip(index, 0, self.x.size - 1), axis=0)
        if self.fill is not None:
            like = reshape(at, at.shape + (1,) * (self.y.ndim - 1))
            values = where(like < self.x[0], self.fill[0], where(like > self.x[-1], self.fill[1], values))
        return place(values, at.ndim, self.axis)


def _refuse_outside(outside: Array, who: str) -> None:
    """Raise where a point is known to lie outside."""
    if not isinstance(outside, Tracer) and np.asarray(outside).any():
        raise ArgumentError(
            f"{who}: a point lies outside of the grid: got {np.count_nonzero(outside)} of {outside.size}; "
            "clip it, or pass bounds_error=False"
        )


# --- Regular grids


def _grid_of(points: Sequence[Nested], values: Nested, method: str) -> tuple[tuple[Array, ...], Array]:
    """Return the vectors of a grid and its values, which `method` can interpolate.

    Raises:
        ShapeError: vectors and values do not fit, or there are too few points.
        ArgumentError: a vector does not ascend.
    """
    *axes, table = promote_operands(*points, values)
    table = floating(table, "RegularGridInterpolator")
    grid = tuple([promote_pair(x, np.zeros((), table.real.dtype), "RegularGridInterpolator")[0] for x in axes])
    lengths = tuple([x.size for x in grid])
    if any([x.ndim != 1 for x in grid]) or table.shape[: len(grid)] != lengths:
        raise ShapeError(
            f"RegularGridInterpolator: values have an axis for each vector of points: got {table.aval} for lengths {lengths}"
        )
    if min(lengths, default=1) <= _SPLINES.get(method, 0):
        raise ShapeError(f"RegularGridInterpolator: {method} wants more points on each axis: got lengths {lengths}")
    for x in grid:
        check_ascending(x, "RegularGridInterpolator")
    return grid, table


@attrs.frozen(init=False)
class RegularGridInterpolator(Shown):
    """The function through values on a grid, differentiable in values, grid and where it is evaluated. A tree.

    Args:
        points: for each dimension float[n], ascending.
        values: [n₁, …, n_d, …].
        method: ``"linear"``, ``"nearest"`` (halves down), ``"slinear"``, ``"cubic"`` or ``"quintic"``: a spline along each axis.
        bounds_error: whether points outside raise, as far as they are known; traced ones take ``fill_value``.
        fill_value: the value outside, None to extrapolate; points with nan have nan.

    Raises:
        ShapeError: the grid does not fit the values, or has too few points for the method.
        ArgumentError: another method; points that do not ascend.

    >>> grid = RegularGridInterpolator(([0.0, 1.0], [0.0, 1.0]), [[0.0, 1.0], [2.0, 3.0]])
    >>> grid([[0.5, 0.5]])
    Array([1.5], dtype=float32)
    """

    grid: tuple[Array, ...]
    values: Array
    fill_value: Array | None
    method: str
    bounds_error: bool

    def __init__(
        self,
        points: Sequence[Nested],
        values: Nested,
        method: Literal["linear", "nearest", "slinear", "cubic", "quintic"] = "linear",
        bounds_error: bool = True,
        fill_value: ArrayLike | None = math.nan,
    ) -> None:
        choice("RegularGridInterpolator", "method", method, ("linear", "nearest", *_SPLINES))
        if not isinstance(points, (tuple, list)):
            raise ArgumentError(
                f"RegularGridInterpolator: points are a tuple, a vector for each axis of values: got {points!r}; write (x,)"
            )
        grid, table = _grid_of(points, values, method)
        fill = None if fill_value is None else asarray(fill_value, table.dtype)
        self.__attrs_init__(grid, table, fill, method, bounds_error)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # attrs makes it

    def __call__(self, xi: Any, method: str | None = None) -> Array:
        """Return the values at points [..., d], or at a tuple of d arrays that broadcast; by another method if given."""
        how = self.method if method is None else method
        choice("RegularGridInterpolator", "method", how, ("linear", "nearest", *_SPLINES))
        dtype, parts = self.grid[0].dtype, xi
        given = (
            asarray(xi, dtype)
            if not isinstance(xi, tuple)
            else stack(broadcast_arrays(*[asarray(x, dtype) for x in parts]), axis=-1)
        )
        d = len(self.grid)
        if given.ndim < 1 or given.shape[-1] != d:
            raise ShapeError(f"RegularGridInterpolator: points are [..., {d}]: got {given.aval}; reshape them")
        at = reshape(given, (-1, d))
        unknown = any_(isnan(at), axis=1)
        outside = unknown & self.bounds_error
        for k, x in enumerate(self.grid):
            outside = outside | (at[:, k] < x[0]) | (at[:, k] > x[-1])
        if self.bounds_error:
            _refuse_outside(outside, "RegularGridInterpolator")
        values = self._spline(at, _SPLINES[how]) if how in _SPLINES else self._cells(at, how == "nearest")
        if self.fill_value is not None:
            values = where(column(outside, values), self.fill_value, values)
        values = where(column(unknown, values), math.nan, values)
        return reshape(values, given.shape[:-1] + values.shape[1:])

    def _cells(self, at: Array, nearest: bool) -> Array:
        """Return the values of corners of cells, each by its share."""
        low: list[Any] = []
        share: list[Array] = []
        for k, x in enumerate(self.grid):
            most = max(x.size - 2, 0)
            index = clip(searchsorted(stop_gradient(x), stop_gradient(at[:, k]), side="right") - 1, 0, most)
            span = take(x, clip(index + 1, 0, x.size - 1), axis=0) - take(x, index, axis=0)
            share.append((at[:, k] - take(x, index, axis=0)) / where(span == 0, 1, span))
            low.append(index)
        if nearest:
            cells = zip(low, share, self.grid, strict=True)
            return gather(self.values, *[clip(i + (s > 0.5), 0, x.size - 1) for i, s, x in cells])
        total: Any = 0.0
        for corner in itertools.product((0, 1), repeat=len(self.grid)):
            places = [clip(i + c, 0, x.size - 1) for i, c, x in zip(low, corner, self.grid, strict=True)]
            weight: Any = 1.0
            for c, s in zip(corner, share, strict=True):
                weight = weight * (s if c else 1 - s)
            values = gather(self.values, *places)
            total = total + column(weight, values) * values
        return asarray(total)

    def _spline(self, at: Array, degree: int) -> Array:
        """Return the values of a product of splines: a row of weights for each point and axis."""
        total: Any = None
        for k, x in enumerate(self.grid):
            weights = make_interp_spline(x, np.eye(x.size, dtype=x.dtype), degree)(at[:, k])
            if total is None:
                flat = reshape(self.values, (x.size, -1))
                total = reshape(weights @ flat, (at.shape[0], *self.values.shape[1:]))
            else:
                wide = reshape(weights, weights.shape + (1,) * (total.ndim - 2))
                total = sum_(wide * total, axis=1)
        return asarray(total)


_SPLINES = {"slinear": 1, "cubic": 3, "quintic": 5}

# --- Radial basis functions


def _safe(squares: Array) -> Array:
    """Return squared distances, 1 in place of 0, where a root has no derivative."""
    return where(squares == 0, 1, squares)


KERNELS: dict[str, Callable[[Array], Array]] = {  # of squared distances
    "linear": lambda s: -where(s == 0, 0, sqrt(_safe(s))),
    "thin_plate_spline": lambda s: 0.5 * s * log(_safe(s)),
    "cubic": lambda s: s * sqrt(_safe(s)),
    "quintic": lambda s: -s * s * sqrt(_safe(s)),
    "multiquadric": lambda s: -sqrt(s + 1),
    "inverse_multiquadric": lambda s: 1 / sqrt(s + 1),
    "inverse_quadratic": lambda s: 1 / (s + 1),
    "gaussian": lambda s: exp(-s),
}
# degrees that make it solvable
_LEAST = {"thin_plate_spline": 1, "cubic": 1, "quintic": 2}  # of the others 0


def _powers_of(n: int, size: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """Return the powers of `size` coordinates in each term of a polynomial that n points decide.

    Raises:
        ArgumentError: the degree is below -1, that of no polynomial.
        ShapeError: there are more terms than points.
    """
    if degree < -1:
        raise ArgumentError(f"RBFInterpolator: the degree is -1 or more: got {degree}; give another")
    powers = tuple([p for p in itertools.product(range(degree + 1), repeat=size) if sum(p) <= degree])
    if len(powers) > n:
        raise ShapeError(
            f"RBFInterpolator: a polynomial of degree {degree} wants {len(powers)} points: got {n}; give more"
        )
    return powers


@attrs.frozen(init=False)
class RBFInterpolator(Shown):
    """A sum of radial functions around points and a polynomial, through values there. A tree, differentiable in all of it.

    Args:
        y: float[n, d], the points.
        d: float[n, …], the values.
        neighbors: None: all points count.
        smoothing: 0 or more, one number or float[n]: how little the values must be met.
        kernel: ``"thin_plate_spline"``, ``"linear"``, ``"cubic"``, ``"quintic"``, ``"multiquadric"``, ``"inverse_multiquadric"``,
            ``"inverse_quadratic"`` or ``"gaussian"``.
        epsilon: a factor of distances, needed by the last four, 1 for the others.
        degree: of the polynomial, -1 for none; the least that fits the kernel, 0 or more, unless given.

    Raises:
        ShapeError: the values do not fit the points, or these are too few for the polynomial.
        ArgumentError: another kernel or degree, no epsilon, or neighbors.

    >>> RBFInterpolator(np.array([[0.0], [1.0], [3.0]]), np.array([0.0, 1.0, 3.0]))(np.array([[2.0]])).round(6)
    Array([2.], dtype=float64)
    """

    y: Array
    coefficients: Array
    shift: Array
    scale: Array
    epsilon: Array
    kernel: str
    powers: tuple[tuple[int, ...], ...]

    def __init__(
        self,
        y: ArrayLike,
        d: ArrayLike,
        neighbors: None = None,
        smoothing: ArrayLike = 0.0,
        kernel: str = "thin_plate_spline",
        epsilon: ArrayLike | None = None,
        degree: int | None = None,
    ) -> None:
        choice("RBFInterpolator", "kernel", kernel, tuple(KERNELS))
        points, values = pair_of(y, d, "RBFInterpolator")
        if points.ndim != 2 or values.shape[:1] != points.shape[:1]:
            raise ShapeError(
                f"RBFInterpolator: points are [n, d], values [n, …]: got {points.aval} and {values.aval}; reshape"
            )
        if neighbors is not None:
            raise ArgumentError(f"RBFInterpolator: all points count: got neighbors={neighbors!r}; leave it out")
        if epsilon is None and kernel not in ("linear", "thin_plate_spline", "cubic", "quintic"):
            raise ArgumentError(f"RBFInterpolator: the kernel {kernel!r} has a length: got no epsilon; give one")
        n, size = points.shape
        powers = _powers_of(n, size, _LEAST.get(kernel, 0) if degree is None else degree)
        low, high = min_(points, axis=0), max_(points, axis=0)
        scale = where(high == low, 1, (high - low) / 2)
        factor = asarray(1.0 if epsilon is None else epsilon, points.dtype)
        shift = (high + low) / 2
        self.__attrs_init__(points, values[:0], shift, scale, factor, kernel, powers)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # attrs makes it
        level = broadcast_to(asarray(smoothing, points.dtype), points.shape[:1])
        object.__setattr__(self, "coefficients", self._solve(values, level))

    def _solve(self, values: Array, level: Array) -> Array:
        """Return weights of the points, which no polynomial sees, and then those of the powers."""
        n, count, rows = self.y.shape[0], len(self.powers), self._rows(self.y)
        top = concat([rows[:, :n] + column(level, rows) * np.eye(n, dtype=rows.dtype), rows[:, n:]], axis=1)
        matrix = concat([top, pad(rows[:, n:].T, ((0, 0), (0, count)))])
        right = concat([values, broadcast_to(values[:1] * 0, (count, *values.shape[1:]))])
        return reshape(solve(matrix, reshape(right, (n + count, -1))), right.shape)

    def _rows(self, x: Array) -> Array:
        """Return, for each point, the values of all functions."""
        gap = (x[:, None, :] - self.y[None]) * self.epsilon
        radial = KERNELS[self.kernel](sum_(gap * gap, axis=-1))
        if not self.powers:
            return radial
        unit = (x - self.shift) / self.scale
        monomials = [prod(stack([unit[:, j] ** p for j, p in enumerate(ps)]), axis=0) for ps in self.powers]
        return concat([radial, stack(monomials, axis=-1)], axis=-1)

    def __call__(self, x: ArrayLike) -> Array:
        """Return the values at points float[m, d]."""
        at = asarray(x, self.y.dtype)
        if at.ndim != 2 or at.shape[1] != self.y.shape[1]:
            raise ShapeError(f"RBFInterpolator: points are [m, {self.y.shape[1]}]: got {at.aval}; reshape them")
        choice("RBFInterpolator", "kernel", self.kernel, tuple(KERNELS))  # which a file may have changed
        flat = reshape(self.coefficients, (self.coefficients.shape[0], -1))
        return reshape(self._rows(at) @ flat, (at.shape[0], *self.coefficients.shape[1:]))
