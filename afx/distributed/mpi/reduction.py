"""Reduction: one weighted sum over slots on a rank, whose plan is made once for all sums over the same slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import attrs

from afx.distributed.mpi.flood import SMALL_BYTES, Flood
from afx.distributed.mpi.shared_parts import SharedParts
from afx.distributed.mpi.shared_sum import SHARED_MOST_NODES, SharedSum, most_nodes
from afx.distributed.sums.buffers import Layout, Memory, Ndarray
from afx.distributed.sums.packets import span_parts
from afx.distributed.sums.partial import Partial, refuse_unequal
from afx.distributed.sums.plan import DIRECT_MOST_RANKS
from afx.distributed.sums.rounds import WHOLE, Exchange, Span, slot_span
from afx.distributed.sums.tree import Node

__all__ = ["MpiReduction", "Participation", "ReductionPort"]

SUM_TAG: Final = 64  # tags below it are those of other messages
SUM_TAGS: Final = 1 << 16


@attrs.frozen(eq=False)
class Participation:
    """Who takes part in sums over some slots, and their messages.

    Attributes:
        slots: those of this rank that take part, in their order.
        root: the rank of the first slot that takes part.
        has_idle: whether some rank has no slot that takes part.
        large: the messages of large buffers.
        small: those of small ones.
        small_shared: the sums of small ones in memory that all ranks see; None where there is none.
        large_shared: those of large ones.
        span: the part of each buffer that this rank gets.
    """

    slots: tuple[int, ...]
    root: int
    has_idle: bool
    large: Exchange
    small: Exchange
    small_shared: Exchange | None
    large_shared: Exchange | None
    span: Span

    @classmethod
    def make(
        cls,
        slots: Sequence[int],
        owners: Sequence[int],
        rank: int,
        plan: Callable[[bool], Exchange],
        *,
        by_slot: bool,
        is_one_machine: bool,
    ) -> Participation:
        """Return it for slots that take part.

        Args:
            slots: all of them.
            owners: the rank of each slot.
            rank: this one.
            plan: from whether buffers are small to the messages.
            by_slot: whether each rank gets the part of its slots alone.
            is_one_machine: whether the ranks are.
        """
        mine = tuple([slot for slot in slots if owners[slot] == rank])
        has_idle = len({owners[slot] for slot in slots}) < len(set(owners))
        large, small, ranks = plan(False), plan(True), len(set(owners))
        span = slot_span(owners, rank)[0] if by_slot else WHOLE
        found = cls(mine, owners[slots[0]], has_idle, large, small, None, None, span)
        if (
            not is_one_machine
            or has_idle
            or not 1 < ranks <= DIRECT_MOST_RANKS
            or most_nodes(large) > SHARED_MOST_NODES
        ):
            return found
        return attrs.evolve(found, small_shared=small, large_shared=large)


class ReductionPort(Protocol):
    """What a reduction needs of the link."""

    @property
    def memory(self) -> Memory:
        """Memory that is used again."""
        ...

    def flood(self, layout: Layout, plan: Exchange, tag: int) -> Flood:
        """Return the messages of small buffers, which are kept."""
        ...

    def shared_sum(self, layout: Layout, plan: Exchange, tag: int) -> SharedSum | SharedParts | None:
        """Return the additions of buffers in memory that all ranks see; None where they share none."""
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

    __slots__ = (
        "_flood",
        "_layout",
        "_leaves",
        "_number",
        "_partial",
        "_port",
        "_shared",
        "_who",
        "has_idle",
        "root",
        "slots",
        "weights",
    )

    def __init__(
        self, port: ReductionPort, who: Participation, weights: Mapping[int, float], layout: Layout | None, number: int
    ) -> None:
        self._port = port
        self._who = who
        self._layout = layout
        self._number = number
        self._shared: SharedSum | SharedParts | None = None  # of the leaves of the only slot of this rank
        self._leaves: Sequence[Ndarray] = ()
        self._flood: Flood | None = None
        self._partial: Partial | None = None
        self.weights: Mapping[int, float] = weights
        self.slots: tuple[int, ...] = who.slots
        self.root: int = who.root
        self.has_idle: bool = who.has_idle

    def add(self, slot: int, layout: Layout, leaves: Sequence[Ndarray]) -> None:
        """Add the leaves of one of this rank's slots; those of an only one are read by `finish`, on their way to others."""
        self._layout, who, port = layout, self._who, self._port
        if len(self.slots) == 1:
            self._shared = self._shared_sum(layout)
            if self._shared is not None:
                self._leaves = leaves
                return
            if who.small.is_flood and layout.nbytes <= SMALL_BYTES:
                flood = port.flood(layout, who.small, self._tag)
                flood.load(leaves, self.weights[slot])
                self._flood = flood
                return
        if self._partial is None:
            self._partial = Partial(who.large.tree, self.weights, port.memory, who.large.tops)
        self._partial.add(slot, layout, leaves)

    def finish(self) -> list[Ndarray]:
        """Return the buffers of the sum, or this rank's part of them."""
        layout, port, who = self._layout, self._port, self._who
        assert layout is not None, "a rank that computes nothing takes no part"
        if self._shared is not None:
            leaves, self._leaves = self._leaves, ()
            return self._shared.add_leaves(leaves, self.weights[self.slots[0]])
        if self._flood is not None:
            return self._flood.run(layout.empty(port.memory))
        held = {} if self._partial is None else self._partial.held
        is_refused = self._partial is not None and self._partial.is_refused
        shared = self._shared_sum(layout)
        if shared is not None:
            return shared.add_nodes(held, is_refused)
        plan = who.small if layout.nbytes <= SMALL_BYTES else who.large
        buffers = port.exchange(layout, plan, held, self._tag)
        if is_refused:  # what others wait for has been sent
            refuse_unequal()
        if who.span == WHOLE:
            return buffers
        return [buffer[part] for buffer, part in zip(buffers, span_parts(layout, who.span), strict=True)]

    @property
    def _tag(self) -> int:
        """The tag of the messages, by which ranks that sum other trees, or with other weights, wait for each other."""
        assert self._layout is not None, "a sum has a layout when it is sent"
        mixed = hash(
            (self._number, self._layout.number, *self.weights.values())
        )  # of numbers: the same in each process
        return SUM_TAG + 2 * (mixed % SUM_TAGS)

    def _shared_sum(self, layout: Layout) -> SharedSum | SharedParts | None:
        """Return how buffers are added up in memory that all ranks see."""
        who = self._who
        plan = who.small_shared if layout.nbytes <= SMALL_BYTES else who.large_shared
        return None if plan is None else self._port.shared_sum(layout, plan, self._tag)
