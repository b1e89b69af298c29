"""Reduction: one weighted sum over slots on a rank, whose plan is made once for all sums over the same slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import attrs

from afx.distributed.mpi.flood import SMALL_BYTES, Flood
from afx.distributed.sums.buffers import Layout, Memory, Ndarray
from afx.distributed.sums.partial import Partial
from afx.distributed.sums.plan import Exchange
from afx.distributed.sums.tree import Node

__all__ = ["MpiReduction", "Participation", "ReductionPort"]


@attrs.frozen(eq=False)
class Participation:
    """Who takes part in sums over some slots, and their messages.

    Attributes:
        slots: those of this rank that take part, in their order.
        root: the rank of the first slot that takes part.
        has_idle: whether some rank has no slot that takes part.
        large: the messages of large buffers.
        small: those of small ones.
    """

    slots: tuple[int, ...]
    root: int
    has_idle: bool
    large: Exchange
    small: Exchange

    @classmethod
    def make(
        cls, slots: Sequence[int], owners: Sequence[int], rank: int, plan: Callable[[bool], Exchange]
    ) -> Participation:
        """Return it for slots that take part.

        Args:
            slots: all of them.
            owners: the rank of each slot.
            rank: this one.
            plan: from whether buffers are small to the messages.
        """
        mine = tuple([slot for slot in slots if owners[slot] == rank])
        has_idle = len({owners[slot] for slot in slots}) < len(set(owners))
        return cls(mine, owners[slots[0]], has_idle, plan(False), plan(True))

    @property
    def floods_one(self) -> bool:
        """Whether a small buffer of a single slot of this rank goes to all others as it is."""
        return self.small.is_flood and len(self.slots) == 1


class ReductionPort(Protocol):
    """What a reduction needs of the link."""

    @property
    def memory(self) -> Memory:
        """Memory that is used again."""
        ...

    def flood(self, layout: Layout, plan: Exchange, tag: int) -> Flood:
        """Return the messages of small buffers, which are kept."""
        ...

    def exchange(self, layout: Layout, plan: Exchange, held: Mapping[Node, list[Ndarray]], tag: int) -> list[Ndarray]:
        """Return the buffers of a sum of which this rank holds some nodes."""
        ...


class MpiReduction:
    """One sum over slots: this rank's own first, then those of all.

    Attributes:
        slots: those of this rank that take part, in their order.
        root: the rank of the first slot that takes part.
        has_idle: whether some rank has no slot that takes part.
    """

    __slots__ = ("_flood", "_layout", "_partial", "_port", "_tag", "_who", "has_idle", "root", "slots", "weights")

    def __init__(
        self, port: ReductionPort, who: Participation, weights: Mapping[int, float], layout: Layout | None, tag: int
    ) -> None:
        self._port = port
        self._who = who
        self._layout = layout
        self._tag = tag
        self._flood: Flood | None = None
        self._partial: Partial | None = None
        self.weights: Mapping[int, float] = weights
        self.slots: tuple[int, ...] = who.slots
        self.root: int = who.root
        self.has_idle: bool = who.has_idle

    def add(self, slot: int, layout: Layout, leaves: Sequence[Ndarray]) -> None:
        """Add the leaves of one of this rank's slots."""
        self._layout, who = layout, self._who
        if who.floods_one and layout.nbytes <= SMALL_BYTES:
            self._flood = self._port.flood(layout, who.small, self._tag)
            self._flood.load(leaves, self.weights[slot])
            return
        if self._partial is None:
            self._partial = Partial(who.large.tree, self.weights, self._port.memory, who.large.tops)
        self._partial.add(slot, layout, leaves)

    def finish(self) -> list[Ndarray]:
        """Return the buffers of the sum."""
        layout, port, who = self._layout, self._port, self._who
        assert layout is not None, "a rank that computes nothing takes no part"
        if self._flood is not None:
            return self._flood.run(layout.empty(port.memory))
        plan = who.small if layout.nbytes <= SMALL_BYTES else who.large
        return port.exchange(layout, plan, {} if self._partial is None else self._partial.held, self._tag)
