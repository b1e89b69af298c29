"""Command line: figures of files of arrays, ``python -m afx.plot history.npz -o loss.png``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import cast

from afx import data
from afx.core import Array
from afx.errors import AfxError, ArgumentError, FileFormatError
from afx.io import load
from afx.ops import asarray
from afx.plot.figures import losses
from afx.plot.parameters import confusion_matrix, filters, weights
from afx.pytree import flatten_with_path
from afx.train import History

KINDS = ("losses", "weights", "filters", "confusion")


def main(arguments: list[str] | None = None) -> int:
    """Draw the figure that the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m afx.plot",
        description="Draw the arrays of .npz files: a history of afx.train, one-dimensional values, weights, filters or a "
        "confusion matrix.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help=".npz files; several losses share a figure")
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="PATH", help="the figure: .png, .svg, .pdf …"
    )
    parser.add_argument("--kind", choices=KINDS, default="losses", help="what to draw (default: losses)")
    parser.add_argument("--name", help="of the array, where the file has several")
    parser.add_argument("--smoothing", type=int, default=1, metavar="N", help="mean of the last N losses")
    options = parser.parse_args(arguments)
    try:
        draw(options.files, options.output, options.kind, options.name, options.smoothing)
    except (AfxError, OSError) as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 1
    return 0


def draw(files: list[Path], output: Path, kind: str, name: str | None = None, smoothing: int = 1) -> None:
    """Draw one figure into a file.

    Raises:
        ArgumentError: several files for a kind that takes one, or no such array.
    """
    if kind == "losses":
        stems = [path.stem for path in files]
        runs = {(path.stem if stems.count(path.stem) == 1 else str(path)): _history(path, name) for path in files}
        losses(runs if len(files) > 1 else next(iter(runs.values())), smoothing=smoothing, save=output)
        return
    if len(files) > 1:
        raise ArgumentError(f"{kind}: a figure of one file: got {len(files)}; draw them one by one")
    arrays = _read(files[0])
    if kind == "weights":
        weights(arrays, save=output)
    elif kind == "filters":
        filters(_choose(arrays, name, files[0]), save=output)
    else:
        confusion_matrix(_choose(arrays, name, files[0]), save=output)


def _read(path: Path) -> dict[str, Array]:
    """Return the arrays of a file of NumPy or of `afx.io.save`, whose trees give theirs by key path."""
    try:
        return data.load_npz(path)
    except FileFormatError:
        tree = cast("object", load(path))
    leaves = flatten_with_path(tree)[0]
    if isinstance(tree, dict):
        named = cast("dict[str, object]", tree)
        if all(isinstance(value, Array) for value in named.values()):
            return cast("dict[str, Array]", named)
    return {leaf_path: asarray(leaf) for leaf_path, leaf in leaves}


def _history(path: Path, name: str | None) -> History | Array:
    """Return the history that a file holds, or its only array."""
    arrays = _read(path)
    return History.from_arrays(arrays) if name is None and "step" in arrays else _choose(arrays, name, path)


def _choose(arrays: dict[str, Array], name: str | None, path: Path) -> Array:
    """Return the array of this name, the only one where none is named."""
    if name is None and len(arrays) == 1:
        return next(iter(arrays.values()))
    if name is None or name not in arrays:
        raise ArgumentError(f"{path.name}: name one of its arrays: got {name!r} of {sorted(arrays)}; give --name")
    return arrays[name]
