"""Slot values: what an SPMD program returns, of which each rank holds that of its own slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from afx.distributed.parts import Parts
from afx.distributed.ranks import Ranks
from afx.errors import PeerLost

__all__ = ["SlotValues"]

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
        found = self._machines.gather_by_slot(self.by_slot)
        return [found[slot] for slot in range(self._machines.slots)]

    def map(self, fn: Callable[[T], Any]) -> SlotValues[Any]:
        """Return what a function gives for each value, where it is."""
        return SlotValues(self._machines, {slot: fn(value) for slot, value in self.by_slot.items()})

    def __repr__(self) -> str:
        return f"SlotValues({self.by_slot!r})"
