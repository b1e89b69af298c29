"""Descent: directions (BFGS, truncated Newton) and line searches alternate until the gradient is small."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.control.cond import cond
from afx.control.solving import (
    Status,
    attach_implicit_derivative,
    bound_vector,
    choose_status,
    is_converged,
    iterate,
    norm_of,
    stopped,
)
from afx.control.while_loop import fori_loop, while_loop
from afx.core import Array, epsilon, is_traced
from afx.errors import ArgumentError
from afx.ops import abs as abs_, all as all_, arange, diagonal, eye, matmul, outer, reshape, sqrt, vecdot, vector_norm
from afx.ops.creation.creation import asarray, stop_gradient, zeros, zeros_like
from afx.ops.elementwise.comparison import clip, isfinite, maximum, minimum, where
from afx.ops.manipulation.join import concat, matrix_transpose, stack

# --- Truncated conjugate gradients: the minimizer of a quadratic model, inside a ball if there is one


@attrs.frozen
class Iterate:
    """The state of conjugate gradients: the step, the residual, the direction, and whether it has ended."""

    step: Array
    residual: Array
    direction: Array
    square: Array
    ended: Array
    count: Array


def truncated_cg(
    product: Callable[[Array], Array], gradient: Array, tolerance: Array, radius: Array | None = None
) -> tuple[Array, Array]:
    """Return a step that lowers the model ``gradient·p + p·H·p/2``, and the number of products with H.

    Steihaug 1983, "The conjugate gradient method and trust regions in large scale optimization": ends at the boundary
    of the ball, at negative curvature (on the boundary; without a ball where it stands, or with steepest descent), at
    the tolerance, or after twice as many products as there are unknowns.

    Args:
        product: a vector to the Hessian's product with it.
        gradient: of the model.
        tolerance: of the norm of the model's gradient.
        radius: of the ball.
    """
    n = gradient.shape[0]

    def end_step(it: Iterate, step: Array, bent: Array) -> tuple[Array, Array]:
        """Return the step, moved where it has ended, and whether it has."""
        if radius is None:
            return where(bent, where(it.count == 0, -gradient, it.step), step), bent
        ended = bent | (vector_norm(step) >= radius)
        return where(ended, it.step + _to_boundary(it.step, it.direction, radius) * it.direction, step), ended

    def advance(it: Iterate) -> Iterate:
        hd = product(it.direction)
        curve = vecdot(it.direction, hd)
        bent = ~(curve > np.finfo(curve.dtype).eps * vecdot(it.direction, it.direction))
        alpha = it.square / where(bent, 1.0, curve)
        step, ended = end_step(it, it.step + alpha * it.direction, bent)
        residual = it.residual + alpha * hd
        square = vecdot(residual, residual)
        direction = -residual + square / maximum(it.square, np.finfo(square.dtype).smallest_normal) * it.direction
        return Iterate(step, residual, direction, square, ended | ~isfinite(square), it.count + 1)

    square = vecdot(gradient, gradient)
    begin = Iterate(zeros(n, gradient.dtype), gradient, -gradient, square, asarray(False), asarray(0))
    end = while_loop(lambda it: ~it.ended & (it.count < 2 * n) & (sqrt(it.square) > tolerance), advance, begin)
    return end.step, end.count


def _to_boundary(step: Array, direction: Array, radius: Array) -> Array:
    """Return how far a direction leads from a step inside of a ball to its boundary."""
    a = vecdot(direction, direction)
    b = vecdot(step, direction)
    c = maximum(radius * radius - vecdot(step, step), 0.0)
    root = sqrt(b * b + a * c)
    # the form without cancellation
    return where(b > 0, c / maximum(b + root, np.finfo(a.dtype).smallest_normal), (root - b) / where(a > 0, a, 1.0))


# --- Directions of descent: BFGS, limited-memory BFGS and truncated Newton, each with the memory it learns from
#
# Sources: Nocedal & Wright 2006, algorithms 6.1, 7.4 and 7.1.

M = TypeVar("M")

HessianProduct = Callable[[Array, Array], Array]  # (point, vector) to the Hessian's product with the vector


class Direction(Protocol[M]):
    """A way to find directions of descent: pure functions of a memory, a pytree."""

    def init(self, x: Array) -> M:
        """Return the memory before the first step."""
        ...

    def propose(self, memory: M, x: Array, gradient: Array, free: Array | None) -> tuple[Array, Array]:
        """Return a direction, and how many evaluations it took; where not ``free`` it is 0, as the gradient is."""
        ...

    def learn(self, memory: M, step: Array, change: Array, gradient: Array) -> M:
        """Return the memory after a step, in which the gradient changed to the given one."""
        ...

    def forget(self, memory: M, when: Array) -> M:
        """Return the memory as before the first step, under a condition."""
        ...


def masked(v: Array, free: Array | None) -> Array:
    """Return a vector with 0 where an unknown is not free; None says that all are."""
    return v if free is None else where(free, v, 0.0)


def _curvature(step: Array, change: Array) -> tuple[Array, Array, Array]:
    """Return a step's product with the change, the change's square, and whether the curvature is positive.

    It is so beyond rounding, so that it keeps the matrix definite.
    """
    curve, square = vecdot(step, change), vecdot(change, change)
    # a comparison has no derivative, and the lengths' is infinite at 0, where the first pair of a fresh memory lies
    lengths = sqrt(stop_gradient(vecdot(step, step))) * sqrt(stop_gradient(square))
    return curve, square, curve > epsilon(step.dtype) * lengths


def first_step(gradient: Array) -> Array:
    """Return the length of the first step of steepest descent, for which nothing is known: at most 1."""
    return minimum(1.0, 1 / maximum(vector_norm(gradient), np.finfo(gradient.dtype).smallest_normal))


@attrs.frozen
class Pairs:
    """The last steps and changes of the gradient, in a ring, and the products that directions are made of.

    Attributes:
        rows: float[2, memory + 1, n], steps and changes, each in its place until it is written over; one place is that
            of the next pair.
        products: float[2, memory + 1, memory + 1], of all rows with the changes.
        slopes: float[2, memory + 1], of all rows with the last gradient, whose differences are products with a change.
        learned: int, how many pairs were learned.
    """

    rows: Array
    products: Array
    slopes: Array
    learned: Array


@attrs.frozen
class Lbfgs:
    """Limited-memory BFGS: the last pairs of steps and changes of the gradient (Liu & Nocedal 1989).

    A step reads all pairs twice: the two-loop recursion runs on coefficients of the pairs, by their products with each
    other and with the gradient, as in the compact form of Byrd, Nocedal & Schnabel 1994.
    """

    memory: int

    def init(self, x: Array) -> Pairs:
        """Return a memory without pairs."""
        places = self.memory + 1
        products = zeros((2, places, places), x.dtype)
        return Pairs(zeros((2, places, x.shape[0]), x.dtype), products, products[:, 0], asarray(0))

    def forget(self, memory: Pairs, when: Array) -> Pairs:
        """Return the memory without pairs, under a condition."""
        products, slopes = where(when, 0.0, memory.products), where(when, 0.0, memory.slopes)
        return Pairs(memory.rows, products, slopes, where(when, 0, memory.learned))

    def propose(self, memory: Pairs, x: Array, gradient: Array, free: Array | None) -> tuple[Array, Array]:
        """Return the two-loop recursion's direction."""
        del x
        places, n = memory.rows.shape[1:]
        (of_steps, of_changes), (along_steps, along_changes) = memory.products, memory.slopes
        known = minimum(memory.learned, self.memory)
        oldest, ages = memory.learned - known, arange(places)
        scale = _initial_scale(memory, known, gradient)
        # from the oldest pair to the newest, the two loops are substitutions in a triangle
        order, place_of = (oldest + ages) % places, (ages - oldest) % places
        triangle = of_steps[reshape(order, (places, 1)), order]
        pivots = where(ages < known, diagonal(triangle), 1.0)
        upper, lower = triangle / reshape(pivots, (places, 1)), matrix_transpose(triangle / pivots)
        rest = along_steps[order] / pivots
        none = zeros(places, gradient.dtype)

        def older(i: Array, alphas: Array) -> Array:
            k = known - 1 - i
            return alphas.at[k].set(rest[k] - vecdot(upper[k], alphas))

        alphas = fori_loop(0, known, older, none)
        along = scale * (along_changes - matmul(of_changes, alphas[place_of]))
        left = alphas - along[order] / pivots
        betas = fori_loop(0, known, lambda k, b: b.at[k].set(left[k] - vecdot(lower[k], b)), none)
        of_pairs = matmul(concat([-betas[place_of], scale * alphas[place_of]]), reshape(memory.rows, (2 * places, n)))
        return masked(of_pairs - scale * gradient, free), asarray(0)

    def learn(self, memory: Pairs, step: Array, change: Array, gradient: Array) -> Pairs:
        """Return the memory with a pair in place of the oldest one, where it has positive curvature."""
        places, n = memory.rows.shape[1:]
        curve, square, keep = _curvature(step, change)
        k = memory.learned % places
        rows = memory.rows.at[:, k].set(where(keep, stack([step, change]), 0.0))
        slopes = reshape(matmul(reshape(rows, (2 * places, n)), gradient), (2, places))
        by_change = where(keep, (slopes - memory.slopes).at[:, k].set(stack([curve, square])), 0.0)
        products = memory.products.at[:, :, k].set(by_change).at[1, k].set(by_change[1])
        return Pairs(rows, products, slopes, memory.learned + keep)


