"""Rules of updates: sums of parts among zeros become updates of those parts, with the same signs of zeros.

A part among zeros is `embed`, the transpose of a slice: the gradient of a value that is read in parts is a sum of them.
A sum of -0.0 and 0.0 is 0.0, so that an element keeps its sign only where each term has a part. Elsewhere 0.0 is added
once, unless a zero of another term has been.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from afx.compiler.graph_builder import GraphBuilder, Params
from afx.core.aval import Aval, Shape
from afx.core.graph import Atom, Equation, Literal
from afx.core.primitive import Primitive, primitive_for_role, with_ufunc

__all__ = ["add_embedded"]


Interval = tuple[int, int]


class Part(NamedTuple):
    """What an index takes: an interval of one axis, and all of the others."""

    axis: int
    start: int
    stop: int


def add_embedded(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A sum x + y, where y is a part among zeros and x a sum of such ones, is x with that part added."""
    for x, y in (xs, xs[::-1]):
        eq = b.made_by(y, "embed")
        if eq is None or x.aval != aval or y.aval != aval or not _is_sum_of_parts(b, x):
            continue
        part = _part(eq, aval.shape)
        if part is None:
            continue
        whole = _joined(b, x, eq, part)
        if whole is not None:
            return whole
        rest = _without(_suspects(b, x, part.axis), (part.start, part.stop))
        if len(rest) < 2:
            z = _add_part(b, x, eq.inputs[0], dict(eq.params)["index"])
            return z if not rest else _add_zeros(b, z, Part(part.axis, *rest[0]))
    return None


def _joined(b: GraphBuilder, x: Atom, last: Equation, part: Part) -> Atom | None:
    """Return a sum of parts that lie side by side and leave nothing out as those joined; -0.0 becomes 0.0, as it does there."""
    found = [(part.start, part.stop, last.inputs[0])]
    for _ in range(b.target.chain_max_terms):
        eq = b.made_by(x, "add_part") or b.made_by(x, "embed")
        at = None if eq is None else _part(eq, x.aval.shape)
        if eq is None or at is None or at.axis != part.axis:
            return None
        values = eq.inputs[-1]
        zeros = b.made_by(values, "broadcast")
        if zeros is None or not isinstance(zeros.inputs[0], Literal) or zeros.inputs[0].value != 0:
            found.append((at.start, at.stop, values))
        if len(eq.inputs) == 1:
            break
        x = eq.inputs[0]
    else:
        return None
    found.sort(key=lambda piece: piece[:2])
    stops = [0, *[stop for _, stop, _ in found]]
    if [start for start, _, _ in found] != stops[:-1] or stops[-1] != x.aval.shape[part.axis]:
        return None
    params = (("axis", part.axis), ("sizes", tuple([stop - start for start, stop, _ in found])))
    joined = b.make(primitive_for_role("concat"), tuple([values for _, _, values in found]), params)
    return b.make(with_ufunc(np.add), (joined, Literal(0.0, Aval((), x.aval.dtype))), (), x.aval)


def _is_sum_of_parts(b: GraphBuilder, x: Atom) -> bool:
    return x.aval.dtype.kind == "f" and (b.made_by(x, "embed") or b.made_by(x, "add_part")) is not None


def _add_part(b: GraphBuilder, x: Atom, values: Atom, index: Any) -> Atom:
    return b.make(primitive_for_role("add_part"), (x, values), (("index", index),), x.aval)


def _add_zeros(b: GraphBuilder, x: Atom, part: Part) -> Atom:
    """Return x with 0.0 added to a part: -0.0 becomes 0.0."""
    shape = x.aval.shape
    index = (*[(0, n, 1) for n in shape[: part.axis]], (part.start, part.stop, 1))
    inner = (*shape[: part.axis], part.stop - part.start, *shape[part.axis + 1 :])
    zeros = b.broadcast(Literal(0.0, Aval((), x.aval.dtype)), inner)
    return _add_part(b, x, zeros, index)


def _part(eq: Equation, shape: Shape) -> Part | None:
    """Return what the index of an update takes; None where that is no interval of one axis."""
    index: tuple[int | tuple[int, int, int] | None, ...] = dict(eq.params)["index"]
    intervals = [entry for entry in index if isinstance(entry, tuple) and entry[2] == 1]
    if len(intervals) < len(index) or len(index) > len(shape):
        return None
    cut = [Part(k, i[0], i[1]) for k, i in enumerate(intervals) if (i[0], i[1]) != (0, shape[k])]
    return cut[0] if len(cut) == 1 else None


def _suspects(b: GraphBuilder, x: Atom, axis: int) -> list[Interval]:
    """Return the intervals of an axis where x may have -0.0."""
    length = x.aval.shape[axis]
    cleared: list[Interval] = []
    for _ in range(b.target.chain_max_terms):
        eq = b.made_by(x, "add_part")
        if eq is None:
            break
        x, values = eq.inputs
        zeros, part = b.made_by(values, "broadcast"), _part(eq, x.aval.shape)
        if zeros is not None and isinstance(zeros.inputs[0], Literal) and part is not None and part.axis == axis:
            cleared.append((part.start, part.stop))
    base = b.made_by(x, "embed")
    part = None if base is None else _part(base, x.aval.shape)
    found = [(0, length)] if part is None or part.axis != axis else [(part.start, part.stop)]
    for interval in cleared:
        found = _without(found, interval)
    return found


def _without(intervals: list[Interval], gone: Interval) -> list[Interval]:
    """Return the parts of intervals that lie outside of another one."""
    pieces = [piece for a, z in intervals for piece in ((a, min(z, gone[0])), (max(a, gone[1]), z))]
    return [(a, z) for a, z in pieces if a < z]
