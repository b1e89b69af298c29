"""Checkpointing: states saved while training goes on, and runs that resume where they ended."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from afx.errors import FileFormatError, TreeError
from afx.io import Checkpoint, Checkpoints
from afx.io.files import check_savable
from afx.io.naming import Allowed, RefusedNameError
from afx.io.shards import is_divided
from afx.pytree import leaves, structure, unflatten
from afx.runtime import job
from afx.runtime.job import Job
from afx.train.run import MetricReader, Run, Start, Step
from afx.train.watching import check_every

__all__ = ["resume", "save_checkpoints"]

S = TypeVar("S")
V = TypeVar("V")


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
    last: Step[S, V] | None = None
    reader = MetricReader(metric, "save_checkpoints")
    saved = None

    def save(step: Step[S, V]) -> None:
        found = metric and reader.read(step)
        if job.is_writer() or is_divided(step.state):
            checkpoints.save(step.number, step.state, metric=found, carried=_carried_by(step))

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
    kept = {name: state for name, state in step.carried.items() if name != "unseen"}
    oldest = min([state["number"] for state in kept.values()], default=0)
    unseen = [before for before in step.carried.get("unseen", ()) if before["number"] > oldest]
    return {**kept, "unseen": [*unseen, {"number": step.number, "value": value, "metrics": dict(step.metrics)}]}


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
        TreeError: the folder holds states of another structure, or the initial one holds what no file can, such as a lambda.
        OSError: ranks of a job that see other files.
    """
    expected = structure(job.outline(initial))
    ranks, allowed = job.current(), check_savable(initial)
    if ranks is None or ranks.ranks == 1:
        found = checkpoints.latest(allow=allowed)
    else:
        found = ranks.repeat_until_committed("resume", lambda: _latest_of_all(checkpoints, ranks, allowed))
    if found is None:
        return 0, initial
    got = structure(job.outline(found.tree))
    if got != expected and repr(got) != repr(expected):
        raise TreeError(
            f"resume: the saved state has another structure than the initial one: got {got} for {expected}; "
            "use another folder, or the model that was saved"
        )
    return Start(found.step, found.carried), _with_own_parts(found.tree, initial)


def _latest_of_all(checkpoints: Checkpoints, ranks: Job, allow: Sequence[Allowed]) -> Checkpoint[Any] | None:
    """Return the newest state of which each rank can read what it needs, the same on all ranks."""
    tried = set[int]()
    while True:
        mine = max([step for step in checkpoints.steps() if step not in tried], default=-1)
        newest = [int(text) for text in ranks.gather_texts(str(mine))]
        if len(set(newest)) > 1:
            raise OSError(
                f"resume: ranks see other checkpoints: got the steps {newest} by rank (-1: none) in {str(checkpoints.folder)!r}; "
                "use a folder that all ranks share"
            )
        if mine < 0:
            return None
        tried.add(mine)
        found, fault = None, ""
        try:
            found = checkpoints.load(mine, allow=allow)
        except RefusedNameError:
            raise
        except (FileFormatError, FileNotFoundError) as error:
            fault = str(error)
        faults = [text for text in ranks.gather_texts(fault) if text]
        if not faults:
            return found
        warnings.warn(f"resume: passes over a damaged checkpoint: {faults[0]}", stacklevel=5)


def _with_own_parts(saved: Any, initial: S) -> S:
    """Return a saved state with the program's own static parts where these equal themselves alone (`functools.partial`)."""
    got, own = structure(saved), structure(initial)
    state: S = unflatten(own, leaves(saved)) if got != own and repr(got) == repr(own) else saved
    return state
