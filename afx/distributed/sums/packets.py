"""Packets: parts of flat buffers as messages of a size that MPI takes, and how long they take."""

from __future__ import annotations

import bisect
import functools
import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import attrs
import numpy as np

from afx.distributed.graph.placement import Machine
from afx.distributed.sums.buffers import Ndarray, Packing
from afx.distributed.sums.plan import Round, Span, plan_sum
from afx.errors import ArgumentError

# --- Packets: parts of flat buffers as messages of a size that MPI takes, with small ones joined

PIECE_BYTES: Final = 1 << 22  # measured on one machine: smaller ones are slower at 100 MB, larger ones not faster
JOIN_BYTES: Final = 1 << 12  # a copy of it costs less than a message
ALIGNMENT: Final = 8

# of a leaf: which part of a message, where in it, the leaf, what of it
Piece: TypeAlias = tuple[int, slice, int, slice]


@attrs.frozen
class Packet:
    """One message.

    Attributes:
        parts: the number of the dtype, the part of its buffer, and where it begins in the message, in bytes.
        nbytes: of the message.
    """

    parts: tuple[tuple[int, slice, int], ...]
    nbytes: int

    @property
    def is_joined(self) -> bool:
        """Whether it holds more than one part, which are copied together."""
        return len(self.parts) != 1


