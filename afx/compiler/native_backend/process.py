"""Compile service: sends schedules to a child process, which answers with object code.

LLVM runs elsewhere because within this process it stalls NumPy calls, holds a process-wide lock, leaks memory, and
ends the program on a misuse. The child is started with the first job, or as soon as one is foreseen; it ends when it is
idle or its parent gone, and is started again when needed. A forked process starts its own.

A child that ends while it works, or that is not heard of for long (it says every half second that it is at work), is
killed and replaced; the job that it worked on is given up. Where the next one does the same before it has answered once,
nothing is compiled any longer.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import pkgutil
import queue
import selectors
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import attrs

from afx.compiler.native_backend.child import encode, receive, send, write
from afx.compiler.native_backend.failures import warn
from afx.compiler.target import DEFAULT, current

__all__ = ["CompileService", "Job", "service"]


@attrs.define(eq=False)
class Job:
    """A schedule or a module on its way through the compiler.

    Attributes:
        parts: what the child is told, behind the job's number.
        done: called in another thread with what was made, or None, and why there is nothing.
        rank: the smallest goes first: those that are awaited, then short ones.
        child: the process that it was sent to.
        is_repeated: whether it was sent before, to a process that ended without seeing it.
    """

    parts: tuple[Any, ...]
    done: Callable[[Any, str], None]
    rank: tuple[int, int] = (1, 0)
    child: subprocess.Popen[bytes] | None = None
    is_repeated: bool = False


WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1"}  # NumPy loads in three quarters of the time
FIRST = (-1, 0)  # rank of what is no job
CLOSED = "the compiling process was closed"


class StalledError(Exception):
    """A child that has work says nothing."""


class _Answers:
    """The pipe from a child, read with patience."""

    def __init__(self, pipe: IO[bytes], has_work: Callable[[], bool], patience: float) -> None:
        self._pipe = pipe
        self._has_work = has_work
        self._patience = patience
        self._selector = getattr(selectors, "PollSelector", selectors.SelectSelector)()
        self._selector.register(pipe, selectors.EVENT_READ)

    def read(self, count: int) -> bytes:
        """Return up to so many bytes."""
        while not self._selector.select(self._patience):
            if self._has_work() and not self._selector.select(
                min(current.target.service.grace_max_seconds, self._patience)
            ):
                raise StalledError(f"it has said nothing for {self._patience:g} seconds")
        return self._pipe.read(count)


class CompileService:
    """Child process that compiles, and the thread that waits for it."""

    def __init__(
        self, command: list[str] | None = None, patience: float = DEFAULT.service.patience_max_seconds
    ) -> None:
        self._command = command
        self._patience = patience
        self._ends = 0  # of children over their work since the last answer
        self._lock = threading.Lock()
        self._answered = threading.Condition(self._lock)
        self._child: subprocess.Popen[bytes] | None = None
        self._gone: subprocess.Popen[bytes] | None = None  # the last child whose end was seen
        self._collector: threading.Thread | None = None
        self._jobs: dict[int, Job] = {}
        self._count = 0
        self._handing_over = False
        self._outbox: queue.PriorityQueue[tuple[tuple[int, int], int, Any]] = queue.PriorityQueue()
        self._sent = itertools.count()
        self._writer: threading.Thread | None = None
        self.broken: str = ""  # why nothing is compiled any longer

    def start(self, modules: Sequence[str] = ()) -> None:
        """Start the child without waiting, as a job will come; of a schedule that needs these modules, where any are named."""
        with self._lock:
            if not self.broken and self.pid is None:
                self._send((tuple(modules),) if modules else (), FIRST)

    def submit(self, job: Job) -> None:
        """Compile without waiting; whatever goes wrong, ``job.done`` is called with None."""
        with self._lock:
            number = self._count = self._count + 1
            if not self.broken:
                self._jobs[number] = job
                self._send((number, *job.parts), job.rank)
            if not self.broken:
                return
            self._jobs.pop(number, None)
        job.done(None, self.broken)

    def _send(self, message: tuple[Any, ...] | None, rank: tuple[int, int]) -> None:
        self._outbox.put((rank, next(self._sent), message))
        if self._writer is None and message is not None:
            self._writer = threading.Thread(target=self._write, name="afx native jobs", daemon=True)
            try:
                self._writer.start()
            except RuntimeError as error:  # a system without threads, or without one more
                self._writer = None
                self._fail(f"no thread can be started ({error})")

    def _write(self) -> None:
        """Send jobs to the child, one at a time, so that a short one need not wait for all before it."""
        outbox = self._outbox
        while (message := outbox.get()[2]) is not None:
            if len(message) <= 1:
                with contextlib.suppress(Exception):  # the job that comes will meet it too
                    self._foresee(message)
                continue
            try:
                data = encode(message)
            except Exception as error:  # of a function that the user's code holds, say: this job's fault alone
                self._drop(message[0], f"another process cannot have what it holds ({error})")
                continue
            try:
                try:
                    self._hand_over(message[0], data)
                except (BrokenPipeError, ValueError):  # it has just ended, as it does when it was idle for long
                    self._hand_over(message[0], data)
            except Exception as error:
                with self._lock:
                    if message[0] in self._jobs and not self._is_closed():
                        self._fail(f"the compiling process cannot be started or reached ({error})")
                self._drop(message[0], self.broken or CLOSED)
            with self._answered:
                while not self._is_closed() and any(job.child is not None for job in self._jobs.values()):
                    self._answered.wait()

    def _foresee(self, message: tuple[Any, ...]) -> None:
        if not self._is_closed():
            child = self._running()
            if message and child.stdin is not None:
                send(child.stdin, message)

    def _hand_over(self, number: int, data: bytes) -> None:
        """Send a job to the child, which is started where none runs."""
        with self._lock:
            job = self._jobs.get(number)
        if job is None or self._is_closed():
            raise RuntimeError(CLOSED)
        child = self._running()
        assert child.stdin is not None
        try:
            write(child.stdin, data)
            with self._lock:
                if self._gone is child:
                    raise BrokenPipeError("nobody has read it")
                job.child = child
        except (BrokenPipeError, ValueError):
            child.wait()
            raise

    def _is_closed(self) -> bool:
        """Tell whether the writing thread that asks was sent away: then the child was killed on purpose."""
        return self._writer is not threading.current_thread()

    def _drop(self, number: int, reason: str) -> None:
        """End a job without a result."""
        with self._lock:
            job = self._jobs.pop(number, None)
        if job is not None:
            job.done(None, reason)

    @property
    def pid(self) -> int | None:
        """The child's number, None where none runs."""
        child = self._child
        return None if child is None or child.poll() is not None else child.pid

    @property
    def is_busy(self) -> bool:
        """Whether jobs are under way."""
        return bool(self._jobs) or self._handing_over

    def close(self) -> None:
        """End the child."""
        with self._answered:
            child, self._child = self._child, None
            writer, self._writer = self._writer, None
            self._send(None, FIRST)
            self._answered.notify_all()
        if child is not None:
            with contextlib.suppress(OSError):  # it may have ended by itself
                child.kill()
            child.wait()
            _close_pipe(child.stdin)
        if writer is not None and writer is not threading.current_thread():
            writer.join(5.0)
        if self._collector is not None and self._collector is not threading.current_thread():
            self._collector.join(5.0)  # linking must have ended before the interpreter does

    def forget(self) -> None:
        """Leave the child to the parent, in a process that was forked off."""
        child, self._child = self._child, None
        self._collector = None
        self._lock = threading.Lock()
        self._answered = threading.Condition(self._lock)
        self._outbox, self._writer = queue.PriorityQueue(), None
        self._jobs = {}
        if child is not None:
            child.returncode = 0  # it is no child of this process
            _close_pipe(child.stdin)
            _close_pipe(child.stdout)

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the child, started where none runs."""
        child = self._child
        if child is not None and child.poll() is None:
            return child
        if getattr(sys, "frozen", False) or not sys.executable:
            raise RuntimeError("this program is no Python interpreter that could start another one")
        child = self._child = subprocess.Popen(
            self._command or child_command(),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **WITHOUT_THREADS},
        )
        assert child.stdin is not None
        try:
            send(child.stdin, _search_path())
            self._collector = threading.Thread(
                target=self._collect, args=(child,), name="afx native compiler", daemon=True
            )
            self._collector.start()
        except (OSError, RuntimeError):
            child.kill()
            child.wait()  # so that the next attempt starts another one
            raise
        return child

    def _collect(self, child: subprocess.Popen[bytes]) -> None:
        """Take answers until the child ends, or is ended."""
        assert child.stdout is not None
        answers, reason = _Answers(child.stdout, lambda: bool(self._jobs), self._patience), ""
        try:
            while True:
                self._take(receive(answers))
        except (EOFError, OSError, ValueError):
            pass  # it ended
        except StalledError as error:
            reason = f"the compiling process was ended, as {error}"
        except Exception as error:  # no memory, or what cannot be imported here
            reason = f"an answer of the compiling process cannot be read ({type(error).__name__}: {error})"
        _end(child, at_once=bool(reason))
        self._leave(child, reason or f"the compiling process ended with code {child.returncode} while it compiled")

    def _take(self, answer: Any) -> None:
        """Hand over what was made of a job."""
        number, made, (error, reason) = answer
        with self._lock:
            job = self._jobs.pop(number, None)
            self._handing_over = job is not None
            self._ends = 0
            self._answered.notify_all()
        if error not in ("", "UnsupportedError"):
            warn("plan", f"a program could not be compiled ({error}: {reason})")
        if job is not None:
            try:
                job.done(made, reason)
            finally:
                self._handing_over = False

    def _leave(self, child: subprocess.Popen[bytes], reason: str) -> None:
        """Take leave of a child: the job that it worked on is given up, others go to the next one."""
        given_up = list[Job]()
        with self._lock:
            self._gone = child
            left = {number: job for number, job in self._jobs.items() if job.child is child}
            if self._child is not child:  # it was sent away
                given_up, reason = [self._jobs.pop(number) for number in left], CLOSED
                left = {}
            if left and (child.returncode != 0 or min(left.items())[1].is_repeated):
                given_up = [self._jobs.pop(min(left))]  # it works on jobs in their order
                left.pop(min(left))
                self._count_end(reason)
            for number, job in left.items():  # idle for long, it ended when they were sent, or worked on another one
                job.child, job.is_repeated = None, True
                if self.broken:
                    given_up.append(self._jobs.pop(number))
                else:
                    self._send((number, *job.parts), job.rank)
            self._answered.notify_all()
        for job in given_up:
            job.done(None, self.broken or reason)

    def _count_end(self, reason: str) -> None:
        self._ends += 1
        if self._ends >= current.target.service.child_max_ends:
            self._fail(reason)
        else:
            warn("plan", reason)

    def _fail(self, reason: str) -> None:
        self.broken = reason
        warn("compiler", reason)


def child_command() -> list[str]:
    """Return the command of a child: its file, or its text where afx lies in an archive."""
    path = Path(__file__).with_name("child.py")
    if path.is_file():
        return [sys.executable, "-I", str(path)]
    text = pkgutil.get_data(__package__ or "", "child.py")
    if text is None:
        raise RuntimeError("the program of the compiling process is not to be found")
    return [sys.executable, "-I", "-c", text.decode()]


def _search_path() -> list[str]:
    """Return where this process finds modules, an empty text spelt out."""
    found = [path for path in sys.path if path]
    if "" in sys.path:
        with contextlib.suppress(OSError):  # the working directory is gone
            found.append(os.getcwd())  # noqa: PTH109  # sys.path holds text
    return found


def _end(child: subprocess.Popen[bytes], at_once: bool) -> None:
    """Wait for a child that has closed its pipe; kill one that stays."""
    try:
        child.wait(0.0 if at_once else current.target.service.end_max_seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    _close_pipe(child.stdin)
    _close_pipe(child.stdout)


def _close_pipe(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        with contextlib.suppress(OSError):  # what is left in it has no reader
            pipe.close()


service: CompileService = CompileService()
atexit.register(service.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=service.forget)
