"""One step of Adam alone, from the state that the last one left, on gradients that stay the same.

Where they are given their arguments' memory both write in place; else afx takes that of what nobody holds any more.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.c_library import C, c_function, pointer
from tests.benchmarks.libraries import B1, B2, EPS, Job, adam_step, arrays, rate
from tests.benchmarks.workloads.mlp import parameters
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]


def _with_afx(p: Any, grads: Any, donated: bool = False) -> Job:
    import afx
    from afx import optim

    rule = optim.adam(rate(), b1=B1, b2=B2, eps=EPS)
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
    rule = torch.optim.Adam(leaves, lr=rate(), betas=(B1, B2), eps=EPS, fused=True)

    def run() -> Any:
        rule.step()
        return leaves

    return Job(run)


def _with_c(p: Any, grads: Any, donated: bool = False) -> Job:
    """Take one set of arrays for the state before a step and one for that behind it, or one for both."""
    now = [[x.copy() for x in p], *[[np.zeros_like(x) for x in p] for _ in range(2)]]
    new = now if donated else [[np.empty_like(x) for x in group] for group in now]
    adam, count, sets = c_function("adam"), 0, [now, new]

    def run() -> Any:
        nonlocal count
        count += 1
        root = math.sqrt(1 - B2**count)
        rates = [ctypes.c_float(x) for x in (B1, B2, rate() * root / (1 - B1**count), EPS * root)]
        for x, g, m, v, *out in zip(sets[0][0], grads, *sets[0][1:], *sets[1], strict=True):
            adam(ctypes.c_long(x.size), *map(pointer, (x, g, m, v, *out)), *rates)
        sets.reverse()
        return sets[0][0]

    return Job(run)


Makers = dict[str, Callable[[Any, Any], Job]]
Drawing = Callable[[np.random.Generator], list[np.ndarray]]

PLAIN: Makers = {"afx": _with_afx, "jax": _with_jax, "torch": _with_torch, C: _with_c}
DONATED: Makers = {
    "afx": lambda p, grads: _with_afx(p, grads, donated=True),
    "jax": lambda p, grads: _with_jax(p, grads, donated=True),
    C: lambda p, grads: _with_c(p, grads, donated=True),
}
SIZES: dict[str, Drawing] = {
    "10^3 in one leaf": lambda rng: [rng.normal(size=10**3).astype(np.float32)],
    "10^5 in one leaf": lambda rng: [rng.normal(size=10**5).astype(np.float32)],
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
