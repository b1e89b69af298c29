"""`afx.distributed.mpi.shared_memory`: memory of results that ranks share is written again where nobody sees it."""

import mmap
import os
from typing import Any

import numpy as np
import pytest

from afx.distributed.mpi import shared_memory
from afx.distributed.mpi.shared_memory import SharedBlocks
from afx.distributed.sums.buffers import Packing, flatten_tree

LAYOUT: Packing = flatten_tree({"w": np.ones(1000), "b": np.ones(3, np.float32)})[0]


def make_blocks() -> SharedBlocks:
    """Return blocks of one process."""
    return SharedBlocks(lambda size: mmap.mmap(-1, size))


def take(blocks: SharedBlocks, value: float) -> Any:
    """Return a result of equal numbers, as Arrays."""
    number = blocks.choose(LAYOUT, blocks.list_free())
    assert number is not None
    for buffer in blocks.writeable(number, LAYOUT):
        buffer[...] = value
    return LAYOUT.unpack(blocks.readable(number, LAYOUT))


def test_a_block_is_free_when_no_view_of_it_is_left() -> None:
    """Not while a part of a part of a result lives."""
    blocks = make_blocks()
    tree = take(blocks, 1.0)
    assert blocks.list_free() == 0
    part = np.asarray(tree["w"])[10:20].reshape(2, 5)
    del tree
    assert blocks.list_free() == 0
    other = take(blocks, 2.0)
    assert part.sum() == 10.0
    del part
    assert blocks.list_free() == 0b01
    again = take(blocks, 3.0)
    assert (float(other["w"][0]), float(again["b"][0]), blocks.list_free()) == (2.0, 3.0, 0)


def test_no_more_blocks_than_some_of_a_size_are_made() -> None:
    """The next result stands elsewhere."""
    blocks = make_blocks()
    held = [take(blocks, 1.0) for _ in range(shared_memory.MOST_OF_SIZE)]
    assert blocks.choose(LAYOUT, blocks.list_free()) is None
    held.pop()
    assert blocks.choose(LAYOUT, blocks.list_free()) is not None


def test_results_cannot_be_made_writeable() -> None:
    """Another rank reads the same memory."""
    tree = take(make_blocks(), 1.0)
    with pytest.raises(ValueError, match="WRITEABLE"):
        np.asarray(tree["w"]).view().flags.writeable = True
    with pytest.raises(ValueError, match="WRITEABLE"):
        tree["w"]._value.flags.writeable = True


def test_where_memory_cannot_be_shared_there_is_no_block() -> None:
    """As on a machine without memory files."""
    assert SharedBlocks(lambda size: None).choose(LAYOUT, 0) is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
def test_what_a_fork_may_read_is_not_written_again() -> None:
    """A child sees shared memory, and not a copy as of all else."""
    blocks = make_blocks()
    tree = take(blocks, 1.0)
    blocks.keep_used()  # what happens before a fork
    seen = np.asarray(tree["w"]).ctypes.data
    del tree
    assert blocks.list_free() == 0
    assert np.asarray(take(blocks, 2.0)["w"]).ctypes.data != seen
