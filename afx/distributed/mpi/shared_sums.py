"""Shared sums: ranks of one machine add in shared memory, each all of it or a part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

import attrs
import numpy as np

from afx.distributed.mpi.exchange import SMALL_BYTES, Flood, list_additions
from afx.distributed.mpi.shared_memory import RING, SharedMemory
from afx.distributed.sums.buffers import Memory, Ndarray, Node, Packing, Partial, add_up, refuse_unequal, weigh
from afx.distributed.sums.packets import (
    ALIGNMENT,
    Packet,
    cut_leaves,
    cut_packets,
    join_buffers,
    packet_views,
    span_parts,
)
from afx.distributed.sums.plan import DIRECT_MOST_RANKS, WHOLE, Exchange, Round, Span, slot_span
from afx.errors import ArgumentError

# --- Shared result: where the sums of one call are written, in a block that all ranks read or in memory of a rank's
# own


class SharedResult:
    """The buffers of one call.

    Attributes:
        buffers: to be written, on each rank its part of them at least.
        is_seen_by_all: whether all ranks see what each of them writes.
        is_refused: whether this rank found something that cannot be added.

    Args:
        memory: what the ranks share.
        layout: of the buffers.
        tag: of the call, in which all ranks make one.
        part: memory of the part that this rank alone gets; None where all ranks get all of it.
    """

    def __init__(self, memory: SharedMemory, layout: Packing, tag: int, part: list[Ndarray] | None = None) -> None:
        self._memory = memory
        self._layout = layout
        self._tag = tag
        self._goes_to_all = part is None
        self._block = self._choose() if self._goes_to_all else None  # None too where none is free
        self.is_seen_by_all: bool = self._block is not None
        self.is_refused: bool = False
        self.buffers: list[Ndarray]
        if self._block is not None:
            self.buffers = memory.blocks.writeable(self._block, layout)
        else:
            self.buffers = memory.empty(layout) if part is None else part

    def _choose(self) -> int | None:
        """Return a block to which no rank refers."""
        blocks, memory = self._memory.blocks, self._memory
        return blocks.choose(self._layout, memory.meet(self._layout.nbytes, self._tag, blocks.list_free()))

    def finish(self) -> list[Ndarray]:
        """Return the buffers, once all ranks have written what this one gets.

        Raises:
            ArgumentError: a rank found what cannot be added.
        """
        is_refused = self.is_refused
        if self._goes_to_all:  # then all of them refuse where one does
            is_refused = not self._memory.meet(self._layout.nbytes, self._tag, int(not is_refused))
        if is_refused:
            refuse_unequal()
        return self.buffers if self._block is None else self._memory.blocks.readable(self._block, self._layout)


# --- Shared sum: ranks of one machine write small summands to memory that all see, and each adds up all of them

SHARED_MOST_NODES: Final = 8  # of a rank: they share the room of a chunk

# which buffer, and its parent, left and right; None for a parent that is the result
Addition: TypeAlias = "tuple[int, Ndarray | None, Ndarray, Ndarray]"


class SharedSum:
    """The additions of one plan and layout.

    Args:
        memory: what the ranks share.
        layout: of the buffers.
        exchange: the plan, in which each rank gets all nodes.
        tag: of the sum.
    """

    def __init__(self, memory: SharedMemory, layout: Packing, exchange: Exchange, tag: int) -> None:
        self._memory = memory
        self._layout = layout
        self._tag = tag
        self._own = exchange.own
        self._root = exchange.tree.root
        self._adds = list_additions(exchange)
        self._nodes = {memory.rank: list(exchange.own), **list_sources(exchange)}
        self._room = memory.slot_bytes // most_nodes(exchange) // ALIGNMENT * ALIGNMENT
        self._has_integers = any(dtype.kind not in "fc" for dtype in layout.dtypes)
        self._packet = join_buffers(layout)
        self.fits: bool = self._packet.nbytes <= self._room
        places = [self._make_views(place) for place in range(RING)] if self.fits else []
        self._nodes_by_place = [[views[node] for node in exchange.own] for views in places]
        self._leaves_by_place = [layout.views(nodes[0]) for nodes in self._nodes_by_place]
        self._adds_by_place = [self._list_steps(views) for views in places]

    def _make_views(self, place: int) -> dict[Node, list[Ndarray]]:
        """Return the buffers of each node in one place of the ring, and of sums of some of them."""
        views: dict[Node, list[Ndarray]] = {}
        for rank, nodes in self._nodes.items():
            slot = self._memory.slot(rank, place)
            for number, node in enumerate(nodes):
                views[node] = packet_views(self._packet, self._layout, slot[number * self._room :])
        for branch in self._adds[:-1]:
            memory = np.empty(self._packet.nbytes, np.uint8)
            views[branch.parent] = packet_views(self._packet, self._layout, memory)
        return views

    def _list_steps(self, views: Mapping[Node, list[Ndarray]]) -> list[Addition]:
        """Return additions of single buffers, in their order."""
        return [
            (kind, None if branch.parent == self._root else views[branch.parent][kind], left, right)
            for branch in self._adds
            for kind, (left, right) in enumerate(zip(views[branch.left], views[branch.right], strict=True))
        ]

    def add_leaves(self, leaves: Sequence[Ndarray], weight: float) -> list[Ndarray]:
        """Add up what ranks have, of which this one has the weighted leaves of a slot; return the sums."""
        number = self._memory.begin_chunk()
        for into, leaf in zip(self._leaves_by_place[number % RING], leaves, strict=True):
            weigh(into, leaf.reshape(-1), weight)
        return self._finish(number)

    def add_nodes(self, partials: Mapping[Node, list[Ndarray]], is_refused: bool) -> list[Ndarray]:
        """Add up what ranks have, of which this one has added up some nodes, or refused to; return the sums."""
        number = self._memory.begin_chunk()
        for node, views in zip(self._own, self._nodes_by_place[number % RING], strict=True):
            for view, x in zip(views, partials[node], strict=True):
                view[...] = x
        return self._finish(number, is_refused)

    def _finish(self, number: int, is_refused: bool = False) -> list[Ndarray]:
        out = self._layout.empty_small()
        if self._has_integers:
            self._memory.tell(number, int(not is_refused))
        self._memory.pass_round(number, self._layout.nbytes, self._tag)
        if self._has_integers and not self._memory.common_bits(number):
            refuse_unequal()
        for kind, parent, left, right in self._adds_by_place[number % RING]:
            add_up(out[kind] if parent is None else parent, left, right)
        return out


def list_sources(exchange: Exchange) -> dict[int, list[Node]]:
    """Return the nodes that each other rank writes."""
    nodes: dict[int, list[Node]] = {}
    for transfer in exchange.rounds[0].receives:
        nodes.setdefault(transfer.rank, []).append(transfer.node)
    return nodes


def most_nodes(exchange: Exchange) -> int:
    """Return how many nodes a rank has at most."""
    return max(map(len, [exchange.own, *list_sources(exchange).values()]))


# --- Shared parts: sums of which each rank of one machine adds up a part, and parts that all give to all, in shared
# memory

KEPT_VIEWS: Final = 4096

# write this rank's numbers of a node: for which rank, of which chunk, which node, where to
Fill: TypeAlias = Callable[[int, int, Node, Sequence[Ndarray]], None]
# return this rank's numbers by node, of which those of a slot are written where the sums come
OwnValues: TypeAlias = Callable[[int, Sequence[Ndarray]], dict[Node, Sequence[Ndarray]]]


class SharedParts:
    """The additions of one plan and layout, of which this rank does those of its part.

    Args:
        memory: what the ranks share.
        layout: of the buffers.
        exchange: the plan: a round in which each rank adds up its part, and perhaps one in which all get all parts.
        tag: of the sum.
    """

    def __init__(self, memory: SharedMemory, layout: Packing, exchange: Exchange, tag: int) -> None:
        self._memory = memory
        self._layout = layout
        self._tag = tag
        self._own = exchange.own
        self._root = exchange.tree.root
        self._adds = list_additions(exchange)
        first = exchange.rounds[0]
        self._sources = list_sources(exchange)
        self._most = most_nodes(exchange)
        self._room = memory.slot_bytes // (self._most * (memory.ranks - 1)) // ALIGNMENT * ALIGNMENT
        spans = {transfer.rank: transfer.spans for transfer in first.sends} | {memory.rank: first.spans}
        self._packets = {rank: cut_packets(layout, of_rank, self._room) for rank, of_rank in spans.items()}
        self._pieces = {rank: cut_leaves(layout, packets) for rank, packets in self._packets.items()}
        (own_span,) = first.spans
        self._part = span_parts(layout, own_span)
        self._starts = [0 if exchange.streams else part.start for part in self._part]
        self._scratch: list[Ndarray] = [np.empty(self._room, np.uint8) for _ in self._adds]
        self._are_two_nodes = len(self._own) == 1 and [len(nodes) for nodes in self._sources.values()] == [1]
        self._views: dict[tuple[int, int, int, int, int], list[Ndarray]] = {}
        self._gather = SharedGather(memory, layout, exchange.rounds[1], tag + 1) if exchange.streams else None
        self.fits: bool = all(packet.nbytes <= self._room for packets in self._packets.values() for packet in packets)

    def add_leaves(self, leaves: Sequence[Ndarray], weight: float) -> list[Ndarray]:
        """Add up what ranks have, of which this one has the weighted leaves of a slot; return the sums, or its part."""
        (own,), flat = self._own, [leaf.reshape(-1) for leaf in leaves]

        def fill(rank: int, number: int, node: Node, parts: Sequence[Ndarray]) -> None:
            for part, at, leaf, source in self._pieces[rank][number]:
                weigh(parts[part][at], flat[leaf][source], weight)

        def own_values(number: int, totals: Sequence[Ndarray]) -> dict[Node, Sequence[Ndarray]]:
            fill(self._memory.rank, number, own, totals)
            return {own: totals}

        return self._run(fill, own_values)

    def add_nodes(self, partials: Mapping[Node, list[Ndarray]], is_refused: bool) -> list[Ndarray]:
        """Add up the sums that ranks have of nodes, and return the totals, or this rank's part of them.

        Args:
            partials: this rank's, by node.
            is_refused: whether it has none to give, which all ranks then learn.
        """

        def fill(rank: int, number: int, node: Node, parts: Sequence[Ndarray]) -> None:
            for into, x in zip(parts, _parts_of(self._packets[rank][number], partials[node]), strict=True):
                into[...] = x

        def own_values(number: int, totals: Sequence[Ndarray]) -> dict[Node, Sequence[Ndarray]]:
            packet = self._packets[self._memory.rank][number]
            return {node: _parts_of(packet, partials[node]) for node in self._own}

        return self._run(fill, own_values, is_refused)

    def _run(self, fill: Fill, own_values: OwnValues, is_refused: bool = False) -> list[Ndarray]:
        """Write and add packet by packet, beside the other ranks; what one of them has refused is told by the result."""
        memory = self._memory
        result = SharedResult(memory, self._layout, self._tag, self._empty_part())
        result.is_refused = is_refused
        count = max(map(len, self._packets.values()))
        if result.is_seen_by_all and self._are_two_nodes:
            memory.run_ahead(
                count,
                lambda number: self._write_there(fill, result, number),
                lambda number: self._add_there(own_values, result, number),
            )
            return result.finish()
        memory.run_steps(
            count,
            self._layout.nbytes,
            self._tag,
            lambda number, place: self._write(fill, number, place),
            lambda number, place: self._read(own_values, result, number, place),
        )
        if self._gather is not None and not result.is_seen_by_all:
            self._gather.run(result.buffers)
        return result.finish()

    def _write_there(self, fill: Fill, result: SharedResult, number: int) -> None:
        """Write a chunk of the other's part where its sum comes."""
        (own,), ((rank, _),) = self._own, self._sources.items()
        packets = self._packets[rank]
        if number < len(packets):
            fill(rank, number, own, _parts_of(packets[number], result.buffers))

    def _add_there(self, own_values: OwnValues, result: SharedResult, number: int) -> None:
        """Add this rank's numbers to what the other one has written of this one's part."""
        packets = self._packets[self._memory.rank]
        if number < len(packets):
            totals, (nodes,) = _parts_of(packets[number], result.buffers), self._sources.values()
            values = own_values(number, packet_views(packets[number], self._layout, self._scratch[-1]))
            self._add(packets[number], values | dict.fromkeys(nodes, totals), totals, result)

    def _empty_part(self) -> list[Ndarray] | None:
        """Return new memory for this rank's part, which its caller may give away; None where all get all parts."""
        if self._gather is not None:
            return None
        return [np.empty(part.stop - part.start, t) for part, t in zip(self._part, self._layout.dtypes, strict=True)]

    def _write(self, fill: Fill, number: int, place: int) -> None:
        """Write a chunk for each of the others."""
        memory = self._memory
        for rank, packets in self._packets.items():
            if rank != memory.rank and number < len(packets):
                for k, node in enumerate(self._own):
                    fill(rank, number, node, self._views_of(memory.rank, rank, k, number, place))

    def _read(self, own_values: OwnValues, result: SharedResult, number: int, place: int) -> None:
        """Add up a chunk of this rank's part."""
        memory = self._memory
        packets = self._packets[memory.rank]
        if number >= len(packets):
            return
        totals = [
            result.buffers[kind][part.start - self._starts[kind] : part.stop - self._starts[kind]]
            for kind, part, _ in packets[number].parts
        ]
        values = own_values(number, totals)
        for rank, nodes in self._sources.items():
            for k, node in enumerate(nodes):
                values[node] = self._views_of(rank, memory.rank, k, number, place)
        self._add(packets[number], values, totals, result)

    def _views_of(self, writer: int, reader: int, node: int, number: int, place: int) -> list[Ndarray]:
        """Return the parts of what one rank writes for another of one of its nodes."""
        key = (writer, reader, node, number, place % RING)
        views = self._views.get(key)
        if views is None:
            if len(self._views) >= KEPT_VIEWS:
                self._views.clear()
            start = ((reader - (reader > writer)) * self._most + node) * self._room
            packet = self._packets[reader][number]
            views = self._views[key] = packet_views(packet, self._layout, self._memory.slot(writer, place)[start:])
        return views

    def _add(
        self, packet: Packet, values: dict[Node, Sequence[Ndarray]], totals: Sequence[Ndarray], result: SharedResult
    ) -> None:
        for number, branch in enumerate(self._adds):
            is_last = branch.parent == self._root
            into = totals if is_last else packet_views(packet, self._layout, self._scratch[number])
            for total, left, right in zip(into, values[branch.left], values[branch.right], strict=True):
                try:
                    add_up(total, left, right)
                except ArgumentError:  # all ranks hear of it in the end
                    result.is_refused = True
            values[branch.parent] = into