def span_parts(layout: Packing, span: Span) -> list[slice]:
    """Return the part of each buffer that a span is."""
    first, last, whole = span
    return [slice(length * first // whole, length * last // whole) for length in layout.lengths]


@functools.lru_cache(maxsize=1024)
def cut_packets(layout: Packing, spans: tuple[Span, ...], piece_bytes: int) -> tuple[Packet, ...]:
    """Return the messages that carry parts of buffers."""
    large: list[Packet] = []
    small: list[tuple[int, slice, int]] = []
    offset = 0
    by_span = [span_parts(layout, span) for span in spans]
    for kind, dtype in enumerate(layout.dtypes):
        step = max(piece_bytes // dtype.itemsize, 1)
        for parts in by_span:
            for start in range(parts[kind].start, parts[kind].stop, step):
                part = slice(start, min(start + step, parts[kind].stop))
                nbytes = (part.stop - start) * dtype.itemsize
                if nbytes >= JOIN_BYTES:
                    large.append(Packet(((kind, part, 0),), nbytes))
                else:
                    small.append((kind, part, offset))
                    offset += -(-nbytes // ALIGNMENT) * ALIGNMENT
    return (*large, Packet(tuple(small), offset)) if small else tuple(large)


def join_buffers(layout: Packing) -> Packet:
    """Return the message that carries whole buffers, whatever their sizes."""
    parts: list[tuple[int, slice, int]] = []
    offset = 0
    for kind, (length, dtype) in enumerate(zip(layout.lengths, layout.dtypes, strict=True)):
        parts.append((kind, slice(0, length), offset))
        offset += -(-length * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return Packet(tuple(parts), offset)


def cut_leaves(layout: Packing, packets: Sequence[Packet]) -> list[list[Piece]]:
    """Return what each message has of which leaves."""
    by_kind: list[list[tuple[int, slice]]] = [[] for _ in layout.dtypes]
    for leaf, (kind, at) in enumerate(layout.places()):
        by_kind[kind].append((leaf, at))
    stops = [[at.stop for _, at in leaves] for leaves in by_kind]
    messages: list[list[Piece]] = []
    for packet in packets:
        pieces: list[Piece] = []
        for number, (kind, part, _) in enumerate(packet.parts):
            for leaf, at in by_kind[kind][bisect.bisect_right(stops[kind], part.start) :]:
                if at.start >= part.stop:
                    break
                start, stop = max(at.start, part.start), min(at.stop, part.stop)
                into, source = slice(start - part.start, stop - part.start), slice(start - at.start, stop - at.start)
                pieces.append((number, into, leaf, source))
        messages.append(pieces)
    return messages


def packet_views(packet: Packet, layout: Packing, memory: Ndarray) -> list[Ndarray]:
    """Return the parts of a joined message as arrays of their dtypes."""
    views: list[Ndarray] = []
    for kind, part, offset in packet.parts:
        dtype = layout.dtypes[kind]
        views.append(memory[offset : offset + (part.stop - part.start) * dtype.itemsize].view(dtype))
    return views


def gather_packet(packet: Packet, layout: Packing, buffers: Sequence[Ndarray]) -> Ndarray:
    """Return what a message sends: the part itself, or a copy of several."""
    if not packet.is_joined:
        ((kind, part, _),) = packet.parts
        return buffers[kind][part]
    memory = np.zeros(packet.nbytes, np.uint8)
    for view, (kind, part, _) in zip(packet_views(packet, layout, memory), packet.parts, strict=True):
        view[...] = buffers[kind][part]
    return memory


def scatter_packet(packet: Packet, layout: Packing, memory: Ndarray, buffers: Sequence[Ndarray]) -> None:
    """Copy the parts of a joined message to their places."""
    for view, (kind, part, _) in zip(packet_views(packet, layout, memory), packet.parts, strict=True):
        buffers[kind][part] = view


# --- Simulation: how long the messages of a sum take on many ranks, by the latency and bandwidth of a network
#
# The messages are those that the ranks' plans would send. The ranks of a machine share a line to the network, at a
# bandwidth in each direction; a message arrives a latency after its last byte left. Within a machine messages go at
# the bandwidth of memory, each rank's beside those of others, and what arrives is added at it.

Algorithm: TypeAlias = Literal["afx", "one level", "ring", "allreduce"]
HERE_SECONDS: Final = 1e-6  # of a message between two ranks of one machine
SMALL_BYTES: Final = 1 << 14  # as in `afx.distributed.mpi.exchange`


def exchange_seconds(
    nbytes: int,
    ranks: int,
    machine: Machine | None = None,
    *,
    slots: int | None = None,
    algorithm: Algorithm = "afx",
    hosts: Sequence[int] = (),
) -> float:
    """Return how long ranks take to average a buffer.

    Args:
        nbytes: of the buffer.
        ranks: how many.
        machine: latency and bandwidths.
        slots: how many slots; one a rank by default.
        algorithm: ``"afx"`` follows the messages of the program, ``"one level"`` those that it would send if it did not know
            which ranks share a machine; ``"ring"`` (Patarasu & Yuan 2009) and ``"allreduce"`` (recursive halving and
            doubling without restrictions on order) are the usual formulas, for ranks on machines of their own.
        hosts: how many ranks each machine has, in their order; empty where each rank has one of its own.

    Raises:
        ArgumentError: fewer slots than ranks, machines of other ranks, or another algorithm.

    >>> exchange_seconds(10**8, 64) < exchange_seconds(10**8, 64, algorithm="ring")
    True
    >>> exchange_seconds(10**8, 6, hosts=(3, 3)) < exchange_seconds(10**8, 6, hosts=(3, 3), algorithm="one level")
    True
    """
    model, sizes = machine or Machine(), tuple(hosts) or (1,) * ranks
    count = ranks if slots is None else slots
    if not 1 <= ranks <= count or algorithm not in ("afx", "one level", "ring", "allreduce") or sum(sizes) != ranks:
        raise ArgumentError(
            "exchange_seconds: at least a slot a rank, machines that have all ranks, and a known algorithm: got "
            f"{count} slots, {ranks} ranks, machines {sizes}, {algorithm!r}"
        )
    if ranks == 1:
        return 0.0
    latencies = {"ring": 2 * (ranks - 1), "allreduce": 2 * (ranks - 1).bit_length()}
    if algorithm in latencies:
        share = nbytes * (ranks - 1) / ranks
        volume = 2 * share / model.network_bytes_per_second + share / model.bytes_per_second
        return latencies[algorithm] * model.latency_seconds + volume
    owners = tuple([slot * ranks // count for slot in range(count)])
    known = tuple(hosts) if algorithm == "afx" else ()
    plans = [
        plan_sum(owners, tuple(range(count)), rank, is_small=nbytes <= SMALL_BYTES, hosts=known).rounds
        for rank in range(ranks)
    ]
    return _Clock(plans, nbytes, model, sizes).run()


class _Clock:
    """Follows the rounds of all ranks in time: who is earliest sends next, and goes on when all that it waits for has come."""

    def __init__(self, plans: Sequence[Sequence[Round]], nbytes: int, machine: Machine, hosts: Sequence[int]) -> None:
        self._plans = plans
        self._nbytes = nbytes
        self._machine = machine
        self._host = [number for number, size in enumerate(hosts) for _ in range(size)]
        self._times = [0.0] * len(plans)
        self._next = [0] * len(plans)
        self._left = [0.0] * len(plans)  # when the last message of each rank has
        self._lines: defaultdict[tuple[str, int], float] = defaultdict(float)  # until when each line is busy
        self._arrivals: defaultdict[tuple[int, int], deque[float]] = defaultdict(deque)

    def run(self) -> float:
        """Return when the last rank is done."""
        ready = [(0.0, rank) for rank, rounds in enumerate(self._plans) if rounds]
        waiting = set[int]()
        while ready:
            _, rank = heapq.heappop(ready)
            self._send(rank, self._plans[rank][self._next[rank]])
            waiting.add(rank)
            partners = {rank, *[transfer.rank for transfer in self._plans[rank][self._next[rank]].sends]}
            for other in [other for other in partners & waiting if self._has_all(other)]:
                waiting.discard(other)
                self._receive(other, self._plans[other][self._next[other]])
                self._next[other] += 1
                if self._next[other] < len(self._plans[other]):
                    heapq.heappush(ready, (self._times[other], other))
        assert not waiting, "a message that nobody sends"
        return max(self._times)

    def _has_all(self, rank: int) -> bool:
        """Tell whether all that a rank waits for is on its way."""
        needed = Counter(transfer.rank for transfer in self._plans[rank][self._next[rank]].receives)
        return all(len(self._arrivals[other, rank]) >= count for other, count in needed.items())

    def _bytes(self, spans: Sequence[Span]) -> float:
        return sum(self._nbytes * (last - first) / whole for first, last, whole in spans)

    def _send(self, rank: int, round_: Round) -> None:
        """Put messages on the lines of their senders and receivers."""
        for transfer in round_.sends:
            source, target = self._host[rank], self._host[transfer.rank]
            if source == target:
                out, into = ("copies", rank), ("takes", transfer.rank)
                speed, latency = self._machine.bytes_per_second, HERE_SECONDS
            else:
                out, into = ("sends", source), ("receives", target)
                speed, latency = self._machine.network_bytes_per_second, self._machine.latency_seconds
            seconds = self._bytes(transfer.spans) / speed
            self._lines[out] = left = max(self._times[rank], self._lines[out]) + seconds
            self._lines[into] = arrival = max(left + latency, self._lines[into] + seconds)
            self._arrivals[rank, transfer.rank].append(arrival)
            self._left[rank] = left

    def _receive(self, rank: int, round_: Round) -> None:
        """Add up what arrives, as far as the plan does, and go on when all of a rank's own messages have left."""
        sizes = [self._bytes(transfer.spans) if round_.totals else 0.0 for transfer in round_.receives]
        arrivals = [self._arrivals[transfer.rank, rank].popleft() for transfer in round_.receives]
        now = self._times[rank]
        for arrival, size in sorted(zip(arrivals, sizes, strict=True)):
            now = max(now, arrival) + size / self._machine.bytes_per_second
        self._times[rank] = max(now, self._left[rank])
