"""One step of Adam alone, from the state that the last one left, on gradients that stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.libraries import B1, B2, EPS, RATE, Job, adam_step, arrays
from tests.benchmarks.workloads.mlp import parameters
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]


def _with_afx(p: Any, grads: Any) -> Job:
    import afx
    from afx import optim

    rule = optim.adam(RATE, b1=B1, b2=B2, eps=EPS)
    now: list[Any] = [p, rule.init(p)]
    step = afx.jit(lambda p, g, s: rule.step(p, g, s))

    def run() -> Any:
        now[:] = step(now[0], grads, now[1])
        return now[0]

    return Job(run)


def _with_jax(p: Any, grads: Any) -> Job:
    import jax
    import jax.numpy as jnp

    zeros = tuple([jnp.zeros_like(x) for x in p])
    now: list[Any] = [p, (jnp.zeros(()), zeros, zeros)]
    step = jax.jit(lambda p, g, s: adam_step(jnp.sqrt, p, g, s))

    def run() -> Any:
        now[:] = jax.block_until_ready(step(now[0], grads, now[1]))
        return now[0]

    return Job(run)


def _with_torch(p: Any, grads: Any) -> Job:
    import torch

    leaves = [x.requires_grad_() for x in p]
    for x, g in zip(leaves, grads, strict=True):
        x.grad = g
    rule = torch.optim.Adam(leaves, lr=RATE, betas=(B1, B2), eps=EPS, fused=True)

    def run() -> Any:
        rule.step()
        return leaves

    return Job(run)


MAKERS: dict[str, Callable[[Any, Any], Job]] = {"afx": _with_afx, "jax": _with_jax, "torch": _with_torch}


def _one(rng: np.random.Generator, size: int) -> list[np.ndarray]:
    return [rng.normal(size=size).astype(np.float32)]


def _make(library: str, draw: Callable[[np.random.Generator], list[np.ndarray]]) -> Job:
    rng = np.random.default_rng(0)
    p, grads = (tuple(arrays(library, draw(rng))) for _ in range(2))
    return MAKERS[library](p, grads)


WORKLOADS = [
    Workload("Adam, 7·10^5 in the leaves of the MLP", lambda lib: _make(lib, parameters), tuple(MAKERS)),
    *[
        Workload(
            f"Adam, 10^{power} in one leaf", lambda lib, n=10**power: _make(lib, lambda r: _one(r, n)), tuple(MAKERS)
        )
        for power in (6, 7)
    ],
]
