"""Fusion: equations on large arrays that run together, block by block, so that values stay in the cache.

Blocks are of elements, where all values of a group have one shape, or of rows. Blocks of rows also run ops that work on
each row, or each example, by itself, such as a sum along the last axis.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeAlias

import attrs

from afx.compiler.lowering_rules import by_function, by_reduction, by_ufunc
from afx.compiler.target import Target
from afx.core.aval import Aval, Shape
from afx.core.graph import Equation, Graph, Var

__all__ = ["Group", "Groups", "IterationSpace", "Key", "fuse", "iteration_space"]

Key: TypeAlias = "tuple[str, Shape]"  # ("elements", the shape) or ("rows", (their number,))


class IterationSpace(NamedTuple):
    """Over what an equation could run in blocks.

    Attributes:
        key: equations of one key can run together.
        sliced: for each operand, whether a block reads its own part of it (and not all of it).
        is_reduction: whether the output is only there when all blocks are done, as a sum over the rows is.
        fuse_only_with_producer: whether it is small, and runs in blocks only beside the equation that makes an operand.
    """

    key: Key
    sliced: tuple[bool, ...]
    is_reduction: bool
    fuse_only_with_producer: bool


class Group:
    """Equations that run at once: a single one, or those of a fused loop in order.

    Attributes:
        numbers: of the equations, in the graph.
        equations: the equations.
        spaces: of each equation of a fused loop, its iteration space; empty for a single one.
        key: of a fused loop, None for a single equation.
        inputs: variables from elsewhere, each once.
        sliced: those of them of which a block reads its own part.
        whole: those of them that each block reads as a whole.
        outputs: variables that others read.
        reshaped: reshapes by the value they make: those whose operand is computed in the memory of their result.
    """

    __slots__ = ("equations", "inputs", "key", "numbers", "outputs", "reshaped", "sliced", "spaces", "whole")

    def __init__(
        self, numbers: Sequence[int], graph: Graph, spaces: Sequence[IterationSpace], outputs: Sequence[Var]
    ) -> None:
        self.numbers: tuple[int, ...] = tuple(numbers)
        self.sliced: Sequence[Var]
        self.whole: Sequence[Var]
        self.reshaped: Mapping[int, Equation]
        self.inputs: list[Var]
        equations = [graph.equations[numbers[0]]] if len(numbers) == 1 else [graph.equations[k] for k in numbers]
        self.equations: list[Equation] = equations
        self.spaces: Sequence[IterationSpace] = spaces
        self.key: Key | None = spaces[0].key if spaces else None
        self.outputs: Sequence[Var] = outputs
        if len(equations) == 1 and not spaces:
            read: dict[int, Var] = {}
            for a in equations[0].inputs:
                if isinstance(a, Var):
                    read[a.index] = a
            self.inputs = list(read.values())
            self.sliced, self.whole, self.reshaped = (), (), {}
            return
        own = {v.index for eq in equations for v in eq.outputs}
        reads = {a.index: a for eq in equations for a in eq.inputs if isinstance(a, Var) and a.index not in own}
        self.inputs = list(reads.values())
        parts, wholes = dict[int, Var](), dict[int, Var]()
        for eq, space in zip(equations, spaces, strict=False):
            for atom, part in zip(eq.inputs, space.sliced, strict=True):
                if isinstance(atom, Var) and atom.index in reads:
                    (parts if part else wholes)[atom.index] = atom
        self.sliced, self.whole = list(parts.values()), list(wholes.values())
        self.reshaped = _reshaped(equations, own, {v.index for v in outputs})

    def first_write(self, out: Var) -> int:
        """Return the index of the first equation that writes into the buffer of ``out``."""
        index = out.index
        while (eq := self.reshaped.get(index)) is not None and isinstance(eq.inputs[0], Var):
            index = eq.inputs[0].index
        return next(k for k, eq in enumerate(self.equations) for v in eq.outputs if v.index == index)

    def __str__(self) -> str:
        if self.key is None:
            return str(self.equations[0])
        head = f"fused over {self.key[1]} {self.key[0]} -> {', '.join(map(str, self.outputs))}:"
        return "\n".join([head, *[f"  {eq}" for eq in self.equations]])


def _reshaped(equations: Sequence[Equation], own: set[int], given: set[int]) -> dict[int, Equation]:
    """Return the reshapes into outputs whose operands nothing else needs in memory of their own."""
    found: dict[int, Equation] = {}
    for eq in reversed(equations):
        source = eq.inputs[0]
        if not isinstance(source, Var) or source.index not in own or source.index in given:
            continue
        if eq.primitive.lowering.may_alias and eq.outputs[0].index in given:
            given.add(source.index)
            found[eq.outputs[0].index] = eq
    return found


@attrs.frozen
class Groups:
    """A graph whose equations are grouped, in an order in which the groups can run."""

    graph: Graph
    groups: tuple[Group, ...]

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def __str__(self) -> str:
        return "\n".join(map(str, self.groups))


def fuse(graph: Graph, target: Target) -> Groups:
    """Group the equations of a graph that run over one space, block by block.

    >>> import afx
    >>> from afx.compiler.target import Target
    >>> graph = afx.trace(lambda x: afx.sin(x) * 2.0)(afx.ones(40000))
    >>> len(fuse(graph, Target())), len(fuse(graph, Target(fuse_min_elements=1 << 20)))
    (1, 2)
    """
    spaces = [iteration_space(eq, target) for eq in graph.equations]
    if all([s is None or s.fuse_only_with_producer for s in spaces]):  # noqa: C419  # a list is quicker
        return Groups(graph, tuple([Group((k,), graph, (), eq.outputs) for k, eq in enumerate(graph.equations)]))
    clusters = _FusionGroups()
    for k, (eq, space) in enumerate(zip(graph.equations, spaces, strict=True)):
        if space is None or not clusters.join(k, eq, space):
            clusters.single(k, eq)
    numbers = [part for c in clusters.groups for part in (_connected(c, graph) if len(c) > 1 else [c])]
    return Groups(graph, tuple(_ordered(graph, numbers, spaces)))


def iteration_space(eq: Equation, target: Target) -> IterationSpace | None:
    """Return over what an equation could run in blocks, None where it could not."""
    p = eq.primitive
    if p.multiple_results or not eq.inputs:
        return None
    x, out = eq.inputs[0].aval, eq.outputs[0].aval
    if x.size < target.fuse_min_rows and out.size < target.fuse_min_rows:
        return None  # nothing of it could be cut
    if (p.is_elementwise or p.algebra.canonical == "cast") and (by_ufunc(eq) or by_function(eq)):
        return _elementwise(eq, out, target)
    if p.lowering.batch_operands and by_function(eq):
        return _in_examples(eq, target)
    if by_reduction(eq) or (p.lowering.slicewise_over_axis and by_function(eq) and 0 not in eq.keywords["axis"]):
        return _along(x, eq.keywords["axis"], out, target)
    if p.algebra.canonical == "reshape" and x.shape[:1] == out.shape[:1] and x.size:
        return IterationSpace(("rows", x.shape[:1]), (True,), False, True)
    return None


def _in_examples(eq: Equation, target: Target) -> IterationSpace | None:
    """Return the space of an op that works on each row of some operands: a convolution, pooling."""
    p = eq.primitive
    rows = p.lowering.batch_operands
    values = [eq.inputs[k].aval for k in rows]
    length = values[0].shape[:1]
    if not all(_in_rows(x, target) and x.shape[:1] == length for x in values) or 0 in eq.keywords.get("axis", ()):
        return None
    if max(x.size for x in (*values, eq.outputs[0].aval)) < target.fuse_min_elements:
        return None
    if p.kind == "bilinear" and not target.pins_blas:  # BLAS's threads and ours would wait for each other
        return None
    sliced = tuple([k in rows for k in range(len(eq.inputs))])
    return IterationSpace(("rows", length), sliced, p.lowering.sums_over_batch, False)


def _in_rows(x: Aval, target: Target) -> bool:
    """Tell whether blocks of a value would be of its rows."""
    return target.cuts_rows(x.shape)


def _elementwise(eq: Equation, out: Aval, target: Target) -> IterationSpace | None:
    large = out.size >= target.fuse_min_elements
    if not large and (not out.shape or out.shape[0] < target.fuse_min_rows):
        return None
    shapes = [a.aval.shape for a in eq.inputs]
    if large and not _in_rows(out, target):
        same = tuple([s == out.shape for s in shapes])
        plain = all(s in (out.shape, ()) for s in shapes)
        return IterationSpace(("elements", out.shape), same, False, False) if plain else None
    rows = out.shape[:1]
    if not rows or rows[0] < target.fuse_min_rows:
        return None
    sliced = tuple([len(s) == len(out.shape) and s[:1] == rows for s in shapes])
    return IterationSpace(("rows", rows), sliced, False, not large)


def _along(x: Aval, axis: Shape, out: Aval, target: Target) -> IterationSpace | None:
    """Return the space of an op along axes: a reduction, or one such as softmax."""
    large = x.size >= target.fuse_min_elements
    if _in_rows(x, target) and (large or 0 not in axis):
        return IterationSpace(("rows", x.shape[:1]), (True,), 0 in axis, not large)
    if large and out.shape == ():
        return IterationSpace(("elements", x.shape), (True,), True, False)
    return None


class _FusionGroups:
    """Groups of equations of one key, such that no path leaves a group and comes back to it.

    Only the last group of each key is open: it may grow, so that what depends on it must be known. What depends on
    a closed one depends on the groups that were open when that one closed.
    """

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self._upstream: list[AbstractSet[int]] = []  # of each group, those it depends on that were open last
        self._open: dict[Key, int] = {}
        self._member: dict[int, int] = {}  # of a value made block by block, the group that makes it
        self._depends: dict[int, AbstractSet[int]] = {}  # of a value, the groups that it depends on

    def single(self, k: int, eq: Equation) -> None:
        """Enter an equation that runs alone."""
        found = self._open_before([a.index for a in eq.inputs if isinstance(a, Var)])
        if found:
            for v in eq.outputs:
                self._depends[v.index] = found
        self._new([k])

    def join(self, k: int, eq: Equation, found: IterationSpace) -> bool:
        """Enter an equation into the open group of its key, or a new one; tell whether it was entered."""
        c = self._open.get(found.key, -1)
        inside, operands = False, list[int]()
        for atom, part in zip(eq.inputs, found.sliced, strict=True):
            if isinstance(atom, Var):
                if c >= 0 and part and self._member.get(atom.index) == c:
                    inside = True
                else:
                    operands.append(atom.index)
        outside = self._open_before(operands)
        apart = c < 0 or c in outside
        if found.fuse_only_with_producer and (apart or not inside):
            return False
        if apart:
            outside = self._open_before([a.index for a in eq.inputs if isinstance(a, Var)])
            c = self._opened(found.key)
        self.groups[c].append(k)
        self._upstream[c] = self._upstream[c] | outside
        out = eq.outputs[0]
        self._depends[out.index] = frozenset((c,))
        if not found.is_reduction:
            self._member[out.index] = c
        return True

    def _opened(self, key: Key) -> int:
        """Open a group, which closes the one before of its key."""
        before = self._open.pop(key, None)
        if before is not None:
            self._upstream[before] = self._among_open(self._upstream[before])
        c = self._open[key] = self._new([])
        return c

    def _new(self, group: list[int]) -> int:
        self.groups.append(group)
        self._upstream.append(frozenset())
        return len(self.groups) - 1

    def _open_before(self, operands: Sequence[int]) -> AbstractSet[int]:
        """Return the open groups that values depend on."""
        return self._among_open({c for index in operands for c in self._depends.get(index, ())})

    def _among_open(self, groups: AbstractSet[int]) -> AbstractSet[int]:
        """Return the open ones among groups and those that they depend on."""
        now = set(self._open.values())
        seen, waiting = set(groups), list(groups)
        while waiting:
            for c in self._upstream[waiting.pop()] - seen:
                seen.add(c)
                waiting.append(c)
        return frozenset(seen & now)


def _connected(group: list[int], graph: Graph) -> list[list[int]]:
    """Split a group into parts that share nothing but single numbers."""
    parent = {k: k for k in group}

    def find(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    seen: dict[int, int] = {}
    for k in group:
        eq = graph.equations[k]
        for a in (*eq.inputs, *eq.outputs):
            if isinstance(a, Var) and a.aval.shape:
                other = seen.setdefault(a.index, k)
                parent[find(k)] = find(other)
    parts: dict[int, list[int]] = {}
    for k in group:
        parts.setdefault(find(k), []).append(k)
    return list(parts.values())


def _ordered(graph: Graph, groups: Sequence[list[int]], spaces: Sequence[IterationSpace | None]) -> list[Group]:
    """Return the groups, each after those that it depends on, otherwise in the graph's order."""
    owner: dict[int, int] = {}
    for g, group in enumerate(groups):
        for k in group:
            for v in graph.equations[k].outputs:
                owner[v.index] = g
    waits: list[set[int]] = [set() for _ in groups]
    unlocks: list[list[int]] = [[] for _ in groups]
    read_elsewhere = {a.index for a in graph.outputs if isinstance(a, Var)}
    for g, group in enumerate(groups):
        for k in group:
            for a in graph.equations[k].inputs:
                if isinstance(a, Var) and owner.get(a.index, g) != g:
                    read_elsewhere.add(a.index)
                    if owner[a.index] not in waits[g]:
                        waits[g].add(owner[a.index])
                        unlocks[owner[a.index]].append(g)
    ready = [(group[0], g) for g, group in enumerate(groups) if not waits[g]]
    heapq.heapify(ready)
    found: list[Group] = []
    while ready:
        _, g = heapq.heappop(ready)
        found.append(_group(graph, groups[g], spaces, read_elsewhere))
        for h in unlocks[g]:
            waits[h].discard(g)
            if not waits[h]:
                heapq.heappush(ready, (groups[h][0], h))
    assert len(found) == len(groups)
    return found


def _group(
    graph: Graph, numbers: Sequence[int], spaces: Sequence[IterationSpace | None], read_elsewhere: set[int]
) -> Group:
    if len(numbers) == 1:
        return Group(numbers, graph, (), graph.equations[numbers[0]].outputs)
    own = [space for k in numbers if (space := spaces[k]) is not None]
    outputs = [v for k in numbers for v in graph.equations[k].outputs if v.index in read_elsewhere]
    return Group(numbers, graph, own, outputs)
