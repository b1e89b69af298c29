"""Native programs of schedules: fused spaces, blocks within blocks, and kernels between NumPy's calls."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import attrs

from afx.compiler.native_backend.lowering.convert import BlockBuilder, Converted, UnsupportedError
from afx.compiler.native_backend.lowering.forms import REDUCTIONS
from afx.compiler.native_backend.lowering.memory import (
    Location,
    copy_nest,
    dense,
    donate_memory,
    dtype_name,
    keep_in_place,
    look,
    made_by,
    reads_of,
    rotate_carries,
)
from afx.compiler.native_backend.lowering.recorder import lower_call, lower_view
from afx.compiler.native_backend.lowering.tiles import cut_block
from afx.compiler.native_backend.program.interface import Param
from afx.compiler.native_backend.program.legal import is_checking, refuse_illegal
from afx.compiler.native_backend.program.loops import Arg, BlockLoop, Body, Choice, Loop as NativeLoop
from afx.compiler.native_backend.program.steps import Program
from afx.compiler.schedule.buffers import Interval, assign_offsets
from afx.compiler.schedule.schedule import (
    Alias,
    Alloc,
    Branch,
    Buffer,
    Call,
    Free,
    Fused,
    Instruction,
    Loop,
    Operand,
    Partial,
    Result,
    Schedule,
    Space,
    View,
)
from afx.compiler.target import DEFAULT, NativeTarget, Target
from afx.core import Shape, lookup, primitive_for_role
from afx.core.scalar_ops import MATMUL

# --- Fused spaces: elementwise ops run at once, all others block by block, as in NumPy's plan
#
# A result that is read by nothing but what writes it among zeros is made in its place among them.

ELEMENTWISE = frozenset({"cast", "select"})  # roles of ops


def lower_fused(b: BlockBuilder, fused: Fused) -> None:
    """Add a fused space to a block."""
    if all(map(_is_elementwise, fused.body)):
        _lower_body(b, fused.body, fused.backward)
    else:
        _block_loop(b, fused)


def _is_elementwise(part: Call | View) -> bool:
    if isinstance(part, View) or part.method == "copy":
        return True
    return _role(part) in ELEMENTWISE if part.method == "into" else part.method == "ufunc" and part.ufunc != MATMUL


def _role(call: Call) -> str:
    return lookup(call.op).algebra.canonical


def _lower_body(b: BlockBuilder, body: Sequence[Call | View], backward: Sequence[View]) -> None:
    for part in body:
        b.lower(part)
        for view in reversed(backward):
            if view.out.index in b.locations and view.source.index not in b.locations:
                shape = (("shape", view.source.shape),)
                if not b.look(view.source, view.op, shape, b.locations[view.out.index]):
                    raise UnsupportedError(f"{view.op} that copies")


def _block_loop(b: BlockBuilder, fused: Fused) -> None:
    """Add a loop over blocks, and what joins the parts that they leave of reductions over the space."""
    space, partials = fused.space, {p.out.index: p for p in fused.partials}
    places = {x.index: p for x in fused.outputs if x.index not in partials and (p := _place(b, space, x)) is not None}
    sliced = [*[_flat(space, b.location(x)) for x in fused.sliced], *places.values()]
    whole = [b.location(x) for x in fused.whole]
    counts = [n for n in (space.block * (space.size >= space.block), space.size % space.block) if n]
    bodies = [_body(b, fused, _Body(fused, n), [*[_of_length(x, n) for x in sliced], *whole], places) for n in counts]
    results = [x for x in fused.outputs if x.index not in places]
    stored = [_stack(b, x, space.blocks) if x.index in partials else x for x in results]
    outs = [b.own_buffer(x) for x in stored]
    constants = [[b.constant(c) for c in body.constants] for body in bodies]
    moves = [
        p.strides[0] if x.index in partials else space.block * _flat(space, p).strides[0]
        for x, p in zip(results, outs, strict=True)
    ]
    args = [
        *[Arg((p.owner,), space.block * p.strides[0]) for p in sliced],
        *[Arg((p.owner,)) for p in whole],
        *[Arg((p.owner,), move) for p, move in zip(outs, moves, strict=True)],
    ]
    pairs = zip(bodies, constants, strict=True)
    runs = [Body(body.block, (*args, *[Arg((c.owner,)) for c in own])) for body, own in pairs]
    loop = BlockLoop(tuple(runs), space.blocks, _elements(fused))
    b.fixed(
        [loop], [*sliced, *whole, *[c for own in constants for c in own]], [*places.values(), *outs], loop.arena_bytes
    )
    b.locations |= places
    _join(b, partials, zip(results, stored, strict=True))


def _join(b: BlockBuilder, partials: Mapping[int, Partial], pairs: Iterable[tuple[Buffer, Buffer]]) -> None:
    """Reduce the parts that blocks leave, of those results that are reductions."""
    for x, part in pairs:
        if x.index in partials:
            total, axes = partials[x.index], (("axis", (0,)),)
            b.lower(Call("join", "reduce", (part,), ("disjoint",), (total.out,), total.ufunc, axes))


def _stack(b: BlockBuilder, x: Buffer, count: int) -> Buffer:
    """Return a buffer for as many parts of a result as there are blocks."""
    return Buffer(b.fresh(), (count, *x.shape), x.dtype, "fresh")


def _place(b: BlockBuilder, space: Space, x: Buffer) -> Location | None:
    """Return where a result of rows lies among the zeros that surround it, where nothing else reads it."""
    readers = [i for i in b.schedule.instructions if x.index in reads_of(i)]
    if space.kind != "rows" or len(readers) != 1 or any(r.operand == x for r in b.schedule.results):
        return None
    (reader,) = readers
    if not isinstance(reader, Call) or _role(reader) != "embed":
        return None
    (whole,) = reader.outputs
    take, params = primitive_for_role("slice").impl, dict(reader.params)
    part = look(b.own_buffer(whole), lambda x: take(x, index=params["index"]))
    return part if part.strides == b.locations[whole.index].strides else None


def _elements(fused: Fused) -> int:
    """Return how many elements the largest value of a space has."""
    return max(
        [math.prod(x.shape) for x in (*fused.sliced, *[v for part in fused.body for v in made_by(part)])], default=0
    )


def _flat(space: Space, x: Location) -> Location:
    """Return a location along whose first axis blocks lie."""
    if space.kind == "rows":
        return x
    if x.strides != dense(x.shape, x.strides[-1]):
        raise UnsupportedError("blocks of elements that lie at different distances")
    return look(x, lambda v: v.reshape(-1))


def _of_length(x: Location, count: int) -> Location:
    return look(x, lambda v: v[:count])


def _body(b: BlockBuilder, fused: Fused, body: _Body, given: Sequence[Location], places: Collection[int]) -> Converted:
    """Return the block that computes one block of a space, and writes results that have their places to these."""
    inner_places = {x.index: body.place(x) for x in fused.outputs if x.index in places}
    sliced = (*[body.buffer(x, True) for x in fused.sliced], *inner_places.values())
    inputs = (*sliced, *[body.buffer(x, False) for x in fused.whole])
    outputs = tuple([Result(body.made(x)) for x in fused.outputs if x.index not in places])
    inner = b.within(Schedule(inputs, (), (), outputs), given, body.count)
    _lower_body(inner, [body.part(part) for part in fused.body], [body.view(view) for view in fused.backward])
    for x in fused.outputs:
        if x.index in places:
            _write(inner, inner.locations[inner_places[x.index].index], body.made(x))
    return inner.build()


def _write(b: BlockBuilder, part: Location, x: Buffer) -> None:
    """Write a value to a location, in the loop that makes it where there is one."""
    if not b.store_into(part, x):
        source = b.location(x)
        b.fixed([copy_nest(part, source)], [source], [part])


class _Body:
    """The calls of a space on one block of so many elements or rows."""

    def __init__(self, fused: Fused, count: int) -> None:
        self.count = count
        self._rows = fused.space.kind == "rows"
        self._partials = {p.out.index for p in fused.partials}
        values = [*fused.sliced, *fused.whole, *fused.outputs, *[v for part in fused.body for v in made_by(part)]]
        self._shift = 1 + max([v.index for v in values])  # of wholes, of which blocks may read their parts too

    def _shape(self, shape: Shape) -> Shape:
        return (self.count, *(shape[1:] if self._rows else ()))

    def buffer(self, x: Buffer, is_sliced: bool) -> Buffer:
        """Return a block's part of a value, or all of it."""
        return (
            attrs.evolve(x, shape=self._shape(x.shape)) if is_sliced else attrs.evolve(x, index=x.index + self._shift)
        )

    def place(self, x: Buffer) -> Buffer:
        """Return a block's part of the memory that a result is written to."""
        return attrs.evolve(x, index=x.index + 2 * self._shift, shape=self._shape(x.shape))

    def made(self, x: Buffer) -> Buffer:
        """Return what a block makes of a value."""
        return x if x.index in self._partials else self.buffer(x, True)

    def _operand(self, x: Operand, is_sliced: bool) -> Operand:
        if isinstance(x, Buffer):
            return self.buffer(x, is_sliced)
        return attrs.evolve(x, shape=self._shape(x.shape)) if is_sliced and x.form == "filled" else x

    def view(self, view: View) -> View:
        """Return a view of a block."""
        source, out = self.buffer(view.source, True), self.buffer(view.out, True)
        return attrs.evolve(view, source=source, out=out, params=(("shape", out.shape),))

    def part(self, part: Call | View) -> Call | View:
        """Return a call, or a view, of a block."""
        if isinstance(part, View):
            return self.view(part)
        operands = tuple([self._operand(x, own) for x, own in zip(part.operands, part.sliced, strict=True)])
        moved = attrs.evolve(part, operands=operands, outputs=tuple(map(self.made, part.outputs)), sliced=())
        # which adds up over a block's examples
        if part.outputs[0].index not in self._partials or part.method == "into":
            return moved
        if part.method not in REDUCTIONS:
            raise UnsupportedError(f"{part.op}.{part.method} over blocks has no native form")
        return attrs.evolve(moved, method="reduce", params=part.params if self._rows else (("axis", (0,)),))


