"""Slices and gathers: the linear primitives behind indices, basic ones and arrays, and behind updates."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from afx.compiler.schedule.arrays import Arrays
from afx.core import Array, ArrayLike, Aval, Shape, aval_of, bind, broadcast_shapes, to_lower_level
from afx.core.primitive import (
    Algebra,
    Bools,
    Derivative,
    Lowering,
    Masking,
    Params,
    Primitive,
    Tangents,
    Value,
    Values,
    lookup,
    record,
    record_kernel,
    register,
)
from afx.errors import DtypeError, IndexRangeError, ShapeError
from afx.ops._kinds.linear import in_each_part, linear, with_batch_axis
from afx.ops.indexing.index import Basic, Entry, fits, native, out_of_range, rank_of, selected_shape, shape_of
from afx.ops.manipulation.shape import broadcast_to, permute_dims, reshape

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


# --- Slices: the linear primitives behind ``x[1:3, ..., None]`` and its updates
#
# `slice` takes a part of an array as a view, `embed` puts a part into zeros: each is the transpose of the other.
# Their index is in the canonical form of `afx.ops.indexing.index`.


def batched_index(size: int, index: Basic) -> Basic:
    """Return an index with the whole batch axis in front."""
    return ((0, size, 1), *index)


def _check(who: str, x: Aval, index: Basic) -> None:
    if not fits(x.shape, index):
        raise IndexRangeError(f"{who}: the index lies outside: got {x} and {index}; use an index within its axes")


def slice_(x: ArrayLike, index: Basic) -> Array:
    """Return the part of x at a canonical index; on NumPy memory a view.

    >>> slice_(afx.asarray([1.0, 2.0, 3.0]), ((0, 2, 1),))
    Array([1., 2.], dtype=float32)
    """
    z: Array = bind(slice_p, x, index=index)
    return z


def _slice_run(x: Any, *, index: Basic) -> Any:
    return np.asarray(x, aval_of(x).dtype)[native(index)] if x.__class__ is not np.ndarray else x[native(index)]


def _slice_abstract(x: Aval, *, index: Basic) -> Aval:
    _check("getitem", x, index)
    return Aval(selected_shape(x.shape, index), x.dtype)


def _slice_text(x: str, *, index: Basic) -> str:
    def part(e: Entry) -> str:
        if not isinstance(e, tuple):
            return repr(e)
        start, stop, step = e
        return f"{start}:{'' if stop < 0 else stop}" + (f":{step}" if step != 1 else "")

    return f"{x}[{', '.join([*map(part, index), '...'])}]"


def _slice_transpose(ct: Array, x: Aval, *, index: Basic) -> Array:
    return embed(ct, x.shape, index)


def _slice_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    return slice_(xs[0], batched_index(size, params["index"]))


slice_p: Primitive = linear(
    "slice",
    _slice_run,
    _slice_abstract,
    _slice_transpose,
    batch=_slice_batch,
    nonnegative_linear=True,
    selects=True,
    may_alias=True,
    emit_view=_slice_text,
    canonical="slice",
)


def embed(x: ArrayLike, shape: Shape, index: Basic) -> Array:
    """Return zeros of a shape with x at a canonical index: the transpose of `slice_`.

    >>> embed(afx.asarray([1.0, 2.0]), (4,), ((1, 3, 1),))
    Array([0., 1., 2., 0.], dtype=float32)
    """
    z: Array = bind(embed_p, x, shape=shape, index=index)
    return z


def _embed_run(x: Any, *, shape: Shape, index: Basic) -> Any:
    z = np.zeros(shape, aval_of(x).dtype)
    part = z[native(index)]
    if part.shape != np.shape(x):
        raise ValueError("the part has another shape")
    part[...] = x
    return z


def _embed_prepare(x: Aval, *, shape: Shape, index: Basic) -> Callable[[Any, Any], None]:
    place = native(index)

    def into(out: Any, x: Any) -> None:
        out.fill(0)
        out[place] = x

    return into


def _embed_native(xp: Recorder, out: Any, x: Any, *, shape: Shape, index: Basic) -> None:
    xp.embed(out, native(index), x)


def _embed_abstract(x: Aval, *, shape: Shape, index: Basic) -> Aval:
    _check("embed", Aval(shape, x.dtype), index)
    want = selected_shape(shape, index)
    if x.shape != want:
        raise ShapeError(f"embed: the part has another shape: got {x} for a slice of shape {want}; reshape it")
    return Aval(shape, x.dtype)


def _embed_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    return embed(xs[0], (size, *params["shape"]), batched_index(size, params["index"]))


def _embed_transpose(ct: Array, x: Aval, *, shape: Shape, index: Basic) -> Array:
    return slice_(ct, index)


embed_p: Primitive = linear(
    "embed",
    _embed_run,
    _embed_abstract,
    _embed_transpose,
    batch=_embed_batch,
    nonnegative_linear=True,
    make_kernel=_embed_prepare,
    native=_embed_native,
    takes_empty=True,
    canonical="embed",
)


# -- updates --
def slice_set(x: ArrayLike, values: ArrayLike, index: Basic) -> Array:
    """Return a copy of x with ``values``, of the dtype of x and the shape of the part, at a canonical index.

    >>> slice_set(afx.zeros(3), afx.ones(2), ((1, 3, 1),))
    Array([0., 1., 1.], dtype=float32)
    """
    z: Array = bind(slice_set_p, x, values, index=index)
    return z


def slice_add(x: ArrayLike, values: ArrayLike, index: Basic) -> Array:
    """Return a copy of x with ``values``, of the dtype of x and the shape of the part, added at a canonical index.

    >>> slice_add(afx.ones(3), afx.ones(2), ((1, 3, 1),))
    Array([1., 2., 2.], dtype=float32)
    """
    z: Array = bind(slice_add_p, x, values, index=index)
    return z


def _set_run(x: Any, values: Any, *, index: Basic) -> Any:
    z = np.array(x, aval_of(x).dtype)
    z[native(index)] = values
    return z


def _add_run(x: Any, values: Any, *, index: Basic) -> Any:
    z = np.array(x, aval_of(x).dtype)
    z[native(index)] += values
    return z


def _set_prepare(x: Aval, values: Aval, *, index: Basic) -> Callable[[Any, Any, Any], None]:
    place = native(index)

    def into(out: Any, x: Any, values: Any) -> None:
        if out is not x:
            np.copyto(out, x)
        out[place] = values

    return into


def _add_prepare(x: Aval, values: Aval, *, index: Basic) -> Callable[[Any, Any, Any], None]:
    place = native(index)

    def into(out: Any, x: Any, values: Any) -> None:
        if out is not x:
            np.copyto(out, x)
        part = out[place]
        np.add(part, values, out=part)

    return into


def _update_abstract(name: str) -> Any:
    def abstract(x: Aval, values: Aval, *, index: Basic) -> Aval:
        _check(name, x, index)
        want = selected_shape(x.shape, index)
        if values.shape != want:
            raise ShapeError(
                f"{name}: the values have another shape: got {values} for x[…] of shape {want}; reshape them"
            )
        return Aval(x.shape, x.dtype)

    return abstract


def _set_pull_x(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: Any) -> Value:
    index = params["index"]
    return to_lower_level(slice_set(ct, broadcast_to(ct.dtype.type(0), selected_shape(shape, index)), index))


def _add_pull_x(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: Any) -> Value:
    return ct


def zero_like(x: Value) -> Value:
    """Return zeros of the shape and dtype of a value, without memory of their own."""
    return to_lower_level(broadcast_to(x.dtype.type(0), x.shape))


def joint_linear(name: str) -> Any:
    """Return the tangent rule of an op that is linear in x and its values together."""

    def push(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
        pairs = zip(ts[:2], xs[:2], strict=True)
        filled = [to_lower_level(broadcast_to(z.dtype.type(0), x.shape)) if t is None else t for t, x in pairs]
        return to_lower_level(bind(lookup(name), *filled, *xs[2:], **params))

    return push


def _update_batch(name: str) -> Any:
    def batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
        ys = [with_batch_axis(size, x, b) for x, b in zip(xs, batched, strict=True)]
        return bind(lookup(name), *ys, index=batched_index(size, params["index"]))

    return batch


def _update(name: str, role: str, run: Any, prepare: Any, pull_x: Any) -> Primitive:
    """Make an op that writes its second operand into a part of the first, or adds it there."""
    return register(
        Primitive(
            name=name,
            kind="custom",
            impl=run,
            abstract_eval=_update_abstract(name),
            batch=_update_batch(name),
            derivative=Derivative(
                vjps=(pull_x, lambda ct, z, xs, params, shape, dtype: to_lower_level(slice_(ct, params["index"]))),
                reads=(0, 0),
                jvp=joint_linear(name),
            ),
            masking=Masking(nonnegative_linear=True, selects=name == "slice_set"),
            lowering=Lowering(
                make_kernel=prepare, updates_first_operand=True, native=record_kernel(prepare), takes_empty=True
            ),
            algebra=Algebra(canonical=role),
        )
    )


slice_set_p: Primitive = _update("slice_set", "set_part", _set_run, _set_prepare, _set_pull_x)
slice_add_p: Primitive = _update("slice_add", "add_part", _add_run, _add_prepare, _add_pull_x)


# --- Gather and scatter: the linear primitives behind indices that are arrays
#
# `gather` reads elements at indices given by integer arrays, `scatter` adds elements up at such indices: each is the
# transpose of the other. A gather's derivative is a scatter by another name: its zeros stand for elements that were
# not read, and plans keep them 0 whatever they are multiplied with. Index arrays name consecutive axes of x, from
# ``axis`` on, and broadcast to one shape that takes the place of these axes; negative indices count from the end.
# They are operands, so that they may be traced.

INDICES = ~3  # the bit mask of a rule that reads every operand but the first


def gather(x: ArrayLike, *indices: ArrayLike, axis: int = 0) -> Array:
    """Return the elements of x at these indices along consecutive axes.

    >>> gather(afx.asarray([1.0, 2.0, 3.0]), afx.asarray([2, 0]))
    Array([3., 1.], dtype=float32)
    """
    z: Array = bind(gather_p, x, *indices, axis=axis)
    return z


def selection(x: ArrayLike, *indices: ArrayLike, axis: int = 0) -> Array:
    """Do as `gather`; elements of x that are not read are cut off from the derivative, as `where` cuts them off."""
    z: Array = bind(select_p, x, *indices, axis=axis)
    return z


def scatter(x: ArrayLike, *indices: ArrayLike, shape: Shape, axis: int = 0) -> Array:
    """Return zeros of a shape with the elements of x added at these indices: the transpose of `gather`.

    >>> scatter(afx.asarray([1.0, 2.0, 4.0]), afx.asarray([1, 0, 1]), shape=(3,))
    Array([2., 5., 0.], dtype=float32)
    """
    z: Array = bind(scatter_p, x, *indices, shape=shape, axis=axis)
    return z


# -- shape rules --
def gathered_shape(who: str, x: Aval, indices: tuple[Aval, ...], axis: int) -> Shape:
    """Return the shape of x at these indices, or raise."""
    got = ", ".join(map(str, indices))
    for i in indices:
        if i.dtype.kind not in "iu":
            raise DtypeError(f"{who}: an index array holds integers: got {got} for {x}; convert it with astype")
    if axis + len(indices) > x.ndim:
        raise IndexRangeError(f"{who}: too many indices for array: got {got} for {x}; an array has one for each axis")
    common = broadcast_shapes([i.shape for i in indices])
    if common is None:
        raise ShapeError(
            f"{who}: indexing arrays could not be broadcast together: got {got}; reshape one, or index twice"
        )
    return (*x.shape[:axis], *common, *x.shape[axis + len(indices) :])


def _scatter_abstract(x: Aval, *indices: Aval, shape: Shape, axis: int) -> Aval:
    want = gathered_shape("scatter", Aval(shape, x.dtype), indices, axis)
    if x.shape != want:
        raise ShapeError(f"scatter: the elements have another shape: got {x} for indices of shape {want}; reshape them")
    return Aval(shape, x.dtype)


# -- what they compute --
def native_place(indices: tuple[Any, ...], axis: int) -> tuple[Any, ...]:
    """Return NumPy's index of these index arrays."""
    return (*[slice(None)] * axis, *indices) if axis else indices


