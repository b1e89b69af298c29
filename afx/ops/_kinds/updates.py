"""Functional updates: checks and rules shared by the ops of ``x.at[index]``.

An index is taken apart as in `afx.ops.indexing.getitem`: a basic part, which `slice` reads and `slice_set` writes, and index
arrays along consecutive axes, which an op's own primitive takes. A mask whose values are the same at every position is
a selection. So the mask may be traced, and replaced elements have no derivative, not even nan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of, broadcast_shapes
from afx.core.primitive import Params, Primitive, Pullback, Pushforward, Value, define, lookup
from afx.core.tracing.tracer import bind
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops._basic import fit_p
from afx.ops._kinds.batching import with_batch_axis
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.where import where
from afx.ops.indexing.gather import aligned, gathered_shape, move_axis, native_place, range_error
from afx.ops.indexing.getitem import resolve_index
from afx.ops.indexing.index import basic, is_array, is_basic, is_sequence, selected_shape
from afx.ops.indexing.slice import slice_, slice_set
from afx.ops.manipulation.shape import astype, broadcast_to, permute_dims, reshape

__all__ = ["apply_index_update", "scatter_op"]

INDICES = ~7  # the bit mask of rules that read neither the output, nor x, nor the values
_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def apply_index_update(
    who: str,
    x: ArrayLike,
    index: Any,
    values: Any,
    p: Primitive,
    op: Callable[[Any, Any], Any],
    at_slice: Callable[[Any, Any, Any], Array] | None = None,
) -> Array:
    """Return a copy of x, updated at an index.

    Args:
        who: the public function.
        x: any shape.
        index: see `getitem`.
        values: broadcast to the shape of ``x[index]``.
        p: the primitive that takes index arrays.
        op: what becomes of an element and its value where no index repeats.
        at_slice: the same at a canonical basic index, for ops that have a primitive for it.
    """
    aval = aval_of(x, who)
    if not is_basic(index):
        chosen = _select_by_mask(who, x, aval, index, values, op)
        if chosen is not None:
            return chosen
        found = resolve_index(x, index, who)
        if found.arrays:
            return _update_at_indices(who, x, found, values, p)
        places = found.basic
    else:
        places = basic(index, aval, who)
    fitting = _fitting(who, values, Aval(selected_shape(aval.shape, places), aval.dtype))
    return at_slice(x, fitting, places) if at_slice else slice_set(x, op(slice_(x, places), fitting), places)


def _select_by_mask(
    who: str, x: Any, aval: Aval, index: Any, values: Any, op: Callable[[Any, Any], Any]
) -> Array | None:
    """Return the update as a select where the index is a mask and one value goes to all of it."""
    if not is_array(index) or index.dtype.kind != "b" or is_sequence(values):
        return None
    shape = aval.shape[index.ndim :]
    if index.ndim == 0 or index.shape != aval.shape[: index.ndim] or aval_of(values, who).ndim > len(shape):
        return None
    mask = reshape(index, (*index.shape, *(1,) * len(shape)))
    return where(mask, op(x, _fitting(who, values, Aval(shape, aval.dtype))), x)


def _update_at_indices(who: str, x: Any, found: Any, values: Any, p: Primitive) -> Array:
    """Return the update by index arrays."""
    part = slice_(x, found.basic) if found.basic else x
    if found.order is not None:
        part = permute_dims(part, found.order)
    inner = aval_of(part)
    shape = gathered_shape(who, inner, tuple([aval_of(i) for i in found.arrays]), found.axis)
    part = bind(p, part, _fitting(who, values, Aval(shape, inner.dtype)), *found.arrays, axis=found.axis)
    if found.order is not None:
        part = permute_dims(part, tuple([found.order.index(a) for a in range(len(found.order))]))
    return slice_set(x, part, found.basic) if found.basic else part


def _fitting(who: str, values: Any, place: Aval) -> Any:
    """Return values in the shape and dtype of ``x[index]``, or raise."""
    if isinstance(values, (list, tuple)):
        values = asarray(cast("list[Any]", values))
    aval = aval_of(values, who)
    if _RANK[aval.dtype.kind] > _RANK[place.dtype.kind]:
        raise DtypeError(
            f"{who}: {aval.dtype} does not fit into {place.dtype}: got values {aval}; "
            "convert x or the values with astype"
        )
    if aval.weak:
        return _broadcast_number(who, values, place)
    if aval.dtype != place.dtype:
        values = astype(values, place.dtype)
    if aval.shape == place.shape:
        return values
    if broadcast_shapes([aval.shape, place.shape]) != place.shape:
        raise ShapeError(
            f"{who}: the values do not broadcast: got {aval} for x[index] of shape {place.shape}; reshape them"
        )
    return broadcast_to(values, place.shape)


def _broadcast_number(who: str, value: Any, place: Aval) -> Any:
    """Return a number, broadcast without memory of its own to the shape of ``x[index]``."""
    if isinstance(value, Array):  # a weak traced number
        kinds = aval_of(value).dtype.kind + place.dtype.kind
        number = bind(fit_p, value, dtype=place.dtype) if kinds in ("ii", "iu") else astype(value, place.dtype)
        return broadcast_to(number, place.shape)
    try:
        element = np.asarray(value, place.dtype)
    except OverflowError as error:
        raise ArgumentError(f"{who}: {error}: got {value} for {place}; convert x with astype") from None
    return np.ndarray(place.shape, place.dtype, element, strides=(0,) * place.ndim)


def _check_order(name: str, x: Aval, values: Aval) -> None:
    if "c" in (x.dtype.kind, values.dtype.kind):
        raise DtypeError(f"{name}: complex numbers have no order: got {x} and {values}; take the abs or a part")


def _abstract(name: str, ordered: bool) -> Any:
    def abstract(x: Aval, values: Aval, *indices: Aval, axis: int) -> Aval:
        if ordered:
            _check_order(name, x, values)
        want = gathered_shape(name, x, indices, axis)
        if values.shape != want:
            raise ShapeError(
                f"{name}: the values have another shape: got {values} for x[index] of shape {want}; reshape them"
            )
        return Aval(x.shape, x.dtype)

    return abstract


def _runner(name: str, write: Callable[[Any, Any, Any], None], ordered: bool) -> Callable[..., Any]:
    """Return the implementation from what writes values at NumPy's index into a fresh copy."""

    def run(x: Any, values: Any, *indices: Any, axis: int) -> Any:
        if ordered:
            _check_order(name, aval_of(x), aval_of(values))
        z = np.array(x, aval_of(x).dtype, order="C")
        try:
            write(z, native_place(indices, axis), values)
        except IndexError as error:
            raise range_error(name, z, indices, axis, error) from None
        return z

    return run


