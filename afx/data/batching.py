"""Batching: minibatches of a tree of arrays, each a pure function of key and step number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, Literal, TypeAlias, TypeVar, overload

import numpy as np

from afx.core.array.array import Array, ArrayLike, wrap
from afx.data._examples import Rows, read_rows
from afx.data.sharding import Shards
from afx.errors import ArgumentError, ShapeError
from afx.ops.random.bits import check_key
from afx.random import fold_in, permutation, uniform
from afx.transforms._arguments import whole_number

__all__ = ["Batches", "batches", "padded_batches"]

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

    def take(order: Order) -> tuple[Any, Array]:
        return rows.take(np.abs(order) - 1), wrap(order > 0)

    count = -(-rows.length // size)
    return Batches(rows.length, size, count, _pad_orders(_orders(rows.length, key), rows, count * size), take)


def _pad_orders(draw: Callable[[int], Order], rows: Rows | Shards, length: int) -> Callable[[int], Order]:
    """Return orders of this length: numbers of rows from 1, negative where they fill up."""

    def draw_padded(epoch: int) -> Order:
        order = draw(epoch) + 1
        return np.concatenate([order, -np.resize(order, length - rows.length)])

    return draw_padded


def _orders(length: int, key: Array | None) -> Callable[[int], Order]:
    """Return the order of the examples as a function of the epoch."""
    if key is None:
        return lambda _: np.arange(length)
    check_key(key, "batches")
    return lambda epoch: np.asarray(permutation(fold_in(key, epoch), length))


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

    def draw(epoch: int) -> Order:
        words = np.asarray(uniform(fold_in(key, epoch), length, dtype=np.float64))
        return np.minimum(np.searchsorted(bounds, words, side="right"), final)

    return draw
