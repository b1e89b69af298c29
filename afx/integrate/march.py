"""March: the steps of an initial value problem up to the last requested time, and events along them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, TypeVar

import attrs
import numpy as np

from afx.control.scan import scan
from afx.control.solving import (
    EAGER_STEPS,
    Status,
    are_concrete,
    attach_implicit_derivative,
    choose_status,
    lift_closure,
    parametrize,
    solve,
)
from afx.control.while_loop import fori_loop, while_loop
from afx.core import Array, ArrayLike, Aval, aval_of, epsilon, is_traced
from afx.errors import AfxError, ArgumentError
from afx.integrate.step import (
    Field,
    Method,
    OdeEvents,
    OneStep,
    Step,
    System,
    Trail,
    error_norm,
    initial_step,
    interpolate,
    step_factor,
)
from afx.ops import abs as abs_, arange, argmax, argsort, isfinite, isnan, minimum, take_along_axis, where
from afx.ops.creation.creation import asarray, ones_like, stop_gradient, zeros, zeros_like
from afx.ops.reductions.sums import all as all_, any as any_, sum as sum_
from afx.transforms.vmap import vmap

# --- Events: where along a step a function of the state changes its sign

EventFn = Callable[..., Any]
Direction = int | tuple[int, ...]  # that of the time of integration


@attrs.frozen
class Happening:
    """The values of the event function at both ends of the last step."""

    before: Array
    after: Array


class Watched(OneStep, Protocol):
    """A step along which an event may have happened."""

    @property
    def happening(self) -> Happening | None:
        """The values of the event function at both ends."""
        ...


@attrs.frozen
class Located:
    """When an event happened, the state then, and which value changed its sign; nan, nan and -1 if none did."""

    t: Array
    y: Array
    index: Array


def crossed(happening: Happening, direction: Direction = 0) -> Array:
    """Tell of each value whether it changed its sign or became 0; one that begins at 0 does not count.

    Args:
        happening: the values at both ends.
        direction: of each value, or of all: 1 counts rising ones alone, -1 falling ones, 0 both.
    """
    a, b, way = happening.before, happening.after, np.asarray(direction)
    rises, falls = (a < 0) & (b >= 0), (a > 0) & (b <= 0)
    return (rises & (way >= 0)) | (falls & (way <= 0)) if way.any() else rises | falls


def locate(watched: Field | None, step: Watched, direction: Direction, counted: ArrayLike = True) -> Located:
    """Return the first event within a step, by bisection of the interpolant; differentiable by its parameters.

    Args:
        watched: the event function, if there is one.
        step: along which it may have happened.
        direction: of events.
        counted: of which values changes of sign count.
    """
    happening = step.happening
    if watched is None or happening is None or not happening.before.shape[0]:
        return Located(step.begin * np.nan, step.start * np.nan, asarray(-1))
    before = happening.before

    def at(s: Array) -> tuple[Array, Array]:
        t, y = step.begin + s * step.length, interpolate(step.start, step.dense, s)
        return t, y

    def values_at(s: Array) -> Array:
        return watched(*at(s))

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        hit = (crossed(Happening(before, values_at(middle)), direction) & counted).any()
        return where(hit, low, middle), where(hit, middle, high)

    bits = int(np.finfo(step.start.dtype).nmant) + 2
    s = stop_gradient(fori_loop(0, bits, halve, (zeros_like(step.length), ones_like(step.length)))[1])
    index = argmax(crossed(Happening(before, stop_gradient(values_at(s))), direction) & counted)
    happened = (crossed(happening, direction) & counted).any()

    def gap(at: Array) -> Array:
        return where(happened, values_at(at[0])[index], at[0])[None]

    problem = parametrize(gap, [lambda v: v], [Aval((1,), s.dtype)], (), "odeint: event")
    s = attach_implicit_derivative(problem.fn, s[None], problem.params, asarray(True))[0]
    t, y = at(s)
    return Located(where(happened, t, np.nan), where(happened, y, np.nan), where(happened, index, -1))


# --- Crossings: the steps of an integration along which events happened that did not end it, and when they happened

T = TypeVar("T")


@attrs.frozen
class Crossings:
    """The steps with events so far, in buffers; the last row is written over, and belongs to none.

    Attributes:
        trail: these steps.
        happening: float[steps, values], the values of the event function at both ends of each.
        steps: int, how many there were.
        counts: int[values], how often each value changed its sign.
    """

    trail: Trail
    happening: Happening
    steps: Array
    counts: Array

    @classmethod
    def create(cls, most: int, t: Array, y: Array, values: Array, coefficients: int) -> Crossings:
        """Return buffers for so many steps."""
        rows = zeros((most + 1, *values.shape), values.dtype)
        trail = Trail.create(most + 1, t, y, coefficients)
        return cls(trail, Happening(rows, rows), asarray(0), zeros(values.shape, np.dtype(np.int64)))

    def put(self, hit: Array, step: Watched, dense: tuple[Array, ...]) -> Crossings:
        """Return the crossings with a step, which counts where a value changed its sign."""
        k = minimum(self.steps, self.trail.begins.shape[0] - 1)
        before, after = self.happening.before, self.happening.after
        assert step.happening is not None, "events are watched"
        return Crossings(
            self.trail.put(k, step.begin, step.start, step.length, dense),
            Happening(before.at[k].set(step.happening.before), after.at[k].set(step.happening.after)),
            self.steps + any_(hit),
            self.counts + hit,
        )

    def cut(self, most: int) -> _Step:
        """Return the first so many steps, stacked."""
        trail, happening = self.trail.cut(most), Happening(self.happening.before[:most], self.happening.after[:most])
        return _Step(trail.begins, trail.starts, trail.lengths, trail.dense, happening)


@attrs.frozen
class _Step:
    """One step with its interpolant."""

    begin: Array
    start: Array
    length: Array
    dense: tuple[Array, ...]
    happening: Happening


def events_of(
    crossings: Crossings, watched: Field, direction: Direction, end: Array, sign: Array, unravel: Callable[[Array], T]
) -> OdeEvents[T]:
    """Return when each event happened, up to the end of the integration, and the states then.

    Args:
        crossings: the steps.
        watched: the event function.
        direction: of events.
        end: when an event ended the integration, infinite if none did.
        sign: of the direction of time.
        unravel: a vector to the user's tree.

    Raises:
        ArgumentError: there were more steps with events than are kept.
    """
    room = crossings.trail.begins.shape[0] - 1
    most = room if is_traced(crossings.steps) else int(crossings.steps)
    if most > room:
        raise ArgumentError(
            f"odeint: more events than are recorded: got {most} steps with events and max_events={room}; raise max_events"
        )
    used, values = arange(most) < crossings.steps, arange(crossings.counts.shape[0])

    def place(step: _Step, is_used: Array, k: Array) -> Located:
        return locate(watched, step, direction, (values == k) & is_used)

    by_value = vmap(vmap(place, in_axes=(0, 0, None)), in_axes=(None, None, 0))(crossings.cut(most), used, values)
    late = ~isnan(by_value.t) & ~(by_value.t <= end)
    t = where(late, np.nan, by_value.t)
    order = argsort(stop_gradient(t), axis=1)  # what did not happen, nan, comes last
    times = take_along_axis(t, order, axis=1)
    states = take_along_axis(where(late[..., None], np.nan, by_value.y), order[..., None], axis=1)
    counts = crossings.counts - sum_(late, axis=1)
    if not is_traced(counts):
        largest = int(np.max(np.asarray(counts), initial=0))
        times, states = times[:, :largest], states[:, :largest]
    return OdeEvents(sign * times, vmap(vmap(unravel))(states), counts)


# --- March: the steps of an initial value problem, up to the last of the requested times


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
        memory: what the method keeps from step to step.
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
    memory: Any
    accepted: Array
    rejected: Array
    evaluations: Array
    retried: Array
    status: Array


@attrs.frozen
class Marched:
    """The last state of a march, and what it came to.

    Attributes:
        last: the state.
        states: float[times, n], those of the system at all times.
        crossing: the event that ended it.
        end: when that was, infinite if there was none.
        reached: bool[times], the times before the end.
    """

    last: March
    states: Array
    crossing: Located
    end: Array
    reached: Array

    @property
    def status(self) -> Array:
        """Why it ended."""
        return self.last.status


def integrate(
    control: Control,
    field: Callable[..., Array],
    watched: Callable[..., Array] | None,
    y: Array,
    times: Array,
    params: Sequence[Any],
    mass: Array | None = None,
) -> Marched:
    """Return the march through all times; known values run as under `jit` where that is long."""
    functions = [field] if watched is None else [field, watched]

    def run(y: Array, times: Array, given: Sequence[Sequence[Any]], mass: Array | None, limit: int) -> Marched:
        slope, *events = [_with_params(fn, ps) for fn, ps in zip(functions, given, strict=True)]
        system = System(slope, mass, control.rtol, control.atol)
        event = events[0] if events else None
        last, states = march(attrs.evolve(control, max_steps=limit), system, event, y, times)
        crossing = locate(event, last, control.direction, np.asarray(control.terminal))
        end = where(crossing.index >= 0, crossing.t, np.inf)
        return Marched(last, states, crossing, end, times <= minimum(last.t, end))

    given, limit = [[*params]] * len(functions), control.max_steps
    if are_concrete(y, times, given, mass):
        try:
            problems = [
                lift_closure(fn, [aval_of(x) for x in (times[0], y, *params)], params, "odeint") for fn in functions
            ]
        except AfxError:  # it asks for values: Python's run says what is wrong, if anything is
            problems = []
        if problems:
            functions, given = [p.fn for p in problems], [p.params for p in problems]
        return solve(
            run,
            y,
            times,
            given,
            mass,
            of=problems,
            options=options_of(control),
            limit=limit,
            name="odeint",
            begins_in_python=times.shape[0] <= EAGER_STEPS and not control.dense,
        )
    return run(y, times, given, mass, limit)


def options_of(control: Control) -> Hashable:
    """Return what tells an integration from others; None where tolerances are arrays."""
    tolerances: list[Any] = [control.rtol, control.atol, control.step or 0]
    is_plain = all(isinstance(x, (int, float)) for x in tolerances)
    return attrs.astuple(control, recurse=False) if is_plain else None


def _with_params(fn: Callable[..., Array], params: Sequence[Any]) -> Field:
    return lambda t, y: fn(t, y, *params)


def march(control: Control, system: System, watched: Field | None, y: Array, times: Array) -> tuple[March, Array]:
    """Return the last state of the march and the states at all times."""
    ends = stop_gradient(times[0]), stop_gradient(times[-1])
    begin = _beginning(control, system, watched, y, times)

    def to(m: March, target: Array) -> tuple[March, Array]:
        goal = stop_gradient(target)
        m = while_loop(
            lambda s: (s.status == int(Status.RUNNING)) & (s.t < goal),
            lambda m: _advance(control, system, watched, m, ends),
            m,
        )
        dense = control.method.finish(system, m)
        return m, interpolate(m.start, dense, (target - m.begin) / m.length)

    last, states = scan(to, begin, times)
    return attrs.evolve(last, dense=control.method.finish(system, last)), states


def _beginning(control: Control, system: System, watched: Field | None, y: Array, times: Array) -> March:
    """Return the state of a march before its first step."""
    slope = system.field(times[0], y)
    h = stop_gradient(_first_step(control, system, y, slope, times))
    t, one, no = times[0], zeros_like(h) + 1, asarray(0)
    values = None if watched is None else watched(t, y)
    happening = None if values is None else Happening(values, values)
    coefficients = control.method.coefficients
    trail = Trail.create(control.max_steps, t, y, coefficients) if control.dense else None
    crossings = None
    if values is not None and control.records:
        crossings = Crossings.create(control.max_events, t, y, values, coefficients)
    dense, memory = (zeros_like(y),) * control.method.vectors, control.method.memory(system, y)
    status = choose_status(isfinite(h), Status.RUNNING, Status.NONFINITE)
    return March(
        t, y, slope, h, one, t, y, one, dense, happening, trail, crossings, memory,
        no, no, asarray(2), asarray(False), status,
    )  # fmt: skip


def _first_step(control: Control, system: System, y: Array, slope: Array, times: Array) -> Array:
    span = stop_gradient(times[-1] - times[0])
    if control.steps is not None:
        return span / control.steps
    if control.step is not None:
        return asarray(control.step, y.dtype)
    return initial_step(system, times[0], y, slope, span, control.method.order)


def _advance(control: Control, system: System, watched: Field | None, m: March, ends: tuple[Array, Array]) -> March:
    """Return the march after one trial of a step."""
    now = stop_gradient(m.t)
    last, whole = _plan_step(control, m, ends)
    left = ends[1] - now
    h = where(last & (left > 0), left, m.h)  # under vmap what has ended goes on, unread, and shall not divide by 0
    step = control.method.step(system, m, h)
    good, norm, proposed = _judge(control, m, step, h)
    if control.is_fixed:
        good = good & (last | (now + m.h > now))
    tiny = ~good & (control.is_fixed | (proposed <= 4 * epsilon(m.y.dtype) * abs_(now) + np.finfo(m.y.dtype).tiny))
    status = where(tiny, choose_status(isfinite(norm), Status.STALLED, Status.NONFINITE), m.status)
    over = m.accepted + m.rejected + 1 >= control.max_steps
    t = m.t + where(last, left, whole)
    happening, hit, ending = _watch(control, watched, m.happening, good, t, step.y)
    if happening is not None:
        status = where(ending, int(Status.EVENT), status)
    status = where((status == int(Status.RUNNING)) & over & ~(good & last), int(Status.ITERATION_LIMIT), status)

    grown = where(good & m.retried, minimum(proposed, h), proposed)
    new = (t, step.y, step.slope, norm, m.t, m.y, h, *step.dense)
    old = (m.t, m.y, m.slope, m.norm, m.begin, m.start, m.length, *m.dense)
    t, y, slope, norm, begin, start, length, *dense = [where(good, a, b) for a, b in zip(new, old, strict=True)]
    after = March(
        t, y, slope, m.h if control.is_fixed else grown, norm, begin, start, length, tuple(dense),
        happening, m.trail, m.crossings, step.memory,
        m.accepted + good, m.rejected + ~good, m.evaluations + step.evaluations, ~good, status,
    )  # fmt: skip
    return _keep(control, system, m, after, hit)


def _watch(
    control: Control, watched: Field | None, happening: Happening | None, good: Array, t: Array, y: Array
) -> tuple[Happening | None, Array, Array]:
    """Return the values of events after a trial, which of them a good one has crossed, and whether one of these ends."""
    if watched is None or happening is None:
        return None, asarray(False), asarray(False)
    values, known = watched(t, y), happening.after
    seen = Happening(where(good, known, happening.before), where(good, values, known))
    hit = good & crossed(seen, control.direction)
    ending = hit if control.terminal is True else hit & np.asarray(control.terminal)
    return seen, hit, ending.any()


def _keep(control: Control, system: System, m: March, new: March, hit: Array) -> March:
    """Return the march after a trial with its step and its crossings kept, where those are wanted.

    What a rejected trial writes is written over, or lies behind the last step.
    """
    if m.trail is None and m.crossings is None:
        return new
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
    rounding = 1 + 8 * epsilon(m.h.dtype)
    is_near = (count + 1.0001) * m.h * rounding >= end - begin
    last = is_near if control.steps is None else count + 1 >= control.steps
    return last, begin + (count + 1) * m.h - now


def _judge(control: Control, m: March, step: Step, h: Array) -> tuple[Array, Array, Array]:
    """Tell whether a step is good; return the size of its error, and the step size that follows."""
    if control.is_fixed:
        unsolved = sum([0.0 * e for e in step.errors], 0.0 * step.y)
        norm = stop_gradient(where(all_(isfinite(unsolved)), 0.0, np.nan).astype(h.dtype))
        return isfinite(norm), norm, h
    start = m.y if step.proposed is None else step.y  # whoever finds its size measures by the end alone
    norm = stop_gradient(error_norm(step.errors, start, step.y, control.rtol, control.atol))
    if step.proposed is not None:
        return norm <= 1, norm, step.proposed
    return norm <= 1, norm, h * stop_gradient(step_factor(control.method, m, step, norm, h))
