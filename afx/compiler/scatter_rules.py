"""Rules of scatters: products and sums over the axis of gathered elements add up those elements alone.

A scatter here is the derivative of a gather: zeros, but for the elements that a vector of indices names. The zeros stand
for elements that were not read, whose cotangents are 0 whatever they are multiplied with, infinities among it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from afx.compiler.graph_builder import GraphBuilder, Params
from afx.compiler.patterns import number_of
from afx.compiler.selection_pushdown import kept_axes
from afx.core.aval import Aval
from afx.core.graph import Atom, Equation, Literal, Var
from afx.core.primitive import Primitive, primitive_for_role

__all__ = ["any_selected", "matmul_scattered", "sum_scattered"]


class Scattered(NamedTuple):
    """A scatter along one axis by a vector of indices: ``values`` has their number in place of the axis's length."""

    values: Atom
    at: Var
    axis: int
    length: int


# -- rules --
def matmul_scattered(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A product over the scattered axis is one of the values."""
    for k, x in enumerate(xs if min(x.aval.ndim for x in xs) > 1 and aval.dtype.kind in "fc" else ()):
        found, other = _scattered(b, x), xs[1 - k]
        if found is not None and found.axis == x.aval.ndim - 1 - k:
            part = _gather(b, other, found.at, other.aval.ndim - 2 + k)
            return b.make(p, (part, found.values) if k else (found.values, part), params)
    return None


def sum_scattered(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A sum over the scattered axis is one of the values."""
    found = _scattered(b, xs[0]) if p.lowering.reduce_ufunc is np.add and aval.dtype.kind in "fc" else None
    return b.make(p, (found.values,), params) if found is not None and found.axis in dict(params)["axis"] else None


def any_selected(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """Whether any element of an axis was selected is true where there is an index; that of a number is the number's."""
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
        found = _scatter(b, x)
        is_large = found is not None and found.at.aval.size > b.target.gather_max_share * found.length
        b.notes[key] = _behind(b, eq, depth - 1) if found is None else None if is_large else found
    known: Scattered | None = b.notes[key]
    return known


def _behind(b: GraphBuilder, eq: Equation, depth: int) -> Scattered | None:
    """Return the scatter that the result of an equation equals, where an operand equals one."""
    p, xs, aval = eq.primitive, eq.inputs, eq.outputs[0].aval
    role, ufunc = p.algebra.canonical, p.lowering.ufunc
    if role in ("reshape", "permute"):
        found = _scattered(b, xs[0], depth)
        axes = {} if found is None else _axes(eq)
        if found is None or found.axis not in axes:
            return None
        axis = axes[found.axis]
        shape = (*aval.shape[:axis], found.at.aval.size, *aval.shape[axis + 1 :])
        params = tuple([(name, shape if name == "shape" else value) for name, value in eq.params])
        return found._replace(values=b.make(p, (found.values,), params, Aval(shape, aval.dtype)), axis=axis)
    if role == "select" and number_of(b, xs[2]) == 0 and xs[1].aval == aval:
        found = _scattered(b, xs[1], depth)
        return found if found is not None and _is_mask(b, xs[0], found.axis - aval.ndim, found.at) else None
    for x in xs if ufunc in (np.multiply, np.negative) else xs[:1] if ufunc is np.divide else ():
        if x.aval.ndim == aval.ndim and x.aval.dtype == aval.dtype and xs.count(x) == 1:
            found = _scattered(b, x, depth)
            if found is not None:
                values = tuple([found.values if y is x else _beside(b, y, aval, found) for y in xs])
                return found._replace(values=b.make(p, values, eq.params))
    return None


def _axes(eq: Equation) -> dict[int, int]:
    """Return which axes of a reshaped or permuted value are which axes of the result."""
    if eq.primitive.algebra.canonical == "permute":
        return {source: k for k, source in enumerate(eq.keywords["axes"])}
    return {source: k for k, source in kept_axes(eq.inputs[0].aval.shape, eq.outputs[0].aval.shape).items()}


def _beside(b: GraphBuilder, x: Atom, aval: Aval, found: Scattered) -> Atom:
    """Return the elements of an operand that meet those that were scattered."""
    axis = found.axis - aval.ndim + x.aval.ndim
    return x if axis < 0 or x.aval.shape[axis] != found.length else _gather(b, x, found.at, axis)


def _gather(b: GraphBuilder, x: Atom, at: Var, axis: int) -> Atom:
    """Return elements of an operand, before it is masked, or permuted: NumPy's take would copy all of it."""
    eq = b.defining_equation(x)
    role = "" if eq is None else eq.primitive.algebra.canonical
    if eq is not None and role == "permute":
        return b.make(eq.primitive, (_gather(b, eq.inputs[0], at, eq.keywords["axes"][axis]),), eq.params)
    if eq is not None and role == "select" and eq.inputs[1].aval == x.aval:
        x = eq.inputs[1] if _is_mask(b, eq.inputs[0], axis - x.aval.ndim, at) else x
    return b.make(primitive_for_role("gather"), (x, at), (("axis", axis),))


# -- masks --
def _is_mask(b: GraphBuilder, mask: Atom, axis: int, at: Var) -> bool:
    """Tell whether a mask is true at the elements of an axis (counted from the last) that these indices name alone."""
    marked, known = _marked(b, mask, axis), b.captured(at)
    if isinstance(marked, Var) or marked is None or known is None:
        return bool(marked == at)
    rows = np.moveaxis(marked, axis, -1) != 0
    wanted = np.zeros(rows.shape[-1], bool)
    wanted[known[(known >= -wanted.size) & (known < wanted.size)]] = True
    return bool((rows == wanted).all())


def _marked(b: GraphBuilder, x: Atom, axis: int) -> Any:
    """Return the indices along an axis (counted from the last) that a mask marks, or the constant that it is made of."""
    for _ in range(b.target.scatter_max_equations):
        eq, found = b.defining_equation(x), _scatter(b, x)
        if eq is None:
            values = b.captured(x)
            return values if values is not None and values.ndim >= -axis else None
        if found is not None:
            n = number_of(b, found.values)
            return found.at if n is not None and n > 0 and found.axis == axis + x.aval.ndim else None
        role, source = eq.primitive.algebra.canonical, eq.inputs[0]
        axes = {k: k for k in range(-source.aval.ndim, 0)}
        if role == "broadcast":
            axes = {k: k for k in axes if source.aval.shape[k] == x.aval.shape[k]}
        elif role in ("reshape", "permute"):
            axes = {k - x.aval.ndim: source_k - source.aval.ndim for source_k, k in _axes(eq).items()}
        elif role == "reduce_or":
            kept = [k for k in axes if k + source.aval.ndim not in eq.keywords["axis"]]
            axes = {k - len(kept): source_k for k, source_k in enumerate(kept)}
        elif role != "cast" and (eq.primitive.lowering.ufunc is not np.not_equal or number_of(b, eq.inputs[1]) != 0):
            return None
        if axis not in axes:
            return None
        x, axis = source, axes[axis]
    return None
