"""Trust regions: Newton steps on the part of a quadratic model that has proved right.

Source: Nocedal & Wright 2006, algorithms 4.1 and 7.2 (Steihaug).
"""

from __future__ import annotations

import attrs
import numpy as np

from afx.control.solving.report import Status
from afx.control.solving.vectors import iterate
from afx.core.array.array import Array
from afx.ops.creation.creation import asarray, ones_like
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import maximum, minimum, where
from afx.ops.linalg.products import vecdot
from afx.ops.reductions.moments import vector_norm
from afx.optim.solvers.descend import Box, free_unknowns, optimality, status_of
from afx.optim.solvers.directions import HessianProduct
from afx.optim.solvers.line_search import Objective, Point, choose
from afx.optim.solvers.truncated_cg import truncated_cg

__all__ = ["Region", "trust"]

ACCEPT = 1e-4  # the least ratio of actual to predicted decrease


@attrs.frozen
class Region:
    """The state of a trust-region method: the point and the radius around it in which the model is trusted."""

    point: Point
    radius: Array
    iterations: Array
    evaluations: Array
    status: Array


def trust(
    objective: Objective, product: HessianProduct, start: Array, tolerance: float, limit: int, box: Box | None
) -> Region:
    """Return the last state of a trust-region method; arguments are those of `descend`."""
    x = start if box is None else box.project(start)
    first = Point(x, *objective(x))
    eps = float(np.finfo(x.dtype).eps)

    def advance(s: Region) -> Region:
        here = s.point
        free = ones_like(here.x, dtype=bool) if box is None else free_unknowns(here.x, here.gradient, box)
        g = where(free, here.gradient, 0.0)
        size = vector_norm(g)

        def curved(v: Array) -> Array:
            return where(free, product(here.x, where(free, v, 0.0)), 0.0)

        step, count = truncated_cg(curved, g, minimum(0.5, sqrt(size)) * size, s.radius)
        there = here.x + step if box is None else box.project(here.x + where(free, step, -here.gradient))
        moved = there - here.x
        expected = -vecdot(here.gradient, moved) - 0.5 * vecdot(moved, product(here.x, moved))
        found = Point(there, *objective(there))
        # rounding of the values is no disagreement with the model
        slack = 10 * eps * maximum(abs_(here.value), abs_(found.value))
        ratio = (here.value - found.value + slack) / where(expected + slack > 0, expected + slack, 1.0)
        good = (ratio > ACCEPT) & (expected > 0) & found.is_finite()
        length = vector_norm(step)
        wide = (ratio > 0.75) & (length > 0.99 * s.radius)
        narrow = ~(ratio > 0.25) | ~found.is_finite() | ~(expected > 0)
        radius = where(narrow, 0.25 * minimum(length, s.radius), where(wide, 2 * s.radius, s.radius))
        useless = ~(found.value < here.value) & (optimality(found, box) >= optimality(here, box))
        stuck = (radius <= eps * vector_norm(here.x)) | (radius <= float(np.finfo(x.dtype).tiny))
        stuck = stuck | (good & useless & (expected <= slack))
        status = where(good & ~useless, status_of(found, tolerance, box), int(Status.RUNNING))
        status = where(stuck & (status == int(Status.RUNNING)), int(Status.STALLED), status)
        point = choose(good & ~useless, found, here)
        return Region(point, radius, s.iterations + 1, s.evaluations + count + 2, status)

    radius = maximum(1.0, vector_norm(x)) * 0.5
    radius = where(isfinite(radius), radius, 1.0).astype(x.dtype)
    begin = Region(first, radius, asarray(0), asarray(1), status_of(first, tolerance, box))
    return iterate(begin, advance, limit)
