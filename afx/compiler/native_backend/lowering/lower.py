"""Native programs of schedules: blocks of loops within blocks, and what Python passes to them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import attrs

from afx.compiler.native_backend.loops import Loop as NativeLoop
from afx.compiler.native_backend.lowering.alias import donate_memory, keep_in_place, rotate_carries
from afx.compiler.native_backend.lowering.convert import BlockBuilder, Converted, UnsupportedError
from afx.compiler.native_backend.lowering.fused import lower_fused
from afx.compiler.native_backend.lowering.memory import Location, dtype_name
from afx.compiler.native_backend.lowering.ops.call import lower_call, lower_view
from afx.compiler.native_backend.lowering.phases import cut_block
from afx.compiler.native_backend.pieces import Lowered, split_schedule
from afx.compiler.native_backend.program import Arg, Body, Choice, Param, Program
from afx.compiler.operands import Buffer, Operand
from afx.compiler.schedule import Alloc, Branch, Call, Free, Fused, Loop, Schedule, View
from afx.compiler.target import DEFAULT, Target

__all__ = ["explain_schedule", "lower_plan", "lower_schedule"]

RESIDUAL_ALIGNMENT = 8  # bytes: as much as any element needs


def lower_schedule(
    schedule: Schedule, target: Target = DEFAULT, threads: bool = True
) -> tuple[Program, tuple[Any, ...]]:
    """Return the program of a schedule and the arrays that it captured, which are its last arguments.

    Args:
        schedule: the whole, or a run of its instructions.
        target: what is compiled for.
        threads: whether threads share its loops, and results may take the memory of arguments.

    Raises:
        UnsupportedError: an instruction has no native form.
    """
    converted = _block(schedule, target, is_shared=threads and not any(isinstance(i, Loop) for i in schedule))
    if converted.block.arena > target.native.arena_max_bytes:
        raise UnsupportedError("more memory than NumPy's plan")
    inputs = [Param(b.shape, dtype_name(b.dtype), True) for b in schedule.inputs]
    results = [r.operand for r in schedule.results]
    avals = [x.aval if isinstance(x, Buffer) else x.literal.aval for x in results]
    outputs = [Param(a.shape, dtype_name(a.dtype), False) for a in avals]
    constants = [Param(c.shape, dtype_name(c.dtype), False) for c in converted.constants]
    releases = converted.block.nanoseconds > target.native.release_min_nanoseconds
    block = cut_block(donate_memory(converted.block, schedule), target.native) if threads else converted.block
    return Program(block, (*inputs, *outputs, *constants), releases or block.is_shared), converted.constants


def lower_plan(schedule: Schedule, target: Target = DEFAULT) -> tuple[Schedule | None, tuple[Lowered, ...]]:
    """Return one program for a whole schedule, or a schedule that calls programs for parts of it.

    Raises:
        UnsupportedError: it has no part that is worth it.
    """
    try:
        return None, (lower_schedule(schedule, target),)
    except UnsupportedError as error:
        return split_schedule(
            schedule,
            partial(lower_schedule, target=target),
            partial(_reasons, target=target),
            str(error),
            target.native,
        )


def explain_schedule(schedule: Schedule, target: Target = DEFAULT) -> tuple[tuple[str, str], ...]:
    """Return each instruction with the reason why it has no native form, an empty text where it has one."""
    pairs = zip(schedule.instructions, _reasons(schedule, target), strict=True)
    return tuple([(str(i), reason) for i, reason in pairs if not isinstance(i, Alloc | Free)])


def _reasons(schedule: Schedule, target: Target) -> list[str]:
    builder = BlockBuilder(schedule, FORMS, target)
    return [builder.reason(i) for i in schedule.instructions]


def _block(schedule: Schedule, target: Target, is_shared: bool = False, ordered: int | None = None) -> Converted:
    return BlockBuilder(schedule, FORMS, target).build(is_shared, ordered)


def _branch(b: BlockBuilder, branch: Branch) -> None:
    """Add a branch: a block for each body, which writes into the same memory."""
    bodies = [_block(body, b.target) for body in branch.bodies]
    index = b.dense(branch.index)
    if index.dtype[0] not in "biu":
        raise UnsupportedError(f"{branch.op} by a number that is no integer")
    if index.offset:
        index = b.copied(index)
    operands = [_pointer(b, x) for x in branch.operands]
    outputs = [b.own(x.index, x.shape, b.dtype(x)) for x in branch.outputs]
    constants = [[b.constant(c) for c in body.constants] for body in bodies]
    cases = [Body(body.block, _args(*operands, *outputs, *own)) for body, own in zip(bodies, constants, strict=True)]
    step = Choice(tuple(cases), index.owner, index.dtype, quiet=branch.error_state or ())
    reads = [index, *operands, *[c for own in constants for c in own]]
    b.fixed([step], reads, outputs, max([body.block.arena for body in bodies]))


def _loop(b: BlockBuilder, loop: Loop) -> None:
    """Add a loop: the blocks of its body and condition, and memory for the carry, which alternates between two buffers."""
    body = _block(loop.body, b.target, ordered=len(loop.carry) if loop.condition is None else None)
    consts = [_pointer(b, x) for x in loop.consts]
    init = [_pointer(b, x) for x in loop.carry]
    results = [b.own(x.index, x.shape, b.dtype(x)) for x in loop.outputs]
    carry = results if loop.back is None else [b.temporary(p.shape, p.dtype) for p in init]
    first = len(consts) + len(carry) + len(loop.xs)
    body, other = _in_turns(b, body, len(consts), first, carry, rotates=loop.condition is None)
    constants = [b.constant(c) for c in body.constants]
    xs = [_pointer(b, x) for x in loop.xs]
    ys = [b.own(y.index, y.shape, b.dtype(y)) for y in loop.ys]
    reads, writes = [*consts, *init, *xs, *constants], [*carry, *other, *ys]
    old, new = _by_turns(carry, other)
    back, read_back, written_back = _back(b, loop, loop.back, consts, results) if loop.back else (None, [], [])
    elements, stacked = [tuple([_row(p, loop.length or 0) for p in row]) for row in (xs, ys)]
    residuals = back.residuals if back else ()
    bodies = [Body(body.block, (*_args(*consts), *old, *elements, *new, *stacked, *residuals, *_args(*constants)))]
    verdict = None
    if loop.condition is not None:
        test, tests = _block(loop.condition, b.target), [_pointer(b, x) for x in loop.tests]
        more, verdict = [b.constant(c) for c in test.constants], b.temporary((), "b1")
        bodies.insert(0, Body(test.block, (*_args(*tests), *old, *_args(verdict, *more))))
        reads, writes = [*reads, *tests, *more], [*writes, verdict]
    step = NativeLoop(
        tuple(bodies), loop.length, loop.reverse, _owners(init), _owners(carry), _owners(other),
        tuple([p.nbytes for p in carry]), verdict.owner if verdict else None, back.rows if back else None,
        quiet=loop.error_state or (),
    )  # fmt: skip
    steps = [step, back] if back else [step]
    arena = max([block.arena for step in steps for block in step.blocks()])
    b.fixed(steps, [*reads, *read_back], [*writes, *written_back], arena)


def _back(
    b: BlockBuilder, loop: Loop, schedule: Schedule, consts: Sequence[Location], carry: Sequence[Location]
) -> tuple[NativeLoop, list[Location], list[Location]]:
    """Return the way back over the turns of a loop, which leave residuals outside of the arena, and what it reads and writes."""
    back, init = _block(schedule, b.target), [_pointer(b, x) for x in loop.carry_back]
    first = len(schedule.inputs) - len(init)
    back, other = _in_turns(b, back, first, len(schedule.inputs), carry)
    constants, rows = [b.constant(c) for c in back.constants], b.temporary((3,), "i8")
    sizes = [x.aval.nbytes for x in schedule.inputs[len(loop.consts) : first]]
    *starts, size = itertools.accumulate([-(-n // RESIDUAL_ALIGNMENT) * RESIDUAL_ALIGNMENT for n in sizes], initial=0)
    residuals = tuple([Arg((rows.owner,), size, start) for start in starts])
    old, new = _by_turns(carry, other)
    step = NativeLoop(
        (Body(back.block, (*_args(*consts), *residuals, *old, *new, *_args(*constants))),), None, True,
        _owners(init), _owners(carry), _owners(other), tuple([p.nbytes for p in carry]),
        rows=rows.owner, quiet=loop.error_state or (),
    )  # fmt: skip
    return step, [*init, *constants], [*carry, *other, rows]


def _by_turns(carry: Sequence[Location], other: Sequence[Location]) -> list[tuple[Arg, ...]]:
    """Return where turns find the carry, and where they leave the next one."""
    pairs = [(p.owner, q.owner) for p, q in zip(carry, other, strict=True)]
    return [tuple([Arg(pair) for pair in pairs]), tuple([Arg(pair[::-1]) for pair in pairs])]


def _in_turns(
    b: BlockBuilder,
    body: Converted,
    first: int,
    following: int,
    carry: Sequence[Location],
    *,
    rotates: bool = False,
) -> tuple[Converted, list[Location]]:
    """Return the body of a loop and the second memory of its carry, which is the first where that stays in place.

    Args:
        b: builder of the block around it.
        body: one step.
        first: the parameter with which the carry begins.
        following: the one with which the next carry begins.
        carry: its first memory.
        rotates: whether carries may exchange their memory.
    """
    pairs = [(first + k, following + k, p.nbytes) for k, p in enumerate(carry)]
    block, kept = keep_in_place(body.block, pairs)
    block, partners = rotate_carries(block, pairs) if rotates else (block, {})
    other = [
        p if k in kept else carry[partners[k]] if k in partners else b.temporary(p.shape, p.dtype)
        for k, p in enumerate(carry)
    ]
    return attrs.evolve(body, block=block), other


def _owners(locations: Sequence[Location]) -> tuple[int, ...]:
    return tuple([p.owner for p in locations])


def _args(*locations: Location) -> tuple[Arg, ...]:
    """Return memory that is the same in each turn."""
    return tuple([Arg((p.owner,)) for p in locations])


def _row(location: Location, length: int) -> Arg:
    """Return memory of which each turn gets a row."""
    return Arg((location.owner,), location.nbytes // length if length else 0)


def _pointer(b: BlockBuilder, x: Operand) -> Location:
    """Return memory whose first byte is the operand's first element, dense from there."""
    location = b.dense(x)
    if location.offset == 0:
        return location
    return b.copied(location)


FORMS: dict[type[Any], Callable[[BlockBuilder, Any], None]] = {
    Call: lower_call,
    View: lower_view,
    Fused: lower_fused,
    Loop: _loop,
    Branch: _branch,
}
