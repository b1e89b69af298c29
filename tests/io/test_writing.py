"""Writing: what is written is what was hashed, whoever changes memory meanwhile, and its owner can read it."""

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import afx
from afx import io


@contextmanager
def changing(x: "np.ndarray[tuple[int], np.dtype[np.float64]]") -> Iterator[None]:
    """Let a thread count an array up as long as the block runs."""
    ends = threading.Event()

    def count() -> None:
        while not ends.is_set():
            x[:] += 1.0

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def test_arrays_that_change_meanwhile_leave_a_sound_file(tmp_path: Path) -> None:
    """A thread that writes into a leaf of NumPy's does not make `save` leave an unreadable file behind."""
    x = np.zeros(1 << 19)
    with changing(x):
        for _ in range(6):
            io.save(tmp_path / "a.npz", {"x": x, "view": x[::2]})
            found = io.load(tmp_path / "a.npz")
            assert found["x"].shape == x.shape


def test_read_only_views_are_copied_in_the_background(tmp_path: Path) -> None:
    """A view that cannot be written is no promise: its buffer may change, and the state is that of the call."""
    buffer = np.zeros(1 << 20)
    view = buffer.view()
    view.flags.writeable = False
    with io.Checkpoints(tmp_path, background=True, keep=9) as checkpoints:
        for step in range(3):
            buffer[:] = step
            checkpoints.save(step, {"x": view, "y": [view[::2], buffer.T]})
            buffer[:] = -1.0
            tree = checkpoints.load(step).tree
            assert np.unique(np.concatenate([tree["x"], *tree["y"]])).tolist() == [step]


def test_donated_arrays_are_saved_as_they_were(tmp_path: Path) -> None:
    """An Array that a training step gives away while a thread writes it keeps its numbers in the file."""
    step = afx.jit(lambda x: x + 1.0, donate_argnums=0)
    x = afx.zeros(1 << 20)
    with io.Checkpoints(tmp_path, background=True, keep=9) as checkpoints:
        for k in range(3):
            checkpoints.save(k, {"x": x})
            x = step(x)
        assert [float(checkpoints.load(k).tree["x"].max()) for k in range(3)] == [0.0, 1.0, 2.0]


def test_changing_arrays_in_the_background(tmp_path: Path) -> None:
    """Files of a folder are whole too while a thread writes into what they hold."""
    x = np.zeros(1 << 19)
    with changing(x), io.Checkpoints(tmp_path, background=True) as checkpoints:
        for step in range(4):
            checkpoints.save(step, {"x": x})
            assert checkpoints.load(step).tree["x"].shape == x.shape


@pytest.mark.skipif(os.name != "posix", reason="permissions")
@pytest.mark.parametrize(("mask", "mode"), [(0o777, 0o600), (0o022, 0o644), (0o077, 0o600), (0o277, 0o600)])
def test_files_are_readable_under_any_umask(tmp_path: Path, mask: int, mode: int) -> None:
    """A new file has the permissions that the mask leaves, and its owner can always read and replace it."""
    old = os.umask(mask)
    try:
        io.save(tmp_path / "a.npz", 1.0)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.npz").stat().st_mode) == mode
    (tmp_path / "a.npz").chmod(0)
    io.save(tmp_path / "a.npz", 2.0)
    assert stat.S_IMODE((tmp_path / "a.npz").stat().st_mode) == 0o400
    assert io.load(tmp_path / "a.npz") == 2.0


def test_saving_leaves_the_umask_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mask is the whole process's: not even for a moment is it another one, in which threads would make files."""
    monkeypatch.setattr(os, "umask", None)
    io.save(tmp_path / "a.npz", 1.0)
    assert io.load(tmp_path / "a.npz") == 1.0
