"""Graph coloring: columns of a sparse matrix that one pass can compute, because no row holds two of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from afx.transforms.sparse.pattern import count_each

__all__ = ["color", "dense_rows"]

Ints = np.ndarray[Any, np.dtype[np.int64]]


def dense_rows(counts: Ints) -> Ints:
    """Return the rows that are better computed alone, given how many entries each has.

    Columns need as many colours as the fullest row has entries. Setting the k fullest rows apart costs k and leaves the
    next one's count; the best k is taken.

    >>> dense_rows(np.array([2, 9, 2, 2]))
    array([1])
    """
    order = np.argsort(-counts, kind="stable")
    sums = np.arange(len(counts) + 1) + np.append(counts[order], 0)
    return np.sort(order[: int(np.argmin(sums))])


def color(rows: Ints, columns: Ints, shape: tuple[int, int]) -> Ints:
    """Return a colour for each column, so that no row has two entries of one colour; -1 for empty columns.

    Greedy, once in the columns' own order, which suits bands, and once from the fullest column on; the one with fewer
    colours is taken.

    Args:
        rows: the row of each entry.
        columns: its column.
        shape: of the matrix.

    >>> color(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 2, 2]), (3, 3))
    array([0, 1, 0])
    """
    order = np.argsort(columns, kind="stable")
    entries = rows[order].tolist()
    bounds = np.searchsorted(columns[order], np.arange(shape[1] + 1)).tolist()
    counts = np.diff(bounds)
    found = _greedy(range(shape[1]), entries, bounds, shape)
    if found.max(initial=-1) + 1 > _most(rows, shape[0]):
        other = _greedy(np.argsort(-counts, kind="stable").tolist(), entries, bounds, shape)
        found = min(found, other, key=lambda c: int(c.max(initial=-1)))
    return found


def _most(rows: Ints, count: int) -> int:
    """Return the number of entries of the fullest row, which no colouring goes below."""
    return int(count_each(rows, max(count, 1)).max())


def _greedy(order: Any, entries: list[int], bounds: list[int], shape: tuple[int, int]) -> Ints:
    """Give each column in turn the first colour that no row of it has seen."""
    seen = [0] * shape[0]  # for each row the colours in it, as bits
    colours = [-1] * shape[1]
    for j in order:
        mine = entries[bounds[j] : bounds[j + 1]]
        if not mine:
            continue
        taken = 0
        for i in mine:
            taken |= seen[i]
        free = ~taken & (taken + 1)  # the lowest bit that is not set
        colours[j] = free.bit_length() - 1
        for i in mine:
            seen[i] |= free
    return np.array(colours, np.int64)
