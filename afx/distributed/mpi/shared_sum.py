"""Shared sum: ranks of one machine write small summands to memory that all see, and each adds up all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from afx.distributed.mpi.flood import list_additions
from afx.distributed.mpi.shared_memory import RING, SharedMemory
from afx.distributed.sums.buffers import Layout, Ndarray
from afx.distributed.sums.packets import ALIGNMENT, join_buffers, packet_views
from afx.distributed.sums.partial import add_up, refuse_unequal, weigh
from afx.distributed.sums.rounds import Exchange
from afx.distributed.sums.tree import Node

__all__ = ["SHARED_MOST_NODES", "SharedSum", "list_sources", "most_nodes"]

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

    def __init__(self, memory: SharedMemory, layout: Layout, exchange: Exchange, tag: int) -> None:
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
        found: dict[Node, list[Ndarray]] = {}
        for rank, nodes in self._nodes.items():
            slot = self._memory.slot(rank, place)
            for number, node in enumerate(nodes):
                found[node] = packet_views(self._packet, self._layout, slot[number * self._room :])
        for branch in self._adds[:-1]:
            memory: Ndarray = np.empty(self._packet.nbytes, np.uint8)
            found[branch.parent] = packet_views(self._packet, self._layout, memory)
        return found

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

    def add_nodes(self, held: Mapping[Node, list[Ndarray]], is_refused: bool) -> list[Ndarray]:
        """Add up what ranks have, of which this one has added up some nodes, or refused to; return the sums."""
        number = self._memory.begin_chunk()
        for node, views in zip(self._own, self._nodes_by_place[number % RING], strict=True):
            for view, x in zip(views, held[node], strict=True):
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
    found: dict[int, list[Node]] = {}
    for transfer in exchange.rounds[0].receives:
        found.setdefault(transfer.rank, []).append(transfer.node)
    return found


def most_nodes(exchange: Exchange) -> int:
    """Return how many nodes a rank has at most."""
    return max(len(nodes) for nodes in [exchange.own, *list_sources(exchange).values()])
