"""Loops as LLVM IR: over axes, of known or unknown length, with looks at signals and other threads."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from afx.compiler.native_backend.llvm.writer import Flags, Writer, as_pointers
from afx.compiler.native_backend.program.elements import Ref, UfuncLoop
from afx.compiler.native_backend.program.interface import PARTS
from afx.compiler.native_backend.program.loops import Body, Loop
from afx.compiler.native_backend.program.steps import Block
from afx.compiler.target import NativeTarget
from afx.core import Shape

# --- Looks: running loops let Python see signals and other threads, as LLVM IR
#
# Each loop that may take long adds about how long its last steps took, by the cost of its body, to the time since the
# clock was read. Where that is some tenths of a millisecond, the clock is read; where that tells some milliseconds, a
# function of Python is called, in whose beginning Python runs signal handlers and hands its lock to others. Where a
# handler raises, all loops end, and the kernel hands the exception on. Threads that help look at the team's word
# alone.

# words of the state of a call, of which the first one holds faults: its sign tells that a handler raised
TEAM, THREAD, IS_FIRST, SPENT, LIMIT, CLOCK, LOOKED = 8, 16, 24, 32, 40, 48, 56
STATE_WORDS = 8
STOPPED = 272  # in a team's memory: whether all of its threads shall end
RAISED = -(1 << 63)

Leave = Callable[[str, str, str], None]
"""Adds the end of a step: of its number, where to go when the loop ends early, and where else."""


def steps_between(nanoseconds: float, limits: NativeTarget) -> int:
    """Return how many steps of a loop are counted together, a power of two.

    >>> [steps_between(ns, NativeTarget()) for ns in (30_000.0, 100.0)]
    [1, 256]
    """
    return 1 << max(0, math.ceil(math.log2(limits.look_count_nanoseconds / max(nanoseconds, 1e-3))))


def leave_at(w: Writer, nanoseconds: float, unit: int = 1) -> Leave:
    """Return a function that ends a step of so long of a loop whose number grows by ``unit``, a power of two."""
    return partial(_end_step, w, nanoseconds, unit)


def leave_long(w: Writer, length: int, nanoseconds: float, unit: int = 1) -> Leave | None:
    """Return the same for a loop of so many steps, None where that is short."""
    return leave_at(w, nanoseconds, unit) if length * nanoseconds >= w.limits.look_min_nanoseconds else None


def looking_axis(lengths: Sequence[int], nanoseconds: float, limits: NativeTarget) -> int:
    """Return which of nested loops looks: the innermost one that is long enough; -1 where none has to.

    >>> [looking_axis(n, 10.0, NativeTarget()) for n in ([1000, 3, 8], [8, 3, 10_000], [10, 10])]
    [0, 2, -1]
    """
    if math.prod(lengths) * nanoseconds < limits.look_min_nanoseconds:
        return -1
    for axis in reversed(range(len(lengths))):
        if lengths[axis] > 1 and steps_between(nanoseconds, limits) <= lengths[axis]:
            return axis
        nanoseconds *= lengths[axis]
    return -1


def _end_step(w: Writer, nanoseconds: float, unit: int, number: str, stop: str, go: str) -> None:
    """End a step of a loop: from time to time look whether Python has a signal, and stop where its handler raises."""
    if not w.has_python:
        w.line(f"br label %{go}")
        return
    w.looks = True
    steps = steps_between(nanoseconds, w.limits)
    if steps > 1:
        k, mask, last = w.fresh(), steps * unit - 1, (steps - 1) * unit
        is_due = w.let(f"icmp eq i64 {w.let(f'and i64 {number}, {mask}')}, {last}")
        w.line(f"br i1 {is_due}, label %look{k}, label %{go}")
        w.label(f"look{k}")
    raised = w.let(f"call i1 @look(ptr %fault, i64 {math.ceil(steps * nanoseconds)})")
    w.line(f"br i1 {raised}, label %{stop}, label %{go}")


class Looks:
    """Emitter of the functions that looks call, and of the state of a call."""

    def __init__(self, w: Writer, flags: Flags) -> None:
        self.w = w
        self.flags = flags

    def begin(self, state: str) -> None:
        """Set up the state of a call."""
        first = self.w.limits.look_first_nanoseconds
        for offset, value in ((IS_FIRST, 1), (SPENT, 0), (LIMIT, first), (CLOCK, 0), (LOOKED, 0), (THREAD, 0)):
            self._store(state, offset, str(value))

    def define(self) -> None:
        """Add the functions."""
        self.w.define("look", "internal i1 @look(ptr %fault, i64 %ns)", self._count)
        self.w.define("late", "internal i1 @look.late(ptr %fault) noinline cold", self._late)

    def _count(self) -> None:
        w = self.w
        spent = w.let(f"add i64 {self._load('%fault', SPENT)}, %ns")
        self._store("%fault", SPENT, spent)
        is_early = w.let(f"icmp slt i64 {spent}, {self._load('%fault', LIMIT)}")
        w.leave(is_early, "ret i1 false")
        w.line(f"ret i1 {w.let('call i1 @look.late(ptr %fault)')}")

    def _late(self) -> None:
        """Read the clock, and call Python where the last look was long ago."""
        w = self.w
        self._store("%fault", SPENT, "0")
        has_raised = w.let(f"icmp slt i64 {w.let('load i64, ptr %fault')}, 0")
        w.leave(has_raised, "ret i1 true")
        is_first = w.let(f"icmp ne i64 {self._load('%fault', IS_FIRST)}, 0")
        w.line(f"br i1 {is_first}, label %first, label %helper")
        w.label("helper")
        self._ask_team()
        w.label("first")
        now = self._read_clock()
        before = self._load("%fault", CLOCK)
        self._store("%fault", CLOCK, now)
        is_new, looked = w.let(f"icmp eq i64 {before}, 0"), w.shifted("%fault", LOOKED)
        w.leave(is_new, f"store i64 {now}, ptr {looked}", "ret i1 false")
        self._adapt(w.let(f"sub i64 {now}, {before}"))
        since = w.let(f"sub i64 {now}, {self._load('%fault', LOOKED)}")
        w.leave(w.let(f"icmp slt i64 {since}, {w.limits.look_every_nanoseconds}"), "ret i1 false")
        self._call_python()

    def _ask_team(self) -> None:
        """End where the first thread's handler raised."""
        w = self.w
        team = w.let(f"load ptr, ptr {w.shifted('%fault', TEAM)}")
        word = w.let(f"load atomic i64, ptr {w.shifted(team, STOPPED)} monotonic, align 8")
        is_over = w.let(f"icmp ne i64 {word}, 0")
        w.when(is_over, lambda: self._store("%fault", 0, str(RAISED)))
        w.line(f"ret i1 {is_over}")

    def _read_clock(self) -> str:
        w = self.w
        w.declare("clock_gettime", "declare i32 @clock_gettime(i32, ptr)")
        location = w.local("[2 x i64]", 8)
        w.line(f"%v{w.fresh()} = call i32 @clock_gettime(i32 {time.CLOCK_MONOTONIC}, ptr {location})")
        seconds = w.let(f"mul i64 {self._load(location, 0)}, 1000000000")
        return w.let(f"add i64 {seconds}, {self._load(location, 8)}")

    def _adapt(self, passed: str) -> None:
        """Change the limit, where the clock was read too soon or too late."""
        w, limits = self.w, self.w.limits
        limit = self._load("%fault", LIMIT)
        doubled, half = w.let(f"shl i64 {limit}, 1"), w.let(f"lshr i64 {limit}, 1")
        is_early = w.let(f"icmp slt i64 {passed}, {limits.look_read_min_nanoseconds}")
        is_late = w.let(f"icmp sgt i64 {passed}, {limits.look_read_max_nanoseconds}")
        new = w.let(
            f"select i1 {is_early}, i64 {doubled}, i64 {w.let(f'select i1 {is_late}, i64 {half}, i64 {limit}')}"
        )
        for comparison, bound in (("sgt", limits.look_max_nanoseconds), ("slt", limits.look_least_nanoseconds)):
            new = w.let(f"select i1 {w.let(f'icmp {comparison} i64 {new}, {bound}')}, i64 {bound}, i64 {new}")
        self._store("%fault", LIMIT, new)

    def _call_python(self) -> None:
        """Call Python's function with its lock, and end where that raised; what it computes leaves no flags."""
        w = self.w
        w.declare("save", "declare ptr @PyEval_SaveThread()")
        w.declare("restore", "declare void @PyEval_RestoreThread(ptr)")
        w.declare("call.python", "declare ptr @PyObject_CallNoArgs(ptr)")
        w.declare("decref", "declare void @Py_DecRef(ptr)")
        w.declare("python.look", "@python.look = external global i8")
        thread = w.let(f"load ptr, ptr {w.shifted('%fault', THREAD)}")
        is_away = w.let(f"icmp ne ptr {thread}, null")
        w.when(is_away, lambda: w.line(f"call void @PyEval_RestoreThread(ptr {thread})"))
        result = self.flags.keep_around(lambda: w.let("call ptr @PyObject_CallNoArgs(ptr @python.look)"))
        has_raised = w.let(f"icmp eq ptr {result}, null")
        w.when(w.let(f"xor i1 {has_raised}, true"), lambda: w.line(f"call void @Py_DecRef(ptr {result})"))

        def leave() -> None:
            w.line(f"store ptr {w.let('call ptr @PyEval_SaveThread()')}, ptr {w.shifted('%fault', THREAD)}")

        w.when(is_away, leave)
        w.when(has_raised, self._stop)
        self._store("%fault", LOOKED, self._read_clock())
        w.line(f"ret i1 {has_raised}")

    def _stop(self) -> None:
        """Have all loops end, those of threads that help too."""
        w = self.w
        self._store("%fault", 0, str(RAISED))
        self._store("%fault", LIMIT, "0")
        team = w.let(f"load ptr, ptr {w.shifted('%fault', TEAM)}")

        def tell() -> None:
            w.line(f"store atomic i64 1, ptr {w.shifted(team, STOPPED)} monotonic, align 8")

        w.when(w.let(f"icmp ne ptr {team}, null"), tell)

    def _load(self, state: str, offset: int) -> str:
        return self.w.let(f"load i64, ptr {self.w.shifted(state, offset)}")

    def _store(self, state: str, offset: int, value: str) -> None:
        self.w.line(f"store i64 {value}, ptr {self.w.shifted(state, offset)}")


