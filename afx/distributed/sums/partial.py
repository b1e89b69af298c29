"""Partial sums: what one process adds up of its own slots, in the order of the tree."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, cast

import numpy as np

from afx.core.dtypes import DType
from afx.distributed.sums.buffers import Layout, Memory, Ndarray
from afx.distributed.sums.tree import Node, Tree
from afx.errors import ArgumentError

__all__ = ["Partial", "add_up", "refuse_unequal", "weigh"]

BLOCK_BYTES: Final = 1 << 18  # a block, its weighted summand and the sum lie in a processor's second cache


class Partial:
    """The nodes of a tree that one process has added up so far.

    Attributes:
        held: their buffers.
        is_refused: whether integers differed, of which all ranks hear in the end.

    Args:
        tree: of the slots that take part.
        weights: by slot that takes part, in their order.
        memory: where sums are kept.
        tops: nodes above which nothing is added.
    """

    def __init__(self, tree: Tree, weights: Mapping[int, float], memory: Memory, tops: Sequence[Node] = ()) -> None:
        self._tree = tree
        self._weights = weights
        self._places = {slot: place for place, slot in enumerate(weights)}
        self._memory = memory
        self._ends = tree.ancestors(tops)  # left to others
        self.held: dict[Node, list[Ndarray]] = {}
        self.is_refused: bool = False

    def add(self, slot: int, layout: Layout, leaves: Sequence[Ndarray]) -> None:
        """Take in the leaves of the next slot, which are read alone, and add what belongs together."""
        place, weight = self._places[slot], self._weights[slot]
        node = (place, place + 1)
        before = self._before(node)
        buffers = layout.empty(self._memory) if before is None else before
        take = weigh if before is None else _add_weighted
        for into, leaf in zip(layout.views(buffers), leaves, strict=True):
            try:
                take(into, leaf.reshape(-1), weight)
            except ArgumentError:
                self.is_refused = True
        if before is not None:
            node = self._climb(node)
        self.held[node] = buffers
        while (before := self._before(node)) is not None:
            for total, part in zip(before, self.held.pop(node), strict=True):
                try:
                    add_up(total, total, part)
                except ArgumentError:
                    self.is_refused = True
            node = self._climb(node)
            self.held[node] = before

    def _before(self, node: Node) -> list[Ndarray] | None:
        """Return the sum of the left neighbour that this node is to be added to, if it is here."""
        branch = self._tree.above.get(node)
        if branch is None or node != branch.right or branch.parent in self._ends:
            return None
        return self.held.get(branch.left)

    def _climb(self, node: Node) -> Node:
        """Return the parent, which takes the place of the left neighbour."""
        branch = self._tree.above[node]
        del self.held[branch.left]
        return branch.parent


def weigh(out: Ndarray, part: Ndarray, weight: float) -> None:
    """Write a slot's weighted numbers; integers stay as they are."""
    dtype = out.dtype
    if dtype.kind == "f":
        np.multiply(part, _scale(dtype, weight), out)
    elif dtype.kind == "c":  # parts for themselves: inf times a weight's imaginary 0 is nan
        into, parts = cast("Any", out), cast("Any", part)
        weigh(into.real, parts.real, weight)
        weigh(into.imag, parts.imag, weight)
    else:
        out[...] = part


@functools.lru_cache(maxsize=1024)
def _scale(dtype: DType, weight: float) -> Ndarray:
    """Return a weight as an array without axes, which products take faster than a number."""
    return np.array(weight, dtype)


def _add_weighted(total: Ndarray, part: Ndarray, weight: float) -> None:
    """Add a slot's weighted numbers; integers are the same, or are refused."""
    if total.dtype.kind not in "fc":
        if not np.array_equal(total, part):
            refuse_unequal()
        return
    block = BLOCK_BYTES // total.itemsize
    scratch = np.empty(min(block, total.size), total.dtype)
    for start in range(0, total.size, block):
        into = total[start : start + block]
        weighted = scratch[: into.size]
        weigh(weighted, part[start : start + block], weight)
        np.add(into, weighted, into)


def add_up(out: Ndarray, left: Ndarray, right: Ndarray) -> None:
    """Write the sum of two nodes; integers are the same in both, or are refused."""
    if out.dtype.kind in "fc":
        np.add(left, right, out)
    elif not np.array_equal(left, right):
        refuse_unequal()
    elif out is not left:
        out[...] = left


def refuse_unequal() -> NoReturn:
    """Refuse integers that differ among slots.

    Raises:
        ArgumentError: always.
    """
    raise ArgumentError(
        "distributed: integers or keys that a function returned differ among the slots: got different values; return "
        "counts as floating means, which are averaged by the sizes of the slots"
    )