# --- Pieces: schedules of which some instructions have no native form, with kernels between NumPy's calls
#
# A run of neighbouring native instructions becomes one `Call` of the method ``native``, which reads its operands for
# longer than they did. So buffers are assigned anew: what is left of NumPy's calls and the kernels share one arena.

Lowered: TypeAlias = "tuple[Program, tuple[Any, ...]]"
Lower: TypeAlias = "Callable[[Schedule], Lowered]"
Explain: TypeAlias = "Callable[[Schedule], list[str]]"

KEPT = ("params", "body", "bodies", "condition", "back")  # fields of instructions that name no buffers around them


def split_schedule(
    schedule: Schedule, lower: Lower, explain: Explain, why: str, limits: NativeTarget
) -> tuple[Schedule, tuple[Lowered, ...]]:
    """Return a schedule with calls of kernels, and these kernels' programs and captured arrays by their numbers.

    Args:
        schedule: the whole.
        lower: makes the program of a schedule.
        explain: gives for each instruction why it has no native form.
        why: why the whole is not one kernel.
        limits: which runs are worth a kernel.

    Raises:
        UnsupportedError: no run of its instructions is worth a kernel.
    """
    if any(isinstance(i, Call) and lookup(i.op).has_effects for i in schedule.at_any_depth()):
        raise UnsupportedError("a call that does more than compute, which may not run again where a kernel gives up")
    kernels: list[Lowered] = []
    mixed = _split(_on_new_memory(schedule), lower, explain, kernels, limits)
    if not kernels:
        raise UnsupportedError(why)
    return mixed, tuple(kernels)


