"""SPMD: one function on every slot, whose slots exchange values inside of it (single program, multiple data)."""

from __future__ import annotations

import contextvars
import struct
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import numpy as np

from afx.distributed.link import Link
from afx.distributed.parts import Parts
from afx.distributed.ranks import Ranks
from afx.distributed.sums.buffers import Ndarray, flatten_tree
from afx.errors import ArgumentError, PeerLost
from afx.ops._basic import sum_dtype
from afx.ops.collectives import Collective, current

# --- Meeting: where slots of one process wait for each other in a collective, and one of them exchanges for all

R = TypeVar("R")
SHIFT_TAG: Final = 1 << 19  # and above, by slot and what is shifted
SHIFT_TAGS: Final = 1 << 18
KIND: Final = struct.Struct("<I")  # in front of gathered values: a checksum of what they are
WAIT_SECONDS: Final = 0.5


class _EndedError(Exception):
    """Another slot failed: this one ends too."""


class Meeting:
    """The slots of this process in one call of an SPMD function."""

    def __init__(self, link: Link, slots: int, own: Sequence[int]) -> None:
        self.slots = slots
        self._link = link
        self._own = list(own)
        self._condition = threading.Condition()
        self._arrived: dict[int, tuple[Collective, Ndarray]] = {}
        self._results: dict[int, Ndarray] = {}
        self._ended: list[int] = []
        self._count = 0  # of collectives
        self.error: BaseException | None = None
        # slots compute one at a time: the next one finds what the first traced
        self.turn: threading.Lock = threading.Lock()

    def exchange(self, slot: int, what: Collective, value: Ndarray) -> Ndarray:
        """Return what a collective gives to a slot, once all slots have come to it."""
        with self._condition:
            self._check()
            self._arrived[slot] = (what, value)
            if len(self._arrived) + len(self._ended) == len(self._own):
                self._meet()
        self.turn.release()
        try:
            with self._condition:
                while slot not in self._results:
                    self._check()
                    self._condition.wait(WAIT_SECONDS)
                return self._results.pop(slot)
        finally:
            self.turn.acquire()

    def end(self, slot: int, error: BaseException | None) -> None:
        """Note that a slot is done, or failed."""
        with self._condition:
            self._ended.append(slot)
            if error is not None and not isinstance(error, _EndedError) and self.error is None:
                self.error = error
            if self._arrived and self.error is None:
                waiting = sorted(self._arrived)
                self.error = ArgumentError(
                    f"spmd: slots make other collectives: got the end of slot {slot}, and slots {waiting} in "
                    f"{self._arrived[waiting[0]][0].name}; every slot runs the same collectives in the same order"
                )
            self._condition.notify_all()

    def _check(self) -> None:
        if self.error is not None:
            raise _EndedError

    def _meet(self) -> None:
        """Exchange for all slots of this process, and wake them."""
        arrived, self._arrived = self._arrived, {}
        try:
            kinds = {(what, x.shape, x.dtype) for what, x in arrived.values()}
            if len(kinds) != 1 or self._ended:
                shown = {slot: f"{what.name} of {x.dtype}{list(x.shape)}" for slot, (what, x) in arrived.items()}
                raise ArgumentError(
                    f"spmd: slots make other collectives: got {shown}, ended {self._ended}; every slot runs the same "
                    "collectives in the same order, on values of one shape"
                )
            ((what, shape, dtype),) = kinds
            self._count += 1
            self._link.detail_call(f"{self._count}. {what.name} of {dtype}{list(shape)}")
            values = {slot: arrived[slot][1] for slot in self._own}
            self._results = _RUNS[what.name](self._link, self.slots, values, what)
        except BaseException as error:
            self.error = error
            raise _EndedError from error
        finally:
            self._condition.notify_all()


def _sum(link: Link, slots: int, values: dict[int, Ndarray], what: Collective) -> dict[int, Ndarray]:
    first = next(iter(values.values()))
    if first.dtype.kind not in "fc":
        gathered = _gather(link, slots, values, what)
        return {slot: all_.sum(axis=0, dtype=sum_dtype(first.dtype)) for slot, all_ in gathered.items()}
    reduction = link.reduction(dict.fromkeys(range(slots), 1.0))
    for slot, x in values.items():
        reduction.add(slot, *flatten_tree(x))
    total = reduction.finish()[0].reshape(first.shape)
    return {slot: total.copy() for slot in values}


def _gather(link: Link, slots: int, values: dict[int, Ndarray], what: Collective) -> dict[int, Ndarray]:
    first = next(iter(values.values()))
    kind = KIND.pack(_checksum(first, what))
    parts = link.gather(kind + b"".join([np.ascontiguousarray(values[slot]).tobytes() for slot in values]))
    if any(part[: KIND.size] != kind for part in parts):
        raise ArgumentError(
            f"{what.name}: slots of other ranks make another collective, or have values of other shapes or dtypes: got "
            f"{first.dtype}{list(first.shape)} on slots {list(values)}; give the same on every slot"
        )
    data = b"".join([part[KIND.size :] for part in parts])
    whole = np.frombuffer(data, first.dtype).reshape(slots, *first.shape)
    return {slot: whole.copy() for slot in values}


