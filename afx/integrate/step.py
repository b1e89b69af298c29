"""Steps: what a one-step method gives, the interpolant over a step, and the control of the step size."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from afx.core.array.array import Array
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import clip, maximum, minimum, where
from afx.ops.reductions.sums import mean

__all__ = ["Field", "Method", "Step", "error_norm", "initial_step", "interpolate", "step_factor"]

Field = Callable[[Array, Array], Array]  # (t, y) to dy/dt

SAFETY, SMALLEST, LARGEST = 0.9, 0.2, 10.0


@attrs.frozen
class Step:
    """What a step gives: the state at its end, an estimate of the error, the slope there, and the interpolant."""

    y: Array
    error: Array
    slope: Array
    dense: tuple[Array, ...]


@attrs.frozen(eq=False)
class Method:
    """A one-step method.

    Attributes:
        step: (field, t, y, slope at y, step size) to a step.
        order: the power of the step size that the error estimate is of.
        evaluations: how many evaluations of the field a step takes.
        damping: how much the controller follows the last error (Gustafsson's PI control; 0 is none).
    """

    step: Callable[[Field, Array, Array, Array, Array], Step]
    order: int
    evaluations: int
    damping: float


def interpolate(y: Array, dense: tuple[Array, ...], s: Array) -> Array:
    """Return the state at a fraction of a step that began at y (Hairer, Nørsett & Wanner 1993, II.6 and IV.7)."""
    a, b, c, d = dense
    r = 1 - s
    return y + s * (a + r * (b + s * (c + r * d)))


def error_norm(error: Array, y: Array, end: Array, rtol: float, atol: float) -> Array:
    """Return the root mean square of the error in units of the tolerance: a step is good up to 1."""
    scaled = error / (atol + rtol * maximum(abs_(y), abs_(end)))
    return sqrt(mean(scaled * scaled)) if error.size else asarray(0.0, error.dtype)


def step_factor(method: Method, norm: Array, last: Array) -> Array:
    """Return by which factor the step size changes (Hairer & Wanner 1996, section IV.2)."""
    usable = isfinite(norm)
    size = where(usable, maximum(norm, 1e-10), 1.0)
    power = 1 / method.order - 0.75 * method.damping
    factor = SAFETY * size ** (-power) * maximum(last, 1e-4) ** method.damping
    return where(usable, clip(factor, SMALLEST, where(norm <= 1, asarray(LARGEST, norm.dtype), 1.0)), SMALLEST)


def initial_step(
    field: Field, t: Array, y: Array, slope: Array, span: Array, order: int, rtol: float, atol: float
) -> Array:
    """Return a first step size (Hairer, Nørsett & Wanner 1993, section II.4)."""
    d0, d1 = error_norm(y, y, y, rtol, atol), error_norm(slope, y, y, rtol, atol)
    small = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = minimum(where(small, 1e-6, 0.01 * d0 / where(small, 1.0, d1)), span)
    there = field(t + h0, y + h0 * slope)
    d2 = error_norm(there - slope, y, y, rtol, atol) / where(h0 > 0, h0, 1.0)
    steep = maximum(d1, d2)
    flat = ~(steep > 1e-15)
    h1 = where(flat, maximum(1e-6, h0 * 1e-3), (0.01 / where(flat, 1.0, steep)) ** (1 / order))
    h = minimum(minimum(100 * h0, h1), span)
    return where(isfinite(h), h, minimum(1e-6, span))
