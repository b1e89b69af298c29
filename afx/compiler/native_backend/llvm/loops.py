"""Loops as LLVM IR: of known length, while a condition holds, and back over the rows of residuals that such a loop leaves.

The carry of a loop moves between two pieces of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afx.compiler.native_backend.llvm.looks import Leave, leave_at, leave_long
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.loops import Body, Loop
from afx.compiler.native_backend.program import Block

__all__ = ["Loops", "Pointers", "pointers_of", "root_of"]

Pointers = Callable[[str, str], "list[str]"]
"""Returns the pointers that a block takes in the turn of a number, where memory that moves on is at a row."""


def root_of(w: Writer, block: Block, k: int) -> str:
    """Return the pointer to a block's memory of a number."""
    root = block.roots[k]
    return w.shifted("%arena" if root.param < 0 else f"%p{root.param}", root.offset)


def pointers_of(w: Writer, block: Block, body: Body, loop: Loop | None = None) -> Pointers:
    """Return what gives the pointers of a body, of a loop with a carry where that is given."""
    begins_behind = loop is not None and (loop.length or 0) % 2
    starts = [
        [root_of(w, block, root) for root in dict.fromkeys(reversed(arg.roots) if begins_behind else arg.roots)]
        for arg in body.args
    ]

    def pointers(t: str, row: str) -> list[str]:
        is_odd, found = "", list[str]()
        for arg, (pointer, *others) in zip(body.args, starts, strict=True):
            if others:
                is_odd = is_odd or w.let(f"trunc i64 {t} to i1")
                pointer = w.let(f"select i1 {is_odd}, ptr {others[0]}, ptr {pointer}")
            if loop is not None and arg.roots == (loop.rows,):
                pointer = w.let(f"load ptr, ptr {pointer}")
            if arg.stride:
                pointer = w.shifted(pointer, w.let(f"mul nsw i64 {row}, {arg.stride}"))
            found.append(w.shifted(pointer, arg.offset))
        return found

    return pointers


class Loops:
    """Emitter of loops within blocks; ``emit(block, name)`` adds the function of a block and returns its name."""

    def __init__(self, w: Writer, emit: Callable[[Block, str], str]) -> None:
        self.w = w
        self._emit = emit

    def add(self, block: Block, loop: Loop) -> None:
        """Add a loop; of odd length it begins in the second memory of the carry, so that it ends in the first."""
        self._copy(block, loop, loop.other if (loop.length or 0) % 2 else loop.carry, loop.init)
        if loop.verdict is not None:
            self._ask(block, loop, loop.verdict)
        elif loop.rows is not None:
            self._walk_back(block, loop)
        else:
            self._count(block, loop, str(loop.length), leave_long(self.w, loop.turns, loop.blocks()[0].nanoseconds))

    def _count(self, block: Block, loop: Loop, turns: str, leave: Leave | None) -> None:
        """Add so many turns."""
        w, (body,) = self.w, loop.bodies
        turn = self._turn(block, loop, body)
        last = w.let(f"sub nsw i64 {turns}, 1") if loop.reverse else ""
        w.loop("0", turns, 1, lambda t: turn(t, w.let(f"sub nsw i64 {last}, {t}") if loop.reverse else t), leave)

    def _ask(self, block: Block, loop: Loop, verdict: int) -> None:
        """Add turns while a condition holds, which leave rows where others walk back over them."""
        w, k = self.w, self.w.fresh()
        test, turn = [self._turn(block, loop, body) for body in loop.bodies]
        rows, holds, where = self._rows(block, loop), root_of(w, block, verdict), w.local("i64", 8)
        if rows:
            rows.begin()
        w.line(f"store i64 0, ptr {where}")
        w.fall(f"next{k}")
        t = w.let(f"load i64, ptr {where}")
        test(t, t)
        goes_on = w.let(f"icmp ne i8 {w.let(f'load i8, ptr {holds}')}, 0")
        w.line(f"br i1 {goes_on}, label %go{k}, label %done{k}")
        w.label(f"go{k}")
        if rows:
            rows.make_room(t, f"left{k}")
        turn(t, t)
        w.line(f"store i64 {w.let(f'add i64 {t}, 1')}, ptr {where}")
        leave_at(w, sum([b.nanoseconds for b in loop.blocks()]))(t, f"left{k}", f"next{k}")
        w.label(f"done{k}")
        if rows:
            rows.keep(t)
        self._end(block, loop, t)
        w.fall(f"left{k}")

    def _walk_back(self, block: Block, loop: Loop) -> None:
        """Add a turn for each row, from the last one on, and give their memory back."""
        rows = self._rows(block, loop)
        assert rows
        turns = rows.count()
        self._count(block, loop, turns, leave_at(self.w, loop.blocks()[0].nanoseconds))
        self._end(block, loop, turns)
        rows.end()

    def _turn(self, block: Block, loop: Loop, body: Body) -> Callable[[str, str], None]:
        """Return what calls a block in the turn of a number, at a row."""
        w, name, arena = self.w, self._emit(body.block, "body"), self.w.shifted("%arena", loop.arena)
        pointers = pointers_of(w, block, body, loop)

        def call(t: str, row: str) -> None:
            w.line(f"call void {name}({', '.join([f'ptr {p}' for p in (*pointers(t, row), arena, '%fault')])})")

        return call

    def _rows(self, block: Block, loop: Loop) -> _Rows | None:
        """Return the residuals of a loop that has some."""
        if loop.rows is None:
            return None
        size = max([arg.stride for arg in loop.residuals], default=0)
        return _Rows(self.w, root_of(self.w, block, loop.rows), size)

    def _end(self, block: Block, loop: Loop, turns: str) -> None:
        """Add what moves the last carry to its first memory, after an odd number of turns."""
        is_odd = self.w.let(f"trunc i64 {turns} to i1")
        self.w.when(is_odd, lambda: self._copy(block, loop, loop.carry, loop.other))

    def _copy(self, block: Block, loop: Loop, to: Sequence[int], of: Sequence[int]) -> None:
        w = self.w
        for a, b, size in zip(to, of, loop.carry_bytes, strict=True):
            if a != b:  # else a carry that stays in place
                w.copy(root_of(w, block, a), root_of(w, block, b), size)


