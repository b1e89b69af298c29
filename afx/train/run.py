"""Run: the iterator of a training's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import attrs

from afx.errors import ArgumentError

__all__ = ["MetricReader", "Step", "finish", "steps"]

S = TypeVar("S")
B = TypeVar("B")
V = TypeVar("V")

NO_METRICS: Mapping[str, float] = {}


@attrs.frozen
class Step(Generic[S, V]):
    """A finished step of a training.

    Attributes:
        number: how many steps are done, this one included: 1 for the first.
        state: the state after it (parameters, optimizer state, random key …).
        value: what the step function returned beside the state, such as the loss.
        metrics: what `evaluate` measured of this state; empty at other steps.
    """

    number: int
    state: S
    value: V
    metrics: Mapping[str, float] = NO_METRICS


def steps(
    step: Callable[[S, B], tuple[S, V]], state: S, batches: Iterable[B], *, start: int = 0
) -> Iterator[Step[S, V]]:
    """Yield the steps of a training, one a batch.

    Args:
        step: ``(state, batch) -> (state, value)``, usually under `afx.jit`.
        state: a tree: parameters, optimizer state, random key, layers with running statistics.
        batches: one item a step, as `afx.data.batches` gives them, on from ``start``.
        start: how many steps were done before, from `resume`.

    >>> run = steps(lambda total, x: (total + x, -x), 0.0, [1.0, 2.0])
    >>> [(done.number, done.state, done.value) for done in run]
    [(1, 1.0, -1.0), (2, 3.0, -2.0)]
    """
    for number, batch in enumerate(batches, start + 1):
        state, value = step(state, batch)
        yield Step(number, state, value)


def finish(run: Iterable[Step[S, V]]) -> Step[S, V]:
    """Run to the end and return the last step.

    Raises:
        ArgumentError: there is no step.

    >>> finish(steps(lambda total, x: (total + x, x), 0.0, [1.0, 2.0])).state
    3.0
    """
    last: Step[S, V] | None = None
    for last in run:  # noqa: B007 - the last one is wanted
        pass
    if last is None:
        raise ArgumentError("finish: a training of no step: got an empty run; give at least one batch")
    return last


class MetricReader:
    """Reads one metric of each step that has it: the one of this name, or the step's value where none is named."""

    def __init__(self, name: str | None, who: str) -> None:
        self._name = name
        self._who = who
        self._is_found = False
        self._others: set[str] = set()

    def read(self, step: Step[Any, Any]) -> float | None:
        """Return the metric, None where it was not measured."""
        if self._name is None:
            return float(step.value)
        self._others.update(step.metrics)
        found = step.metrics.get(self._name)
        self._is_found |= found is not None
        return found

    def check(self) -> None:
        """Refuse a name that no step of the run had, though others were measured.

        Raises:
            ArgumentError: the metric was never measured.
        """
        if self._name is not None and not self._is_found and self._others:
            raise ArgumentError(
                f"{self._who}: no metric of this name: got {self._name!r}; evaluate measures {sorted(self._others)}"
            )
