"""Checkpoints: a folder of states of a training, the last few and the best of them."""

from __future__ import annotations

import operator
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar, overload

import attrs
import numpy as np

from afx.core.array.array import is_owned
from afx.errors import ArgumentError, FileFormatError
from afx.io.archive import read_archive, read_content, write_archive
from afx.io.atomic import remove_leftovers
from afx.io.checkpoint_header import NOTHING, Header, read_header, settle
from afx.io.files import build_content, content_of
from afx.io.naming import Allowed, RefusedNameError, find_public
from afx.io.shards import agree, check_seen, is_divided, read_shards, remove_unnamed, take_shards, write_shards
from afx.io.values import Encoder
from afx.runtime import job
from afx.runtime.job import Job

__all__ = ["Checkpoint", "Checkpoints"]

T = TypeVar("T")
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
            kept = {name: x if is_owned(x) else x.copy() for name, x in arrays.items()}
            self._pending = self._submit(number, content, kept)

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
        kept = {*known[-keep:], *self._rank(headers)[:keep_best], step}
        for old in known:
            if old not in kept:
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
        """Return what tells versions of a step's file apart."""
        found = self.path(step).stat()
        return found.st_mtime_ns, found.st_size, found.st_ino

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
        told = set[str]()

        def report(error: FileFormatError) -> None:
            if str(error) not in told:
                told.add(str(error))
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
