"""Examples: trees of arrays whose first axis counts the examples, and rows taken from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from afx.core.array.array import Array, wrap
from afx.data.sharding import Shards
from afx.errors import ShapeError, TreeError
from afx.pytree import flatten_with_path, unflatten

__all__ = ["Rows", "count_examples", "read_rows", "take_rows"]

T = TypeVar("T")


class Rows:
    """The leaves of a tree as NumPy arrays, from which rows are taken."""

    def __init__(self, tree: Any, who: str) -> None:
        leaves, self._treedef = flatten_with_path(tree)
        self.length = _common_length(leaves, who)
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


def count_examples(tree: object, who: str = "data") -> int:
    """Return the number of examples: the length of the first axis, which all arrays share.

    Raises:
        TreeError: no arrays.
        ShapeError: arrays of other lengths, or 0-d ones.
    """
    return Rows(tree, who).length


def take_rows(tree: T, index: Any, who: str = "data") -> T:
    """Return the examples at these indices, as a tree of the same structure."""
    taken: T = Rows(tree, who).take(index)
    return taken


def read_rows(tree: object, who: str) -> Rows | Shards:
    """Return the rows of a tree, or of shards, of at least one example.

    Raises:
        ShapeError: no examples.
    """
    rows = tree if isinstance(tree, Shards) else Rows(tree, who)
    if rows.length == 0:
        raise ShapeError(f"{who}: no examples: got a first axis of length 0; give at least one")
    return rows
