"""Kept kernels: what was made of a schedule, and whether it was faster than NumPy's calls, for later processes.

The key is the digest of the schedule as it is pickled, which is the same in each run of a program, with the tier, the
processor, all versions, and the files of the compiler.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from afx.compiler.native_backend.code_cache import CodeCache, circumstances, key_of
from afx.compiler.native_backend.helper import ask_helper
from afx.compiler.native_backend.llvm.flags import Layout
from afx.compiler.native_backend.image import Image
from afx.compiler.native_backend.interface import Interface
from afx.compiler.schedule import Branch, Loop, Schedule
from afx.compiler.target import Target, current
from afx.runtime.thread_pool import get_threads

__all__ = ["Done", "Kept", "Made", "find_kept", "keep_kernels", "keep_verdict", "key_of_schedule"]

BY_NUMPY, BY_KERNEL = b"NumPy ", b"kernel"  # the first with the time at which it was found, in seconds

Made: TypeAlias = "tuple[Schedule | None, tuple[tuple[Interface, tuple[Any, ...]], ...], Image | bytes]"
"""A schedule that calls kernels, None where one is the whole; their interfaces and captured arrays; their code."""

Done: TypeAlias = "Callable[[Made | None, str], None]"


@attrs.frozen
class Kept:
    """What an earlier process found.

    Attributes:
        made: as the child process answers; None where NumPy's calls were faster.
        is_tried: whether the kernel was found to be faster.
    """

    made: Any
    is_tried: bool


def key_of_schedule(schedule: Schedule, target: Target, where: Layout) -> str:
    """Return the name under which kernels of a schedule are kept, an empty text where it holds what has none."""
    try:
        data = pickle.dumps((schedule, where), protocol=5)
    except Exception:  # a function of the user's
        return ""
    limits = attrs.evolve(target.native, compile_min_seconds=0.0)  # when it is compiled changes nothing
    parts = (hashlib.sha256(data).hexdigest(), f"{target.tier} {limits}", *circumstances(target.cpu), _compiler_files())
    return key_of(parts)


def find_kept(key: str, folder: str) -> Kept | None:
    """Return what is kept under a key, None where there is nothing."""
    try:
        cache = CodeCache(Path(folder))
        verdict = cache.get(_verdict_key(key)) if key else None
        if verdict is not None and _is_for_numpy(verdict):
            return Kept(None, is_tried=True)
        data = cache.get(key) if key else None
        return None if data is None else Kept(pickle.loads(data), verdict == BY_KERNEL)
    except Exception:  # what cannot be read is made again
        return None


def keep_kernels(key: str, folder: str, made: Any) -> None:
    """Keep what was made, where that can be: it runs all the same."""
    if key and folder:
        with contextlib.suppress(Exception):
            CodeCache(Path(folder)).put(key, pickle.dumps(made, protocol=5))


def keep_verdict(key: str, folder: str, schedule: Schedule, is_faster: bool) -> None:
    """Keep whether the kernel was faster, in another thread.

    That NumPy's calls were is kept for a day, and not at all of a schedule whose work depends on values: a loop that made
    no step says nothing of others.
    """
    if key and folder and (is_faster or not _depends_on_values(schedule)):
        verdict = BY_KERNEL if is_faster else BY_NUMPY + str(int(time.time())).encode()
        ask_helper(lambda: CodeCache(Path(folder)).put(_verdict_key(key), verdict))


def _is_for_numpy(verdict: bytes) -> bool:
    """Tell whether it says that NumPy's calls were faster, and was found lately; reading a file renews its own time."""
    return (
        verdict.startswith(BY_NUMPY)
        and 0 <= time.time() - int(verdict[len(BY_NUMPY) :]) < current.target.service.verdict_max_seconds
    )


def _depends_on_values(schedule: Schedule) -> bool:
    """Tell whether it holds a loop that a condition ends, or a branch, at any depth."""
    return any(isinstance(i, Branch) or (isinstance(i, Loop) and i.length is None) for i in schedule.at_any_depth())


def _verdict_key(key: str) -> str:
    return key_of([key, "verdict", str(get_threads()), str(os.cpu_count())])


@functools.cache
def _compiler_files() -> str:
    """Return what changes with any file of the compiler, of the version that runs here."""
    found: list[str] = []
    for folder, _, names in os.walk(Path(__file__).parents[1]):
        for name in sorted(names):
            if name.endswith(".py"):
                status = (Path(folder) / name).stat()
                found.append(f"{name} {status.st_size} {status.st_mtime_ns}")
    return key_of(sorted(found))
