"""Slices: the linear primitives behind ``x[1:3, ..., None]`` and its updates.

`slice` takes a part of an array as a view, `embed` puts a part into zeros: each is the transpose of the other.
Their index is in the canonical form of `afx.ops.indexing.index`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of
from afx.core.primitive import (
    Algebra,
    Derivative,
    Lowering,
    Masking,
    Params,
    Primitive,
    Value,
    lookup,
    record_kernel,
    register,
)
from afx.core.tracing.tracer import bind, to_lower_level
from afx.errors import IndexRangeError, ShapeError
from afx.ops._kinds.batching import with_batch_axis
from afx.ops._kinds.linear import linear
from afx.ops.indexing.index import Basic, Entry, fits, native, selected_shape
from afx.ops.manipulation.shape import broadcast_to

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder

__all__ = ["embed", "slice_", "slice_add", "slice_set"]


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


def _slice_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
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


def _embed_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
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


def _set_pull_x(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: Any) -> Value:
    index = params["index"]
    return to_lower_level(slice_set(ct, broadcast_to(ct.dtype.type(0), selected_shape(shape, index)), index))


def _add_pull_x(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: Any) -> Value:
    return ct


def _pull_values(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: Any) -> Value:
    return to_lower_level(slice_(ct, params["index"]))


def zero_like(x: Value) -> Value:
    """Return zeros of the shape and dtype of a value, without memory of their own."""
    return to_lower_level(broadcast_to(x.dtype.type(0), x.shape))


def joint_linear(name: str) -> Any:
    """Return the tangent rule of an op that is linear in x and its values together."""

    def push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
        pairs = zip(ts[:2], xs[:2], strict=True)
        filled = [to_lower_level(broadcast_to(z.dtype.type(0), x.shape)) if t is None else t for t, x in pairs]
        return to_lower_level(bind(lookup(name), *filled, *xs[2:], **params))

    return push


def _update_batch(name: str) -> Any:
    def batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
        ys = [with_batch_axis(size, x, b) for x, b in zip(xs, batched, strict=True)]
        return bind(lookup(name), *ys, index=batched_index(size, params["index"]))

    return batch


def _update(name: str, role: str, run: Any, prepare: Any, pull_x: Any) -> Primitive:
    return register(
        Primitive(
            name=name,
            kind="custom",
            impl=run,
            abstract_eval=_update_abstract(name),
            batch=_update_batch(name),
            derivative=Derivative(vjps=(pull_x, _pull_values), reads=(0, 0), jvp=joint_linear(name)),
            masking=Masking(nonnegative_linear=True, selects=name == "slice_set"),
            lowering=Lowering(
                make_kernel=prepare, updates_first_operand=True, native=record_kernel(prepare), takes_empty=True
            ),
            algebra=Algebra(canonical=role),
        )
    )


slice_set_p: Primitive = _update("slice_set", "set_part", _set_run, _set_prepare, _set_pull_x)
slice_add_p: Primitive = _update("slice_add", "add_part", _add_run, _add_prepare, _add_pull_x)
