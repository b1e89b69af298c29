"""Entry: the builtin function that Python calls, which looks at its arguments and runs a program's block.

It follows the fast calling convention of CPython (``METH_FASTCALL``) and reads the data pointers of NumPy arrays itself. It
returns -1 where an argument is not what the program was made for, or where an index or a conversion turns out to be NumPy's
to decide, else NumPy's numbers of the floating-point errors that were seen (1 divide, 2 over, 8 invalid). It raises what a
signal handler raised meanwhile. With one argument more it flushes denormals while it runs. Called with a team and a thread's
number alone, it helps this team.
"""

from __future__ import annotations

from afx.compiler.native_backend.llvm.flags import Flags, Layout
from afx.compiler.native_backend.llvm.looks import IS_FIRST, STATE_WORDS, TEAM, THREAD, Looks
from afx.compiler.native_backend.llvm.team import Team
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Param, Program

__all__ = ["Entry"]

CONTIGUOUS, ALIGNED = 1, 0x100  # NumPy's flags of arrays


class Entry:
    """Emitter of the builtin function."""

    def __init__(self, w: Writer, layout: Layout, program: Program) -> None:
        self.w = w
        self.layout = layout
        self.program = program
        self.flags: Flags = Flags(w, layout)

    def emit(self, name: str, main: str) -> None:
        """Add the function, which calls the program's block."""
        self.w.declare("long", "declare ptr @PyLong_FromLong(i64)")
        self.w.function(f"ptr @{name}(ptr %self, ptr %args, i64 %count)", lambda: self._body(main))

    def _body(self, main: str) -> None:
        w, program = self.w, self.program
        if program.block.is_shared:
            w.when(w.let("icmp eq i64 %count, 2"), self._help)
        for k, param in enumerate(program.params):
            if param.checked:
                self._check(self._array(k), param)
        pointers = [f"ptr {self._data(k)}" for k in range(len(program.params) + 1)]
        team = self._data(len(program.params) + 1) if program.block.is_shared else "null"
        fault = self._state(team)
        if w.looks:
            Looks(w, self.flags).begin(fault)
        pointers.append(f"ptr {fault}")
        self.flags.clear(str(self.flags.all))
        if program.releases_gil:
            self._declare_lock()
            w.line(f"store ptr {w.let('call ptr @PyEval_SaveThread()')}, ptr {w.shifted(fault, THREAD)}")
        flushes = w.let(f"icmp eq i64 %count, {len(program.params) + 2 + program.block.is_shared}")
        mode = self.flags.mode()
        w.when(flushes, lambda: self.flags.set_mode(str(self.flags.flush)))
        members = Team(w, self.flags)
        if program.block.is_shared:
            members.begin(team)
        w.call(main, ", ".join(pointers))
        found = self.flags.read()
        if program.block.is_shared:
            found = w.let(f"or i32 {found}, {members.end(team, fault)}")
        w.when(flushes, lambda: self.flags.set_mode(mode))
        if program.releases_gil:
            thread = w.let(f"load ptr, ptr {w.shifted(fault, THREAD)}")
            w.line(f"call void @PyEval_RestoreThread(ptr {thread})")
        if w.looks:
            w.leave(w.let(f"icmp slt i64 {w.let(f'load i64, ptr {fault}')}, 0"), "ret ptr null")  # Python has raised
        self._refuse_unless(f"icmp eq i64 {w.let(f'load i64, ptr {fault}')}, 0")
        w.line(f"ret ptr {w.let(f'call ptr @PyLong_FromLong(i64 {self._numbers(found)})')}")
        w.label("refuse")
        w.line(f"ret ptr {w.let('call ptr @PyLong_FromLong(i64 -1)')}")

    def _state(self, team: str) -> str:
        """Return the state of a call."""
        w = self.w
        fault = w.local(f"[{STATE_WORDS} x i64]", 8)
        w.line(f"store i64 0, ptr {fault}")
        w.line(f"store ptr {team}, ptr {w.shifted(fault, TEAM)}")
        return fault

    def _help(self) -> None:
        """Help a team, without Python's lock and without looks for signals, until there was nothing to do for long."""
        w = self.w
        team = self._data(0)
        number = w.let(f"load i64, ptr {self._data(1)}")
        fault = self._state(team)
        Looks(w, self.flags).begin(fault)
        w.line(f"store i64 0, ptr {w.shifted(fault, IS_FIRST)}")
        self._declare_lock()
        thread = w.let("call ptr @PyEval_SaveThread()")
        mode = self.flags.mode()
        Team(w, self.flags).help(team, number, fault)
        self.flags.set_mode(mode)
        w.line(f"call void @PyEval_RestoreThread(ptr {thread})")
        w.line(f"ret ptr {w.let('call ptr @PyLong_FromLong(i64 0)')}")
        w.label(f"over{w.fresh()}")

    def _declare_lock(self) -> None:
        self.w.declare("save", "declare ptr @PyEval_SaveThread()")
        self.w.declare("restore", "declare void @PyEval_RestoreThread(ptr)")

    def _numbers(self, found: str) -> str:
        """Return the processor's flags as NumPy's numbers."""
        w, total = self.w, "0"
        for flag, meaning in ((self.layout.divide, 1), (self.layout.over, 2), (self.layout.invalid, 8)):
            seen = w.let(f"icmp ne i32 {w.let(f'and i32 {found}, {flag}')}, 0")
            total = w.let(f"or i64 {total}, {w.let(f'select i1 {seen}, i64 {meaning}, i64 0')}")
        return total

    def _array(self, k: int) -> str:
        return self.w.let(f"load ptr, ptr {self.w.shifted('%args', 8 * k)}")

    def _field(self, array: str, offset: int, kind: str = "ptr") -> str:
        return self.w.let(f"load {kind}, ptr {self.w.shifted(array, self.layout.head + offset)}")

    def _data(self, k: int) -> str:
        return self._field(self._array(k), 0)

    def _kind(self, dtype: str) -> str:
        """Return kind, type and byte order of a dtype; those that were pickled are no single objects."""
        return self.w.let(f"and i32 {self._field(dtype, 8, 'i32')}, {0xFFFFFF}")

    def _check(self, array: str, param: Param) -> None:
        """Leave where an array is of another type, dtype, layout or shape."""
        w = self.w
        w.declare("ndarray", '@"type.ndarray" = external global i8')
        w.declare(f"dtype.{param.dtype}", f'@"dtype.{param.dtype}" = external global i8')
        self._refuse_unless(f'icmp eq ptr {self._field(array, -8)}, @"type.ndarray"')
        given, wanted = [self._kind(dtype) for dtype in (self._field(array, 40), f'@"dtype.{param.dtype}"')]
        self._refuse_unless(f"icmp eq i32 {given}, {wanted}")
        flags = w.let(f"and i32 {self._field(array, 48, 'i32')}, {CONTIGUOUS | ALIGNED}")
        self._refuse_unless(f"icmp eq i32 {flags}, {CONTIGUOUS | ALIGNED}")
        self._refuse_unless(f"icmp eq i32 {self._field(array, 8, 'i32')}, {len(param.shape)}")
        if param.shape:
            lengths = self._field(array, 16)
            for axis, length in enumerate(param.shape):
                found = w.let(f"load i64, ptr {w.shifted(lengths, 8 * axis)}")
                self._refuse_unless(f"icmp eq i64 {found}, {length}")

    def _refuse_unless(self, condition: str) -> None:
        k = self.w.fresh()
        self.w.line(f"br i1 {self.w.let(condition)}, label %fine{k}, label %refuse")
        self.w.label(f"fine{k}")
