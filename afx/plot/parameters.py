"""Parameters: histograms of the arrays of a model, and pictures of the kernels of a convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from afx.core.array.array import Array
from afx.core.dtypes import is_inexact
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.plot.figures import SavePath, finish, new_figure
from afx.pytree import flatten_with_path

if TYPE_CHECKING:
    import numpy.typing as npt
    from matplotlib.figure import Figure

__all__ = ["filters", "weights"]

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
    found = {path: np.asarray(leaf) for path, leaf in flatten_with_path(tree)[0]}
    arrays = {path: x for path, x in found.items() if is_inexact(x.dtype) and x.size}
    if not arrays:
        raise ArgumentError("weights: no array of real or complex numbers: got none; give a model or its parameters")
    columns = min(COLUMNS, len(arrays))
    figure, panels = new_figure(-(-len(arrays) // columns), columns, (3.2, 2.6))
    for panel, (path, x) in zip(panels, arrays.items(), strict=False):
        _draw_histogram(panel, path, x, bins)
    for panel in panels[len(arrays) :]:
        panel.remove()
    return finish(figure, save)


def _draw_histogram(panel: Any, path: str, x: npt.NDArray[Any], bins: int) -> None:
    sizes = np.abs(x) if x.dtype.kind == "c" else x
    values = sizes[np.isfinite(sizes)].astype(np.float64)
    others = x.size - values.size
    panel.hist(values, bins=bins, color="C0")
    panel.set_title(f"{path or 'array'} {x.shape}" + (f", {others} not finite" if others else ""), fontsize="small")


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
    figure, panels = new_figure(channels if channels > 1 else -(-out // columns), columns, (1.1, 1.1))
    pictures = np.moveaxis(k, (-2, -1), (0, 1)).reshape(channels * out, *k.shape[:-2])
    finite = np.abs(k[np.isfinite(k)])
    scale = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    for panel, picture in zip(panels, pictures, strict=False):
        _draw_kernel(panel, picture, scale)
    for panel in panels[len(pictures) :]:
        panel.remove()
    return finish(figure, save)


def _draw_kernel(panel: Any, picture: npt.NDArray[Any], scale: float) -> None:
    if picture.ndim == 1:
        panel.plot(picture, color="C0", marker="." if len(picture) < 8 else "")
        panel.set_ylim(-1.05 * scale, 1.05 * scale)
    else:
        panel.imshow(picture, cmap="RdBu_r", vmin=-scale, vmax=scale)
    panel.grid(visible=False)
    panel.set(xticks=[], yticks=[])
