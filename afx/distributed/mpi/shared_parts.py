"""Shared parts: sums of which each rank of one machine adds up a part, and parts that all give to all, in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from afx.distributed.mpi.flood import list_additions
from afx.distributed.mpi.shared_memory import RING, SharedMemory
from afx.distributed.mpi.shared_result import SharedResult
from afx.distributed.mpi.shared_sum import list_sources, most_nodes
from afx.distributed.sums.buffers import Layout, Ndarray
from afx.distributed.sums.packets import ALIGNMENT, Packet, cut_leaves, cut_packets, packet_views, span_parts
from afx.distributed.sums.partial import add_up, weigh
from afx.distributed.sums.rounds import Exchange, Round
from afx.distributed.sums.tree import Node
from afx.errors import ArgumentError

__all__ = ["SharedGather", "SharedParts"]

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

    def __init__(self, memory: SharedMemory, layout: Layout, exchange: Exchange, tag: int) -> None:
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

    def add_nodes(self, held: Mapping[Node, list[Ndarray]], is_refused: bool) -> list[Ndarray]:
        """Add up what ranks have, of which this one has added up some nodes, or refused to; return the sums, or its part."""

        def fill(rank: int, number: int, node: Node, parts: Sequence[Ndarray]) -> None:
            for into, x in zip(parts, _parts_of(self._packets[rank][number], held[node]), strict=True):
                into[...] = x

        def own_values(number: int, totals: Sequence[Ndarray]) -> dict[Node, Sequence[Ndarray]]:
            packet = self._packets[self._memory.rank][number]
            return {node: _parts_of(packet, held[node]) for node in self._own}

        return self._run(fill, own_values, is_refused)

    def _run(self, fill: Fill, own_values: OwnValues, is_refused: bool = False) -> list[Ndarray]:
        memory = self._memory
        result = SharedResult(memory, self._layout, self._tag, self._empty_part())
        result.is_refused = is_refused
        count = max(len(packets) for packets in self._packets.values())
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
        found = self._views.get(key)
        if found is None:
            if len(self._views) >= KEPT_VIEWS:
                self._views.clear()
            start = ((reader - (reader > writer)) * self._most + node) * self._room
            packet = self._packets[reader][number]
            found = self._views[key] = packet_views(packet, self._layout, self._memory.slot(writer, place)[start:])
        return found

    def _add(
        self,
        packet: Packet,
        values: dict[Node, Sequence[Ndarray]],
        totals: Sequence[Ndarray],
        result: SharedResult,
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

    def __init__(self, memory: SharedMemory, layout: Layout, round_: Round, tag: int) -> None:
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

        count = max(len(packets) for packets in self._packets.values())
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
