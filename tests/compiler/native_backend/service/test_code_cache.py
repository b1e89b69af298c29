"""Object code kept on disk."""

import logging
import os
import shutil
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.service import code_cache
from afx.compiler.native_backend.service.code_cache import (
    CodeCache,
    describe,
    find_kept,
    keep_kernels,
    keep_verdict,
    key_of,
    key_of_description,
)
from afx.compiler.native_backend.service.helper import _default_folder, code_folder, open_folder
from afx.compiler.native_backend.service.link import layout
from afx.compiler.target import Target
from tests.compiler.native_backend.native_run import schedule_of

ROOT = Path(__file__).resolve().parents[4]
if not hasattr(os, "getuid"):
    pytest.skip("folders have no owner here", allow_module_level=True)


def test_code_is_kept_and_checked(tmp_path: Path) -> None:
    """Code comes back as it was; what was changed, cut or is another thing counts as absent."""
    cache = CodeCache(tmp_path / "code")
    key = key_of(["define", "cpu"])
    assert key != key_of(["definec", "pu"])
    assert cache.get(key) is None
    cache.put(key, b"\x7fELF code")
    assert cache.get(key) == b"\x7fELF code"
    path = tmp_path / "code" / key
    assert path.stat().st_mode & 0o077 == 0
    whole = path.read_bytes()
    for wrong in (whole[:-1], whole[:-1] + b"X", b"", b"X" + whole[1:], whole + b"X"):
        path.write_bytes(wrong)
        assert cache.get(key) is None
    assert [p.name for p in (tmp_path / "code").iterdir()] == [key]


def test_a_file_of_another_program_is_none(tmp_path: Path) -> None:
    """Code counts under the name it was kept by: copied to another one, it is compiled anew."""
    cache = CodeCache(tmp_path / "code")
    cache.put(key_of(["one"]), b"\x7fELF one")
    cache.put(key_of(["two"]), b"\x7fELF two")
    shutil.copy(tmp_path / "code" / key_of(["one"]), tmp_path / "code" / key_of(["two"]))
    assert cache.get(key_of(["two"])) is None
    assert cache.get(key_of(["one"])) == b"\x7fELF one"


def raises(error: Exception) -> Callable[..., Any]:
    """Return a function that raises."""

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def _pipe(path: Path, _: bytes) -> None:
    os.mkfifo(path)


def _link(path: Path, data: bytes) -> None:
    path.with_suffix(".other").write_bytes(data)
    path.symlink_to(path.with_suffix(".other"))


