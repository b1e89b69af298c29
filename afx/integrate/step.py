"""Steps: what a one-step method gives, the interpolant over a step, and the control of the step size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import attrs

from afx.core.array.array import Array
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import clip, maximum, minimum, where
from afx.ops.linalg.products import matmul
from afx.ops.reductions.sums import mean

__all__ = [
    "Field",
    "Method",
    "Step",
    "System",
    "error_norm",
    "hermite",
    "initial_step",
    "interpolate",
    "scaled_norm",
    "step_factor",
]

Field = Callable[[Array, Array], Array]  # (t, y) to dy/dt

SAFETY, SMALLEST, LARGEST = 0.9, 0.2, 10.0


@attrs.frozen(eq=False)
class System:
    """What is integrated, ``mass @ dy/dt = field(t, y)``, and how exactly.

    Attributes:
        field: the right side.
        mass: float[n, n], None for the identity.
        rtol: of a step's error, relative to the state.
        atol: added to it.
    """

    field: Field
    mass: Array | None
    rtol: float
    atol: float

    def weigh(self, v: Array) -> Array:
        """Return the product of the mass with a vector."""
        return v if self.mass is None else matmul(self.mass, v)


class Past(Protocol):
    """Where an integration has come to, and the last step that led there."""

    @property
    def t(self) -> Array: ...
    @property
    def y(self) -> Array: ...
    @property
    def slope(self) -> Array: ...
    @property
    def begin(self) -> Array: ...
    @property
    def start(self) -> Array: ...
    @property
    def length(self) -> Array: ...
    @property
    def dense(self) -> tuple[Array, ...]: ...
    @property
    def accepted(self) -> Array: ...


@attrs.frozen
class Step:
    """What a step gives.

    Attributes:
        y: the state at its end.
        errors: estimates of its error, none where the method has none; a second one is rougher.
        slope: the right side there.
        dense: what the interpolant is made of.
        evaluations: of the field.
    """

    y: Array
    errors: tuple[Array, ...]
    slope: Array
    dense: tuple[Array, ...]
    evaluations: Array | int


def _keep_dense(_: System, past: Past) -> tuple[Array, ...]:
    return past.dense


@attrs.frozen(eq=False)
class Method:
    """A one-step method.

    Attributes:
        step: (system, where the integration is, step size) to a step.
        order: the power of the step size that the error estimate is of.
        damping: how much the controller follows the last error (Gustafsson's PI control; 0 is none).
        kept: how many vectors a step keeps for its interpolant.
        coefficients: how many the interpolant has.
        finish: (system, where the integration is) to the interpolant of the last step.
        adaptive: whether steps have an error estimate.
        implicit: whether it takes mass matrices.
        halved: whether the state is a pair of positions and momenta.
    """

    step: Callable[[System, Past, Array], Step]
    order: int
    damping: float = 0.0
    kept: int = 3
    coefficients: int = 3
    finish: Callable[[System, Past], tuple[Array, ...]] = _keep_dense
    adaptive: bool = True
    implicit: bool = False
    halved: bool = False


def hermite(y: Array, slope: Array, end: Array, end_slope: Array, h: Array) -> tuple[Array, Array, Array]:
    """Return the interpolant of the states and slopes at both ends of a step."""
    rise = end - y
    bend = h * slope - rise
    return rise, bend, rise - h * end_slope - bend


def interpolate(y: Array, dense: tuple[Array, ...], s: Array) -> Array:
    """Return the state at a fraction of a step that began at y (Hairer, Nørsett & Wanner 1993, II.6 and IV.7)."""
    total, r = dense[-1], 1 - s
    for k, term in reversed(list(enumerate(dense[:-1]))):
        total = term + (s if k % 2 else r) * total
    return y + s * total


def scaled_norm(v: Array, y: Array, end: Array, rtol: float, atol: float) -> Array:
    """Return the root mean square of a vector in units of the tolerance at both ends of a step."""
    scaled = v / (atol + rtol * maximum(abs_(y), abs_(end)))
    return sqrt(mean(scaled * scaled)) if v.size else asarray(0.0, v.dtype)


def error_norm(errors: tuple[Array, ...], y: Array, end: Array, rtol: float, atol: float) -> Array:
    """Return the size of a step's error in units of the tolerance: a step is good up to 1.

    Two estimates together are Hairer's (Hairer, Nørsett & Wanner 1993, II.10).
    """
    norm, *rougher = [scaled_norm(e, y, end, rtol, atol) for e in errors]
    if not rougher:
        return norm
    length = sqrt(norm * norm + 0.01 * rougher[0] * rougher[0])
    return norm * norm / where(length == 0, 1.0, length)


def step_factor(method: Method, norm: Array, last: Array) -> Array:
    """Return by which factor the step size changes (Hairer & Wanner 1996, section IV.2)."""
    usable = isfinite(norm)
    size = where(usable, maximum(norm, 1e-10), 1.0)
    power = 1 / method.order - 0.75 * method.damping
    factor = SAFETY * size ** (-power) * maximum(last, 1e-4) ** method.damping
    return where(usable, clip(factor, SMALLEST, where(norm <= 1, asarray(LARGEST, norm.dtype), 1.0)), SMALLEST)


def initial_step(system: System, t: Array, y: Array, slope: Array, span: Array, order: int) -> Array:
    """Return a first step size (Hairer, Nørsett & Wanner 1993, section II.4)."""

    def size(v: Array) -> Array:
        return scaled_norm(v, y, y, system.rtol, system.atol)

    d0, d1 = size(y), size(slope)
    small = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = minimum(where(small, 1e-6, 0.01 * d0 / where(small, 1.0, d1)), span)
    there = system.field(t + h0, y + h0 * slope)
    d2 = size(there - slope) / where(h0 > 0, h0, 1.0)
    steep = maximum(d1, d2)
    flat = ~(steep > 1e-15)
    h1 = where(flat, maximum(1e-6, h0 * 1e-3), (0.01 / where(flat, 1.0, steep)) ** (1 / order))
    h = minimum(minimum(100 * h0, h1), span)
    return where(isfinite(h), h, minimum(1e-6, span))
