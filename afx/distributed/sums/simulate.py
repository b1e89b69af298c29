"""Simulation: how long the messages of a sum take on many ranks, by the latency and bandwidth of a network.

The messages are those that the ranks' plans would send. Each rank sends and receives over its own line at a bandwidth; a
message arrives a latency after its last byte left, and is added at the bandwidth of memory.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from afx.distributed.graph.placement import Machine
from afx.distributed.sums.plan import Round, Span, plan_sum
from afx.errors import ArgumentError

__all__ = ["Algorithm", "exchange_seconds"]

Algorithm: TypeAlias = Literal["afx", "ring", "allreduce"]
SMALL_BYTES: Final = 1 << 14  # as in `afx.distributed.mpi.flood`


def exchange_seconds(
    nbytes: int, ranks: int, machine: Machine | None = None, *, slots: int | None = None, algorithm: Algorithm = "afx"
) -> float:
    """Return how long ranks take to average a buffer.

    Args:
        nbytes: of the buffer.
        ranks: how many, each on a machine of its own.
        machine: latency and bandwidths.
        slots: how many slots; one a rank by default.
        algorithm: ``"afx"`` follows the messages of the program; ``"ring"`` (Patarasu & Yuan 2009) and ``"allreduce"``
            (recursive halving and doubling without restrictions on order) are the usual formulas.

    Raises:
        ArgumentError: fewer slots than ranks, or another algorithm.

    >>> exchange_seconds(10**8, 64) < exchange_seconds(10**8, 64, algorithm="ring")
    True
    """
    model = machine or Machine()
    count = ranks if slots is None else slots
    if not 1 <= ranks <= count or algorithm not in ("afx", "ring", "allreduce"):
        raise ArgumentError(
            f"exchange_seconds: at least a slot a rank, and a known algorithm: got {count}, {ranks}, {algorithm!r}"
        )
    if ranks == 1:
        return 0.0
    share = nbytes * (ranks - 1) / ranks
    volume = 2 * share / model.network_bytes_per_second + share / model.bytes_per_second
    if algorithm == "ring":
        return 2 * (ranks - 1) * model.latency_seconds + volume
    if algorithm == "allreduce":
        return 2 * (ranks - 1).bit_length() * model.latency_seconds + volume
    owners = tuple([slot * ranks // count for slot in range(count)])
    plans = [
        plan_sum(owners, tuple(range(count)), rank, is_small=nbytes <= SMALL_BYTES).rounds for rank in range(ranks)
    ]
    return _Clock(plans, nbytes, model).run()


class _Clock:
    """Follows the rounds of all ranks in time; a rank that waits for a message goes on when its sender has come there."""

    def __init__(self, plans: Sequence[Sequence[Round]], nbytes: int, machine: Machine) -> None:
        self._plans = plans
        self._nbytes = nbytes
        self._machine = machine
        self._times = [0.0] * len(plans)
        self._next = [0] * len(plans)
        self._has_sent = [False] * len(plans)
        self._arrivals: dict[tuple[int, int], deque[float]] = defaultdict(deque)

    def run(self) -> float:
        """Return when the last rank is done."""
        waiting = set(range(len(self._plans)))
        while waiting:
            for rank in list(waiting):
                while self._advance(rank):
                    pass
                if self._next[rank] == len(self._plans[rank]):
                    waiting.discard(rank)
        return max(self._times)

    def _advance(self, rank: int) -> bool:
        """Do one round of a rank, if all that it waits for is on its way."""
        if self._next[rank] == len(self._plans[rank]):
            return False
        round_ = self._plans[rank][self._next[rank]]
        if not self._has_sent[rank]:
            self._send(rank, round_)
        needed: dict[int, int] = defaultdict(int)
        for transfer in round_.receives:
            needed[transfer.rank] += 1
        if any(len(self._arrivals[other, rank]) < count for other, count in needed.items()):
            return False
        self._receive(rank, round_)
        self._next[rank] += 1
        self._has_sent[rank] = False
        return True

    def _bytes(self, spans: Sequence[Span]) -> float:
        return sum(self._nbytes * (last - first) / whole for first, last, whole in spans)

    def _send(self, rank: int, round_: Round) -> None:
        leaves = self._times[rank]
        for transfer in round_.sends:
            leaves += self._bytes(transfer.spans) / self._machine.network_bytes_per_second
            self._arrivals[rank, transfer.rank].append(leaves + self._machine.latency_seconds)
        self._has_sent[rank] = True

    def _receive(self, rank: int, round_: Round) -> None:
        now, line = self._times[rank], self._times[rank]
        for transfer in round_.receives:
            size = self._bytes(transfer.spans)
            arrival = self._arrivals[transfer.rank, rank].popleft()
            line = max(line + size / self._machine.network_bytes_per_second, arrival)  # one line for all senders
            now = line + (size / self._machine.bytes_per_second if round_.total else 0.0)
        sent = sum(self._bytes(t.spans) for t in round_.sends) / self._machine.network_bytes_per_second
        self._times[rank] = max(now, self._times[rank] + sent)
