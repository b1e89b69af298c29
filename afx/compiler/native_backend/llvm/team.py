"""Teams as LLVM IR: threads that share the parts of a job, while one of them runs the program.

The thread that runs the program publishes a job, a function with its arguments, and takes parts of it until none is left.
Helpers watch for jobs and take parts too. A part is taken by exchanging the ticket, one word with the job's number and the
parts that are left: so a part is taken once, and what a helper reads belongs to the job. The thread waits for no helper but
one that has taken a part. All threads call the same function; the one that the team names runs the program.
"""

from __future__ import annotations

from collections.abc import Callable

from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import PARTS

__all__ = ["ARRIVED", "CALLER", "ENDED", "JOB", "MEMBERS", "TEAM_BYTES", "TICKET", "Team"]

# bytes of the team's memory: what helpers watch lies in one line of the cache
TICKET, ENDED, WORK, ARGUMENTS = 0, 8, 16, 24
DONE, MEMBERS, ARRIVED, CALLER = 128, 256, 264, 280  # and before the last one `STOPPED`
TEAM_BYTES = 384
JOB = 1 << 16  # in the ticket: the job's number; below it the end of the parts that are left, and the first one


class Team:
    """Emitter of what threads do together; ``%fault`` of each function points to its faults, and behind them to the team."""

    def __init__(self, w: Writer, is_x86: bool) -> None:
        self.w = w
        self._pause = "call void @llvm.x86.sse2.pause()" if is_x86 else "call void @llvm.aarch64.hint(i32 1)"
        self._declaration = "declare void @llvm.x86.sse2.pause()" if is_x86 else "declare void @llvm.aarch64.hint(i32)"

    def share(self, part: str, args: str) -> None:
        """Add a job: a function ``part(args, first part, behind the last one, thread, fault)`` for all of its parts."""
        w = self.w
        w.define("share", "internal void @share(ptr %team, ptr %part, ptr %args, ptr %fault) noinline", self._share)
        team = w.let(f"load ptr, ptr {w.shifted('%fault', 8)}")
        w.line(f"call void @share(ptr {team}, ptr {part}, ptr {args}, ptr %fault)")

    def arrive(self, team: str) -> str:
        """Return the number of this thread among those that help, from 1 on."""
        before = self.w.let(f"atomicrmw add ptr {self.w.shifted(team, ARRIVED)}, i64 1 acq_rel")
        return self.w.let(f"add i64 {before}, 1")

    def is_caller(self, team: str) -> str:
        """Tell whether this thread runs the program."""
        self.w.declare("ident", "declare i64 @PyThread_get_thread_ident()")
        own = self.w.let("call i64 @PyThread_get_thread_ident()")
        return self.w.let(f"icmp eq i64 {own}, {self.w.let(f'load i64, ptr {self.w.shifted(team, CALLER)}')}")

    def help(self, team: str, number: str, fault: str) -> None:
        """Have this thread help until the program has ended."""
        self.w.define("help", "internal void @help(ptr %team, i64 %thread, ptr %fault) noinline", self._help)
        self.w.line(f"call void @help(ptr {team}, i64 {number}, ptr {fault})")

    def end(self, team: str) -> None:
        """Send the helpers away."""
        self._store(team, ENDED, "1", "release")

    # -- functions ----------------------------------------------------------------------------------------------------
    def _share(self) -> None:
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
        self._store("%team", DONE, "0", "monotonic")
        self._store("%team", TICKET, w.let(f"or i64 {number}, {PARTS << 8}"), "release")
        self._take("%team", "0", "%fault")

        def is_waiting(_pauses: str) -> str:
            return w.let(f"icmp ne i64 {self._load('%team', DONE, 'acquire')}, {PARTS}")

        self._spin(is_waiting, self._look)
        w.line("ret void")

    def _help(self) -> None:
        """Take parts of jobs until the end, or until there was none for long."""
        w = self.w
        w.line("br label %watch")
        w.label("watch")

        def is_waiting(pauses: str) -> str:
            is_over = w.let(f"icmp ne i64 {self._load('%team', ENDED, 'acquire')}, 0")
            left = self._left(self._load("%team", TICKET, "monotonic"))
            is_patient = w.let(f"icmp slt i64 {pauses}, {w.limits.help_max_pauses}")
            idle = w.let(f"xor i1 {w.let(f'or i1 {is_over}, {left}')}, true")
            return w.let(f"and i1 {idle}, {is_patient}")

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
        behind = w.let(f"add i64 {part}, 1")
        w.line(f"call void {work}(ptr {args}, i64 {part}, i64 {behind}, i64 %thread, ptr %fault)")
        w.line(f"%v{w.fresh()} = atomicrmw add ptr {w.shifted('%team', DONE)}, i64 1 release")
        w.line("br label %next")
        w.label("done")
        w.line("ret void")

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
