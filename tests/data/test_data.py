"""`afx.data`: batches as functions of key and step, splits that lose nothing, and prefetching that ends."""

import contextlib
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, data
from afx.errors import ArgumentError, DtypeError, FileFormatError, MissingExtraError, ShapeError, TreeError

KEY = afx.random.key(3)


@attrs.frozen
class Examples:
    """A data set as a class."""

    x: Array
    y: Any


def examples(n: int = 10) -> Examples:
    """Make n examples whose rows tell their number."""
    return Examples(afx.asarray(np.arange(2.0 * n).reshape(n, 2)), {"label": np.arange(n)})


@pytest.mark.parametrize(
    ("n", "size", "last", "sizes"),
    [(10, 4, "drop", [4, 4]), (10, 4, "short", [4, 4, 2]), (8, 4, "drop", [4, 4]), (3, 5, "short", [3])],
)
def test_an_epoch_gives_each_example_once(n: int, size: int, last: Any, sizes: list[int]) -> None:
    """Sizes are as asked for, rows stay together, leaves keep their kind, and nothing comes twice."""
    found = list(data.batches(examples(n), size, key=KEY, last=last).epoch(2))
    assert [len(batch.y["label"]) for batch in found] == sizes
    labels = np.concatenate([batch.y["label"] for batch in found])
    assert len(set(labels.tolist())) == sum(sizes)
    for batch in found:
        assert isinstance(batch, Examples)
        assert type(batch.x) is Array
        assert type(batch.y["label"]) is np.ndarray
        assert batch.x[:, 0].tolist() == (2.0 * batch.y["label"]).tolist()


def test_batches_are_a_function_of_key_and_step() -> None:
    """A stream that begins anywhere gives what one from the beginning gives; epochs and keys differ."""
    found = data.batches(np.arange(20), 3, key=KEY)
    stream = found.stream()
    whole = [next(stream).tolist() for _ in range(30)]
    again = data.batches(np.arange(20), 3, key=KEY).stream(17)
    assert [next(again).tolist() for _ in range(13)] == whole[17:]
    assert whole == [batch.tolist() for batch in found.epochs(5)]
    assert whole[:6] != whole[6:12]
    assert [batch.tolist() for batch in data.batches(np.arange(20), 3, key=afx.random.key(4)).epoch(0)] != whole[:6]
    assert [batch.tolist() for batch in data.batches(np.arange(4), 2).epoch(9)] == [[0, 1], [2, 3]]


def test_padded_batches_have_one_shape_and_a_mask() -> None:
    """A mean over the mask is the mean over the examples, in every epoch; a set smaller than a batch repeats."""
    x = np.arange(7.0)
    found = data.padded_batches(x, 3, key=KEY)
    for epoch in range(3):
        pairs = list(found.epoch(epoch))
        assert [part.shape for part, _ in pairs] == [(3,)] * 3
        assert sorted(np.concatenate([part[np.asarray(mask)] for part, mask in pairs]).tolist()) == x.tolist()
    ((part, mask),) = data.padded_batches(np.arange(2), 5).epoch(0)
    assert (part.tolist(), mask.tolist()) == ([0, 1, 0, 1, 0], [True, True, False, False, False])


def test_weights_draw_in_proportion() -> None:
    """Frequencies follow the weights within five standard deviations, and a weight of 0 is never drawn."""
    weights = [0.0, 1.0, 3.0, 0.0]
    found = np.concatenate(list(data.batches(np.arange(4), 4, key=KEY, weights=weights).epochs(1000)))
    counts = np.bincount(found, minlength=4)
    assert counts[0] == counts[3] == 0
    assert abs(counts[2] - 3000) < 5 * np.sqrt(4000 * 0.75 * 0.25)


