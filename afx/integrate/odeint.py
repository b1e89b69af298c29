"""`odeint`: the solution of a system of ordinary differential equations at requested times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, TypeVarTuple

import attrs
import numpy as np

from afx import pytree
from afx.control.scan import scan
from afx.control.solving.compiled import are_plain, run_or_compile
from afx.control.solving.functions import flatten_to_vector, parametrize, stopped
from afx.control.solving.report import Status, choose_status
from afx.control.solving.vectors import as_vector
from afx.control.while_loop import while_loop
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.integrate.adjoint import attach_adjoint
from afx.integrate.event import Direction, EventFn, Happening, crossed, locate
from afx.integrate.results import OdeResult
from afx.integrate.rosenbrock import RODAS
from afx.integrate.runge_kutta import DOPRI5
from afx.integrate.step import Field, Method, error_norm, initial_step, interpolate, step_factor
from afx.ops.creation.creation import asarray, zeros_like
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import minimum, where
from afx.transforms._arguments import check_callable
from afx.transforms.vmap import vmap

__all__ = ["OdeMethod", "odeint"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

OdeMethod = Literal["dopri5", "rodas"]
EAGER_STEPS = 10  # measured: tracing a march takes the time of about ten of its steps
METHODS = {"dopri5": DOPRI5, "rodas": RODAS}


@attrs.frozen
class March:
    """The state of an integration, in the direction of growing time.

    Attributes:
        t: the time reached.
        y: the state there.
        slope: dy/dt there.
        h: the next step size.
        norm: the error of the last accepted step, in units of the tolerance.
        begin: where the last accepted step began.
        start: the state there.
        length: its length.
        dense: its interpolant.
        happening: what the event function was at both ends of the step, if there is one.
        accepted: how many steps were.
        rejected: how many were not.
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
    accepted: Array
    rejected: Array
    retried: Array
    status: Array


def odeint(
    fn: Callable[[Array, T, *Ts], T],
    init: T,
    ts: ArrayLike,
    *args: *Ts,
    method: OdeMethod = "dopri5",
    rtol: float | None = None,
    atol: float | None = None,
    max_steps: int = 10_000,
    event: EventFn | None = None,
    direction: int | Sequence[int] = 0,
    gradient: Literal["steps", "adjoint"] = "steps",
) -> OdeResult[T]:
    """Return the solution of ``dy/dt = fn(t, y, *args)`` from ``init`` at ``ts[0]``, at each of the times.

    Steps follow the tolerance, not the requested times, where the state is interpolated. The solution is differentiable
    by ``init``, ``args``, ``ts`` and traced arrays that ``fn`` closes over. Works under `jit` and `vmap`. A long run is
    compiled: ``fn`` must be pure, as under `jit`; one that counts, stores or draws at each step needs `afx.disable_jit`.

    ==========  =============================================================================================
    ``dopri5``  Dormand & Prince's explicit pair of orders 5(4), the default
    ``rodas``   a Rosenbrock method of orders 4(3) for stiff systems, with exact Jacobians (Hairer & Wanner)
    ==========  =============================================================================================

    Args:
        fn: (t, y, *args) to dy/dt, a tree as y is.
        init: the first state, a tree of real arrays.
        ts: float[times], in ascending or descending order; the first is where the state is ``init``.
        *args: what else ``fn`` takes, any trees.
        method: how a step is made.
        rtol: of each step's error, relative to the state; 1e-6 in float64 and 1e-3 in float32 without it.
        atol: added to it; 1e-9 and 1e-6 without it.
        max_steps: the limit of steps, rejected ones included.
        event: (t, y, *args) to one or several numbers; the integration ends where the first of them changes its sign.
        direction: of all of these numbers, or of each: 1 for those that rise alone, -1 for those that fall, 0 for both; in
            the direction of the integration, as in SciPy.
        gradient: ``steps`` differentiates the steps, whose sizes count as constants, in both modes; ``adjoint`` solves an
            equation backwards (Chen et al. 2018): for reverse mode alone, in memory that does not grow with the steps,
            and as exact as the tolerance.

    Raises:
        ArgumentError: no such method or gradient; times that turn back; an event together with ``adjoint``.
        ShapeError: ``ts`` is no vector of at least one time.

    >>> import afx
    >>> result = odeint(lambda t, y: -y, np.ones(1), np.array([0.0, 1.0]))
    >>> result.ys.round(5), result.reason
    (Array([[1.     ],
           [0.36788]], dtype=float64), 'the tolerance is met')
    """
    check_callable(fn, "odeint")
    if method not in METHODS:
        raise ArgumentError(f"odeint: no such method: got {method!r}; use 'dopri5' or 'rodas'")
    if gradient not in ("steps", "adjoint"):
        raise ArgumentError(f"odeint: no such gradient: got {gradient!r}; use 'steps' or 'adjoint'")
    if gradient == "adjoint" and event is not None:
        raise ArgumentError("odeint: events have no adjoint: got gradient='adjoint'; use 'steps'")
    way_of = direction if isinstance(direction, int) else tuple(direction)
    if not set(np.ravel(way_of).tolist()) <= {-1, 0, 1}:
        raise ArgumentError(f"odeint: an event's direction is -1, 0 or 1: got {direction!r}; take one of them")
    y, unravel = flatten_to_vector(init, "odeint")
    times = _times(ts, y)
    sign = stop_gradient(where(times[-1] >= times[0], 1, -1).astype(y.dtype))
    exact = y.dtype == np.float64

    run = _on_vectors(fn, unravel)

    floating, arguments = _floating(args)

    def field(t: Array, v: Array, sign: Array, *params: Any) -> Array:
        return sign * run(sign * t, v, *arguments(params))

    def watch(t: Array, v: Array, sign: Array, *params: Any) -> Array:
        assert event is not None, "it is watched only then"
        return as_vector(event(sign * t, unravel(v), *arguments(params)), v.dtype, "odeint: event")

    watched = None if event is None else watch  # without one no equation has arrays without elements

    tolerance = (
        (1e-6 if exact else 1e-3) if rtol is None else rtol,
        (1e-9 if exact else 1e-6) if atol is None else atol,
    )
    way = METHODS[method]
    if gradient == "steps":
        march, states = _integrate(
            way, field, watched, y, sign * times, [sign, *floating], tolerance, max_steps, way_of
        )
    else:
        march, states = _by_adjoint(way, run, sign, y, sign * times, args, tolerance, max_steps)
    reached = sign * times <= march.t
    found = locate(None if event is None else lambda t, v: watch(t, v, sign, *floating), march, way_of)
    before = sign * times <= where(found.index >= 0, found.t, np.inf)
    states = where((reached & before)[:, None], states, np.nan)
    ended = where(march.status == int(Status.RUNNING), int(Status.CONVERGED), march.status)
    work = (march.accepted + march.rejected) * way.evaluations + 2
    return OdeResult(
        march.accepted,
        work,
        ended,
        times,
        vmap(unravel)(states),
        march.rejected,
        sign * found.t,
        unravel(found.y),
        found.index,
    )


