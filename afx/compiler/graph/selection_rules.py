"""Selection rules: slices, gathers, scatters and updates move to where they leave least to compute."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from afx.compiler.graph.builder import GraphBuilder, Params, Role, number_of
from afx.compiler.target import Target
from afx.core import Aval, Primitive, Shape, with_ufunc
from afx.core.graph import Atom, Atoms, Equation, Graph, Literal, Var

# --- Selection pushdown: slices and gathers move before the ops whose results they read, which compute that part
# alone
#
# A value that selections alone read, a small part of it together, is computed in that part, and so are its operands:
# vertices of a mesh by which a hand is tracked (18 times as fast), gates of recurrent cells in gradients, normalizing
# flows, sequences of characters.
# A demand has an entry for each axis of a value: None for all of it, an interval, or the variable of a vector of
# indices.

Selection: TypeAlias = "tuple[int, int] | Var | None"
Demand: TypeAlias = "tuple[Selection, ...]"
# which part of its output an op gives at least, from which of operands
Reads: TypeAlias = "tuple[Demand, list[Demand]]"
VIEWS = ("reshape", "permute", "broadcast")


def _length(n: int, s: Selection) -> int:
    return n if s is None else s.aval.size if isinstance(s, Var) else s[1] - s[0]


def _shape(shape: Shape, demand: Demand) -> Shape:
    return tuple([_length(n, s) for n, s in zip(shape, demand, strict=True)])


def _union(a: Selection, b: Selection) -> Selection:
    """Return a selection that holds both: the whole axis unless they are equal or intervals."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return min(a[0], b[0]), max(a[1], b[1])
    return a if a == b else None


# -- what ops read --
def _elementwise(eq: Equation, demand: Demand) -> Reads:
    return demand, [_aligned(a.aval.shape, eq.aval.shape, demand) for a in eq.inputs]


def _aligned(shape: Shape, out: Shape, demand: Demand) -> Demand:
    """Return the part of an operand that broadcasts to the part of a result."""
    lead = len(out) - len(shape)
    return tuple([s if n == m else None for n, m, s in zip(shape, out[lead:], demand[lead:], strict=True)])


def kept_axes(source: Shape, target: Shape) -> dict[int, int]:
    """Return which axes of the result of a reshape are axes of its operand.

    >>> kept_axes((2, 6, 5), (2, 2, 3, 5))
    {0: 0, 3: 2}
    """
    if 0 in source:
        return {}
    have = {(math.prod(source[:k]), n): k for k, n in enumerate(source) if n > 1}
    axes = [(k, have.get((math.prod(target[:k]), n))) for k, n in enumerate(target)]
    return {k: axis for k, axis in axes if axis is not None}


def _reshape(eq: Equation, demand: Demand) -> Reads:
    have, out = eq.inputs[0].aval.shape, eq.aval.shape
    axes = kept_axes(have, out)
    demands = {axis: demand[k] for k, axis in axes.items()}
    given = tuple([s if k in axes else None for k, s in enumerate(demand)])
    return given, [tuple(map(demands.get, range(len(have))))]


def _permute(eq: Equation, demand: Demand) -> Reads:
    axes: tuple[int, ...] = eq.keywords["axes"]
    return demand, [tuple([demand[axes.index(k)] for k in range(len(axes))])]


def _broadcast(eq: Equation, demand: Demand) -> Reads:
    _, (own,) = _elementwise(eq, demand)
    passed = (None,) * (len(demand) - len(own)) + own  # an index that is read nowhere would not be checked
    return tuple([None if isinstance(s, Var) and p is None else s for s, p in zip(demand, passed, strict=True)]), [own]


def _reduction(eq: Equation, demand: Demand) -> Reads:
    axis, rest = eq.keywords["axis"], iter(demand)
    return demand, [tuple([None if k in axis else next(rest) for k in range(eq.inputs[0].aval.ndim)])]


def _matmul(eq: Equation, demand: Demand) -> Reads:
    (x, y), out = eq.avals, eq.aval.shape
    lead = len(out) - (x.ndim > 1) - (y.ndim > 1)
    first, second = [_aligned(v.shape[:-2], out[:lead], demand[:lead]) for v in (x, y)]
    rows = demand[lead : lead + (x.ndim > 1)]
    return demand, [(*first, *rows, None), (*second, None, demand[-1]) if y.ndim > 1 else (None,)]


