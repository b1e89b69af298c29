"""`odeint`: the solution of ordinary differential equations at requested times, and its adjoint gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, TypeVar, TypeVarTuple, cast

import attrs
import numpy as np

from afx import pytree
from afx.control.scan import scan
from afx.control.solving import (
    Status,
    as_vector,
    attach_pullback,
    flatten_to_vector,
    key_of_solver,
    parametrize,
    run_or_compile,
    stopped,
)
from afx.core import Array, ArrayLike, Aval, Function, Tracer, aval_of, is_known
from afx.errors import ArgumentError, ShapeError
from afx.integrate.march import Control, EventFn, Marched, events_of, integrate, march, options_of
from afx.integrate.methods import DOP853, DOPRI5, FIXED, LEAPFROG, RADAU, RODAS, TSIT5, YOSHIDA4
from afx.integrate.multistep import BDF
from afx.integrate.step import Field, Method, OdeResult, System, requested_times, solution_of
from afx.ops import asarray, concat, diag, reshape, stack, stop_gradient, vecdot, where, zeros
from afx.transforms._arguments import check_callable, whole_number
from afx.transforms.derivatives.grad import vjp
from afx.transforms.vmap import vmap

__all__ = ["odeint"]

# --- Adjoint: gradients of differential equations by a differential equation that runs backwards
#
# Source: Pontryagin et al. 1962; Chen, Rubanova, Bettencourt & Duvenaud 2018, "Neural ordinary differential
# equations", algorithm 1. Memory does not grow with the number of steps; the gradient is that of the exact solution,
# up to tolerance.

# (field, y, two times) to the state at the last
Solve = Callable[[Callable[[Array, Array], Array], Array, Array], Array]


def attach_adjoint(
    field: Callable[..., Array],
    solve: Solve,
    states: Array,
    y: Array,
    times: Array,
    params: Sequence[Any],
    key_of: Callable[..., Hashable],
) -> Array:
    """Return states of a solution as a function of its start, times and parameters, for reverse mode.

    Args:
        field: (t, y, *params) to dy/dt.
        solve: integrates another field between two times.
        states: float[times, n], what was found, a constant for derivatives.
        y: the first state.
        times: float[times].
        params: what the field depends on.
        key_of: what the way back takes, to what determines its program.
    """

    def pull(states: Array, inputs: Sequence[Any], ct: Array) -> Sequence[Any]:
        given = states, [*inputs], ct
        return run_or_compile(pull_now, *given, name="odeint: adjoint", key=key_of(given))

    def pull_now(states: Array, inputs: Sequence[Any], ct: Array) -> Sequence[Any]:
        _, ts, *ps = inputs
        moving, arguments = _floating(ps)
        n, size = states.shape[1], sum([p.size for p in moving])

        def along(t: Array, v: Array, *some: Any) -> Array:
            return field(t, v, *arguments(some))

        def augmented(t: Array, z: Array) -> Array:
            v, adjoint = z[:n], z[n : 2 * n]
            slope, pull_back = vjp(functools.partial(along, t), v, *moving)
            return concat([slope, *[-reshape(g, (-1,)).astype(z.dtype) for g in pull_back(adjoint)]])

        def interval(carry: tuple[Array, Array], x: tuple[Array, ...]) -> tuple[tuple[Array, Array], Array]:
            (adjoint, total), (v, seed, late, early) = carry, x
            rate = vecdot(seed, along(late, v, *moving))
            z = solve(augmented, concat([v, adjoint + seed, zeros(size, v.dtype)]), stack([late, early]))
            return (z[n : 2 * n], total + z[2 * n :]), rate

        start, rows = (zeros(n, states.dtype), zeros(size, states.dtype)), (states[1:], ct[1:], ts[1:], ts[:-1])
        (adjoint, total), rates = scan(interval, start, rows, length=states.shape[0] - 1, reverse=True)
        # the first state is the start at any time, and a later start is a shorter way
        ct_ts = concat([reshape(-vecdot(adjoint, along(ts[0], states[0], *moving)), (1,)), asarray(rates)])
        ends = np.cumsum([p.size for p in moving]).tolist()
        cuts = (reshape(total[e - p.size : e], p.shape).astype(p.dtype) for p, e in zip(moving, ends, strict=True))
        return [adjoint + ct[0], ct_ts, *[next(cuts) if aval_of(p).dtype.kind in "fc" else None for p in ps]]

    return attach_pullback("odeint", states, [y, times, *params], pull)


# --- `odeint`: the solution of a system of ordinary differential equations at requested times

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

OdeMethod = Literal[
    "dopri5", "tsit5", "dop853", "rodas", "radau", "bdf", "euler", "heun", "midpoint", "ralston", "bosh3", "rk4", "leapfrog",
    "yoshida4",
]  # fmt: skip
METHODS: dict[str, Method] = {
    "dopri5": DOPRI5,
    "tsit5": TSIT5,
    "dop853": DOP853,
    "rodas": RODAS,
    "radau": RADAU,
    "bdf": BDF,
    **FIXED,
    "leapfrog": LEAPFROG,
    "yoshida4": YOSHIDA4,
}


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
    terminal: bool | Sequence[bool] = True,
    max_events: int = 100,
    gradient: Literal["steps", "adjoint"] = "steps",
    step: float | None = None,
    steps: int | None = None,
    mass: ArrayLike | None = None,
    dense: bool = False,
) -> OdeResult[T]:
    """Return the solution of ``dy/dt = fn(t, y, *args)`` from ``init`` at ``ts[0]``, at each of the times.

    Steps follow the tolerance, not the requested times, where the state is interpolated. The solution is differentiable
    by ``init``, ``args``, ``ts`` and traced arrays that ``fn`` closes over. Works under `jit` and `vmap`. ``fn`` is
    traced: it must be pure, as under `jit`; one that counts, stores or draws at each step needs `afx.disable_jit`.

    ============  ===========================================================================================
    ``dopri5``    Dormand & Prince's explicit pair of orders 5(4), the default
    ``tsit5``     Tsitouras' explicit pair of orders 5(4), of smaller errors
    ``dop853``    Dormand & Prince's of order 8, for tight tolerances (Hairer, Nørsett & Wanner)
    ``rodas``     a Rosenbrock method of orders 4(3) for stiff systems, with exact Jacobians (Hairer & Wanner)
    ``radau``     the implicit method Radau IIA of order 5, for stiff systems and tight tolerances
    ``bdf``       backward differences of orders 1 to 5, for large stiff systems and loose tolerances (Shampine & Reichelt)
    ``euler``     Euler's method, with ``step`` or ``steps`` alone, as those that follow
    ``heun``      Heun's method of order 2, the explicit trapezoidal rule
    ``midpoint``  the explicit midpoint rule, of order 2
    ``ralston``   Ralston's method of order 2, of the least bound on its error
    ``bosh3``     Bogacki and Shampine's method of order 3
    ``rk4``       Runge and Kutta's classical method of order 4
    ``leapfrog``  the symplectic method of order 2, for a pair of positions and momenta
    ``yoshida4``  its composition of order 4 (Yoshida)
    ============  ===========================================================================================

    Args:
        fn: (t, y, *args) to dy/dt, a tree as y is.
        init: the first state, a tree of real arrays.
        ts: float[times], in ascending or descending order; the first is where the state is ``init``.
        *args: what else ``fn`` takes, any trees.
        method: how a step is made.
        rtol: of each step's error, relative to the state; 1e-6 in float64 and 1e-3 in float32 without it.
        atol: added to it; 1e-9 and 1e-6 without it.
        max_steps: the limit of steps, rejected ones included.
        event: (t, y, *args) to one or several numbers; the integration ends where the first of them changes its sign, if
            ``terminal`` says so.
        direction: of all of these numbers, or of each: 1 for those that rise alone, -1 for those that fall, 0 for both; in
            the direction of the integration, as in SciPy.
        terminal: whether all of these events, or each, end the integration. Where some do not, ``result.events`` has the
            times and states of all, differentiable as those of the last one are.
        max_events: for how many steps with such events there is room.
        gradient: ``steps`` differentiates the steps, whose sizes count as constants, in both modes; ``adjoint`` solves an
            equation backwards (Chen et al. 2018): for reverse mode alone, in memory that does not grow with the steps,
            and as exact as the tolerance.
        step: the size of fixed steps, with any method but ``bdf``; the last one ends at the last time.
        steps: how many fixed steps there are from the first time to the last.
        mass: float[n, n] or its diagonal: solves ``mass @ dy/dt = fn(t, y, *args)``, where rows of 0 make algebraic
            equations (of index 1; the first state fulfils them); for ``rodas``, ``radau`` and ``bdf``.
        dense: gives the solution between steps too, ``result.solution``: a function of time, with the steps' own times.
            Keeps ``max_steps`` steps under `jit`.

    Raises:
        ArgumentError: no such method or gradient; times that turn back; an event, a mass or ``dense`` with ``adjoint``;
            a method without an error estimate and no steps; a mass for an explicit method; a symplectic method for a
            state that is no pair; numbers of steps that are not whole; more events than are recorded.
        ShapeError: ``ts`` is no vector of at least one time.

    >>> import afx
    >>> result = odeint(lambda t, y: -y, np.ones(1), np.array([0.0, 1.0]))
    >>> result.ys.round(5), result.reason
    (Array([[1.     ],
           [0.36788]], dtype=float64), 'the tolerance is met')
    """
    check_callable(fn, "odeint")
    if event is not None:
        check_callable(event, "odeint: event")
    control = _control_of(method, direction, terminal, step, steps, max_steps, dense)
    control = attrs.evolve(control, max_events=whole_number("max_events", max_events, "odeint"))
    _check_gradient(gradient, {"events": event is not None, "masses": mass is not None, "solutions": dense})
    y, unravel = flatten_to_vector(init, "odeint")
    control = _fill_tolerances(control, rtol, atol, y)
    if control.method.halved:
        _check_pair(init, y, method)
    weights = None if mass is None else _mass_of(mass, y, control.method, method)
    times = requested_times(ts, y, "odeint")
    sign = stop_gradient(where(times[-1] >= times[0], 1, -1).astype(y.dtype))

    run = _flatten_derivative(fn, unravel)

    floating, arguments = _floating(args)

    def field(t: Array, v: Array, sign: Array, *params: Any) -> Array:
        return sign * run(sign * t, v, *arguments(params))

    # without an event no equation has arrays without elements
    watch = None if event is None else _watching(event, control, unravel, arguments)
    if gradient == "steps":
        marched = integrate(control, field, watch, y, sign * times, [sign, *floating], weights)
    else:
        marched = _march_with_adjoint(control, run, sign, y, sign * times, args)
    return _result_of(control, marched, times, sign, unravel, watch and (lambda t, v: watch(t, v, sign, *floating)))


def _watching(
    event: EventFn, control: Control, unravel: Callable[[Array], Any], arguments: Any
) -> Callable[..., Array]:
    """Return the numbers of an event as a function of the march: of its time, a vector, its sign and parameters."""

    def watch(t: Array, v: Array, sign: Array, *params: Any) -> Array:
        values = as_vector(event(sign * t, unravel(v), *arguments(params)), v.dtype, "odeint: event")
        return _check_events(control, values)

    return watch


def _result_of(
    control: Control, marched: Marched, times: Array, sign: Array, unravel: Callable[[Array], T], event: Field | None
) -> OdeResult[T]:
    """Return the solution, up to the time at which an event ends it."""
    last, crossing, end = marched.last, marched.crossing, marched.end
    solution = None
    if last.trail is not None:
        happened = crossing.index >= 0
        finish = where(happened, crossing.t, last.t), where(happened, crossing.y, last.y)
        solution = solution_of(last.trail, last.accepted, sign, finish, unravel)
    events = None
    if last.crossings is not None and event is not None:
        events = events_of(last.crossings, event, control.direction, stop_gradient(end), sign, unravel)
    work = (
        last.accepted,
        last.evaluations,
        where(last.status == int(Status.RUNNING), int(Status.CONVERGED), last.status),
    )
    ys, first = vmap(unravel)(where(marched.reached[:, None], marched.states, np.nan)), unravel(crossing.y)
    return OdeResult(*work, times, ys, last.rejected, sign * crossing.t, first, crossing.index, solution, events)


def _control_of(
    method: OdeMethod,
    direction: int | Sequence[int],
    terminal: bool | Sequence[bool],
    step: float | None,
    steps: int | None,
    max_steps: int,
    dense: bool,
) -> Control:
    """Return how the integration goes, without tolerances."""
    if method not in METHODS:
        raise ArgumentError(f"odeint: no such method: got {method!r}; use {', '.join(map(repr, METHODS))}")
    if step is not None and steps is not None:
        raise ArgumentError(f"odeint: steps have one size: got step={step} and steps={steps}; give one of the two")
    if step is not None and not step > 0:
        raise ArgumentError(f"odeint: step is above 0, backwards in time too: got {step}; give a larger one")
    steps = None if steps is None else whole_number("steps", steps, "odeint")
    limit = max(whole_number("max_steps", max_steps, "odeint"), (steps or 0) + 1)
    is_fixed = step is not None or steps is not None
    if is_fixed and METHODS[method].varies:
        raise ArgumentError(
            f"odeint: {method!r} finds the sizes of its steps: got step={step} and steps={steps}; give tolerances, or use "
            "'radau'"
        )
    if not (is_fixed or METHODS[method].adaptive):
        raise ArgumentError(f"odeint: {method!r} has no error estimate: got no step; give step or steps")
    return Control(METHODS[method], 0.0, 0.0, limit, _direction_of(direction), step, steps, dense, _ends_of(terminal))


def _ends_of(terminal: bool | Sequence[bool]) -> bool | tuple[bool, ...]:
    """Return whether events end the integration, as Python's truth values."""
    given = np.asarray(terminal)
    if given.dtype != bool or given.ndim > 1:
        raise ArgumentError(f"odeint: whether an event is terminal is a bool, or one of each: got {terminal!r}")
    return bool(given) if given.ndim == 0 else tuple(given.tolist())


