"""Parameters: histograms of arrays, kernels of convolutions, confusion of classes, and chains of draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from afx.core import Array, is_inexact
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.plot.figures import SavePath, finish, new_figure
from afx.pytree import flatten_with_path
from afx.sample import Draws
from afx.sample.diagnostics import columns_of

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.figure import Figure


# --- Parameters: histograms of the arrays of a model, and pictures of the kernels of a convolution

COLUMNS = 4
MAX_FILTERS = 400  # pictures that one can still tell apart


def weights(tree: object, *, bins: int = 50, save: SavePath = None) -> Figure:
    """Draw a histogram of each array of real or complex numbers in a model, under its path.

    Complex numbers count by their size. The title says how many elements are not finite, where there are any.

    Args:
        tree: a model, or gradients of one.
        bins: of each histogram.
        save: a path; its suffix is the format.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ArgumentError: there is no such array, ``bins`` is below 1, or the format is unknown.

    >>> figure = weights({"w": afx.ones((3, 2)), "b": afx.zeros(2)})
    >>> [panel.get_title() for panel in figure.axes]
    ["['b'] (2,)", "['w'] (3, 2)"]
    """
    if bins < 1:
        raise ArgumentError(f"weights: a number of bins: got {bins=}; give 1 or more")
    leaves = {path: np.asarray(leaf) for path, leaf in flatten_with_path(tree)[0]}
    arrays = {path: x for path, x in leaves.items() if is_inexact(x.dtype) and x.size}
    if not arrays:
        raise ArgumentError("weights: no array of real or complex numbers: got none; give a model or its parameters")
    figure, panels = new_figure(len(arrays), min(COLUMNS, len(arrays)), (3.2, 2.6))
    for panel, (path, x) in zip(panels, arrays.items(), strict=True):
        _draw_histogram(panel, path, x, bins)
    return finish(figure, save)


def _draw_histogram(panel: Any, path: str, x: npt.NDArray[Any], bins: int) -> None:
    sizes = np.abs(x) if x.dtype.kind == "c" else x
    values = sizes[np.isfinite(sizes)].astype(np.float64)
    nonfinite = x.size - values.size
    panel.hist(values, bins=bins, color="C0")
    panel.set_title(
        f"{path or 'array'} {x.shape}" + (f", {nonfinite} not finite" if nonfinite else ""), fontsize="small"
    )


def filters(kernel: Array | npt.NDArray[Any], *, save: SavePath = None) -> Figure:
    """Draw the kernels of a convolution in one or two dimensions, all on one scale.

    A column for each output and a row for each input channel; the many outputs of one channel fill a square.

    Args:
        kernel: float[*window, channels, out], as in `afx.nn.conv`, such as ``layer.kernel``.
        save: a path; its suffix is the format.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ShapeError: the kernel has another number of axes, or no element.
        ArgumentError: more kernels than one can tell apart, or an unknown format.
        DtypeError: a kernel that is not real.

    >>> len(filters(afx.ones((3, 3, 1, 8))).axes)
    8
    """
    k = np.asarray(kernel)
    if k.ndim not in {3, 4} or not k.size:
        raise ShapeError(
            f"filters: a kernel float[*window, channels, out] with a window of one or two axes: got {k.shape}"
        )
    if k.dtype.kind != "f":
        raise DtypeError(f"filters: a kernel of real numbers: got {k.dtype}; take its real part")
    channels, out = k.shape[-2:]
    if channels * out > MAX_FILTERS:
        raise ArgumentError(
            f"filters: {channels * out} kernels are too many to see: got {k.shape}; give a part of them"
        )
    columns = out if channels > 1 else int(np.ceil(np.sqrt(out)))
    figure, panels = new_figure(channels * out, columns, (1.1, 1.1))
    pictures = np.moveaxis(k, (-2, -1), (0, 1)).reshape(channels * out, *k.shape[:-2])
    finite = np.abs(k[np.isfinite(k)])
    scale = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    for panel, picture in zip(panels, pictures, strict=True):
        _draw_kernel(panel, picture, scale)
    return finish(figure, save)


def _draw_kernel(panel: Any, picture: npt.NDArray[Any], scale: float) -> None:
    if picture.ndim == 1:
        panel.plot(picture, color="C0", marker="." if len(picture) < 8 else "")
        panel.set_ylim(-1.05 * scale, 1.05 * scale)
    else:
        panel.imshow(picture, cmap="RdBu_r", vmin=-scale, vmax=scale)
    panel.grid(visible=False)
    panel.set(xticks=[], yticks=[])


# --- Classes: pictures of how a classifier errs

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
    counts = _counts_of(matrix)
    names = [str(label) for label in (range(len(counts)) if labels is None else labels)]
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


def _counts_of(matrix: Array | npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a matrix of counts as NumPy's array, or raise."""
    counts = np.asarray(matrix)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or not counts.size:
        raise ShapeError(
            f"confusion_matrix: a row and a column for each class: got shape {counts.shape}; give a square"
        )
    if counts.dtype.kind not in "fiub":
        raise DtypeError(f"confusion_matrix: counts are real numbers: got {counts.dtype}; use afx.nn.confusion_matrix")
    if not np.all(np.isfinite(counts)) or counts.min() < 0:
        raise ArgumentError("confusion_matrix: counts are 0 or more: got negative or non-finite ones; check the matrix")
    return counts


def _write_counts(panel: Any, counts: npt.NDArray[Any], shares: npt.NDArray[Any], normalize: bool) -> None:
    for row, column in np.ndindex(counts.shape):
        text = f"{100 * shares[row, column]:.0f}" if normalize else f"{counts[row, column]:g}"
        color = "white" if shares[row, column] > 0.5 else "black"
        panel.text(column, row, text, ha="center", va="center", color=color, fontsize="small")


# --- Chains: the traces of draws, and pairs of parameters with their divergences

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
    figure, panels = new_figure(2 * len(columns), 2, (5.4, 2.2))
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
    figure, panels = new_figure(n * n, n, (2.2, 2.0))
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
    columns = columns_of(tree)
    if missing := [name for name in names or [] if name not in columns]:
        raise ArgumentError(f"{who}: no such number: got {missing}; there are {list(columns)}")
    return columns if names is None else {name: columns[name] for name in names}
