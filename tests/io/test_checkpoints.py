"""`afx.io.Checkpoints`: nothing that a training has saved is lost, whoever looks at the folder, and nothing wrong is believed."""

import os
import random
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import io
from afx.errors import ArgumentError, FileFormatError, TreeError
from tests.io.test_files import Part


def save_all(folder: Path, metrics: list[float], **options: Any) -> io.Checkpoints:
    """Save states of these metrics under the numbers from 0 on."""
    checkpoints = io.Checkpoints(folder, **options)
    for step, metric in enumerate(metrics):
        checkpoints.save(step, {"x": np.full(50, float(step))}, metric=metric)
    return checkpoints


# ---------------------------------------------------------------------------------------------- readers and writers

WRITER = """
import sys, time
import numpy as np
from afx import io
from afx.io import archive
real = archive._write_comment
def slowly(file):
    open(sys.argv[1] + "/writing", "w").close()
    time.sleep(float(sys.argv[2]))
    real(file)
archive._write_comment = slowly
io.Checkpoints(sys.argv[1]).save(1, {"x": np.ones(3)})
"""


def start_writer(folder: Path, seconds: float) -> "subprocess.Popen[bytes]":
    """Start a process that saves, and wait until it is in the middle of its file."""
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(folder), str(seconds)], stderr=subprocess.PIPE)
    for _ in range(1200):
        if (folder / "writing").exists():
            break
        time.sleep(0.05)
    return process


@pytest.mark.skipif(os.name != "posix", reason="locks of files")
def test_looking_at_a_folder_deletes_nothing(tmp_path: Path) -> None:
    """A reader leaves the unfinished file of a live writer alone, and those of dead ones too; a writer sweeps these."""
    left = tmp_path / f".step_0000000003.npz.abc{io.archive.TEMPORARY}"
    left.write_bytes(b"left by a killed process")
    with start_writer(tmp_path, 1.5) as process:
        reader = io.Checkpoints(tmp_path)
        assert (reader.steps(), reader.latest(), reader.best()) == ([], None, None)
        io.Checkpoints(tmp_path).save(7, 1.0)  # even another writer takes the dead one's file alone
        assert not left.exists()
        assert len(list(tmp_path.glob(f".step_*{io.archive.TEMPORARY}"))) == 1
        assert process.wait() == 0, process.stderr and process.stderr.read()
    assert reader.steps() == [1, 7]
    left.write_bytes(b"again")
    assert io.Checkpoints(tmp_path).steps() == [1, 7]
    assert left.exists()


@pytest.mark.skipif(os.name != "posix", reason="locks of files")
def test_the_next_save_sweeps_what_killed_ones_left(tmp_path: Path) -> None:
    """`io.save` removes the unfinished files of dead processes for its own path, and no others."""
    with start_writer(tmp_path, 60.0) as process:
        process.kill()
    (left,) = tmp_path.glob(f".step_*{io.archive.TEMPORARY}")
    other = tmp_path / f".other.npz.abc{io.archive.TEMPORARY}"
    other.write_bytes(b"")
    (tmp_path / f".step_0000000001.npz.link{io.archive.TEMPORARY}").symlink_to(other)
    os.mkfifo(tmp_path / f".step_0000000001.npz.pipe{io.archive.TEMPORARY}")
    io.save(tmp_path / "step_0000000001.npz", 1.0)
    assert not left.exists()
    assert other.exists()


