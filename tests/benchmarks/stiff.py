"""Work and precision of solvers of differential equations: `python -m tests.benchmarks.stiff`.

Prints, for each test set and tolerance, the milliseconds of a compiled solution (the best of several calls) and its error in
units of a relative tolerance of 1, of afx's two fitting methods, of SciPy, and of diffrax where it is installed.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate

import afx
from tests.integrate.problems import PROBLEMS, Problem

TOLERANCES = (1e-4, 1e-7, 1e-10)
MAX_STEPS = 200_000


def afx_with(method: Any, p: Problem, tolerance: float) -> Callable[[], Any]:
    """Return a compiled solution of afx."""
    options: Any = {"method": method, "rtol": tolerance, "atol": tolerance * p.floor, "max_steps": MAX_STEPS}

    def solve(y: Any) -> Any:
        return afx.integrate.odeint(lambda t, y: p.field(afx, t, y), y, [0.0, p.end], **options).ys[-1]

    run = afx.jit(solve, backend="native")
    return lambda: np.asarray(run(p.start))


def scipy_with(method: Any, p: Problem, tolerance: float) -> Callable[[], Any]:
    """Return a solution of SciPy."""
    options: Any = {"method": method, "rtol": tolerance, "atol": tolerance * p.floor}
    return lambda: scipy.integrate.solve_ivp(lambda t, y: p.field(np, t, y), (0, p.end), p.start, **options).y[:, -1]


def diffrax_with(method: Any, p: Problem, tolerance: float) -> Callable[[], Any]:
    """Return a compiled solution of diffrax."""
    jax, diffrax = importlib.import_module("jax"), importlib.import_module("diffrax")
    jax.config.update("jax_enable_x64", True)
    control = diffrax.PIDController(rtol=tolerance, atol=tolerance * p.floor)
    term = diffrax.ODETerm(lambda t, y, args: p.field(jax.numpy, t, y))

    @jax.jit
    def solve(y: Any) -> Any:
        solver = getattr(diffrax, method)()
        options: Any = {"stepsize_controller": control, "max_steps": MAX_STEPS, "throw": False}
        return diffrax.diffeqsolve(term, solver, 0.0, p.end, None, y, **options).ys[-1]

    return lambda: np.asarray(solve(p.start))


def solvers(stiff: bool) -> dict[str, tuple[Callable[..., Any], str]]:
    """Return whom to compare, by name."""
    found: dict[str, tuple[Callable[..., Any], str]] = {}
    for method in ("radau", "rodas") if stiff else ("dop853", "dopri5"):
        found[f"afx {method}"] = (afx_with, method)
    found["SciPy Radau" if stiff else "SciPy DOP853"] = (scipy_with, "Radau" if stiff else "DOP853")
    try:
        importlib.import_module("diffrax")
    except ImportError:
        return found
    return {**found, f"diffrax {'Kvaerno5' if stiff else 'Dopri8'}": (diffrax_with, "Kvaerno5" if stiff else "Dopri8")}


def measure(run: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """Return the best time in milliseconds, and the result."""
    y, times = run(), list[float]()
    for _ in range(rounds):
        begin = time.perf_counter()
        y = run()
        times.append(1e3 * (time.perf_counter() - begin))
        if sum(times) > 5_000:
            break
    return min(times), y


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.stiff", description=__doc__)
    parser.add_argument("--only", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS), help="which sets")
    parser.add_argument("--tolerances", nargs="+", type=float, default=TOLERANCES, help="which tolerances")
    parser.add_argument("--rounds", type=int, default=5, help="calls of each, of which the best counts")
    given = parser.parse_args()
    print("| set | tolerance | solver | ms | error |\n|---|--:|---|--:|--:|")
    for name in given.only:
        for tolerance in given.tolerances:
            for solver, (make, method) in solvers(PROBLEMS[name].stiff).items():
                best, y = measure(make(method, PROBLEMS[name], tolerance), given.rounds)
                error = PROBLEMS[name].error(y)
                print(f"| {name} | {tolerance:.0e} | {solver} | {best:.2f} | {error:.1e} |", flush=True)


if __name__ == "__main__":
    main()