class SharedGather:
    """Parts of buffers that all ranks give to all others.

    Args:
        memory: what the ranks share.
        layout: of the buffers.
        round_: who has which part.
        tag: of the call.
    """

    def __init__(self, memory: SharedMemory, layout: Packing, round_: Round, tag: int) -> None:
        self._memory = memory
        self._layout = layout
        self._tag = tag
        spans = {transfer.rank: transfer.spans for transfer in round_.receives} | {memory.rank: round_.sends[0].spans}
        self._packets = {rank: cut_packets(layout, of_rank, memory.slot_bytes) for rank, of_rank in spans.items()}

    def fill(self, write: Callable[[list[Ndarray]], None]) -> list[Ndarray]:
        """Return buffers of which each rank writes its part, in a function that is called once."""
        result = SharedResult(self._memory, self._layout, self._tag)
        write(result.buffers)
        if not result.is_seen_by_all:
            self.run(result.buffers)
        return result.finish()

    def run(self, buffers: Sequence[Ndarray]) -> None:
        """Fill buffers of which each rank has written its part."""
        memory = self._memory

        def write(number: int, place: int) -> None:
            for view, part in self._pairs(memory.rank, number, place, buffers):
                view[...] = part

        def read(number: int, place: int) -> None:
            for rank in self._packets:
                if rank != memory.rank:
                    for view, part in self._pairs(rank, number, place, buffers):
                        part[...] = view

        count = max(map(len, self._packets.values()))
        memory.run_steps(count, self._layout.nbytes, self._tag, write, read)

    def _pairs(self, rank: int, number: int, place: int, buffers: Sequence[Ndarray]) -> list[tuple[Ndarray, Ndarray]]:
        """Return what stands in shared memory, and where it belongs."""
        if number >= len(self._packets[rank]):
            return []
        packet = self._packets[rank][number]
        views = packet_views(packet, self._layout, self._memory.slot(rank, place))
        return list(zip(views, _parts_of(packet, buffers), strict=True))


