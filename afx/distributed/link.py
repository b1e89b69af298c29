"""Link: the connection among ranks that `Machines` computes over, and waiting with back-off."""

from __future__ import annotations

import builtins
import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import numpy as np

from afx import errors
from afx.distributed.sums.buffers import Memory, Ndarray, Packing, Partial, refuse_unequal, tree_over
from afx.errors import ArgumentError, PeerLost

# --- Waiting: tests with back-off, so that a rank that waits takes next to no processor time, and never for ever

SPIN_SECONDS: Final = 0.00003  # a message within one machine takes some microseconds
YIELD_SECONDS: Final = 0.001  # measured on two cores: most exchanges of a data-parallel step end within it
SLEEP_SHARE: Final = 0.1  # of the time waited so far: sleeping delays no answer by more than that share
LONGEST_SLEEP_SECONDS: Final = 0.002  # 0.5 % of a processor while nothing comes


_yield: Final = getattr(os, "sched_yield", lambda: None)


def wait_until(is_done: Callable[[], bool], look: Callable[[float], None]) -> None:
    """Call a test until it says yes: at once for a while, then after sleeps that grow.

    Args:
        is_done: a test that also makes progress, such as MPI's ``Testall``.
        look: called with the seconds waited so far before each sleep; it may raise.
    """
    if is_done():
        return
    begin = time.monotonic()
    while not is_done():
        waited = time.monotonic() - begin
        if waited > YIELD_SECONDS:
            look(waited)
            time.sleep(min(SLEEP_SHARE * waited, LONGEST_SLEEP_SECONDS))
        elif waited > SPIN_SECONDS:
            _yield()  # to a rank that shares this processor


# --- Link: the connection among ranks that `Machines` computes over; `LocalLink` is the one of a single process

LOCAL_SECONDS: Final = 3600.0  # one process waits for nobody: a program that does not end is a fault


class RankLostError(Exception):
    """A rank was lost and the connection goes on without it: what was under way is done again."""


class CallFailedError(ArgumentError):
    """Another rank had an error in the call that is under way."""


def error_of_rank(who: str, told: str) -> Exception:
    """Return another rank's error, which names the rank and is of its class; of classes that afx does not know ArgumentError.

    Args:
        who: the call.
        told: ``an error on rank 1: got ZeroDivisionError: …``.
    """
    name = told.partition(": got ")[2].partition(":")[0]
    text = f"{who}: {told}; the next call finds all ranks in step"
    for home in (errors, np.linalg, builtins):
        kind = getattr(home, name, None)
        if not isinstance(kind, type) or not issubclass(kind, Exception) or issubclass(kind, StopIteration | Warning):
            continue
        with contextlib.suppress(TypeError):  # such as UnicodeDecodeError, which is made of parts
            return kind(text)
    return ArgumentError(text)


