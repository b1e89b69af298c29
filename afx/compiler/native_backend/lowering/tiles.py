"""Tiles: steps that work on rows run one after the other on a few of them, which stay in the cache.

Steps on the same rows run together wherever they stand, as far as nothing else comes between them. Loops over
neighbouring rows, stencils, are tiled with overlaps: a tile computes some rows of the last loop, and of each loop before
it these and the neighbours that are read there; rows at the edge of two tiles are computed twice, to the same bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from afx.compiler.native_backend.lowering.items import Item
from afx.compiler.native_backend.lowering.memory import place_memory
from afx.compiler.native_backend.program import Arg, Block, BlockLoop, Body, Leaf, Nest, Ref, Step
from afx.compiler.native_backend.steps import RowAccess
from afx.compiler.target import NativeTarget

__all__ = ["fuse_rows", "tile_stencils"]


@attrs.frozen
class _Part:
    """A step of a tile, which works on some of its rows: from ``first`` to ``last`` rows behind those of the tile.

    Attributes:
        step: on all of its rows.
        accesses: what it touches in each row, in the order of its memory.
        rows: how many there are.
        first: the first one beside those of the tile.
        last: the last one.
    """

    step: Step
    accesses: Sequence[RowAccess]
    rows: int
    first: int = 0
    last: int = 0


@attrs.frozen
class _Rows:
    """Rows of an array that a tile reads or keeps, as in `_Part`; bytes from row to row."""

    first: int
    last: int
    pitch: int


# -- steps on the same rows --
def fuse_rows(
    items: Sequence[Item], rows: int, kept: Iterable[int], most: int, *, is_shared: bool = False
) -> list[Item]:
    """Return items of which those that work row by row are joined to loops over some rows.

    Args:
        items: what runs, in order.
        rows: how many there are.
        kept: owners of memory that others read.
        most: elements of the largest value of the rows that a loop takes at once.
        is_shared: whether threads may share the rows: then no row adds to what another one has left, and what is
            elementwise alone stays as it is.
    """
    units = _single_steps(items)
    waiting = [(item, _row_accesses(item, rows)) for item in units]
    left, counts, found = set(kept), _count_touches(units), list[Item]()
    while waiting:
        run, later, behind = _Run(rows, is_shared), list[tuple[Item, list[RowAccess] | None]](), _Touched()
        for item, accesses in waiting:
            is_free = not behind.conflicts(item)
            if is_free and accesses is not None and run.take(item, accesses):
                continue
            if is_free and not run.conflicts(item):
                found.append(item)
            else:
                later.append((item, accesses))
                behind.add(item)
        is_worth = any(not isinstance(part.step, Nest) for part in run.parts) if is_shared else len(run.parts) > 1
        outside = left | _touched_outside(run.items, counts)
        tiled = _loop_over_tiles(run.parts, rows, most, outside) if is_worth else None
        found += run.items if tiled is None else [tiled]
        waiting = later
    return found


class _Touched:
    """The memory that some items touch."""

    def __init__(self) -> None:
        self.reads: set[int] = set()
        self.writes: set[int] = set()

    def add(self, item: Item) -> None:
        """Enter what an item touches."""
        self.reads |= item.reads
        self.writes.update(item.writes)

    def conflicts(self, item: Item) -> bool:
        """Tell whether the order of an item and of one of these decides about results."""
        are_apart = self.writes.isdisjoint(item.writes) and self.writes.isdisjoint(item.reads)
        return not are_apart or not self.reads.isdisjoint(item.writes)


class _Run(_Touched):
    """Steps that work on the same rows, one after the other; threads may share these."""

    def __init__(self, rows: int, is_shared: bool) -> None:
        super().__init__()
        self.items: list[Item] = []
        self.parts: list[_Part] = []
        self._rows, self._is_shared = rows, is_shared
        self._accesses: dict[int, list[RowAccess]] = {}  # by their memory

    def take(self, item: Item, accesses: Sequence[RowAccess]) -> bool:
        """Add a step if it may run on some rows before those of the run have run on others; tell whether it may."""
        own: dict[int, list[RowAccess]] = {}
        for a in accesses:
            own.setdefault(a.ref.root, [*self._accesses.get(a.ref.root, ())]).append(a)
        if not all(map(self._fits, own.values())):
            return False
        self._accesses |= own
        self.items.append(item)
        self.parts.append(_Part(item.steps[0], accesses, self._rows))
        self.add(item)
        return True

    def _fits(self, own: Sequence[RowAccess]) -> bool:
        """Tell whether all that touches one memory stays within its rows, or one step adds to it."""
        if not any(a.writes for a in own):
            return True
        if all(a.adds for a in own):
            return not self._is_shared and len({a.ref for a in own}) == 1 and sum([a.writes for a in own]) == 1
        return not any(a.adds or a.pitch != own[0].pitch or a.low < 0 or a.high > a.pitch for a in own)


def _count_touches(items: Iterable[Item]) -> Counter[int]:
    """Return how many items touch the memory of each owner."""
    return Counter([owner for item in items for owner in item.touched])


def _touched_outside(items: Iterable[Item], counts: Mapping[int, int]) -> set[int]:
    """Return the owners of memory that some items touch, and so do others: of each it is known how many do in all."""
    return {owner for owner, n in _count_touches(items).items() if n < counts[owner]}


def _single_steps(items: Sequence[Item]) -> list[Item]:
    """Return items of one step each, as far as they say what they read and write."""
    found: list[Item] = []
    for item in items:
        if all(isinstance(step, Leaf) for step in item.steps):
            found += [_item(step) for step in item.steps]
        else:
            found.append(item)
    return found


def _item(step: Step) -> Item:
    """Return a step as an item."""
    accesses = step.accesses()
    written = [a.ref.root for a in accesses if a.mode != "r"]
    return Item([step], {a.ref.root for a in accesses}, [*dict.fromkeys(written)])


def _row_accesses(item: Item, rows: int) -> list[RowAccess] | None:
    """Return what the step of an item reads and writes in each row; None where it is not a step of rows."""
    return item.steps[0].row_accesses(rows) if len(item.steps) == 1 else None


# -- stencils --
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
    units, left = _single_steps(items), set(kept)
    counts, behind = _count_touches(units), set(left)
    found: list[Item] = []
    end = len(units)
    while end:
        run = _run(units, end, behind)
        begin, roots = end - len(run), {a.ref.root for part in run for a in part.accesses}
        tiled = None
        if len(run) > 1 and sum([sizes[root] for root in roots]) >= limits.tile_min_bytes:
            outside = left | _touched_outside(units[begin:end], counts)
            tiled = _loop_over_tiles(run, run[-1].rows, limits.tile_max_elements, outside, limits.tile_min_rows)
        if tiled is None:
            begin = end - 1
        found.append(units[begin] if tiled is None else tiled)
        behind.update(*[unit.touched for unit in units[begin:end]])
        end = begin
    return found[::-1]


def _run(units: Sequence[Item], end: int, outside: set[int]) -> list[_Part]:
    """Return the longest run of loops up to an end that tiles can compute, each before those that read what it makes."""
    run: list[_Part] = []
    needs: dict[int, _Rows | None] = {}  # None for what no tile could compute
    written: set[int] = set()
    for k in reversed(range(end)):
        unit = units[k]
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
    unit: Item, run: Sequence[_Part], needs: dict[int, _Rows | None], outside: set[int], written: set[int]
) -> _Part | None:
    """Return a loop as a part of tiles, None where it is none."""
    nest = unit.steps[0] if len(unit.steps) == 1 else None
    if not isinstance(nest, Nest) or nest.folds or len(nest.space) < 2:
        return None
    if not nest.operations:
        return None  # a copy, which a loop may leave out where its carry stays in place
    accesses, rows = _row_accesses(unit, nest.space[0]) or [], run[-1].rows if run else nest.space[0]
    made = [a for a in accesses if a.writes]
    changed = {a.ref.root for a in made} & {a.ref.root for a in accesses if not a.writes}
    if changed or not all(map(_is_row, made)) or written & unit.touched:
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
    return _Part(nest, accesses, nest.space[0], first, last) if is_possible else None


def _is_row(access: RowAccess) -> bool:
    """Tell whether a loop writes what lies within one row of an array."""
    return access.pitch > 0 and access.low >= 0 and access.high <= (access.shift + 1) * access.pitch


def _read(needs: dict[int, _Rows | None], access: RowAccess, part: _Part) -> None:
    """Note which rows a part reads."""
    root, pitch = access.ref.root, access.pitch
    known = needs.get(root, _Rows(1 << 30, -(1 << 30), pitch))
    if known is None or pitch <= 0 or known.pitch != pitch:
        needs[root] = None
        return
    first, last = part.first + access.shift, part.last + (access.high - 1) // pitch
    needs[root] = _Rows(min(known.first, first), max(known.last, last), pitch)


# -- tiles --
def _loop_over_tiles(
    parts: Sequence[_Part], rows: int, most: int, outside: Collection[int], least: int = 1
) -> Item | None:
    """Return a loop over tiles; what nobody outside reads lies in the arena of a tile. None where one tile has all rows.

    Args:
        parts: what a tile runs, in order.
        rows: how many there are.
        most: elements of the largest value in a tile.
        outside: owners of memory that others read or write.
        least: rows of a tile.
    """
    widest = max([part.step.elements // part.rows for part in parts])
    count = _even_part(rows, most // max(widest, 1))
    if not least <= count < rows:
        return None
    pairs = {(a.ref.root, a.pitch): None for part in parts for a in part.accesses}
    made = {a.ref.root: (part, a) for part in parts for a in part.accesses if a.writes}
    kept = {
        root: _Rows(part.first + a.shift, part.last + a.shift, a.pitch)
        for root, (part, a) in made.items()
        if root not in outside and a.pitch
    }
    params = [pair for pair in pairs if pair[0] not in kept]
    args = tuple([Arg((root,), count * pitch) for root, pitch in params])
    bodies = tuple([Body(_tile(parts, n, params, kept), args) for n in (count, rows % count) if n])
    loop = BlockLoop(bodies, -(-rows // count), widest * rows)
    return Item([loop], {root for root, _ in params}, [root for root in made if root not in kept], loop.arena_bytes)


def _tile(parts: Sequence[_Part], count: int, params: Sequence[tuple[int, int]], kept: dict[int, _Rows]) -> Block:
    """Return the block that runs steps on the rows of one tile."""
    numbers, own = {pair: k for k, pair in enumerate(params)}, {root: len(params) + k for k, root in enumerate(kept)}
    sizes = {own[root]: rows.pitch * (count + rows.last - rows.first) for root, rows in kept.items()}

    def on_tile(part: _Part) -> Step:
        pitches = iter([a.pitch for a in part.accesses])

        def moved(ref: Ref) -> Ref:
            pitch, rows = next(pitches), kept.get(ref.root)
            root = numbers[ref.root, pitch] if rows is None else own[ref.root]
            return attrs.evolve(ref, root=root, offset=ref.offset + (part.first - (rows.first if rows else 0)) * pitch)

        return part.step.map_refs(moved).on_rows(count + part.last - part.first, part.rows)

    return place_memory([_item(on_tile(part)) for part in parts], range(len(params)), sizes)


def _even_part(rows: int, most: int) -> int:
    """Return in parts of how many rows they are cut: at most so many, equal ones where those are not much smaller."""
    most = max(min(most, rows), 1)
    return next((n for n in range(most, most // 2, -1) if rows % n == 0), most)
