"""Native programs as LLVM IR: a function for each step, blocks, and the passes that a module needs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

import attrs

from afx.compiler.native_backend.llvm.loops import (
    Looks,
    LoopEmitter,
    call_loop,
    element_at,
    leave_long,
    over,
    pointers_of,
    root_of,
    start_of,
)
from afx.compiler.native_backend.llvm.nests import NestEmitter
from afx.compiler.native_backend.llvm.op import FLOATS, compared, element_type, emit, memory_type, read, written
from afx.compiler.native_backend.llvm.products import emit_small_product, emit_tiles
from afx.compiler.native_backend.llvm.reductions import (
    PAIRWISE_MIN_ELEMENTS,
    combine_rows,
    emit_extreme,
    emit_ordered_extreme,
    emit_running,
    emit_sum,
    is_row_reduction,
    is_running,
)
from afx.compiler.native_backend.llvm.strips import emit_first, emit_indexed, emit_refusal, emit_search, emit_words
from afx.compiler.native_backend.llvm.team import KernelEntry, Team
from afx.compiler.native_backend.llvm.writer import Addresses, Flags, Writer, as_pointers
from afx.compiler.native_backend.program.elements import UfuncLoop
from afx.compiler.native_backend.program.interface import PARTS
from afx.compiler.native_backend.program.leaves import COMBINING, Nest, Routine, UfuncCall
from afx.compiler.native_backend.program.loops import BlockLoop, Choice, Loop
from afx.compiler.native_backend.program.steps import Block, Leaf, Phase, Program, Step
from afx.compiler.native_backend.service.child import FEW_PASSES, UNROLL
from afx.compiler.target import DEFAULT, NativeTarget
from afx.core.scalar_ops import ADD

# --- Passes: which of LLVM's passes a module needs, as its first line says
#
# Loops over vectors that are written out gain nothing from the stock pipeline, which takes five to ten times as long
# as the few passes that join functions and keep values in registers: measured on the benchmarks, whose times stay
# within 2 %. Loops over single elements gain up to a quarter from being unrolled, which takes as long again as those
# few passes, and nothing from the rest. Loops of the program, whose turns are short, gain up to half their time from
# LLVM's own pipeline.


def choose_passes(programs: Sequence[Program], characters: int, limits: NativeTarget) -> str:
    """Return the first line of a module that is so long, empty where it needs LLVM's own pipeline."""
    if all(_is_written_out(program, limits) for program in programs):
        needs_stock = characters < limits.passes_loop_min_characters and _has_loops(programs)
        return "" if needs_stock else FEW_PASSES
    return "" if _has_loops(programs) else UNROLL


def _has_loops(programs: Sequence[Program]) -> bool:
    return any(isinstance(step, Loop) for program in programs for step in program.block.all_steps())


def _is_written_out(program: Program, limits: NativeTarget) -> bool:
    """Tell whether what takes time in a program is loops over vectors that are written out."""
    short = sum([_short_nanoseconds(step, limits) for step in program.block.steps])
    return short <= limits.passes_short_max_share * program.block.nanoseconds


def _short_nanoseconds(step: Step, limits: NativeTarget) -> float:
    """Return about how long a step spends in loops over single elements, or over short rows."""
    bodies = step.repeated_blocks()
    if not bodies:
        return 0.0 if step.is_written_out(limits) else step.nanoseconds
    return step.turns * sum([_inner_nanoseconds(body, limits) for body in bodies])


def _inner_nanoseconds(block: Block, limits: NativeTarget) -> float:
    """Return the same of a block within a loop, where nests of short rows count however few they are."""
    total = 0.0
    for step in block.steps:
        if not isinstance(step, Nest):
            total += _short_nanoseconds(step, limits)
        elif step.operations and not step.is_dense(limits):
            total += step.nanoseconds
    return total


# --- Steps as LLVM IR: a function for each, whose parameters are the memory that it reads and writes

ROUTINES: dict[str, Callable[[Writer, Routine], None]] = {
    "gather": emit_indexed,
    "scatter.set": emit_indexed,
    **dict.fromkeys(COMBINING, emit_indexed),
    "place.max": emit_extreme,
    "place.min": emit_extreme,
    "extreme.max": emit_ordered_extreme,
    "extreme.min": emit_ordered_extreme,
    "first.places": emit_first,
    "first.values": emit_first,
    "philox": emit_words,
    "refuse": emit_refusal,
    "search.left": emit_search,
    "search.right": emit_search,
}


