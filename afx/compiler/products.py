"""Products: how one of two matrices, or of a matrix and a vector, is cut into pieces, a function of shapes and dtypes alone.

Each piece is computed by one BLAS thread, so that no number of threads, load or measurement changes a bit of it.
"""

from __future__ import annotations

from afx.compiler.target import Target
from afx.core.aval import Aval

__all__ = ["cut"]


def cut(x: Aval, y: Aval, out: Aval, target: Target) -> tuple[int, tuple[int, ...]] | None:
    """Return the axis of the result along which a product is cut, and the ends of the pieces; None for one piece.

    >>> import numpy as np
    >>> a = Aval((300, 300), np.dtype("float64"))
    >>> cut(a, a, a, Target(pins_blas=True))
    (0, (160, 300))
    """
    plain = x.ndim == 2 >= y.ndim > 0 and x.dtype == y.dtype == out.dtype and out.dtype.char in "fd"
    if not target.pins_blas or not plain or out.size * x.shape[1] < target.cut_min_products:
        return None
    rows, columns = (*out.shape, 1)[:2]
    axis, length = (0, rows) if rows >= columns else (1, columns)
    step = -(-length // (target.cut_pieces * target.cut_multiple)) * target.cut_multiple
    stops = tuple([min(stop, length) for stop in range(step, length + step, step)])
    return (axis, stops) if len(stops) > 1 else None
