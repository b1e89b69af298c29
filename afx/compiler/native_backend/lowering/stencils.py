"""Overlapped tiling: loops over neighbouring rows run one after the other on a few rows, each on those that the next need.

A tile computes some rows of the last loop, and of each loop before it these and the neighbours that are read there. What
lies between them stays in the cache; rows at the edge of two tiles are computed twice, to the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from afx.compiler.arena import Arena
from afx.compiler.native_backend.lowering.items import Item
from afx.compiler.native_backend.lowering.memory import finish_steps, place_memory
from afx.compiler.native_backend.lowering.rows import even_part, row_accesses, single_steps
from afx.compiler.native_backend.program import Block, BlockLoop, Nest, Ref
from afx.compiler.native_backend.steps import RowAccess
from afx.compiler.target import NativeTarget

__all__ = ["tile_stencils"]


@attrs.frozen
class _Part:
    """One loop of a tile: rows ``first`` to ``last`` rows behind those of the tile, of which it makes ``root``."""

    nest: Nest
    accesses: tuple[RowAccess, ...]
    first: int
    last: int


@attrs.frozen
class _Rows:
    """Rows of an array that a tile keeps: from which one behind its own on, how many more, bytes from row to row."""

    first: int
    more: int
    pitch: int


@attrs.frozen
class _Need:
    """Rows of an array that a tile reads: those behind its own, as in `_Part`; the array's bytes from row to row."""

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
        rows, widest = (run[-1].nest.space[0], max([_row(part.nest) for part in run])) if run else (0, 1)
        count = even_part(rows, limits.tile_max_elements // max(widest, 1))
        is_worth = len(run) > 1 and sum([sizes[root] for root in roots]) >= limits.tile_min_bytes
        if is_worth and limits.tile_min_rows <= count < rows:
            outside = left.union(*[_touched(unit) for unit in [*units[:begin], *units[end:]]])
            found.append(_tiled(run, count, rows, outside))
        else:
            begin = end - 1
            found.append(units[begin])
        end = begin
    return found[::-1]


def _touched(item: Item) -> set[int]:
    return item.reads.union(item.writes)


def _row(nest: Nest) -> int:
    total = 1
    for n in nest.space[1:]:
        total *= n
    return total


def _run(units: Sequence[Item], outside: set[int]) -> list[_Part]:
    """Return the longest run of loops at the end that tiles can compute, each before those that read what it makes."""
    run: list[_Part] = []
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
    unit: Item, run: Sequence[_Part], needs: dict[int, _Need | None], outside: set[int], written: set[int]
) -> _Part | None:
    """Return a loop as a part of tiles, None where it is none."""
    nest = unit.steps[0] if len(unit.steps) == 1 else None
    if not isinstance(nest, Nest) or nest.folds or len(nest.space) < 2:
        return None
    if not nest.operations:
        return None  # a copy, which a loop may leave out where its carry stays in place
    accesses, rows = row_accesses(unit, nest.space[0]) or [], run[-1].nest.space[0] if run else nest.space[0]
    made = [a for a in accesses if a.writes]
    if not all(map(_is_row, made)) or written & _touched(unit):
        return None
    known = [(needs[a.ref.root], a) for a in made if a.ref.root in needs]
    first = min([need.first - _shift(a) for need, a in known if need is not None], default=0)
    last = max([need.last - _shift(a) for need, a in known if need is not None], default=0)
    if any(need is None or need.pitch != a.pitch for need, a in known):
        return None
    if not known or any(a.ref.root in outside for a in made):
        is_possible = first == 0 and rows + last == nest.space[0]
    else:
        is_possible = first >= 0 and rows + last <= nest.space[0] and len(made) == len(known)
    return _Part(nest, tuple(accesses), first, last) if is_possible else None


def _is_row(access: RowAccess) -> bool:
    """Tell whether a loop writes what lies within one row of an array."""
    return access.pitch > 0 and access.low >= 0 and access.high <= (_shift(access) + 1) * access.pitch


def _shift(access: RowAccess) -> int:
    """Return which row of an array is the first."""
    return access.low // access.pitch


def _read(needs: dict[int, _Need | None], access: RowAccess, part: _Part) -> None:
    """Note which rows a part reads."""
    root, pitch = access.ref.root, access.pitch
    known = needs.get(root, _Need(1 << 30, -(1 << 30), pitch))
    if known is None or pitch <= 0 or known.pitch != pitch:
        needs[root] = None
        return
    first, last = part.first + _shift(access), part.last + (access.high - 1) // pitch
    needs[root] = _Need(min(known.first, first), max(known.last, last), pitch)


# -- tiles --
def _tiled(run: Sequence[_Part], count: int, rows: int, outside: set[int]) -> Item:
    """Return a loop over tiles of so many rows."""
    makers = {a.ref.root: (part, a) for part in run for a in part.accesses if a.writes and a.ref.root not in outside}
    pitches = {(a.ref.root, a.pitch): None for part in run for a in part.accesses}
    params = [pair for pair in pitches if pair[0] not in makers]
    private = {
        root: _Rows(part.first + _shift(a), part.last - part.first, a.pitch) for root, (part, a) in makers.items()
    }
    bodies = tuple([_body(run, n, params, private) for n in (count, rows % count) if n])
    roots, strides = tuple([root for root, _ in params]), tuple([count * pitch for _, pitch in params])
    loop = BlockLoop(
        bodies, -(-rows // count), (roots,) * len(bodies), (strides,) * len(bodies), 0, rows * _row(run[-1].nest)
    )
    written = dict.fromkeys([a.ref.root for part in run for a in part.accesses if a.writes])
    return Item([loop], set(roots), [root for root in written if root not in makers], loop.arena_bytes)


def _body(run: Sequence[_Part], count: int, params: Sequence[tuple[int, int]], private: dict[int, _Rows]) -> Block:
    """Return the block that computes a tile; what nobody else reads lies in its arena."""
    numbers = {pair: k for k, pair in enumerate(params)}
    own = {root: len(params) + k for k, root in enumerate(private)}
    sizes = {own[root]: rows.pitch * (count + rows.more) for root, rows in private.items()}

    def on_tile(part: _Part) -> Nest:
        def moved(ref: Ref) -> Ref:
            pitch = ref.strides[0]
            base = private[ref.root].first if ref.root in own else 0
            root = own.get(ref.root, numbers.get((ref.root, pitch), -1))
            return attrs.evolve(ref, root=root, offset=ref.offset + (part.first - base) * pitch)

        return attrs.evolve(part.nest.map_refs(moved), space=(count + part.last - part.first, *part.nest.space[1:]))

    parts = single_steps([Item([on_tile(part)]) for part in run])
    arena = Arena()
    roots, final = place_memory(parts, range(len(params)), sizes, arena)
    return Block(len(params), tuple(roots), tuple(finish_steps(parts, final, arena)), arena.size)
