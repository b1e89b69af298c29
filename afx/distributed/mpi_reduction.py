"""MPI reduction: weighted sums over slots as all-to-all exchanges of chunks, folded in the order of the slots.

Each rank sums one chunk of the buffers: it gets that chunk of every slot, and sends the sum to all others. Chunks travel
in pieces, so that one piece is folded, and its sum sent, while the next ones arrive.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, Protocol

import attrs

from afx.distributed.buffers import Layout, Memory, Ndarray, fold
from afx.distributed.link import check_equal
from afx.distributed.overlap import Overlap

__all__ = ["Exchange", "MpiReduction", "plan_exchange"]

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

    def owner(self, slot: int) -> int:
        """Return the rank that computes a slot."""
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


@attrs.frozen
class Exchange:
    """Who sums what: the same plan on every rank, seen from one of them.

    Attributes:
        own: by dtype, the part of the buffer that this rank sums.
        pieces: the messages of which it consists: the dtype's number and the part of the buffer.
        others: the messages of all other ranks' parts: the rank before dtype and part.
    """

    own: tuple[slice, ...]
    pieces: tuple[tuple[int, slice], ...]
    others: tuple[tuple[int, int, slice], ...]


@functools.lru_cache(maxsize=64)
def plan_exchange(layout: Layout, workers: tuple[int, ...], rank: int, piece_bytes: int) -> Exchange:
    """Return the plan of a sum of buffers over ranks."""
    chunks = {
        worker: [slice(size * place // len(workers), size * (place + 1) // len(workers)) for size in layout.lengths]
        for place, worker in enumerate(workers)
    }

    def cut(worker: int) -> list[tuple[int, slice]]:
        return [
            (k, slice(start, min(start + step, chunk.stop)))
            for k, chunk in enumerate(chunks[worker])
            for step in [max(piece_bytes // layout.dtypes[k].itemsize, 1)]
            for start in range(chunk.start, chunk.stop, step)
        ]

    others = [(worker, k, piece) for worker in workers if worker != rank for k, piece in cut(worker)]
    return Exchange(tuple(chunks[rank]), tuple(cut(rank)), tuple(others))


class MpiReduction:
    """One sum over slots: what a slot computed is exchanged while the next one computes.

    Attributes:
        overlap: what goes on with the messages meanwhile.
    """

    def __init__(self, link: Messages, weights: Mapping[int, float]) -> None:
        self._link = link
        self._weights = weights
        owners = [link.owner(slot) for slot in weights]
        self._workers = tuple(dict.fromkeys(owners))  # ranks that compute, in their order
        self._parts: dict[int, list[Ndarray]] = {}  # by slot and dtype, of this rank's part
        self._arrivals: list[list[Any]] = []  # by piece of this rank's part, the requests that it waits for
        self._pending: list[Any] = []
        self._layout: Layout | None = None
        self._to_come = owners.count(link.rank)
        self.overlap: Overlap | None = None

    def add(self, slot: int, layout: Layout, leaves: Sequence[Ndarray]) -> None:
        """Take in the leaves of one of this rank's slots and begin to send each chunk to its rank."""
        link = self._link
        self._end_overlap()
        exchange = plan_exchange(layout, self._workers, link.rank, PIECE_BYTES)
        if self._layout is None:
            self._layout = layout
            self._post_receives(layout, exchange)
        buffers = layout.pack(leaves, link.memory)
        self._parts[slot] = [buffer[own] for buffer, own in zip(buffers, exchange.own, strict=True)]
        tag = SUM_TAG + slot * MOST_DTYPES
        self._pending += [link.send_piece(buffers[k][piece], rank, tag + k) for rank, k, piece in exchange.others]
        self._to_come -= 1
        if self._to_come and exchange.others and link.overlaps and sum(b.nbytes for b in buffers) > OVERLAP_MIN_BYTES:
            self.overlap = Overlap(self._requests())

    def _requests(self) -> list[Any]:
        return [*self._pending, *[request for requests in self._arrivals for request in requests]]

    def _end_overlap(self) -> None:
        overlap, self.overlap = self.overlap, None
        if overlap is not None and (error := overlap.end()) is not None:
            self._link.give_up(self._requests(), error)

    def _post_receives(self, layout: Layout, exchange: Exchange) -> None:
        """Begin to receive this rank's part of the other ranks' slots."""
        link = self._link
        slots = [slot for slot in self._weights if link.owner(slot) != link.rank]
        for slot in slots:
            parts = zip(exchange.own, layout.dtypes, strict=True)
            self._parts[slot] = [link.memory.take(own.stop - own.start, dtype) for own, dtype in parts]
        for k, piece in exchange.pieces:
            inner = _shift(piece, exchange.own[k].start)
            self._arrivals.append(
                [
                    link.receive_piece(self._parts[slot][k][inner], link.owner(slot), SUM_TAG + slot * MOST_DTYPES + k)
                    for slot in slots
                ]
            )

    def finish(self) -> list[Ndarray]:
        """Fold this rank's part in the order of the slots, and return the whole sums."""
        link, layout = self._link, self._layout
        assert layout is not None, "a rank that computes nothing takes no part in the sum"
        self._end_overlap()
        totals = layout.empty(link.memory)
        exchange = plan_exchange(layout, self._workers, link.rank, PIECE_BYTES)
        self._pending += [link.receive_piece(totals[k][piece], rank, SHARE_TAG) for rank, k, piece in exchange.others]
        for (k, piece), requests in zip(exchange.pieces, self._arrivals, strict=True):
            link.wait(requests, "value_and_grad")
            total = totals[k][piece]
            self._fold(k, total, _shift(piece, exchange.own[k].start))
            for rank in self._workers:
                if rank != link.rank:
                    self._pending.append(link.send_piece(total, rank, SHARE_TAG))
        link.wait(self._pending, "value_and_grad")
        return totals

    def _fold(self, k: int, total: Ndarray, piece: slice) -> None:
        """Sum one piece over all slots."""
        is_first = True
        for slot, weight in self._weights.items():
            check_equal(fold(total, self._parts[slot][k][piece], weight, is_first=is_first))
            is_first = False


def _shift(part: slice, start: int) -> slice:
    return slice(part.start - start, part.stop - start)
