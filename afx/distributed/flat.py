"""Flat: the trained leaves of a tree as one vector a dtype, of which each slot has a chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afx import pytree
from afx.core.array.array import Array, wrap
from afx.core.aval import aval_of
from afx.distributed.sums.buffers import Layout, Ndarray, flatten_tree
from afx.ops.creation.creation import asarray
from afx.pytree.compare import check_matching, check_structure

__all__ = ["Flat"]


class Flat:
    """The trained leaves of a tree as one flat vector a dtype, of which each slot has a chunk."""

    def __init__(self, tree: Any, slots: int, like: Flat | None = None) -> None:
        self._slots = slots
        self._tree_leaves, self._treedef = pytree.flatten(tree)
        self._trained: list[bool] = _find_trained(self._tree_leaves, self._treedef) if like is None else like._trained
        moving = [_own(x) for x, is_trained in zip(self._tree_leaves, self._trained, strict=True) if is_trained]
        self.layout: Layout
        self.leaves: list[Ndarray]
        self.layout, self.leaves = flatten_tree(moving)

    def like(self, tree: Any) -> Flat:
        """Return another tree of this structure, such as the gradient."""
        return Flat(tree, self._slots, self)

    def check_like(self, grads: Any) -> None:
        """Refuse a gradient whose chunks are not those of these parameters.

        Raises:
            TreeError: another structure.
            ShapeError: other shapes.
        """
        advice = "pass what a gradient with respect to these parameters gives"
        leaves, treedef = pytree.flatten(grads)
        check_structure(treedef, self._treedef, "ShardedOptimizer", "grads", advice)
        wanted = [aval_of(leaf) for leaf in self._tree_leaves]
        check_matching([aval_of(x) for x in leaves], wanted, treedef, "ShardedOptimizer", "grads", advice, dtypes="any")

    def chunk(self, slot: int) -> list[Ndarray]:
        """Return the part of each vector that a slot updates."""
        return self.layout.cut(self.leaves, [self._span(size, slot) for size in self.layout.lengths])

    def part(self, slot: int, chunk: Sequence[Ndarray]) -> Any:
        """Return the tree with a slot's part of each trained leaf, flat and perhaps empty, in place of it.

        Args:
            slot: whose part.
            chunk: its part of each vector.
        """
        parts: list[Any] = []
        for kind, at in self.layout.places():
            span = self._span(self.layout.lengths[kind], slot)
            start, stop = max(at.start, span.start), min(at.stop, span.stop)
            parts.append(wrap(chunk[kind][start - span.start : max(start, stop) - span.start]))
        moved = iter(parts)
        leaves = zip(self._tree_leaves, self._trained, strict=True)
        return pytree.unflatten(self._treedef, [next(moved) if is_trained else leaf for leaf, is_trained in leaves])

    def chunk_of(self, part: Any) -> tuple[Array, ...]:
        """Return the flat vectors of which a slot's parts of leaves consist."""
        leaves = [x for x, is_trained in zip(pytree.leaves(part), self._trained, strict=True) if is_trained]
        found: list[list[Ndarray]] = [[] for _ in self.layout.dtypes]
        for leaf, (kind, _) in zip(leaves, self.layout.places(), strict=True):
            found[kind].append(np.asarray(leaf))
        return tuple([wrap(np.concatenate(parts)) for parts in found])

    def cut(self, buffers: Sequence[Ndarray], slot: int, first: int = 0) -> list[Ndarray]:
        """Return a slot's part of buffers, which begin with that of another slot."""
        found: list[Ndarray] = []
        for buffer, size in zip(buffers, self.layout.lengths, strict=True):
            start, span = self._span(size, first).start, self._span(size, slot)
            part = slice(span.start - start, span.stop - start)
            found.append(buffer if part == slice(0, buffer.size) else buffer[part])
        return found

    def write(self, buffers: Sequence[Ndarray], slot: int, chunk: Sequence[Array]) -> None:
        """Copy a slot's numbers to their part of each buffer."""
        for into, part in zip(self.cut(buffers, slot), chunk, strict=True):
            np.copyto(into, np.asarray(part), casting="same_kind")

    def _span(self, size: int, slot: int) -> slice:
        return slice(size * slot // self._slots, size * (slot + 1) // self._slots)

    def replace(self, buffers: Sequence[Ndarray]) -> Any:
        """Return the tree with the vectors' numbers in place of its own."""
        moved = iter(self.layout.unpack(buffers))
        leaves = zip(self._tree_leaves, self._trained, strict=True)
        return pytree.unflatten(self._treedef, [next(moved) if is_trained else leaf for leaf, is_trained in leaves])


def _own(leaf: Any) -> Any:
    """Return a leaf whose memory nobody changes: states may keep parts of it."""
    return asarray(leaf) if isinstance(leaf, np.ndarray) else leaf  # pyright: ignore[reportUnknownArgumentType]  # of any dtype


def _find_trained(leaves: Sequence[Any], treedef: Any) -> list[bool]:
    """Return which leaves an optimizer moves."""
    marked = pytree.marked_leaves(treedef) or [False] * len(leaves)
    return [aval_of(leaf).dtype.kind in "fc" and not mark for leaf, mark in zip(leaves, marked, strict=True)]
