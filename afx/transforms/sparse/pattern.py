"""Sparsity patterns: the inputs that each output of a graph depends on, and columns that one pass computes."""

from __future__ import annotations

import functools
import itertools
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from afx.core.array.array import wrap
from afx.core.aval import Aval
from afx.core.graph import Equation, Graph, Literal
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind, to_array
from afx.core.tracing.traces import GraphTrace
from afx.ops.creation.creation import asarray
from afx.transforms._arguments import zero_like
from afx.transforms.derivatives.grad import vjp
from afx.transforms.vmap import vmap

# --- Sparsity pattern: the inputs that each element of an array depends on, as sets that elements share
#
# A `Pattern` gives each element the numbers of some sets of inputs, one in each of its maps: moving data moves numbers
# alone, and what reads two arrays has the maps of both, those that are equal once. Only where there are many maps are the
# sets of each element united. Equal sets have one number: a full dependence costs one set. A set that is new is known by
# two sums of 64 random bits for each input, modulo 2^64: what is compared are these.

Ints = np.ndarray[Any, np.dtype[np.int64]]
Words = np.ndarray[Any, np.dtype[np.uint64]]

BLOCK = 1 << 22  # entries that are listed at once
LIMIT = 1 << 24  # elements of sets that are united at once, beyond which they become one set of all
MAPS = 32  # of a pattern
SAMPLE = 64  # elements by which most maps are seen to differ
FORGET = 1 << 26  # elements of all sets, beyond which those that no pattern has are forgotten


def _words(width: int) -> Words:
    """Return two words of random bits for each input."""
    return np.random.default_rng(11).integers(0, 1 << 64, (2, max(width, 1)), np.uint64)


def _compare(words: Words, starts: Ints, members: Ints) -> tuple[Words, Ints, Any]:
    """Return the hashes of sets that begin there, an order in which equal ones stand together, and where others begin in it."""
    hashes = np.stack([np.add.reduceat(w[members], starts) for w in words])
    order = np.argsort(hashes[0])
    keys = hashes[:, order]
    return hashes, order, np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))


