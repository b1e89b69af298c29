"""Chains: the traces of draws, and pairs of parameters with their divergences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from afx.errors import ArgumentError
from afx.plot.figures import SavePath, finish, new_figure
from afx.sample import Draws
from afx.sample.diagnostics import columns_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["pairs", "traces"]

BINS = 40
PAIRS_MAX = 8  # parameters of a grid that can be read


def traces(draws: Draws[Any], *, names: list[str] | None = None, save: SavePath = None) -> Figure:
    """Draw for each number its distribution in each chain, and its path; divergences are marked below the path.

    Args:
        draws: from `afx.sample.draw`.
        names: of numbers, as `afx.sample.summary` has them, all without it.
        save: a path; its suffix (``.png``, ``.svg``, ``.pdf`` …) is the format.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ArgumentError: there is no such number, or the format is unknown.
    """
    columns = _choose(draws.params, names, "traces")
    figure, panels = new_figure(len(columns), 2, (5.4, 2.2))
    for k, (name, x) in enumerate(columns.items()):
        left, right = panels[2 * k], panels[2 * k + 1]
        for chain, values in enumerate(x):
            left.hist(values, BINS, density=True, histtype="step", color=f"C{chain}")
            right.plot(values, color=f"C{chain}", linewidth=0.6, alpha=0.8)
            broken = np.flatnonzero(np.asarray(draws.diverged)[chain])
            right.plot(broken, np.full(broken.shape, x.min()), "k|")
        left.set(title=name, yticks=[])
        right.set(title=name, xlabel="draw" if k + 1 == len(columns) else "")
    return finish(figure, save)


def pairs(draws: Draws[Any], *, names: list[str] | None = None, save: SavePath = None) -> Figure:
    """Draw each two numbers against each other, in red where trajectories diverged, and the distribution of each.

    Args:
        draws: from `afx.sample.draw`.
        names: of numbers, as `afx.sample.summary` has them; all without it, eight at most.
        save: a path; its suffix is the format.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ArgumentError: there is no such number, there are more than eight, or the format is unknown.
    """
    columns = _choose(draws.params, names, "pairs")
    if len(columns) > PAIRS_MAX:
        raise ArgumentError(f"pairs: {PAIRS_MAX} numbers at most: got {len(columns)}; choose by names=")
    broken = np.asarray(draws.diverged).ravel()
    n, items = len(columns), list(columns.items())
    figure, panels = new_figure(n, n, (2.2, 2.0))
    for k, panel in enumerate(panels):
        (_, y), (name, x) = items[k // n], items[k % n]
        if k // n == k % n:
            panel.hist(x.ravel(), BINS, density=True, color="C0", alpha=0.6)
            panel.set(title=name, yticks=[])
        else:
            panel.plot(x.ravel(), y.ravel(), "C0.", markersize=1.5, alpha=0.4)
            panel.plot(x.ravel()[broken], y.ravel()[broken], "C3.", markersize=5)
    return finish(figure, save)


def _choose(tree: Any, names: list[str] | None, who: str) -> dict[str, Any]:
    """Return draws [chains, draws] of the numbers of these names."""
    found = columns_of(tree)
    if missing := [name for name in names or [] if name not in found]:
        raise ArgumentError(f"{who}: no such number: got {missing}; there are {list(found)}")
    return found if names is None else {name: found[name] for name in names}
