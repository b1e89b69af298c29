"""Link: the connection among ranks that `Machines` computes over; `LocalLink` is the one of a single process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NoReturn, Protocol

from afx.distributed.buffers import Layout, Memory, Ndarray, fold
from afx.distributed.waiting import wait_until
from afx.errors import ArgumentError

__all__ = ["Link", "LocalLink", "Message", "RankLostError", "Reduction", "refuse_unequal"]

LOCAL_SECONDS: Final = 3600.0  # one process waits for nobody: a program that does not end is a fault


class RankLostError(Exception):
    """A rank was lost and the connection goes on without it: what was under way is done again."""


class Reduction(Protocol):
    """One weighted sum over slots under way."""

    def add(self, slot: int, layout: Layout, leaves: Sequence[Ndarray]) -> None:
        """Take in the leaves of one of this rank's slots; its sending starts at once."""
        ...

    def finish(self) -> list[Ndarray]:
        """Return the buffers of the sum, folded in the order of the slots, the same on every rank."""
        ...

    def finish_own(self) -> list[Ndarray]:
        """Return buffers of which the chunks of this rank's slots alone hold the sum."""
        ...


class Message(Protocol):
    """A message that can be sent, or received, again and again from the same memory."""

    def start(self) -> None:
        """Begin; the one before must be done."""
        ...

    def is_done(self) -> bool:
        """Tell whether the memory may be used."""
        ...


class Link(Protocol):
    """The ranks of a computation and what they exchange."""

    @property
    def rank(self) -> int:
        """The number of this process."""
        ...

    @property
    def ranks(self) -> int:
        """The number of processes."""
        ...

    def owner(self, slot: int) -> int:
        """Return the rank that computes a slot."""
        ...

    def reduction(self, weights: Mapping[int, float]) -> Reduction:
        """Begin a sum over slots of these weights, in their order; every rank names the same ones."""
        ...

    def scattered_reduction(self, weights: Mapping[int, float], layout: Layout) -> Reduction:
        """Begin such a sum whose chunks stay with the ranks of their slots; ranks without examples take part."""
        ...

    def gather_parts(self, layout: Layout, buffers: Sequence[Ndarray]) -> None:
        """Fill buffers of which each rank has written the chunks of its slots."""
        ...

    @property
    def memory(self) -> Memory:
        """Memory that is used again."""
        ...

    def broadcast(self, data: bytes | None, root: int) -> bytes:
        """Return the bytes that the root has."""
        ...

    def gather(self, data: bytes) -> list[bytes]:
        """Return the bytes of all ranks, in their order, on every rank."""
        ...

    def send(self, data: bytes | None, root: int, target: int) -> bytes | None:
        """Return on the target the bytes that the root has; None on the others."""
        ...

    def make_message(self, array: Ndarray, rank: int, number: int, *, is_sent: bool) -> Message:
        """Prepare a message that carries a contiguous array to or from a rank, as often as it is started."""
        ...

    def wait_for(self, is_done: Callable[[], bool], what: str) -> None:
        """Call a test until it says yes, or the deadline goes by without any progress of it."""
        ...

    def commit(self, is_done: bool) -> bool:
        """Agree whether all ranks finished; False where one was lost and the rest must do the step again."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class LocalLink:
    """One process that has all slots: it defines the bits."""

    rank = 0
    ranks = 1

    def __init__(self) -> None:
        self.memory: Memory = Memory()

    def owner(self, slot: int) -> int:
        """Return rank 0."""
        return 0

    def reduction(self, weights: Mapping[int, float]) -> Reduction:
        """Begin a sum in this process."""
        return _LocalReduction(weights, self.memory)

    def scattered_reduction(self, weights: Mapping[int, float], layout: Layout) -> Reduction:
        """Begin a sum in this process."""
        return self.reduction(weights)

    def gather_parts(self, layout: Layout, buffers: Sequence[Ndarray]) -> None:
        """Do nothing: all chunks are here."""

    def broadcast(self, data: bytes | None, root: int) -> bytes:
        """Return the bytes."""
        if data is None:
            raise ArgumentError("broadcast: the root has nothing to send: got None; pass the value on rank 0")
        return data

    def gather(self, data: bytes) -> list[bytes]:
        """Return the bytes of this process."""
        return [data]

    def send(self, data: bytes | None, root: int, target: int) -> bytes | None:
        """Return the bytes."""
        return self.broadcast(data, root)

    def make_message(self, array: Ndarray, rank: int, number: int, *, is_sent: bool) -> Message:
        """Refuse: all slots are here."""
        raise AssertionError("one process sends nothing")

    def wait_for(self, is_done: Callable[[], bool], what: str) -> None:
        """Call the test until it says yes."""
        wait_until(is_done, LOCAL_SECONDS, what)

    def commit(self, is_done: bool) -> bool:
        """Return True: nothing can be lost."""
        return is_done

    def close(self) -> None:
        """Do nothing."""


class _LocalReduction:
    """A sum in the order of the slots."""

    def __init__(self, weights: Mapping[int, float], memory: Memory) -> None:
        self._weights = weights
        self._order: Iterator[int] = iter(weights)
        self._memory = memory
        self._totals: list[Ndarray] = []

    def add(self, slot: int, layout: Layout, leaves: Sequence[Ndarray]) -> None:
        """Fold in the leaves of the next slot."""
        if next(self._order) != slot:
            raise AssertionError("slots are computed in their order")
        is_first = not self._totals
        if is_first:
            self._totals = layout.empty(self._memory)
        for total, leaf in zip(layout.views(self._totals), leaves, strict=True):
            if not fold(total, leaf.reshape(-1), self._weights[slot], is_first=is_first):
                refuse_unequal()

    def finish(self) -> list[Ndarray]:
        """Return the sums."""
        return self._totals

    def finish_own(self) -> list[Ndarray]:
        """Return the sums: all slots are here."""
        return self._totals


def refuse_unequal() -> NoReturn:
    """Refuse integers that differ among slots.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(
        "distributed: integers or keys that a function returned differ among the slots: got different values; return "
        "counts as floating means, which are averaged by the sizes of the slots"
    )