def _sum_scatter(link: Link, slots: int, values: dict[int, Ndarray], what: Collective) -> dict[int, Ndarray]:
    first = next(iter(values.values()))
    if first.dtype.kind not in "fc":
        return {slot: x[slot] for slot, x in _sum(link, slots, values, what).items()}
    layout, _ = flatten_tree(first)
    reduction = link.scattered_reduction(dict.fromkeys(range(slots), 1.0), layout)
    for slot, x in values.items():
        reduction.add(slot, *flatten_tree(x))
    rows = reduction.finish()[0].reshape(len(values), *first.shape[1:])  # those of this rank's slots
    return {slot: row.copy() for slot, row in zip(sorted(values), rows, strict=True)}


def _shift(link: Link, slots: int, values: dict[int, Ndarray], what: Collective) -> dict[int, Ndarray]:
    """Return for each slot of this rank what the slot ``offset`` below it holds: zeros from beyond the first and last."""
    shifted: dict[int, Ndarray] = {}
    sends: list[tuple[Ndarray, int, int]] = []
    receives: list[tuple[Ndarray, int, int]] = []
    kind = _checksum(next(iter(values.values())), what)

    def tag(slot: int) -> int:
        return SHIFT_TAG + (slot + kind) % SHIFT_TAGS

    for slot, x in values.items():
        source, target = slot - what.offset, slot + what.offset
        if what.wrap:
            source, target = source % slots, target % slots
        if not 0 <= source < slots:
            shifted[slot] = np.zeros_like(x)
        elif source in values:
            shifted[slot] = values[source].copy()
        else:
            shifted[slot] = np.empty(x.shape, x.dtype)
            receives.append((shifted[slot], link.owner(source), tag(slot)))
        if 0 <= target < slots and target not in values:
            sends.append((np.ascontiguousarray(x), link.owner(target), tag(target)))
    link.trade(sends, receives)
    return shifted


def _checksum(value: Ndarray, what: Collective) -> int:
    """Return a number that is the same on ranks whose slots do the same with values of one kind."""
    return zlib.crc32(f"{what.name} {what.offset} {what.wrap} {value.dtype} {value.shape}".encode())


_RUNS: Final[dict[str, Callable[[Link, int, dict[int, Ndarray], Collective], dict[int, Ndarray]]]] = {
    "psum": _sum,
    "all_gather": _gather,
    "psum_scatter": _sum_scatter,
    "shift": _shift,
}


def run_slots(link: Link, slots: int, own: Sequence[int], compute: Callable[[int], R]) -> dict[int, R]:
    """Return what a function gives for each slot of this process; slots meet in collectives.

    One slot runs in the caller's own thread, several take turns in threads of their own.
    """
    meeting = Meeting(link, slots, own)
    results: dict[int, R] = {}

    def work(slot: int) -> None:
        token, error = current.set((meeting, slot)), None
        with meeting.turn:
            try:
                results[slot] = compute(slot)
            except BaseException as raised:
                error = raised
        current.reset(token)
        meeting.end(slot, error)

    if len(own) == 1:
        work(own[0])
    else:
        _work_in_threads(work, own)
    if meeting.error is not None:
        raise meeting.error
    return results


def _work_in_threads(work: Callable[[int], None], slots: Sequence[int]) -> None:
    """Call a function for each slot in a thread and a copy of the context of its own."""
    threads = [
        threading.Thread(target=contextvars.copy_context().run, args=(work, slot), name=f"afx slot {slot}", daemon=True)
        for slot in slots
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# --- Slot values: what an SPMD program returns, of which each rank holds that of its own slots

T = TypeVar("T")


class SlotValues(Parts[T], Generic[T]):
    """The values of the slots of a program; arguments of the next call stay where they are.

    Attributes:
        by_slot: those of this rank's slots.
    """

    __slots__ = ("_machines", "by_slot")

    def __init__(self, machines: Ranks, by_slot: Mapping[int, T]) -> None:
        super().__init__(self._read_slot)
        self._machines = machines
        self.by_slot: dict[int, T] = dict(by_slot)

    def _read_slot(self, slot: int) -> T:
        if slot not in self.by_slot:
            raise PeerLost(
                f"SlotValues: the value of slot {slot} was on a rank that was lost: got {sorted(self.by_slot)}; restart from "
                "the last checkpoint"
            )
        return self.by_slot[slot]

    @property
    def first(self) -> T:
        """The value of this rank's first slot: of one that all slots hold, the value."""
        return self.by_slot[min(self.by_slot)]

    def gather(self) -> list[T]:
        """Return the values of all slots in their order, on every rank; all ranks call it."""
        values = self._machines.gather_by_slot(self.by_slot)
        return [values[slot] for slot in range(self._machines.slots)]

    def map(self, fn: Callable[[T], Any]) -> SlotValues[Any]:
        """Return what a function gives for each value, where it is."""
        return SlotValues(self._machines, {slot: fn(value) for slot, value in self.by_slot.items()})

    def __repr__(self) -> str:
        return f"SlotValues({self.by_slot!r})"
