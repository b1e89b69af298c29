"""Stopping: runs that end by a number of steps, by time, when nothing improves, or at a value that is not finite."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.core.array.array import Array
from afx.core.dtypes import is_inexact
from afx.errors import ArgumentError, NanError
from afx.ops.creation.creation import asarray
from afx.runtime import job
from afx.train.run import MetricReader, Run, Step

__all__ = ["guard_finite", "limit_steps", "limit_time", "stop_early"]

FRESH: Final[Mapping[str, Any]] = {"best": math.inf, "waited": 0, "number": 0}  # where no patience has gone yet

S = TypeVar("S")
V = TypeVar("V")


def limit_steps(run: Iterable[Step[S, V]], last: int) -> Iterator[Step[S, V]]:
    """Yield the steps up to a number, that of a resumed training counted from its beginning.

    >>> from afx import train
    >>> run = train.steps(lambda s, x: (s, x), None, [0.0] * 9, start=5)
    >>> [step.number for step in train.limit_steps(run, 7)]
    [6, 7]
    """
    return Run(_limit_steps(run, last), run, last)


def _limit_steps(run: Iterable[Step[S, V]], last: int) -> Iterator[Step[S, V]]:
    for step in run:
        if step.number > last:
            return
        yield step
        if step.number == last:
            return


def limit_time(run: Iterable[Step[S, V]], seconds: float) -> Iterator[Step[S, V]]:
    """Yield steps until a time is over; the step under way is finished. The time starts with the first step.

    Ranks of `afx.distributed.connect` go by rank 0's clock.

    >>> from afx import train
    >>> len(list(train.limit_time(train.steps(lambda s, x: (s, x), None, [1.0, 2.0]), 60.0)))
    2
    """
    return Run(_limit_time(run, seconds), run)


def _limit_time(run: Iterable[Step[S, V]], seconds: float) -> Iterator[Step[S, V]]:
    end = time.monotonic() + seconds
    for step in run:
        yield step
        if job.decide(time.monotonic() >= end):
            return


def stop_early(
    run: Iterable[Step[S, V]],
    metric: str | None = None,
    *,
    patience: int,
    min_delta: float = 0.0,
    mode: Literal["min", "max"] = "min",
    restore_best: bool = False,
) -> Iterator[Step[S, V]]:
    """Yield steps until a metric has not improved for a while.

    How far the patience has gone is part of what `afx.train.save_checkpoints` saves: a run that resumes stops where the
    whole one would have stopped. The best state is kept where that is asked for (it is then saved too); or save it with
    `afx.train.save_checkpoints`, whose `afx.io.Checkpoints.best` returns it. Ranks of `afx.distributed.connect` go by rank
    0's metric.

    Args:
        run: steps.
        metric: one of those that `evaluate` measured; None for the step's value.
        patience: how many measurements in a row may bring no improvement.
        min_delta: by how much a better one must be better; at least 0.
        mode: whether a smaller (``"min"``) or a larger (``"max"``) one is better. A nan is no improvement.
        restore_best: whether the run ends with the best step once more, if that was not the last, so that
            ``finish(run).state`` is the best state. Limits belong before this piece: behind it they cut that step off.

    Raises:
        ArgumentError: a patience below 1, a negative ``min_delta``, or (at the end) a metric that was never measured.

    >>> from afx import train
    >>> run = train.steps(lambda s, x: (s, x), None, [3.0, 2.0, 2.5, 2.5, 1.0])
    >>> [step.value for step in train.stop_early(run, patience=2)]
    [3.0, 2.0, 2.5, 2.5]
    """
    if patience < 1 or not min_delta >= 0 or mode not in ("min", "max"):
        raise ArgumentError(
            f"stop_early: patience is at least 1, min_delta at least 0, mode min or max: got {patience}, {min_delta}, {mode!r}"
        )
    patience_ = Patience(
        f"stop_early({metric}, {mode}, {min_delta})", patience, min_delta, 1.0 if mode == "min" else -1.0
    )
    return Run(_stop_early(run, MetricReader(metric, "stop_early"), patience_, restore_best), run)


def _stop_early(
    run: Iterable[Step[S, V]], reader: MetricReader, patience: Patience, restores: bool
) -> Iterator[Step[S, V]]:
    last: Step[S, V] | None = None
    for step in run:
        has_begun, last = last is not None, step
        if not has_begun and patience.resume(step, reader):
            break
        patience.note(step, job.share(reader.read(step)), restores)
        yield step
        if patience.is_over(step):
            break
    else:
        reader.check()
    if restores and last is not None and (best := patience.best(last)) is not None:
        yield best


@attrs.frozen
class Patience:
    """How long a metric may go without an improvement; how far it has gone stands in what the run carries.

    Attributes:
        name: under which it stands there.
        patience: how many measurements in a row may bring no improvement.
        min_delta: by how much a better one must be better.
        sign: 1.0 where smaller is better, else -1.0.
    """

    name: str
    patience: int
    min_delta: float
    sign: float

    def resume(self, step: Step[Any, Any], reader: MetricReader) -> bool:
        """Look, at the first step, at those before it that were saved unseen, and tell whether the run had ended there."""
        for before in step.carried.get("unseen", ()):  # saved by a piece that stands before this one
            seen = step.carried.get(self.name, FRESH)
            if seen["number"] < before["number"] and (before["value"] is not None or before["metrics"]):
                saved = attrs.evolve(step, number=before["number"], value=before["value"], metrics=before["metrics"])
                step.carried[self.name] = {name: value for name, value in seen.items() if name != "step"}
                self.note(saved, reader.read(saved), False)
        return self.name in step.carried and self.is_over(step)

    def note(self, step: Step[Any, Any], metric: float | None, keeps: bool) -> None:
        """Take a measurement in; where there is none, a step goes by."""
        seen = step.carried.get(self.name, FRESH)
        best, waited = seen["best"], seen["waited"]
        found = None if metric is None else self.sign * metric
        if found is not None:
            is_better = found < best - self.min_delta or (best == math.inf and found < best)
            best, waited = (found, 0) if is_better else (best, waited + 1)
            if is_better and keeps:
                seen = {**seen, "step": _hold(step)}
        step.carried[self.name] = {**seen, "best": best, "waited": waited, "number": step.number}

    def is_over(self, step: Step[Any, Any]) -> bool:
        """Tell whether the patience is over."""
        return bool(step.carried[self.name]["waited"] >= self.patience)

    def best(self, last: Step[S, V]) -> Step[S, V] | None:
        """Return the best step, None where that is the last one."""
        kept = last.carried[self.name].get("step")
        if kept is None or kept["number"] == last.number:
            return None
        return attrs.evolve(
            last, number=kept["number"], state=kept["state"], value=kept["value"], metrics=kept["metrics"]
        )


def _hold(step: Step[Any, Any]) -> dict[str, Any]:
    """Return a step whose memory is seen elsewhere too, so that a next step that is given the state leaves it alone."""
    own = pytree.map(lambda x: asarray(np.asarray(x)) if isinstance(x, Array) else x, (step.state, step.value))
    return {"number": step.number, "state": own[0], "value": own[1], "metrics": dict(step.metrics)}


def guard_finite(
    run: Iterable[Step[S, V]], *, action: Literal["raise", "stop"] = "raise", every: int = 1
) -> Iterator[Step[S, V]]:
    """Yield steps as long as their values and states are finite.

    A step that is not is never yielded: checkpoints and histories behind it see finite states alone. To go on instead,
    wrap the optimizer (`afx.optim`), which leaves such a step out.

    Args:
        run: steps.
        action: ``"raise"`` or end the run (``"stop"``).
        every: how many steps lie between two looks at the whole state; the value is looked at in each step.

    Raises:
        NanError: with ``"raise"``: the number of the step, and the key path of the first leaf that is not finite.
        ArgumentError: another action, or ``every`` below 1.

    >>> from afx import train
    >>> run = train.steps(lambda s, x: (s, x), None, [1.0, float("inf"), 2.0])
    >>> [step.value for step in train.guard_finite(run, action="stop")]
    [1.0]
    """
    if action not in ("raise", "stop") or every < 1:
        raise ArgumentError(f'guard_finite: action is "raise" or "stop", every at least 1: got {action!r}, {every}')
    return Run(_guard(run, action == "raise", every), run)


def _guard(run: Iterable[Step[S, V]], raises: bool, every: int) -> Iterator[Step[S, V]]:
    for step in run:
        trees = [("value", step.value), *([("state", step.state)] if step.number % every == 0 else [])]
        path = next(itertools.chain.from_iterable(_not_finite(name, tree) for name, tree in trees), None)
        if path is not None:
            if raises:
                raise NanError(
                    f"guard_finite: step {step.number} is not finite: got nan or infinity in {path}; "
                    "lower the learning rate, clip gradients, or look for the op inside afx.debug_nans()"
                )
            return
        yield step


def _not_finite(name: str, tree: object) -> Iterator[str]:
    """Yield the key paths of leaves that are not finite."""
    for path, leaf in pytree.flatten_with_path(tree)[0]:
        value = np.asarray(leaf)
        if is_inexact(value.dtype) and not np.isfinite(value).all():
            yield f"{name}{path}"
