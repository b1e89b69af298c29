"""Writing: values and metrics of a run in a table of comma-separated values, or for TensorBoard."""

from __future__ import annotations

import csv
import importlib
import io
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from afx.errors import FileFormatError, MissingExtraError
from afx.io.atomic import replace_file
from afx.train.run import Run, Step
from afx.train.watching import check_every

__all__ = ["write_csv", "write_tensorboard"]

S = TypeVar("S")
V = TypeVar("V")
FIRST = ("step", "value")


def write_csv(run: Iterable[Step[S, V]], path: str | os.PathLike[str], *, every: int = 1) -> Iterator[Step[S, V]]:
    """Yield the steps as they are, and write a line of text for each with its number, value and metrics.

    Lines are written at once, so that a training that is killed keeps them. A training that resumes goes on with the same
    file: lines of steps that it takes again are replaced. `afx.data.load_csv` reads it.

    Args:
        run: its values are numbers.
        path: the file; its first line has the names.
        every: how many steps lie between two lines; steps with metrics always have one.

    Raises:
        ArgumentError: ``every`` is below 1.
        FileFormatError: at the first step: the file is another table.
        OSError: the file cannot be written.

    >>> import pathlib, tempfile
    >>> from afx import data, train
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "run.csv"
    ...     _ = train.finish(train.write_csv(train.steps(lambda s, x: (s, x), None, [0.5, 0.25]), path))
    ...     data.load_csv(path)["value"].tolist()
    [0.5, 0.25]
    """
    check_every(every, "write_csv")
    return Run(_write_csv(run, Path(path), every), run)


def _write_csv(run: Iterable[Step[S, V]], path: Path, every: int) -> Iterator[Step[S, V]]:
    table: _Table | None = None
    for step in run:
        table = table or _Table(path, step.number)
        if step.number % every == 0 or step.metrics:
            table.add(step)
        yield step


class _Table:
    """A file of comma-separated values whose first line has the names; a new metric makes a new column."""

    def __init__(self, path: Path, first: int) -> None:
        self._path = path
        self._names = list(FIRST)
        self._rows: list[dict[str, Any]] = []
        if path.exists() and path.stat().st_size:
            self._read(first)
        self._rewrite()

    def _read(self, first: int) -> None:
        """Keep the whole lines of steps before the first one of this run."""
        text = self._path.read_text(encoding="utf-8")
        reader = csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1]))  # a killed process may leave half a line
        names = list(reader.fieldnames or ())
        if tuple(names[:2]) != FIRST:
            raise FileFormatError(
                f"write_csv: the file is another table: got {str(self._path)!r} with {names[:5]}; give another path"
            )
        self._names = names
        self._rows = [row for row in reader if (row["step"] or "").isdecimal() and int(row["step"]) < first]

    def _rewrite(self) -> None:
        """Write the whole table in place of the old one."""
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self._names)
        writer.writeheader()
        writer.writerows(self._rows)
        with replace_file(self._path) as file:
            file.write(text.getvalue().encode())

    def add(self, step: Step[Any, Any]) -> None:
        """Write a step's line."""
        row = {"step": step.number, "value": float(step.value), **step.metrics}
        self._rows.append(row)
        if new := [name for name in row if name not in self._names]:
            self._names += new
            self._rewrite()
            return
        with self._path.open("a", encoding="utf-8", newline="") as file:
            csv.DictWriter(file, self._names).writerow(row)


def write_tensorboard(
    run: Iterable[Step[S, V]],
    folder: str | os.PathLike[str],
    *,
    every: int = 1,
    write_state: Callable[[Any, S, int], None] | None = None,
) -> Iterator[Step[S, V]]:
    """Yield the steps as they are, and write values and metrics for TensorBoard. Needs the extra ``tensorboard``.

    Args:
        run: its values are numbers.
        folder: where ``tensorboard --logdir`` looks.
        every: how many steps lie between two values; metrics are written where they are measured.
        write_state: ``(writer, state, number)``, at the same steps: histograms, figures or images by the writer's own
            methods (`tensorboardX.SummaryWriter`).

    Raises:
        MissingExtraError: tensorboardX is not installed.
        ArgumentError: ``every`` is below 1.
    """
    check_every(every, "write_tensorboard")
    try:
        library: Any = importlib.import_module("tensorboardX")
    except ImportError as error:
        raise MissingExtraError(
            'write_tensorboard: needs tensorboardX: got none; pip install "afx[tensorboard]"'
        ) from error
    return Run(_write_tensorboard(run, lambda: library.SummaryWriter(os.fspath(folder)), every, write_state), run)


def _write_tensorboard(
    run: Iterable[Step[S, V]],
    open_writer: Callable[[], Any],
    every: int,
    write_state: Callable[[Any, S, int], None] | None,
) -> Iterator[Step[S, V]]:
    writer: Any = None
    try:
        for step in run:
            writer = writer or open_writer()
            if step.number % every == 0:
                writer.add_scalar("value", float(step.value), step.number)  # type: ignore[arg-type]  # whatever converts
                if write_state is not None:
                    write_state(writer, step.state, step.number)
            for name, metric in step.metrics.items():
                writer.add_scalar(name, metric, step.number)
            yield step
    finally:
        if writer is not None:
            writer.close()
