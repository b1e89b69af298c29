"""Promotion of operands: nested Python numbers take the dtype of the arrays they meet."""

from __future__ import annotations

from typing import Any

import numpy as np

from afx.core.array.array import Array
from afx.core.registry import register_function
from afx.ops.creation.creation import as_array, asarray
from afx.ops.indexing.index import is_sequence

__all__ = ["promote_operands"]


@register_function
def promote_operands(*operands: Any) -> list[Array]:
    """Return operands as arrays; Python's floats, nested in lists too, take the floating dtype of those that have one.

    By themselves they would take the default dtype, and lose digits where they meet float64.

    >>> promote_operands(np.array([1.0]), [0.1, 0.2])[1]
    Array([0.1, 0.2], dtype=float64)
    """
    if all(x.__class__ is Array for x in operands):
        return list(operands)
    found = [x.dtype for x in operands if hasattr(x, "dtype") and x.dtype.kind in "fc" and not _is_weak_array(x)]
    if not found:
        return [as_array(x) for x in operands]
    dtype = np.result_type(*found)
    real = np.finfo(dtype).dtype
    return [asarray(x, {"f": real, "c": np.result_type(dtype, np.complex64)}.get(_kind(x))) for x in operands]


def _kind(x: Any) -> str:
    """Return the kind of dtype that Python's numbers have, the empty string where there are arrays among them."""
    if not is_sequence(x):
        if hasattr(x, "dtype"):
            return x.dtype.kind if _is_weak_array(x) else ""
        return np.dtype(type(x)).kind if isinstance(x, (int, float, complex)) else ""
    kinds = {_kind(item) for item in x}
    return "" if "" in kinds else max(kinds, key="biufc".index, default="")


def _is_weak_array(x: Any) -> bool:
    return isinstance(x, Array) and x.aval.weak