def _initial_scale(memory: Pairs, known: Array, gradient: Array) -> Array:
    """Return the size of the inverse Hessian: the last pair's, or that of a first step."""
    last = (memory.learned - 1) % memory.rows.shape[1]
    curve, square = [where(known > 0, products[last, last], 1.0) for products in memory.products]
    return cond(known > 0, lambda _: curve / square, first_step, gradient)


@attrs.frozen
class InverseHessian:
    """An estimate of the inverse Hessian, and whether it has learned anything yet."""

    matrix: Array
    learned: Array


@attrs.frozen
class Bfgs:
    """BFGS: a dense estimate of the inverse Hessian."""

    def init(self, x: Array) -> InverseHessian:
        """Return the unit matrix."""
        return InverseHessian(eye(x.shape[0], dtype=x.dtype), asarray(False))

    def propose(self, memory: InverseHessian, x: Array, gradient: Array, free: Array | None) -> tuple[Array, Array]:
        """Return minus the estimate times the gradient."""
        del x
        scale = where(memory.learned, 1.0, first_step(gradient))
        return masked(-scale * (memory.matrix @ gradient), free), asarray(0)

    def forget(self, memory: InverseHessian, when: Array) -> InverseHessian:
        """Return the unit matrix, under a condition."""
        return choose(when, self.init(memory.matrix[0]), memory)

    def learn(self, memory: InverseHessian, step: Array, change: Array, gradient: Array) -> InverseHessian:
        """Return the updated estimate; before its first update it takes the size of the curvature."""
        del gradient
        curve, square, keep = _curvature(step, change)
        curve = where(keep, curve, 1.0)
        size = where(memory.learned | ~keep, 1.0, curve / where(keep, square, 1.0))
        h = size * memory.matrix
        hy = h @ change
        cross = outer(hy, step)
        new = h + (1 + vecdot(change, hy) / curve) * outer(step, step) / curve - (cross + cross.T) / curve
        return InverseHessian(where(keep, new, memory.matrix), memory.learned | keep)


