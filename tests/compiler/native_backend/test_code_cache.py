"""Object code kept on disk."""

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.code_cache import CodeCache, key_of, open_folder
from afx.compiler.native_backend.process import service

ROOT = Path(__file__).resolve().parents[3]
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
    cache = CodeCache(tmp_path / "code", max_bytes=400)
    for k in range(6):
        cache.put(str(k), bytes(100))
        os.utime(tmp_path / "code" / str(k), (k, k))
    assert sorted(p.name for p in (tmp_path / "code").iterdir()) == ["4", "5"]


def test_folders_that_others_may_use_are_refused(tmp_path: Path) -> None:
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
    assert service.folder == ""


PROGRAM = """
    import sys, numpy as np, afx
    afx.set_code_cache(sys.argv[1])
    fn = afx.jit(lambda x: np.exp(x) * 2 + x, backend="native")
    x = np.linspace(0, 1, 100)
    assert fn.lower(x).plan.native.state == "linked"
    print(np.asarray(fn(x)).tobytes().hex())
"""


def test_later_processes_take_what_earlier_ones_compiled(tmp_path: Path) -> None:
    """Two processes give the same bits, the second from the first one's file; a damaged file is compiled anew."""
    folder, found = tmp_path / "code", list[str]()
    for turn in range(3):
        command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(folder)]
        done = subprocess.run(
            command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
        )
        found.append(done.stdout)
        (file,) = folder.iterdir()
        if turn == 0:
            first = file.read_bytes()
            os.utime(file, (1, 1))
        elif turn == 1:
            assert file.stat().st_mtime > 1  # it was used, and is the same
            assert file.read_bytes() == first
            file.write_bytes(first[:-4] + b"dead")
        else:
            assert file.read_bytes() == first
    assert len(set(found)) == 1