def test_a_reader_survives_a_rotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that a writer removes between listing and reading is passed over without a word."""
    reader = save_all(tmp_path, [0.0, 1.0, 2.0], keep=3)
    real = io.checkpoints.read_archive

    def late(path: Path) -> Any:
        if path == reader.path(2):
            path.unlink(missing_ok=True)
        return real(path)

    monkeypatch.setattr(io.checkpoints, "read_archive", late)
    latest = reader.latest()
    assert latest is not None
    assert latest.step == 1


# ------------------------------------------------------------------------------------------------ damage and renaming


def flip(path: Path, spot: int) -> None:
    """Turn one bit of a file over."""
    data = bytearray(path.read_bytes())
    data[spot] ^= 1 << (spot % 8)
    path.write_bytes(bytes(data))


def test_best_never_falls_back_silently(tmp_path: Path) -> None:
    """Of 300 flipped bits in the best file each is told, and the second best returned."""
    save_all(tmp_path / "good", [2.0, 1.0, 3.0])
    size = (tmp_path / "good" / "step_0000000001.npz").stat().st_size
    for k, spot in enumerate(random.Random(3).sample(range(size), 300)):
        shutil.copytree(tmp_path / "good", tmp_path / "copy", dirs_exist_ok=True)
        checkpoints = io.Checkpoints(tmp_path / "copy")
        flip(checkpoints.path(1), spot)
        with pytest.warns(UserWarning, match=r"best: passes over a damaged checkpoint: .*step_0000000001") as told:
            best = checkpoints.best()
        assert (k, best and best.step, len(told)) == (k, 0, 1)


def test_a_renamed_file_is_noticed(tmp_path: Path) -> None:
    """A state under the number of another step is none of that step: it is named, passed over and kept."""
    checkpoints = save_all(tmp_path, [2.0, 1.0, 3.0], keep=1)
    checkpoints.path(1).rename(checkpoints.path(9))
    with pytest.raises(FileFormatError, match="holds step 1 under the name of step 9"):
        checkpoints.load(9)
    with pytest.warns(UserWarning, match="latest: .* holds step 1 under the name of step 9"):
        latest = checkpoints.latest()
    assert latest is not None
    assert latest.step == 2
    with pytest.warns(UserWarning, match="best: .* holds step 1 under the name of step 9"):
        best = checkpoints.best()
    assert best is not None
    assert best.step == 2
    checkpoints.save(3, {"x": np.zeros(1)}, metric=4.0)
    assert checkpoints.steps() == [2, 3, 9]


def test_damaged_files_push_no_sound_one_out(tmp_path: Path) -> None:
    """What cannot be read takes the place of nothing, and is not deleted."""
    checkpoints = save_all(tmp_path, [1.0, 2.0], keep=2)
    for step in (7, 8, 9):
        checkpoints.path(step).write_bytes(b"damaged")
    checkpoints.save(3, 1.0, metric=3.0)
    assert io.Checkpoints(tmp_path).steps() == [0, 1, 3, 7, 8, 9]


# -------------------------------------------------------------------------------------------------- what is remembered


def test_a_reopened_folder_remembers_how_it_is_kept(tmp_path: Path) -> None:
    """Without the arguments again, a later process keeps as many, and the best in the same sense."""
    save_all(tmp_path, [1.0, 9.0, 2.0, 3.0], mode="max", keep=2, keep_best=1)
    again = io.Checkpoints(tmp_path)
    for step in (4, 5):
        again.save(step, {"x": np.zeros(1)}, metric=float(step))
    best = again.best()
    assert (again.steps(), best and best.step) == ([1, 4, 5], 1)
    wider = io.Checkpoints(tmp_path, keep=3)
    wider.save(6, {"x": np.zeros(1)}, metric=6.0)
    assert io.Checkpoints(tmp_path).steps() == [1, 4, 5, 6]
    with pytest.raises(ArgumentError, match="were kept by mode='max': got 'min'"):
        io.Checkpoints(tmp_path, mode="min")


def test_folders_of_earlier_versions_open(tmp_path: Path) -> None:
    """A file without the folder's settings counts as one of the standard settings."""
    io.archive.write_archive(
        tmp_path / "step_0000000004.npz",
        {"tree": [["leaf", "number", {"float": "2.0"}]], "checkpoint": {"step": 4, "metric": "0.5"}},
        {},
    )
    best = io.Checkpoints(tmp_path).best()
    assert best is not None
    assert (best.step, best.metric, best.tree, best.carried) == (4, 0.5, 2.0, {})


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint": None},
        {"checkpoint": {"step": 4}},
        {"checkpoint": {"step": 4, "metric": []}},
        {"checkpoint": {"step": "4", "metric": None}},
        {"folder": 3},
        {"folder": {"mode": "median"}},
        {"folder": {"keep": "many"}},
        {"folder": {"keep": -1}},
        {"carried": 3},
        {"carried": {"tree": [["list", 0]]}},
        {"tree": 3},
    ],
)
def test_odd_headers_are_damaged_files(tmp_path: Path, changes: Any) -> None:
    """A folder with a header of another kind opens, and the file is passed over by name."""
    content = {"tree": [["static", None]], "checkpoint": {"step": 4, "metric": "1.0"}} | changes
    io.archive.write_archive(tmp_path / "step_0000000004.npz", content, {})
    checkpoints = io.Checkpoints(tmp_path)
    for ask in (checkpoints.latest, checkpoints.best):
        with pytest.warns(UserWarning, match="passes over a damaged checkpoint"):
            assert ask() is None
    with pytest.raises(FileFormatError, match="load: "):
        checkpoints.load(4)


