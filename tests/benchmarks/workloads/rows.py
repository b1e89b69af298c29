"""Softmax and layer normalisation of the rows of a matrix: value and gradients of a weighted sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, namespace, value_and_grad
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

Function = Callable[..., Any]


def _softmax(library: str) -> Function:
    if library == "afx":
        from afx import nn

        return nn.softmax
    if library == "jax":
        import jax

        return jax.nn.softmax
    m = namespace(library)
    if library == "torch":
        return lambda x: m.softmax(x, -1)

    def softmax(x: Any) -> Any:
        e = m.exp(x - m.max(x, axis=-1, keepdims=True))
        return e / m.sum(e, axis=-1, keepdims=True)

    return softmax


def _norm(library: str) -> Function:
    if library == "afx":
        from afx import nn

        return lambda x, scale, shift: nn.LayerNorm(scale, shift)(x)
    m = namespace(library)
    if library == "torch":
        return lambda x, scale, shift: m.nn.functional.layer_norm(x, x.shape[-1:], scale, shift)

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        centred = x - m.mean(x, axis=-1, keepdims=True)
        return centred / m.sqrt(m.mean(centred * centred, axis=-1, keepdims=True) + 1e-5) * scale + shift

    return norm


def _make(library: str, what: Callable[[str], Function], shape: tuple[int, int], vectors: int) -> Job:
    rng = np.random.default_rng(0)
    params = [rng.normal(size=s).astype(np.float32) for s in (shape, *[shape[1:]] * vectors)]
    weights = rng.normal(size=shape).astype(np.float32)
    fn, m = what(library), namespace(library)
    return value_and_grad(library, lambda p, w: m.sum(fn(*p) * w), params, [weights])


WORKLOADS = [
    Workload(
        f"{name} of rows, {shape[0]} × {shape[1]}",
        lambda lib, what=what, shape=shape, vectors=vectors: _make(lib, what, shape, vectors),
        tolerance=1e-3,
    )
    for name, what, vectors in (("softmax", _softmax, 0), ("layer norm", _norm, 2))
    for shape in ((64, 128), (4096, 64), (256, 4096))
]
