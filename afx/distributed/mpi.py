"""MPI: the link among processes started by ``mpiexec``, through mpi4py (extra ``distributed``).

No call blocks inside MPI: requests are tested with back-off until a deadline.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, NoReturn

import numpy as np

from afx.distributed.buffers import Layout, Memory, Ndarray
from afx.distributed.link import RankLostError
from afx.distributed.machines import Machines
from afx.distributed.mpi_reduction import MpiReduction, Route, gather_parts, plan_route
from afx.distributed.waiting import wait_until
from afx.errors import ArgumentError, MissingExtraError, PeerLost
from afx.runtime.thread_pool import get_threads, set_threads

__all__ = ["connect"]

PIECE_BYTES: Final = 1 << 30  # Open MPI takes at most 2**31 - 1 elements a call
SIZE_TAG, DATA_TAG = 1, 2
GRAPH_TAG: Final = 1 << 20
# Quick start within one machine: 0.1 s instead of 1.1 s for the search for networks.
SETTINGS: Final = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,sm,tcp"}


def connect(
    slots: int | None = None, *, deadline: float = 300.0, on_loss: Literal["stop", "shrink"] = "stop"
) -> Machines:
    """Return the slots of a job that ``mpiexec`` started, shared by its ranks.

    Start it by ``mpiexec -n 2 python -m mpi4py train.py``. An exception on one rank ends all ranks with its traceback.
    Ranks that share a machine's processors get an equal part of its threads (`afx.set_threads`).

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
    link = MpiLink(mpi, comm, count, deadline, on_loss == "shrink")
    _share_processors(link)
    machines = Machines(link, count)
    machines.check_same(f"{count} {sys.version_info[:2]} {np.__version__}", "number of slots and versions")
    return machines


