"""One step of Adam alone, from the state that the last one left, on gradients that stay the same.

Where they are given their arguments' memory both write in place; else afx takes that of what nobody holds any more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.libraries import B1, B2, EPS, RATE, Job, adam_step, arrays
from tests.benchmarks.workloads.mlp import parameters
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]


def _with_afx(p: Any, grads: Any, donated: bool = False) -> Job:
    import afx
    from afx import optim

    rule = optim.adam(RATE, b1=B1, b2=B2, eps=EPS)
    now: list[Any] = [p, rule.init(p)]
    step = afx.jit(lambda p, g, s: rule.step(p, g, s), donate_argnums=(0, 2) if donated else ())

    def run() -> Any:
        now[:] = step(now[0], grads, now[1])
        return now[0]

    return Job(run)


def _with_jax(p: Any, grads: Any, donated: bool = False) -> Job:
    import jax
    import jax.numpy as jnp

    mu, nu = (tuple([jnp.zeros_like(x) for x in p]) for _ in range(2))
    now: list[Any] = [p, (jnp.zeros(()), mu, nu)]
    step = jax.jit(lambda p, g, s: adam_step(jnp.sqrt, p, g, s), donate_argnums=(0, 2) if donated else ())

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


Makers = dict[str, Callable[[Any, Any], Job]]
Drawing = Callable[[np.random.Generator], list[np.ndarray]]

PLAIN: Makers = {"afx": _with_afx, "jax": _with_jax, "torch": _with_torch}
DONATED: Makers = {
    "afx": lambda p, grads: _with_afx(p, grads, donated=True),
    "jax": lambda p, grads: _with_jax(p, grads, donated=True),
}
SIZES: dict[str, Drawing] = {
    "7·10^5 in the MLP's leaves": parameters,
    "10^6 in one leaf": lambda rng: [rng.normal(size=10**6).astype(np.float32)],
    "10^7 in one leaf": lambda rng: [rng.normal(size=10**7).astype(np.float32)],
}


def _make(library: str, makers: Makers, draw: Drawing) -> Job:
    rng = np.random.default_rng(0)
    p, grads = (tuple(arrays(library, draw(rng))) for _ in range(2))
    return makers[library](p, grads)


WORKLOADS = [
    Workload(f"Adam, {size}{how}", lambda lib, makers=makers, draw=draw: _make(lib, makers, draw), tuple(makers))
    for how, makers in (("", PLAIN), (", donated", DONATED))
    for size, draw in SIZES.items()
]
