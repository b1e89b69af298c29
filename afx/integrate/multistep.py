"""Backward differences: the implicit multistep method of orders 1 to 5 for stiff systems, with steps of varying size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs
import numpy as np

from afx.core.array.array import Array
from afx.integrate.methods import Attempt, Factors, Newton, attach_to_equations, attempt, converge, no_factors
from afx.integrate.step import LARGEST, SAFETY, SMALLEST, Method, Past, Step, System, interpolate, scaled_norm
from afx.ops.creation.creation import asarray, stop_gradient, zeros, zeros_like
from afx.ops.creation.matrices import eye
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.comparison import maximum, minimum, where
from afx.ops.linalg.products import matmul
from afx.ops.linalg.solve import solve_or_nan
from afx.ops.manipulation.join import concat, stack
from afx.ops.reductions.cumulative import cumprod, cumsum
from afx.ops.reductions.sums import sum as sum_
from afx.ops.sorting.sort import argmax

# Sources: Shampine & Reichelt 1997, "The MATLAB ODE suite", whose numerical differentiation formulas these are, in
# backward differences that are interpolated anew where the step size changes (Byrne & Hindmarsh 1975); when order and
# size change, and when a Jacobian is taken anew, is as in SciPy's BDF. Derivatives of a step are those of its equation.

MOST: Final = 5  # order
ROWS = np.arange(MOST + 3)
KAPPA = np.array([0.0, -0.1850, -1 / 9, -0.0823, -0.0415, 0.0])
HARMONIC = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, MOST + 1))])
LEADING = (1 - KAPPA) * HARMONIC
ERROR = np.concatenate([KAPPA * HARMONIC + 1 / np.arange(1, MOST + 2), [0.0]])
TRIALS: Final = 4  # Newton steps


def _interpolants() -> np.ndarray[Any, Any]:
    """Return what each difference is in the coefficients of an interpolant over the last step."""
    places = np.linspace(0.1, 0.9, MOST)
    products = np.cumprod([(places - 1 + j) / (1 + j) for j in range(MOST)], axis=0)
    products[0] += 1  # the first state is the last one without the first difference
    basis: Any = interpolate  # which takes numbers too
    terms = [[basis(0.0, tuple(unit), s) for s in places] for unit in np.eye(MOST)]
    return np.linalg.solve(np.array(terms).T, products.T).T


TERMS = _interpolants()
RANKS = np.arange(1, MOST + 1)
UNCHANGED = np.cumprod((RANKS[:, None] - 1 - RANKS) / RANKS[:, None], axis=0)


@attrs.frozen
class Differences:
    """What the method keeps from step to step.

    Attributes:
        rows: float[8, n], the state and its backward differences, of the order and two beyond.
        h: the step size that they are of; 0 before the first step.
        order: of the next step.
        equal: how many steps had this size and order.
        factors: of the Newton iteration.
    """

    rows: Array
    h: Array
    order: Array
    equal: Array
    factors: Factors


def _begin(_: System, y: Array) -> Differences:
    rows = zeros((MOST + 3, *y.shape), y.dtype)
    return Differences(rows, zeros((), y.dtype), asarray(1), asarray(0), no_factors(y, 1))


def _rescale(rows: Array, order: Array, ratio: Array) -> Array:
    """Return the differences of steps that are so many times as long: those of the same polynomial."""
    inner = rows[1 : MOST + 1]
    is_used = (order >= RANKS)[:, None]
    across = RANKS.astype(rows.dtype)
    down = across[:, None]
    changes = cumprod((down - 1 - ratio * across) / down, axis=0)
    changed = matmul(matmul(changes, asarray(UNCHANGED, rows.dtype)).T, where(is_used, inner, 0.0))
    return concat([rows[:1], where(is_used, changed, inner), rows[MOST + 1 :]])


def _differences(past: Past, m: Differences, h: Array) -> Array:
    """Return the differences of steps of this size."""
    first = zeros_like(m.rows).at[0].set(past.y).at[1].set(h * past.slope)
    is_first = past.accepted == 0
    ratio = h / where(is_first | (m.h == 0), h, m.h)
    return where(is_first, first, where(ratio == 1, m.rows, _rescale(m.rows, m.order, ratio)))


def _step_bdf(system: System, past: Past, h: Array) -> Step:
    """Take a step of the order at hand."""
    m: Differences = past.memory
    rows, order = _differences(past, m, h), m.order
    used = (order >= ROWS)[:, None]
    known = where(used, rows, 0.0)
    t, predicted = past.t + h, sum_(known, axis=0)
    leading = asarray(LEADING, h.dtype)[order]
    trend = matmul(asarray(np.append(HARMONIC, [0.0, 0.0]), h.dtype), known) / leading
    c = h / leading
    now, state, offset = stop_gradient(t), stop_gradient(predicted), stop_gradient(trend)
    scale = system.atol + system.rtol * abs_(state)

    def residual(d: Array, t: Array, predicted: Array, trend: Array) -> Array:
        return c * system.field(t, predicted + d) - system.weigh(trend + d)

    def invert(jacobian: Array) -> tuple[Array, ...]:
        unit = eye(jacobian.shape[0], dtype=jacobian.dtype)
        mass = unit if system.mass is None else stop_gradient(system.mass)
        return (solve_or_nan(mass - c * jacobian, unit),)

    def solve(inverses: tuple[Array, ...]) -> Newton:
        def correct(d: Array) -> Array:
            return matmul(inverses[0], stop_gradient(residual(d[0], now, state, offset)))[None]

        return converge(correct, zeros_like(state)[None], system.rtol, scale, TRIALS)

    done = attempt(system, m.factors, past.retried, (now, state, c), invert, solve, 1)
    d = attach_to_equations(residual, done.newton.w[0], t, predicted, trend)
    end = predicted + d
    error = where(done.newton.converged, asarray(ERROR, h.dtype)[order] * d, np.nan)
    finish = stop_gradient(end)

    def measure(v: Array) -> Array:
        return scaled_norm(stop_gradient(v), finish, finish, system.rtol, system.atol)

    sums = cumsum(known[::-1], axis=0)[::-1] + d
    beyond = where((order + 1 == ROWS)[:, None], d, where((order + 2 == ROWS)[:, None], d - rows[order + 1], rows))
    after = where(used, sums, beyond)
    bends = matmul(asarray(TERMS[:, 1:], h.dtype).T, where(used, after, 0.0)[1 : MOST + 1])
    dense = (end - past.y, *[bends[k] for k in range(MOST - 1)])
    begun = attrs.evolve(m, rows=rows, h=h, equal=where(m.h == h, m.equal, 0))
    memory, change = _decide(begun, after, measure(error), done, measure)
    slope = (trend + d) / c
    return Step(end, (error,), slope, dense, done.evaluations, memory, proposed=(h * change).astype(h.dtype))


def _decide(
    m: Differences, after: Array, norm: Array, done: Attempt, measure: Callable[[Array], Array]
) -> tuple[Differences, Array]:
    """Return what is kept of a trial, and by which factor the step size changes.

    After as many equal steps as the order says the next order is the one that allows the largest step.
    """
    order, converged = m.order, done.newton.converged
    good = norm <= 1

    def size(rank: Array) -> Array:
        return measure(asarray(ERROR, after.dtype)[rank] * after[rank + 1])

    safety = SAFETY * (2 * TRIALS + 1) / (2 * TRIALS + done.newton.count)
    sizes = stack([where(order > 1, size(order - 1), np.inf), norm, where(order < MOST, size(order + 1), np.inf)])
    factors = safety * maximum(sizes, 1e-10) ** (-1 / (order + np.arange(3)).astype(after.dtype))
    which = argmax(where(converged, factors, 1.0))
    changes = good & (m.equal + 1 > order)
    grown = where(changes, minimum(LARGEST, factors[which]), 1.0)
    shrunk = where(converged, maximum(SMALLEST, factors[1]), 0.5)
    kept = Differences(
        where(good, after, m.rows),
        m.h,
        where(changes, order + which - 1, order),
        where(good & ~changes, m.equal + 1, 0),
        attrs.evolve(done.factors, is_slow=asarray(False)),
    )
    return kept, where(good, grown, shrunk)


BDF = Method(_step_bdf, order=1, vectors=MOST, coefficients=MOST, varies=True, implicit=True, memory=_begin)