def emit_step(w: Writer, step: Leaf, flags: Flags, attributes: str, shared: Collection[int]) -> str:
    """Add the function of a step, whose parameters are its roots, of which some may be shared; return its name."""
    name = f"@{type(step).__name__.lower()}{w.fresh()}"
    roots = ", ".join([f"ptr {'' if k in shared else 'noalias '}%r{k}" for k in step.touched])

    def body() -> None:
        if isinstance(step, Nest):
            NestEmitter(w, step, flags).emit()
        elif isinstance(step, Routine):
            ROUTINES[step.name](w, step)
        elif isinstance(step, UfuncCall):
            _call(w, step, flags)
        w.hand_over_faults()
        w.line("ret void")

    bounds = ", i64 %low, i64 %high" if step.is_cut else ""
    w.function(f"internal void {name}({roots}, ptr noalias %fault{bounds}) {attributes}", body)
    return name


def _call(w: Writer, step: UfuncCall, flags: Flags) -> None:
    if step.orders is not None:
        emit_small_product(w, step)
    elif step.loop is None:
        emit_tiles(w, step)
    elif step.is_sort:
        _sort(w, step, step.loop, flags)
    elif is_row_reduction(step):
        combine_rows(w, step)
    elif is_running(step):
        emit_running(w, step)
    elif step.is_cut:
        _call_chunks(w, step, step.loop)
    elif step.cores:
        _call_loop(w, step, step.loop, step.nanoseconds / math.prod(step.outer))
    elif _is_sum(step):
        flags.keep(step.loop, lambda: over(w, step.outer, step.operands, lambda pointers: _sum(w, step, pointers)))
    else:
        flags.keep(step.loop, partial(_call_loop, w, step, step.loop))


def _sort(w: Writer, step: UfuncCall, loop: UfuncLoop, flags: Flags) -> None:
    """Add a loop over rows, each sorted by NumPy's function; flags of comparisons are dropped, short memory is a fault.

    A stable order of distinct elements is any order of them, which vectors find many times as fast.
    """
    symbol, (rows, length) = f'@"{loop.symbol}"', step.sizes
    operands, work = step.operands, "null"
    if step.has_work:
        operands, work = operands[:-1], start_of(w, operands[-1])
    for each in step.loops:
        w.declare(each.symbol, f'declare i32 @"{each.symbol}"({", ".join(["ptr"] * len(operands))}, i64, ptr)')

    def sort(pointers: Sequence[str], symbol: str) -> None:
        for out in pointers[1:]:
            w.loop("0", str(length), 1, partial(_store_index, w, out))
        call = f"call i32 {symbol}({as_pointers(pointers)}, i64 {length}, ptr {work})"
        w.fault(w.let(f"icmp ne i32 {flags.keep_around(lambda: w.let(call))}, 0"))

    def row(number: str) -> None:
        pointers = [element_at(w, start_of(w, ref), number, length * ref.size) for ref in operands]
        if step.unstable is None:
            sort(pointers, symbol)
            return
        sort(pointers, f'@"{step.unstable.symbol}"')
        w.when(_has_equal(w, step.operands[0].dtype, length, *pointers), lambda: sort(pointers, symbol))

    w.loop("0", str(rows), 1, row)


def _has_equal(w: Writer, dtype: str, length: int, x: str, order: str) -> str:
    """Tell whether neighbours in an order are equal, or one of them is nan."""
    kind = element_type(dtype)

    def element(i: str) -> str:
        return read(w, dtype, w.element(kind, x, w.let(f"load i64, ptr {w.element('i64', order, i)}")))

    def look(i: str, values: Sequence[str]) -> list[str]:
        (before, seen), new = values, element(i)
        is_float = dtype in FLOATS
        equal = compared(w, "ueq", [before, new], dtype) if is_float else w.let(f"icmp eq {kind} {before}, {new}")
        return [new, w.let(f"or i1 {seen}, {equal}")]

    return w.carry([(kind, element("0")), ("i1", "false")], "1", str(length), 1, look)[1]


def _store_index(w: Writer, out: str, i: str) -> None:
    w.line(f"store i64 {i}, ptr {w.element('i64', out, i)}")


