"""Solvers of jaxopt, diffrax and `jax.scipy` on afx's: what they find is the same, the way to it is afx's; sparse matrices."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import attrs
import numpy as np

from afx import integrate, linalg, nn, optim, pytree
from afx.control.solving import Status
from afx.control.while_loop import while_loop
from afx.core import Array
from afx.errors import ArgumentError
from afx.migrate.for_jax import abs, bound, by_name, same
from afx.migrate.for_lax import Short, custom_root as find_root
from afx.migrate.optax_chains import lbfgs
from afx.migrate.optax_trees import PROJECTIONS
from afx.ops.creation.creation import asarray, stop_gradient
from afx.ops.elementwise.arithmetic import add, sign, subtract
from afx.ops.elementwise.comparison import maximum, minimum, where
from afx.ops.elementwise.exponentials import softplus
from afx.ops.linalg.norms import norm
from afx.ops.manipulation.join import stack
from afx.transforms.compile.jit import jit
from afx.transforms.derivatives.grad import grad, value_and_grad as slopes_of
from afx.transforms.sparse.sparse_matrix import SparseMatrix
from afx.transforms.vmap import vmap

__all__ = ["BCOO", "OptStep", "Solver", "projection_non_negative"]

# jaxopt's solvers, and afx's with its method
_KINDS = """AndersonAcceleration FixedPointIteration: fixed_point
GaussNewton LevenbergMarquardt ScipyLeastSquares: least_squares
BFGS GradientDescent NonlinearCG ScipyMinimize: minimize bfgs
LBFGS LBFGSB ScipyBoundedMinimize: minimize lbfgs
Bisection: root bisection
Broyden ScipyRootFinding: root newton
ProjectedGradient ProximalGradient: proximal"""
KINDS: dict[str, str] = by_name(_KINDS)
DESCENTS = ("GradientDescent", "ProjectedGradient", "ProximalGradient")
SEARCHES = ("BFGS", "LBFGS", "NonlinearCG")  # whose updates are limited-memory BFGS
np_: Any = np  # NumPy's functions, of Arrays
ITERATIONS = ("bicgstab", "cg", "gmres")


def __getattr__(name: str) -> Any:
    """Return a solver with jaxopt's arguments."""
    if name in ("projection_halfspace", "projection_hyperplane"):
        return functools.partial(_onto_pair, PROJECTIONS[name])
    if name in PROJECTIONS or name in FORMULAS:
        return {**PROJECTIONS, **FORMULAS}[name]
    if name in METHODS:
        return _choice_of(name)
    if name not in (*KINDS, *ITERATIONS):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return bound(Solver if name in KINDS else _solve, name)


def _onto_pair(fn: Any, x: Any, hyperparams: Any) -> Any:
    return fn(x, *hyperparams)


class State(NamedTuple):
    """What is known of a solution."""

    iter_num: Any
    error: Any
    value: Any
    success: Any


class OptStep(NamedTuple):
    """A solution, and what is known of it."""

    params: Any
    state: Any


class Walk(NamedTuple):
    """What steps of a descent carry."""

    iter_num: Any
    ahead: Any
    t: Any
    stepsize: Any
    error: Any


