"""LeNet on images of 28 × 28: two convolutions with pooling, three linear maps; value and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, Losses, value_and_grad
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

SHAPES = ((5, 5, 1, 6), (6,), (5, 5, 6, 16), (16,), (256, 120), (120,), (120, 84), (84,), (84, 10), (10,))


def _readout(relu: Callable[[Any], Any], p: Any, x: Any) -> Any:
    return relu(relu(x @ p[4] + p[5]) @ p[6] + p[7]) @ p[8] + p[9]


def _with_afx(p: Any, x: Any, targets: Any) -> Any:
    import afx
    from afx import nn

    x = nn.max_pool(nn.relu(nn.conv(x, p[0]) + p[1]), 2)
    x = nn.max_pool(nn.relu(nn.conv(x, p[2]) + p[3]), 2)
    return afx.mean(nn.softmax_cross_entropy(_readout(nn.relu, p, x.reshape(x.shape[0], 256)), targets))


def _with_jax(p: Any, x: Any, targets: Any) -> Any:
    import jax

    def conv(x: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def pool(x: Any) -> Any:  # faster than lax.reduce_window
        x = jax.numpy.maximum(x[:, 0::2], x[:, 1::2])
        return jax.numpy.maximum(x[:, :, 0::2], x[:, :, 1::2])

    x = pool(jax.nn.relu(conv(x, p[0]) + p[1]))
    x = pool(jax.nn.relu(conv(x, p[2]) + p[3]))
    scores = _readout(jax.nn.relu, p, x.reshape(x.shape[0], 256))
    return -(targets * jax.nn.log_softmax(scores)).sum(-1).mean()


def _with_torch(p: Any, x: Any, targets: Any) -> Any:
    import torch
    from torch.nn import functional as f

    x = f.max_pool2d(torch.relu(f.conv2d(x, p[0], p[1])), 2)
    x = f.max_pool2d(torch.relu(f.conv2d(x, p[2], p[3])), 2)
    return f.cross_entropy(_readout(torch.relu, p, x.reshape(x.shape[0], 256)), targets)


LOSSES: Losses = {"afx": _with_afx, "jax": _with_jax, "torch": _with_torch}


def _make(library: str, batch: int) -> Job:
    rng = np.random.default_rng(0)
    p = [(rng.normal(size=s) / np.sqrt(np.prod(s[:-1]) + 1)).astype(np.float32) for s in SHAPES]
    x = rng.normal(size=(batch, 28, 28, 1)).astype(np.float32)
    targets = np.eye(10, dtype=np.float32)[rng.integers(0, 10, batch)]
    if library != "torch":
        return value_and_grad(library, LOSSES[library], p, [x, targets])
    job = value_and_grad(library, LOSSES[library], _channels_first(p), [x.transpose(0, 3, 1, 2), targets])
    return Job(job.run, lambda result: (result[0], _channels_last([g.numpy() for g in result[1]])))


def _channels_first(p: list[np.ndarray]) -> list[np.ndarray]:
    """Lay parameters out as torch has them, with the channels before the positions."""
    first, second, weight = (
        np.ascontiguousarray(k)
        for k in (
            p[0].transpose(3, 2, 0, 1),
            p[2].transpose(3, 2, 0, 1),
            p[4].reshape(4, 4, 16, 120).transpose(2, 0, 1, 3),
        )
    )
    return [first, p[1], second, p[3], weight.reshape(256, 120), *p[5:]]


def _channels_last(p: list[np.ndarray]) -> list[np.ndarray]:
    weight = p[4].reshape(16, 4, 4, 120).transpose(1, 2, 0, 3).reshape(256, 120)
    return [p[0].transpose(2, 3, 1, 0), p[1], p[2].transpose(2, 3, 1, 0), p[3], weight, *p[5:]]


WORKLOADS = [
    Workload(
        f"LeNet, batch {batch}", lambda lib, batch=batch: _make(lib, batch), ("afx", "jax", "torch"), tolerance=1e-3
    )
    for batch in (16, 128)
]