def _call_loop(w: Writer, step: UfuncCall, loop: UfuncLoop, nanoseconds: float = 0.0) -> None:
    """Call a ufunc's loop for each of the axes around its own, which takes so long."""
    call = partial(call_loop, w, loop, sizes=list(map(str, step.sizes)), steps=step.strides)
    over(w, step.outer, step.operands, call, nanoseconds=nanoseconds)


def _call_chunks(w: Writer, step: UfuncCall, loop: UfuncLoop) -> None:
    """Call a generalized ufunc's loop for its chunks from one to another."""
    steps, pointers = step.strides, [start_of(w, ref) for ref in step.operands]
    by = steps[: len(pointers)]  # bytes, of each operand
    if step.axis:
        by = [steps[3], 0, steps[7]] if step.axis == 1 else [0, steps[6], steps[8]]
    for number, (start, stop) in enumerate(itertools.pairwise((0, *step.stops))):
        sizes = [str(stop - start if k == step.axis else n) for k, n in enumerate(step.sizes)]
        at = [w.shifted(p, start * stride) for p, stride in zip(pointers, by, strict=True)]
        is_asked = w.let(f"and i1 {w.let(f'icmp sle i64 %low, {number}')}, {w.let(f'icmp sgt i64 %high, {number}')}")
        w.when(is_asked, partial(call_loop, w, loop, at, sizes, steps))


def _is_sum(step: UfuncCall) -> bool:
    """Tell whether a loop adds up neighbouring floats."""
    (out, x, into), n = step.operands, step.sizes[0]
    is_dense = n >= PAIRWISE_MIN_ELEMENTS and x.strides[-1] == x.size and out.strides[-1] == 0
    is_sum = step.loop is not None and step.loop.ufunc == ADD
    return is_dense and is_sum and x.dtype in ("f4", "f8") and out == into


def _sum(w: Writer, step: UfuncCall, pointers: list[str]) -> None:
    """Add the sum of a row to what its result holds."""
    out, x, _ = pointers
    dtype = step.operands[0].dtype
    before = read(w, dtype, out)
    total = emit_sum(w, dtype, x, step.space[-1])
    written(w, dtype, emit(w, ADD, [before, total], [dtype, dtype], dtype), out)


# --- Native programs as LLVM IR: blocks of steps, and loops over blocks, behind the builtin functions that Python
# calls

R = TypeVar("R")


def emit_programs(programs: Sequence[Program], layout: Addresses, limits: NativeTarget = DEFAULT.native) -> str:
    """Return the module of programs, whose builtin functions are called ``kernel_0`` and so on.

    Its first line says which of LLVM's passes it needs.
    """
    w = Writer(limits)
    blocks = Blocks(w, layout)
    for k, program in enumerate(programs):
        main = blocks.emit(program.block, "main")
        KernelEntry(w, layout, program).emit(f"kernel_{k}", main)
    if w.looks:
        Looks(w, blocks.flags).define()
    return end_module(w, programs)


def end_module(w: Writer, programs: Sequence[Program]) -> str:
    """Return the text of a module; where passes of LLVM run, the first line names them and functions are inlined."""
    text = w.text()
    passes = choose_passes(programs, len(text), w.limits)
    if not passes:
        return text
    w.mark_inline()
    return f"{passes}\n{w.text()}"