class Solver:
    """A solver: ``run(init, …)`` returns an `OptStep`, and ``update`` that of one step of a descent."""

    def __init__(
        self,
        name: str,
        fun: Callable[..., Any] | None = None,
        projection: Any = None,
        *,
        prox: Any = None,
        tol: float | None = None,
        maxiter: int = 1000,
        has_aux: bool = False,
        lower: Any = None,
        upper: Any = None,
        **options: Any,
    ) -> None:
        given = [options.pop(n) for n in ("residual_fun", "optimality_fun", "fixed_point_fun") if n in options]
        self._name = name
        self._fun: Any = (fun, *given)[-1]
        self._limits: dict[str, Any] = {"tolerance": tol, "max_iterations": maxiter}
        self._prox = prox if projection is None else projection
        self._has_aux, self._bracket = has_aux, (lower, upper)
        step: Any = options.get("stepsize", 0.0)
        self._length_of: Any = step if callable(step) else step > 0 and functools.partial(same, step)  # by the count
        self._gathers = options.get("acceleration", True)
        self._rule: Any = lbfgs(memory_size=options.get("history_size", 10))

    def __getattr__(self, name: str) -> Any:
        text = "steps are afx's own; call run, or jaxopt.OptaxSolver"
        raise AttributeError(f"{self.__dict__.get('_name')}.{name}: {text}")

    def _number(self, x: Any, given: Any) -> Any:
        args, kwargs = given
        found = self._fun(x, *args, **kwargs)
        return found[0] if self._has_aux else found

    def l2_optimality_error(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the length of the gradient, or of a step of length 1 to where the limits lead."""
        x, unravel = pytree.ravel(params)
        given = self._given(args, kwargs) if self._name in DESCENTS else (None, args, kwargs)
        slope = self._slope(x, unravel, given)
        return norm(slope if self._prox is None else self._move(x, 1.0, slope, unravel, given) - x)

    def run(self, init_params: Any = None, *args: Any, bounds: Any = None, **kwargs: Any) -> OptStep:
        """Return what is found from a start; derivatives by the other arguments are implicit."""
        solver, _, method = KINDS[self._name].partition(" ")
        options = {**self._limits, **({"method": method} if method else {})}
        if "Bound" in self._name or self._name == "LBFGSB":
            bounds, args = (args[0], args[1:]) if bounds is None else (bounds, args)
        if solver == "proximal" or (self._name == "GradientDescent" and self._length_of):
            return self._descend(init_params, self._given(args, kwargs))
        if bounds is not None:
            options["bounds"] = tuple(bounds)
        if method == "bisection":
            init_params, options["bracket"] = asarray(self._bracket[0]) * 1.0, self._bracket
        found: Any = getattr(optim, solver)(self._number, init_params, (args, kwargs), **options)
        value = getattr(found, "value", None)
        rest = pytree.ravel(found.gradient if hasattr(found, "gradient") else found.residuals)[0]
        if bounds is not None:
            x, low, high = [pytree.ravel(tree)[0] for tree in (found.x, *bounds)]
            rest = x - minimum(maximum(x - rest, low), high)
        return OptStep(found.x, State(found.iterations, norm(rest), value, found.converged))

    def _given(self, args: Any, kwargs: Any) -> Any:
        """Return sizes of a proximal step, and what the function is given beside them."""
        if self._name == "GradientDescent":
            return None, args, kwargs
        name = "hyperparams_pro" + self._name[3]  # proj or prox
        sizes, *others = [kwargs.pop(name), *args] if name in kwargs else args or [None]
        return 1.0 if sizes is None and self._prox in PROJECTIONS.values() else sizes, others, kwargs

    def _slope(self, x: Any, unravel: Any, given: Any) -> Any:
        return grad(lambda x: self._number(unravel(x), given[1:]))(x)

    def _move(self, x: Any, length: Any, slope: Any, unravel: Any, given: Any) -> Any:
        sizes = given[:1] if self._name == "ProjectedGradient" else (given[0], length)
        z = unravel(x - length * slope)
        return pytree.ravel(z if self._name == "GradientDescent" else self._prox(z, *sizes))[0]

    def _step(self, x: Any, state: Walk, unravel: Any, given: Any) -> tuple[Any, Walk]:
        """Return a proximal step of Beck & Teboulle 2009, FISTA, whose length is given or searched."""
        n, y, t, length, _ = state
        slope = self._slope(y, unravel, given)

        def is_long(trial: Any) -> Any:  # by slopes, which tell where values do no longer
            z = self._move(y, trial[0], slope, unravel, given)
            turn = ((self._slope(z, unravel, given) - slope) * (z - y)).sum()
            return (2 * trial[0] * turn > ((z - y) ** 2).sum()) & (trial[1] < 15)

        if self._length_of:
            length = asarray(self._length_of(n), length.dtype)
        else:
            length, _ = while_loop(is_long, lambda trial: (trial[0] / 2, trial[1] + 1), (length, 0))
        z, s = self._move(y, length, slope, unravel, given), 0.5 + (0.25 + t * t) ** 0.5
        ahead = z + (t - 1) / s * (z - x) if self._gathers else z
        return z, Walk(n + 1, ahead, s, length if self._length_of else 2 * length, norm(z - x) / length)

    def init_state(self, init_params: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the state before the first step of a descent."""
        if self._name in SEARCHES:
            value, slope = slopes_of(self._number)(init_params, (args, kwargs))
            return OptaxState(asarray(0), value, norm(pytree.ravel(slope)[0]), self._rule.init(init_params), None)
        if self._name not in DESCENTS:
            raise AttributeError(f"{self._name}.init_state: steps are afx's own; call run, or jaxopt.OptaxSolver")
        vector = pytree.ravel(init_params)[0]
        one = asarray(1.0, vector.dtype)
        return Walk(asarray(0), vector, one, one, one * np.inf)

    def update(self, params: Any, state: Any, *args: Any, **kwargs: Any) -> OptStep:
        """Return parameters and state after a step of a descent."""
        if self._name in SEARCHES:

            def fn(x: Any) -> Any:
                return self._number(x, (args, kwargs))

            value, slope = slopes_of(fn)(params)
            updates, inner = self._rule.update(
                slope, state.internal_state, params, value=value, grad=slope, value_fn=fn
            )
            new, error = pytree.map(add, params, updates), norm(pytree.ravel(inner[-1].grad)[0])
            aux = self._fun(new, *args, **kwargs)[1] if self._has_aux else None
            return OptStep(new, OptaxState(state.iter_num + 1, inner[-1].value, error, inner, aux))
        x, unravel = pytree.ravel(params)
        z, state = self._step(x, state, unravel, self._given(args, kwargs))
        return OptStep(unravel(z), state)

    def _descend(self, start: Any, given: Any) -> OptStep:
        """Return where steps lead."""
        vector, unravel = pytree.ravel(start)
        tolerance = self._limits["tolerance"] or 1e-3

        def solve(*_: Any) -> Any:
            known = pytree.map(stop_gradient, given)

            def goes_on(step: Any) -> Any:
                return (step[1].error > tolerance) & (step[1].iter_num < self._limits["max_iterations"])

            first = vector, self.init_state(vector)
            x, last = while_loop(goes_on, lambda step: self._step(*step, unravel, known), first)
            return x, State(last.iter_num, last.error, None, last.error <= tolerance)

        def residual(x: Any) -> Any:
            return self._move(x, 1.0, self._slope(x, unravel, given), unravel, given) - x

        x, state = find_root(residual, vector, solve, None, has_aux=True)
        return OptStep(unravel(x), state)


class OptaxState(NamedTuple):
    """What is known of steps of Optax's."""

    iter_num: Any
    value: Any
    error: Any
    internal_state: Any
    aux: Any


@attrs.frozen
class OptaxSolver:
    """Steps of an optimizer of Optax's that lower a function."""

    fun: Any
    opt: Any
    value_and_grad: bool = False
    pre_update: Any = None
    maxiter: int = 500
    tol: float = 1e-3
    verbose: Any = False
    implicit_diff: Any = False
    implicit_diff_solve: Any = None
    has_aux: bool = False
    jit: Any = True
    unroll: Any = "auto"

    def init_state(self, init_params: Any, *args: Any, **kwargs: Any) -> OptaxState:
        """Return the state before the first step."""
        (value, aux), grads = self._evaluate(init_params, *args, **kwargs)
        far, steep = [asarray(np.inf, x.dtype) for x in (value, pytree.leaves(grads)[0])]
        return OptaxState(asarray(0), far, steep, self.opt.init(init_params), aux)

    def _evaluate(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        slopes: Any = slopes_of  # of any function
        fn = self.fun if self.value_and_grad else slopes(self.fun, has_aux=self.has_aux)
        value, grads = fn(params, *args, **kwargs)
        return (value if self.has_aux else (value, None)), grads

    def l2_optimality_error(self, params: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the length of the gradient."""
        return norm(pytree.ravel(self._evaluate(params, *args, **kwargs)[1])[0])

    def update(self, params: Any, state: OptaxState, *args: Any, **kwargs: Any) -> OptStep:
        """Return parameters and state after a step."""
        if self.pre_update:
            params, state = self.pre_update(params, state, *args, **kwargs)
        (value, aux), grads = self._evaluate(params, *args, **kwargs)
        updates, inner = self.opt.update(grads, state.internal_state, params)
        new = pytree.map(lambda p, u: (p + u).astype(p.dtype), params, updates)
        return OptStep(new, OptaxState(state.iter_num + 1, value, norm(pytree.ravel(grads)[0]), inner, aux))

    def run(self, init_params: Any, *args: Any, **kwargs: Any) -> OptStep:
        """Return the step after which slopes are small, or the last one."""

        def goes_on(step: OptStep) -> Any:
            return (step.state.error > self.tol) & (step.state.iter_num < self.maxiter)

        first = pytree.map(asarray, OptStep(init_params, self.init_state(init_params, *args, **kwargs)))
        return while_loop(goes_on, lambda step: self.update(*step, *args, **kwargs), first)

    def run_iterator(self, init_params: Any, iterator: Any, *args: Any, **kwargs: Any) -> OptStep:
        """Return the last step over batches, each the keyword ``data``; the first one makes the state."""
        params, update = init_params, jit(self.update)
        state = self.init_state(params, *args, data=next(iterator), **kwargs)
        for data in islice(iterator, self.maxiter):
            params, state = update(params, state, *args, data=data, **kwargs)
        return OptStep(params, state)


# --- Projections, and roots of one's own


def projection_non_negative(x: Any, _: Any = None) -> Any:
    """Return numbers that are not negative."""
    return pytree.map(lambda v: np.maximum(v, 0.0), x)


def projection_box(x: Any, hyperparams: Any) -> Any:
    """Return numbers between bounds."""
    low, high = hyperparams
    return pytree.map(lambda v: np.clip(v, low, high), x)


def custom_root(optimality_fun: Callable[..., Any], has_aux: bool = False, **_: Any) -> Callable[..., Any]:
    """Return a decorator of solvers ``(start, *args)``, which have the derivative of the implicit function theorem."""

    def decorate(solver: Callable[..., Any]) -> Callable[..., Any]:
        def run(start: Any, *args: Any) -> Any:
            def residual(x: Any) -> Any:
                return optimality_fun(x, *args)

            def solve(_: Any, x: Any) -> Any:
                return solver(x, *args)

            return find_root(residual, start, solve, None, has_aux)

        return run

    return decorate


def custom_fixed_point(fixed_point_fun: Callable[..., Any], has_aux: bool = False, **_: Any) -> Callable[..., Any]:
    """Return such a decorator of solvers of ``x = f(x)``."""

    def residual(x: Any, *args: Any) -> Any:
        return pytree.map(subtract, fixed_point_fun(x, *args), x)

    return custom_root(residual, has_aux)


# --- Proximal operators of a tree, its weight and a length; losses of labels and scores; and objectives of data


FORMULAS: dict[str, Short] = {
    "prox_none": same,
    "prox_lasso": lambda x, w=1.0, s=1.0: pytree.map(lambda v: sign(v) * maximum(abs(v) - w * s, 0.0), x),
    "prox_ridge": lambda x, w=1.0, s=1.0: pytree.map(lambda v: v / (1.0 + w * s), x),
    "prox_non_negative_ridge": lambda x, w=1.0, s=1.0: pytree.map(lambda v: maximum(v, 0.0) / (1.0 + w * s), x),
    "prox_elastic_net": lambda x, w=(1.0, 1.0), s=1.0: pytree.map(
        lambda v: sign(v) * maximum(abs(v) - w[0] * s, 0.0) / (1.0 + w[0] * w[1] * s), x
    ),
    "prox_group_lasso": lambda x, w=1.0, s=1.0: pytree.map(
        lambda v: maximum(1.0 - w * s / norm(pytree.ravel(x)[0]), 0.0) * v, x
    ),
    "prox_non_negative_lasso": lambda x, w=1.0, s=1.0: pytree.map(lambda v: maximum(v - w * s, 0.0), x),
    "huber_loss": lambda target, pred, delta=1.0: where(
        abs(target - pred) <= delta, 0.5 * (target - pred) ** 2, delta * (abs(target - pred) - 0.5 * delta)
    ),
    "binary_hinge_loss": lambda label, score: maximum(1.0 - where(asarray(label) != 0, 1.0, -1.0) * score, 0.0),
    "binary_perceptron_loss": lambda label, score: maximum(where(asarray(label) != 0, -1.0, 1.0) * score, 0.0),
    "binary_logistic_loss": lambda label, logit: softplus(where(asarray(label) != 0, -1.0, 1.0) * logit),
    "multiclass_logistic_loss": lambda label, logits: nn.softmax_cross_entropy(logits, label),
    "least_squares": lambda w, data: 0.5 * ((data[0] @ w - data[1]) ** 2).mean(),
    "ridge_regression": lambda w, l2reg, data: (
        0.5 * ((data[0] @ w - data[1]) ** 2).mean() + 0.5 * l2reg * (w * w).sum()
    ),
    "binary_logreg": lambda w, data: softplus(where(asarray(data[1]) != 0, -1.0, 1.0) * (data[0] @ w)).mean(),
    "multiclass_logreg": lambda w, data: nn.softmax_cross_entropy(data[0] @ w, data[1]).mean(),
    "l2_multiclass_logreg": lambda w, l2reg, data: (
        nn.softmax_cross_entropy(data[0] @ w, data[1]).mean() + 0.5 * l2reg * (w * w).sum()
    ),
}


# --- Differential equations by diffrax's names


# diffrax's methods, adjoints and sizes of steps, and afx's words for them
_METHODS = """Bosh3 Dopri5 Heun Midpoint Ralston: dopri5
Tsit5: tsit5
Dopri8: dop853
Euler: euler
ImplicitEuler Kvaerno3 Kvaerno4 Kvaerno5: radau
BacksolveAdjoint: adjoint
DirectAdjoint ForwardMode RecursiveCheckpointAdjoint: steps
ConstantStepSize VeryChord: fixed
Chord Newton NoProgressMeter PIDController TextProgressMeter TqdmProgressMeter max_norm rms_norm two_norm: own"""
METHODS: dict[str, str] = by_name(_METHODS)
EXACT = ("Dopri5", "Dopri8", "Tsit5")  # whose fixed steps are afx's, or nearly
OWN = ("Bosh3", "Euler", "Heun", "Midpoint", "Ralston")  # methods of afx's by the same name
NEAR = ("Kvaerno3", "Kvaerno4", "Kvaerno5")  # whose fixed steps are those of Radau IIA
RESULTS = types.SimpleNamespace(
    successful=Status.CONVERGED, max_steps_reached=Status.ITERATION_LIMIT, event_occurred=Status.EVENT
)
ODETerm: Callable[..., Any] = same  # the field itself


@attrs.frozen(init=False)
class Choice:
    """A method, an adjoint, or sizes of steps, by the name of its class."""

    rtol: Any = pytree.static(default=None)
    atol: Any = pytree.static(default=None)

    def __init__(self, rtol: Any = None, atol: Any = None, *_: Any, **__: Any) -> None:
        self.__attrs_init__(rtol, atol)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]  # attrs makes it

    @property
    def name(self) -> str:
        """What diffrax calls it."""
        return type(self).__name__


@functools.cache
def _choice_of(name: str) -> type[Choice]:
    return type(name, (Choice,), {})


CONSTANT, DIRECT = _choice_of("ConstantStepSize")(), _choice_of("DirectAdjoint")()


@attrs.frozen
class Event:
    """What ends an integration: a function that crosses 0, or several, up (True), down or both ways (None)."""

    cond_fn: Any
    root_finder: Any = None
    direction: Any = None

    def watched(self) -> dict[str, Any]:
        """Return what `afx.integrate.odeint` is told.

        Raises:
            ArgumentError: it ends at a step, or is a truth value.
        """
        fns: Sequence[Any] = [self.cond_fn] if callable(self.cond_fn) else self.cond_fn
        ways: Sequence[Any] = [self.direction] * len(fns) if self.direction in (None, False, True) else self.direction

        def watch(t: Any, y: Any, args: Any) -> Array:
            values = [asarray(fn(t, y, args)) for fn in fns]
            if self.root_finder is None or any(v.dtype.kind == "b" for v in values):
                raise ArgumentError("Event: steps are afx's own: give a root_finder, and a number that crosses 0")
            return stack(values)

        return {"event": watch, "direction": [0 if way is None else 2 * way - 1 for way in ways]}


@attrs.frozen
class SaveAt:
    """Which states are kept."""

    t0: bool = pytree.static(default=False)
    t1: bool = pytree.static(default=False)
    ts: Any = None
    steps: bool = pytree.static(default=False)
    dense: bool = pytree.static(default=False)
    fn: Any = None


@attrs.frozen
class Solution:
    """States that were kept, and the solution at all times."""

    ts: Any
    ys: Any
    stats: dict[str, Any]
    result: Any
    evaluate: Any


def diffeqsolve(
    terms: Any,
    solver: Choice,
    t0: Any,
    t1: Any,
    dt0: Any,
    y0: Any,
    args: Any = None,
    *,
    saveat: Any = SaveAt(t1=True),
    stepsize_controller: Any = CONSTANT,
    adjoint: Any = DIRECT,
    max_steps: int | None = 4096,
    event: Event | None = None,
    **others: Any,
) -> Solution:
    """Return what `afx.integrate.odeint` finds, by diffrax's names of its parts; nan where it did not come.

    Raises:
        ArgumentError: fixed steps of a method that afx has not, or what else diffrax has.
    """
    others = {name: value for name, value in others.items() if name not in ("progress_meter", "throw")}
    is_fixed = stepsize_controller.name == "ConstantStepSize"
    if others or (is_fixed and solver.name not in (*EXACT, *OWN, *NEAR)):
        text = f"{', '.join(others) or 'fixed steps'} of {solver.name}"
        raise ArgumentError(f"diffeqsolve: got {text}; give PIDController(rtol, atol), or call afx.integrate.odeint")
    limits: dict[str, Any] = (
        {"step": abs(dt0)} if is_fixed else {n: getattr(stepsize_controller, n) for n in ("rtol", "atol")}
    )
    inner = [] if saveat.ts is None else [np_.atleast_1d(saveat.ts)]
    times = np_.concatenate([np_.atleast_1d(asarray(t) * 1.0) for t in (t0, *inner, t1)])
    method = solver.name.lower() if is_fixed and solver.name in OWN else METHODS[solver.name]
    options = {"method": method, "gradient": METHODS[adjoint.name], "dense": saveat.dense or saveat.steps}
    options |= event.watched() if event else {}
    found: Any = integrate.odeint(terms, y0, times, args, max_steps=max_steps or 100_000, **options, **limits)
    chosen: Any = [0] * saveat.t0 + [*range(1, len(times) - 1)] + [len(times) - 1] * saveat.t1
    ts, ys = times, found.ys
    if event:  # the last time is its own, and what comes after it inf
        ends, last = found.event_index >= 0, (found.event_time, found.event_y)
        is_after = ends & (abs(ts - ts[0]) > abs(last[0] - ts[0]))
        ts, ys = pytree.map(lambda x: where(is_after.reshape(-1, *[1] * (x.ndim - 1)), np.inf, x), (ts, ys))
        ts, ys = pytree.map(lambda x, end: x.at[-1].set(where(ends, end, x[-1])), (ts, ys), last)
        chosen = np_.asarray(chosen)[np_.argsort(abs(ts - ts[0])[chosen])]
    if saveat.steps:
        ts, ys, chosen = found.solution.ts, found.solution.ys, slice(1 - saveat.t0, None)
    ts, ys = pytree.map(lambda x: x[chosen], (ts, ys))
    if saveat.fn is not None:
        ys = vmap(saveat.fn, in_axes=(0, 0, None))(ts, ys, args)
    stats = {"num_steps": found.iterations + found.rejected, "num_accepted_steps": found.iterations}
    return Solution(ts, ys, {**stats, "num_rejected_steps": found.rejected}, found.status, found.solution)


# --- Solvers of jax.scipy


def _solve(name: str, A: Any, b: Any, x0: Any = None, **kwargs: Any) -> tuple[Array, None]:
    """Return the solution of a linear system of trees by iterations, and nothing, as JAX does."""
    kwargs.pop("solve_method", None)
    vector, unravel = pytree.ravel(b)

    def of_vectors(fn: Any) -> Any:
        def run(x: Any) -> Any:
            return pytree.ravel(fn(unravel(x)))[0]

        return run if callable(fn) else fn

    start = None if x0 is None else pytree.ravel(x0)[0]
    solved: Any = getattr(linalg, name)(of_vectors(A), vector, start, **{k: of_vectors(v) for k, v in kwargs.items()})
    return unravel(solved.x), None


def minimize(
    fun: Any, x0: Any, args: tuple[Any, ...] = (), *, method: str = "BFGS", tol: Any = None, options: Any = None
) -> Any:
    """Return what `afx.optim.minimize` finds, by JAX's names of its parts."""
    given: dict[str, Any] = options or {}
    rounds: int = given.get("maxiter", 1000)
    words: Any = method.lower()
    found = optim.minimize(fun, x0, *args, method=words, tolerance=tol, max_iterations=rounds)
    return types.SimpleNamespace(
        x=found.x, fun=found.value, jac=found.gradient, success=found.converged, nit=found.iterations,
        status=1 - asarray(found.converged).astype(np.int64),
    )  # fmt: skip


# --- Sparse matrices of `jax.experimental.sparse`

sparsify: Callable[..., Any] = same  # operators take them as they are


@attrs.frozen(eq=False, repr=False, init=False)
class BCOO(SparseMatrix):
    """A matrix as the list of its entries, by JAX's names: ``BCOO((data, indices), shape=(rows, columns))``.

    >>> BCOO.fromdense(np.array([[0.0, 2.0]])) @ np.ones(2)
    Array([2.], dtype=float64)
    """

    def __init__(self, args: Any = None, *, shape: Any, values: Any = None, indices: Any = None, **_: Any) -> None:
        data, places = (values, indices) if args is None else args
        super().__init__(asarray(data), asarray(places), tuple(shape))

    @classmethod
    def fromdense(cls, mat: Any, **_: Any) -> BCOO:
        """Return the elements of a known matrix that are not 0."""
        places = np.argwhere(np.asarray(mat) != 0)
        return cls((asarray(mat)[tuple(places.T)], places), shape=mat.shape)

    @property
    def data(self) -> Array:
        """The entries."""
        return self.values

    @property
    def nse(self) -> int:
        """How many there are."""
        return self.nnz

    @property
    def dtype(self) -> Any:
        """That of the entries."""
        return self.values.dtype

    @property
    def T(self) -> BCOO:  # NumPy's name
        """The transpose, whose entries keep their order."""
        return BCOO((self.values, self.indices[:, ::-1]), shape=self.shape[::-1])

    def transpose(self) -> BCOO:
        """Return it."""
        return self.T

    def sum(self) -> Array:
        """Return the sum of all entries."""
        return self.values.sum()


def eye(N: int, M: int | None = None, dtype: Any = float, **_: Any) -> BCOO:
    """Return the sparse unit matrix."""
    return BCOO.fromdense(np_.eye(N, M, dtype=asarray(0.0, dtype).dtype))
