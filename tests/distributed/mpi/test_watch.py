"""`afx.distributed.mpi.watch`: ranks that wait compare the same parts of the same calls, and nothing else."""

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from afx.distributed.mpi import watch as watching
from afx.distributed.mpi.watch import Watch
from afx.errors import ArgumentError

MPI = SimpleNamespace(Status=lambda: SimpleNamespace(), ANY_SOURCE=-1, BYTE=None, Exception=RuntimeError)


class Comm:
    """A communicator of ranks that are objects of one process."""

    def __init__(self, rank: int, boxes: list[deque[tuple[int, bytes]]]) -> None:
        self.rank, self.size, self._boxes = rank, len(boxes), boxes

    def Isend(self, what: list[Any], other: int, _tag: int) -> Any:
        """Put a word into the box of a rank."""
        self._boxes[other].append((self.rank, what[0].tobytes()))
        return SimpleNamespace(Test=lambda: True)

    def Iprobe(self, _source: int, _tag: int, status: Any) -> bool:
        """Tell whether there is a word, and from whom."""
        box = self._boxes[self.rank]
        status.Get_source = lambda: box[0][0]
        return bool(box)

    def Recv(self, what: list[Any], _source: int, _tag: int) -> None:
        """Take the first word."""
        what[0][:] = bytearray(self._boxes[self.rank].popleft()[1])


def connect(ranks: int) -> list[Watch]:
    """Return the watches of some ranks, in their first call."""
    boxes = [deque[tuple[int, bytes]]() for _ in range(ranks)]
    found = [Watch(MPI, Comm(rank, boxes), 60.0, False) for rank in range(ranks)]
    for watch in found:
        watch.begin("spmd of work")
    return found


def test_a_rank_that_waited_in_an_earlier_part_of_a_call_is_no_mistake() -> None:
    """It waits for a slow rank in a first collective; that one then waits for it in a second."""
    fast, slow = connect(2)
    fast.detail("1. psum")
    fast.look(1.0)
    slow.detail("1. psum")
    slow.detail("2. all_gather")
    slow.look(1.0)  # hears the word of the first part
    fast.detail("2. all_gather")
    fast.look(1.0)
    slow.look(2.0)


def test_other_parts_of_a_call_are_named() -> None:
    """Each rank tells every part in which it waits for long."""
    first, second = connect(2)
    for watch in (first, second):
        watch.detail("1. psum")
        watch.look(1.0)
    first.detail("2. psum")
    first.look(1.0)
    second.detail("2. all_gather")
    with pytest.raises(
        ArgumentError, match=r"got rank 0 in spmd of work: 2. psum, rank 1 in spmd of work: 2. all_gather"
    ):
        second.look(1.0)


def test_a_part_more_of_a_call_is_named() -> None:
    """By the rank that has left that call already."""
    first, second = connect(2)
    for watch in (first, second):
        watch.detail("1. psum")
    first.begin("check_same")
    second.detail("2. psum")
    second.look(1.0)
    with pytest.raises(ArgumentError, match=r"got rank 1 in spmd of work: 2. psum, rank 0 in spmd of work: 1. psum"):
        first.look(1.0)


def test_a_call_that_is_made_again_begins_with_its_first_part() -> None:
    """One rank was farther than another when a third was lost."""
    first, second = connect(2)
    first.detail("1. psum")
    first.detail("2. all_gather")
    second.detail("1. psum")
    for watch in (first, second):
        watch.use(watch._comm, [])
        watch.detail("1. psum")
        watch.look(1.0)
    for watch in (first, second):
        watch.look(2.0)


def test_a_rank_that_was_held_up_takes_what_has_come() -> None:
    """It is not told that the others have left its call before it has tried some times."""
    stopped, other = connect(2)
    other.begin("next")
    other.look(1.0)
    for _ in range(watching.LEFT_LOOKS):
        stopped.look(10.0)
    with pytest.raises(ArgumentError, match="a call that the other ranks have left"):
        stopped.look(10.0)
