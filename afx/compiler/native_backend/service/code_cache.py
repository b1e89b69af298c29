"""Code cache: object code and verdicts that are kept, by this process and in a folder of the user's own."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import os
import pickle
import re
import stat
import sys
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import numpy as np

from afx.compiler.native_backend.llvm.writer import Addresses
from afx.compiler.native_backend.program.interface import Interface
from afx.compiler.native_backend.service.child import ADDRESSES, load_llvm
from afx.compiler.native_backend.service.helper import open_folder
from afx.compiler.native_backend.service.image import Image
from afx.compiler.schedule.schedule import Schedule
from afx.compiler.target import DEFAULT, Target, current
from afx.core.constants import __version__
from afx.core.primitive import Printable
from afx.runtime.thread_pool import between_forks, get_threads

# --- Code cache: object code of modules that is kept, by this process and in a folder of the user's own
#
# A file is named by the digest of what it was compiled from: LLVM IR, processor, versions. It holds the digest of
# that name and of its code, which is checked before the code is used: a file under another's name is none. As who can
# write there decides what runs, folder and files must belong to the user and be closed to all others; links are not
# followed. Other files of the user's may lie there too: what the cache did not write neither counts nor goes.

FAMILY = b"afx code "  # of files of all versions
MAGIC = FAMILY + b"2\n"
DIGEST_BYTES = 32
# A link is an error, and a pipe is opened at once instead of waiting for somebody who writes into it.
READING = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
KEPT_NAME, NEW_NAME = re.compile("[0-9a-f]{64}"), re.compile(r"\.new\.[a-z0-9_]{8}")  # by `key_of` and `mkstemp`


def key_of(parts: Sequence[str]) -> str:
    """Return the name of what is made from these texts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


class CodeCache:
    """Object code by its key, in a folder; whatever goes wrong there, code is compiled."""

    def __init__(self, folder: Path, max_bytes: int = DEFAULT.service.cache_max_bytes) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        self._is_open = not open_folder(folder)

    def get(self, key: str) -> bytes | None:
        """Return code, None where there is none or it is damaged."""
        if not self._is_open:
            return None
        try:
            data = _read_own(self.folder / key)
        except Exception:  # no such file, or no memory for it
            return None
        digest, code = data[len(MAGIC) : len(MAGIC) + DIGEST_BYTES], data[len(MAGIC) + DIGEST_BYTES :]
        return code if data.startswith(MAGIC) and _digest(key, code) == digest else None

    def put(self, key: str, code: bytes) -> None:
        """Keep code: other processes see all of it or nothing."""
        if not self._is_open:
            return
        with contextlib.suppress(Exception):  # no space, or a folder that is gone
            self._write(key, MAGIC + _digest(key, code) + code)
        with contextlib.suppress(Exception):
            self._prune()

    def _write(self, key: str, data: bytes) -> None:
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=".new.")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).replace(self.folder / key)
        except BaseException:
            _unlink(name)
            raise

    def _prune(self) -> None:
        """Unlink new files that nobody finished, and kept ones, oldest first, while they take more than may be."""
        with os.scandir(self.folder) as entries:
            files = list(filter(None, map(_look_at, entries)))
        for name, status in files:
            if (
                NEW_NAME.fullmatch(name)
                and time.time() - status.st_mtime > current.target.service.writing_max_seconds
                and self._wrote(name)
            ):
                _unlink(self.folder / name)
        files = [file for file in files if KEPT_NAME.fullmatch(file[0])]
        if sum([status.st_size for _, status in files]) <= self._max_bytes:
            return
        files = [file for file in files if self._wrote(file[0])]  # others too are named by digests
        total = sum([status.st_size for _, status in files])
        for name, status in sorted(files, key=lambda file: file[1].st_mtime):
            if total <= self._max_bytes:
                return
            if _unlink(self.folder / name):
                total -= status.st_size

    def _wrote(self, name: str) -> bool:
        """Tell whether a file begins as all of the cache, as far as a new one goes."""
        try:
            descriptor = os.open(self.folder / name, READING)
            with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
                head = file.read(len(FAMILY))
        except OSError:
            return False
        return head == FAMILY or (KEPT_NAME.fullmatch(name) is None and FAMILY.startswith(head))


def _look_at(entry: os.DirEntry[str]) -> tuple[str, os.stat_result] | None:
    """Return the name and status of a plain file, of the form that the cache gives to its own; None of all else."""
    if not (KEPT_NAME.fullmatch(entry.name) or NEW_NAME.fullmatch(entry.name)):
        return None
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # another process has unlinked it
        return None
    return (entry.name, status) if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() else None


def _unlink(path: str | Path) -> bool:
    try:
        Path(path).unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _digest(key: str, code: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + code).digest()


