"""Watching: metrics and a progress bar, tables of values, and states saved while training goes on."""

from __future__ import annotations

import contextlib
import csv
import importlib
import io
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import attrs
import numpy as np

from afx.errors import ArgumentError, FileFormatError, MissingExtraError, TreeError
from afx.io import Checkpoint, Checkpoints
from afx.io.archive import replace_file
from afx.io.checkpoints import is_divided
from afx.io.files import check_savable
from afx.io.naming import Allowed, RefusedNameError
from afx.pytree import flatten_with_path, leaves, structure, unflatten
from afx.runtime import job
from afx.runtime.job import Job
from afx.train.run import MetricReader, Run, Start, Step

__all__ = ["evaluate", "resume", "save_checkpoints", "show_progress", "write_csv", "write_tensorboard"]

# --- Watching: metrics of the state every so many steps, and a progress bar

S = TypeVar("S")
V = TypeVar("V")


def evaluate(
    run: Iterable[Step[S, V]], measure: Callable[[S], Mapping[str, object]], *, every: int = 1
) -> Iterator[Step[S, V]]:
    """Yield the steps, those of every so many with the metrics of their state.

    Metrics of several calls add up; a later one of the same name wins.

    Args:
        run: steps.
        measure: the state to numbers by name, such as ``lambda state: {"accuracy": accuracy(state[0], x, y)}``.
        every: how many steps lie between two measurements.

    Raises:
        ArgumentError: ``every`` is below 1.

    >>> from afx import train
    >>> run = train.steps(lambda s, x: (s + x, x), 0.0, [1.0, 2.0, 3.0])
    >>> [dict(step.metrics) for step in train.evaluate(run, lambda s: {"twice": 2 * s}, every=2)]
    [{}, {'twice': 6.0}, {}]
    """
    check_every(every, "evaluate")
    return Run(_evaluate(run, measure, every), run)


def _evaluate(run: Iterable[Step[S, V]], measure: Callable[[S], Mapping[str, Any]], every: int) -> Iterator[Step[S, V]]:
    for step in run:
        if step.number % every:
            yield step
        else:
            measured = {name: float(metric) for name, metric in measure(step.state).items()}
            yield attrs.evolve(step, metrics={**step.metrics, **measured})


def check_every(every: int, who: str) -> None:
    """Refuse a number of steps below 1."""
    if every < 1:
        raise ArgumentError(f"{who}: at least every step: got every={every}; give a positive number")


def show_progress(
    run: Iterable[Step[S, V]], total: int | None = None, *, every: int = 10, label: str = "", **options: Any
) -> Iterator[Step[S, V]]:
    """Yield the steps as they are and show a progress bar with the value and the metrics. Needs the extra ``progress``.

    Args:
        run: steps.
        total: the number of steps; None for the limit that `limit_steps` sets, before this piece or behind it.
        every: how many steps lie between two values that are shown.
        label: stands in front.
        options: for tqdm.

    Raises:
        MissingExtraError: tqdm is not installed.
        ArgumentError: ``every`` is below 1.
    """
    check_every(every, "show_progress")
    try:
        tqdm = importlib.import_module("tqdm").tqdm
    except ImportError as error:
        raise MissingExtraError('show_progress: needs tqdm: got none; pip install "afx[progress]"') from error
    shown: Run[S, V] = Run(iter(()), run)

    def open_bar(first: int) -> Any:
        last = shown.last() if total is None else total
        return tqdm(total=last, initial=first - 1, desc=label or None, **options)

    shown.taken = _show(run, open_bar, every)
    return shown


def _show(run: Iterable[Step[S, V]], open_bar: Callable[[int], Any], every: int) -> Iterator[Step[S, V]]:
    shown: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        bar = None
        for step in run:
            bar = bar or stack.enter_context(open_bar(step.number))
            shown.update({name: f"{metric:.4g}" for name, metric in step.metrics.items()})
            if step.number % every == 0 or step.metrics:
                bar.set_postfix({**_shown_value(step.value), **shown}, refresh=False)
            bar.update()
            yield step


def _shown_value(value: Any) -> dict[str, str]:
    try:
        return {"value": f"{float(value):.4g}"}
    except (TypeError, ValueError):
        return {}


# --- Writing: values and metrics of a run in a table of comma-separated values, or for TensorBoard

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
    table = None
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
        library = importlib.import_module("tensorboardX")
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
    writer = None
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


# --- Checkpointing: states saved while training goes on, and runs that resume where they ended


def save_checkpoints(
    run: Iterable[Step[S, V]], checkpoints: Checkpoints, *, every: int, metric: str | None = None
) -> Iterator[Step[S, V]]:
    """Yield the steps as they are, and save the state of every so many, and that of the last.

    A state is saved before its step is yielded, with what the pieces before this one carry (the patience of `stop_early`).
    That it can be saved is looked at with the first step. Of ranks of `afx.distributed.connect`, rank 0 alone writes what all
    of them hold; each writes its own slots of sharded optimizers (see `afx.io.Checkpoints`).

    Args:
        run: steps.
        checkpoints: the folder.
        every: how many steps lie between two states that are saved.
        metric: a metric of `evaluate` by which the best states are kept; they are measured at the same steps.

    Raises:
        ArgumentError: ``every`` is below 1, or (at the end) a metric that was never measured.
        TreeError: at the first step: a lambda in the state, or another value that no file can hold.

    >>> import tempfile
    >>> from afx import io, train
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoints = io.Checkpoints(folder)
    ...     run = train.steps(lambda total, x: (total + x, x), 0.0, [1.0, 2.0, 3.0])
    ...     _ = train.finish(train.save_checkpoints(run, checkpoints, every=2))
    ...     checkpoints.steps(), train.resume(checkpoints, 0.0)
    ([2, 3], (3, 6.0))
    """
    check_every(every, "save_checkpoints")
    return Run(_save(run, checkpoints, every, metric), run)


