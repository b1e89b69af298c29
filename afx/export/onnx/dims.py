"""Lengths: what a program's numbers are in terms of its dynamic axes, found by tracing it at several of their lengths.

A length is a polynomial that is linear in each axis (``batch``, ``2*batch + 1``, ``batch*time``): a flattened axis is a product,
a joined one a sum. Its coefficients follow from a trace at each corner of a grid; one more trace verifies them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import numpy as np

from afx.errors import ExportError

__all__ = ["Dim", "Grid", "Length", "Ratio", "product"]

Term: TypeAlias = tuple[str, ...]
PLAIN = {
    bool,
    int,
    float,
    complex,
    str,
    tuple,
    type(None),
    *[type(np.dtype(c)) for c in np.typecodes["All"] if c not in "OVSUMm"],
}  # parameters that compare by value
MOST_FACTOR = 64  # of a length, within a float that is a ratio of numbers and lengths


@attrs.frozen
class Dim:
    """A length that depends on dynamic axes.

    Attributes:
        terms: coefficients of products of axes; that of no axis stands under ``()``.

    >>> batch = Dim(((("batch",), 1),))
    >>> print(2 * batch + 1, "|", batch - batch)
    2*batch + 1 | 0
    """

    terms: tuple[tuple[Term, int], ...]

    @property
    def known(self) -> dict[Term, int]:
        """The coefficients by products of axes."""
        return dict(self.terms)

    def __add__(self, other: Length) -> Length:
        found = self.known
        for term, c in _terms(other).items():
            found[term] = found.get(term, 0) + c
        return _make(found)

    def __mul__(self, other: Length) -> Length:
        found: dict[Term, int] = {}
        for (one, c), (two, d) in itertools.product(self.terms, _terms(other).items()):
            term = tuple(sorted((*one, *two)))
            found[term] = found.get(term, 0) + c * d
        return _make(found)

    def __neg__(self) -> Length:
        return self * -1

    def __sub__(self, other: Length) -> Length:
        return self + -other

    def __rsub__(self, other: Length) -> Length:
        return -self + other

    __radd__ = __add__
    __rmul__ = __mul__

    def __str__(self) -> str:
        parts = [
            "*".join([*([str(c)] if c != 1 or not term else []), *term])
            for term, c in sorted(self.terms, key=lambda item: -len(item[0]))
        ]
        return " + ".join(parts)

    def at(self, lengths: Mapping[str, int]) -> int:
        """Return the length at lengths of the axes."""
        return sum([c * math.prod([lengths[axis] for axis in term]) for term, c in self.terms])


Length: TypeAlias = int | Dim


@attrs.frozen
class Ratio:
    """A float that is a length times or divided by: a mean's factor.

    Attributes:
        factor: a number.
        length: what it is multiplied with, or divided by.
        divides: whether it is divided.
    """

    factor: float
    length: Length
    divides: bool


def product(lengths: Sequence[Length]) -> Length:
    """Return the number of elements of a shape."""
    found: Length = 1
    for n in lengths:
        found = found * n
    return found


def _terms(x: Length) -> dict[Term, int]:
    return x.known if isinstance(x, Dim) else {(): x}


def _make(terms: Mapping[Term, int]) -> Length:
    kept = {term: c for term, c in terms.items() if c}
    if kept.keys() <= {()}:
        return kept.get((), 0)
    return Dim(tuple(sorted(kept.items())))


class Grid:
    """The lengths at which a program is traced: two of each dynamic axis in all combinations, and a third of all.

    Attributes:
        points: the lengths of the axes of each trace.
    """

    def __init__(self, axes: Sequence[str]) -> None:
        self.axes: tuple[str, ...] = tuple(axes)
        # lengths that are divided by few of the same numbers, and apart from another's
        low, high, third = ([start + 30 * k for k in range(len(axes))] for start in (12, 17, 23))
        corners = itertools.product(*zip(low, high, strict=True)) if axes else [()]
        self.points: list[dict[str, int]] = [dict(zip(self.axes, corner, strict=True)) for corner in corners]
        if axes:
            self.points.append(dict(zip(self.axes, third, strict=True)))

    def fit(self, values: Sequence[int]) -> Length | None:
        """Return the length that has these values at the points, None where no polynomial has."""
        if all(v == values[0] for v in values):
            return values[0]
        found = self._fit(list(values[:-1]), 0)
        if found is None or any(_value(found, p) != v for p, v in zip(self.points, values, strict=True)):
            return None
        return found

    def _fit(self, values: list[int], k: int) -> Length | None:
        if len(values) == 1:
            return values[0]
        half, axis = len(values) // 2, self.axes[k]
        low, high = self._fit(values[:half], k + 1), self._fit(values[half:], k + 1)
        if low is None or high is None:
            return None
        first, last = self.points[0][axis], self.points[len(self.points) - 2][axis]
        slope = _terms(high - low)
        if any(c % (last - first) for c in slope.values()):
            return None
        steep = _make({term: c // (last - first) for term, c in slope.items()})
        return low - steep * first + steep * Dim((((axis,), 1),))

    def fit_float(self, values: Sequence[float]) -> float | Ratio | None:
        """Return the number, or the ratio, that has these values at the points."""
        if all(repr(v) == repr(values[0]) for v in values):
            return values[0]
        if not all(math.isfinite(v) and v for v in values):
            return None
        near = 1e-6 if all(np.float32(v) == v for v in values) else 1e-12  # literals of float32 are rounded to it
        for factor, divides in itertools.product(range(1, MOST_FACTOR + 1), (False, True)):
            whole = [factor / v if divides else factor * v for v in values]
            if all(math.isclose(v, round(v), rel_tol=near) for v in whole):
                length = self.fit([round(v) for v in whole])
                if length is not None:
                    return Ratio(float(factor) if divides else 1.0 / factor, length, divides)
        return self._fit_factor(values)

    def _fit_factor(self, values: Sequence[float]) -> Ratio | None:
        some = [c for n in range(1, len(self.axes) + 1) for c in itertools.combinations(self.axes, n)]
        for term, divides in itertools.product(some, (True, False)):
            lengths = [math.prod([p[axis] for axis in term]) for p in self.points]
            factors = [v * n if divides else v / n for v, n in zip(values, lengths, strict=True)]
            if all(math.isclose(f, factors[0], rel_tol=1e-6) for f in factors):
                return Ratio(factors[0], Dim(((tuple(sorted(term)), 1),)), divides)
        return None

    def merge(self, values: Sequence[Any], refuse: Callable[[str], ExportError]) -> Any:
        """Return a parameter in terms of the axes, from what it is at each point.

        Raises:
            ExportError: of ``refuse``, where it is no polynomial.
        """
        first: Any = values[0]
        found: Any = None
        lengths = {len(v) if v.__class__ is tuple else -1 for v in values}
        if len(lengths) == 1 and -1 not in lengths:
            return tuple([self.merge(items, refuse) for items in zip(*values, strict=True)])
        if all(type(v) is int for v in values):
            found = self.fit(values)
        elif all(type(v) is float for v in values):
            found = self.fit_float(values)
        elif first.__class__ not in PLAIN or all(v == first for v in values):
            return first  # of graphs, the equations are merged by themselves
        if found is None:
            points = [tuple(p.values()) for p in self.points]
            raise refuse(f"{list(values)} where {' and '.join(self.axes)} are {points}")
        return found


def _value(length: Length, point: Mapping[str, int]) -> int:
    return length.at(point) if isinstance(length, Dim) else length
