"""Profiles as figures: the time of each line of a function's code."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from afx.compiler.report import short_place
from afx.debug import Profile
from afx.plot.figures import SavePath, finish, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["profile"]

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
