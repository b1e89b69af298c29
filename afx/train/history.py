"""History: the values and metrics of the steps that went by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.dtypes import float64, int64
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray
from afx.train.run import Run, Step

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
        return Run(self._record(run, every), run)

    def _record(self, run: Iterable[Step[S, V]], every: int) -> Iterator[Step[S, V]]:
        for step in run:
            if step.number % every == 0:
                self.numbers.append(step.number)
                self.values.append(float(step.value))  # type: ignore[arg-type]  # a value that is no number says so
            for name, metric in step.metrics.items():
                self.metrics.setdefault(name, []).append((step.number, metric))
            yield step

    def arrays(self) -> dict[str, Array]:
        """Return what was noted as arrays by name, for `afx.io.save` or ``np.savez``.

        ``step`` and ``loss``, and of each metric its own name and ``<name>.step``. ``python -m afx.plot`` draws such files.

        Raises:
            ArgumentError: a metric has one of these names.

        >>> history = History()
        >>> history.numbers, history.values = [1, 2], [0.5, 0.25]
        >>> sorted(history.arrays())
        ['loss', 'step']
        """
        found = {"step": asarray(self.numbers, dtype=int64), "loss": asarray(self.values, dtype=float64)}
        for name, pairs in self.metrics.items():
            numbers, values = asarray([k for k, _ in pairs], dtype=int64), asarray([v for _, v in pairs], dtype=float64)
            for key, x in ((f"{name}.step", numbers), (name, values)):
                if key in found:
                    raise ArgumentError(
                        f"History.arrays: the name of two arrays: got {key!r}; name the metric otherwise"
                    )
                found[key] = x
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, ArrayLike]) -> History:
        """Return the history that `arrays` wrote.

        Raises:
            ArgumentError: arrays are missing, or do not belong together.

        >>> History.from_arrays({"step": [1, 2], "loss": [0.5, 0.25]}).values
        [0.5, 0.25]
        """
        history = cls()
        pairs = _pairs(arrays, "step", "loss")
        history.numbers, history.values = [k for k, _ in pairs], [v for _, v in pairs]
        for name in arrays:
            if f"{name}.step" in arrays:
                history.metrics[name] = _pairs(arrays, f"{name}.step", name)
        return history


def _pairs(arrays: Mapping[str, ArrayLike], steps: str, values: str) -> list[tuple[int, float]]:
    """Return pairs of step number and value."""
    if steps not in arrays or values not in arrays:
        raise ArgumentError(f"History.from_arrays: needs {steps!r} and {values!r}: got {sorted(arrays)}")
    first, second = np.asarray(arrays[steps]), np.asarray(arrays[values])
    if first.ndim != 1 or first.shape != second.shape:
        raise ArgumentError(
            f"History.from_arrays: {steps!r} and {values!r} have one element a step: got shapes {first.shape} and "
            f"{second.shape}; give arrays of one length"
        )
    return list(zip(map(int, first), map(float, second), strict=True))
