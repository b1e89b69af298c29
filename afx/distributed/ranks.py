"""Ranks: the processes that share slots, and what they exchange beside sums."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import numpy as np

from afx import pytree
from afx.distributed.agreement import Agreement
from afx.distributed.link import Link, RankLostError
from afx.distributed.messages import decode_tree, encode_tree
from afx.distributed.parts import Parts, cut
from afx.distributed.sharded_state import ShardedState
from afx.distributed.split import Split
from afx.errors import ArgumentError, PeerLost
from afx.runtime import job

__all__ = ["Ranks"]

T = TypeVar("T")
R = TypeVar("R")


class Ranks:
    """Processes that share slots.

    Attributes:
        slots: the number of slots.
        link: the connection among the ranks, for functions of `afx.distributed`.
        agreement: what the ranks have compared, likewise.
        is_closed: whether the connection has ended.
    """

    def __init__(self, link: Link, slots: int) -> None:
        self.link: Link = link
        self.slots = slots
        self.agreement: Agreement = Agreement(link)
        self.is_closed: bool = False

    @property
    def rank(self) -> int:
        """The number of this process, from 0; rank 0 prints and saves."""
        return self.link.rank

    @property
    def ranks(self) -> int:
        """The number of processes that are alive."""
        return self.link.ranks

    @property
    def own_slots(self) -> tuple[int, ...]:
        """The slots that this process computes."""
        return tuple(slot for slot in range(self.slots) if self.link.owner(slot) == self.rank)

    @property
    def held_slots(self) -> tuple[int, ...]:
        """The slots whose states this process keeps: its own, and the neighbour's where the job goes on without lost ranks."""
        held = {self.rank, (self.rank - 1) % self.ranks} if self.link.shrinks else {self.rank}
        return tuple(slot for slot in range(self.slots) if self.link.owner(slot) in held)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def close(self) -> None:
        """Tell the other ranks that this one takes part in nothing more, and end the connection."""
        if not self.is_closed:
            self.is_closed = True
            job.end(self)
            self.link.close()

    def repeat_until_committed(self, name: str, attempt: Callable[[], R]) -> R:
        """Return the result of an attempt that all ranks finished; without those that are lost it is made again.

        Args:
            name: of the call, which ranks that wait compare.
            attempt: what is tried.
        """
        self.link.begin_call(name)
        while True:
            try:
                result = attempt()
            except RankLostError:
                self.agreement.drop()
                self.link.commit(False)
                continue
            if self.link.commit(True):
                self.agreement.keep()
                return result
            self.agreement.drop()

    def gather_by_slot(self, trees: Mapping[int, T]) -> dict[int, T]:
        """Return the trees of all slots, of which each rank gives those of its own, on every rank."""
        return self.repeat_until_committed("gather", lambda: self.gather_once(trees))

    def gather_once(self, trees: Mapping[int, T], *, root: int | None = None) -> dict[int, T]:
        """Return the trees of all slots, on every rank or on one alone, within an attempt of `repeat_until_committed`."""
        mine = {slot: tree for slot, tree in trees.items() if self.link.owner(slot) == self.rank}
        missing = [slot for slot in self.own_slots if slot not in mine]
        if missing:
            raise PeerLost(
                f"gather: slots of a rank that was lost: got no tree of {missing}; restart from the last checkpoint"
            )
        if self.ranks == 1:
            return mine
        if root is None:
            parts = [decode_tree(data) for data in self.link.gather(encode_tree(mine))]
        else:
            data = encode_tree(mine)
            sent = [self.link.send(data if rank == self.rank else None, rank, root) for rank in range(self.ranks)]
            parts = [mine] if self.rank != root else [decode_tree(x) for x in sent if x is not None]
        return {int(slot): tree for part in parts for slot, tree in part.items()}

    def outline(self, tree: T) -> T:
        """Return a tree with one slot's state in place of each sharded one: what is the same on any number of ranks."""

        def first(leaf: Any) -> Any:
            return next(iter(leaf.by_slot.values()), None) if isinstance(leaf, ShardedState) else leaf

        return pytree.map(first, tree, is_leaf=lambda part: isinstance(part, ShardedState))

    def gather_texts(self, text: str) -> list[str]:
        """Return the texts of all ranks, within an attempt of `repeat_until_committed`."""
        return [data.decode() for data in self.link.gather(text.encode())]

    def broadcast(self, tree: T | None, *, root: int = 0) -> T:
        """Return the tree that one rank has, on every rank; the others pass None.

        Raises:
            ArgumentError: the root passes None, or is no rank.
        """
        self.check_root(root, "broadcast")
        data = encode_tree(tree) if self.rank == root and tree is not None else None
        has_data, losses = self.rank == root, self.link.losses
        found: T = decode_tree(
            self.repeat_until_committed(
                f"broadcast of rank {root}", lambda: self.link.broadcast(data, self._root(root, has_data, losses))
            )
        )
        return found

    def check_root(self, root: int, who: str) -> None:
        """Refuse what is no rank.

        Raises:
            ArgumentError: it is none of those that are alive.
        """
        if not 0 <= root < self.ranks:
            raise ArgumentError(f"{who}: no such rank: got root={root} of {self.ranks}; ranks count from 0")

    def _root(self, root: int, is_root: bool, losses: int) -> int:
        """Return the rank that has the data now, where ranks were lost since a call began."""
        if self.link.losses == losses:
            return root
        found = self.link.gather(b"root" if is_root else b"")
        if not any(found):
            raise PeerLost(
                "distributed: the rank that has the data was lost: got it nowhere; restart from a checkpoint"
            )
        return next(rank for rank, data in enumerate(found) if data)

    def decide(self, verdict: bool) -> bool:
        """Return rank 0's verdict, on every rank: when to stop goes by one clock."""
        data = b"yes" if verdict else b"no"
        return self.repeat_until_committed("decide", lambda: self.link.broadcast(data, 0)) == b"yes"

    def share(self, value: float | None) -> float | None:
        """Return rank 0's number, on every rank."""
        text = repr(None if value is None else float(value))
        data = self.repeat_until_committed("share", lambda: self.link.broadcast(text.encode(), 0)).decode()
        return None if data == "None" else float(data)

    def scatter(self, tree: T | None, split: Split, *, root: int = 0) -> T:
        """Return an argument of which each rank holds the rows of its slots, sent once by the rank that has it whole.

        To the type checker it is the whole tree; it may only be passed to functions of `Machines`.

        Args:
            tree: the whole arrays on the root; None on the others.
            split: how many rows each slot gets.
            root: the rank that has them.

        Raises:
            ArgumentError: the root passes None, or is no rank.
            ShapeError: an array that the Split cannot cut.
        """
        self.check_split(split, "scatter")
        self.check_root(root, "scatter")
        parts = None if tree is None or self.rank != root else cut(tree, split, "scatter")
        has_data, losses = self.rank == root, self.link.losses

        def attempt() -> dict[int, Any]:
            source, found = self._root(root, has_data, losses), dict[int, Any]()
            for slot in range(self.slots):
                data = encode_tree(parts.part(slot)) if parts is not None else None
                if (received := self.link.send(data, source, self.link.owner(slot))) is not None:
                    found[slot] = decode_tree(received)
            return found

        mine = self.repeat_until_committed(f"scatter of rank {root} by {split.sizes}", attempt)

        def read(slot: int) -> Any:
            if slot not in mine:
                raise PeerLost(
                    f"scatter: the rows of slot {slot} went to a rank that was lost: got none here; scatter again, or "
                    "pass whole arrays or by_slot(...), which survive a loss"
                )
            return mine[slot]

        return cast("T", Parts(read))

    def check_same(self, description: str, what: str) -> None:
        """Compare a text among the ranks.

        Raises:
            ArgumentError: the ranks hold different ones; all of them raise.
        """
        self.repeat_until_committed("check_same", lambda: self.agreement.check_same(description, what))

    def check_split(self, split: Split, who: str) -> None:
        """Refuse a Split of other slots than these.

        Raises:
            ArgumentError: it has more or fewer.
        """
        if len(split.sizes) != self.slots:
            raise ArgumentError(
                f"{who}: a Split of other slots: got {split.slots} for {self.slots}; give a size a slot"
            )

    def measure_speeds(self, work: Callable[[], object], *, repeat: int = 5) -> list[float]:
        """Return how fast each slot does a piece of work, in pieces a second, the same list on every rank.

        For `Split.proportional`. Print the Split and save it with the results: it is part of what decides their bits.

        Args:
            work: a function without arguments, such as one gradient step.
            repeat: how often; the median counts.

        Raises:
            ArgumentError: no repetition.
        """
        if repeat < 1:
            raise ArgumentError(f"measure_speeds: at least one repetition: got {repeat}")
        times: list[float] = []
        for _ in range(repeat):
            begin = time.perf_counter()
            work()
            times.append(time.perf_counter() - begin)
        mine = 1.0 / (float(np.median(times)) * max(len(self.own_slots), 1))
        gathered = self.repeat_until_committed("measure_speeds", lambda: self.link.gather(encode_tree(mine)))
        speeds = [float(decode_tree(data)) for data in gathered]
        return [speeds[self.link.owner(slot)] for slot in range(self.slots)]
