"""Checkpointing: states saved while training goes on, and runs that resume where they ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from afx.errors import TreeError
from afx.io import Checkpoints
from afx.io.naming import Allowed
from afx.pytree import TreeDef, structure
from afx.pytree.nodes import RecordNode
from afx.train.run import MetricReader, Step
from afx.train.watching import check_every

__all__ = ["resume", "save_checkpoints"]

S = TypeVar("S")
V = TypeVar("V")


def save_checkpoints(
    run: Iterable[Step[S, V]], checkpoints: Checkpoints, *, every: int, metric: str | None = None
) -> Iterator[Step[S, V]]:
    """Yield the steps as they are, and save the state of every so many, and that of the last.

    A state is saved before its step is yielded.

    Args:
        run: steps.
        checkpoints: the folder.
        every: how many steps lie between two states that are saved.
        metric: a metric of `evaluate` by which the best states are kept; they are measured at the same steps.

    Raises:
        ArgumentError: ``every`` is below 1, or (at the end) a metric that was never measured.

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
    return _save(run, checkpoints, every, metric)


def _save(run: Iterable[Step[S, V]], checkpoints: Checkpoints, every: int, metric: str | None) -> Iterator[Step[S, V]]:
    last: Step[S, V] | None = None
    reader = MetricReader(metric, "save_checkpoints")
    saved = None
    for step in run:
        last = step
        if step.number % every == 0:
            checkpoints.save(step.number, step.state, metric=metric and reader.read(step))
            saved = step.number
        yield step
    if last is not None and last.number != saved:
        checkpoints.save(last.number, last.state, metric=metric and reader.read(last))
    checkpoints.wait()
    reader.check()


def resume(checkpoints: Checkpoints, initial: S) -> tuple[int, S]:
    """Return how many steps are done and the newest state that was saved; 0 and ``initial`` at the beginning.

    With batches by step number (`afx.data.Batches.stream`) the training goes on bit for bit:
    ``start, state = resume(checkpoints, state)``, then ``steps(step, state, batches.stream(start), start=start)``.

    Args:
        checkpoints: the folder.
        initial: the state at the beginning; what was saved must have its structure.

    Raises:
        TreeError: the folder holds states of another structure.
    """
    expected = structure(initial)
    found = checkpoints.latest(allow=_parts_of(expected))
    if found is None:
        return 0, initial
    if (got := structure(found.tree)) != expected:
        raise TreeError(
            f"resume: the saved state has another structure than the initial one: got {got} for {expected}; "
            "use another folder, or the model that was saved"
        )
    state: S = found.tree
    return found.step, state


def _parts_of(expected: TreeDef[Any]) -> list[Allowed]:
    """Return the classes of a structure, and the modules that define those beyond afx: a saved state may name them."""
    kinds = {token.kind for token in expected.tokens if isinstance(token, RecordNode)}
    own = [kind for kind in kinds if kind.__module__.partition(".")[0] not in ("afx", "builtins")]
    return [*kinds, *{kind.__module__ for kind in own}]
