"""Donation: results that a kernel writes into the memory of arguments which the caller has given away.

A kernel of which an argument is half overwritten can neither refuse nor be run again by NumPy. So programs with indices,
or with floats that may fit no integer, take new memory.
"""

from __future__ import annotations

import attrs

from afx.compiler.native_backend.lowering.in_place import touched_roots
from afx.compiler.native_backend.program import (
    Block,
    Choice,
    Indexed,
    Load,
    Nest,
    Number,
    Op,
    Product,
    Ref,
    Scan,
    Step,
    While,
)
from afx.compiler.operands import Buffer
from afx.compiler.schedule import Alloc, Schedule

__all__ = ["donate_memory"]


def donate_memory(block: Block, schedule: Schedule) -> Block:
    """Return a program's block that says which results may be the memory of which arguments.

    NumPy's plan has chosen them; here those are left whose every element is read before, or where, it is written.
    """
    if any(map(_may_fault, block.all_steps())) or any(isinstance(s, Scan | While | Choice) for s in block.steps):
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


def _may_fault(step: Step) -> bool:
    """Tell whether a step may find that NumPy has to decide."""
    if isinstance(step, Nest):
        return any(isinstance(v, Op) and v.name == "cast" and _drops_digits(step, v) for v in step.values)
    return isinstance(step, Indexed) or (isinstance(step, Product) and step.refuses)


def _drops_digits(nest: Nest, op: Op) -> bool:
    x = nest.values[op.args[0]]
    old = x.ref.dtype if isinstance(x, Load) else x.dtype
    return old[0] == "f" and op.dtype[0] in "iu"


def _can_overwrite(block: Block, result: int, argument: int) -> bool:
    """Tell whether nothing reads an element of an argument once that of the result is written."""
    first = next((k for k, step in enumerate(block.steps) if result in touched_roots(step)), -1)
    if first < 0 or any(argument in touched_roots(step) for step in block.steps[first + 1 :]):
        return False
    step = block.steps[first]
    return argument not in touched_roots(step) or (isinstance(step, Nest) and _is_elementwise(step, result, argument))


def _is_elementwise(nest: Nest, result: int, argument: int) -> bool:
    """Tell whether a nest reads from an argument what it writes to a result, element by element, and in one loop."""
    if not all(isinstance(v, Load | Number) or isinstance(v.name, str) for v in nest.values):
        return False
    targets = _refs(nest, result)
    stores = [ref for _, ref in nest.stores if ref.root == result]
    if len(targets) != 1 or len(stores) != 1:
        return False
    return all(attrs.evolve(ref, root=result) == targets[0] for ref in _refs(nest, argument))


def _refs(nest: Nest, root: int) -> list[Ref]:
    return [ref for ref in nest.refs if ref.root == root]
