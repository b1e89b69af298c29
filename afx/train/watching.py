"""Watching: metrics of the state every so many steps, and a progress bar."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import attrs

from afx.errors import ArgumentError, MissingExtraError
from afx.train.run import Run, Step

__all__ = ["evaluate", "show_progress"]

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
            found = {name: float(metric) for name, metric in measure(step.state).items()}
            yield attrs.evolve(step, metrics={**step.metrics, **found})


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
        tqdm: Any = importlib.import_module("tqdm").tqdm
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
        bar: Any = None
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
