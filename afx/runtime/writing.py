"""Which equations can compute into memory that they are given."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from afx.core.dtypes import DType
from afx.core.graph import Equation
from afx.core.primitive import Primitive

__all__ = [
    "ROWS",
    "by_function",
    "by_reduction",
    "by_ufunc",
    "sums_columns",
    "sums_rows",
    "wants_arrays",
    "writes_into",
]

# with a single number these are up to five times slower than with an array of it (NumPy 2.0 to 2.4)
SLOW_WITH_NUMBERS = frozenset({np.maximum, np.minimum, np.fmax, np.fmin})
FEW = 128  # elements up to which that does not show


ROWS = range(8, 1025)  # lengths of rows whose sums are products with ones: in BLAS, and as exact as pairwise ones


def sums_rows(eq: Equation) -> bool:
    """Tell whether an equation is the sum of each row of a matrix, better taken as a product with ones."""
    x = eq.inputs[0].aval
    return (
        eq.primitive.reduces is np.add
        and x.dtype.char in "fd"
        and len(x.shape) > 1
        and (eq.keywords["axis"] == (len(x.shape) - 1,) and x.shape[-1] in ROWS)
    )


SERIAL = 9216  # elements of a matrix up to which BLAS multiplies it with a vector on one thread


def sums_columns(eq: Equation) -> bool:
    """Tell whether an equation sums the columns of a small matrix, which a product with ones does faster."""
    x = eq.inputs[0].aval
    small = len(x.shape) == 2 and x.shape[0] >= ROWS[0] and 0 < x.size <= SERIAL
    return eq.primitive.reduces is np.add and x.dtype.char in "fd" and small and eq.keywords["axis"] == (0,)


def wants_arrays(eq: Equation) -> bool:
    """Tell whether numbers among the operands are better repeated to the output's shape."""
    return eq.primitive.ufunc in SLOW_WITH_NUMBERS and eq.outputs[0].aval.size > FEW


def writes_into(eq: Equation) -> bool:
    """Tell whether an equation can compute into memory it is given."""
    p = eq.primitive
    if p.multiple:
        return False
    prepared = p.prepare is not None and not any(a.aval.weak for a in eq.inputs)
    return prepared or by_function(eq) or by_ufunc(eq) or by_reduction(eq)


def by_ufunc(eq: Equation) -> bool:
    """Tell whether a ufunc computes an equation's dtype from its operands' dtypes."""
    ufunc = eq.primitive.ufunc
    if ufunc is None or eq.params:
        return False
    return natural(ufunc, tuple([a.aval.dtype for a in eq.inputs])) == eq.outputs[0].aval.dtype


def by_function(eq: Equation) -> bool:
    """Tell whether a function of the primitive computes an equation into an array that overlaps no operand."""
    return eq.primitive.out is not None and not any(a.aval.weak for a in eq.inputs)


def by_reduction(eq: Equation) -> bool:
    """Tell whether a ufunc's ``reduce`` computes an equation, in its operand's dtype."""
    p: Primitive = eq.primitive
    return p.reduces is not None and eq.inputs[0].aval.dtype == eq.outputs[0].aval.dtype


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