def _on_vectors(fn: Callable[..., Any], unravel: Callable[[Array], Any]) -> Callable[..., Array]:
    """Return dy/dt as a function of time, a vector and the other arguments."""

    def run(t: Array, v: Array, *args: Any) -> Array:
        out = as_vector(fn(t, unravel(v), *args), v.dtype, "odeint")
        if out.shape != v.shape:
            raise ShapeError(f"odeint: dy/dt has as many elements as y: got {out.aval} for {v.aval}")
        return out

    return run


def _by_adjoint(
    way: Method,
    run: Callable[..., Array],
    sign: Array,
    y: Array,
    times: Array,
    args: Any,
    tolerance: tuple[float, float],
    max_steps: int,
) -> tuple[March, Array]:
    """Return the march on plain values, and the states as a function for reverse mode by the adjoint equation."""
    problem = parametrize(run, [_same, _same], [Aval((), y.dtype), y.aval], args, "odeint")

    def along(t: Array, v: Array, *params: Any) -> Array:
        return sign * problem.fn(sign * t, v, *params)

    held = stopped(problem.params)
    march, states = _integrate(way, along, None, stop_gradient(y), stop_gradient(times), held, tolerance, max_steps)

    def back(reverse: Field, z: Array, ends: Array) -> Array:
        def mirrored(t: Array, v: Array) -> Array:
            return -reverse(-t, v)

        end, found = _march(way, mirrored, None, z, -ends, tolerance, max_steps)
        return where(end.t >= -ends[-1], found[-1], np.nan)

    return march, attach_adjoint(along, back, states, y, times, problem.params)


def _same(x: Array) -> Array:
    return x


def _times(ts: ArrayLike, y: Array) -> Array:
    times = asarray(ts)
    if times.ndim != 1 or not times.shape[0]:
        raise ShapeError(f"odeint: ts are times, the first that of the start: got {times.aval}; give a vector")
    if times.dtype.kind not in "fiu":
        raise DtypeError(f"odeint: times are real: got {times.aval}")
    if not isinstance(times, Tracer):
        steps = np.diff(np.asarray(times))
        if not ((steps >= 0).all() or (steps <= 0).all()):
            raise ArgumentError("odeint: times turn back: got neither ascending nor descending ts; sort them")
    return times.astype(y.dtype)


