"""Stencils: heat, Jacobi's method, limited diffusion and Maxwell's equations, many steps of neighbours on a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, compiled, namespace, scan_of
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


def _hdiff(m: Any, u: Any, coefficient: Any) -> Any:
    """Diffuse along two axes, flows against the gradient left out (COSMO's horizontal diffusion)."""
    lap = 4.0 * u[1:-1, 1:-1] - (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
    flow_x = lap[1:, 1:-1] - lap[:-1, 1:-1]
    flow_x = m.where(flow_x * (u[2:-1, 2:-2] - u[1:-2, 2:-2]) > 0, 0.0, flow_x)
    flow_y = lap[1:-1, 1:] - lap[1:-1, :-1]
    flow_y = m.where(flow_y * (u[2:-2, 2:-1] - u[2:-2, 1:-2]) > 0, 0.0, flow_y)
    inner = u[2:-2, 2:-2] - 0.01 * coefficient[2:-2, 2:-2] * (flow_x[1:] - flow_x[:-1] + flow_y[:, 1:] - flow_y[:, :-1])
    return m.pad(inner, 2)


def _fdtd(m: Any, fields: Any, _: Any) -> Any:
    """Advance Maxwell's equations in two dimensions by one step of Yee's scheme."""
    e_x, e_y, h_z = fields
    e_y = m.concatenate([e_y[:1], e_y[1:] - 0.5 * (h_z[1:] - h_z[:-1])], axis=0)
    e_x = m.concatenate([e_x[:, :1], e_x[:, 1:] - 0.5 * (h_z[:, 1:] - h_z[:, :-1])], axis=1)
    inner = h_z[:-1, :-1] - 0.7 * (e_x[:-1, 1:] - e_x[:-1, :-1] + e_y[1:, :-1] - e_y[:-1, :-1])
    inner = m.concatenate([inner, h_z[:-1, -1:]], axis=1)
    return e_x, e_y, m.concatenate([inner, h_z[-1:]], axis=0)


def _make(library: str, step: Step, size: int) -> Job:
    rng = np.random.default_rng(0)
    grids = [rng.normal(size=(size, size)).astype(np.float32) for _ in range(4)]
    m, scan = namespace(library), scan_of(library)

    def fn(u: Any, v: Any, w: Any, source: Any) -> Any:
        start = (u, v, w) if step is _fdtd else u
        return scan(lambda now, _: (step(m, now, source), None), start, None, STEPS)[0]

    return compiled(library, fn, grids)


WORKLOADS = [
    Workload(
        f"{name}, {STEPS} steps on {size} × {size}",
        lambda lib, step=step, size=size: _make(lib, step, size),
        ("afx", "jax"),
        tolerance=1e-3,
    )
    for name, step in (("heat", _heat), ("Jacobi", _jacobi), ("horizontal diffusion", _hdiff), ("Maxwell", _fdtd))
    for size in (32, 256)
]