@attrs.frozen(eq=False)
class NewtonCg:
    """Truncated Newton: conjugate gradients on the Hessian, ended at negative curvature or a relative tolerance."""

    product: HessianProduct

    def init(self, x: Array) -> tuple[Any, ...]:
        """Return no memory."""
        return ()

    def propose(self, memory: tuple[Any, ...], x: Array, gradient: Array, free: Array | None) -> tuple[Array, Array]:
        """Return the direction and the number of products with the Hessian."""
        size = vector_norm(gradient)
        step, count = truncated_cg(
            lambda v: masked(self.product(x, masked(v, free)), free), gradient, minimum(0.5, sqrt(size)) * size
        )
        return step, count

    def learn(self, memory: tuple[Any, ...], step: Array, change: Array, gradient: Array) -> tuple[Any, ...]:
        """Return no memory."""
        return ()

    def forget(self, memory: tuple[Any, ...], when: Array) -> tuple[Any, ...]:
        """Return no memory."""
        return ()


# --- Line searches: strong Wolfe conditions along a ray, sufficient decrease along a projected path

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
        return isfinite(self.value) & isfinite(norm_of(self.gradient))


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
        gradient: of the objective at ``low``.
        accepted: whether the last trial satisfies the conditions.
        evaluations: how many trials there were.
    """

    low: End
    high: End
    closed: Array
    step: Array
    gradient: Array
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
    eps = epsilon(slope.dtype)
    slack = ROUNDING * eps * abs_(start.value)

    def going(b: Bracket) -> Array:
        wide = abs_(b.high.step - b.low.step) > eps * maximum(b.low.step, b.high.step)
        return ~b.accepted & (b.evaluations < MAX_EVALUATIONS) & (~b.closed | wide)

    def advance(b: Bracket) -> Bracket:
        value, gradient = objective(start.x + b.step * direction)
        return _close_in(b, origin, End(b.step, value, vecdot(gradient, direction)), gradient, slack)

    origin = End(zeros_like(slope), start.value, slope)
    no = asarray(False)
    end = while_loop(going, advance, Bracket(origin, origin, no, first, start.gradient, no, asarray(0)))
    best = Point(start.x + end.low.step * direction, end.low.value, end.gradient)
    return best, end.accepted, end.evaluations


def _close_in(b: Bracket, origin: End, trial: End, gradient: Array, slack: Array) -> Bracket:
    """Return the interval after a trial; values that differ by the slack are as low as each other."""
    value, steep = trial.value, trial.slope
    usable = isfinite(value) & isfinite(steep)
    enough = value <= origin.value + DECREASE * b.step * origin.slope
    near = (value <= origin.value + slack) & (steep <= (2 * DECREASE - 1) * origin.slope)
    worse = ~usable | ~(enough | near) | (value > b.low.value + slack)
    accepted = ~worse & (abs_(steep) <= -CURVATURE * origin.slope)
    turned = ~worse & where(b.closed, steep * (b.high.step - b.low.step) >= 0, steep >= 0)
    # a value beyond all numbers ends the interval too
    end = End(b.step, where(usable, value, b.low.value), where(usable, steep, 0.0))
    high = choose(worse, end, choose(turned, b.low, b.high))
    low = choose(worse, b.low, end)
    closed = b.closed | worse | turned
    step_between = low.step + (high.step - low.step) * where(usable, _cubic_fraction(low, high), SHORTEST)
    best = where(worse, b.gradient, gradient)
    return Bracket(low, high, closed, where(closed, step_between, 4 * b.step), best, accepted, b.evaluations + 1)


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
    slack = ROUNDING * epsilon(first.dtype) * abs_(start.value)

    def advance(b: Backtrack) -> Backtrack:
        x = project(start.x + b.step * direction)
        value, gradient = objective(x)
        expected = vecdot(start.gradient, x - start.x)
        near = (value <= start.value + slack) & (vecdot(gradient, x - start.x) <= (2 * DECREASE - 1) * expected)
        accepted = isfinite(value) & (expected < 0) & ((value <= start.value + DECREASE * expected) | near)
        curve = value - start.value - expected
        shrink = where(isfinite(curve) & (curve > 0), -expected / (2 * where(curve > 0, curve, 1.0)), 0.1)
        return Backtrack(b.step * clip(shrink, 0.1, 0.5), Point(x, value, gradient), accepted, b.evaluations + 1)

    end = while_loop(
        lambda b: ~b.accepted & (b.evaluations < MAX_EVALUATIONS),
        advance,
        Backtrack(first, start, asarray(False), asarray(0)),
    )
    return end.trial, end.accepted, end.evaluations


# --- Descent

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


def project(x: Array, box: Box | None) -> Array:
    """Return the nearest point within bounds, if there are any."""
    return x if box is None else box.project(x)


def box_of(bounds: tuple[Any, Any] | None, start: Array, who: str) -> Box | None:
    """Return bounds, each None, a number, or a tree, as a box."""
    if bounds is None:
        return None
    lower, upper = ends_of(bounds, who)
    box = Box(bound_vector(lower, -np.inf, start, who), bound_vector(upper, np.inf, start, who))
    if not is_traced(box.lower) and not is_traced(box.upper) and not all_(box.lower <= box.upper):
        raise ArgumentError(f"{who}: a lower bound lies above the upper one: got bounds={bounds!r}; exchange them")
    return box


def ends_of(bounds: tuple[Any, Any], who: str) -> tuple[Any, Any]:
    """Return bounds if they are a pair: SciPy's list of a pair for each unknown would be read as one where there are two."""
    if not (isinstance(bounds, tuple) and len(bounds) == 2):  # pyright: ignore[reportUnnecessaryIsInstance, reportUnnecessaryComparison]  # a user's value
        raise ArgumentError(
            f"{who}: bounds are a tuple (lower, upper), of numbers, arrays or trees: got {bounds!r}; of a list of pairs "
            "it is tuple(zip(*pairs))"
        )
    return bounds


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
        free: which unknowns have no active bound; None without bounds.
        iterations: steps so far.
        evaluations: evaluations so far.
        status: a `Status`.
    """

    point: Point
    memory: M
    fresh: Array
    free: Array | None
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
    x = project(start, box)
    first = Point(x, *objective(x))
    empty = direction.init(x)

    def advance(s: State[M]) -> State[M]:
        point_ahead, accepted, evaluations = _step(objective, direction, s, box)
        flatter = optimality(point_ahead, box) < optimality(s.point, box)
        lower = (point_ahead.value < s.point.value) | (accepted & flatter)
        stuck = ~lower & s.fresh
        status = where(stuck, int(Status.STALLED), status_of(point_ahead, tolerance, box))
        status = where(lower | stuck, status, int(Status.RUNNING))
        point = choose(lower, point_ahead, s.point)
        free = None if box is None else free_unknowns(point.x, point.gradient, box)
        seen = point_ahead.x - s.point.x, point_ahead.gradient - s.point.gradient, point_ahead.gradient
        learned = direction.learn(s.memory, *[masked(v, free) for v in seen])
        # what was learned is of one set of free unknowns; where nothing was found, steepest descent comes next
        keeps_memory = lower if free is None or s.free is None else lower & all_(free == s.free)
        memory = direction.forget(learned, ~keeps_memory)
        return State(point, memory, ~keeps_memory, free, s.iterations + lower, s.evaluations + evaluations, status)

    free = None if box is None else free_unknowns(x, first.gradient, box)
    begin = State(first, empty, asarray(True), free, asarray(0), asarray(1), status_of(first, tolerance, box))
    return iterate(begin, advance, limit)


def _step(objective: Objective, direction: Direction[M], s: State[M], box: Box | None) -> tuple[Point, Array, Array]:
    """Return the next point, whether it satisfies the conditions of the line search, and the evaluations."""
    g = s.point.gradient
    proposed, count = direction.propose(s.memory, s.point.x, masked(g, s.free), s.free)
    # rounding can spoil a direction
    downhill = vecdot(proposed, g) < 0
    length = cond(downhill, lambda v: zeros((), v.dtype), first_step, g)
    ray = where(downhill, proposed, masked(-g * length, s.free))
    one = asarray(1.0, g.dtype)
    if box is None:
        point, accepted, evaluations = search_strong_wolfe(objective, s.point, ray, one)
    else:
        ray = ray if s.free is None else where(s.free, ray, -g)  # the projection keeps it on its bound
        point, accepted, evaluations = search_projected(objective, box.project, s.point, ray, one)
    return point, accepted, count + evaluations


def free_unknowns(x: Array, g: Array, box: Box) -> Array:
    """Tell which unknowns have no active bound: at it, or so near that a gradient step reaches it."""
    near = minimum(norm_of(x - box.project(x - g)), NEAR)
    return ~(((x <= box.lower + near) & (g > 0)) | ((x >= box.upper - near) & (g < 0)))