def _concat(eq: Equation, demand: Demand) -> Reads:
    axis: int = eq.keywords["axis"]
    given = (*demand[:axis], None, *demand[axis + 1 :])
    return given, [given] * len(eq.inputs)


def _stack(eq: Equation, demand: Demand) -> Reads:
    given, _ = _concat(eq, demand)
    axis: int = eq.keywords["axis"]
    return given, [given[:axis] + given[axis + 1 :]] * len(eq.inputs)


RULES: dict[Role, Callable[[Equation, Demand], Reads]] = {
    "reshape": _reshape,
    "permute": _permute,
    "broadcast": _broadcast,
    "cast": _elementwise,
    "concat": _concat,
    "stack": _stack,
    np.matmul: _matmul,
}


def _reads(eq: Equation, demand: Demand) -> Reads | None:
    """Return what an equation reads for a part of its output, None where no rule knows it."""
    p = eq.primitive
    rule = RULES.get(p.algebra.canonical) or RULES.get(p.lowering.ufunc)
    if rule is None and (p.is_elementwise or p.kind == "reduction" or p.lowering.reduce_ufunc is not None):
        rule = _elementwise if p.is_elementwise else _reduction
    return None if rule is None else rule(eq, demand)


def _selected(eq: Equation) -> Demand | None:
    """Return which part of its operand a slice or gather reads, None for other ops."""
    role, shape = eq.primitive.algebra.canonical, eq.inputs[0].aval.shape if eq.inputs else ()
    if role == "slice":
        entries = [e for e in eq.keywords["index"] if e is not None]
        places = [range(e, e + 1) if isinstance(e, int) else range(*e) for e in entries]
        bounds = [(min(p), max(p) + 1) if p else (0, 0) for p in places]
        selection = [None if b == (0, n) else b for b, n in zip(bounds, shape, strict=False)]
        return (*selection, *[None] * (len(shape) - len(selection)))
    if role == "gather" and len(eq.inputs) == 2 and isinstance(eq.inputs[1], Var) and eq.inputs[1].aval.ndim == 1:
        return tuple([eq.inputs[1] if k == eq.keywords["axis"] else None for k in range(len(shape))])
    return None


# -- which values are computed in part --
def find_parts(graph: Graph, target: Target) -> dict[int, Demand]:
    """Return the parts of values that need be computed alone, by their variables' indices."""
    if not any(eq.primitive.algebra.canonical in ("slice", "gather") for eq in graph.equations):
        return {}
    demands: dict[int, Demand | None] = {v.index: None for v in graph.outputs if isinstance(v, Var)}  # None: the whole
    selected: dict[int, tuple[Equation, Demand]] = {}
    for eq in reversed(graph.equations):
        wanted = _selected(eq) if eq.primitive.algebra.canonical in ("slice", "gather") else None
        demand = demands.get(eq.outputs[0].index)
        reads = None if demand is None else _part_of(eq, demand, target)
        if reads is not None:
            selected[eq.outputs[0].index] = eq, reads[0]
        parts_read = [wanted] if wanted is not None else [] if reads is None else reads[1]
        for k, atom in enumerate(eq.inputs):
            if isinstance(atom, Var):
                part = parts_read[k] if k < len(parts_read) else None
                have = demands.get(atom.index, part)
                demands[atom.index] = None if part is None or have is None else tuple(map(_union, have, part))
    parts: dict[int, Demand] = {}
    for index, (eq, demand) in reversed(selected.items()):
        source = eq.inputs[0]
        if eq.primitive.algebra.canonical not in VIEWS or (isinstance(source, Var) and source.index in parts):
            parts[index] = demand
    return parts


def _part_of(eq: Equation, demand: Demand, target: Target) -> Reads | None:
    """Return what an equation gives and reads where a small part of its output is wanted, None elsewhere."""
    out = eq.aval
    if not any(demand) or len(eq.outputs) != 1:
        return None
    reads = _reads(eq, demand)
    if reads is None or not any(reads[0]):
        return None
    if eq.primitive.algebra.canonical in VIEWS:
        return reads
    share = target.gather_max_share if any(isinstance(s, Var) for s in reads[0]) else target.slice_max_share
    is_small = math.prod(_shape(out.shape, reads[0])) <= share * out.size
    return reads if is_small and out.size >= target.select_min_elements else None


