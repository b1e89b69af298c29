"""Regions: elementwise equations on large arrays that run together, block by block, so that values stay in the cache."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

from afx.core.aval import Shape
from afx.core.graph import Equation, Graph, Var
from afx.runtime.writing import by_reduction, by_ufunc

__all__ = ["Node", "nodes_of"]

SMALLEST = 1 << 15  # elements from which on blocks pay


class Node:
    """What runs at once: one equation, or the equations of a region in order.

    Attributes:
        equations: the equations.
        shape: the common shape of a region's values, None for a single equation.
        inputs: variables from elsewhere, each once.
        outputs: variables that others read.
    """

    __slots__ = ("equations", "inputs", "outputs", "shape")

    def __init__(self, equations: list[Equation], shape: Shape | None, outputs: list[Var]) -> None:
        self.equations = equations
        self.shape = shape
        self.outputs = outputs
        own = {v.index for eq in equations for v in eq.outputs}
        reads = {a.index: a for eq in equations for a in eq.inputs if isinstance(a, Var) and a.index not in own}
        self.inputs = list(reads.values())


def nodes_of(graph: Graph) -> list[Node]:
    """Return the nodes of a graph in an order in which they can run."""
    domains = [domain(eq) for eq in graph.equations]
    if not any(domains):
        return [Node([eq], None, list(eq.outputs)) for eq in graph.equations]
    clusters = _Clusters()
    for k, (eq, shape) in enumerate(zip(graph.equations, domains, strict=True)):
        clusters.single(k, eq) if shape is None else clusters.join(k, eq, shape)
    groups = [part for c in clusters.groups for part in (_connected(c, graph) if len(c) > 1 else [c])]
    return _ordered(graph, groups)


def domain(eq: Equation) -> Shape | None:
    """Return the shape over which an equation could run in blocks, None where it could not."""
    out = eq.outputs[0].aval
    if out.size >= SMALLEST and eq.primitive.elementwise and by_ufunc(eq):
        shape = out.shape
    elif by_reduction(eq) and out.shape == () and eq.inputs[0].aval.size >= SMALLEST:
        shape = eq.inputs[0].aval.shape
    else:
        return None
    return shape if all(a.aval.shape in (shape, ()) for a in eq.inputs) else None


class _Clusters:
    """Groups of equations of one shape, such that no path leaves a group and comes back to it."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self._upstream: list[int] = []  # of each group, the groups that it depends on, as bits
        self._current: dict[Shape, int] = {}
        self._member: dict[int, int] = {}  # of a large value, the group that makes it
        self._depends: dict[int, int] = {}  # of a value, the groups that it depends on, as bits

    def single(self, k: int, eq: Equation) -> None:
        """Enter an equation that runs alone."""
        mask = self._mask([a.index for a in eq.inputs if isinstance(a, Var)])
        if mask:
            for v in eq.outputs:
                self._depends[v.index] = mask
        self._open([k])

    def join(self, k: int, eq: Equation, shape: Shape) -> None:
        """Enter an equation of this shape: into the last group of the shape, or a new one."""
        operands = [a.index for a in eq.inputs if isinstance(a, Var)]
        c = self._current.get(shape, -1)
        outside = self._closure(self._mask([i for i in operands if c < 0 or self._member.get(i) != c]))
        if c < 0 or outside >> c & 1:
            c = self._current[shape] = self._open([])
            outside = self._mask(operands)
        self.groups[c].append(k)
        self._upstream[c] |= outside
        out = eq.outputs[0]
        self._depends[out.index] = 1 << c
        if out.aval.shape == shape:
            self._member[out.index] = c

    def _open(self, group: list[int]) -> int:
        self.groups.append(group)
        self._upstream.append(0)
        return len(self.groups) - 1

    def _mask(self, operands: list[int]) -> int:
        mask = 0
        for i in operands:
            mask |= self._depends.get(i, 0)
        return mask

    def _closure(self, mask: int) -> int:
        seen = 0
        while mask & ~seen:
            low = mask & ~seen
            bit = low & -low
            seen |= bit
            mask |= self._upstream[bit.bit_length() - 1]
        return seen


def _connected(group: list[int], graph: Graph) -> list[list[int]]:
    """Split a group into parts that share no large value."""
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


def _ordered(graph: Graph, groups: Sequence[list[int]]) -> list[Node]:
    """Return the groups as nodes, each after those that it depends on, otherwise in the graph's order."""
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
    found: list[Node] = []
    while ready:
        _, g = heapq.heappop(ready)
        equations = [graph.equations[k] for k in groups[g]]
        shape = domain(equations[0]) if len(equations) > 1 else None
        outputs = [v for eq in equations for v in eq.outputs if shape is None or v.index in read_elsewhere]
        found.append(Node(equations, shape, outputs))
        for h in unlocks[g]:
            waits[h].discard(g)
            if not waits[h]:
                heapq.heappush(ready, (groups[h][0], h))
    assert len(found) == len(groups)
    return found


def elements(shape: Shape) -> int:
    """Return the number of elements of a region's values."""
    return math.prod(shape)
