"""`afx.data.open_shards`, groups and time: sets larger than memory, and splits that keep what belongs together together."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
from afx import data
from afx.errors import ArgumentError, FileFormatError, ShapeError

X = np.random.default_rng(0).normal(size=(23, 4)).astype(np.float32)
Y = np.arange(23)


def shards(folder: Path) -> data.Shards:
    """Write the set into files of unequal length and open them."""
    cuts = [(0, 9), (9, 10), (10, 23)]
    paths = data.write_shards(folder, ({"x": X[a:b], "y": Y[a:b]} for a, b in cuts))
    assert [path.name for path in paths] == ["shard_00000.npy", "shard_00001.npy", "shard_00002.npy"]
    return data.open_shards(folder)


# ------------------------------------------------------------------------------------------------------------- shards


def test_batches_of_shards_are_those_of_the_arrays(tmp_path: Path) -> None:
    """The same key gives the same examples, whether they are in memory or in files, with the same dtypes and bits."""
    files = shards(tmp_path)
    for options in ({}, {"key": afx.random.key(1)}, {"key": afx.random.key(1), "last": "short"}):
        whole: Any = data.batches({"x": afx.asarray(X), "y": afx.asarray(Y)}, 5, **options)
        parts: Any = data.batches(files, 5, **options)
        for step in (0, 3, 7):
            assert afx.pytree.equal(parts[step], whole[step])
            assert parts[step]["y"].dtype == Y.dtype
    found, mask = data.padded_batches(files, 10)[2]
    assert (found["y"].tolist()[:3], mask.tolist()) == ([20, 21, 22], [True] * 3 + [False] * 7)


def test_parts_of_shards_are_shards(tmp_path: Path) -> None:
    """Splits and folds of files read nothing, and parts of parts are taken as well."""
    files = shards(tmp_path)
    key = afx.random.key(2)
    parts = data.split(files, (2, 1), key=key, groups=Y % 7)
    arrays = data.split(Y, (2, 1), key=key, groups=Y % 7)
    for part, expected in zip(parts, arrays, strict=True):
        assert isinstance(part, data.Shards)
        assert data.batches(part, len(part))[0]["y"].tolist() == expected.tolist()
    train, test = data.folds(parts[0], 3)[1]
    assert sorted(
        [*train.take(np.arange(len(train)))["y"].tolist(), *test.take(np.arange(len(test)))["y"].tolist()]
    ) == sorted(arrays[0].tolist())
    assert [len(part) for pair in data.time_folds(files, 2) for part in pair] == [9, 7, 16, 7]


def test_plain_arrays_of_numpy_are_shards(tmp_path: Path) -> None:
    """Files of ``np.save`` open in the order that is given."""
    np.save(tmp_path / "b.npy", X[:10])
    np.save(tmp_path / "a.npy", X[10:])
    files = data.open_shards([tmp_path / "b.npy", tmp_path / "a.npy"])
    assert np.array_equal(files.take(np.arange(23)), X)
    assert repr(files) == "<23 examples of float32 in 2 files>"
    assert np.array_equal(data.open_shards(tmp_path / "b.npy").take([3, 1]), X[[3, 1]])


def test_odd_files_and_indices_are_refused(tmp_path: Path) -> None:
    """Objects, other shapes, no files, a full folder, and rows outside of the set say so."""
    files = shards(tmp_path / "set")
    for index in ([23], [-1]):
        with pytest.raises(IndexError, match="outside of 23 examples"):
            files.take(index)
    with pytest.raises(ShapeError, match="takes indices"):
        files.take([0.5])
    with pytest.raises(ArgumentError, match="the folder holds a data set"):
        data.write_shards(tmp_path / "set", [X])
    with pytest.raises(ArgumentError, match="no file"):
        data.open_shards(tmp_path)
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    (tmp_path / "t.npy").write_text("text")
    np.save(tmp_path / "n.npy", np.array(1.0))
    for name in ("o", "t", "n"):
        with pytest.raises(FileFormatError, match="open_shards: no array"):
            data.open_shards(tmp_path / f"{name}.npy")
    np.save(tmp_path / "w.npy", X[:, :2])
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(ShapeError, match=r"alike in every file: got float32\[2\] in w.npy after float32\[4\]"):
        data.open_shards([tmp_path / "x.npy", tmp_path / "w.npy"])
    with pytest.raises(ShapeError, match="write_shards: the first axis counts"):
        data.write_shards(tmp_path / "new", [{"x": X, "y": Y[:3]}])
    assert list((tmp_path / "new").iterdir()) == []


LARGE = """
import sys
from pathlib import Path
import numpy as np, afx
from afx import data

