"""Splitting: disjoint parts of a data set, at random from a key, stratified by labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.data._examples import Rows, read_rows
from afx.errors import ArgumentError, ShapeError
from afx.random import permutation

__all__ = ["folds", "split"]

T = TypeVar("T")


def split(
    tree: T, shares: Sequence[float], *, key: Array | None = None, stratify: ArrayLike | None = None
) -> tuple[T, ...]:
    """Return disjoint parts of a data set, their sizes in proportion to shares.

    Sizes are rounded by largest remainder, so that every example is in exactly one part. With labels, each part has
    (to one example) the same share of each class.

    Args:
        tree: arrays float[examples, ...], in any structure.
        shares: positive numbers, such as ``(0.8, 0.2)`` or ``(3, 1, 1)``.
        key: shuffles first; None keeps the order.
        stratify: labels [examples]; each class is split by itself.

    Raises:
        ArgumentError: shares that are not positive.
        ShapeError: arrays of different lengths.

    >>> import afx
    >>> train, test = afx.data.split(afx.arange(10), (0.8, 0.2), key=afx.random.key(1))
    >>> len(train), len(test), sorted(train.tolist() + test.tolist()) == list(range(10))
    (8, 2, True)
    """
    rows = read_rows(tree, "split")
    weights = [float(share) for share in shares]
    if not weights or not all(0 < weight < math.inf for weight in weights):
        raise ArgumentError(f"split: shares are positive numbers: got {list(shares)}; such as (0.8, 0.2)")
    parts: list[list[Any]] = [[] for _ in weights]
    for group in _groups(rows, key, stratify, "split"):
        start = 0
        for part, size in zip(parts, _sizes(len(group), weights), strict=True):
            part.append(group[start : start + size])
            start += size
    return tuple([rows.take(_order(part, key, stratify)) for part in parts])


def folds(tree: T, count: int, *, key: Array | None = None, stratify: ArrayLike | None = None) -> list[tuple[T, T]]:
    """Return pairs of a training and a test part for cross-validation: each example is tested once.

    Args:
        tree: arrays float[examples, ...], in any structure.
        count: the number of folds, from 2 to the number of examples.
        key: shuffles first; None keeps the order.
        stratify: labels [examples]; each fold has (to one example) the same share of each class.

    Raises:
        ArgumentError: fewer than 2 folds, or more than examples.

    >>> import afx
    >>> [test.tolist() for _, test in afx.data.folds(afx.arange(5), 2)]
    [[0, 2, 4], [1, 3]]
    """
    rows = read_rows(tree, "folds")
    if not 2 <= count <= rows.length:
        raise ArgumentError(f"folds: from 2 folds to one an example: got {count} for {rows.length} examples")
    fold_of = np.empty(rows.length, np.int64)
    order = np.concatenate(_groups(rows, key, stratify, "folds"))
    fold_of[order] = np.arange(rows.length) % count
    return [(rows.take(np.flatnonzero(fold_of != k)), rows.take(np.flatnonzero(fold_of == k))) for k in range(count)]


def _groups(rows: Rows, key: Array | None, stratify: ArrayLike | None, who: str) -> list[Any]:
    """Return the rows of each class, shuffled."""
    order = np.arange(rows.length) if key is None else np.asarray(permutation(key, rows.length))
    if stratify is None:
        return [order]
    labels = np.asarray(stratify)
    if labels.shape != (rows.length,):
        raise ShapeError(
            f"{who}: one label an example: got {list(labels.shape)} for {rows.length} examples; align them"
        )
    mine = labels[order]
    return [order[mine == label] for label in np.unique(labels)]


def _sizes(length: int, weights: Sequence[float]) -> list[int]:
    """Return whole numbers in proportion to weights that add up to a length, by largest remainder."""
    total = math.fsum(weights)
    exact = [length * weight / total for weight in weights]
    sizes = [math.floor(x) for x in exact]
    by_remainder = sorted(range(len(sizes)), key=lambda k: sizes[k] - exact[k])
    for k in by_remainder[: length - sum(sizes)]:
        sizes[k] += 1
    return sizes


def _order(groups: Sequence[Any], key: Array | None, stratify: ArrayLike | None) -> Any:
    """Return the rows of a part: in the order of the data, or mixed among the classes."""
    index = np.concatenate(groups)
    if stratify is None:
        return index
    return np.sort(index) if key is None else index[np.asarray(permutation(key, len(index)))]
