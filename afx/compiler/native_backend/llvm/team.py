"""Teams and entries as LLVM IR: threads that share a job's parts, and the builtin function that Python calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from afx.compiler.native_backend.llvm.loops import IS_FIRST, STATE_WORDS, STOPPED, TEAM, THREAD, Looks
from afx.compiler.native_backend.llvm.writer import Addresses, Flags, Writer
from afx.compiler.native_backend.program.interface import PARTS, Param
from afx.compiler.native_backend.program.steps import Program

# --- Teams as LLVM IR: threads that share the parts of a job, while one of them runs the program
#
# The thread that runs the program publishes a job, a function with its arguments, and takes parts of it until none is
# left. Helpers watch for jobs and take parts too. A part is taken by exchanging the ticket, one word with the job's
# number and the parts that are left: so a part is taken once, and what a helper reads belongs to the job. The thread
# waits for no helper but one that has taken a part. A helper goes on watching for a while when a program has ended,
# as waking it up takes longer than many programs: it takes parts of whichever program its team runs next. Errors that
# it meets it leaves in the team's memory.

# bytes of the team's memory: what helpers watch lies in one line of the cache
TICKET, ENDED, WORK, ARGUMENTS, DISMISSED, MODE = 0, 8, 16, 24, 32, 40
DONE, FAULTS, ERRORS, MEMBERS = 128, 136, 144, 256  # and behind the last one `STOPPED`
TEAM_BYTES = 384
JOB = 1 << 16  # in the ticket: the job's number; below it the end of the parts that are left, and the first one


class Team:
    """Emitter of what threads do together; ``%fault`` of each function points to its faults, and behind them to the team."""

    def __init__(self, w: Writer, flags: Flags) -> None:
        self.w = w
        self.flags = flags
        is_x86 = flags.layout.x86
        self._pause = "call void @llvm.x86.sse2.pause()" if is_x86 else "call void @llvm.aarch64.hint(i32 1)"
        self._declaration = "declare void @llvm.x86.sse2.pause()" if is_x86 else "declare void @llvm.aarch64.hint(i32)"

    def share(self, part: str, args: str) -> None:
        """Add a job: a function ``part(args, first part, behind the last one, thread, fault)`` for all of its parts."""
        w = self.w
        w.define("share", "internal void @share(ptr %team, ptr %part, ptr %args, ptr %fault) noinline", self._share)
        team = w.let(f"load ptr, ptr {w.shifted('%fault', 8)}")
        w.line(f"call void @share(ptr {team}, ptr {part}, ptr {args}, ptr %fault)")

    def begin(self, team: str) -> None:
        """Forget what became of the team's last program."""
        for word in (STOPPED, FAULTS, ERRORS, ENDED):
            self._store(team, word, "0", "monotonic")

    def end(self, team: str, fault: str) -> str:
        """Tell helpers that there are no more jobs; add their faults to the caller's, and return the errors that they met."""
        w = self.w
        self._store(team, ENDED, "1", "monotonic")
        more, seen = self._load(team, FAULTS, "monotonic"), w.let(f"load i64, ptr {fault}")
        w.line(f"store i64 {w.let(f'or i64 {seen}, {more}')}, ptr {fault}")
        return w.let(f"trunc i64 {self._load(team, ERRORS, 'monotonic')} to i32")

    def help(self, team: str, number: str, fault: str) -> None:
        """Have this thread, which has this number among those that help, take parts until there was none for long."""
        self.w.define("help", "internal void @help(ptr %team, i64 %thread, ptr %fault) noinline", self._help)
        self.w.line(f"call void @help(ptr {team}, i64 {number}, ptr {fault})")

    # -- functions ----------------------------------------------------------------------------------------------------
    def _share(self) -> None:
        """Have a team run the parts of a job: publish it, take parts as the others do, and wait until all are done."""
        w = self.w
        ticket = w.let(f"add i64 {self._load('%team', TICKET, 'monotonic')}, {JOB}")
        number = w.let(f"and i64 {ticket}, {-JOB}")
        members = w.let(f"load i64, ptr {w.shifted('%team', MEMBERS)}")
        w.line(f"br i1 {w.let(f'icmp slt i64 {members}, 2')}, label %alone, label %together")
        w.label("alone")
        self._store("%team", TICKET, number, "monotonic")
        w.line(f"call void %part(ptr %args, i64 0, i64 {PARTS}, i64 0, ptr %fault)")
        w.line("ret void")
        w.label("together")
        w.line(f"store ptr %part, ptr {w.shifted('%team', WORK)}")
        w.line(f"store ptr %args, ptr {w.shifted('%team', ARGUMENTS)}")
        w.line(f"store i64 {self.flags.mode()}, ptr {w.shifted('%team', MODE)}")
        self._store("%team", DONE, "0", "monotonic")
        self._store("%team", TICKET, w.let(f"or i64 {number}, {PARTS << 8}"), "release")
        self._take("%team", "0", "%fault")

        def is_waiting(_pauses: str) -> str:
            return w.let(f"icmp ne i64 {self._load('%team', DONE, 'acquire')}, {PARTS}")

        self._spin(is_waiting, self._look)
        w.line("ret void")

    def _help(self) -> None:
        """Take parts of jobs until there was none for long: less long where no program runs, none where others wait."""
        w = self.w
        w.line("br label %watch")
        w.label("watch")

        def is_waiting(pauses: str) -> str:
            is_over = w.let(f"icmp ne i64 {self._load('%team', ENDED, 'monotonic')}, 0")
            patience = w.let(f"select i1 {is_over}, i64 {w.limits.rest_max_pauses}, i64 {w.limits.help_max_pauses}")
            dismissed = self._load("%team", DISMISSED, "monotonic")
            most = w.let(f"select i1 {w.let(f'icmp eq i64 {dismissed}, 0')}, i64 {patience}, i64 0")
            idle = w.let(f"xor i1 {self._left(self._load('%team', TICKET, 'monotonic'))}, true")
            return w.let(f"and i1 {idle}, {w.let(f'icmp slt i64 {pauses}, {most}')}")

        self._spin(is_waiting)
        has_job = self._left(self._load("%team", TICKET, "monotonic"))
        w.line(f"br i1 {has_job}, label %help, label %leave")
        w.label("help")
        self._take("%team", "%thread", "%fault")
        w.line("br label %watch")
        w.label("leave")
        w.line("ret void")

    def _left(self, ticket: str) -> str:
        """Tell whether parts are left."""
        return self.w.let(f"icmp ult i64 {self._first(ticket)}, {self._end(ticket)}")

    def _first(self, ticket: str) -> str:
        return self.w.let(f"and i64 {ticket}, 255")

    def _end(self, ticket: str) -> str:
        return self.w.let(f"and i64 {self.w.let(f'lshr i64 {ticket}, 8')}, 255")

    def _take(self, team: str, thread: str, fault: str) -> None:
        """Call the function that takes parts until none is left."""
        self.w.define("take", "internal void @take(ptr %team, i64 %thread, ptr %fault) noinline", self._taking)
        self.w.line(f"call void @take(ptr {team}, i64 {thread}, ptr {fault})")

    def _taking(self) -> None:
        """Take the first part that is left, or the last one, where a thread's number is odd: what it touched before."""
        w = self.w
        w.line("br label %next")
        w.label("next")
        ticket = self._load("%team", TICKET, "acquire")
        w.line(f"br i1 {self._left(ticket)}, label %take, label %done")
        w.label("take")
        is_odd = w.let("trunc i64 %thread to i1")
        first, last = self._first(ticket), w.let(f"sub i64 {self._end(ticket)}, 1")
        part = w.let(f"select i1 {is_odd}, i64 {last}, i64 {first}")
        change = w.let(f"select i1 {is_odd}, i64 -256, i64 1")
        new = w.let(f"add i64 {ticket}, {change}")
        pair = w.let(f"cmpxchg ptr %team, i64 {ticket}, i64 {new} acq_rel monotonic")
        w.line(f"br i1 {w.let(f'extractvalue {{ i64, i1 }} {pair}, 1')}, label %run, label %next")
        w.label("run")
        work = w.let(f"load ptr, ptr {w.shifted('%team', WORK)}")
        args = w.let(f"load ptr, ptr {w.shifted('%team', ARGUMENTS)}")
        end = w.let(f"add i64 {part}, 1")
        helps = w.let("icmp ne i64 %thread, 0")
        w.when(helps, self._forget)
        w.line(f"call void {work}(ptr {args}, i64 {part}, i64 {end}, i64 %thread, ptr %fault)")
        w.when(helps, self._leave_errors)
        w.line(f"%v{w.fresh()} = atomicrmw add ptr {w.shifted('%team', DONE)}, i64 1 release")
        w.line("br label %next")
        w.label("done")
        w.line("ret void")

    def _forget(self) -> None:
        """Forget a helper's faults and flags; denormals are to it what they are to the thread that it helps."""
        w = self.w
        w.line("store i64 0, ptr %fault")
        self.flags.clear(str(self.flags.all))
        self.flags.set_mode(w.let(f"load i64, ptr {w.shifted('%team', MODE)}"))

    def _leave_errors(self) -> None:
        """Leave a helper's faults and flags in the team's memory."""
        w = self.w
        flags = w.let(f"zext i32 {w.let(f'and i32 {self.flags.read()}, {self.flags.all}')} to i64")
        for word, seen in ((FAULTS, w.let("load i64, ptr %fault")), (ERRORS, flags)):
            place = w.shifted("%team", word)
            is_new = w.let(f"icmp ne i64 {seen}, 0")
            w.when(is_new, partial(self._add, place, seen))

    def _add(self, place: str, seen: str) -> None:
        self.w.line(f"%v{self.w.fresh()} = atomicrmw or ptr {place}, i64 {seen} monotonic")

    def _look(self) -> None:
        """Let Python see signals; helpers hear what comes of it, and end."""
        self.w.looks = True
        self.w.line(f"%v{self.w.fresh()} = call i1 @look(ptr %fault, i64 {self.w.limits.yield_nanoseconds})")

    def _spin(self, is_waiting: Callable[[str], str], look: Callable[[], None] = lambda: None) -> None:
        """Pause while something is waited for, which is asked with the number of pauses so far."""
        w, k = self.w, self.w.fresh()
        w.declare("pause", self._declaration)
        w.declare("sched_yield", "declare i32 @sched_yield()")
        pauses = w.local("i64", 8)
        w.line(f"store i64 0, ptr {pauses}")
        w.line(f"br label %ask{k}")
        w.label(f"ask{k}")
        count = w.let(f"load i64, ptr {pauses}")
        w.line(f"br i1 {is_waiting(count)}, label %pause{k}, label %over{k}")
        w.label(f"pause{k}")
        w.line(self._pause)
        more = w.let(f"add i64 {count}, 1")
        w.line(f"store i64 {more}, ptr {pauses}")
        is_long = w.let(f"icmp eq i64 {w.let(f'and i64 {more}, {w.limits.yield_pauses - 1}')}, 0")

        def give_way() -> None:
            w.line(f"%v{w.fresh()} = call i32 @sched_yield()")
            look()

        w.when(is_long, give_way)
        w.line(f"br label %ask{k}")
        w.label(f"over{k}")

    def _load(self, team: str, offset: int, order: str) -> str:
        return self.w.let(f"load atomic i64, ptr {self.w.shifted(team, offset)} {order}, align 8")

    def _store(self, team: str, offset: int, value: str, order: str) -> None:
        self.w.line(f"store atomic i64 {value}, ptr {self.w.shifted(team, offset)} {order}, align 8")


