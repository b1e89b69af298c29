"""Shared result: where the sums of one call are written, in a block that all ranks read or in memory of a rank's own."""

from __future__ import annotations

from afx.distributed.mpi.shared_memory import SharedMemory
from afx.distributed.sums.buffers import Layout, Ndarray
from afx.distributed.sums.partial import refuse_unequal

__all__ = ["SharedResult"]


class SharedResult:
    """The buffers of one call.

    Attributes:
        buffers: to be written, on each rank its part of them at least.
        is_seen_by_all: whether all ranks see what each of them writes.
        is_refused: whether this rank found something that cannot be added.

    Args:
        memory: what the ranks share.
        layout: of the buffers.
        tag: of the call, in which all ranks make one.
        part: memory of the part that this rank alone gets; None where all ranks get all of it.
    """

    def __init__(self, memory: SharedMemory, layout: Layout, tag: int, part: list[Ndarray] | None = None) -> None:
        self._memory = memory
        self._layout = layout
        self._tag = tag
        self._for_all = part is None
        self._block = self._choose() if part is None else None
        self.is_seen_by_all: bool = self._block is not None
        self.is_refused: bool = False
        self.buffers: list[Ndarray]
        if self._block is not None:
            self.buffers = memory.blocks.writeable(self._block, layout)
        else:
            self.buffers = memory.empty(layout) if part is None else part

    def _choose(self) -> int | None:
        """Return a block to which no rank refers."""
        blocks, memory = self._memory.blocks, self._memory
        return blocks.choose(self._layout, memory.meet(self._layout.nbytes, self._tag, blocks.list_free()))

    def finish(self) -> list[Ndarray]:
        """Return the buffers, once all ranks have written what this one gets.

        Raises:
            ArgumentError: a rank found what cannot be added.
        """
        is_refused = self.is_refused
        if self._for_all:
            is_refused = not self._memory.meet(self._layout.nbytes, self._tag, int(not is_refused))
        if is_refused:
            refuse_unequal()
        return self.buffers if self._block is None else self._memory.blocks.readable(self._block, self._layout)
