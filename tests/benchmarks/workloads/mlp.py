"""A perceptron 784-512-512-10 under the softmax cross entropy: one training step with Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, Losses, training
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS", "parameters"]

SHAPES = ((784, 512), (512,), (512, 512), (512,), (512, 10), (10,))


def parameters(rng: np.random.Generator) -> list[np.ndarray]:
    """Draw the weights and biases, layer by layer."""
    return [(rng.normal(size=s) * 0.05).astype(np.float32) for s in SHAPES]


def _scores(relu: Callable[[Any], Any], p: Any, x: Any) -> Any:
    return relu(relu(x @ p[0] + p[1]) @ p[2] + p[3]) @ p[4] + p[5]


def _with_afx(p: Any, x: Any, targets: Any) -> Any:
    import afx
    from afx import nn

    return afx.mean(nn.softmax_cross_entropy(_scores(nn.relu, p, x), targets))


def _with_jax(p: Any, x: Any, targets: Any) -> Any:
    import jax

    return -(targets * jax.nn.log_softmax(_scores(jax.nn.relu, p, x))).sum(-1).mean()


def _with_torch(p: Any, x: Any, targets: Any) -> Any:
    import torch

    return torch.nn.functional.cross_entropy(_scores(torch.relu, p, x), targets)


def _with_autograd(p: Any, x: Any, targets: Any) -> Any:
    import autograd.numpy as anp

    scores = _scores(lambda x: anp.maximum(x, 0), p, x)
    shifted = scores - anp.max(scores, axis=1, keepdims=True)
    logs = shifted - anp.log(anp.sum(anp.exp(shifted), axis=1, keepdims=True))
    return -anp.mean(anp.sum(targets * logs, axis=1))


LOSSES: Losses = {"afx": _with_afx, "jax": _with_jax, "torch": _with_torch, "autograd": _with_autograd}


def _make(library: str, batch: int) -> Job:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(batch, 784)).astype(np.float32)
    targets = np.eye(10, dtype=np.float32)[rng.integers(0, 10, batch)]
    return training(library, LOSSES[library], parameters(rng), [x, targets])


WORKLOADS = [
    Workload(f"MLP 784-512-512-10 with Adam, batch {batch}", lambda lib, batch=batch: _make(lib, batch), tolerance=1e-3)
    for batch in (32, 128, 512)
]
