"""Minima: `minimize` by descent, trust regions or simplices, within constraints too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, TypeVarTuple

import attrs
import numpy as np

from afx.control.cond import cond
from afx.control.solving import (
    Parametrized,
    Status,
    as_scalar,
    as_vector,
    attach_implicit_derivative,
    begin_at,
    choose_status,
    is_converged,
    iterate,
    norm_of,
    parametrize,
    solve,
    stopped,
)
from afx.control.while_loop import while_loop
from afx.core import Array, Function, epsilon
from afx.errors import ArgumentError
from afx.ops import abs as abs_, argsort, concat, eye, matmul, outer, sqrt, vecdot, vector_norm
from afx.ops.creation.creation import asarray, full, ones_like, zeros, zeros_like
from afx.ops.elementwise.comparison import isfinite, isnan, maximum, minimum, where
from afx.ops.linalg.solve import solve_or_nan
from afx.ops.reductions.sums import any as any_, max as max_, mean, sum as sum_
from afx.optim.solvers.descend import (
    Bfgs,
    Box,
    Direction,
    HessianProduct,
    Lbfgs,
    NewtonCg,
    Objective,
    Point,
    State,
    attach_minimum,
    box_of,
    choose,
    descend,
    free_unknowns,
    optimality,
    project,
    status_of,
    truncated_cg,
)
from afx.optim.solvers.root import ConstrainedResult, MinimizeResult, newton
from afx.transforms._arguments import check_callable
from afx.transforms.compile.make_graph import eval_shape
from afx.transforms.derivatives.grad import grad, value_and_grad
from afx.transforms.derivatives.jacobian import jacrev
from afx.transforms.derivatives.jvp import jvp
from afx.transforms.vmap import vmap

# --- Trust regions: Newton steps on the part of a quadratic model that has proved right
#
# Source: Nocedal & Wright 2006, algorithms 4.1 and 7.2 (Steihaug).

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
    x = project(start, box)
    first = Point(x, *objective(x))

    def advance(s: Region) -> Region:
        current = s.point
        target, step, count = _step_in_region(s, product, box)
        moved = target - current.x
        expected = -vecdot(current.gradient, moved) - 0.5 * vecdot(moved, product(current.x, moved))
        trial = Point(target, *objective(target))
        return _judge(s, trial, expected, vector_norm(step), s.evaluations + count + 2, tolerance, box)

    radius = maximum(1.0, vector_norm(x)) * 0.5
    radius = where(isfinite(radius), radius, 1.0).astype(x.dtype)
    return iterate(Region(first, radius, asarray(0), asarray(1), status_of(first, tolerance, box)), advance, limit)


def _step_in_region(s: Region, product: HessianProduct, box: Box | None) -> tuple[Array, Array, Array]:
    """Return where the model is least, as far as it is trusted, with the step there before bounds, and the products it took."""
    current = s.point
    free = ones_like(current.x, dtype=bool) if box is None else free_unknowns(current.x, current.gradient, box)
    g = where(free, current.gradient, 0.0)
    size = vector_norm(g)

    def of_free(v: Array) -> Array:
        return where(free, product(current.x, where(free, v, 0.0)), 0.0)

    step, count = truncated_cg(of_free, g, minimum(0.5, sqrt(size)) * size, s.radius)
    target = current.x + step if box is None else box.project(current.x + where(free, step, -current.gradient))
    return target, step, count


def _judge(
    s: Region, trial: Point, expected: Array, length: Array, evaluations: Array, tolerance: float, box: Box | None
) -> Region:
    """Return the state after a trial step of a length, of which the model expects so much."""
    current, eps = s.point, epsilon(trial.x.dtype)
    # rounding of the values is no disagreement with the model
    slack = 10 * eps * maximum(abs_(current.value), abs_(trial.value))
    ratio = (current.value - trial.value + slack) / where(expected + slack > 0, expected + slack, 1.0)
    sound = (expected > 0) & trial.is_finite()
    wide = (ratio > 0.75) & (length > 0.99 * s.radius)
    radius = where(wide, 2 * s.radius, s.radius)
    radius = where((ratio > 0.25) & sound, radius, 0.25 * minimum(length, s.radius))
    useless = ~(trial.value < current.value) & (optimality(trial, box) >= optimality(current, box))
    stuck = (radius <= eps * vector_norm(current.x)) | (radius <= float(np.finfo(trial.x.dtype).tiny))
    good = (ratio > ACCEPT) & sound
    stuck = stuck | (good & useless & (expected <= slack))
    good = good & ~useless
    status = where(good, status_of(trial, tolerance, box), int(Status.RUNNING))
    status = where(stuck & (status == int(Status.RUNNING)), int(Status.STALLED), status)
    return Region(choose(good, trial, current), radius, s.iterations + 1, evaluations, status)


# --- Nelder and Mead's method: a simplex that reflects, expands, contracts and shrinks, by values alone
#
# Source: Nelder & Mead 1965, with the coefficients of Gao & Han 2012, which follow the number of unknowns.

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

    @property
    def point(self) -> Point:
        """The best corner, without a gradient."""
        return Point(self.corners[0], self.values[0], full(self.corners.shape[1:], np.nan, self.corners.dtype))


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

    def at(x: Array) -> Array:
        value = objective(x)
        return where(isnan(value), np.inf, value)

    def advance(s: Simplex) -> Simplex:
        corner, known, fails = _turn_worst(s, at, box)

        def replaced(corners: Array, values: Array) -> tuple[Array, Array]:
            return concat([corners[:-1], corner[None]]), concat([values[:-1], known[None]])

        def shrunk(corners: Array, values: Array) -> tuple[Array, Array]:
            moved = corners[0] + (1 - 1 / max(n, 2)) * (corners[1:] - corners[0])
            return concat([corners[:1], moved]), concat([values[:1], vmap(at)(moved)])

        now = cond(fails, shrunk, replaced, s.corners, s.values)
        return _order(*now, s.iterations + 1, s.evaluations + 2 + where(fails, n, 0), tolerance)

    corners = _first_corners(start, box)
    return iterate(_order(corners, vmap(at)(corners), asarray(0), asarray(n + 1), tolerance), advance, limit)


def _turn_worst(s: Simplex, at: Callable[[Array], Array], box: Box | None) -> tuple[Array, Array, Array]:
    """Return the corner that replaces the worst one, reflected, expanded or contracted, its value, and whether it is no use."""
    n = max(s.corners.shape[1], 2)
    expand, contract = 1 + 2 / n, 0.75 - 0.5 / n
    centre, worst = mean(s.corners[:-1], axis=0), s.corners[-1]

    def along(length: Array | float) -> Array:
        return project(centre + length * (centre - worst), box)

    first = along(1.0)
    value = at(first)
    outside = value < s.values[-1]
    length = where(value < s.values[0], expand, where(outside, contract, -contract))
    second = along(length.astype(worst.dtype))
    other = at(second)
    best, plain = value < s.values[0], value < s.values[-2]
    takes_second = where(best, other < value, ~plain & (other <= where(outside, value, s.values[-1])))
    corner, known = where(takes_second, second, first), where(takes_second, other, value)
    return corner, known, ~(best | plain | takes_second)


def _order(corners: Array, values: Array, iterations: Array, evaluations: Array, tolerance: float) -> Simplex:
    """Return the simplex of these corners."""
    order = argsort(values)
    corners, values = corners[order], values[order]
    size = max_(abs_(corners - corners[0]))
    unit = tolerance * maximum(norm_of(corners[0]), 1.0)
    spread, level = values[-1] - values[0], abs_(values[0])
    # where values differ by rounding alone no corner is better than another
    equal = (size <= NEAR * unit) & (spread <= FEW * epsilon(corners.dtype) * level)
    small = (size <= unit) & (spread <= tolerance * maximum(level, tolerance))
    status = choose_status(small | equal, Status.CONVERGED, Status.RUNNING)
    status = where((size == 0) & ~small, int(Status.STALLED), status)
    status = where(isfinite(values[0]), status, int(Status.NONFINITE))
    return Simplex(corners, values, iterations, evaluations, status)


def _first_corners(start: Array, box: Box | None) -> Array:
    """Return the start and a step along each axis from it, inside of the bounds."""
    x = project(start, box)
    steps = eye(x.shape[0], dtype=x.dtype) * where(x == 0, STEP_FROM_ZERO, FIRST_STEP * x)
    corners = x + steps
    if box is not None:  # a corner beyond its bound goes the other way
        corners = vmap(box.project)(where((corners > box.upper) | (corners < box.lower), x - steps, corners))
    return concat([x[None], corners])


# --- Constrained minima: quadratic programs, or augmented Lagrangians, and Newton's method on the conditions of optimality
# at the end
#
# Source of the latter: Powell 1969 and Rockafellar 1973, as in Nocedal & Wright 2006, framework 17.3; the conditions, in which a
# multiplier and its inequality stand as ``min(multiplier, inequality) = 0``, are Fischer's 1992 in form.

Joint = Callable[..., tuple[Array, Array, Array]]  # (x, *params) to value, equalities and inequalities
Found: TypeAlias = tuple[Array, Array, Array, Array]  # point and multipliers, iterations, evaluations, status

FIRST_PENALTY, LARGEST_PENALTY = 10.0, 1e8
NEWTON_BELOW = 1e-3  # from where on Newton's method takes over
OUTER, POLISH, MANY = 40, 30, 100
INNER, SHORTER = 50, 12  # steps of a quadratic program, and trials along its direction
EXACT, ARMIJO, ROUND = 1e-10, 1e-4, 16  # of a quadratic program, of a decrease, and ulps


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

    def divide(self, given: Sequence[Any]) -> tuple[Sequence[Any], Box | None]:
        """Return parameters and bounds, which stand one after the other."""
        return (given, None) if self.box is None else (given[:-2], Box(*given[-2:]))

    def conditions(self, z: Array, *given: Any) -> Array:
        """Return what is 0 at a minimum (Karush, Kuhn & Tucker)."""
        x, of_c, of_g = self.split(z)
        params, box = self.divide(given)
        slope = grad(self.lagrangian)(x, of_c, of_g, *params)
        _, c, g = self.joint(x, *params)
        still = slope if box is None else x - box.project(x - slope)
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
    stopped_params = stopped(given)

    def march() -> Found:
        return _polish(problem, _march(problem, start, stopped_params, limit, memory), stopped_params, tolerance)

    if start.shape[0] + problem.equalities + problem.inequalities > MANY:
        z, iterations, evaluations, status = march()
    else:
        first = _polish(problem, step_quadratic(problem, start, stopped_params, MANY), stopped_params, tolerance)

        def again() -> Found:
            z, iterations, evaluations, status = march()
            return z, iterations + first[1], evaluations + first[2], status

        z, iterations, evaluations, status = cond(is_converged(first[3]), lambda: first, again)
    optimum = attach_implicit_derivative(problem.conditions, z, given, is_converged(status))
    return Optimum(*problem.split(optimum), iterations, evaluations, status)


def _polish(problem: Problem, end: Outer | Quadratic, given: Sequence[Any], tolerance: float) -> Found:
    """Return the roots of the conditions near a point, by Newton's method."""
    z = concat([end.x, end.of_c, end.of_g])
    last = newton(lambda v: problem.conditions(v, *given), z, tolerance, POLISH)
    lost = where(end.status == int(Status.CONVERGED), int(Status.STALLED), end.status)
    status = where(norm_of(last.residual) <= tolerance, int(Status.CONVERGED), lost)
    return last.x, end.iterations + last.iterations, end.evaluations + last.evaluations, status


