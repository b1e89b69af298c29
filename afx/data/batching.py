"""Batching: minibatches and disjoint parts of a data set, each a pure function of its key."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

import numpy as np

from afx.core import Array, ArrayLike, wrap
from afx.data.sharding import Rows, Shards, read_rows
from afx.errors import ArgumentError, ShapeError
from afx.ops.random.bits import check_key
from afx.random import fold_in, permutation, uniform
from afx.transforms._arguments import whole_number

__all__ = ["Batches", "batches", "folds", "padded_batches", "split", "time_folds"]

# --- Batching: minibatches of a tree of arrays, each a pure function of key and step number

T = TypeVar("T")
Last: TypeAlias = Literal["drop", "short"]
Order: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


class Batches(Generic[T]):
    """Minibatches by step number: step ``e * len(batches) + i`` is batch ``i`` of epoch ``e``.

    Made by `batches` and `padded_batches`. There is no hidden position: a training that resumes at a step asks for
    `stream(step)` and sees what it would have seen.

    Attributes:
        size: the number of examples of a batch.
        examples: the number of all examples.
    """

    def __init__(
        self, examples: int, size: int, count: int, draw: Callable[[int], Order], take: Callable[[Order], T]
    ) -> None:
        self.size = size
        self.examples = examples
        self._count = count
        self._draw = draw
        self._take = take
        self._order: tuple[int, Order] | None = None  # of the epoch that was asked for last

    def __len__(self) -> int:
        """Return the number of batches of an epoch."""
        return self._count

    def __iter__(self) -> Iterator[T]:
        """Raise: steps have no end, and each epoch has an order of its own.

        Raises:
            ArgumentError: always.
        """
        raise ArgumentError(
            "Batches: iteration needs an epoch: got none; write for batch in batches.epoch(k), or .epochs(count), "
            "or .stream() without end"
        )

    def __getitem__(self, step: int) -> T:
        """Return the batch of a step.

        Raises:
            IndexError: a negative step.
        """
        if step < 0:
            raise IndexError(f"Batches: steps count from 0: got {step}")
        epoch, index = divmod(step, self._count)
        return self._take(self._order_of(epoch)[index * self.size : (index + 1) * self.size])

    def _order_of(self, epoch: int) -> Order:
        known = self._order
        if known is None or known[0] != epoch:
            known = self._order = (epoch, self._draw(epoch))
        return known[1]

    def epoch(self, epoch: int) -> Iterator[T]:
        """Yield the batches of one epoch."""
        return (self[step] for step in range(epoch * self._count, (epoch + 1) * self._count))

    def epochs(self, count: int) -> Iterator[T]:
        """Yield the batches of the first epochs, one after the other."""
        return (self[step] for step in range(count * self._count))

    def stream(self, start: int = 0) -> Iterator[T]:
        """Yield the batches from a step on, without end."""
        step = start
        while True:
            yield self[step]
            step += 1


@overload
def batches(
    tree: Shards, size: int, *, key: Array | None = None, last: Last = "drop", weights: ArrayLike | None = None
) -> Batches[Any]: ...
@overload
def batches(
    tree: T, size: int, *, key: Array | None = None, last: Last = "drop", weights: ArrayLike | None = None
) -> Batches[T]: ...
def batches(
    tree: Any, size: int, *, key: Array | None = None, last: Last = "drop", weights: ArrayLike | None = None
) -> Batches[Any]:
    """Return the minibatches of a tree of arrays, or of files (`open_shards`).

    Each epoch has an order of its own, made from the key and the epoch's number: the same key gives the same batches,
    wherever iteration begins. Leaves keep their kind (Array or ndarray, memory-mapped ones too: only the rows of a
    batch are read).

    Args:
        tree: arrays float[examples, ...], in any structure; or Shards.
        size: examples of a batch.
        key: shuffles; None keeps the order of the data.
        last: ``"drop"`` leaves out the examples that do not fill the last batch of an epoch, ``"short"`` gives them
            as a shorter batch. `padded_batches` fills it up.
        weights: float[examples], at least 0: examples are drawn with replacement, in proportion to them.

    Raises:
        ArgumentError: a size below 1 or, with ``"drop"``, above the number of examples; weights without a key.
        ShapeError: arrays of different lengths.

    >>> import afx
    >>> found = afx.data.batches(afx.arange(5), 2, last="short")
    >>> [batch.tolist() for batch in found.epoch(0)]
    [[0, 1], [2, 3], [4]]
    """
    rows = read_rows(tree, "batches")
    size = whole_number("size", size, "batches")
    if last not in ("drop", "short"):
        raise ArgumentError(f'batches: last is "drop" or "short": got {last!r}; padded_batches fills the last batch')
    count = rows.length // size if last == "drop" else -(-rows.length // size)
    if count == 0:
        raise ArgumentError(
            f'batches: no batch is full: got size={size} for {rows.length} examples; make it smaller, or last="short"'
        )
    draw = _orders(rows.length, key) if weights is None else _weighted_orders(rows.length, key, weights)
    return Batches(rows.length, size, count, draw, rows.take)


@overload
def padded_batches(tree: Shards, size: int, *, key: Array | None = None) -> Batches[tuple[Any, Array]]: ...
@overload
def padded_batches(tree: T, size: int, *, key: Array | None = None) -> Batches[tuple[T, Array]]: ...
def padded_batches(tree: Any, size: int, *, key: Array | None = None) -> Batches[tuple[Any, Array]]:
    """Return minibatches of one size, each with a mask: the last one of an epoch is filled up.

    So that a compiled step is traced once. Rows that fill up repeat the epoch's first ones: their mask is False, and a
    loss such as ``mean(loss, where=mask)`` passes over them.

    Args:
        tree: arrays float[examples, ...], in any structure; or Shards.
        size: examples of a batch.
        key: shuffles; None keeps the order of the data.

    Returns:
        Batches of pairs: the tree, and bool[size].

    >>> import afx
    >>> found = afx.data.padded_batches(afx.arange(5), 3)
    >>> [(batch.tolist(), mask.tolist()) for batch, mask in found.epoch(0)]
    [([0, 1, 2], [True, True, True]), ([3, 4, 0], [True, True, False])]
    """
    rows = read_rows(tree, "padded_batches")
    size = whole_number("size", size, "padded_batches")

    count = -(-rows.length // size)
    return Batches(
        rows.length,
        size,
        count,
        functools.partial(_draw_padded, _orders(rows.length, key), count * size),
        functools.partial(_take_masked, rows),
    )


def _take_masked(rows: Rows | Shards, order: Order) -> tuple[Any, Array]:
    return rows.take(np.abs(order) - 1), wrap(order > 0)


def _draw_padded(draw: Callable[[int], Order], length: int, epoch: int) -> Order:
    """Return an order of this length: numbers of rows from 1, negative where they fill up."""
    order = draw(epoch) + 1
    return np.concatenate([order, -np.resize(order, length - len(order))])


def _orders(length: int, key: Array | None) -> Callable[[int], Order]:
    """Return the order of the examples as a function of the epoch."""
    if key is not None:
        check_key(key, "batches")
    return functools.partial(_draw, length, key)


def _draw(length: int, key: Array | None, epoch: int) -> Order:
    return np.arange(length) if key is None else np.asarray(permutation(fold_in(key, epoch), length))


def _weighted_orders(length: int, key: Array | None, weights: ArrayLike) -> Callable[[int], Order]:
    """Return draws with replacement, in proportion to weights, as a function of the epoch."""
    shares = np.asarray(weights, np.float64)
    if shares.shape != (length,):
        raise ShapeError(f"batches: one weight an example: got {list(shares.shape)} for {length}; give float[{length}]")
    if key is None:
        raise ArgumentError("batches: drawing by weights needs a key: got key=None; pass afx.random.key(seed)")
    if not np.all(shares >= 0) or not np.isfinite(shares.sum()) or not shares.sum() > 0:
        raise ArgumentError("batches: weights are finite, at least 0 and not all 0: got others; look for nan")
    bounds = np.cumsum(shares) / shares.sum()
    final = int(np.flatnonzero(shares)[-1])  # rounding may leave the last bound below 1
    return functools.partial(_draw_weighted, bounds, final, key)


def _draw_weighted(bounds: Any, final: int, key: Array, epoch: int) -> Order:
    uniforms = np.asarray(uniform(fold_in(key, epoch), len(bounds), dtype=np.float64))
    return np.minimum(np.searchsorted(bounds, uniforms, side="right"), final)


# --- Splitting: disjoint parts of a data set, at random from a key, stratified by labels, by groups, or in time


def split(
    tree: T,
    shares: Sequence[float],
    *,
    key: Array | None = None,
    stratify: ArrayLike | None = None,
    groups: ArrayLike | None = None,
) -> tuple[T, ...]:
    """Return disjoint parts of a data set, their sizes in proportion to shares.

    Sizes are rounded by largest remainder, so that every example is in exactly one part. With labels, each part has
    (to one example) the same share of each class.

    Args:
        tree: arrays float[examples, ...], in any structure.
        shares: positive numbers, such as ``(0.8, 0.2)`` or ``(3, 1, 1)``.
        key: shuffles first; None keeps the order.
        stratify: labels [examples]; each class is split by itself.
        groups: labels [examples], such as patients; all examples of a group are in the same part, so that sizes are as near
            to the shares as whole groups allow.

    Raises:
        ArgumentError: shares that are not positive, or both ``stratify`` and ``groups``.
        ShapeError: arrays of different lengths.

    >>> import afx
    >>> train, test = afx.data.split(afx.arange(10), (0.8, 0.2), key=afx.random.key(1))
    >>> len(train), len(test), sorted(train.tolist() + test.tolist()) == list(range(10))
    (8, 2, True)
    """
    rows = read_rows(tree, "split")
    try:
        weights = [float(share) for share in shares]
    except (TypeError, ValueError):
        weights = []
    if not weights or not all(0 < weight < math.inf for weight in weights):
        raise ArgumentError(f"split: shares are positive numbers: got {shares!r}; such as (0.8, 0.2)")
    if groups is not None:
        row_parts = _whole_groups(rows, weights, key, stratify, groups, "split")
        return tuple(map(rows.part, row_parts))
    parts: list[list[Any]] = [[] for _ in weights]
    for group in _groups(rows, key, stratify, "split"):
        start = 0
        for part, size in zip(parts, divide_proportionally(len(group), weights), strict=True):
            part.append(group[start : start + size])
            start += size
    return tuple([rows.part(_order(part, key, stratify)) for part in parts])


def folds(
    tree: T, count: int, *, key: Array | None = None, stratify: ArrayLike | None = None, groups: ArrayLike | None = None
) -> list[tuple[T, T]]:
    """Return pairs of a training and a test part for cross-validation: each example is tested once.

    Args:
        tree: arrays float[examples, ...], in any structure.
        count: the number of folds, from 2 to the number of examples.
        key: shuffles first; None keeps the order.
        stratify: labels [examples]; each fold has (to one example) the same share of each class.
        groups: labels [examples], such as patients; all examples of a group are tested in the same fold.

    Raises:
        ArgumentError: fewer than 2 folds, more than examples or groups, or both ``stratify`` and ``groups``.

    >>> import afx
    >>> [test.tolist() for _, test in afx.data.folds(afx.arange(5), 2)]
    [[0, 2, 4], [1, 3]]
    """
    rows = read_rows(tree, "folds")
    count = whole_number("count", count, "folds")
    if not 2 <= count <= rows.length:
        raise ArgumentError(f"folds: from 2 folds to one an example: got {count} for {rows.length} examples")
    fold_of = np.empty(rows.length, np.int64)
    if groups is None:
        order = np.concatenate(_groups(rows, key, stratify, "folds"))
        fold_of[order] = np.arange(rows.length) % count
    else:
        for k, part in enumerate(_whole_groups(rows, [1.0] * count, key, stratify, groups, "folds")):
            fold_of[part] = k
    return [(rows.part(np.flatnonzero(fold_of != k)), rows.part(np.flatnonzero(fold_of == k))) for k in range(count)]


def time_folds(
    tree: T, count: int, *, test_size: int | None = None, gap: int = 0, max_train_size: int | None = None
) -> list[tuple[T, T]]:
    """Return pairs of a training and a test part of a time series: each test part lies behind its training part.

    Test parts are the last ones of the series, one behind the other; a training part is all that lies before its test part.

    Args:
        tree: arrays float[times, ...] in the order of time, in any structure.
        count: the number of folds, at least 1.
        test_size: the length of each test part; None for a (count + 1)-th of the series.
        gap: how many examples are left out between training and test, where neighbours depend on each other.
        max_train_size: the length of a training part at most, its last examples; None for all.

    Raises:
        ArgumentError: numbers below these, or a series too short for them.

    >>> import afx
    >>> [(train.tolist(), test.tolist()) for train, test in afx.data.time_folds(afx.arange(6), 2)]
    [([0, 1], [2, 3]), ([0, 1, 2, 3], [4, 5])]
    """
    rows = read_rows(tree, "time_folds")
    size = rows.length // (count + 1) if test_size is None and count > 0 else test_size
    if count < 1 or size is None or size < 1 or gap < 0 or (max_train_size is not None and max_train_size < 1):
        raise ArgumentError(
            f"time_folds: at least one fold, of at least one example to train and to test: got count={count}, "
            f"test_size={test_size}, gap={gap}, max_train_size={max_train_size} for {rows.length} examples"
        )
    starts = [rows.length - (count - k) * size for k in range(count)]
    if starts[0] - gap < 1:
        raise ArgumentError(
            f"time_folds: the series is too short: got {rows.length} examples for {count} tests of {size} behind a gap of "
            f"{gap}; take fewer or shorter ones"
        )
    folds: list[tuple[T, T]] = []
    for start in starts:
        first = 0 if max_train_size is None else max(0, start - gap - max_train_size)
        folds.append((rows.part(np.arange(first, start - gap)), rows.part(np.arange(start, start + size))))
    return folds


def _whole_groups(
    rows: Rows | Shards,
    weights: Sequence[float],
    key: Array | None,
    stratify: ArrayLike | None,
    groups: ArrayLike,
    who: str,
) -> list[Any]:
    """Return parts that hold whole groups: the largest group first, each to the part that lacks most of its share."""
    if stratify is not None:
        raise ArgumentError(
            f"{who}: either stratify or groups: got both; split by groups, and weigh classes in the loss"
        )
    _, group_of, sizes = np.unique(_labels(rows, groups, who, "group"), return_inverse=True, return_counts=True)
    if len(sizes) < len(weights):
        raise ArgumentError(f"{who}: at least one group a part: got {len(sizes)} groups for {len(weights)} parts")
    order = np.arange(len(sizes)) if key is None else np.asarray(permutation(key, len(sizes)))
    lacking = np.asarray(weights) / math.fsum(weights) * rows.length
    part_of = np.empty(len(sizes), np.int64)
    for group in order[np.argsort(-sizes[order], kind="stable")]:
        part_of[group] = int(np.argmax(lacking))
        lacking[part_of[group]] -= sizes[group]
    part_of_row = part_of[group_of]
    shuffled = np.arange(rows.length) if key is None else np.asarray(permutation(fold_in(key, 1), rows.length))
    return [shuffled[part_of_row[shuffled] == k] for k in range(len(weights))]


def _groups(rows: Rows | Shards, key: Array | None, stratify: ArrayLike | None, who: str) -> list[Any]:
    """Return the rows of each class, shuffled."""
    order = np.arange(rows.length) if key is None else np.asarray(permutation(key, rows.length))
    if stratify is None:
        return [order]
    labels = _labels(rows, stratify, who, "label")
    sorted_labels = labels[order]
    return [order[sorted_labels == label] for label in np.unique(labels)]


def _labels(rows: Rows | Shards, given: ArrayLike, who: str, what: str) -> Any:
    labels = np.asarray(given)
    if labels.shape != (rows.length,):
        raise ShapeError(
            f"{who}: one {what} an example: got {list(labels.shape)} for {rows.length} examples; align them"
        )
    return labels


def divide_proportionally(total: int, weights: Sequence[float]) -> tuple[int, ...]:
    """Return whole numbers in proportion to weights that add up to a total (Hamilton's method of largest remainders)."""
    whole = math.fsum(weights)
    exact = [total * weight / whole for weight in weights]
    sizes = [math.floor(x) for x in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda k: sizes[k] - exact[k])
    for k in by_remainder[: total - sum(sizes)]:
        sizes[k] += 1
    return tuple(sizes)


def _order(groups: Sequence[Any], key: Array | None, stratify: ArrayLike | None) -> Any:
    """Return the rows of a part: in the order of the data, or mixed among the classes."""
    index = np.concatenate(groups)
    if stratify is None:
        return index
    return np.sort(index) if key is None else index[np.asarray(permutation(key, len(index)))]
