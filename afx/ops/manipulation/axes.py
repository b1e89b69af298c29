"""Axes: exchanged, moved, added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Shape, aval_of, normalize_axis
from afx.core.registry import register_function
from afx.errors import ShapeError
from afx.ops.indexing.index import ints
from afx.ops.manipulation.shape import permute_dims, reshape

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "matrix_transpose", "moveaxis", "swapaxes"]


@register_function
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Return x with its last two axes exchanged.

    Raises:
        ShapeError: fewer than two axes.

    >>> matrix_transpose(afx.zeros((4, 2, 3))).shape
    (4, 3, 2)
    """
    aval = aval_of(x, "matrix_transpose")
    if aval.ndim < 2:
        raise ShapeError(f"matrix_transpose: takes two axes or more: got {aval}; use afx.expand_dims first")
    return swapaxes(x, -1, -2)


@register_function
def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> Array:
    """Return x with two axes exchanged.

    Raises:
        ShapeError: an axis is out of range.

    >>> swapaxes(afx.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    ndim = aval_of(x, "swapaxes").ndim
    a, b = (normalize_axis(axis, ndim, "swapaxes") for axis in (axis1, axis2))
    order = list(range(ndim))
    order[a], order[b] = b, a
    return permute_dims(x, order)


@register_function
def moveaxis(x: ArrayLike, /, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Return x with axes moved to other positions; the other axes keep their order.

    Args:
        x: any shape.
        source: the axes.
        destination: where each stands in the result.

    Raises:
        ShapeError: an axis is out of range or named twice, or the numbers of axes differ.

    >>> moveaxis(afx.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    ndim = aval_of(x, "moveaxis").ndim
    start, end = (
        [normalize_axis(a, ndim, "moveaxis") for a in ints(axes, "moveaxis", name)]
        for axes, name in ((source, "source"), (destination, "destination"))
    )
    if len(start) != len(end) or len(set(start)) != len(start) or len(set(end)) != len(end):
        raise ShapeError(f"moveaxis: each axis moves to one position: got {source} and {destination}; name each once")
    rest = iter([a for a in range(ndim) if a not in start])
    return permute_dims(x, [start[end.index(place)] if place in end else next(rest) for place in range(ndim)])


@overload
def atleast_1d(x: ArrayLike, /) -> Array: ...
@overload
def atleast_1d(x: ArrayLike, y: ArrayLike, /, *arrays: ArrayLike) -> tuple[Array, ...]: ...
@register_function
def atleast_1d(*arrays: ArrayLike) -> Array | tuple[Array, ...]:
    """Return x with one axis where it had none; a tuple of several.

    >>> atleast_1d(1.0).shape
    (1,)
    """
    return _reshape_each(arrays, "atleast_1d", lambda shape: shape or (1,))


@overload
def atleast_2d(x: ArrayLike, /) -> Array: ...
@overload
def atleast_2d(x: ArrayLike, y: ArrayLike, /, *arrays: ArrayLike) -> tuple[Array, ...]: ...
@register_function
def atleast_2d(*arrays: ArrayLike) -> Array | tuple[Array, ...]:
    """Return x with new axes in front up to two; a tuple of several.

    >>> atleast_2d(afx.zeros(3)).shape
    (1, 3)
    """
    return _reshape_each(arrays, "atleast_2d", lambda shape: (1,) * (2 - len(shape)) + shape)


@overload
def atleast_3d(x: ArrayLike, /) -> Array: ...
@overload
def atleast_3d(x: ArrayLike, y: ArrayLike, /, *arrays: ArrayLike) -> tuple[Array, ...]: ...
@register_function
def atleast_3d(*arrays: ArrayLike) -> Array | tuple[Array, ...]:
    """Return x with new axes up to three: of shape ``(1, n, 1)`` from n elements, ``(m, n, 1)`` from a matrix.

    >>> atleast_3d(afx.zeros(3)).shape
    (1, 3, 1)
    """
    return _reshape_each(
        arrays, "atleast_3d", lambda shape: ((1,) * (len(shape) < 2) + shape + (1, 1))[: max(3, len(shape))]
    )


def _reshape_each(
    arrays: tuple[ArrayLike, ...], who: str, widen: Callable[[Shape], Shape]
) -> Array | tuple[Array, ...]:
    """Return each array in another shape; one by itself, several as a tuple."""
    found = tuple([reshape(x, widen(aval_of(x, who).shape)) for x in arrays])
    return found[0] if len(found) == 1 else found
