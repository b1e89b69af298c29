"""Sparsity pattern: the inputs that each element of an array depends on, as sets that elements share.

A `Pattern` gives each element the number of a set of inputs; elements that were copied from one another, or that all
depend on the same inputs, share one. So moving data moves numbers alone, and a full dependence costs one set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

__all__ = ["Part", "Pattern", "count_each", "distinct", "identity", "joined", "repeat"]

Ints = np.ndarray[Any, np.dtype[np.int64]]

LIMIT = 1 << 24  # elements of sets in one pattern, beyond which they become one set of all


@attrs.frozen(eq=False)
class Pattern:
    """The inputs that each element of an array depends on.

    Attributes:
        width: the number of inputs.
        ids: for each element, in row-major order, the number of its set, or -1 where it depends on nothing.
        starts: where each set begins in ``members``, and where the last one ends.
        members: the inputs in the sets, ascending within each.
    """

    width: int
    ids: Ints
    starts: Ints
    members: Ints

    def entries(self) -> tuple[Ints, Ints]:
        """Return the elements and the inputs they depend on, as pairs in ascending order."""
        rows = np.flatnonzero(self.ids >= 0)
        counts, places = _spread(self.starts, self.ids[rows])
        return repeat(rows, counts), self.members[places]

    def part(self, k: int, count: int) -> Pattern:
        """Return the pattern of the k-th of so many equal parts."""
        size = len(self.ids) // count
        return Pattern(self.width, self.ids[k * size : (k + 1) * size], self.starts, self.members)

    def everything(self, size: int) -> Pattern | None:
        """Return the pattern of ``size`` elements that each depend on all that any element here depends on."""
        found = np.zeros(self.width, bool)
        _, places = _spread(self.starts, distinct(self.ids[self.ids >= 0]))
        found[self.members[places]] = True
        members = np.flatnonzero(found)
        if not len(members):
            return None
        return Pattern(self.width, np.zeros(size, np.int64), np.array([0, len(members)]), members)


@attrs.frozen(eq=False)
class Part:
    """A way of dependence: element ``outs[k]`` of a result reads element ``ins[k]`` of an array of this pattern."""

    pattern: Pattern
    outs: Ints
    ins: Ints


def identity(start: int, size: int, width: int) -> Pattern:
    """Return the pattern of the inputs from ``start`` on: each depends on itself."""
    return Pattern(width, np.arange(size), np.arange(size + 1), np.arange(start, start + size))


def joined(size: int, parts: Sequence[Part]) -> Pattern | None:
    """Return the pattern of an array of ``size`` elements that reads others in these ways; None where in none."""
    if not parts:
        return None
    starts, members, shifts = _stack_sets([p.pattern for p in parts])
    groups = np.concatenate([p.pattern.ids[p.ins] for p in parts])
    alive = groups >= 0
    groups = groups + repeat(shifts, [len(p.ins) for p in parts])
    outs = np.concatenate([p.outs for p in parts])[alive]
    if not len(outs):
        return None
    keys = distinct(outs * (len(starts) - 1) + groups[alive])
    rows, groups = np.divmod(keys, len(starts) - 1)
    width, ids = parts[0].pattern.width, np.full(size, -1, np.int64)
    ids[rows] = groups
    several = np.zeros(len(rows), bool)
    several[1:] = rows[1:] == rows[:-1]
    several[:-1] |= several[1:]
    if several.any():
        ids, starts, members = _unite(ids, rows[several], groups[several], starts, members, width)
    return _prune(Pattern(width, ids, starts, members))


def distinct(numbers: Ints) -> Ints:
    """Return each number once, ascending; sorting is several times faster than `numpy.unique`, which hashes."""
    found = np.sort(numbers)
    return found[np.append(True, found[1:] != found[:-1])] if len(found) else found


def _stack_sets(patterns: Sequence[Pattern]) -> tuple[Ints, Ints, list[int]]:
    """Return the sets of several patterns as one list, each list once, and where those of each pattern begin."""
    seen: dict[int, int] = {}
    starts, members, shifts = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)], list[int]()
    count = total = 0
    for p in patterns:
        if id(p.starts) not in seen:
            seen[id(p.starts)] = count
            starts.append(p.starts[1:] + total)
            members.append(p.members)
            count += len(p.starts) - 1
            total += len(p.members)
        shifts.append(seen[id(p.starts)])
    if len(seen) == 1:
        return patterns[0].starts, patterns[0].members, shifts
    return np.concatenate(starts), np.concatenate(members), shifts


def repeat(values: Any, counts: Any) -> Ints:
    """Return each value so many times; NumPy takes counts of its index type alone, which has 32 bits on some systems."""
    found: Ints = np.repeat(values, np.asarray(counts, np.intp))
    return found


def count_each(numbers: Ints, count: int) -> Ints:
    """Return how often each number below ``count`` occurs."""
    found: Ints = np.bincount(np.asarray(numbers, np.intp), minlength=count)
    return found


def _spread(starts: Ints, groups: Ints) -> tuple[Ints, Ints]:
    """Return how many members each of these sets has, and where they stand, one set after the other."""
    counts = starts[groups + 1] - starts[groups]
    ends = np.cumsum(counts)
    places = np.arange(ends[-1] if len(ends) else 0) + repeat(starts[groups] - (ends - counts), counts)
    return counts, places


def _unite(ids: Ints, rows: Ints, groups: Ints, starts: Ints, members: Ints, width: int) -> tuple[Ints, Ints, Ints]:
    """Give elements that belong to several sets the union of them, a new set each."""
    first = np.append(True, rows[1:] != rows[:-1])
    owners, owner = rows[first], np.cumsum(first) - 1
    if (starts[groups + 1] - starts[groups]).sum() > LIMIT:
        _, places = _spread(starts, distinct(groups))
        union = distinct(members[places])
        ids[owners] = len(starts) - 1
        return ids, np.append(starts, starts[-1] + len(union)), np.concatenate([members, union])
    counts, places = _spread(starts, groups)
    keys = distinct(repeat(owner, counts) * width + members[places])
    owner, inputs = np.divmod(keys, width)
    ends = np.searchsorted(owner, np.arange(len(owners)), side="right")
    ids[owners] = len(starts) - 1 + np.arange(len(owners))
    return ids, np.concatenate([starts, starts[-1] + ends]), np.concatenate([members, inputs])


def _prune(pattern: Pattern) -> Pattern:
    """Forget sets that no element has, once they are the most."""
    count = len(pattern.starts) - 1
    used = np.zeros(count, bool)
    used[pattern.ids[pattern.ids >= 0]] = True
    kept = np.flatnonzero(used)
    if 2 * len(kept) > count:
        return pattern
    counts, places = _spread(pattern.starts, kept)
    number = np.full(count + 1, -1, np.int64)  # the last one stands for -1
    number[kept] = np.arange(len(kept))
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return Pattern(pattern.width, number[pattern.ids], starts, pattern.members[places])