@attrs.frozen
class Inner:
    """The state of an interior point method for a quadratic program: step, multipliers, slacks, whether it ended."""

    d: Array
    of_c: Array
    of_g: Array
    slack: Array
    ended: Array
    count: Array


@attrs.frozen(eq=False)
class Program:
    """A quadratic program: ``slope·d + d·H·d/2`` is least where ``A·d + c = 0`` and ``J·d + g >= 0``.

    Attributes:
        hessian: float[n, n], positive definite.
        slope: float[n].
        equal: matrix and vector of the equalities.
        above: those of the inequalities.
        used: bool, which of the latter there are.
    """

    hessian: Array
    slope: Array
    equal: tuple[Array, Array]
    above: tuple[Array, Array]
    used: Array

    def begin(self) -> Inner:
        """Return where an interior point method begins."""
        slacks = where(self.used, 1.0, 0.0), where(self.used, maximum(self.above[1], 1.0), 1.0)
        of_g, slack = [z.astype(self.slope.dtype) for z in slacks]
        return Inner(zeros_like(self.slope), zeros_like(self.equal[1]), of_g, slack, asarray(False), asarray(0))

    def find_residuals(self, q: Inner) -> tuple[Array, Array, Array]:
        """Return what shall be 0: the Lagrangian's slope, inequalities less their slacks, equalities."""
        (a, c), (j, g) = self.equal, self.above
        still = self.hessian @ q.d + self.slope - q.of_c @ a - q.of_g @ j
        return still, where(self.used, j @ q.d + g - q.slack, 0.0), a @ q.d + c

    def steps(
        self, q: Inner, still: Array, gap: Array, lost: Array
    ) -> Callable[[Array], tuple[Array, Array, Array, Array]]:
        """Return Newton's step to given products of slacks and multipliers, as a function of these, by the residuals."""
        (a, c), (j, _), n = self.equal, self.above, self.slope.shape[0]
        top = concat([self.hessian + matmul(j.T * (q.of_g / q.slack), j), -a.T], axis=1)
        matrix = concat([top, concat([a, epsilon(self.slope.dtype) * eye(c.shape[0], dtype=c.dtype)], axis=1)])

        def step(target: Array) -> tuple[Array, Array, Array, Array]:
            short = target - q.slack * q.of_g
            right = concat([matmul(j.T, (short - q.of_g * gap) / q.slack) - still, -lost])
            found = solve_or_nan(matrix, right)
            slack = where(self.used, j @ found[:n] + gap, 0.0)
            return found[:n], found[n:], where(self.used, (short - q.of_g * slack) / q.slack, 0.0), slack

        return step