# -- the new graph --
def inline_parts(b: GraphBuilder, graph: Graph, inputs: Sequence[Atom], parts: dict[int, Demand]) -> list[Atom]:
    """Enter the equations of a graph; those of parts follow where the first selection reads them."""
    names = {v.index: x for v, x in zip(graph.inputs, inputs, strict=True)}
    names |= {v.index: b.constant(c, v.aval) for v, c in graph.constants}
    makers = {eq.outputs[0].index: eq for eq in graph.equations if eq.outputs[0].index in parts}
    for eq in graph.equations:
        if eq.outputs[0].index in parts:
            continue
        stack = [a for a in eq.inputs if isinstance(a, Var) and a.index not in names]
        is_selected = bool(stack) or any(isinstance(a, Var) and a.index in parts for a in eq.inputs)
        while stack:
            maker = makers[stack[-1].index]
            missing = [a for a in maker.inputs if isinstance(a, Var) and a.index not in names]
            if not missing:
                names[stack.pop().index] = _select_operands(b, maker, names, parts)
            stack += missing
        if is_selected:
            b.locate(eq)
            names[eq.outputs[0].index] = _selection(b, eq, names, parts)
            continue
        new = b.equation(eq, tuple([names[a.index] if isinstance(a, Var) else a for a in eq.inputs]))
        names |= {v.index: x for v, x in zip(eq.outputs, new, strict=True)}
    return [names[a.index] if isinstance(a, Var) else a for a in graph.outputs]


def _select_operands(b: GraphBuilder, eq: Equation, names: dict[int, Atom], parts: dict[int, Demand]) -> Atom:
    """Enter an equation for a part of its output."""
    out, p = eq.outputs[0], eq.primitive
    reads = _reads(eq, parts[out.index])
    assert reads is not None
    b.locate(eq)
    atoms = tuple([_taken(b, a, d, names, parts) for a, d in zip(eq.inputs, reads[1], strict=True)])
    shape = _shape(out.aval.shape, reads[0])
    params: Params = tuple([(k, shape if k == "shape" else v) for k, v in eq.params])
    return b.make(p, atoms, params, Aval(shape, out.aval.dtype))


def _taken(b: GraphBuilder, x: Atom, wanted: Demand, names: dict[int, Atom], parts: dict[int, Demand]) -> Atom:
    """Return a part of a value, of which a part that holds it may be all there is."""
    if not isinstance(x, Var):
        return x
    new, have = names[x.index], parts.get(x.index, (None,) * x.aval.ndim)
    index = [(0, n, 1) for n in new.aval.shape]
    for k, (had, want) in enumerate(zip(have, wanted, strict=True)):
        if isinstance(want, tuple):
            start = had[0] if isinstance(had, tuple) else 0
            index[k] = (want[0] - start, want[1] - start, 1)
    if index != [(0, n, 1) for n in new.aval.shape]:
        new = b.make("slice", (new,), (("index", tuple(index)),))
    for k, (had, want) in enumerate(zip(have, wanted, strict=True)):
        if isinstance(want, Var) and had is None:
            new = b.make("gather", (new, names[want.index]), (("axis", k),))
    return new


def _selection(b: GraphBuilder, eq: Equation, names: dict[int, Atom], parts: dict[int, Demand]) -> Atom:
    """Enter a slice or gather of a value that is computed in part."""
    source = eq.inputs[0]
    assert isinstance(source, Var)
    if eq.primitive.algebra.canonical == "gather":
        return _taken(b, source, _selected(eq) or (), names, parts)
    starts = iter([s[0] if isinstance(s, tuple) else 0 for s in parts[source.index]])
    index: list[int | tuple[int, int, int] | None] = []
    for e in eq.keywords["index"]:
        at = 0 if e is None else next(starts)
        index.append(e if e is None else e - at if isinstance(e, int) else (e[0] - at, max(e[1] - at, -1), e[2]))
    x = names[source.index]
    if index == [(0, n, 1) for n in x.aval.shape[: len(index)]]:
        return x
    return b.make(eq.primitive, (x,), (("index", tuple(index)),), eq.aval)


# --- Rules of scatters: products and sums over the axis of gathered elements add up those elements alone
#
# A scatter here is the derivative of a gather: zeros, but for the elements that a vector of indices names. The zeros
# stand for elements that were not read, whose cotangents are 0 whatever they are multiplied with, infinities among
# it.


