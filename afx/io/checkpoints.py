"""Checkpoints: a folder of states of a training, the last few and the best of them, in parts by rank."""

from __future__ import annotations

import contextlib
import json
import operator
import os
import re
import secrets
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, overload

import attrs
import numpy as np

from afx import pytree
from afx.core.array.array import is_owned
from afx.core.graph import Graph
from afx.errors import ArgumentError, FileFormatError, PeerLost
from afx.io.archive import read_archive, read_content, remove_leftovers, write_archive
from afx.io.files import build_content, content_of
from afx.io.naming import Allowed, RefusedNameError, find_public
from afx.io.values import Encoder
from afx.runtime import job
from afx.runtime.job import Job

# --- Shards: the parts of a checkpoint that ranks write and read each for itself, in files beside the one that names
# them
#
# The file of a step names the files of its shards with their digests, and is written when all of them are on disk: it
# makes the checkpoint valid. Their names hold a number drawn for each save, so that no save writes over the files of
# another one; what no checkpoint names is left over from a save that never ended, and goes with the next one.

T = TypeVar("T")
SHARD: Final = re.compile(r"step_(\d{10,})\.[0-9a-f]{16}\.\d+\.npz")  # step, number of the save, rank
SAVE_BYTES: Final = 8


@attrs.frozen
class Shards:
    """A part of a state that is divided among slots.

    Attributes:
        by_slot: what each slot has.
    """

    by_slot: dict[int, Any]


@attrs.frozen
class ShardFile:
    """A file of shards, as a checkpoint names it.

    Attributes:
        name: in the folder.
        digest: of what was written.
        slots: those whose shards it holds.
    """

    name: str
    digest: str
    slots: tuple[int, ...]


# --- trees


def _is_shards(part: object) -> bool:
    return isinstance(part, Shards)


def take_shards(tree: T) -> tuple[T, list[dict[int, Any]]]:
    """Return a tree whose shards are taken out, and what they were by slot, in the order of the tree."""
    shards: list[dict[int, Any]] = []

    def take(leaf: Any) -> Any:
        if not isinstance(leaf, Shards):
            return leaf
        shards.append(leaf.by_slot)
        return attrs.evolve(leaf, by_slot={})

    return (tree if isinstance(tree, Graph) else pytree.map(take, tree, is_leaf=_is_shards)), shards


def put_shards(tree: T, shards: Sequence[dict[int, Any]]) -> T:
    """Return the tree with shards in the places from which `take_shards` took them."""
    left = iter(shards)

    def put(leaf: Any) -> Any:
        return attrs.evolve(leaf, by_slot=next(left)) if isinstance(leaf, Shards) else leaf

    return pytree.map(put, tree, is_leaf=_is_shards)


def is_divided(tree: object) -> bool:
    """Tell whether this process holds some slots of a tree alone, and other ranks of its job the others."""
    ranks = job.current()
    return ranks is not None and any(len(shards) < ranks.slots for shards in take_shards(tree)[1])


# --- writing


def agree(ranks: Job, work: Callable[[], object]) -> list[Any]:
    """Return what the work of each rank gives, a JSON value; an error of files on one of them is raised by all.

    Raises:
        OSError: a file of some rank could not be written.
    """
    try:
        answer = {"done": work()}
    except OSError as error:
        answer = {"fault": str(error)}
    results = [json.loads(text) for text in ranks.gather_texts(json.dumps(answer))]
    for rank, one in enumerate(results):
        if "fault" in one:
            raise OSError(
                f"save: rank {rank} could not write its part of a checkpoint: got {one['fault']}; what was saved before is whole"
            )
    return [one["done"] for one in results]


