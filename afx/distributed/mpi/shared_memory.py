"""Shared memory: what ranks of one machine write for each other, and counters that say how far each has come."""

from __future__ import annotations

import itertools
import mmap
import os
import platform
import secrets
import struct
import sys
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

from afx.distributed.mpi.watch import Watch
from afx.distributed.sums.buffers import ALIGNMENT_BYTES, Memory, Ndarray, Packing
from afx.errors import ArgumentError
from afx.runtime.buffer_cache import ALONE

# --- Memory files: memory that all ranks of one machine see, as a file without a name, which ends with the last of
# them

TOKEN_BYTES: Final = 32
ORDERED: Final = ("x86_64", "AMD64")  # whose stores become visible in the order of the program


class FilePort(Protocol):
    """What memory files need of the link."""

    rank: int

    def broadcast(self, data: bytes | None, root: int) -> bytes:
        """Return the bytes that the root has."""
        ...

    def gather(self, data: bytes) -> list[bytes]:
        """Return the bytes of all ranks."""
        ...


def map_memory(port: FilePort, size: int) -> mmap.mmap | None:
    """Return memory that all ranks share, None where one of them cannot; every rank calls it."""
    is_root = port.rank == 0
    file, token = _create(size) if is_root else None, secrets.token_bytes(TOKEN_BYTES)
    name = b"" if file is None else f"/proc/{os.getpid()}/fd/{file}".encode()
    data = port.broadcast(token + name if is_root else None, 0)
    token, path = data[:TOKEN_BYTES], data[TOKEN_BYTES:].decode()
    memory = None
    if file is not None:
        memory = _map(file, size)
    if memory is not None:
        memory[:TOKEN_BYTES] = token
    port.gather(b"")  # the token is written
    if not is_root:
        memory = _open(path, size, token)
    answers = port.gather(b"" if memory is None else b"shared")
    if file is not None:
        os.close(file)
    return memory if memory is not None and all(answers) else None


def _create(size: int) -> int | None:
    """Return a file of memory without a name."""
    create = getattr(os, "memfd_create", None)
    if create is None or platform.machine() not in ORDERED:
        return None
    try:
        file: int = create("afx")
    except OSError:
        return None
    try:
        os.posix_fallocate(file, 0, size)
    except OSError:  # there is no such memory
        os.close(file)
        return None
    return file


def _map(file: int, size: int) -> mmap.mmap | None:
    """Return the memory of a file."""
    try:
        return mmap.mmap(file, size)
    except (OSError, ValueError):
        return None


def _open(path: str, size: int, token: bytes) -> mmap.mmap | None:
    """Return the memory of another process, if it is the one that was told."""
    if not path or platform.machine() not in ORDERED:
        return None
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    memory = _map(file, size)
    os.close(file)
    return memory if memory is not None and memory[:TOKEN_BYTES] == token else None


# --- Shared blocks: memory of results that all ranks of one machine read, and of which each writes its part
#
# So nobody copies what others have added up. A block is written again as soon as no rank refers to a result in it:
# ranks tell each other as bits of a whole number, and choose the same one. Results are views that nobody can make
# writeable.

MOST_OF_SIZE: Final = 4  # results of one size that live at a time; what more there are is copied
MOST_BLOCKS: Final = 62  # bits of a whole number
PAGE_BYTES: Final = 1 << 12

# by identity; a WeakSet could not be read while another thread adds to it
_all: weakref.WeakValueDictionary[int, SharedBlocks] = weakref.WeakValueDictionary()


