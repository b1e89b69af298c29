"""Sparsity patterns: the inputs that each element of an array depends on, and columns that one pass computes."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

# --- Sparsity pattern: the inputs that each element of an array depends on, as sets that elements share
#
# A `Pattern` gives each element the numbers of some sets of inputs, one in each of its maps: moving data moves numbers
# alone, and what reads two arrays has the maps of both, equal ones once. Only where there are many maps are the sets of each
# element united. Equal sets have one number; they are known by two sums of 64 random bits for each input, modulo 2^64.

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
    """Return the hashes of sets, an order in which equal ones stand together, and where others begin in it."""
    hashes = np.stack([np.add.reduceat(w[members], starts) for w in words])
    order = np.argsort(hashes[0])
    keys = hashes[:, order]
    return hashes, order, np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))


def _search(ordered: Words, words: Words) -> Ints:
    """Return where words stand, or would, among ordered ones."""
    array = ordered
    return array.searchsorted(words)


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
        places = np.minimum(_search(self._sorted, hashes[0, firsts]), len(self._sorted) - 1)
        known = self._order[places]
        is_new = (self._hashes[:, known] != hashes[:, firsts]).any(axis=0)
        fresh = firsts[is_new]
        numbers = np.where(is_new, len(self.starts) - 2 + np.cumsum(is_new), known)
        ids = np.empty(len(order), np.int64)
        ids[order] = numbers[np.cumsum(is_first) - 1]
        counts, places = _spread(starts, fresh)
        above = _search(self._sorted, hashes[0, fresh])
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
            else np.divmod(distinct(owners * self.sets.width + inputs), self.sets.width)
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
class Dependence:
    """A way of dependence: element ``outs[k]`` of a result reads element ``ins[k]`` of an array of this pattern."""

    pattern: Pattern
    outs: Ints
    ins: Ints


def identities(sizes: Sequence[int]) -> list[Pattern]:
    """Return the patterns of arrays of these sizes that are the inputs: each element depends on itself."""
    sets = Sets(sum(sizes))
    ends = itertools.accumulate(sizes)
    return [Pattern(sets, (np.arange(end - size, end),)) for size, end in zip(sizes, ends, strict=True)]


def joined(size: int, parts: Sequence[Dependence]) -> Pattern | None:
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


def _layers(part: Dependence, size: int) -> list[tuple[Ints, Ints]] | None:
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


def _united(sets: Sets, size: int, parts: Sequence[Dependence]) -> Pattern | None:
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


def distinct(numbers: Ints) -> Ints:
    """Return each number once, ascending; sorting is several times faster than `numpy.unique`, which hashes."""
    ordered = np.sort(numbers)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def repeat(values: Any, counts: Any) -> Ints:
    """Return each value so many times; NumPy takes counts of its index type alone, which has 32 bits on some systems."""
    return np.repeat(values, np.asarray(counts, np.intp))


def count_each(numbers: Ints, count: int) -> Ints:
    """Return how often each number below ``count`` occurs."""
    return np.bincount(np.asarray(numbers, np.intp), minlength=count)


def _spread(starts: Ints, groups: Ints) -> tuple[Ints, Ints]:
    """Return how many members each of these sets has, and where they stand, one set after the other."""
    counts = starts[groups + 1] - starts[groups]
    ends = np.cumsum(counts)
    places = np.arange(ends[-1] if len(ends) else 0) + repeat(starts[groups] - (ends - counts), counts)
    return counts, places


def _unite(sets: Sets, ids: Ints, outs: Ints, groups: Ints) -> None:
    """Give elements that belong to several sets the union of them."""
    rows, groups = np.divmod(distinct(outs * len(sets.starts) + groups), len(sets.starts))
    first = np.append(True, rows[1:] != rows[:-1])
    owners = rows[first]
    if (sets.starts[groups + 1] - sets.starts[groups]).sum() > LIMIT:
        ids[owners] = _unite_all(sets, distinct(groups))
        return
    counts, places = _spread(sets.starts, groups)
    keys = distinct(repeat(np.cumsum(first) - 1, counts) * sets.width + sets.members[places])
    owner, inputs = np.divmod(keys, sets.width)
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
