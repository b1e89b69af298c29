"""Apply: calls of a user's function along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import normalize_axis
from afx.core.registry import register_function
from afx.errors import ShapeError
from afx.ops.creation.creation import Nested, as_array, asarray
from afx.ops.indexing.index import ints
from afx.ops.manipulation.axes import moveaxis
from afx.ops.manipulation.join import stack
from afx.ops.manipulation.shape import expand_dims, reshape
from afx.ops.manipulation.split import unstack

__all__ = ["apply_along_axis", "apply_over_axes"]


@register_function
def apply_along_axis(func: Callable[..., ArrayLike], axis: int, x: Nested, /, *args: object, **kwargs: object) -> Array:
    """Return a function of vectors, applied to each vector of x along an axis; `vmap` does this without a loop.

    Args:
        func: takes a vector, gives an array.
        axis: where the vectors lie, and the axes of the function's result that replace them.
        x: any shape with that axis.
        *args: further arguments of the function.
        **kwargs: and its named ones.

    Raises:
        ShapeError: there is no vector to apply it to.

    >>> import afx
    >>> apply_along_axis(afx.cumsum, 0, afx.ones((2, 2)))
    Array([[1., 1.],
           [2., 2.]], dtype=float32)
    """
    y = as_array(x)
    place = normalize_axis(axis, y.ndim, "apply_along_axis")
    rest = y.shape[:place] + y.shape[place + 1 :]
    if not math.prod(rest):
        raise ShapeError(f"apply_along_axis: no vector lies along axis {axis}: got {y.aval}; check for empties")
    rows = unstack(reshape(moveaxis(y, place, -1), (-1, y.shape[place])))
    found = stack([asarray(func(row, *args, **kwargs)) for row in rows])
    reshaped = reshape(found, (*rest, *found.shape[1:]))
    last, first = range(len(rest), reshaped.ndim), range(place, place + found.ndim - 1)
    return moveaxis(reshaped, tuple(last), tuple(first))


@register_function
def apply_over_axes(func: Callable[[Array, int], ArrayLike], x: Nested, axes: int | Sequence[int], /) -> Array:
    """Return a function such as `sum`, applied to x along one axis after the other; axes stay, with length 1.

    Args:
        func: takes an array and an axis, gives an array with or without that axis.
        x: any shape.
        axes: the axes.

    Raises:
        ShapeError: the function gives an array of another number of axes.

    >>> import afx
    >>> apply_over_axes(afx.sum, afx.ones((2, 3)), (0, 1))
    Array([[6.]], dtype=float32)
    """
    z = as_array(x)
    for axis in ints(axes, "apply_over_axes", "axes"):
        place = normalize_axis(axis, z.ndim, "apply_over_axes")
        found = asarray(func(z, place))
        if found.ndim == z.ndim - 1:
            found = expand_dims(found, place)
        if found.ndim != z.ndim:
            raise ShapeError(f"apply_over_axes: the function changed the axes: got {found.aval} of {z.aval}; keep them")
        z = found
    return z
