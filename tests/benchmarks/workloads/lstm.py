"""An LSTM over 100 steps, written as a Python loop: value and gradients of a long graph of small operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, namespace, value_and_grad
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

STEPS, BATCH, INPUTS, UNITS = 100, 16, 32, 64


def _sigmoid(library: str) -> Callable[[Any], Any]:
    if library == "afx":
        from afx import nn

        return nn.sigmoid
    if library == "jax":
        import jax

        return jax.nn.sigmoid
    m = namespace(library)
    return m.sigmoid if library == "torch" else lambda x: 1 / (1 + m.exp(-x))


def _loss(library: str) -> Callable[..., Any]:
    m, sigmoid = namespace(library), _sigmoid(library)

    def fn(p: Any, xs: Any, h: Any, c: Any) -> Any:
        for t in range(STEPS):
            gates = xs[t] @ p[0] + h @ p[1] + p[2]
            keep, take, give = (sigmoid(gates[:, k * UNITS : (k + 1) * UNITS]) for k in range(3))
            c = keep * c + take * m.tanh(gates[:, 3 * UNITS :])
            h = give * m.tanh(c)
        return m.mean(h * h)

    return fn


def _make(library: str) -> Job:
    rng = np.random.default_rng(0)
    shapes = ((INPUTS, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,))
    params = [(rng.normal(size=s) * 0.1).astype(np.float32) for s in shapes]
    xs = rng.normal(size=(STEPS, BATCH, INPUTS)).astype(np.float32)
    start = [np.zeros((BATCH, UNITS), np.float32) for _ in range(2)]
    return value_and_grad(library, _loss(library), params, [xs, *start])


WORKLOADS = [Workload(f"LSTM, {STEPS} steps in a Python loop, batch {BATCH}", _make, tolerance=1e-3)]