class Reduction(Protocol):
    """One weighted sum over slots under way."""

    @property
    def slots(self) -> Sequence[int]:
        """Those of this rank that take part, in their order."""
        ...

    @property
    def root(self) -> int:
        """The rank of the first slot that takes part."""
        ...

    @property
    def has_idle(self) -> bool:
        """Whether some rank has no slot that takes part."""
        ...

    def add(self, slot: int, layout: Packing, leaves: Sequence[Ndarray]) -> None:
        """Take in the leaves of one of this rank's slots, in their order."""
        ...

    def finish(self) -> list[Ndarray]:
        """Return the buffers of the sum, added up in the order of the tree; of a scattered one this rank's part of each."""
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

    @property
    def losses(self) -> int:
        """How often ranks were lost so far."""
        ...

    @property
    def shrinks(self) -> bool:
        """Whether the connection goes on without ranks that are lost."""
        ...

    def owner(self, slot: int) -> int:
        """Return the rank that computes a slot."""
        ...

    def begin_call(self, name: str) -> None:
        """Note what all ranks do next, which those that wait compare."""
        ...

    def detail_call(self, text: str) -> None:
        """Add to the name of the call that is under way what else all ranks should have the same now."""
        ...

    def reduction(self, weights: Mapping[int, float], number: int = 0) -> Reduction:
        """Begin a sum over slots of these weights; every rank that has one of them names the same ones.

        Args:
            weights: by slot, in their order.
            number: of the program that sums, the same on every rank.
        """
        ...

    def scattered_reduction(self, weights: Mapping[int, float], layout: Packing, number: int = 0) -> Reduction:
        """Begin such a sum whose chunks stay with the ranks of their slots; ranks without examples take part."""
        ...

    def gather_parts(self, layout: Packing, write: Callable[[list[Ndarray]], None]) -> list[Ndarray]:
        """Return buffers of which each rank writes the chunks of its slots, in a function that is called once."""
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

    def post(self, data: bytes, rank: int, tag: int) -> None:
        """Begin to send bytes."""
        ...

    def poll(self, rank: int, tag: int) -> bytes | None:
        """Return bytes that have come from a rank, None where there are none yet."""
        ...

    def end_posts(self) -> None:
        """Wait until all that was posted has left."""
        ...

    def pass_on(self, data: bytes) -> bytes:
        """Return the bytes of the rank before this one, which gives its own to the next, in a ring."""
        ...

    def trade(self, sends: Sequence[tuple[Ndarray, int, int]], receives: Sequence[tuple[Ndarray, int, int]]) -> None:
        """Send and receive contiguous arrays, each with a rank and a tag."""
        ...

    def make_message(self, array: Ndarray, rank: int, number: int, *, is_sent: bool) -> Message:
        """Prepare a message that carries a contiguous array to or from a rank, as often as it is started."""
        ...

    def wait_for(self, is_done: Callable[[], bool]) -> None:
        """Call a test until it says yes, or the deadline goes by without any progress of it."""
        ...

    def commit(self, is_done: bool) -> bool:
        """Agree whether all ranks finished; False where one was lost and the rest must do the step again."""
        ...

    def settle(self, error: Exception | None) -> list[str]:
        """Wait until all ranks are at the end of a call, and return errors of some; after one all are in step again."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class LocalLink:
    """One process that has all slots: it defines the bits."""

    rank = 0
    ranks = 1
    losses = 0
    shrinks = False

    def __init__(self, slots: int) -> None:
        self.memory: Memory = Memory()
        self._slots = slots

    def owner(self, slot: int) -> int:
        """Return rank 0."""
        return 0

    def begin_call(self, name: str) -> None:
        """Do nothing: nobody waits."""

    def detail_call(self, text: str) -> None:
        """Do nothing: nobody waits."""

    def reduction(self, weights: Mapping[int, float], number: int = 0) -> Reduction:
        """Begin a sum in this process."""
        return _LocalReduction(self._slots, weights, self.memory)

    def scattered_reduction(self, weights: Mapping[int, float], layout: Packing, number: int = 0) -> Reduction:
        """Begin a sum in this process."""
        return self.reduction(weights)

    def gather_parts(self, layout: Packing, write: Callable[[list[Ndarray]], None]) -> list[Ndarray]:
        """Return buffers: all chunks are here."""
        buffers = layout.empty(self.memory)
        write(buffers)
        return buffers

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

    def post(self, data: bytes, rank: int, tag: int) -> None:
        """Refuse: all slots are here."""
        raise AssertionError("one process sends nothing")

    def poll(self, rank: int, tag: int) -> bytes | None:
        """Return None: nothing comes."""
        return None

    def end_posts(self) -> None:
        """Do nothing."""

    def pass_on(self, data: bytes) -> bytes:
        """Return the bytes."""
        return data

    def trade(self, sends: Sequence[tuple[Ndarray, int, int]], receives: Sequence[tuple[Ndarray, int, int]]) -> None:
        """Do nothing: nobody else is there."""

    def make_message(self, array: Ndarray, rank: int, number: int, *, is_sent: bool) -> Message:
        """Refuse: all slots are here."""
        raise AssertionError("one process sends nothing")

    def wait_for(self, is_done: Callable[[], bool]) -> None:
        """Call the test until it says yes."""

        def look(waited: float) -> None:
            if waited > LOCAL_SECONDS:
                raise PeerLost(f"distributed: no progress: got {waited:.0f} s of waiting; is the program right?")

        wait_until(is_done, look)

    def commit(self, is_done: bool) -> bool:
        """Return True: nothing can be lost."""
        return is_done

    def settle(self, error: Exception | None) -> list[str]:
        """Return nothing: there is no other rank."""
        return []

    def close(self) -> None:
        """Do nothing."""


class _LocalReduction:
    """A sum in the order of the tree."""

    root = 0
    has_idle = False

    def __init__(self, slots: int, weights: Mapping[int, float], memory: Memory) -> None:
        self.slots = tuple(weights)
        tree = tree_over(slots, self.slots)
        self._root = tree.root
        self._partial = Partial(tree, weights, memory)

    def add(self, slot: int, layout: Packing, leaves: Sequence[Ndarray]) -> None:
        """Add the leaves of the next slot."""
        self._partial.add(slot, layout, leaves)

    def finish(self) -> list[Ndarray]:
        """Return the sums.

        Raises:
            ArgumentError: integers that differ.
        """
        if self._partial.is_refused:
            refuse_unequal()
        return self._partial.sums[self._root]