def _writable(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    path.chmod(0o620)


def _foreign(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    os.chown(path, 12345, 12345)


@pytest.mark.parametrize("make", [_pipe, _link, _writable, _foreign, lambda path, _: path.mkdir()])
def test_only_plain_files_of_ones_own_are_read(tmp_path: Path, make: Callable[[Path, bytes], None]) -> None:
    """A pipe hangs no process; links, folders, files of others or that others may write into hold no code."""
    cache = CodeCache(tmp_path / "code")
    cache.put("key", b"code")
    whole = (tmp_path / "code" / "key").read_bytes()
    (tmp_path / "code" / "key").unlink()
    if make is _foreign and os.getuid() != 0:
        pytest.skip("only root gives files away")
    make(tmp_path / "code" / "key", whole)
    assert cache.get("key") is None


def test_what_was_not_used_for_longest_goes(tmp_path: Path) -> None:
    """The folder stays below its size."""
    cache, keys = CodeCache(tmp_path / "code", max_bytes=400), [key_of([str(k)]) for k in range(6)]
    for k, key in enumerate(keys):
        cache.put(key, bytes(100))
        os.utime(tmp_path / "code" / key, (k, k))
    assert {p.name for p in (tmp_path / "code").iterdir()} == set(keys[4:])


def test_other_files_in_the_folder_stay(tmp_path: Path) -> None:
    """In a folder of the user's that holds other files, only what the cache wrote counts and goes."""
    folder, mine = tmp_path / "code", key_of(["mine"])
    folder.mkdir(mode=0o700)
    outside = tmp_path / "outside"
    outside.write_bytes(b"afx code 2\n" + bytes(1000))
    names = [
        "thesis.tex",
        ".new.chapters",
        ".new.notes",
        key_of(["an object of git"]),
        mine[:-1],
        mine.upper(),
        mine + ".tex",
    ]
    for name in names:
        (folder / name).write_bytes(b"Chapter 1" * 1000)
    (folder / "Afx.txt").write_bytes(b"afx code 2\n" + bytes(1000))
    (folder / key_of(["a folder"])).mkdir()
    (folder / key_of(["a link"])).symlink_to(outside)
    kept = sorted(folder.iterdir())
    for path in kept:
        os.utime(path, (1, 1), follow_symlinks=False)
    cache = CodeCache(folder, max_bytes=300)
    cache.put(mine, bytes(100))
    cache.put(key_of(["yours"]), bytes(100))
    assert sorted(folder.iterdir()) == sorted([*kept, folder / mine, folder / key_of(["yours"])])
    os.utime(folder / mine, (2, 2))
    cache.put(key_of(["theirs"]), bytes(100))
    assert sorted(folder.iterdir()) == sorted([*kept, folder / key_of(["yours"]), folder / key_of(["theirs"])])
    assert all((folder / name).read_bytes() == b"Chapter 1" * 1000 for name in names)
    assert outside.exists()


def test_what_was_never_finished_goes(tmp_path: Path) -> None:
    """New files of processes that ended while they wrote go after a while, those that are being written stay."""
    folder = tmp_path / "code"
    cache = CodeCache(folder)
    for name, data in ((".new.abcdefg1", b"afx code 2\nmuch"), (".new.abcdefg2", b"af"), (".new.abcdefg3", b"")):
        (folder / name).write_bytes(data)
        os.utime(folder / name, (1, 1))
    (folder / ".new.abcdefg4").write_bytes(b"afx code 2\nmuch")
    cache.put(key_of(["one"]), b"code")
    assert {path.name for path in folder.iterdir()} == {".new.abcdefg4", key_of(["one"])}


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Where the disk is full, a quota used up or files limited in size, no part stays, and the folder still gets smaller."""
    folder, keys = tmp_path / "code", [key_of([str(k)]) for k in range(4)]
    for k, key in enumerate(keys):
        CodeCache(folder).put(key, bytes(100))
        os.utime(folder / key, (k, k))
    resource = pytest.importorskip("resource", reason="this system has no such limits")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        CodeCache(folder, max_bytes=400).put(key_of(["long"]), bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {path.name for path in folder.iterdir()} == set(keys[2:])


def test_what_cannot_be_read_again_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept kernels that cannot be unpickled, or for which there is no memory, count as none."""
    key = key_of(["key"])
    CodeCache(tmp_path / "code").put(key, b"no pickle")
    assert find_kept(key, str(tmp_path / "code")) is None
    keep_kernels(key, str(tmp_path / "code"), lambda: None)  # cannot be pickled
    keep_kernels(key, str(tmp_path / "code"), (None, (), b"code"))
    found = find_kept(key, str(tmp_path / "code"))
    assert found is not None
    assert found.made == (None, (), b"code")
    monkeypatch.setattr(code_cache, "_read_own", raises(MemoryError()))
    assert find_kept(key, str(tmp_path / "code")) is None


def test_folders_that_others_may_use_are_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A folder that is open to others, a file, and one that cannot be made hold no code."""
    is_open = tmp_path / "open"
    is_open.mkdir(mode=0o755)
    (tmp_path / "file").write_text("")
    for folder, reason in ((is_open, "0700"), (tmp_path / "file", "exists"), (tmp_path / "file" / "code", "Not a dir")):
        assert reason in open_folder(folder)
        with pytest.raises(afx.errors.ArgumentError, match="cannot hold code"):
            afx.set_code_cache(folder)
        CodeCache(folder).put("key", b"code")
        assert CodeCache(folder).get("key") is None
    assert list(is_open.iterdir()) == []
    assert code_folder() == ""
    with caplog.at_level(logging.WARNING, "afx.jit"):
        assert _default_folder(str(is_open)) == ""
    assert "AFX_CODE_CACHE" in caplog.text
    assert "0700" in caplog.text


PROGRAM = """
    import sys, numpy as np, afx
    if sys.argv[2] == "native":
        afx.set_code_cache(sys.argv[1])
    fn = afx.jit(lambda x: np.exp(x) * 2 + x, backend=sys.argv[2])
    x = np.linspace(0, 1, 100)
    {before}
    print(np.asarray(fn(x)).tobytes().hex())
"""
NATIVE = PROGRAM.format(before="assert fn.lower(x).plan.native.is_linked")
AUTO = PROGRAM.format(
    before="""
    import time
    from afx.compiler.native_backend.service import process
    from afx.compiler.native_backend.run import swap
    from afx.compiler.target import NativeTarget, Target, current
    current.set(Target(native=NativeTarget(compile_min_seconds=10.0 if sys.argv[3] == "look" else 0.0)))
    if sys.argv[3] == "look":
        process.CompileService.submit = lambda *_: 1 / 0  # nothing is compiled
    trials, make = [], swap.Trial
    swap.Trial = lambda *args: trials.append(1) or make(*args)
    fn(x)
    native, end = fn.lower(x).plan.native, time.monotonic() + 60
    while time.monotonic() < end and (native.since is None or isinstance(native.state, swap.OnTrial)):
        fn(x)
        time.sleep(1e-4)
    while process.service.is_busy:  # what is written is its last job
        time.sleep(0.01)
    print(native.status.reason or native.status.backend, len(trials))"""
)


def run_program(text: str, folder: Path, *args: str, **environment: str) -> str:
    """Return what a program prints that keeps its code in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), str(folder), *args],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_later_processes_take_what_earlier_ones_compiled(tmp_path: Path) -> None:
    """Two processes give the same bits, the second from the first one's files; damaged files are compiled anew."""
    folder, found = tmp_path / "code", list[str]()
    kept: dict[Path, bytes] = {}
    for turn in range(3):
        found.append(run_program(NATIVE, folder, "native"))
        files = sorted(folder.iterdir())
        if turn == 0:
            kept = {file: file.read_bytes() for file in files}
            for file in files:
                os.utime(file, (1, 1))
        assert {file: file.read_bytes() for file in files} == kept
        if turn == 1:
            assert max(file.stat().st_mtime for file in files) > 1  # it was used
            for file in files:
                file.write_bytes(kept[file][:-4] + b"dead")
    assert len(set(found)) == 1


