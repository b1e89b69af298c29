"""Collectives: bytes from one rank to all, and from all to all, by MPI's own algorithms without waiting inside MPI.

Each begins with one message of fixed size, which names the call and holds what is short.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np

from afx.distributed.mpi.watch import NAME_BYTES, Watch, refuse_calls
from afx.distributed.sums.buffers import Ndarray

__all__ = ["Collectives"]

HEAD: Final = struct.Struct(f"<qq{NAME_BYTES}s")  # length, number of the call, its name
RECORD_BYTES: Final = 1024
SHORT_BYTES: Final = RECORD_BYTES - HEAD.size
MOST_BYTES: Final = 1 << 30  # Open MPI counts at most 2**31 - 1 elements a call


class _Port(Protocol):
    """What collectives need of the link."""

    @property
    def watch(self) -> Watch:
        """The call that is under way."""
        ...

    @property
    def comm(self) -> Any:
        """The communicator."""
        ...

    @property
    def byte(self) -> Any:
        """MPI's type of a byte."""
        ...

    def begin(self, start: Any) -> Any:
        """Call a function of MPI that returns a request."""
        ...

    def wait(self, requests: Sequence[Any]) -> None:
        """Wait until all requests are done."""
        ...


class Collectives:
    """Broadcasts and gatherings over a link."""

    def __init__(self, port: _Port) -> None:
        self._port = port

    def broadcast(self, data: bytes | None, root: int) -> bytes:
        """Return the bytes that the root has."""
        port = self._port
        record = self._pack(b"" if data is None else data)
        port.wait([port.begin(lambda: port.comm.Ibcast([record, port.byte], root))])
        length = self._check(record, root)
        if length <= SHORT_BYTES:
            return record[HEAD.size : HEAD.size + length].tobytes()
        whole: Ndarray = np.empty(length, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        for start in range(0, length, MOST_BYTES):
            piece = whole[start : start + MOST_BYTES]
            port.wait([port.begin(lambda piece=piece: port.comm.Ibcast([piece, port.byte], root))])
        return whole.tobytes() if data is None else data

    def gather(self, data: bytes) -> list[bytes]:
        """Return the bytes of all ranks, on every rank."""
        port = self._port
        ranks, mine = int(port.comm.size), self._pack(data)
        records: Ndarray = np.empty((ranks, RECORD_BYTES), np.uint8)
        port.wait([port.begin(lambda: port.comm.Iallgather([mine, port.byte], [records, port.byte]))])
        lengths = [self._check(records[rank], rank) for rank in range(ranks)]
        if max(lengths) <= SHORT_BYTES:
            return [records[k, HEAD.size : HEAD.size + length].tobytes() for k, length in enumerate(lengths)]
        step = MOST_BYTES // ranks
        pieces: list[list[bytes]] = [[] for _ in lengths]
        own = np.frombuffer(data, np.uint8)
        for start in range(0, max(lengths), step):
            counts: list[int] = [min(max(length - start, 0), step) for length in lengths]
            found: Ndarray = np.empty(sum(counts), np.uint8)
            into = [found, counts, port.byte]
            given = [own[start : start + step], port.byte]
            port.wait([port.begin(functools.partial(port.comm.Iallgatherv, given, into))])
            for part, piece in zip(np.split(found, np.cumsum(counts)[:-1]), pieces, strict=True):
                piece.append(part.tobytes())
        return [b"".join(piece) for piece in pieces]

    def _pack(self, data: bytes) -> Ndarray:
        record: Ndarray = np.zeros(RECORD_BYTES, np.uint8)
        head = HEAD.pack(len(data), self._port.watch.number, self._port.watch.name.encode())
        short = data if len(data) <= SHORT_BYTES else b""
        record[: HEAD.size + len(short)] = np.frombuffer(head + short, np.uint8)
        return record

    def _check(self, record: Ndarray, rank: int) -> int:
        """Return the length of what a rank sends, if it makes the same call."""
        length, number, name = HEAD.unpack(record[: HEAD.size].tobytes())
        watch, text = self._port.watch, name.rstrip(b"\0").decode(errors="replace")
        if (number, text) != (watch.number, watch.name):
            refuse_calls(int(self._port.comm.rank), watch.name, rank, text, number)
        return int(length)