class _Rows:
    """The residuals of one loop: the address of their rows, how many there is room for, and how many there are."""

    def __init__(self, w: Writer, state: str, size: int) -> None:
        self.w = w
        self._address, self._size = state, size
        self._room, self._count = [w.shifted(state, offset) for offset in (8, 16)]

    def begin(self) -> None:
        """Begin without rows."""
        self.w.line(f"store ptr null, ptr {self._address}")
        for number in (self._room, self._count):
            self.w.line(f"store i64 0, ptr {number}")

    def keep(self, count: str) -> None:
        """Note how many there are: none, where a loop ended early."""
        self.w.line(f"store i64 {count}, ptr {self._count}")

    def count(self) -> str:
        """Return how many there are."""
        return self.w.let(f"load i64, ptr {self._count}")

    def make_room(self, row: str, failed: str) -> None:
        """Have memory for a row, twice as much where there is none; where that is too much, note a fault and go to a label."""
        w, k = self.w, self.w.fresh()
        w.declare("realloc", "declare ptr @PyMem_RawRealloc(ptr, i64)")
        room = w.let(f"load i64, ptr {self._room}")
        w.line(f"br i1 {w.let(f'icmp slt i64 {row}, {room}')}, label %fits{k}, label %grow{k}")
        w.label(f"grow{k}")
        is_empty = w.let(f"icmp eq i64 {room}, 0")
        more = w.let(f"select i1 {is_empty}, i64 {w.limits.residuals_first_rows}, i64 {w.let(f'mul i64 {room}, 2')}")
        nbytes = w.let(f"mul i64 {more}, {self._size}")
        w.line(
            f"br i1 {w.let(f'icmp sgt i64 {nbytes}, {w.limits.residuals_max_bytes}')}, label %full{k}, label %take{k}"
        )
        w.label(f"take{k}")
        before = w.let(f"load ptr, ptr {self._address}")
        memory = w.let(f"call ptr @PyMem_RawRealloc(ptr {before}, i64 {nbytes})")
        w.line(f"br i1 {w.let(f'icmp eq ptr {memory}, null')}, label %full{k}, label %grown{k}")
        w.label(f"full{k}")
        w.line("store i64 1, ptr %fault")
        w.line(f"br label %{failed}")
        w.label(f"grown{k}")
        w.line(f"store ptr {memory}, ptr {self._address}")
        w.line(f"store i64 {more}, ptr {self._room}")
        w.line(f"br label %fits{k}")
        w.label(f"fits{k}")

    def end(self) -> None:
        """Give the memory back."""
        self.w.declare("free", "declare void @PyMem_RawFree(ptr)")
        self.w.line(f"call void @PyMem_RawFree(ptr {self.w.let(f'load ptr, ptr {self._address}')})")
        self.w.line(f"store ptr null, ptr {self._address}")