def write_shards(
    folder: Path, step: int, shards: Sequence[Mapping[int, Any]], ranks: Job, named: dict[str, Any]
) -> dict[str, Any]:
    """Write the shards of this rank's slots, and return what the checkpoint says of all files; all ranks call it.

    Args:
        folder: one that all ranks share.
        step: the number of the checkpoint.
        shards: those that this rank has.
        ranks: the job.
        named: takes in what the shards name, as `Encoder.named`.

    Raises:
        ArgumentError: ranks save other steps, or trees of other structures.
        OSError: a rank cannot write its file, or rank 0 does not see it.
        PeerLost: a slot whose shards no rank has.
    """
    held = [slot for slot in sorted(shards[0]) if all(slot in by_slot for by_slot in shards)]
    own = [slot for slot in held if slot in ranks.own_slots]
    record = {"step": step, "count": len(shards), "save": secrets.token_hex(SAVE_BYTES), "own": own, "held": held}
    records = agree(ranks, lambda: record)
    if len({(one["step"], one["count"]) for one in records}) > 1:
        raise ArgumentError(
            f"save: ranks save other steps or states: got steps {[one['step'] for one in records]}, "
            f"{[one['count'] for one in records]} sharded parts; every rank saves the same state at the same steps"
        )
    writers = _choose_writers(records, ranks.slots)
    save, slots = records[0]["save"], sorted(slot for slot, rank in writers.items() if rank == ranks.rank)

    def write() -> list[Any]:
        path = _path(folder, step, save, ranks.rank)
        return [path.name, _write_file(path, step, slots, shards, named) if slots else "", slots]

    try:
        files = agree(ranks, write)
    except OSError:  # of another rank: its disk may be full
        _path(folder, step, save, ranks.rank).unlink(missing_ok=True)
        raise
    return {"slots": ranks.slots, "files": [file for file in files if file[-1]]}


def _path(folder: Path, step: int, save: str, rank: int) -> Path:
    return folder / f"step_{step:010d}.{save}.{rank}.npz"


def _choose_writers(records: Sequence[Mapping[str, Any]], slots: int) -> dict[int, int]:
    """Return the rank that writes each slot: its own where that has it, else the first one that does."""
    writers: dict[int, int] = {}
    for kind in ("own", "held"):
        for rank, one in enumerate(records):
            for slot in one[kind]:
                writers.setdefault(slot, rank)
    missing = [slot for slot in range(slots) if slot not in writers]
    if missing:
        raise PeerLost(
            f"save: states of slots that no rank has: got none of {missing}; restart from the last checkpoint"
        )
    return writers


def _write_file(
    path: Path, step: int, slots: Sequence[int], shards: Sequence[Mapping[int, Any]], named: dict[str, Any]
) -> str:
    """Write a file of shards, whose arrays begin with their slots' numbers; return its digest."""
    content: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for slot in slots:
        encoder = Encoder()
        content[str(slot)] = content_of(tuple([by_slot[slot] for by_slot in shards]), encoder)
        arrays |= {f"{slot}.{name}": array for name, array in encoder.arrays.items()}
        named.update(encoder.named)
    return write_archive(path, {"step": step, "slots": content}, arrays)


def check_seen(folder: Path, shards: Mapping[str, Any]) -> None:
    """Refuse a folder in which this rank does not see what others wrote.

    Raises:
        OSError: a file is not there.
    """
    for name, _, _ in shards["files"]:
        if not (folder / name).exists():
            raise OSError(f"rank 0 does not see {str(folder / name)!r}: use a folder that all ranks share")


def remove_unnamed(folder: Path, named: Mapping[int, Collection[str]], spared: Collection[int]) -> None:
    """Remove the files of shards that no checkpoint names.

    Args:
        folder: whose.
        named: by step, the files that its checkpoint names.
        spared: steps whose checkpoints cannot be read.
    """
    for path in folder.iterdir():
        match = SHARD.fullmatch(path.name)
        if match and int(match[1]) not in spared and path.name not in named.get(int(match[1]), ()):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


# --- reading


