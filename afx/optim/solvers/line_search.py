"""Line searches: strong Wolfe conditions along a ray, sufficient decrease along a projected path."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.control.while_loop import while_loop
from afx.core.array.array import Array
from afx.ops.creation.creation import asarray, zeros_like
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import clip, maximum, where
from afx.ops.linalg.products import vecdot
from afx.ops.reductions.boolean import all as all_

__all__ = ["Objective", "Point", "choose", "search_projected", "search_strong_wolfe"]

DECREASE = 1e-4  # c1 of the Wolfe conditions (Nocedal & Wright 2006, section 3.1)
CURVATURE = 0.9  # c2: loose, as quasi-Newton directions come with a good length
MAX_EVALUATIONS = 30
SHORTEST = 0.1  # how near to an end of the interval a trial may be, as a fraction
ROUNDING = 16  # ulps by which two values may differ through rounding alone

T = TypeVar("T")

Objective = Callable[[Array], tuple[Array, Array]]


@attrs.frozen
class Point:
    """A point with the value and the gradient of the objective there."""

    x: Array
    value: Array
    gradient: Array

    def is_finite(self) -> Array:
        """Tell whether value and gradient are finite."""
        return isfinite(self.value) & all_(isfinite(self.gradient))


def choose(condition: Array, first: T, second: T) -> T:
    """Return one of two trees of arrays."""
    return pytree.map(lambda x, y: where(condition, x, y), first, second)


@attrs.frozen
class End:
    """An end of an interval of steps: the step, the objective there and its derivative along the ray."""

    step: Array
    value: Array
    slope: Array


@attrs.frozen
class Bracket:
    """The state of a search.

    Attributes:
        low: the step with the lowest value that decreases enough.
        high: the other end of the interval; only once ``closed``.
        closed: whether the interval has another end yet.
        step: the next trial.
        best: the point of ``low``.
        accepted: whether the last trial satisfies the conditions.
        evaluations: how many trials there were.
    """

    low: End
    high: End
    closed: Array
    step: Array
    best: Point
    accepted: Array
    evaluations: Array


def search_strong_wolfe(
    objective: Objective, start: Point, direction: Array, first: Array
) -> tuple[Point, Array, Array]:
    """Return a point on a ray that satisfies the strong Wolfe conditions, whether one was found, and the evaluations.

    Nocedal & Wright 2006, algorithms 3.5 and 3.6 as one loop with a trial a round; steps are minimizers of the cubic
    through both ends. Values that differ by rounding alone are compared by their slopes (Hager & Zhang 2005, the
    approximate Wolfe conditions).

    Args:
        objective: a point to value and gradient.
        start: where the ray begins.
        direction: a direction of descent.
        first: the first step to try.
    """
    slope = vecdot(start.gradient, direction)
    eps = float(np.finfo(slope.dtype).eps)
    slack = ROUNDING * eps * abs_(start.value)

    def going(b: Bracket) -> Array:
        wide = abs_(b.high.step - b.low.step) > eps * maximum(b.low.step, b.high.step)
        return ~b.accepted & (b.evaluations < MAX_EVALUATIONS) & (~b.closed | wide)

    def advance(b: Bracket) -> Bracket:
        x = start.x + b.step * direction
        value, gradient = objective(x)
        steep = vecdot(gradient, direction)
        usable = isfinite(value) & isfinite(steep)
        enough = value <= start.value + DECREASE * b.step * slope
        near = (value <= start.value + slack) & (steep <= (2 * DECREASE - 1) * slope)
        worse = ~usable | ~(enough | near) | (value > b.low.value + slack)
        accepted = ~worse & (abs_(steep) <= -CURVATURE * slope)
        turned = ~worse & where(b.closed, steep * (b.high.step - b.low.step) >= 0, steep >= 0)
        # a value beyond all numbers ends the interval too
        end = End(b.step, where(usable, value, b.low.value), where(usable, steep, 0.0))
        high = choose(worse, end, choose(turned, b.low, b.high))
        low = choose(worse, b.low, end)
        closed = b.closed | worse | turned
        inside = low.step + (high.step - low.step) * where(usable, _cubic_fraction(low, high), SHORTEST)
        best = choose(worse, b.best, Point(x, value, gradient))
        return Bracket(low, high, closed, where(closed, inside, 4 * b.step), best, accepted, b.evaluations + 1)

    here = End(zeros_like(slope), start.value, slope)
    no = asarray(False)
    end = while_loop(going, advance, Bracket(here, here, no, first, start, no, asarray(0)))
    return end.best, end.accepted, end.evaluations


def _cubic_fraction(low: End, high: End) -> Array:
    """Return where between two ends the cubic through their values and slopes has its minimum, kept off both ends."""
    width = high.step - low.step
    rise, start, end = high.value - low.value, low.slope * width, high.slope * width
    theta = start + end - 3 * rise
    size = maximum(maximum(abs_(theta), maximum(abs_(start), abs_(end))), float(np.finfo(width.dtype).tiny))
    root = size * sqrt(maximum((theta / size) ** 2 - (start / size) * (end / size), 0.0))
    below = end - start + 2 * root
    fraction = 1 - (end + root - theta) / where(below == 0, 1.0, below)
    return clip(where(isfinite(fraction) & (below != 0), fraction, 0.5), SHORTEST, 1 - SHORTEST)


@attrs.frozen
class Backtrack:
    """The state of a search along a projected path: the next step, the last trial and whether it decreases enough."""

    step: Array
    trial: Point
    accepted: Array
    evaluations: Array


def search_projected(
    objective: Objective, project: Callable[[Array], Array], start: Point, direction: Array, first: Array
) -> tuple[Point, Array, Array]:
    """Return a point on the projection of a ray with a sufficient decrease, whether one was found, and the evaluations.

    Bertsekas 1982, "Projected Newton methods for optimization problems with simple constraints".

    Args:
        objective: a point to value and gradient.
        project: a point to the nearest allowed one.
        start: where the ray begins.
        direction: a direction of descent.
        first: the first step to try.
    """
    slack = ROUNDING * float(np.finfo(first.dtype).eps) * abs_(start.value)

    def going(b: Backtrack) -> Array:
        return ~b.accepted & (b.evaluations < MAX_EVALUATIONS)

    def advance(b: Backtrack) -> Backtrack:
        x = project(start.x + b.step * direction)
        value, gradient = objective(x)
        expected = vecdot(start.gradient, x - start.x)
        near = (value <= start.value + slack) & (vecdot(gradient, x - start.x) <= (2 * DECREASE - 1) * expected)
        accepted = isfinite(value) & (expected < 0) & ((value <= start.value + DECREASE * expected) | near)
        curve = value - start.value - expected
        shrink = where(isfinite(curve) & (curve > 0), -expected / (2 * where(curve > 0, curve, 1.0)), 0.1)
        return Backtrack(b.step * clip(shrink, 0.1, 0.5), Point(x, value, gradient), accepted, b.evaluations + 1)

    end = while_loop(going, advance, Backtrack(first, start, asarray(False), asarray(0)))
    return end.trial, end.accepted, end.evaluations
