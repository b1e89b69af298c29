"""A chain of elementwise operations on two vectors, summed: memory traffic and transcendental functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, namespace, value_and_grad
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]


def _loss(m: Any) -> Callable[..., Any]:
    def fn(p: Any) -> Any:
        x, y = p
        for _ in range(2):
            z = m.tanh(x) * y
            w = m.exp(-z * z)
            x = x + w * m.sin(z)
            y = m.log(1.0 + w * y * y) + y
        return m.sum(x * y)

    return fn


def _make(library: str, size: int, dtype: str) -> Job:
    rng = np.random.default_rng(0)
    return value_and_grad(library, _loss(namespace(library)), [rng.random(size).astype(dtype) for _ in range(2)])


WORKLOADS = [
    Workload(f"elementwise chain, 10^{power} {dtype}", lambda lib, n=10**power, dtype=dtype: _make(lib, n, dtype))
    for dtype in ("float32", "float64")
    for power in (3, 4, 5, 6, 7)
]
