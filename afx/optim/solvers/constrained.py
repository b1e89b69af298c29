"""Constrained minima: augmented Lagrangians, and Newton's method on the conditions of optimality at the end.

Source: Powell 1969 and Rockafellar 1973, as in Nocedal & Wright 2006, framework 17.3; the conditions, in which a
multiplier and its inequality stand as ``min(multiplier, inequality) = 0``, are Fischer's 1992 in form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx.control.solving.functions import attach_implicit_derivative, stopped
from afx.control.solving.report import Status, choose_status, is_converged
from afx.control.solving.vectors import iterate, norm_of
from afx.core.array.array import Array
from afx.ops.creation.creation import asarray, zeros
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import maximum, minimum, where
from afx.ops.linalg.products import vecdot
from afx.ops.manipulation.join import concat
from afx.ops.reductions.sums import sum as sum_
from afx.optim.solvers.descend import Box, descend
from afx.optim.solvers.directions import Bfgs, Lbfgs
from afx.optim.solvers.root import newton
from afx.transforms.derivatives.grad import grad, value_and_grad

__all__ = ["Optimum", "Problem", "constrain"]

Joint = Callable[..., tuple[Array, Array, Array]]  # (x, *params) to value, equalities and inequalities

FIRST_PENALTY, LARGEST_PENALTY = 10.0, 1e8
NEAR = 1e-3  # from where on Newton's method takes over
OUTER, POLISH, MANY = 40, 30, 100


@attrs.frozen(eq=False)
class Problem:
    """What is minimized: the joint function, how many conditions there are, and bounds."""

    joint: Joint
    equalities: int
    inequalities: int
    box: Box | None

    def lagrangian(self, x: Array, of_c: Array, of_g: Array, *params: Any) -> Array:
        """Return the value less multipliers times conditions."""
        value, c, g = self.joint(x, *params)
        return value - vecdot(of_c, c) - vecdot(of_g, g)

    def split(self, z: Array) -> tuple[Array, Array, Array]:
        """Return point and multipliers, which stand one after the other."""
        n = z.shape[0] - self.equalities - self.inequalities
        return z[:n], z[n : n + self.equalities], z[n + self.equalities :]

    def conditions(self, z: Array, *given: Any) -> Array:
        """Return what is 0 at a minimum (Karush, Kuhn & Tucker)."""
        x, of_c, of_g = self.split(z)
        params = given if self.box is None else given[:-2]
        slope = grad(self.lagrangian)(x, of_c, of_g, *params)
        _, c, g = self.joint(x, *params)
        still = slope if self.box is None else x - Box(*given[-2:]).project(x - slope)
        return concat([still, c, minimum(of_g, g)])


@attrs.frozen
class Outer:
    """The state between two minimizations.

    Attributes:
        x: the point.
        of_c: the multipliers of equalities.
        of_g: those of inequalities, 0 or more.
        penalty: of violated conditions.
        violation: the largest one.
        iterations: minimizations so far.
        evaluations: of the function so far.
        status: a `Status`.
    """

    x: Array
    of_c: Array
    of_g: Array
    penalty: Array
    violation: Array
    iterations: Array
    evaluations: Array
    status: Array


@attrs.frozen
class Optimum:
    """What was found: the point with its multipliers, differentiable, and the work."""

    x: Array
    of_c: Array
    of_g: Array
    iterations: Array
    evaluations: Array
    status: Array


def constrain(
    problem: Problem, start: Array, params: Sequence[Any], tolerance: float, limit: int, memory: int
) -> Optimum:
    """Return a minimum under conditions, as a differentiable function of parameters and bounds."""
    box = problem.box
    given = [*params] if box is None else [*params, box.lower, box.upper]
    held = stopped(given)
    end = _march(problem, start, held, limit, memory)
    z = concat([end.x, end.of_c, end.of_g])
    last = newton(lambda v: problem.conditions(v, *held), z, tolerance, POLISH)
    lost = where(end.status == int(Status.CONVERGED), int(Status.STALLED), end.status)
    status = where(norm_of(last.residual) <= tolerance, int(Status.CONVERGED), lost)
    found = attach_implicit_derivative(problem.conditions, last.x, given, is_converged(status))
    return Optimum(*problem.split(found), end.iterations + last.iterations, end.evaluations + last.evaluations, status)


def _march(problem: Problem, start: Array, held: Sequence[Any], limit: int, memory: int) -> Outer:
    """Return the last of the minimizations with ever better multipliers, near enough for Newton's method."""
    inside = None if problem.box is None else Box(*held[-2:])
    params = held if problem.box is None else held[:-2]
    direction: Any = Bfgs() if start.shape[0] <= MANY else Lbfgs(memory)

    def advance(s: Outer) -> Outer:
        def penalized(x: Array) -> Array:
            value, c, g = problem.joint(x, *params)
            short = maximum(s.of_g - s.penalty * g, 0.0)
            equal = 0.5 * s.penalty * vecdot(c, c) - vecdot(s.of_c, c)
            return value + equal + 0.5 * sum_(short * short - s.of_g * s.of_g) / s.penalty

        inner = descend(value_and_grad(penalized), direction, s.x, 0.1 * NEAR, limit, inside)
        x = inner.point.x
        _, c, g = problem.joint(x, *params)
        violation = norm_of(concat([c, minimum(g, s.of_g / s.penalty)]))
        worse = ~(violation <= 0.25 * s.violation)
        near = (violation <= NEAR) & is_converged(inner.status)
        failed = inner.status == int(Status.NONFINITE)
        status = where(failed, inner.status, choose_status(near, Status.CONVERGED, Status.RUNNING))
        return Outer(
            x,
            s.of_c - s.penalty * c,
            maximum(s.of_g - s.penalty * g, 0.0),
            where(worse, minimum(10 * s.penalty, LARGEST_PENALTY), s.penalty),
            violation,
            s.iterations + 1,
            s.evaluations + inner.evaluations,
            status,
        )

    x = start if inside is None else inside.project(start)
    of_c, of_g = zeros(problem.equalities, x.dtype), zeros(problem.inequalities, x.dtype)
    penalty, unknown = asarray(FIRST_PENALTY, x.dtype), asarray(np.inf, x.dtype)
    value, c, g = problem.joint(x, *params)
    finite = isfinite(value + sum_(c) + sum_(g))
    status = choose_status(finite, Status.RUNNING, Status.NONFINITE)
    begin = Outer(x, of_c, of_g, penalty, unknown, asarray(0), asarray(1), status)
    return iterate(begin, advance, OUTER)
