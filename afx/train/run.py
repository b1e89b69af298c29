"""Run: the iterator of a training's steps, the history of those that went by, and where it ends."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Generic, Literal, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.core import Array, ArrayLike, Shown, float64, int64, is_inexact
from afx.errors import ArgumentError, NanError
from afx.ops import asarray
from afx.runtime import job

__all__ = ["History", "Step", "finish", "guard_finite", "limit_steps", "limit_time", "steps", "stop_early"]

# --- Run

S = TypeVar("S")
B = TypeVar("B")
V = TypeVar("V")

NO_METRICS: Mapping[str, float] = {}


@attrs.frozen
class Step(Shown, Generic[S, V]):
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
        limits = [piece.limit for piece in self._pieces() if piece.limit is not None]
        return min(limits, default=None)

    def _announce(self, limit: int) -> None:
        for piece in self._pieces():
            piece.limit = limit if piece.limit is None else min(limit, piece.limit)

    def _pieces(self) -> Iterator[Run[Any, Any]]:
        piece: object = self
        while isinstance(piece, Run):
            yield piece
            piece = piece.source


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
    last = None
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
        value = step.metrics.get(self._name)
        self._is_found |= value is not None
        return value

    def check(self) -> None:
        """Refuse a name that no step of the run had, though others were measured.

        Raises:
            ArgumentError: the metric was never measured.
        """
        if self._name is not None and not self._is_found and self._others:
            raise ArgumentError(
                f"{self._who}: no metric of this name: got {self._name!r}; evaluate measures {sorted(self._others)}"
            )


# --- History: the values and metrics of the steps that went by


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
        arrays = {"step": asarray(self.numbers, dtype=int64), "loss": asarray(self.values, dtype=float64)}
        for name, pairs in self.metrics.items():
            numbers, values = asarray([k for k, _ in pairs], dtype=int64), asarray([v for _, v in pairs], dtype=float64)
            for key, x in ((f"{name}.step", numbers), (name, values)):
                if key in arrays:
                    raise ArgumentError(
                        f"History.arrays: the name of two arrays: got {key!r}; name the metric otherwise"
                    )
                arrays[key] = x
        return arrays

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


# --- Stopping: runs that end by a number of steps, by time, when nothing improves, or at a value that is not finite

FRESH: Final[Mapping[str, Any]] = {"best": math.inf, "waited": 0, "number": 0}  # where no patience has gone yet


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
    """Yield the steps of a run until a metric no longer gets better, and the best one again where that is asked for."""
    last = None
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
        score = None if metric is None else self.sign * metric
        if score is not None:
            is_better = score < best - self.min_delta or (best == math.inf and score < best)
            best, waited = (score, 0) if is_better else (best, waited + 1)
            if is_better and keeps:
                seen = {**seen, "step": _hold(step)}
        step.carried[self.name] = {**seen, "best": best, "waited": waited, "number": step.number}

    def is_over(self, step: Step[Any, Any]) -> bool:
        """Tell whether the patience is over."""
        return bool(step.carried[self.name]["waited"] >= self.patience)

    def best(self, last: Step[S, V]) -> Step[S, V] | None:
        """Return the best step, None where that is the last one."""
        best = last.carried[self.name].get("step")
        if best is None or best["number"] == last.number:
            return None
        return attrs.evolve(
            last, number=best["number"], state=best["state"], value=best["value"], metrics=best["metrics"]
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