# --- Entry: the builtin function that Python calls, which looks at its arguments and runs a program's block
#
# It follows the fast calling convention of CPython (``METH_FASTCALL``) and reads the data pointers of NumPy arrays
# itself. It returns -1 where an argument is not what the program was made for, or where an index or a conversion
# turns out to be NumPy's to decide (without NumPy less than that by the fault), else NumPy's numbers of the
# floating-point errors that were seen (1 divide, 2 over, 8 invalid). It raises what a signal handler raised
# meanwhile. With one argument more it flushes denormals while it runs. Called with a team and a thread's number
# alone, it helps this team.

CONTIGUOUS, ALIGNED = 1, 0x100  # NumPy's flags of arrays


class KernelEntry:
    """Emitter of the builtin function."""

    def __init__(self, w: Writer, layout: Addresses, program: Program) -> None:
        self.w = w
        self.layout = layout
        self.program = program
        self.flags: Flags = Flags(w, layout)

    def emit(self, name: str, main: str) -> None:
        """Add the function, which calls the program's block."""
        self.w.declare("long", "declare ptr @PyLong_FromLong(i64)")
        self.w.function(f"ptr @{name}(ptr %self, ptr %args, i64 %count)", lambda: self._body(main))

    def _body(self, main: str) -> None:
        """Write what Python calls: arguments are checked, the lock is released, the program runs, errors are answered."""
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
        errors = self._run(main, pointers, team, fault)
        if program.releases_gil:
            thread = w.let(f"load ptr, ptr {w.shifted(fault, THREAD)}")
            w.line(f"call void @PyEval_RestoreThread(ptr {thread})")
        if w.looks:
            w.leave(w.let(f"icmp slt i64 {w.let(f'load i64, ptr {fault}')}, 0"), "ret ptr null")  # Python has raised
        self._answer(fault, errors)

    def _run(self, main: str, pointers: Sequence[str], team: str, fault: str) -> str:
        """Call the program, by all members of its team, in the mode that the number of arguments asks for; return the flags."""
        w, block = self.w, self.program.block
        flushes = w.let(f"icmp eq i64 %count, {len(self.program.params) + 2 + block.is_shared}")
        mode = self.flags.mode()
        w.when(flushes, lambda: self.flags.set_mode(str(self.flags.flush)))
        members = Team(w, self.flags)
        if block.is_shared:
            members.begin(team)
        w.call(main, ", ".join(pointers))
        errors = self.flags.read()
        if block.is_shared:
            errors = w.let(f"or i32 {errors}, {members.end(team, fault)}")
        w.when(flushes, lambda: self.flags.set_mode(mode))
        return errors

    def _answer(self, fault: str, errors: str) -> None:
        """Return the number of the floating-point errors, or what refuses the call."""
        w = self.w
        seen = w.let(f"load i64, ptr {fault}")
        is_fine, refusal = w.let(f"icmp eq i64 {seen}, 0"), "-1" if w.calls_numpy else w.let(f"xor i64 {seen}, -1")
        number = w.let(f"select i1 {is_fine}, i64 {self._numbers(errors)}, i64 {refusal}")
        w.line(f"ret ptr {w.let(f'call ptr @PyLong_FromLong(i64 {number})')}")
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

    def _numbers(self, flags: str) -> str:
        """Return the processor's flags as NumPy's numbers."""
        w, total = self.w, "0"
        for flag, meaning in ((self.layout.divide, 1), (self.layout.over, 2), (self.layout.invalid, 8)):
            seen = w.let(f"icmp ne i32 {w.let(f'and i32 {flags}, {flag}')}, 0")
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
                actual = w.let(f"load i64, ptr {w.shifted(lengths, 8 * axis)}")
                self._refuse_unless(f"icmp eq i64 {actual}, {length}")

    def _refuse_unless(self, condition: str) -> None:
        k = self.w.fresh()
        self.w.line(f"br i1 {self.w.let(condition)}, label %fine{k}, label %refuse")
        self.w.label(f"fine{k}")