def _floating(args: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """Return the floating leaves of the other arguments, and the function that puts such leaves in their place."""
    leaves, treedef = pytree.flatten(args)
    is_floating = [aval_of(x, "odeint: args").dtype.kind in "fc" for x in leaves]

    def put(values: Sequence[Any]) -> Any:
        given = iter(values)
        return pytree.unflatten(treedef, [next(given) if f else x for x, f in zip(leaves, is_floating, strict=True)])

    return [x for x, f in zip(leaves, is_floating, strict=True) if f], put


def _integrate(
    method: Method,
    field: Callable[..., Array],
    watched: Callable[..., Array] | None,
    y: Array,
    times: Array,
    params: Sequence[Any],
    tolerance: tuple[float, float],
    max_steps: int,
    direction: Direction = 0,
) -> tuple[March, Array]:
    """Return the last state of the march and the states at all times; plain values run as under `jit` where that is long."""

    def march(y: Array, times: Array, params: Sequence[Any], limit: int = max_steps) -> tuple[March, Array]:
        def slope(t: Array, v: Array) -> Array:
            return field(t, v, *params)

        def events(t: Array, v: Array) -> Array:
            assert watched is not None, "it is watched only then"
            return watched(t, v, *params)

        return _march(method, slope, None if watched is None else events, y, times, tolerance, limit, direction)

    given = (y, times, list(params))
    if are_plain(*given) and times.shape[0] <= EAGER_STEPS:
        found = march(*given, min(max_steps, EAGER_STEPS))
        status = found[0].status
        if isinstance(status, Tracer):  # it closes over what is traced
            return march(*given)
        if max_steps <= EAGER_STEPS or int(status) != int(Status.ITERATION_LIMIT):
            return found
    return run_or_compile(march, *given, name="odeint")


def _march(
    method: Method,
    field: Field,
    watched: Field | None,
    y: Array,
    times: Array,
    tolerance: tuple[float, float],
    max_steps: int,
    direction: Direction = 0,
) -> tuple[March, Array]:
    """Return the last state of the march and the states at all times."""
    slope = field(times[0], y)
    end = stop_gradient(times[-1])
    span = stop_gradient(times[-1] - times[0])
    h = stop_gradient(initial_step(field, times[0], y, slope, span, method.order, *tolerance))
    nought = zeros_like(y)
    one = zeros_like(h) + 1
    no = asarray(0)
    begin = March(
        times[0],
        y,
        slope,
        h,
        one,
        times[0],
        y,
        one,
        (nought, nought, nought, nought),
        None if watched is None else Happening(watched(times[0], y), watched(times[0], y)),
        no,
        no,
        asarray(False),
        choose_status(isfinite(h), Status.RUNNING, Status.NONFINITE),
    )

    def advance(m: March) -> March:
        return _advance(method, field, watched, m, end, tolerance, max_steps, direction)

    def to(m: March, target: Array) -> tuple[March, Array]:
        goal = stop_gradient(target)
        m = while_loop(lambda s: (s.status == int(Status.RUNNING)) & (s.t < goal), advance, m)
        return m, interpolate(m.start, m.dense, (target - m.begin) / m.length)

    march, states = scan(to, begin, times)
    return march, states


def _advance(
    method: Method,
    field: Field,
    watched: Field | None,
    m: March,
    end: Array,
    tolerance: tuple[float, float],
    max_steps: int,
    direction: Direction,
) -> March:
    """Return the march after one trial of a step."""
    eps = float(np.finfo(m.y.dtype).eps)
    now = stop_gradient(m.t)
    last = now + 1.0001 * m.h >= end
    h = where(last, end - now, m.h)
    step = method.step(field, m.t, m.y, m.slope, h)
    norm = stop_gradient(error_norm(step.error, m.y, step.y, *tolerance))
    good = norm <= 1
    factor = stop_gradient(step_factor(method, norm, m.norm))
    proposed = h * factor
    tiny = ~good & (proposed <= 4 * eps * abs_(now) + np.finfo(m.y.dtype).tiny)
    ended = choose_status(isfinite(norm), Status.STALLED, Status.NONFINITE)
    status = where(tiny, ended, m.status)
    over = m.accepted + m.rejected + 1 >= max_steps

    t = where(last, m.t + (end - now), m.t + h)
    happening = None
    if watched is not None and m.happening is not None:
        values, known = watched(t, step.y), m.happening.after
        happening = Happening(where(good, known, m.happening.before), where(good, values, known))
        status = where(good & crossed(happening, direction).any(), int(Status.EVENT), status)
    status = where((status == int(Status.RUNNING)) & over & ~(good & last), int(Status.ITERATION_LIMIT), status)

    def pick(new: Array, old: Array) -> Array:
        return where(good, new, old)

    grown = where(good & m.retried, minimum(proposed, h), proposed)
    return March(
        pick(t, m.t),
        pick(step.y, m.y),
        pick(step.slope, m.slope),
        grown,
        pick(norm, m.norm),
        pick(m.t, m.begin),
        pick(m.y, m.start),
        pick(h, m.length),
        tuple([pick(a, b) for a, b in zip(step.dense, m.dense, strict=True)]),
        happening,
        m.accepted + good,
        m.rejected + ~good,
        ~good,
        status,
    )
