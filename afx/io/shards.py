"""Shards: the parts of a checkpoint that ranks write and read each for itself, in files beside the one that names them.

The file of a step names the files of its shards with their digests, and is written when all of them are on disk: it makes
the checkpoint valid. Their names hold a number drawn for each save, so that no save writes over the files of another one;
what no checkpoint names is left over from a save that never ended, and goes with the next one.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import attrs

from afx import pytree
from afx.core.graph import Graph
from afx.errors import ArgumentError, FileFormatError, PeerLost
from afx.io.archive import read_archive, write_archive
from afx.io.files import build_content, content_of
from afx.io.naming import Allowed
from afx.io.values import Encoder
from afx.runtime import job
from afx.runtime.job import Job

__all__ = [
    "ShardFile",
    "Shards",
    "agree",
    "check_seen",
    "is_divided",
    "put_shards",
    "read_shard_files",
    "read_shards",
    "remove_unnamed",
    "take_shards",
    "write_shards",
]

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
    taken: list[dict[int, Any]] = []

    def take(leaf: Any) -> Any:
        if not isinstance(leaf, Shards):
            return leaf
        taken.append(leaf.by_slot)
        return attrs.evolve(leaf, by_slot={})

    return (tree if isinstance(tree, Graph) else pytree.map(take, tree, is_leaf=_is_shards)), taken


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
        told: dict[str, Any] = {"done": work()}
    except OSError as error:
        told = {"fault": str(error)}
    found = [json.loads(text) for text in ranks.gather_texts(json.dumps(told))]
    for rank, one in enumerate(found):
        if "fault" in one:
            raise OSError(
                f"save: rank {rank} could not write its part of a checkpoint: got {one['fault']}; what was saved before is whole"
            )
    return [one["done"] for one in found]


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
    mine = {"step": step, "count": len(shards), "save": secrets.token_hex(SAVE_BYTES), "own": own, "held": held}
    told = agree(ranks, lambda: mine)
    if len({(one["step"], one["count"]) for one in told}) > 1:
        raise ArgumentError(
            f"save: ranks save other steps or states: got steps {[one['step'] for one in told]}, "
            f"{[one['count'] for one in told]} sharded parts; every rank saves the same state at the same steps"
        )
    writers = _choose_writers(told, ranks.slots)
    save, slots = told[0]["save"], sorted(slot for slot, rank in writers.items() if rank == ranks.rank)

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


def _choose_writers(told: Sequence[Mapping[str, Any]], slots: int) -> dict[int, int]:
    """Return the rank that writes each slot: its own where that has it, else the first one that does."""
    found: dict[int, int] = {}
    for kind in ("own", "held"):
        for rank, one in enumerate(told):
            for slot in one[kind]:
                found.setdefault(slot, rank)
    missing = [slot for slot in range(slots) if slot not in found]
    if missing:
        raise PeerLost(
            f"save: states of slots that no rank has: got none of {missing}; restart from the last checkpoint"
        )
    return found


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
    found: list[dict[int, Any]] = [{} for _ in range(count)]
    for file in files:
        for slot, states in _read_file(path.parent / file.name, file, wanted, allow).items():
            if len(states) != count:
                raise FileFormatError(
                    f"load: shards of another tree: got {str(path.parent / file.name)!r}; save it anew"
                )
            for by_slot, state in zip(found, states, strict=True):
                by_slot[slot] = state
    return put_shards(tree, found)


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
    found: dict[int, tuple[Any, ...]] = {}
    for slot in slots:
        mine = {name.partition(".")[2]: x for name, x in arrays.items() if name.partition(".")[0] == str(slot)}
        try:
            part = content["slots"][str(slot)]
        except (LookupError, TypeError):
            raise FileFormatError(f"load: no shards of slot {slot}: got {str(path)!r}; save it anew") from None
        found[slot] = build_content(part, mine, tuple, allow, path)
    return found
