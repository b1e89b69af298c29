"""Kept kernels: what was made of a schedule, and whether it was faster than NumPy's calls, for later processes.

The key is the digest of the schedule as it is pickled, which is the same in each run of a program, with the tier, the
processor, all versions, and the files of the compiler.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import numpy as np

from afx.compiler.native_backend.child import ADDRESSES
from afx.compiler.native_backend.code_cache import CodeCache, circumstances, keep, key_of
from afx.compiler.native_backend.image import Image
from afx.compiler.native_backend.interface import Interface
from afx.compiler.native_backend.llvm.flags import Layout
from afx.compiler.schedule import Branch, Loop, Schedule
from afx.compiler.target import Target, current
from afx.core.constants import __version__
from afx.runtime.thread_pool import get_threads

__all__ = [
    "Done", "Kept", "Made", "describe", "find_kept", "keep_kernels", "keep_verdict", "key_of_description",
    "key_of_schedule",
]  # fmt: skip

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


def describe(schedule: Schedule, where: Layout) -> bytes:
    """Return a schedule as another process takes it, and the same program gives it in each run.

    Raises:
        Exception: it holds what no other process can have, such as a function of the user's.
    """
    return pickle.dumps((schedule, where), protocol=5)


def key_of_schedule(schedule: Schedule, target: Target, where: Layout) -> str:
    """Return the name under which kernels of a schedule are kept, an empty text where it holds what has none."""
    try:
        return key_of_description(describe(schedule, where), target)
    except Exception:  # a function of the user's
        return ""


def key_of_description(data: bytes, target: Target) -> str:
    """Return the name under which kernels are kept."""
    limits = attrs.evolve(
        target.native, compile_min_seconds=0.0, wait_min_seconds=0.0
    )  # when it is compiled is nothing
    return key_of(
        (hashlib.sha256(data).hexdigest(), f"{target.tier} {limits}", *_machine(target.cpu), _compiler_files())
    )


@functools.cache
def _machine(cpu: str) -> tuple[str, ...]:
    """Return what kernels depend on besides their schedule, without loading LLVM where the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123 - its head, as it is long where processors are many
            lines = file.read(1 << 14).split("\n\n")[0].split("\n")
        spec = importlib.util.find_spec("llvmlite")
        version = Path(spec.origin).with_name("_version.py").read_text(encoding="utf-8") if spec and spec.origin else ""
    except OSError:
        return circumstances(cpu)
    told = [line for line in lines if line.startswith(("model name", "flags", "cpu family", "model\t", "stepping"))]
    if not version or not any(line.startswith("flags") for line in told):
        return circumstances(cpu)
    return (cpu, *told, version, __version__, np.__version__, repr(ADDRESSES), sys.version)


def find_kept(key: str, folder: str, trusts: bool = True) -> Kept | None:
    """Return what is kept under a key, None where there is nothing; where verdicts are trusted, none that NumPy beats."""
    try:
        cache = CodeCache(Path(folder))
        verdict = cache.get(_verdict_key(key)) if key else None
        if verdict is not None and _is_for_numpy(verdict) and trusts:
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


def keep_verdict(
    key: str, folder: str, schedule: Schedule, is_faster: bool, submit: Callable[[tuple[Any, ...]], None]
) -> None:
    """Keep whether the kernel was faster, by the compiling process, to which a job is submitted.

    That NumPy's calls were is kept for minutes, as a busy machine may have said so, and not at all of a schedule whose work
    depends on values: a loop that made no step says nothing of others.
    """
    if key and folder and (is_faster or not _depends_on_values(schedule)):
        verdict = BY_KERNEL if is_faster else BY_NUMPY + str(int(time.time())).encode()
        submit((keep, folder, _verdict_key(key), verdict))


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
