"""MPI: the link among processes started by ``mpiexec``, through mpi4py (extra ``distributed``).

Sums are all-to-all exchanges of chunks: each rank gets its chunk of every slot's buffer, adds them in the order of the
slots, and sends the sum to all others. No call blocks inside MPI: requests are tested with back-off until a deadline.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import Any, Final, Literal

import numpy as np

from afx.distributed.buffers import Ndarray, fold
from afx.distributed.link import RankLostError, check_equal
from afx.distributed.machines import Machines
from afx.distributed.waiting import wait_until
from afx.errors import ArgumentError, MissingExtraError, PeerLost

__all__ = ["connect"]

PIECE_BYTES: Final = 1 << 30  # Open MPI takes at most 2**31 - 1 elements a call
SUM_TAG: Final = 64  # tags below it are those of other messages
SIZE_TAG, DATA_TAG, SHARE_TAG = 1, 2, 3
MOST_DTYPES: Final = 16
GRAPH_TAG: Final = 1 << 20
# Quick start within one machine: 0.1 s instead of 1.1 s for the search for networks.
SETTINGS: Final = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm,tcp"}


def connect(
    slots: int | None = None, *, deadline: float = 300.0, on_loss: Literal["stop", "shrink"] = "stop"
) -> Machines:
    """Return the slots of a job that ``mpiexec`` started, shared by its ranks.

    Start it by ``mpiexec -n 2 python -m mpi4py train.py``. An exception on one rank ends all ranks with its traceback.

    Args:
        slots: the number of logical machines; None for one a rank. Results depend on it, not on the number of ranks.
        deadline: how many seconds to wait for another rank before `PeerLost` is raised.
        on_loss: ``"stop"`` ends the job when a rank is lost. ``"shrink"`` goes on without it: the others do the step
            again, with the same bits; needs Open MPI 5 and ``mpiexec --with-ft ulfm``.

    Raises:
        MissingExtraError: mpi4py is not installed.
        ArgumentError: more ranks than slots, or an ``mpiexec`` of another MPI, which starts separate jobs of size 1.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        mpi: Any = importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise MissingExtraError('connect: needs mpi4py: got none; pip install "afx[distributed]"') from error
    comm: Any = mpi.COMM_WORLD.Dup()
    count = comm.size if slots is None else slots
    asked = int(os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("PMI_SIZE") or comm.size)
    if asked != comm.size:
        raise ArgumentError(
            f"connect: mpiexec started {asked} ranks and MPI sees {comm.size}: got an mpiexec of another MPI than "
            "mpi4py's; use the one that the extra distributed installs"
        )
    if not 1 <= comm.size <= count:
        raise ArgumentError(f"connect: at most one rank a slot: got {comm.size} ranks for {count} slots; add slots")
    if on_loss not in ("stop", "shrink"):
        raise ArgumentError(f'connect: on_loss is "stop" or "shrink": got {on_loss!r}')
    _abort_on_error(comm)
    machines = Machines(MpiLink(mpi, comm, count, deadline, on_loss == "shrink"), count)
    machines.check_same(f"{count} {sys.version_info[:2]} {np.__version__}", "number of slots and versions")
    return machines


def _abort_on_error(comm: Any) -> None:
    """End all ranks when one ends by an exception, as plain mpi4py does not."""

    def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        traceback.print_exception(kind, error, trace)
        sys.stderr.flush()
        comm.Abort(130 if kind is KeyboardInterrupt else 1)

    sys.excepthook = end


