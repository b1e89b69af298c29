"""MPI link: the ranks of a communicator, whose requests are tested with back-off, as no call blocks inside MPI."""

from __future__ import annotations

import contextlib
import ctypes
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from afx.distributed.link import CallFailedError, RankLostError, error_of_rank, wait_until
from afx.distributed.mpi.exchange import Flood, Traffic
from afx.distributed.mpi.shared_memory import SharedMemory, share_memory
from afx.distributed.mpi.shared_sums import MpiReduction, Participation, SharedGather, SharedParts, SharedSum
from afx.distributed.mpi.watch import Collectives, Peer, Watch, refuse_calls
from afx.distributed.sums.buffers import Memory, Ndarray, Packing, tree_over
from afx.distributed.sums.plan import DIRECT_MOST_RANKS, Exchange, plan_gather, plan_sum
from afx.errors import ArgumentError, PeerLost

PIECE_BYTES: Final = 1 << 30  # Open MPI takes at most 2**31 - 1 elements a call
SIZE_TAG, DATA_TAG, SHARE_TAG = 1, 2, 4  # and 5
MOST_PROGRAMS: Final = 4096  # whose messages are kept
GRAPH_TAG: Final = 1 << 20
VOTE: Final = struct.Struct("<qq240s")  # number of the call, how it ended, the error
NO_ERROR, IS_DONE = 1, 2  # what ranks agree on at the end of a call, where the job goes on without lost ones
FINE, FAILED, LEFT = range(3)  # ends of a call: without an error, by one here, by one of another rank


