"""What a demonstration shows of itself: progress while it works, claims with their figures, and plots.

tqdm and matplotlib are optional: without them the demonstrations run all the same and say which extra is missing.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import attrs

from afx import plot
from examples.panels import Band, Bars, Checks, Curve, Panel, Pixels, Series, draw, sheet, training

__all__ = [
    "Band",
    "Bars",
    "Checks",
    "Claim",
    "Curve",
    "Panel",
    "Pixels",
    "Series",
    "progress",
    "save",
    "sheet",
    "training",
]

T = TypeVar("T")


@attrs.frozen
class Claim:
    """A figure that a demonstration promises: below its bound or, with `at_least`, not below it."""

    what: str
    value: float
    bound: float
    at_least: bool = False
    shown: str = "{:.1e}"

    @property
    def holds(self) -> bool:
        """Tell whether the figure keeps the promise (nan never does)."""
        return self.value >= self.bound if self.at_least else self.value < self.bound

    def __str__(self) -> str:
        value, bound = self.shown.format(self.value), self.shown.format(self.bound)
        relation = "at least" if self.at_least else "below"
        return f"{self.what} {value} (claim: {relation} {bound}) {'ok' if self.holds else 'FAILED'}"


@cache
def optional(module: str, purpose: str, extra: str) -> Any | None:
    """Import an optional module; say once which extra brings it when it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError:
        library = module.partition(".")[0]
        print(f'{purpose} need {library}, which is not installed: pip install "afx[{extra}]"', file=sys.stderr)
        return None


def progress(steps: Iterable[T], title: str) -> Iterable[T]:
    """Yield the steps and show on standard error how far they are."""
    tqdm = optional("tqdm", "progress bars", "progress")
    return steps if tqdm is None else tqdm.tqdm(steps, desc=title, mininterval=0.2, ncols=88)


def save(path: Path, *panels: Panel) -> None:
    """Draw the panels side by side into a file and print its name."""
    figures = optional("matplotlib.figure", "plots", "plot")
    if figures is None:
        return
    with importlib.import_module("matplotlib").rc_context(plot.STYLE):
        figure = figures.Figure(figsize=(5.4 * len(panels), 4.2), layout="constrained")
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            draw(axes, panel)
        figure.savefig(path)
    print(f"  saved {path}")
