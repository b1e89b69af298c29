"""Solvers beside others': the time of descents of many unknowns, evaluations under constraints and of stiff systems."""

from __future__ import annotations

import functools
import importlib
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.integrate
import scipy.optimize

import afx
from tests.benchmarks.equations import STIFF, Descent, descents
from tests.benchmarks.harness import available, interleaved
from tests.integrate.problems import PROBLEMS as TEST_SETS, Problem
from tests.optim.solvers.hock_schittkowski import PROBLEMS, Constrained, condition

__all__ = ["main"]

TOLERANCE, LIMIT, MAX_STEPS = 1e-5, 200, 200_000
Solve = Callable[[], tuple[int, float]]  # to the iterations and the value


def _by_afx(f: Any, start: Any, backend: Any) -> Solve:
    def solve(x: Any) -> Any:
        return afx.optim.minimize(lambda v: f(afx, v), x, tolerance=TOLERANCE, max_iterations=LIMIT)

    run, x = afx.jit(solve, backend=backend), afx.asarray(start)

    def go() -> tuple[int, float]:
        result = run(x)
        return int(result.iterations), float(result.value)

    return go


def _by_optax(f: Any, start: Any) -> Solve:
    jax, optax = importlib.import_module("jax"), importlib.import_module("optax")
    jax.config.update("jax_enable_x64", True)
    np_, x = jax.numpy, jax.numpy.asarray(start)

    def fn(v: Any) -> Any:
        return f(np_, v)

    rule, both = optax.lbfgs(), optax.value_and_grad_from_state(fn)

    def going(s: Any) -> Any:
        gradient = optax.tree.get(s[1], "grad")
        return (s[2] == 0) | ((s[2] < LIMIT) & (np_.max(np_.abs(gradient)) > TOLERANCE))

    def step(s: Any) -> Any:
        value, gradient = both(s[0], state=s[1])
        change, state = rule.update(gradient, s[1], s[0], value=value, grad=gradient, value_fn=fn)
        return optax.apply_updates(s[0], change), state, s[2] + 1

    run = jax.jit(lambda x: jax.lax.while_loop(going, step, (x, rule.init(x), 0)))

    def go() -> tuple[int, float]:
        _, state, count = run(x)
        return int(count), float(optax.tree.get(state, "value"))

    return go


def _by_scipy(f: Any, start: Any) -> Solve:
    both = afx.jit(afx.value_and_grad(lambda v: f(afx, v)), backend="native")

    def at(x: Any) -> Any:
        value, gradient = both(x)
        return float(value), np.array(gradient)

    def go() -> tuple[int, float]:
        options = {"maxiter": LIMIT, "gtol": TOLERANCE, "ftol": 0, "maxfun": 10 * LIMIT}
        found = scipy.optimize.minimize(at, start, jac=True, method="L-BFGS-B", options=options)
        return int(found.nit), float(found.fun)

    return go


def _descend(problems: dict[str, Descent], rounds: int) -> None:
    print("\n| descent, unknowns | afx ms | default | optax | SciPy | iterations |\n|---|--:|--:|--:|--:|---|")
    for name, (f, start) in problems.items():
        runs: dict[str, Solve] = {"afx": _by_afx(f, start, "native"), "default": _by_afx(f, start, None)}
        runs |= {"optax": _by_optax(f, start)} if available("optax") else {}
        runs["SciPy"] = _by_scipy(f, start)
        for _ in range(4):
            runs["default"]()
        steps = " / ".join([str(run()[0]) for run in runs.values()])
        took = interleaved({**runs}, rounds, 0.0)
        cells = [f"{took[who] / took['afx']:.2f}" if who in took else "-" for who in ("default", "optax", "SciPy")]
        print(f"| {name}, {start.size} | {1e3 * took['afx']:.2f} | {' | '.join(cells)} | {steps} |", flush=True)


def _constrain(problems: dict[int, Constrained]) -> None:
    print("\n| Hock & Schittkowski | evaluations | SLSQP | solved | SLSQP |\n|---|--:|--:|---|---|")
    ratios = list[float]()
    for number, p in problems.items():
        start, (lower, upper) = np.array(p.start, float), p.bounds()
        given: list[Any] = [of if len(of(np, start)) else None for of in (p.equal, p.above)]
        equal, above = [(lambda x, of=of: [*of(afx, x)]) if of else None for of in given]
        bounds = None if p.lower is None and p.upper is None else (lower, upper)
        ours = afx.optim.minimize(
            lambda x, p=p: p.value(afx, x), start, bounds=bounds, equalities=equal, inequalities=above
        )
        kinds = zip(("eq", "ineq"), given, strict=True)
        conditions = [condition(kind, of) for kind, of in kinds if of]
        theirs = scipy.optimize.minimize(
            lambda x, p=p: float(p.value(np, x)),
            start,
            jac=lambda x, p=p: np.asarray(afx.grad(lambda x: p.value(afx, x))(x)),
            method="SLSQP",
            constraints=conditions,
            bounds=scipy.optimize.Bounds(lower, upper),
            options={"ftol": 1e-12, "maxiter": 500},
        )
        solved = [abs(float(v) - p.least) < 1e-6 * max(1.0, abs(p.least)) for v in (ours.value, theirs.fun)]
        ratios.append(int(ours.evaluations) / theirs.nfev)
        print(f"| {number} | {int(ours.evaluations)} | {theirs.nfev} | {solved[0]} | {solved[1]} |", flush=True)
    print(f"{np.exp(np.mean(np.log(ratios))):.2f} times SLSQP's evaluations")


