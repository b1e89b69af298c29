"""Overlapped tiling: loops over neighbouring rows run one after the other on a few rows, each on those that the next need.

A tile computes some rows of the last loop, and of each loop before it these and the neighbours that are read there. What
lies between them stays in the cache; rows at the edge of two tiles are computed twice, to the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from afx.compiler.native_backend.lowering.items import Item
from afx.compiler.native_backend.lowering.rows import Part, even_part, loop_over_tiles, row_accesses, single_steps
from afx.compiler.native_backend.program import Nest
from afx.compiler.native_backend.steps import RowAccess
from afx.compiler.target import NativeTarget

__all__ = ["tile_stencils"]


@attrs.frozen
class _Need:
    """Rows of an array that a tile reads: those behind its own, as in `Part`; bytes from row to row."""

    first: int
    last: int
    pitch: int


def tile_stencils(
    items: Sequence[Item], kept: Iterable[int], sizes: dict[int, int], limits: NativeTarget
) -> list[Item]:
    """Return items with runs of loops over large arrays as loops over tiles.

    Args:
        items: what runs, in order.
        kept: owners of memory that others read.
        sizes: bytes of each owner.
        limits: which runs are worth it.
    """
    units, left = single_steps(items), set(kept)
    found: list[Item] = []
    end = len(units)
    while end:
        run = _run(units[:end], left.union(*[_touched(unit) for unit in units[end:]]))
        begin = end - max(len(run), 1)
        roots = {a.ref.root for part in run for a in part.accesses}
        rows, widest = (run[-1].rows, max([part.step.elements // part.rows for part in run])) if run else (0, 1)
        count = even_part(rows, limits.tile_max_elements // max(widest, 1))
        is_worth = len(run) > 1 and sum([sizes[root] for root in roots]) >= limits.tile_min_bytes
        if is_worth and limits.tile_min_rows <= count < rows:
            outside = left.union(*[_touched(unit) for unit in [*units[:begin], *units[end:]]])
            found.append(loop_over_tiles(run, count, rows, outside, run[-1].step.elements))
        else:
            begin = end - 1
            found.append(units[begin])
        end = begin
    return found[::-1]


def _touched(item: Item) -> set[int]:
    return item.reads.union(item.writes)


def _run(units: Sequence[Item], outside: set[int]) -> list[Part]:
    """Return the longest run of loops at the end that tiles can compute, each before those that read what it makes."""
    run: list[Part] = []
    needs: dict[int, _Need | None] = {}  # None for what no tile could compute
    written: set[int] = set()
    for unit in reversed(units):
        part = _part(unit, run, needs, outside, written)
        if part is None:
            break
        run.insert(0, part)
        written |= set(unit.writes)
        for access in part.accesses:
            if not access.writes:
                _read(needs, access, part)
    return run


def _part(
    unit: Item, run: Sequence[Part], needs: dict[int, _Need | None], outside: set[int], written: set[int]
) -> Part | None:
    """Return a loop as a part of tiles, None where it is none."""
    nest = unit.steps[0] if len(unit.steps) == 1 else None
    if not isinstance(nest, Nest) or nest.folds or len(nest.space) < 2:
        return None
    if not nest.operations:
        return None  # a copy, which a loop may leave out where its carry stays in place
    accesses, rows = row_accesses(unit, nest.space[0]) or [], run[-1].rows if run else nest.space[0]
    made = [a for a in accesses if a.writes]
    changed = {a.ref.root for a in made} & {a.ref.root for a in accesses if not a.writes}
    if changed or not all(map(_is_row, made)) or written & _touched(unit):
        return None  # rows at the edge of two tiles, which are computed twice, must not be changed in place
    known = [(needs[a.ref.root], a) for a in made if a.ref.root in needs]
    first = min([need.first - a.shift for need, a in known if need is not None], default=0)
    last = max([need.last - a.shift for need, a in known if need is not None], default=0)
    if any(need is None or need.pitch != a.pitch for need, a in known):
        return None
    if not known or any(a.ref.root in outside for a in made):
        is_possible = first == 0 and rows + last == nest.space[0]
    else:
        is_possible = first >= 0 and rows + last <= nest.space[0] and len(made) == len(known)
    return Part(nest, accesses, nest.space[0], first, last) if is_possible else None


def _is_row(access: RowAccess) -> bool:
    """Tell whether a loop writes what lies within one row of an array."""
    return access.pitch > 0 and access.low >= 0 and access.high <= (access.shift + 1) * access.pitch


def _read(needs: dict[int, _Need | None], access: RowAccess, part: Part) -> None:
    """Note which rows a part reads."""
    root, pitch = access.ref.root, access.pitch
    known = needs.get(root, _Need(1 << 30, -(1 << 30), pitch))
    if known is None or pitch <= 0 or known.pitch != pitch:
        needs[root] = None
        return
    first, last = part.first + access.shift, part.last + (access.high - 1) // pitch
    needs[root] = _Need(min(known.first, first), max(known.last, last), pitch)
