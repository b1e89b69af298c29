"""Sharding: data sets as trees of examples, and those larger than memory as files, one a shard."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from afx.core import Array, ArrayLike, wrap
from afx.errors import ArgumentError, DtypeError, FileFormatError, ShapeError, TreeError
from afx.io.archive import replace_file
from afx.pytree import flatten_with_path, unflatten

__all__ = ["Shards", "open_shards", "write_shards"]

# --- Sharding: data sets larger than memory, as files of NumPy's format that are mapped, one file a shard

Order: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class Shards:
    """A data set in files: `batches`, `split`, `folds` and `time_folds` take it where they take a tree of arrays.

    Only the rows that are asked for are read. Parts of it (`split`, `folds`) are Shards too. Its rows are arrays, or dicts of
    arrays by the names of the fields.

    Attributes:
        length: the number of examples.
    """

    def __init__(self, files: Sequence[Any], starts: Order, chosen: Order | None = None) -> None:
        self._files: Sequence[Any] = files
        self._starts: Order = starts
        self._chosen: Order | None = chosen  # the rows of a part, None for all
        self.length: int = int(starts[-1]) if chosen is None else len(chosen)

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"<{self.length} examples of {self._files[0].dtype} in {len(self._files)} files>"

    def take(self, index: ArrayLike) -> Any:
        """Return the examples at these indices, in memory.

        Raises:
            IndexError: an index outside of the set.
        """
        rows = self._rows(index)
        examples: Any = np.empty((len(rows), *self._files[0].shape[1:]), self._files[0].dtype)
        of = np.searchsorted(self._starts, rows, side="right") - 1
        for shard in np.unique(of):
            places = np.flatnonzero(of == shard)
            ordered = places[np.argsort(rows[places], kind="stable")]  # in the order of the file
            examples[ordered] = self._files[shard][rows[ordered] - self._starts[shard]]
        if examples.dtype.names is None:
            return wrap(examples)
        return {name: wrap(np.ascontiguousarray(examples[name])) for name in examples.dtype.names}

    def part(self, index: ArrayLike) -> Any:
        """Return a part of the set, which is not read."""
        return Shards(self._files, self._starts, self._rows(index))

    def _rows(self, index: ArrayLike) -> Order:
        wanted = np.asarray(index)
        if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "iu"):
            raise ShapeError(
                f"Shards: takes indices int[examples]: got {wanted.dtype}{list(wanted.shape)}; give integers"
            )
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < self.length):
            raise IndexError(
                f"Shards: an index outside of {self.length} examples: got {wanted.min()} to {wanted.max()}"
            )
        return wanted.astype(np.int64) if self._chosen is None else self._chosen[wanted]


def open_shards(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Shards:
    """Open a data set whose files are mapped into memory, so that it may be larger than memory.

    Args:
        paths: files of `write_shards` or ``np.save``, in the order of the examples; or a folder, whose ``.npy`` files count by
            their names. The first axis counts the examples; all else is the same in every file.

    Raises:
        FileFormatError: a file of another format, or with objects.
        ShapeError: files whose examples differ in shape or dtype.
        ArgumentError: no file.

    >>> import afx, numpy as np, tempfile
    >>> from afx import data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = data.write_shards(folder, ({"x": np.full((2, 3), k), "y": np.arange(2)} for k in range(3)))
    ...     shards = data.open_shards(folder)
    ...     batch = data.batches(shards, 4, key=afx.random.key(0))[0]
    >>> len(shards), batch["x"].shape, batch["y"].dtype
    (6, (4, 3), dtype('int64'))
    """
    files = [_map_file(path) for path in _list_files(paths)]
    if not files:
        raise ArgumentError(f"open_shards: no file: got {paths!r}; name files that write_shards or np.save wrote")
    first = files[0]
    for file in files:
        if (file.dtype, file.shape[1:]) != (first.dtype, first.shape[1:]):
            raise ShapeError(
                f"open_shards: examples are alike in every file: got {file.dtype}{list(file.shape[1:])} in "
                f"{Path(file.filename).name} after {first.dtype}{list(first.shape[1:])}; write them alike"
            )
    return Shards(files, np.concatenate([[0], np.cumsum([len(file) for file in files])]))


def _list_files(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[Path]:
    if not isinstance(paths, str | os.PathLike):
        return [Path(path) for path in paths]
    path_or_folder = Path(paths)
    return sorted(path_or_folder.glob("*.npy")) if path_or_folder.is_dir() else [path_or_folder]


def _map_file(path: Path) -> Any:
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except (
        Exception
    ) as error:  # whatever NumPy's reader makes of damaged bytes: errors of tokens and of syntax among them
        why = "a cut file" if "mmap length" in str(error) else "another format, or objects"  # NumPy advises pickles
        raise FileFormatError(
            f"open_shards: no array of numbers in NumPy's format: got {why}, {str(path)!r}; write it by write_shards"
        ) from None
    if type(mapped) is not np.memmap or mapped.ndim == 0:
        raise FileFormatError(
            f"open_shards: no array of examples: got {str(path)!r}; write it by write_shards or np.save"
        )
    return mapped


def write_shards(folder: str | os.PathLike[str], parts: Iterable[ArrayLike | Mapping[str, ArrayLike]]) -> list[Path]:
    """Write a data set part by part, each into one file that `open_shards` maps.

    The arrays of a part stand example by example, so that a row is read at one place. Each file is written whole or not
    at all.

    Args:
        folder: made if it does not exist; it must hold no ``.npy`` files.
        parts: an array, or arrays by name, of some examples each: as many as fit into memory.

    Returns:
        The files, ``shard_00000.npy`` and so on.

    Raises:
        ArgumentError: the folder holds ``.npy`` files.
        ShapeError: arrays of one part that differ in length, or examples that differ between parts.
        DtypeError: what is no number.
        OSError: a file cannot be written.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if any(target.glob("*.npy")):
        raise ArgumentError(f"write_shards: the folder holds a data set: got {str(target)!r}; give an empty one")
    paths: list[Path] = []
    first = None
    for number, part in enumerate(parts):
        records = _pack_records(part)
        _check_records(records, records if first is None else first, number)
        first = records[:0] if first is None else first
        paths.append(target / f"shard_{number:05d}.npy")
        with replace_file(paths[-1]) as file:
            np.save(file, records, allow_pickle=False)
    return paths