def test_processes_that_keep_the_same_kernels_at_once(tmp_path: Path) -> None:
    """Two programs that write the same files at the same time give the same bits, and leave whole files alone behind."""
    folder = tmp_path / "code"
    command = [sys.executable, "-c", textwrap.dedent(NATIVE), str(folder), "native"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    both = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    first, second = [process.communicate(timeout=120)[0] for process in both]
    assert first == second != ""
    assert [process.returncode for process in both] == [0, 0]
    names = [path.name for path in folder.iterdir()]
    assert all(CodeCache(folder).get(name) is not None for name in names)
    assert run_program(NATIVE, folder, "native") == first
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)


def test_a_folder_that_cannot_be_written_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the folder lies on a file system that has become read-only, kept code is found, and none is added."""
    cache = CodeCache(tmp_path / "code")
    cache.put(key_of(["kept"]), b"code")
    monkeypatch.setattr(code_cache.tempfile, "mkstemp", raises(OSError(30, "Read-only file system")))
    monkeypatch.setattr(os, "utime", raises(OSError(30, "Read-only file system")))
    cache.put(key_of(["new"]), b"code")
    assert cache.get(key_of(["new"])) is None
    assert cache.get(key_of(["kept"])) == b"code"


def test_a_second_run_begins_with_machine_code(tmp_path: Path) -> None:
    """By default kernels are kept in the user's cache folder, with what their trial came to: the next run compiles nothing."""
    home = {"XDG_CACHE_HOME": str(tmp_path), "AFX_CODE_CACHE": ""}
    state, count, bits = run_program(AUTO, tmp_path, "auto", "compile", **home).rsplit(maxsplit=2)
    assert count == "1"
    assert stat.S_IMODE((tmp_path / "afx").stat().st_mode) == 0o700
    again, trials, same = run_program(AUTO, tmp_path, "auto", "look", **home).rsplit(maxsplit=2)
    assert (again, trials, same) == (state, "0", bits)


