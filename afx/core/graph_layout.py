"""Layered layout: positions of boxes in rows, so that arrows run downwards and cross little.

Sugiyama, Tagawa & Toda 1981, "Methods for visual understanding of hierarchical system structures": rows by the longest
path, boxes without content where an arrow passes a row, order by barycentres, then positions by relaxation.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import attrs

__all__ = ["Layout", "place_boxes"]

ROW_HEIGHT = 64.0
BOX_GAP = 18.0
PASSING_WIDTH = 6.0
SWEEPS = 8


@attrs.frozen
class Layout:
    """Positions of boxes and routes of arrows.

    Attributes:
        centers: x and y of each box.
        routes: for each arrow, the points it passes, box to box.
        width: of the whole drawing.
        height: of the whole drawing.
    """

    centers: tuple[tuple[float, float], ...]
    routes: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


def place_boxes(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> Layout:
    """Return positions of boxes of these widths.

    Args:
        widths: of the boxes, in an order in which every arrow runs forward.
        edges: arrows, from one box to a later one.

    >>> place_boxes([10, 10], [(0, 1)]).centers
    ((5.0, 32.0), (5.0, 96.0))
    """
    rows = _rows(len(widths), edges)
    all_widths, all_rows, chains = _cut_edges(list(widths), rows, edges)
    neighbours = _neighbours(len(all_widths), chains)
    order = _order(all_rows, neighbours)
    x = _relax(order, all_widths, neighbours)
    left = min((x[k] - all_widths[k] / 2 for k in range(len(x))), default=0.0)
    points = [(x[k] - left, (all_rows[k] + 0.5) * ROW_HEIGHT) for k in range(len(x))]
    return Layout(
        tuple(points[: len(widths)]),
        tuple(tuple(points[k] for k in chain) for chain in chains),
        max((p[0] + w / 2 for p, w in zip(points, all_widths, strict=True)), default=0.0),
        (max(all_rows, default=-1) + 1) * ROW_HEIGHT,
    )


def _rows(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the row of each box: below all that lead to it, and boxes that nothing leads to right above their first use."""
    rows = [0] * count
    for start, end in sorted(edges, key=lambda edge: edge[1]):
        rows[end] = max(rows[end], rows[start] + 1)
    is_entered = [False] * count
    for _, end in edges:
        is_entered[end] = True
    for k in range(count):
        if not is_entered[k]:
            rows[k] = min((rows[end] - 1 for start, end in edges if start == k), default=0)
    return rows


def _cut_edges(
    widths: list[float], rows: list[int], edges: Sequence[tuple[int, int]]
) -> tuple[list[float], list[int], list[list[int]]]:
    """Give an arrow a narrow box in each row that it passes; return widths, rows and the chains of boxes."""
    widths, rows, chains = list(widths), list(rows), list[list[int]]()
    for start, end in edges:
        chain = [start]
        for row in range(rows[start] + 1, rows[end]):
            chain.append(len(rows))
            rows.append(row)
            widths.append(PASSING_WIDTH)
        chains.append([*chain, end])
    return widths, rows, chains


def _neighbours(count: int, chains: Sequence[Sequence[int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the boxes above and those below each box."""
    above, below = [list[int]() for _ in range(count)], [list[int]() for _ in range(count)]
    for chain in chains:
        for upper, lower in pairwise(chain):
            above[lower].append(upper)
            below[upper].append(lower)
    return above, below


def _order(rows: Sequence[int], neighbours: tuple[list[list[int]], list[list[int]]]) -> list[list[int]]:
    """Order the boxes of each row by the mean position of their neighbours, downwards and upwards in turn."""
    order = [list[int]() for _ in range(max(rows, default=-1) + 1)]
    for k, number in enumerate(rows):
        order[number].append(k)
    place = {k: float(i) for row in order for i, k in enumerate(row)}
    for sweep in range(SWEEPS):
        near = neighbours[sweep % 2]
        for row in order if sweep % 2 == 0 else reversed(order):
            means = {k: sum(place[n] for n in near[k]) / len(near[k]) if near[k] else place[k] for k in row}
            row.sort(key=means.__getitem__)
            place.update({k: float(i) for i, k in enumerate(row)})
    return order


def _relax(
    order: Sequence[Sequence[int]], widths: Sequence[float], neighbours: tuple[list[list[int]], list[list[int]]]
) -> list[float]:
    """Return the x of each box: near the mean of its neighbours, without overlap within its row."""
    x = [0.0] * len(widths)
    for row in order:
        _spread(row, [0.0] * len(row), widths, x)
    for sweep in range(SWEEPS):
        near = neighbours[sweep % 2]
        for row in order if sweep % 2 == 0 else reversed(order):
            wished = [sum(x[n] for n in near[k]) / len(near[k]) if near[k] else x[k] for k in row]
            _spread(row, wished, widths, x)
    return x


def _spread(row: Sequence[int], wished: Sequence[float], widths: Sequence[float], x: list[float]) -> None:
    """Write the positions of a row's boxes into ``x``: as near to the wished ones as the gaps allow, on average."""
    places = list[float]()
    for i, k in enumerate(row):
        least = places[-1] + (widths[row[i - 1]] + widths[k]) / 2 + BOX_GAP if places else wished[i]
        places.append(max(wished[i], least))
    shift = sum(w - p for w, p in zip(wished, places, strict=True)) / max(len(row), 1)
    for k, place in zip(row, places, strict=True):
        x[k] = place + shift
