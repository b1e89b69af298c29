"""MPI reduction: weighted sums over slots as all-to-all exchanges of chunks, folded in the order of the slots.

Each rank sums one chunk of the buffers: it gets that chunk of every slot (reduce-scatter), and sends the sum to all
others (all-gather). Chunks travel in pieces, so that one piece is folded, and its sum sent, while the next ones arrive.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol

import attrs

from afx.core.dtypes import DType
from afx.distributed.buffers import Layout, Memory, Ndarray, fold
from afx.distributed.link import refuse_unequal
from afx.distributed.overlap import Overlap

__all__ = ["Exchange", "MpiReduction", "Route", "gather_parts", "plan_exchange", "plan_route"]

SUM_TAG: Final = 64  # tags below it are those of other messages
SHARE_TAG: Final = 3
MOST_DTYPES: Final = 16
OVERLAP_MIN_BYTES: Final = 1 << 16  # smaller messages are on their way at once
PIECE_BYTES: Final = 1 << 22  # measured on one machine: smaller ones are slower at 100 MB, larger ones not faster


class Messages(Protocol):
    """What a reduction needs of the link."""

    @property
    def rank(self) -> int:
        """The number of this process."""
        ...

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

    def wait(self, requests: list[Any], what: str) -> None:
        """Wait until all requests are done."""
        ...

    @property
    def overlaps(self) -> bool:
        """Whether another thread may test requests."""
        ...

    def give_up(self, requests: list[Any], error: Exception) -> NoReturn:
        """Raise what an error of MPI means."""
        ...


@attrs.frozen(eq=False)
class Route:
    """Who computes and who sums, seen from one rank.

    Attributes:
        rank: this process.
        parts: by rank that sums, where its chunk begins and ends, as fractions of a buffer: two numerators, a denominator.
        senders: the slots of other ranks, each with the rank that computes it.
        own_count: how many slots this rank computes.
        workers: the ranks that compute.
    """

    rank: int
    parts: tuple[tuple[int, int, int, int], ...]
    senders: tuple[tuple[int, int], ...]
    own_count: int
    workers: frozenset[int]


def plan_route(owners: Mapping[int, int], rank: int, ranks_of_slots: Sequence[int] | None = None) -> Route:
    """Return the route of a sum.

    Args:
        owners: by slot that takes part, the rank that computes it.
        rank: this process.
        ranks_of_slots: the rank of each slot, where the sum of each slot's chunk stays with that slot's rank; None for
            equal chunks among the ranks that compute.
    """
    workers = tuple(dict.fromkeys(owners.values()))
    if ranks_of_slots is None:
        parts = [(worker, place, place + 1, len(workers)) for place, worker in enumerate(workers)]
    else:
        slots = len(ranks_of_slots)
        found = dict.fromkeys(ranks_of_slots)  # whose slots are neighbours
        starts = [ranks_of_slots.index(owner) for owner in found]
        parts = [(owner, *ends, slots) for owner, ends in zip(found, itertools.pairwise([*starts, slots]), strict=True)]
    senders = tuple((slot, owner) for slot, owner in owners.items() if owner != rank)
    return Route(rank, tuple(parts), senders, len(owners) - len(senders), frozenset(workers))


@attrs.frozen
class Exchange:
    """The messages of a sum over buffers of one layout.

    Attributes:
        own: by dtype, the part of the buffer that this rank sums.
        sizes: its lengths and dtypes.
        pieces: the messages of which it consists: the dtype's number, the part of the buffer, and that part of `own`.
        others: the messages of all other ranks' parts: the rank before dtype and part.
        nbytes: the size of all buffers.
    """

    own: tuple[slice, ...]
    sizes: tuple[tuple[int, DType], ...]
    pieces: tuple[tuple[int, slice, slice], ...]
    others: tuple[tuple[int, int, slice], ...]
    nbytes: int


@functools.lru_cache(maxsize=64)
def plan_exchange(layout: Layout, route: Route, piece_bytes: int) -> Exchange:
    """Return the messages of a sum of buffers."""
    chunks = {
        rank: [slice(size * first // whole, size * last // whole) for size in layout.lengths]
        for rank, first, last, whole in route.parts
    }
    own = chunks.get(route.rank, [slice(0, 0)] * len(layout.lengths))

    def cut(chunk: Sequence[slice]) -> list[tuple[int, slice]]:
        return [
            (k, slice(start, min(start + step, part.stop)))
            for k, part in enumerate(chunk)
            for step in [max(piece_bytes // layout.dtypes[k].itemsize, 1)]
            for start in range(part.start, part.stop, step)
        ]

    pieces = [(k, part, slice(part.start - own[k].start, part.stop - own[k].start)) for k, part in cut(own)]
    others = [(rank, k, part) for rank, chunk in chunks.items() if rank != route.rank for k, part in cut(chunk)]
    nbytes = sum(size * dtype.itemsize for size, dtype in zip(layout.lengths, layout.dtypes, strict=True))
    sizes = [(part.stop - part.start, dtype) for part, dtype in zip(own, layout.dtypes, strict=True)]
    return Exchange(tuple(own), tuple(sizes), tuple(pieces), tuple(others), nbytes)


class MpiReduction:
    """One sum over slots: what a slot computed is exchanged while the next one computes.

    Attributes:
        overlap: what goes on with the messages meanwhile.
    """

    def __init__(self, link: Messages, weights: Mapping[int, float], route: Route) -> None:
        self._link = link
        self._weights = weights
        self._route = route
        self._parts: dict[int, list[Ndarray]] = {}  # by slot and dtype, of this rank's part
        self._arrivals: list[list[Any]] = []  # by piece of this rank's part, the requests that it waits for
        self._pending: list[Any] = []
        self._layout: Layout | None = None
        self._added: set[int] = set()  # slots of this rank, whose parts belong to the caller
        self.overlap: Overlap | None = None

    def begin(self, layout: Layout) -> Exchange:
        """Begin to receive this rank's part of the other ranks' slots; return the messages."""
        link = self._link
        exchange = plan_exchange(layout, self._route, PIECE_BYTES)
        if self._layout is not None:
            return exchange
        self._layout = layout
        take, receive = link.memory.take, link.receive_piece
        parts, senders = self._parts, self._route.senders
        for slot, _ in senders:
            parts[slot] = [take(size, dtype) for size, dtype in exchange.sizes]
        for k, _, inner in exchange.pieces:
            self._arrivals.append(
                [receive(parts[slot][k][inner], rank, SUM_TAG + slot * MOST_DTYPES + k) for slot, rank in senders]
            )
        return exchange

    def add(self, slot: int, layout: Layout, leaves: Sequence[Ndarray]) -> None:
        """Take in the leaves of one of this rank's slots and begin to send each chunk to its rank."""
        link = self._link
        self._end_overlap()
        exchange = self.begin(layout)
        buffers = layout.pack(leaves, link.memory)
        self._parts[slot] = [buffer[own] for buffer, own in zip(buffers, exchange.own, strict=True)]
        tag, send = SUM_TAG + slot * MOST_DTYPES, link.send_piece
        self._pending += [send(buffers[k][piece], rank, tag + k) for rank, k, piece in exchange.others]
        self._added.add(slot)
        if (
            len(self._added) < self._route.own_count
            and exchange.others
            and link.overlaps
            and exchange.nbytes > OVERLAP_MIN_BYTES
        ):
            self.overlap = Overlap(self._requests())

    def _requests(self) -> list[Any]:
        return [*self._pending, *[request for requests in self._arrivals for request in requests]]

    def _end_overlap(self) -> None:
        overlap, self.overlap = self.overlap, None
        if overlap is not None and (error := overlap.end()) is not None:
            self._link.give_up(self._requests(), error)

    def finish(self) -> list[Ndarray]:
        """Fold this rank's part in the order of the slots, and return the whole sums."""
        totals, exchange = self._begin_to_finish()
        gathering = Gathering(self._link, exchange, totals, self._route.workers)
        for piece, requests in zip(exchange.pieces, self._arrivals, strict=True):
            self._link.wait(requests, "value_and_grad")
            self._fold(totals, piece)
            gathering.send(piece)
        self._pending += gathering.requests
        self._link.wait(self._pending, "value_and_grad")
        return totals

    def finish_own(self) -> list[Ndarray]:
        """Fold this rank's part in the order of the slots, and return buffers of which only that part is written."""
        totals, exchange = self._begin_to_finish()
        for piece, requests in zip(exchange.pieces, self._arrivals, strict=True):
            self._link.wait(requests, "value_and_step")
            self._fold(totals, piece)
        self._link.wait(self._pending, "value_and_step")
        return totals

    def _begin_to_finish(self) -> tuple[list[Ndarray], Exchange]:
        layout = self._layout
        assert layout is not None, "a rank that computes nothing and sums nothing takes no part"
        self._end_overlap()
        return layout.empty(self._link.memory), self.begin(layout)

    def _fold(self, totals: Sequence[Ndarray], piece: tuple[int, slice, slice]) -> None:
        """Sum one piece over all slots."""
        k, where, inner = piece
        total, is_first = totals[k][where], True
        for slot, weight in self._weights.items():
            part = self._parts[slot][k][inner]
            if not fold(total, part, weight, is_first=is_first, is_ours=slot not in self._added):
                refuse_unequal()
            is_first = False


class Gathering:
    """An all-gather under way: each rank's part of the buffers goes to the others.

    Attributes:
        requests: those of all messages.
    """

    def __init__(self, link: Messages, exchange: Exchange, buffers: Sequence[Ndarray], ranks: Iterable[int]) -> None:
        self._link = link
        self._buffers = buffers
        self._others = [rank for rank in ranks if rank != link.rank]
        self.requests: list[Any] = [
            link.receive_piece(buffers[k][part], rank, SHARE_TAG) for rank, k, part in exchange.others
        ]

    def send(self, piece: tuple[int, slice, slice]) -> None:
        """Begin to send one piece of this rank's part."""
        part = self._buffers[piece[0]][piece[1]]
        self.requests += [self._link.send_piece(part, rank, SHARE_TAG) for rank in self._others]


def gather_parts(link: Messages, layout: Layout, route: Route, buffers: Sequence[Ndarray], ranks: int) -> None:
    """Fill buffers of which each rank has written its part."""
    exchange = plan_exchange(layout, route, PIECE_BYTES)
    gathering = Gathering(link, exchange, buffers, range(ranks))
    for piece in exchange.pieces:
        gathering.send(piece)
    link.wait(gathering.requests, "value_and_step")
