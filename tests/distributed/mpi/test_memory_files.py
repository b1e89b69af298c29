"""`afx.distributed.mpi.shared_memory`: where there is no memory to share, nothing is left open."""

import errno
import os
from typing import Any

import numpy as np
import pytest

from afx.distributed.mpi import shared_memory
from afx.distributed.mpi.shared_memory import SharedBlocks, map_memory
from afx.distributed.sums.buffers import flatten_tree

SIZE = 1 << 12
pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs memory files")


class Port:
    """The only rank."""

    rank = 0

    def broadcast(self, data: bytes | None, root: int) -> bytes:
        """Return the bytes."""
        assert data is not None
        assert root == self.rank
        return data

    def gather(self, data: bytes) -> list[bytes]:
        """Return the bytes of this rank."""
        return [data]


def count_files() -> int:
    """Return how many files this process has open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # a folder whose entries end while it is read


def refuse(*_: Any) -> Any:
    """Fail as where memory is full."""
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("place", [(os, "posix_fallocate"), (shared_memory.mmap, "mmap")], ids=["file", "map"])
def test_full_memory_is_no_memory(monkeypatch: pytest.MonkeyPatch, place: tuple[Any, str]) -> None:
    """Sums go another way, and each of them may ask again."""
    before = count_files()
    monkeypatch.setattr(*place, refuse)
    assert [map_memory(Port(), SIZE) for _ in range(3)] == [None] * 3
    assert count_files() == before


def test_memory_can_be_written() -> None:
    """By whoever has mapped it."""
    memory = map_memory(Port(), SIZE)
    assert memory is not None
    memory[-2:] = b"ab"
    assert len(memory) == SIZE


def test_nothing_needs_no_memory() -> None:
    """As results without numbers."""
    asked = list[int]()
    blocks = SharedBlocks(lambda size: asked.append(size))
    assert blocks.choose(flatten_tree({"w": np.ones((0, 3))})[0], 0) is None
    assert not asked
