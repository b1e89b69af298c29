"""Memory files: memory that all ranks of one machine see, as a file without a name, which ends with the last of them."""

from __future__ import annotations

import mmap
import os
import platform
import secrets
from typing import Any, Final, Protocol

__all__ = ["FilePort", "map_memory"]

TOKEN_BYTES: Final = 32
ORDERED: Final = ("x86_64", "AMD64")  # whose stores become visible in the order of the program


class FilePort(Protocol):
    """What memory files need of the link."""

    rank: int

    def broadcast(self, data: bytes | None, root: int) -> bytes:
        """Return the bytes that the root has."""
        ...

    def gather(self, data: bytes) -> list[bytes]:
        """Return the bytes of all ranks."""
        ...


def map_memory(port: FilePort, size: int) -> mmap.mmap | None:
    """Return memory that all ranks share, None where one of them cannot; every rank calls it."""
    is_root = port.rank == 0
    file, token = _create(size) if is_root else None, secrets.token_bytes(TOKEN_BYTES)
    name = b"" if file is None else f"/proc/{os.getpid()}/fd/{file}".encode()
    data = port.broadcast(token + name if is_root else None, 0)
    token, path = data[:TOKEN_BYTES], data[TOKEN_BYTES:].decode()
    memory: mmap.mmap | None = None
    if file is not None:
        memory = _map(file, size)
    if memory is not None:
        memory[:TOKEN_BYTES] = token
    port.gather(b"")  # the token is written
    if not is_root:
        memory = _open(path, size, token)
    found = port.gather(b"" if memory is None else b"shared")
    if file is not None:
        os.close(file)
    return memory if memory is not None and all(found) else None


def _create(size: int) -> int | None:
    """Return a file of memory without a name."""
    create: Any = getattr(os, "memfd_create", None)
    if create is None or platform.machine() not in ORDERED:
        return None
    try:
        file: int = create("afx")
    except OSError:
        return None
    try:
        os.posix_fallocate(file, 0, size)
    except OSError:  # there is no such memory
        os.close(file)
        return None
    return file


def _map(file: int, size: int) -> mmap.mmap | None:
    """Return the memory of a file."""
    try:
        return mmap.mmap(file, size)
    except (OSError, ValueError):
        return None


def _open(path: str, size: int, token: bytes) -> mmap.mmap | None:
    """Return the memory of another process, if it is the one that was told."""
    if not path or platform.machine() not in ORDERED:
        return None
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    memory = _map(file, size)
    os.close(file)
    return memory if memory is not None and memory[:TOKEN_BYTES] == token else None
