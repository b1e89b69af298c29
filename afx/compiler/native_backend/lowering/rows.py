"""Row fusion: steps that work on each row by itself run one after the other on a few rows, which stay in the cache."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import attrs

from afx.compiler.arena import Arena
from afx.compiler.native_backend.lowering.items import Item
from afx.compiler.native_backend.lowering.memory import finish_steps, place_memory
from afx.compiler.native_backend.program import Arg, Block, BlockLoop, Body, Leaf, Nest, Ref, Step
from afx.compiler.native_backend.steps import RowAccess

__all__ = ["Part", "even_part", "fuse_rows", "loop_over_tiles", "row_accesses", "single_steps"]


@attrs.define(eq=False)
class _Unit:
    """One step with what it reads and writes; ``accesses`` are None where it is not a step of rows."""

    item: Item
    accesses: list[RowAccess] | None

    def conflicts(self, other: _Unit) -> bool:
        """Tell whether the order of both decides about results."""
        mine, theirs = set(self.item.writes), set(other.item.writes)
        return bool(mine & theirs or mine & other.item.reads or theirs & self.item.reads)


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
    waiting = units = [_Unit(item, row_accesses(item, rows)) for item in single_steps(items)]
    left, found = set(kept), list[Item]()
    while waiting:
        before, run, later = list[_Unit](), list[_Unit](), list[_Unit]()
        for unit in waiting:
            is_free = not any(map(unit.conflicts, later))
            if is_free and unit.accesses is not None and _fits(unit.accesses, run, is_shared):
                run.append(unit)
            elif is_free and not any(map(unit.conflicts, run)):
                before.append(unit)
            else:
                later.append(unit)
        found += [unit.item for unit in before]
        outside = left.union(*[unit.item.reads.union(unit.item.writes) for unit in units if unit not in run])
        is_worth = any(not isinstance(unit.item.steps[0], Nest) for unit in run) if is_shared else len(run) > 1
        widest = max([unit.item.steps[0].elements for unit in run], default=0) // rows
        count = even_part(rows, most // max(widest, 1))
        if is_worth and count < rows:
            parts = [Part(unit.item.steps[0], unit.accesses or [], rows) for unit in run]
            found.append(loop_over_tiles(parts, count, rows, outside, widest * rows))
        else:
            found += [unit.item for unit in run]
        waiting = later
    return found


def single_steps(items: Sequence[Item]) -> list[Item]:
    """Return items of one step each, as far as they say what they read and write."""
    found: list[Item] = []
    for item in items:
        if all(isinstance(step, Leaf) for step in item.steps):
            found += [_item(step) for step in item.steps]
        else:
            found.append(item)
    return found


def _item(step: Step) -> Item:
    """Return a step as an item; what one without rows reads is made right before it, and not in a loop over rows."""
    accesses = step.accesses()
    written = [a.ref.root for a in accesses if a.mode != "r" or not step.row_space]
    return Item([step], {a.ref.root for a in accesses}, [*dict.fromkeys(written)])


def row_accesses(item: Item, rows: int) -> list[RowAccess] | None:
    """Return what the step of an item reads and writes in each row; None where it is not a step of rows."""
    return item.steps[0].row_accesses(rows) if len(item.steps) == 1 else None


def _fits(new: Sequence[RowAccess], run: Sequence[_Unit], is_shared: bool) -> bool:
    """Tell whether a step may run on some rows before those of a run have run on others."""
    known = [*[a for unit in run for a in unit.accesses or ()], *new]
    for root in {a.ref.root for a in new}:
        own = [a for a in known if a.ref.root == root]
        if not any(a.writes for a in own):
            continue
        if all(a.adds for a in own):
            if is_shared or len({a.ref for a in own}) > 1 or sum([a.writes for a in own]) > 1:
                return False
        elif any(a.adds or a.pitch != own[0].pitch or a.low < 0 or a.high > a.pitch for a in own):
            return False
    return True


# -- tiles --
@attrs.frozen
class Part:
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
class _Kept:
    """Rows of an array that a tile keeps: from which one behind its own on, how many more, bytes from row to row."""

    first: int
    more: int
    pitch: int


def loop_over_tiles(parts: Sequence[Part], count: int, rows: int, outside: Collection[int], total: int) -> Item:
    """Return a loop over tiles of so many rows; what nobody outside reads lies in the arena of a tile.

    Args:
        parts: what a tile runs, in order.
        count: rows of a tile.
        rows: how many there are.
        outside: owners of memory that others read or write.
        total: how many elements it runs over.
    """
    pairs = {(a.ref.root, a.pitch): None for part in parts for a in part.accesses}
    made = {a.ref.root: (part, a) for part in parts for a in part.accesses if a.writes}
    kept = {
        root: _Kept(part.first + a.shift, part.last - part.first, a.pitch)
        for root, (part, a) in made.items()
        if root not in outside and a.pitch
    }
    params = [pair for pair in pairs if pair[0] not in kept]
    args = tuple([Arg((root,), count * pitch) for root, pitch in params])
    bodies = tuple([Body(_tile(parts, n, params, kept), args) for n in (count, rows % count) if n])
    loop = BlockLoop(bodies, -(-rows // count), total)
    return Item([loop], {root for root, _ in params}, [root for root in made if root not in kept], loop.arena_bytes)


def _tile(parts: Sequence[Part], count: int, params: Sequence[tuple[int, int]], kept: dict[int, _Kept]) -> Block:
    """Return the block that runs steps on the rows of one tile."""
    numbers, own = {pair: k for k, pair in enumerate(params)}, {root: len(params) + k for k, root in enumerate(kept)}
    sizes = {own[root]: rows.pitch * (count + rows.more) for root, rows in kept.items()}

    def on_tile(part: Part) -> Step:
        pitches = iter([a.pitch for a in part.accesses])

        def moved(ref: Ref) -> Ref:
            pitch, rows = next(pitches), kept.get(ref.root)
            root = numbers[ref.root, pitch] if rows is None else own[ref.root]
            return attrs.evolve(ref, root=root, offset=ref.offset + (part.first - (rows.first if rows else 0)) * pitch)

        return part.step.map_refs(moved).on_rows(count + part.last - part.first, part.rows)

    items, arena = [_item(on_tile(part)) for part in parts], Arena()
    roots, final = place_memory(items, range(len(params)), sizes, arena)
    return Block(len(params), tuple(roots), tuple(finish_steps(items, final, arena)), arena.size)


def even_part(rows: int, most: int) -> int:
    """Return in parts of how many rows they are cut: at most so many, equal ones where those are not much smaller.

    >>> even_part(252, 16), even_part(257, 16), even_part(8, 100), even_part(8, 0)
    (14, 16, 8, 1)
    """
    most = max(min(most, rows), 1)
    return next((n for n in range(most, most // 2, -1) if rows % n == 0), most)
