"""Loops as LLVM IR: scans, and loops that a condition ends, alone or with the way back over their steps.

The carry of a loop moves between two pieces of memory. A loop runs from one step to another, so that Python sees signals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afx.compiler.native_backend.llvm.rows import Rows
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Block, Scan, While, WhileBack

__all__ = ["Loops", "all_roots", "root_of", "row_of"]


def root_of(w: Writer, block: Block, k: int) -> str:
    """Return the pointer to a block's memory of a number."""
    root = block.roots[k]
    return w.shifted("%arena" if root.param < 0 else f"%p{root.param}", root.offset)


def all_roots(w: Writer, block: Block, *groups: Sequence[int]) -> list[list[str]]:
    """Return the pointers to groups of a block's memory."""
    return [[root_of(w, block, k) for k in group] for group in groups]


def row_of(w: Writer, pointer: str, row: str, size: int) -> str:
    """Return the pointer to a row of so many bytes."""
    return w.shifted(pointer, w.let(f"mul nsw i64 {row}, {size}"))


class Loops:
    """Emitter of loops within blocks; ``emit(block, name)`` adds the function of a block and returns its name."""

    def __init__(self, w: Writer, emit: Callable[[Block, str], str]) -> None:
        self.w = w
        self._emit = emit

    def add(self, block: Block, loop: Scan | While, start: str, stop: str) -> str:
        """Add a loop from one step to another and return where it stopped; a `While` that is done returns -1."""
        carry = [root_of(self.w, block, k) for k in loop.carry]
        other = [
            p if k == j else root_of(self.w, block, k) for p, j, k in zip(carry, loop.carry, loop.other, strict=True)
        ]
        self.w.when(
            self.w.let(f"icmp eq i64 {start}, 0"),
            lambda: self._copy(carry, [root_of(self.w, block, k) for k in loop.init], loop.carry_bytes),
        )
        if isinstance(loop, Scan):
            return self._scan(block, loop, carry, other, start, stop)
        if isinstance(loop, WhileBack):
            return self._rewind(block, loop, carry, other, start, stop)
        return self._while(block, loop, carry, other, start, stop)

    def _scan(self, block: Block, loop: Scan, carry: list[str], other: list[str], start: str, stop: str) -> str:
        w = self.w
        body = self._emit(loop.body, "body")
        consts, xs, ys, constants = all_roots(self.w, block, loop.consts, loop.xs, loop.ys, loop.constants)
        arena = w.shifted("%arena", loop.arena)
        if stop == "%stop":
            beyond = w.let(f"icmp sgt i64 {stop}, {loop.length}")
            stop = w.let(f"select i1 {beyond}, i64 {loop.length}, i64 {stop}")

        def step(t: str) -> None:
            old, new = self._turns(t, carry, other)
            row = w.let(f"sub nsw i64 {loop.length - 1}, {t}") if loop.reverse else t
            at_x = [row_of(w, x, row, size) for x, size in zip(xs, loop.x_bytes, strict=True)]
            at_y = [row_of(w, y, row, size) for y, size in zip(ys, loop.y_bytes, strict=True)]
            pointers = [f"ptr {p}" for p in (*consts, *old, *at_x, *new, *at_y, *constants, arena, "%fault")]
            w.line(f"call void {body}({', '.join(pointers)})")

        w.loop(start, stop, 1, step)
        if loop.length % 2:
            self.w.when(w.let(f"icmp eq i64 {stop}, {loop.length}"), lambda: self._copy(carry, other, loop.carry_bytes))
        return stop

    def _while(self, block: Block, loop: While, carry: list[str], other: list[str], start: str, stop: str) -> str:
        w = self.w
        consts, constants = all_roots(self.w, block, loop.consts, loop.constants)
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
        ways = all_roots(self.w, block, loop.back_carry, loop.back_other)
        consts, constants, more = all_roots(self.w, block, loop.consts, loop.constants, loop.back_constants)
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
        init = [root_of(self.w, block, root) for root in loop.back_init]
        rows = Rows(self.w, root_of(self.w, block, loop.rows), loop.residual_offsets)

        def begin() -> None:
            rows.begin()
            self._copy(carry, init, loop.back_bytes)

        self.w.when(self.w.let(f"icmp eq i64 {start}, 0"), begin)
        return rows

    def _call(self, loop: While, body: Block, *pointers: str) -> None:
        """Call the function of the condition or of a step of a loop."""
        args = ", ".join([f"ptr {p}" for p in (*pointers, self.w.shifted("%arena", loop.arena), "%fault")])
        self.w.line(f"call void {self._emit(body, 'body')}({args})")

    def _ask(self, block: Block, loop: While, carry: Sequence[str]) -> str:
        """Compute the condition of a loop and return whether it holds."""
        w = self.w
        consts, constants = all_roots(self.w, block, loop.test_consts, loop.test_constants)
        verdict = root_of(self.w, block, loop.verdict)
        self._call(loop, loop.test, *consts, *carry, verdict, *constants)
        return w.let(f"icmp ne i8 {w.let(f'load i8, ptr {verdict}')}, 0")

    def _turns(self, t: str, carry: list[str], other: list[str]) -> tuple[list[str], list[str]]:
        """Return where a step finds the carry and where it leaves the next one."""
        odd = self.w.let(f"trunc i64 {t} to i1")
        pairs = list(zip(carry, other, strict=True))
        old = [self.w.let(f"select i1 {odd}, ptr {b}, ptr {a}") for a, b in pairs]
        return old, [self.w.let(f"select i1 {odd}, ptr {a}, ptr {b}") for a, b in pairs]

    def _copy(self, to: Sequence[str], of: Sequence[str], sizes: Sequence[int]) -> None:
        for a, b, size in zip(to, of, sizes, strict=True):
            if a != b:  # else a carry that stays in place
                self.w.copy(a, b, size)