def _on_new_memory(schedule: Schedule) -> Schedule:
    """Return a schedule that writes into no donated argument, so that NumPy's plan can start again."""
    new = {b.index: attrs.evolve(b, storage="pooled", location=0) for b in schedule.donated}
    return attrs.evolve(schedule, instructions=_replaced(schedule.instructions, new)) if new else schedule


def _split(
    schedule: Schedule, lower: Lower, explain: Explain, kernels: list[Lowered], limits: NativeTarget
) -> Schedule:
    return _Splitter(schedule, lower, explain, kernels, limits).split()


class _Splitter:
    """The instructions so far, without views, and the run that is being collected."""

    def __init__(
        self, schedule: Schedule, lower: Lower, explain: Explain, kernels: list[Lowered], limits: NativeTarget
    ) -> None:
        self.schedule = schedule
        self.found = kernels
        self._lower = lower
        self._explain = explain
        self._limits = limits
        self._views = {i.out.index: i for i in schedule.instructions if isinstance(i, View)}
        self._constants = {b.index: (b, constant) for b, constant in schedule.constants}
        self._buffers = {b.index: b for b in schedule.inputs}
        self._buffers |= {b.index: b for i in schedule.instructions for b in made_by(i)}
        pairs = zip(schedule.instructions, explain(schedule), strict=True)
        self._steps = [(i, reason) for i, reason in pairs if not isinstance(i, Alloc | Free | View)]
        self._uses = self._positions([i for i, _ in self._steps])
        self._out: list[Instruction] = []
        self._run: list[int] = []  # positions of its steps

    def _positions(self, instructions: Sequence[Instruction]) -> dict[int, set[int]]:
        """Return where each piece of memory is read, by its owner: results are read behind all instructions."""
        positions: dict[int, set[int]] = {}
        for k, i in enumerate(instructions):
            for index in reads_of(i):
                positions.setdefault(self._owner(index), set()).add(k)
        for index in self._results():
            positions.setdefault(self._owner(index), set()).add(len(instructions))
        return positions

    def _results(self) -> list[int]:
        return [r.operand.index for r in self.schedule.results if isinstance(r.operand, Buffer)]

    def _owner(self, index: int) -> int:
        while index in self._views:
            index = self._views[index].source.index
        return index

    def split(self) -> Schedule:
        """Return the schedule with calls of kernels."""
        for k, (i, reason) in enumerate(self._steps):
            if not reason:
                self._run.append(k)
                if len(self._run) == self._limits.kernel_max_instructions:
                    self._flush()
                continue
            if not self._can_run_before(i):
                self._flush()
            self._out.append(self._within(i))
        self._flush()
        return self._placed(self._with_views(self._out, self._results()))

    def _within(self, i: Instruction) -> Instruction:
        """Return an instruction with kernels in its bodies."""
        if not isinstance(i, Loop | Branch):
            return i
        bodies = tuple([_split(body, self._lower, self._explain, self.found, self._limits) for body in i.bodies])
        if isinstance(i, Branch):
            return attrs.evolve(i, bodies=bodies)
        return attrs.evolve(i, body=bodies[0], back=bodies[1] if bodies[1:] else None)

    def _can_run_before(self, i: Instruction) -> bool:
        """Tell whether an instruction may run before the run that is collected: it writes new memory, and reads none of its."""
        made = {b.index for k in self._run for b in made_by(self._steps[k][0])}
        is_new = all(b.storage == "fresh" for b in made_by(i)) and isinstance(i, Call) and i.allocates
        return is_new and made.isdisjoint(map(self._owner, reads_of(i)))

    # -- runs --
    def _flush(self) -> None:
        """End the run: as one kernel where that is worth it, as it was otherwise."""
        run = [self._steps[k][0] for k in self._run]
        if sum([_calls(i, self._limits) for i in run]) >= self._limits.piece_min_calls:
            with contextlib.suppress(UnsupportedError):  # such as a result that lies in another order
                run = [self._piece(run)]
        self._out += run
        self._run = []

    def _piece(self, run: Sequence[Instruction]) -> Call:
        """Return the call of a kernel that stands for a run."""
        positions, made = set(self._run), {b.index: b for i in run for b in made_by(i)}
        outs = tuple([b for k, b in made.items() if not self._uses.get(k, set()) <= positions])
        if not outs:
            raise UnsupportedError("a run that leaves nothing")
        given = [k for k in dict.fromkeys([self._owner(index) for i in run for index in reads_of(i)]) if k not in made]
        inputs = tuple([self._buffers[k] for k in given if k not in self._constants])
        constants = tuple([self._constants[k] for k in given if k in self._constants])
        sub = Schedule(inputs, constants, tuple(self._with_views(run)), tuple(map(Result, outs)))
        self.found.append(self._lower(sub))
        aliases: tuple[Alias, ...] = tuple(["disjoint" for _ in inputs])
        return Call("native", "native", inputs, aliases, outs, params=(("number", len(self.found) - 1),))

    def _with_views(self, instructions: Sequence[Instruction], wanted: Sequence[int] = ()) -> list[Instruction]:
        """Return instructions, each behind the views that it reads, and those that are wanted at the end."""
        ordered: list[Instruction] = []
        shown: set[int] = set()

        def show(index: int) -> None:
            view = self._views.get(index)
            if view is not None and index not in shown:
                show(view.source.index)
                shown.add(index)
                ordered.append(view)

        for i in instructions:
            for index in reads_of(i):
                show(index)
            ordered.append(i)
        for index in wanted:
            show(index)
        return ordered

    # -- memory --
    def _placed(self, instructions: Sequence[Instruction]) -> Schedule:
        """Return the schedule of these instructions, in an arena of their own."""
        last = {owner: max(places) for owner, places in self._positions(instructions).items()}
        pairs = [(k, b) for k, i in enumerate(instructions) for b in made_by(i) if b.storage == "arena"]
        intervals = [Interval(b.index, b.nbytes, k, last.get(b.index, k), False, True) for k, b in pairs]
        donated_to = {b.index: owner for k, b in pairs for owner in self._overwritten(instructions[k], b)}
        offsets, arena = assign_offsets(intervals, donated_to)
        moved = {k: attrs.evolve(self._buffers[k], location=offset) for k, offset in offsets.items()}
        freed = self._freed(instructions, last)
        allocated = {i.buffer.index for i in self.schedule.instructions if isinstance(i, Alloc)}
        placed: list[Instruction] = []
        for k, i in enumerate(instructions):
            placed += [Alloc(b) for b in made_by(i) if b.index in allocated or (i.is_kernel and b.storage != "arena")]
            placed.append(_replaced(i, moved))
            if k in freed:
                placed.append(Free(tuple(freed[k])))
        return attrs.evolve(
            self.schedule, instructions=tuple(placed), arena_bytes=arena.size, widest_bytes=arena.widest
        )

    def _overwritten(self, i: Instruction, out: Buffer) -> list[int]:
        """Return the owner whose memory an instruction takes for an output, as it reads it for the last time."""
        if i.is_kernel:
            return []
        read = {self._owner(index) for index in reads_of(i)} & self._buffers.keys()
        return [k for k in read if (self._buffers[k].storage, self._buffers[k].location) == ("arena", out.location)]

    def _freed(self, instructions: Sequence[Instruction], last: Mapping[int, int]) -> dict[int, list[Buffer]]:
        """Return what is freed early, and exists, by the position of the last instruction that reads it."""
        known = {b.index for i in instructions for b in made_by(i)}
        frees = [b for i in self.schedule.instructions if isinstance(i, Free) for b in i.buffers if b.index in known]
        by_position: dict[int, list[Buffer]] = {}
        for b in frees:
            by_position.setdefault(last[self._owner(b.index)], []).append(b)
        return by_position