def held():  # memory of this process's own, without files that are mapped, in kB
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0])

data.write_shards(sys.argv[1], (np.full((1024, 1024), k, np.float32) for k in range(12)))  # 4 MB each
batches = data.batches(data.open_shards(sys.argv[1]), 64, key=afx.random.key(0))
batches[0]
before = held()
kept = [float(batches[k][:, 0].sum()) for k in range(len(batches))]
print(len(kept), (held() - before) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is told otherwise")
def test_only_rows_that_are_asked_for_are_read(tmp_path: Path) -> None:
    """An epoch over a set of 48 MB takes little more memory than a batch."""
    run = subprocess.run([sys.executable, "-c", LARGE, str(tmp_path)], check=True, capture_output=True, text=True)
    batches, grown = map(int, run.stdout.split())
    assert batches == 192
    assert grown < 12


# --------------------------------------------------------------------------------------------------- groups and times


@pytest.mark.parametrize("key", [None, afx.random.key(3)])
def test_groups_stay_together(key: Any) -> None:
    """No group is in two parts, every example is in one, and sizes are near to the shares."""
    groups = np.random.default_rng(1).integers(0, 40, 500)
    parts = data.split(np.arange(500), (0.7, 0.2, 0.1), key=key, groups=groups)
    of = [set(groups[part].tolist()) for part in parts]
    assert not (of[0] & of[1]) | (of[0] & of[2]) | (of[1] & of[2])
    assert sorted(np.concatenate(parts).tolist()) == list(range(500))
    assert np.allclose([len(part) for part in parts], [350, 100, 50], atol=20)
    tested = [test for _, test in data.folds(np.arange(500), 5, key=key, groups=groups)]
    assert sorted(np.concatenate(tested).tolist()) == list(range(500))
    assert [
        len(set(groups[test].tolist()) & set(groups[train].tolist()))
        for train, test in data.folds(np.arange(500), 5, key=key, groups=groups)
    ] == [0] * 5
    assert np.ptp([len(test) for test in tested]) <= 20


def test_folds_by_groups_are_as_even_as_those_of_scikit_learn() -> None:
    """The largest group first, each to the smallest fold: the sizes of scikit-learn's GroupKFold."""
    selection = pytest.importorskip("sklearn.model_selection", reason="scikit-learn is the oracle")
    groups = np.random.default_rng(2).integers(0, 11, 100) ** 2
    theirs = [len(test) for _, test in selection.GroupKFold(4).split(groups, groups=groups)]
    ours = [len(test) for _, test in data.folds(np.arange(100), 4, groups=groups)]
    assert sorted(ours) == sorted(theirs)


@pytest.mark.parametrize("options", [{}, {"gap": 2}, {"test_size": 3}, {"test_size": 2, "gap": 1, "max_train_size": 5}])
def test_time_folds_are_those_of_scikit_learn(options: dict[str, int]) -> None:
    """Training parts lie before their test parts, as scikit-learn's TimeSeriesSplit cuts them."""
    selection = pytest.importorskip("sklearn.model_selection", reason="scikit-learn is the oracle")
    series = np.arange(23)
    ours = [(train.tolist(), test.tolist()) for train, test in data.time_folds(series, 4, **options)]
    theirs = selection.TimeSeriesSplit(4, **options).split(series)
    assert ours == [(train.tolist(), test.tolist()) for train, test in theirs]


def test_odd_groups_and_times_are_refused() -> None:
    """Too few groups, both kinds of labels, labels of another length, and series that are too short."""
    with pytest.raises(ArgumentError, match="at least one group a part: got 2 groups for 3 parts"):
        data.split(Y, (1, 1, 1), groups=Y % 2)
    with pytest.raises(ArgumentError, match="either stratify or groups"):
        data.folds(Y, 2, groups=Y, stratify=Y)
    with pytest.raises(ShapeError, match="one group an example"):
        data.folds(Y, 2, groups=[1, 2])
    for options in (
        {"count": 0},
        {"count": 2, "gap": -1},
        {"count": 2, "test_size": 0},
        {"count": 2, "max_train_size": 0},
    ):
        with pytest.raises(ArgumentError, match="time_folds: at least one fold"):
            data.time_folds(Y, **options)
    with pytest.raises(ArgumentError, match="the series is too short"):
        data.time_folds(Y, 4, test_size=6)
