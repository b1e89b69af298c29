"""Phases: steps of a program that threads may run side by side, each on its own part of large loop nests.

A nest over many elements is cut along its first axis into as many parts, whatever the number of threads. A phase holds
steps of which none reads or writes what a part of another one writes elsewhere; phases run one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from afx.compiler.arena import ALIGNMENT
from afx.compiler.native_backend.llvm.row_reduction import count_pieces, is_row_reduction
from afx.compiler.native_backend.lowering.items import Item
from afx.compiler.native_backend.program import PARTS, Block, BlockLoop, Loop, Nest, Phase, Product, Ref, Step
from afx.compiler.target import NativeTarget

__all__ = ["cut_block", "shared_rows"]


@attrs.frozen
class _Bytes:
    """Bytes that a step touches: of a parameter, or of the arena (-1); ``part`` tells how a cut nest shares them out."""

    param: int
    start: int
    stop: int
    writes: bool
    part: tuple[object, ...] | None


def cut_block(block: Block, limits: NativeTarget) -> Block:
    """Return the block of a program with large steps cut, and in phases, also in the bodies of its loops."""
    base = -(-block.arena // ALIGNMENT) * ALIGNMENT
    found = _cut_block(block, base, limits.share_min_elements, limits)
    cut = [step.arena_bytes for step in found.all_steps() if isinstance(step, BlockLoop) and step.is_cut]
    return attrs.evolve(found, arena=base + PARTS * max(cut) if cut else block.arena)


def _cut_block(block: Block, arena: int, least: int, limits: NativeTarget) -> Block:
    """Return a block with steps cut that have so many elements.

    Args:
        block: of a program, or within one.
        arena: where the arenas of loops over blocks begin that are cut.
        least: how many elements they have at least, or how many nanoseconds they take.
        limits: thresholds of the others.
    """
    steps = [part for step in block.steps for part in _cut(step, arena, least, limits)]
    block = attrs.evolve(block, steps=tuple(steps))
    if not any(step.is_cut for step in steps):
        return block
    phases, start, known = list[Phase](), 0, dict[int, list[_Bytes]]()  # what steps of a phase touch, by its parameter
    for k, step in enumerate(steps):
        own = _accesses(block, step)
        if own is None:
            _close(phases, steps, start, k)
            _close(phases, steps, k, k + 1)
            start, known = k + 1, {}
            continue
        if any(_conflict(a, b) for b in own for a in known.get(b.param, ())):
            _close(phases, steps, start, k)
            start, known = k, {}
        for b in own:
            known.setdefault(b.param, []).append(b)
    _close(phases, steps, start, len(steps))
    return attrs.evolve(block, phases=tuple(phases))


def shared_rows(items: Sequence[Item], limits: NativeTarget) -> int:
    """Return how many rows the largest step has that works on rows, where it is worth cutting; 0 where there is none."""
    spaces = [step.row_space for item in items for step in item.steps]
    largest = max([space for space in spaces if len(space) > 1], key=math.prod, default=(0,))
    return largest[0] if math.prod(largest) >= limits.share_min_elements else 0


def _close(phases: list[Phase], steps: Sequence[Step], start: int, stop: int) -> None:
    if start < stop:
        is_shared = any(step.is_cut for step in steps[start:stop])
        if phases and not is_shared and not phases[-1].is_shared:
            start = phases.pop().start
        phases.append(Phase(start, stop, is_shared))


def _cut(step: Step, arena: int, least: int, limits: NativeTarget) -> list[Step]:
    """Return a step that is cut, and what is left of it; or a loop over such steps."""
    if isinstance(step, BlockLoop):
        is_long = step.elements >= least or step.nanoseconds >= least
        return [attrs.evolve(step, is_cut=True, arena=arena) if is_long and step.length > 1 else step]
    if isinstance(step, Product):
        is_long = step.nanoseconds >= least or (step.is_sum_of_products and step.elements >= least)
        return [step.in_pieces(PARTS) if is_long else step]
    if is_row_reduction(step) and step.elements >= least:
        pieces = count_pieces(step, limits)
        return [attrs.evolve(step, pieces=pieces, is_cut=True) if pieces > 1 else step]
    if isinstance(step, Loop):
        total = step.turns * sum([block.nanoseconds for block in step.blocks()])
        if total >= limits.share_loop_min_nanoseconds:  # then smaller steps too
            least = min(least, limits.share_loop_min_elements)
        return [step.map_blocks(lambda block: _cut_block(block, arena - step.arena, least, limits))]
    if not isinstance(step, Nest) or not step.space or not _is_worth(step, least, limits):
        return [step]
    if step.folds and not step.folds_rows:
        return [step]
    if len(step.space) > 1:
        return [attrs.evolve(step, is_cut=True) if step.space[0] >= limits.share_min_rows else step]
    is_large = step.elements >= limits.share_min_elements
    return _in_chunks(step, limits.share_chunk_elements if is_large else limits.share_loop_chunk_elements)


def _is_worth(nest: Nest, least: int, limits: NativeTarget) -> bool:
    """Tell whether threads should share a nest: it has so many elements, or fewer that take as long."""
    is_slow = nest.nanoseconds >= limits.share_min_nanoseconds and nest.elements >= limits.share_slow_min_elements
    return nest.elements >= least or is_slow


def _in_chunks(nest: Nest, chunk: int) -> list[Step]:
    """Return a nest of one axis as rows of so many elements, which are cut, and what is left."""

    def by_chunks(ref: Ref) -> Ref:
        return attrs.evolve(ref, strides=(ref.strides[0] * chunk, ref.strides[0]))

    whole, left = divmod(nest.elements, chunk)
    found: list[Step] = [attrs.evolve(nest.map_refs(by_chunks), space=(whole, chunk), is_cut=True)]
    if left:
        rest = nest.map_refs(lambda ref: attrs.evolve(ref, offset=ref.offset + whole * chunk * ref.strides[0]))
        found.append(attrs.evolve(rest, space=(left,)))
    return found


def _accesses(block: Block, step: Step) -> list[_Bytes] | None:
    """Return what a step touches, None for steps that stay alone."""
    if not isinstance(step, Nest) or step.folds:
        return None
    found: list[_Bytes] = []
    same = dict([*block.donated, *zip(block.shared[1::2], block.shared[::2], strict=True)])
    for ref, mode in step.accesses():
        root = block.roots[ref.root]
        reach = [(n - 1) * s for n, s in zip(step.space, ref.strides, strict=True)]
        low = root.offset + ref.offset + sum([r for r in reach if r < 0])
        high = root.offset + ref.offset + sum([r for r in reach if r > 0]) + ref.size
        # elements of one part lie in one range of bytes, that of the same part of every other nest cut like this
        is_part = step.is_cut and ref.strides[0]
        part = (same.get(ref.root, ref.root), ref.offset, step.space, ref.strides) if is_part else None
        found.append(_Bytes(same.get(root.param, root.param), low, high, mode != "r", part))
    return found


def _conflict(a: _Bytes, b: _Bytes) -> bool:
    """Tell whether two steps may not run side by side, of bytes of one parameter that they touch."""
    if not (a.writes or b.writes) or a.stop <= b.start or b.stop <= a.start:
        return False
    return a.part is None or a.part != b.part
