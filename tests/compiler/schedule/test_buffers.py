"""Buffer assignment: aliases, lifetimes, donation and offsets of small graphs."""

from collections.abc import Callable
from typing import Any

import pytest

import afx
from afx import Array
from afx.compiler.schedule.buffers import Interval, assign, assign_offsets, donate, find_aliases, find_lifetimes
from afx.compiler.schedule.fusion import Groups, fuse
from afx.compiler.target import Target

X = afx.ones((4, 4), dtype="float32")


def grouped(fn: Callable[..., Any], *xs: Array) -> Groups:
    """Return the groups of a simplified graph."""
    return fuse(afx.jit(fn).lower(*xs).graph, Target())


def test_views_share_their_roots_memory() -> None:
    """Strides and offsets of views of buffers are known, those of arguments are not."""
    values = find_aliases(grouped(lambda x: ((x * 2.0).T[1:] + 1.0, x.T * 3.0), X))
    views = [v for v in values.values() if v.kind == "view"]
    assert [(v.strides, v.offset) for v in views if v.root != 0] == [((4, 16), 0), ((4, 16), 4)]
    assert [(v.strides, v.offset) for v in views if v.root == 0] == [(None, None)]


def test_a_transpose_is_all_of_its_root_but_not_in_order() -> None:
    """So a result may be it, and nothing is written over it at the same indices."""
    values = find_aliases(grouped(lambda x: (x * 2.0).T, X))
    (view,) = [v for v in values.values() if v.kind == "view"]
    assert view.is_all
    assert not view.is_row_major


def test_lifetimes_end_with_the_last_reader() -> None:
    """Results live on; what a view reads keeps its root alive."""
    groups = grouped(lambda x: afx.sin((x * 2.0).T @ x) + 1.0, X)
    intervals = find_lifetimes(groups, find_aliases(groups))
    assert [(i.start, i.end, i.is_result, i.in_arena) for i in intervals] == [
        (-1, 2, False, False),  # the argument
        (0, 2, False, True),  # the product with 2, by way of its transpose
        (2, 3, False, True),
        (3, 4, False, True),
        (4, 5, True, False),
    ]


CASES: dict[str, tuple[Callable[..., Any], int]] = {
    "a chain": (lambda x: afx.sin(afx.cos(x)) @ x, 1),
    "read again": (lambda x: (afx.sin(afx.cos(x)) * afx.cos(x)) @ x, 1),
    "a product": (lambda x: afx.cos(x) @ x @ x, 0),
    "its own transpose": (lambda x: (afx.cos(x) + afx.cos(x).T) @ x, 1),
    "another shape": (lambda x: (afx.sum(x, 0) * 2.0 + x) @ x, 1),
    "single numbers": (lambda x: afx.sin(afx.cos(afx.sum(x))) * x @ x, 0),
}


@pytest.mark.parametrize("case", CASES)
def test_elementwise_results_take_the_memory_of_an_operand(case: str) -> None:
    """Of one that ends there and lies in the same order; numbers and products never do."""
    fn, wanted = CASES[case]
    groups = grouped(fn, X)
    values = find_aliases(groups)
    assert len(donate(groups, values, find_lifetimes(groups, values), ())) == wanted


def test_results_take_the_memory_of_donated_arguments_alone() -> None:
    """Of those that are donated."""
    groups = grouped(lambda x, y: x * 2.0 + y, X, X)
    assert not assign(groups).donated_to or all(root > 1 for root in assign(groups).donated_to.values())
    assert 1 in assign(groups, [1]).donated_to.values()


def test_offsets_reuse_what_has_ended() -> None:
    """Three values of which two at a time are alive need two places; an operand is alive with its result."""
    intervals = [Interval(k, 100, k, k + 1, False, True) for k in range(3)]
    offsets, arena = assign_offsets(intervals, {})
    assert offsets == {0: 0, 1: 128, 2: 0}
    assert (arena.size, arena.widest) == (256, 256)


def test_offsets_of_what_is_written_in_place() -> None:
    """It takes the place of its operand, and gives it back."""
    intervals = [
        Interval(0, 64, 0, 1, False, True),
        Interval(1, 64, 1, 2, False, True),
        Interval(2, 64, 3, 4, False, True),
    ]
    offsets, arena = assign_offsets(intervals, {1: 0})
    assert offsets == {0: 0, 1: 0, 2: 0}
    assert arena.size == 64


def test_an_assignment_prints() -> None:
    """One line for each variable, with its place."""
    text = str(assign(grouped(lambda x: afx.sin(x) @ x, X)))
    assert text.splitlines()[0] == "64 bytes of arena, 64 at the widest point"
    assert "1: written, 64 bytes @0" in text


def test_offsets_are_aligned_as_the_target_says() -> None:
    """A target whose vectors are longer gets buffers further apart."""
    groups = grouped(lambda x: afx.sin(afx.cos(x) @ x) @ afx.exp(x), X)
    for alignment in (64, 256, 4096):
        assigned = assign(groups, (), alignment)
        assert len(assigned.offsets) > 1
        assert all(offset % alignment == 0 for offset in assigned.offsets.values())