def _integrate(problems: dict[str, Problem], tolerances: Sequence[float]) -> None:
    print(
        "\n| stiff system | method | tolerance | evaluations | SciPy's | error | SciPy's |\n|---|---|--:|--:|--:|--:|--:|"
    )

    def by_scipy(p: Problem, method: Any, tolerance: float) -> Any:
        options: Any = {"method": method, "rtol": tolerance, "atol": tolerance * p.floor}
        return scipy.integrate.solve_ivp(lambda t, y: p.field(np, t, y), (0, p.end), p.start, **options)

    for name, p in problems.items():
        end = by_scipy(p, "Radau", 1e-11).y[:, -1] if np.isnan(p.want).any() else p.want
        for (method, peer), tolerance in itertools.product((("radau", "Radau"), ("bdf", "BDF")), tolerances):
            options: Any = {"method": method, "rtol": tolerance, "atol": tolerance * p.floor, "max_steps": MAX_STEPS}
            ours = afx.integrate.odeint(lambda t, y, p=p: p.field(afx, t, y), p.start, [0.0, p.end], **options)
            theirs = by_scipy(p, peer, tolerance)
            work = theirs.nfev + theirs.njev * p.start.size  # which it does not count
            size = np.abs(end) + p.floor
            far = [np.sqrt(np.mean(((np.asarray(v) - end) / size) ** 2)) for v in (ours.ys[-1], theirs.y[:, -1])]
            counts = f"| {tolerance:.0e} | {int(ours.evaluations)} | {work} | {far[0]:.1e} | {far[1]:.1e} |"
            print(f"| {name} | {method} {counts}", flush=True)


def _van_der_pol(xp: Any, y: Any) -> Any:
    return xp.stack([y[1], (1 - y[0] * y[0]) * y[1] - y[0]])


def _lorenz(xp: Any, y: Any) -> Any:
    return xp.stack([10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])


FIELDS = {
    "van der Pol": (_van_der_pol, np.array([2.0, 0.0]), np.linspace(0, 20, 50)),
    "Lorenz": (_lorenz, np.ones(3), np.linspace(0, 10, 100)),
}


def _jax_odeint(field: Any, start: Any, times: Any) -> Callable[[], Any]:
    jax, ode = importlib.import_module("jax"), importlib.import_module("jax.experimental.ode")
    jax.config.update("jax_enable_x64", True)
    y, ts = jax.numpy.asarray(start), jax.numpy.asarray(times)

    def slope(y: Any, _: Any) -> Any:  # one function: JAX compiles anew for each
        return field(jax.numpy, y)

    return lambda: ode.odeint(slope, y, ts, rtol=1e-6, atol=1e-9).block_until_ready()


def _call_again(rounds: int) -> None:
    """Print the times of calls outside of `jit`, each with a function that is written anew."""
    print("\n| outside of jit | ms | within | JAX's odeint |\n|---|--:|--:|--:|")
    for name, (field, start, times) in FIELDS.items():

        def solve(y: Any, field: Any = field, times: Any = times) -> Any:
            return afx.integrate.odeint(lambda t, y: field(afx, y), y, times, rtol=1e-6, atol=1e-9).ys

        compiled, y = afx.jit(solve), afx.asarray(start)
        outside, within = functools.partial(solve, y), functools.partial(compiled, y)
        runs: dict[str, Callable[[], object]] = {"outside": outside, "within": within}
        runs |= {"JAX": _jax_odeint(field, start, times)} if available("jax") else {}
        for run in runs.values():  # until machine code has come
            begin = time.perf_counter()
            while time.perf_counter() - begin < min(rounds, 3):
                run()
        took = interleaved(runs, 10 * rounds, 0.01)
        cells = [f"{took[who] / took['outside']:.2f}" if who in took else "-" for who in ("within", "JAX")]
        print(f"| {name} | {1e3 * took['outside']:.2f} | {' | '.join(cells)} |", flush=True)


def main(quick: bool) -> None:
    """Print the tables: times as multiples of afx's machine code, or of calls outside of `jit`, and counts of evaluations."""
    _call_again(1 if quick else 5)
    for n in (1200,) if quick else (10_000, 100_000):
        _descend(descents(n), 1 if quick else 3)
    _constrain({k: PROBLEMS[k] for k in (6, 71)} if quick else PROBLEMS)
    stiff = {name: p for name, p in (TEST_SETS | STIFF).items() if p.stiff}
    _integrate({"Kaps": STIFF["Kaps"]} if quick else stiff, (1e-4,) if quick else (1e-4, 1e-7))
