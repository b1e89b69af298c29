"""Shared sum: ranks of one machine write their summands to memory that all see, and each adds up all of them.

Chunk by chunk, so that what is written is read from a processor's cache, and adding one chunk overlaps with the writing of
the next one by others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from afx.distributed.mpi.flood import list_additions
from afx.distributed.mpi.shared_memory import RING, SIGN, SharedMemory
from afx.distributed.sums.buffers import Layout, Ndarray
from afx.distributed.sums.packets import ALIGNMENT, cut_leaves, cut_packets, packet_views
from afx.distributed.sums.partial import add_up, weigh
from afx.distributed.sums.rounds import WHOLE, Exchange
from afx.distributed.sums.tree import Node

__all__ = ["SHARED_MOST_NODES", "SHARED_MOST_RANKS", "SharedSum", "list_sources", "most_nodes"]

SHARED_MOST_NODES: Final = 8  # of a rank: they share the room of a chunk
SHARED_MOST_RANKS: Final = 3  # that add up large buffers whole; above, each adds a part and sends it to the others
KEPT_VIEWS: Final = 1024

Views: TypeAlias = dict[Node, list[Ndarray]]  # by node, the parts of one chunk
Step: TypeAlias = tuple[
    list[Ndarray], list[tuple[list[Ndarray] | None, list[Ndarray], list[Ndarray]]]
]  # leaves, additions


class SharedSum:
    """The additions of one plan and layout.

    Args:
        memory: what the ranks share.
        layout: of the buffers.
        exchange: the plan, in which each rank gets all nodes.
        tag: of the sum.
    """

    def __init__(self, memory: SharedMemory, layout: Layout, exchange: Exchange, tag: int) -> None:
        self._memory = memory
        self._layout = layout
        self._tag = tag
        self._root = exchange.tree.root
        self._adds = list_additions(exchange)
        self._nodes = {memory.rank: list(exchange.own), **list_sources(exchange)}
        self._room = memory.slot_bytes // most_nodes(exchange) // ALIGNMENT * ALIGNMENT
        self._packets = cut_packets(layout, (WHOLE,), self._room)
        self._pieces = cut_leaves(layout, self._packets)
        self._steps: dict[int, Step] = {}  # of buffers of one chunk
        self._views: dict[tuple[int, int], Views] = {}
        self._sums: list[Ndarray] = [np.empty(self._room, np.uint8) for _ in self._adds[1:]]
        self.fits: bool = all(packet.nbytes <= self._room for packet in self._packets)

    def add_leaves(self, leaves: Sequence[Ndarray], weight: float, out: list[Ndarray]) -> list[Ndarray]:
        """Add up what ranks have, of which this one has the weighted leaves of a slot; return the sums."""
        if len(self._packets) == 1:
            return self._add_at_once(leaves, weight, out)
        (own,) = self._nodes[self._memory.rank]
        flat, pieces = [leaf.reshape(-1) for leaf in leaves], self._pieces

        def write(number: int, views: Views) -> None:
            parts = views[own]
            for part, at, leaf, source in pieces[number]:
                weigh(parts[part][at], flat[leaf][source], weight)

        return self._run(write, out)

    def _add_at_once(self, leaves: Sequence[Ndarray], weight: float, out: list[Ndarray]) -> list[Ndarray]:
        """Add up buffers of one chunk: as `_run`, in few calls."""
        memory, place = self._memory, self._memory.take_numbers(1)
        own, adds = self._steps.get(place % RING) or self._make_step(place)
        memory.wait_for_place(place)
        for into, leaf in zip(own, leaves, strict=True):
            weigh(into, leaf.reshape(-1), weight)
        sign = SIGN.pack(memory.watch.number, self._layout.nbytes, self._tag, place)
        memory.publish(place, sign)
        memory.wait_for_others(place, sign)
        for totals, lefts, rights in adds:
            for total, left, right in zip(totals or out, lefts, rights, strict=True):
                add_up(total, left, right)
        return out

    def _make_step(self, place: int) -> Step:
        views = self._views_of(0, place)
        (own,) = self._nodes[self._memory.rank]
        parts = {kind: view for (kind, _, _), view in zip(self._packets[0].parts, views[own], strict=True)}
        leaves = [parts[kind][at] if kind in parts else np.empty(0) for kind, at in self._layout.places()]
        root = self._root
        adds = [(None if b.parent == root else views[b.parent], views[b.left], views[b.right]) for b in self._adds]
        step = self._steps[place % RING] = (leaves, adds)
        return step

    def add_nodes(self, held: Mapping[Node, list[Ndarray]], out: list[Ndarray]) -> list[Ndarray]:
        """Add up what ranks have, of which this one has added up some nodes; return the sums."""

        def write(number: int, views: Views) -> None:
            for node in self._nodes[self._memory.rank]:
                for view, (kind, part, _) in zip(views[node], self._packets[number].parts, strict=True):
                    view[...] = held[node][kind][part]

        return self._run(write, out)

    def _run(self, write: Callable[[int, Views], None], out: list[Ndarray]) -> list[Ndarray]:
        self._memory.run_steps(
            len(self._packets),
            self._layout.nbytes,
            self._tag,
            lambda number, place: write(number, self._views_of(number, place)),
            lambda number, place: self._add(number, self._views_of(number, place), out),
        )
        return out

    def _add(self, number: int, views: Views, out: list[Ndarray]) -> None:
        totals = [out[kind][part] for kind, part, _ in self._packets[number].parts]
        for branch in self._adds:
            into = totals if branch.parent == self._root else views[branch.parent]
            for total, left, right in zip(into, views[branch.left], views[branch.right], strict=True):
                add_up(total, left, right)

    def _views_of(self, number: int, place: int) -> Views:
        """Return the parts of a chunk in the memory of each rank, and where sums of some of them stay."""
        key = (number, place % RING)
        found = self._views.get(key)
        if found is None:
            if len(self._views) >= KEPT_VIEWS:
                self._views.clear()
            found = self._views[key] = {}
            for rank, nodes in self._nodes.items():
                slot = self._memory.slot(rank, place)
                for k, node in enumerate(nodes):
                    found[node] = packet_views(self._packets[number], self._layout, slot[k * self._room :])
            for branch, total in zip(self._adds[:-1], self._sums, strict=True):
                found[branch.parent] = packet_views(self._packets[number], self._layout, total)
        return found


def list_sources(exchange: Exchange) -> dict[int, list[Node]]:
    """Return the nodes that each other rank writes."""
    found: dict[int, list[Node]] = {}
    for transfer in exchange.rounds[0].receives:
        found.setdefault(transfer.rank, []).append(transfer.node)
    return found


def most_nodes(exchange: Exchange) -> int:
    """Return how many nodes a rank has at most."""
    return max(len(nodes) for nodes in [exchange.own, *list_sources(exchange).values()])
