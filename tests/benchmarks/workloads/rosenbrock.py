"""Hessians of Rosenbrock's function: forward over reverse mode, at one point in n dimensions, or at many in five."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, arrays, compiled, transforms
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]


POINTS = 1000


def _rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def _make(library: str, size: int) -> Job:
    (x,) = arrays(library, [np.random.default_rng(0).normal(size=size).astype(np.float32)])
    if library == "afx":
        import afx

        mine = afx.jit(afx.hessian(_rosenbrock))
        return Job(lambda: mine(x))
    if library == "jax":
        import jax

        theirs = jax.jit(jax.hessian(_rosenbrock))
        return Job(lambda: theirs(x).block_until_ready())
    if library == "torch":
        import torch

        run = torch.func.hessian(_rosenbrock)
        return Job(lambda: run(x))
    import autograd

    slow = autograd.hessian(_rosenbrock)
    return Job(lambda: slow(x))


def _make_small(library: str) -> Job:
    m = transforms(library)
    points = np.random.default_rng(0).normal(size=(POINTS, 5)).astype(np.float32)
    return compiled(library, m.vmap(m.hessian(_rosenbrock)), [points])


WORKLOADS = [
    Workload(f"Hessian of Rosenbrock's function, n = {size}", lambda lib, size=size: _make(lib, size))
    for size in (10, 30, 100)
]
WORKLOADS.append(Workload(f"Hessians of Rosenbrock's function, n = 5, {POINTS} points", _make_small, ("afx", "jax")))
