"""Layout rules: join axes or reorder sums, so that NumPy's and BLAS's loops are few and long."""

from __future__ import annotations

import numpy as np

from afx.compiler.graph_builder import GraphBuilder, Params
from afx.compiler.target import Target
from afx.core.aval import Aval
from afx.core.graph import Atom
from afx.core.primitive import Primitive, primitive_for_role

__all__ = ["collapse_short_last_axis", "split_reduction", "whole_embed", "whole_slice"]


# -- axes of one element --
def whole_slice(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A slice that takes every element in order is a reshape."""
    return _whole(b, xs[0], params, aval)


def whole_embed(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A part that leaves no zeros around it is a reshape."""
    return _whole(b, xs[0], params, aval)


def _whole(b: GraphBuilder, x: Atom, params: Params, aval: Aval) -> Atom | None:
    index: tuple[int | tuple[int, int, int], ...] = dict(params)["index"]
    steps = [entry[2] for entry in index if isinstance(entry, tuple)]
    if x.aval.size != aval.size or not aval.size or x.aval.dtype != aval.dtype or any(step != 1 for step in steps):
        return None
    return b.make(primitive_for_role("reshape"), (x,), (("shape", aval.shape),), aval)


# -- few elements along the last axis --
def _short_rows(x: Aval, target: Target) -> bool:
    """Tell whether loops over the last axis are short, and longer ones over the last two worth a reshape."""
    short = x.ndim > 2 and 0 < x.shape[-1] <= target.collapse_max_axis_length and x.shape[-2] > 1
    return short and x.size >= target.collapse_min_elements


def _joined(b: GraphBuilder, x: Atom) -> Atom:
    """Return x with its last two axes as one."""
    shape = (*x.aval.shape[:-2], x.aval.shape[-2] * x.aval.shape[-1])
    return b.make(primitive_for_role("reshape"), (x,), (("shape", shape),), Aval(shape, x.aval.dtype))


def collapse_short_last_axis(
    b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval
) -> Atom | None:
    """A short vector that meets each row of an array is repeated along the axis before, so that loops are long."""
    if len(xs) != 2 or len(aval.shape) < 3 or not _short_rows(aval, b.target):
        return None
    for k, v in enumerate(xs):
        x = xs[1 - k]
        if v.aval.shape != aval.shape[-1:] or x.aval.shape != aval.shape:
            continue
        row = _joined(b, b.broadcast(v, (1, *aval.shape[-2:])))
        row = b.make(primitive_for_role("reshape"), (row,), (("shape", row.aval.shape[1:]),))
        wide = _joined(b, x)
        both = (row, wide) if k == 0 else (wide, row)
        z = b.make(p, both, params, Aval(wide.aval.shape, aval.dtype))
        return b.make(primitive_for_role("reshape"), (z,), (("shape", aval.shape),), aval)
    return None


def split_reduction(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A sum over all axes but a short last one sums longer rows first; one over all axes sums each row first."""
    x = xs[0]
    axis: tuple[int, ...] = dict(params)["axis"]
    if p.lowering.reduce_ufunc is not np.add or aval.dtype.kind not in "fc" or aval.dtype != x.aval.dtype:
        return None
    everything = axis == tuple(range(x.aval.ndim)) and x.aval.size >= b.target.collapse_min_elements
    if everything and b.target.cuts_rows(x.aval.shape) and b.target.sums_by_dot(x.aval.shape[-1]):
        sums = b.make(p, (x,), (("axis", axis[-1:]),))
        return b.make(p, (sums,), (("axis", axis[:-1]),), aval)
    if axis != tuple(range(x.aval.ndim - 1)) or not _short_rows(x.aval, b.target):
        return None
    row = b.make(p, (_joined(b, x),), (("axis", axis[:-1]),))
    return b.make(
        p, (b.make(primitive_for_role("reshape"), (row,), (("shape", x.aval.shape[-2:]),)),), (("axis", (0,)),), aval
    )
