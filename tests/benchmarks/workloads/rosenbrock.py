"""The Hessian of Rosenbrock's function: forward over reverse mode, batched over n directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, arrays
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]


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


WORKLOADS = [
    Workload(f"Hessian of Rosenbrock's function, n = {size}", lambda lib, size=size: _make(lib, size))
    for size in (10, 30, 100)
]