def solve_quadratic(program: Program) -> Inner:
    """Return the minimum of a quadratic program (Mehrotra's predictor and corrector).

    Nocedal & Wright 2006, algorithm 16.4.
    """
    many = maximum(sum_(program.used), 1).astype(program.slope.dtype)
    unit = maximum(1.0, norm_of(program.slope))

    def advance(q: Inner) -> Inner:
        residuals = program.find_residuals(q)
        step_towards = program.steps(q, *residuals)
        _, _, of_g, slack = step_towards(zeros_like(q.slack))
        length = minimum(_reach(q.slack, slack), _reach(q.of_g, of_g))
        left = vecdot(q.slack + length * slack, q.of_g + length * of_g) / many
        mean_gap = vecdot(q.slack, q.of_g) / many
        centre = mean_gap * (left / where(mean_gap > 0, mean_gap, 1.0)) ** 3
        moves = step_towards(where(program.used, centre, 0.0) - slack * of_g)
        length = minimum(1.0, 0.995 * minimum(_reach(q.slack, moves[3]), _reach(q.of_g, moves[2])))
        length = where(any_(program.used), length, 1.0)
        d, of_c, of_g, slack = [
            x + length * step for x, step in zip((q.d, q.of_c, q.of_g, q.slack), moves, strict=True)
        ]
        now = Inner(d, of_c, of_g, slack, q.ended, q.count + 1)
        wrong = (1 - length) * norm_of(concat(residuals))
        done = (vecdot(now.slack, now.of_g) <= EXACT * unit * many) & (wrong <= EXACT * unit)
        return attrs.evolve(now, ended=done | ~isfinite(norm_of(now.d)))

    return while_loop(lambda q: ~q.ended & (q.count < INNER), advance, program.begin())