def test_memory_mapped_arrays_are_read_by_rows(tmp_path: Path) -> None:
    """A file that is mapped into memory gives batches that are arrays of their own."""
    np.save(tmp_path / "x.npy", np.arange(12.0).reshape(6, 2))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    batch = data.batches(mapped, 2, key=KEY)[0]
    assert not isinstance(batch.base, np.memmap)
    assert batch.shape == (2, 2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: data.batches((np.ones(3), np.ones(4)), 2), ShapeError, r"\[0\]: \[3\], \[1\]: \[4\]; align them"),
        (lambda: data.batches(1.0, 2), ShapeError, r"the array: \[\]"),
        (lambda: data.batches({}, 2), TreeError, "a tree without arrays"),
        (lambda: data.batches(np.ones(0), 2), ShapeError, "no examples"),
        (lambda: data.batches(np.ones(3), 0), ArgumentError, "size is a whole number from 1 on: got 0"),
        (lambda: data.batches(np.ones(3), 4), ArgumentError, "no batch is full: got size=4 for 3 examples"),
        (
            lambda: data.batches(np.ones(3), 2, last="pad"),
            ArgumentError,
            "padded_batches fills the last batch",
        ),  # a mistake
        (lambda: data.batches(np.ones(3), 2, weights=np.ones(3)), ArgumentError, "needs a key"),
        (lambda: data.batches(np.ones(3), 2, key=KEY, weights=np.ones(2)), ShapeError, "one weight an example"),
        (lambda: data.batches(np.ones(3), 2, key=KEY, weights=[1.0, np.nan, 1.0]), ArgumentError, "weights are finite"),
        (lambda: data.batches(np.ones(3), 2)[-1], IndexError, "steps count from 0"),
        (lambda: data.batches(np.ones(3), 2.5), ArgumentError, "size is a whole number"),  # a mistake
        (lambda: data.batches(np.ones(3), 2, key=3), ArgumentError, "batches: a key is uint32"),  # a mistake
        (lambda: list(data.batches(np.ones(3), 2)), ArgumentError, r"batches.epoch\(k\)"),
        (lambda: data.split(np.ones(3), 0.5), ArgumentError, "shares are positive numbers: got 0.5"),  # a mistake
        (lambda: data.split(np.ones(3), "ab"), ArgumentError, "shares are positive numbers: got 'ab'"),  # a mistake
        (lambda: data.folds(np.ones(3), 2.5), ArgumentError, "count is a whole number"),  # a mistake
        (lambda: data.split(np.ones(3), (0.5, 0.0)), ArgumentError, "shares are positive"),
        (lambda: data.split(np.ones(3), (1, 1), stratify=[1, 2]), ShapeError, "one label an example"),
        (lambda: data.folds(np.ones(3), 4), ArgumentError, "got 4 for 3 examples"),
        (lambda: data.prefetch([1], 0), ArgumentError, "got depth=0"),
    ],
)
def test_mistakes_are_named(call: Any, error: Any, message: str) -> None:
    """Wrong sizes, shapes and settings raise with what they got."""
    with pytest.raises(error, match=message):
        call()


# ----------------------------------------------------------------------------------------------------------- splits


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize(("shares", "sizes"), [((0.8, 0.2), [8, 2]), ((1, 1, 1), [4, 3, 3]), ((5,), [10])])
def test_splits_are_disjoint_and_whole(key: Any, shares: Any, sizes: list[int]) -> None:
    """Each example is in exactly one part, sizes follow the shares."""
    parts = data.split(examples(10), shares, key=key)
    labels = [part.y["label"].tolist() for part in parts]
    assert [len(part) for part in labels] == sizes
    assert sorted(chain(*labels)) == list(range(10))
    if key is None:
        assert list(chain(*labels)) == list(range(10))


def test_stratified_splits_keep_the_shares_of_classes() -> None:
    """Each part has each class in proportion, to one example, and is not sorted by class."""
    labels = np.repeat([0, 1, 2], [60, 30, 11])
    first, second = data.split(labels, (2, 1), key=KEY, stratify=labels)
    assert np.bincount(first).tolist() == [40, 20, 7]
    assert np.bincount(second).tolist() == [20, 10, 4]
    assert first.tolist() != sorted(first.tolist())