def _check_events(control: Control, values: Array) -> Array:
    """Return the values of an event function, if they are as many as their directions and ends."""
    if not values.shape[0]:
        raise ShapeError("odeint: event: the function gives one or several numbers: got none; return what crosses 0")
    for name, given in (("direction", control.direction), ("terminal", control.terminal)):
        if isinstance(given, tuple) and len(given) != values.shape[0]:
            raise ArgumentError(
                f"odeint: {name} is one of all events, or one of each: got {len(given)} of {values.shape[0]} events"
            )
    return values


def _direction_of(direction: int | Sequence[int]) -> int | tuple[int, ...]:
    """Return the direction of events as Python's numbers."""
    given = np.asarray(direction)
    if given.dtype.kind not in "iu" or given.ndim > 1 or not np.isin(given, (-1, 0, 1)).all():
        raise ArgumentError(f"odeint: an event's direction is -1, 0 or 1: got {direction!r}; take one of them")
    return int(given) if given.ndim == 0 else tuple(given.tolist())


def _fill_tolerances(control: Control, rtol: float | None, atol: float | None, y: Array) -> Control:
    """Return how the integration goes, with tolerances that allow something, but not anything; traced ones are not known."""
    for x in (rtol, atol):
        if x is not None and not isinstance(x, Tracer) and not (np.asarray(x).dtype.kind in "fiu" and np.all(x >= 0)):
            raise ArgumentError(f"odeint: tolerances are numbers from 0 on: got {x!r}; such as 1e-6")
    exact = y.dtype == np.float64
    return attrs.evolve(
        control,
        rtol=(1e-6 if exact else 1e-3) if rtol is None else rtol,
        atol=(1e-9 if exact else 1e-6) if atol is None else atol,
    )