def _reach(v: Array, step: Array) -> Array:
    """Return how far a step may go until an element of a positive vector is 0."""
    return minimum(1.0, -max_(where(step < 0, v / where(step < 0, step, -1.0), -np.inf), initial=-np.inf))


@attrs.frozen
class Quadratic:
    """The state of sequential quadratic programming.

    Attributes:
        x: the point.
        values: of the function, the equalities and the inequalities there.
        rates: their derivatives.
        hessian: an estimate of the Lagrangian's, positive definite.
        of_c: multipliers of equalities.
        of_g: those of inequalities.
        weights: of violated conditions in what falls.
        iterations: steps so far.
        evaluations: of the function so far.
        status: a `Status`.
    """

    x: Array
    values: tuple[Array, Array, Array]
    rates: tuple[Array, Array, Array]
    hessian: Array
    of_c: Array
    of_g: Array
    weights: Array
    iterations: Array
    evaluations: Array
    status: Array


@attrs.frozen
class Fall:
    """The state of a search along a direction: the next length, the last trial, whether it falls, the trials."""

    length: Array
    x: Array
    values: tuple[Array, Array, Array]
    good: Array
    count: Array


def step_quadratic(problem: Problem, start: Array, stopped_params: Sequence[Any], limit: int) -> Quadratic:
    """Return a point near enough to a minimum for Newton's method, by quadratic models with linear conditions.

    Wilson 1963, Han 1977 and Powell 1978, as in Nocedal & Wright 2006, algorithm 18.3: damped BFGS of the Lagrangian, and
    a line search in the function plus the weighted violations.
    """
    params, box = problem.divide(stopped_params)

    def at(x: Array) -> tuple[Array, Array, Array]:
        return problem.joint(x, *params)

    def advance(s: Quadratic) -> Quadratic:
        found = _step_in_model(s, box)
        multipliers = of_c, of_g = found.of_c, found.of_g[: problem.inequalities]
        size = abs_(concat(multipliers))
        weights = maximum(size, 0.5 * (s.weights + size))
        ahead = _fall(lambda length: project(s.x + length * found.d, box), at, s, found.d, weights)
        x, values, rates = ahead.x, ahead.values, jacrev(at)(ahead.x)
        still, before = [r[0] - of_c @ r[1] - of_g @ r[2] for r in (rates, s.rates)]  # slopes of the Lagrangian
        hessian = _damped(s.hessian, x - s.x, still - before)
        near = norm_of(concat([x - project(x - still, box), values[1], minimum(of_g, values[2])])) <= NEWTON_BELOW
        finite = isfinite(norm_of(x) + norm_of(still) + norm_of(found.of_g))
        status = where(ahead.good & finite, choose_status(near, Status.CONVERGED, Status.RUNNING), int(Status.STALLED))
        work = s.iterations + 1, s.evaluations + ahead.count
        return Quadratic(x, values, rates, hessian, *multipliers, weights, *work, status)

    x, none = project(start, box), (zeros(problem.equalities, start.dtype), zeros(problem.inequalities, start.dtype))
    values = at(x)
    begin = x, values, jacrev(at)(x), eye(x.size, dtype=x.dtype), *none, concat(none)
    return iterate(Quadratic(*begin, asarray(0), asarray(1), _first_status(*values)), advance, limit)