def _parts_of(packet: Packet, buffers: Sequence[Ndarray]) -> list[Ndarray]:
    return [buffers[kind][part] for kind, part, _ in packet.parts]


# --- Reduction: one weighted sum over slots on a rank, whose plan is made once for all sums over the same slots

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
        own_slots = tuple([slot for slot in slots if owners[slot] == rank])
        has_idle = len({owners[slot] for slot in slots}) < len(set(owners))
        large, small, ranks = plan(False), plan(True), len(set(owners))
        span = slot_span(owners, rank)[0] if by_slot else WHOLE
        alone = cls(own_slots, owners[slots[0]], has_idle, large, small, None, None, span)
        if (
            not is_one_machine
            or has_idle
            or not 1 < ranks <= DIRECT_MOST_RANKS
            or most_nodes(large) > SHARED_MOST_NODES
        ):
            return alone
        return attrs.evolve(alone, small_shared=small, large_shared=large)


class ReductionPort(Protocol):
    """What a reduction needs of the link."""

    @property
    def memory(self) -> Memory:
        """Memory that is used again."""
        ...

    def flood(self, layout: Packing, plan: Exchange, tag: int) -> Flood:
        """Return the messages of small buffers, which are kept."""
        ...

    def shared_sum(self, layout: Packing, plan: Exchange, tag: int) -> SharedSum | SharedParts | None:
        """Return the additions of buffers in memory that all ranks see; None where they share none."""
        ...

    def exchange(
        self, layout: Packing, plan: Exchange, partials: Mapping[Node, list[Ndarray]], tag: int
    ) -> list[Ndarray]:
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
        self, port: ReductionPort, who: Participation, weights: Mapping[int, float], layout: Packing | None, number: int
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

    def add(self, slot: int, layout: Packing, leaves: Sequence[Ndarray]) -> None:
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
        partials = {} if self._partial is None else self._partial.sums
        is_refused = self._partial is not None and self._partial.is_refused
        shared = self._shared_sum(layout)
        if shared is not None:
            return shared.add_nodes(partials, is_refused)
        plan = who.small if layout.nbytes <= SMALL_BYTES else who.large
        buffers = port.exchange(layout, plan, partials, self._tag)
        if is_refused:  # what others wait for has been sent
            refuse_unequal()
        if who.span == WHOLE:
            return buffers
        return [buffer[part] for buffer, part in zip(buffers, span_parts(layout, who.span), strict=True)]

    @property
    def _tag(self) -> int:
        """The tag of the messages, by which ranks that sum other trees, or with other weights, wait for each other."""
        assert self._layout is not None, "a sum has a layout when it is sent"
        # of numbers: the same in each process
        mixed = hash((self._number, self._layout.number, *self.weights.values()))
        return SUM_TAG + 2 * (mixed % SUM_TAGS)

    def _shared_sum(self, layout: Packing) -> SharedSum | SharedParts | None:
        """Return how buffers are added up in memory that all ranks see."""
        who = self._who
        plan = who.small_shared if layout.nbytes <= SMALL_BYTES else who.large_shared
        return None if plan is None else self._port.shared_sum(layout, plan, self._tag)
