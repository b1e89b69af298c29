"""Loops as LLVM IR: scans, and loops that a condition ends, alone or with the way back over their steps.

The carry of a loop moves between two pieces of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afx.compiler.native_backend.llvm.looks import leave_at, leave_long
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

    def add(self, block: Block, loop: Scan | While) -> None:
        """Add a loop."""
        carry = [root_of(self.w, block, k) for k in loop.carry]
        other = [
            p if k == j else root_of(self.w, block, k) for p, j, k in zip(carry, loop.carry, loop.other, strict=True)
        ]
        first = (
            (other, carry) if isinstance(loop, Scan) and loop.length % 2 else (carry, other)
        )  # the last one is in carry
        self._copy(first[0], [root_of(self.w, block, k) for k in loop.init], loop.carry_bytes)
        if isinstance(loop, Scan):
            self._scan(block, loop, *first)
        elif isinstance(loop, WhileBack):
            self._rewind(block, loop, carry, other)
        else:
            self._while(block, loop, carry, other)

    def _scan(self, block: Block, loop: Scan, carry: list[str], other: list[str]) -> None:
        w = self.w
        body = self._emit(loop.body, "body")
        consts, xs, ys, constants = all_roots(self.w, block, loop.consts, loop.xs, loop.ys, loop.constants)
        arena = w.shifted("%arena", loop.arena)

        def step(t: str) -> None:
            old, new = self._turns(t, carry, other)
            row = w.let(f"sub nsw i64 {loop.length - 1}, {t}") if loop.reverse else t
            at_x = [row_of(w, x, row, size) for x, size in zip(xs, loop.x_bytes, strict=True)]
            at_y = [row_of(w, y, row, size) for y, size in zip(ys, loop.y_bytes, strict=True)]
            pointers = [f"ptr {p}" for p in (*consts, *old, *at_x, *new, *at_y, *constants, arena, "%fault")]
            w.line(f"call void {body}({', '.join(pointers)})")

        w.loop("0", str(loop.length), 1, step, leave_long(w, loop.length, loop.body.nanoseconds))

    def _while(self, block: Block, loop: While, carry: list[str], other: list[str]) -> None:
        w = self.w
        consts, constants = all_roots(self.w, block, loop.consts, loop.constants)
        where, k = w.local("i64", 8), w.fresh()
        w.line(f"store i64 0, ptr {where}")
        w.fall(f"next{k}")
        t = w.let(f"load i64, ptr {where}")
        old, new = self._turns(t, carry, other)
        w.line(f"br i1 {self._ask(block, loop, old)}, label %go{k}, label %done{k}")
        w.label(f"go{k}")
        self._call(loop, loop.body, *consts, *old, *new, *constants)
        w.line(f"store i64 {w.let(f'add i64 {t}, 1')}, ptr {where}")
        leave_at(w, loop.test.nanoseconds + loop.body.nanoseconds)(t, f"left{k}", f"next{k}")
        w.label(f"done{k}")
        self.w.when(w.let(f"trunc i64 {t} to i1"), lambda: self._copy(carry, other, loop.carry_bytes))
        w.fall(f"left{k}")

    def _rewind(self, block: Block, loop: WhileBack, carry: list[str], other: list[str]) -> None:
        """Add a loop and the way back over its steps."""
        w, k = self.w, self.w.fresh()
        ways = all_roots(self.w, block, loop.back_carry, loop.back_other)
        consts, constants, more = all_roots(self.w, block, loop.consts, loop.constants, loop.back_constants)
        rows = Rows(w, root_of(w, block, loop.rows), loop.residual_offsets)
        rows.begin()
        self._copy(ways[0], [root_of(w, block, root) for root in loop.back_init], loop.back_bytes)
        where = w.local("i64", 8)
        w.line(f"store i64 0, ptr {where}")
        w.fall(f"next{k}")
        t = w.let(f"load i64, ptr {where}")
        w.line(f"br i1 {self._ask(block, loop, self._turns(t, carry, other)[0])}, label %go{k}, label %turn{k}")
        w.label(f"go{k}")
        rows.make_room(t, f"end{k}")
        old, new = self._turns(t, carry, other)
        self._call(loop, loop.body, *consts, *old, *new, *rows.at(t), *constants)
        w.line(f"store i64 {w.let(f'add i64 {t}, 1')}, ptr {where}")
        leave_at(w, loop.test.nanoseconds + loop.body.nanoseconds)(t, f"end{k}", f"next{k}")
        w.label(f"turn{k}")

        def step(i: str) -> None:
            old, new = self._turns(i, *ways)
            row = w.let(f"sub i64 {w.let(f'sub i64 {t}, 1')}, {i}")
            self._call(loop, loop.back, *consts, *rows.at(row), *old, *new, *more)

        w.loop("0", t, 1, step, leave_at(w, loop.back.nanoseconds))
        w.when(w.let(f"trunc i64 {t} to i1"), lambda: self._copy(ways[0], ways[1], loop.back_bytes))
        w.fall(f"end{k}")
        rows.end()

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
