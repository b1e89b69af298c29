"""Flood: the sum of small buffers by one message a rank, from memory and with requests that are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import numpy as np

from afx.distributed.sums.buffers import Layout, Ndarray
from afx.distributed.sums.packets import ALIGNMENT, join_buffers, packet_views
from afx.distributed.sums.partial import add_up, weigh
from afx.distributed.sums.rounds import Exchange
from afx.distributed.sums.tree import Branch, Node

__all__ = ["SMALL_BYTES", "Flood", "FloodPort", "list_additions"]

SMALL_BYTES: Final = 1 << 14  # of a buffer: below, the time of a message does not depend on its length


class FloodPort(Protocol):
    """What a flood needs of the link."""

    def keep_send(self, memory: Ndarray, rank: int, tag: int) -> Any:
        """Prepare a message that is sent again and again; return the request."""
        ...

    def keep_receive(self, memory: Ndarray, rank: int, tag: int) -> Any:
        """Prepare a message that is received again and again; return the request."""
        ...

    def run_kept(self, requests: Sequence[Any]) -> None:
        """Start prepared messages and wait until all are done."""
        ...


class Flood:
    """The messages of one plan and layout."""

    def __init__(self, port: FloodPort, layout: Layout, exchange: Exchange, tag: int) -> None:
        self._port = port
        self._layout = layout
        (round_,) = exchange.rounds
        self._adds = list_additions(exchange)
        self._root = exchange.tree.root
        self._values: dict[Node, list[Ndarray]] = {}
        self._requests: list[Any] = []
        own = self._make_memory(exchange.own)
        ranks = list(dict.fromkeys(transfer.rank for transfer in round_.receives))
        for rank in ranks:
            nodes = [transfer.node for transfer in round_.receives if transfer.rank == rank]
            self._requests.append(port.keep_receive(self._make_memory(nodes), rank, tag))
        self._requests += [port.keep_send(own, rank, tag) for rank in ranks]
        self._own = exchange.own
        self._leaves = layout.views(self._values[exchange.own[0]])

    def _make_memory(self, nodes: Sequence[Node]) -> Ndarray:
        """Return memory of one message, and note where each node's buffers stand in it."""
        packet = join_buffers(self._layout)
        memory: Ndarray = np.zeros(max(packet.nbytes * len(nodes), ALIGNMENT), np.uint8)
        for number, node in enumerate(nodes):
            self._values[node] = packet_views(packet, self._layout, memory[number * packet.nbytes :])
        return memory

    def load(self, leaves: Sequence[Ndarray], weight: float) -> None:
        """Take in the weighted leaves of the only slot of this rank."""
        for into, leaf in zip(self._leaves, leaves, strict=True):
            weigh(into, leaf.reshape(-1), weight)

    def load_nodes(self, held: Mapping[Node, list[Ndarray]]) -> None:
        """Take in the nodes of this rank."""
        for node in self._own:
            for view, x in zip(self._values[node], held[node], strict=True):
                view[...] = x

    def run(self, out: list[Ndarray]) -> list[Ndarray]:
        """Exchange what was taken in; return the sums, in the memory given."""
        self._port.run_kept(self._requests)
        known = dict(self._values)
        for branch in self._adds:
            left, right = known[branch.left], known[branch.right]
            known[branch.parent] = total = out if branch.parent == self._root else left
            for into, a, b in zip(total, left, right, strict=True):
                add_up(into, a, b)
        return out


def list_additions(exchange: Exchange) -> list[Branch]:
    """Return the additions from the nodes that ranks have to the root."""
    known = {*exchange.own, *[transfer.node for transfer in exchange.rounds[0].receives]}

    def list_adds(node: Node) -> list[Branch]:
        if node in known:
            return []
        branch = exchange.tree.branches[node]
        return [*list_adds(branch.left), *list_adds(branch.right), branch]

    return list_adds(exchange.tree.root)