class MpiLink:
    """The ranks of a communicator; slots are dealt to them in contiguous blocks."""

    def __init__(self, mpi: Any, comm: Any, slots: int, deadline: float, shrinks: bool) -> None:
        self._mpi = mpi
        self._comm = comm
        self._slots = slots
        self._deadline = deadline
        self._shrinks = shrinks
        self._abandoned: list[Any] = []

    @property
    def rank(self) -> int:
        """The number of this process."""
        return int(self._comm.rank)

    @property
    def ranks(self) -> int:
        """The number of processes."""
        return int(self._comm.size)

    def owner(self, slot: int) -> int:
        """Return the rank that computes a slot."""
        return slot * self.ranks // self._slots

    def reduction(self, slots: Sequence[int]) -> MpiReduction:
        """Begin a sum over slots."""
        return MpiReduction(self, slots)

    # -- messages -----------------------------------------------------------------------------------------------------
    def send_to(self, array: Ndarray, rank: int, tag: int) -> list[Any]:
        """Begin to send a contiguous array, in pieces."""
        with self.watch():
            return [self._comm.Isend([piece, self._mpi.BYTE], rank, tag) for piece in _pieces(array)]

    def receive_into(self, array: Ndarray, rank: int, tag: int) -> list[Any]:
        """Begin to receive into a contiguous array, in pieces."""
        with self.watch():
            return [self._comm.Irecv([piece, self._mpi.BYTE], rank, tag) for piece in _pieces(array)]

    def wait(self, requests: list[Any], what: str) -> None:
        """Wait until all requests are done."""
        pending = list(requests)

        def is_done() -> bool:  # one by one: only so does each error keep its class
            while pending and pending[-1].Test():
                pending.pop()
            return not pending

        try:
            with self.watch():
                wait_until(is_done, self._deadline, what)
        except RankLostError:
            self._abandoned += requests  # whose memory MPI may still write into
            raise

    @contextlib.contextmanager
    def watch(self) -> Generator[None, None, None]:
        """Turn MPI's errors about lost ranks into afx's."""
        try:
            yield
        except self._mpi.Exception as error:
            lost = (self._mpi.ERR_PROC_FAILED, self._mpi.ERR_PROC_FAILED_PENDING, self._mpi.ERR_REVOKED)
            if self._shrinks and error.Get_error_class() in lost:
                self._comm.Revoke()  # the others, which may wait for this rank, learn of it
                raise RankLostError from error
            raise PeerLost(
                f"distributed: a rank was lost ({error}): got no answer; restart from the last checkpoint"
            ) from error

    def post_send(self, array: Ndarray, rank: int, message: int) -> Callable[[], bool]:
        """Begin to send a contiguous array; return a test whether it is sent."""
        return _Pending(self, array, self.send_to(array, rank, GRAPH_TAG + message))

    def post_receive(self, array: Ndarray, rank: int, message: int) -> Callable[[], bool]:
        """Begin to receive into a contiguous array; return a test whether it is there."""
        return _Pending(self, array, self.receive_into(array, rank, GRAPH_TAG + message))

    def wait_for(self, is_done: Callable[[], bool], what: str) -> None:
        """Call a test until it says yes, or the deadline goes by."""
        with self.watch():
            wait_until(is_done, self._deadline, what)

    def commit(self, is_done: bool) -> bool:
        """Agree whether all ranks finished; shrink to those that are left where not."""
        if not self._shrinks:
            return is_done
        flag = np.array([int(is_done)], np.int32)
        try:
            request = self._comm.Iagree(flag)
            wait_until(lambda: bool(request.Test()), self._deadline, "commit")
        except self._mpi.Exception:
            flag[0] = 0
        if flag[0]:
            return True
        self._comm = self._comm.Shrink()
        return False

    def broadcast(self, data: bytes | None, root: int) -> bytes:
        """Return the bytes that the root has."""
        if self.rank != root:
            return self._receive(root)
        if data is None:
            raise ArgumentError("broadcast: the root has nothing to send: got None; pass the value on that rank")
        self._send(data, [rank for rank in range(self.ranks) if rank != root])
        return data

    def send(self, data: bytes | None, root: int, target: int) -> bytes | None:
        """Return on the target the bytes that the root has; None on the others."""
        if self.rank == root:
            if data is None:
                raise ArgumentError("scatter: the root has nothing to send: got None; pass the tree on that rank")
            if target == root:
                return data
            self._send(data, [target])
        return self._receive(root) if self.rank == target else None

    def gather(self, data: bytes) -> list[bytes]:
        """Return the bytes of all ranks, on every rank."""
        others = [rank for rank in range(self.ranks) if rank != self.rank]
        sizes = np.zeros((self.ranks, 1), np.int64)
        sizes[self.rank] = len(data)
        requests = [r for rank in others for r in self.receive_into(sizes[rank], rank, SIZE_TAG)]
        requests += [r for rank in others for r in self.send_to(sizes[self.rank], rank, SIZE_TAG)]
        self.wait(requests, "gather")
        mine = np.frombuffer(data, np.uint8)
        found = [mine if rank == self.rank else np.empty(int(sizes[rank, 0]), np.uint8) for rank in range(self.ranks)]
        requests = [r for rank in others for r in self.receive_into(found[rank], rank, DATA_TAG)]
        requests += [r for rank in others for r in self.send_to(mine, rank, DATA_TAG)]
        self.wait(requests, "gather")
        return [array.tobytes() for array in found]

    def _send(self, data: bytes, ranks: Sequence[int]) -> None:
        size, array = np.array([len(data)], np.int64), np.frombuffer(data, np.uint8)
        requests = [r for rank in ranks for r in self.send_to(size, rank, SIZE_TAG)]
        requests += [r for rank in ranks for r in self.send_to(array, rank, DATA_TAG)]
        self.wait(requests, "send")

    def _receive(self, root: int) -> bytes:
        size = np.zeros(1, np.int64)
        self.wait(self.receive_into(size, root, SIZE_TAG), "receive")
        array = np.empty(int(size[0]), np.uint8)
        self.wait(self.receive_into(array, root, DATA_TAG), "receive")
        return array.tobytes()

    def close(self) -> None:
        """Free the communicator."""
        if not self._shrinks:  # freeing is collective, and a lost rank would never come
            self._comm.Free()


