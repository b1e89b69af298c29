"""Solvers of jaxopt and `jax.scipy` on afx's: what they find is the same, the way to it and its steps are afx's."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from afx import linalg, optim, pytree
from afx.core import Array
from afx.errors import ArgumentError
from afx.migrate.for_lax import custom_root as find_root
from afx.migrate.optax_trees import PROJECTIONS
from afx.ops.creation.creation import asarray, full_like
from afx.ops.elementwise.arithmetic import subtract

__all__ = ["OptStep", "Solver", "projection_non_negative"]

# afx's solver, and its method, by jaxopt's
KINDS: dict[str, str] = {
    "AndersonAcceleration": "fixed_point", "BFGS": "minimize bfgs", "Bisection": "root bisection", "Broyden": "root newton",
    "FixedPointIteration": "fixed_point", "GaussNewton": "least_squares", "GradientDescent": "minimize bfgs",
    "LBFGS": "minimize lbfgs", "LBFGSB": "minimize lbfgs", "LevenbergMarquardt": "least_squares",
    "NonlinearCG": "minimize bfgs", "ProjectedGradient": "minimize lbfgs", "ScipyBoundedMinimize": "minimize lbfgs",
    "ScipyLeastSquares": "least_squares", "ScipyMinimize": "minimize bfgs", "ScipyRootFinding": "root newton",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return a solver with jaxopt's arguments."""
    if name in ("projection_halfspace", "projection_hyperplane"):
        return functools.partial(_onto_pair, PROJECTIONS[name])
    if name in PROJECTIONS:
        return PROJECTIONS[name]
    if name in ("bicgstab", "cg", "gmres"):
        return functools.partial(_solve, name)
    if name not in KINDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return functools.partial(Solver, name)


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
    state: State


class Solver:
    """A solver: ``run(init, …)`` returns an `OptStep`."""

    def __init__(
        self,
        name: str,
        fun: Callable[..., Any] | None = None,
        projection: Any = None,
        *,
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
        self._projection, self._has_aux, self._bracket = projection, has_aux, (lower, upper)

    def _number(self, x: Any, given: Any) -> Any:
        args, kwargs = given
        found = self._fun(x, *args, **kwargs)
        return found[0] if self._has_aux else found

    def run(self, init_params: Any = None, *args: Any, bounds: Any = None, **kwargs: Any) -> OptStep:
        """Return what is found from a start; derivatives by the other arguments are implicit."""
        solver, _, method = KINDS[self._name].partition(" ")
        options = {**self._limits, **({"method": method} if method else {})}
        if "Bound" in self._name or self._name == "LBFGSB":
            bounds, args = (args[0], args[1:]) if bounds is None else (bounds, args)
        if self._projection is not None:
            if self._projection not in BOUNDS:
                raise ArgumentError("ProjectedGradient: onto bounds: got another set; use afx.optim.projected")
            sizes, args = (kwargs.pop("hyperparams_proj", None), args) if not args else (args[0], args[1:])
            bounds = BOUNDS[self._projection](init_params, sizes)
        if bounds is not None:
            options["bounds"] = tuple(bounds)
        if method == "bisection":
            init_params, options["bracket"] = asarray(self._bracket[0]) * 1.0, self._bracket
        found: Any = getattr(optim, solver)(self._number, init_params, (args, kwargs), **options)
        value = getattr(found, "value", getattr(found, "residual", None))
        return OptStep(found.x, State(found.iterations, getattr(found, "error", None), value, found.converged))


# --- Projections, and roots of one's own


def projection_non_negative(x: Any, hyperparams: Any = None) -> Any:
    """Return numbers that are not negative."""
    del hyperparams
    return pytree.map(lambda v: np.maximum(v, 0.0), x)


def projection_box(x: Any, hyperparams: Any) -> Any:
    """Return numbers between bounds."""
    low, high = hyperparams
    return pytree.map(lambda v: np.clip(v, low, high), x)


def _filled(x: Any, bound: Any) -> Any:
    return pytree.map(lambda v: full_like(asarray(v), 0.0) + bound, x)


BOUNDS: dict[Any, Callable[[Any, Any], Any]] = {
    projection_non_negative: lambda x, _: (_filled(x, 0.0), _filled(x, np.inf)),
    projection_box: lambda x, sizes: tuple([_filled(x, s) for s in sizes]),
}


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
