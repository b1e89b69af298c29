"""Mapping: independent work spread over slots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from afx.distributed.machines import Machines

__all__ = ["map_over"]

X = TypeVar("X")
R = TypeVar("R")


def map_over(machines: Machines, fn: Callable[[X], R], xs: Iterable[X], *, show_progress: bool = False) -> list[R]:
    """Return what a function gives for each item, on every rank: `Machines.map` as a function.

    Args:
        machines: the slots.
        fn: an item to a tree.
        xs: the items, the same on every rank.
        show_progress: whether rank 0 shows a bar of its own items (extra ``progress``).

    >>> from afx import distributed
    >>> [float(y) for y in distributed.map_over(distributed.local(2), lambda x: x * x, [1.0, 2.0, 3.0])]
    [1.0, 4.0, 9.0]
    """
    return machines.map(fn, xs, show_progress=show_progress)