def range_error(who: str, x: Any, indices: tuple[Any, ...], axis: int, error: Exception) -> Exception:
    """Return the error that names the index outside its axis, NumPy's own where none is."""
    for k, i in enumerate(indices, axis):
        if k < x.ndim and np.asarray(i).dtype.kind in "iu":
            n = x.shape[k]
            wrong = np.asarray(i)[(np.asarray(i) < -n) | (np.asarray(i) >= n)]
            if wrong.size:
                return out_of_range(int(wrong.flat[0]), k, aval_of(x), who)
    return error


def _gather_run(x: Any, *indices: Any, axis: int) -> Any:
    try:
        if len(indices) == 1:
            return np.take(x, indices[0], axis=axis)
        return x[native_place(indices, axis)]
    except IndexError as error:
        raise range_error("getitem", x, indices, axis, error) from None


def _scatter_run(x: Any, *indices: Any, shape: Shape, axis: int) -> Any:
    z = np.zeros(shape, aval_of(x).dtype)
    combine_at(np.add, z, indices, axis, x)
    return z


def combine_at(ufunc: np.ufunc, z: Any, indices: tuple[Any, ...], axis: int, values: Any) -> None:
    """Add values into an array just allocated, or combine them otherwise with what is there; indices may repeat.

    ``ufunc.at`` is fast for one index of one axis only, so that other indices are turned into such a one.
    """
    try:
        if (z.ndim == 1 and len(indices) == 1) or np.size(values) < FEW:
            ufunc.at(z, native_place(indices, axis), values)
        else:
            ufunc.at(z.reshape(-1), _flat(z.shape, indices, axis), np.ravel(values))
    except IndexError as error:
        raise range_error("scatter", z, indices, axis, error) from None


