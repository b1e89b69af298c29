"""Atomic replacement: a file is written beside its target, forced to disk, and renamed over it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import IO

__all__ = ["TEMPORARY", "remove_leftovers", "replace_file"]

TEMPORARY = ".tmp"  # the ending of files that are being written


@contextlib.contextmanager
def replace_file(path: str | os.PathLike[str]) -> Generator[IO[bytes], None, None]:
    """Open a new file that takes the place of ``path`` when the block ends without an error.

    Until then, and after any error, a crash or a full disk, ``path`` is what it was. The file and its folder are
    forced to disk (``fsync``), so that the new file also survives a loss of power.

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
    descriptor, name = tempfile.mkstemp(TEMPORARY, f".{target.name}.", target.parent)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(_mode(target))
        os.replace(name, target)  # noqa: PTH105 - the one call that is documented to be atomic
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108 - the counterpart of mkstemp
        raise
    _sync_folder(target.parent)


def remove_leftovers(folder: Path, stem: str) -> None:
    """Remove the unfinished files of earlier processes that were killed while they wrote ``stem*`` here."""
    for path in folder.glob(f".{stem}*{TEMPORARY}"):
        with contextlib.suppress(OSError):
            path.unlink()


def _mode(target: Path) -> int:
    """Return the permissions of the file that is replaced, or those of a new file."""
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    """Force a folder's entries to disk, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):  # file systems without it
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
