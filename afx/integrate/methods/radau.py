"""Radau IIA: the implicit Runge-Kutta method of order 5 with three stages, an error estimate of order 3 and dense output.

Its collocation equations are solved by simplified Newton steps, in coordinates in which they are one real system of n
equations and one of 2 n. Source: Hairer & Wanner 1996, "Solving Ordinary Differential Equations II", section IV.8
(RADAU5), whose numbers these are; the test of convergence is as in SciPy. Derivatives of a step are those of the
equations (implicit function theorem), not of the iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs
import numpy as np

from afx.control.solving.functions import attach_implicit_derivative, parametrize
from afx.control.while_loop import while_loop
from afx.core.array.array import Array
from afx.core.aval import Aval
from afx.core.tracing.tracer import Tracer
from afx.integrate.step import Method, Past, Step, System, interpolate
from afx.ops.creation.creation import asarray, zeros_like
from afx.ops.creation.matrices import eye
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import where
from afx.ops.linalg.products import matmul
from afx.ops.linalg.solve import solve_or_nan
from afx.ops.manipulation.join import concat, stack
from afx.ops.manipulation.shape import reshape
from afx.ops.reductions.boolean import all as all_
from afx.ops.reductions.sums import mean
from afx.transforms.derivatives.jacobian import jacfwd

__all__ = ["RADAU"]

ROOT = 6**0.5
NODES = ((4 - ROOT) / 10, (4 + ROOT) / 10, 1.0)
WEIGHTS = np.array(
    [
        [(88 - 7 * ROOT) / 360, (296 - 169 * ROOT) / 1800, (-2 + 3 * ROOT) / 225],
        [(296 + 169 * ROOT) / 1800, (88 + 7 * ROOT) / 360, (-2 - 3 * ROOT) / 225],
        [(16 - ROOT) / 36, (16 + ROOT) / 36, 1 / 9],
    ]
)
INVERSE = np.linalg.inv(WEIGHTS)
ERROR = ((-13 - 7 * ROOT) / 3, (-13 + 7 * ROOT) / 3, -1 / 3)
REAL = 3 + 3 ** (2 / 3) - 3 ** (1 / 3)  # the inverse has this eigenvalue and a complex pair
PAIR = (3 + 0.5 * (3 ** (1 / 3) - 3 ** (2 / 3)), -0.5 * (3 ** (5 / 6) + 3 ** (7 / 6)))
FROM = np.array(
    [
        [0.09443876248897524, -0.14125529502095421, 0.03002919410514742],
        [0.25021312296633332, 0.20412935229379994, -0.38294211275726192],
        [1.0, 1.0, 0.0],
    ]
)
TO = np.array(
    [
        [4.17871859155190428, 0.32768282076106237, 0.52337644549944951],
        [-4.17871859155190428, -0.32768282076106237, 0.47662355450055044],
        [0.50287263494578682, -2.57192694985560522, 0.59603920482822492],
    ]
)
NEWTON_STEPS: Final = 6


@attrs.frozen
class Newton:
    """The state of the iteration: the stages in its coordinates, the size of the last step, whether it is done, count."""

    w: Array
    size: Array
    converged: Array
    failed: Array
    count: Array


def _step(system: System, past: Past, h: Array) -> Step:
    t, y, n = past.t, past.y, past.y.shape[0]
    now, here, start = stop_gradient(t), stop_gradient(y), stop_gradient(past.start)
    scale = stop_gradient(system.atol + system.rtol * abs_(y))
    inverse = _inverse_systems(system, now, here, h)
    ahead = [(now + c * h - stop_gradient(past.begin)) / past.length for c in NODES]
    dense = tuple([stop_gradient(v) for v in past.dense])
    guess = stack([where(past.accepted > 0, interpolate(start, dense, s) - here, 0.0) for s in ahead])

    def slopes(z: Array, t: Array, y: Array) -> Array:
        return stack([system.field(t + c * h, y + z[k]) for k, c in enumerate(NODES)])

    end = _solve(lambda z: stop_gradient(slopes(z, now, here)), system, inverse, guess, h, scale)
    z = _attach(slopes, system, matmul(_as(FROM, y), end.w), t, y, h)
    finish = y + z[2]
    slope = system.field(t + h, finish)
    error = matmul(inverse[0], past.slope + system.weigh(matmul(_as(np.array(ERROR), y), z) / h))
    error = where(end.converged, error, np.nan)
    work = 3 * end.count + n + 1
    return Step(finish, (error,), slope, _dense_of(z), work)


def _as(numbers: np.ndarray[Any, Any], like: Array) -> Array:
    return asarray(numbers, like.dtype)


def _inverse_systems(system: System, t: Array, y: Array, h: Array) -> tuple[Array, Array]:
    """Return the inverses of the matrices of the real system and of the pair, at the beginning of the step."""
    n = y.shape[0]
    jacobian = stop_gradient(jacfwd(system.field, 1)(t, y))
    mass = eye(n, dtype=y.dtype) if system.mass is None else stop_gradient(system.mass)
    real = mass * (REAL / h) - jacobian
    diagonal, across = mass * (PAIR[0] / h) - jacobian, mass * (PAIR[1] / h)
    pair = concat([concat([diagonal, -across], axis=1), concat([across, diagonal], axis=1)])
    return solve_or_nan(real, eye(n, dtype=y.dtype)), solve_or_nan(pair, eye(2 * n, dtype=y.dtype))


def _solve(
    slopes: Callable[[Array], Array], system: System, inverse: tuple[Array, Array], guess: Array, h: Array, scale: Array
) -> Newton:
    """Return the last state of the simplified Newton iteration of the collocation equations."""
    n = guess.shape[1]
    eps = float(np.finfo(guess.dtype).eps)
    tolerance = max(10 * eps / system.rtol, min(0.03, system.rtol**0.5)) if system.rtol else 10 * eps
    back, forth = _as(FROM, guess), _as(TO, guess)
    eigen = _as(np.array([[REAL, 0, 0], [0, PAIR[0], -PAIR[1]], [0, PAIR[1], PAIR[0]]]), guess)

    def weigh(w: Array) -> Array:
        return w if system.mass is None else matmul(w, stop_gradient(system.mass).T)

    def advance(s: Newton) -> Newton:
        residual = matmul(forth, slopes(matmul(back, s.w))) - weigh(matmul(eigen, s.w)) / h
        first = matmul(inverse[0], residual[0])
        pair = matmul(inverse[1], concat([residual[1], residual[2]]))
        change = stack([first, pair[:n], pair[n:]])
        scaled = change / scale
        size = sqrt(mean(scaled * scaled)) if change.size else asarray(0.0, change.dtype)
        known = s.count > 0
        rate = where(known, size / where(s.size > 0, s.size, 1.0), 0.0)
        left = rate / where(rate < 1, 1 - rate, 1.0) * size
        hopeless = rate ** (NEWTON_STEPS - 1 - s.count) / where(rate < 1, 1 - rate, 1.0) * size > tolerance
        failed = ~isfinite(size) | (known & ((rate >= 1) | hopeless))
        converged = ~failed & ((size == 0) | (known & (left < tolerance)))
        return Newton(where(failed, s.w, s.w + change), size, converged, failed, s.count + 1)

    def going(s: Newton) -> Array:
        return ~(s.converged | s.failed) & (s.count < NEWTON_STEPS)

    no = asarray(False)
    return while_loop(going, advance, Newton(matmul(forth, guess), zeros_like(h), no, no, asarray(0)))


def _attach(
    slopes: Callable[[Array, Array, Array], Array], system: System, z: Array, t: Array, y: Array, h: Array
) -> Array:
    """Return stages as a differentiable function of what the equations depend on."""
    shape = z.shape

    def residual(v: Array, t: Array, y: Array) -> Array:
        stages = reshape(v, shape)
        weighed = stages if system.mass is None else matmul(stages, system.mass.T)
        return reshape(h * slopes(stages, t, y) - matmul(_as(INVERSE, v), weighed), (-1,))

    flat = reshape(z, (-1,))
    if not isinstance(residual(flat, t, y), Tracer):
        return z
    problem = parametrize(residual, [_same], [Aval(flat.shape, flat.dtype)], (t, y), "odeint")
    return reshape(
        attach_implicit_derivative(problem.fn, stop_gradient(flat), problem.params, all_(isfinite(flat))), shape
    )


def _same(v: Array) -> Array:
    return v


def _dense_of(z: Array) -> tuple[Array, ...]:
    """Return the collocation polynomial as an interpolant."""
    near, far = [(z[k] / NODES[k] - z[2]) / (1 - NODES[k]) for k in (0, 1)]
    bend = (far - near) / (NODES[1] - NODES[0])
    return z[2], near - NODES[0] * bend, bend


RADAU = Method(_step, order=4, implicit=True)
