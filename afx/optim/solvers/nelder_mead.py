"""Nelder and Mead's method: a simplex that reflects, expands, contracts and shrinks, by values alone.

Source: Nelder & Mead 1965, with the coefficients of Gao & Han 2012, which follow the number of unknowns.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from afx.control.cond import cond
from afx.control.solving.report import Status, choose_status
from afx.control.solving.vectors import iterate, norm_of
from afx.core.array.array import Array
from afx.ops.creation.creation import asarray
from afx.ops.creation.matrices import eye
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.comparison import isfinite, isnan
from afx.ops.elementwise.where import maximum, where
from afx.ops.manipulation.join import concat
from afx.ops.reductions.sums import max as max_
from afx.ops.reductions.sums import mean
from afx.ops.sorting.sort import argsort
from afx.optim.solvers.descend import Box
from afx.transforms.vmap import vmap

__all__ = ["Simplex", "shrink_simplex"]

FIRST_STEP, STEP_FROM_ZERO = 0.05, 0.00025  # SciPy's
NEAR, FEW = 100, 4  # tolerances, and ulps


@attrs.frozen
class Simplex:
    """The state: corners from the best one to the worst, their values, and the work."""

    corners: Array
    values: Array
    iterations: Array
    evaluations: Array
    status: Array


def shrink_simplex(
    objective: Callable[[Array], Array], start: Array, tolerance: float, limit: int, box: Box | None
) -> Simplex:
    """Return the last simplex.

    Args:
        objective: a point to its value; nan counts as infinite.
        start: the first corner.
        tolerance: of the size of the simplex, relative to its best corner where that is above 1.
        limit: of iterations.
        box: the bounds, to which corners are moved, or None.
    """
    n = start.shape[0]
    expand, contract, shrink = 1 + 2 / max(n, 2), 0.75 - 0.5 / max(n, 2), 1 - 1 / max(n, 2)

    def at(x: Array) -> Array:
        value = objective(x)
        return where(isnan(value), np.inf, value)

    def inside(x: Array) -> Array:
        return x if box is None else box.project(x)

    def ordered(corners: Array, values: Array, iterations: Array, evaluations: Array) -> Simplex:
        order = argsort(values)
        corners, values = corners[order], values[order]
        size = max_(abs_(corners - corners[0]))
        unit = tolerance * maximum(norm_of(corners[0]), 1.0)
        spread, level = values[-1] - values[0], abs_(values[0])
        # where values differ by rounding alone no corner is better than another
        equal = (size <= NEAR * unit) & (spread <= FEW * float(np.finfo(start.dtype).eps) * level)
        small = (size <= unit) & (spread <= tolerance * maximum(level, tolerance))
        status = choose_status(small | equal, Status.CONVERGED, Status.RUNNING)
        status = where((size == 0) & ~small, int(Status.STALLED), status)
        status = where(isfinite(values[0]), status, int(Status.NONFINITE))
        return Simplex(corners, values, iterations, evaluations, status)

    def advance(s: Simplex) -> Simplex:
        centre, worst = mean(s.corners[:-1], axis=0), s.corners[-1]

        def along(length: Array | float) -> Array:
            return inside(centre + length * (centre - worst))

        first = along(1.0)
        value = at(first)
        outside = value < s.values[-1]
        length = where(value < s.values[0], expand, where(outside, contract, -contract))
        second = along(length.astype(start.dtype))
        other = at(second)
        best, plain = value < s.values[0], value < s.values[-2]
        takes_second = where(best, other < value, ~plain & (other <= where(outside, value, s.values[-1])))
        found, known = where(takes_second, second, first), where(takes_second, other, value)
        fails = ~(best | plain | takes_second)

        def replaced(corners: Array, values: Array) -> tuple[Array, Array]:
            return concat([corners[:-1], found[None]]), concat([values[:-1], known[None]])

        def shrunk(corners: Array, values: Array) -> tuple[Array, Array]:
            moved = corners[0] + shrink * (corners[1:] - corners[0])
            return concat([corners[:1], moved]), concat([values[:1], vmap(at)(moved)])

        corners, values = cond(fails, shrunk, replaced, s.corners, s.values)
        return ordered(corners, values, s.iterations + 1, s.evaluations + 2 + where(fails, n, 0))

    corners = _first_corners(start, box)
    begin = ordered(corners, vmap(at)(corners), asarray(0), asarray(n + 1))
    return iterate(begin, advance, limit)


def _first_corners(start: Array, box: Box | None) -> Array:
    """Return the start and a step along each axis from it, inside of the bounds."""
    x = start if box is None else box.project(start)
    steps = eye(x.shape[0], dtype=x.dtype) * where(x == 0, STEP_FROM_ZERO, FIRST_STEP * x)
    others = x + steps
    if box is not None:  # a corner beyond its bound goes the other way
        others = vmap(box.project)(where((others > box.upper) | (others < box.lower), x - steps, others))
    return concat([x[None], others])
