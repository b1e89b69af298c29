"""Compile service: sends schedules to a child process, which answers with object code."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import math
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from afx.compiler.native_backend.service.child import encode, llvm_is_idle, main, receive
from afx.compiler.native_backend.service.helper import RankedWorker, warn
from afx.compiler.target import DEFAULT, current

# --- Compiler jobs: functions that the compiling process takes by name, so that what they need is loaded there alone

_loading: list[threading.Thread] = []


# what takes longest to load, in pieces between which a job that needs LLVM alone is let go first
HEAVY = ("numpy", "attrs", "afx", *[f"afx.compiler.{name}" for name in (
    "schedule.schedule", "native_backend.program.steps", "native_backend.llvm.emit", "native_backend.lowering.lower",
)])  # fmt: skip


def load_compiler(modules: Sequence[str]) -> None:
    """Load the modules that make the primitives of schedules, and what compiles these, between jobs that need neither."""
    _loading.append(threading.Thread(target=_import, args=(modules,), daemon=True))
    _loading[-1].start()


def make_described(modules: Sequence[str], data: bytes, target: Any, folder: str, key: str) -> bytes:
    """Make the kernels of a schedule from its description; see `kept.describe`. Return them as they are kept."""
    make = _load(modules)
    schedule, where = pickle.loads(data)
    return pickle.dumps(make(schedule, target, where, folder, key), protocol=5)


def make_kernels(modules: Sequence[str], *args: Any) -> Any:
    """Make the kernels of a schedule whose primitives these modules make; see `unit.make_kernels` for its arguments."""
    return _load(modules)(*args)


def _load(modules: Sequence[str]) -> Callable[..., Any]:
    while _loading:
        _loading.pop().join()
    return _import(modules)


def _import(modules: Sequence[str]) -> Callable[..., Any]:
    for module in (*HEAVY, *modules):
        llvm_is_idle.wait()
        importlib.import_module(module)
    from afx.compiler.native_backend.service.unit import make_kernels

    return make_kernels


# --- Compile service
#
# LLVM runs elsewhere because within this process it stalls NumPy calls, holds a process-wide lock, leaks memory, and
# ends the program on a misuse. The child is started with the first job, or as soon as one is foreseen; it ends when
# it is idle or its parent gone, and is started again when needed. A forked process starts its own.
#
# One thread hands over one job at a time, so that a short one need not wait for all before it, and waits for the
# answer. A child that ends while it works, or that is not heard of for long (it says every half second that it is at
# work), is killed and replaced; its job is given up. Where the next one does the same before it has answered once,
# nothing is compiled any longer.

Done: TypeAlias = "Callable[[Any, str], None]"
Job: TypeAlias = "tuple[tuple[Any, ...], Done | None]"
"""A call for the child, and who takes what is made; nobody does where the call makes it ready for those to come."""

FIRST = (-1, 0)  # rank of what is foreseen
LAST = (2, 0)  # of what nobody waits for
CLOSED = "the compiling process was closed"


class _Child:
    """A compiling process, and the socket to it, which is used with patience."""

    def __init__(self, command: list[str], patience: float) -> None:
        self._patience = patience
        self._socket, theirs = socket.socketpair()
        try:
            with theirs:
                self.process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=theirs.fileno())
        except BaseException:
            self._socket.close()
            raise

    def ask(self, data: bytes, meanwhile: Callable[[], None]) -> tuple[Any, tuple[str, str]]:
        """Return the answer to a call, its error and the reason; do something else meanwhile.

        Raises:
            ConnectionResetError: its idle time was over as the call arrived.
            ConnectionAbortedError: it ended, or was ended, over its work.
        """
        try:
            self.write(data)
            meanwhile()
            made, (kind, reason) = receive(self)
        except TimeoutError as error:
            self.end()
            text = f"the compiling process was ended, as it has said nothing for {self._patience:g} seconds"
            raise ConnectionAbortedError(text) from error
        except (EOFError, OSError) as error:
            code = self.end(current.target.service.end_max_seconds)
            text = f"the compiling process ended with code {code} while it compiled"
            was_idle = code == 0 or isinstance(error, BrokenPipeError)
            raise (ConnectionResetError if was_idle else ConnectionAbortedError)(text) from error
        except Exception as error:  # no memory, or what cannot be imported here
            self.end()
            text = f"an answer of the compiling process cannot be read ({type(error).__name__}: {error})"
            raise ConnectionAbortedError(text) from error
        return made, (kind, reason)

    def write(self, data: bytes) -> None:
        """Write all bytes."""
        self._socket.settimeout(self._patience)
        self._socket.sendall(data)

    def read(self, count: int) -> bytes:
        """Return up to so many bytes, none where it has ended."""
        try:
            self._socket.settimeout(self._patience)
            return self._socket.recv(count)
        except TimeoutError:  # this process may have been stopped with the child
            self._socket.settimeout(min(current.target.service.grace_max_seconds, self._patience))
            return self._socket.recv(count)

    def end(self, seconds: float = 0.0) -> int:
        """Wait so long for it to end, else kill it; return its code."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.close()
        return self.process.wait()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class CompileService:
    """Child process that compiles, and the thread that waits for it."""

    def __init__(
        self, command: list[str] | None = None, patience: float = DEFAULT.service.patience_max_seconds
    ) -> None:
        self._command = command
        self._patience = patience
        self._child: _Child | None = None
        self._lock = threading.Lock()
        self._worker = self._new_worker()
        self._told: list[Callable[[], None]] = []  # tells of the last job
        self._begun = math.inf  # when the child was asked to import what lowers schedules
        self._ends = 0  # of children over their work since the last answer
        self.broken: str = ""  # why nothing is compiled any longer

    def _new_worker(self) -> RankedWorker[Job]:
        return RankedWorker("afx native compiler", self._do)

    def start(self) -> None:
        """Start the child, in some milliseconds, as a job will come."""
        with self._lock:
            if not self.broken and self.pid is None:
                with contextlib.suppress(Exception):  # what is wrong is the first job's to meet
                    self._child = self._begin()
                self._ask((), None, FIRST)

    def preload(self, modules: Sequence[str]) -> None:
        """Have the child import what schedules of these modules need, behind other jobs, once."""
        with self._lock:
            if not self.broken and math.isinf(self._begun):
                self._begun = time.perf_counter()
                self._ask((load_compiler, modules), None, LAST)

    def submit(self, call: tuple[Any, ...], done: Done | None, rank: tuple[int, int] = (1, 0)) -> None:
        """Compile without waiting.

        Args:
            call: what the child is told: a module as `compile_text` takes it, or a function and its arguments.
            done: called in another thread with what was made, or None, whatever goes wrong, and why there is nothing; None
                where nobody wants to know.
            rank: the smallest goes first: those that are awaited, then short ones.
        """
        with self._lock:
            if not self.broken:
                self._ask(call, done, rank)
            if not self.broken:
                return
        _tell(done, None, self.broken)

    def _ask(self, call: tuple[Any, ...], done: Done | None, rank: tuple[int, int]) -> None:
        try:
            self._worker.ask((call, done), rank)
        except RuntimeError as error:  # a system without threads, or without one more
            self.broken = f"no thread can be started ({error})"
            warn("compiler", self.broken)

    @property
    def pid(self) -> int | None:
        """The child's number, None where none runs."""
        child = self._child
        return None if child is None or child.process.poll() is not None else child.process.pid

    @property
    def is_warm(self) -> bool:
        """Whether the child has had the time to import what it needs."""
        return self.pid is not None and time.perf_counter() - self._begun >= current.target.service.warm_seconds

    @property
    def is_busy(self) -> bool:
        """Whether jobs are under way."""
        return self._worker.is_busy or bool(self._told)

    def close(self) -> None:
        """End the child."""
        with self._lock:
            child, self._child = self._child, None
            worker, self._worker = self._worker, self._new_worker()
        if child is not None:
            child.process.kill()
        for _, done in worker.close(current.target.service.end_max_seconds):  # linking must end before the interpreter
            _tell(done, None, CLOSED)
        if child is not None:
            child.end()

    def forget(self) -> None:
        """Leave the child to the parent, in a process that was forked off."""
        child, self._child, self._begun = self._child, None, math.inf
        self._lock, self._worker, self._told = threading.Lock(), self._new_worker(), []
        if child is not None:
            child.process.returncode = 0  # it is no child of this process
            child.close()

    # -- in the thread --
    def _do(self, job: Job) -> None:
        """Have a job done; what came of it is told while the child works on the next one, where one waits."""
        call, done = job
        self._told.append(partial(_tell, done, *self._compile(call, is_foreseen=done is None)))
        if not self._worker.waiting:
            self._tell()

    def _tell(self) -> None:
        while self._told:
            self._told.pop()()

    def _compile(self, call: tuple[Any, ...], *, is_foreseen: bool) -> tuple[Any, str]:
        """Return what the child makes, or None, and why there is nothing."""
        try:
            data = encode(call) if call else b""
        except Exception as error:  # of a function that the user's code holds, say: this job's fault alone
            return None, f"another process cannot have what it holds ({error})"
        reason = self.broken
        for may_repeat in () if reason else (True, False):
            is_last = False
            try:
                child = self._running()
                if not data:
                    break
                made, (kind, reason) = child.ask(data, self._tell)
            except ConnectionError as error:
                reason = str(error)
                if may_repeat and isinstance(error, ConnectionResetError):
                    continue
            except Exception as error:
                reason, is_last = f"the compiling process cannot be started or reached ({error})", True
            else:
                self._ends = 0
                if kind not in ("", "UnsupportedError") and not is_foreseen:
                    warn("plan", f"a program could not be compiled ({kind}: {reason})")
                return made, reason
            if not is_foreseen and not self._is_closed():
                self._note_end(reason, is_last)
            break
        return None, CLOSED if self._is_closed() else reason

    def _note_end(self, reason: str, is_last: bool) -> None:
        """Warn of a child that ended over a job that somebody waits for; too many in a row are the last ones."""
        self._ends += 1
        if is_last or self._ends >= current.target.service.child_max_ends:
            self.broken = reason
        warn("compiler" if self.broken else "plan", reason)

    def _is_closed(self) -> bool:
        """Tell whether the child was killed on purpose, and the thread that asks was sent away."""
        return self._worker.thread is not threading.current_thread()

    def _running(self) -> _Child:
        """Return the child, started where none runs."""
        with self._lock:
            child = self._child
            if child is None or child.process.poll() is not None:
                if self._is_closed():
                    raise RuntimeError(CLOSED)
                child = self._child = self._begin()
        return child

    def _begin(self) -> _Child:
        """Return a new child, in place of one that has ended, whose socket is closed."""
        if self._child is not None:
            self._child.close()
        if getattr(sys, "frozen", False) or not sys.executable:
            raise RuntimeError("this program is no Python interpreter that could start another one")
        child = _Child(self._command or child_command(), self._patience)
        self._begun = math.inf
        with contextlib.suppress(OSError):  # it has ended, which the job will meet too
            child.write(encode(_search_path()))
        return child


def _tell(done: Done | None, made: Any, reason: str) -> None:
    try:
        if done is not None:
            done(made, reason)
    except Exception as error:
        warn("plan", f"what was compiled could not be taken ({type(error).__name__}: {error})")


# under its own name, others of afx find it when they are loaded
BEGIN = "import sys; sys.path.insert(0, {}); import child; sys.modules[{}] = sys.modules.pop('child'); child.main()"


def child_command() -> list[str]:
    """Return the command of a child, which begins with its own module, and is told then where all others are."""
    return [sys.executable, "-I", "-c", BEGIN.format(repr(str(Path(__file__).parent)), repr(main.__module__))]


def _search_path() -> list[str]:
    """Return where this process finds modules, an empty text spelt out."""
    places = [path for path in sys.path if path]
    if "" in sys.path:
        with contextlib.suppress(OSError):  # the working directory is gone
            places.append(os.getcwd())  # noqa: PTH109  # sys.path holds text
    return places


service: CompileService = CompileService()
atexit.register(service.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=service.forget)