class Sets:
    """The sets of a graph's patterns; the first ones are those of one input each.

    Attributes:
        width: the number of inputs.
        starts: where each set begins in ``members``, and where the last one ends.
        members: the inputs in the sets, ascending within each.
        patterns: those that have numbers of these sets.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self.starts: Ints = np.arange(width + 1)
        self.members: Ints = np.arange(width)
        self.patterns: list[weakref.ref[Pattern]] = []
        self._words: Words = _words(width)
        self._hashes: Words = self._words[:, :width]
        self._forget_from = FORGET
        self._sort()

    def _sort(self) -> None:
        """Order the sets by their hashes."""
        self._order: Ints = np.argsort(self._hashes[0])
        self._sorted: Words = self._hashes[0][self._order]

    def add(self, starts: Ints, members: Ints) -> Ints:
        """Return the numbers of sets that are no empty ones; those that are new are added."""
        hashes, order, is_first = _compare(self._words, starts[:-1], members)
        firsts = order[is_first]  # one of each of the new sets that are equal
        places = np.minimum(np.searchsorted(self._sorted, hashes[0, firsts]), len(self._sorted) - 1)
        known = self._order[places]
        is_new = (self._hashes[:, known] != hashes[:, firsts]).any(axis=0)
        fresh = firsts[is_new]
        numbers = np.where(is_new, len(self.starts) - 2 + np.cumsum(is_new), known)
        ids = np.empty(len(order), np.int64)
        ids[order] = numbers[np.cumsum(is_first) - 1]
        counts, places = _spread(starts, fresh)
        above = np.searchsorted(self._sorted, hashes[0, fresh])
        self._sorted = np.insert(self._sorted, above, hashes[0, fresh])
        self._order = np.insert(self._order, above, numbers[is_new])
        self._hashes = np.concatenate([self._hashes, hashes[:, fresh]], axis=1)
        self.starts = np.concatenate([self.starts, self.starts[-1] + np.cumsum(counts)])
        self.members = np.concatenate([self.members, members[places]])
        return ids

    def forget(self) -> None:
        """Forget sets that no pattern has, once there are many elements in all."""
        if len(self.members) < self._forget_from:
            return
        patterns = [p for p in (ref() for ref in self.patterns) if p is not None]
        used = np.zeros(len(self.starts), bool)  # the last one stands for -1
        used[: self.width] = True
        for p in patterns:
            for ids in p.maps:
                used[ids] = True
        used[-1] = False
        left = np.flatnonzero(used)
        counts, places = _spread(self.starts, left)
        numbers = np.full(len(used), -1, np.int64)
        numbers[left] = np.arange(len(left))
        for p in patterns:
            p.maps = tuple([numbers[ids] for ids in p.maps])
        self.starts, self.members = np.append(0, np.cumsum(counts)), self.members[places]
        self._hashes = self._hashes[:, left]
        self.patterns = [weakref.ref(p) for p in patterns]
        self._forget_from = max(FORGET, 2 * len(self.members))
        self._sort()


@attrs.define(eq=False)
class Pattern:
    """The inputs that each element of an array depends on.

    Attributes:
        sets: of inputs.
        maps: for each element, in row-major order, the number of a set, or -1; it depends on those of all maps.
    """

    sets: Sets
    maps: tuple[Ints, ...]

    def __attrs_post_init__(self) -> None:
        self.sets.patterns.append(weakref.ref(self))

    @property
    def size(self) -> int:
        """The number of elements."""
        return len(self.maps[0])

    def entries(self) -> tuple[Ints, Ints]:
        """Return the elements and the inputs they depend on, as pairs in ascending order."""
        outs, ins = list[Ints](), list[Ints]()
        longest = sum(int(np.diff(self.sets.starts)[ids[ids >= 0]].max(initial=0)) for ids in self.maps)
        for rows in np.array_split(np.arange(self.size), self.size * longest // BLOCK + 1):  # Ctrl-C is heard between
            found, places = self._listed(rows)
            outs.append(found)
            ins.append(places)
        return np.concatenate(outs), np.concatenate(ins)

    def _listed(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return the entries of some elements."""
        table = np.sort(np.stack([ids[rows] for ids in self.maps], axis=1), axis=1)
        is_set = table >= 0
        is_set[:, 1:] &= table[:, 1:] != table[:, :-1]
        owners, groups = repeat(rows, is_set.sum(axis=1)), table[is_set]
        if groups.max(initial=-1) < self.sets.width:  # sets of one input, which has the same number
            return owners, groups
        counts, places = _spread(self.sets.starts, groups)
        owners, inputs = repeat(owners, counts), self.sets.members[places]
        return (
            (owners, inputs)
            if len(self.maps) == 1
            else _divided(distinct(owners * self.sets.width + inputs), self.sets.width)
        )

    def part(self, k: int, count: int) -> Pattern:
        """Return the pattern of the k-th of so many equal parts."""
        size = self.size // count
        return Pattern(self.sets, tuple([ids[k * size : (k + 1) * size] for ids in self.maps]))

    def everything(self, size: int) -> Pattern | None:
        """Return the pattern of ``size`` elements that each depend on all that any element here depends on."""
        groups = distinct(np.concatenate(self.maps))
        groups = groups[groups >= 0]
        if not len(groups):
            return None
        return Pattern(self.sets, (np.full(size, _unite_all(self.sets, groups)),))


@attrs.frozen(eq=False)
class Part:
    """A way of dependence: element ``outs[k]`` of a result reads element ``ins[k]`` of an array of this pattern."""

    pattern: Pattern
    outs: Ints
    ins: Ints


def identities(sizes: Sequence[int]) -> list[Pattern]:
    """Return the patterns of arrays of these sizes that are the inputs: each element depends on itself."""
    sets = Sets(sum(sizes))
    ends = itertools.accumulate(sizes)
    return [Pattern(sets, (np.arange(end - size, end),)) for size, end in zip(sizes, ends, strict=True)]


def joined(size: int, parts: Sequence[Part]) -> Pattern | None:
    """Return the pattern of an array of ``size`` elements that reads others in these ways; None where in none."""
    if not parts:
        return None
    sets = parts[0].pattern.sets
    sets.forget()
    maps = list[Ints]()
    for part in parts:
        layers = _layers(part, size)
        for outs, ins in layers or ():
            is_whole = len(outs) == size and bool((outs == np.arange(size)).all())
            stays = is_whole and part.pattern.size == size and bool((ins == outs).all())
            for ids in part.pattern.maps:
                moved = ids if stays else ids[ins]
                if not is_whole:
                    moved, whole = np.full(size, -1, np.int64), moved
                    moved[outs] = whole
                _place(maps, moved)
        if layers is None or len(maps) > MAPS:
            return _united(sets, size, parts)
    return Pattern(sets, tuple(maps)) if maps else None


