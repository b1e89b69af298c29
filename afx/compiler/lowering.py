"""Which equations can compute into memory that they are given."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from afx.core.aval import Shape
from afx.core.dtypes import DType
from afx.core.graph import Equation
from afx.core.primitive import Primitive

__all__ = [
    "ROWS",
    "by_function",
    "by_reduction",
    "by_ufunc",
    "dots",
    "reduced",
    "sums_few",
    "sums_rows",
    "turns",
    "wants_arrays",
    "writes_into",
]

# with a single number these are up to five times slower than with an array of it (NumPy 2.0 to 2.4)
SLOW_WITH_NUMBERS = frozenset({np.maximum, np.minimum, np.fmax, np.fmin})
FEW = 128  # elements up to which that does not show

ROWS = range(8, 1025)  # lengths of rows whose sums are products with ones: in BLAS, and as exact as pairwise ones
SERIAL = 9216  # elements of a matrix up to which BLAS multiplies it with a vector on one thread
MANY, FEW_COLUMNS = 32, 64  # rows, and columns, of matrices whose extremes NumPy finds faster in the transpose


def dots(eq: Equation) -> bool:
    """Tell whether a product of two matrices, or of a matrix and a vector, is one that ``ndarray.dot`` computes.

    A call of it takes a third of the time that one of ``np.matmul`` takes. Lengths of 1 are left out: for them it
    calls BLAS's axpy, where 0 times nan is 0.
    """
    if eq.primitive.lowering.ufunc is not np.matmul:
        return False
    x, y, out = eq.inputs[0].aval, eq.inputs[1].aval, eq.outputs[0].aval
    alike = x.dtype == y.dtype == out.dtype and out.dtype.char in "fdFD"
    return alike and x.ndim + y.ndim in (3, 4) and max(x.ndim, y.ndim) == 2 and min(*x.shape, *y.shape) > 1


def sums_rows(eq: Equation) -> bool:
    """Tell whether an equation is the sum of each row of a matrix, better taken as a product with ones."""
    x = eq.inputs[0].aval
    return (
        eq.primitive.lowering.reduce_ufunc is np.add
        and x.dtype.char in "fd"
        and len(x.shape) > 1
        and (eq.keywords["axis"] == (len(x.shape) - 1,) and x.shape[-1] in ROWS)
    )


def sums_few(eq: Equation) -> bool:
    """Tell whether an equation sums few elements: all of an array, or the rows or columns of a matrix.

    Most of the time goes into the call, of which a product with ones by ``ndarray.dot`` takes half, or less.
    """
    x = eq.inputs[0].aval
    if eq.primitive.lowering.reduce_ufunc is not np.add or x.dtype.char not in "fd":
        return False
    if len(eq.keywords["axis"]) == x.ndim:
        return 1 < x.size < ROWS.stop
    return x.ndim == 2 and min(x.shape) > 1 and x.size <= SERIAL and x.shape[-1] < ROWS.stop


def turns(ufunc: np.ufunc | None, shape: Shape, axis: Shape) -> bool:
    """Tell whether an extreme of each row is found faster along the columns of the transpose."""
    return (
        ufunc in SLOW_WITH_NUMBERS
        and len(shape) > 1
        and axis == (len(shape) - 1,)
        and 1 < shape[-1] <= FEW_COLUMNS
        and math.prod(shape[:-1]) >= MANY
    )


def reduced(eq: Equation, ufunc: str, x: str) -> str:
    """Return the beginning of the text that reduces by a ufunc."""
    shape, axis = eq.inputs[0].aval.shape, eq.keywords["axis"]
    if turns(eq.primitive.lowering.reduce_ufunc, shape, axis):
        last = len(shape) - 1
        turned = f"{x}.T" if last == 1 else f"{x}.transpose({(last, *range(last))})"
        return f"{ufunc}.reduce({turned}.copy(), 0"
    return f"{ufunc}.reduce({x}, {axis[0] if len(axis) == 1 else axis}"


def wants_arrays(eq: Equation) -> bool:
    """Tell whether numbers among the operands are better repeated to the output's shape."""
    return eq.primitive.lowering.ufunc in SLOW_WITH_NUMBERS and eq.outputs[0].aval.size > FEW


def writes_into(eq: Equation) -> bool:
    """Tell whether an equation can compute into memory it is given."""
    p = eq.primitive
    if p.multiple_results:
        return False
    prepared = p.lowering.make_kernel is not None and not any(a.aval.weak for a in eq.inputs)
    return prepared or by_function(eq) or by_ufunc(eq) or by_reduction(eq)


def by_ufunc(eq: Equation) -> bool:
    """Tell whether a ufunc computes an equation's dtype from its operands' dtypes."""
    ufunc = eq.primitive.lowering.ufunc
    if ufunc is None or eq.params:
        return False
    return natural(ufunc, tuple([a.aval.dtype for a in eq.inputs])) == eq.outputs[0].aval.dtype


def by_function(eq: Equation) -> bool:
    """Tell whether a function of the primitive computes an equation into an array that overlaps no operand."""
    return eq.primitive.lowering.impl_into is not None and not any(a.aval.weak for a in eq.inputs)


def by_reduction(eq: Equation) -> bool:
    """Tell whether a ufunc's ``reduce`` computes an equation, in its operand's dtype."""
    p: Primitive = eq.primitive
    return p.lowering.reduce_ufunc is not None and eq.inputs[0].aval.dtype == eq.outputs[0].aval.dtype


@lru_cache(maxsize=4096)
def natural(ufunc: np.ufunc, dtypes: tuple[DType, ...]) -> DType | None:
    """Return the dtype in which NumPy gives the result of a ufunc for operands of these dtypes."""
    if ufunc.signature is None and (ufunc.nin != len(dtypes) or ufunc.nout != 1):
        return None
    try:
        found: DType = ufunc.resolve_dtypes((*dtypes, None))[-1]
    except TypeError:
        return None
    return found
