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
from afx.transforms.derivatives.backward_pass import leaves_out
from afx.transforms.derivatives.jvp import jvp
from afx.transforms.derivatives.vjp import Linearization

__all__ = ["Flattened", "Transposed", "pull_masked", "pull_through", "push_through"]

Leaves = Sequence[Any]
Flat = Callable[..., Leaves]
Push = Callable[[Leaves, Leaves], tuple[Leaves, Leaves]]
Backward = Callable[[Leaves, Leaves], Leaves]
MaskedBackward = Callable[[Leaves, Leaves, Leaves], tuple[Leaves, Leaves]]


class Flattened:
    """A function of pytrees as a function of leaves; it remembers the structure of its last result.

    Attributes:
        fn: the function.
        treedef: the structure of its arguments, by position and by name.
        is_flat: whether these are its leaves: arrays, by position.
        out_tree: the structure of its last result.
    """

    __slots__ = ("fn", "is_flat", "out_tree", "treedef")

    def __init__(self, fn: Callable[..., Any], treedef: Any, *, flat: bool = False) -> None:
        self.fn: Callable[..., Any] = fn
        self.treedef: Any = treedef
        self.is_flat: bool = flat
        self.out_tree: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        """Return the leaves of the result."""
        args, kwargs = self.arguments(leaves)
        outs, self.out_tree = pytree.flatten(self.fn(*args, **kwargs))
        return outs

    def arguments(self, leaves: Leaves) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments by position and by name that have these leaves."""
        if self.is_flat:
            return tuple(leaves), {}
        found: tuple[tuple[Any, ...], dict[str, Any]] = pytree.unflatten(self.treedef, list(leaves))
        return found

    def result(self, outs: Leaves) -> Any:
        """Return the result that has these leaves."""
        return pytree.unflatten(self.out_tree, list(outs))


def pull_through(fn: Flat, xs: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    """Return the cotangents of the inexact ones of ``xs`` through a flat function, None for the others.

    Outputs without a cotangent (None) count for nothing, and what they alone read has none either.
    """
    return _pull(*_recorded(fn, xs), cts)


def _pull(record: Linearization, outs: list[Array], moving: list[bool], cts: Sequence[Any]) -> list[Any]:
    own = [k for k, z in enumerate(outs) if cts[k] is not None and record.owns(z)]
    found = record.pull([outs[k] for k in own], [to_lower_level(cts[k]) for k in own])
    if len(found) == len(moving):
        return found
    rest = iter(found)
    return [next(rest) if m else None for m in moving]


def pull_masked(fn: Flat, xs: Sequence[Any], cts: Sequence[Any], masks: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return what `pull_through` does for cotangents with masks, and the masks of the inexact ones of ``xs``."""
    record, outs, moving = _recorded(fn, xs)
    own = [k for k, z in enumerate(outs) if record.owns(z)]
    gs, alive = record.pull_masked(*[[part[k] for k in own] for part in (outs, cts, masks)])
    found, marks = iter(gs), iter(alive)
    return [next(found) if m else None for m in moving], [next(marks) if m else None for m in moving]


def _recorded(fn: Flat, xs: Sequence[Any]) -> tuple[Linearization, list[Array], list[bool]]:
    """Return the record of a flat function's run, its outputs, and which of ``xs`` are inexact: the record's inputs."""
    moving = [x.dtype.kind in "fc" for x in xs]
    record = Linearization("backward pass")
    try:
        if all(moving):
            found = fn(*record.enter(list(xs)))
        else:
            entered = iter(record.enter([x for x, m in zip(xs, moving, strict=True) if m]))
            found = fn(*[next(entered) if m else x for x, m in zip(xs, moving, strict=True)])
        outs = [z if isinstance(z, Array) else asarray(z) for z in found]
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


class Transposed:
    """The backward rules, plain and with masks, of a forward rule: its pullback along the tangents.

    Args:
        push: (leaves, tangents) to (outputs, output tangents), linear in the tangents.
    """

    __slots__ = ("_left_out", "_push")

    def __init__(self, push: Push) -> None:
        self._push: Push = push
        self._left_out: bool = False

    def left_out(self) -> bool:
        """Tell whether the forward rule left elements of its operands out, by a choice or a selection, in any run."""
        return self._left_out

    def backward(self, xs: Leaves, cts: Leaves) -> Leaves:
        """Return the cotangents of the leaves; outputs without one (None) count for nothing."""
        record, outs, moving = _recorded(self._tangents(xs, cts), _zeros(xs))
        self._left_out = self._left_out or leaves_out(record.tape.entries)
        return _pull(record, outs, moving, cts)

    def masked(self, xs: Leaves, cts: Leaves, masks: Leaves) -> tuple[Leaves, Leaves]:
        """Return cotangents of the leaves and their masks from those of the outputs."""
        return pull_masked(self._tangents(xs, cts), _zeros(xs), cts, masks)

    def _tangents(self, xs: Leaves, cts: Leaves) -> Flat:
        return lambda *ts: [_alike(t, c) for t, c in zip(self._push(xs, ts)[1], cts, strict=True)]


def _zeros(xs: Leaves) -> list[Array]:
    return [to_array(zero_like(x)) for x in xs]


def _alike(tangent: Any, ct: Any) -> Any:
    """Return a tangent in the dtype of its cotangent: numbers that came as residuals are arrays now."""
    if ct is None or (isinstance(tangent, Array) and tangent.dtype is ct.dtype):
        return tangent
    return astype(tangent, aval_of(ct).dtype)
