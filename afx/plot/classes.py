"""Classes: pictures of how a classifier errs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from afx.core.array.array import Array
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.plot.figures import SavePath, finish, new_figure

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.figure import Figure

__all__ = ["confusion_matrix"]

MAX_WRITTEN = 24  # classes whose counts still fit into their squares


def confusion_matrix(
    matrix: Array | npt.NDArray[Any],
    labels: Sequence[str] | None = None,
    *,
    normalize: bool = False,
    save: SavePath = None,
) -> Figure:
    """Draw how many examples of each class (rows) were taken for each class (columns).

    The darkness is the share of the row's examples, so that rare classes show as well as frequent ones.

    Args:
        matrix: int[classes, classes], as `afx.nn.confusion_matrix` counts them.
        labels: of the classes; numbers from 0 by default.
        normalize: write shares in percent in place of counts.
        save: a path; its suffix is the format.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ShapeError: the matrix is not square, or has no class.
        DtypeError: a matrix that is not real.
        ArgumentError: the number of labels differs, counts are negative or not finite, or the format is unknown.

    >>> figure = confusion_matrix(afx.asarray([[8, 2], [1, 9]]), ["cat", "dog"])
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['8', '2', '1', '9']
    """
    counts = np.asarray(matrix)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or not counts.size:
        raise ShapeError(
            f"confusion_matrix: a row and a column for each class: got shape {counts.shape}; give a square"
        )
    if counts.dtype.kind not in "fiub":
        raise DtypeError(f"confusion_matrix: counts are real numbers: got {counts.dtype}; use afx.nn.confusion_matrix")
    if not np.all(np.isfinite(counts)) or counts.min() < 0:
        raise ArgumentError("confusion_matrix: counts are 0 or more: got negative or non-finite ones; check the matrix")
    names = [str(k) for k in range(len(counts))] if labels is None else [str(label) for label in labels]
    if len(names) != len(counts):
        raise ArgumentError(f"confusion_matrix: a label for each of {len(counts)} classes: got {len(names)} labels")
    totals = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, totals, out=np.zeros(counts.shape), where=totals > 0)
    side = max(3.6, 0.42 * len(names) + 1.2)
    figure, (panel,) = new_figure(1, 1, (side, side))
    panel.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    panel.grid(visible=False)
    panel.set(xlabel="taken for", ylabel="class")
    panel.set_xticks(range(len(names)), names, rotation=0 if max(map(len, names)) < 3 else 45)
    panel.set_yticks(range(len(names)), names)
    if len(names) <= MAX_WRITTEN:
        _write_counts(panel, counts, shares, normalize)
    return finish(figure, save)


def _write_counts(panel: Any, counts: npt.NDArray[Any], shares: npt.NDArray[Any], normalize: bool) -> None:
    for row, column in np.ndindex(counts.shape):
        text = f"{100 * shares[row, column]:.0f}" if normalize else f"{counts[row, column]:g}"
        color = "white" if shares[row, column] > 0.5 else "black"
        panel.text(column, row, text, ha="center", va="center", color=color, fontsize="small")
