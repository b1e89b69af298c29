"""Checkpoints of several files: each rank writes its slots and reads what it needs; whatever happens, what was saved is whole."""

import contextlib
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
from afx import distributed, io, train
from afx.errors import ArgumentError, FileFormatError, PeerLost
from afx.io import checkpoints as saving, checkpoints as shards
from afx.runtime import job

SLOTS = 4
SECONDS = 60.0


class Rank:
    """One of several threads that stand for ranks."""

    def __init__(self, rank: int, meeting: "Meeting", slots: int) -> None:
        self.rank, self.ranks, self.slots = rank, meeting.ranks, slots
        self.own_slots = self.held_slots = [slot for slot in range(slots) if slot * meeting.ranks // slots == rank]
        self._meeting = meeting

    def repeat_until_committed(self, name: str, attempt: Callable[[], Any]) -> Any:
        """Make the attempt, as all ranks do."""
        assert set(self.gather_texts(name)) == {name}
        return attempt()

    def gather_texts(self, text: str) -> list[str]:
        """Return the texts of all."""
        return self._meeting.gather(self.rank, text)

    def outline(self, tree: Any) -> Any:
        """Return what is the same on any number of ranks."""
        return afx.pytree.map(
            lambda leaf: next(iter(leaf.by_slot.values())) if isinstance(leaf, distributed.ShardedState) else leaf,
            tree,
            is_leaf=lambda part: isinstance(part, distributed.ShardedState),
        )


class Meeting:
    """Where threads wait for each other."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.barrier = threading.Barrier(ranks)
        self._texts = [""] * ranks

    def gather(self, rank: int, text: str) -> list[str]:
        """Return the texts of all ranks."""
        self._texts[rank] = text
        self.barrier.wait(SECONDS)
        found = list(self._texts)
        self.barrier.wait(SECONDS)
        return found


LOCAL = threading.local()


@pytest.fixture(autouse=True)
def _job_of_each_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each thread a rank of its own; the main thread has none."""
    monkeypatch.setattr(job, "current", lambda: getattr(LOCAL, "rank", None))
    monkeypatch.setattr(job, "outline", lambda tree: LOCAL.rank.outline(tree) if hasattr(LOCAL, "rank") else tree)


def on_ranks(ranks: int, work: Callable[[Rank], Any], slots: int = SLOTS) -> list[Any]:
    """Return what each rank returns, or the error that it raises; where one is killed, so are the others."""
    meeting, found = Meeting(ranks), [None] * ranks

    def run(rank: int) -> None:
        LOCAL.rank = Rank(rank, meeting, slots)
        try:
            found[rank] = work(LOCAL.rank)
        except Exception as error:
            found[rank] = error  # an error in place of a result
            if isinstance(error, KilledError):
                meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    return found


class KilledError(Exception):
    """A process ends here."""


def state_of(slot: int, step: int) -> Any:
    """Return the state of a slot after some steps."""
    return {"mu": afx.asarray(np.arange(5.0) + 10 * slot + 100 * step), "count": step}


def tree_of(step: int, slots: Any = range(SLOTS)) -> Any:
    """Return parameters, and the states of some slots."""
    return {"w": afx.ones(3) * step, "state": distributed.ShardedState({slot: state_of(slot, step) for slot in slots})}


def save_on(ranks: int, folder: Path, *steps: int, **options: Any) -> list[Any]:
    """Save some steps."""

    def work(rank: Rank) -> None:
        checkpoints = io.Checkpoints(folder, **{"keep_best": 0, **options})
        for step in steps:
            checkpoints.save(step, tree_of(step, rank.own_slots), metric=float(step))
        checkpoints.close()

    return on_ranks(ranks, work)


def parts(folder: Path) -> list[Path]:
    """Return the files of shards."""
    return sorted(path for path in folder.iterdir() if shards.SHARD.fullmatch(path.name))


def bytes_of(tree: Any) -> list[bytes]:
    """Return the bytes of all leaves."""
    return [np.asarray(leaf).tobytes() for leaf in afx.pytree.leaves(tree)]


def check_whole(folder: Path, step: int) -> None:
    """Compare the newest checkpoint with what was saved."""
    found = io.Checkpoints(folder).latest()
    assert found is not None
    assert found.step == step
    assert bytes_of(found.tree) == bytes_of(tree_of(step))


@pytest.mark.parametrize("background", [False, True])
def test_each_rank_writes_its_slots_and_reads_what_it_needs(tmp_path: Path, background: bool) -> None:
    """A file a rank and one of the step; other numbers of ranks read their slots alone, one process all of them."""
    assert save_on(3, tmp_path, 1, 2, 3, keep=1, keep_best=1, background=background) == [None] * 3
    assert len(parts(tmp_path)) == 2 * 3
    assert io.Checkpoints(tmp_path).steps() == [1, 3]
    check_whole(tmp_path, 3)
    best = io.Checkpoints(tmp_path).best()
    assert best is not None
    assert best.step == 1
    for ranks in (1, 2, 3, 4):
        found = on_ranks(ranks, lambda rank: (rank.own_slots, io.Checkpoints(tmp_path).load(3).tree))
        for own, tree in found:
            assert bytes_of(tree) == bytes_of(tree_of(3, own))


def test_a_state_of_all_slots_is_one_file(tmp_path: Path) -> None:
    """What `ShardedOptimizer.gather` returns needs no other rank."""
    on_ranks(2, lambda rank: rank.rank or io.Checkpoints(tmp_path).save(4, tree_of(4)))
    assert not parts(tmp_path)
    check_whole(tmp_path, 4)


def test_only_what_a_rank_needs_is_read(tmp_path: Path) -> None:
    """A damaged array of one slot hurts nobody who needs another one of the same file."""
    save_on(2, tmp_path, 1)
    first, second = parts(tmp_path)
    data = second.read_bytes()
    second.write_bytes(data.replace(np.float64(133.0).tobytes(), np.float64(7.0).tobytes()))  # of slot 3
    first.unlink()
    found = on_ranks(4, lambda rank: io.Checkpoints(tmp_path).load(1).tree)
    assert [isinstance(one, FileFormatError) for one in found] == [True, True, False, True]
    assert bytes_of(found[2]) == bytes_of(tree_of(1, [2]))
    assert first.name in str(found[0])
    assert f"'3.[0][mu]' is damaged: its checksum differs: got {str(second)!r}" in str(found[3])


def swap(path: Path, folder: Path) -> None:
    """Put the file of another save in the place of one."""
    save_on(3, folder / "other", 2)
    shutil.copy(parts(folder / "other")[0], path)


FAULTS: dict[str, tuple[Callable[[Path, Path], Any], str]] = {
    "missing": (lambda path, folder: path.unlink(), "a file of the checkpoint is missing"),
    "cut off": (lambda path, folder: path.write_bytes(path.read_bytes()[:-40]), "does not end as an archive"),
    "empty": (lambda path, folder: path.write_bytes(b""), "the file is cut off"),
    "other bytes": (lambda path, folder: path.write_bytes(b"x" * 5000), "does not end as an archive"),
    "another one's": (swap, "another file than the one that was written with the checkpoint"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, fault: str) -> None:
    """The file is named, and the checkpoint before it taken, by all ranks, though one alone needs the file."""
    save_on(3, tmp_path / "run", 1, 2)
    spoil, message = FAULTS[fault]
    path = sorted((tmp_path / "run").glob("step_0000000002.*.1.npz"))[0]
    spoil(path, tmp_path)
    with pytest.raises(FileFormatError, match=message) as error:
        io.Checkpoints(tmp_path / "run").load(2)
    assert str(path) in str(error.value)

    def resume(rank: Rank) -> Any:
        return train.resume(io.Checkpoints(tmp_path / "run"), tree_of(0, rank.own_slots))[0]

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert on_ranks(4, resume) == [1, 1, 1, 1]
    assert all(path.name in str(one.message) for one in told)
    assert told


@pytest.mark.parametrize(
    "change",
    [
        lambda listed: listed["files"][0].__setitem__(0, "../../secret.npz"),
        lambda listed: listed["files"][0].__setitem__(0, "step_0000000001.0123456789abcdef.0.npz"),
        lambda listed: listed["files"][0].__setitem__(2, [0, 1, 3]),
        lambda listed: listed["files"][0].__setitem__(2, [0.0, True]),
        lambda listed: listed["files"].pop(),
        lambda listed: listed.__setitem__("slots", 10**12),
        lambda listed: listed.__setitem__("files", 7),
        lambda listed: listed["files"][0].__setitem__(1, None),
    ],
)
def test_forged_lists_are_refused(tmp_path: Path, change: Callable[[Any], Any]) -> None:
    """A checkpoint names files of its own step and folder, and each slot once."""
    save_on(2, tmp_path, 2)
    path = io.Checkpoints(tmp_path).path(2)
    content, arrays = io.archive.read_archive(path)
    change(content["shards"])
    io.archive.write_archive(path, content, arrays)
    with pytest.raises(FileFormatError, match="no list of a checkpoint's files") as error:
        io.Checkpoints(tmp_path).load(2)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content.pop("slots"), "no shards of slot 0"),
        (lambda content: content["slots"].pop("0"), "no shards of slot 0"),
        (lambda content: content.__setitem__("slots", 7), "no shards of slot 0"),
        (lambda content: content["slots"].__setitem__("0", 7), "no structure of afx"),
        (lambda content: content["slots"]["0"]["tree"].clear(), "no tree"),
    ],
)
def test_forged_shards_are_refused(tmp_path: Path, change: Callable[[Any], Any], message: str) -> None:
    """With the digest of what they are now, too."""
    save_on(2, tmp_path, 2)
    path, part = io.Checkpoints(tmp_path).path(2), parts(tmp_path)[0]
    content, arrays = io.archive.read_archive(part)
    change(content)
    digest = io.archive.write_archive(part, content, arrays)
    listed, kept = io.archive.read_archive(path)
    listed["shards"]["files"][0][1] = digest
    io.archive.write_archive(path, listed, kept)
    with pytest.raises(FileFormatError, match=message):
        io.Checkpoints(tmp_path).load(2)


