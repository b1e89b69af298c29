"""The paper's classifier of histograms: three kernels of 5, pooled by 2, then 7 × 18 weights and a readout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from tests.benchmarks.libraries import Job, Losses, value_and_grad
from tests.benchmarks.workloads.workload import Workload

if TYPE_CHECKING:  # a peer's process must not load afx
    from afx import Array

__all__ = ["LOSSES", "WORKLOADS", "Classifier", "examples", "parameters"]


@attrs.frozen
class Classifier:
    """The parameters."""

    kernels: Array
    weight: Array
    bias: Array
    readout: Array


def parameters() -> list[np.ndarray]:
    """Draw the parameters from N(0, 1)."""
    rng = np.random.default_rng(0)
    return [rng.normal(size=s).astype(np.float32) for s in ((5, 1, 3), (18, 7), (7,), (7,))]


def examples(count: int) -> list[np.ndarray]:
    """Draw histograms of 16 bins, and to which class each belongs."""
    rng = np.random.default_rng(1)
    x = rng.random((count, 16), dtype=np.float32)
    return [x / x.sum(axis=1, keepdims=True), (rng.random(count) < 0.5).astype(np.float32)]


def _with_afx(model: Classifier, x: Array, targets: Array) -> Array:
    import afx
    from afx import nn

    cells = nn.max_pool(nn.conv(x[:, :, None], model.kernels), 2)
    y = (cells.reshape(x.shape[0], 18) @ model.weight + model.bias) @ model.readout
    return afx.mean(nn.softplus(y) - targets * y)


def _with_jax(p: Any, x: Any, targets: Any) -> Any:
    import jax
    import jax.numpy as jnp

    windows = jnp.stack([x[:, k : k + 12] for k in range(5)], axis=-1)  # faster than lax.conv_general_dilated
    rows = windows @ p[0].reshape(5, 3)
    cells = jnp.maximum(rows[:, 0::2], rows[:, 1::2])
    y = (cells.reshape(x.shape[0], 18) @ p[1] + p[2]) @ p[3]
    return jnp.mean(jax.nn.softplus(y) - targets * y)


def _with_torch(p: Any, x: Any, targets: Any) -> Any:
    from torch.nn import functional as f

    cells = f.max_pool1d(f.conv1d(x[:, None, :], p[0].permute(2, 1, 0)), 2)
    y = (cells.permute(0, 2, 1).reshape(x.shape[0], 18) @ p[1] + p[2]) @ p[3]
    return (f.softplus(y) - targets * y).mean()


def _with_autograd(p: Any, x: Any, targets: Any) -> Any:
    import autograd.numpy as anp

    windows = np.lib.stride_tricks.sliding_window_view(x, 5, axis=1)
    rows = anp.dot(windows, anp.reshape(p[0], (5, 3)))
    cells = anp.max(anp.reshape(rows, (x.shape[0], 6, 2, 3)), axis=2)
    y = anp.dot(anp.dot(anp.reshape(cells, (x.shape[0], 18)), p[1]) + p[2], p[3])
    return anp.mean(anp.logaddexp(y, 0) - targets * y)


LOSSES: Losses = {"afx": _with_afx, "jax": _with_jax, "torch": _with_torch, "autograd": _with_autograd}


def _make(library: str, count: int) -> Job:
    return value_and_grad(library, LOSSES[library], parameters(), examples(count), Classifier)


WORKLOADS = [
    Workload(f"histogram classifier, {count} examples", lambda lib, count=count: _make(lib, count))
    for count in (100, 1000)
]
