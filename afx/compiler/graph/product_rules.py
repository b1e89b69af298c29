"""Product rules: matrix products, and exponentials of masked numbers, as what computes them fastest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from afx.compiler.graph.builder import GraphBuilder, Params, number_of
from afx.compiler.target import Target
from afx.core import Aval, Primitive, Shape, with_ufunc
from afx.core.graph import Atom, Atoms, Equation, Graph, Literal
from afx.core.tracing.traces import FP_ERRORS

# --- Product rules: products with many matrices, sums of outer products and products of inner length one as what computes
# them fastest

BLAS = "fdFD"


def _permute(b: GraphBuilder, x: Atom, axes: Sequence[int]) -> Atom:
    return b.make("permute", (x,), (("axes", tuple(axes)),))


# -- products --
def collapse_batched_matmul(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """Many matrices times one matrix are one tall matrix times it."""
    x, y = xs
    if x.aval.ndim < 3 or y.aval.ndim != 2 or not x.aval.size or x.aval.dtype != y.aval.dtype:
        return None
    tall = (math.prod(x.aval.shape[:-1]), x.aval.shape[-1])
    return b.reshape(b.make(p, (b.reshape(x, tall), y)), aval.shape)


def collapse_batched_columns(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """One matrix times many columns is one tall matrix of these as rows times its transpose: networks by `afx.vmap`."""
    x, y = xs
    if x.aval.ndim != 2 or y.aval.ndim < 3 or y.aval.shape[-1] != 1 or not y.aval.size or x.aval.dtype != y.aval.dtype:
        return None
    rows = b.reshape(y, (math.prod(y.aval.shape[:-2]), y.aval.shape[-2]))
    return b.reshape(b.make(p, (rows, _permute(b, x, (1, 0)))), aval.shape)


def outer_product(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """A product of inner length one is one of elements, which loops over elements take in."""
    x, y = xs
    is_outer = min(x.aval.ndim, y.aval.ndim) > 1 and x.aval.shape[-1] == 1 and x.aval.dtype == y.aval.dtype
    if not is_outer or aval.dtype.char not in BLAS:
        return None
    return b.make(with_ufunc(np.multiply), xs, (), aval)


# -- sums of products --
def contract_sum(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """A sum over the axes that both factors of larger products have is a product of matrices: they are not written out.

    It serves gradients of losses with derivatives of a network, such as those of physics-informed ones.
    """
    product = b.defining_equation(xs[0]) if p.lowering.reduce_ufunc is np.add else None
    if product is None or product.primitive.lowering.ufunc is not np.multiply or aval.dtype.char not in BLAS:
        return None
    whole = xs[0].aval.shape
    summed: tuple[int, ...] = dict(params)["axis"]
    if xs[0].aval.size < b.target.collapse_min_elements or any(x.aval.dtype != aval.dtype for x in product.inputs):
        return None
    padded = [(1,) * (len(whole) - x.aval.ndim) + x.aval.shape for x in product.inputs]
    own = [[a for a, n in enumerate(shape) if n > 1 and a not in summed] for shape in padded]
    shared = [a for a in summed if whole[a] > 1]
    if set(own[0]) & set(own[1]) or any(shape[a] == 1 for shape in padded for a in shared):
        return None
    lengths = [math.prod([whole[a] for a in axes]) for axes in own]
    order = sorted((0, 1), key=lambda k: own[k])
    free = [a for k in order for a in own[k]]
    if min(lengths) < b.target.contract_min_length or free != sorted(free):
        return None
    left, right = [_as_matrix(b, b.reshape(product.inputs[k], padded[k]), own[k], shared) for k in order]
    return b.reshape(b.make(with_ufunc(np.matmul), (left, _permute(b, right, (1, 0)))), aval.shape)


def _as_matrix(b: GraphBuilder, x: Atom, rows: Sequence[int], columns: Sequence[int]) -> Atom:
    """Return a matrix of some axes as rows and the others as columns, without a copy where either lie behind the others."""
    m, n = [math.prod([x.aval.shape[a] for a in axes]) for axes in (rows, columns)]
    if [*columns, *rows] == sorted([*columns, *rows]):
        return _permute(b, b.reshape(x, (n, m)), (1, 0))
    rest = [a for a in range(x.aval.ndim) if a not in (*rows, *columns)]
    return b.reshape(_permute(b, x, (*rest, *rows, *columns)), (m, n))


# --- Masked products: a matrix of which zeros of the other operand leave rows out is multiplied before these are
# masked
#
# The derivative of a choice masks both operands of a product, so that infinities and nan among what was not chosen
# count as nothing. To copy a matrix for that takes longer than its product with a vector. Where both operands are 0
# there, a product without the mask is the same if it is finite; if it is not, the plan multiplies again, with the
# mask.

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


def multiply_unmasked(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """A product with a masked matrix is one with the matrix itself, where that is finite: in gradients of hinge losses."""
    if not b.expanding or aval.dtype.kind not in "fc" or max(x.aval.ndim for x in xs) > 2:
        return None
    for k, other in enumerate(xs[::-1]):
        masked = _masked(b, xs[k], 1 - k, other.aval.ndim - 1 if k else 0)
        if masked is not None and _is_worth(masked, aval, b.target) and _is_zero_outside(b, other, masked, DEPTH):
            return _guarded(b, p, params, aval, masked, other, k)
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
    if matrix.aval != choice.aval:
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


def _is_zero_outside(b: GraphBuilder, x: Atom, masked: Masked, depth: int) -> bool:
    """Tell whether an operand has zeros, or what is not finite, wherever a mask leaves something out."""
    eq = b.defining_equation(x)
    if eq is None or not depth or x.aval.size != masked.chosen.aval.size:
        return False
    role, ufunc, xs = eq.primitive.algebra.canonical, eq.primitive.lowering.ufunc, eq.inputs
    if role == "select":
        is_same = (xs[0] if masked.axes else _reshaped(b, xs[0])) == masked.chosen
        return number_of(b, xs[2]) == 0 and (is_same or _is_zero_outside(b, xs[1], masked, depth - 1))
    if ufunc in (np.negative, np.multiply, np.divide) or (role == "reshape" and not masked.axes):
        factors = xs[:1] if ufunc is np.divide else xs
        return any(_is_zero_outside(b, v, masked, depth - 1) for v in factors)
    return False


# -- products --
def _guarded(b: GraphBuilder, p: Primitive, params: Params, aval: Aval, masked: Masked, other: Atom, k: int) -> Atom:
    """Return the product without the mask, and the one with it where that is not finite."""
    matrix, turned = masked.matrix, masked.turned
    plain = matrix if turned is None else b.make(turned.primitive, (matrix,), turned.params)
    with b.ignoring(FP_ERRORS):
        product = b.make(p, (other, plain) if k else (plain, other), params, aval)
    is_odd = b.make(with_ufunc(np.logical_not), (b.make(with_ufunc(np.isfinite), (product,)),))
    axes = tuple(range(len(aval.shape)))
    is_odd = b.make("reduce_or", (is_odd,), (("axis", axes),))
    number = b.make("cast", (is_odd,), (("dtype", np.dtype(np.int64)),))
    operands = (product, matrix, masked.chosen, other)
    inner = GraphBuilder({}, b.target, expanding=False)
    inputs = [inner.var(x.aval) for x in operands]
    result = _masked_product(inner, p, params, masked, inputs, k)
    as_it_is = Graph(tuple(inputs), (), (), (inputs[0],))
    again = Graph(tuple(inputs), (), tuple(inner.equations), (result,))
    return b.choose(number, (as_it_is, again), operands)[0]


def _masked_product(
    b: GraphBuilder, p: Primitive, params: Params, masking: Masked, inputs: Sequence[Atom], k: int
) -> Atom:
    """Return the product of inputs as it was asked for."""
    _, matrix, mask, other = inputs
    if masking.axes:
        mask = b.make("reduce_or", (mask,), (("axis", masking.axes),))
    mask = b.make("reshape", (mask,), (("shape", masking.shape),))
    masked = b.make("select", (mask, matrix, Literal(0.0, Aval((), matrix.aval.dtype))))
    if masking.turned is not None:
        masked = b.make(masking.turned.primitive, (masked,), masking.turned.params)
    return b.make(p, (other, masked) if k else (masked, other), params)


# --- Exponentials far below 0: those of masked numbers are chosen, as NumPy's vectors of float64 have no quick way to
# them
#
# ``exp(where(mask, x, -1e9))`` is 0 where the mask is false. NumPy computes such elements one by one, which takes
# eight times as long as all others together. Where an operand may hold them, the plan takes 0 in their place before
# and behind the call.

FAR = -746.0  # where exp of float64 is 0: half of its smallest number is exp(-745.13)
MOVES = frozenset({"reshape", "permute", "broadcast", "slice", "cast", "concat"})
ARITHMETIC = frozenset({np.add, np.subtract, np.multiply, np.divide})


def choose_far_exponentials(b: GraphBuilder, p: Primitive, xs: Atoms, params: Params, aval: Aval) -> Atom | None:
    """The exponential of what may be masked by a large negative number is 0 where it is: in attention of float64."""
    (x,) = xs
    is_vector = aval.dtype.char == "d" and aval.size >= b.target.far_min_elements
    if not b.expanding or not is_vector or _is_chosen(b, x) or not _may_be_far(b, x, DEPTH):
        return None
    zero, bound = [Literal(n, Aval((), aval.dtype)) for n in (0.0, FAR)]
    is_far = b.make(with_ufunc(np.less), (x, bound))
    if not _looks_for_far(b, is_far):  # it has become another choice between numbers, which is as far as before
        return None
    near = b.make("select", (is_far, zero, x))
    return b.make("select", (is_far, zero, b.make(p, (near,), params, aval)))


def _is_chosen(b: GraphBuilder, x: Atom) -> bool:
    """Tell whether an operand has no such numbers any more."""
    choice = b.made_by(x, "select")
    return choice is not None and _looks_for_far(b, choice.inputs[0])


def _looks_for_far(b: GraphBuilder, test: Atom) -> bool:
    eq = b.defining_equation(test)
    return eq is not None and eq.primitive.lowering.ufunc is np.less and number_of(b, eq.inputs[1]) == FAR


def _may_be_far(b: GraphBuilder, x: Atom, depth: int) -> bool:
    """Tell whether a number far below 0 has been written into some elements, or been added to them."""
    n, eq = number_of(b, x), b.defining_equation(x)
    if n is not None:
        return isinstance(n, float) and n <= FAR
    if eq is None or not depth:
        return False
    role, ufunc = eq.primitive.algebra.canonical, eq.primitive.lowering.ufunc
    if role == "select":
        return any(_may_be_far(b, v, depth - 1) for v in eq.inputs[1:])
    if role in MOVES or ufunc in ARITHMETIC:
        return any(_may_be_far(b, v, depth - 1) for v in eq.inputs)
    return False
