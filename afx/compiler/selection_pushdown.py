"""Selection pushdown: slices and gathers move before the ops whose results they read, which compute that part alone.

A value that selections alone read, a small part of it together, is computed in that part, and so are its operands. A
demand has an entry for each axis of a value: None for all of it, an interval, or the variable of a vector of indices.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from afx.compiler.graph_builder import GraphBuilder, Params
from afx.compiler.target import Target
from afx.core.aval import Aval, Shape
from afx.core.graph import Atom, Equation, Graph, Var
from afx.core.primitive import primitive_for_role

__all__ = ["Demand", "find_parts", "inline_parts", "kept_axes"]

Selection: TypeAlias = "tuple[int, int] | Var | None"
Demand: TypeAlias = "tuple[Selection, ...]"
# which part of its output an op gives at least, from which of operands
Reads: TypeAlias = "tuple[Demand, list[Demand]]"
VIEWS = ("reshape", "permute", "broadcast")


def _length(n: int, s: Selection) -> int:
    return n if s is None else s.aval.size if isinstance(s, Var) else s[1] - s[0]


def _shape(shape: Shape, demand: Demand) -> Shape:
    return tuple([_length(n, s) for n, s in zip(shape, demand, strict=True)])


def _joined(a: Selection, b: Selection) -> Selection:
    """Return a selection that holds both: the whole axis unless they are equal or intervals."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return min(a[0], b[0]), max(a[1], b[1])
    return a if a == b else None


# -- what ops read --
def _elementwise(eq: Equation, demand: Demand) -> Reads:
    return demand, [_aligned(a.aval.shape, eq.outputs[0].aval.shape, demand) for a in eq.inputs]


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
    have, out = eq.inputs[0].aval.shape, eq.outputs[0].aval.shape
    axes = kept_axes(have, out)
    found = {axis: demand[k] for k, axis in axes.items()}
    given = tuple([s if k in axes else None for k, s in enumerate(demand)])
    return given, [tuple([found.get(k) for k in range(len(have))])]


def _permute(eq: Equation, demand: Demand) -> Reads:
    axes: tuple[int, ...] = eq.keywords["axes"]
    return demand, [tuple([demand[axes.index(k)] for k in range(len(axes))])]


def _broadcast(eq: Equation, demand: Demand) -> Reads:
    _, (found,) = _elementwise(eq, demand)
    passed = (None,) * (len(demand) - len(found)) + found  # an index that is read nowhere would not be checked
    return tuple([None if isinstance(s, Var) and p is None else s for s, p in zip(demand, passed, strict=True)]), [
        found
    ]


def _reduction(eq: Equation, demand: Demand) -> Reads:
    axis, rest = eq.keywords["axis"], iter(demand)
    return demand, [tuple([None if k in axis else next(rest) for k in range(eq.inputs[0].aval.ndim)])]


def _matmul(eq: Equation, demand: Demand) -> Reads:
    (x, y), out = [a.aval for a in eq.inputs], eq.outputs[0].aval.shape
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


RULES: dict[str, Callable[[Equation, Demand], Reads]] = {
    "reshape": _reshape,
    "permute": _permute,
    "broadcast": _broadcast,
    "cast": _elementwise,
    "concat": _concat,
    "stack": _stack,
    "matmul": _matmul,
}


def _reads(eq: Equation, demand: Demand) -> Reads | None:
    """Return what an equation reads for a part of its output, None where no rule knows it."""
    p = eq.primitive
    rule = RULES.get(p.algebra.canonical) or RULES.get("" if p.lowering.ufunc is None else p.lowering.ufunc.__name__)
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
        found = [None if b == (0, n) else b for b, n in zip(bounds, shape, strict=False)]
        return (*found, *[None] * (len(shape) - len(found)))
    if role == "gather" and len(eq.inputs) == 2 and isinstance(eq.inputs[1], Var) and eq.inputs[1].aval.ndim == 1:
        return tuple([eq.inputs[1] if k == eq.keywords["axis"] else None for k in range(len(shape))])
    return None


# -- which values are computed in part --
def find_parts(graph: Graph, target: Target) -> dict[int, Demand]:
    """Return the parts of values that need be computed alone, by their variables' indices."""
    if not any(eq.primitive.algebra.canonical in ("slice", "gather") for eq in graph.equations):
        return {}
    demands: dict[int, Demand | None] = {v.index: None for v in graph.outputs if isinstance(v, Var)}  # None: the whole
    found: dict[int, tuple[Equation, Demand]] = {}
    for eq in reversed(graph.equations):
        wanted = _selected(eq) if eq.primitive.algebra.canonical in ("slice", "gather") else None
        demand = demands.get(eq.outputs[0].index)
        reads = None if demand is None else _part_of(eq, demand, target)
        if reads is not None:
            found[eq.outputs[0].index] = eq, reads[0]
        parts_read = [wanted] if wanted is not None else [] if reads is None else reads[1]
        for k, atom in enumerate(eq.inputs):
            if isinstance(atom, Var):
                part = parts_read[k] if k < len(parts_read) else None
                have = demands.get(atom.index, part)
                demands[atom.index] = None if part is None or have is None else tuple(map(_joined, have, part))
    parts: dict[int, Demand] = {}
    for index, (eq, demand) in reversed(found.items()):
        source = eq.inputs[0]
        if eq.primitive.algebra.canonical not in VIEWS or (isinstance(source, Var) and source.index in parts):
            parts[index] = demand
    return parts


def _part_of(eq: Equation, demand: Demand, target: Target) -> Reads | None:
    """Return what an equation gives and reads where a small part of its output is wanted, None elsewhere."""
    out = eq.outputs[0].aval
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
    names: dict[int, Atom] = {v.index: x for v, x in zip(graph.inputs, inputs, strict=True)}
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
                names[stack.pop().index] = _part(b, maker, names, parts)
            stack += missing
        if is_selected:
            b.locate(eq)
            names[eq.outputs[0].index] = _selection(b, eq, names, parts)
            continue
        new = b.equation(eq, tuple([names[a.index] if isinstance(a, Var) else a for a in eq.inputs]))
        names |= {v.index: x for v, x in zip(eq.outputs, new, strict=True)}
    return [names[a.index] if isinstance(a, Var) else a for a in graph.outputs]


def _part(b: GraphBuilder, eq: Equation, names: dict[int, Atom], parts: dict[int, Demand]) -> Atom:
    """Enter an equation for a part of its output."""
    out, p = eq.outputs[0], eq.primitive
    found = _reads(eq, parts[out.index])
    assert found is not None
    b.locate(eq)
    atoms = tuple([_taken(b, a, d, names, parts) for a, d in zip(eq.inputs, found[1], strict=True)])
    shape = _shape(out.aval.shape, found[0])
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
        new = b.make(primitive_for_role("slice"), (new,), (("index", tuple(index)),))
    for k, (had, want) in enumerate(zip(have, wanted, strict=True)):
        if isinstance(want, Var) and had is None:
            new = b.make(primitive_for_role("gather"), (new, names[want.index]), (("axis", k),))
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
    return b.make(eq.primitive, (x,), (("index", tuple(index)),), eq.outputs[0].aval)
