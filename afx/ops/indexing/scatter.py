"""Updates: ``x.at[index]`` with its checks and rules, and sums, products and extremes of segments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from afx.compiler.schedule.arrays import Arrays
from afx.core import (
    Array,
    ArrayLike,
    Function,
    Tracer,
    bind,
    is_inexact,
    register_function,
    to_lower_level,
    to_numpy_value,
)
from afx.core.aval import Aval, Shape, aval_of, broadcast_shapes, integer, normalize_axis
from afx.core.primitive import Bools, Params, Primitive, Pullback, Pushforward, Tangents, Value, Values, define, lookup
from afx.errors import ArgumentError, ConcreteValueError, DtypeError, IndexRangeError, ShapeError
from afx.ops._basic import fit_p, sum_dtype
from afx.ops._kinds.linear import with_batch_axis
from afx.ops.creation.creation import asarray, full, ones, zeros
from afx.ops.elementwise.arithmetic import add, divide, multiply
from afx.ops.elementwise.comparison import equal, maximum, minimum, where
from afx.ops.indexing.gather import (
    aligned,
    combine_at,
    gather,
    gathered_shape,
    joint_linear,
    move_axis,
    native_place,
    range_error,
    scatter,
    slice_,
    slice_add,
    slice_set,
)
from afx.ops.indexing.getitem import Index, along_axis, resolve_index
from afx.ops.indexing.index import basic, is_array, is_basic, is_sequence, selected_shape
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.pad import flip
from afx.ops.manipulation.shape import astype, broadcast_to, permute_dims, reshape
from afx.ops.sorting.sort import argsort

# --- Functional updates: checks and rules shared by the ops of ``x.at[index]``
#
# An index is taken apart as in `afx.ops.indexing.getitem`: a basic part, which `slice` reads and `slice_set` writes,
# and index arrays along consecutive axes, which an op's own primitive takes. A mask whose values are the same at
# every position is a selection. So the mask may be traced, and replaced elements have no derivative, not even nan.

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
        resolved = resolve_index(x, index, who)
        if resolved.arrays:
            return _update_at_indices(who, x, resolved, values, p)
        places = resolved.basic
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


def _update_at_indices(who: str, x: Any, resolved: Any, values: Any, p: Primitive) -> Array:
    """Return the update by index arrays."""
    part = slice_(x, resolved.basic) if resolved.basic else x
    if resolved.order is not None:
        part = permute_dims(part, resolved.order)
    inner = aval_of(part)
    shape = gathered_shape(who, inner, tuple(map(aval_of, resolved.arrays)), resolved.axis)
    part = bind(p, part, _fitting(who, values, Aval(shape, inner.dtype)), *resolved.arrays, axis=resolved.axis)
    if resolved.order is not None:
        part = permute_dims(part, tuple([resolved.order.index(a) for a in range(len(resolved.order))]))
    return slice_set(x, part, resolved.basic) if resolved.basic else part


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


def _runner(name: str, write: Callable[[Any, Any, Any], None], ordered: bool) -> Function:
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
    def batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
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
        **tags,
    )


# --- Scatter ops: ``x.at[index].set(values)``, ``add``, ``min`` and ``max``
#
# Indices may repeat: `index_set` keeps the last value, the others accumulate.


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
    return apply_index_update("index_set", x, index, values, index_set_p, lambda _x, values: values, slice_set)


def _write(z: Any, place: Any, values: Any) -> None:
    z[place] = values


def _set_native(xp: Arrays, out: Any, x: Any, values: Any, *indices: Any, axis: int) -> None:
    xp.copy(out, x)
    _write(out, native_place(indices, axis), values)


def _winners(shape: Any, axis: int, indices: Values, ct: Value) -> Value:
    """Return which values stay: at a repeated index the last."""
    places = aval_of(gather(ct, *indices, axis=axis)).shape
    order = np.arange(math.prod(places)).reshape(places)
    last = bind(index_set_p, np.zeros(shape, np.int64), order, *indices, axis=axis)
    return to_lower_level(equal(gather(last, *indices, axis=axis), order))


def _set_pull_x(ct: Value, z: Value, xs: Values, params: Params, shape: Any, dtype: Any) -> Value:
    axis = params["axis"]
    places = gathered_shape("index_set", Aval(shape, dtype), tuple(map(aval_of, xs[2:])), axis)
    return to_lower_level(bind(index_set_p, ct, broadcast_to(ct.dtype.type(0), places), *xs[2:], axis=axis))


def _set_pull_values(ct: Value, z: Value, xs: Values, params: Params, shape: Any, dtype: Any) -> Value:
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


def _combining(ufunc: np.ufunc) -> tuple[Callable[..., None], Callable[..., None]]:
    """Return a function that combines values by a ufunc with the elements at NumPy's index, and its native form."""

    def write(z: Any, place: Any, values: Any) -> None:
        indices = tuple([i for i in place if i.__class__ is not slice])
        combine_at(ufunc, z, indices, len(place) - len(indices), values)

    def native(xp: Arrays, out: Any, x: Any, values: Any, *indices: Any, axis: int) -> None:
        xp.copy(out, x)
        ufunc.at(out, native_place(indices, axis), values)

    return write, native


