"""A GRU over 100 steps by scan: value and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, namespace, scan_of, value_and_grad
from tests.benchmarks.workloads.lstm import sigmoid_of
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

STEPS, BATCH, INPUTS, UNITS = 100, 16, 32, 64


def _loss(library: str) -> Callable[..., Any]:
    m, sigmoid, scan = namespace(library), sigmoid_of(library), scan_of(library)

    def loss(p: Any, xs: Any, h: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            given, own = x @ p[0] + p[2], h @ p[1] + p[3]
            reset = sigmoid(given[:, :UNITS] + own[:, :UNITS])
            keep = sigmoid(given[:, UNITS : 2 * UNITS] + own[:, UNITS : 2 * UNITS])
            new = m.tanh(given[:, 2 * UNITS :] + reset * own[:, 2 * UNITS :])
            return (1 - keep) * new + keep * h, None

        h = scan(step, h, xs)[0]
        return m.mean(h * h)

    return loss


def _make(library: str) -> Job:
    rng = np.random.default_rng(0)
    shapes = ((INPUTS, 3 * UNITS), (UNITS, 3 * UNITS), (3 * UNITS,), (3 * UNITS,))
    params = [(rng.normal(size=s) * 0.1).astype(np.float32) for s in shapes]
    xs = rng.normal(size=(STEPS, BATCH, INPUTS)).astype(np.float32)
    return value_and_grad(library, _loss(library), params, [xs, np.zeros((BATCH, UNITS), np.float32)])


WORKLOADS = [Workload(f"GRU, {STEPS} steps by scan, batch {BATCH}", _make, ("afx", "jax"), tolerance=1e-3)]
