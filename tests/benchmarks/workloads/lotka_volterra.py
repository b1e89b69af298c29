"""Predators and prey: a fit's loss and gradients through the Lotka-Volterra equations.

By 1000 Runge-Kutta steps, and by adaptive ones at 41 times: afx goes back over the steps, jax solves the adjoint equation.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from afx import integrate
from tests.benchmarks.c_library import C, c_function, pointer
from tests.benchmarks.libraries import Job, namespace, scan_of, value_and_grad
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS", "loss_of"]

STEPS, LENGTH, TIMES = 1000, 0.01, 41


def loss_of(library: str) -> Callable[..., Any]:
    """Return the loss of the fit by steps of one length."""
    m, scan = namespace(library), scan_of(library)

    def loss(p: Any, prey: Any, predators: Any, seen: Any) -> Any:
        a, b, c, d = p

        def rate(u: Any, v: Any) -> Any:
            return a * u - b * u * v, d * u * v - c * v

        def step(now: Any, _: Any) -> Any:
            u, v = now
            k1 = rate(u, v)
            k2 = rate(u + LENGTH / 2 * k1[0], v + LENGTH / 2 * k1[1])
            k3 = rate(u + LENGTH / 2 * k2[0], v + LENGTH / 2 * k2[1])
            k4 = rate(u + LENGTH * k3[0], v + LENGTH * k3[1])
            u, v = (x + LENGTH / 6 * (e + 2 * f + 2 * g + h) for x, e, f, g, h in zip(now, k1, k2, k3, k4, strict=True))
            return (u, v), (u, v)

        u, v = scan(step, (prey, predators), None, STEPS)[1]
        return m.mean((u - seen[0]) ** 2 + (v - seen[1]) ** 2)

    return loss


def _in_c(p: np.ndarray, seen: np.ndarray) -> Job:
    states, slopes = np.empty((STEPS + 1, 2)), np.empty(4)
    fit = c_function("lotka_volterra", ctypes.c_double)
    start = (ctypes.c_double(10.0), ctypes.c_double(5.0))
    rest = (ctypes.c_long(STEPS), ctypes.c_double(LENGTH), pointer(states), pointer(slopes))

    def run() -> Any:
        value = fit(pointer(p), *start, pointer(seen), *rest)
        return value, tuple(slopes)

    return Job(run)


def _make(library: str) -> Job:
    params = [np.float64(x) for x in (1.1, 0.4, 0.4, 0.1)]
    seen = np.random.default_rng(0).uniform(1.0, 10.0, (2, STEPS))
    if library == C:
        return _in_c(np.array(params), seen)
    return value_and_grad(library, loss_of(library), params, [np.asarray(10.0), np.asarray(5.0), seen])


def _adaptive_loss(library: str) -> Callable[..., Any]:
    m = namespace(library)

    def rate(y: Any, p: Any) -> Any:
        return m.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[3] * y[0] * y[1] - p[2] * y[1]])

    def states(p: Any, y: Any, times: Any) -> Any:
        if library == "jax":
            ode = importlib.import_module("jax.experimental.ode")
            return ode.odeint(lambda y, t, p: rate(y, p), y, times, p, rtol=1e-6, atol=1e-9)
        return integrate.odeint(lambda t, y, p: rate(y, p), y, times, p, rtol=1e-6, atol=1e-9).ys

    def loss(p: Any, y: Any, times: Any, seen: Any) -> Any:
        return m.mean((states(p, y, times) - seen) ** 2)

    return loss


def _make_adaptive(library: str) -> Job:
    params, times = [np.asarray(x) for x in (1.1, 0.4, 0.4, 0.1)], np.linspace(0.0, LENGTH * STEPS, TIMES)
    seen = np.random.default_rng(0).uniform(1.0, 10.0, (TIMES, 2))
    return value_and_grad(library, _adaptive_loss(library), params, [np.array([10.0, 5.0]), times, seen])


WORKLOADS = [
    Workload(f"Lotka-Volterra, {STEPS} steps of RK4, scan", _make, ("afx", "jax", C)),
    Workload(f"Lotka-Volterra, adaptive, {TIMES} times", _make_adaptive, ("afx", "jax"), 1e-3),
]