def _scatter_native(xp: Arrays, out: Any, x: Any, *indices: Any, shape: Shape, axis: int) -> None:
    xp.clear(out)
    np.add.at(out, native_place(indices, axis), x)


FEW = 256  # elements, for which making a flat index costs more than it saves


def _flat(shape: Shape, indices: tuple[Any, ...], axis: int) -> Any:
    """Return the row-major positions of elements."""
    number: Any = 0
    for i, n in zip(np.broadcast_arrays(*indices), shape[axis:], strict=False):
        if i.size and (i.min() < -n or i.max() >= n):
            raise IndexError
        number = number * n + np.where(i < 0, i + n, i).astype(np.intp)
    count = math.prod(shape[axis : axis + len(indices)])
    inner = math.prod(shape[axis + len(indices) :])
    places = np.arange(math.prod(shape[:axis]))[:, None, None] * count + number.reshape(1, -1, 1)
    return (places * inner + np.arange(inner)).reshape(-1)


# -- derivatives and batches --
def _gather_pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: Any) -> Value:
    return to_lower_level(bind(scatter_unread_p, ct, *xs[1:], shape=shape, axis=params["axis"]))


def _scatter_pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: Any) -> Value:
    return to_lower_level(gather(ct, *xs[1:], axis=params["axis"]))