def _layers(part: Part, size: int) -> list[tuple[Ints, Ints]] | None:
    """Return a way of dependence as some in which each element reads one other; None where these are many."""
    most = int(count_each(part.outs, max(size, 1)).max())
    if most <= 1:
        return [(part.outs, part.ins)]
    if most * len(part.pattern.maps) > 4 * MAPS:  # of which most may be equal
        return None
    order = np.argsort(part.outs, kind="stable")
    outs, ins = part.outs[order], part.ins[order]
    turns = np.arange(len(outs)) - np.searchsorted(outs, outs)
    return [(outs[turns == k], ins[turns == k]) for k in range(most)]


def _place(maps: list[Ints], ids: Ints) -> None:
    """Add a map to those that there are: within the first one that has no other sets where this one has some."""
    step = len(ids) // SAMPLE + 1
    for k, known in enumerate(maps):
        if known is ids:
            return
        for every in (step, 1):
            mine, theirs = ids[::every], known[::every]
            if ((mine != theirs) & (mine >= 0) & (theirs >= 0)).any():
                break
        else:
            maps[k] = np.maximum(known, ids)
            return
    if (ids >= 0).any():
        maps.append(ids)


def _united(sets: Sets, size: int, parts: Sequence[Part]) -> Pattern | None:
    """Return the pattern with one map, of the unions of each element's sets."""
    each = [(p.outs, ids[p.ins]) for p in parts for ids in p.pattern.maps]
    outs, groups = np.concatenate([o for o, _ in each]), np.concatenate([g for _, g in each])
    outs, groups = outs[groups >= 0], groups[groups >= 0]
    if not len(outs):
        return None
    ids = np.full(size, -1, np.int64)
    ids[outs] = groups
    several = np.zeros(size, bool)  # elements that read more than one set
    several[outs[ids[outs] != groups]] = True
    if several.any():
        is_one = several[outs]
        _unite(sets, ids, outs[is_one], groups[is_one])
    return Pattern(sets, (ids,))


def _divided(keys: Ints, width: int) -> tuple[Ints, Ints]:
    rows = keys // width
    return rows, keys - rows * width


def distinct(numbers: Ints) -> Ints:
    """Return each number once, ascending; sorting is several times faster than `numpy.unique`, which hashes."""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def repeat(values: Any, counts: Any) -> Ints:
    """Return each value so many times; NumPy takes counts of its index type alone, which has 32 bits on some systems."""
    repeated: Ints = np.repeat(values, np.asarray(counts, np.intp))
    return repeated


def count_each(numbers: Ints, count: int) -> Ints:
    """Return how often each number below ``count`` occurs."""
    counts: Ints = np.bincount(np.asarray(numbers, np.intp), minlength=count)
    return counts


def _spread(starts: Ints, groups: Ints) -> tuple[Ints, Ints]:
    """Return how many members each of these sets has, and where they stand, one set after the other."""
    counts = starts[groups + 1] - starts[groups]
    ends = np.cumsum(counts)
    places = np.arange(ends[-1] if len(ends) else 0) + repeat(starts[groups] - (ends - counts), counts)
    return counts, places


def _unite(sets: Sets, ids: Ints, outs: Ints, groups: Ints) -> None:
    """Give elements that belong to several sets the union of them."""
    rows, groups = _divided(distinct(outs * len(sets.starts) + groups), len(sets.starts))
    first = np.append(True, rows[1:] != rows[:-1])
    owners = rows[first]
    if (sets.starts[groups + 1] - sets.starts[groups]).sum() > LIMIT:
        ids[owners] = _unite_all(sets, distinct(groups))
        return
    counts, places = _spread(sets.starts, groups)
    keys = distinct(repeat(np.cumsum(first) - 1, counts) * sets.width + sets.members[places])
    owner, inputs = _divided(keys, sets.width)
    ids[owners] = sets.add(np.searchsorted(owner, np.arange(len(owners) + 1)), inputs)


def _unite_all(sets: Sets, groups: Ints) -> int:
    """Return the number of the union of sets."""
    is_read = np.zeros(sets.width, bool)
    is_read[sets.members[_spread(sets.starts, groups)[1]]] = True
    inputs = np.flatnonzero(is_read)
    return int(sets.add(np.array([0, len(inputs)]), inputs)[0])


# --- Graph coloring: columns of a sparse matrix that one pass can compute, because no row holds two of them


