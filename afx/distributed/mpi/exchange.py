"""Exchange: sums over slots by messages, piece by piece, or by one message a rank where they are small."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from afx.distributed.sums import packets as packet_sizes
from afx.distributed.sums.buffers import Branch, Memory, Ndarray, Node, Packing, add_up, refuse_unequal, weigh
from afx.distributed.sums.packets import (
    ALIGNMENT,
    Packet,
    cut_packets,
    gather_packet,
    join_buffers,
    packet_views,
    scatter_packet,
)
from afx.distributed.sums.plan import Exchange, Round, Span, Transfer
from afx.errors import ArgumentError

# --- Exchange: a sum over slots by messages, as its plan says; large parts are added piece by piece as they arrive

WINDOW: Final = 4  # pieces of each sender that are expected at a time: their memory is used again


class ExchangePort(Protocol):
    """What an exchange needs of the link."""

    @property
    def memory(self) -> Memory:
        """Memory that is used again."""
        ...

    def send_piece(self, piece: Ndarray, rank: int, tag: int) -> Any:
        """Begin to send contiguous numbers, in one message; return the request."""
        ...

    def receive_piece(self, piece: Ndarray, rank: int, tag: int) -> Any:
        """Begin to receive into contiguous numbers, in one message; return the request."""
        ...

    def wait(self, requests: Sequence[Any]) -> None:
        """Wait until all requests are done."""
        ...


class _Total(NamedTuple):
    """A node that is added up, the buffers where it ends, and the additions."""

    node: Node
    base: list[Ndarray]
    adds: list[Branch]


class Traffic:
    """One sum under way.

    Args:
        port: the ranks.
        layout: of the buffers.
        exchange: the plan.
        held: the nodes that this rank has added up; their memory is written.
        tag: of all messages; that of sums which are sent while others are added is one higher.
    """

    def __init__(
        self, port: ExchangePort, layout: Packing, exchange: Exchange, partials: Mapping[Node, list[Ndarray]], tag: int
    ) -> None:
        self._port = port
        self._layout = layout
        self._exchange = exchange
        self._tag = tag
        self._whole: dict[Node, list[Ndarray]] = dict(partials)
        self._pieces: dict[tuple[Node, int, int], Ndarray] = {}  # of received nodes, by dtype and start
        self._base = self._choose_base(self._exchange.tree.root)  # where the sum ends
        self._is_refused = False

    def _choose_base(self, total: Node) -> list[Ndarray]:
        """Return the buffers in which a node is added up: those of one that is part of it and that is here."""
        for node, buffers in self._whole.items():
            if total[0] <= node[0] and node[1] <= total[1]:
                return buffers
        return self._layout.empty(self._port.memory)

    def run(self) -> list[Ndarray]:
        """Return the buffers of the sum, of which the plan's parts are written."""
        if self._exchange.streams:
            self._stream(*self._exchange.rounds)
        for round_ in () if self._exchange.streams else self._exchange.rounds:
            sent = self._send(round_)
            if round_.totals:
                self._receive_and_add(round_, lambda number, packet: None)
            else:
                self._receive_shares(round_)
            self._port.wait([request for requests in sent.values() for piece in requests for request in piece])
        if self._is_refused:  # what others wait for has been sent
            refuse_unequal()
        return self._base

    def _stream(self, first: Round, second: Round) -> None:
        """Send each piece of the sum on as soon as it is added, and receive those of others where all has left."""
        sent = self._send(first)
        incoming = [(transfer, self._packets(transfer.spans)) for transfer in second.receives]
        pending: list[Any] = []  # requests
        joined: list[tuple[Packet, Ndarray]] = []  # packets of several parts, with the memory that they arrive in

        def expect(number: int) -> None:
            """Begin to receive a piece of each sum, in place of the one that was sent from there."""
            for transfer, packets in incoming:
                if number < len(packets):
                    self._port.wait(sent[transfer.rank][number])
                    pending.append(self._receive_share(packets[number], transfer.rank, joined))

        def pass_on(number: int, packet: Packet) -> None:
            piece = gather_packet(packet, self._layout, self._base)
            pending.extend([self._port.send_piece(piece, transfer.rank, self._tag + 1) for transfer in second.sends])
            expect(number)

        self._receive_and_add(first, pass_on)
        for number in range(len(self._packets(first.spans)), max([len(packets) for _, packets in incoming], default=0)):
            expect(number)
        self._port.wait(pending)
        for packet, memory in joined:
            scatter_packet(packet, self._layout, memory, self._base)

    def _packets(self, spans: tuple[Span, ...]) -> tuple[Packet, ...]:
        return cut_packets(self._layout, spans, packet_sizes.PIECE_BYTES)

    # -- messages --
    def _send(self, round_: Round) -> dict[int, list[list[Any]]]:
        """Begin to send; return the requests by rank and piece."""
        requests: dict[int, list[list[Any]]] = {}
        by_rank: dict[int, list[Transfer]] = {}
        for transfer in round_.sends:
            by_rank.setdefault(transfer.rank, []).append(transfer)
        for rank, transfers in by_rank.items():
            copies = bool(round_.totals) and transfers[0].spans == round_.spans  # what is sent is added to
            requests[rank] = [
                [self._send_packet(packet, transfer, copies=copies) for transfer in transfers]
                for packet in self._packets(transfers[0].spans)
            ]
        return requests

    def _send_packet(self, packet: Packet, transfer: Transfer, *, copies: bool) -> Any:
        piece = gather_packet(packet, self._layout, self._whole.get(transfer.node, self._base))
        return self._port.send_piece(piece.copy() if copies else piece, transfer.rank, self._tag)

    def _receive_shares(self, round_: Round) -> None:
        """Receive parts of a sum where they belong."""
        joined: list[tuple[Packet, Ndarray]] = []
        requests = [
            self._receive_share(packet, transfer.rank, joined)
            for transfer in round_.receives
            for packet in self._packets(transfer.spans)
        ]
        self._port.wait(requests)
        for packet, memory in joined:
            scatter_packet(packet, self._layout, memory, self._base)

    def _receive_share(self, packet: Packet, rank: int, joined: list[tuple[Packet, Ndarray]]) -> Any:
        if packet.is_joined:
            memory = self._port.memory.take_bytes(packet.nbytes)
            joined.append((packet, memory))
        else:
            ((kind, part, _),) = packet.parts
            memory = self._base[kind][part]
        return self._port.receive_piece(memory, rank, self._tag + self._exchange.streams)

    def _expect(self, packet: Packet, transfer: Transfer) -> Any:
        """Begin to receive one piece of a node into memory of its own."""
        if packet.is_joined:
            memory = self._port.memory.take_bytes(packet.nbytes)
            views = packet_views(packet, self._layout, memory)
        else:
            ((kind, part, _),) = packet.parts
            memory = self._port.memory.take(part.stop - part.start, self._layout.dtypes[kind])
            views = [memory]
        for view, (kind, part, _) in zip(views, packet.parts, strict=True):
            self._pieces[transfer.node, kind, part.start] = view
        return self._port.receive_piece(memory, transfer.rank, self._tag)

    # -- sums --
    def _receive_and_add(self, round_: Round, after: Callable[[int, Packet], None]) -> None:
        """Add up the totals of a round piece by piece; call a function after each."""
        arrived = {transfer.node for transfer in round_.receives}
        known = arrived | self._whole.keys()
        sums = [_Total(node, self._choose_base(node), self._list_adds(node, known)) for node in round_.totals]
        self._base = sums[0].base
        packets = self._packets(round_.spans)
        arriving: list[list[Any]] = []
        for number, packet in enumerate(packets):
            upcoming = packets[len(arriving) : number + WINDOW]
            arriving += [[self._expect(piece, transfer) for transfer in round_.receives] for piece in upcoming]
            self._port.wait(arriving[number])
            for kind, part, _ in packet.parts:
                values = {node: buffers[kind][part] for node, buffers in self._whole.items()}
                values |= {node: self._pieces.pop((node, kind, part.start)) for node in arrived}
                for total in sums:
                    self._add(total, values, kind, part)
            after(number, packet)
        self._whole = {total.node: total.base for total in sums}

    def _list_adds(self, total: Node, known: set[Node]) -> list[Branch]:
        """Return the additions by which a total comes from known nodes, in an order that works."""
        if total in known:
            return []
        branch = self._exchange.tree.branches[total]
        return [*self._list_adds(branch.left, known), *self._list_adds(branch.right, known), branch]

    def _add(self, total: _Total, values: dict[Node, Ndarray], kind: int, part: slice) -> None:
        """Add up the branches of a total: the last sum lies in its memory, others in that of an operand."""
        base = total.base[kind][part]
        in_base = {node for node, buffers in self._whole.items() if buffers is total.base}
        for branch in total.adds:
            left, right = values[branch.left], values[branch.right]
            out = base if branch.parent == total.node else right if branch.right in in_base else left
            try:
                add_up(out, left, right)
            except ArgumentError:
                self._is_refused = True
            values[branch.parent] = out
            if branch.left in in_base or branch.right in in_base:
                in_base.add(branch.parent)
        if not total.adds and total.node not in in_base:
            base[...] = values[total.node]


# --- Flood: the sum of small buffers by one message a rank, from memory and with requests that are kept

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

    def __init__(self, port: FloodPort, layout: Packing, exchange: Exchange, tag: int) -> None:
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
        memory = np.zeros(max(packet.nbytes * len(nodes), ALIGNMENT), np.uint8)
        for number, node in enumerate(nodes):
            self._values[node] = packet_views(packet, self._layout, memory[number * packet.nbytes :])
        return memory

    def load(self, leaves: Sequence[Ndarray], weight: float) -> None:
        """Take in the weighted leaves of the only slot of this rank."""
        for into, leaf in zip(self._leaves, leaves, strict=True):
            weigh(into, leaf.reshape(-1), weight)

    def load_nodes(self, partials: Mapping[Node, list[Ndarray]]) -> None:
        """Take in the nodes of this rank."""
        for node in self._own:
            for view, x in zip(self._values[node], partials[node], strict=True):
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
