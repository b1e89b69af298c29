"""Checkpoints: a folder of states of a training, the last few and the best of them."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar, overload

import attrs
import numpy as np

from afx.errors import ArgumentError, FileFormatError
from afx.io.archive import read_content, write_archive
from afx.io.atomic import remove_leftovers
from afx.io.files import read_content_tree
from afx.io.naming import Allowed
from afx.io.structure import write_tree
from afx.io.values import Encoder

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
    """

    step: int
    metric: float | None
    tree: T


class Checkpoints:
    """A folder of checkpoints, each written whole or not at all.

    Args:
        folder: made if it does not exist; no other process may save into it at the same time.
        keep: how many of the last ones stay.
        keep_best: how many of the best ones stay beside them, by the metric.
        mode: whether a smaller (``"min"``) or a larger (``"max"``) metric is better.
        background: whether a thread writes while training goes on. Arrays of afx are immutable and not copied.
        allow: as for `load`.

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
        keep: int = 3,
        keep_best: int = 1,
        mode: Literal["min", "max"] = "min",
        background: bool = False,
        allow: Sequence[Allowed] = (),
    ) -> None:
        if keep < 1 or keep_best < 0:
            raise ArgumentError(f"Checkpoints: keep at least the last one: got keep={keep}, keep_best={keep_best}")
        if mode not in ("min", "max"):
            raise ArgumentError(f'Checkpoints: mode is "min" or "max": got {mode!r}')
        self.folder: Path = Path(folder)
        self._keep, self._keep_best, self._sign = keep, keep_best, 1.0 if mode == "min" else -1.0
        self._allow = tuple(allow)
        self._metrics: dict[int, float | None] = {}
        self._writer = ThreadPoolExecutor(1, "afx-checkpoint") if background else None
        self._pending: Future[None] | None = None
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.folder, "step_")

    def path(self, step: int) -> Path:
        """Return the file of a step."""
        return self.folder / f"step_{step:010d}.npz"

    def steps(self) -> list[int]:
        """List the steps that are saved, in their order."""
        self.wait()
        return self._steps()

    def _steps(self) -> list[int]:
        return sorted(int(m[1]) for path in self.folder.iterdir() if (m := NAME.fullmatch(path.name)))

    def save(self, step: int, tree: object, *, metric: object = None) -> Path:
        """Save a state under a number, and remove those that are neither among the last nor among the best.

        Args:
            step: at least 0; what was saved under it before is replaced.
            tree: as for `afx.io.save`.
            metric: a number that says how good the state is; None or nan is never the best.

        Raises:
            ArgumentError: a negative step.
            TreeError: as for `afx.io.save`.
            OSError: the file cannot be written, or that of the save before could not, in the background.
        """
        if step < 0:
            raise ArgumentError(f"Checkpoints: a step is at least 0: got {step}")
        number = None if metric is None else float(metric)  # type: ignore[arg-type]  # whatever converts
        encoder = Encoder()
        info = {"step": step, "metric": None if number is None else repr(number)}
        content = {"tree": write_tree(tree, encoder), "checkpoint": info}
        self.wait()
        if self._writer is None:
            self._write(step, number, content, encoder.arrays)
        else:  # arrays that their owner may change are copied now
            arrays = {name: x.copy() if x.flags.writeable else x for name, x in encoder.arrays.items()}
            self._pending = self._writer.submit(self._write, step, number, content, arrays)
        return self.path(step)

    def _write(self, step: int, metric: float | None, content: Any, arrays: dict[str, Any]) -> None:
        write_archive(self.path(step), content, arrays)
        self._metrics[step] = metric
        steps = self._steps()
        kept = {*steps[-self._keep :], *self._ranked(steps)[: self._keep_best], step}
        for old in steps:
            if old not in kept:
                self.path(old).unlink(missing_ok=True)
                self._metrics.pop(old, None)

    def _ranked(self, steps: Sequence[int]) -> list[int]:
        """Return the steps that have a metric, the best first; the earlier of equal ones."""
        known = {step: metric for step in steps if (metric := self._metric(step)) is not None and not np.isnan(metric)}
        return sorted(known, key=lambda step: self._sign * known[step])

    def _metric(self, step: int) -> float | None:
        if step not in self._metrics:
            try:
                text = read_content(self.path(step))["checkpoint"]["metric"]
                self._metrics[step] = None if text is None else float(text)
            except (FileFormatError, KeyError, TypeError):
                self._metrics[step] = None
        return self._metrics[step]

    @overload
    def load(self, step: int, kind: type[T], *, allow: Sequence[Allowed] = ()) -> Checkpoint[T]: ...
    @overload
    def load(self, step: int, kind: None = None, *, allow: Sequence[Allowed] = ()) -> Checkpoint[Any]: ...
    def load(self, step: int, kind: type[Any] | None = None, *, allow: Sequence[Allowed] = ()) -> Checkpoint[Any]:
        """Return the state of a step.

        Args:
            step: which one.
            kind: the class that is expected, as for `afx.io.load`.
            allow: what it may name, beside what the folder's own ``allow`` says.

        Raises:
            FileFormatError: as for `afx.io.load`.
            OSError: there is none.
        """
        self.wait()
        tree = read_content_tree(self.path(step), kind, (*self._allow, *allow))
        return Checkpoint(step, self._metric(step), tree)

    @overload
    def latest(self, kind: type[T], *, allow: Sequence[Allowed] = ()) -> Checkpoint[T] | None: ...
    @overload
    def latest(self, kind: None = None, *, allow: Sequence[Allowed] = ()) -> Checkpoint[Any] | None: ...
    def latest(self, kind: type[Any] | None = None, *, allow: Sequence[Allowed] = ()) -> Checkpoint[Any] | None:
        """Return the newest state that is whole, None if there is none; damaged files are named in a warning.

        The arguments are those of `load`.
        """
        for step in reversed(self.steps()):
            try:
                return self.load(step, kind, allow=allow)
            except FileFormatError as error:
                warnings.warn(f"latest: passes over a damaged checkpoint: {error}", stacklevel=2)
        return None

    @overload
    def best(self, kind: type[T]) -> Checkpoint[T] | None: ...
    @overload
    def best(self, kind: None = None) -> Checkpoint[Any] | None: ...
    def best(self, kind: type[Any] | None = None) -> Checkpoint[Any] | None:
        """Return the state of the best metric, None if none has one."""
        ranked = self._ranked(self.steps())
        return self.load(ranked[0], kind) if ranked else None

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