def read_shard_files(content: Any, step: int, path: Path) -> list[ShardFile]:
    """Return the files that a checkpoint names; none where it is one file.

    Raises:
        FileFormatError: names, slots or digests that no save has written.
    """
    if "shards" not in content:
        return []
    try:
        files = [ShardFile(name, digest, tuple(own)) for name, digest, own in content["shards"]["files"]]
        matches = [SHARD.fullmatch(file.name) for file in files]
        is_right = all(match is not None and int(match[1]) == step for match in matches)
        is_right &= all(type(file.digest) is str and file.digest != "" for file in files)
        slots = sorted(slot for file in files for slot in file.slots)
        is_right &= slots == list(range(len(slots))) and content["shards"]["slots"] == len(slots) > 0
        is_right &= all(type(slot) is int for slot in slots)
    except (LookupError, TypeError, ValueError):
        is_right, files = False, []
    if not is_right:
        raise FileFormatError(
            f"load: no list of a checkpoint's files: got {content['shards']!r:.200} in {str(path)!r}; save it anew"
        )
    return files


def read_shards(tree: T, files: Sequence[ShardFile], allow: Sequence[Allowed], path: Path) -> T:
    """Return the tree of a checkpoint with the shards that this process needs: all outside of a job.

    Args:
        tree: without shards.
        files: of the checkpoint.
        allow: as for `afx.io.load`.
        path: the checkpoint.

    Raises:
        ArgumentError: the checkpoint has other slots than the job.
        FileFormatError: a file is missing, damaged, or another one than was written with the checkpoint.
    """
    ranks, slots = job.current(), sum(len(file.slots) for file in files)
    if ranks is not None and ranks.slots != slots:
        raise ArgumentError(
            f"load: a checkpoint of other slots than the job's: got {slots} for {ranks.slots} in {str(path)!r}; connect as many"
        )
    wanted = set(range(slots) if ranks is None else ranks.held_slots)
    count = len(take_shards(tree)[1])
    shards: list[dict[int, Any]] = [{} for _ in range(count)]
    for file in files:
        for slot, states in _read_file(path.parent / file.name, file, wanted, allow).items():
            if len(states) != count:
                raise FileFormatError(
                    f"load: shards of another tree: got {str(path.parent / file.name)!r}; save it anew"
                )
            for by_slot, state in zip(shards, states, strict=True):
                by_slot[slot] = state
    return put_shards(tree, shards)


def _read_file(
    path: Path, file: ShardFile, wanted: Collection[int], allow: Sequence[Allowed]
) -> dict[int, tuple[Any, ...]]:
    """Return by slot the shards that are wanted of a file; nothing else of it is read."""
    slots = [slot for slot in file.slots if slot in wanted]
    if not slots:
        return {}
    prefixes = {str(slot) for slot in slots}
    try:
        content, arrays = read_archive(path, wants=lambda name: name.partition(".")[0] in prefixes, digest=file.digest)
    except FileNotFoundError:
        raise FileFormatError(
            f"load: a file of the checkpoint is missing: got no {str(path)!r}; bring it back, or load another step"
        ) from None
    shards: dict[int, tuple[Any, ...]] = {}
    for slot in slots:
        members = {name.partition(".")[2]: x for name, x in arrays.items() if name.partition(".")[0] == str(slot)}
        try:
            part = content["slots"][str(slot)]
        except (LookupError, TypeError):
            raise FileFormatError(f"load: no shards of slot {slot}: got {str(path)!r}; save it anew") from None
        shards[slot] = build_content(part, members, tuple, allow, path)
    return shards


# --- Checkpoint header: what the file of a checkpoint says beside its state, and the settings that a folder remembers

NOTHING: Final[Mapping[str, Any]] = {}


class Header(NamedTuple):
    """What a file says beside its arrays.

    Attributes:
        metric: of the state.
        folder: the settings of the folder when it was written.
        shards: the files beside it that hold what ranks wrote each for itself.
    """

    metric: float | None
    folder: Mapping[str, Any]
    shards: Sequence[ShardFile]


