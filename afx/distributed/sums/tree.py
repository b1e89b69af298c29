"""Tree: the binary tree over slots whose order of additions fixes the bits of every sum.

The slots are halved again and again, at ``ceil(k · slots / 2^level)``. A node is the range of those slots of it that take
part, numbered from 0 on; a node of which only one half takes part is that half. So the tree depends on the Split alone,
and a contiguous block of slots consists of few whole nodes: of one where the ranks are a power of two.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs

__all__ = ["Branch", "Node", "Tree", "nodes_of_level", "tree_over"]

Node: TypeAlias = tuple[int, int]  # the first slot that takes part, and the one behind the last


@attrs.frozen
class Branch:
    """A sum of two nodes, the left one first."""

    parent: Node
    left: Node
    right: Node


@attrs.frozen(eq=False)
class Tree:
    """The sums of a tree.

    Attributes:
        count: how many slots take part.
        branches: by parent.
        above: by child, the branch that it belongs to.
    """

    count: int
    branches: dict[Node, Branch]
    above: dict[Node, Branch]

    @property
    def root(self) -> Node:
        """The sum over all slots."""
        return (0, self.count)

    def cover(self, start: int, stop: int, tops: Iterable[Node] = ()) -> list[Node]:
        """Return the largest nodes of which a range of slots consists, from left to right.

        Args:
            start: the number of its first slot among those that take part.
            stop: that behind its last.
            tops: nodes above which nothing is added.
        """
        left_to_others = self.ancestors(tops)
        found: list[Node] = []
        waiting = [self.root] if start < stop else []
        while waiting:
            node = waiting.pop()
            if node[1] <= start or stop <= node[0]:
                continue
            if start <= node[0] and node[1] <= stop and node not in left_to_others:
                found.append(node)
            else:
                branch = self.branches[node]
                waiting += [branch.right, branch.left]
        return found

    def ancestors(self, nodes: Iterable[Node]) -> set[Node]:
        """Return the nodes that have one of these below them."""
        found: set[Node] = set()
        for node in nodes:
            while (branch := self.above.get(node)) is not None and branch.parent not in found:
                node = branch.parent
                found.add(node)
        return found


@functools.lru_cache(maxsize=256)
def tree_over(slots: int, present: tuple[int, ...]) -> Tree:
    """Return the tree of a number of slots of which some take part.

    >>> sorted(tree_over(4, (0, 1, 3)).branches)
    [(0, 2), (0, 3)]
    """
    branches: dict[Node, Branch] = {}
    places = {slot: place for place, slot in enumerate(present)}

    def build(level: int, index: int) -> Node | None:
        members = _members(slots, level, index)
        found = [places[slot] for slot in members if slot in places]
        if len(found) < 2:
            return (found[0], found[0] + 1) if found else None
        left, right = build(level + 1, 2 * index), build(level + 1, 2 * index + 1)
        if left is None or right is None:
            return left or right
        parent = (left[0], right[1])
        branches[parent] = Branch(parent, left, right)
        return parent

    build(0, 0)
    above = {child: branch for branch in branches.values() for child in (branch.left, branch.right)}
    return Tree(len(present), branches, above)


def _members(slots: int, level: int, index: int) -> range:
    """Return the slots of a node."""
    return range(-(-index * slots // 2**level), -(-(index + 1) * slots // 2**level))


def nodes_of_level(slots: int, level: int) -> Sequence[Node]:
    """Return the nodes of a level, where all slots take part and none of them is empty."""
    return [(found.start, found.stop) for k in range(2**level) for found in [_members(slots, level, k)]]
