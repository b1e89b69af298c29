"""A small transformer block (normalise, attend, normalise, two linear maps with GELU): value and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, Losses, value_and_grad
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

BATCH, LENGTH, WIDTH, HEADS, INNER = 8, 64, 128, 4, 512
EACH = WIDTH // HEADS
SHAPES = (
    *((WIDTH,), (WIDTH,), (WIDTH, 3 * WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,)),
    *((WIDTH,), (WIDTH,), (WIDTH, INNER), (INNER,), (INNER, WIDTH), (WIDTH,)),
)
Function = Callable[..., Any]


def _block(m: Any, norm: Function, softmax: Function, gelu: Function) -> Function:
    """Return the mean of the block's output times given weights, written as NumPy would."""

    def loss(p: Any, x: Any, weights: Any) -> Any:
        h = norm(x, p[0], p[1]) @ p[2] + p[3]
        q, k, v = m.transpose(m.reshape(h, (BATCH, LENGTH, 3, HEADS, EACH)), (2, 0, 3, 1, 4))
        mixed = softmax(q @ m.swapaxes(k, -1, -2) * EACH**-0.5) @ v
        x = x + m.reshape(m.transpose(mixed, (0, 2, 1, 3)), (BATCH, LENGTH, WIDTH)) @ p[4] + p[5]
        x = x + gelu(norm(x, p[6], p[7]) @ p[8] + p[9]) @ p[10] + p[11]
        return m.mean(x * weights)

    return loss


def _norm(m: Any) -> Function:
    def norm(x: Any, scale: Any, shift: Any) -> Any:
        centred = x - m.mean(x, axis=-1, keepdims=True)
        return centred / m.sqrt(m.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * scale + shift

    return norm


def _with_afx(*args: Any) -> Any:
    import afx
    from afx import nn

    return _block(afx, lambda x, scale, shift: nn.LayerNorm(scale, shift)(x), nn.softmax, nn.gelu)(*args)


def _with_jax(*args: Any) -> Any:
    import jax

    return _block(jax.numpy, _norm(jax.numpy), jax.nn.softmax, jax.nn.gelu)(*args)


def _with_autograd(*args: Any) -> Any:
    import autograd.numpy as anp

    def softmax(x: Any) -> Any:
        e = anp.exp(x - anp.max(x, axis=-1, keepdims=True))
        return e / anp.sum(e, axis=-1, keepdims=True)

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + anp.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x * x * x)))

    return _block(anp, _norm(anp), softmax, gelu)(*args)


def _with_torch(p: Any, x: Any, weights: Any) -> Any:
    from torch.nn import functional as f

    h = f.layer_norm(x, (WIDTH,), p[0], p[1]) @ p[2] + p[3]
    q, k, v = h.reshape(BATCH, LENGTH, 3, HEADS, EACH).permute(2, 0, 3, 1, 4)
    mixed = f.scaled_dot_product_attention(q, k, v)
    x = x + mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH) @ p[4] + p[5]
    h = f.gelu(f.layer_norm(x, (WIDTH,), p[6], p[7]) @ p[8] + p[9], approximate="tanh")
    return ((x + h @ p[10] + p[11]) * weights).mean()


LOSSES: Losses = {"afx": _with_afx, "jax": _with_jax, "torch": _with_torch, "autograd": _with_autograd}


def _make(library: str) -> Job:
    rng = np.random.default_rng(0)
    p = [(rng.normal(size=s) * 0.1 + (i in (0, 6))).astype(np.float32) for i, s in enumerate(SHAPES)]
    data = [rng.normal(size=(BATCH, LENGTH, WIDTH)).astype(np.float32) for _ in range(2)]
    return value_and_grad(library, LOSSES[library], p, data)


WORKLOADS = [Workload(f"transformer block, {BATCH} × {LENGTH} × {WIDTH}, {HEADS} heads", _make, tolerance=1e-3)]
