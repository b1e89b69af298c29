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
        part: memory of the part that this rank alone gets; None where all ranks get all of it.
    """

    def __init__(self, memory: SharedMemory, layout: Layout, part: list[Ndarray] | None = None) -> None:
        self._memory = memory
        self._layout = layout
        self._for_all = part is None
        self._block: int | None = None
        self.buffers: list[Ndarray] = part or []
        self.is_seen_by_all: bool = False
        self.is_refused: bool = False

    def choose(self, free: int) -> None:
        """Choose where to write.

        Args:
            free: the blocks that no rank uses, as bits.
        """
        if self._for_all:
            blocks = self._memory.blocks
            self._block = blocks.choose(self._layout, free)
            self.is_seen_by_all = self._block is not None
            self.buffers = (
                self._memory.empty(self._layout) if self._block is None else blocks.writeable(self._block, self._layout)
            )

    def finish(self, tag: int) -> list[Ndarray]:
        """Return the buffers, once all ranks have written what this one gets.

        Raises:
            ArgumentError: a rank found what cannot be added.
        """
        is_refused = self.is_refused
        if self._for_all:
            is_refused = not self._memory.meet(self._layout.nbytes, tag, int(not is_refused))
        if is_refused:
            refuse_unequal()
        return self.buffers if self._block is None else self._memory.blocks.readable(self._block, self._layout)
