"""Boolean reductions: whether all elements along axes are true, or any."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape
from afx.core.dtypes import bool_
from afx.core.primitive import Primitive, record_reduction
from afx.core.registry import register_function
from afx.ops._basic import reduced
from afx.ops._kinds.batching import batch_along_axes
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops.creation.creation import SEQUENCES, operand_of
from afx.ops.manipulation.shape import astype
from afx.ops.reductions.sums import Axis, fill_where, reduce_over, reducing

__all__ = ["all", "any"]


def _truth(name: str, ufunc: np.ufunc, fn: Callable[..., Array]) -> Primitive:
    def abstract(x: Aval, *, axis: Shape) -> Aval:
        return Aval(reduced(x.shape, axis), bool_)

    role = "reduce_or" if ufunc is np.logical_or else ""
    return nondifferentiable(
        name,
        reducing(ufunc),
        abstract,
        batch=batch_along_axes(name),
        canonical=role,
        native=record_reduction(ufunc),
        takes_empty=True,
    )


@register_function
def all(
    x: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
) -> Array:
    """Tell whether all elements along axes are true (not zero), among those where ``where`` holds.

    >>> all(np.array([[True, True], [False, True]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "all")
    x = x if where is None else fill_where(astype(x, bool_), where, True)
    return reduce_over(all_p, x, axis, keepdims, "all")


all_p: Primitive = _truth("all", np.logical_and, all)


@register_function
def any(
    x: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
) -> Array:
    """Tell whether any element along axes is true (not zero), among those where ``where`` holds.

    >>> any(np.array([[False, True], [False, False]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "any")
    x = x if where is None else fill_where(astype(x, bool_), where, False)
    return reduce_over(any_p, x, axis, keepdims, "any")


any_p: Primitive = _truth("any", np.logical_or, any)
