"""Shapes: the same elements in another arrangement."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of, broadcast_avals, broadcast_shapes, normalize_axis, shape_of
from afx.core.devices import check_device
from afx.core.dtypes import DType, check_dtype, is_inexact
from afx.core.primitive import Params, Value, lookup
from afx.core.registry import FUNCTIONS, register_function
from afx.core.tracing.tracer import bind, bind_single
from afx.errors import ShapeError
from afx.ops._kinds.elementwise import linear, nondifferentiable
from afx.ops.indexing.index import ints

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = [
    "astype",
    "broadcast_arrays",
    "broadcast_to",
    "expand_dims",
    "permute_dims",
    "ravel",
    "reshape",
    "squeeze",
    "to_device",
    "transpose",
]


def _same_batch(name: str) -> Any:
    """Return the batching rule of an op that acts on each element alone, whatever the axes."""

    def batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
        return bind(lookup(name), *xs, **params)

    return batch


@register_function
def astype(x: ArrayLike, dtype: DTypeLike, *, copy: bool = True, device: str | None = None) -> Array:
    """Return x in another dtype.

    The derivative passes between floating and complex dtypes, and is 0 from and to integers and booleans. Complex numbers
    give their real parts to real dtypes; a boolean is whether a number is not zero.

    Args:
        x: any shape.
        dtype: the new dtype.
        copy: has no effect, since arrays are immutable.
        device: ``"cpu"``, the only one.

    Raises:
        DtypeError: not a dtype that afx holds.

    >>> astype(2.7, "int32")
    Array(2, dtype=int32)
    """
    check_device(device, "astype")
    target = check_dtype(dtype, "astype")
    aval = aval_of(x, "astype")
    if isinstance(x, Array) and aval.dtype == target and not aval.weak:
        return x
    p = cast_p if is_inexact(target) and is_inexact(aval.dtype) else convert_p
    z: Array = bind(p, x, dtype=target)
    return z


def _cast_run(x: Any, *, dtype: DType) -> Any:
    with np.errstate(over="ignore"):
        if dtype.kind not in "bc" and np.asarray(x).dtype.kind == "c":
            x = np.real(x)
        return np.asarray(x).astype(dtype)


def _cast_into(out: Any, x: Any, *, dtype: DType) -> None:
    if x.dtype.kind == "c" and dtype.kind in "iuf":
        x = x.real
    if dtype.itemsize >= x.dtype.itemsize:
        np.copyto(out, x, casting="unsafe")
    else:
        with np.errstate(over="ignore"):
            np.copyto(out, x, casting="unsafe")


def _cast_abstract(x: Aval, *, dtype: DType) -> Aval:
    return Aval(x.shape, dtype)


def _cast_transpose(ct: Array, x: Aval, *, dtype: DType) -> Array:
    return (ct.real if ct.dtype.kind == "c" and x.dtype.kind != "c" else ct).astype(x.dtype)


cast_p = linear(
    "cast",
    _cast_run,
    _cast_abstract,
    _cast_transpose,
    batch=_same_batch("cast"),
    nonnegative_linear=True,
    canonical="cast",
    impl_into=_cast_into,
)
convert_p = nondifferentiable(
    "convert", _cast_run, _cast_abstract, batch=_same_batch("convert"), canonical="cast", impl_into=_cast_into
)


def _fit_run(x: Any, *, dtype: DType) -> Any:
    info, y = np.iinfo(dtype), np.asarray(x)
    if y.size and not (info.min <= y.min() and y.max() <= info.max):
        raise OverflowError(f"{y.min() if y.min() < info.min else y.max()} is out of bounds for {dtype}")
    return y.astype(dtype)


# what traced Python integers become beside arrays of integers, which refuse those that they do not hold
fit_p = nondifferentiable("fit", _fit_run, _cast_abstract, batch=_same_batch("fit"), canonical="fit")


@register_function
def reshape(x: ArrayLike, shape: int | Sequence[int], *, copy: bool | None = None) -> Array:
    """Return the elements of x, in row-major order, in another shape.

    Args:
        x: any shape.
        shape: the new lengths; one of them may be -1, which stands for what is left.
        copy: has no effect, since arrays are immutable.

    Raises:
        ShapeError: the number of elements differs.

    >>> reshape(FUNCTIONS.asarray([1.0, 2.0]), (2, 1))
    Array([[1.],
           [2.]], dtype=float32)
    """
    have = shape_of(x, "reshape")
    wanted = _resolved(x, have, ints(shape, "reshape", "the shape"))
    return x if wanted == have and isinstance(x, Array) else bind_single(reshape_p, x, shape=wanted)


def _resolved(x: Any, have: Shape, shape: Shape) -> Shape:
    """Return the shape with its -1 filled in, or raise."""
    size = math.prod(have)
    if -1 in shape:
        known = math.prod([n for n in shape if n != -1])
        if shape.count(-1) == 1 and known > 0 and size % known == 0:
            return tuple([size // known if n == -1 else n for n in shape])
    elif math.prod(shape) == size and all([n >= 0 for n in shape]):  # noqa: C419  # a list is quicker than a generator
        return shape
    raise ShapeError(f"reshape: {size} elements do not fit: got {aval_of(x)} and shape {shape}; change the shape")


def _strong(x: Any) -> Any:
    """Return a bare value as an array; a Python number takes its default dtype."""
    return x if x.__class__ is np.ndarray else np.asarray(x, aval_of(x).dtype)


def _reshape_run(x: Any, *, shape: Shape) -> Any:
    return _strong(x).reshape(shape)


def _reshape_into(out: Any, x: Any, *, shape: Shape) -> None:
    np.copyto(out.reshape(x.shape), x)  # what it is given is in one piece


def _reshape_text(x: str, *, shape: Shape) -> str:
    return f"{x}.reshape({shape if len(shape) != 1 else shape[0]})"


def _reshape_abstract(x: Aval, *, shape: Shape) -> Aval:
    return Aval(_resolved(x, x.shape, shape), x.dtype)


def _reshape_transpose(ct: Array, x: Aval, *, shape: Shape) -> Array:
    return ct.reshape(x.shape)


def _reshape_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    return reshape(xs[0], (size, *params["shape"]))


reshape_p = linear(
    "reshape",
    _reshape_run,
    _reshape_abstract,
    _reshape_transpose,
    batch=_reshape_batch,
    nonnegative_linear=True,
    may_alias=True,
    emit_view=_reshape_text,
    impl_into=_reshape_into,
    canonical="reshape",
)


@register_function
def broadcast_to(x: ArrayLike, shape: Sequence[int]) -> Array:
    """Return x repeated along new axes in front and along its axes of length 1, without copying.

    Raises:
        ShapeError: x does not broadcast to the shape.

    >>> broadcast_to(1.0, (2,))
    Array([1., 1.], dtype=float32)
    """
    z: Array = bind(broadcast_to_p, x, shape=ints(shape, "broadcast_to", "the shape"))
    return z


def _broadcast_run(x: Any, *, shape: Shape) -> Any:
    x = np.asarray(x, aval_of(x).dtype)
    if not x.shape:  # np.broadcast_to takes microseconds, and most scalars come this way
        return np.ndarray(shape, x.dtype, x, strides=(0,) * len(shape))
    return np.broadcast_to(x, shape)


def _broadcast_abstract(x: Aval, *, shape: Shape) -> Aval:
    if broadcast_shapes([x.shape, shape]) != shape:
        raise ShapeError(f"broadcast_to: the shape does not fit: got {x} and shape {shape}; reshape it first")
    return Aval(shape, x.dtype)


def _broadcast_transpose(ct: Array, x: Aval, *, shape: Shape) -> Array:
    lead = len(shape) - x.ndim
    axes = (*range(lead), *[a for a, n in enumerate(x.shape, lead) if n == 1 and shape[a] != 1])
    return reshape(FUNCTIONS.sum(ct, axis=axes) if axes else ct, x.shape)


def _broadcast_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    x, shape = xs[0], params["shape"]
    return broadcast_to(reshape(x, (size,) + (1,) * (len(shape) - x.ndim + 1) + x.shape[1:]), (size, *shape))


broadcast_to_p = linear(
    "broadcast_to",
    _broadcast_run,
    _broadcast_abstract,
    _broadcast_transpose,
    batch=_broadcast_batch,
    nonnegative_linear=True,
    may_alias=True,
    canonical="broadcast",
)


@register_function
def expand_dims(x: ArrayLike, axis: int | Sequence[int] = 0) -> Array:
    """Return x with new axes of length 1 at these places of the result.

    Raises:
        ShapeError: an axis is out of range or named twice.

    >>> expand_dims(1.0, 0).shape
    (1,)
    """
    aval = aval_of(x, "expand_dims")
    given = ints(axis, "expand_dims", "axis")
    ndim = aval.ndim + len(given)
    places = {normalize_axis(a, ndim, "expand_dims") for a in given}
    if len(places) != len(given):
        raise ShapeError(f"expand_dims: an axis is named twice: got axis={axis}; name each once")
    lengths = iter(aval.shape)
    return reshape(x, tuple([1 if a in places else next(lengths) for a in range(ndim)]))


@register_function
def squeeze(x: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Return x without these axes of length 1, without all of them where none is named.

    Raises:
        ShapeError: a named axis is longer than 1 or out of range.

    >>> squeeze(broadcast_to(1.0, (1, 1))).shape
    ()
    """
    aval = aval_of(x, "squeeze")
    if axis is None:
        return reshape(x, tuple([n for n in aval.shape if n != 1]))
    places = {normalize_axis(a, aval.ndim, "squeeze") for a in ints(axis, "squeeze", "axis")}
    if any(aval.shape[a] != 1 for a in places):
        raise ShapeError(f"squeeze: only axes of length 1 can go: got {aval} and axis={axis}; reshape or index instead")
    return reshape(x, tuple([n for a, n in enumerate(aval.shape) if a not in places]))