def _step_in_model(s: Quadratic, box: Box | None) -> Inner:
    """Return the step to the minimum of the quadratic model, where c is 0, g is 0 or more, and x within its box."""
    above, used = (s.rates[2], s.values[2]), ones_like(s.values[2], dtype=bool)
    if box is not None:
        unit, room = eye(s.x.size, dtype=s.x.dtype), concat([s.x - box.lower, box.upper - s.x])
        limited = isfinite(room)
        above = concat([above[0], unit, -unit]), concat([above[1], where(limited, room, 1.0)])
        used = concat([used, limited])
    return solve_quadratic(Program(s.hessian, s.rates[0], (s.rates[1], s.values[1]), above, used))


def _fall(along: Callable[[Array], Array], at: Callable[[Array], Any], s: Quadratic, d: Array, weights: Array) -> Fall:
    """Return a point along a direction at which the function plus the weighted violations is lower.

    Args:
        along: a length to the point.
        at: a point to the values.
        s: where it begins.
        d: the direction.
        weights: of violations.
    """

    def merit(values: tuple[Array, Array, Array]) -> Array:
        return values[0] + vecdot(weights, concat([abs_(values[1]), maximum(-values[2], 0.0)]))

    before = merit(s.values)
    slope = vecdot(s.rates[0], d) - (before - s.values[0])
    slack = ROUND * epsilon(d.dtype) * maximum(abs_(before), 1.0)

    def shorten(t: Fall) -> Fall:
        x = along(t.length)
        values = at(x)
        rise = merit(values) - before
        curve = rise - t.length * slope
        shrink = where(isfinite(curve) & (curve > 0), -0.5 * t.length * slope / where(curve > 0, curve, 1.0), 0.1)
        good = rise <= ARMIJO * t.length * slope + slack
        return Fall(t.length * minimum(maximum(shrink, 0.1), 0.5), x, values, good, t.count + 1)

    begin = Fall(asarray(1.0, d.dtype), s.x, s.values, asarray(False), asarray(0))
    return while_loop(lambda t: ~t.good & (t.count < SHORTER) & (slope < 0), shorten, begin)


