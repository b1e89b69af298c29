"""Watch: what waiting ranks tell each other, and collectives of bytes that never wait inside MPI."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import struct
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

import attrs
import numpy as np

from afx.distributed.link import CallFailedError
from afx.distributed.sums.buffers import Ndarray
from afx.errors import ArgumentError, PeerLost

# --- Watch: what ranks that wait tell each other, so that calls that do not fit end at once and name both

TELL_SECONDS: Final = 0.5  # a wait of this length is told to the others
LEFT_SECONDS: Final = 3.0  # without any progress, while all others wait in later calls
LEFT_LOOKS: Final = 100  # as many tests in between: after a pause of this process all may be there, and not yet taken
SHED_FACTOR: Final = 2.0  # deadlines until a rank that hangs, and that nobody could end, is an error
NOTICE_TAG: Final = 3
NAME_BYTES: Final = 112
NOTICE: Final = struct.Struct(f"<qqq{NAME_BYTES}s")  # number of the call, of its part, state, name
WAITS, ENDED, FAILED = range(3)  # states of a rank: it waits in the call, its program ended, or the call failed on it
MANY_RANKS: Final = 64  # above, a notice goes to neighbours at distances that double
KEPT_NAMES: Final = 256
END_SECONDS: Final = 1.0


@attrs.frozen
class Peer:
    """Where a rank runs.

    Attributes:
        host: the name of the machine.
        process: its number there.
    """

    host: str
    process: int


@attrs.frozen
class _Notice:
    """What a rank said last.

    Attributes:
        number: of the call in which it waits, or of its last one.
        part: of that call: how many details it had noted.
        state: whether it waits, its program ended, or the call failed.
        name: of the call, with the last detail where it waits.
    """

    number: int
    part: int
    state: int
    name: str

    @property
    def is_end(self) -> bool:
        """Whether its program ended."""
        return self.state == ENDED


def refuse_calls(rank: int, name: str, other: int, other_name: str, number: int) -> NoReturn:
    """Refuse calls of two ranks that do not fit.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(
        f"distributed: ranks make other calls: got rank {other} in {other_name}, rank {rank} in {name} (call {number}); "
        "every rank makes the same calls in the same order: look for an `if machines.rank == 0:` around one of them"
    )


