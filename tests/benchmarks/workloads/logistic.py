"""Logistic regression on 100 000 rows of 50 numbers: two products of a tall matrix with a vector."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, Losses, value_and_grad
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

ROWS, COLUMNS = 100_000, 50


def _with_afx(p: Any, x: Any, targets: Any) -> Any:
    import afx
    from afx import nn

    z = x @ p[0] + p[1]
    return afx.mean(nn.softplus(z) - targets * z)


def _with_jax(p: Any, x: Any, targets: Any) -> Any:
    import jax

    z = x @ p[0] + p[1]
    return (jax.nn.softplus(z) - targets * z).mean()


def _with_torch(p: Any, x: Any, targets: Any) -> Any:
    import torch

    return torch.nn.functional.binary_cross_entropy_with_logits(x @ p[0] + p[1], targets)


def _with_autograd(p: Any, x: Any, targets: Any) -> Any:
    import autograd.numpy as anp

    z = anp.dot(x, p[0]) + p[1]
    return anp.mean(anp.logaddexp(z, 0) - targets * z)


LOSSES: Losses = {"afx": _with_afx, "jax": _with_jax, "torch": _with_torch, "autograd": _with_autograd}


def _make(library: str) -> Job:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    targets = (rng.random(ROWS) < 0.5).astype(np.float32)
    params = [(rng.normal(size=COLUMNS) * 0.1).astype(np.float32), np.zeros((), np.float32)]
    return value_and_grad(library, LOSSES[library], params, [x, targets])


WORKLOADS = [Workload(f"logistic regression, {ROWS} × {COLUMNS}", _make)]