def _damped(hessian: Array, step: Array, change: Array) -> Array:
    """Return Powell's damped update, which is positive definite (Nocedal & Wright 2006, procedure 18.2)."""
    bent = hessian @ step
    curve, along = vecdot(step, bent), vecdot(step, change)
    part = where(along >= 0.2 * curve, 1.0, 0.8 * curve / where(curve == along, 1.0, curve - along))
    change = part * change + (1 - part) * bent
    along = vecdot(step, change)
    usable = (curve > 0) & (along > 0)
    bent, change = bent / sqrt(where(usable, curve, 1.0)), change / sqrt(where(usable, along, 1.0))
    return where(usable, hessian - outer(bent, bent) + outer(change, change), hessian)


def _march(problem: Problem, start: Array, stopped_params: Sequence[Any], limit: int, memory: int) -> Outer:
    """Return the last of the minimizations with ever better multipliers, near enough for Newton's method."""
    params, box = problem.divide(stopped_params)
    direction: Any = Bfgs() if start.shape[0] <= MANY else Lbfgs(memory)

    def advance(s: Outer) -> Outer:
        def penalized(x: Array) -> Array:
            value, c, g = problem.joint(x, *params)
            short = maximum(s.of_g - s.penalty * g, 0.0)
            equal = 0.5 * s.penalty * vecdot(c, c) - vecdot(s.of_c, c)
            return value + equal + 0.5 * sum_(short * short - s.of_g * s.of_g) / s.penalty

        inner = descend(value_and_grad(penalized), direction, s.x, 0.1 * NEWTON_BELOW, limit, box)
        return _raise_multipliers(s, inner, *problem.joint(inner.point.x, *params)[1:])

    x = project(start, box)
    of_c, of_g = zeros(problem.equalities, x.dtype), zeros(problem.inequalities, x.dtype)
    penalty, unknown = asarray(FIRST_PENALTY, x.dtype), asarray(np.inf, x.dtype)
    status = _first_status(*problem.joint(x, *params))
    begin = Outer(x, of_c, of_g, penalty, unknown, asarray(0), asarray(1), status)
    return iterate(begin, advance, OUTER)


def _raise_multipliers(s: Outer, inner: State[Any], c: Array, g: Array) -> Outer:
    """Return the state after a minimization, at whose end conditions have these values."""
    violation = norm_of(concat([c, minimum(g, s.of_g / s.penalty)]))
    worse = ~(violation <= 0.25 * s.violation)
    penalty = where(worse, minimum(10 * s.penalty, LARGEST_PENALTY), s.penalty)
    near = (violation <= NEWTON_BELOW) & is_converged(inner.status)
    status = choose_status(near, Status.CONVERGED, Status.RUNNING)
    status = where(inner.status == int(Status.NONFINITE), inner.status, status)
    multipliers = s.of_c - s.penalty * c, maximum(s.of_g - s.penalty * g, 0.0)
    work = s.iterations + 1, s.evaluations + inner.evaluations
    return Outer(inner.point.x, *multipliers, penalty, violation, *work, status)


def _first_status(value: Array, c: Array, g: Array) -> Array:
    return choose_status(isfinite(value + sum_(c) + sum_(g)), Status.RUNNING, Status.NONFINITE)