def _check_gradient(gradient: str, asked: dict[str, bool]) -> None:
    """Raise for a gradient that there is not, or that cannot do what is asked."""
    if gradient not in ("steps", "adjoint"):
        raise ArgumentError(f"odeint: no such gradient: got {gradient!r}; use 'steps' or 'adjoint'")
    for name, is_asked in asked.items():
        if gradient == "adjoint" and is_asked:
            raise ArgumentError(f"odeint: {name} have no adjoint: got gradient='adjoint'; use 'steps'")


def _check_pair(init: Any, y: Array, method: str) -> None:
    """Raise where a state is no pair of parts of one size."""
    parts = [*cast("tuple[Any, ...]", init)] if isinstance(init, (tuple, list)) else []
    sizes = [sum([aval_of(x, "odeint").size for x in pytree.leaves(part)]) for part in parts]
    if len(sizes) != 2 or 2 * sizes[0] != y.shape[0] or sizes[0] != sizes[1]:
        raise ArgumentError(
            f"odeint: {method!r} takes a pair of positions and momenta of one size: got a state of sizes {sizes}; "
            "give init=(positions, momenta), or use 'rk4'"
        )


def _mass_of(mass: ArrayLike, y: Array, way: Method, method: str) -> Array:
    """Return the mass as a matrix."""
    if not way.implicit:
        raise ArgumentError(
            f"odeint: {method!r} takes no mass; use 'radau', 'rodas' or 'bdf', or divide by the mass in fn"
        )
    given, n = asarray(mass, y.dtype), y.shape[0]
    if given.shape not in ((n,), (n, n)):
        raise ShapeError(
            f"odeint: the mass is square, of the state's size, or a diagonal: got {given.aval} for {y.aval}"
        )
    return given if given.ndim == 2 else diag(given)