_add_write, _add_native = _combining(np.add)
index_add_p: Primitive = scatter_op(
    "index_add",
    _add_write,
    (
        lambda ct, z, xs, params, shape, dtype: ct,
        lambda ct, z, xs, params, shape, dtype: to_lower_level(gather(ct, *xs[2:], axis=params["axis"])),
    ),
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


def _shares(z: Value, xs: Values, axis: int) -> tuple[Value, Value, Value]:
    """Return which elements of x and which values are the result, and the inverse of how many share each index."""
    dtype = z.dtype
    own = to_lower_level(equal(xs[0], z)).astype(dtype)
    theirs = to_lower_level(to_lower_level(equal(xs[1], gather(z, *xs[2:], axis=axis))).astype(dtype))
    count = own + to_lower_level(scatter(theirs, *xs[2:], shape=z.shape, axis=axis))
    return own, theirs, to_lower_level(1 / to_lower_level(maximum(count, dtype.type(1))))


def _extreme_pull_x(ct: Value, z: Value, xs: Values, params: Params, shape: Any, dtype: Any) -> Value:
    own, _, share = _shares(z, xs, params["axis"])
    return ct * own * share


def _extreme_pull_values(ct: Value, z: Value, xs: Values, params: Params, shape: Any, dtype: Any) -> Value:
    _, theirs, share = _shares(z, xs, params["axis"])
    return to_lower_level(gather(ct * share, *xs[2:], axis=params["axis"])) * theirs


def _extreme_jvp(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    axis = params["axis"]
    own, theirs, share = _shares(z, xs, axis)
    total = None
    if ts[0] is not None:
        total = ts[0] * own
    if ts[1] is not None:
        part = to_lower_level(scatter(ts[1] * theirs, *xs[2:], shape=z.shape, axis=axis))
        total = part if total is None else total + part
    return total * share


_extreme_pulls = (_extreme_pull_x, _extreme_pull_values)
_min_write, _min_native = _combining(np.minimum)
index_min_p: Primitive = scatter_op(
    "index_min", _min_write, _extreme_pulls, _extreme_jvp, reads=~0, ordered=True, native=_min_native
)
_max_write, _max_native = _combining(np.maximum)
index_max_p: Primitive = scatter_op(
    "index_max", _max_write, _extreme_pulls, _extreme_jvp, reads=~0, ordered=True, native=_max_native
)


# --- Scatter products: ``x.at[index].multiply(values)`` and ``divide``


@register_function
def index_multiply(x: ArrayLike, index: Index, values: ArrayLike) -> Array:
    """Return a copy of x multiplied by ``values`` at the index, once per occurrence; see `index_set`.

    >>> index_multiply(afx.ones(3), [1, 1], 5.0)
    Array([ 1., 25.,  1.], dtype=float32)
    """
    return apply_index_update("index_multiply", x, index, values, index_multiply_p, multiply)


def _product(x: Value, values: Value, indices: Values, axis: int) -> Value:
    """Return for each element of x the product of the values for its index, 1 where there are none."""
    one = broadcast_to(values.dtype.type(1), x.shape)
    return to_lower_level(bind(index_multiply_p, one, values, *indices, axis=axis))


def _multiply_pull_values(ct: Value, z: Value, xs: Values, params: Params, shape: Any, dtype: Any) -> Value:
    axis = params["axis"]
    g = to_lower_level(gather(ct * xs[0], *xs[2:], axis=axis))
    others = _multiply_others(xs[1], xs[2:], xs[0].shape, axis)
    return g if others is None else g * to_lower_level(others)


def _multiply_jvp(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    axis, (x, values), indices = params["axis"], xs[:2], xs[2:]
    total = None
    if ts[0] is not None:
        total = ts[0] * _product(x, values, indices, axis)
    if ts[1] is not None:
        others = _multiply_others(values, indices, x.shape, axis)
        part = ts[1] if others is None else ts[1] * to_lower_level(others)
        product = x * to_lower_level(scatter(part, *indices, shape=x.shape, axis=axis))
        total = product if total is None else total + product
    return total


def _multiply_others(values: Value, indices: Values, shape: Shape, axis: int) -> Value | None:
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
    products = gather(before * behind, argsort(order))
    return to_lower_level(move_axis(reshape(products, front.shape), 0, rank, axis))


def _number_indices(indices: Values, shape: Shape, axis: int) -> Value:
    """Return one number for each tuple of indices, as one axis."""
    total = 0
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


_multiply_write, _multiply_native = _combining(np.multiply)
index_multiply_p: Primitive = scatter_op(
    "index_multiply",
    _multiply_write,
    (lambda ct, z, xs, params, shape, dtype: ct * _product(ct, xs[1], xs[2:], params["axis"]), _multiply_pull_values),
    _multiply_jvp,
    reads=~1,
    native=_multiply_native,
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


# --- Segments: sums, means, products and extremes of the elements that belong together


def _operands(who: str, x: ArrayLike, segments: ArrayLike, count: int | None) -> tuple[Array, Array, int]:
    """Return elements, the segment of each, and how many there are, or raise where they do not fit."""
    a, s = aval_of(x, who), aval_of(segments, who)
    if s.dtype.kind not in "iu":
        raise DtypeError(f"{who}: segments are integers: got {s}; use astype(int)")
    if s.ndim != 1 or a.shape[:1] != s.shape:
        raise ShapeError(f"{who}: a segment for each element of the first axis: got {a} and {s}; reshape them")
    known = None if isinstance(segments, Tracer) else to_numpy_value(segments, "segments")
    if count is None:
        if known is None:
            raise ConcreteValueError(f"{who}: the number of segments is not known here: got {s}; give count=")
        count = int(known.max()) + 1 if known.size else 0
    if integer(count, who, "count") < 0:
        raise ArgumentError(f"{who}: count is a number of segments: got {count}; give 0 or more")
    if known is not None and known.size and not 0 <= known.min() <= known.max() < count:
        raise IndexRangeError(
            f"{who}: segments are from 0 up to {count}: got {known.min()} to {known.max()}; give count={known.max() + 1}"
        )
    return asarray(x), asarray(segments), count


def segment_sum(x: ArrayLike, segments: ArrayLike, count: int | None = None) -> Array:
    """Return the sum of the elements of each segment; of an empty one 0.

    Args:
        x: [elements, ...]; booleans and small integers are summed as int64.
        segments: int[elements], the segment of each element, from 0; in any order.
        count: the number of segments; without it one more than the largest, which `jit` does not know.

    Returns:
        [count, ...].

    Raises:
        ShapeError: there is no segment for each element.
        DtypeError: segments are no integers.
        IndexRangeError: a segment is outside, where it is known; under `jit` it is left out if it is too large.
        ConcreteValueError: the number is needed and not known.

    >>> segment_sum(afx.asarray([1.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    Array([5., 0., 2.], dtype=float32)
    """
    y, index, size = _operands("segment_sum", x, segments, count)
    dtype = sum_dtype(y.dtype)
    return zeros((size, *y.shape[1:]), dtype).at[index].add(astype(y, dtype))


def segment_mean(x: ArrayLike, segments: ArrayLike, count: int | None = None) -> Array:
    """Return the mean of the elements of each segment; of an empty one 0. Arguments and errors are `segment_sum`'s.

    >>> segment_mean(afx.asarray([1.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    Array([2.5, 0. , 2. ], dtype=float32)
    """
    y, index, size = _operands("segment_mean", x, segments, count)
    number = y.dtype if is_inexact(y.dtype) else zeros(()).dtype
    total = segment_sum(astype(y, number), index, size)
    members = segment_sum(ones(index.shape, total.real.dtype), index, size)
    return total / reshape(maximum(members, 1), (size,) + (1,) * (y.ndim - 1))


def segment_prod(x: ArrayLike, segments: ArrayLike, count: int | None = None) -> Array:
    """Return the product of the elements of each segment; of an empty one 1. Arguments and errors are `segment_sum`'s.

    >>> segment_prod(afx.asarray([3.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    Array([12.,  1.,  2.], dtype=float32)
    """
    y, index, size = _operands("segment_prod", x, segments, count)
    dtype = sum_dtype(y.dtype)
    return ones((size, *y.shape[1:]), dtype).at[index].multiply(astype(y, dtype))


def segment_max(x: ArrayLike, segments: ArrayLike, count: int | None = None) -> Array:
    """Return the largest element of each segment; of an empty one -inf, of integers the least there is, of booleans False.

    Arguments and errors are `segment_sum`'s.

    >>> segment_max(afx.asarray([1.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    Array([  4., -inf,   2.], dtype=float32)
    """
    y, index, size = _operands("segment_max", x, segments, count)
    least = -np.inf if is_inexact(y.dtype) else y.dtype.kind != "b" and np.iinfo(y.dtype).min
    return full((size, *y.shape[1:]), least, y.dtype).at[index].max(y)


def segment_min(x: ArrayLike, segments: ArrayLike, count: int | None = None) -> Array:
    """Return the smallest element of each segment; of an empty one inf, of integers the largest there is, of booleans True.

    Arguments and errors are `segment_sum`'s.

    >>> segment_min(afx.asarray([1.0, 2.0, 4.0]), np.array([0, 2, 0]), 3)
    Array([ 1., inf,  2.], dtype=float32)
    """
    y, index, size = _operands("segment_min", x, segments, count)
    largest = np.inf if is_inexact(y.dtype) else y.dtype.kind == "b" or np.iinfo(y.dtype).max
    return full((size, *y.shape[1:]), largest, y.dtype).at[index].min(y)


@register_function
def put_along_axis(x: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None = -1) -> Array:
    """Return an array with values at the elements that `take_along_axis` takes; NumPy writes them into x instead.

    Args:
        x: any shape.
        indices: integers; apart from the axis their shape broadcasts with that of x.
        values: what broadcasts to the shape of the indices.
        axis: the axis; None reads x as if it were flat.

    Raises:
        ShapeError: the shapes do not fit.
        IndexRangeError: an index outside the axis.

    >>> put_along_axis(np.zeros((2, 2)), np.array([[1], [0]]), 5.0)
    Array([[0., 5.],
           [5., 0.]], dtype=float64)
    """
    y, places = asarray(x), asarray(indices)
    if axis is None:
        return reshape(put_along_axis(reshape(y, (-1,)), reshape(places, (-1,)), values, 0), y.shape)
    if y.ndim != places.ndim:
        raise ShapeError(f"put_along_axis: the number of axes differs: got {y.aval} and {places.aval}; add axes")
    along = normalize_axis(axis, y.ndim, "put_along_axis")
    lengths = [1 if a == along else n for a, n in enumerate(y.shape)]
    common = broadcast_shapes([tuple(lengths), tuple([1 if a == along else n for a, n in enumerate(places.shape)])])
    if common is None:
        raise ShapeError(f"put_along_axis: the shapes do not fit: got {y.aval} and {places.aval}; reshape one")
    return y.at[tuple(along_axis(places, y.shape, along, common))].set(values)
