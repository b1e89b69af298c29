"""An LSTM over 100 steps: value and gradients of a long graph of small operations, or of one compiled loop."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.c_library import C, c_function, pointer
from tests.benchmarks.libraries import Job, namespace, scan_of, value_and_grad
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS", "sigmoid_of"]

STEPS, BATCH, INPUTS, UNITS = 100, 16, 32, 64


def sigmoid_of(library: str) -> Callable[[Any], Any]:
    """Return a library's sigmoid."""
    if library == "afx":
        from afx import nn

        return nn.sigmoid
    if library == "jax":
        import jax

        return jax.nn.sigmoid
    m = namespace(library)
    return m.sigmoid if library == "torch" else lambda x: 1 / (1 + m.exp(-x))


def _step(library: str) -> Callable[..., Any]:
    m, sigmoid = namespace(library), sigmoid_of(library)

    def step(p: Any, x: Any, h: Any, c: Any) -> Any:
        gates = x @ p[0] + h @ p[1] + p[2]
        keep, take, give = (sigmoid(gates[:, k * UNITS : (k + 1) * UNITS]) for k in range(3))
        c = keep * c + take * m.tanh(gates[:, 3 * UNITS :])
        return give * m.tanh(c), c

    return step


def _unrolled(library: str) -> Callable[..., Any]:
    m, step = namespace(library), _step(library)

    def fn(p: Any, xs: Any, h: Any, c: Any) -> Any:
        for t in range(STEPS):
            h, c = step(p, xs[t], h, c)
        return m.mean(h * h)

    return fn


def _scanned(library: str) -> Callable[..., Any]:
    m, step, scan = namespace(library), _step(library), scan_of(library)

    def fn(p: Any, xs: Any, h: Any, c: Any) -> Any:
        h, _ = scan(lambda now, x: (step(p, x, *now), None), (h, c), xs)[0]
        return m.mean(h * h)

    return fn


def _in_c(params: list[np.ndarray], xs: np.ndarray) -> Job:
    states = 2 * (STEPS + 1) * BATCH * UNITS + STEPS * BATCH * 4 * UNITS
    memory = np.empty(states + BATCH * 4 * UNITS + 2 * BATCH * UNITS + 4 * UNITS * UNITS, np.float32)
    slopes = [np.empty_like(p) for p in params]
    lstm = c_function("lstm", ctypes.c_float)
    args = [STEPS, BATCH, INPUTS, UNITS, *map(pointer, (xs, *params, memory, *slopes))]
    return Job(lambda: (lstm(*args), tuple(slopes)))


def _make(library: str, loss: Callable[[str], Callable[..., Any]]) -> Job:
    rng = np.random.default_rng(0)
    shapes = ((INPUTS, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,))
    params = [(rng.normal(size=s) * 0.1).astype(np.float32) for s in shapes]
    xs = rng.normal(size=(STEPS, BATCH, INPUTS)).astype(np.float32)
    start = [np.zeros((BATCH, UNITS), np.float32) for _ in range(2)]
    if library == C:
        return _in_c(params, xs)
    return value_and_grad(library, loss(library), params, [xs, *start])


WORKLOADS = [
    Workload(f"LSTM, {STEPS} steps in a Python loop, batch {BATCH}", lambda lib: _make(lib, _unrolled), tolerance=1e-3),
    Workload(
        f"LSTM, {STEPS} steps by scan, batch {BATCH}",
        lambda lib: _make(lib, _scanned),
        ("afx", "jax", C),
        tolerance=1e-3,
    ),
]