def _replaced(value: Any, buffers: dict[int, Buffer]) -> Any:
    """Return an instruction with other buffers; bodies count anew and stay."""
    if isinstance(value, Buffer):
        return buffers.get(value.index, value)
    if isinstance(value, tuple):
        return tuple([_replaced(v, buffers) for v in value])  # pyright: ignore[reportUnknownVariableType]  # of any kind
    if isinstance(value, Call | View | Free | Alloc | Fused | Loop | Branch):
        names = [f.name for f in attrs.fields(type(value)) if f.name not in KEPT]
        return attrs.evolve(value, **{name: _replaced(getattr(value, name), buffers) for name in names})
    return value


def _calls(i: Instruction, limits: NativeTarget) -> int:
    """Return about how many calls of NumPy an instruction is."""
    if isinstance(i, Fused):
        return len(i.body)
    return limits.piece_loop_calls if isinstance(i, Loop) else int(isinstance(i, Call))


# --- Native programs of schedules: blocks of loops within blocks, and what Python passes to them

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
    target = target if threads else standalone_target(target)
    converted = _block(schedule, target, is_shared=threads and not any(isinstance(i, Loop) for i in schedule))
    if converted.block.arena > target.native.arena_max_bytes:
        raise UnsupportedError("more memory than NumPy's plan")
    inputs = [Param(b.shape, dtype_name(b.dtype), True) for b in schedule.inputs]
    results = [r.operand for r in schedule.results]
    outputs = [Param(x.aval.shape, dtype_name(x.dtype), False) for x in results]
    constants = [Param(c.shape, dtype_name(c.dtype), False) for c in converted.constants]
    releases = converted.block.nanoseconds > target.native.release_min_nanoseconds
    block = cut_block(donate_memory(converted.block, schedule), target.native) if threads else converted.block
    program = Program(block, (*inputs, *outputs, *constants), releases or block.is_shared)
    return refuse_illegal(program) if is_checking() else program, converted.constants


