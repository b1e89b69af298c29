"""Run: the iterator of a training's steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import attrs

from afx.errors import ArgumentError

__all__ = ["MetricReader", "Run", "Start", "Step", "finish", "steps"]

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
        carried: what the pieces of the run keep from step to step, such as the patience of `stop_early`, by name. One dict
            serves the whole run; `save_checkpoints` saves it, and `resume` gives it back.
    """

    number: int
    state: S
    value: V
    metrics: Mapping[str, float] = NO_METRICS
    carried: dict[str, Any] = attrs.field(factory=dict[str, Any], eq=False, repr=False)


class Start(int):
    """The number of steps done before, with what the pieces of the run had kept by then."""

    carried: Mapping[str, Any]

    def __new__(cls, number: int, carried: Mapping[str, Any]) -> Start:
        """Make the number."""
        start = super().__new__(cls, number)
        start.carried = carried
        return start


class Run(Iterator[Step[S, V]]):
    """A run of steps, made from another one: so each piece learns of the limits that stand before and behind it.

    Attributes:
        taken: gives the steps.
        source: the run that it is made from.
        limit: the number of the last step, as far as this piece knows.
    """

    def __init__(self, taken: Iterator[Step[S, V]], source: object, limit: int | None = None) -> None:
        self.taken: Iterator[Step[S, V]] = taken
        self.source: object = source
        self.limit: int | None = None
        if limit is not None:
            self._announce(limit)

    def __iter__(self) -> Run[S, V]:
        return self

    def __next__(self) -> Step[S, V]:
        return next(self.taken)

    def close(self) -> None:
        """End the run, as that of a generator."""
        close: Callable[[], None] = getattr(self.taken, "close", lambda: None)
        close()

    def last(self) -> int | None:
        """Return the number of the last step, None where no piece knows it."""
        found = [piece.limit for piece in self._pieces() if piece.limit is not None]
        return min(found, default=None)

    def _announce(self, limit: int) -> None:
        for piece in self._pieces():
            piece.limit = limit if piece.limit is None else min(limit, piece.limit)

    def _pieces(self) -> Iterator[Run[Any, Any]]:
        piece: object = self
        while isinstance(piece, Run):
            yield piece  # pyright: ignore[reportUnknownVariableType]  # of any state
            piece = piece.source  # pyright: ignore[reportUnknownMemberType]  # as above


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
    carried = dict(getattr(start, "carried", {}))
    return Run(_take_steps(step, state, batches, start, carried), None)


def _take_steps(
    step: Callable[[S, B], tuple[S, V]], state: S, batches: Iterable[B], start: int, carried: dict[str, Any]
) -> Iterator[Step[S, V]]:
    for number, batch in enumerate(batches, start + 1):
        state, value = step(state, batch)
        yield Step(number, state, value, carried=carried)


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
