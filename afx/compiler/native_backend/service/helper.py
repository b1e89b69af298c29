"""Helper: the thread that hands plans to the compiler, the folder of kept code, and reasons of failures."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import queue
import stat
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Literal, TypeVar

# --- Failures of the compiler and their reasons: the user hears of each kind once, and the logger ``afx.jit``;
# NumPy's plans run

# why a plan has no machine code
FASTER_BY_NUMPY = "NumPy's calls were faster"
NOT_INSTALLED = "the extra native (llvmlite) is not installed"
TOO_LONG = "it is too long"
UNKNOWN_HERE = "this Python or processor is not known to the native back end"
REFUSED = (
    "machine code left {} calls in a row to NumPy's plan: their floating-point errors, indices or arguments were NumPy's to "
    "judge"
)

_WARNED: list[str] = []  # the kinds of which was told


def warn(kind: Literal["plan", "compiler"], reason: str) -> None:
    """Warn once a process of plans that are not compiled, and once that none is compiled any longer."""
    if kind not in _WARNED:
        _WARNED.append(kind)
        whole = "NumPy plans without machine code" if kind == "compiler" else "a NumPy plan without machine code"
        with contextlib.suppress(RuntimeWarning):  # warnings may be errors: not for the thread that waits
            warnings.warn(f"afx runs {whole}: {reason}", RuntimeWarning, stacklevel=2)


def log(message: str, *, is_asked: bool) -> None:
    """Write to the logger ``afx.jit``: a warning where machine code was asked for, else an info, if logging is loaded."""
    logging = importlib.import_module("logging") if is_asked else sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("afx.jit").log(logging.WARNING if is_asked else logging.INFO, "%s", message)


# --- Code folder: where machine code is kept between processes, by default in the user's cache folder
#
# The environment variable ``AFX_CODE_CACHE`` names another folder, or none as ``0``; `afx.set_code_cache` comes
# before both.

_chosen: list[str] = []  # the folder, an empty text for none; nothing before it is asked for


def code_folder() -> str:
    """Return the folder, an empty text where nothing is kept."""
    if not _chosen:
        _chosen.append(_default_folder(os.environ.get("AFX_CODE_CACHE")))
    return _chosen[0]


def open_folder(folder: Path) -> str:
    """Make a folder for the user alone; return why it cannot hold code, an empty text where it can."""
    if not hasattr(os, "getuid"):
        return "this system does not tell whose a folder is"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        return str(error)
    if not stat.S_ISDIR(status.st_mode):
        return "it is no folder"
    if status.st_uid != os.getuid():
        return "it belongs to another user"
    return "others may use it (its mode should be 0700)" if stat.S_IMODE(status.st_mode) & 0o077 else ""


def choose_folder(folder: str) -> None:
    """Keep machine code in a folder from now on; an empty text stands for none."""
    _chosen[:] = [folder]


def _default_folder(setting: str | None) -> str:
    if setting == "0":
        return ""
    try:
        if setting:
            folder = Path(setting).expanduser().absolute()
            if reason := open_folder(folder):
                log(f"AFX_CODE_CACHE: {folder} cannot hold code: {reason}; machine code is not kept", is_asked=True)
                return ""
            return str(folder)
        return str(_cache_home() / "afx")
    except (OSError, RuntimeError):  # a user without a home, or a working directory that is gone
        return ""


def _cache_home() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    named = Path(os.environ.get("XDG_CACHE_HOME") or "")
    return named if named.is_absolute() else Path.home() / ".cache"


# --- Helper: a thread that does tasks in the order of their ranks

T = TypeVar("T")


class RankedWorker(Generic[T]):
    """A thread, started with its first task, and the tasks that wait for it.

    Attributes:
        thread: None before the first task.
    """

    def __init__(self, name: str, do: Callable[[T], None]) -> None:
        """Take what does a task, and raises nothing."""
        self._name = name
        self._do = do
        self._inbox: queue.PriorityQueue[tuple[tuple[int, int], int, list[T]]] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self.thread: threading.Thread | None = None
        self._is_closed = False

    def ask(self, task: T, rank: tuple[int, int] = (0, 0)) -> None:
        """Have a task done, the smallest rank first; once this is closed, none is.

        Raises:
            RuntimeError: no thread can be started.
        """
        if self._is_closed:
            return
        if self.thread is None:
            thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
            thread.start()
            self.thread = thread
        self._inbox.put((rank, next(self._numbers), [task]))

    def _serve(self) -> None:
        while tasks := self._inbox.get()[2]:
            self._do(tasks.pop())  # what it holds may go while the next one is awaited
            self._inbox.task_done()

    @property
    def waiting(self) -> int:
        """How many tasks wait for the one at hand; none do once this is closed."""
        return 0 if self._is_closed else self._inbox.qsize()

    @property
    def is_busy(self) -> bool:
        """Whether tasks wait or are being done."""
        return self._inbox.unfinished_tasks > 0

    def close(self, seconds: float) -> list[T]:
        """Do no more than the task at hand, and wait so long for it; return those that waited."""
        self._is_closed = True
        left: list[T] = []
        with contextlib.suppress(queue.Empty):
            while True:
                left += self._inbox.get_nowait()[2]
        self._inbox.put(((0, 0), 0, []))
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(seconds)
        return left
