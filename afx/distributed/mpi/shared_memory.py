"""Shared memory: what ranks of one machine write for each other, and counters that say how far each has come.

A rank's memory is a ring of chunks. It writes the next chunk as soon as all others have read the one whose place that takes,
and then raises its counter; so nothing but memory carries what ranks of one machine add up. This relies on stores that
become visible in the order of the program, as those of x86-64 do (Intel 64 Architectures Software Developer's Manual,
volume 3A, section "Memory Ordering in P6 and More Recent Processor Families"); elsewhere messages are sent.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

from afx.distributed.mpi.memory_files import FilePort, map_memory
from afx.distributed.mpi.shared_blocks import SharedBlocks
from afx.distributed.mpi.watch import Watch
from afx.distributed.sums.buffers import Layout, Memory, Ndarray
from afx.errors import ArgumentError

__all__ = ["RING", "SIGN", "SLOT_BYTES", "SharedMemory", "share_memory"]

RING: Final = 4  # chunks that a rank may be ahead of the others
SLOT_BYTES: Final = 1 << 18  # of a chunk: what is written, read and added lies in a processor's second cache
FIRST_LOOKS: Final = 100  # at a counter, before the time is: some microseconds
SIGN_BYTES: Final = 64
SIGN: Final = struct.Struct("<qqqq")  # call, bytes, tag, chunk
LINE_BYTES: Final = 64  # what one processor writes, and another reads, stands apart from the rest
HEADER_BYTES: Final = 1 << 12  # the token, and two lines of each of up to 31 ranks
WORD: Final = struct.Struct("<q")  # behind the sign: what ranks tell each other beside


class _Port(FilePort, Protocol):
    """What shared memory needs of the link."""

    ranks: int
    watch: Watch
    memory: Memory

    def wait_beside(self, is_done: Callable[[], bool]) -> None:
        """Call a test that looks at no message until it says yes."""
        ...


class SharedMemory:
    """Memory that the ranks of one machine share.

    Attributes:
        rank: the number of this process.
        ranks: how many share it.
        slot_bytes: the room of a chunk.
        watch: the call that is under way.
        blocks: where results stand that all ranks read.

    Args:
        memory: all of it.
        port: the ranks.
    """

    def __init__(self, memory: mmap.mmap, port: _Port) -> None:
        self._bytes: Any = memoryview(memory)  # any: checkers hold that it never equals bytes
        self._memory: Ndarray = np.frombuffer(memory, np.uint8)
        self._counters = self._bytes[:HEADER_BYTES].cast("q")
        self._port = port
        self.rank: int = port.rank
        self.ranks: int = port.ranks
        self.slot_bytes: int = SLOT_BYTES
        self.watch: Watch = port.watch
        self.blocks: SharedBlocks = SharedBlocks(lambda size: map_memory(port, size))
        places = [(_written_place(rank), _read_place(rank)) for rank in range(port.ranks)]
        self._written, self._read = places[port.rank]
        del places[port.rank]
        self._others_written = [written for written, _ in places]
        self._others_read = [read for _, read in places]
        self._own_starts = [_start(port.rank, place) for place in range(RING)]
        others = [rank for rank in range(port.ranks) if rank != port.rank]
        self._other_starts = [[_start(rank, place) for rank in others] for place in range(RING)]
        self._next = 0

    def run_steps(
        self, count: int, nbytes: int, tag: int, write: Callable[[int, int], None], read: Callable[[int, int], None]
    ) -> None:
        """Write chunks, and read those of the others, one behind, so that nobody waits for what is being written.

        Args:
            count: how many, on every rank.
            nbytes: of all, which ranks compare.
            tag: of the call, likewise.
            write: from the number of a step and that of its chunk.
            read: likewise.
        """
        first, signs = self.take_numbers(count), list[bytes]()
        for number in range(count):
            while (step := len(signs)) < count:
                if step > number + 1 and (self._are_written(first + number) or not self._has_place(first + step)):
                    break
                self.wait_for_place(first + step)
                write(step, first + step)
                signs.append(SIGN.pack(self.watch.number, nbytes, tag, first + step))
                self.publish(first + step, signs[step])
            self.wait_for_others(first + number, signs[number])
            read(number, first + number)
            self.release(first + number)

    def run_ahead(self, count: int, write: Callable[[int], None], read: Callable[[int], None]) -> None:
        """Write parts of a block, and read those of the others, one behind or more: nobody waits for a place.

        Args:
            count: how many, on every rank; all ranks have met before.
            write: from the number of a part.
            read: likewise.
        """
        first, written = self.take_numbers(count), 0
        for number in range(count):
            while written < count and (written < number + 2 or not self._are_written(first + number)):
                write(written)
                written += 1
                self._counters[self._written] = first + written
            for place in self._others_written:
                if self._counters[place] <= first + number:
                    self._wait(place, first + number + 1)
            read(number)

    def _are_written(self, number: int) -> bool:
        """Tell whether all others have written a chunk."""
        return all(self._counters[place] > number for place in self._others_written)

    def _has_place(self, number: int) -> bool:
        """Tell whether all others have read the chunk whose place this one takes."""
        return all(self._counters[place] > number - RING for place in self._others_read)

    def empty(self, layout: Layout) -> list[Ndarray]:
        """Return buffers that this rank alone sees."""
        return layout.empty(self._port.memory)

    def take_numbers(self, count: int) -> int:
        """Return the number of the first of some chunks; all before it are done with."""
        first = self._next
        self._next = first + count
        self._counters[self._read] = first
        return first

    def slot(self, rank: int, number: int) -> Ndarray:
        """Return the memory of a rank's chunk."""
        start = _start(rank, number % RING) + SIGN_BYTES
        return self._memory[start : start + SLOT_BYTES]

    def wait_for_place(self, number: int) -> None:
        """Wait until all others have read the chunk whose place this one takes."""
        counters, least = self._counters, number + 1 - RING
        for place in self._others_read:
            if counters[place] < least:
                self._wait(place, least)

    def publish(self, number: int, sign: bytes) -> None:
        """Tell the others that this rank's chunk is written, and what it is."""
        start = self._own_starts[number % RING]
        self._bytes[start : start + SIGN.size] = sign
        self._counters[self._written] = number + 1

    def wait_for_others(self, number: int, sign: bytes) -> None:
        """Wait until all others have written a chunk.

        Raises:
            ArgumentError: one of them wrote another thing.
        """
        counters = self._counters
        for place in self._others_written:
            if counters[place] <= number:
                self._wait(place, number + 1)
        for start in self._other_starts[number % RING]:
            if self._bytes[start : start + SIGN.size] != sign:
                raise ArgumentError(
                    f"distributed: a sum of other arrays, weights or call than on another rank: got {SIGN.unpack(sign)[:2]} "
                    f"(call, bytes) here and {SIGN.unpack_from(self._bytes, start)[:2]} there, in {self.watch.name}; every "
                    "rank makes the same calls in the same order, with the same structure, shapes and Split"
                )

    def release(self, number: int) -> None:
        """Tell the others that this rank has read a chunk of theirs."""
        self._counters[self._read] = number + 1

    def tell(self, number: int, word: int) -> None:
        """Write a whole number beside a chunk, before it is published."""
        WORD.pack_into(self._bytes, self._own_starts[number % RING] + SIGN.size, word)

    def common_bits(self, number: int) -> int:
        """Return the bits that all ranks have set in what they told beside a chunk, of which all are written."""
        place = number % RING
        bits = -1
        for start in (self._own_starts[place], *self._other_starts[place]):
            bits &= WORD.unpack_from(self._bytes, start + SIGN.size)[0]
        return bits

    def meet(self, nbytes: int, tag: int, word: int) -> int:
        """Wait until all ranks have come here; return the bits that all of them have set in a word.

        Args:
            nbytes: of the sum, which ranks compare.
            tag: of the call, likewise.
            word: of this rank.
        """
        number = self.begin_chunk()
        self.tell(number, word)
        self.pass_round(number, nbytes, tag)
        return self.common_bits(number)

    def begin_chunk(self) -> int:
        """Return the number of a chunk that may be written, where a call has one alone."""
        number = self._next
        self._next = number + 1
        counters, least = self._counters, number + 1 - RING
        counters[self._read] = number
        for place in self._others_read:
            if counters[place] < least:
                self._wait(place, least)
        return number

    def pass_round(self, number: int, nbytes: int, tag: int) -> None:
        """Publish a call's only chunk, and wait for those of the others; see `run_steps`."""
        sign = SIGN.pack(self.watch.number, nbytes, tag, number)
        start = self._own_starts[number % RING]
        self._bytes[start : start + SIGN.size] = sign
        self._counters[self._written] = number + 1
        self.wait_for_others(number, sign)

    def _wait(self, place: int, least: int) -> None:
        counters = self._counters
        for _ in range(FIRST_LOOKS):
            if counters[place] >= least:
                return
        self._port.wait_beside(lambda: counters[place] >= least)


def _written_place(rank: int) -> int:
    return (1 + 2 * rank) * LINE_BYTES // 8


def _read_place(rank: int) -> int:
    return (2 + 2 * rank) * LINE_BYTES // 8


def _start(rank: int, place: int) -> int:
    return HEADER_BYTES + (rank * RING + place) * (SIGN_BYTES + SLOT_BYTES)


def share_memory(port: _Port) -> SharedMemory | None:
    """Return memory that all ranks share, None where one of them cannot; every rank calls it."""
    memory = map_memory(port, _start(port.ranks, 0))
    return None if memory is None else SharedMemory(memory, port)
