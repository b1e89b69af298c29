"""Shared blocks: memory of results that all ranks of one machine read, and of which each writes its part.

So nobody copies what others have added up. A block is written again as soon as no rank refers to a result in it: ranks tell
each other as bits of a whole number, and choose the same one. Results are views that nobody can make writeable.
"""

from __future__ import annotations

import itertools
import mmap
import os
import sys
import weakref
from collections.abc import Callable
from typing import Final

import numpy as np

from afx.distributed.sums.buffers import ALIGNMENT_BYTES, Layout, Ndarray
from afx.runtime.output_pool import ALONE

__all__ = ["SharedBlocks"]

MOST_OF_SIZE: Final = 4  # results of one size that live at a time; what more there are is copied
MOST_BLOCKS: Final = 62  # bits of a whole number
PAGE_BYTES: Final = 1 << 12

_all: weakref.WeakSet[SharedBlocks] = weakref.WeakSet()


class SharedBlocks:
    """Blocks that ranks have in common, in the same order on each of them.

    Args:
        make: a size to memory that all ranks share, None where they cannot; every rank calls it.
    """

    def __init__(self, make: Callable[[int], mmap.mmap | None]) -> None:
        self._make = make
        self._sizes: list[int] = []
        self._memories: list[Ndarray] = []
        self._bases: list[Ndarray] = []  # the same, read-only: all results are views of these
        self._used_by_forks: list[Ndarray] = []
        _all.add(self)

    def list_free(self) -> int:
        """Return the blocks to which nobody in this process refers, as bits."""
        bits, bit = 0, 1
        for base in self._bases:
            if sys.getrefcount(base) == ALONE:
                bits |= bit
            bit <<= 1
        return bits

    def choose(self, layout: Layout, free: int) -> int | None:
        """Return the number of a block for a result, None where there is none.

        Args:
            layout: of the result.
            free: the blocks to which no rank refers, as bits.
        """
        size = -(-_list_starts(layout)[-1] // PAGE_BYTES) * PAGE_BYTES
        if not size:
            return None
        alike = [number for number, found in enumerate(self._sizes) if found == size]
        chosen = next((number for number in alike if free >> number & 1), None)
        if chosen is not None or len(alike) >= MOST_OF_SIZE or len(self._sizes) >= MOST_BLOCKS:
            return chosen
        memory = self._make(size)
        if memory is None:
            return None
        self._sizes.append(size)
        self._memories.append(np.frombuffer(memory, np.uint8))
        self._bases.append(np.frombuffer(memoryview(memory).toreadonly(), np.uint8))
        return len(self._sizes) - 1

    def writeable(self, number: int, layout: Layout) -> list[Ndarray]:
        """Return the buffers of a block, of which each rank writes its part."""
        return _cut(self._memories[number], layout)

    def readable(self, number: int, layout: Layout) -> list[Ndarray]:
        """Return the buffers of a block as a result: it is not written again while anybody refers to them."""
        return _cut(self._bases[number], layout)

    def keep_used(self) -> None:
        """Write nothing again to which this process refers: a process that is forked off would see it change."""
        free = self.list_free()
        self._used_by_forks = [base for number, base in enumerate(self._bases) if not free >> number & 1]


def _list_starts(layout: Layout) -> list[int]:
    """Return where the buffer of each dtype begins in a block, and where the last one ends."""
    sizes = [length * dtype.itemsize for length, dtype in zip(layout.lengths, layout.dtypes, strict=True)]
    return [0, *itertools.accumulate(-(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for size in sizes)]


def _cut(memory: Ndarray, layout: Layout) -> list[Ndarray]:
    kinds = zip(_list_starts(layout), layout.lengths, layout.dtypes, strict=False)
    return [memory[start : start + length * dtype.itemsize].view(dtype) for start, length, dtype in kinds]


def _keep_used() -> None:
    for blocks in list(_all):
        blocks.keep_used()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_keep_used)