class MpiLink:
    """The ranks of a communicator.

    Attributes:
        rank: the number of this process.
        ranks: the number of processes.
        losses: how often ranks were lost.
        shrinks: whether the others go on then.
        memory: memory of messages, used again.
        watch: what ranks that wait tell each other.
        comm: the communicator.
        byte: MPI's type of a byte.
    """

    def __init__(self, mpi: Any, comm: Any, slots: int, deadline: float, shrinks: bool) -> None:
        self._mpi = mpi
        self._slots = slots
        self.byte: Any = mpi.BYTE
        self.shrinks: bool = shrinks
        self.losses: int = 0
        self.watch: Watch = Watch(mpi, comm, deadline, shrinks)
        self._collectives = Collectives(self)
        self.memory: Memory = Memory()
        self._posts: list[tuple[Any, Ndarray]] = []  # with what is being sent
        self._control: Any = None  # a communicator for what follows an error
        self._over = ""  # why the connection is over
        self.use(comm)

    def use(self, comm: Any, peers: list[Peer] | None = None) -> None:
        """Take the ranks of a communicator; slots are dealt to them in contiguous blocks."""
        self.comm: Any = comm
        self.rank: int = int(comm.rank)
        self.ranks: int = int(comm.size)
        self._owners = tuple([slot * self.ranks // self._slots for slot in range(self._slots)])
        self._posts = []
        self._floods: dict[tuple[Packing, Exchange, int], Flood] = {}
        self._shared: SharedMemory | None = None
        self._has_asked = False  # whether the ranks share memory
        self._shared_sums: dict[tuple[Packing, Exchange, int], SharedSum | SharedParts] = {}
        self._participations: dict[tuple[tuple[int, ...], bool], Participation] = {}
        # ranks of each machine
        self.hosts: tuple[int, ...] = tuple(Counter(peer.host for peer in peers or ()).values())
        self.watch.use(comm, peers or [])

    def owner(self, slot: int) -> int:
        """Return the rank that computes a slot."""
        return self._owners[slot]

    def add_control(self) -> None:
        """Make the communicator over which ranks settle how a call ended; all ranks call it."""
        self._control = None if self.shrinks else self.comm.Dup()

    def begin_call(self, name: str) -> None:
        """Note what all ranks do next.

        Raises:
            PeerLost: the connection is over.
        """
        if self._over:
            raise PeerLost(f"{name}: the connection is over: got {self._over}; start the job again")
        self.watch.begin(name)

    def detail_call(self, text: str) -> None:
        """Add to the name of the call that is under way."""
        self.watch.detail(text)

    # -- sums --
    def reduction(self, weights: Mapping[int, float], number: int = 0) -> MpiReduction:
        """Begin a sum over slots."""
        who = self._participations.get((tuple(weights), False)) or self._participate(weights, by_slot=False)
        return MpiReduction(self, who, weights, None, number)

    def scattered_reduction(self, weights: Mapping[int, float], layout: Packing, number: int = 0) -> MpiReduction:
        """Begin a sum whose chunks stay with the ranks of their slots."""
        return MpiReduction(self, self._participate(weights, by_slot=True), weights, layout, number)

    def _participate(self, weights: Mapping[int, float], *, by_slot: bool) -> Participation:
        key = (tuple(weights), by_slot)
        participation = self._participations.get(key)
        if participation is None:
            if len(self._participations) >= MOST_PROGRAMS:
                self._participations.clear()
            slots = key[0]
            participation = self._participations[key] = Participation.make(
                slots,
                self._owners,
                self.rank,
                lambda small: self.plan(slots, by_slot=by_slot, is_small=small),
                by_slot=by_slot,
                is_one_machine=len(self.hosts) < 2,
            )
        return participation

    def plan(self, slots: tuple[int, ...], *, by_slot: bool, is_small: bool) -> Exchange:
        """Return the messages of a sum over slots."""
        return plan_sum(self._owners, slots, self.rank, by_slot=by_slot, is_small=is_small, hosts=self.hosts)

    def exchange(
        self, layout: Packing, plan: Exchange, partials: Mapping[Any, list[Ndarray]], tag: int
    ) -> list[Ndarray]:
        """Return the buffers of a sum of which this rank holds some nodes."""
        if not plan.is_flood:
            return Traffic(self, layout, plan, partials, tag).run()
        flood = self.flood(layout, plan, tag)
        flood.load_nodes(partials)
        return flood.run(partials[plan.own[0]])

    def flood(self, layout: Packing, plan: Exchange, tag: int) -> Flood:
        """Return the messages of small buffers, which are kept."""
        flood = self._floods.get((layout, plan, tag))
        if flood is None:
            if len(self._floods) >= MOST_PROGRAMS:
                self._floods.clear()
            flood = self._floods[layout, plan, tag] = Flood(self, layout, plan, tag)
        return flood

    def shared_sum(self, layout: Packing, plan: Exchange, tag: int) -> SharedSum | SharedParts | None:
        """Return the additions of buffers in memory that all ranks see; None where they share none."""
        key = (layout, plan, tag)
        shared = self._shared_sums.get(key)
        if shared is None:
            memory = self._share_memory()
            if memory is None:
                return None
            if len(self._shared_sums) >= MOST_PROGRAMS:
                self._shared_sums.clear()
            make = SharedSum if plan.is_flood else SharedParts
            shared = self._shared_sums[key] = make(memory, layout, plan, tag)
        return shared if shared.fits else None

    def _share_memory(self) -> SharedMemory | None:
        if not self._has_asked:
            self._shared, self._has_asked = share_memory(self), True
        return self._shared

    def gather_parts(self, layout: Packing, write: Callable[[list[Ndarray]], None]) -> list[Ndarray]:
        """Return buffers of which each rank writes the chunks of its slots."""
        rounds = plan_gather(self._owners, self.rank, self.hosts)
        memory = self._share_memory() if len(self.hosts) < 2 and 1 < self.ranks <= DIRECT_MOST_RANKS else None
        if memory is not None:
            return SharedGather(memory, layout, rounds[0], SHARE_TAG).fill(write)
        buffers = layout.empty(self.memory)
        write(buffers)
        tree = tree_over(self._slots, tuple(range(self._slots)))
        Traffic(self, layout, Exchange(tree, (tree.root,), (), rounds), {tree.root: buffers}, SHARE_TAG).run()
        return buffers

    # -- messages --
    def begin(self, start: Callable[[], Any]) -> Any:
        """Call a function of MPI that returns a request."""
        try:
            return start()
        except self._mpi.Exception as error:
            self.raise_lost(error)

    def send_piece(self, piece: Ndarray, rank: int, tag: int) -> Any:
        """Begin to send contiguous numbers, in one message; return the request."""
        try:
            return self.comm.Isend([piece, self.byte], rank, tag)
        except self._mpi.Exception as error:
            self.raise_lost(error)

    def receive_piece(self, piece: Ndarray, rank: int, tag: int) -> Any:
        """Begin to receive into contiguous numbers, in one message; return the request."""
        try:
            return self.comm.Irecv([piece, self.byte], rank, tag)
        except self._mpi.Exception as error:
            self.raise_lost(error)

    def keep_send(self, memory: Ndarray, rank: int, tag: int) -> Any:
        """Prepare a message that is sent again and again; return the request."""
        return self.begin(lambda: self.comm.Send_init([memory, self.byte], rank, tag))

    def keep_receive(self, memory: Ndarray, rank: int, tag: int) -> Any:
        """Prepare a message that is received again and again; return the request."""
        return self.begin(lambda: self.comm.Recv_init([memory, self.byte], rank, tag))

    def run_kept(self, requests: Sequence[Any]) -> None:
        """Start prepared messages and wait until all are done."""
        try:
            self._mpi.Prequest.Startall(requests)
        except self._mpi.Exception as error:
            self.raise_lost(error)
        self.wait(requests)

    def send_to(self, array: Ndarray, rank: int, tag: int) -> list[Any]:
        """Begin to send a contiguous array, in pieces."""
        return [self.send_piece(piece, rank, tag) for piece in _pieces(array)]

    def receive_into(self, array: Ndarray, rank: int, tag: int) -> list[Any]:
        """Begin to receive into a contiguous array, in pieces."""
        return [self.receive_piece(piece, rank, tag) for piece in _pieces(array)]

    def wait(self, requests: Sequence[Any]) -> None:
        """Wait until all requests are done."""
        pending = list(requests)

        def is_done() -> bool:  # one by one: only so does each error keep its class
            while pending and pending[-1].Test():
                pending.pop()
            return not pending

        try:
            wait_until(is_done, self.watch.look)
        except BaseException as error:
            for request in requests:  # and its memory, into which MPI may write until the process ends
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(request))
            self.memory = Memory()
            if not isinstance(error, self._mpi.Exception):
                raise
            self.raise_lost(error)

    def wait_for(self, is_done: Callable[[], bool]) -> None:
        """Call a test until it says yes, or the deadline goes by."""
        try:
            wait_until(is_done, self.watch.look)
        except self._mpi.Exception as error:
            self.raise_lost(error)

    def wait_beside(self, is_done: Callable[[], bool]) -> None:
        """Call a test that looks at no message until it says yes; MPI tells of lost ranks meanwhile."""
        peers = [rank for rank in range(self.ranks) if rank != self.rank]

        def look(waited: float) -> None:
            for rank in peers:
                self.comm.Iprobe(rank, DATA_TAG)
            self.watch.look(waited)

        try:
            wait_until(is_done, look)
        except self._mpi.Exception as error:
            self.raise_lost(error)

    def raise_lost(self, error: Any) -> NoReturn:
        """Turn MPI's error about a lost rank into afx's."""
        lost = (self._mpi.ERR_PROC_FAILED, self._mpi.ERR_PROC_FAILED_PENDING, self._mpi.ERR_REVOKED)
        if self.shrinks and error.Get_error_class() in lost:
            self.comm.Revoke()  # the others, which may wait for this rank, learn of it
            raise RankLostError from error
        if error.Get_error_class() == self._mpi.ERR_TRUNCATE:
            raise ArgumentError(
                f"distributed: a message of another length than was waited for: got it in {self.watch.name} (call "
                f"{self.watch.number}); every rank makes the same calls in the same order, with the same shapes"
            ) from error
        raise PeerLost(
            f"distributed: a rank was lost ({error}): got no answer; restart from the last checkpoint"
        ) from error

    def make_message(self, array: Ndarray, rank: int, number: int, *, is_sent: bool) -> MpiMessage:
        """Prepare a message that carries a contiguous array, as often as it is started."""
        keep = self.keep_send if is_sent else self.keep_receive
        return MpiMessage([keep(piece, rank, GRAPH_TAG + number) for piece in _pieces(array)])

    # -- ends --
    def commit(self, is_done: bool) -> bool:
        """Agree whether all ranks finished; shrink to those that are left where not.

        Raises:
            Exception: the call failed on another rank, with an error of that class; all are in step again.
        """
        if not self.shrinks:
            return is_done
        agreed = self._agree(NO_ERROR | IS_DONE if is_done else NO_ERROR)
        if agreed == NO_ERROR | IS_DONE:
            return True
        self._shrink()
        if not agreed & NO_ERROR:
            raise error_of_rank(self.watch.name, self._gather_errors("")[0])
        return False

    def _agree(self, bits: int) -> int:
        """Return the bits that all ranks set which are left; none is done where one was lost."""
        flag = np.array([bits], np.int32)

        def look(waited: float) -> None:
            with contextlib.suppress(CallFailedError, self._mpi.Exception):  # of which the bits tell
                self.watch.look(waited)

        try:
            request = self.comm.Iagree(flag)
            wait_until(request.Test, look)
        except self._mpi.Exception:
            return int(flag[0]) & ~IS_DONE
        return int(flag[0])

    def _gather_errors(self, text: str) -> list[str]:
        """Return what other ranks tell of their errors."""
        texts = [data.decode() for data in self.gather(text.encode())]
        return [
            f"an error on rank {rank}: got {error}" for rank, error in enumerate(texts) if error and rank != self.rank
        ]

    def _shrink(self) -> None:
        """Go on with the ranks that are left, or with all of them where none was lost."""
        before, peers = self.comm.Get_group(), self.watch.peers
        comm = self.comm.Shrink()
        after = comm.Get_group()
        places = after.Translate_ranks(list(range(after.size)), before)
        self.losses += after.size < before.size
        self.use(comm, [peers[place] for place in places] if peers else None)

    def settle(self, error: Exception | None) -> list[str]:
        """Wait until all ranks are at the end of a call, and return the errors of other ranks; after one all are in step again.

        Raises:
            ArgumentError: another rank waits for a collective that this one has not made.
            PeerLost: another rank does not come to the end of the call; the connection is over.
        """
        if self.ranks == 1 or (error is None if self.shrinks else self._control is None):
            return []  # alone, done, or still connecting
        if self.shrinks:  # ranks that are done, or told by the end of what they wait for, meet the others in `commit`
            self.comm.Revoke()
            self._agree(0)
            self._shrink()
            return self._gather_errors("" if isinstance(error, CallFailedError) else f"{type(error).__name__}: {error}")
        if error is not None:
            self.watch.say_failed()
        state = FINE if error is None else LEFT if isinstance(error, CallFailedError) else FAILED
        text = f"{type(error).__name__}: {error}".encode("ascii", "replace") if state == FAILED else b""
        own_vote = np.frombuffer(VOTE.pack(self.watch.number, state, text), np.uint8)
        votes, refusal = self._collect(own_vote, is_failed=error is not None)
        ends = [VOTE.unpack(vote.tobytes()) for vote in votes]
        for rank, (number, _, _) in enumerate(ends):
            if number != self.watch.number:
                self._over = f"another call on rank {rank} than on rank {self.rank}"
                refuse_calls(self.rank, self.watch.name, rank, "another call", number)
        if any(end for _, end, _ in ends):  # messages of the old communicator may never be fetched
            self.use(self._control.Dup(), self.watch.peers)
        if refusal is not None and error is None:
            raise refusal
        texts = [(rank, text.rstrip(b"\0").decode()) for rank, (_, end, text) in enumerate(ends) if end == FAILED]
        return [f"an error on rank {rank}: got {text}" for rank, text in texts if rank != self.rank]

    def _collect(self, vote: Ndarray, *, is_failed: bool) -> tuple[Ndarray, ArgumentError | None]:
        """Return what all ranks say of the end of a call, and why this one ends it after all for others that wait."""
        votes = np.empty((self.ranks, VOTE.size), np.uint8)
        request = self._control.Iallgather([vote, self.byte], [votes, self.byte])
        refusals: list[ArgumentError] = []

        def look(waited: float) -> None:
            try:
                self.watch.look_at_end(waited, is_failed=is_failed or bool(refusals))
            except ArgumentError as error:
                refusals.append(error)
                self.watch.say_failed()

        try:
            wait_until(request.Test, look)
        except PeerLost as error:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(request))
            self._over = str(error)
            raise
        return votes, refusals[0] if refusals else None

    def close(self) -> None:
        """Say goodbye, and free the communicator where nothing is on its way: the next one may get its number."""
        self._shared_sums.clear()
        self._shared = None
        if self.shrinks:  # freeing is collective, and a lost rank would never come
            self.watch.say_goodbye()
        elif self.watch.part():
            self.comm.Free()
            if self._control is not None:
                self._control.Free()

    # -- bytes --
    def broadcast(self, data: bytes | None, root: int) -> bytes:
        """Return the bytes that the root has."""
        if data is None and self.rank == root:
            raise ArgumentError("broadcast: the root has nothing to send: got None; pass the value on that rank")
        return self._collectives.broadcast(data if self.rank == root else None, root)

    def gather(self, data: bytes) -> list[bytes]:
        """Return the bytes of all ranks, on every rank."""
        return self._collectives.gather(data)

    def send(self, data: bytes | None, root: int, target: int) -> bytes | None:
        """Return on the target the bytes that the root has; None on the others."""
        if self.rank == root:
            if data is None:
                raise ArgumentError("scatter: the root has nothing to send: got None; pass the tree on that rank")
            if target == root:
                return data
            size, array = np.array([len(data)], np.int64), np.frombuffer(data, np.uint8)
            self.wait([*self.send_to(size, target, SIZE_TAG), *self.send_to(array, target, DATA_TAG)])
        return self._receive(root) if self.rank == target else None

    def trade(self, sends: Sequence[tuple[Ndarray, int, int]], receives: Sequence[tuple[Ndarray, int, int]]) -> None:
        """Send and receive contiguous arrays, each with a rank and a tag."""
        requests = [r for array, rank, tag in receives for r in self.receive_into(array, rank, tag)]
        requests += [r for array, rank, tag in sends for r in self.send_to(array, rank, tag)]
        self.wait(requests)

    def post(self, data: bytes, rank: int, tag: int) -> None:
        """Begin to send bytes."""
        self._posts = [(request, buffer) for request, buffer in self._posts if not request.Test()]
        array = np.frombuffer(data, np.uint8)
        self._posts.append((self.send_piece(array, rank, tag), array))

    def poll(self, rank: int, tag: int) -> bytes | None:
        """Return bytes that have come from a rank, None where there are none yet."""
        status = self._mpi.Status()
        try:
            if not self.comm.Iprobe(rank, tag, status):
                return None
        except self._mpi.Exception as error:
            self.raise_lost(error)
        array: Ndarray = np.empty(status.Get_count(self.byte), np.uint8)
        self.wait([self.receive_piece(array, rank, tag)])
        return array.tobytes()

    def end_posts(self) -> None:
        """Wait until all that was posted has left."""
        self.wait([request for request, _ in self._posts])
        self._posts = []

    def pass_on(self, data: bytes) -> bytes:
        """Return the bytes of the rank before this one, which gives its own to the next, in a ring."""
        before, after = (self.rank - 1) % self.ranks, (self.rank + 1) % self.ranks
        size, array = np.array([len(data)], np.int64), np.frombuffer(data, np.uint8)
        sent = [*self.send_to(size, after, SIZE_TAG), *self.send_to(array, after, DATA_TAG)]
        received = self._receive(before)
        self.wait(sent)
        return received

    def _receive(self, root: int) -> bytes:
        size = np.zeros(1, np.int64)
        self.wait(self.receive_into(size, root, SIZE_TAG))
        array = np.empty(int(size[0]), np.uint8)
        self.wait(self.receive_into(array, root, DATA_TAG))
        return array.tobytes()


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