SLOWER = """
    import sys, time, numpy as np, afx
    from afx.compiler.native_backend.service import helper as failures, process
    from afx.compiler.native_backend.run import swap
    from afx.compiler.target import NativeTarget, ServiceTarget, Target, current
    afx.set_code_cache(sys.argv[1])
    patient = ServiceTarget(trusted_max_seconds=3600.0)  # no call is long, however busy the machine is
    current.set(Target(native=NativeTarget(compile_min_seconds=0.0), service=patient))
    trials = []
    class Slower(swap.Trial):
        def run(self, values, plan):
            trials.append(1)
            return plan.run_numpy(*values), False
    swap.Trial = Slower
    fn = afx.jit(eval(sys.argv[2]))
    args = np.linspace(0, 1, 100), np.int64(0)
    fn(*args)
    native, end = fn.lower(*args).plan.native, time.monotonic() + 60
    while time.monotonic() < end and native.status.reason != failures.FASTER_BY_NUMPY:
        fn(*args)
        time.sleep(1e-3)
    while process.service.is_busy:
        time.sleep(0.01)
    print(native.status.reason or native.status.backend, len(trials))
"""
STRAIGHT = "lambda x, n: np.exp(x) * n + x"
WHILE = "lambda x, n: afx.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 0.5 + x), (n * 0, x))[1]"
BRANCH = "lambda x, n: afx.cond(n > 3, lambda: np.exp(x) * 2, lambda: x + 1)"


@pytest.mark.parametrize(("text", "trials"), [(STRAIGHT, "0"), (WHILE, "1"), (BRANCH, "1")])
def test_slow_kernels_of_other_values_bind_nobody(tmp_path: Path, text: str, trials: str) -> None:
    """A later process tries again where work depends on values; elsewhere it trusts that NumPy's calls were faster."""
    assert run_program(SLOWER, tmp_path / "code", text).rsplit(maxsplit=1)[1] == "1"
    assert run_program(SLOWER, tmp_path / "code", text).rsplit(maxsplit=1)[1] == trials


def test_verdicts_for_numpy_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After minutes, however often they were read, the trial runs again; that a kernel was faster stays."""
    folder, x = str(tmp_path / "code"), np.ones(3)
    keys = key_of(["slow"]), key_of(["fast"])
    for key, is_faster in zip(keys, (False, True), strict=True):
        keep_kernels(key, folder, "made")
        keep_verdict(key, folder, schedule_of(np.exp, x), is_faster, lambda call: call[0](*call[1:]))
    now = time.time()
    for minutes, expected in ((0, (None, True)), (4, (None, True)), (6, ("made", False)), (-6, ("made", False))):
        monkeypatch.setattr(time, "time", lambda minutes=minutes: now + 60 * minutes)
        slow, fast = [find_kept(key, folder) for key in keys]
        assert slow is not None
        assert (slow.made, slow.is_tried) == expected
        assert fast is not None
        assert (fast.made, fast.is_tried) == ("made", True)


@pytest.mark.parametrize("is_inside", [False, True])
def test_loops_and_branches_are_found_at_any_depth(is_inside: bool) -> None:
    """Work depends on values in while loops and branches, also in the steps of loops of a known length."""
    for text, depends in ((STRAIGHT, False), (WHILE, True), (BRANCH, True)):
        fn = eval(text)

        def steps(x: Any, n: Any, fn: Any = fn) -> Any:
            return afx.fori_loop(0, 3, lambda _, carry: fn(carry, n), x)

        schedule = schedule_of(steps if is_inside else fn, np.linspace(0, 1, 5), np.float64(3.0))
        assert schedule.depends_on_values() == depends


def test_the_folder_is_the_user_s_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`AFX_CODE_CACHE` names a folder, or none as 0; without it it is the user's cache folder."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert _default_folder("0") == ""
    assert _default_folder(str(tmp_path / "mine")) == str(tmp_path / "mine")
    assert _default_folder(None) == _default_folder("") == str(tmp_path / ".cache" / "afx")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # is to be ignored
    assert _default_folder(None) == str(tmp_path / ".cache" / "afx")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _default_folder(None) == str(tmp_path / "afx")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert _default_folder(None) == str(tmp_path / "Library" / "Caches" / "afx")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert _default_folder(None) == str(tmp_path / "AppData" / "Local" / "afx")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert _default_folder(None) == str(tmp_path / "local" / "afx")
    assert code_folder() == ""  # in tests


def test_what_changes_a_kernel_changes_its_name() -> None:
    """A kernel is kept by its program, tier and processor."""
    from_target = {
        key_of_description(describe(afx.jit(fn, backend="numpy").lower(x).plan.schedule, where), target)
        for fn in (np.sin, np.cos)
        for x in (np.ones(3), np.ones(4))
        for target in (Target(), Target(backend="native"), Target(cpu="nehalem"))
        if (where := layout()) is not None
    }
    assert len(from_target) == 12
