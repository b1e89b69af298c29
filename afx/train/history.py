"""History: the values and metrics of the steps that went by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from afx.train.run import Step

__all__ = ["History"]

S = TypeVar("S")
V = TypeVar("V")


class History:
    """What `record` collects: numbers of steps, values of the loss, and metrics by name.

    Attributes:
        numbers: of the steps.
        values: of the steps, as floats.
        metrics: name to pairs of step number and metric.

    >>> from afx import train
    >>> history = train.History()
    >>> _ = train.finish(history.record(train.steps(lambda s, x: (s, x), None, [0.5, 0.25])))
    >>> history.values
    [0.5, 0.25]
    """

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.values: list[float] = []
        self.metrics: dict[str, list[tuple[int, float]]] = {}

    def record(self, run: Iterable[Step[S, V]], *, every: int = 1) -> Iterator[Step[S, V]]:
        """Yield the steps as they are, and note each value (every so many steps) and all metrics.

        Args:
            run: its values are numbers.
            every: how many steps lie between two values that are noted.
        """
        for step in run:
            if step.number % every == 0:
                self.numbers.append(step.number)
                self.values.append(float(step.value))  # type: ignore[arg-type]  # a value that is no number says so
            for name, metric in step.metrics.items():
                self.metrics.setdefault(name, []).append((step.number, metric))
            yield step