def _push(name: str) -> Any:
    def push(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
        return to_lower_level(bind(lookup(name), ts[0], *xs[1:], **params))

    return push


def aligned(size: int, indices: Values, batched: Bools) -> tuple[int, Values]:
    """Return batched indices as indices into a batched array, with the batch axis as its first; and their rank."""
    rank = max(rank_of(i) - b for i, b in zip(indices, batched, strict=True))
    ys = [
        reshape(i, (size, *(1,) * (rank + 1 - rank_of(i)), *i.shape[1:])) if b else i
        for i, b in zip(indices, batched, strict=True)
    ]
    return rank, (np.arange(size).reshape((size, *(1,) * rank)), *ys)


def move_axis(x: Value, source: int, count: int, target: int) -> Value:
    """Return x with ``count`` axes from ``source`` on moved so that they start at ``target``."""
    if source == target:
        return x
    axes = list(range(rank_of(x)))
    block = axes[source : source + count]
    rest = axes[:source] + axes[source + count :]
    return permute_dims(x, (*rest[:target], *block, *rest[target:]))


def _gather_batch(name: str) -> Any:
    def batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
        x, indices, axis = xs[0], xs[1:], params["axis"]
        p = lookup(name)
        is_first = not axis and len(indices) > 1  # what several give behind that axis NumPy lays out anew
        if not any(batched[1:]) and not is_first:
            return bind(p, x, *indices, axis=axis + 1)
        rank, places = aligned(size, indices, batched[1:])
        if not batched[0]:
            return move_axis(bind(p, x, *places[1:], axis=axis), axis, 1, 0)
        z = bind(p, move_axis(x, axis + 1, len(indices), 1), *places, axis=0)
        return move_axis(z, 1, rank, axis + 1)

    return batch


def _scatter_batch(name: str) -> Any:
    def batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
        return _batched_scatter(lookup(name), size, xs, batched, params)

    return batch


def _batched_scatter(p: Primitive, size: int, xs: Values, batched: Bools, params: Params) -> Value:
    x, indices, shape, axis = xs[0], xs[1:], params["shape"], params["axis"]
    if not batched[0]:
        x = broadcast_to(x, (size, *shape_of(x)))
    if not any(batched[1:]):
        return bind(p, x, *indices, shape=(size, *shape), axis=axis + 1)
    count = len(indices)
    rank, places = aligned(size, indices, batched[1:])
    front = (size, *shape[axis : axis + count], *shape[:axis], *shape[axis + count :])
    z = bind(p, move_axis(x, axis + 1, rank, 1), *places, shape=front, axis=0)
    return move_axis(z, 1, count, axis + 1)


def _gather_abstract(x: Aval, *indices: Aval, axis: int) -> Aval:
    return Aval(gathered_shape("getitem", x, indices, axis), x.dtype)


def _gathering(name: str) -> Primitive:
    return register(
        Primitive(
            name=name,
            kind="linear",
            impl=_gather_run,
            abstract_eval=_gather_abstract,
            batch=_gather_batch(name),
            derivative=Derivative(vjps=(_gather_pull,), reads=(INDICES,), jvp=_push(name)),
            masking=Masking(nonnegative_linear=True, selects=True),
            lowering=Lowering(native=record(_gather_run), takes_empty=True),
            algebra=Algebra(canonical="gather"),
        )
    )


gather_p: Primitive = _gathering("gather")
select_p: Primitive = _gathering("select")


def _scattering(name: str, role: str) -> Primitive:
    return register(
        Primitive(
            name=name,
            kind="linear",
            impl=_scatter_run,
            abstract_eval=_scatter_abstract,
            batch=_scatter_batch(name),
            derivative=Derivative(vjps=(_scatter_pull,), reads=(INDICES,), jvp=_push(name)),
            masking=Masking(nonnegative_linear=True),
            lowering=Lowering(native=_scatter_native, takes_empty=True, parts=in_each_part(name)),
            algebra=Algebra(canonical=role),
        )
    )


scatter_p: Primitive = _scattering("scatter", "")
scatter_unread_p: Primitive = _scattering("scatter_unread", "scatter")