@pytest.mark.parametrize("stratify", [False, True])
def test_folds_test_each_example_once(stratify: bool) -> None:
    """The test parts are disjoint and whole, each disjoint from its training part, and hold their share of classes."""
    labels = np.repeat([0, 1], [20, 9])
    pairs = data.folds((np.arange(29), labels), 5, key=KEY, stratify=labels if stratify else None)
    assert sorted(np.concatenate([test for _, (test, _) in pairs]).tolist()) == list(range(29))
    for (train, _), (test, classes) in pairs:
        assert sorted([*train.tolist(), *test.tolist()]) == list(range(29))
        assert not stratify or (np.bincount(classes)[0] == 4 and np.bincount(classes)[1] in (1, 2))


# ------------------------------------------------------------------------------------------------------ prefetching


def threads() -> int:
    """Count the threads of `prefetch`."""
    return sum(thread.name == "afx-prefetch" for thread in threading.enumerate())


def wait_for_threads() -> None:
    """Wait until the threads of `prefetch` ended."""
    end = time.monotonic() + 10
    while threads() and time.monotonic() < end:
        time.sleep(0.01)
    assert threads() == 0


def test_prefetching_keeps_order_and_ends() -> None:
    """The same items in the same order; the thread is gone afterwards."""
    assert list(data.prefetch(iter(range(100)), 3)) == list(range(100))
    wait_for_threads()


def test_prefetching_that_is_left_early_ends_its_thread() -> None:
    """A stream without end that nobody iterates any more does not go on."""
    for item in data.prefetch(data.batches(np.arange(8), 2, key=KEY).stream()):
        assert len(item) == 2
        break
    wait_for_threads()


def test_prefetching_raises_what_the_items_raise() -> None:
    """An exception arrives in its place, after the items before it, and nothing follows."""

    def items() -> Iterator[int]:
        yield 1
        raise KeyError("broken")

    found = data.prefetch(items())
    assert next(found) == 1
    with pytest.raises(KeyError, match="broken"):
        next(found)
    assert list(found) == []
    wait_for_threads()


# ---------------------------------------------------------------------------------------------------------- loaders