def dense_rows(counts: Ints) -> Ints:
    """Return the rows that are better computed alone, given how many entries each has.

    Columns need as many colours as the fullest row has entries. Setting the k fullest rows apart costs k and leaves the
    next one's count; the best k is taken.

    >>> dense_rows(np.array([2, 9, 2, 2]))
    array([1])
    """
    order = np.argsort(-counts, kind="stable")
    sums = np.arange(len(counts) + 1) + np.append(counts[order], 0)
    return np.sort(order[: int(np.argmin(sums))])


def color(rows: Ints, columns: Ints, shape: tuple[int, int]) -> Ints:
    """Return a colour for each column, so that no row has two entries of one colour; -1 for empty columns.

    Greedy, once in the columns' own order, which suits bands, and once from the fullest column on; the one with fewer
    colours is taken.

    Args:
        rows: the row of each entry.
        columns: its column.
        shape: of the matrix.

    >>> color(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 2, 2]), (3, 3))
    array([0, 1, 0])
    """
    rows, columns = _different_rows(rows, columns, shape)
    order = np.argsort(columns, kind="stable")
    entries = rows[order].tolist()
    bounds = np.searchsorted(columns[order], np.arange(shape[1] + 1)).tolist()
    counts = np.diff(bounds)
    colors = _greedy(range(shape[1]), entries, bounds, shape)
    if colors.max(initial=-1) + 1 > _most(rows, shape[0]):
        other = _greedy(np.argsort(-counts, kind="stable").tolist(), entries, bounds, shape)
        colors = min(colors, other, key=lambda c: int(c.max(initial=-1)))
    return colors


def _different_rows(rows: Ints, columns: Ints, shape: tuple[int, int]) -> tuple[Ints, Ints]:
    """Return the entries without rows whose columns are those of another one."""
    if not len(rows):
        return rows, columns
    if (rows[1:] < rows[:-1]).any():
        order = np.argsort(rows, kind="stable")
        rows, columns = rows[order], columns[order]
    starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
    _, order, is_first = _compare(_words(shape[1]), starts, columns)
    is_left = np.zeros(shape[0], bool)
    is_left[rows[starts[order[is_first]]]] = True
    return rows[is_left[rows]], columns[is_left[rows]]


def _most(rows: Ints, count: int) -> int:
    """Return the number of entries of the fullest row, which no colouring goes below."""
    return int(count_each(rows, max(count, 1)).max())


def _greedy(order: Any, entries: list[int], bounds: list[int], shape: tuple[int, int]) -> Ints:
    """Give each column in turn the first colour that no row of it has seen."""
    seen = [0] * shape[0]  # for each row the colours in it, as bits
    colours = [-1] * shape[1]
    for j in order:
        rows = entries[bounds[j] : bounds[j + 1]]
        if not rows:
            continue
        used = 0
        for i in rows:
            used |= seen[i]
        free = ~used & (used + 1)  # the lowest bit that is not set
        colours[j] = free.bit_length() - 1
        for i in rows:
            seen[i] |= free
    return np.array(colours, np.int64)


# --- Probing: the pattern of a linear op, from runs on indices and noise
#
# An op that only moves data, run on the indices of its operand's elements, gives the source of each element of its
# result. Run on noise too, it shows whether it does nothing else. The transpose of an op that adds elements up is
# tried in the same way, and shows where each element of the operand goes to.

Edges = tuple[Ints, Ints]  # elements of the result, and the elements of the operand that they read

FEW = 64  # elements of a kernel that are tried one by one


@functools.lru_cache(maxsize=4)
def noise(size: int) -> Any:
    """Return normal random numbers, the same at each call."""
    numbers = np.random.default_rng(5).normal(size=size)
    numbers.flags.writeable = False
    return numbers


def _factor(aval: Aval) -> Any:
    """Return what makes a trial complex where the operand is: moving data keeps it, and parts and conjugates its real part."""
    return 1 + 1j if aval.dtype.kind == "c" else 1.0


def _trials(aval: Aval) -> tuple[Any, Any]:
    """Return the numbers of an array's elements, counted from 1, and noise."""
    numbers = np.arange(1.0, aval.size + 1).reshape(aval.shape)
    return numbers * _factor(aval), noise(aval.size).reshape(aval.shape) * _factor(aval)


