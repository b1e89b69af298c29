"""March: the steps of an initial value problem, up to the last of the requested times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx.control.scan import scan
from afx.control.solving.compiled import are_plain, run_or_compile
from afx.control.solving.report import Status, choose_status
from afx.control.while_loop import while_loop
from afx.core.array.array import Array
from afx.core.tracing.tracer import Tracer
from afx.integrate.crossings import Crossings
from afx.integrate.event import Direction, Happening, crossed
from afx.integrate.step import Field, Method, Step, System, error_norm, initial_step, interpolate, step_factor
from afx.integrate.trail import Trail
from afx.ops.creation.creation import asarray, zeros_like
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import minimum, where
from afx.ops.reductions.boolean import all as all_

__all__ = ["Control", "March", "integrate", "march"]

EAGER_STEPS = 10  # measured: tracing a march takes the time of about ten of its steps


@attrs.frozen(eq=False)
class Control:
    """How an integration goes.

    Attributes:
        method: of a step.
        rtol: of each step's error, relative to the state.
        atol: added to it.
        max_steps: the limit of trials.
        direction: of events.
        step: the size of fixed steps.
        steps: the number of fixed steps.
        dense: whether steps are kept.
        terminal: which events end the integration, all or each.
        max_events: for how many steps with events there is room.
    """

    method: Method
    rtol: float
    atol: float
    max_steps: int
    direction: Direction = 0
    step: float | None = None
    steps: int | None = None
    dense: bool = False
    terminal: bool | tuple[bool, ...] = True
    max_events: int = 0

    @property
    def records(self) -> bool:
        """Whether some events do not end the integration, and are recorded."""
        return not np.all(self.terminal)

    @property
    def is_fixed(self) -> bool:
        """Whether steps have a given size."""
        return self.step is not None or self.steps is not None


@attrs.frozen
class March:
    """The state of an integration, in the direction of growing time.

    Attributes:
        t: the time reached.
        y: the state there.
        slope: the right side there.
        h: the next step size.
        norm: the error of the last accepted step, in units of the tolerance.
        begin: where the last accepted step began.
        start: the state there.
        length: its length.
        dense: what its interpolant is made of.
        happening: what the event function was at both ends of the step, if there is one.
        trail: all accepted steps, if they are kept.
        crossings: those along which events happened, if some do not end the integration.
        accepted: how many steps were.
        rejected: how many were not.
        evaluations: of the field.
        retried: whether the last trial was rejected.
        status: a `Status`.
    """

    t: Array
    y: Array
    slope: Array
    h: Array
    norm: Array
    begin: Array
    start: Array
    length: Array
    dense: tuple[Array, ...]
    happening: Happening | None
    trail: Trail | None
    crossings: Crossings | None
    accepted: Array
    rejected: Array
    evaluations: Array
    retried: Array
    status: Array


def integrate(
    control: Control,
    field: Callable[..., Array],
    watched: Callable[..., Array] | None,
    y: Array,
    times: Array,
    params: Sequence[Any],
    mass: Array | None = None,
) -> tuple[March, Array]:
    """Return the last state of the march and the states at all times; plain values run as under `jit` where that is long."""

    def run(
        y: Array, times: Array, params: Sequence[Any], mass: Array | None, limit: int = control.max_steps
    ) -> tuple[March, Array]:
        def slope(t: Array, v: Array) -> Array:
            return field(t, v, *params)

        def events(t: Array, v: Array) -> Array:
            assert watched is not None, "it is watched only then"
            return watched(t, v, *params)

        system = System(slope, mass, control.rtol, control.atol)
        limited = attrs.evolve(control, max_steps=limit)
        return march(limited, system, None if watched is None else events, y, times)

    given = (y, times, list(params), mass)
    if are_plain(*given) and times.shape[0] <= EAGER_STEPS and not control.dense:
        found = run(*given, min(control.max_steps, EAGER_STEPS))
        status = found[0].status
        if isinstance(status, Tracer):  # it closes over what is traced
            return run(*given)
        if control.max_steps <= EAGER_STEPS or int(status) != int(Status.ITERATION_LIMIT):
            return found
    return run_or_compile(run, *given, name="odeint")


def march(control: Control, system: System, watched: Field | None, y: Array, times: Array) -> tuple[March, Array]:
    """Return the last state of the march and the states at all times."""
    ends = stop_gradient(times[0]), stop_gradient(times[-1])
    begin = _beginning(control, system, watched, y, times)

    def advance(m: March) -> March:
        return _advance(control, system, watched, m, ends)

    def to(m: March, target: Array) -> tuple[March, Array]:
        goal = stop_gradient(target)
        m = while_loop(lambda s: (s.status == int(Status.RUNNING)) & (s.t < goal), advance, m)
        dense = control.method.finish(system, m)
        return m, interpolate(m.start, dense, (target - m.begin) / m.length)

    last, states = scan(to, begin, times)
    return attrs.evolve(last, dense=control.method.finish(system, last)), states


def _beginning(control: Control, system: System, watched: Field | None, y: Array, times: Array) -> March:
    """Return the state of a march before its first step."""
    slope = system.field(times[0], y)
    h = stop_gradient(_first_step(control, system, y, slope, times))
    one = zeros_like(h) + 1
    no = asarray(0)
    values = None if watched is None else watched(times[0], y)
    coefficients = control.method.coefficients
    return March(
        times[0],
        y,
        slope,
        h,
        one,
        times[0],
        y,
        one,
        (zeros_like(y),) * control.method.kept,
        None if values is None else Happening(values, values),
        Trail.create(control.max_steps, times[0], y, coefficients) if control.dense else None,
        None
        if values is None or not control.records
        else Crossings.create(control.max_events, times[0], y, values, coefficients),
        no,
        no,
        asarray(2),
        asarray(False),
        choose_status(isfinite(h), Status.RUNNING, Status.NONFINITE),
    )


def _first_step(control: Control, system: System, y: Array, slope: Array, times: Array) -> Array:
    span = stop_gradient(times[-1] - times[0])
    if control.steps is not None:
        return span / control.steps
    if control.step is not None:
        return asarray(control.step, y.dtype)
    return initial_step(system, times[0], y, slope, span, control.method.order)


def _advance(control: Control, system: System, watched: Field | None, m: March, ends: tuple[Array, Array]) -> March:
    """Return the march after one trial of a step."""
    eps = float(np.finfo(m.y.dtype).eps)
    now = stop_gradient(m.t)
    last, whole = _plan_step(control, m, ends)
    left = ends[1] - now
    h = where(last & (left > 0), left, m.h)  # under vmap what has ended goes on, unread, and shall not divide by 0
    step = control.method.step(system, m, h)
    good, norm, proposed = _judge(control, m, step, h)
    if control.is_fixed:
        good = good & (last | (now + m.h > now))
    tiny = ~good & (control.is_fixed | (proposed <= 4 * eps * abs_(now) + np.finfo(m.y.dtype).tiny))
    ended = choose_status(isfinite(norm), Status.STALLED, Status.NONFINITE)
    status = where(tiny, ended, m.status)
    over = m.accepted + m.rejected + 1 >= control.max_steps

    t = m.t + where(last, left, whole)
    happening, hit = None, asarray(False)
    if watched is not None and m.happening is not None:
        values, known = watched(t, step.y), m.happening.after
        happening = Happening(where(good, known, m.happening.before), where(good, values, known))
        hit = good & crossed(happening, control.direction)
        ending = hit if control.terminal is True else hit & np.asarray(control.terminal)
        status = where(ending.any(), int(Status.EVENT), status)
    status = where((status == int(Status.RUNNING)) & over & ~(good & last), int(Status.ITERATION_LIMIT), status)

    def pick(new: Array, old: Array) -> Array:
        return where(good, new, old)

    grown = where(good & m.retried, minimum(proposed, h), proposed)
    new = March(
        pick(t, m.t),
        pick(step.y, m.y),
        pick(step.slope, m.slope),
        m.h if control.is_fixed else grown,
        pick(norm, m.norm),
        pick(m.t, m.begin),
        pick(m.y, m.start),
        pick(h, m.length),
        tuple([pick(a, b) for a, b in zip(step.dense, m.dense, strict=True)]),
        happening,
        m.trail,
        m.crossings,
        m.accepted + good,
        m.rejected + ~good,
        m.evaluations + step.evaluations,
        ~good,
        status,
    )
    if m.trail is None and m.crossings is None:
        return new
    # what a rejected trial writes is written over, or lies behind the last step
    dense = control.method.finish(system, new)
    return attrs.evolve(
        new,
        trail=None if m.trail is None else m.trail.put(m.accepted, new.begin, new.start, new.length, dense),
        crossings=None if m.crossings is None else m.crossings.put(hit, new, dense),
    )


def _plan_step(control: Control, m: March, ends: tuple[Array, Array]) -> tuple[Array, Array]:
    """Tell whether the next step is the last one; return by how much time grows if it is not.

    Fixed steps end at multiples of their size: times that are summed would drift.
    """
    now, (begin, end) = stop_gradient(m.t), ends
    if not control.is_fixed:
        return now + 1.0001 * m.h >= end, m.h
    count = m.accepted.astype(m.h.dtype)
    rounding = 1 + 8 * float(np.finfo(m.h.dtype).eps)
    is_near = (count + 1.0001) * m.h * rounding >= end - begin
    last = is_near if control.steps is None else count + 1 >= control.steps
    return last, begin + (count + 1) * m.h - now


def _judge(control: Control, m: March, step: Step, h: Array) -> tuple[Array, Array, Array]:
    """Tell whether a step is good; return the size of its error, and the step size that follows."""
    if control.is_fixed:
        unsolved = sum([0.0 * e for e in step.errors], 0.0 * step.y)
        norm = stop_gradient(where(all_(isfinite(unsolved)), 0.0, np.nan).astype(h.dtype))
        return isfinite(norm), norm, h
    norm = stop_gradient(error_norm(step.errors, m.y, step.y, control.rtol, control.atol))
    return norm <= 1, norm, h * stop_gradient(step_factor(control.method, norm, m.norm))