def _read_own(path: Path) -> bytes:
    """Return the bytes of a plain file of the user's own, and note that it was used.

    Raises:
        OSError: there is none, it is a link, a pipe or a device, or others own it or may write into it.
    """
    descriptor = os.open(path, READING)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise PermissionError(f"code cache: no plain file of the user's own: got {path}; remove it")
        data = file.read()
        with contextlib.suppress(OSError):  # a file system that is read-only
            os.utime(descriptor if os.utime in os.supports_fd else path)
    return data


_recent: OrderedDict[str, bytes] = OrderedDict()  # by the digest of processor and text


def get_code(text: str, cpu: str, folder: str) -> bytes | None:
    """Return the object code of LLVM IR for a processor, None where neither this process nor a folder has it."""
    code = _recent.get(key_of([cpu, text]))
    if code is None and folder:
        code = CodeCache(Path(folder)).get(key_of([text, *_machine(cpu)]))
    return code


def remember_code(text: str, cpu: str, code: bytes) -> None:
    """Keep object code in memory: the last megabytes of this process."""
    _recent[key_of([cpu, text])] = code
    while sum(map(len, list(_recent.values()))) > current.target.service.recent_max_bytes:
        _recent.popitem(last=False)


def put_code(text: str, cpu: str, folder: str, code: bytes) -> None:
    """Keep object code in memory, and in a folder, where one is named."""
    remember_code(text, cpu, code)
    if folder:
        CodeCache(Path(folder)).put(key_of([text, *_machine(cpu)]), code)


def keep(folder: str, key: str, data: bytes) -> None:
    """Keep something in a folder under a key: a job for the compiling process."""
    CodeCache(Path(folder)).put(key, data)


@functools.cache
def circumstances(cpu: str) -> tuple[str, ...]:
    """Return all else that code of other processes depends on: processor and versions."""
    with between_forks():  # locks of imports would stay taken in a process forked off meanwhile
        llvm = load_llvm()
        host = (cpu, "") if cpu else (llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
        versions = [__version__, np.__version__, importlib.import_module("llvmlite").__version__]
    return (*host, *versions, repr(llvm.llvm_version_info), repr(ADDRESSES), sys.version)


# --- Kept kernels: what was made of a schedule, and whether it was faster than NumPy's calls, for later processes
#
# The key is the digest of the schedule as it is pickled, which is the same in each run of a program, with the tier,
# the processor, all versions, and the files of the compiler.

BY_NUMPY, BY_KERNEL = b"NumPy ", b"kernel"  # the first with the time at which it was found, in seconds

Made: TypeAlias = "tuple[Schedule | None, tuple[tuple[Interface, tuple[Any, ...]], ...], Image | bytes]"
"""A schedule that calls kernels, None where one is the whole; their interfaces and captured arrays; their code."""

Done: TypeAlias = "Callable[[Made | None, str], None]"


@attrs.frozen(eq=False, repr=False)
class Kept(Printable):
    """What an earlier process found.

    Attributes:
        made: as the child process answers; None where NumPy's calls were faster.
        is_tried: whether the kernel was found to be faster.
    """

    made: Any
    is_tried: bool


def describe(schedule: Schedule, where: Addresses) -> bytes:
    """Return a schedule as another process takes it, and the same program gives it in each run.

    Raises:
        Exception: it holds what no other process can have, such as a function of the user's.
    """
    return pickle.dumps((schedule, where), protocol=5)


def key_of_description(data: bytes, target: Target) -> str:
    """Return the name under which kernels are kept."""
    limits = attrs.evolve(
        target.native, compile_min_seconds=0.0, wait_min_seconds=0.0, slow_min_seconds=0.0, early_min_seconds=0.0
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
    if key and folder and (is_faster or not schedule.depends_on_values()):
        verdict = BY_KERNEL if is_faster else BY_NUMPY + str(int(time.time())).encode()
        submit((keep, folder, _verdict_key(key), verdict))


def _is_for_numpy(verdict: bytes) -> bool:
    """Tell whether it says that NumPy's calls were faster, and was found lately; reading a file renews its own time."""
    return (
        verdict.startswith(BY_NUMPY)
        and 0 <= time.time() - int(verdict[len(BY_NUMPY) :]) < current.target.service.verdict_max_seconds
    )


def _verdict_key(key: str) -> str:
    return key_of([key, "verdict", str(get_threads()), str(os.cpu_count())])


@functools.cache
def _compiler_files() -> str:
    """Return what changes with any file of the compiler, of the version that runs here."""
    files: list[str] = []
    for folder, _, names in os.walk(Path(__file__).parents[2]):
        for name in sorted(names):
            if name.endswith(".py"):
                status = (Path(folder) / name).stat()
                files.append(f"{name} {status.st_size} {status.st_mtime_ns}")
    return key_of(sorted(files))