class Watch:
    """What this rank knows of the others, over one communicator.

    Attributes:
        number: of the call that is under way.

    Args:
        mpi: the module of mpi4py.
        comm: the communicator.
        deadline: seconds after which a rank that gives no sign counts as lost.
        sheds: whether a rank that hangs is ended where it can be.
    """

    def __init__(self, mpi: Any, comm: Any, deadline: float, sheds: bool) -> None:
        self._mpi = mpi
        self._deadline = deadline
        self._sheds = sheds
        self.number: int = 0
        self._part = 0
        self._call = "connect"
        self._names: dict[tuple[int, int], str] = {}  # of the last calls and their parts
        self.use(comm, [])

    def use(self, comm: Any, peers: list[Peer]) -> None:
        """Watch the ranks of another communicator; the call that is under way begins again."""
        self._comm = comm
        self._notices: dict[int, _Notice] = {}
        self._told = (-1, 0)
        self._note(0, self._call)
        self._sent: list[Any] = []
        self._has_shed = False
        self.peers: list[Peer] = peers

    @property
    def name(self) -> str:
        """The name of the call that is under way."""
        return _plain(self._names[self.number, self._part])

    def begin(self, name: str) -> None:
        """Note the next call."""
        self.number += 1
        self._call = name
        self._note(0, name)

    def detail(self, text: str) -> None:
        """Add to the name of the call what else all ranks should have the same now: its next part begins."""
        self._note(self._part + 1, f"{self._call}: {text}")

    def _note(self, part: int, name: str) -> None:
        """Begin a part of the call that is under way; the oldest names are forgotten."""
        self._part = part
        self._names[self.number, part] = name
        self._left_looks = 0  # how often all other ranks had gone on from it
        while len(self._names) > KEPT_NAMES:
            del self._names[next(iter(self._names))]

    def look(self, waited: float) -> None:
        """Tell the others that this rank waits, hear what they say, and give up after the deadline.

        Raises:
            ArgumentError: another rank is in another call.
            PeerLost: another one has ended, or gave no answer in time.
        """
        if waited < TELL_SECONDS:
            return
        if self._told != (self.number, self._part):
            self._told = (self.number, self._part)
            self._tell(WAITS)
        self._hear()
        if waited >= LEFT_SECONDS:
            self._check_left()
        if waited < self._deadline:
            return
        if self._sheds:
            self._shed()
            if waited < SHED_FACTOR * self._deadline:
                return
        silent = [rank for rank in range(self._comm.size) if rank != self._comm.rank and not self._is_here(rank)]
        raise PeerLost(
            f"{self.name}: no answer within the deadline: got {waited:.1f} s of waiting, no sign of ranks {silent}; look at "
            "their output, or give connect() a longer deadline="
        )

    def say_failed(self) -> None:
        """Tell the others that the call that is under way failed here, so that they end it, too."""
        with contextlib.suppress(self._mpi.Exception):
            self._tell(FAILED)

    def look_at_end(self, waited: float, *, is_failed: bool) -> None:
        """Hear what the others say while this rank waits for all of them to end the call.

        Raises:
            ArgumentError: another rank waits in a collective that this one does not make, or is in a later call.
            PeerLost: another one has ended, or gave no answer in time.
        """
        if waited < TELL_SECONDS:
            return
        self._receive_notices()
        rank = self._comm.rank
        for other, notice in self._notices.items():
            if not is_failed and notice.number == self.number and notice.state == WAITS and notice.part > self._part:
                refuse_calls(rank, self.name, other, notice.name, notice.number)
            if notice.number > self.number or (notice.is_end and notice.number <= self.number):
                raise PeerLost(
                    f"{self.name}: rank {other} does not come to the end of the call: got it in {notice.name} (call "
                    f"{notice.number}); every rank makes the same calls"
                )
        if waited >= self._deadline:
            raise PeerLost(
                f"{self.name}: no answer within the deadline: got {waited:.1f} s of waiting for the end of the call on all "
                "ranks; look at their output"
            )

    def say_goodbye(self) -> None:
        """Tell the others that this rank's program ends, after which it takes part in nothing."""
        with contextlib.suppress(self._mpi.Exception):
            self._tell(ENDED)
            end = time.monotonic() + END_SECONDS
            while not self._has_told() and time.monotonic() < end:
                time.sleep(0.001)

    def part(self) -> bool:
        """Send the last notice and wait for the others'; tell whether none is on its way any more."""
        with contextlib.suppress(self._mpi.Exception):
            self._tell(ENDED)
            end, listeners = time.monotonic() + self._deadline, self._listeners()
            while time.monotonic() < end:
                self._receive_notices()
                if self._has_told() and all(
                    other in self._notices and self._notices[other].is_end for other in listeners
                ):
                    return True
                time.sleep(0.0001)
        return False

    def is_alone(self) -> bool:
        """Tell whether no other rank is left, as far as can be seen from this machine."""
        if len(self.peers) != self._comm.size:
            return False
        own_rank: int = self._comm.rank
        other_peers = [peer for rank, peer in enumerate(self.peers) if rank != own_rank]
        return all(peer.host == self.peers[own_rank].host and not _is_running(peer.process) for peer in other_peers)

    def _has_told(self) -> bool:
        return all(request.Test() for request in self._sent)

    def _listeners(self) -> list[int]:
        """Return the ranks that hear this one, and that it hears."""
        size, rank = self._comm.size, self._comm.rank
        if size <= MANY_RANKS:
            return [other for other in range(size) if other != rank]
        return sorted({(rank + sign * 2**k) % size for k in range(size.bit_length()) for sign in (1, -1)} - {rank})

    def _tell(self, state: int) -> None:
        name = self.name if state != FAILED else _plain(self._call)
        notice = np.frombuffer(NOTICE.pack(self.number, self._part, state, name.encode()), np.uint8)
        self._sent = [request for request in self._sent if not request.Test()]
        self._sent += [self._comm.Isend([notice, self._mpi.BYTE], other, NOTICE_TAG) for other in self._listeners()]

    def _receive_notices(self) -> None:
        status = self._mpi.Status()
        while self._comm.Iprobe(self._mpi.ANY_SOURCE, NOTICE_TAG, status):
            memory = np.zeros(NOTICE.size, np.uint8)
            other = status.Get_source()
            self._comm.Recv([memory, self._mpi.BYTE], other, NOTICE_TAG)
            number, part, state, name = NOTICE.unpack(memory.tobytes())
            self._notices[other] = _Notice(number, part, state, name.rstrip(b"\0").decode(errors="replace"))

    def _hear(self) -> None:
        self._receive_notices()
        for other, notice in self._notices.items():
            self._compare(other, notice)

    def _compare(self, other: int, notice: _Notice) -> None:
        """Verify that another rank's last notice belongs to this call.

        Raises:
            CallFailedError: it left this call by an error.
            PeerLost: it ended its program before.
            ArgumentError: it waits in another call.
        """
        rank = self._comm.rank
        if notice.state == FAILED:
            if notice.number == self.number:
                if notice.name != _plain(self._call):
                    refuse_calls(rank, self.name, other, notice.name, notice.number)
                raise CallFailedError(
                    f"{self.name}: a call that rank {other} has left: got an error there, or its end without this part; every "
                    "rank makes the same calls, with the same arguments"
                )
            return
        own_name = self._find_name(notice)
        if notice.is_end and notice.number < self.number:
            raise PeerLost(
                f"distributed: rank {other} ended its program after {notice.name} (call {notice.number}): got no answer to rank "
                f"{rank} in {self.name} (call {self.number}); every rank makes the same calls"
            )
        if notice.state == WAITS and own_name is not None and _plain(own_name) != notice.name:
            refuse_calls(rank, _plain(own_name), other, notice.name, notice.number)

    def _find_name(self, notice: _Notice) -> str | None:
        """Return the name of this rank's part beside a notice's: of a call that it has left before that part, the last one."""
        parts = [part for number, part in self._names if number == notice.number]
        if notice.part in parts:
            return self._names[notice.number, notice.part]
        has_left = notice.number < self.number and parts and max(parts) < notice.part
        return self._names[notice.number, max(parts)] if has_left else None

    def _check_left(self) -> None:
        """Refuse to wait in a call that all others have left: nothing more will come."""
        notices = [self._notices.get(rank) for rank in range(self._comm.size) if rank != self._comm.rank]
        departed = [
            notice for notice in notices if notice is not None and (notice.is_end or notice.number > self.number)
        ]
        self._left_looks = self._left_looks + 1 if departed and len(departed) == len(notices) else 0
        if self._left_looks > LEFT_LOOKS:
            raise ArgumentError(
                f"distributed: a call that the other ranks have left: got rank {self._comm.rank} in {self.name} (call "
                f"{self.number}), others in {departed[0].name} (call {departed[0].number}) or behind it; every rank makes the "
                "same calls, with the same arguments"
            )

    def _is_here(self, rank: int) -> bool:
        notice = self._notices.get(rank)
        return notice is not None and (notice.number, notice.part) >= (self.number, self._part)

    def _shed(self) -> None:
        """End ranks of this machine that gave no sign: the connection then learns that they are lost."""
        if self._has_shed or len(self.peers) != self._comm.size:
            return
        self._has_shed = True
        own_rank: int = self._comm.rank
        own_host = self.peers[own_rank].host
        for rank, peer in enumerate(self.peers):
            if rank != own_rank and peer.host == own_host and not self._is_here(rank):
                with contextlib.suppress(OSError):
                    os.kill(peer.process, signal.SIGKILL)


