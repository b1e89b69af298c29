"""Scatter ops: ``x.at[index].set(values)``, ``add``, ``min`` and ``max``.

Indices may repeat: `index_set` keeps the last value, the others accumulate.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.compiler.arrays import Arrays
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of
from afx.core.primitive import Params, Primitive, Value
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind, to_lower_level
from afx.ops._kinds.updates import apply_index_update, scatter_op
from afx.ops.elementwise.arithmetic import add
from afx.ops.elementwise.comparison import equal
from afx.ops.elementwise.where import maximum, minimum, where
from afx.ops.indexing.gather import add_at, gather, gathered_shape, native_place, scatter
from afx.ops.indexing.getitem import Index
from afx.ops.indexing.slice import joint_linear, slice_add, slice_set
from afx.ops.manipulation.shape import broadcast_to

__all__: list[str] = []


@register_function
def index_set(x: ArrayLike, index: Index, values: ArrayLike) -> Array:
    """Return a copy of x with ``values`` at the index; where indices repeat, the last value stays.

    Args:
        x: any shape.
        index: see `getitem`.
        values: broadcast to the shape of ``x[index]``, in the dtype of x.

    Raises:
        ShapeError: the values do not broadcast.
        DtypeError: floats into integers.
        IndexRangeError: an index outside its axis.

    >>> index_set(afx.zeros(3), 1, 5.0)
    Array([0., 5., 0.], dtype=float32)
    """
    return apply_index_update("index_set", x, index, values, index_set_p, _second, slice_set)


def _second(_x: Any, values: Any) -> Any:
    return values


def _write(z: Any, place: Any, values: Any) -> None:
    z[place] = values


def _set_native(xp: Arrays, out: Any, x: Any, values: Any, *indices: Any, axis: int) -> None:
    xp.copy(out, x)
    _write(out, native_place(indices, axis), values)


def _winners(shape: Any, axis: int, indices: tuple[Value, ...], ct: Value) -> Value:
    """Return which values stay: at a repeated index the last."""
    places = aval_of(gather(ct, *indices, axis=axis)).shape
    order = np.arange(math.prod(places)).reshape(places)
    last = bind(index_set_p, np.zeros(shape, np.int64), order, *indices, axis=axis)
    return to_lower_level(equal(gather(last, *indices, axis=axis), order))


def _set_pull_x(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Any, dtype: Any) -> Value:
    axis = params["axis"]
    places = gathered_shape("index_set", Aval(shape, dtype), tuple([aval_of(i) for i in xs[2:]]), axis)
    return to_lower_level(bind(index_set_p, ct, broadcast_to(ct.dtype.type(0), places), *xs[2:], axis=axis))


def _set_pull_values(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Any, dtype: Any) -> Value:
    axis = params["axis"]
    won = _winners(ct.shape, axis, xs[2:], ct)
    return to_lower_level(where(won, gather(ct, *xs[2:], axis=axis), ct.dtype.type(0)))


index_set_p: Primitive = scatter_op(
    "index_set",
    _write,
    (_set_pull_x, _set_pull_values),
    joint_linear("index_set"),
    nonnegative_linear=True,
    selects=True,
    native=_set_native,
    takes_empty=True,
)


@register_function
def index_add(x: ArrayLike, index: Index, values: ArrayLike) -> Array:
    """Return a copy of x with ``values`` added at the index, once per occurrence; see `index_set`.

    >>> index_add(afx.zeros(3), [1, 1], 5.0)
    Array([ 0., 10.,  0.], dtype=float32)
    """
    return apply_index_update("index_add", x, index, values, index_add_p, add, slice_add)


def _add_pull_x(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Any, dtype: Any) -> Value:
    return ct


def _add_write(z: Any, place: Any, values: Any) -> None:
    indices = tuple([i for i in place if i.__class__ is not slice])
    add_at(z, indices, len(place) - len(indices), values)


def _add_native(xp: Arrays, out: Any, x: Any, values: Any, *indices: Any, axis: int) -> None:
    xp.copy(out, x)
    np.add.at(out, native_place(indices, axis), values)


index_add_p: Primitive = scatter_op(
    "index_add",
    _add_write,
    (_add_pull_x, lambda ct, z, xs, params, shape, dtype: to_lower_level(gather(ct, *xs[2:], axis=params["axis"]))),
    joint_linear("index_add"),
    nonnegative_linear=True,
    native=_add_native,
    takes_empty=True,
)


@register_function
def index_min(x: ArrayLike, index: Index, values: ArrayLike) -> Array:
    """Return a copy of x with the smaller of x and ``values`` at the index; ties share the derivative evenly.

    >>> index_min(afx.ones(3), [1, 1], 0.5)
    Array([1. , 0.5, 1. ], dtype=float32)
    """
    return apply_index_update("index_min", x, index, values, index_min_p, minimum)


@register_function
def index_max(x: ArrayLike, index: Index, values: ArrayLike) -> Array:
    """Return a copy of x with the larger of x and ``values`` at the index; ties share the derivative evenly.

    >>> index_max(afx.zeros(3), [1, 1], 0.5)
    Array([0. , 0.5, 0. ], dtype=float32)
    """
    return apply_index_update("index_max", x, index, values, index_max_p, maximum)


def _shares(z: Value, xs: tuple[Value, ...], axis: int) -> tuple[Value, Value, Value]:
    """Return which elements of x and which values are the result, and the inverse of how many share each index."""
    dtype = z.dtype
    own = to_lower_level(equal(xs[0], z)).astype(dtype)
    theirs = to_lower_level(to_lower_level(equal(xs[1], gather(z, *xs[2:], axis=axis))).astype(dtype))
    count = own + to_lower_level(scatter(theirs, *xs[2:], shape=z.shape, axis=axis))
    return own, theirs, to_lower_level(1 / to_lower_level(maximum(count, dtype.type(1))))


def _extreme_pull_x(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Any, dtype: Any) -> Value:
    own, _, share = _shares(z, xs, params["axis"])
    return ct * own * share


def _extreme_pull_values(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Any, dtype: Any) -> Value:
    _, theirs, share = _shares(z, xs, params["axis"])
    return to_lower_level(gather(ct * share, *xs[2:], axis=params["axis"])) * theirs


def _extreme_jvp(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    axis = params["axis"]
    own, theirs, share = _shares(z, xs, axis)
    total: Value | None = None
    if ts[0] is not None:
        total = ts[0] * own
    if ts[1] is not None:
        part = to_lower_level(scatter(ts[1] * theirs, *xs[2:], shape=z.shape, axis=axis))
        total = part if total is None else total + part
    return total * share


_extreme_pulls = (_extreme_pull_x, _extreme_pull_values)
index_min_p: Primitive = scatter_op("index_min", np.minimum.at, _extreme_pulls, _extreme_jvp, reads=~0, ordered=True)
index_max_p: Primitive = scatter_op("index_max", np.maximum.at, _extreme_pulls, _extreme_jvp, reads=~0, ordered=True)
