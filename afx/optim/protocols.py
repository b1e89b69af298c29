"""Protocols: transformations change gradients, optimizers make steps of them; the two share `init` alone.

A `Transformation` takes gradients and returns updates that still point uphill: `scale_by_adam`, clips, weight decay. A
`Rescaling` is one that only changes their size. An `Optimizer` turns the sign: it has `step`, and `descend`, which
returns what to add to the parameters. All are frozen and pure: state in, state out.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Protocol, TypeVar

import attrs

from afx.core.array.array import ArrayLike

__all__ = ["EmptyState", "Optimizer", "Rescaling", "Transformation"]

T = TypeVar("T")
S = TypeVar("S")


class Transformation(Protocol[S]):
    """Changes gradients and keeps their sign; ``S`` is its state."""

    # Any, for the state's type follows from that of the parameters, and no protocol can say how
    def init(self, params: Any, /) -> S:
        """Return the state for parameters of this structure."""
        ...

    def update(self, grads: T, state: S, params: T, value: ArrayLike | None, /) -> tuple[T, S]:
        """Return the changed gradients, which still point uphill, and the next state."""
        ...


class Rescaling(Transformation[S], Protocol[S]):
    """A transformation that only changes sizes, so that it may stand behind an optimizer too."""

    rescales: ClassVar[Literal[True]]


class Optimizer(Protocol[S]):
    """Makes steps that go downhill; ``S`` is its state."""

    def init(self, params: Any, /) -> S:
        """Return the state for parameters of this structure."""
        ...

    def descend(self, grads: T, state: S, params: T, value: ArrayLike | None, /) -> tuple[T, S]:
        """Return what to add to the parameters, and the next state."""
        ...

    def step(self, params: T, grads: T, state: S, *, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return the next parameters and state."""
        ...


@attrs.frozen
class EmptyState:
    """The state of what has none."""
