"""Descent: directions and line searches alternate until the gradient is small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import attrs
import numpy as np

from afx.control.solving.functions import attach_implicit_derivative, stopped
from afx.control.solving.report import Status, choose_status, is_converged
from afx.control.solving.vectors import bound_vector, iterate, norm_of
from afx.core.array.array import Array
from afx.core.tracing.tracer import is_traced
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray, ones_like
from afx.ops.elementwise.where import minimum, where
from afx.ops.linalg.products import vecdot
from afx.ops.reductions.boolean import all as all_
from afx.optim.solvers.directions import Direction, first_step
from afx.optim.solvers.line_search import Objective, Point, choose, search_projected, search_strong_wolfe

__all__ = ["Box", "State", "attach_minimum", "box_of", "descend", "free_unknowns", "optimality", "status_of"]

M = TypeVar("M")

NEAR = 1e-6  # how near to a bound it can be active (Bertsekas 1982, equation 32)


@attrs.frozen
class Box:
    """Bounds of each unknown, infinite where there is none."""

    lower: Array
    upper: Array

    def stopped(self) -> Box:
        """Return the same bounds, through which no derivative flows."""
        return Box(*stopped([self.lower, self.upper]))

    def project(self, x: Array) -> Array:
        """Return the nearest point of the box."""
        return where(x < self.lower, self.lower, where(x > self.upper, self.upper, x))


def box_of(bounds: tuple[Any, Any] | None, start: Array, who: str) -> Box | None:
    """Return bounds, each None, a number, or a tree, as a box."""
    if bounds is None:
        return None
    lower, upper = bounds
    box = Box(bound_vector(lower, -np.inf, start, who), bound_vector(upper, np.inf, start, who))
    if not is_traced(box.lower) and not is_traced(box.upper) and not all_(box.lower <= box.upper):
        raise ArgumentError(f"{who}: a lower bound lies above the upper one: got bounds={bounds!r}; exchange them")
    return box


def attach_minimum(
    slope: Callable[..., Array], x: Array, params: Sequence[Any], box: Box | None, status: Array
) -> Array:
    """Return a minimum as a differentiable function of parameters and of bounds, where it is one.

    Args:
        slope: (x, *params) to the gradient.
        x: what a solver found, a constant for derivatives.
        params: what the gradient depends on.
        box: the bounds.
        status: of the solver.
    """
    if box is None:
        return attach_implicit_derivative(slope, x, params, is_converged(status))

    def residual(y: Array, *given: Any) -> Array:
        *ps, lower, upper = given
        return y - Box(lower, upper).project(y - slope(y, *ps))

    return attach_implicit_derivative(residual, x, [*params, box.lower, box.upper], is_converged(status))


@attrs.frozen
class State(Generic[M]):
    """The state of a descent.

    Attributes:
        point: where it is.
        memory: what the direction has learned.
        fresh: whether the memory is as at the start, so that the direction is steepest descent.
        free: which unknowns have no active bound.
        iterations: steps so far.
        evaluations: evaluations so far.
        status: a `Status`.
    """

    point: Point
    memory: M
    fresh: Array
    free: Array
    iterations: Array
    evaluations: Array
    status: Array


def optimality(point: Point, box: Box | None) -> Array:
    """Return the largest component of the gradient; with bounds of how far the projected gradient step moves."""
    g = point.gradient if box is None else point.x - box.project(point.x - point.gradient)
    return norm_of(g)


def status_of(point: Point, tolerance: float, box: Box | None) -> Array:
    """Return the status of a point: converged, not finite, or still running."""
    small = optimality(point, box) <= tolerance
    return where(~point.is_finite(), int(Status.NONFINITE), choose_status(small, Status.CONVERGED, Status.RUNNING))


def descend(
    objective: Objective, direction: Direction[M], start: Array, tolerance: float, limit: int, box: Box | None
) -> State[M]:
    """Return the last state of a descent.

    Args:
        objective: a point to value and gradient.
        direction: how directions are found.
        start: the first point; with bounds its projection is.
        tolerance: of the largest component of the gradient.
        limit: of iterations.
        box: the bounds, or None.
    """
    x = start if box is None else box.project(start)
    first = Point(x, *objective(x))
    empty = direction.init(x)

    def advance(s: State[M]) -> State[M]:
        found, accepted, evaluations = _step(objective, direction, s, box)
        flatter = optimality(found, box) < optimality(s.point, box)
        lower = (found.value < s.point.value) | (accepted & flatter)
        stuck = ~lower & s.fresh
        status = where(stuck, int(Status.STALLED), status_of(found, tolerance, box))
        status = where(lower | stuck, status, int(Status.RUNNING))
        point = choose(lower, found, s.point)
        free = s.free if box is None else free_unknowns(point.x, point.gradient, box)
        step, change = found.x - s.point.x, found.gradient - s.point.gradient
        learned = direction.learn(s.memory, where(free, step, 0.0), where(free, change, 0.0))
        # what was learned is of one set of free unknowns; where nothing was found, steepest descent comes next
        kept = lower & all_(free == s.free)
        memory = choose(kept, learned, empty)
        return State(point, memory, ~kept, free, s.iterations + lower, s.evaluations + evaluations, status)

    free = ones_like(x, dtype=bool) if box is None else free_unknowns(x, first.gradient, box)
    begin = State(first, empty, asarray(True), free, asarray(0), asarray(1), status_of(first, tolerance, box))
    return iterate(begin, advance, limit)


def _step(objective: Objective, direction: Direction[M], s: State[M], box: Box | None) -> tuple[Point, Array, Array]:
    """Return the next point, whether it satisfies the conditions of the line search, and the evaluations."""
    g = s.point.gradient
    proposed, count = direction.propose(s.memory, s.point.x, g, s.free)
    # rounding can spoil a direction
    downhill = vecdot(proposed, g) < 0
    ray = where(downhill, proposed, where(s.free, -g * first_step(g), 0.0))
    one = asarray(1.0, g.dtype)
    if box is None:
        found, accepted, evaluations = search_strong_wolfe(objective, s.point, ray, one)
    else:
        ray = where(s.free, ray, -g)  # the projection keeps it on its bound
        found, accepted, evaluations = search_projected(objective, box.project, s.point, ray, one)
    return found, accepted, count + evaluations


def free_unknowns(x: Array, g: Array, box: Box) -> Array:
    """Tell which unknowns have no active bound: at it, or so near that a gradient step reaches it."""
    near = minimum(norm_of(x - box.project(x - g)), NEAR)
    return ~(((x <= box.lower + near) & (g > 0)) | ((x >= box.upper - near) & (g < 0)))