def lower_plan(schedule: Schedule, target: Target = DEFAULT) -> tuple[Schedule | None, tuple[Lowered, ...]]:
    """Return one program for a whole schedule, or a schedule that calls programs for parts of it: a long one is cut.

    Raises:
        UnsupportedError: it has no part that is worth it.
    """
    why = "it is longer than a kernel may be"
    if len(schedule) <= target.native.kernel_max_instructions:
        try:
            return None, (lower_schedule(schedule, target),)
        except UnsupportedError as error:
            why = str(error)
    lower, explain = partial(lower_schedule, target=target), partial(_reasons, target=target)
    return split_schedule(schedule, lower, explain, why, target.native)


def standalone_target(target: Target) -> Target:
    """Return a target of code without NumPy, which leaves nothing to it: neither large matrices nor long operations."""
    native = attrs.evolve(
        target.native, is_standalone=True, matrix_max_length=1 << 14, convolution_max_steps=300, arena_max_bytes=1 << 40
    )
    return attrs.evolve(target, native=native)


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
    outputs = [b.own_buffer(x) for x in branch.outputs]
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
    results = [b.own_buffer(x) for x in loop.outputs]
    carry = results if loop.back is None else [b.temporary(p.shape, p.dtype) for p in init]
    first = len(consts) + len(carry) + len(loop.xs)
    body, other = _in_turns(b, body, len(consts), first, carry, rotates=loop.condition is None)
    constants = [b.constant(c) for c in body.constants]
    xs = [_pointer(b, x) for x in loop.xs]
    ys = [b.own_buffer(y) for y in loop.ys]
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
    return [tuple(map(Arg, pairs)), tuple([Arg(pair[::-1]) for pair in pairs])]


def _in_turns(
    b: BlockBuilder, body: Converted, first: int, following: int, carry: Sequence[Location], *, rotates: bool = False
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
    block, in_place = keep_in_place(body.block, pairs)
    block, partners = rotate_carries(block, pairs) if rotates else (block, {})
    other = [
        p if k in in_place else carry[partners[k]] if k in partners else b.temporary(p.shape, p.dtype)
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
