"""Buffers: leaves of a tree as flat arrays, and the binary tree over slots whose order fixes the bits of sums."""

from __future__ import annotations

import functools
import itertools
import operator
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias, cast

import attrs
import numpy as np

from afx.core import Aval, DType, wrap
from afx.distributed.messages import name_traced
from afx.errors import ArgumentError, TracerError
from afx.pytree import flatten, paths, unflatten
from afx.runtime.buffer_cache import OutputPool

# --- Buffers: the leaves of a tree as one flat array a dtype, and back

Ndarray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

POOL_MIN_BYTES: Final = 1 << 16  # below it new memory costs no page
POOL_MAX_ARRAYS: Final = 16
ALIGNMENT_BYTES: Final = 64  # of a vector register: sums of three arrays that straddle lines take twice as long


class Memory:
    """Flat arrays that are used again as soon as nobody refers to them: new pages cost more than a message."""

    def __init__(self) -> None:
        self._pools: dict[int, OutputPool] = {}

    def take(self, size: int, dtype: DType) -> Ndarray:
        """Return an array whose elements are arbitrary."""
        nbytes = size * dtype.itemsize
        if nbytes < POOL_MIN_BYTES:
            return np.empty(size, dtype)
        pool = self._pools.get(nbytes)
        if pool is None:
            aval = Aval((nbytes + ALIGNMENT_BYTES,), np.dtype(np.uint8))
            pool = self._pools[nbytes] = OutputPool(aval, POOL_MAX_ARRAYS)
        block = pool()
        start = -block.ctypes.data % ALIGNMENT_BYTES
        return block[start : start + nbytes].view(dtype)

    def take_bytes(self, nbytes: int) -> Ndarray:
        """Return an array of bytes, which are arbitrary."""
        return self.take(nbytes, np.dtype(np.uint8))


class Packing:
    """Where each leaf of a tree stands in the flat buffers of its dtype."""

    __slots__ = ("_kinds", "_leaves", "_treedef", "dtypes", "lengths", "nbytes", "number", "text")

    def __init__(self, treedef: Any, avals: Sequence[tuple[tuple[int, ...], DType]]) -> None:
        self._treedef = treedef
        self._leaves: list[tuple[tuple[int, ...], int, slice]] = []
        self.dtypes: list[DType] = list(dict.fromkeys(dtype for _, dtype in avals))
        self.lengths: list[int] = [0] * len(self.dtypes)
        for shape, dtype in avals:
            kind = self.dtypes.index(dtype)
            start = self.lengths[kind]
            self.lengths[kind] = start + int(np.prod(shape, dtype=np.int64))
            self._leaves.append((shape, kind, slice(start, self.lengths[kind])))
        self._kinds: list[tuple[int, DType]] = list(zip(self.lengths, self.dtypes, strict=True))
        self.nbytes: int = sum(size * dtype.itemsize for size, dtype in self._kinds)
        if any(dtype.hasobject for dtype in self.dtypes):
            raise ArgumentError("distributed: an array of objects: got no numbers; return numbers and arrays of them")
        self.text: str = ", ".join(
            f"{path}{dtype}{list(shape)}" for path, (shape, dtype) in zip(paths(treedef), avals, strict=True)
        )
        self.number: int = zlib.crc32(self.text.encode())  # by which ranks tell sums of other trees

    def __repr__(self) -> str:
        kinds = [f"{self.dtypes[kind]}{list(shape)}" for shape, kind, _ in self._leaves]
        return f"{self._treedef!r} of {', '.join(kinds)}"

    def check_like(self, before: Packing | None) -> Packing:
        """Return the layout, or refuse that of a slot whose tree cannot be averaged with those before it.

        Raises:
            ArgumentError: the layouts differ.
        """
        if before is not None and before is not self:
            raise ArgumentError(
                f"average: slots whose trees differ: got {self} after {before}; return the same structure, shapes and dtypes"
            )
        return self

    def empty(self, memory: Memory) -> list[Ndarray]:
        """Return buffers whose elements are arbitrary."""
        return list(itertools.starmap(memory.take, self._kinds))

    def empty_small(self) -> list[Ndarray]:
        """Return such buffers as new memory, which is the fastest where they are small."""
        return list(itertools.starmap(np.empty, self._kinds))

    def places(self) -> list[tuple[int, slice]]:
        """Return the dtype's number and the part of its buffer for each leaf."""
        return [(kind, part) for _, kind, part in self._leaves]

    def views(self, buffers: Sequence[Ndarray]) -> list[Ndarray]:
        """Return the flat part of each leaf in the buffers."""
        return [buffers[kind][part] for _, kind, part in self._leaves]

    def cut(self, leaves: Sequence[Ndarray], spans: Sequence[slice]) -> list[Ndarray]:
        """Return one part of each buffer, without the rest of it: the leaves' own memory where it is in one piece.

        Args:
            leaves: the leaves of the tree.
            spans: by dtype, the part of the buffer.
        """
        pieces: list[list[Ndarray]] = [[] for _ in spans]
        for leaf, (_, kind, at) in zip(leaves, self._leaves, strict=True):
            start, stop = max(at.start, spans[kind].start), min(at.stop, spans[kind].stop)
            if start < stop:
                pieces[kind].append(leaf.reshape(-1)[start - at.start : stop - at.start])
        return [_join(parts, dtype) for parts, dtype in zip(pieces, self.dtypes, strict=True)]

    def unpack(self, buffers: Sequence[Ndarray]) -> Any:
        """Return the tree whose leaves are parts of the buffers."""
        if len(self._leaves) == 1:  # in few calls, as of a number that is averaged
            ((shape, kind, _),) = self._leaves
            return unflatten(self._treedef, [wrap(buffers[kind].reshape(shape))])
        leaves = [wrap(buffers[kind][part].reshape(shape)) for shape, kind, part in self._leaves]
        return unflatten(self._treedef, leaves)