def settle(remembered: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a folder: what is asked for, else what it remembers, else those of a new one.

    Raises:
        ArgumentError: values that are none, or another mode than that of the files.
    """
    standard = {"mode": "min", "keep": 3, "keep_best": 1}
    settings = {
        name: remembered.get(name, value) if asked[name] is None else asked[name] for name, value in standard.items()
    }
    mode, keep, keep_best = settings.values()
    if keep < 1 or keep_best < 0:
        raise ArgumentError(f"Checkpoints: keep at least the last one: got keep={keep}, keep_best={keep_best}")
    if mode not in ("min", "max"):
        raise ArgumentError(f'Checkpoints: mode is "min" or "max": got {mode!r}')
    if mode != remembered.get("mode", mode):
        raise ArgumentError(
            f"Checkpoints: the best ones of this folder were kept by mode={remembered['mode']!r}: got {mode!r}; "
            "leave the mode out, or use another folder"
        )
    return {"mode": mode, "keep": operator.index(keep), "keep_best": operator.index(keep_best)}


def read_header(content: Any, step: int, path: Path) -> Header:
    """Return what a file says of its step.

    Raises:
        FileFormatError: it is no checkpoint, or one of another step.
    """
    try:
        info = content["checkpoint"]
        saved, text, folder = info["step"], info["metric"], content.get("folder", NOTHING)
        metric, own = None if text is None else float(text), {name: folder[name] for name in folder}
        settings = (folder.get("mode", "min"), folder.get("keep", 1), folder.get("keep_best", 0))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise FileFormatError(
            f"load: no checkpoint ({error!r:.200}): got {str(path)!r}; load it by afx.io.load"
        ) from None
    if saved != step:
        raise FileFormatError(
            f"load: the file holds step {saved!r} under the name of step {step}: got {str(path)!r}; "
            "give it its own name again"
        )
    if settings[0] not in ("min", "max") or any(type(number) is not int or number < 0 for number in settings[1:]):
        raise FileFormatError(f"load: no settings of a folder: got {folder!r:.200} in {str(path)!r}; save it anew")
    return Header(metric, own, read_shard_files(content, step, path))


# --- Checkpoints

NAME = re.compile(r"step_(\d{10,})\.npz")


@attrs.frozen
class Checkpoint(Generic[T]):
    """A saved state.

    Attributes:
        step: the number under which it was saved.
        metric: the value that says how good it is, if one was given.
        tree: the state.
        carried: what else was saved with it, by name: where the training's own counters stood.
    """

    step: int
    metric: float | None
    tree: T
    carried: Mapping[str, Any] = NOTHING


class Checkpoints:
    """A folder of checkpoints, each written whole or not at all.

    Any number of processes may read a folder while one saves into it: readers delete nothing. A folder remembers how it is
    kept, so that a later process need not say it again. Files that are damaged, or that were renamed to another step,
    are passed over with a warning and never deleted.

    A state of sharded optimizers is saved by all ranks together: each writes a file with its own slots, and rank 0 then the
    one of the step, which makes the checkpoint valid. Each rank reads what it needs, on any number of ranks.

    Args:
        folder: made if it does not exist; no other process may save into it at the same time.
        keep: how many of the last ones stay; None for what the folder remembers, 3 for a new one.
        keep_best: how many of the best ones stay beside them, by the metric; None for what the folder remembers, or 1.
        mode: whether a smaller (``"min"``) or a larger (``"max"``) metric is better; None for what the folder remembers, or
            ``"min"``.
        background: whether a thread writes while training goes on. Arrays of afx are immutable and not copied.
        allow: as for `load`. What this object saves itself is allowed.

    Raises:
        ArgumentError: numbers below these, another mode, or not the one by which the folder's best ones were kept.

    >>> import afx, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoints = afx.io.Checkpoints(folder, keep=2)
    ...     for step in range(5):
    ...         _ = checkpoints.save(step, {"w": afx.ones(2) * step}, metric=abs(step - 1.0))
    ...     checkpoints.steps(), checkpoints.latest().tree["w"].tolist(), checkpoints.best().step
    ([1, 3, 4], [4.0, 4.0], 1)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        keep: int | None = None,
        keep_best: int | None = None,
        mode: Literal["min", "max"] | None = None,
        background: bool = False,
        allow: Sequence[Allowed] = (),
    ) -> None:
        self.folder: Path = Path(folder)
        self._allow = tuple(allow)
        self._own: dict[str, Allowed] = {}  # what the saved trees name beside afx's public classes and functions
        self._headers: dict[
            int, tuple[object, Header]
        ] = {}  # by step: what tells versions of a file apart, and the header
        self.folder.mkdir(parents=True, exist_ok=True)
        self._settings = settle(self._remembered(), {"mode": mode, "keep": keep, "keep_best": keep_best})
        self._writer = ThreadPoolExecutor(1, "afx-checkpoint") if background else None
        self._pending: Future[None] | None = None

    def _remembered(self) -> Mapping[str, Any]:
        """Return the settings that the newest readable file has of the folder."""
        for step in reversed(self._steps()):
            try:
                return self._header(step).folder
            except (FileFormatError, OSError):  # named when it is asked for
                continue
        return NOTHING

    def path(self, step: int) -> Path:
        """Return the file of a step."""
        return self.folder / f"step_{_step_number(step):010d}.npz"

    def steps(self) -> list[int]:
        """List the steps that are saved, in their order."""
        self.wait()
        return self._steps()

    def _steps(self) -> list[int]:
        return sorted(int(m[1]) for path in self.folder.iterdir() if (m := NAME.fullmatch(path.name)))

    def save(self, step: int, tree: object, *, metric: object = None, carried: Mapping[str, object] = NOTHING) -> Path:
        """Save a state under a number, and remove those that are neither among the last nor among the best.

        Args:
            step: an integer of at least 0, Python's, NumPy's or an Array; what was saved under it before is replaced.
            tree: as for `afx.io.save`.
            metric: a number that says how good the state is; None or nan is never the best.
            carried: a tree that is saved with it, such as counters of the loop around it.

        Raises:
            ArgumentError: a negative step, or no integer.
            TreeError: as for `afx.io.save`.
            OSError: the file cannot be written, or that of the save before could not, in the background.
        """
        number = _step_number(step)
        value = None if metric is None else float(metric)  # type: ignore[arg-type]  # whatever converts
        info = {"step": number, "metric": None if value is None else repr(value)}
        ranks = job.current()
        if ranks is not None and is_divided(tree):
            ranks.repeat_until_committed(
                "save of a checkpoint", lambda: self._save_together(ranks, info, tree, carried)
            )
        else:
            self._begin(number, *self._encode(tree, info, carried))
        return self.path(number)

    def _encode(
        self, tree: object, info: Mapping[str, Any], carried: Mapping[str, object]
    ) -> tuple[Any, dict[str, Any]]:
        """Return what a checkpoint's file says, and its arrays."""
        encoder = Encoder()
        content = content_of(tree, encoder) | {"checkpoint": info, "folder": self._settings}
        content["carried"] = content_of(dict(carried), encoder)
        self._allow_named(encoder.named)
        return content, encoder.arrays

    def _allow_named(self, named: Mapping[str, Any]) -> None:
        self._own.update({name: thing for name, thing in named.items() if find_public(name) is None})

    def _save_together(self, ranks: Job, info: Mapping[str, Any], tree: object, carried: Mapping[str, object]) -> None:
        """Write this rank's shards, and, when all ranks have done so, on rank 0 what makes the checkpoint valid."""
        outline, shards = take_shards(tree)
        number, named = info["step"], dict[str, Any]()
        content, arrays = self._encode(outline, info, carried)

        def prepare() -> None:
            self.wait()
            if ranks.rank == 0:
                self._sweep()

        def finish() -> None:
            if ranks.rank == 0:
                check_seen(self.folder, content["shards"])
                self._begin(number, content, arrays)

        agree(ranks, prepare)
        content["shards"] = write_shards(self.folder, number, shards, ranks, named)
        self._allow_named(named)
        agree(ranks, finish)

    def _begin(self, number: int, content: Any, arrays: dict[str, Any]) -> None:
        """Write a checkpoint, or let the thread do so."""
        self.wait()
        remove_leftovers(self.folder, "step_")
        if self._writer is None:
            self._write(number, content, arrays)
        else:  # arrays that somebody may change are copied now
            owned = {name: x if is_owned(x) else x.copy() for name, x in arrays.items()}
            self._pending = self._submit(number, content, owned)

    def _submit(self, number: int, content: Any, arrays: dict[str, Any]) -> Future[None] | None:
        """Let the thread write a checkpoint, or write it here on a system without threads."""
        assert self._writer is not None
        try:
            return self._writer.submit(self._write, number, content, arrays)
        except RuntimeError as error:
            if "start new thread" not in str(error):
                raise
        self._writer = None
        self._write(number, content, arrays)
        return None

    def _write(self, step: int, content: Any, arrays: dict[str, Any]) -> None:
        write_archive(self.path(step), content, arrays)
        headers = dict(self._readable(lambda _: None))
        known = list(headers)
        keep, keep_best = self._settings["keep"], self._settings["keep_best"]
        retained = {*known[-keep:], *self._rank(headers)[:keep_best], step}
        for old in known:
            if old not in retained:
                self.path(old).unlink(missing_ok=True)
                self._headers.pop(old, None)
        self._sweep()

    def _sweep(self) -> None:
        """Remove files of shards that no checkpoint names: those of saves that never ended, and of removed checkpoints."""
        named = {step: [file.name for file in header.shards] for step, header in self._readable(lambda _: None)}
        remove_unnamed(self.folder, named, set(self._steps()) - named.keys())

    def _readable(self, report: Callable[[FileFormatError], None]) -> Iterator[tuple[int, Header]]:
        """Yield the steps whose files can be read, with their headers; what is wrong with the others is reported."""
        for step in self._steps():
            try:
                yield step, self._header(step)
            except FileNotFoundError:  # removed meanwhile
                continue
            except FileFormatError as error:
                report(error)

    def _rank(self, headers: Mapping[int, Header]) -> list[int]:
        """Return the steps that have a metric, the best first; the earlier of equal ones."""
        sign = 1.0 if self._settings["mode"] == "min" else -1.0
        known = {k: h.metric for k, h in headers.items() if h.metric is not None and not np.isnan(h.metric)}
        return sorted(known, key=lambda step: sign * known[step])

    def _header(self, step: int) -> Header:
        """Return what a step's file says; it is read again where it was written again."""
        path, version = self.path(step), self._version(step)
        if step not in self._headers or self._headers[step][0] != version:
            self._headers[step] = version, read_header(read_content(path), step, path)
        return self._headers[step][1]

    def _version(self, step: int) -> tuple[int, ...]:
        """Return numbers that differ between versions of a step's file."""
        status = self.path(step).stat()
        return status.st_mtime_ns, status.st_size, status.st_ino

    @overload
    def load(self, step: int, kind: type[T], *, allow: Sequence[Allowed] = ()) -> Checkpoint[T]: ...
    @overload
    def load(self, step: int, kind: None = None, *, allow: Sequence[Allowed] = ()) -> Checkpoint[Any]: ...
    def load(self, step: int, kind: type[Any] | None = None, *, allow: Sequence[Allowed] = ()) -> Checkpoint[Any]:
        """Return the state of a step.

        Args:
            step: its number.
            kind: the class that is expected, as for `afx.io.load`.
            allow: as for `afx.io.load`, beside what was allowed before.

        Raises:
            FileFormatError: as for `afx.io.load`, or the file was renamed: it holds another step.
            OSError: there is none.
        """
        self.wait()
        number = _step_number(step)
        path, version = self.path(number), self._version(number)
        content, arrays = read_archive(path)
        header = read_header(content, number, path)
        allowed = [*self._allow, *self._own.values(), *allow]
        tree = build_content(content, arrays, kind, allowed, path)
        carried = build_content(content["carried"], arrays, dict, allowed, path) if "carried" in content else NOTHING
        try:
            tree = read_shards(tree, header.shards, allowed, path) if header.shards else tree
        except FileFormatError:
            if self._version(number) == version:
                raise
            return self.load(number, kind, allow=allow)  # it was saved again meanwhile
        return Checkpoint(number, header.metric, tree, carried)

    @overload
    def latest(self, kind: type[T], *, allow: Sequence[Allowed] = ()) -> Checkpoint[T] | None: ...
    @overload
    def latest(self, kind: None = None, *, allow: Sequence[Allowed] = ()) -> Checkpoint[Any] | None: ...
    def latest(self, kind: type[Any] | None = None, *, allow: Sequence[Allowed] = ()) -> Checkpoint[Any] | None:
        """Return the newest state that is whole, None if there is none; damaged files are named in a warning.

        Args:
            kind: as for `load`, likewise ``allow``.
            allow: what files may name.

        Raises:
            FileFormatError: a sound file names a class or function that is not allowed, or that changed.
        """
        return self._first(lambda: self.steps()[::-1], kind, allow, "latest")

    @overload
    def best(self, kind: type[T], *, allow: Sequence[Allowed] = ()) -> Checkpoint[T] | None: ...
    @overload
    def best(self, kind: None = None, *, allow: Sequence[Allowed] = ()) -> Checkpoint[Any] | None: ...
    def best(self, kind: type[Any] | None = None, *, allow: Sequence[Allowed] = ()) -> Checkpoint[Any] | None:
        """Return the state of the best metric that is whole, None if none has one; damaged files are named in a warning.

        Args:
            kind: as for `load`, likewise ``allow``.
            allow: what files may name.

        Raises:
            FileFormatError: a sound file names a class or function that is not allowed, or that changed.
        """
        messages = set[str]()

        def report(error: FileFormatError) -> None:
            if str(error) not in messages:
                messages.add(str(error))
                _warn("best", error)

        self.wait()
        return self._first(lambda: self._rank(dict(self._readable(report))), kind, allow, "best")

    def _first(
        self, order: Callable[[], list[int]], kind: type[Any] | None, allow: Sequence[Allowed], who: str
    ) -> Checkpoint[Any] | None:
        """Return the first state in this order that is whole; a writer may remove files meanwhile.

        A file that needs a class which is not allowed is not damaged: to pass over it would begin a training anew.
        """
        tried = set[int]()
        while left := [step for step in order() if step not in tried]:
            tried.add(left[0])
            try:
                return self.load(left[0], kind, allow=allow)
            except FileNotFoundError:
                continue
            except RefusedNameError:
                raise
            except FileFormatError as error:
                _warn(who, error)
        return None

    def wait(self) -> None:
        """Wait for the save in the background, and raise what it raised."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            pending.result()

    def close(self) -> None:
        """Wait for the save in the background and end its thread."""
        try:
            self.wait()
        finally:
            if self._writer is not None:
                self._writer.shutdown()

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _step_number(step: Any) -> int:
    """Return the number of a step as Python's integer."""
    try:
        number = operator.index(step)
    except TypeError:
        raise ArgumentError(f"Checkpoints: a step is an integer: got {step!r}; give the number of the step") from None
    if number < 0:
        raise ArgumentError(f"Checkpoints: a step is at least 0: got {number}")
    return number


def _warn(who: str, error: FileFormatError) -> None:
    warnings.warn(f"{who}: passes over a damaged checkpoint: {error}", stacklevel=4)
