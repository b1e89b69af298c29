"""Loading: data sets from files and packages, and items of an iterator made ahead on a thread."""

from __future__ import annotations

import csv
import importlib
import os
import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeAlias, TypeVar

import attrs
import numpy as np

from afx.core import Array, DTypeLike, get_default_dtype
from afx.errors import ArgumentError, FileFormatError, MissingExtraError
from afx.ops import asarray

__all__ = ["load_csv", "load_npz", "load_sklearn", "prefetch"]


# --- Loading: data sets from files and packages, as dicts and pairs of arrays


def load_npz(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays of a ``.npz`` file by name; objects (pickles) are refused.

    Raises:
        FileFormatError: no such archive, or one with objects.
        OSError: there is no such file.

    >>> import afx, numpy, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "set.npz"
    ...     numpy.savez(path, x=[1.0, 2.0])
    ...     afx.data.load_npz(path)
    {'x': Array([1., 2.], dtype=float64)}
    """
    with open(path, "rb") as stream:  # noqa: PTH123 - a path of any kind
        try:
            with np.load(stream, allow_pickle=False) as file:
                return {str(name): asarray(file[name]) for name in file.files}
        except Exception:  # whatever zipfile and NumPy, who advises pickles, make of damaged bytes
            raise FileFormatError(
                f"load_npz: no archive of arrays of numbers: got {os.fspath(path)!r}; save it by np.savez"
            ) from None


def load_csv(
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    delimiter: str = ",",
    dtype: DTypeLike | None = None,
) -> dict[str, Array]:
    r"""Return the columns of a text file of numbers by the names in its first line.

    Args:
        path: a text file: a line of names, then one line an example.
        columns: the names wanted; None for all.
        delimiter: what stands between two columns.
        dtype: of the numbers; None for the default dtype. An empty cell is nan.

    Raises:
        FileFormatError: lines of different lengths, or a cell that is no number; the message has its line.
        ArgumentError: a column that the file does not have.

    >>> import afx, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "set.csv"
    ...     _ = path.write_text("age,height\n3,0.9\n7,1.2\n")
    ...     afx.data.load_csv(path)["height"]
    Array([0.9, 1.2], dtype=float32)
    """
    names, rows = _read_rows(path, delimiter)
    wanted = list(names if columns is None else columns)
    if missing := [name for name in wanted if name not in names]:
        raise ArgumentError(f"load_csv: columns that the file does not have: got {missing}; it has {names}")
    if twice := sorted({name for name in wanted if names.count(name) > 1}):
        raise FileFormatError(f"load_csv: columns of one name: got {twice} more than once; rename all but one")
    for number, cells in rows:
        if len(cells) != len(names):
            raise FileFormatError(
                f"load_csv: line {number} has {len(cells)} cells: got {len(names)} names; mend the line"
            )
    kind = get_default_dtype() if dtype is None else np.dtype(dtype)
    arrays: dict[str, Array] = {}
    for name in wanted:
        place = names.index(name)
        values = [_number(cells[place], number, name) for number, cells in rows]
        arrays[name] = asarray(np.asarray(values, np.float64).astype(kind))
    return arrays


def _read_rows(path: str | os.PathLike[str], delimiter: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the names of the columns, and the number and cells of each line that is not empty."""
    if len(delimiter) != 1:
        raise ArgumentError(f"load_csv: a delimiter is one character: got {delimiter!r}; such as ',' or '\\t'")
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:  # noqa: PTH123 - a path of any kind
            reader = csv.reader(file, delimiter=delimiter)
            rows = [(reader.line_num, cells) for cells in reader if cells]
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(
            f"load_csv: no text of UTF-8 ({error}): got {os.fspath(path)!r}; export it as CSV"
        ) from None
    if not rows:
        raise FileFormatError(f"load_csv: an empty file: got {os.fspath(path)!r}; the first line holds the names")
    return [name.strip() for name in rows[0][1]], rows[1:]


def _number(cell: str, line: int, name: str) -> float:
    text = cell.strip()
    try:
        return float(text) if text else float("nan")
    except ValueError:
        raise FileFormatError(
            f"load_csv: a cell that is no number, in line {line}, column {name!r}: got {cell!r}; leave the column out"
        ) from None


def load_sklearn(name: str, *, dtype: DTypeLike | None = None) -> tuple[Array, Array]:
    """Return one of the data sets that scikit-learn carries: features and targets.

    Args:
        name: ``"iris"``, ``"digits"``, ``"wine"``, ``"breast_cancer"``, ``"diabetes"`` or ``"linnerud"``.
        dtype: of features and of targets that are no classes; None for the default dtype.

    Returns:
        float[examples, features], and the targets: int64[examples] of classes, else floats.

    Raises:
        MissingExtraError: scikit-learn is not installed.
        ArgumentError: no such data set.
    """
    try:
        sets = importlib.import_module("sklearn.datasets")
    except ImportError as error:
        raise MissingExtraError("load_sklearn: needs scikit-learn: got none; pip install scikit-learn") from error
    load = getattr(sets, f"load_{name}", None)
    if name not in ("iris", "digits", "wine", "breast_cancer", "diabetes", "linnerud") or load is None:
        raise ArgumentError(f"load_sklearn: no data set that scikit-learn carries: got {name!r}; such as 'digits'")
    x, y = load(return_X_y=True)
    kind = get_default_dtype() if dtype is None else np.dtype(dtype)
    return asarray(x.astype(kind)), asarray(y.astype(np.int64 if np.issubdtype(y.dtype, np.integer) else kind))


# --- Prefetching: items of an iterator made ahead on a thread

T = TypeVar("T")


@attrs.frozen
class _Raised:
    """An exception that the iterator raised, on its way to who waits for the next item."""

    error: BaseException


@attrs.frozen
class _Item(Generic[T]):
    """An item, distinguished from errors and from None, the end, by its type."""

    value: T


Waiting: TypeAlias = "queue.Queue[_Item[T] | _Raised | None]"


def prefetch(items: Iterable[T], depth: int = 2) -> Iterator[T]:
    """Yield the items of an iterable, while a thread makes the next ones.

    Order and values stay. An exception of the iterable is raised instead of the item. The thread ends with the
    iteration, also when that is left early (``close``, ``break``, an exception); NumPy computes there without
    Python's lock, so that reading and cutting of the next batch overlaps the present step.

    Args:
        items: any iterable; it is iterated on one other thread.
        depth: how many items may wait, at least 1.

    Raises:
        ArgumentError: a depth below 1.

    >>> list(prefetch(range(3)))
    [0, 1, 2]
    """
    if depth < 1:
        raise ArgumentError(f"prefetch: at least one item waits: got depth={depth}; give a positive number")
    return _Prefetching(items, depth)


class _Prefetching(Iterator[T]):
    """The iterator of `prefetch`; its thread starts with the first item that is asked for."""

    def __init__(self, items: Iterable[T], depth: int) -> None:
        self._items = items
        self._waiting: Waiting[T] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._direct: Iterator[T] | None = None  # where no thread can be started
        self._is_over = False

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._is_over:
            raise StopIteration
        if self._thread is None:
            self._start()
        if self._direct is not None:
            return next(self._direct)
        item = self._waiting.get()
        if isinstance(item, _Item):
            return item.value
        self.close()
        if isinstance(item, _Raised):
            raise item.error
        raise StopIteration

    def _start(self) -> None:
        """Start the thread; a system without threads makes each item when it is asked for."""
        self._thread = threading.Thread(
            target=_fill, args=(self._items, self._waiting, self._stopped), name="afx-prefetch", daemon=True
        )
        try:
            self._thread.start()
        except RuntimeError:
            self._direct = iter(self._items)

    def close(self) -> None:
        """End the thread."""
        self._is_over = True
        self._stopped.set()

    def __del__(self) -> None:
        self._stopped.set()


def _fill(items: Iterable[T], waiting: Waiting[T], stopped: threading.Event) -> None:
    """Put items into the queue until they end or nobody waits for them."""
    last: _Raised | None = None
    try:
        for item in items:
            if not _offer_item(_Item(item), waiting, stopped):
                return
    except BaseException as error:  # raised again where the item is asked for
        last = _Raised(error)
    _offer_item(last, waiting, stopped)


def _offer_item(item: _Item[T] | _Raised | None, waiting: Waiting[T], stopped: threading.Event) -> bool:
    """Wait for room in the queue; tell whether anybody still asks for items."""
    while not stopped.is_set():
        try:
            waiting.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False
