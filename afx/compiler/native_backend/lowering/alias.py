"""Alias analysis: which memory steps may share, so that results take that of arguments, and carries stay in place.

A kernel of which an argument is half overwritten can neither refuse nor be run again by NumPy. So programs with steps that
may fault, such as those with indices, take new memory for their results.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from afx.compiler.native_backend.lowering.memory import dense
from afx.compiler.native_backend.program import Block, Load, Nest, Step
from afx.compiler.operands import Buffer
from afx.compiler.schedule import Alloc, Schedule

__all__ = ["donate_memory", "keep_in_place", "rotate_carries"]


def keep_in_place(block: Block, carries: Sequence[tuple[int, int, int]]) -> tuple[Block, set[int]]:
    """Return the body of a loop without copies of carries that can stay where they are, and which of them those are.

    A carry stays where one step copies it whole, and the steps behind it read the copy alone, or only read.

    Args:
        block: the body.
        carries: for each its parameter, that of the next one, and its bytes.
    """
    kept: set[int] = set()
    touching = _steps_by_root(block)
    for number, (old, new, nbytes) in enumerate(carries):
        writers = touching.get(new, [])
        if not writers or not _copies(block.steps[writers[0]], old, new, nbytes):
            continue
        first = writers[0]
        if len(writers) > 1 and touching[old][-1] > first:
            continue
        kept.add(number)
        shared = (*block.shared, old, new)
        block = attrs.evolve(block, steps=(*block.steps[:first], *block.steps[first + 1 :]), shared=shared)
        touching = _steps_by_root(block)
    return block, kept


def rotate_carries(block: Block, carries: Sequence[tuple[int, int, int]]) -> tuple[Block, dict[int, int]]:
    """Return the body of a loop without copies of carries to others, and by whose memory each such pair takes turns.

    Where one carry becomes the old value of another one, which nothing but the step that makes the latter anew reads,
    element by element, the two exchange their memory: as in steps of second order, which know the state before.

    Args:
        block: the body.
        carries: for each its parameter, that of the next one, and its bytes.
    """
    partners: dict[int, int] = {}
    touching = _steps_by_root(block)
    for i, (old, new, nbytes) in enumerate(carries):
        for j, (before, copied, size) in enumerate(carries):
            if i == j or size != nbytes or {i, j} & partners.keys():
                continue
            copies, readers = touching.get(copied, []), touching.get(before, [])
            is_copied = len(copies) == 1 and _copies(block.steps[copies[0]], old, copied, nbytes)
            if not is_copied or len(readers) != 1 or not _can_overwrite(block, new, before):
                continue
            steps = (*block.steps[: copies[0]], *block.steps[copies[0] + 1 :])
            shared, donated = (*block.shared, old, copied), (*block.donated, (new, before))
            block = attrs.evolve(block, steps=steps, shared=shared, donated=donated)
            touching = _steps_by_root(block)
            partners |= {i: j, j: i}
    return block, partners


def _steps_by_root(block: Block) -> dict[int, list[int]]:
    """Return which steps touch each root, in their order."""
    steps: dict[int, list[int]] = {}
    for k, step in enumerate(block.steps):
        for root in step.touched:
            steps.setdefault(root, []).append(k)
    return steps


def _copies(step: Step, old: int, new: int, nbytes: int) -> bool:
    """Tell whether a step copies one parameter to another, and does nothing else."""
    if not isinstance(step, Nest) or step.folds or len(step.values) != 1 or len(step.stores) != 1:
        return False
    (value,), ((_, target),) = step.values, step.stores
    if not isinstance(value, Load) or (value.ref.root, target.root) != (old, new):
        return False
    size, lies = int(target.dtype[1:]), dense(step.space, int(target.dtype[1:]))
    whole = size
    for n in step.space:
        whole *= n
    same = value.ref.offset == target.offset == 0 and value.ref.strides == target.strides == lies
    return same and value.ref.dtype == target.dtype and whole == nbytes


def donate_memory(block: Block, schedule: Schedule) -> Block:
    """Return a program's block that says which results may be the memory of which arguments.

    NumPy's plan has chosen them; here those are left whose every element is read before, or where, it is written.
    """
    if any(step.may_fault for step in block.all_steps()) or any(step.has_turns for step in block.steps):
        return block
    pairs = [pair for pair in _chosen(schedule) if _can_overwrite(block, *pair)]
    return attrs.evolve(block, donated=tuple(pairs))


def _chosen(schedule: Schedule) -> list[tuple[int, int]]:
    """Return the parameters of a program that NumPy's plan writes into others: results and arguments."""
    given = {
        i.buffer.index: i.buffer.location
        for i in schedule.instructions
        if isinstance(i, Alloc) and i.buffer.storage == "donated"
    }
    results = [r.operand.index if isinstance(r.operand, Buffer) else -1 for r in schedule.results]
    return [
        (len(schedule.inputs) + k, given[index])
        for k, index in enumerate(results)
        if index in given and results.count(index) == 1
    ]


def _can_overwrite(block: Block, result: int, argument: int) -> bool:
    """Tell whether nothing reads an element of an argument once that of the result is written."""
    first = next((k for k, step in enumerate(block.steps) if result in step.touched), -1)
    if first < 0 or any(argument in step.touched for step in block.steps[first + 1 :]):
        return False
    step = block.steps[first]
    return argument not in step.touched or (isinstance(step, Nest) and _is_elementwise(step, result, argument))


def _is_elementwise(nest: Nest, result: int, argument: int) -> bool:
    """Tell whether a nest reads from an argument what it writes to a result, element by element, and in one loop."""
    if any(op.is_call for op in nest.operations):
        return False
    targets = [ref for ref in nest.refs if ref.root == result]
    stores = [ref for _, ref in nest.stores if ref.root == result]
    if len(targets) != 1 or len(stores) != 1:
        return False
    read = [ref for ref in nest.refs if ref.root == argument]
    return all(attrs.evolve(ref, root=result) == targets[0] for ref in read)