def _share_processors(link: MpiLink) -> None:
    """Give each rank the threads that are left to it where ranks share processors: more would only wait for each other."""
    affinity: Callable[[int], set[int]] = getattr(os, "sched_getaffinity", lambda _: set(range(os.cpu_count() or 1)))
    processors = sorted(affinity(0))
    mine = f"{platform.node()} {processors}".encode()
    share = link.gather(mine).count(mine)
    set_threads(min(get_threads(), max(1, len(processors) // share)))


def _abort_on_error(comm: Any) -> None:
    """End all ranks when one ends by an exception, as plain mpi4py does not."""

    def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        traceback.print_exception(kind, error, trace)
        sys.stderr.flush()
        comm.Abort(130 if kind is KeyboardInterrupt else 1)

    sys.excepthook = end


class MpiLink:
    """The ranks of a communicator.

    Attributes:
        rank: the number of this process.
        ranks: the number of processes.
        memory: memory of messages, used again.
        overlaps: whether another thread may test requests.
    """

    def __init__(self, mpi: Any, comm: Any, slots: int, deadline: float, shrinks: bool) -> None:
        self._mpi = mpi
        self._slots = slots
        self._deadline = deadline
        self._shrinks = shrinks
        self._use(comm)
        self._abandoned: list[Any] = []
        self.overlaps: bool = bool(mpi.Query_thread() == mpi.THREAD_MULTIPLE)
        self.memory: Memory = Memory()

    def _use(self, comm: Any) -> None:
        """Take the ranks of a communicator; slots are dealt to them in contiguous blocks."""
        self._comm = comm
        self.rank: int = int(comm.rank)
        self.ranks: int = int(comm.size)
        self._owners = [slot * self.ranks // self._slots for slot in range(self._slots)]
        self._routes: dict[tuple[tuple[int, ...], bool], Route] = {}  # by the slots that take part

    def owner(self, slot: int) -> int:
        """Return the rank that computes a slot."""
        return self._owners[slot]

    def reduction(self, weights: Mapping[int, float]) -> MpiReduction:
        """Begin a sum over slots."""
        return MpiReduction(self, weights, self._route(tuple(weights)))

    def scattered_reduction(self, weights: Mapping[int, float], layout: Layout) -> MpiReduction:
        """Begin a sum whose chunks stay with the ranks of their slots."""
        reduction = MpiReduction(self, weights, self._route(tuple(weights), by_slot=True))
        reduction.begin(layout)
        return reduction

    def gather_parts(self, layout: Layout, buffers: Sequence[Ndarray]) -> None:
        """Fill buffers of which each rank has written the chunks of its slots."""
        gather_parts(self, layout, self._route((), by_slot=True), buffers, self.ranks)

    def _route(self, slots: tuple[int, ...], *, by_slot: bool = False) -> Route:
        """Return the route of a sum over slots; they stand in few combinations."""
        route = self._routes.get((slots, by_slot))
        if route is None:
            owners = {slot: self._owners[slot] for slot in slots}
            route = plan_route(owners, self.rank, self._owners if by_slot else None)
            self._routes[slots, by_slot] = route
        return route

    # -- messages --
    def send_piece(self, piece: Ndarray, rank: int, tag: int) -> Any:
        """Begin to send contiguous numbers, in one message; return the request."""
        try:
            return self._comm.Isend([piece, self._mpi.BYTE], rank, tag)
        except self._mpi.Exception as error:
            self.raise_lost(error)

    def receive_piece(self, piece: Ndarray, rank: int, tag: int) -> Any:
        """Begin to receive into contiguous numbers, in one message; return the request."""
        try:
            return self._comm.Irecv([piece, self._mpi.BYTE], rank, tag)
        except self._mpi.Exception as error:
            self.raise_lost(error)

    def send_to(self, array: Ndarray, rank: int, tag: int) -> list[Any]:
        """Begin to send a contiguous array, in pieces."""
        return [self.send_piece(piece, rank, tag) for piece in _pieces(array)]

    def receive_into(self, array: Ndarray, rank: int, tag: int) -> list[Any]:
        """Begin to receive into a contiguous array, in pieces."""
        return [self.receive_piece(piece, rank, tag) for piece in _pieces(array)]

    def wait(self, requests: list[Any], what: str) -> None:
        """Wait until all requests are done."""
        pending = list(requests)

        def is_done() -> bool:  # one by one: only so does each error keep its class
            while pending and pending[-1].Test():
                pending.pop()
            return not pending

        try:
            wait_until(is_done, self._deadline, what)
        except self._mpi.Exception as error:
            self.give_up(requests, error)

    def give_up(self, requests: list[Any], error: Exception) -> NoReturn:
        """Leave requests and their memory, into which MPI may still write, and raise what an error of MPI means."""
        self._abandoned += requests
        self.memory = Memory()
        self.raise_lost(error)

    def wait_for(self, is_done: Callable[[], bool], what: str) -> None:
        """Call a test until it says yes, or the deadline goes by."""
        try:
            wait_until(is_done, self._deadline, what)
        except self._mpi.Exception as error:
            self.raise_lost(error)

    def raise_lost(self, error: Any) -> NoReturn:
        """Turn MPI's error about a lost rank into afx's."""
        lost = (self._mpi.ERR_PROC_FAILED, self._mpi.ERR_PROC_FAILED_PENDING, self._mpi.ERR_REVOKED)
        if self._shrinks and error.Get_error_class() in lost:
            self._comm.Revoke()  # the others, which may wait for this rank, learn of it
            raise RankLostError from error
        raise PeerLost(
            f"distributed: a rank was lost ({error}): got no answer; restart from the last checkpoint"
        ) from error

    def make_message(self, array: Ndarray, rank: int, number: int, *, is_sent: bool) -> MpiMessage:
        """Prepare a message that carries a contiguous array, as often as it is started."""
        prepare = self._comm.Send_init if is_sent else self._comm.Recv_init
        try:
            return MpiMessage([prepare([piece, self._mpi.BYTE], rank, GRAPH_TAG + number) for piece in _pieces(array)])
        except self._mpi.Exception as error:
            self.raise_lost(error)

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
        self._use(self._comm.Shrink())
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


class MpiMessage:
    """A message of persistent requests."""

    __slots__ = ("_requests",)

    def __init__(self, requests: Sequence[Any]) -> None:
        self._requests = requests

    def start(self) -> None:
        """Begin."""
        for request in self._requests:
            request.Start()

    def is_done(self) -> bool:
        """Tell whether it is sent or received."""
        return all(request.Test() for request in self._requests)


def _pieces(array: Ndarray) -> list[Ndarray]:
    """Return the bytes of a contiguous array in pieces that one call of MPI takes."""
    flat = array.reshape(-1).view(np.uint8)
    return [flat[start : start + PIECE_BYTES] for start in range(0, max(flat.size, 1), PIECE_BYTES)]