@contextlib.contextmanager
def killed_at(moment: int) -> Iterator[list[int]]:
    """End all ranks before the so-many-th change of the folder."""
    count, lock, real_write, real_unlink = [0], threading.Lock(), shards.write_archive, Path.unlink

    def tick() -> None:
        with lock:
            count[0] += 1
            if count[0] == moment:
                raise KilledError

    def write(*args: Any) -> str:
        tick()
        return real_write(*args)

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if count[0] < moment:
            tick()
            real_unlink(path, missing_ok)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "write_archive", write)
        patch.setattr(saving, "write_archive", write)
        patch.setattr(Path, "unlink", unlink)
        yield count


@pytest.mark.parametrize("step", [2, 3])
def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path, step: int) -> None:
    """The new one where its own file was written, else the former, also where that has the same step; leftovers go."""
    moments = 0
    while True:
        moments += 1
        folder = tmp_path / str(moments)
        save_on(3, folder, 1, 2, keep=2)
        with killed_at(moments) as count:
            save_on(2, folder, step, keep=2)
        if count[0] < moments:
            break
        found = io.Checkpoints(folder).latest()
        assert found is not None
        assert bytes_of(found.tree) == bytes_of(tree_of(found.step))
        assert found.step in (2, step)
        assert save_on(4, folder, 5, keep=1) == [None] * 4
        check_whole(folder, 5)
        assert len(list(folder.iterdir())) == 1 + 4
    assert moments > 3  # two files of shards, that of the step, and what is removed


