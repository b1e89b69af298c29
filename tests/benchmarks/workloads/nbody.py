"""Bodies that attract each other: 100 steps of the leapfrog method on all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, compiled, namespace, scan_of
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

STEPS, LENGTH, SOFTENING = 100, 1e-3, 0.05


def _make(library: str, bodies: int) -> Job:
    m, scan = namespace(library), scan_of(library)
    rng = np.random.default_rng(0)

    def fn(x: Any, v: Any, masses: Any) -> Any:
        def pull(x: Any) -> Any:
            between = x[None] - x[:, None]
            squares = m.sum(between * between, axis=-1) + SOFTENING**2
            return m.sum(between * (masses / (squares * m.sqrt(squares)))[..., None], axis=1)

        def step(now: Any, _: Any) -> Any:
            x, v = now
            v = v + LENGTH / 2 * pull(x)
            x = x + LENGTH * v
            return (x, v + LENGTH / 2 * pull(x)), None

        return scan(step, (x, v), None, STEPS)[0]

    drawn = [rng.normal(size=(bodies, 3)), rng.normal(size=(bodies, 3)), rng.uniform(0.5, 1.5, bodies)]
    return compiled(library, fn, drawn)


WORKLOADS = [
    Workload(f"{bodies} bodies, {STEPS} leapfrog steps", lambda lib, n=bodies: _make(lib, n), ("afx", "jax"))
    for bodies in (8, 100)
]