def _save(run: Iterable[Step[S, V]], checkpoints: Checkpoints, every: int, metric: str | None) -> Iterator[Step[S, V]]:
    """Pass steps on, and save every so many of them, the last one in any case."""
    last = None
    reader = MetricReader(metric, "save_checkpoints")
    saved = None

    def save(step: Step[S, V]) -> None:
        metric_value = metric and reader.read(step)
        if job.is_writer() or is_divided(step.state):
            checkpoints.save(step.number, step.state, metric=metric_value, carried=_carried_by(step))

    for step in run:
        if last is None:
            check_savable(step.state)
        last = step
        if step.number % every == 0:
            save(step)
            saved = step.number
        yield step
    if last is not None and last.number != saved:
        save(last)
    checkpoints.wait()
    reader.check()


def _carried_by(step: Step[Any, Any]) -> dict[str, Any]:
    """Return what the pieces of the run carry, and what those behind this one have not seen yet."""
    try:
        value = float(step.value)
    except (TypeError, ValueError):
        value = None
    states = {name: state for name, state in step.carried.items() if name != "unseen"}
    oldest = min([state["number"] for state in states.values()], default=0)
    unseen = [before for before in step.carried.get("unseen", ()) if before["number"] > oldest]
    return {**states, "unseen": [*unseen, {"number": step.number, "value": value, "metrics": dict(step.metrics)}]}


def resume(checkpoints: Checkpoints, initial: S) -> tuple[int, S]:
    """Return how many steps are done and the newest state that was saved; 0 and ``initial`` at the beginning.

    With batches by step number (`afx.data.Batches.stream`) the training goes on bit for bit:
    ``start, state = resume(checkpoints, state)``, then ``steps(step, state, batches.stream(start), start=start)``.

    The number of steps brings along what the pieces of the run carried: `steps` hands it to them, so that `stop_early` goes
    on with the patience that it had.

    Args:
        checkpoints: the folder.
        initial: the state at the beginning; what was saved must have its structure, and may name its classes and functions.

    All ranks of a job call it, and go on from the same step: the newest one of whose files each of them can read what it needs.

    Raises:
        TreeError: the folder holds states of another structure or of other shapes, or the initial one holds what no file
            can, such as a lambda.
        OSError: ranks of a job that see other files.
    """
    expected = structure(job.outline(initial))
    ranks, allowed = job.current(), check_savable(initial)
    if ranks is None or ranks.ranks == 1:
        newest = checkpoints.latest(allow=allowed)
    else:
        newest = ranks.repeat_until_committed("resume", lambda: _latest_of_all(checkpoints, ranks, allowed))
    if newest is None:
        return 0, initial
    got = structure(job.outline(newest.tree))
    if got != expected and repr(got) != repr(expected):
        raise TreeError(
            f"resume: the saved state has another structure than the initial one: got {got} for {expected}; "
            "use another folder, or the model that was saved"
        )
    _check_shapes(newest.tree, initial)
    return Start(newest.step, newest.carried), _with_own_parts(newest.tree, initial)


def _latest_of_all(checkpoints: Checkpoints, ranks: Job, allow: Sequence[Allowed]) -> Checkpoint[Any] | None:
    """Return the newest state of which each rank can read what it needs, the same on all ranks."""
    tried = set[int]()
    while True:
        own_step = max([step for step in checkpoints.steps() if step not in tried], default=-1)
        newest = [int(text) for text in ranks.gather_texts(str(own_step))]
        if len(set(newest)) > 1:
            raise OSError(
                f"resume: ranks see other checkpoints: got the steps {newest} by rank (-1: none) in {str(checkpoints.folder)!r}; "
                "use a folder that all ranks share"
            )
        if own_step < 0:
            return None
        tried.add(own_step)
        loaded, fault = None, ""
        try:
            loaded = checkpoints.load(own_step, allow=allow)
        except RefusedNameError:
            raise
        except (FileFormatError, FileNotFoundError) as error:
            fault = str(error)
        faults = [text for text in ranks.gather_texts(fault) if text]
        if not faults:
            return loaded
        warnings.warn(f"resume: passes over a damaged checkpoint: {faults[0]}", stacklevel=5)


def _check_shapes(saved: Any, initial: Any) -> None:
    """Refuse a saved state whose arrays have other shapes: it is that of another model."""
    pairs = zip(*[flatten_with_path(job.outline(tree))[0] for tree in (saved, initial)], strict=True)
    for (path, got), (_, own) in pairs:
        if np.shape(got) != np.shape(own):
            raise TreeError(
                f"resume: the saved state has another shape at {path or 'the top'} than the initial one: got "
                f"{np.shape(got)} for {np.shape(own)}; use another folder, or the model that was saved"
            )


def _with_own_parts(saved: Any, initial: S) -> S:
    """Return a saved state with the program's own static parts where these equal themselves alone (`functools.partial`)."""
    got, own = structure(saved), structure(initial)
    return unflatten(own, leaves(saved)) if got != own and repr(got) == repr(own) else saved