def _plain(name: str) -> str:
    """Return a name as ranks tell it to each other; of a long one the beginning, and a digest of all of it."""
    plain = name if name.isascii() else name.encode("ascii", "replace").decode()
    return plain if len(plain) <= NAME_BYTES else f"{plain[: NAME_BYTES - 12]}... {zlib.crc32(name.encode()):08x}"


def _is_running(process: int) -> bool:
    """Tell whether a process of this machine exists and has not ended."""
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
    except ProcessLookupError:
        return False
    except OSError:  # one of another user, or a system without /proc
        return True
    return state.split()[0] not in "ZX"


# --- Collectives: bytes from one rank to all, and from all to all, by MPI's own algorithms without waiting inside MPI
#
# Each begins with one message of fixed size, which names the call and holds what is short.

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
        ranks, record = int(port.comm.size), self._pack(data)
        records = np.empty((ranks, RECORD_BYTES), np.uint8)
        port.wait([port.begin(lambda: port.comm.Iallgather([record, port.byte], [records, port.byte]))])
        lengths = [self._check(records[rank], rank) for rank in range(ranks)]
        if max(lengths) <= SHORT_BYTES:
            return [records[k, HEAD.size : HEAD.size + length].tobytes() for k, length in enumerate(lengths)]
        step = MOST_BYTES // ranks
        pieces: list[list[bytes]] = [[] for _ in lengths]
        own = np.frombuffer(data, np.uint8)
        for start in range(0, max(lengths), step):
            counts = [min(max(length - start, 0), step) for length in lengths]
            received = np.empty(sum(counts), np.uint8)
            into = [received, counts, port.byte]
            given = [own[start : start + step], port.byte]
            port.wait([port.begin(functools.partial(port.comm.Iallgatherv, given, into))])
            for part, piece in zip(np.split(received, np.cumsum(counts)[:-1]), pieces, strict=True):
                piece.append(part.tobytes())
        return [b"".join(piece) for piece in pieces]

    def _pack(self, data: bytes) -> Ndarray:
        record = np.zeros(RECORD_BYTES, np.uint8)
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