class Scattered(NamedTuple):
    """A scatter along one axis by a vector of indices: ``values`` has their number in place of the axis's length."""

    values: Atom
    at: Var
    axis: int
    length: int


# -- rules --
def matmul_scattered(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """A product over the scattered axis is one of the values: in gradients of some vertices of a mesh."""
    for k, x in enumerate(xs if min(x.aval.ndim for x in xs) > 1 and aval.dtype.kind in "fc" else ()):
        scattered, other = _scattered(b, x), xs[1 - k]
        if scattered is not None and scattered.axis == x.aval.ndim - 1 - k:
            part = _gather(b, other, scattered.at, other.aval.ndim - 2 + k)
            return b.make(p, (part, scattered.values) if k else (scattered.values, part), params)
    return None


def any_selected(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """`any` of a mask that marks indices is true, if there is an index; of one that is a number everywhere it is that."""
    x, n = xs[0], number_of(b, xs[0])
    marked = [_marked(b, x, axis - x.aval.ndim) for axis in dict(params)["axis"]]
    if any(isinstance(at, Var) and at.aval.size for at in marked):
        n = True
    return b.broadcast(Literal(bool(n), Aval((), aval.dtype)), aval.shape) if n is not None and x.aval.size else None


# -- scatters --
def _scatter(b: GraphBuilder, x: Atom) -> Scattered | None:
    """Return the scatter that a value is."""
    eq = b.made_by(x, "scatter")
    if eq is None or len(eq.inputs) != 2 or not isinstance(eq.inputs[1], Var) or eq.inputs[1].aval.ndim != 1:
        return None
    axis: int = eq.keywords["axis"]
    return Scattered(eq.inputs[0], eq.inputs[1], axis, x.aval.shape[axis])


def _scattered(b: GraphBuilder, x: Atom, depth: int | None = None) -> Scattered | None:
    """Return a scatter of few values that a value equals; equations for them are entered."""
    if "scatter" not in b.made:
        return None
    eq = b.defining_equation(x)
    depth = b.target.scatter_max_equations if depth is None else depth
    if eq is None or not depth:
        return None
    key = (_scattered, eq.outputs[0].index)
    if key not in b.notes:
        scattered = _scatter(b, x)
        is_large = scattered is not None and scattered.at.aval.size > b.target.gather_max_share * scattered.length
        b.notes[key] = _behind(b, eq, depth - 1) if scattered is None else None if is_large else scattered
    known: Scattered | None = b.notes[key]
    return known


def _view_behind(b: GraphBuilder, eq: Equation, depth: int) -> Scattered | None:
    """Return the scatter that a view equals, where its operand equals one along an axis that stays."""
    scattered, aval = _scattered(b, eq.inputs[0], depth), eq.aval
    axes = {} if scattered is None else _axes(eq)
    if scattered is None or scattered.axis not in axes:
        return None
    axis = axes[scattered.axis]
    shape = (*aval.shape[:axis], scattered.at.aval.size, *aval.shape[axis + 1 :])
    params = tuple([(name, shape if name == "shape" else value) for name, value in eq.params])
    values = b.make(eq.primitive, (scattered.values,), params, Aval(shape, aval.dtype))
    return scattered._replace(values=values, axis=axis)


def _behind(b: GraphBuilder, eq: Equation, depth: int) -> Scattered | None:
    """Return the scatter that the result of an equation equals, where an operand equals one."""
    p, xs, aval = eq.primitive, eq.inputs, eq.aval
    role, ufunc = p.algebra.canonical, p.lowering.ufunc
    if role in ("reshape", "permute"):
        return _view_behind(b, eq, depth)
    if role == "select" and number_of(b, xs[2]) == 0 and xs[1].aval == aval:
        scattered = _scattered(b, xs[1], depth)
        return (
            scattered
            if scattered is not None and _is_mask(b, xs[0], scattered.axis - aval.ndim, scattered.at)
            else None
        )
    for x in xs if ufunc in (np.multiply, np.negative) else xs[:1] if ufunc is np.divide else ():
        if x.aval.ndim == aval.ndim and x.aval.dtype == aval.dtype and xs.count(x) == 1:
            scattered = _scattered(b, x, depth)
            if scattered is not None:
                values = tuple([scattered.values if y is x else _beside(b, y, aval, scattered) for y in xs])
                return scattered._replace(values=b.make(p, values, eq.params))
    return None


def _axes(eq: Equation) -> dict[int, int]:
    """Return which axes of a reshaped or permuted value are which axes of the result."""
    if eq.primitive.algebra.canonical == "permute":
        return {source: k for k, source in enumerate(eq.keywords["axes"])}
    return {source: k for k, source in kept_axes(eq.inputs[0].aval.shape, eq.aval.shape).items()}


def _beside(b: GraphBuilder, x: Atom, aval: Aval, scattered: Scattered) -> Atom:
    """Return the elements of an operand that meet those that were scattered."""
    axis = scattered.axis - aval.ndim + x.aval.ndim
    return x if axis < 0 or x.aval.shape[axis] != scattered.length else _gather(b, x, scattered.at, axis)


def _gather(b: GraphBuilder, x: Atom, at: Var, axis: int) -> Atom:
    """Return elements of an operand, before it is masked, or permuted: NumPy's take would copy all of it."""
    eq = b.defining_equation(x)
    role = "" if eq is None else eq.primitive.algebra.canonical
    if eq is not None and role == "permute":
        return b.make(eq.primitive, (_gather(b, eq.inputs[0], at, eq.keywords["axes"][axis]),), eq.params)
    if eq is not None and role == "select" and eq.inputs[1].aval == x.aval:
        x = eq.inputs[1] if _is_mask(b, eq.inputs[0], axis - x.aval.ndim, at) else x
    return b.make("gather", (x, at), (("axis", axis),))


# -- masks --
def _is_mask(b: GraphBuilder, mask: Atom, axis: int, at: Var) -> bool:
    """Tell whether a mask is true at the elements of an axis (counted from the last) that these indices name alone."""
    marked, known = _marked(b, mask, axis), b.captured(at)
    if isinstance(marked, Var) or marked is None or known is None:
        return isinstance(marked, Var) and marked == at
    rows = np.moveaxis(marked, axis, -1) != 0
    wanted = np.zeros(rows.shape[-1], bool)
    wanted[known[(known >= -wanted.size) & (known < wanted.size)]] = True
    return bool((rows == wanted).all())


def _marked(b: GraphBuilder, x: Atom, axis: int) -> Any:
    """Return the indices along an axis (counted from the last) that a mask marks, or the constant that it is made of."""
    for _ in range(b.target.scatter_max_equations):
        eq, scattered = b.defining_equation(x), _scatter(b, x)
        if eq is None:
            values = b.captured(x)
            return values if values is not None and values.ndim >= -axis else None
        if scattered is not None:
            n = number_of(b, scattered.values)
            return scattered.at if n is not None and n > 0 and scattered.axis == axis + x.aval.ndim else None
        role, source = eq.primitive.algebra.canonical, eq.inputs[0]
        axes = {k: k for k in range(-source.aval.ndim, 0)}
        if role == "broadcast":
            axes = {k: k for k in axes if source.aval.shape[k] == x.aval.shape[k]}
        elif role in ("reshape", "permute"):
            axes = {k - x.aval.ndim: source_k - source.aval.ndim for source_k, k in _axes(eq).items()}
        elif role == "reduce_or":
            unreduced = [k for k in axes if k + source.aval.ndim not in eq.keywords["axis"]]
            axes = {k - len(unreduced): source_k for k, source_k in enumerate(unreduced)}
        elif role != "cast" and (eq.primitive.lowering.ufunc is not np.not_equal or number_of(b, eq.inputs[1]) != 0):
            return None
        if axis not in axes:
            return None
        x, axis = source, axes[axis]
    return None


# --- Rules of updates: sums of parts among zeros become updates of those parts, with the same signs of zeros
#
# A part among zeros is `embed`, the transpose of a slice: the gradient of a value that is read in parts is a sum of
# them. A sum of -0.0 and 0.0 is 0.0, so that an element keeps its sign only where each term has a part. Elsewhere 0.0
# is added once, unless a zero of another term has been.

Interval = tuple[int, int]


class IndexPart(NamedTuple):
    """What an index takes: an interval of one axis, and all of the others."""

    axis: int
    start: int
    stop: int


def add_embedded(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """A sum x + y, where y is a part among zeros and x a sum of such ones, is x with that part added."""
    for x, y in (xs, xs[::-1]):
        eq = b.made_by(y, "embed")
        if eq is None or x.aval != aval or y.aval != aval or not _is_sum_of_parts(b, x):
            continue
        part = _read_part(eq, aval.shape)
        if part is None:
            continue
        whole = _join_updates(b, x, eq, part)
        if whole is not None:
            return whole
        rest = _without(_suspects(b, x, part.axis), (part.start, part.stop))
        if len(rest) < 2:
            z = _add_part(b, x, eq.inputs[0], dict(eq.params)["index"])
            return z if not rest else _add_zeros(b, z, IndexPart(part.axis, *rest[0]))
    return None


def _join_updates(b: GraphBuilder, x: Atom, last: Equation, part: IndexPart) -> Atom | None:
    """Return a sum of parts that lie side by side and leave nothing out as those joined; -0.0 becomes 0.0, as it does there."""
    pieces = [(part.start, part.stop, last.inputs[0])]
    for _ in range(b.target.chain_max_terms):
        eq = b.made_by(x, "add_part") or b.made_by(x, "embed")
        at = None if eq is None else _read_part(eq, x.aval.shape)
        if eq is None or at is None or at.axis != part.axis:
            return None
        values = eq.inputs[-1]
        zeros = b.made_by(values, "broadcast")
        if zeros is None or not isinstance(zeros.inputs[0], Literal) or zeros.inputs[0].value != 0:
            pieces.append((at.start, at.stop, values))
        if len(eq.inputs) == 1:
            break
        x = eq.inputs[0]
    else:
        return None
    pieces.sort(key=lambda piece: piece[:2])
    stops = [0, *[stop for _, stop, _ in pieces]]
    if [start for start, _, _ in pieces] != stops[:-1] or stops[-1] != x.aval.shape[part.axis]:
        return None
    params = (("axis", part.axis), ("sizes", tuple([stop - start for start, stop, _ in pieces])))
    joined = b.make("concat", tuple([values for _, _, values in pieces]), params)
    return b.make(with_ufunc(np.add), (joined, Literal(0.0, Aval((), x.aval.dtype))), (), x.aval)


def _is_sum_of_parts(b: GraphBuilder, x: Atom) -> bool:
    return x.aval.dtype.kind == "f" and (b.made_by(x, "embed") or b.made_by(x, "add_part")) is not None


def _add_part(b: GraphBuilder, x: Atom, values: Atom, index: Any) -> Atom:
    return b.make("add_part", (x, values), (("index", index),), x.aval)


def _add_zeros(b: GraphBuilder, x: Atom, part: IndexPart) -> Atom:
    """Return x with 0.0 added to a part: -0.0 becomes 0.0."""
    shape = x.aval.shape
    index = (*[(0, n, 1) for n in shape[: part.axis]], (part.start, part.stop, 1))
    inner = (*shape[: part.axis], part.stop - part.start, *shape[part.axis + 1 :])
    return _add_part(b, x, b.broadcast(Literal(0.0, Aval((), x.aval.dtype)), inner), index)


def _read_part(eq: Equation, shape: Shape) -> IndexPart | None:
    """Return what the index of an update takes; None where that is no interval of one axis."""
    index: tuple[int | tuple[int, int, int] | None, ...] = dict(eq.params)["index"]
    intervals = [entry for entry in index if isinstance(entry, tuple) and entry[2] == 1]
    if len(intervals) < len(index) or len(index) > len(shape):
        return None
    cut = [IndexPart(k, i[0], i[1]) for k, i in enumerate(intervals) if (i[0], i[1]) != (0, shape[k])]
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
        zeros, part = b.made_by(values, "broadcast"), _read_part(eq, x.aval.shape)
        if zeros is not None and isinstance(zeros.inputs[0], Literal) and part is not None and part.axis == axis:
            cleared.append((part.start, part.stop))
    base = b.made_by(x, "embed")
    part = None if base is None else _read_part(base, x.aval.shape)
    intervals = [(0, length)] if part is None or part.axis != axis else [(part.start, part.stop)]
    for interval in cleared:
        intervals = _without(intervals, interval)
    return intervals


def _without(intervals: list[Interval], gone: Interval) -> list[Interval]:
    """Return the parts of intervals that lie outside of another one."""
    pieces = [piece for a, z in intervals for piece in ((a, min(z, gone[0])), (max(a, gone[1]), z))]
    return [(a, z) for a, z in pieces if a < z]
