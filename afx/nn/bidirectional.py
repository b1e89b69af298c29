"""Bidirectional recurrence: two nets over the same sequence, one from each end."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.errors import ArgumentError
from afx.nn.initializers import Seed, key_of
from afx.nn.layer import layer
from afx.nn.recurrent import GRU, LSTM, RNN
from afx.ops.manipulation.join import concat
from afx.random import split

__all__ = ["Bidirectional"]

L = TypeVar("L", RNN, GRU, LSTM)


@layer
@attrs.frozen
class Bidirectional(Generic[L]):
    """Two recurrent nets whose outputs stand side by side: each step sees what is before and behind it.

    Source: Schuster & Paliwal 1997.

    Attributes:
        forward: walks from the first step to the last.
        backward: walks from the last step to the first.

    Raises:
        ArgumentError: the nets do not walk in these directions.

    >>> outputs, (first, last) = Bidirectional.create(0, LSTM, 3, 4)(afx.ones((5, 7, 3)))
    >>> outputs.shape, first.hidden.shape
    ((5, 7, 8), (5, 4))
    """

    forward: L
    backward: L

    def __attrs_post_init__(self) -> None:
        """Check the directions where the layer is made."""
        if self.forward.reverse or not self.backward.reverse:
            raise ArgumentError(
                f"Bidirectional: one net walks forward, the other backward: got reverse={self.forward.reverse} and "
                f"reverse={self.backward.reverse}; make the second with reverse=True"
            )

    @classmethod
    def create(cls, seed: Seed, kind: type[L], inputs: int, hidden: int, **options: Any) -> Bidirectional[L]:
        """Return two nets of one kind (`RNN`, `GRU`, `LSTM`); options are those of its ``create``."""
        first, second = split(key_of(seed))
        forward = kind.create(first, inputs, hidden, **options)
        return Bidirectional(forward, kind.create(second, inputs, hidden, reverse=True, **options))

    def __call__(self, x: ArrayLike, state: tuple[Any, Any] | None = None) -> tuple[Array, tuple[Any, Any]]:
        """Return float[..., time, 2·hidden] for float[..., time, inputs], and the last state of each net.

        Args:
            x: the sequences.
            state: where each net starts; zeros without it.
        """
        start = (None, None) if state is None else state
        ahead, last = self.forward(x, start[0])
        back, first = self.backward(x, start[1])
        return concat((ahead, back), axis=-1), (last, first)
