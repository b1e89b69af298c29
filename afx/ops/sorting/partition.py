"""Partial orders: the largest elements, partitions, and orders by several keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from afx.core import Array, ArrayLike, aval_of, integer, normalize_axis, promote, register_function
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import negative
from afx.ops.elementwise.comparison import invert
from afx.ops.indexing.getitem import take_along_axis
from afx.ops.indexing.index import ints, is_sequence
from afx.ops.manipulation.join import unstack
from afx.ops.manipulation.shape import astype, reshape
from afx.ops.sorting.sort import argsort, check_kind, sort, take_first


class TopK(NamedTuple):
    """The first elements of an order, and where they stand."""

    values: Array
    indices: Array


@register_function
def top_k(x: ArrayLike, k: int, /, *, axis: int = -1, largest: bool = True) -> TopK:
    """Return the k largest elements along an axis, the largest first, and their indices.

    Equal elements keep their order and share the derivative evenly, those that just miss being chosen too.

    Args:
        x: any shape with an axis.
        k: how many, from 0 to the length of the axis.
        axis: the axis.
        largest: whether the largest are wanted, and not the smallest, the smallest first.

    Raises:
        ArgumentError: more than there are.

    >>> top_k(np.array([3.0, 1.0, 2.0]), 2).values
    Array([3., 2.], dtype=float64)
    """
    aval = aval_of(x, "top_k")
    place = normalize_axis(axis, aval.ndim, "top_k")
    k = integer(k, "top_k", "k")
    if not 0 <= k <= aval.shape[place]:
        raise ArgumentError(
            f"top_k: there are {aval.shape[place]} elements: got k={k} for {aval}; ask for at most these"
        )
    turn: Callable[[Any], Any] = (negative if aval.dtype.kind in "fc" else invert) if largest else asarray
    values, indices = take_first(turn(x), place - aval.ndim, k)
    return TopK(turn(values), indices)


def _check_places(x: ArrayLike, kth: int | Sequence[int], axis: int | None, who: str) -> None:
    aval = aval_of(x, who)
    n = aval.size if axis is None else aval.shape[normalize_axis(axis, aval.ndim, who)]
    for k in ints(kth, who, "kth"):
        if not -n <= k < n:
            raise ArgumentError(f"{who}: kth is out of bounds: got kth={kth} for {aval}; give indices below {n}")


@register_function
def partition(
    x: ArrayLike, kth: int | Sequence[int], axis: int | None = -1, kind: str = "introselect", order: None = None
) -> Array:
    """Return x with the element that sorting would put at an index there, smaller ones before it, larger ones behind.

    The others stand in order too, which NumPy does not promise: it is `sort`, with its derivative.

    Args:
        x: any shape.
        kth: the index, or several.
        axis: the axis; None partitions all elements as one.
        kind: ``"introselect"``, NumPy's only one.
        order: None: there are no fields to name.

    Raises:
        ArgumentError: kth is out of bounds.

    >>> partition(np.array([3.0, 1.0, 2.0]), 1)
    Array([1., 2., 3.], dtype=float64)
    """
    check_kind(kind, order, "partition", ("introselect",))
    _check_places(x, kth, axis, "partition")
    return sort(x, axis)


@register_function
def argpartition(
    x: ArrayLike, kth: int | Sequence[int], axis: int | None = -1, kind: str = "introselect", order: None = None
) -> Array:
    """Return the indices that partition x; arguments and errors are those of `partition`.

    >>> argpartition(np.array([3.0, 1.0, 2.0]), 1)
    Array([1, 2, 0], dtype=int64)
    """
    check_kind(kind, order, "argpartition", ("introselect",))
    _check_places(x, kth, axis, "argpartition")
    return argsort(x, axis)


@register_function
def lexsort(keys: ArrayLike | Sequence[ArrayLike], axis: int = -1) -> Array:
    """Return the indices that sort by several keys: the last is the first to count, each before it decides ties.

    Args:
        keys: arrays of one shape, or one array whose first axis they lie along.
        axis: the axis to sort along.

    Raises:
        ArgumentError: no keys.
        ShapeError: keys of different shapes.

    >>> lexsort([np.array([1, 0, 2]), np.array([1, 1, 0])])
    Array([2, 1, 0], dtype=int64)
    """
    parts = _keys(keys)
    if not parts:
        raise ArgumentError("lexsort: takes at least one key: got none; give one")
    if any(k.shape != parts[0].shape for k in parts):
        raise ShapeError(f"lexsort: keys differ in shape: got {', '.join(str(k.aval) for k in parts)}; broadcast them")
    if not parts[0].ndim:
        return asarray(np.int64(0))
    order = argsort(parts[0], axis)
    for key in parts[1:]:
        order = take_along_axis(order, argsort(take_along_axis(key, order, axis), axis), axis)
    return order


def _keys(keys: Any) -> list[Array]:
    return [asarray(k) for k in (keys if is_sequence(keys) else unstack(asarray(keys)))]


@register_function
def sort_complex(x: ArrayLike) -> Array:
    """Return x as complex numbers, sorted along the last axis by their real parts, then by their imaginary parts.

    >>> sort_complex(np.array([2.0, 1.0]))
    Array([1.+0.j, 2.+0.j], dtype=complex128)
    """
    aval = aval_of(x, "sort_complex")
    dtype = promote((aval.dtype, np.dtype(np.complex64)), (aval.weak, False), floating=True)
    return sort(reshape(astype(x, dtype), aval.shape or (1,)))
