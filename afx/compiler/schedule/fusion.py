"""Fusion: equations on large arrays that run together block by block, and which calls of NumPy compute an equation."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import attrs
import numpy as np

from afx.compiler.schedule.schedule import ErrorState
from afx.compiler.target import Target
from afx.core import Aval, DType, Shape
from afx.core.constants import SLOW_WITH_NUMBERS, reduce_in_transpose
from afx.core.graph import Equation, Graph, Var, indices_of
from afx.core.primitive import Printable

# --- Instruction selection: predicates on equations that tell which call of NumPy computes one best

QUIET = frozenset({np.negative, np.positive, np.absolute, np.sign})  # of real numbers
MOVES = frozenset({"select", "reshape", "permute", "broadcast"})
_dtype_of = attrgetter("aval.dtype")


def lowers_to_dot(eq: Equation) -> bool:
    """Tell whether a product of two matrices, or of a matrix and a vector, is one that ``ndarray.dot`` computes.

    A call of it takes a third of the time that one of ``np.matmul`` takes. Lengths of 1 are left out: for them it
    calls BLAS's axpy, where 0 times nan is 0.
    """
    if eq.primitive.lowering.ufunc is not np.matmul:
        return False
    x, y, out = eq.inputs[0].aval, eq.inputs[1].aval, eq.aval
    alike = x.dtype == y.dtype == out.dtype and out.dtype.char in "fdFD"
    return alike and x.ndim + y.ndim in (3, 4) and max(x.ndim, y.ndim) == 2 and min(*x.shape, *y.shape) > 1


def _sums_reals(eq: Equation) -> bool:
    return eq.primitive.lowering.reduce_ufunc is np.add and eq.inputs[0].aval.dtype.char in "fd"


def sums_rows(eq: Equation, target: Target) -> bool:
    """Tell whether an equation is the sum of each row of a matrix, better taken as a product with ones."""
    x = eq.inputs[0].aval
    return _sums_reals(eq) and x.ndim > 1 and eq.keywords["axis"] == (x.ndim - 1,) and target.sums_by_dot(x.shape[-1])


def sums_few(eq: Equation, target: Target) -> bool:
    """Tell whether an equation sums few elements: all of an array, or the rows or columns of a matrix.

    Most of the time goes into the call, of which a product with ones by ``ndarray.dot`` takes half, or less.
    """
    x = eq.inputs[0].aval
    if not _sums_reals(eq):
        return False
    if len(eq.keywords["axis"]) == x.ndim:
        return 1 < x.size <= target.dot_sum_max_length
    few = x.size <= target.dot_sum_max_elements and x.shape[-1] <= target.dot_sum_max_length
    return x.ndim == 2 and min(x.shape) > 1 and few


def reduces_in_transpose(eq: Equation, target: Target) -> bool:
    """Tell whether an extreme of each row is found faster along the columns of the transpose."""
    ufunc, shape = eq.primitive.lowering.reduce_ufunc, eq.inputs[0].aval.shape
    return reduce_in_transpose(ufunc, shape, eq.keywords["axis"], target.turn_min_rows, target.turn_max_columns)


def unrolls(eq: Equation, target: Target) -> bool:
    """Tell whether a reduction over one axis of few elements is taken slice by slice."""
    ufunc, shape = eq.primitive.lowering.reduce_ufunc, eq.inputs[0].aval.shape
    axis: Shape = eq.keywords["axis"]
    if len(axis) != 1 or len(shape) < 2 or axis[0] == 0 or shape[axis[0]] < 2:
        return False
    if axis[0] < len(shape) - 1:
        return shape[axis[0]] <= target.unroll_max_length
    few = shape[-1] <= target.unroll_last_max_length and math.prod(shape[:-1]) >= target.unroll_min_rows
    plain = eq.inputs[0].aval.dtype.char not in "eFD"  # NumPy sums rows of half precision in float32
    return few and plain and ufunc not in SLOW_WITH_NUMBERS


def materialize_scalars(eq: Equation, target: Target) -> bool:
    """Tell whether numbers among the operands are better repeated to the output's shape."""
    return eq.primitive.lowering.ufunc in SLOW_WITH_NUMBERS and eq.aval.size >= target.fill_min_elements


def calls_blas(eq: Equation, target: Target) -> bool:
    """Tell whether BLAS or LAPACK might use several threads for an equation."""
    p = eq.primitive
    if p.kind == "bilinear" and len(eq.inputs) == 2:
        x, y, out = eq.inputs[0].aval, eq.inputs[1].aval, eq.aval
        least = target.blas_threads_min_products if min(x.ndim, y.ndim) > 1 else target.blas_threads_min_terms
        # m·k, k·n and m·n: their product's root is m·k·n
        return (
            math.sqrt(x.size * y.size * out.size) * (target.blas_complex_factor if out.dtype.kind == "c" else 1)
            >= least
        )
    least = target.lapack_threads_min_elements
    return p.lowering.calls_lapack and any(a.aval.size >= least for a in eq.inputs)


def writes_into(eq: Equation) -> bool:
    """Tell whether an equation can compute into memory it is given."""
    p = eq.primitive
    if p.multiple_results:
        return False
    rules = p.lowering
    return rules.make_kernel is not None or rules.impl_into is not None or by_ufunc(eq) or by_reduction(eq)


def by_ufunc(eq: Equation) -> bool:
    """Tell whether a ufunc computes an equation's dtype from its operands' dtypes."""
    ufunc = eq.primitive.lowering.ufunc
    if ufunc is None or eq.params:
        return False
    return ufunc_result_dtype(ufunc, tuple(map(_dtype_of, eq.inputs))) == eq.outputs[0].aval.dtype


