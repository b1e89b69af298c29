"""The paper's hanging rope: 10 000 steps of gradient descent on 50 heights, as one compiled loop or step by step."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.c_library import C, c_function, pointer
from tests.benchmarks.libraries import Job, arrays, namespace
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS", "step_of"]

POINTS, STEPS, RATE, LENGTH = 50, 10_000, 0.005, 1.1


def _loss(m: Any) -> Callable[[Any], Any]:
    def fn(y: Any) -> Any:
        pieces = m.sqrt(1 / (POINTS - 1) ** 2 + (y[1:] - y[:-1]) ** 2)
        return (m.sum(pieces) - LENGTH) ** 2 + m.sum(pieces * (y[1:] + y[:-1])) / 2

    return fn


def _start() -> list[np.ndarray]:
    """Return heights between fixed ends, and the mask of the points that move."""
    y = np.random.default_rng(1).uniform(-0.1, 0.0, POINTS).astype(np.float32)
    free = np.ones(POINTS, np.float32)
    y[[0, -1]] = free[[0, -1]] = 0.0
    return [y, free]


def _gradient(library: str) -> Callable[[Any], Any]:
    loss = _loss(namespace(library))
    if library == "afx":
        import afx

        return afx.grad(loss)
    if library == "jax":
        import jax

        return jax.grad(loss)
    if library == "torch":
        import torch

        def gradient(y: Any) -> Any:
            y = y.detach().requires_grad_()
            return torch.autograd.grad(loss(y), y)[0]

        return gradient
    import autograd

    return autograd.grad(loss)


def step_of(library: str) -> Callable[[Any, Any], Any]:
    """Return the function of heights and their mask that one step of descent is."""
    gradient = _gradient(library)
    return lambda y, free: y - RATE * free * gradient(y)


def _step_by_step(library: str) -> Job:
    """Run a Python loop over steps, compiled where the library can."""
    y, free = arrays(library, _start())
    step = step_of(library)
    if library == "afx":
        import afx

        step = afx.jit(step)
    if library == "jax":
        import jax

        step = jax.jit(step)

    def run() -> Any:
        now = y
        for _ in range(STEPS):
            now = step(now, free)
        return now.block_until_ready() if library == "jax" else now

    return Job(run)


def _scanned(library: str) -> Job:
    """Run the whole descent as one compiled loop."""
    y, free = arrays(library, _start())
    if library == C:
        return _in_c(y, free)
    step = step_of(library)
    if library == "afx":
        import afx

        mine = afx.jit(lambda y, free: afx.scan(lambda y, _: (step(y, free), None), y, None, STEPS)[0])
        return Job(lambda: mine(y, free))
    import jax

    theirs = jax.jit(lambda y, free: jax.lax.scan(lambda y, _: (step(y, free), None), y, None, STEPS)[0])
    return Job(lambda: theirs(y, free).block_until_ready())


def _in_c(start: np.ndarray, free: np.ndarray) -> Job:
    y, descend = start.copy(), c_function("catenary")

    def run() -> np.ndarray:
        y[:] = start
        descend(pointer(y), pointer(free), ctypes.c_long(STEPS), ctypes.c_float(RATE), ctypes.c_float(LENGTH))
        return y

    return Job(run)


WORKLOADS = [
    Workload(f"catenary, {STEPS} steps, scan", _scanned, ("afx", "jax", C), tolerance=1e-3),
    Workload(f"catenary, {STEPS} steps, Python loop", _step_by_step, tolerance=1e-3),
]