def _batch(name: str) -> Any:
    def batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
        p, axis, indices = lookup(name), params["axis"], xs[2:]
        x, values = (with_batch_axis(size, v, b) for v, b in zip(xs[:2], batched[:2], strict=True))
        if not any(batched[2:]):
            return bind(p, x, values, *indices, axis=axis + 1)
        count = len(indices)
        rank, places = aligned(size, indices, batched[2:])
        z = bind(p, move_axis(x, axis + 1, count, 1), move_axis(values, axis + 1, rank, 1), *places, axis=0)
        return move_axis(z, 1, count, axis + 1)

    return batch


def scatter_op(
    name: str,
    write: Callable[[Any, Any, Any], None],
    pullbacks: tuple[Pullback, Pullback],
    jvp: Pushforward,
    *,
    reads: int = INDICES,
    ordered: bool = False,
    **tags: Any,
) -> Primitive:
    """Make an op of x, values and index arrays.

    Args:
        name: its name.
        write: writes values at NumPy's index into the fresh copy it is given.
        pullbacks: of x and of the values.
        jvp: the tangent of the result.
        reads: the bit mask of what the pullbacks read.
        ordered: whether it compares numbers, so that complex ones are refused.
        **tags: other options of `define`.
    """
    return define(
        name=name,
        kind="custom",
        impl=_runner(name, write, ordered),
        abstract_eval=_abstract(name, ordered),
        vjps=pullbacks,
        reads=(reads,),
        jvp=jvp,
        batch=_batch(name),
        smooth=not ordered,
        **tags,
    )