def by_function(eq: Equation) -> bool:
    """Tell whether a function of the primitive computes an equation into an array that overlaps no operand."""
    return eq.primitive.lowering.impl_into is not None


def by_reduction(eq: Equation) -> bool:
    """Tell whether a ufunc's ``reduce`` computes an equation, in its operand's dtype."""
    reduces = eq.primitive.lowering.reduce_ufunc is not None
    return reduces and eq.inputs[0].aval.dtype == eq.outputs[0].aval.dtype


def errstate_of(eq: Equation) -> ErrorState:
    """Return the errors that an equation ignores; None for one that moves or compares values, or signs, which never warns."""
    p = eq.primitive
    if p.lowering.may_alias or p.algebra.canonical in MOVES:
        return None
    if p.lowering.ufunc in QUIET and eq.inputs[0].aval.dtype.kind != "c":
        return None
    for v in eq.outputs:
        if v.aval.dtype.kind != "b":
            return eq.ignored_fp_errors
    return None


@lru_cache(maxsize=4096)
def ufunc_result_dtype(ufunc: np.ufunc, dtypes: tuple[DType, ...]) -> DType | None:
    """Return the dtype in which NumPy gives the result of a ufunc for operands of these dtypes."""
    if ufunc.signature is None and (ufunc.nin != len(dtypes) or ufunc.nout != 1):
        return None
    try:
        dtype: DType = ufunc.resolve_dtypes((*dtypes, None))[-1]
    except TypeError:
        return None
    return dtype


# --- Fusion: equations on large arrays that run together, block by block, so that values stay in the cache
#
# Blocks are of elements, where all values of a group have one shape, or of rows. Blocks of rows also run ops that
# work on each row, or each example, by itself, such as a sum along the last axis.

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
    reshapes: dict[int, Equation] = {}
    for eq in reversed(equations):
        source = eq.inputs[0]
        if not isinstance(source, Var) or source.index not in own or source.index in given:
            continue
        if eq.primitive.lowering.may_alias and eq.outputs[0].index in given:
            given.add(source.index)
            reshapes[eq.outputs[0].index] = eq
    return reshapes


@attrs.frozen(eq=False, repr=False)
class Groups(Printable):
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
    if all([s is None or s.fuse_only_with_producer for s in spaces]):
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
    if max(x.size for x in (*values, eq.aval)) < target.fuse_min_elements:
        return None
    if p.kind == "bilinear" and not target.pins_blas:  # BLAS's threads and ours would wait for each other
        return None
    sliced = tuple([k in rows for k in range(len(eq.inputs))])
    return IterationSpace(("rows", length), sliced, p.lowering.sums_over_batch, False)


def _in_rows(x: Aval, target: Target) -> bool:
    """Tell whether blocks of a value would be of its rows."""
    return target.cuts_rows(x.shape)


def _elementwise(eq: Equation, out: Aval, target: Target) -> IterationSpace | None:
    """Return how an elementwise equation runs in blocks: of elements, or of rows; None where it is too small."""
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
        upstream = self._open_before([a.index for a in eq.inputs if isinstance(a, Var)])
        if upstream:
            for v in eq.outputs:
                self._depends[v.index] = upstream
        self._new([k])

    def join(self, k: int, eq: Equation, space: IterationSpace) -> bool:
        """Enter an equation into the open group of its key, or a new one; tell whether it was entered."""
        c = self._open.get(space.key, -1)
        is_producer_within, operands = False, list[int]()
        for atom, part in zip(eq.inputs, space.sliced, strict=True):
            if isinstance(atom, Var):
                if c >= 0 and part and self._member.get(atom.index) == c:
                    is_producer_within = True
                else:
                    operands.append(atom.index)
        outside = self._open_before(operands)
        apart = c < 0 or c in outside
        if space.fuse_only_with_producer and (apart or not is_producer_within):
            return False
        if apart:
            outside = self._open_before([a.index for a in eq.inputs if isinstance(a, Var)])
            c = self._opened(space.key)
        self.groups[c].append(k)
        self._upstream[c] = self._upstream[c] | outside
        out = eq.outputs[0]
        self._depends[out.index] = frozenset((c,))
        if not space.is_reduction:
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
                parent[find(k)] = find(seen.setdefault(a.index, k))
    parts: dict[int, list[int]] = {}
    for k in group:
        parts.setdefault(find(k), []).append(k)
    return list(parts.values())


def _ordered(graph: Graph, groups: Sequence[list[int]], spaces: Sequence[IterationSpace | None]) -> list[Group]:
    """Return the groups, each after those that it depends on, otherwise in the graph's order."""
    owner = {v.index: g for g, group in enumerate(groups) for k in group for v in graph.equations[k].outputs}
    waits, unlocks = [set[int]() for _ in groups], [list[int]() for _ in groups]  # by group: for which, and of which
    read_elsewhere = indices_of(graph.outputs)
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
    ordered: list[Group] = []
    while ready:
        _, g = heapq.heappop(ready)
        ordered.append(_group(graph, groups[g], spaces, read_elsewhere))
        for h in unlocks[g]:
            waits[h].discard(g)
            if not waits[h]:
                heapq.heappush(ready, (groups[h][0], h))
    assert len(ordered) == len(groups)
    return ordered


def _group(
    graph: Graph, numbers: Sequence[int], spaces: Sequence[IterationSpace | None], read_elsewhere: set[int]
) -> Group:
    if len(numbers) == 1:
        return Group(numbers, graph, (), graph.equations[numbers[0]].outputs)
    own = [space for k in numbers if (space := spaces[k]) is not None]
    outputs = [v for k in numbers for v in graph.equations[k].outputs if v.index in read_elsewhere]
    return Group(numbers, graph, own, outputs)
