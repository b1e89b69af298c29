"""Regions: equations on large arrays that run together, block by block, so that values stay in the cache.

Blocks are of elements, where all values of a region have one shape, or of rows: everything that works on each row, or
on each example, apart from the others, such as a sum along the last axis, can then run in them too.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeAlias

from afx.compiler.lowering import by_function, by_reduction, by_ufunc
from afx.core.aval import Aval, Shape
from afx.core.graph import Equation, Graph, Var
from afx.runtime.blas import blas

__all__ = ["Domain", "Key", "Node", "domain", "in_rows", "nodes_of"]

SMALLEST = 1 << 15  # elements from which on blocks pay
FEWEST = 8  # rows from which on blocks are of rows
WIDEST = 1 << 16  # elements of a row up to which they are

Key: TypeAlias = "tuple[str, Shape]"  # ("elements", the shape) or ("rows", (their number,))


class Domain(NamedTuple):
    """Over what an equation could run in blocks.

    Attributes:
        key: equations of one key can run together.
        taken: for each operand, whether a block reads its own part of it (and not all of it).
        whole: whether the output is only there when all blocks are done, as a sum over the rows is.
        follows: whether it is small, and runs in blocks only beside the equation that makes an operand.
    """

    key: Key
    taken: tuple[bool, ...]
    whole: bool
    follows: bool


class Node:
    """What runs at once: one equation, or the equations of a region in order.

    Attributes:
        equations: the equations.
        key: of a region, None for a single equation.
        inputs: variables from elsewhere, each once.
        taken: those of them of which a block reads its own part.
        whole: those of them that each block reads as a whole.
        outputs: variables that others read.
        reshaped: reshapes by the value they make: those whose operand is computed in the memory of their result.
    """

    __slots__ = ("equations", "inputs", "key", "outputs", "reshaped", "taken", "whole")

    def __init__(self, equations: list[Equation], key: Key | None, outputs: list[Var]) -> None:
        self.equations = equations
        self.key = key
        self.outputs = outputs
        own = {v.index for eq in equations for v in eq.outputs}
        reads = {a.index: a for eq in equations for a in eq.inputs if isinstance(a, Var) and a.index not in own}
        self.inputs = list(reads.values())
        parts = dict[int, Var]()
        wholes = dict[int, Var]()
        for eq in equations if key is not None else ():
            found = domain(eq)
            assert found is not None
            for atom, part in zip(eq.inputs, found.taken, strict=True):
                if isinstance(atom, Var) and atom.index in reads:
                    (parts if part else wholes)[atom.index] = atom
        self.taken, self.whole = list(parts.values()), list(wholes.values())
        self.reshaped = dict[int, Equation]()
        given = {v.index for v in outputs}
        for eq in reversed(equations) if key is not None else ():
            source = eq.inputs[0]
            if not isinstance(source, Var) or source.index not in own or source.index in given:
                continue
            if eq.primitive.lowering.may_alias and eq.outputs[0].index in given:
                given.add(source.index)
                self.reshaped[eq.outputs[0].index] = eq

    def first_write(self, out: Var) -> int:
        """Return the equation of a region with which its writing to the memory of an output begins."""
        index = out.index
        while (eq := self.reshaped.get(index)) is not None and isinstance(eq.inputs[0], Var):
            index = eq.inputs[0].index
        return next(k for k, eq in enumerate(self.equations) for v in eq.outputs if v.index == index)


def nodes_of(graph: Graph) -> list[Node]:
    """Return the nodes of a graph in an order in which they can run."""
    domains = [domain(eq) for eq in graph.equations]
    if all(d is None or d.follows for d in domains):
        return [Node([eq], None, list(eq.outputs)) for eq in graph.equations]
    clusters = _Clusters()
    for k, (eq, found) in enumerate(zip(graph.equations, domains, strict=True)):
        if found is None or not clusters.join(k, eq, found):
            clusters.single(k, eq)
    groups = [part for c in clusters.groups for part in (_connected(c, graph) if len(c) > 1 else [c])]
    return _ordered(graph, groups)


def domain(eq: Equation) -> Domain | None:
    """Return over what an equation could run in blocks, None where it could not."""
    p = eq.primitive
    if p.multiple_results or not eq.inputs:
        return None
    if (p.is_elementwise or p.algebra.canonical == "cast") and (by_ufunc(eq) or by_function(eq)):
        return _elementwise(eq, eq.outputs[0].aval)
    if p.lowering.batch_operands and by_function(eq):
        return _in_examples(eq)
    x = eq.inputs[0].aval
    if by_reduction(eq) or (p.lowering.slicewise_over_axis and by_function(eq) and 0 not in eq.keywords["axis"]):
        return _along(x, eq.keywords["axis"], eq.outputs[0].aval)
    if p.algebra.canonical == "reshape" and x.shape[:1] == eq.outputs[0].aval.shape[:1] and x.size:
        return Domain(("rows", x.shape[:1]), (True,), False, True)
    return None


def _in_examples(eq: Equation) -> Domain | None:
    """Return the domain of an op that works on each row of some operands: a convolution, pooling."""
    p = eq.primitive
    values = [eq.inputs[k].aval for k in p.lowering.batch_operands]
    length = values[0].shape[:1]
    if not all(in_rows(x) and x.shape[:1] == length for x in values) or 0 in eq.keywords.get("axis", ()):
        return None
    if max(x.size for x in (*values, eq.outputs[0].aval)) < SMALLEST or (p.kind == "bilinear" and not blas.choosing()):
        return None
    return Domain(
        ("rows", length),
        tuple([k in p.lowering.batch_operands for k in range(len(eq.inputs))]),
        p.lowering.sums_over_batch,
        False,
    )


def in_rows(x: Aval) -> bool:
    """Tell whether blocks of a value would be of its rows."""
    return len(x.shape) > 1 and x.shape[0] >= FEWEST and math.prod(x.shape[1:]) <= WIDEST


def _elementwise(eq: Equation, out: Aval) -> Domain | None:
    shapes = [a.aval.shape for a in eq.inputs]
    large = out.size >= SMALLEST
    if large and not in_rows(out):
        same = tuple([s == out.shape for s in shapes])
        plain = all(s in (out.shape, ()) for s in shapes)
        return Domain(("elements", out.shape), same, False, False) if plain else None
    rows = out.shape[:1]
    if not rows or rows[0] < FEWEST:
        return None
    return Domain(("rows", rows), tuple([len(s) == len(out.shape) and s[:1] == rows for s in shapes]), False, not large)


def _along(x: Aval, axis: Shape, out: Aval) -> Domain | None:
    """Return the domain of what works along axes: a reduction, or an op such as softmax."""
    large = x.size >= SMALLEST
    if in_rows(x) and (large or 0 not in axis):
        return Domain(("rows", x.shape[:1]), (True,), 0 in axis, not large)
    return Domain(("elements", x.shape), (True,), True, False) if large and out.shape == () else None


class _Clusters:
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

    def join(self, k: int, eq: Equation, found: Domain) -> bool:
        """Enter an equation into the open group of its key, or a new one; tell whether it was entered."""
        c = self._open.get(found.key, -1)
        inside, operands = False, list[int]()
        for atom, taken in zip(eq.inputs, found.taken, strict=True):
            if isinstance(atom, Var):
                if c >= 0 and taken and self._member.get(atom.index) == c:
                    inside = True
                else:
                    operands.append(atom.index)
        outside = self._open_before(operands)
        apart = c < 0 or c in outside
        if found.follows and (apart or not inside):
            return False
        if apart:
            outside = self._open_before([a.index for a in eq.inputs if isinstance(a, Var)])
            c = self._opened(found.key)
        self.groups[c].append(k)
        self._upstream[c] = self._upstream[c] | outside
        out = eq.outputs[0]
        self._depends[out.index] = frozenset((c,))
        if not found.whole:
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
        of_first = domain(equations[0]) if len(equations) > 1 else None
        key = None if of_first is None else of_first.key
        outputs = [v for eq in equations for v in eq.outputs if key is None or v.index in read_elsewhere]
        found.append(Node(equations, key, outputs))
        for h in unlocks[g]:
            waits[h].discard(g)
            if not waits[h]:
                heapq.heappush(ready, (groups[h][0], h))
    assert len(found) == len(groups)
    return found