# --- `minimize`: a minimum of a scalar function of a tree of arrays

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

ScalarFunction: TypeAlias = Callable[[Array, *tuple[Any, ...]], Array]
How: TypeAlias = tuple[str, int, float]  # the method, how many pairs it keeps, and the tolerance
MinimizeMethod = Literal["lbfgs", "bfgs", "newton_cg", "trust_region", "nelder_mead"]


def minimize(
    fn: Callable[[T, *Ts], Array],
    init: T,
    *args: *Ts,
    method: MinimizeMethod = "lbfgs",
    bounds: tuple[Any, Any] | None = None,
    equalities: Callable[[T, *Ts], Any] | None = None,
    inequalities: Callable[[T, *Ts], Any] | None = None,
    tolerance: float | None = None,
    max_iterations: int = 1000,
    memory: int = 10,
) -> MinimizeResult[T]:
    """Return a local minimum of ``fn(x, *args)`` near a start.

    The minimum is differentiable by ``args``, by bounds, and by traced arrays that ``fn`` closes over, in both modes and
    every order: by the implicit function theorem, not through the iterations; the derivatives are nan where the result
    says that it has not converged. It does not depend on the start. Works under `jit` and `vmap`, where each element of
    the batch stops by itself.

    ================  ===================================================================================
    ``lbfgs``         limited-memory BFGS (Liu & Nocedal 1989), the default: any number of unknowns
    ``bfgs``          BFGS with a dense matrix: up to some hundred unknowns
    ``newton_cg``     Newton's directions by conjugate gradients on products with the Hessian
    ``trust_region``  the same model inside of a ball that follows its success (Steihaug 1983): where the curvature
                      is negative, and a line search would take many steps
    ``nelder_mead``   a simplex that needs values alone (Nelder & Mead 1965): for up to some ten unknowns and functions
                      with kinks; the tolerance is of its size, and the gradient of the result nan
    ================  ===================================================================================

    Line searches satisfy the strong Wolfe conditions; with bounds steps are projected (Bertsekas 1982).

    Args:
        fn: a function of a tree and ``args`` that returns a real scalar.
        init: the start, a tree of arrays; leaves that are not trained stay.
        *args: what else ``fn`` takes, any trees.
        method: how directions are found.
        bounds: ``(lower, upper)``, each None, a number, or a tree of the structure of ``init``.
        equalities: a function of the same arguments whose results, any tree, are 0 at the minimum.
        inequalities: a function of the same arguments whose results are 0 or more. With either the method is that of
            sequential quadratic programs (Powell 1978), and of augmented Lagrangians where they fail or there are more
            than a hundred unknowns and conditions, with Newton's steps at the end; the result is a `ConstrainedResult`.
        tolerance: of the largest component of the gradient (with bounds: of the projected one); without it the square
            root of the precision, 1.5e-8 in float64 and 3.5e-4 in float32.
        max_iterations: the limit.
        memory: how many pairs ``lbfgs`` keeps.

    Raises:
        ArgumentError: no such method; bounds that leave nothing between them.
        ShapeError: ``fn`` returns no scalar.
        DtypeError: it is no floating number; for ``nelder_mead``, no real one.

    >>> import afx
    >>> result = minimize(lambda x, a: afx.sum((x - a) ** 2), afx.zeros(2), afx.asarray([1.0, 2.0]))
    >>> result.x, result.reason
    (Array([1., 2.], dtype=float32), 'the tolerance is met')
    """
    start, unravel = begin_at(init, "minimize")
    limit = float(np.sqrt(np.finfo(start.dtype).eps)) if tolerance is None else tolerance
    if equalities is not None or inequalities is not None:
        conditions = equalities or _none, inequalities or _none
        return _minimize_constrained(fn, conditions, start, unravel, args, bounds, limit, max_iterations, memory)
    problem = parametrize(fn, [unravel], [start.aval], args, "minimize")
    value_of = _returning_scalar(problem.fn, "fiu" if method == "nelder_mead" else "f")
    box = box_of(bounds, start, "minimize")
    options = method, memory, float(limit)

    def run(x: Array, params: Sequence[Any], box: Box | None, limit: int) -> Simplex | Region | State[Any]:
        return _find(value_of, params, options, x, limit, box)

    given = start, stopped(problem.params), None if box is None else box.stopped()
    end = solve(run, *given, of=[problem], options=options, limit=max_iterations, name="minimize")
    point = end.point
    x = attach_minimum(grad(value_of), point.x, problem.params, box, end.status)
    value, gradient = point.value, point.gradient
    if x is not point.x:  # so that they have derivatives too
        value, slope = value_and_grad(value_of)(x, *problem.params)
        gradient = gradient if method == "nelder_mead" else slope
    return MinimizeResult(end.iterations, end.evaluations, end.status, unravel(x), value, unravel(gradient))


