"""Shared memory: what ranks of one machine write for each other, and counters that say how far each has come.

A rank's memory is a ring of chunks. It writes the next chunk as soon as all others have read the one whose place that takes,
and then raises its counter; so nothing but memory carries what ranks of one machine add up. This relies on stores that
become visible in the order of the program, as those of x86-64 do (Intel 64 Architectures Software Developer's Manual,
volume 3A, section "Memory Ordering in P6 and More Recent Processor Families"); elsewhere messages are sent.
"""

from __future__ import annotations

import mmap
import os
import platform
import secrets
import struct
from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np

from afx.distributed.mpi.watch import Watch
from afx.distributed.sums.buffers import Ndarray
from afx.errors import ArgumentError

__all__ = ["RING", "SIGN", "SLOT_BYTES", "SharedMemory", "share_memory"]

RING: Final = 4  # chunks that a rank may be ahead of the others
SLOT_BYTES: Final = 1 << 18  # of a chunk: what is written, read and added lies in a processor's second cache
SIGN_BYTES: Final = 64
SIGN: Final = struct.Struct("<qqqq")  # call, bytes, tag, chunk
LINE_BYTES: Final = 64  # what one processor writes, and another reads, stands apart from the rest
HEADER_BYTES: Final = 1 << 12  # the token, and two lines of each of up to 31 ranks
TOKEN_BYTES: Final = 32
ORDERED: Final = ("x86_64", "AMD64")


class _Port(Protocol):
    """What shared memory needs of the link."""

    rank: int
    ranks: int
    watch: Watch

    def broadcast(self, data: bytes | None, root: int) -> bytes:
        """Return the bytes that the root has."""
        ...

    def gather(self, data: bytes) -> list[bytes]:
        """Return the bytes of all ranks."""
        ...

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

    Args:
        memory: all of it.
        port: the ranks.
    """

    def __init__(self, memory: mmap.mmap, port: _Port) -> None:
        self._bytes = memoryview(memory)
        self._memory: Ndarray = np.frombuffer(memory, np.uint8)
        self._counters = self._bytes[:HEADER_BYTES].cast("q")
        self._port = port
        self.rank: int = port.rank
        self.ranks: int = port.ranks
        self.slot_bytes: int = SLOT_BYTES
        self.watch: Watch = port.watch
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
            while len(signs) < min(number + 2, count):
                step = len(signs)
                self.wait_for_place(first + step)
                write(step, first + step)
                signs.append(SIGN.pack(self.watch.number, nbytes, tag, first + step))
                self.publish(first + step, signs[step])
            self.wait_for_others(first + number, signs[number])
            read(number, first + number)
            self.release(first + number)

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
            if bytes(self._bytes[start : start + SIGN.size]) != sign:
                raise ArgumentError(
                    f"distributed: a sum of another length or call than on another rank: got {SIGN.unpack(sign)[:2]} (call, "
                    f"bytes) here and {SIGN.unpack_from(self._bytes, start)[:2]} there, in {self.watch.name}; every rank "
                    "makes the same calls in the same order, with the same shapes"
                )

    def release(self, number: int) -> None:
        """Tell the others that this rank has read a chunk of theirs."""
        self._counters[self._read] = number + 1

    def _wait(self, place: int, least: int) -> None:
        counters = self._counters
        self._port.wait_beside(lambda: counters[place] >= least)


def _written_place(rank: int) -> int:
    return (1 + 2 * rank) * LINE_BYTES // 8


def _read_place(rank: int) -> int:
    return (2 + 2 * rank) * LINE_BYTES // 8


def _start(rank: int, place: int) -> int:
    return HEADER_BYTES + (rank * RING + place) * (SIGN_BYTES + SLOT_BYTES)


def share_memory(port: _Port) -> SharedMemory | None:
    """Return memory that all ranks share, None where one of them cannot; every rank calls it."""
    size = _start(port.ranks, 0)
    is_root = port.rank == 0
    file, token = _create(size) if is_root else None, secrets.token_bytes(TOKEN_BYTES)
    name = b"" if file is None else f"/proc/{os.getpid()}/fd/{file}".encode()
    data = port.broadcast(token + name if is_root else None, 0)
    token, path = data[:TOKEN_BYTES], data[TOKEN_BYTES:].decode()
    memory: mmap.mmap | None = None
    if file is not None:
        memory = mmap.mmap(file, size)
        memory[:TOKEN_BYTES] = token
    port.gather(b"")  # the token is written
    if not is_root:
        memory = _open(path, size, token)
    found = port.gather(b"" if memory is None else b"shared")
    if file is not None:
        os.close(file)
    return SharedMemory(memory, port) if memory is not None and all(found) else None


def _create(size: int) -> int | None:
    """Return a file of memory without a name, which ends with the processes that have it."""
    create: Any = getattr(os, "memfd_create", None)
    if create is None or platform.machine() not in ORDERED:
        return None
    try:
        file: int = create("afx")
        os.posix_fallocate(file, 0, size)
    except OSError:
        return None
    return file


def _open(path: str, size: int, token: bytes) -> mmap.mmap | None:
    """Return the memory of another process, if it is the one that was told."""
    if not path or platform.machine() not in ORDERED:
        return None
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        memory = mmap.mmap(file, size)
    except (OSError, ValueError):
        return None
    finally:
        os.close(file)
    return memory if memory[:TOKEN_BYTES] == token else None