def _join(parts: Sequence[Ndarray], dtype: DType) -> Ndarray:
    """Return flat arrays as one: as a view where they are neighbours in one memory, as after `Packing.unpack`."""
    if len(parts) == 1:
        return parts[0]
    owners = [_owner(part) for part in parts]
    whole_parts = all(part.flags.c_contiguous for part in parts)  # not every second element
    if parts and whole_parts and all(owner is owners[0] and owner.flags.c_contiguous for owner in owners):
        begins = [part.ctypes.data - owners[0].ctypes.data for part in parts]
        ends = [begin + part.nbytes for begin, part in zip(begins, parts, strict=True)]
        if begins[1:] == ends[:-1]:
            return owners[0].reshape(-1).view(np.uint8)[begins[0] : ends[-1]].view(dtype)
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _owner(array: Ndarray) -> Ndarray:
    """Return the array to whose memory a view belongs."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


_kind_of: Final = operator.attrgetter("shape", "dtype")
_layout = functools.lru_cache(maxsize=64)(Packing)  # by structure, shapes and dtypes


def flatten_tree(tree: Any) -> tuple[Packing, list[Ndarray]]:
    """Return the layout of a tree and its leaves as NumPy arrays.

    Raises:
        ArgumentError: an array of objects.
        TracerError: a traced array.
    """
    leaves, treedef = flatten(tree)
    try:
        arrays: list[Ndarray] = list(map(np.asarray, leaves))
    except TracerError as error:
        raise name_traced("distributed", leaves, error) from None
    return _layout(treedef, tuple(map(_kind_of, arrays))), arrays


# --- Tree: the binary tree over slots whose order of additions fixes the bits of every sum
#
# The slots are halved again and again, at ``ceil(k · slots / 2^level)``. A node is the range of those slots of it
# that take part, numbered from 0 on; a node of which only one half takes part is that half. So the tree depends on
# the Split alone, and a contiguous block of slots consists of few whole nodes: of one where the ranks are a power of
# two.

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
        nodes: list[Node] = []
        waiting = [self.root] if start < stop else []
        while waiting:
            node = waiting.pop()
            if node[1] <= start or stop <= node[0]:
                continue
            if start <= node[0] and node[1] <= stop and node not in left_to_others:
                nodes.append(node)
            else:
                branch = self.branches[node]
                waiting += [branch.right, branch.left]
        return nodes

    def ancestors(self, nodes: Iterable[Node]) -> set[Node]:
        """Return the nodes that have one of these below them."""
        above: set[Node] = set()
        for node in nodes:
            while (branch := self.above.get(node)) is not None and branch.parent not in above:
                node = branch.parent
                above.add(node)
        return above


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
        present = [places[slot] for slot in members if slot in places]
        if len(present) < 2:
            return (present[0], present[0] + 1) if present else None
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
    return [(members.start, members.stop) for k in range(2**level) for members in [_members(slots, level, k)]]


# --- Partial sums: what one process adds up of its own slots, in the order of the tree

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
        # for sums of later slots, which goes with this object: a copy for each level of the tree
        self._between = Memory()
        self._ends = tree.ancestors(tops)  # left to others
        self.sums: dict[Node, list[Ndarray]] = {}
        self.is_refused: bool = False

    def add(self, slot: int, layout: Packing, leaves: Sequence[Ndarray]) -> None:
        """Take in the leaves of the next slot, which are read alone, and add what belongs together."""
        place, weight = self._places[slot], self._weights[slot]
        node = (place, place + 1)
        before = self._before(node)
        memory = self._between if self.sums else self._memory
        buffers = layout.empty(memory) if before is None else before
        take = weigh if before is None else _add_weighted
        for into, leaf in zip(layout.views(buffers), leaves, strict=True):
            try:
                take(into, leaf.reshape(-1), weight)
            except ArgumentError:
                self.is_refused = True
        if before is not None:
            node = self._climb(node)
        self.sums[node] = buffers
        while (before := self._before(node)) is not None:
            for total, part in zip(before, self.sums.pop(node), strict=True):
                try:
                    add_up(total, total, part)
                except ArgumentError:
                    self.is_refused = True
            node = self._climb(node)
            self.sums[node] = before

    def _before(self, node: Node) -> list[Ndarray] | None:
        """Return the sum of the left neighbour that this node is to be added to, if it is here."""
        branch = self._tree.above.get(node)
        if branch is None or node != branch.right or branch.parent in self._ends:
            return None
        return self.sums.get(branch.left)

    def _climb(self, node: Node) -> Node:
        """Return the parent, which takes the place of the left neighbour."""
        branch = self._tree.above[node]
        del self.sums[branch.left]
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
