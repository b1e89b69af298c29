"""Constants: the version, numbers of the array API standard, and thresholds of NumPy's reductions."""

from __future__ import annotations

import builtins
import math

import numpy as np

from afx.core.aval import Shape
from afx.core.dtypes import DType, bool_

# --- Constants: the version of afx, and numbers and names of the array API standard, as NumPy has them

__version__ = "0.1.0"

bool: DType = bool_

e: float = math.e
pi: float = math.pi
inf: float = math.inf
nan: float = math.nan
newaxis = None


# --- Reductions: thresholds of the fastest NumPy call, which eager calls and compiled plans share
#
# They stand below the compiler, so that a plain import of afx leaves it alone.

# with a single number these are up to five times slower than with an array of it (NumPy 2.0 to 2.4)
SLOW_WITH_NUMBERS = frozenset({np.maximum, np.minimum})
DOT_SUM_MIN_LENGTH = 8  # summed axis that is a product with ones: shorter ones do not pay
DOT_SUM_MAX_LENGTH = 1024  # the same: up to here BLAS's sum is as exact as NumPy's pairwise one
DOT_SUM_MAX_ELEMENTS = 9216  # matrix that OpenBLAS multiplies with a vector on one thread
TURN_MIN_ROWS = 32  # rows of a matrix whose extremes are found faster in its transpose: measured
TURN_MAX_COLUMNS = 64  # columns of it: measured


def reduce_in_transpose(
    ufunc: np.ufunc | None,
    shape: Shape,
    axis: Shape,
    min_rows: int = TURN_MIN_ROWS,
    max_columns: int = TURN_MAX_COLUMNS,
) -> builtins.bool:
    """Tell whether an extreme of each row is found faster along the columns of the transpose."""
    return (
        ufunc in SLOW_WITH_NUMBERS
        and len(shape) > 1
        and axis == (len(shape) - 1,)
        and 1 < shape[-1] <= max_columns
        and math.prod(shape[:-1]) >= min_rows
    )
