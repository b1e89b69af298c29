"""Masked products: a matrix of which zeros of the other operand leave rows out is multiplied before these are masked.

The derivative of a choice masks both operands of a product, so that infinities and nan among what was not chosen count as
nothing. To copy a matrix for that takes longer than its product with a vector. Where both operands are 0 there, a product
without the mask is the same if it is finite; if it is not, the plan multiplies again, with the mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from afx.compiler.graph_builder import GraphBuilder, Params
from afx.compiler.patterns import number_of
from afx.compiler.target import Target
from afx.core.aval import Aval, Shape
from afx.core.graph import Atom, Equation, Graph, Literal
from afx.core.primitive import Primitive, primitive_for_role, with_ufunc
from afx.core.tracing.graph_trace import FP_ERRORS

__all__ = ["multiply_unmasked"]

DEPTH = 8  # equations that are looked through for the zeros of an operand


class Masked(NamedTuple):
    """A matrix with zeros in some rows or columns.

    Attributes:
        matrix: the same without them.
        chosen: the condition that keeps a row, or an element of the other operand.
        axes: along which any of these keeps it; none where there is one condition for each row.
        shape: of the mask.
        turned: the permutation behind the choice, where there is one.
    """

    matrix: Atom
    chosen: Atom
    axes: Shape
    shape: Shape
    turned: Equation | None


def multiply_unmasked(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A product with a masked matrix is one with the matrix itself, where that is finite."""
    if not b.expanding or aval.dtype.kind not in "fc" or max(x.aval.ndim for x in xs) > 2:
        return None
    for k, other in enumerate(xs[::-1]):
        found = _masked(b, xs[k], 1 - k, other.aval.ndim - 1 if k else 0)
        if found is not None and _is_worth(found, aval, b.target) and _is_zero_outside(b, other, found, DEPTH):
            return _guarded(b, p, params, aval, found, other, k)
    return None


def _is_worth(x: Masked, aval: Aval, target: Target) -> bool:
    size = x.matrix.aval.size
    return size >= target.unmask_min_elements and aval.size <= target.unmask_max_share * size


# -- masks --
def _masked(b: GraphBuilder, x: Atom, axis: int, kept: int) -> Masked | None:
    """Return the matrix of which an operand is a choice along the axis that a product sums over.

    Args:
        b: the graph so far.
        x: the operand.
        axis: the one that is summed over.
        kept: the same axis of the other operand.
    """
    turned = b.made_by(x, "permute")
    choice = b.made_by(x if turned is None else turned.inputs[0], "select")
    if x.aval.ndim != 2 or choice is None or number_of(b, choice.inputs[2]) != 0:
        return None
    mask, matrix, _ = choice.inputs
    if matrix.aval != choice.outputs[0].aval:
        return None
    axis = axis if turned is None else 1 - axis
    repeated = b.made_by(mask, "broadcast")
    mask = mask if repeated is None else repeated.inputs[0]
    shape = (1,) * (2 - mask.aval.ndim) + mask.aval.shape
    if shape[1 - axis] != 1 or shape[axis] != matrix.aval.shape[axis]:
        return None
    rows = _reshaped(b, mask)
    some = b.made_by(rows, "reduce_or")
    if some is None or some.keywords["axis"] != (1 - kept,) or some.inputs[0].aval.ndim != 2:
        return Masked(matrix, rows, (), shape, turned)
    return Masked(matrix, some.inputs[0], (1 - kept,), shape, turned)


def _reshaped(b: GraphBuilder, mask: Atom) -> Atom:
    """Return what a mask was before its elements got another shape, which is whether any of one is true, too."""
    while True:
        eq = b.made_by(mask, "reshape") or b.made_by(mask, "reduce_or")
        if eq is None or eq.inputs[0].aval.size != mask.aval.size or eq.inputs[0].aval.dtype != mask.aval.dtype:
            return mask
        mask = eq.inputs[0]


def _is_zero_outside(b: GraphBuilder, x: Atom, found: Masked, depth: int) -> bool:
    """Tell whether an operand has zeros, or what is not finite, wherever a mask leaves something out."""
    eq = b.defining_equation(x)
    if eq is None or not depth or x.aval.size != found.chosen.aval.size:
        return False
    role, ufunc, xs = eq.primitive.algebra.canonical, eq.primitive.lowering.ufunc, eq.inputs
    if role == "select":
        is_same = (xs[0] if found.axes else _reshaped(b, xs[0])) == found.chosen
        return number_of(b, xs[2]) == 0 and (is_same or _is_zero_outside(b, xs[1], found, depth - 1))
    if ufunc in (np.negative, np.multiply, np.divide) or (role == "reshape" and not found.axes):
        factors = xs[:1] if ufunc is np.divide else xs
        return any(_is_zero_outside(b, v, found, depth - 1) for v in factors)
    return False


# -- products --
def _guarded(b: GraphBuilder, p: Primitive, params: Params, aval: Aval, found: Masked, other: Atom, k: int) -> Atom:
    """Return the product without the mask, and the one with it where that is not finite."""
    matrix, turned = found.matrix, found.turned
    plain = matrix if turned is None else b.make(turned.primitive, (matrix,), turned.params)
    with b.ignoring(FP_ERRORS):
        product = b.make(p, (other, plain) if k else (plain, other), params, aval)
    is_odd = b.make(with_ufunc(np.logical_not), (b.make(with_ufunc(np.isfinite), (product,)),))
    axes = tuple(range(len(aval.shape)))
    is_odd = b.make(primitive_for_role("reduce_or"), (is_odd,), (("axis", axes),))
    number = b.make(primitive_for_role("cast"), (is_odd,), (("dtype", np.dtype(np.int64)),))
    operands = (product, matrix, found.chosen, other)
    inner = GraphBuilder({}, b.target, expanding=False)
    inputs = [inner.var(x.aval) for x in operands]
    result = _masked_product(inner, p, params, found, inputs, k)
    as_it_is = Graph(tuple(inputs), (), (), (inputs[0],))
    again = Graph(tuple(inputs), (), tuple(inner.equations), (result,))
    return b.choose(number, (as_it_is, again), operands)[0]


def _masked_product(
    b: GraphBuilder, p: Primitive, params: Params, found: Masked, inputs: Sequence[Atom], k: int
) -> Atom:
    """Return the product of inputs as it was asked for."""
    _, matrix, mask, other = inputs
    if found.axes:
        mask = b.make(primitive_for_role("reduce_or"), (mask,), (("axis", found.axes),))
    mask = b.make(primitive_for_role("reshape"), (mask,), (("shape", found.shape),))
    masked = b.make(primitive_for_role("select"), (mask, matrix, Literal(0.0, Aval((), matrix.aval.dtype))))
    if found.turned is not None:
        masked = b.make(found.turned.primitive, (masked,), found.turned.params)
    return b.make(p, (other, masked) if k else (masked, other), params)