def _run(p: Primitive, operands: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
    """Run an op on plain values; return the real parts of its outputs."""
    with np.errstate(all="ignore"):
        z = p.impl(*operands, **params)
    return [np.real(np.asarray(v)).reshape(-1) for v in (z if p.multiple_results else (z,))]


def _sources(numbers: Any, noisy: Any, size: int) -> Ints | None:
    """Return where each element came from, -1 for nowhere, if both trials tell the same."""
    if not np.isfinite(numbers).all():
        return None
    places = np.rint(numbers).astype(np.int64)
    if (places != numbers).any() or (places < 0).any() or (places > size).any():
        return None
    return places - 1 if (np.append(0.0, noise(size))[places] == noisy).all() else None


def probe_permutation(
    p: Primitive, k: int, operands: Sequence[Any], aval: Aval, params: Mapping[str, Any]
) -> list[Edges] | None:
    """Return what each output reads, if an op does nothing but move elements of operand k; ``operands`` are the others."""
    first, second = (_run(p, [*operands[:k], trial, *operands[k + 1 :]], params) for trial in _trials(aval))
    edges: list[Edges] = []
    for numbers, noisy in zip(first, second, strict=True):
        places = _sources(numbers, noisy, aval.size)
        if places is None:
            return None
        outs = np.flatnonzero(places >= 0)
        edges.append((outs, places[outs]))
    return edges


def probe_transpose(
    p: Primitive, k: int, operands: Sequence[Any], aval: Aval, params: Mapping[str, Any]
) -> Edges | None:
    """Return what the output reads, if each element of operand k goes to one output element at most."""

    def fn(x: Any) -> Any:
        return bind(p, *operands[:k], x, *operands[k + 1 :], **params)

    out, pullback = vjp(fn, wrap(np.zeros(aval.shape) * _factor(aval)))
    pulled = [np.real(np.asarray(pullback(wrap(t.astype(out.dtype)))[0])).reshape(-1) for t in _trials(out.aval)]
    places = _sources(pulled[0], pulled[1], out.size)
    if places is None:
        return None
    ins = np.flatnonzero(places >= 0)
    return places[ins], ins


def by_kernel(p: Primitive, k: int, other: Any, avals: Sequence[Aval], params: Mapping[str, Any]) -> list[Edges] | None:
    """Return what the output of a bilinear op reads of operand k, tried with each element of the other one.

    Args:
        p: the op.
        k: the operand.
        other: the value of the other operand, None where it is unknown.
        avals: of both.
        params: of the op.
    """
    aval = avals[1 - k]
    places = np.arange(aval.size) if other is None else np.flatnonzero(other)
    if len(places) > FEW:
        return None
    all_edges: list[Edges] = []
    for place in places:
        kernel = np.zeros(aval.size)
        kernel[place] = 1
        edges = probe_permutation(p, k, [kernel.reshape(aval.shape)] * 2, avals[k], params)
        if edges is None:
            return None
        all_edges += edges
    return all_edges


def by_matrix(p: Primitive, k: int, operands: Sequence[Any], aval: Aval, params: Mapping[str, Any]) -> Edges:
    """Return what the output of a linear op reads of operand k, from its matrix in full."""

    def fn(x: Any) -> Any:
        return bind(p, *operands[:k], x, *operands[k + 1 :], **params)

    basis = (np.eye(aval.size) * _factor(aval)).reshape(aval.size, *aval.shape)
    columns = np.asarray(vmap(fn)(basis))
    ins, outs = np.nonzero(columns.reshape(aval.size, columns[0].size))
    return outs, ins


# --- Dependency propagation: the inputs that each output of a graph depends on, from the records of its primitives
#
# Nothing here names an op but the product of matrices. An elementwise op reads its operands at the same position.
# What a linear one reads is found out by running it (see `afx.transforms.sparse.pattern`). Ops of one operand with an
# ``axis`` mix along it. Loops are followed step by step, branches into each of them. What remains depends on
# everything that its operands depend on.

Found = Pattern | None

LONG = 5000  # equations in all the steps of a loop, up to which it is followed
SMALL = 1 << 22  # elements of a matrix that is computed in full to see its entries


def dependence(graph: Graph, known: Mapping[int, Pattern]) -> list[Found]:
    """Return the pattern of each output of a graph, given those of some inputs by their variables' numbers."""
    patterns: dict[int, Pattern] = dict(known)
    values: dict[int, Any] = {v.index: c.value for v, c in graph.constants}
    reads = Counter(a.index for eq in graph.equations for a in eq.inputs if not isinstance(a, Literal))
    reads.update(a.index for a in graph.outputs if not isinstance(a, Literal))
    for eq in graph.equations:
        if not any(not isinstance(a, Literal) and a.index in patterns for a in eq.inputs):
            _fold(eq, values)
            continue
        for var, pattern in zip(eq.outputs, _propagate(eq, patterns, values), strict=True):
            if pattern is not None and var.aval.dtype.kind in "fc":
                patterns[var.index] = pattern
        for atom in eq.inputs:
            if not isinstance(atom, Literal):
                reads[atom.index] -= 1
                if not reads[atom.index]:  # its sets may be forgotten
                    patterns.pop(atom.index, None)
    return [None if isinstance(a, Literal) else patterns.get(a.index) for a in graph.outputs]


def _fold(eq: Equation, values: dict[int, Any]) -> None:
    """Compute an equation of constants alone, so that masks and indices are known."""
    p = eq.primitive
    xs = [a.aval.dtype.type(a.value) if isinstance(a, Literal) else values.get(a.index) for a in eq.inputs]
    plain = p.kind in ("elementwise", "linear", "nondifferentiable")
    if plain and not p.multiple_results and all(x is not None for x in xs):
        with np.errstate(all="ignore"):
            values[eq.outputs[0].index] = np.asarray(p.impl(*xs, **eq.keywords))


class _Call:
    """An equation with what is known of its operands.

    Attributes:
        patterns: of each operand, None where it depends on nothing.
        values: of each operand, None where it is unknown.
    """

    def __init__(self, eq: Equation, patterns: Mapping[int, Pattern], values: Mapping[int, Any]) -> None:
        self.p = eq.primitive
        self.params = eq.keywords
        self.ins = [a.aval for a in eq.inputs]
        self.outs = [v.aval for v in eq.outputs]
        self.patterns = [None if isinstance(a, Literal) else patterns.get(a.index) for a in eq.inputs]
        self.values = [np.asarray(a.value) if isinstance(a, Literal) else values.get(a.index) for a in eq.inputs]

    @property
    def moving(self) -> list[int]:
        """The operands that depend on something."""
        return [k for k, p in enumerate(self.patterns) if p is not None]

    def pattern(self, k: int) -> Pattern:
        """Return the pattern of an operand that has one."""
        pattern = self.patterns[k]
        assert pattern is not None
        return pattern

    def part(self, k: int, edges: Edges) -> Part:
        """Return a way in which the result reads an operand."""
        return Part(self.pattern(k), *edges)


def _propagate(eq: Equation, patterns: Mapping[int, Pattern], values: Mapping[int, Any]) -> list[Found]:
    """Return the patterns of an equation's outputs."""
    call = _Call(eq, patterns, values)
    p = call.p
    if not p.is_differentiable:
        return [None] * len(call.outs)
    if p.is_elementwise:
        return [_elementwise(call)]
    for name, rule in HOLDING.items():
        if name in call.params:
            return rule(call)
    linear = p.kind in ("linear", "bilinear") or p.masking.nonnegative_linear
    if not linear:
        return _dense_along_axis(call)
    by_operand = [_linear(call, k) for k in call.moving]
    return [_together(by_operand, n) for n in range(len(call.outs))]


def _together(by_operand: Sequence[Sequence[Found]], n: int) -> Found:
    """Return the pattern of an output that reads several operands."""
    each = [f[n] for f in by_operand]
    some = [p for p in each if p is not None]
    if len(some) < 2:
        return some[0] if some else None
    size = some[0].size
    return joined(size, [Part(p, np.arange(size), np.arange(size)) for p in some])


# -- elementwise --
def _elementwise(call: _Call) -> Found:
    """Return the pattern of an op that reads its operands at each position."""
    shape, parts = call.outs[0].shape, list[Part]()
    for k in call.moving:
        if k < call.p.condition_operands:
            continue
        ins = np.broadcast_to(np.arange(call.ins[k].size).reshape(call.ins[k].shape), shape).reshape(-1)
        alive = _alive(call, k)
        if alive is None:
            parts.append(call.part(k, (np.arange(ins.size), ins)))
        else:
            outs = np.flatnonzero(np.broadcast_to(alive, shape))
            parts.append(call.part(k, (outs, ins[outs])))
    if len(parts) == 1 and len(parts[0].outs) == parts[0].pattern.size and call.outs[0].size == len(parts[0].outs):
        return parts[0].pattern
    return joined(call.outs[0].size, parts)


def _alive(call: _Call, k: int) -> Any:
    """Return where a choice takes an operand, or a constant factor leaves it, None for everywhere."""
    if call.p.algebra.canonical == "select" and call.values[0] is not None:
        return np.asarray(call.values[0], bool) == (k == 1)
    if call.p.lowering.ufunc is np.multiply and call.values[1 - k] is not None:
        return call.values[1 - k] != 0
    return None


# -- linear --
def _linear(call: _Call, k: int) -> list[Found]:
    """Return the patterns of the outputs of a linear op as far as they read operand k."""
    if call.p.algebra.canonical == "cast":
        return [call.pattern(k)]
    if call.p.name == "matmul":
        return [_product(call, k)]
    if call.p.kind == "bilinear":
        kernel = by_kernel(call.p, k, call.values[1 - k], call.ins, call.params)
        if kernel is None:
            return _small_or_mixed(call, k)
        return [joined(call.outs[0].size, [call.part(k, e) for e in kernel])]
    operands = _others(call, k)
    if operands is None:
        return _dense(call)
    places = probe_permutation(call.p, k, operands, call.ins[k], call.params)
    if places is not None:
        return [joined(a.size, [call.part(k, e)]) for a, e in zip(call.outs, places, strict=True)]
    sums = None if call.p.multiple_results else probe_transpose(call.p, k, operands, call.ins[k], call.params)
    if sums is not None:
        return [joined(call.outs[0].size, [call.part(k, sums)])]
    return _small_or_mixed(call, k)


def _others(call: _Call, k: int) -> list[Any] | None:
    """Return operands for a trial: indices as they are known, zeros for other arrays; None where an index is not."""
    operands: list[Any] = []
    for j, (aval, value) in enumerate(zip(call.ins, call.values, strict=True)):
        if aval.dtype.kind in "fc":
            operands.append(np.zeros(aval.shape))
        elif value is None and j != k:
            return None
        else:
            operands.append(value)
    return operands


def _small_or_mixed(call: _Call, k: int) -> list[Found]:
    """Return the patterns of a linear op that adds elements up: from its matrix if that is small, else by its axis."""
    operands = _others(call, k)
    small = call.ins[k].size * call.outs[0].size <= SMALL
    if operands is None or call.p.multiple_results or len(call.moving) > 1 or not small:
        return _dense_along_axis(call)
    if call.p.kind == "bilinear":
        other, aval = call.values[1 - k], call.ins[1 - k]
        operands[1 - k] = noise(aval.size).reshape(aval.shape) if other is None else other
    edges = by_matrix(call.p, k, operands, call.ins[k], call.params)
    return [joined(call.outs[0].size, [call.part(k, edges)])]


def _product(call: _Call, k: int) -> Found:
    """Return the pattern of a product of matrices: rows meet columns, where a constant matrix has entries."""
    shapes = [a.shape for a in call.ins]
    full = (_as_matrix(shapes[0], True), _as_matrix(shapes[1], False))
    places = np.arange(call.ins[k].size).reshape(full[k])
    batch = np.broadcast_shapes(full[0][:-2], full[1][:-2])
    out = np.arange(call.outs[0].size).reshape(*batch, full[0][-2], full[1][-1])
    value = call.values[1 - k]
    if value is None or len(full[1 - k]) != 2:
        return _follow_contraction(call, k, places, out)
    first, last = np.nonzero(np.asarray(value).reshape(full[1 - k]))
    if k == 1:
        outs, ins = out[..., first, :], places[..., last, :]
    else:
        outs, ins = out[..., :, last], places[..., :, first]
    return joined(out.size, [call.part(k, (outs.reshape(-1), np.broadcast_to(ins, outs.shape).reshape(-1)))])


def _as_matrix(shape: tuple[int, ...], row: bool) -> tuple[int, ...]:
    return shape if len(shape) > 1 else (1, *shape) if row else (*shape, 1)


def _follow_contraction(call: _Call, k: int, places: Ints, out: Ints) -> Found:
    """Return the pattern where each element of the product reads a whole row or column of operand k."""
    axis = places.ndim + (-2 if k == 1 else -1)
    with_ones = tuple([1 if a == axis else n for a, n in enumerate(places.shape)])
    lines = np.arange(int(np.prod(with_ones))).reshape(with_ones)
    lined = joined(lines.size, [call.part(k, (np.broadcast_to(lines, places.shape).reshape(-1), places.reshape(-1)))])
    if lined is None:
        return None
    return joined(out.size, [Part(lined, out.reshape(-1), np.broadcast_to(lines, out.shape).reshape(-1))])


# -- everything else --
def _dense_along_axis(call: _Call) -> list[Found]:
    """Return the patterns of an op that mixes along its axes, if it says which."""
    if len(call.ins) == 1 and len(call.outs) == 1 and isinstance(call.params.get("axis"), (int, tuple)):
        shape, out = call.ins[0].shape, call.outs[0].shape
        axes = _axes(call.params["axis"], len(shape))
        with_ones = tuple([1 if a in axes else n for a, n in enumerate(shape)])
        stays = len(out) == len(shape) and all(a in axes or n == m for a, (n, m) in enumerate(zip(shape, out)))  # noqa: B905  # of equal length
        if stays or tuple([n for a, n in enumerate(shape) if a not in axes]) == out:
            lines = np.arange(int(np.prod(with_ones))).reshape(with_ones)
            ins = np.broadcast_to(lines, shape).reshape(-1)
            lined = joined(lines.size, [call.part(0, (ins, np.arange(ins.size)))])
            goal = np.broadcast_to(lines, out) if stays else lines
            size = call.outs[0].size
            return [None if lined is None else joined(size, [Part(lined, np.arange(size), goal.reshape(-1))])]
    return _dense(call)


def _axes(axis: int | tuple[int, ...], ndim: int) -> set[int]:
    return {a % ndim for a in (axis if isinstance(axis, tuple) else (axis,))}


def _dense(call: _Call) -> list[Found]:
    """Return the patterns of an op of which nothing is known."""
    parts = list[Part]()
    for k in call.moving:
        whole = call.pattern(k).everything(1)
        if whole is not None:
            parts.append(Part(whole, np.zeros(1, np.int64), np.zeros(1, np.int64)))
    one = joined(1, parts)
    return [None if one is None else one.everything(a.size) for a in call.outs]


def _follow_rule(call: _Call) -> list[Found]:
    """Return the patterns of a function with a derivative of its own: those of the tangents that its rule gives."""
    rules = call.params["rules"]
    if rules.push is None:
        return _dense(call)
    trace = GraphTrace(rules.name)
    try:
        xs = [trace.input(Aval(a.shape, a.dtype)) for a in call.ins]
        ts = [
            to_array(zero_like(x)) if p is None else trace.input(x.aval) for x, p in zip(xs, call.patterns, strict=True)
        ]
        graph = trace.finish([asarray(t) for t in rules.push(xs, ts)[1]])
    finally:
        trace.alive = False
    entered = [v.index for v in graph.inputs[len(xs) :]]
    return dependence(graph, dict(zip(entered, [p for p in call.patterns if p is not None], strict=False)))


def _follow_branches(call: _Call) -> list[Found]:
    """Return the patterns of a choice among programs: the joined ones of all of them."""
    each = [_follow_program(b.graph, call.patterns[1:]) for b in call.params["branches"]]
    return [_together(each, n) for n in range(len(call.outs))]


def _follow_program(graph: Graph, patterns: Sequence[Found]) -> list[Found]:
    known = {v.index: p for v, p in zip(graph.inputs, patterns, strict=True) if p is not None}
    return dependence(graph, known)


def _follow_steps(call: _Call) -> list[Found]:
    """Return the patterns of a loop of known length, step by step if these are not too many."""
    params = call.params
    graph, length = params["body"].graph, params.get("length", LONG)
    if length * (len(graph) + 1) > LONG:
        return _dense(call)
    first, count = params["counts"]
    consts, carry, xs = call.patterns[:first], call.patterns[first : first + count], call.patterns[first + count :]
    steps: list[list[Found]] = []
    for t in range(length)[:: -1 if params["reverse"] else 1]:
        rows = [None if x is None else x.part(t, length) for x in xs]
        patterns = _follow_program(graph, [*consts, *carry, *rows])
        carry = patterns[:count]
        steps.append(patterns[count:])
    columns = zip(*steps[:: -1 if params["reverse"] else 1], strict=True) if steps else [()] * len(call.outs[count:])
    return [*carry, *[_stack_rows(c, a.size) for c, a in zip(columns, call.outs[count:], strict=True)]]


def _stack_rows(rows: Sequence[Found], size: int) -> Found:
    """Return the pattern of rows behind one another."""
    each = size // max(len(rows), 1)
    parts = [Part(p, np.arange(each) + t * each, np.arange(each)) for t, p in enumerate(rows) if p is not None]
    return joined(size, parts)


# Ops that hold programs, by the parameter that holds them.
HOLDING = {"rules": _follow_rule, "branches": _follow_branches, "body": _follow_steps}