def _flatten_derivative(fn: Function, unravel: Callable[[Array], Any]) -> Callable[..., Array]:
    """Return dy/dt as a function of time, a vector and the other arguments."""

    def run(t: Array, v: Array, *args: Any) -> Array:
        out = as_vector(fn(t, unravel(v), *args), v.dtype, "odeint")
        if out.shape != v.shape:
            raise ShapeError(f"odeint: dy/dt has as many elements as y: got {out.aval} for {v.aval}")
        return out

    return run


def _march_with_adjoint(
    control: Control, run: Callable[..., Array], sign: Array, y: Array, times: Array, args: Any
) -> Marched:
    """Return the march on plain values, and the states as a function for reverse mode by the adjoint equation."""
    problem = parametrize(run, [_same, _same], [Aval((), y.dtype), y.aval], args, "odeint")

    def along(t: Array, v: Array, *params: Any) -> Array:
        return sign * problem.fn(sign * t, v, *params)

    stopped_params = stopped(problem.params)
    marched = integrate(control, along, None, stop_gradient(y), stop_gradient(times), stopped_params)

    def back(reverse: Field, z: Array, ends: Array) -> Array:

        end, states = march(
            control, System(lambda t, v: -reverse(-t, v), None, control.rtol, control.atol), None, z, -ends
        )
        return where(end.t >= -ends[-1], states[-1], np.nan)

    def key_of(given: tuple[Any, ...]) -> Hashable:
        way = float(sign) if is_known(sign) else None
        return way and key_of_solver("odeint: adjoint", (options_of(control), way), [problem], given)

    states = attach_adjoint(along, back, marched.states, y, times, problem.params, key_of)
    return attrs.evolve(marched, states=states)


def _same(x: Array) -> Array:
    return x


def _floating(args: Any) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """Return the floating leaves of the other arguments, and the function that puts such leaves in their place."""
    leaves, treedef = pytree.flatten(args)
    is_floating = [aval_of(x, "odeint: args").dtype.kind in "fc" for x in leaves]

    def put(values: Sequence[Any]) -> Any:
        given = iter(values)
        return pytree.unflatten(treedef, [next(given) if f else x for x, f in zip(leaves, is_floating, strict=True)])

    return [x for x, f in zip(leaves, is_floating, strict=True) if f], put
