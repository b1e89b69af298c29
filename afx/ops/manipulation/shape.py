"""Shapes: the same elements in another arrangement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from afx.core import Array, ArrayLike, DTypeLike, bind, bind_single, check_dtype, register_function
from afx.core.aval import Aval, Shape, aval_of, normalize_axis, shape_of
from afx.core.numpy_names import Order, check_device, check_memory_order
from afx.core.primitive import Bools, Params, Primitive, Value, Values
from afx.errors import ShapeError
from afx.ops._basic import broadcast_to_p, cast, numpy_of, reshape_p, resolved_shape
from afx.ops._kinds.linear import linear
from afx.ops.indexing.index import ints


@register_function
def astype(x: ArrayLike, dtype: DTypeLike, *, copy: bool = True, device: str | None = None) -> Array:
    """Return x in another dtype.

    The derivative passes between floating and complex dtypes, and is 0 from and to integers and booleans. Complex numbers
    give their real parts to real dtypes; a boolean is whether a number is not zero. Floats lose their fraction on the way to
    integers; what does not fit, nan and infinities too, is in every back end what NumPy gives on x86-64, of each number alone:
    the least int32 or int64; of int8, int16, uint8 and uint16 the low bits of an int32, of uint32 and uint64 those of an int64.

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
    return cast(x, target)


@register_function
def reshape(x: ArrayLike, shape: int | Sequence[int], order: Order = "C", *, copy: bool | None = None) -> Array:
    """Return the elements of x in another shape.

    Args:
        x: any shape.
        shape: the new lengths; one of them may be -1, which stands for what is left.
        order: ``"C"`` reads and writes elements by rows, ``"F"`` by columns; ``"A"`` is ``"C"``, as arrays are stored.
        copy: has no effect, since arrays are immutable.

    Raises:
        ShapeError: the number of elements differs.

    >>> reshape(afx.asarray([1.0, 2.0]), (2, 1))
    Array([[1.],
           [2.]], dtype=float32)
    """
    have = shape_of(x, "reshape")
    wanted = resolved_shape(x, have, ints(shape, "reshape", "the shape"))
    if order != "C":
        check_memory_order(order, "reshape", "CFA")
        if order == "F":
            return permute_dims(reshape(permute_dims(x), wanted[::-1]))
    return x if wanted == have and isinstance(x, Array) else bind_single(reshape_p, x, shape=wanted)


@register_function
def broadcast_to(x: ArrayLike, shape: Sequence[int], subok: bool = False) -> Array:
    """Return x repeated along new axes in front and along its axes of length 1, without copying.

    Raises:
        ShapeError: x does not broadcast to the shape.

    >>> broadcast_to(1.0, (2,))
    Array([1., 1.], dtype=float32)
    """
    z: Array = bind(broadcast_to_p, x, shape=ints(shape, "broadcast_to", "the shape"))
    return z


@register_function
def expand_dims(x: ArrayLike, axis: int | Sequence[int] = 0) -> Array:
    """Return x with new axes of length 1 at these positions of the result.

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
        raise ShapeError(f"expand_dims: repeated axis: got axis={axis}; name each once")
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
        raise ShapeError(
            f"squeeze: cannot select an axis to squeeze out which has size not equal to one: got {aval} and axis={axis}; reshape"
        )
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
        raise ShapeError(f"permute_dims: axes don't match array: got {aval} and axes={axes}; list every axis")
    z: Array = bind(permute_dims_p, x, axes=places)
    return z


def _permute_transpose(ct: Array, x: Aval, *, axes: Shape) -> Array:
    return ct.transpose(tuple(map(axes.index, range(len(axes)))))


def _permute_run(x: Any, *, axes: Shape) -> Any:
    return numpy_of(x).transpose(axes)


def _permute_text(x: str, *, axes: Shape) -> str:
    return f"{x}.T" if axes == (1, 0) else f"{x}.transpose({axes})"


def _permute_abstract(x: Aval, *, axes: Shape) -> Aval:
    return Aval(tuple([x.shape[a] for a in axes]), x.dtype)


def _permute_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    return permute_dims(xs[0], (0, *[a + 1 for a in params["axes"]]))


permute_dims_p: Primitive = linear(
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
def ravel(x: ArrayLike, order: Order = "C") -> Array:
    """Return the elements of x as one axis: by rows, or by columns in the order ``"F"``.

    >>> ravel(afx.zeros((2, 3))).shape
    (6,)
    """
    check_memory_order(order, "ravel")
    return reshape(x, (-1,), "F" if order == "F" else "C")
