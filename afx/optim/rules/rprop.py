"""Rprop: each element has a step size of its own, which follows the signs of its gradients."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.errors import ArgumentError
from afx.ops.elementwise.arithmetic import sign
from afx.ops.elementwise.where import clip, where
from afx.optim.hyperparameters import count_zero, is_within, positive
from afx.optim.leaves import as_real, filled, map_trained, zeros_of
from afx.optim.step import Steps, check_kind

__all__ = ["Rprop", "RpropState", "rprop"]

T = TypeVar("T")


@attrs.frozen
class RpropState(Generic[T]):
    """The state of Rprop.

    Attributes:
        count: the number of steps taken.
        sizes: the step size of each element.
        previous: the last gradients, 0 where their sign had changed.
    """

    count: Array
    sizes: T
    previous: T


@attrs.frozen
class Rprop(Steps[RpropState[Any]]):
    """Rprop; made by `rprop`, which says what the attributes are."""

    learning_rate: float = 1e-2
    shrink: float = 0.5
    grow: float = 1.2
    least: float = 1e-6
    most: float = 50.0

    def __attrs_post_init__(self) -> None:
        for name in ("shrink", "grow", "least", "most"):
            positive(name, getattr(self, name), "rprop")
        if callable(self.learning_rate):
            raise ArgumentError(
                "rprop: learning_rate is a number, the first size: got a schedule; sizes follow the signs"
            )
        positive("learning_rate", self.learning_rate, "rprop")
        if not (is_within(self.shrink, lambda s: s < 1) and is_within(self.grow, lambda s: s >= 1)):
            raise ArgumentError(
                f"rprop: shrink is below 1, and grow 1 or more: got {self.shrink} and {self.grow}; use 0.5 and 1.2"
            )

    def init(self, params: Any) -> RpropState[Any]:
        """Return the state before the first step."""
        sizes = filled(zeros_of(params, "rprop", real=True), self.learning_rate)
        return RpropState(count_zero(), sizes, zeros_of(params, "rprop"))

    def descend(
        self, grads: T, state: RpropState[Any], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, RpropState[Any]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, RpropState, "rprop")
        turns = map_trained(lambda g, p: (g * p.conj()).real if g.dtype.kind == "c" else g * p, grads, state.previous)

        def resized(size: Array, turn: Array) -> Array:
            factor = where(turn > 0, as_real(self.grow, size), where(turn < 0, as_real(self.shrink, size), 1.0))
            return clip(size * factor, as_real(self.least, size), as_real(self.most, size))

        sizes = map_trained(resized, state.sizes, turns)
        kept = map_trained(lambda g, turn: where(turn < 0, 0.0, g), grads, turns)
        return map_trained(lambda s, g: -s * sign(g), sizes, kept), RpropState(state.count + 1, sizes, kept)


def rprop(
    learning_rate: float = 1e-2, *, shrink: float = 0.5, grow: float = 1.2, least: float = 1e-6, most: float = 50.0
) -> Rprop:
    """Return Rprop: elements move against the signs of their gradients, farther while these stay, less when they change.

    It is for whole gradients: noise of batches changes signs. Where a sign changes the element rests for a step.

    Source: Riedmiller & Braun 1993, in the form without backtracking of Igel & Hüsken 2000, as in torch and Optax.

    Args:
        learning_rate: the first step size of every element, above 0.
        shrink: what a size is multiplied by where a sign changes, above 0 and below 1.
        grow: and where it stays, 1 or more.
        least: the least size, above 0.
        most: the largest size, above 0.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = rprop(0.1)
    >>> optimizer.step(afx.ones(2), afx.asarray([4.0, -0.1]), optimizer.init(afx.ones(2)))[0]
    Array([0.9, 1.1], dtype=float32)
    """
    return Rprop(learning_rate, shrink, grow, least, most)