def test_an_error_of_one_rank_is_raised_by_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk of one rank does not leave the others waiting, nor files that nobody names."""
    save_on(3, tmp_path, 1)
    real = shards.write_archive

    def write(path: Path, *args: Any) -> str:
        if path.name.endswith(".1.npz"):
            raise OSError(28, "No space left on device")
        return real(path, *args)

    monkeypatch.setattr(shards, "write_archive", write)
    found = save_on(3, tmp_path, 2)
    assert all("save: rank 1 could not write its part" in str(one) and "No space left" in str(one) for one in found)
    assert len(list(tmp_path.iterdir())) == 1 + 3
    check_whole(tmp_path, 1)


def test_ranks_that_do_not_fit_are_told_so(tmp_path: Path) -> None:
    """Other steps, slots that nobody has, folders that are not shared, jobs of other slots."""
    found = on_ranks(2, lambda rank: io.Checkpoints(tmp_path).save(rank.rank, tree_of(1, rank.own_slots)))
    assert all(isinstance(one, ArgumentError) and "got steps [0, 1]" in str(one) for one in found)
    found = on_ranks(2, lambda rank: io.Checkpoints(tmp_path).save(1, tree_of(1, [0])))
    assert all(isinstance(one, PeerLost) and "got none of [1, 2, 3]" in str(one) for one in found)
    found = on_ranks(2, lambda rank: io.Checkpoints(tmp_path / str(rank.rank)).save(1, tree_of(1, rank.own_slots)))
    assert all(isinstance(one, OSError) and "use a folder that all ranks share" in str(one) for one in found)
    save_on(2, tmp_path / "run", 1)
    found = on_ranks(2, lambda rank: io.Checkpoints(tmp_path / "run").load(1), slots=5)
    assert all(isinstance(one, ArgumentError) and "got 4 for 5" in str(one) for one in found)

    def resume(rank: Rank) -> Any:
        return train.resume(io.Checkpoints(tmp_path / ("run" if rank.rank else "none")), tree_of(0, rank.own_slots))

    found = on_ranks(2, resume)
    assert all(isinstance(one, OSError) and "got the steps [-1, 1] by rank" in str(one) for one in found)


def test_slots_that_two_ranks_hold_are_written_once(tmp_path: Path) -> None:
    """As where a job goes on without lost ranks: the owner writes, or who is left."""
    on_ranks(3, lambda rank: io.Checkpoints(tmp_path).save(1, tree_of(1, [0, 1, 2] if rank.rank else [0, 3])))
    check_whole(tmp_path, 1)
    header = io.archive.read_content(io.Checkpoints(tmp_path).path(1))
    assert [slots for _, _, slots in header["shards"]["files"]] == [[0, 3], [1, 2]]


def test_single_files_of_a_checkpoint_are_not_loaded(tmp_path: Path) -> None:
    """`afx.io.load` of one of them would give a state without its slots, or a part without the rest."""
    save_on(2, tmp_path, 1)
    for path in tmp_path.iterdir():
        with pytest.raises(FileFormatError, match=r"one of several files of a checkpoint: .*afx.io.Checkpoints"):
            io.load(path)
