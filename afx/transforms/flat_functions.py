"""Flat functions: functions of leaves, and their derivatives along all inexact leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from afx import pytree
from afx.core.array.array import Array
from afx.core.aval import aval_of
from afx.core.tracing.tracer import to_array, to_lower_level
from afx.ops.creation.creation import asarray
from afx.ops.manipulation.shape import astype
from afx.transforms._arguments import zero_like
from afx.transforms.jvp import jvp
from afx.transforms.vjp import Linearization

__all__ = ["Flattened", "pull_masked", "pull_through", "push_through", "transpose_push"]

Leaves = Sequence[Any]
Flat = Callable[..., Leaves]
Push = Callable[[Leaves, Leaves], tuple[Leaves, Leaves]]
Backward = Callable[[Leaves, Leaves], Leaves]
MaskedBackward = Callable[[Leaves, Leaves, Leaves], tuple[Leaves, Leaves]]


class Flattened:
    """A function of pytrees as a function of leaves; it remembers the structure of its last result."""

    __slots__ = ("fn", "out_tree", "treedef")

    def __init__(self, fn: Callable[..., Any], treedef: Any) -> None:
        self.fn: Callable[..., Any] = fn
        self.treedef: Any = treedef
        self.out_tree: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        """Return the leaves of the result."""
        args, kwargs = pytree.unflatten(self.treedef, list(leaves))
        outs, self.out_tree = pytree.flatten(self.fn(*args, **kwargs))
        return outs


def pull_through(fn: Flat, xs: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    """Return the cotangents of the inexact ones of ``xs`` through a flat function, None for the others.

    Outputs without a cotangent (None) count for nothing, and what they alone read has none either.
    """
    record, outs, moving = _recorded(fn, xs)
    own = [k for k, z in enumerate(outs) if record.owns(z) and cts[k] is not None]
    found = iter(record.pull([outs[k] for k in own], [to_lower_level(cts[k]) for k in own]))
    return [next(found) if m else None for m in moving]


def pull_masked(fn: Flat, xs: Sequence[Any], cts: Sequence[Any], masks: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return what `pull_through` does for cotangents with masks, and the masks of the inexact ones of ``xs``."""
    record, outs, moving = _recorded(fn, xs)
    own = [k for k, z in enumerate(outs) if record.owns(z)]
    gs, alive = record.pull_masked(*[[part[k] for k in own] for part in (outs, cts, masks)])
    found, marks = iter(gs), iter(alive)
    return [next(found) if m else None for m in moving], [next(marks) if m else None for m in moving]


def _recorded(fn: Flat, xs: Sequence[Any]) -> tuple[Linearization, list[Array], list[bool]]:
    """Return the record of a flat function's run, its outputs, and which of ``xs`` are inexact: the record's inputs."""
    moving = [aval_of(x).dtype.kind in "fc" for x in xs]
    record = Linearization("backward pass")
    try:
        entered = iter(record.enter([x for x, m in zip(xs, moving, strict=True) if m]))
        outs = [asarray(z) for z in fn(*[next(entered) if m else x for x, m in zip(xs, moving, strict=True)])]
    finally:
        record.tape.finish()
    return record, outs, moving


def push_through(fn: Flat, xs: Sequence[Any], ts: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return outputs and tangents of a flat function along the tangents of its inexact inputs."""
    moving = [aval_of(x).dtype.kind in "fc" for x in xs]

    def of_moving(*ys: Any) -> list[Array]:
        values = iter(ys)
        return [asarray(z) for z in fn(*[next(values) if m else x for x, m in zip(xs, moving, strict=True)])]

    if not any(moving):
        outs = of_moving()
        return outs, [to_array(zero_like(z)) for z in outs]
    chosen = [(x, t) for x, t, m in zip(xs, ts, moving, strict=True) if m]
    return jvp(of_moving, tuple([x for x, _ in chosen]), tuple([t for _, t in chosen]))


def transpose_push(push: Push) -> tuple[Backward, MaskedBackward]:
    """Return the backward rules, plain and with masks, of a forward rule: its pullback along the tangents.

    Args:
        push: (leaves, tangents) to (outputs, output tangents), linear in the tangents.
    """

    def tangents(xs: Leaves, cts: Leaves) -> Flat:
        return lambda *ts: [_alike(t, c) for t, c in zip(push(xs, ts)[1], cts, strict=True)]

    def backward(xs: Leaves, cts: Leaves) -> Leaves:
        return pull_through(tangents(xs, cts), _zeros(xs), cts)

    def masked(xs: Leaves, cts: Leaves, masks: Leaves) -> tuple[Leaves, Leaves]:
        return pull_masked(tangents(xs, cts), _zeros(xs), cts, masks)

    return backward, masked


def _zeros(xs: Leaves) -> list[Array]:
    return [to_array(zero_like(x)) for x in xs]


def _alike(tangent: Any, ct: Any) -> Any:
    """Return a tangent in the dtype of its cotangent: numbers that came as residuals are arrays now."""
    return tangent if ct is None else astype(tangent, aval_of(ct).dtype)