# --- Nested loops as LLVM IR: over the axes of a space, with the pointers of operands moved along, and NumPy's inner
# loops


def start_of(w: Writer, ref: Ref) -> str:
    """Return the pointer to the first element."""
    return w.shifted(f"%r{ref.root}", ref.offset)


def over(
    w: Writer,
    space: Shape,
    refs: Sequence[Ref],
    body: Callable[[list[str]], None],
    first: int = 0,
    start: Sequence[str] | None = None,
    is_cut: bool = False,
    nanoseconds: float = 0.0,
) -> None:
    """Add loops over the outer axes, from the first one on; the body gets the operands' pointers.

    That over the first axis of a nest that is cut goes from ``%low`` to ``%high``. Where the body takes so many nanoseconds,
    one of the loops looks for signals.
    """
    lengths = [n // (PARTS if is_cut and k == 0 else 1) for k, n in enumerate(space)]
    looking = first + looking_axis(lengths[first:], nanoseconds, w.limits)

    def nested(axis: int, pointers: list[str]) -> None:
        if axis == len(space):
            body(pointers)
            return
        low, high = ("%low", "%high") if is_cut and axis == 0 else ("0", str(space[axis]))
        leave = leave_at(w, nanoseconds * math.prod(space[axis + 1 :])) if axis == looking >= first else None
        w.loop(low, high, 1, lambda i: nested(axis + 1, move(w, pointers, refs, axis, i)), leave)

    nested(first, [start_of(w, ref) for ref in refs] if start is None else list(start))


def move(w: Writer, pointers: Sequence[str], refs: Sequence[Ref], axis: int, i: str, unit: int = 1) -> list[str]:
    """Return the pointers to what lies so many units of elements further along an axis."""
    return [element_at(w, p, i, unit * ref.strides[axis]) for p, ref in zip(pointers, refs, strict=True)]


def element_at(w: Writer, pointer: str, i: str, stride: int) -> str:
    """Return the pointer to an element so many strides further."""
    return w.shifted(pointer, w.let(f"mul nsw i64 {i}, {stride}")) if stride else pointer


def call_loop(w: Writer, loop: UfuncLoop, pointers: Sequence[str], sizes: Sequence[str], steps: Sequence[int]) -> None:
    """Call a loop of NumPy: arrays of pointers, sizes and strides, and its own data.

    Loops of ``np.linalg`` and powers of integers have none; those that stand in for them note faults there.
    """
    w.declare(f"{loop.symbol}", f'declare void @"{loop.symbol}"(ptr, ptr, ptr, ptr)')
    notes_faults = loop.ufunc.startswith("linalg.") or (loop.ufunc == "power" and loop.dtypes[0][0] in "iu")
    data = "%fault" if notes_faults else "null"
    if loop.has_data and w.calls_numpy:
        data = f'@"{loop.symbol}.data"'
        w.declare(data, f"{data} = external global i8")
    args = _array(w, "ptr", pointers)
    counts = _array(w, "i64", sizes)
    strides = _array(w, "i64", [str(s) for s in steps])
    w.line(f'call void @"{loop.symbol}"(ptr {args}, ptr {counts}, ptr {strides}, ptr {data})')


def _array(w: Writer, kind: str, values: Sequence[str]) -> str:
    location = w.local(f"[{len(values)} x i64]", 16)  # eight bytes each, also where pointers have four
    for k, value in enumerate(values):
        w.line(f"store {kind} {value}, ptr {w.shifted(location, 8 * k)}")
    return location


# --- Loops as LLVM IR: of known length, while a condition holds, and back over the rows of residuals that such a loop
# leaves
#
# The carry of a loop moves between two pieces of memory. Of a few numbers both are on the stack, where LLVM finds registers
# for them: each turn reads the first one, and the second one is moved there behind it. So is a small arena of the turns.

STACK_BYTES = 64  # of a carry there
STACK_ARENA_BYTES = 512

Pointers = Callable[[str, str], "list[str]"]
"""Returns the pointers that a block takes in the turn of a number, where memory that moves on is at a row."""


def root_of(w: Writer, block: Block, k: int) -> str:
    """Return the pointer to a block's memory of a number."""
    root = block.roots[k]
    return w.shifted("%arena" if root.param < 0 else f"%p{root.param}", root.offset)


def pointers_of(
    w: Writer, block: Block, body: Body, loop: Loop | None = None, near: Mapping[int, str] = {}
) -> Pointers:
    """Return a function that gives the pointers of a body, whose loop may have a carry; ``near`` has roots on the stack."""
    begins_behind = loop is not None and (loop.length or 0) % 2
    starts = [
        [near[arg.roots[0]]]
        if arg.roots[0] in near
        else [root_of(w, block, root) for root in dict.fromkeys(reversed(arg.roots) if begins_behind else arg.roots)]
        for arg in body.args
    ]

    def pointers(t: str, row: str) -> list[str]:
        is_odd, moved = "", list[str]()
        for arg, (pointer, *others) in zip(body.args, starts, strict=True):
            if others:
                is_odd = is_odd or w.let(f"trunc i64 {t} to i1")
                pointer = w.let(f"select i1 {is_odd}, ptr {others[0]}, ptr {pointer}")
            if loop is not None and arg.roots == (loop.rows,):
                pointer = w.let(f"load ptr, ptr {pointer}")
            if arg.stride:
                pointer = w.shifted(pointer, w.let(f"mul nsw i64 {row}, {arg.stride}"))
            moved.append(w.shifted(pointer, arg.offset))
        return moved

    return pointers


class LoopEmitter:
    """Emitter of a loop within a block; ``emit(block, name)`` adds the function of a block and returns its name."""

    def __init__(self, w: Writer, emit: Callable[[Block, str], str], block: Block, loop: Loop) -> None:
        self.w = w
        self._emit = emit
        self._block = block
        self._loop = loop
        self._carries = list(zip(loop.carry, loop.other, loop.init, loop.carry_bytes, strict=True))
        sizes = {k: size for a, b, _, size in self._carries if size <= STACK_BYTES for k in (a, b)}
        self._near = {root: self._reserve(size) for root, size in sizes.items()}
        arena = max([block.arena for block in loop.blocks()])
        self._arena = self._reserve(arena) if arena <= STACK_ARENA_BYTES else w.shifted("%arena", loop.arena)

    def add(self) -> None:
        """Add the loop; of odd length it begins in the second memory of the carry, so that it ends in the first."""
        w, loop = self.w, self._loop
        for a, b, first, size in self._carries:
            if a in self._near:
                w.copy_few(self._near[a], self._root(first), size)
            else:
                self._copy(b if (loop.length or 0) % 2 else a, first, size)
        if loop.verdict is not None:
            self._ask(loop.verdict)
        elif loop.rows is not None:
            self._walk_back()
        else:
            self._count(str(loop.length), leave_long(w, loop.turns, loop.blocks()[0].nanoseconds))
        for a, _, _, size in self._carries:
            if a in self._near:
                w.copy_few(self._root(a), self._near[a], size)

    def _count(self, turns: str, leave: Leave | None) -> None:
        """Add so many turns."""
        w, (body,) = self.w, self._loop.bodies
        turn, is_reversed = self._turn(body), self._loop.reverse
        last = w.let(f"sub nsw i64 {turns}, 1") if is_reversed else ""
        w.loop("0", turns, 1, lambda t: turn(t, w.let(f"sub nsw i64 {last}, {t}") if is_reversed else t), leave)

    def _ask(self, verdict: int) -> None:
        """Add turns while a condition holds, which leave rows where others walk back over them."""
        w, k = self.w, self.w.fresh()
        test, turn = map(self._turn, self._loop.bodies)
        rows, holds, where = self._rows(), self._root(verdict), w.local("i64", 8)
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
        leave_at(w, sum([b.nanoseconds for b in self._loop.blocks()]))(t, f"left{k}", f"next{k}")
        w.label(f"done{k}")
        if rows:
            rows.keep(t)
        self._end(t)
        w.fall(f"left{k}")

    def _walk_back(self) -> None:
        """Add a turn for each row, from the last one on, and give their memory back."""
        rows = self._rows()
        assert rows
        turns = rows.count()
        self._count(turns, leave_at(self.w, self._loop.blocks()[0].nanoseconds))
        self._end(turns)
        rows.end()

    def _turn(self, body: Body) -> Callable[[str, str], None]:
        """Return a function that calls a block in the turn of a number, at a row; the last one moves carries of the stack on."""
        w, loop, near = self.w, self._loop, self._near
        name, pointers = self._emit(body.block, "body"), pointers_of(w, self._block, body, loop, near)
        moves = [c for c in self._carries if c[0] in near and c[0] != c[1] and body is loop.bodies[-1]]
        exchanged = {b: self._reserve(size) for _, b, _, size in moves if b in [a for a, *_ in moves]}

        def call(t: str, row: str) -> None:
            w.line(f"call void {name}({as_pointers([*pointers(t, row), self._arena, '%fault'])})")
            for _, b, _, size in moves:
                if b in exchanged:
                    w.copy_few(exchanged[b], near[b], size)
            for a, b, _, size in moves:
                w.copy_few(near[a], exchanged.get(b, near[b]), size)

        return call

    def _rows(self) -> _Rows | None:
        """Return the residuals of a loop that has some."""
        if self._loop.rows is None:
            return None
        size = max([arg.stride for arg in self._loop.residuals], default=0)
        return _Rows(self.w, self._root(self._loop.rows), size)

    def _end(self, turns: str) -> None:
        """Add what moves the last carry to its first memory, after an odd number of turns."""

        def copy() -> None:
            for a, b, _, size in self._carries:
                if a not in self._near:
                    self._copy(a, b, size)

        self.w.when(self.w.let(f"trunc i64 {turns} to i1"), copy)

    def _root(self, k: int) -> str:
        return root_of(self.w, self._block, k)

    def _copy(self, a: int, b: int, size: int) -> None:
        if a != b:  # else a carry that stays in place
            self.w.copy(self._root(a), self._root(b), size)

    def _reserve(self, nbytes: int) -> str:
        return self.w.local(f"[{nbytes} x i8]", 64)


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
