"""Row fusion: steps that work on each row by itself run one after the other on a few rows, which stay in the cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import attrs

from afx.compiler.arena import Arena
from afx.compiler.native_backend.lowering.items import Item
from afx.compiler.native_backend.lowering.memory import finish_steps, place_memory
from afx.compiler.native_backend.program import (
    Block,
    BlockLoop,
    Choice,
    Extreme,
    Inner,
    Nest,
    Product,
    Ref,
    Scan,
    Step,
    While,
)

__all__ = ["Access", "even_part", "fuse_rows", "row_accesses", "single_steps"]


CONTROL = (Scan, While, Choice, BlockLoop)
Rename: TypeAlias = "Callable[[Ref, int], Ref]"


@attrs.frozen
class Access:
    """Bytes of one row that a step reads or writes.

    Attributes:
        ref: as in the step.
        pitch: bytes from row to row.
        low: the first byte of the first row.
        high: the one behind its last.
        writes: whether it is written.
        adds: whether all rows are combined in one place, one after the other.
    """

    ref: Ref
    pitch: int
    low: int
    high: int
    writes: bool
    adds: bool = False


@attrs.define(eq=False)
class _Unit:
    """One step with what it reads and writes; ``accesses`` are None where it is not a step of rows."""

    item: Item
    accesses: list[Access] | None

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
        if any(isinstance(step, CONTROL) for step in item.steps):
            found.append(item)
            continue
        for step in item.steps:
            written = [ref.root for ref in _written(step)]
            found.append(Item([step], {ref.root for ref in _refs(step)}, list(dict.fromkeys(written))))
    return found


def _refs(step: Step) -> Sequence[Ref]:
    return step.refs if isinstance(step, Nest) else () if isinstance(step, CONTROL) else step.operands


def _written(step: Step) -> Sequence[Ref]:
    """Return what a step of one kind writes."""
    if isinstance(step, Nest):
        return [*[ref for _, ref in step.stores], *[ref for *_, ref in step.folds]]
    return _refs(step) if not isinstance(step, Inner | Extreme) else _refs(step)[-1:]


def row_accesses(item: Item, rows: int) -> list[Access] | None:
    """Return what the step of an item reads and writes in each row; None where it is not a step of rows."""
    step = item.steps[0] if len(item.steps) == 1 else None
    if isinstance(step, Product):
        return _of_product(step, rows)
    if not isinstance(step, Nest | Inner | Extreme) or not step.space or step.space[0] % rows:
        return None
    each, rest = step.space[0] // rows, step.space[1:]
    if isinstance(step, Extreme) and not rest:
        return None
    found: list[Access] = []
    written = {id(ref) for ref in _written(step)}
    for ref in _refs(step):
        reach = [(each - 1) * ref.strides[0], *[(n - 1) * s for n, s in zip(rest, ref.strides[1:], strict=True)]]
        found.append(_access(ref, each * ref.strides[0], reach, id(ref) in written))
    if isinstance(step, Inner) and not step.operands[-1].strides[0]:
        if not rest or step.operands[0] != step.operands[-1]:
            return None
        found = [attrs.evolve(a, adds=a.ref == step.operands[-1]) for a in found]
    return found


def _of_product(step: Product, rows: int) -> list[Access] | None:
    """Return the same of products of rows with vectors, or of as many matrices as there are rows."""
    if step.sizes[0] % rows or step.loop is None or step.loop.ufunc not in ("vecdot", "matmul") or step.is_cut:
        return None
    each, core = step.sizes[0] // rows, step.sizes[1:]
    axes = [(0,), (0,), ()] if len(core) == 1 else [(0, 1), (1, 2), (0, 2)]
    strides, found = iter(step.core_strides), list[Access]()
    for k, (ref, own) in enumerate(zip(step.operands, axes, strict=True)):
        outer = ref.strides[0] if ref.strides else 0
        reach = [(each - 1) * outer, *[(core[axis] - 1) * next(strides) for axis in own]]
        found.append(_access(ref, each * outer, reach, k == len(axes) - 1))
    return found


def _access(ref: Ref, pitch: int, reach: Sequence[int], writes: bool) -> Access:
    low = ref.offset + sum([r for r in reach if r < 0])
    high = ref.offset + sum([r for r in reach if r > 0]) + int(ref.dtype[1:])
    return Access(ref, pitch, low, high, writes)


def _fits(new: Sequence[Access], run: Sequence[_Unit], is_shared: bool) -> bool:
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
    items: list[Item], rows: int, outside: set[int], accesses: Sequence[Sequence[Access]], most: int
) -> list[Item]:
    """Return items as one loop over groups of rows of so many elements at most, where there are several groups."""
    widest = max([_elements(step) for item in items for step in item.steps], default=0) // rows
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


def _elements(step: Step) -> int:
    """Return how many elements a step of rows reads, or writes."""
    assert isinstance(step, Nest | Inner | Extreme | Product)
    return math.prod(step.sizes[:2] if isinstance(step, Product) else step.space)


def _body(
    items: Sequence[Item], count: int, rows: int, params: Sequence[tuple[int, int]], private: dict[int, int]
) -> Block:
    """Return the block that runs steps on so many rows; values that nobody else reads lie in its arena."""
    numbers = {pair: k for k, pair in enumerate(params)}
    numbers |= {(root, pitch): len(params) + k for k, (root, pitch) in enumerate(private.items())}
    own = {len(params) + k: count * pitch for k, pitch in enumerate(private.values())}

    def renamed(ref: Ref, each: int) -> Ref:
        return attrs.evolve(ref, root=numbers[ref.root, each * (ref.strides[0] if ref.strides else 0)])

    steps = [_on_rows(step, count, rows, renamed) for item in items for step in item.steps]
    parts = [Item([step], {ref.root for ref in _refs(step)}, [ref.root for ref in _written(step)]) for step in steps]
    arena = Arena()
    roots, final = place_memory(parts, range(len(params)), own, arena)
    return Block(len(params), tuple(roots), tuple(finish_steps(parts, final, arena)), arena.size)


def _on_rows(step: Step, count: int, rows: int, renamed: Rename) -> Step:
    """Return a step on so many rows."""
    if isinstance(step, Product):
        each = step.sizes[0] // rows
        operands = tuple([renamed(ref, each) for ref in step.operands])
        return attrs.evolve(step, sizes=(count * each, *step.sizes[1:]), operands=operands)
    assert isinstance(step, Nest | Inner | Extreme)
    each = step.space[0] // rows
    space = (count * each, *step.space[1:])
    if isinstance(step, Nest):
        return attrs.evolve(step.on_refs(lambda ref: renamed(ref, each)), space=space)
    if isinstance(step, Inner):
        return attrs.evolve(step, operands=tuple([renamed(ref, each) for ref in step.operands]), space=space)
    return attrs.evolve(step, x=renamed(step.x, each), out=renamed(step.out, each), space=space)
