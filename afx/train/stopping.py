"""Stopping: runs that end by a number of steps, by time, when nothing improves, or at a value that is not finite."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Iterator
from typing import Literal, TypeVar

import numpy as np

from afx.core.dtypes import is_inexact
from afx.errors import ArgumentError, NanError
from afx.pytree import flatten_with_path
from afx.train.run import MetricReader, Step

__all__ = ["guard_finite", "limit_steps", "limit_time", "stop_early"]

S = TypeVar("S")
V = TypeVar("V")


def limit_steps(run: Iterable[Step[S, V]], last: int) -> Iterator[Step[S, V]]:
    """Yield the steps up to a number, that of a resumed training counted from its beginning.

    >>> from afx import train
    >>> run = train.steps(lambda s, x: (s, x), None, [0.0] * 9, start=5)
    >>> [step.number for step in train.limit_steps(run, 7)]
    [6, 7]
    """
    for step in run:
        if step.number > last:
            return
        yield step
        if step.number == last:
            return


def limit_time(run: Iterable[Step[S, V]], seconds: float) -> Iterator[Step[S, V]]:
    """Yield steps until a time is over; the step under way is finished. The time starts with the first step.

    >>> from afx import train
    >>> len(list(train.limit_time(train.steps(lambda s, x: (s, x), None, [1.0, 2.0]), 60.0)))
    2
    """
    end = time.monotonic() + seconds
    for step in run:
        yield step
        if time.monotonic() >= end:
            return


def stop_early(
    run: Iterable[Step[S, V]],
    metric: str | None = None,
    *,
    patience: int,
    min_delta: float = 0.0,
    mode: Literal["min", "max"] = "min",
) -> Iterator[Step[S, V]]:
    """Yield steps until a metric has not improved for a while.

    The best state is not kept: save it with `afx.train.save_checkpoints`, whose `afx.io.Checkpoints.best` returns it.

    Args:
        run: steps.
        metric: one of those that `evaluate` measured; None for the step's value.
        patience: how many measurements in a row may bring no improvement.
        min_delta: by how much a better one must be better; at least 0.
        mode: whether a smaller (``"min"``) or a larger (``"max"``) one is better. A nan is no improvement.

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
    return _stop_early(run, metric, patience, min_delta, 1.0 if mode == "min" else -1.0)


def _stop_early(
    run: Iterable[Step[S, V]], metric: str | None, patience: int, min_delta: float, sign: float
) -> Iterator[Step[S, V]]:
    best, waited = math.inf, 0
    reader = MetricReader(metric, "stop_early")
    for step in run:
        yield step
        found = reader.read(step)
        if found is None:
            continue
        if sign * found < best - min_delta or (best == math.inf and sign * found < best):
            best, waited = sign * found, 0
        else:
            waited += 1
            if waited >= patience:
                return
    reader.check()


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
    return _guard(run, action == "raise", every)


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
    for path, leaf in flatten_with_path(tree)[0]:
        value = np.asarray(leaf)
        if is_inexact(value.dtype) and not np.isfinite(value).all():
            yield f"{name}{path}"
