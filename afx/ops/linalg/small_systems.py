"""Stacks of small systems: Gaussian elimination of all of them at once, element by element.

LAPACK is called for each system, which costs more than the few operations of a small one. Here an operation works on the
same element of all systems, so that eager calls and plans make few calls of NumPy, and machine code one loop without any.
Rows are exchanged as in LAPACK: the largest element of a column is the pivot (Golub & Van Loan 2013, section 3.4).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.compiler.arrays import NUMPY, Arrays
from afx.core.aval import Shape

__all__ = ["eliminate", "is_small", "pays", "solve_small", "substitute", "substitute_small", "triangles_pay"]

MAX_LENGTH, MAX_COLUMNS = 4, 4
WIDTH = 8  # rows of a triangle that are written out; those before them are one product
BLOCK = 1024  # systems, whose elements stay in the cache
MIN_SYSTEMS = 48  # times n², from which on NumPy's calls for all systems cost less than LAPACK's for each: measured
MIN_TRIANGLES = 24  # times n, for substitution: measured
WIDE = np.dtype(np.float64)  # in which `np.linalg.solve` computes all real systems


def is_small(a: Shape, b: Shape, dtype: Any) -> bool:
    """Tell whether systems are small."""
    return 0 < a[-1] <= MAX_LENGTH and 0 < b[-1] <= MAX_COLUMNS and np.dtype(dtype).char in "fd"


def _are_many(a: Shape, b: Shape) -> bool:
    return math.prod(np.broadcast_shapes(a[:-2], b[:-2])) >= MIN_SYSTEMS * a[-1] ** 2


def pays(a: Any, b: Any) -> bool:
    """Tell whether elimination of all systems at once is how they are solved."""
    return a.dtype == b.dtype and is_small(a.shape, b.shape, a.dtype) and _are_many(a.shape, b.shape)


def solve_small(a: Any, b: Any, keeps_nan: bool) -> Any:
    """Return the solutions of ``a @ x = b``; of singular systems nan, where that is wanted.

    Raises:
        numpy.linalg.LinAlgError: a system is singular, and nan is not wanted.
    """
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x, y = [np.broadcast_to(v, (*batch, *v.shape[-2:])).reshape(-1, *v.shape[-2:]) for v in (a, b)]
    z = np.empty(y.shape, b.dtype)
    for start in range(0, len(z), BLOCK):
        rows = slice(start, start + BLOCK)
        with np.errstate(all="ignore"):
            singular = eliminate(NUMPY, x[rows], y[rows], z[rows], keeps_nan)
        if not keeps_nan and singular.any():
            raise np.linalg.LinAlgError("Singular matrix")
    return z.reshape(*batch, *b.shape[-2:])


def triangles_pay(a: Any, b: Any) -> bool:
    """Tell whether substitution in all triangular systems at once is how they are solved."""
    count = math.prod(np.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    is_short = 0 < a.shape[-1] <= WIDTH and 0 < b.shape[-1] <= MAX_COLUMNS
    return is_short and a.dtype == b.dtype and b.dtype.char in "fd" and count >= MIN_TRIANGLES * a.shape[-1]


def eliminate(xp: Arrays, a: Any, b: Any, out: Any, keeps_nan: bool) -> Any:
    """Write the solutions of ``a @ x = b``; return which systems are singular.

    Args:
        xp: what arrays are computed with; floating-point errors are ignored.
        a: float[..., n, n].
        b: float[..., n, k].
        out: float[..., n, k].
        keeps_nan: whether solutions of singular systems are nan; of others nobody looks at them.
    """
    n, k = a.shape[-1], b.shape[-1]
    rows = [
        [xp.cast(x, WIDE) for x in (*[a[..., i, j] for j in range(n)], *[b[..., i, c] for c in range(k)])]
        for i in range(n)
    ]
    singular = None
    for j in range(n):
        for i in range(j + 1, n):
            _exchange(xp, rows, i, j)
        is_zero = xp.ufunc("equal", rows[j][j], 0.0)
        singular = is_zero if singular is None else xp.ufunc("logical_or", singular, is_zero)
        for i in range(j + 1, n):
            factor = xp.ufunc("divide", rows[i][j], rows[j][j])
            for c in range(j + 1, n + k):
                rows[i][c] = _less(xp, rows[i][c], factor, rows[j][c])
    for c in range(n, n + k):
        for i in reversed(range(n)):
            for j in range(i + 1, n):
                rows[i][c] = _less(xp, rows[i][c], rows[i][j], rows[j][c])
            rows[i][c] = xp.ufunc("divide", rows[i][c], rows[i][i])
            found = xp.where(singular, math.nan, rows[i][c]) if keeps_nan else rows[i][c]
            xp.give(out[..., i, c - n], xp.cast(found, out.dtype))
    return singular


def _exchange(xp: Arrays, rows: list[list[Any]], i: int, j: int) -> None:
    """Exchange two rows where the lower one has the larger element in column j."""
    is_larger = xp.ufunc("greater", xp.ufunc("absolute", rows[i][j]), xp.ufunc("absolute", rows[j][j]))
    for c in range(j, len(rows[j])):
        x, y = rows[j][c], rows[i][c]
        rows[j][c], rows[i][c] = xp.where(is_larger, y, x), xp.where(is_larger, x, y)


def _less(xp: Arrays, x: Any, factor: Any, y: Any) -> Any:
    return xp.ufunc("subtract", x, xp.ufunc("multiply", factor, y))


# -- triangles --
def substitute(xp: Arrays, a: Any, b: Any, out: Any, *, lower: bool, unit: bool) -> Any:
    """Write the solutions of triangular systems, row by row; return where the diagonal is 0.

    Args:
        xp: what arrays are computed with; floating-point errors are ignored.
        a: float64[..., n, n], of which one triangle is read.
        b: float64[..., n, k].
        out: float[..., n, k].
        lower: whether that is the lower triangle.
        unit: whether the diagonal counts as ones and is not read.
    """
    n = a.shape[-1]
    order = list(range(n)) if lower else list(range(n))[::-1]
    z = out if out.dtype == WIDE else xp.new(out.shape, WIDE)
    for start in range(0, n, WIDTH):
        block = order[start : start + WIDTH]
        low, high, sums = min(block), max(block) + 1, None
        if start:
            done = slice(0, low) if lower else slice(high, n)
            sums = xp.new((*out.shape[:-2], high - low, out.shape[-1]), WIDE)
            xp.multiply(a[..., low:high, done], z[..., done, :], sums)
        rows: dict[int, Any] = {}
        for i in block:
            row = b[..., i, :] if sums is None else xp.ufunc("subtract", b[..., i, :], sums[..., i - low, :])
            for j, x in rows.items():
                row = _less(xp, row, a[..., i, j : j + 1], x)
            rows[i] = row if unit else xp.ufunc("divide", row, a[..., i, i : i + 1])
            xp.give(z[..., i, :], rows[i])
    if z is not out:
        xp.copy(out, z)
    return xp.ufunc("equal", xp.view(a, lambda v: v.diagonal(axis1=-2, axis2=-1)), 0.0)


def substitute_small(a: Any, b: Any, *, lower: bool, unit: bool) -> Any:
    """Return the solutions of triangular systems.

    Raises:
        numpy.linalg.LinAlgError: the diagonal has a 0.
    """
    out = np.empty((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype)
    x, y = a.astype(WIDE, copy=False), b.astype(WIDE, copy=False)
    with np.errstate(all="ignore"):
        is_zero = substitute(NUMPY, x, y, out, lower=lower, unit=unit)
    if not unit and is_zero.any():
        raise np.linalg.LinAlgError("Singular matrix")
    return out
