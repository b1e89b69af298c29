"""Stencils: heat in two dimensions and Jacobi's method, many steps of weighted neighbours on a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, arrays, namespace, scan_of
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

Step = Callable[[Any, Any, Any], Any]
STEPS = 100


def _heat(m: Any, u: Any, _: Any) -> Any:
    inner = u[1:-1, 1:-1]
    flow = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * inner
    return m.pad(inner + 0.2 * flow, 1)


def _jacobi(m: Any, u: Any, source: Any) -> Any:
    return m.pad(0.25 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - source[1:-1, 1:-1]), 1)


def _make(library: str, step: Step, size: int) -> Job:
    rng = np.random.default_rng(0)
    u, source = arrays(library, [rng.normal(size=(size, size)).astype(np.float32) for _ in range(2)])
    m, scan = namespace(library), scan_of(library)

    def fn(u: Any, source: Any) -> Any:
        return scan(lambda u, _: (step(m, u, source), None), u, None, STEPS)[0]

    if library == "afx":
        import afx

        mine = afx.jit(fn)
        return Job(lambda: mine(u, source))
    import jax

    theirs = jax.jit(fn)
    return Job(lambda: theirs(u, source).block_until_ready())


WORKLOADS = [
    Workload(
        f"{name}, {STEPS} steps on {size} × {size}",
        lambda lib, step=step, size=size: _make(lib, step, size),
        ("afx", "jax"),
        tolerance=1e-3,
    )
    for name, step in (("heat", _heat), ("Jacobi", _jacobi))
    for size in (32, 256)
]