# ------------------------------------------------------------------------------------------------------- what is taken


@pytest.mark.parametrize("step", [np.int64(3), np.uint8(3), afx.asarray(3), np.array(3), True + 2])
def test_steps_may_be_integers_of_any_kind(tmp_path: Path, step: Any) -> None:
    """Counters of NumPy and afx are numbers of steps."""
    checkpoints = io.Checkpoints(tmp_path)
    assert checkpoints.save(step, 1.0, metric=np.float32(0.5)) == tmp_path / "step_0000000003.npz"
    assert checkpoints.path(step).name == "step_0000000003.npz"
    found = checkpoints.load(step)
    assert (type(found.step), found.step, found.metric) == (int, 3, 0.5)


@pytest.mark.parametrize("step", [1.0, np.float32(1), "1", None, np.array([1])])
def test_steps_are_integers(tmp_path: Path, step: Any) -> None:
    """What is no integer is refused by name."""
    with pytest.raises((ArgumentError, TypeError), match=r"a step is an integer|only length-1|only integer"):
        io.Checkpoints(tmp_path).save(step, 1.0)


@attrs.frozen
class Counted:
    """A class of the program."""

    part: Part
    scale: float


def test_what_a_folder_saved_itself_is_allowed(tmp_path: Path) -> None:
    """The object that saved a class reads it again; a new one asks for leave."""
    checkpoints = io.Checkpoints(tmp_path)
    state = Counted(Part(afx.ones(2), 3), 1.0)
    checkpoints.save(1, state, metric=1.0, carried={"seen": 3, "best": [1.5, afx.ones(1)]})
    found = checkpoints.best()
    assert found is not None
    assert afx.pytree.equal(found.tree, state)
    assert (found.carried["seen"], found.carried["best"][0]) == (3, 1.5)
    for ask in (io.Checkpoints(tmp_path).latest, io.Checkpoints(tmp_path).best):
        with pytest.raises(FileFormatError, match=r"allow=\[Part\]"):
            ask()
    latest = io.Checkpoints(tmp_path).latest(allow=[Counted, Part])
    assert latest is not None
    assert latest.step == 1
    assert io.Checkpoints(tmp_path).load(1, Counted, allow=[Part]).tree.scale == 1.0


def test_a_state_that_cannot_be_saved_is_refused_at_once(tmp_path: Path) -> None:
    """A lambda is named by its path before anything is written or removed."""
    checkpoints = save_all(tmp_path, [1.0], background=True)
    with pytest.raises(TreeError, match=r"a lambda, .* at \['f'\]"):
        checkpoints.save(1, {"f": lambda x: x})
    checkpoints.close()
    assert checkpoints.steps() == [0]


def test_no_warning_where_all_is_well(tmp_path: Path) -> None:
    """Reading a sound folder says nothing."""
    checkpoints = save_all(tmp_path, [1.0, float("nan"), 2.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        best, latest = checkpoints.best(), checkpoints.latest()
    assert (best and best.step, latest and latest.step) == (0, 2)