def test_csv_columns(tmp_path: Path) -> None:
    """Names, quotes, empty cells, dtypes and a choice of columns."""
    path = tmp_path / "a.csv"
    path.write_text('\ufeff"a, b",c, d\n1.5,,2\n\n-3e2,4,"5"\n', encoding="utf-8")
    found = data.load_csv(path, dtype=np.float64)
    assert {name: str(column.tolist()) for name, column in found.items()} == {
        "a, b": "[1.5, -300.0]",
        "c": "[nan, 4.0]",
        "d": "[2.0, 5.0]",
    }
    assert list(data.load_csv(path, columns=["d"])) == ["d"]
    with pytest.raises(ArgumentError, match=r"got \['x'\]; it has \['a, b', 'c', 'd'\]"):
        data.load_csv(path, columns=["x"])
    path.write_text("a,b\n1,2\n3,x\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match="in line 3, column 'b': got 'x'"):
        data.load_csv(path)
    path.write_text("a,b\n1,2,3\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match="line 2 has 3 cells: got 2 names"):
        data.load_csv(path)
    path.write_text("", encoding="utf-8")
    with pytest.raises(FileFormatError, match="an empty file"):
        data.load_csv(path)


def test_npz_without_objects(tmp_path: Path) -> None:
    """Arrays come by name; pickled objects are refused."""
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.ones((2, 2)))
    assert {name: array.shape for name, array in data.load_npz(tmp_path / "a.npz").items()} == {"x": (3,), "y": (2, 2)}
    np.savez(tmp_path / "b.npz", x=np.array([{}]))
    with pytest.raises(FileFormatError, match="no archive of arrays"):
        data.load_npz(tmp_path / "b.npz")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without scikit-learn the error says what to install."""
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtraError, match="pip install scikit-learn"):
        data.load_sklearn("digits")


def test_files_that_hold_no_numbers_are_refused_without_advice_to_trust_them(tmp_path: Path) -> None:
    """Damaged files and files of objects are refused; no message says to load pickles."""
    for name in ("a.npy", "a.npz", "cut.npz"):
        (tmp_path / name).write_bytes(b"junk" if name != "cut.npz" else b"PK\x03\x04junk")
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    for name in ("a.npy", "objects.npy"):
        with pytest.raises(FileFormatError, match="open_shards: no array of numbers") as caught:
            data.open_shards(tmp_path / name)
        assert "allow_pickle" not in str(caught.value)
    for name in ("a.npz", "cut.npz", "objects.npy"):
        with pytest.raises(FileFormatError, match="load_npz: no archive of arrays of numbers") as caught:
            data.load_npz(tmp_path / name)
        assert "allow_pickle" not in str(caught.value)


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ([np.ones((2, 2)), np.ones((2, 3))], ShapeError),
        ([np.ones(2), np.ones(2, np.float32)], ShapeError),
        ([1.0], ShapeError),
        (["abc"], DtypeError),
        ([np.array([{}], object)], DtypeError),
    ],
)
def test_parts_that_could_not_be_read_are_not_written(parts: list[Any], error: type[Exception], tmp_path: Path) -> None:
    """Parts that differ, and what is no number, are refused before they are written, not when they are opened."""
    with pytest.raises(error, match="write_shards: "):
        data.write_shards(tmp_path, parts)
    assert len(list(tmp_path.iterdir())) == len(parts) - 1


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a,b,a\n1,2,3\n", r"columns of one name: got \['a'\]"), (bytes(range(256)), "no text of UTF-8")],
)
def test_tables_are_read_whole_or_not_at_all(content: bytes, message: str, tmp_path: Path) -> None:
    """Columns of one name do not hide each other, and what is no text is no table."""
    (tmp_path / "table.csv").write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        data.load_csv(tmp_path / "table.csv")
    with pytest.raises(ArgumentError, match="a delimiter is one character: got ', '"):
        data.load_csv(tmp_path / "table.csv", delimiter=", ")


def test_damaged_files_of_arrays_are_named(tmp_path: Path) -> None:
    """Whatever bytes are changed or cut off, a reader gives arrays, or one error of its own."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x=np.arange(4.0), s=np.ones((2, 2)))
    np.save(tmp_path / "a.npy", np.arange(6.0).reshape(3, 2))
    for name, read in (("a.npz", data.load_npz), ("a.npy", data.open_shards)):
        whole = (tmp_path / name).read_bytes()
        for k in range(400):
            damaged = bytearray(whole)
            for place in rng.integers(min(len(damaged), 300), size=3):
                damaged[place] = rng.integers(256)
            (tmp_path / "b").write_bytes(damaged[: rng.integers(len(damaged))] if k % 5 == 0 else damaged)
            with contextlib.suppress(FileFormatError, ShapeError, DtypeError):
                read(tmp_path / "b")


def test_batches_pickle() -> None:
    """For processes of their own: the same batches come from a copy, in order, shuffled, weighted and padded."""
    rows, key = (np.arange(7.0), afx.arange(7)), afx.random.key(3)
    for made in (
        data.batches(rows, 2),
        data.batches(rows, 2, key=key),
        data.batches(rows, 2, key=key, weights=np.arange(7.0)),
        data.padded_batches(rows, 3, key=key),
    ):
        again = pickle.loads(pickle.dumps(made))
        for got, want in zip(again.epoch(1), made.epoch(1), strict=True):
            for x, y in zip(afx.pytree.leaves(got), afx.pytree.leaves(want), strict=True):
                assert type(x) is type(y)
                np.testing.assert_array_equal(np.asarray(x), np.asarray(y))