def _check_records(records: Any, first: Any, number: int) -> None:
    """Raise where no later `open_shards` could read a part, before it is written."""
    if records.dtype.hasobject or records.dtype.kind in "USMm":
        raise DtypeError(f"write_shards: parts hold numbers: got {records.dtype} in part {number}; convert it")
    if not records.ndim or (records.dtype, records.shape[1:]) != (first.dtype, first.shape[1:]):
        raise ShapeError(
            f"write_shards: a part is an array of examples, alike in each: got {records.dtype}{list(records.shape)} as "
            f"part {number} after {first.dtype}{list(first.shape)}; make them alike"
        )


def _pack_records(part: Any) -> Any:
    """Return the arrays of a part as one array of records, one an example."""
    if not isinstance(part, Mapping):
        return np.asarray(part)
    arrays: dict[str, Any] = {str(name): np.asarray(value) for name, value in part.items()}  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]  # of any kind
    lengths = {name: x.shape[:1] for name, x in arrays.items()}
    if len(set(lengths.values())) != 1 or () in lengths.values():
        raise ShapeError(f"write_shards: the first axis counts the examples, the same in every array: got {lengths}")
    dtype = np.dtype([(name, x.dtype, x.shape[1:]) for name, x in arrays.items()])
    records: Any = np.empty(next(iter(lengths.values())), dtype)
    for name, x in arrays.items():
        records[name] = x
    return records


# --- Examples: trees of arrays whose first axis counts the examples, and rows taken from them


class Rows:
    """The leaves of a tree as NumPy arrays, from which rows are taken."""

    def __init__(self, tree: Any, who: str) -> None:
        leaves, self._treedef = flatten_with_path(tree)
        self.length: int = _common_length(leaves, who)
        self._leaves = [(np.asarray(leaf), isinstance(leaf, Array)) for _, leaf in leaves]

    def take(self, index: Any) -> Any:
        """Return the tree of these rows; each leaf keeps its kind."""
        taken = [(leaf[index], is_array) for leaf, is_array in self._leaves]
        return unflatten(self._treedef, [wrap(np.asarray(x)) if is_array else x for x, is_array in taken])

    def part(self, index: Any) -> Any:
        """Return the part of the data set that has these rows."""
        return self.take(index)


def _common_length(leaves: Sequence[tuple[str, Any]], who: str) -> int:
    if not leaves:
        raise TreeError(f"{who}: a tree without arrays: got none; give arrays whose first axis counts the examples")
    shapes = [(path, np.shape(leaf)) for path, leaf in leaves]
    for _, shape in shapes:
        if not shape or shape[0] != (shapes[0][1] or (0,))[0]:
            text = ", ".join(f"{path or 'the array'}: {list(shape)}" for path, shape in shapes)
            raise ShapeError(
                f"{who}: the first axis counts the examples, the same in every array: got {text}; align them"
            )
    length: int = shapes[0][1][0]
    return length


def read_rows(tree: object, who: str) -> Rows | Shards:
    """Return the rows of a tree, or of shards, of at least one example.

    Raises:
        ShapeError: no examples.
    """
    rows = tree if isinstance(tree, Shards) else Rows(tree, who)
    if rows.length == 0:
        raise ShapeError(f"{who}: no examples: got a first axis of length 0; give at least one")
    return rows
