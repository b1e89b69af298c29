"""Native programs as LLVM IR: blocks of steps, and loops over blocks, behind the builtin functions that Python calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import attrs

from afx.compiler.native_backend.child import FEW_PASSES
from afx.compiler.native_backend.llvm.entry import Entry
from afx.compiler.native_backend.llvm.flags import Flags, Layout
from afx.compiler.native_backend.llvm.op import memory_type
from afx.compiler.native_backend.llvm.passes import needs_few_passes
from afx.compiler.native_backend.llvm.rows import Rows
from afx.compiler.native_backend.llvm.step import emit_step, on_roots, roots_of
from afx.compiler.native_backend.llvm.team import Team
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import (
    PARTS,
    Block,
    BlockLoop,
    Choice,
    Leaf,
    Nest,
    Phase,
    Product,
    Program,
    Scan,
    Step,
    While,
    WhileBack,
    chunked_step,
)

__all__ = ["emit_programs"]

R = TypeVar("R")

FOREVER = "9223372036854775807"
FUNCTION_MAX_STEPS = 100  # calls of a function: LLVM's time grows faster than their number
INLINE_MAX_STEPS = 30  # steps of a block whose functions LLVM may join: its time grows faster than their number


def emit_programs(programs: Sequence[Program], layout: Layout) -> str:
    """Return the module of programs, whose builtin functions are called ``kernel_0`` and so on.

    Its first line says where it needs few of LLVM's passes.
    """
    w = Writer()
    blocks = _Blocks(w, layout)
    for k, program in enumerate(programs):
        main = blocks.emit(program.block, "main", program.is_loop)
        Entry(w, layout, program).emit(f"kernel_{k}", main)
    text = w.text()
    if not all(needs_few_passes(program, len(text)) for program in programs):
        return text
    w.join()
    return f"{FEW_PASSES}\n{w.text()}"


class _Blocks:
    """Emitter of blocks, each a function of its parameters and its arena; equal ones are emitted once."""

    def __init__(self, w: Writer, layout: Layout) -> None:
        self.w = w
        self.flags = Flags(w, layout)
        self.team = Team(w, layout.x86)
        self._ignored: tuple[str, ...] = ()  # errors, around what is emitted
        self._functions: dict[tuple[Leaf, frozenset[int]], str] = {}
        self._bodies: dict[Block, str] = {}

    def emit(self, block: Block, name: str, chunked: bool = False, attributes: str = "") -> str:
        """Add the function of a block and return its name; a chunked one runs a loop from one step to another."""
        shared = {*block.shared, *[k for pair in block.donated for k in pair]}
        pointers = [f"ptr {'' if k in shared else 'noalias '}%p{k}" for k in range(block.params)]
        parameters = [*pointers, "ptr noalias %arena", "ptr noalias %fault"]
        if chunked:
            parameters += ["i64 %start", "i64 %stop"]
        name = f"@{name}{self.w.fresh()}"

        def body() -> None:
            if chunked:
                self._chunk(block)
                return
            self._run(block, 0, len(block.steps))
            self.w.line("ret void")

        self.w.function(f"internal {'i64' if chunked else 'void'} {name}({', '.join(parameters)}) {attributes}", body)
        return name

    def _run(self, block: Block, start: int, stop: int) -> None:
        """Add steps, phase by phase."""
        for phase in block.phases or (Phase(0, len(block.steps), False),):
            steps = block.steps[max(start, phase.start) : min(stop, phase.stop)]
            if steps and phase.is_shared:
                self._share(block, phase)
            else:
                self._all(block, steps)

    def _share(self, block: Block, phase: Phase) -> None:
        """Add a phase as a job of the team, whose function finds the block's memory in an array."""
        w = self.w
        names = [*[f"%p{k}" for k in range(block.params)], "%arena"]

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
            if not isinstance(step, Nest | BlockLoop | Product) or not step.is_cut:
                self.w.when(is_first, partial(self._all, block, [step]))
                continue
            length = step.space[0] if isinstance(step, Nest) else step.length
            low, high = [
                w.let(f"sdiv i64 {w.let(f'mul i64 {part}, {length}')}, {PARTS}") for part in ("%first", "%last")
            ]
            if isinstance(step, BlockLoop):
                self._block_loop(block, step, low, high, w.let(f"mul i64 %thread, {step.arena_bytes}"))
            else:
                self._quietly(step.quiet, partial(self._step, block, step, f", i64 {low}, i64 {high}"))

    def _chunk(self, block: Block) -> None:
        """Add one loop of a block from step to step: what stands before it runs with the first, what follows with the last."""
        w, k = self.w, chunked_step(block)
        loop = block.steps[k]
        assert isinstance(loop, Scan | While)
        if k:
            self.w.when(w.let("icmp eq i64 %start, 0"), lambda: self._run(block, 0, k))
        reached = self._quietly(loop.quiet, partial(self._loop, block, loop, "%start", "%stop"))
        if k + 1 < len(block.steps):
            end = str(loop.length) if isinstance(loop, Scan) else "-1"
            self.w.when(w.let(f"icmp eq i64 {reached}, {end}"), lambda: self._run(block, k + 1, len(block.steps)))
        w.line(f"ret i64 {reached}")

    def _all(self, block: Block, steps: Sequence[Step]) -> None:
        """Add steps, loops from beginning to end, many in functions of their own; neighbours ignore errors together."""
        if len(steps) > FUNCTION_MAX_STEPS:
            pointers = [*[f"%p{k}" for k in range(block.params)], "%arena", "%fault"]
            for start in range(0, len(steps), FUNCTION_MAX_STEPS):
                part = attrs.evolve(block, steps=tuple(steps[start : start + FUNCTION_MAX_STEPS]), phases=())
                self.w.call(self.emit(part, "steps", attributes="noinline"), ", ".join([f"ptr {p}" for p in pointers]))
            return
        for quiet, run in itertools.groupby(steps, lambda step: () if isinstance(step, BlockLoop) else step.quiet):
            self._quietly(quiet, partial(self._each, block, tuple(run)))

    def _each(self, block: Block, steps: Sequence[Step]) -> None:
        for step in steps:
            if isinstance(step, Scan | While):
                self._loop(block, step, "0", str(step.length) if isinstance(step, Scan) else FOREVER)
            elif isinstance(step, Choice):
                self._choice(block, step)
            elif isinstance(step, BlockLoop):
                self._block_loop(block, step, "0", str(step.length))
            else:
                self._step(block, step)

    def _quietly(self, quiet: Sequence[str], run: Callable[[], R]) -> R:
        """Add what ignores errors: flags that it raises are taken back, and those of threads that help."""
        w, flags, around = self.w, self.flags.number(quiet), self._ignored
        before = self.flags.read() if flags else ""
        self._ignored = (*around, *quiet)
        found = run()
        self._ignored = around
        if flags:
            new = w.let(f"and i32 {self.flags.read()}, {w.let(f'xor i32 {before}, -1')}")
            self.flags.clear(w.let(f"and i32 {new}, {flags}"))
        return found

    def _root(self, block: Block, k: int) -> str:
        root = block.roots[k]
        return self.w.shifted("%arena" if root.param < 0 else f"%p{root.param}", root.offset)

    def _roots(self, block: Block, *groups: Sequence[int]) -> list[list[str]]:
        return [[self._root(block, k) for k in group] for group in groups]

    def _step(self, block: Block, step: Leaf, bounds: str = "") -> None:
        """Call the function of a step."""
        if isinstance(step, Product) and step.is_cut and not bounds:
            bounds = f", i64 0, i64 {step.length}"
        function = self._function(block, step)
        roots = ", ".join([f"ptr {self._root(block, k)}" for k in roots_of(step)])
        args = f"{roots}, ptr %fault{bounds}"
        if isinstance(step, Product) and step.refuses:
            self.flags.refuse_invalid(lambda: self.w.call(function, args))
        elif isinstance(step, Product) and step.loop is not None:
            self.flags.keep(step.loop, lambda: self.w.call(function, args))
        else:
            self.w.call(function, args)

    def _function(self, block: Block, step: Leaf) -> str:
        """Return the function of a step; steps that differ in their memory alone share one."""
        numbers = {root: k for k, root in enumerate(roots_of(step))}
        pairs = [pair for pair in block.donated if numbers.keys() >= set(pair)]
        same, shared = on_roots(step, numbers), frozenset([numbers[root] for pair in pairs for root in pair])
        if (same, shared) not in self._functions:
            attributes = "" if len(block.steps) <= INLINE_MAX_STEPS else "noinline"
            self._functions[same, shared] = emit_step(self.w, same, self.flags, attributes, shared)
        return self._functions[same, shared]

    def _loop(self, block: Block, loop: Scan | While, start: str, stop: str) -> str:
        """Add a loop from one step to another and return where it stopped; a `While` that is done returns -1."""
        carry = [self._root(block, k) for k in loop.carry]
        other = [p if k == j else self._root(block, k) for p, j, k in zip(carry, loop.carry, loop.other, strict=True)]
        self.w.when(
            self.w.let(f"icmp eq i64 {start}, 0"),
            lambda: self._copy(carry, [self._root(block, k) for k in loop.init], loop.carry_bytes),
        )
        if isinstance(loop, Scan):
            return self._scan(block, loop, carry, other, start, stop)
        if isinstance(loop, WhileBack):
            return self._rewind(block, loop, carry, other, start, stop)
        return self._while(block, loop, carry, other, start, stop)

    def _scan(self, block: Block, loop: Scan, carry: list[str], other: list[str], start: str, stop: str) -> str:
        w = self.w
        body = self.emit(loop.body, "body")
        consts, xs, ys, constants = self._roots(block, loop.consts, loop.xs, loop.ys, loop.constants)
        arena = w.shifted("%arena", loop.arena)
        if stop == "%stop":
            beyond = w.let(f"icmp sgt i64 {stop}, {loop.length}")
            stop = w.let(f"select i1 {beyond}, i64 {loop.length}, i64 {stop}")

        def step(t: str) -> None:
            old, new = self._turns(t, carry, other)
            row = w.let(f"sub nsw i64 {loop.length - 1}, {t}") if loop.reverse else t
            at_x = [_row(w, x, row, size) for x, size in zip(xs, loop.x_bytes, strict=True)]
            at_y = [_row(w, y, row, size) for y, size in zip(ys, loop.y_bytes, strict=True)]
            pointers = [f"ptr {p}" for p in (*consts, *old, *at_x, *new, *at_y, *constants, arena, "%fault")]
            w.line(f"call void {body}({', '.join(pointers)})")

        w.loop(start, stop, 1, step)
        if loop.length % 2:
            self.w.when(w.let(f"icmp eq i64 {stop}, {loop.length}"), lambda: self._copy(carry, other, loop.carry_bytes))
        return stop

    def _while(self, block: Block, loop: While, carry: list[str], other: list[str], start: str, stop: str) -> str:
        w = self.w
        consts, constants = self._roots(block, loop.consts, loop.constants)
        where, k = w.local("i64", 8), w.fresh()
        w.line(f"store i64 {start}, ptr {where}")
        w.fall(f"next{k}")
        t = w.let(f"load i64, ptr {where}")
        w.line(f"br i1 {w.let(f'icmp slt i64 {t}, {stop}')}, label %ask{k}, label %left{k}")
        w.label(f"ask{k}")
        old, new = self._turns(t, carry, other)
        w.line(f"br i1 {self._ask(block, loop, old)}, label %go{k}, label %done{k}")
        w.label(f"go{k}")
        self._call(loop, loop.body, *consts, *old, *new, *constants)
        w.count(where, t, f"next{k}")
        w.label(f"done{k}")
        self.w.when(w.let(f"trunc i64 {t} to i1"), lambda: self._copy(carry, other, loop.carry_bytes))
        w.line(f"store i64 -1, ptr {where}")
        w.fall(f"left{k}")
        return w.let(f"load i64, ptr {where}")

    def _rewind(self, block: Block, loop: WhileBack, carry: list[str], other: list[str], start: str, stop: str) -> str:
        """Add a loop and the way back over its steps, whose numbers go on: step n + k goes back over step n - 1 - k."""
        w, k = self.w, self.w.fresh()
        ways = self._roots(block, loop.back_carry, loop.back_other)
        consts, constants, more = self._roots(block, loop.consts, loop.constants, loop.back_constants)
        rows = self._begin_back(block, loop, ways[0], start)
        where = w.local("i64", 8)
        w.line(f"store i64 {start}, ptr {where}")
        is_over = w.let(f"icmp slt i64 {start}, 0")
        has_fault = w.let(f"icmp ne i64 {w.let('load i64, ptr %fault')}, 0")
        w.line(f"br i1 {w.let(f'or i1 {is_over}, {has_fault}')}, label %end{k}, label %next{k}")
        w.label(f"next{k}")
        t = w.let(f"load i64, ptr {where}")
        w.line(f"br i1 {w.let(f'icmp slt i64 {t}, {stop}')}, label %which{k}, label %left{k}")
        w.label(f"which{k}")
        steps = rows.steps()
        w.line(f"br i1 {w.let(f'icmp slt i64 {steps}, 0')}, label %ask{k}, label %turn{k}")
        w.label(f"ask{k}")
        w.line(f"br i1 {self._ask(block, loop, self._turns(t, carry, other)[0])}, label %go{k}, label %done{k}")
        w.label(f"go{k}")
        rows.make_room(t, f"end{k}")
        old, new = self._turns(t, carry, other)
        self._call(loop, loop.body, *consts, *old, *new, *rows.at(t), *constants)
        w.count(where, t, f"next{k}")
        w.label(f"done{k}")
        rows.turn(t)
        w.line(f"br label %next{k}")
        w.label(f"turn{k}")
        left = w.let(f"sub i64 {w.let(f'mul i64 {steps}, 2')}, {t}")
        w.line(f"br i1 {w.let(f'icmp sgt i64 {left}, 0')}, label %back{k}, label %last{k}")
        w.label(f"back{k}")
        old, new = self._turns(w.let(f"sub i64 {t}, {steps}"), *ways)
        self._call(loop, loop.back, *consts, *rows.at(w.let(f"sub i64 {left}, 1")), *old, *new, *more)
        w.count(where, t, f"next{k}")
        w.label(f"last{k}")
        w.when(w.let(f"trunc i64 {steps} to i1"), lambda: self._copy(ways[0], ways[1], loop.back_bytes))
        w.fall(f"end{k}")
        rows.end()
        w.line(f"store i64 {w.let(f'select i1 {is_over}, i64 -2, i64 -1')}, ptr {where}")
        w.fall(f"left{k}")
        return w.let(f"load i64, ptr {where}")

    def _begin_back(self, block: Block, loop: WhileBack, carry: list[str], start: str) -> Rows:
        """Set up what is carried back, and rows of residuals, with the first step."""
        init = [self._root(block, root) for root in loop.back_init]
        rows = Rows(self.w, self._root(block, loop.rows), loop.residual_offsets)

        def begin() -> None:
            rows.begin()
            self._copy(carry, init, loop.back_bytes)

        self.w.when(self.w.let(f"icmp eq i64 {start}, 0"), begin)
        return rows

    def _call(self, loop: While, body: Block, *pointers: str) -> None:
        """Call the function of the condition or of a step of a loop."""
        args = ", ".join([f"ptr {p}" for p in (*pointers, self.w.shifted("%arena", loop.arena), "%fault")])
        self.w.line(f"call void {self.emit(body, 'body')}({args})")

    def _ask(self, block: Block, loop: While, carry: Sequence[str]) -> str:
        """Compute the condition of a loop and return whether it holds."""
        w = self.w
        consts, constants = self._roots(block, loop.test_consts, loop.test_constants)
        verdict = self._root(block, loop.verdict)
        self._call(loop, loop.test, *consts, *carry, verdict, *constants)
        return w.let(f"icmp ne i8 {w.let(f'load i8, ptr {verdict}')}, 0")

    def _choice(self, block: Block, step: Choice) -> None:
        """Add a jump to one of several blocks."""
        w, k = self.w, self.w.fresh()
        functions = [self.emit(body, "branch") for body in step.bodies]
        kind = memory_type(step.dtype)
        index = w.let(f"load {kind}, ptr {self._root(block, step.index)}")
        if kind != "i64":
            index = w.let(f"{'sext' if step.dtype[0] == 'i' else 'zext'} {kind} {index} to i64")
        cases = " ".join([f"i64 {n}, label %case{k}.{n}" for n in range(len(functions) - 1)])
        shared = [self._root(block, root) for root in (*step.operands, *step.outputs)]
        own = self._roots(block, *step.constants)
        arena = w.shifted("%arena", step.arena)
        w.line(f"switch i64 {index}, label %case{k}.{len(functions) - 1} [{cases}]")
        for n, function in enumerate(functions):
            w.label(f"case{k}.{n}")
            w.line(f"call void {function}({', '.join([f'ptr {p}' for p in (*shared, *own[n], arena, '%fault')])})")
            w.line(f"br label %chosen{k}")
        w.label(f"chosen{k}")

    def _block_loop(self, block: Block, loop: BlockLoop, low: str, high: str, arena: str = "0") -> None:
        """Add a loop over blocks from one to another, with an arena that begins so many bytes behind the first one."""
        w = self.w
        base = w.shifted(w.shifted("%arena", loop.arena), arena)

        def step(number: int, i: str) -> None:
            roots = zip(loop.roots[number], loop.strides[number], strict=True)
            pointers = [
                _row(w, self._root(block, k), i, stride) if stride else self._root(block, k) for k, stride in roots
            ]
            w.call(self._body(loop.bodies[number]), ", ".join([f"ptr {p}" for p in (*pointers, base, "%fault")]))

        if len(loop.bodies) == 1:
            w.loop(low, high, 1, partial(step, 0))
            return
        whole = str(loop.length - 1)
        has_rest = w.let(f"icmp eq i64 {high}, {loop.length}")
        w.loop(low, w.let(f"select i1 {has_rest}, i64 {whole}, i64 {high}"), 1, partial(step, 0))
        self.w.when(w.let(f"and i1 {has_rest}, {w.let(f'icmp slt i64 {low}, {high}')}"), lambda: step(1, whole))

    def _body(self, block: Block) -> str:
        """Return the function of a block of a loop; equal ones share one."""
        if block not in self._bodies:
            self._bodies[block] = self.emit(block, "block")
        return self._bodies[block]

    def _turns(self, t: str, carry: list[str], other: list[str]) -> tuple[list[str], list[str]]:
        """Return where a step finds the carry and where it leaves the next one."""
        odd = self.w.let(f"trunc i64 {t} to i1")
        pairs = list(zip(carry, other, strict=True))
        old = [self.w.let(f"select i1 {odd}, ptr {b}, ptr {a}") for a, b in pairs]
        return old, [self.w.let(f"select i1 {odd}, ptr {a}, ptr {b}") for a, b in pairs]

    def _copy(self, to: Sequence[str], of: Sequence[str], sizes: Sequence[int]) -> None:
        self.w.declare("memcpy", "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        for a, b, size in zip(to, of, sizes, strict=True):
            if a != b:  # else a carry that stays in place
                self.w.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {a}, ptr {b}, i64 {size}, i1 false)")


def _row(w: Writer, pointer: str, row: str, size: int) -> str:
    return w.shifted(pointer, w.let(f"mul nsw i64 {row}, {size}"))