class Blocks:
    """Emitter of blocks, each a function of its parameters and its arena; equal ones are emitted once."""

    def __init__(self, w: Writer, layout: Addresses) -> None:
        self.w = w
        self.flags: Flags = Flags(w, layout)
        self.team: Team = Team(w, self.flags)
        self._ignored: tuple[str, ...] = ()  # errors, around what is emitted
        self._functions: dict[tuple[Leaf, frozenset[int]], str] = {}
        self._bodies: dict[Block, str] = {}

    def emit(self, block: Block, name: str, attributes: str = "") -> str:
        """Add the function of a block and return its name."""
        shared = {*block.shared, *[k for pair in block.donated for k in pair]}
        pointers = [f"ptr {'' if k in shared else 'noalias '}%p{k}" for k in range(block.params)]
        parameters = [*pointers, "ptr noalias %arena", "ptr noalias %fault"]
        name = f"@{name}{self.w.fresh()}"

        def body() -> None:
            self._run(block)
            self.w.line("ret void")

        self.w.function(f"internal void {name}({', '.join(parameters)}) {attributes}", body)
        return name

    def _run(self, block: Block) -> None:
        """Add steps, phase by phase."""
        for phase in block.phases or (Phase(0, len(block.steps), False),):
            if phase.is_shared:
                self._share(block, phase)
            else:
                self._all(block, block.steps[phase.start : phase.stop])

    def _share(self, block: Block, phase: Phase) -> None:
        """Add a phase as a job of the team, whose function finds the memory that it touches in an array."""
        w = self.w
        touched = {block.roots[k].param for step in block.steps[phase.start : phase.stop] for k in step.touched}
        names = [*[f"%p{k}" for k in sorted(touched - {-1})], "%arena"]

        def body() -> None:
            for k, name in enumerate(names):
                w.line(f"{name} = load ptr, ptr {w.shifted('%args', 8 * k)}")
            self._quietly(self._ignored, partial(self._phase, block, phase))
            w.line("ret void")

        part = f"@part{w.fresh()}"
        numbers = ", ".join([f"i64 %{name}" for name in ("first", "last", "thread")])
        w.function(f"internal void {part}(ptr noalias %args, {numbers}, ptr noalias %fault)", body)
        args = w.local(f"[{len(names)} x ptr]", 16)
        for k, name in enumerate(names):
            w.line(f"store ptr {name}, ptr {w.shifted(args, 8 * k)}")
        self.team.share(part, args)

    def _phase(self, block: Block, phase: Phase) -> None:
        """Add the steps of a phase: parts of steps that are cut, all others with the first part."""
        w = self.w
        is_first = w.let("icmp eq i64 %first, 0")
        for step in block.steps[phase.start : phase.stop]:
            if not step.is_cut:
                self.w.when(is_first, partial(self._all, block, [step]))
                continue
            low, high = [
                w.let(f"sdiv i64 {w.let(f'mul i64 {part}, {step.parts}')}, {PARTS}") for part in ("%first", "%last")
            ]
            if isinstance(step, BlockLoop):
                self._block_loop(block, step, low, high, w.let(f"mul i64 %thread, {step.arena_bytes}"))
            elif isinstance(step, Leaf):
                self._quietly(step.quiet, partial(self._step, block, step, f", i64 {low}, i64 {high}"))

    def _all(self, block: Block, steps: Sequence[Step]) -> None:
        """Add steps, loops from beginning to end, many in functions of their own; neighbours ignore errors together."""
        most = self.w.limits.function_max_steps
        if len(steps) > most:
            pointers = [*[f"%p{k}" for k in range(block.params)], "%arena", "%fault"]
            for start in range(0, len(steps), most):
                part = attrs.evolve(block, steps=tuple(steps[start : start + most]), phases=())
                self.w.call(self.emit(part, "steps", attributes="noinline"), as_pointers(pointers))
            return
        for quiet, run in itertools.groupby(steps, lambda step: step.quiet):
            self._quietly(quiet, partial(self._each, block, tuple(run)))

    def _each(self, block: Block, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Loop):
                LoopEmitter(self.w, self.emit, block, step).add()
            elif isinstance(step, Choice):
                self._choice(block, step)
            elif isinstance(step, BlockLoop):
                self._block_loop(block, step, "0", str(step.length))
            elif isinstance(step, Leaf):
                self._step(block, step)

    def _quietly(self, quiet: Sequence[str], run: Callable[[], R]) -> R:
        """Add what ignores errors: flags that it raises are taken back, and those of threads that help."""
        w, flags, around = self.w, self.flags.number(quiet), self._ignored
        before = self.flags.read() if flags else ""
        self._ignored = (*around, *quiet)
        result = run()
        self._ignored = around
        if flags:
            new = w.let(f"and i32 {self.flags.read()}, {w.let(f'xor i32 {before}, -1')}")
            self.flags.clear(w.let(f"and i32 {new}, {flags}"))
        return result

    def _step(self, block: Block, step: Leaf, bounds: str = "") -> None:
        """Call the function of a step."""
        if step.is_cut and not bounds:
            bounds = f", i64 0, i64 {step.parts}"
        function = self._function(block, step)
        roots = ", ".join([f"ptr {root_of(self.w, block, k)}" for k in step.touched])
        args = f"{roots}, ptr %fault{bounds}"
        if isinstance(step, UfuncCall) and step.refuses:
            self.flags.refuse_invalid(lambda: self.w.call(function, args))
        elif isinstance(step, UfuncCall) and step.cores and step.loop is not None:
            self.flags.keep(step.loop, lambda: self.w.call(function, args))
        else:
            self.w.call(function, args)

    def _function(self, block: Block, step: Leaf) -> str:
        """Return the function of a step; steps that differ in their memory alone share one."""
        if isinstance(step, UfuncCall) and step.orders is not None:
            step = attrs.evolve(step, is_read_whole=_is_read_whole(block, step))
        numbers = {root: k for k, root in enumerate(step.touched)}
        pairs = [pair for pair in block.donated if numbers.keys() >= set(pair)]
        same, shared = step.with_roots(numbers), frozenset([numbers[root] for pair in pairs for root in pair])
        if (same, shared) not in self._functions:
            attributes = "" if len(block.steps) <= self.w.limits.inline_max_steps else "noinline"
            self._functions[same, shared] = emit_step(self.w, same, self.flags, attributes, shared)
        return self._functions[same, shared]

    def _choice(self, block: Block, step: Choice) -> None:
        """Add a jump to one of several blocks."""
        w, k = self.w, self.w.fresh()
        functions = [self.emit(body, "branch") for body in step.blocks()]
        kind = memory_type(step.dtype)
        index = w.let(f"load {kind}, ptr {root_of(self.w, block, step.index)}")
        if kind != "i64":
            index = w.let(f"{'sext' if step.dtype[0] == 'i' else 'zext'} {kind} {index} to i64")
        cases = " ".join([f"i64 {n}, label %case{k}.{n}" for n in range(len(functions) - 1)])
        arena = w.shifted("%arena", step.arena)
        w.line(f"switch i64 {index}, label %case{k}.{len(functions) - 1} [{cases}]")
        for n, (function, body) in enumerate(zip(functions, step.bodies, strict=True)):
            w.label(f"case{k}.{n}")
            pointers = (*pointers_of(w, block, body)("0", "0"), arena, "%fault")
            w.line(f"call void {function}({as_pointers(pointers)})")
            w.line(f"br label %chosen{k}")
        w.label(f"chosen{k}")

    def _block_loop(self, block: Block, loop: BlockLoop, low: str, high: str, arena: str = "0") -> None:
        """Add a loop over blocks from one to another, with an arena that begins so many bytes behind the first one."""
        w = self.w
        base = w.shifted(w.shifted("%arena", loop.arena), arena)

        def step(number: int, i: str) -> None:
            body = loop.bodies[number]
            pointers = (*pointers_of(w, block, body)(i, i), base, "%fault")
            w.call(self._body(body.block), as_pointers(pointers))

        leave = leave_long(w, loop.length // (PARTS if loop.is_cut else 1), loop.blocks()[0].nanoseconds)
        if len(loop.bodies) == 1:
            w.loop(low, high, 1, partial(step, 0), leave)
            return
        whole = str(loop.length - 1)
        has_rest = w.let(f"icmp eq i64 {high}, {loop.length}")
        w.loop(low, w.let(f"select i1 {has_rest}, i64 {whole}, i64 {high}"), 1, partial(step, 0), leave)
        self.w.when(w.let(f"and i1 {has_rest}, {w.let(f'icmp slt i64 {low}, {high}')}"), lambda: step(1, whole))

    def _body(self, block: Block) -> str:
        """Return the function of a block of a loop; equal ones share one."""
        if block not in self._bodies:
            self._bodies[block] = self.emit(block, "block")
        return self._bodies[block]


def _is_read_whole(block: Block, product: UfuncCall) -> bool:
    """Tell whether the next step that reads a product's result takes several of its rows for one."""
    out, row, steps = product.operands[-1].root, product.sizes[-1], block.steps
    for step in steps[steps.index(product) + 1 :]:
        if isinstance(step, Nest):
            reads = [ref for ref in step.loads.values() if ref.root == out]
            if reads:
                return bool(step.space) and step.space[-1] > row and all(ref.strides[-1] == ref.size for ref in reads)
        elif out in step.touched:
            return False
    return False
