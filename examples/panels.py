"""What demonstrations draw: curves, bands, bars and pictures on panels, by matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from afx import Array

__all__ = ["Band", "Bars", "Checks", "Curve", "Panel", "Pixels", "Series", "draw", "sheet", "training"]

T = TypeVar("T")
Series: TypeAlias = "Array | npt.NDArray[np.floating | np.integer]"
GAP = 2  # pixels between images of a sheet


@attrs.frozen(eq=False)
class Curve:
    """A line through points; `form` is matplotlib's colour and dash, as in ``"C1--"``; `size` is that of points."""

    x: Series
    y: Series
    label: str = ""
    form: str = "C0-"
    size: float = 5.0


@attrs.frozen(eq=False)
class Band:
    """What lies between two curves, such as ± 2 standard deviations around a mean."""

    x: Series
    low: Series
    high: Series
    label: str = ""
    color: str = "C0"


@attrs.frozen(eq=False)
class Bars:
    """One bar for each height, by name, or numbered from 1."""

    heights: Series
    label: str = ""
    color: str = "C0"
    names: Sequence[str] = ()


@attrs.frozen(eq=False)
class Pixels:
    """A picture, float[rows, columns]: the larger a number, the darker; with axes in units where `extent` has them.

    Attributes:
        extent: left, right, bottom and top.
        color_label: what the colours mean; empty for no colour bar.
    """

    values: Series
    extent: tuple[float, float, float, float] | None = None
    color_label: str = ""


@attrs.frozen(eq=False)
class Panel:
    """One pair of axes of a figure and what is drawn on it."""

    title: str
    x_label: str
    y_label: str
    marks: tuple[Curve | Band | Bars | Pixels, ...]
    log_x: bool = False
    log_y: bool = False
    equal: bool = False  # one unit is as long on both axes
    x_ticks: Sequence[float] = ()


@attrs.frozen(eq=False)
class Checks(Generic[T]):
    """What a measure of a model gives every so many steps, beside a training: `checks(step, model)`."""

    measure: Callable[[T], float]
    every: int
    steps: list[int] = attrs.field(factory=list[int])
    values: list[float] = attrs.field(factory=list[float])

    def __call__(self, number: int, model: T) -> None:
        """Measure after step ``number``, counted from 0, where its turn has come."""
        if (number + 1) % self.every == 0:
            self.steps.append(number + 1)
            self.values.append(self.measure(model))


def training(losses: Sequence[float], checks: Checks[Any]) -> tuple[Curve, Curve]:
    """Return the curves of a training: the loss of each batch, and that of unseen examples."""
    seen = Curve(np.arange(1, len(losses) + 1), np.array(losses), "training", "C0-")
    return seen, Curve(np.array(checks.steps), np.array(checks.values), "unseen", "C1o-", size=3.5)


def sheet(images: Array, rows: int) -> npt.NDArray[np.floating]:
    """Return images, float[count, height, width], on one sheet with white gaps, as many in a column as there are rows."""
    pixels = np.pad(np.asarray(images), ((0, 0), (0, GAP), (0, GAP)))
    count, height, width = pixels.shape
    return pixels.reshape(rows, count // rows, height, width).swapaxes(1, 2).reshape(rows * height, -1)[:-GAP, :-GAP]


def draw(axes: Any, panel: Panel) -> None:
    """Draw one panel on its axes."""
    axes.set(xscale="log" if panel.log_x else "linear", yscale="log" if panel.log_y else "linear")
    for mark in panel.marks:
        _draw_mark(axes, mark)
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    if panel.equal:
        axes.set_aspect("equal")
    if panel.x_ticks:
        axes.minorticks_off()
        axes.set_xticks(panel.x_ticks, [f"{tick:g}" for tick in panel.x_ticks])
    if any(not isinstance(mark, Pixels) and mark.label for mark in panel.marks):
        axes.legend()


def _draw_mark(axes: Any, mark: Curve | Band | Bars | Pixels) -> None:
    match mark:
        case Bars():
            heights = np.asarray(mark.heights)
            places = np.arange(1, len(heights) + 1)
            axes.bar(places, heights, color=mark.color, edgecolor="k", linewidth=0.6, label=mark.label)
            if mark.names:
                long = sum(map(len, mark.names)) > 40
                small = "x-small" if long else "medium"
                axes.set_xticks(places, mark.names, rotation=90 if long else 0, fontsize=small)
                axes.grid(visible=False, axis="x")
        case Pixels():
            drawn = axes.imshow(
                np.asarray(mark.values), cmap="gray_r", extent=mark.extent, aspect="auto" if mark.extent else None
            )
            axes.grid(visible=False)
            if not mark.extent:
                axes.set(xticks=[], yticks=[])
                axes.spines[:].set_visible(False)
            if mark.color_label:
                axes.figure.colorbar(drawn, ax=axes, label=mark.color_label)
        case Band():
            bounds = (np.asarray(mark.low), np.asarray(mark.high))
            axes.fill_between(np.asarray(mark.x), *bounds, color=mark.color, alpha=0.25, linewidth=0, label=mark.label)
        case Curve():
            axes.plot(np.asarray(mark.x), np.asarray(mark.y), mark.form, label=mark.label, markersize=mark.size)
