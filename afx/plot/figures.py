"""Figures: canvases of panels in one style, and their files."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from afx.errors import ArgumentError, MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STYLE", "SavePath", "finish", "new_figure"]

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


def new_figure(rows: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Any]]:
    """Return a figure with a grid of panels, each of this size in inches, and the panels in the order of reading.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        matplotlib: Any = importlib.import_module("matplotlib")
        figures: Any = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise MissingExtraError('plot: figures need matplotlib: got none; pip install "afx[plot]"') from error
    with matplotlib.rc_context(STYLE):
        figure = figures.Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
        return figure, list(figure.subplots(rows, columns, squeeze=False).ravel())


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
    matplotlib: Any = importlib.import_module("matplotlib")
    with matplotlib.rc_context(STYLE):
        cast("Any", figure).savefig(path, format=suffix)  # matplotlib leaves its type open in part
    return figure
