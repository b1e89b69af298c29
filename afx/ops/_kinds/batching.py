"""Batching rules: the kinds' rules that move a batch axis through an op."""

from __future__ import annotations

from typing import Any

from afx.core.aval import shape_of
from afx.core.primitive import Params, Value, lookup
from afx.core.tracing.tracer import bind

__all__ = ["batch_along_axes", "batch_elementwise", "batch_unchanged", "with_batch_axis"]


def batch_elementwise(name: str) -> Any:
    """Return the batching rule of an elementwise op: unbatched axes broadcast."""

    def batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
        p = lookup(name)
        rank = max([len(shape_of(x)) - b for x, b in zip(xs, batched, strict=True)])
        ys = [
            x.reshape((size,) + (1,) * (rank - x.ndim + 1) + x.shape[1:]) if b and x.ndim <= rank else x
            for x, b in zip(xs, batched, strict=True)
        ]
        return bind(p, *ys, **params)

    return batch


def batch_unchanged(name: str) -> Any:
    """Return the batching rule of an op of one operand that leaves leading axes alone: its axes count from the back."""

    def batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
        return bind(lookup(name), *xs, **params)

    return batch


def batch_along_axes(name: str) -> Any:
    """Return the batching rule of an op whose parameter ``axis``, if it has one, counts axes from the front.

    Each operand gets the batch axis in front, and ``axis``, an integer or several, moves by one.
    """

    def batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
        ys = [with_batch_axis(size, x, b) for x, b in zip(xs, batched, strict=True)]
        if "axis" in params:
            axis = params["axis"]
            params = {**params, "axis": tuple([a + 1 for a in axis]) if axis.__class__ is tuple else axis + 1}
        return bind(lookup(name), *ys, **params)

    return batch


def with_batch_axis(size: int, x: Value, batched: bool) -> Value:
    """Return an operand with the batch axis in front, repeated where it is the same for all."""
    return x if batched else bind(lookup("broadcast_to"), x, shape=(size, *shape_of(x)))