@register_function
def permute_dims(x: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Return x with its axes in another order, reversed where none is given.

    Args:
        x: any shape.
        axes: axis ``axes[k]`` of x becomes axis k of the result.

    Raises:
        ShapeError: not each axis is named once.

    >>> permute_dims(broadcast_to(1.0, (2, 3)), (1, 0)).shape
    (3, 2)
    """
    aval = aval_of(x, "permute_dims")
    order = tuple(range(aval.ndim))[::-1] if axes is None else ints(axes, "permute_dims", "axes")
    places = tuple([normalize_axis(a, aval.ndim, "permute_dims") for a in order])
    if sorted(places) != list(range(aval.ndim)):
        raise ShapeError(f"permute_dims: each axis is to be named once: got {aval} and axes={axes}; list every axis")
    z: Array = bind(permute_dims_p, x, axes=places)
    return z


def _permute_run(x: Any, *, axes: Shape) -> Any:
    return _strong(x).transpose(axes)


def _permute_text(x: str, *, axes: Shape) -> str:
    return f"{x}.T" if axes == (1, 0) else f"{x}.transpose({axes})"


def _permute_abstract(x: Aval, *, axes: Shape) -> Aval:
    return Aval(tuple([x.shape[a] for a in axes]), x.dtype)


def _permute_transpose(ct: Array, x: Aval, *, axes: Shape) -> Array:
    return ct.transpose(tuple([axes.index(a) for a in range(len(axes))]))


def _permute_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    return permute_dims(xs[0], (0, *[a + 1 for a in params["axes"]]))


permute_dims_p = linear(
    "permute_dims",
    _permute_run,
    _permute_abstract,
    _permute_transpose,
    batch=_permute_batch,
    nonnegative_linear=True,
    may_alias=True,
    emit_view=_permute_text,
    canonical="permute",
)


transpose = permute_dims


@register_function
def ravel(x: ArrayLike) -> Array:
    """Return the elements of x, in row-major order, as one axis.

    >>> ravel(afx.zeros((2, 3))).shape
    (6,)
    """
    return reshape(x, (-1,))


@register_function
def broadcast_arrays(*arrays: ArrayLike) -> list[Array]:
    """Return the arrays broadcast to their common shape.

    Raises:
        ShapeError: they do not broadcast.

    >>> [x.shape for x in broadcast_arrays(afx.zeros((2, 1)), afx.zeros(3))]
    [(2, 3), (2, 3)]
    """
    shape = broadcast_avals("broadcast_arrays", [aval_of(x, "broadcast_arrays") for x in arrays]) if arrays else ()
    return [broadcast_to(x, shape) for x in arrays]


@register_function
def to_device(x: ArrayLike, device: str, /, *, stream: object = None) -> Array:
    """Return x itself; the only device is ``"cpu"``.

    Raises:
        ArgumentError: another device.

    >>> to_device(afx.ones(1), "cpu")
    Array([1.], dtype=float32)
    """
    check_device(device, "to_device")
    return FUNCTIONS.asarray(x)
