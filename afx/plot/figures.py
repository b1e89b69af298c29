"""Figures: canvases in one style, training curves and profiles of lines."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import attrs
import numpy as np
import numpy.typing as npt

from afx.compiler.report import short_place
from afx.core import ArrayLike
from afx.debug import Profile
from afx.errors import ArgumentError, DtypeError, MissingExtraError, ShapeError
from afx.train import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# --- Figures: canvases of panels in one style, and their files

SavePath: TypeAlias = str | os.PathLike[str] | None

STYLE: Mapping[str, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "font.size": 10,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "savefig.dpi": 150,
}
"""Settings of matplotlib with which the figures are drawn."""


def new_figure(count: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Any]]:
    """Return a figure with so many panels in columns, each of this size in inches, and these in the order of reading.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        matplotlib = importlib.import_module("matplotlib")
        figures = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise MissingExtraError('plot: figures need matplotlib: got none; pip install "afx[plot]"') from error
    rows = -(-count // columns)
    with matplotlib.rc_context(STYLE):
        figure = figures.Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        panels = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for panel in panels[count:]:
        panel.remove()
    return figure, panels[:count]


def finish(figure: Figure, save: SavePath) -> Figure:
    """Return the figure, written to a file where one is named.

    Raises:
        ArgumentError: the suffix is no format that matplotlib writes.
    """
    if save is None:
        return figure
    path, known = Path(save), figure.canvas.get_supported_filetypes()
    if (suffix := path.suffix.lower().removeprefix(".")) not in known:
        raise ArgumentError(f"plot: no such format: got {path.name!r}; end the name in one of .{', .'.join(known)}")
    matplotlib = importlib.import_module("matplotlib")
    with matplotlib.rc_context(STYLE):
        cast("Any", figure).savefig(path, format=suffix)  # matplotlib leaves its type open in part
    return figure


# --- Training curves: losses and metrics over the steps

Values: TypeAlias = "ArrayLike | list[float] | History"
Numbers: TypeAlias = "npt.NDArray[np.float64]"

LOG_RATIO = 10.0  # between the largest and the smallest value, from which a logarithmic axis says more


@attrs.frozen(eq=False)
class Curve:
    """Values at steps."""

    label: str
    steps: Numbers
    values: Numbers


def losses(
    history: Values | Mapping[str, Values],
    *,
    smoothing: int = 1,
    log: bool | None = None,
    title: str = "",
    save: SavePath = None,
) -> Figure:
    """Draw the loss over the steps of a training, or of several side by side, and their metrics on a second panel.

    Values that are not finite leave gaps.

    Args:
        history: what `afx.train.History` recorded, values float[steps], or several of these by label.
        smoothing: draw the mean of so many last values, with the values themselves pale behind it.
        log: a logarithmic axis of the loss; by default one where all values are positive and span a factor of ten.
        title: above the loss.
        save: a path; its suffix (``.png``, ``.svg``, ``.pdf`` …) is the format.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ArgumentError: there is no value, ``smoothing`` is below 1, or the format is unknown.
        ShapeError: values have more axes than one.
        DtypeError: values that are not real numbers.

    >>> figure = losses({"adam": [1.0, 0.3, 0.1], "sgd": [1.0, 0.8, 0.7]})
    >>> [line.get_label() for line in figure.axes[0].lines]
    ['adam', 'sgd']
    """
    if smoothing < 1:
        raise ArgumentError(f"losses: a mean of so many values: got {smoothing=}; give 1 or more")
    runs = history if isinstance(history, Mapping) else {"": history}
    curves = [_curve(label, values) for label, values in runs.items()]
    metrics = [curve for label, values in runs.items() for curve in _metrics(label, values)]
    if not any(curve.values.size for curve in [*curves, *metrics]):
        raise ArgumentError("losses: no values: got an empty history; record at least one step")
    count = 2 if metrics else 1
    figure, panels = new_figure(count, count, (5.4, 4.2))
    is_log = _spans_decades(curves) if log is None else log
    _draw(panels[0], curves, smoothing)
    panels[0].set(title=title, xlabel="step", ylabel="loss", yscale="log" if is_log else "linear")
    if metrics:
        _draw(panels[1], metrics, 1)
        panels[1].set(xlabel="step", ylabel="metric")
    return finish(figure, save)


def _curve(label: str, values: Values) -> Curve:
    """Return the loss of a run."""
    if isinstance(values, History):
        return Curve(label, np.asarray(values.numbers, np.float64), np.asarray(values.values, np.float64))
    numbers = np.asarray(values)
    if numbers.ndim != 1:
        raise ShapeError(f"losses: one value a step: got shape {numbers.shape}; give float[steps]")
    if numbers.dtype.kind not in "fiub":
        raise DtypeError(f"losses: values are real numbers: got {numbers.dtype}; give float[steps]")
    return Curve(label, np.arange(1.0, numbers.size + 1), numbers.astype(np.float64))


def _metrics(label: str, values: Values) -> list[Curve]:
    """Return the metrics that a history holds."""
    if not isinstance(values, History):
        return []
    prefix = f"{label}: " if label else ""
    return [Curve(prefix + name, *np.array(pairs, np.float64).T) for name, pairs in values.metrics.items()]


def _spans_decades(curves: list[Curve]) -> bool:
    values = np.concatenate([curve.values for curve in curves])
    values = values[np.isfinite(values)]
    return bool(values.size and values.min() > 0 and values.max() >= LOG_RATIO * values.min())


def _draw(panel: Any, curves: list[Curve], smoothing: int) -> None:
    for k, curve in enumerate(curves):
        color = f"C{k}"
        values = np.where(np.isfinite(curve.values), curve.values, np.nan)
        mark = "o" if len(values) == 1 else ""
        if smoothing > 1:
            panel.plot(curve.steps, values, color=color, alpha=0.3, linewidth=0.8)
            values = _smooth(values, smoothing)
        panel.plot(curve.steps, values, color=color, marker=mark, label=curve.label or None)
    if any(curve.label for curve in curves):
        panel.legend()


def _smooth(values: Numbers, count: int) -> Numbers:
    """Return the mean of the last ``count`` finite values at each step, of fewer at the beginning."""
    is_finite = np.isfinite(values)
    padded = np.concatenate([np.zeros(count - 1), np.where(is_finite, values, 0.0)])
    counted = np.concatenate([np.zeros(count - 1), is_finite.astype(np.float64)])
    windows = np.lib.stride_tricks.sliding_window_view
    sums, counts = windows(padded, count).sum(axis=-1), windows(counted, count).sum(axis=-1)
    means: Numbers = np.divide(sums, counts, out=np.full(len(values), np.nan), where=counts > 0)
    return means


# --- Profiles as figures: the time of each line of a function's code

MOST_LINES = 20


def profile(found: Profile, *, title: str = "", save: SavePath = None) -> Figure:
    """Draw the time of each line, the dearest on top: of NumPy's plan, and of machine code where there is some.

    Args:
        found: what `afx.debug.profile` measured; of more than 20 lines the dearest are drawn.
        title: above the bars, by default the function and the time of a call.
        save: a path; its suffix (``.png``, ``.svg``, ``.pdf`` …) is the format.

    Raises:
        ArgumentError: the suffix is no format that matplotlib writes.
        MissingExtraError: matplotlib is not installed.

    >>> import afx
    >>> found = afx.debug.profile(lambda x: afx.sin(x) @ x, afx.ones((8, 8)), seconds=0.0)
    >>> [panel.get_xlabel() for panel in profile(found).axes]
    ['microseconds a call']
    """
    lines = found.lines[:MOST_LINES][::-1]
    figure, (panel,) = new_figure(1, 1, (8.0, 1.2 + 0.45 * max(len(lines), 1)))
    names = [f"{short_place(line.place) or '(no line)'}  {line.text[:50]}" for line in lines]
    rows = range(len(lines))
    panel.barh([k + 0.2 for k in rows], [line.seconds * 1e6 for line in lines], height=0.38, label="NumPy")
    if not math.isnan(found.native_seconds):
        shares = [line.native_seconds * 1e6 for line in lines]
        panel.barh([k - 0.2 for k in rows], shares, height=0.38, label="machine code, divided by cost")
        panel.legend(loc="lower right")
    panel.set_yticks(list(rows), names, family="monospace", fontsize=8)
    panel.set_xlabel("microseconds a call")
    panel.set_title(title or f"{found.name}: {found.seconds * 1e6:,.1f} µs")
    return finish(figure, save)
