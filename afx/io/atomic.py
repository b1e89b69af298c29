"""Atomic replacement: a file is written beside its target, forced to disk, and renamed over it.

A writer holds a lock on its unfinished file, which the system gives up when the process ends, however it ends. So the
unfinished files of dead processes can be told from those that somebody is writing, on this machine and over a network.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import secrets
import stat
from collections.abc import Generator
from pathlib import Path
from typing import IO, Any, Final

__all__ = ["TEMPORARY", "remove_leftovers", "replace_file"]

TEMPORARY: Final = ".tmp"  # the ending of files that are being written
NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
KNOWN: Final = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


@contextlib.contextmanager
def replace_file(path: str | os.PathLike[str]) -> Generator[IO[bytes], None, None]:
    """Open a new file that takes the place of ``path`` when the block ends without an error.

    Until then, and after any error, a crash or a full disk, ``path`` is what it was. The file and its folder are
    forced to disk (``fsync``), so that the new file also survives a loss of power. What killed processes left
    unfinished beside ``path`` is removed.

    Raises:
        OSError: the folder does not exist or cannot be written, or the disk is full.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "note.txt"
    ...     with replace_file(path) as file:
    ...         _ = file.write(b"whole")
    ...     path.read_bytes()
    b'whole'
    """
    target = Path(os.path.realpath(path))  # a link stays, what it leads to is replaced
    remove_leftovers(target.parent, f"{target.name}.")
    descriptor, name = _open_new(target)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            _set_mode(name, _mode(target))
            if os.name == "posix":  # under the lock; other systems rename no open file
                os.replace(name, target)  # noqa: PTH105 - the one call that is documented to be atomic
        if os.name != "posix":
            os.replace(name, target)  # noqa: PTH105 - as above
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108 - the counterpart of os.open
        raise
    _sync_folder(target.parent)


def _open_new(target: Path) -> tuple[int, str]:
    """Open and lock a new file beside a target; others see no more of it than of the file that it will replace."""
    mode = _mode(target)
    while True:
        name = str(target.parent / f".{target.name}.{secrets.token_hex(6)}{TEMPORARY}")
        descriptor = os.open(name, NEW, 0o666 if mode is None else mode | 0o600)
        _lock(descriptor, waits=True)
        if os.fstat(descriptor).st_nlink or os.name != "posix":
            return descriptor, name
        os.close(descriptor)  # another writer took it for a leftover, before it was locked


def _set_mode(name: str, mode: int | None) -> None:
    """Give a new file the permissions of the one that it replaces; its owner can read it under any umask."""
    found = stat.S_IMODE(Path(name).stat().st_mode)
    wanted = found | 0o600 if mode is None else mode | 0o400
    if wanted != found:
        Path(name).chmod(wanted)


def _mode(target: Path) -> int | None:
    """Return the permissions of a file, None where there is none."""
    try:
        return stat.S_IMODE(target.stat().st_mode) & 0o777
    except OSError:
        return None


def remove_leftovers(folder: Path, stem: str) -> None:
    """Remove the unfinished files of processes that ended while they wrote ``stem*`` here; no others."""
    try:
        with os.scandir(folder) as entries:
            names = [e.path for e in entries if e.name.startswith(f".{stem}") and e.name.endswith(TEMPORARY)]
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError):
            _remove_unlocked(name)


def _remove_unlocked(name: str) -> None:
    if not stat.S_ISREG(os.lstat(name).st_mode):
        return
    descriptor = os.open(name, KNOWN)
    try:
        if _lock(descriptor, waits=False):
            os.unlink(name)  # noqa: PTH108 - a plain call while the lock is held
    finally:
        os.close(descriptor)


def _lock(descriptor: int, waits: bool) -> bool:
    """Lock an open file for this process, and tell whether it has the lock."""
    try:
        fcntl: Any = importlib.import_module("fcntl")
    except ImportError:
        return True  # such systems remove no file that is open
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except OSError:  # somebody writes it, or the file system has no locks
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """Force a folder's entries to disk, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # file systems without it
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