class SharedBlocks:
    """Blocks that ranks have in common, in the same order on each of them.

    Args:
        make: a size to memory that all ranks share, None where they cannot; every rank calls it.
    """

    def __init__(self, make: Callable[[int], mmap.mmap | None]) -> None:
        self._make = make
        self._sizes: list[int] = []
        self._memories: list[Ndarray] = []
        self._bases: list[Ndarray] = []  # the same, read-only: all results are views of these
        self._used_by_forks: list[Ndarray] = []
        _all[id(self)] = self

    def list_free(self) -> int:
        """Return the blocks to which nobody in this process refers, as bits."""
        bits, bit = 0, 1
        for base in self._bases:
            if sys.getrefcount(base) == ALONE:
                bits |= bit
            bit <<= 1
        return bits

    def choose(self, layout: Packing, free: int) -> int | None:
        """Return the number of a block for a result, None where there is none.

        Args:
            layout: of the result.
            free: the blocks to which no rank refers, as bits.
        """
        size = -(-_list_starts(layout)[-1] // PAGE_BYTES) * PAGE_BYTES
        if not size:
            return None
        alike = [number for number, own_size in enumerate(self._sizes) if own_size == size]
        chosen = next((number for number in alike if free >> number & 1), None)
        if chosen is not None or len(alike) >= MOST_OF_SIZE or len(self._sizes) >= MOST_BLOCKS:
            return chosen
        memory = self._make(size)
        if memory is None:
            return None
        self._sizes.append(size)
        self._memories.append(np.frombuffer(memory, np.uint8))
        self._bases.append(np.frombuffer(memoryview(memory).toreadonly(), np.uint8))
        return len(self._sizes) - 1

    def writeable(self, number: int, layout: Packing) -> list[Ndarray]:
        """Return the buffers of a block, of which each rank writes its part."""
        return _cut(self._memories[number], layout)

    def readable(self, number: int, layout: Packing) -> list[Ndarray]:
        """Return the buffers of a block as a result: it is not written again while anybody refers to them."""
        return _cut(self._bases[number], layout)

    def keep_used(self) -> None:
        """Write nothing again to which this process refers: a process that is forked off would see it change."""
        free = self.list_free()
        self._used_by_forks = [base for number, base in enumerate(self._bases) if not free >> number & 1]


def _list_starts(layout: Packing) -> list[int]:
    """Return where the buffer of each dtype begins in a block, and where the last one ends."""
    sizes = [length * dtype.itemsize for length, dtype in zip(layout.lengths, layout.dtypes, strict=True)]
    return [0, *itertools.accumulate(-(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for size in sizes)]


def _cut(memory: Ndarray, layout: Packing) -> list[Ndarray]:
    kinds = zip(_list_starts(layout), layout.lengths, layout.dtypes, strict=False)
    return [memory[start : start + length * dtype.itemsize].view(dtype) for start, length, dtype in kinds]


def keep_used_blocks() -> None:
    """Let all shared blocks keep what this process refers to, before another one is forked off."""
    for ref in _all.valuerefs():
        if (blocks := ref()) is not None:
            blocks.keep_used()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=keep_used_blocks)


# --- Shared memory
#
# A rank's memory is a ring of chunks. It writes the next chunk as soon as all others have read the one whose place
# that takes, and then raises its counter; so nothing but memory carries what ranks of one machine add up. This relies
# on stores that become visible in the order of the program, as those of x86-64 do (Intel 64 Architectures Software
# Developer's Manual, volume 3A, section "Memory Ordering in P6 and More Recent Processor Families"); elsewhere
# messages are sent.

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
        line = LINE_BYTES // 8  # of numbers: of each rank one that it writes, and one that it reads
        places = [((1 + 2 * rank) * line, (2 + 2 * rank) * line) for rank in range(port.ranks)]
        self._written, self._read = places[port.rank]
        del places[port.rank]
        self._others_written = [written for written, _ in places]
        self._others_read = [read for _, read in places]
        self._own_starts = [_start(port.rank, place) for place in range(RING)]
        peers = [rank for rank in range(port.ranks) if rank != port.rank]
        self._other_starts = [[_start(rank, place) for rank in peers] for place in range(RING)]
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

    def empty(self, layout: Packing) -> list[Ndarray]:
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

    def tell(self, number: int, value: int) -> None:
        """Write a whole number beside a chunk, before it is published."""
        WORD.pack_into(self._bytes, self._own_starts[number % RING] + SIGN.size, value)

    def common_bits(self, number: int) -> int:
        """Return the bits that all ranks have set in what they told beside a chunk, of which all are written."""
        place = number % RING
        bits = -1
        for start in (self._own_starts[place], *self._other_starts[place]):
            bits &= WORD.unpack_from(self._bytes, start + SIGN.size)[0]
        return bits

    def meet(self, nbytes: int, tag: int, bits: int) -> int:
        """Wait until all ranks have come here; return the bits that all of them have set.

        Args:
            nbytes: of the sum, which ranks compare.
            tag: of the call, likewise.
            bits: of this rank.
        """
        number = self.begin_chunk()
        self.tell(number, bits)
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


def _start(rank: int, place: int) -> int:
    return HEADER_BYTES + (rank * RING + place) * (SIGN_BYTES + SLOT_BYTES)


def share_memory(port: _Port) -> SharedMemory | None:
    """Return memory that all ranks share, None where one of them cannot; every rank calls it."""
    memory = map_memory(port, _start(port.ranks, 0))
    return None if memory is None else SharedMemory(memory, port)
