"""Instruction selection: predicates on equations that tell which call of NumPy computes one best."""

from __future__ import annotations

import math
from functools import lru_cache
from operator import attrgetter

import numpy as np

from afx.compiler.schedule import ErrorState
from afx.compiler.target import Target
from afx.core.aval import Shape
from afx.core.dtypes import DType
from afx.core.graph import Equation
from afx.core.reductions import SLOW_WITH_NUMBERS, reduce_in_transpose

__all__ = [
    "by_function",
    "by_reduction",
    "by_ufunc",
    "calls_blas",
    "errstate_of",
    "lowers_to_dot",
    "materialize_scalars",
    "reduces_in_transpose",
    "sums_few",
    "sums_rows",
    "unrolls",
    "writes_into",
]

QUIET = frozenset({np.negative, np.positive, np.absolute, np.sign})  # of real numbers
MOVES = frozenset({"select", "reshape", "permute", "broadcast"})
_dtype_of = attrgetter("aval.dtype")


def lowers_to_dot(eq: Equation) -> bool:
    """Tell whether a product of two matrices, or of a matrix and a vector, is one that ``ndarray.dot`` computes.

    A call of it takes a third of the time that one of ``np.matmul`` takes. Lengths of 1 are left out: for them it
    calls BLAS's axpy, where 0 times nan is 0.
    """
    if eq.primitive.lowering.ufunc is not np.matmul:
        return False
    x, y, out = eq.inputs[0].aval, eq.inputs[1].aval, eq.outputs[0].aval
    alike = x.dtype == y.dtype == out.dtype and out.dtype.char in "fdFD"
    return alike and x.ndim + y.ndim in (3, 4) and max(x.ndim, y.ndim) == 2 and min(*x.shape, *y.shape) > 1


def _sums_reals(eq: Equation) -> bool:
    return eq.primitive.lowering.reduce_ufunc is np.add and eq.inputs[0].aval.dtype.char in "fd"


def sums_rows(eq: Equation, target: Target) -> bool:
    """Tell whether an equation is the sum of each row of a matrix, better taken as a product with ones."""
    x = eq.inputs[0].aval
    return _sums_reals(eq) and x.ndim > 1 and eq.keywords["axis"] == (x.ndim - 1,) and target.sums_by_dot(x.shape[-1])


def sums_few(eq: Equation, target: Target) -> bool:
    """Tell whether an equation sums few elements: all of an array, or the rows or columns of a matrix.

    Most of the time goes into the call, of which a product with ones by ``ndarray.dot`` takes half, or less.
    """
    x = eq.inputs[0].aval
    if not _sums_reals(eq):
        return False
    if len(eq.keywords["axis"]) == x.ndim:
        return 1 < x.size <= target.dot_sum_max_length
    few = x.size <= target.dot_sum_max_elements and x.shape[-1] <= target.dot_sum_max_length
    return x.ndim == 2 and min(x.shape) > 1 and few


def reduces_in_transpose(eq: Equation, target: Target) -> bool:
    """Tell whether an extreme of each row is found faster along the columns of the transpose."""
    ufunc, shape = eq.primitive.lowering.reduce_ufunc, eq.inputs[0].aval.shape
    return reduce_in_transpose(ufunc, shape, eq.keywords["axis"], target.turn_min_rows, target.turn_max_columns)


def unrolls(eq: Equation, target: Target) -> bool:
    """Tell whether a reduction over one axis of few elements is taken slice by slice."""
    ufunc, shape = eq.primitive.lowering.reduce_ufunc, eq.inputs[0].aval.shape
    axis: Shape = eq.keywords["axis"]
    if len(axis) != 1 or len(shape) < 2 or axis[0] == 0 or shape[axis[0]] < 2:
        return False
    if axis[0] < len(shape) - 1:
        return shape[axis[0]] <= target.unroll_max_length
    few = shape[-1] <= target.unroll_last_max_length and math.prod(shape[:-1]) >= target.unroll_min_rows
    plain = eq.inputs[0].aval.dtype.char not in "eFD"  # NumPy sums rows of half precision in float32
    return few and plain and ufunc not in SLOW_WITH_NUMBERS


def materialize_scalars(eq: Equation, target: Target) -> bool:
    """Tell whether numbers among the operands are better repeated to the output's shape."""
    return eq.primitive.lowering.ufunc in SLOW_WITH_NUMBERS and eq.outputs[0].aval.size >= target.fill_min_elements


def calls_blas(eq: Equation, target: Target) -> bool:
    """Tell whether BLAS or LAPACK might use several threads for an equation."""
    p = eq.primitive
    if p.kind == "bilinear" and len(eq.inputs) == 2:
        x, y, out = eq.inputs[0].aval, eq.inputs[1].aval, eq.outputs[0].aval
        least = target.blas_threads_min_products if min(x.ndim, y.ndim) > 1 else target.blas_threads_min_terms
        # m·k, k·n and m·n: their product's root is m·k·n
        return (
            math.sqrt(x.size * y.size * out.size) * (target.blas_complex_factor if out.dtype.kind == "c" else 1)
            >= least
        )
    least = target.lapack_threads_min_elements
    return p.lowering.calls_lapack and any(a.aval.size >= least for a in eq.inputs)


def writes_into(eq: Equation) -> bool:
    """Tell whether an equation can compute into memory it is given."""
    p = eq.primitive
    if p.multiple_results:
        return False
    rules = p.lowering
    return rules.make_kernel is not None or rules.impl_into is not None or by_ufunc(eq) or by_reduction(eq)


def by_ufunc(eq: Equation) -> bool:
    """Tell whether a ufunc computes an equation's dtype from its operands' dtypes."""
    ufunc = eq.primitive.lowering.ufunc
    if ufunc is None or eq.params:
        return False
    return ufunc_result_dtype(ufunc, tuple(map(_dtype_of, eq.inputs))) == eq.outputs[0].aval.dtype


def by_function(eq: Equation) -> bool:
    """Tell whether a function of the primitive computes an equation into an array that overlaps no operand."""
    return eq.primitive.lowering.impl_into is not None


def by_reduction(eq: Equation) -> bool:
    """Tell whether a ufunc's ``reduce`` computes an equation, in its operand's dtype."""
    reduces = eq.primitive.lowering.reduce_ufunc is not None
    return reduces and eq.inputs[0].aval.dtype == eq.outputs[0].aval.dtype


def errstate_of(eq: Equation) -> ErrorState:
    """Return the errors that an equation ignores; None for one that moves or compares values, or signs, which never warns."""
    p = eq.primitive
    if p.lowering.may_alias or p.algebra.canonical in MOVES:
        return None
    if p.lowering.ufunc in QUIET and eq.inputs[0].aval.dtype.kind != "c":
        return None
    for v in eq.outputs:
        if v.aval.dtype.kind != "b":
            return eq.ignored_fp_errors
    return None


@lru_cache(maxsize=4096)
def ufunc_result_dtype(ufunc: np.ufunc, dtypes: tuple[DType, ...]) -> DType | None:
    """Return the dtype in which NumPy gives the result of a ufunc for operands of these dtypes."""
    if ufunc.signature is None and (ufunc.nin != len(dtypes) or ufunc.nout != 1):
        return None
    try:
        found: DType = ufunc.resolve_dtypes((*dtypes, None))[-1]
    except TypeError:
        return None
    return found
