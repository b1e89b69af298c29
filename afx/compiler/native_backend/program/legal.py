"""Legal native programs: what lowering must keep, and emission relies on without looking.

- Values are made of earlier ones of their nest; what is stored or folded has the dtype of its memory.
- Memory lies within its root, over all axes of a step. Roots of an arena share no byte from their first steps to their last ones,
  but for the step that ends one and begins the other; they end where the arena does.
- What lies in an arena is written before it is read. Arguments are never written, but as the results that take their memory.
- Blocks take as many roots as they have parameters, and their arenas lie within that of the block around them.
- Chunks of calls, and phases, cover the whole, each piece once.

`refuse_illegal` raises where a program breaks one; tests look at each program that is lowered (``AFX_CHECK_PROGRAMS=1``).
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterator, Sequence

from afx.compiler.native_backend.program.elements import Ref
from afx.compiler.native_backend.program.leaves import Nest, Routine, UfuncCall
from afx.compiler.native_backend.program.loops import BlockLoop, Control, Loop
from afx.compiler.native_backend.program.steps import Block, Leaf, Program, Step
from afx.errors import GraphError

UNKNOWN = 1 << 62  # bytes of memory whose end is not known


def is_checking() -> bool:
    """Tell whether each program is looked at as it is made."""
    return os.environ.get("AFX_CHECK_PROGRAMS", "") not in ("", "0")


def refuse_illegal(program: Program) -> Program:
    """Return a program that is legal.

    Raises:
        GraphError: it is not; the message says which step breaks which law.
    """
    sizes = [math.prod(p.shape) * int(p.dtype[1:]) for p in program.params]
    given = frozenset([k for k, p in enumerate(program.params) if p.checked])
    faults = [*itertools.islice(find_faults(program.block, sizes, given), 5)]
    if faults:
        raise GraphError(f"native program: {'; '.join(faults)}; please report it with the function that was compiled")
    return program


def find_faults(block: Block, sizes: Sequence[int], given: frozenset[int]) -> Iterator[str]:
    """Yield what is illegal in a block whose parameters have these sizes in bytes, and of which these are arguments."""
    if len(sizes) != block.params:
        yield f"a block takes {block.params} parameters: got {len(sizes)}"
        return
    # how many bytes each root may have
    ends = [(block.arena if root.param < 0 else sizes[root.param]) - root.offset for root in block.roots]
    written = {k for k, root in enumerate(block.roots) if root.param >= 0}
    for number, step in enumerate(block.steps):
        where = f"step {number}, {type(step).__name__}"
        if step.is_void:
            continue
        for fault in _of_step(step, block, ends, given):
            yield f"{where}: {fault}"
        for root in step.touched:
            modes = [access.mode for access in step.accesses() if access.ref.root == root]
            if root not in written and modes[0] == "r" and not isinstance(step, Control):
                yield f"{where}: root {root} is read before it is written"
            if any(mode != "r" for mode in modes):
                written.add(root)
    yield from _of_arena(block)
    yield from _of_phases(block)


def _of_arena(block: Block) -> Iterator[str]:
    """Yield roots of the arena that share bytes at a time."""
    lives: dict[int, list[int]] = {}  # of roots: first and last step, first byte and the one behind the last
    for number, step in enumerate(block.steps):
        for root in step.touched:
            lives.setdefault(root, [number, number, UNKNOWN, 0])[1] = number
        if isinstance(step, Leaf) and not step.is_void:
            for k, (ref, _) in enumerate(step.accesses()):
                low, high = _bounds(step, k, ref)
                life = lives[ref.root]
                life[2:] = min(life[2], low), max(life[3], high)
    used = list[tuple[int, int, int, int]]()  # roots in use: number, last step, bytes
    for k, (first, last, low, high) in sorted(lives.items(), key=lambda item: item[1]):
        if not 0 <= k < len(block.roots) or block.roots[k].param >= 0 or low >= high:
            continue
        offset = block.roots[k].offset
        used = [other for other in used if other[1] > first]
        for other, end, start, stop in used:
            if last > first and offset + low < stop and start < offset + high:
                yield f"roots {other} and {k} share bytes from step {first} to {min(last, end)}"
        used.append((k, last, offset + low, offset + high))


def _bounds(step: Leaf, k: int, ref: Ref) -> tuple[int, int]:
    """Return the first byte of an operand, and the one behind its last, as far as its strides tell."""
    reach = list[int]()
    if not isinstance(step, Routine):  # which walks by itself
        # the axes of a call are the last ones of its operands
        reach = [(n - 1) * s for n, s in zip(step.space[::-1], ref.strides[::-1], strict=False)]
    if not (isinstance(step, UfuncCall) and step.has_work and k == len(step.operands) - 1):
        reach += step.core_reach(k)
    low = ref.offset + sum([r for r in reach if r < 0])
    return low, ref.offset + sum([r for r in reach if r > 0]) + ref.size


def _of_step(step: Step, block: Block, ends: Sequence[int], given: frozenset[int]) -> Iterator[str]:
    roots = step.touched
    if any(not 0 <= root < len(block.roots) for root in roots):
        yield f"one of its roots {roots} is none of {len(block.roots)}"
        return
    if isinstance(step, Leaf):
        yield from _of_memory(step, ends)
        for access in step.accesses():
            if access.mode != "r" and block.roots[access.ref.root].param in given:
                yield f"it writes root {access.ref.root}, which is an argument"
    if isinstance(step, Nest):
        yield from _of_values(step)
    if isinstance(step, UfuncCall) and step.is_cut and [*step.stops] != sorted({*step.stops, step.sizes[step.axis]}):
        yield f"its chunks end at {step.stops}, of {step.sizes[step.axis]}"
    if isinstance(step, Control):
        yield from _of_blocks(step, block, ends, given)


def _of_memory(step: Leaf, ends: Sequence[int]) -> Iterator[str]:
    for k, (ref, _) in enumerate(step.accesses()):
        if len(ref.strides) != len(step.space) and isinstance(step, Nest):
            yield f"operand {k} has {len(ref.strides)} strides over {len(step.space)} axes"
            continue
        low, high = _bounds(step, k, ref)
        if low < 0 or high > ends[ref.root]:
            yield f"operand {k} takes bytes {low} to {high} of root {ref.root}, which has {ends[ref.root]}"


def _of_values(nest: Nest) -> Iterator[str]:
    for k, value in enumerate(nest.values):
        if any(not 0 <= arg < k for arg in value.args):
            yield f"value {k} is made of {value.args}"
    for k, ref in [*nest.stores, *[(k, ref) for k, _, ref in nest.folds]]:
        if not 0 <= k < len(nest.values):
            yield f"value {k} is stored, of {len(nest.values)}"
        elif nest.values[k].dtype != ref.dtype:
            yield f"a value of {nest.values[k].dtype} is stored as {ref.dtype}"
    stored = {ref.root: ref for _, ref in nest.stores}
    for ref in nest.loads.values():
        if stored.get(ref.root, ref) != ref and not nest.folds:
            yield f"root {ref.root} is read elsewhere than it is written"


def _of_blocks(step: Control, block: Block, ends: Sequence[int], given: frozenset[int]) -> Iterator[str]:
    if isinstance(step, Loop) and not len(step.init) == len(step.carry) == len(step.other) == len(step.carry_bytes):
        yield "its carries are not as many as their places"
    if isinstance(step, Loop) and step.length == 0:
        return  # no turn has memory
    for body in step.bodies:
        if len(body.args) != body.block.params:
            yield f"a block of {body.block.params} parameters gets {len(body.args)}"
            continue
        if step.arena + body.block.arena > block.arena and not (isinstance(step, BlockLoop) and step.is_cut):
            yield f"the arena of a block ends at {step.arena + body.block.arena}, that around it at {block.arena}"
        rows = getattr(step, "rows", None)
        # of two carries that exchange their memory one has none beside it
        sizes = [
            UNKNOWN if rows in arg.roots else max([ends[root] for root in arg.roots]) - arg.offset for arg in body.args
        ]
        own = [k for k, arg in enumerate(body.args) if any(block.roots[root].param in given for root in arg.roots)]
        yield from find_faults(body.block, sizes, frozenset(own))


def _of_phases(block: Block) -> Iterator[str]:
    at = 0
    for phase in block.phases:
        if phase.start != at or phase.stop <= phase.start:
            yield f"a phase runs steps {phase.start} to {phase.stop} behind step {at}"
        at = phase.stop
    if block.phases and at != len(block.steps):
        yield f"phases end at step {at} of {len(block.steps)}"
