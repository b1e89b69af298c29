"""Updates in place: carries of which a step changes parts, or nothing, stay in one piece of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs

from afx.compiler.native_backend.llvm.step import roots_of
from afx.compiler.native_backend.lowering.memory import dense
from afx.compiler.native_backend.program import Block, BlockLoop, Choice, Load, Nest, Scan, Step, While, WhileBack

__all__ = ["keep_in_place", "touched_roots"]

CONTROL_ROOTS = (
    "consts", "init", "carry", "other", "xs", "ys", "constants", "test_consts", "test_constants", "operands", "outputs",
    "back_init", "back_carry", "back_other", "back_constants",
)  # fmt: skip


def keep_in_place(block: Block, carries: Sequence[tuple[int, int, int]]) -> tuple[Block, set[int]]:
    """Return the body of a loop without copies of carries that can stay where they are, and which of them those are.

    A carry stays where one step copies it whole, and the steps behind it read the copy alone, or only read.

    Args:
        block: the body.
        carries: for each its parameter, that of the next one, and its bytes.
    """
    kept: set[int] = set()
    for number, (old, new, nbytes) in enumerate(carries):
        writers = [k for k, step in enumerate(block.steps) if new in touched_roots(step)]
        if not writers or not _copies(block.steps[writers[0]], old, new, nbytes):
            continue
        first = writers[0]
        behind = block.steps[first + 1 :]
        if len(writers) > 1 and any(old in touched_roots(step) for step in behind):
            continue
        kept.add(number)
        shared = (*block.shared, old, new)
        block = attrs.evolve(block, steps=(*block.steps[:first], *behind), shared=shared)
    return block, kept


def touched_roots(step: Step) -> Iterator[int]:
    """Yield the roots that a step reads or writes."""
    if isinstance(step, BlockLoop):
        for roots in step.roots:
            yield from roots
        return
    if not isinstance(step, Scan | While | Choice):
        yield from roots_of(step)
        return
    for name in CONTROL_ROOTS:
        if name != "constants" or not isinstance(step, Choice):
            found: tuple[int, ...] = getattr(step, name, ())
            yield from found
    if isinstance(step, Choice):
        yield step.index
        yield from [root for roots in step.constants for root in roots]
    elif isinstance(step, While):
        yield step.verdict
    if isinstance(step, WhileBack):
        yield step.rows


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
