"""Scatter products: ``x.at[index].multiply(values)`` and ``divide``."""

from __future__ import annotations

from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Shape, aval_of
from afx.core.primitive import Params, Primitive, Value
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind, to_lower_level
from afx.errors import DtypeError
from afx.ops._kinds.updates import apply_index_update, scatter_op
from afx.ops.elementwise.arithmetic import divide, multiply
from afx.ops.elementwise.comparison import equal
from afx.ops.elementwise.where import where
from afx.ops.indexing.gather import gather, move_axis, scatter
from afx.ops.indexing.getitem import Index
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.pad import flip
from afx.ops.manipulation.shape import broadcast_to, reshape
from afx.ops.sorting.sort import argsort

__all__: list[str] = []


@register_function
def index_multiply(x: ArrayLike, index: Index, values: ArrayLike) -> Array:
    """Return a copy of x multiplied by ``values`` at the index, once per occurrence; see `index_set`.

    >>> index_multiply(afx.ones(3), [1, 1], 5.0)
    Array([ 1., 25.,  1.], dtype=float32)
    """
    return apply_index_update("index_multiply", x, index, values, index_multiply_p, multiply)


def _product(x: Value, values: Value, indices: tuple[Value, ...], axis: int) -> Value:
    """Return for each element of x the product of the values for its index, 1 where there are none."""
    one = broadcast_to(values.dtype.type(1), x.shape)
    return to_lower_level(bind(index_multiply_p, one, values, *indices, axis=axis))


def _multiply_pull_x(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Any, dtype: Any) -> Value:
    return ct * _product(ct, xs[1], xs[2:], params["axis"])


def _multiply_pull_values(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Any, dtype: Any) -> Value:
    axis = params["axis"]
    g = to_lower_level(gather(ct * xs[0], *xs[2:], axis=axis))
    others = _multiply_others(xs[1], xs[2:], xs[0].shape, axis)
    return g if others is None else g * to_lower_level(others)


def _multiply_jvp(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    axis, (x, values), indices = params["axis"], xs[:2], xs[2:]
    total: Value | None = None
    if ts[0] is not None:
        total = ts[0] * _product(x, values, indices, axis)
    if ts[1] is not None:
        others = _multiply_others(values, indices, x.shape, axis)
        part = ts[1] if others is None else ts[1] * to_lower_level(others)
        product = x * to_lower_level(scatter(part, *indices, shape=x.shape, axis=axis))
        total = product if total is None else total + product
    return total


def _multiply_others(values: Value, indices: tuple[Value, ...], shape: Shape, axis: int) -> Value | None:
    """Return for each value the product of the other values for its index; None where no index repeats.

    Dividing the product by the value would fail at zeros. So values are sorted by index, and products of those before
    and behind each are built up by doubling.
    """
    numbers = _number_indices(indices, shape, axis)
    if numbers.__class__ is np.ndarray and np.unique(numbers).size == numbers.size:
        return None
    count, rank = numbers.size, aval_of(values).ndim - (len(shape) - len(indices))
    order = argsort(numbers)
    front = move_axis(values, axis, rank, 0)
    flat = reshape(front, (count, *front.shape[rank:]))
    places, ordered = gather(numbers, order), gather(flat, order)
    before = _exclusive(ordered, places)
    behind = flip(_exclusive(flip(ordered, 0), flip(places, 0)), 0)
    found = gather(before * behind, argsort(order))
    return to_lower_level(move_axis(reshape(found, front.shape), 0, rank, axis))


def _number_indices(indices: tuple[Value, ...], shape: Shape, axis: int) -> Value:
    """Return one number for each tuple of indices, as one axis."""
    total: Value = 0
    for i, n in zip(indices, shape[axis:], strict=False):
        total = total * n + to_lower_level(where(i < 0, i + n, i)).astype(np.int64)
    return to_lower_level(reshape(total, (-1,)))


def _exclusive(values: Array, places: Array) -> Array:
    """Return the product of the values before each one for the same index, the indices being sorted."""
    count = values.shape[0]
    ones = broadcast_to(values.dtype.type(1), values.shape)

    def before(x: Array, distance: int) -> Array:
        """Return x shifted back, 1 where the previous index differs."""
        same = reshape(equal(places[distance:], places[:-distance]), (count - distance,) + (1,) * (values.ndim - 1))
        return concat([ones[:distance], where(same, x[:-distance], ones[distance:])])

    product, distance = values, 1
    while distance < count:
        product, distance = product * before(product, distance), 2 * distance
    return before(product, 1) if count > 1 else ones


index_multiply_p: Primitive = scatter_op(
    "index_multiply", np.multiply.at, (_multiply_pull_x, _multiply_pull_values), _multiply_jvp, reads=~1
)


@register_function
def index_divide(x: ArrayLike, index: Index, values: ArrayLike) -> Array:
    """Return a copy of x divided by ``values`` at the index, once per occurrence; see `index_set`.

    Raises:
        DtypeError: x holds integers.

    >>> index_divide(afx.ones(3), [1, 1], 2.0)
    Array([1.  , 0.25, 1.  ], dtype=float32)
    """
    aval = aval_of(x, "index_divide")
    if aval.dtype.kind not in "fc":
        raise DtypeError(f"index_divide: a quotient of integers is none: got {aval}; convert x with astype")
    ones = broadcast_to(aval.dtype.type(1), aval.shape)
    return divide(x, apply_index_update("index_divide", ones, index, values, index_multiply_p, multiply))