class _Pending:
    """A message under way, with the memory that it needs."""

    __slots__ = ("_array", "_link", "_requests")

    def __init__(self, link: MpiLink, array: Ndarray, requests: list[Any]) -> None:
        self._link = link
        self._array = array
        self._requests = requests

    def __call__(self) -> bool:
        while self._requests and self._requests[-1].Test():
            self._requests.pop()
        return not self._requests


def _pieces(array: Ndarray) -> list[Ndarray]:
    """Return the bytes of a contiguous array in pieces that one call of MPI takes."""
    flat = array.reshape(-1).view(np.uint8)
    return [flat[start : start + PIECE_BYTES] for start in range(0, max(flat.size, 1), PIECE_BYTES)]


class MpiReduction:
    """One sum over slots: sending begins as soon as a slot is computed, while the next one computes."""

    def __init__(self, link: MpiLink, slots: Sequence[int]) -> None:
        self._link = link
        self._slots = slots
        self._mine: dict[int, list[Ndarray]] = {}
        self._incoming: dict[int, list[Ndarray]] = {}
        self._requests: list[Any] = []
        self._workers = sorted({link.owner(slot) for slot in slots})  # ranks that compute: chunks are theirs

    def add(self, slot: int, buffers: Sequence[Ndarray]) -> None:
        """Take in the buffers of one of this rank's slots and begin to send each chunk to its rank."""
        link = self._link
        if not self._mine:
            self._post_receives(buffers)
        self._mine[slot] = list(buffers)
        for rank in self._workers:
            if rank != link.rank:
                for k, buffer in enumerate(buffers):
                    tag = SUM_TAG + slot * MOST_DTYPES + k
                    self._requests += link.send_to(buffer[self._chunk(buffer.size, rank)], rank, tag)

    def _post_receives(self, buffers: Sequence[Ndarray]) -> None:
        """Begin to receive this rank's chunk of the other ranks' slots."""
        link = self._link
        for slot in self._slots:
            owner = link.owner(slot)
            if owner != link.rank:
                chunks = [np.empty_like(buffer[self._chunk(buffer.size, link.rank)]) for buffer in buffers]
                self._incoming[slot] = chunks
                for k, chunk in enumerate(chunks):
                    self._requests += link.receive_into(chunk, owner, SUM_TAG + slot * MOST_DTYPES + k)

    def _chunk(self, size: int, rank: int) -> slice:
        """Return the part of a buffer that a rank sums."""
        place, count = self._workers.index(rank), len(self._workers)
        return slice(size * place // count, size * (place + 1) // count)

    def finish(self) -> list[Ndarray]:
        """Fold this rank's chunk in the order of the slots, and return the whole sums."""
        link = self._link
        link.wait(self._requests, "value_and_grad")
        first = next(iter(self._mine.values()))
        totals = [np.empty_like(buffer) for buffer in first]
        requests: list[Any] = []
        for k, total in enumerate(totals):
            mine = total[self._chunk(total.size, link.rank)]
            for number, slot in enumerate(self._slots):
                own = self._mine.get(slot)
                part = self._incoming[slot][k] if own is None else own[k][self._chunk(total.size, link.rank)]
                if number == 0:
                    mine[...] = part
                else:
                    check_equal(fold(mine, part))
            for rank in self._workers:
                if rank != link.rank:
                    requests += link.receive_into(total[self._chunk(total.size, rank)], rank, SHARE_TAG)
                    requests += link.send_to(mine, rank, SHARE_TAG)
        link.wait(requests, "value_and_grad")
        return totals
