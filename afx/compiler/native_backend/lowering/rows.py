"""Row fusion: steps that work on each row by itself run one after the other on a few rows, which stay in the cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from afx.compiler.arena import Arena
from afx.compiler.native_backend.lowering.items import Item
from afx.compiler.native_backend.lowering.memory import finish_steps, place_memory
from afx.compiler.native_backend.program import Block, BlockLoop, Leaf, Nest, Step
from afx.compiler.native_backend.steps import RowAccess

__all__ = ["even_part", "fuse_rows", "row_accesses", "single_steps"]


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
        if is_worth:
            found += _joined([unit.item for unit in run], rows, outside, [unit.accesses or [] for unit in run], most)
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


# -- loops --
def _joined(
    items: list[Item], rows: int, outside: set[int], accesses: Sequence[Sequence[RowAccess]], most: int
) -> list[Item]:
    """Return items as one loop over groups of rows of so many elements at most, where there are several groups."""
    widest = max([step.elements for item in items for step in item.steps], default=0) // rows
    group = even_part(rows, most // max(widest, 1))
    if group >= rows:
        return items
    pitches = {(a.ref.root, a.pitch): None for own in accesses for a in own}
    written = {root for item in items for root in item.writes}
    private = {root: pitch for root, pitch in pitches if root in written and root not in outside and pitch}
    params = [pair for pair in pitches if pair[0] not in private]
    counts = [n for n in (group, rows % group) if n]
    bodies = tuple([_body(items, n, rows, params, private) for n in counts])
    roots = tuple([root for root, _ in params])
    strides = tuple([group * pitch for _, pitch in params])
    loop = BlockLoop(bodies, -(-rows // group), (roots,) * len(bodies), (strides,) * len(bodies), 0, widest * rows)
    return [Item([loop], set(roots), [root for root in written if root not in private], loop.arena_bytes)]


def even_part(rows: int, most: int) -> int:
    """Return in parts of how many rows they are cut: at most so many, equal ones where those are not much smaller.

    >>> even_part(252, 16), even_part(257, 16), even_part(8, 100), even_part(8, 0)
    (14, 16, 8, 1)
    """
    most = max(min(most, rows), 1)
    return next((n for n in range(most, most // 2, -1) if rows % n == 0), most)


def _body(
    items: Sequence[Item], count: int, rows: int, params: Sequence[tuple[int, int]], private: dict[int, int]
) -> Block:
    """Return the block that runs steps on so many rows; values that nobody else reads lie in its arena."""
    numbers = {pair: k for k, pair in enumerate(params)}
    numbers |= {(root, pitch): len(params) + k for k, (root, pitch) in enumerate(private.items())}
    own = {len(params) + k: count * pitch for k, pitch in enumerate(private.values())}

    def renamed(step: Step) -> Step:
        pitches = iter([a.pitch for a in step.row_accesses(rows) or ()])
        return step.map_refs(lambda ref: attrs.evolve(ref, root=numbers[ref.root, next(pitches)]))

    steps = [renamed(step).on_rows(count, rows) for item in items for step in item.steps]
    parts = [_item(step) for step in steps]
    arena = Arena()
    roots, final = place_memory(parts, range(len(params)), own, arena)
    return Block(len(params), tuple(roots), tuple(finish_steps(parts, final, arena)), arena.size)
