"""Batching rules: the kinds' rules that move a batch axis through an op."""

from __future__ import annotations

from typing import Any

from afx.core.aval import aval_of
from afx.core.primitive import Params, Value, lookup
from afx.core.tracing.tracer import bind

__all__ = ["batch_elementwise", "batch_reduction", "batch_unchanged"]


def batch_elementwise(name: str) -> Any:
    """Return the batching rule of an elementwise op: unbatched axes broadcast."""

    def batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
        p = lookup(name)
        rank = max(aval_of(x).ndim - b for x, b in zip(xs, batched, strict=True))
        ys = [
            x.reshape((size,) + (1,) * (rank - x.ndim + 1) + x.shape[1:]) if b and x.ndim <= rank else x
            for x, b in zip(xs, batched, strict=True)
        ]
        return bind(p, *ys, **params)

    return batch


def batch_unchanged(name: str) -> Any:
    """Return the batching rule of an op that acts on each element alone, whatever the axes."""

    def batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
        return bind(lookup(name), *xs, **params)

    return batch


def batch_reduction(fn: Any) -> Any:
    """Return the batching rule of a reduction from its public function."""

    def batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
        return fn(xs[0], axis=tuple([a + 1 for a in params["axis"]]))

    return batch
