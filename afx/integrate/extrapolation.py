"""Extrapolation of slowly converging sequences: limits of sums near an end of a range where a function is singular.

Source: Wynn 1956, "On a device for computing the e_m(S_n) transformation", as in QUADPACK's ``qelg`` (Piessens et al. 1983).
Sums up to ever nearer to x**p log(x)**k fall geometrically, and so does what is left: the algorithm is exact of few such
terms. Written in afx's own operations, it has derivatives of every order.
"""

from __future__ import annotations

import numpy as np

from afx.core.array.array import Array
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.where import maximum, where

__all__ = ["limit_of"]


def limit_of(sums: Array) -> tuple[Array, Array]:
    """Return the limit of a sequence and an estimate of its error, infinite where terms do not shrink.

    Args:
        sums: float[terms, values], an odd number of terms, 5 or more.
    """
    before, row = 0.0 * sums, sums
    best, error = sums[-1], abs_(sums[-1] - sums[-2])
    last = best
    for column in range(1, sums.shape[0]):
        gaps = row[1:] - row[:-1]
        still = gaps == 0
        following = before[1 : len(row)] + where(still, 0.0, 1 / where(still, 1.0, gaps))
        before, row = row, following
        if column % 2 == 0:
            known = stop_gradient(row)
            near = abs_(known[-1] - stop_gradient(last)) + (abs_(known[-1] - known[-2]) if len(row) > 1 else 0.0)
            last = row[-1]
            better = near < error
            best, error = where(better, row[-1], best), where(better, near, error)
    terms = stop_gradient(abs_(sums[1:] - sums[:-1]))
    shrinks = (terms[-1] < terms[-2]) | (terms[-1] == 0)
    rounding = 10 * float(np.finfo(sums.dtype).eps) * abs_(stop_gradient(best))
    return where(shrinks, best, sums[-1]), where(shrinks, maximum(stop_gradient(error), rounding), np.inf)