def _returning_scalar(fn: Callable[..., Any], kinds: str) -> ScalarFunction:
    return lambda x, *params: as_scalar(fn(x, *params), x.dtype, "minimize", kinds)


def _find(
    value_of: ScalarFunction, params: Sequence[Any], how: How, start: Array, limit: int, box: Box | None
) -> Simplex | Region | State[Any]:
    """Return the last state of a method."""
    method, memory, tolerance = how
    if method == "nelder_mead":
        return shrink_simplex(lambda x: value_of(x, *params), start, tolerance, limit, box)
    slope, both = grad(value_of), value_and_grad(value_of)

    def objective(x: Array) -> tuple[Array, Array]:
        return both(x, *params)

    def gradient_at(x: Array) -> Array:
        return slope(x, *params)

    def product(x: Array, v: Array) -> Array:
        return jvp(gradient_at, (x,), (v,))[1]

    if method == "trust_region":
        return trust(objective, product, start, tolerance, limit, box)
    return descend(objective, _direction(method, memory, product), start, tolerance, limit, box)


def _none(*_: Any) -> tuple[()]:
    return ()


def _minimize_constrained(
    fn: Callable[..., Array],
    conditions: tuple[Function, Function],
    start: Array,
    unravel: Callable[[Array], Any],
    args: Any,
    bounds: tuple[Any, Any] | None,
    tolerance: float,
    max_iterations: int,
    memory: int,
) -> ConstrainedResult[Any]:
    """Return a minimum under equalities and inequalities."""

    def joint(x: Any, *rest: Any) -> tuple[Array, Array, Array]:
        value = as_scalar(fn(x, *rest), start.dtype, "minimize")
        c, g = [as_vector(of(x, *rest), start.dtype, "minimize") for of in conditions]
        return value, c, g

    for condition in conditions:
        check_callable(condition, "minimize")
    problem = parametrize(joint, [unravel], [start.aval], args, "minimize")
    _, c, g = eval_shape(problem.fn, start, *stopped(problem.params))
    whole = Problem(problem.fn, c.shape[0], g.shape[0], box_of(bounds, start, "minimize"))
    end = constrain(whole, start, problem.params, tolerance, max_iterations, memory)
    return _read_optimum(problem, end, unravel)


def _read_optimum(
    problem: Parametrized[tuple[Array, Array, Array]], end: Optimum, unravel: Callable[[Array], Any]
) -> ConstrainedResult[Any]:
    """Return the result of a point, with value, gradient and conditions there."""
    value, c, g = problem.fn(end.x, *problem.params)
    gradient = grad(lambda x: problem.fn(x, *problem.params)[0])(end.x)
    work = end.iterations, end.evaluations, end.status
    return ConstrainedResult(*work, unravel(end.x), value, unravel(gradient), end.of_c, end.of_g, c, g)


def _direction(method: str, memory: int, product: Callable[[Array, Array], Array]) -> Direction[Any]:
    if method == "lbfgs":
        if memory < 1:
            raise ArgumentError(f"minimize: memory is a number of pairs: got {memory}; give 1 or more")
        return Lbfgs(memory)
    if method == "bfgs":
        return Bfgs()
    if method == "newton_cg":
        return NewtonCg(product)
    raise ArgumentError(
        f"minimize: no such method: got {method!r}; use 'lbfgs', 'bfgs', 'newton_cg', 'trust_region' or 'nelder_mead'"
    )
