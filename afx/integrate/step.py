"""Steps: one-step methods, the control of their size, the accepted steps and what is reported of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.control.solving import Report
from afx.core import Array, ArrayLike, Shown, Tracer, is_traced
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops import abs as abs_, arange, asarray, concat, matmul, mean, searchsorted, sqrt, stop_gradient, zeros
from afx.ops.elementwise.comparison import clip, isfinite, maximum, minimum, where
from afx.transforms.vmap import vmap

__all__ = ["OdeEvents", "OdeResult", "OdeSolution", "QuadResult"]

# --- Steps: what a one-step method gives, the interpolant over a step, and the control of the step size

Field = Callable[[Array, Array], Array]  # (t, y) to dy/dt

SAFETY, SMALLEST, LARGEST = 0.9, 0.2, 10.0
HELD = 1.2  # growth that is not worth a new factorization (Hairer & Wanner 1996, section IV.8)


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


class OneStep(Protocol):
    """A step with its interpolant."""

    @property
    def begin(self) -> Array:
        """When it began."""
        ...

    @property
    def start(self) -> Array:
        """The state then."""
        ...

    @property
    def length(self) -> Array:
        """Its length."""
        ...

    @property
    def dense(self) -> tuple[Array, ...]:
        """What its interpolant is made of."""
        ...


class Past(OneStep, Protocol):
    """Where an integration has come to, and the last step that led there."""

    @property
    def t(self) -> Array:
        """The time it has come to."""
        ...

    @property
    def y(self) -> Array:
        """The state there."""
        ...

    @property
    def slope(self) -> Array:
        """Its derivative there."""
        ...

    @property
    def norm(self) -> Array:
        """Its error, in units of the tolerance."""
        ...

    @property
    def accepted(self) -> Array:
        """How many steps were accepted."""
        ...

    @property
    def retried(self) -> Array:
        """Whether the last trial was rejected, so that this one begins where that did."""
        ...

    @property
    def memory(self) -> Any:
        """What the method keeps from step to step, a tree."""
        ...


@attrs.frozen
class Step:
    """What a step gives.

    Attributes:
        y: the state at its end.
        errors: estimates of its error, none where the method has none; a second one is rougher.
        slope: the right side there.
        dense: what the interpolant is made of.
        evaluations: of the field.
        memory: what the method keeps for the next trial, whether this one is accepted or not.
        safety: a factor of the next step's size.
        holds: whether a step that could grow little keeps its size.
        proposed: the next step's size, where the method finds it itself.
    """

    y: Array
    errors: tuple[Array, ...]
    slope: Array
    dense: tuple[Array, ...]
    evaluations: Array | int
    memory: Any = ()
    safety: Array | float = SAFETY
    holds: Array | bool = False
    proposed: Array | None = None


@attrs.frozen(eq=False)
class Method:
    """A one-step method.

    Attributes:
        memory: (system, first state) to what it keeps from step to step before the first one.
        foresees: whether the controller follows how errors changed (Gustafsson's predictive control).
        failed: the factor of the step's size where a step has no error.
        step: (system, where the integration is, step size) to a step.
        order: the power of the step size that the error estimate is of.
        damping: how much the controller follows the last error (Gustafsson's PI control; 0 is none).
        vectors: how many vectors a step keeps for its interpolant.
        coefficients: how many the interpolant has.
        finish: (system, where the integration is) to the interpolant of the last step.
        adaptive: whether steps have an error estimate.
        varies: whether it finds the sizes of steps itself, so that they are not given.
        implicit: whether it takes mass matrices.
        halved: whether the state is a pair of positions and momenta.
    """

    step: Callable[[System, Past, Array], Step]
    order: int
    damping: float = 0.0
    vectors: int = 3
    coefficients: int = 3
    finish: Callable[[System, Past], tuple[Array, ...]] = lambda _, past: past.dense
    adaptive: bool = True
    varies: bool = False
    implicit: bool = False
    halved: bool = False
    memory: Callable[[System, Array], Any] = lambda _system, _y: ()
    foresees: bool = False
    failed: float = SMALLEST


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


def step_factor(method: Method, past: Past, step: Step, norm: Array, h: Array) -> Array:
    """Return by which factor the step size changes (Hairer & Wanner 1996, section IV.2 and IV.8)."""
    usable = isfinite(norm)
    size = where(usable, maximum(norm, 1e-10), 1.0)
    last = maximum(past.norm, 1e-4)
    factor = size ** (0.75 * method.damping - 1 / method.order) * last**method.damping
    if method.foresees:
        trend = h / past.length * (last / size) ** (1 / method.order)
        factor = where(past.accepted > 0, minimum(1.0, trend), 1.0) * factor
    factor = clip(step.safety * factor, SMALLEST, where(norm <= 1, asarray(LARGEST, norm.dtype), 1.0))
    factor = where(asarray(step.holds) & (norm <= 1) & (factor < HELD), 1.0, factor)
    return where(usable, factor, method.failed)


def initial_step(system: System, t: Array, y: Array, slope: Array, span: Array, order: int) -> Array:
    """Return a first step size (Hairer, Nørsett & Wanner 1993, section II.4)."""

    def size(v: Array) -> Array:
        return scaled_norm(v, y, y, system.rtol, system.atol)

    d0, d1 = size(y), size(slope)
    small = (d0 < 1e-5) | (d1 < 1e-5)
    h0 = minimum(where(small, 1e-6, 0.01 * d0 / where(small, 1.0, d1)), span)
    next_slope = system.field(t + h0, y + h0 * slope)
    d2 = size(next_slope - slope) / where(h0 > 0, h0, 1.0)
    steep = maximum(d1, d2)
    flat = ~(steep > 1e-15)
    h1 = where(flat, maximum(1e-6, h0 * 1e-3), (0.01 / where(flat, 1.0, steep)) ** (1 / order))
    h = minimum(minimum(100 * h0, h1), span)
    return where(isfinite(h), h, minimum(1e-6, span))


# --- Trail: the accepted steps of an integration, and the solution between them as a function of time

T = TypeVar("T")


@attrs.frozen
class Trail:
    """The steps so far, in buffers for as many as there can be.

    Attributes:
        begins: float[steps], when each began.
        starts: float[steps, n], the state there.
        lengths: float[steps], their lengths.
        dense: float[steps, vectors, n], their interpolants.
    """

    begins: Array
    starts: Array
    lengths: Array
    dense: tuple[Array, ...]

    @classmethod
    def create(cls, steps: int, t: Array, y: Array, coefficients: int) -> Trail:
        """Return a trail without steps, that stands at its beginning."""
        times, states = zeros(steps, y.dtype), zeros((steps, *y.shape), y.dtype)
        return cls(times.at[0].set(t), states.at[0].set(y), times, (states,) * coefficients)

    def put(self, k: Array, begin: Array, start: Array, length: Array, dense: tuple[Array, ...]) -> Trail:
        """Return the trail with a step at k."""
        return Trail(
            self.begins.at[k].set(begin),
            self.starts.at[k].set(start),
            self.lengths.at[k].set(length),
            tuple([rows.at[k].set(row) for rows, row in zip(self.dense, dense, strict=True)]),
        )

    def cut(self, count: int) -> Trail:
        """Return the first steps alone."""
        return pytree.map(lambda rows: rows[:count], self)


@attrs.frozen
class OdeSolution(Shown, Generic[T]):
    """A solution as a function of time, differentiable by it and by what the integration depends on.

    Attributes:
        ts: float[steps + 1], when each step began, and when the integration ended; nan where no step was taken.
        ys: the states then, a tree as the first state with the times as first axis.
    """

    ts: Array
    ys: T
    _trail: Trail
    _sign: Array
    _count: Array
    _unravel: Callable[[Array], T] = pytree.static()

    def __call__(self, t: ArrayLike) -> T:
        """Return the states at times, a tree as the first state with the axes of the times in front.

        Times outside of the integration, or after the event that ended it, give nan.
        """
        times = asarray(t)
        flat = times.astype(self.ts.dtype).reshape((-1,)) * self._sign
        trail, count = self._trail, self._count
        steps = arange(trail.begins.shape[0])
        begins = where(steps < count, stop_gradient(trail.begins), np.inf)
        end = stop_gradient(self.ts[count]) * self._sign
        index = clip(searchsorted(begins, stop_gradient(flat), side="right") - 1, 0, None)

        def state(k: Array, time: Array) -> T:
            """Return the state at a time within the k-th step, by its dense output; nan outside of all."""
            since, margin = time - trail.begins[k], 1e-9 * trail.lengths[k]
            outside = (since < -margin) | (time - end > margin)
            s = since / where(count > 0, trail.lengths[k], 1.0)
            y = interpolate(trail.starts[k], tuple([rows[k] for rows in trail.dense]), s)
            return self._unravel(where(outside, np.nan, y))

        states = vmap(state)(index, flat)
        return pytree.map(lambda rows: rows.reshape((*times.shape, *rows.shape[1:])), states)


def solution_of(
    trail: Trail, count: Array, sign: Array, end: tuple[Array, Array], unravel: Callable[[Array], T]
) -> OdeSolution[T]:
    """Return the solution of a trail of so many steps, whose buffers are cut where that number is known.

    Args:
        trail: the steps, in the direction of growing time.
        count: how many there are.
        sign: of the direction of time.
        end: when the integration ended, and the state then.
        unravel: a vector to the user's tree.
    """
    if not is_traced(count):
        trail = trail.cut(max(int(count), 1))
    rows = trail.begins.shape[0]
    known = arange(rows + 1) < count
    last = arange(rows + 1) == count
    times, states = _append_row(trail.begins), _append_row(trail.starts)
    ts = where(known, times, where(last, end[0], np.nan))
    ys = where(known[:, None], states, where(last[:, None], end[1], np.nan))
    return OdeSolution(sign * ts, vmap(unravel)(ys), trail, sign, count, unravel)


def _append_row(rows: Array) -> Array:
    """Return rows with one more behind."""
    return concat([rows, zeros((1, *rows.shape[1:]), rows.dtype)])


# --- Results of integration: a solution, beside the report of the work it took


@attrs.frozen
class OdeEvents(Shown, Generic[T]):
    """When the values of an event function changed their signs; under `jit` rows are as long as there can be events.

    Attributes:
        times: float[values, events], when each did, in the order of the integration; nan behind the last.
        ys: the states then, a tree as the first state with the values and events as first axes.
        counts: int[values], how often each did; more than there are times where those of a compiled run were too many.
    """

    times: Array
    ys: T
    counts: Array


@attrs.frozen
class OdeResult(Report, Shown, Generic[T]):
    """What `odeint` found; ``iterations`` counts the accepted steps.

    Attributes:
        ts: float[times], the requested times.
        ys: the states there, a tree as the first state with the times as first axis; nan at times that were not reached.
        rejected: int, the number of steps that were tried in vain.
        event_time: float, when the event happened, nan if none did.
        event_y: the state then.
        event_index: int, which of the values of ``event`` changed its sign, -1 if none did.
        solution: the solution at any time of the integration, if ``dense`` asked for it.
        events: all events, if some of them do not end the integration.
    """

    ts: Array
    ys: T
    rejected: Array
    event_time: Array
    event_y: T
    event_index: Array
    solution: OdeSolution[T] | None = None
    events: OdeEvents[T] | None = None


@attrs.frozen
class QuadResult(Report, Shown, Generic[T]):
    """What `quad` found; ``iterations`` counts the intervals that were halved.

    Attributes:
        value: the integral, a tree as the function returns.
        error: float, an estimate of the largest absolute error.
    """

    value: T
    error: Array


# --- Times: those at which a solution is asked for


def requested_times(ts: ArrayLike, y: Array, who: str, *, backwards: bool = True) -> Array:
    """Return times in the state's dtype, if they are a vector that goes one way.

    Args:
        ts: the user's times.
        y: the state.
        who: for messages.
        backwards: whether they may descend.
    """
    times = asarray(ts)
    if times.ndim != 1 or not times.shape[0]:
        raise ShapeError(f"{who}: ts are times, the first that of the start: got {times.aval}; give a vector")
    if times.dtype.kind not in "fiu":
        raise DtypeError(f"{who}: times are real: got {times.aval}")
    if not isinstance(times, Tracer):
        steps = np.diff(np.asarray(times))
        if not ((steps >= 0).all() or (steps <= 0).all()):
            raise ArgumentError(f"{who}: times turn back: got neither ascending nor descending ts; sort them")
        if not backwards and not (steps >= 0).all():
            raise ArgumentError(f"{who}: times ascend: got descending ts; turn them round")
    return asarray(ts, y.dtype)  # Python's numbers keep all of their digits
