"""Product rules: many small products, sums of outer products and products of inner length one as what computes them fastest."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from afx.compiler.graph_builder import GraphBuilder, Params
from afx.core.aval import Aval, Shape
from afx.core.graph import Atom
from afx.core.primitive import Primitive, primitive_for_role, with_ufunc

__all__ = [
    "collapse_batched_columns",
    "collapse_batched_matmul",
    "contract_sum",
    "expand_gram",
    "outer_product",
    "sum_batched_matmul",
]

BLAS = "fdFD"


def _reshape(b: GraphBuilder, x: Atom, shape: Shape) -> Atom:
    return b.make(primitive_for_role("reshape"), (x,), (("shape", shape),), Aval(shape, x.aval.dtype))


def _permute(b: GraphBuilder, x: Atom, axes: Sequence[int]) -> Atom:
    return b.make(primitive_for_role("permute"), (x,), (("axes", tuple(axes)),))


# -- products --
def collapse_batched_matmul(
    b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval
) -> Atom | None:
    """Many matrices times one matrix are one tall matrix times it."""
    x, y = xs
    if x.aval.ndim < 3 or y.aval.ndim != 2 or not x.aval.size or x.aval.dtype != y.aval.dtype:
        return None
    tall = (math.prod(x.aval.shape[:-1]), x.aval.shape[-1])
    return _reshape(b, b.make(p, (_reshape(b, x, tall), y)), aval.shape)


def collapse_batched_columns(
    b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval
) -> Atom | None:
    """One matrix times many columns is one tall matrix of these as rows times its transpose."""
    x, y = xs
    if x.aval.ndim != 2 or y.aval.ndim < 3 or y.aval.shape[-1] != 1 or not y.aval.size or x.aval.dtype != y.aval.dtype:
        return None
    rows = _reshape(b, y, (math.prod(y.aval.shape[:-2]), y.aval.shape[-2]))
    return _reshape(b, b.make(p, (rows, _permute(b, x, (1, 0)))), aval.shape)


def outer_product(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A product of inner length one is one of elements, which loops over elements take in."""
    x, y = xs
    is_outer = min(x.aval.ndim, y.aval.ndim) > 1 and x.aval.shape[-1] == 1 and x.aval.dtype == y.aval.dtype
    if not is_outer or aval.dtype.char not in BLAS:
        return None
    return b.make(with_ufunc(np.multiply), xs, (), aval)


# -- sums of products --
def sum_batched_matmul(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A sum of many products, whose left matrices are transposes, is one product of these on top of each other."""
    product = b.defining_equation(xs[0]) if p.lowering.reduce_ufunc is np.add else None
    if product is None or product.primitive.lowering.ufunc is not np.matmul or aval.dtype.char not in BLAS:
        return None
    x, y = product.inputs
    batch, axes = x.aval.shape[:-2], (*range(x.aval.ndim - 2), x.aval.ndim - 1, x.aval.ndim - 2)
    turned = b.made_by(x, "permute")
    fits = turned is not None and turned.keywords["axes"] == axes and batch and y.aval.shape[:-2] == batch
    if not fits or turned is None or dict(params)["axis"] != tuple(range(len(batch))) or not xs[0].aval.size:
        return None
    left, right = [_reshape(b, z, (math.prod(z.aval.shape[:-1]), z.aval.shape[-1])) for z in (turned.inputs[0], y)]
    return b.make(product.primitive, (_permute(b, left, (1, 0)), right), product.params, aval)


def contract_sum(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """A sum over the axes that both factors of larger products have is a product of matrices: they are not written out."""
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
    left, right = [_as_matrix(b, _reshape(b, product.inputs[k], padded[k]), own[k], shared) for k in order]
    return _reshape(b, b.make(with_ufunc(np.matmul), (left, _permute(b, right, (1, 0)))), aval.shape)


def _as_matrix(b: GraphBuilder, x: Atom, rows: Sequence[int], columns: Sequence[int]) -> Atom:
    """Return a matrix of some axes as rows and the others as columns, without a copy where either lie behind the others."""
    m, n = [math.prod([x.aval.shape[a] for a in axes]) for axes in (rows, columns)]
    if [*columns, *rows] == sorted([*columns, *rows]):
        return _permute(b, _reshape(b, x, (n, m)), (1, 0))
    rest = [a for a in range(x.aval.ndim) if a not in (*rows, *columns)]
    return _reshape(b, _permute(b, x, (*rest, *rows, *columns)), (m, n))


# -- many small products --
def expand_gram(b: GraphBuilder, p: Primitive, xs: tuple[Atom, ...], params: Params, aval: Aval) -> Atom | None:
    """Many small matrices times their own transposes are sums of few terms: BLAS's routine for them is called for each.

    Products with other matrices of that size take NumPy a third of the time, and stay.
    """
    x, y = xs
    if x.aval.ndim < 3:  # a vector, or one product
        return None
    (m, k), batch = x.aval.shape[-2:], aval.shape[:-2]
    most, calls = b.target.expand_max_length, m * (m + 1) // 2 * (2 * k - 1)
    if not (batch and m and k) or aval.dtype.char not in "fd" or max(m, k) > most or not _are_transposes(b, x, y):
        return None
    if math.prod(batch) < b.target.expand_call_products * calls:
        return None
    elements = [[_element(b, x, i, t) for t in range(k)] for i in range(m)]
    found = [_dot(b, left, right) for left in elements for right in elements]
    joined = b.make(primitive_for_role("stack"), tuple(found), (("axis", len(batch)),))
    return _reshape(b, joined, aval.shape)


def _are_transposes(b: GraphBuilder, x: Atom, y: Atom) -> bool:
    swapped = (*range(x.aval.ndim - 2), x.aval.ndim - 1, x.aval.ndim - 2)
    pairs = [(b.made_by(z, "permute"), other) for z, other in ((x, y), (y, x))]
    return any(eq is not None and eq.keywords["axes"] == swapped and eq.inputs[0] is other for eq, other in pairs)


def _element(b: GraphBuilder, x: Atom, i: int, j: int) -> Atom:
    """Return one element of each matrix of a stack."""
    index = (*[(0, n, 1) for n in x.aval.shape[:-2]], i, j)
    return b.make(primitive_for_role("slice"), (x,), (("index", index),))


def _dot(b: GraphBuilder, xs: Sequence[Atom], ys: Sequence[Atom]) -> Atom:
    """Return the sum of the products of operands, element by element."""
    terms = [b.make(with_ufunc(np.multiply), pair) for pair in zip(xs, ys, strict=True)]
    return functools.reduce(lambda total, term: b.make(with_ufunc(np.add), (total, term)), terms)
